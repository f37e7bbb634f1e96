"""Every rule of a translation, in the engine it is written for and in DuckDB, on rows with NULL, 0, ties and minus."""

from __future__ import annotations

import math

import pytest
import sqlglot
from dialect_world import ROWS, SCHEMA, Engine, RealPostgres, RealSqlite, Translated, differences
from sqlglot import exp
from tests.support.postgres import Postgres

from keyhole.sql.dialects.engine import Dialect
from keyhole.sql.dialects.to_duckdb import TRANSLATORS, translate_to_duckdb

SHARED = r"""
s = 'a\b'; REPLACE(s, '\', '/'); s IN ('a\b', 'it''s')
n / 2; n / -2; n / 7; n / 10 * 10; -n / 3; (n + 1) / 3; n / 2 / 5; 21 / 2; -21 / 2; n / NULLIF(m, 0); m / NULLIF(n, 0)
n % 2; n % -3; -n % 7; (n - 50) % 10; n % NULLIF(m, 0); n + m; n - 3; m * 2 - n; -m; m * m; n + m / 2; m * (n / 10)
n / 2 > 10; n / 10 = 3; n / 1000 <> 2; n % 2 = 1 AND n / 5 > 1; NOT n / 2 = 1; n / 10 IN (2, 9)
n BETWEEN 7 / 2 AND 21; CASE WHEN n / 2 = 10 THEN 1 WHEN m IS NULL THEN 2 ELSE 3 END
CASE m WHEN 3 THEN 'x' WHEN 5 THEN 'y' END; CASE WHEN n > 3 THEN n / 2 ELSE m END; COALESCE(n, 0) / 2
COALESCE(n, m, 7); COALESCE(s, 'none'); NULLIF(n, 7); NULLIF(s, 'a'); n IS NULL; (n > 3) IS TRUE; (n > 3) IS NOT TRUE
n = 7 OR n IS NULL; n IN (7, 21, NULL); n = m; n > 2.5; s = 'a'; s <> 'A'; s IN ('', 'ab'); s = ''; s = u
s LIKE 'A%' OR FALSE; s LIKE '_b'; s NOT LIKE '%b'; s LIKE 'ä'; s LIKE '%'; b; NOT b; b IS TRUE; b = TRUE
day = '2024-01-07'; day < '2000-02-29'; day BETWEEN '1970-01-01' AND '2000-12-31'; day = other; day < other; d > 2.45
d = 2.5; x > 0.1; x = 0.3; d < x; d IN (0.5, 1.5); CAST(n AS TEXT); CAST(n / 2 AS TEXT) = '10'; CAST(s AS TEXT)
CAST(m AS INTEGER) / 2; ABS(n); ABS(n) / 2; ABS(m - 4) < 2; LENGTH(s); LENGTH(s) / 2; SUBSTR(s, 1, 1); SUBSTR(s, 2)
SUBSTR(s, 1, 0); SUBSTR(s, 2, 5) = 'b'; REPLACE(s, 'a', 'zz'); REPLACE(s, 'b', ''); s || 'x'; s || u
'x' || s || 'y' = 'xaby'; ROUND(n); ROUND(m, 2)
"""
POSTGRES = """
n / '2'; n % '7' = 0; n + '3'; '-2' * m; n / '10' = 2
MOD(n, 7); d + n; d * 2.5; d * m; d - 0.5 > 2; n * 0.1 > 2.05; n * 0.1 = 2.1; d * 10 = 25; (d + 0.005) * 2; -d
n::float8 / 10; CAST(n AS DOUBLE PRECISION) / 3 > 0.5; n::float8 * 0.1 = 2.1; d::float8 / 7; x::float8 / 3
m::float8 + 0.1; n::bigint / 2; m::smallint; d::int; d::bigint / 2; -d::int; (n::float8 / 2)::bigint
(m::float8 / 4)::int; b::int; '21'::int / 2; n::numeric; n::numeric(20, 2); d::numeric; d::numeric(10, 1)
d::numeric(10, 0); d::numeric(12, 2) = 2.45; '2.5'::numeric * n; n::text || s; n::varchar; b::text; ts::date
day::timestamp; '2024-01-31'::date; day::date; DATE '2024-01-31'; ts::timestamp; TIMESTAMP '2024-02-29 12:30:00'
ts >= '2024-01-07 23:00'; ts = '2024-01-07'; ts < '2000-01-01T12:30:00'; ts > day; ts::date = day
ts::date = '2024-01-07'; n = '7'; d = '2.5'; x > '0.1'; day = DATE '2024-01-07'; n IS DISTINCT FROM 7
s IS NOT DISTINCT FROM 'a'; m IS DISTINCT FROM n; EXTRACT(YEAR FROM day); EXTRACT(MONTH FROM day)
EXTRACT(DAY FROM day); EXTRACT(DOW FROM day); EXTRACT(ISODOW FROM day); EXTRACT(DOY FROM day); EXTRACT(WEEK FROM day)
EXTRACT(QUARTER FROM day); EXTRACT(ISOYEAR FROM day); EXTRACT(HOUR FROM ts); EXTRACT(MINUTE FROM ts)
EXTRACT(YEAR FROM ts) * 100 + EXTRACT(MONTH FROM ts); DATE_PART('year', day); DATE_PART('dow', ts) = 0
EXTRACT(YEAR FROM day)::int / 10 * 10; EXTRACT(YEAR FROM day)::numeric; DATE_PART('month', day) IN (1, 12)
DATE_TRUNC('year', day); DATE_TRUNC('quarter', day); DATE_TRUNC('month', day); DATE_TRUNC('week', day)
DATE_TRUNC('day', ts); DATE_TRUNC('hour', ts); DATE_TRUNC('minute', ts); DATE_TRUNC('month', ts) = '2024-01-01'
DATE_TRUNC('month', day)::date; DATE_TRUNC('month', day) = DATE '2024-02-01'
EXTRACT(DOW FROM DATE_TRUNC('week', day)); DATE_TRUNC('year', ts) < TIMESTAMP '2000-01-01'
DATE '2024-01-31' + INTERVAL '1 month'; DATE '2024-02-29' - INTERVAL '1 year'; DATE '2024-01-31' + 30
DATE '2024-03-01' - 1; DATE '2024-01-31' - INTERVAL '1 month 3 days'
TIMESTAMP '2024-01-31 10:00:00' - INTERVAL '36 hours'; INTERVAL '2 weeks' + DATE '2024-01-01'
day >= DATE '2024-03-31' - INTERVAL '1 month'; ts < TIMESTAMP '2024-03-31 00:00:00' - INTERVAL '3 month' OR b
day >= DATE '2024-01-31' - 24; ts >= DATE '2024-01-31' - INTERVAL '90 minutes'; DATE '2024-01-31' + INTERVAL '1' DAY
day - other; day - DATE '2000-01-01'; (DATE '2024-01-07' - day) / 365; (day - other) % 7
DATE '2024-01-07' - day > 365; TO_CHAR(day, 'YYYY-MM'); TO_CHAR(day, 'YYYY'); TO_CHAR(ts, 'YYYY-MM-DD HH24:MI:SS')
TO_CHAR(day, 'MM/DD') = '02/29'; ROUND(d); ROUND(d, 1); ROUND(d, 2) = 2.45; ROUND(d, 0); ROUND(n, -1); ROUND(m, -1)
ROUND(n) / 4; ROUND(d, -1); ROUND(d) * 2; FLOOR(n / 10) * 10; FLOOR(d); CEIL(d); FLOOR(n) / 4; CEIL(n::float8 / 4)
FLOOR(m::float8 / 10); ABS(d); ABS(n::float8); SIGN(n); SIGN(d); SIGN(n) / 2; GREATEST(n, m); LEAST(n, m, 3)
GREATEST(n, 7) / 2; LEAST(d, n); GREATEST(day, other); LEAST(n, NULL); LEFT(s, 1); LEFT(s, 0); RIGHT(s, 2)
POSITION('b' IN s); STRPOS(s, 'a') = 1; SUBSTRING(s FROM 2 FOR 1); SUBSTRING(s, 1, 2); CONCAT(s, 'x')
CONCAT(s, u, '-'); CHAR_LENGTH(s) > 1; CASE WHEN b THEN d ELSE n END; COALESCE(d, n); COALESCE(day, other)
WIDTH_BUCKET(d, 0, 3, 6); WIDTH_BUCKET(n, -10, 90, 4); WIDTH_BUCKET(d, -2.5, 2.5, 5); WIDTH_BUCKET(m, 0, 12, 3)
WIDTH_BUCKET(d, 3, 0, 6); WIDTH_BUCKET(n, 90, -10, 4); WIDTH_BUCKET(n, ARRAY[-1, 7, 25]); WIDTH_BUCKET(m, 10, 0, 3)
FLOOR(d / 500) * 500; CEIL(d / 4); FLOOR(d / 2.5); FLOOR((d - 1) / 0.5); s ~ '^a'; s ~ 'b$'; s ~ '^(a|A)b'; s ~ '[a-c]b'
d + FLOOR(7::numeric(12, 1)); d + FLOOR((7)::numeric) = 9.5; CEIL(n::numeric + m) * 0.1; FLOOR(-n::numeric) * 0.1 = -2.1
SPLIT_PART(s, 'b', 1); SPLIT_PART(s, 'a', 2); SPLIT_PART(u, 'a', 3); SPLIT_PART(s, 'ab', 1); s = ANY (ARRAY['a', 'ab'])
n = ANY (ARRAY[7, 21, -3]); s = ANY ('{a,ab}'); s = ANY ('{a,K}'::text[]); n = ANY ('{7,21}')
NOT d = ANY (ARRAY[2.5, 0.5])
CASE WHEN b THEN day ELSE DATE '2000-01-01' END; NULLIF(d, 2.5); NULLIF(m, 0) * 2; COALESCE(s, u, 'x') = 'x'
"""
SQLITE = """
ROUND(m - 3) * 0.1; ROUND((m - 3)) * 0.1 = -0.6; ROUND(n, 1) * 0.1 > 2.05; ROUND(n) * 0.1 = 2.1
n * 0.1; n * 0.1 > 2.05; n * 0.1 = 2.1; n / 2.0; n / 4.0 > 0.5; 7 / 2.0; (n + 0.5) * 2; n - 0.1; 1.5 * m + 0.25
n / 3.0 * 3 = n; CAST(n AS REAL) / 3; CAST(m AS REAL) * 0.1; CAST(n AS INTEGER) % 7; ROUND(n, -1); ROUND(n) / 4
ABS(n * 0.5); ABS(m) % 2; UPPER(s); LOWER(s); UPPER(s) = 'AB'; LOWER(s) = 'k'; LOWER(u) LIKE 'A%'; s LIKE 'a%'
s LIKE 'AB'; s LIKE 'Ä%'; s NOT LIKE 'K'; STRFTIME('%Y', day); STRFTIME('%m', day) = '02'; STRFTIME('%Y-%m', day)
STRFTIME('%w', day); STRFTIME('%j', day); CAST(STRFTIME('%Y', day) AS INTEGER) / 10 * 10
CAST(STRFTIME('%m', day) AS INTEGER) > 6; STRFTIME('%d.%m.%Y', day); DATE(day) = '2024-01-07'; IFNULL(n, 0)
IFNULL(s, 'x'); IIF(n > 3, 1, 2) / 2; MAX(n, 3); MIN(m, 2) = 2; MAX(n, 3) / 2; INSTR(s, 'b'); INSTR(s, 'a') = 1
n IS 7; n IS NOT 7; s IS NOT 'a'; m IS n; CASE WHEN b THEN n ELSE m * 0.5 END; COALESCE(n, 0.5) > 1; n == 7; n <> 7
"""


