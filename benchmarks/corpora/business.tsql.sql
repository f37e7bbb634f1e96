-- SQL Server, as Power BI and SSRS write it.
SELECT [region], COUNT(*) AS n, SUM([revenue]) AS revenue FROM [dbo].[customers] GROUP BY [region];
SELECT TOP 5 [city], SUM([revenue]) AS r FROM [dbo].[customers] GROUP BY [city] ORDER BY r DESC;
SELECT YEAR(signup) AS y, SUM(revenue) FROM dbo.customers GROUP BY YEAR(signup);
SELECT plan, AVG(revenue) FROM dbo.customers GROUP BY plan;
SELECT IIF(age < 30, 'young', 'old') AS grp, COUNT(*) FROM dbo.customers GROUP BY IIF(age < 30, 'young', 'old');
SELECT region, SUM(CASE WHEN churned = 1 THEN 1 ELSE 0 END) AS churned FROM dbo.customers GROUP BY region;
SELECT region, SUM(revenue) * 100.0 / SUM(SUM(revenue)) OVER () AS pct FROM dbo.customers GROUP BY region;
SELECT COUNT(*) FROM dbo.customers WHERE signup >= DATEADD(day, -30, GETDATE());
SELECT COUNT(*) FROM dbo.customers WHERE revenue > 1000 AND age >= 40;
SELECT FORMAT(signup, 'yyyy-MM') AS month, COUNT(*) FROM dbo.customers GROUP BY FORMAT(signup, 'yyyy-MM');
SELECT segment, MAX(revenue), MIN(revenue) FROM dbo.customers GROUP BY segment;
WITH s AS (SELECT segment, SUM(revenue) AS r FROM dbo.customers GROUP BY segment) SELECT TOP (3) * FROM s ORDER BY r DESC;
SELECT COUNT(DISTINCT customer_id) FROM dbo.customers WHERE age BETWEEN 20 AND 40;
SELECT segment, SUM(orders) FROM dbo.customers WHERE orders > 0 GROUP BY segment;
SELECT SUM(revenue) FROM dbo.customers WHERE age < 30;
