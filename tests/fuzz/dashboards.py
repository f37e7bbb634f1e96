"""Random dashboards against every table with the same answers: `python -m tests.fuzz.dashboards --count N`.

Shares, ranks, cut-off lists, subqueries, unions and buckets are not affine in the private values, so they are compared
with enumeration: two or three people, few values, every table that gives the same rows. Nothing may be claimed that
does not hold in all of them, and an all-clear must leave everybody two values.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from tests.fuzz.logs import every_table
from tests.fuzz.soak import run
from tests.fuzz.statements import KEYS, Made, condition, statement


@dataclass(frozen=True)
class Text(Made):
    """A whole statement, whose rows need no mark."""

    text: str = ""

    @property
    def sql(self) -> str:
        return self.text

    @property
    def marked(self) -> str:
        return self.text


def total(rng: random.Random, private: float) -> str:
    """A plain aggregate."""
    kept = f" FILTER (WHERE {condition(rng, 0, private)})" if rng.random() < 0.2 else ""
    one = rng.choice(("SUM(x)", "SUM(x)", "COUNT(*)", "AVG(x)", "SUM(y)", "MAX(x)", "COUNT(x)", "SUM(x * w)"))
    return one + kept


def whole_table(rng: random.Random, a: str, where: str, other: str) -> str:
    """A tile that looks at the whole table: subqueries in conditions, and windows below an aggregate."""
    v, op = rng.randrange(3), rng.choice("<>=")
    also = f" AND {condition(rng, 0)}" if rng.random() < 0.3 else ""
    over = rng.choice(("ORDER BY h", "PARTITION BY g ORDER BY h, name", "ORDER BY day, name", "PARTITION BY b"))
    function = rng.choice(("RANK()", "DENSE_RANK()", "NTILE(2)", "ROW_NUMBER()", "COUNT(*)", "MAX(h)", "LAG(h)"))
    ranked = f"SELECT *, {function} OVER ({over}) AS r FROM t{rng.choice(('', other))}"
    return rng.choice(
        (
            f"SELECT {a} FROM t WHERE h {rng.choice(('IN', 'NOT IN'))} (SELECT h FROM t{other}){also}",
            f"SELECT {a} FROM t WHERE h {op} (SELECT {rng.choice(('AVG', 'MAX', 'MIN'))}(h) FROM t){also}",
            f"SELECT {a} FROM t WHERE x > {v} OR h = (SELECT MAX(h) FROM t{other})",
            f"SELECT {a} FROM t AS o WHERE EXISTS (SELECT * FROM t AS i WHERE i.g = o.g AND i.h > {v})",
            f"SELECT {a} FROM t AS o WHERE h >= (SELECT AVG(h) FROM t AS i WHERE i.g = o.g){also}",
            f"SELECT {a} FROM t WHERE h <= ALL (SELECT h FROM t{other})",
            f"SELECT {a} FROM t WHERE (g, h) IN (SELECT g, MIN(h) FROM t GROUP BY g)",
            f"WITH k AS (SELECT g FROM t GROUP BY 1 HAVING MAX(h) > 1) SELECT {a} FROM t WHERE g IN (SELECT g FROM k)",
            f"SELECT r, {a} FROM ({ranked}) AS q GROUP BY r",
            f"WITH q AS ({ranked}) SELECT {a} FROM q WHERE r = 1{also}",
            f"SELECT COUNT(*) FROM t WHERE x {op} (SELECT {rng.choice(('AVG', 'MAX', 'SUM'))}(x) FROM t)",
        )
    )


def dashboard(rng: random.Random, private: float) -> str:
    """One tile."""
    a, b = total(rng, private), total(rng, private)
    k = rng.choice(KEYS[:3])
    where = f" WHERE {condition(rng, 1, private)}" if rng.random() < 0.4 else ""
    other = f" WHERE {condition(rng, 0)}"
    ann = rng.choice((" WHERE name = 'Ann'", other))
    n, v, op = rng.randrange(1, 4), rng.randrange(3), rng.choice(("<", ">=", "="))
    grouped = f"SELECT {k} AS k, {a} AS s, COUNT(*) AS n FROM t{where} GROUP BY 1"
    return rng.choice(
        (
            f"SELECT {k}, {a} * 100.0 / SUM({a}) OVER () FROM t{where} GROUP BY 1",
            f"SELECT {k}, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS pct, {a} FROM t{where} GROUP BY 1",
            f"SELECT {k}, {a} AS s FROM t{where} GROUP BY 1 ORDER BY s DESC, 1 LIMIT {n}",
            f"SELECT {k}, {a} AS s FROM t{where} GROUP BY 1 ORDER BY {b}, 1 LIMIT {n}",
            f"SELECT {k}, {a} AS s FROM t{where} GROUP BY 1 ORDER BY {b}, 1",
            f"SELECT {k}, COUNT(*) AS n FROM t{where} GROUP BY 1 ORDER BY {a} {op} {v}, 1",
            f"SELECT k, n FROM ({grouped}) q ORDER BY s {op} {v}, k",
            f"SELECT 1 AS side, {a} AS s FROM t{where} UNION ALL SELECT 2, {b} FROM t{other} ORDER BY s, side",
            f"SELECT 1 AS s, COUNT(*) FROM t UNION ALL SELECT 2, 3 ORDER BY ABS(s - (SELECT {a} FROM t{ann})), s",
            f"SELECT {k}, RANK() OVER (ORDER BY {a}) AS r FROM t{where} GROUP BY 1 ORDER BY r, 1",
            f"SELECT {k}, {a} AS s FROM t{where} GROUP BY 1 QUALIFY ROW_NUMBER() OVER (ORDER BY {a}, {k}) <= {n}",
            f"SELECT {rng.choice(('AVG', 'MAX', 'SUM', 'MIN', 'COUNT'))}(s) FROM ({grouped}) q",
            f"SELECT SUM(s) AS s, SUM(n) FROM ({grouped}) q",
            f"WITH q AS ({grouped}) SELECT k, s FROM q WHERE {rng.choice(('n', 's'))} > {v} ORDER BY 1",
            f"WITH q AS ({grouped}) SELECT *, s / n AS ratio FROM q",
            f"WITH q AS ({grouped}) SELECT k, s, s - LAG(s) OVER (ORDER BY k) FROM q",
            f"WITH q AS ({grouped}), r AS (SELECT {b} AS b FROM t) SELECT k, s - b FROM q, r",
            f"SELECT {a} - (SELECT {b} FROM t{other}) FROM t{where}",
            f"SELECT (SELECT {a} FROM t{where}) > (SELECT {b} FROM t{other})",
            f"SELECT 1 AS side, {a} FROM t{where} UNION ALL SELECT 2, {b} FROM t{other}",
            f"SELECT 'a' AS side, {a} AS s FROM t{where} UNION SELECT 'b', {b} FROM t{other}",
            f"SELECT {a} FROM t{where} UNION SELECT {b} FROM t{other}",
            f"SELECT CASE WHEN x < {v} THEN 'lo' WHEN x = 2 THEN 'hi' ELSE '?' END AS c, {a} FROM t{where} GROUP BY c",
            f"SELECT CASE WHEN x > {v} THEN 1 END AS c, {k}, COUNT(*) FROM t{where} GROUP BY 1, 2",
            f"SELECT FLOOR(x / 2) * 2 AS c, {a} FROM t{where} GROUP BY c",
            f"SELECT x // 2 AS c, COUNT(*) FROM t{where} GROUP BY c",
            f"SELECT CEIL(x / 2) AS c, COUNT(*) FROM t{where} GROUP BY c HAVING COUNT(*) > {v}",
            f"SELECT MAX(x) - MIN(x), {k} FROM t{where} GROUP BY 2",
            f"SELECT AVG(x) - AVG(y) FROM t{where}",
            f"SELECT {a} / NULLIF({b}, 0) FROM t{where}",
            f"SELECT {k}, COUNT(DISTINCT x) FROM t{where} GROUP BY 1",
            f"SELECT DISTINCT {k}, {rng.choice(('SUM', 'MAX', 'COUNT'))}(x) OVER (PARTITION BY {k}) FROM t{other}",
            f"SELECT name, SUM(x) OVER (PARTITION BY g) FROM t{other}",
            f"SELECT name, SUM(x) OVER (ORDER BY h) FROM t{where}",
            f"SELECT {k}, {a} FROM t{where} GROUP BY 1 HAVING {b} > {v} AND SUM(x) < 4",
            f"SELECT {k} FROM t{where} GROUP BY 1 HAVING {a} > (SELECT {a} FROM t) / 2",
            f"SELECT CORR(x, w), VAR_POP(x) FROM t{where}",
            f"SELECT {k}, RANK() OVER (ORDER BY {a}) FROM t{where} GROUP BY {k}",
            f"SELECT DISTINCT g, b FROM t{where}",
            f"SELECT CASE WHEN {a} > {v} THEN 'high' ELSE 'low' END FROM t{where}",
            whole_table(rng, a, where, other),
            whole_table(rng, a, where, other),
            whole_table(rng, a, where, other),
        )
    )


def log(rng: random.Random, private: float) -> list[Made]:
    """Tiles, with a plain statement among them now and then."""
    found: list[Made] = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        plain = rng.random() < 0.2
        made = statement(rng, private / 2) if plain else Text((), "", ("rows",), text=dashboard(rng, private / 2))
        found.append(made)
    return found


def play(seed: int) -> Counter[str]:
    """The logs of one seed."""
    return every_table(random.Random(seed), log)


if __name__ == "__main__":
    run("dashboards", play)
