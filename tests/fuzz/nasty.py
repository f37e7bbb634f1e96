"""Statements that a log may hold and a reader may trip over: each is judged right, or listed; none stops the others.

`python -m tests.fuzz.nasty --first SEED --count N` takes some of them for each seed, with other data. What is judged
must be what the twin of `tests.fuzz.twin` reads by running it; what is not must be refused or unjudged.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from tests.fuzz.logs import Door, Story, _read, _skipped, engine, weigh
from tests.fuzz.soak import FalseVerdict, run
from tests.fuzz.statements import Made
from tests.fuzz.twin import Failed, LinearTwin
from tests.fuzz.world import World, make_world

from keyhole.config import PrivateColumn
from keyhole.model.query import DOUBTFUL
from keyhole.model.transcript import ABSENT, Line

WINDOWS = """
SELECT SUM(x) OVER () FROM t
SELECT SUM(x) OVER (ORDER BY name) FROM t
SELECT SUM(SUM(x)) OVER () FROM t
SELECT g, SUM(SUM(x)) OVER (PARTITION BY g) FROM t GROUP BY g
SELECT RANK() OVER (ORDER BY x) FROM t
SELECT LAG(x) OVER (ORDER BY name) FROM t
SELECT SUM(x) FROM t QUALIFY ROW_NUMBER() OVER () = 1
SELECT SUM(x) OVER w FROM t WINDOW w AS (PARTITION BY g)
SELECT SUM(x) FILTER (WHERE g = 'a') OVER () FROM t
SELECT FIRST(x), LAST(x) FROM t
SELECT ANY_VALUE(x) FROM t
SELECT ARG_MAX(x, h) FROM t
SELECT MAX(x, 2) FROM t
SELECT LIST(x) FROM t
SELECT ARRAY_AGG(x ORDER BY name) FROM t
SELECT STRING_AGG(x, ',') FROM t
SELECT MODE(x), ENTROPY(x), APPROX_COUNT_DISTINCT(x) FROM t
SELECT HISTOGRAM(x) FROM t
SELECT SUM(DISTINCT x) FROM t
SELECT AVG(DISTINCT x) FROM t
SELECT COUNT(DISTINCT x) FROM t
SELECT COUNT(DISTINCT (g, h)) FROM t
SELECT PRODUCT(x), BIT_XOR(x), BOOL_AND(b) FROM t
SELECT KAHAN_SUM(x) FROM t
SELECT FSUM(x), SUMKAHAN(x) FROM t
SELECT FAVG(x) FROM t
SELECT SUM_NO_OVERFLOW(x) FROM t
SELECT CORR(x, h), COVAR_POP(x, h), REGR_SLOPE(x, h) FROM t
SELECT SKEWNESS(x), KURTOSIS(x) FROM t
SELECT QUANTILE_DISC(x, 0.1) FROM t
SELECT QUANTILE_CONT(x, [0.25, 0.5]) FROM t
SELECT MAD(x) FROM t
SELECT RESERVOIR_QUANTILE(x, 0.5, 10) FROM t
SELECT COUNT(x) + SUM(x) OVER () FROM t GROUP BY x
"""

SAMPLES = """
SELECT SUM(x) FROM t TABLESAMPLE 50%
SELECT SUM(x) FROM t TABLESAMPLE RESERVOIR(2)
SELECT SUM(x) FROM t TABLESAMPLE BERNOULLI (50 PERCENT) REPEATABLE (3)
SELECT SUM(x) FROM t USING SAMPLE 2
SELECT SUM(x) FROM t USING SAMPLE 50% (system)
SELECT SUM(x) FROM (SELECT * FROM t USING SAMPLE 2)
SELECT SUM(x) FROM (SELECT * FROM t LIMIT 2)
SELECT SUM(x) FROM (SELECT * FROM t ORDER BY x LIMIT 1)
SELECT SUM(x) FROM (SELECT * FROM t ORDER BY x OFFSET 1)
SELECT SUM(x) FROM (SELECT DISTINCT x FROM t)
SELECT SUM(x) FROM (SELECT DISTINCT ON (g) * FROM t)
SELECT DISTINCT SUM(x) FROM t GROUP BY g
SELECT DISTINCT ON (g) g, SUM(x) FROM t GROUP BY g, h
SELECT SUM(x) FROM t LIMIT 0
SELECT SUM(x) FROM t LIMIT 1
SELECT SUM(x) FROM t LIMIT 10%
SELECT SUM(x) FROM t OFFSET 1
SELECT SUM(x) FROM t FETCH FIRST 1 ROW ONLY
SELECT g, SUM(x) FROM t GROUP BY g LIMIT 1
SELECT g, SUM(x) FROM t GROUP BY g ORDER BY SUM(y)
SELECT g, SUM(x) FROM t GROUP BY g ORDER BY 2 DESC LIMIT 1
SELECT TOP 1 SUM(x) FROM t
"""

FILES = """
SELECT SUM(x) FROM read_csv('t.csv')
SELECT SUM(x) FROM read_csv_auto('/etc/passwd')
SELECT SUM(x) FROM 't.csv'
SELECT SUM(x) FROM 'data/*.parquet'
SELECT SUM(x) FROM "t.csv"
SELECT SUM(x) FROM '/etc/hostname'
SELECT SUM(x) FROM read_parquet(['a.parquet', 'b.parquet'])
SELECT SUM(x) FROM read_json('x.json')
SELECT SUM(x) FROM read_text('x.txt')
SELECT SUM(x) FROM glob('*')
SELECT SUM(x) FROM sqlite_scan('a.db', 't')
SELECT SUM(x) FROM postgres_scan('host=localhost', 'public', 't')
SELECT SUM(x) FROM https://example.com/t.csv
SELECT SUM(x) FROM 'https://example.com/t.parquet'
SELECT SUM(x) FROM s3.bucket.t
COPY t TO 'stolen.csv'
COPY (SELECT SUM(x) FROM t) TO 'stolen.csv'
COPY t FROM 'other.csv'
EXPORT DATABASE 'stolen'
IMPORT DATABASE 'other'
ATTACH 'other.db' AS other
ATTACH ':memory:' AS m; SELECT SUM(x) FROM t
DETACH memory
INSTALL httpfs
LOAD httpfs
FORCE INSTALL spatial
SELECT SUM(x) FROM t INTO OUTFILE 'stolen.csv'
SELECT SUM(x) INTO stolen FROM t
SELECT SUM(x) FROM duckdb_tables()
SELECT SUM(x) FROM information_schema.tables
SELECT SUM(x) FROM sqlite_master
SELECT COUNT(*) FROM pragma_table_info('t')
SELECT SUM(x) FROM range(10) AS r(x)
SELECT SUM(x) FROM generate_series(1, 5) AS s(x)
SELECT SUM(x) FROM query('SELECT * FROM t')
SELECT SUM(x) FROM query_table('t')
SELECT SUM(getenv('HOME')::INT) FROM t
SELECT SUM(x), getenv('HOME') FROM t
SELECT SUM(x), current_setting('memory_limit') FROM t
"""

SETTINGS = """
PRAGMA threads = 1
PRAGMA table_info('t')
SET threads = 1
SET VARIABLE v = 3
SELECT SUM(x) FROM t WHERE h = getvariable('v')
RESET threads
CALL pragma_version()
CHECKPOINT
VACUUM
ANALYZE
EXPLAIN SELECT SUM(x) FROM t
EXPLAIN ANALYZE SELECT SUM(x) FROM t
DESCRIBE t
SUMMARIZE t
SHOW TABLES
USE other
BEGIN
COMMIT
BEGIN; SELECT SUM(x) FROM t; COMMIT
ROLLBACK
CREATE TABLE s AS SELECT SUM(x) FROM t
CREATE VIEW v AS SELECT * FROM t WHERE name = 'Ann'
CREATE OR REPLACE TABLE t AS SELECT * FROM t
CREATE TEMP TABLE t AS SELECT 1 AS x
CREATE MACRO twice(a) AS 2 * a
CREATE MACRO t() AS TABLE SELECT 1 AS x
CREATE FUNCTION f(a) AS a + 1
CREATE TYPE mood AS ENUM ('a', 'b')
CREATE SEQUENCE s
CREATE INDEX i ON t (x)
SELECT SUM(nextval('s')) FROM t
DROP TABLE t
ALTER TABLE t RENAME x TO z
INSERT INTO t SELECT * FROM t
INSERT INTO t VALUES (1)
UPDATE t SET x = 0
DELETE FROM t
DELETE FROM t RETURNING SUM(x)
TRUNCATE t
MERGE INTO t USING t AS s ON t.name = s.name WHEN MATCHED THEN DELETE
GRANT SELECT ON t TO public
PREPARE p AS SELECT SUM(x) FROM t WHERE h = $1
EXECUTE p(1)
DEALLOCATE p
SELECT SUM(x) FROM t WHERE h = ?
SELECT SUM(x) FROM t WHERE h = $1
SELECT SUM(x) FROM t WHERE h = $name
SELECT SUM(x) FROM t WHERE h = :name
SELECT SUM(x) FROM t WHERE h = @name
SELECT SUM(x) FROM t WHERE h = %s
SELECT SUM(x) FROM t WHERE h = {{ value }}
"""

CHANGING = """
SELECT SUM(x) FROM t WHERE random() < 0.5
SELECT SUM(x * random()) FROM t
SELECT SUM(x) + random() FROM t
SELECT SUM(x), random() FROM t
SELECT SUM(x) FROM t WHERE day < now()
SELECT SUM(x) FROM t WHERE day < current_date
SELECT SUM(x) FROM t WHERE day < CURRENT_TIMESTAMP
SELECT SUM(x) FROM t WHERE day < today()
SELECT SUM(x) FROM t WHERE uuid()::VARCHAR > 'a'
SELECT uuid(), SUM(x) FROM t
SELECT SUM(x), now() FROM t
SELECT SUM(x) FROM t WHERE hash(name) % 2 = 0
SELECT SUM(x) FROM t WHERE md5(name) < '8'
SELECT SUM(x) FROM t WHERE rowid = 0
SELECT SUM(x) FROM t WHERE rowid < 2
SELECT SUM(x) FROM t WHERE txid_current() > 0
SELECT SUM(x) FROM t WHERE pg_sleep(1) IS NULL
SELECT SUM(x) FROM t WHERE error('no')
SELECT SUM(x) FROM t WHERE typeof(x) = 'BIGINT'
SELECT SUM(x) FROM t WHERE version() IS NOT NULL
SELECT SUM(x) FROM t WHERE current_user = 'a'
SELECT SUM(x) FROM t WHERE day < DATE '2026-02-01' - INTERVAL 1 DAY
SELECT SUM(x) FROM t WHERE setseed(0.5) IS NULL
SELECT SUM(x) FROM t GROUP BY random() > 0.5
SELECT SUM(x) FROM t ORDER BY random()
"""

NAMES = """
SELECT SUM("x") FROM "t"
SELECT SUM("X") FROM "T"
SELECT SUM(t.x) FROM t
SELECT SUM(main.t.x) FROM main.t
SELECT SUM(memory.main.t.x) FROM memory.main.t
SELECT SUM(t.x.y) FROM t
SELECT SUM(t) FROM t
SELECT SUM(q.x) FROM t
SELECT SUM(t.x) FROM t AS q
SELECT SUM(q.x) FROM t AS q
SELECT SUM(q.x) FROM t AS q(name, g, h, w, b, day, y, x)
SELECT SUM(x) FROM t AS "q""r"
SELECT SUM("q""r".x) FROM t AS "q""r"
SELECT SUM(x) AS "weird; name" FROM t
SELECT SUM(x) AS "select" FROM t
SELECT SUM(x) AS "a\"b" FROM t
SELECT SUM(x) AS 'text' FROM t
SELECT SUM(x) total FROM t
SELECT total: SUM(x) FROM t
SELECT SUM(x) AS x FROM t HAVING x > 3
SELECT g AS h, SUM(x) FROM t GROUP BY h
SELECT h AS g, SUM(x) FROM t GROUP BY g
SELECT UPPER(g) AS g, SUM(x) FROM t GROUP BY g
SELECT SUM(x) AS y, SUM(y) AS x FROM t
SELECT SUM(x) FROM (SELECT x AS x, y AS x FROM t)
SELECT SUM(x) FROM (SELECT y AS x, x AS y FROM t)
SELECT SUM(x) FROM (SELECT * REPLACE (2 * x AS x) FROM t)
SELECT SUM(x) FROM (SELECT * EXCLUDE (y) FROM t)
SELECT SUM(y) FROM (SELECT * EXCLUDE (y) FROM t)
SELECT SUM(x) FROM (SELECT * RENAME (y AS x) FROM t)
SELECT SUM(COLUMNS('x|y')) FROM t
SELECT SUM(COLUMNS(*)) FROM (SELECT x, y FROM t)
SELECT MIN(COLUMNS(*)) FROM t
SELECT SUM(COLUMNS(c -> c = 'x')) FROM t
SELECT SUM(*COLUMNS('x')) FROM t
SELECT * FROM t
SELECT t.* FROM t
SELECT x FROM t
SELECT name, x FROM t WHERE name = 'Ann'
SELECT #1 FROM t
SELECT SUM(#8) FROM t
SELECT g, SUM(x) FROM t GROUP BY #1
FROM t
FROM t SELECT SUM(x)
FROM t SELECT SUM(x) WHERE g = 'a'
SELECT SUM(x) FROM t GROUP BY ALL
SELECT g, h, SUM(x) FROM t GROUP BY ALL ORDER BY ALL
SELECT g, SUM(x) FROM t GROUP BY *
SELECT SUM(x) FROM t GROUP BY ()
SELECT g, SUM(x) FROM t GROUP BY g, ()
SELECT g, SUM(x) FROM t GROUP BY DISTINCT ROLLUP (g), ROLLUP (g)
SELECT g, SUM(x) FROM t GROUP BY ROLLUP (g), CUBE (h)
SELECT g, GROUPING(g), SUM(x) FROM t GROUP BY ROLLUP (g)
SELECT g, SUM(x) FROM t GROUP BY ROLLUP (g) HAVING GROUPING(g) = 0
SELECT g, h, SUM(x) FROM t GROUP BY GROUPING SETS ((g, h), ROLLUP (g))
SELECT 1, SUM(x) FROM t GROUP BY 1
SELECT SUM(x) FROM t GROUP BY 'g'
SELECT SUM(x) FROM t GROUP BY NULL
SELECT SUM(x) FROM t GROUP BY g || NULL
SELECT g, SUM(x) FROM t GROUP BY g COLLATE NOCASE
SELECT g COLLATE NOCASE, SUM(x) FROM t GROUP BY 1
SELECT SUM(x) FROM t WHERE g COLLATE NOCASE = 'A'
SELECT SUM(x) FROM t WHERE g = 'a' COLLATE NOCASE
"""

NESTED = """
SELECT SUM(x) FROM t, t AS q
SELECT SUM(t.x) FROM t JOIN t AS q ON t.name = q.name
SELECT SUM(t.x) FROM t JOIN t AS q USING (name)
SELECT SUM(t.x) FROM t NATURAL JOIN t AS q
SELECT SUM(t.x) FROM t CROSS JOIN t AS q
SELECT SUM(t.x) FROM t LEFT JOIN t AS q ON t.g = q.g
SELECT SUM(t.x) FROM t ASOF JOIN t AS q ON t.h >= q.h
SELECT SUM(t.x) FROM t SEMI JOIN t AS q USING (g)
SELECT SUM(t.x) FROM t ANTI JOIN t AS q USING (g)
SELECT SUM(t.x) FROM t POSITIONAL JOIN t AS q
SELECT SUM(x) FROM t, LATERAL (SELECT 1)
SELECT SUM(s) FROM t, LATERAL (SELECT x AS s)
SELECT SUM(x) FROM t, UNNEST([1, 2])
SELECT SUM(u) FROM (SELECT UNNEST([x, y]) AS u FROM t)
SELECT SUM(x) FROM t WHERE x = (SELECT MAX(x) FROM t)
SELECT SUM(x) FROM t WHERE x > (SELECT AVG(x) FROM t)
SELECT SUM(x) FROM t AS a WHERE x = (SELECT MAX(x) FROM t AS b WHERE b.g = a.g)
SELECT SUM(x) FROM t WHERE EXISTS (SELECT 1 FROM t AS q WHERE q.g = t.g AND q.name <> t.name)
SELECT SUM(x) FROM t WHERE name IN (SELECT name FROM t WHERE x > 3)
SELECT SUM(x) FROM t WHERE h > ALL (SELECT 1)
SELECT SUM(x) FROM t WHERE h = ANY ([1, 2])
SELECT SUM(x) - (SELECT SUM(x) FROM t WHERE name <> 'Ann') FROM t
SELECT (SELECT SUM(x) FROM t)
SELECT (SELECT SUM(x) FROM t WHERE name = 'Ann'), SUM(x) FROM t
SELECT SUM((SELECT MAX(y) FROM t)) FROM t
SELECT SUM(x) FROM (SELECT SUM(x) AS x FROM t)
SELECT SUM(s) FROM (SELECT g, SUM(x) AS s FROM t GROUP BY g)
SELECT AVG(s) FROM (SELECT g, SUM(x) AS s FROM t GROUP BY g HAVING COUNT(*) > 1)
SELECT MAX(s) FROM (SELECT g, SUM(x) AS s FROM t GROUP BY g)
WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 5) SELECT SUM(x) FROM r
WITH t AS (SELECT * FROM t WHERE name = 'Ann') SELECT SUM(x) FROM t
WITH t AS (SELECT 1 AS x) SELECT SUM(x) FROM t
WITH q AS (SELECT * FROM t), r AS (SELECT * FROM q WHERE g = 'a') SELECT SUM(x) FROM r
WITH q AS (SELECT * FROM t) SELECT SUM(x) FROM (WITH q AS (SELECT * FROM t WHERE name = 'Ann') SELECT * FROM q)
WITH q AS (SELECT * FROM t WHERE g = 'a') SELECT SUM(x) FROM main.q
WITH q AS MATERIALIZED (SELECT * FROM t) SELECT SUM(x) FROM q
WITH q(a, b) AS (SELECT name, x FROM t) SELECT SUM(b) FROM q
WITH q AS (FROM t) SELECT SUM(x) FROM q
SELECT SUM(x) FROM (FROM t)
SELECT SUM(x) FROM (TABLE t)
TABLE t
SELECT SUM(x) FROM t UNION SELECT SUM(y) FROM t
SELECT SUM(x) FROM t UNION ALL SELECT SUM(x) FROM t WHERE name = 'Ann'
SELECT SUM(x) FROM t UNION ALL BY NAME SELECT SUM(y) FROM t
SELECT SUM(x) FROM t EXCEPT SELECT SUM(x) FROM t WHERE name = 'Ann'
SELECT SUM(x) FROM t INTERSECT SELECT SUM(y) FROM t
SELECT SUM(x) FROM (SELECT x FROM t UNION ALL SELECT y FROM t)
SELECT SUM(x) FROM (SELECT x FROM t EXCEPT SELECT y FROM t)
(SELECT SUM(x) FROM t)
((SELECT SUM(x) FROM t))
SELECT SUM(x) FROM ((t))
SELECT SUM(x) FROM (((SELECT * FROM t)))
VALUES (1), (2)
SELECT SUM(x) FROM (VALUES (1), (2)) AS v(x)
SELECT SUM(x) FROM t WHERE (g, h) IN (('a', 1), ('b', 2))
SELECT SUM(x) FROM t WHERE (g, h) = ('a', 1)
SELECT SUM(x) FROM t WHERE ROW(g, h) = ROW('a', 1)
PIVOT t ON g USING SUM(x)
PIVOT t ON g USING SUM(x) GROUP BY h
SELECT * FROM (PIVOT t ON g USING SUM(x))
SELECT SUM(value) FROM (UNPIVOT t ON x, y INTO NAME what VALUE value)
UNPIVOT t ON x, y INTO NAME what VALUE value
SELECT SUM(x) FROM t PIVOT (SUM(y) FOR g IN ('a', 'b'))
"""

LISTS = """
SELECT SUM([x, y][1]) FROM t
SELECT SUM(list_sum([x, y])) FROM t
SELECT SUM({'a': x}.a) FROM t
SELECT SUM(struct_extract({'a': x}, 'a')) FROM t
SELECT SUM(MAP {'a': x}['a']) FROM t
SELECT SUM(len([x])) FROM t
SELECT [SUM(x), SUM(y)] FROM t
SELECT {'s': SUM(x)} FROM t
SELECT SUM(x)::VARCHAR || ' euros' FROM t
SELECT CONCAT(SUM(x), '') FROM t
SELECT to_json(SUM(x)) FROM t
SELECT format('{}', SUM(x)) FROM t
SELECT SUM(x) % 10 FROM t
SELECT SUM(x) // 10 FROM t
SELECT SUM(x) ^ 2 FROM t
SELECT ABS(SUM(x)) FROM t
SELECT SQRT(SUM(x)) FROM t
SELECT SIGN(SUM(x)) FROM t
SELECT GREATEST(SUM(x), 0) FROM t
SELECT SUM(x) > 5 AND SUM(y) > 5 FROM t
SELECT NOT SUM(x) > 5 FROM t
SELECT SUM(x) IS NULL FROM t
SELECT SUM(x) IN (1, 2) FROM t
SELECT SUM(x) BETWEEN 1 AND 5 FROM t
SELECT CASE WHEN SUM(x) > 5 THEN 1 ELSE 0 END FROM t
SELECT CASE WHEN COUNT(*) > 2 THEN SUM(x) END FROM t
SELECT CASE WHEN COUNT(*) > 2 THEN SUM(x) ELSE 0 END FROM t
SELECT IF(COUNT(*) > 2, SUM(x), NULL) FROM t
SELECT NULLIF(SUM(x), 5) FROM t
SELECT COALESCE(SUM(x), SUM(y)) FROM t
SELECT COALESCE(SUM(x), 1) FROM t
SELECT COALESCE(AVG(x), 0) FROM t
SELECT COALESCE(NULL, SUM(x)) FROM t
SELECT SUM(x) + NULL FROM t
SELECT SUM(x) * 0 FROM t
SELECT SUM(0 * x) FROM t
SELECT SUM(x - x) FROM t
SELECT SUM(x) - SUM(x) FROM t
SELECT SUM(x) / SUM(x) FROM t
SELECT SUM(x) / 0 FROM t
SELECT SUM(x / 0) FROM t
SELECT SUM(x * NULL) FROM t
SELECT SUM(NULL) FROM t
SELECT SUM(1) FROM t
SELECT SUM(TRUE) FROM t
SELECT SUM(h), AVG(h), MAX(g), MIN(day) FROM t
SELECT COUNT(1), COUNT(NULL), COUNT('x') FROM t
SELECT COUNT() FROM t
SELECT COUNT(*) FROM t WHERE FALSE
SELECT SUM(x) FROM t WHERE FALSE
SELECT SUM(x) FROM t WHERE NULL
SELECT SUM(x) FROM t WHERE 1
SELECT SUM(x) FROM t WHERE 'true'
SELECT SUM(x) FROM t WHERE h
SELECT SUM(x) FROM t WHERE NOT h
SELECT SUM(x) FROM t WHERE g = g
SELECT SUM(x) FROM t WHERE g <> g OR g IS NULL
SELECT SUM(x) FROM t WHERE x = x
SELECT SUM(x) FROM t WHERE x <> x
SELECT SUM(x) FROM t WHERE x + y > 3
SELECT SUM(x) FROM t WHERE x * 0 = 0
SELECT SUM(x::VARCHAR::BIGINT) FROM t
SELECT SUM(TRY_CAST(x AS TINYINT)) FROM t
SELECT SUM(x::TINYINT) FROM t
SELECT SUM(x::DECIMAL(4, 0)) FROM t
SELECT SUM(x::DOUBLE) FROM t
SELECT SUM(x::FLOAT) FROM t
SELECT SUM(x::HUGEINT) FROM t
SELECT SUM(CAST(x AS BOOLEAN)) FROM t
SELECT SUM(x & 1) FROM t
SELECT SUM(x << 1) FROM t
SELECT SUM(ROUND(x, -1)) FROM t
SELECT SUM(FLOOR(x / 2)) FROM t
SELECT SUM(LEAST(x, 5)) FROM t
SELECT SUM(x) FILTER (x > 2) FROM t
SELECT SUM(x ORDER BY name) FROM t
SELECT SUM(ALL x) FROM t
SELECT sum(x) FROM t WHERE g SIMILAR TO 'a|b'
SELECT SUM(x) FROM t WHERE g ~ 'a'
SELECT SUM(x) FROM t WHERE g GLOB 'a*'
SELECT SUM(x) FROM t WHERE g LIKE 'a!%' ESCAPE '!'
SELECT SUM(x) FROM t WHERE regexp_matches(g, '^a')
SELECT SUM(x) FROM t WHERE g[1] = 'a'
SELECT SUM(x) FROM t WHERE g[-1:] = 'a'
SELECT SUM(x) FROM t WHERE (day).year = 2026
SELECT SUM(x) FROM t WHERE day = '2026-1-31'
SELECT SUM(x) FROM t WHERE day = 20260131
SELECT SUM(x) FROM t WHERE day > '2026-01-01 00:00:01'
SELECT SUM(x) FROM t WHERE h = '1'
SELECT SUM(x) FROM t WHERE h = 1.0
SELECT SUM(x) FROM t WHERE h = 1e0
SELECT SUM(x) FROM t WHERE h = '1.4'
SELECT SUM(x) FROM t WHERE h < 1.5
SELECT SUM(x) FROM t WHERE h = 0x1
SELECT SUM(x) FROM t WHERE h = 1_000
SELECT SUM(x) FROM t WHERE h = .1e1
SELECT SUM(x) FROM t WHERE h < 99999999999999999999999999999999999999999
SELECT SUM(x) FROM t WHERE h < 1e400
SELECT SUM(x) FROM t WHERE h < 'infinity'::DOUBLE
SELECT SUM(x) FROM t WHERE h = 'nan'::DOUBLE
SELECT SUM(x) FROM t WHERE b = 'true'
SELECT SUM(x) FROM t WHERE b = 1
SELECT SUM(x) FROM t WHERE b > FALSE
"""

TEXTS = [
    "SELECT SUM(x) FROM t WHERE g = 'a;b'",
    "SELECT SUM(x) FROM t WHERE g = 'it''s; -- no comment'",
    "SELECT SUM(x) FROM t -- WHERE g = 'a'",
    "SELECT SUM(x) FROM t /* WHERE g = 'a' */",
    "SELECT SUM(x) /* outer /* inner */ FROM t WHERE name = 'Ann' -- */ FROM t",
    "SELECT SUM(x) FROM t --\nWHERE g = 'a'",
    "/* hint */ SELECT SUM(x) FROM t",
    "-- nothing",
    "/* nothing */",
    ";",
    ";;;",
    "",
    "SELECT SUM(x) FROM t;",
    "SELECT SUM(x) FROM t; SELECT SUM(x) FROM t WHERE name = 'Ann'",
    "SELECT SUM(x) FROM t WHERE g = $$a$$",
    "SELECT SUM(x) FROM t WHERE g = $tag$a$tag$",
    "SELECT SUM(x) FROM t WHERE g = $$it's; $$",
    "SELECT SUM(x) FROM t WHERE g = E'\\x61'",
    "SELECT SUM(x) FROM t WHERE g = E'a\\nb'",
    "SELECT SUM(x) FROM t WHERE g = 'a\\'",
    "SELECT SUM(x) FROM t WHERE g = U&'\\0061'",
    "SELECT SUM(x) FROM t WHERE g = X'61'",
    "SELECT SUM(x) FROM t WHERE g = '\\x61'::BLOB",
    "SELECT SUM(x) FROM t WHERE g = 'a' 'b'",
    "SELECT SUM(x) FROM t WHERE g = 'a'\n'b'",
    "SELECT SUM(x) FROM t WHERE g = N'a'",
    'SELECT SUM(x) FROM t WHERE g = "a"',
    "SELECT SUM(x) FROM t WHERE g = `a`",
    "SELECT SUM(`x`) FROM `t`",
    "SELECT SUM([x]) FROM [t]",
    "SELECT SUM(x) FROM t WHERE g = 'a\u0000'",
    "SELECT SUM(x) FROM t WHERE g = '\u00e4'",
    "SELECT SUM(x) FROM t WHERE g = 'a\u0301'",
    "SELECT SUM(x) FROM t WHERE g = '\U0001f600'",
    "SELECT\u00a0SUM(x)\u00a0FROM t",
    "SELECT SUM(x) FROM t WHERE\u2003g = 'a'",
    "SELECT SUM(\uff58) FROM t",
    "\ufeffSELECT SUM(x) FROM t",
    "SELECT SUM(x) FROM t\u200b",
    "SELECT SUM(x) FROM t WHERE g = 'a' \u2014 no comment",
    "ＳＥＬＥＣＴ SUM(x) FROM t",
    "SELECT SUM(x) FROM t WHERE h = 1" + " OR h = 1" * 2000,
    "SELECT SUM(x) FROM t WHERE " + "NOT " * 101 + "b",
    "SELECT SUM(x) FROM t WHERE " + "(" * 40 + "b" + ")" * 40,
    "SELECT SUM(x) FROM t WHERE " + "(" * 900 + "b" + ")" * 900,
    "SELECT " + "(" * 70 + "SUM(x)" + ")" * 70 + " FROM t",
    "SELECT SUM(x) FROM " + "(SELECT * FROM " * 30 + "t" + ")" * 30,
    "SELECT SUM(x) FROM " + "(SELECT * FROM " * 500 + "t" + ")" * 500,
    "SELECT SUM(" + "x + " * 3000 + "x) FROM t",
    "SELECT " + ", ".join(["SUM(x)"] * 300) + " FROM t",
    "SELECT SUM(CASE " + "".join(f"WHEN h = {i} THEN x " for i in range(300)) + "END) FROM t",
    "SELECT SUM(x) FROM t WHERE g IN (" + ", ".join(f"'{i}'" for i in range(20_000)) + ")",
    "SELECT SUM(x) FROM t WHERE g = '" + "a" * 1_000_000 + "'",
    "SELECT SUM(x) FROM t " + " " * 1_000_000,
    "SELECT SUM(x) FROM t /*" + "*" * 200_000 + "*/",
    "SELECT SUM(x) AS " + "a" * 100_000 + " FROM t",
    "SELECT SUM(x) FROM t WHERE h = " + "9" * 5000,
    "SELECT g, h, b, w, day, name, SUM(x) FROM t GROUP BY CUBE (g, h, b, w, day, name, g, h, b)",
    "\x00",
    "SELECT",
    "SELECT SUM(x",
    "SELECT SUM(x) FROM",
    "SELECT SUM(x) FROM t WHERE",
    "SELECT SUM(x) FROM t GROUP",
    "SELECT 'unclosed FROM t",
    'SELECT "unclosed FROM t',
    "SELECT $$unclosed FROM t",
    "/* unclosed SELECT SUM(x) FROM t",
    ")))",
    "SELECT SUM(x)) FROM t",
    "SELCT SUM(x) FROM t",
    "{'sql': 'SELECT SUM(x) FROM t'}",
    "\\d t",
    "\\copy t TO 'stolen.csv'",
    ".tables",
    "GO",
]

BLOCKS = (WINDOWS, SAMPLES, FILES, SETTINGS, CHANGING, NAMES, NESTED, LISTS)
NASTY = [line for block in BLOCKS for line in block.strip().splitlines()] + TEXTS
PRIVATE = (  # not affine, and may be judged
    "x >", "x =", "x <", "x *", "> 5", "NOT SUM", "COUNT(*) > 2", "/ SUM(x)", "QUANTILE", "MEDIAN", "MIN(x", "MAX(x",
)  # fmt: skip
ALIKE = ("ROLLUP (g), CUBE (h)", "UNION ALL")  # the rows do not say which is which
ELSEWHERE = ("FROM s3.", "FROM memory.", "FROM main.q")  # any name means the table
PLAIN = Made(("SUM(x)",), "FROM t WHERE name = 'Ann'")


def play(seed: int, share: int | None = 40) -> Counter[str]:
    """Some nasty statements (all of them: `share` None), each beside a plain one which must be judged as ever."""
    rng = random.Random(seed)
    world = make_world(rng)
    world.private["x"][0] = 5
    chosen = NASTY if share is None else rng.sample(NASTY, share)
    twin, score = LinearTwin(engine(), world, rng), Counter[str]({"nasty": len(chosen)})
    lines = [[Line(1, text, ABSENT, at=1), Line(2, PLAIN.sql, ABSENT, at=2)] for text in chosen]
    for text, judged in zip(chosen, Door(world, PrivateColumn()).audits(lines), strict=True):
        score["statements"] += 1
        asked = [Made((text.removeprefix("SELECT "),), "") if text.startswith("SELECT ") else Made((), text), PLAIN]
        story = Story(world, asked)
        if (0, "x") not in {(f.row, f.column) for f in judged.exposed} or 2 in _skipped(judged):
            raise FalseVerdict(f"what stands beside it is not judged {story}"[:3000])
        if 1 in _skipped(judged):
            if judged.complete:
                raise FalseVerdict(f"complete, and something is not judged {story}"[:3000])
            continue
        score["judged"] += 1
        score += checked_by_twin(judged, world, text, twin, story)
    return score


def _stood_for(judged: Any) -> bool:
    """Was the first statement read as others, of which it is not sure that they were shown?"""
    entries = judged.evidence.transcript.entries
    return any(e.certainty in DOUBTFUL for e in entries if e.number.partition(".")[0] == "1")


def checked_by_twin(judged: Any, world: World, text: str, twin: LinearTwin, story: Story) -> Counter[str]:
    """What was judged, against what running it tells."""
    if any(mark in text for mark in (*ALIKE, *ELSEWHERE)):
        return Counter({"not run": 1})
    try:
        found = twin.read_text(text)
    except Failed as error:
        if _stood_for(judged):
            return Counter({"stood for": 1})  # whatever it shows is computed from what stands for it
        raise FalseVerdict(f"judged, and the engine does not run it: {error} {story}"[:3000]) from None
    if found is None and _stood_for(judged):  # finer questions stand for it: they may clear, and claim nothing
        beyond = [f for f in judged.findings if not f.if_shown and (f.row, f.column) != (0, "x")]
        if beyond:
            raise FalseVerdict(f"{beyond[0]} follows from what was never shown {story}"[:3000])
        return Counter({"stood for": 1})
    if found is None and not any(mark in text for mark in PRIVATE):
        raise FalseVerdict(f"judged as a sum, and it is none {story}"[:3000])
    read = [None if found is None else found.rows, _read(twin, PLAIN)]
    return Counter({"exposures compared": weigh(judged, world, [PLAIN, PLAIN], read, story)["exposures compared"]})


if __name__ == "__main__":
    run("nasty", play)
