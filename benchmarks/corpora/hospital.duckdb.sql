-- A hospital's monthly dashboard, tile by tile. Table admissions: one row a patient.
-- Overview
SELECT COUNT(*) AS patients, SUM(charges) AS charges, ROUND(AVG(charges), 2) AS avg_charges FROM admissions;
SELECT ward, COUNT(*) AS patients, ROUND(AVG(charges), 2) AS avg_charges FROM admissions GROUP BY ward ORDER BY patients DESC;
SELECT ward, COUNT(*) AS n, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS pct FROM admissions GROUP BY ward ORDER BY pct DESC;
SELECT ward, SUM(charges) AS charges, ROUND(100.0 * SUM(charges) / SUM(SUM(charges)) OVER (), 1) AS share FROM admissions GROUP BY ward ORDER BY charges DESC;
SELECT date_trunc('month', admitted) AS month, COUNT(*) AS admissions FROM admissions GROUP BY 1 ORDER BY 1;
SELECT date_trunc('month', admitted) AS month, SUM(charges) AS charges, SUM(SUM(charges)) OVER (ORDER BY date_trunc('month', admitted)) AS running FROM admissions GROUP BY 1 ORDER BY 1;
SELECT strftime(admitted, '%Y-%m') AS month, ward, COUNT(*) AS n FROM admissions GROUP BY 1, 2 ORDER BY 1, 2;
SELECT ward, insurance, AVG(charges) FROM admissions GROUP BY ROLLUP (ward, insurance) ORDER BY 1, 2;
SELECT COUNT(*) AS last_90_days FROM admissions WHERE admitted >= DATE '2025-06-30' - INTERVAL 90 DAY;
SELECT ward, COUNT(*) FROM admissions WHERE admitted BETWEEN DATE '2025-01-01' AND DATE '2025-01-01' + INTERVAL 3 MONTH GROUP BY ward;
-- Ages and stays
SELECT CASE WHEN age < 18 THEN '0-17' WHEN age < 40 THEN '18-39' WHEN age < 65 THEN '40-64' ELSE '65+' END AS band, COUNT(*) AS n, AVG(charges) AS avg_charges FROM admissions GROUP BY band ORDER BY band;
SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) AS n, MEDIAN(charges) AS median_charges FROM admissions GROUP BY decade ORDER BY decade;
SELECT sex, AVG(date_diff('day', admitted, discharged)) AS avg_stay FROM admissions GROUP BY sex;
SELECT ward, quantile_cont(charges, 0.5) AS p50, quantile_cont(charges, 0.9) AS p90 FROM admissions GROUP BY ward;
SELECT ward, MIN(charges), MAX(charges), MAX(charges) - MIN(charges) AS spread FROM admissions GROUP BY ward;
SELECT ward, AVG(charges) AS mean, STDDEV_SAMP(charges) AS sd FROM admissions GROUP BY ward HAVING COUNT(*) >= 20;
SELECT CORR(age, charges) AS r, REGR_SLOPE(charges, age) AS slope FROM admissions;
SELECT ward, COUNT(*) FILTER (WHERE age >= 65) AS seniors, COUNT(*) AS everybody, COUNT(*) FILTER (WHERE age >= 65) * 100.0 / COUNT(*) AS pct FROM admissions GROUP BY ward;
-- Diagnoses (private)
SELECT diagnosis, COUNT(*) AS n FROM admissions GROUP BY diagnosis ORDER BY n DESC;
SELECT diagnosis, COUNT(*) AS n FROM admissions GROUP BY diagnosis ORDER BY n DESC LIMIT 5;
SELECT ward, SUM(CASE WHEN diagnosis = 'sepsis' THEN 1 ELSE 0 END) AS sepsis, COUNT(*) AS n FROM admissions GROUP BY ward;
SELECT ward, ROUND(100.0 * SUM(CASE WHEN diagnosis = 'sepsis' THEN 1 ELSE 0 END) / COUNT(*), 1) AS sepsis_rate FROM admissions GROUP BY ward HAVING COUNT(*) > 10;
SELECT COUNT(*) FROM admissions WHERE diagnosis IN ('stroke', 'heart failure') AND age >= 65;
SELECT insurance, COUNT(*) FROM admissions WHERE diagnosis = 'diabetes' GROUP BY insurance;
SELECT ward, COUNT(DISTINCT diagnosis) AS kinds FROM admissions GROUP BY ward;
SELECT sex, COUNT(*) FILTER (WHERE severity >= 3) AS severe FROM admissions GROUP BY sex;
SELECT severity, COUNT(*) AS n FROM admissions GROUP BY severity ORDER BY severity;
SELECT CASE WHEN severity <= 1 THEN 'mild' WHEN severity <= 3 THEN 'moderate' ELSE 'severe' END AS level, COUNT(*) AS n FROM admissions GROUP BY 1;
SELECT FLOOR(charges / 10000) * 10000 AS bucket, COUNT(*) AS n FROM admissions GROUP BY bucket ORDER BY bucket;
SELECT CASE WHEN charges < 5000 THEN 'low' WHEN charges < 20000 THEN 'middle' ELSE 'high' END AS cost, COUNT(*) AS patients FROM admissions GROUP BY cost;
-- Comparisons
SELECT AVG(charges) FILTER (WHERE sex = 'F') - AVG(charges) FILTER (WHERE sex = 'M') AS gap FROM admissions;
SELECT ward, AVG(charges) AS avg_charges, AVG(charges) - (SELECT AVG(charges) FROM admissions) AS vs_all FROM admissions GROUP BY ward;
SELECT COUNT(*) * 100.0 / (SELECT COUNT(*) FROM admissions) AS emergency_pct FROM admissions WHERE admission_type = 'emergency';
SELECT ward, SUM(charges) AS total, RANK() OVER (ORDER BY SUM(charges) DESC) AS place FROM admissions GROUP BY ward;
WITH by_ward AS (SELECT ward, COUNT(*) AS n, SUM(charges) AS total FROM admissions GROUP BY ward) SELECT ward, n, total, total / n AS per_patient FROM by_ward WHERE n >= 10 ORDER BY per_patient DESC;
WITH by_month AS (SELECT date_trunc('month', admitted) AS month, COUNT(*) AS n FROM admissions GROUP BY 1) SELECT month, n, n - LAG(n) OVER (ORDER BY month) AS change FROM by_month ORDER BY month;
WITH by_ward AS (SELECT ward, AVG(charges) AS a FROM admissions GROUP BY ward) SELECT MAX(a) - MIN(a) AS range, AVG(a) AS mean_of_means FROM by_ward;
SELECT 'F' AS who, AVG(charges) AS avg_charges FROM admissions WHERE sex = 'F' UNION ALL SELECT 'M', AVG(charges) FROM admissions WHERE sex = 'M';
SELECT ward, AVG(charges) AS a FROM admissions GROUP BY ward QUALIFY ROW_NUMBER() OVER (ORDER BY AVG(charges) DESC) <= 3;
SELECT a.ward, a.total AS this_year, b.total AS last_year FROM (SELECT ward, SUM(charges) AS total FROM admissions WHERE year(admitted) = 2025 GROUP BY ward) a LEFT JOIN (SELECT ward, SUM(charges) AS total FROM admissions WHERE year(admitted) = 2024 GROUP BY ward) b ON a.ward = b.ward ORDER BY a.ward;
SELECT regexp_extract(zip, '^(\d{2})', 1) AS area, COUNT(*) AS n, AVG(charges) AS a FROM admissions GROUP BY area;
SELECT COUNT(*) FROM admissions WHERE regexp_matches(zip, '^10') AND ward = 'surgery';
SELECT dayname(admitted) AS day, COUNT(*) FROM admissions GROUP BY 1;
SELECT ward, COUNT(*) FROM admissions WHERE admitted >= CURRENT_DATE - INTERVAL 30 DAY GROUP BY ward;
SELECT DISTINCT ward, insurance FROM admissions ORDER BY 1, 2;