def listed(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split("; ") if part.strip()]


@pytest.fixture(scope="module")
def translated() -> Translated:
    return Translated()


def conform(engine: Engine, translated: Translated, expressions: list[str]) -> None:
    wrong = {}
    for expression, said in zip(expressions, engine.values(expressions), strict=True):
        ours, reason = translated.values(expression, engine.dialect)
        if said is None or ours is None:
            wrong[expression] = reason or f"it does not run in {engine.dialect if said is None else 'DuckDB'}"
        elif found := differences(said, ours):
            wrong[expression] = f"{found[:3]}"
    assert not wrong, "\n".join(f"{e}: {why}" for e, why in wrong.items())


def test_postgres(postgres: Postgres, translated: Translated) -> None:
    conform(RealPostgres(postgres), translated, listed(SHARED) + listed(POSTGRES))


def test_sqlite(translated: Translated) -> None:
    conform(RealSqlite(), translated, listed(SHARED) + listed(SQLITE))


NUMBERS = (
    "SUM(n); AVG(n); COUNT(n); COUNT(*); MIN(n); MAX(n); SUM(d); AVG(d); MIN(d); SUM(n * 2 + m); COUNT(DISTINCT s)"
)
NUMBERS += "; SUM(CASE WHEN n / 2 > 3 THEN m ELSE 0 END); COUNT(*) FILTER (WHERE n / 10 = 2); COALESCE(SUM(m), 0)"
OF_POSTGRES = (
    "VARIANCE(n); VAR_POP(m); STDDEV(m); STDDEV_SAMP(d); STDDEV_POP(m); SUM(n)::float8 / COUNT(*); SUM(d * 2.5)"
)
OF_POSTGRES += "".join(
    f"; PERCENTILE_{how}({level}) WITHIN GROUP (ORDER BY {column})"
    for how, columns in (("CONT", "nm"), ("DISC", "nmd"))
    for column in columns
    for level in ("0", "0.1", "0.25", "0.5", "0.75", "0.9", "1")
)
ROUNDED = ("ROUND(AVG(m), 2)", "ROUND(AVG(d), 1)", "ROUND(SUM(d), 1)")


