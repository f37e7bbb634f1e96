-- MySQL.
SELECT ward, COUNT(*) AS n, SUM(charges) AS total FROM `admissions` GROUP BY ward;
SELECT DATE_FORMAT(admitted, '%Y-%m') AS month, COUNT(*) FROM admissions GROUP BY month;
SELECT YEAR(admitted) AS y, SUM(charges) FROM admissions GROUP BY y;
SELECT ward, SUM(diagnosis = 'sepsis') AS sepsis FROM admissions GROUP BY ward;
SELECT ward, AVG(charges) FROM admissions GROUP BY ward;
SELECT ward, SUM(charges) AS t FROM admissions GROUP BY ward ORDER BY t DESC LIMIT 3;
SELECT COUNT(*) FROM admissions WHERE admitted >= CURDATE() - INTERVAL 30 DAY;
SELECT COUNT(*) FROM admissions WHERE age >= 65 AND charges > 20000;
SELECT IF(age >= 65, 'senior', 'other') AS grp, COUNT(*) FROM admissions GROUP BY grp;
SELECT severity, COUNT(*) FROM admissions GROUP BY severity;
SELECT ward, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () FROM admissions GROUP BY ward;
SELECT insurance, SUM(charges) FROM admissions WHERE age < 40 GROUP BY insurance WITH ROLLUP;
SELECT SUM(charges) FROM admissions WHERE severity >= 3;
SELECT MAX(charges), MIN(charges) FROM admissions WHERE age BETWEEN 20 AND 30;
SELECT COUNT(DISTINCT patient_id) FROM admissions WHERE severity = 4;