def aggregated(engine: Engine, translated: Translated, numbers: list[str]) -> None:
    """Each aggregate of each group, exactly or as near as doubles are; rounded ones by less than one place."""
    for number in numbers:
        per_row = f"SELECT id, (SELECT {number} FROM t AS w WHERE w.b IS NOT DISTINCT FROM t.b) AS v FROM t"
        made = translate_to_duckdb(f"SELECT b, {number} FROM t GROUP BY b", engine.dialect, SCHEMA)
        assert not made.reason, made.reason
        ours = dict(translated.connection.execute(made.sql).fetchall())
        per_row = per_row.replace(
            "IS NOT DISTINCT FROM", "IS" if engine.dialect == "sqlite" else "IS NOT DISTINCT FROM"
        )
        (said,) = engine.values([per_row.removeprefix("SELECT id, ").removesuffix(" AS v FROM t")])
        assert said is not None, number
        for row, value in zip(ROWS, said, strict=True):
            here = ours[row[10]]
            near = 1e-12 if number not in ROUNDED else 0.011 if "2)" in number else 0.11
            assert here is value or math.isclose(float(value), float(here), rel_tol=1e-12, abs_tol=near), number


def test_aggregates_of_postgres(postgres: Postgres, translated: Translated) -> None:
    aggregated(RealPostgres(postgres), translated, [*NUMBERS.split("; "), *OF_POSTGRES.split("; "), *ROUNDED])


def test_aggregates_of_sqlite(translated: Translated) -> None:
    aggregated(RealSqlite(), translated, [*NUMBERS.split("; "), "SUM(b)"])


@pytest.mark.parametrize(
    ("dialect", "text", "reasons"),
    [
        # that give a reason and nothing else, or stand in another node that is tested
        (Dialect.POSTGRES, SHARED + POSTGRES, {exp.Upper, exp.Lower, exp.ILike, exp.Initcap}),
        (Dialect.SQLITE, SHARED + SQLITE, set()),
    ],
)
def test_every_rule_of_a_translation_has_been_run(dialect: Dialect, text: str, reasons: set[type[exp.Expr]]) -> None:
    text += NUMBERS + ("; " + OF_POSTGRES if dialect is Dialect.POSTGRES else "")
    run = {type(node) for e in listed(text) for node in sqlglot.parse_one(f"SELECT {e}", read=dialect.value).walk()}
    assert set(TRANSLATORS[dialect].rules) - run == reasons
