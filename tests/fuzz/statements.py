"""Random statements over the small tables: mostly such as are judged, with everything that changes who is summed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Made:
    """A statement in pieces, so that a twin can ask one thing more: to which group a row belongs."""

    items: tuple[str, ...]
    rest: str
    by: tuple[str, ...] = ()  # the key expressions
    several: bool = False  # of ROLLUP, CUBE or GROUPING SETS
    before: str = ""

    @property
    def sql(self) -> str:
        """The statement as an analyst writes it."""
        return f"{self.before}SELECT {', '.join(self.items)} {self.rest}"

    @property
    def marked(self) -> str:
        """The same, with columns behind it that tell the rows apart: the keys, and the grouping set."""
        mark = [*self.by, *([f"GROUPING({', '.join(self.by)})"] if self.several else [])]
        return f"{self.before}SELECT {', '.join((*self.items, *mark))} {self.rest}"


def leaf(rng: random.Random) -> str:
    """A public condition without AND and OR."""
    h, c = rng.choice((0, 1, 2, 7, 3)), rng.choice("abcz")
    op = rng.choice(("=", "<>", "<", "<=", ">", ">=", "!="))
    return rng.choice(
        (
            f"h {op} {h}",
            f"{h} {op} h",
            f"g {op} '{c}'",
            f"name {op} '{rng.choice(('Ann', 'Bob', 'Cyd', 'Dan', 'Bo'))}'",
            f"h BETWEEN {h} AND {rng.choice((1, 2, 9))}",
            f"h NOT BETWEEN 1 AND {h}",
            f"g IN ('a', '{c}')",
            f"h NOT IN ({h}, 2)",
            "g IN ('a', NULL)",
            f"h IS {rng.choice(('', 'NOT '))}NULL",
            f"x IS {rng.choice(('', 'NOT '))}NULL",
            "b",
            "NOT b",
            f"b IS {rng.choice(('', 'NOT '))}{rng.choice(('TRUE', 'FALSE', 'NULL'))}",
            f"g LIKE '{rng.choice(('a%', '%', '_', 'b'))}'",
            f"name NOT LIKE '{rng.choice(('%n', 'B%', '_y_'))}'",
            f"h + w {op} {h}",
            f"h * 2 - 1 {op} {h}",
            f"h % 2 = {rng.randrange(2)}",
            f"h // 2 {op} 1",
            f"-h {op} -{h}",
            f"COALESCE(h, {h}) {op} 2",
            f"CASE WHEN g = '{c}' THEN h ELSE w END {op} 2",
            f"h IS {rng.choice(('', 'NOT '))}DISTINCT FROM {rng.choice((h, 'NULL'))}",
            f"LENGTH(name || COALESCE(g, '')) {op} 4",
            f"day {op} DATE '2026-01-31'",
            f"MONTH(day) = {rng.randrange(1, 3)}",
            f"day {op} '2026-02-01'",
            f"day {rng.choice('+-')} INTERVAL {h} {rng.choice(('DAY', 'MONTH', 'YEAR'))} {op} DATE '2026-02-01'",
            f"UPPER(g) {op} '{c.upper()}'",
            "h = w",
            f"w {op} h + 1",
            rng.choice(("TRUE", "FALSE", "NULL", "1 = 1")),
        )
    )


def private_leaf(rng: random.Random) -> str:
    """A condition on a private column."""
    op = rng.choice(("=", "<>", "<", "<=", ">", ">="))
    v = rng.randrange(4)
    return rng.choice((f"x {op} {v}", f"{v} {op} x", f"x BETWEEN {v} AND 2", f"x IN ({v}, 1)", f"2 * x - 1 {op} {v}"))


def condition(rng: random.Random, depth: int = 2, private: float = 0.0) -> str:
    """A condition in parentheses where they are needed, sometimes where they are not."""
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        return private_leaf(rng) if rng.random() < private else leaf(rng)
    one, two = (condition(rng, depth - 1, private) for _ in range(2))
    if kind < 0.6:
        return f"{one} AND {two}"
    if kind < 0.85:
        return f"({one} OR {two})" if rng.random() < 0.7 else f"{one} OR {two}"
    return f"NOT ({one})" if rng.random() < 0.7 else f"NOT {one}"


def summand(rng: random.Random, private: float = 0.0) -> str:
    """What is summed: linear in a private column, with public weights, cases and constants."""
    x = rng.choice("xxxy")
    c = condition(rng, 1, private)
    k = rng.choice((2, 3, "0.5", -1, 0, "1.5"))
    return rng.choice(
        (
            x,
            x,
            x,
            f"{x} * w",
            f"w * {x} + h",
            f"{x} + {k}",
            f"{k} * {x}",
            f"{x} - {rng.choice('hwxy')}",
            f"-{x}",
            f"{x} / 2",
            f"({x} + w) * {k}",
            f"CASE WHEN {c} THEN {x} END",
            f"CASE WHEN {c} THEN {x} ELSE 0 END",
            f"CASE WHEN {c} THEN {x} ELSE -{x} END",
            f"CASE WHEN {c} THEN {x} WHEN {condition(rng, 0)} THEN 2 * {x} ELSE w END",
            f"CASE g WHEN 'a' THEN {x} WHEN 'b' THEN y ELSE 1 END",
            f"COALESCE({x}, 0)",
            f"COALESCE({x}, w)",
            f"COALESCE(y, {x})",
            f"IF({c}, {x}, 0)",
            f"{x} * (CASE WHEN {c} THEN 1 ELSE 0 END)",
            f"COALESCE(h, 0) * {x}",
            f"{x} / NULLIF(w, 0)",
            f"NULLIF(w, 1) * {x}",
            f"CAST({x} AS DOUBLE)",
            "x + y",
            "x - y * w",
        )
    )


def bent(rng: random.Random, kept: str) -> str:
    """An aggregate that is not affine in the private values."""
    k = rng.randrange(5)
    return rng.choice(
        (
            f"SUM(x * x){kept}",
            f"SUM(2 * x * x - x){kept}",
            f"SUM(x){kept} {rng.choice(('>', '>=', '<', '=', '<>'))} {k}",
            f"COUNT(*){kept} > {k}",
            f"MIN(x){kept}",
            f"MAX(x){kept}",
            f"MEDIAN(x){kept}",
            f"ROUND(AVG(x){kept}, 1)",
            f"ROUND(SUM(x){kept} / 2, 0)",
            f"VAR_POP(x){kept}",
            f"STDDEV_SAMP(x){kept}",
            f"COUNT(*){kept} / COUNT(*)",
        )
    )


def aggregate(rng: random.Random, private: float = 0.0) -> str:
    """One aggregate, or several joined by arithmetic."""
    inner = summand(rng, private)
    kept = f" FILTER (WHERE {condition(rng, 1, private)})" if rng.random() < 0.25 else ""
    one = rng.choice(
        (f"SUM({inner})", f"SUM({inner})", f"SUM({inner})", f"AVG({inner})", "COUNT(*)", f"COUNT({inner})")
    )
    one += kept
    if private and rng.random() < 0.25:
        return bent(rng, kept)
    kind = rng.random()
    if kind < 0.6:
        return one
    other = f"{rng.choice(('SUM', 'SUM', 'COUNT'))}({summand(rng, private)})"
    k = rng.choice((2, -1, 3, "0.5"))
    return rng.choice(
        (
            f"{one} + {other}",
            f"{one} - {other}",
            f"{k} * {one}",
            f"{one} / {rng.choice((2, 4))}",
            f"{one} / COUNT(*)",
            f"SUM({inner}) / NULLIF(COUNT(*){kept}, 0)",
            f"COALESCE(SUM({inner}){kept}, 0)",
            f"COALESCE(SUM({inner}){kept}, 0) - {other}",
            f"({one} + {other}) / COUNT(*)",
            f"-({one})",
            f"CAST(SUM({inner}){kept} AS DOUBLE)",
            f"SUM({inner}) + {k}",
            f"AVG({inner}) * COUNT({inner})",
            f"COUNT_IF({condition(rng, 0, private)})",
            "NULL",
            "7",
            f"MAX(h){kept}" if not private else "COUNT(*)",
        )
    )


def having_test(rng: random.Random, private: float = 0.0) -> str:
    """A HAVING test."""
    one = rng.choice(
        (
            f"COUNT(*) {rng.choice(('>', '>=', '<', '=', '<>'))} {rng.randrange(4)}",
            f"COUNT(x) > {rng.randrange(3)}",
            f"SUM(w) >= {rng.randrange(5)}",
            f"COUNT(*) FILTER (WHERE {condition(rng, 0)}) > 0",
            f"MAX(h) > {rng.randrange(3)}",
            f"COUNT(*) BETWEEN 1 AND {rng.randrange(1, 4)}",
        )
    )
    if rng.random() < private:
        one = rng.choice(
            (f"SUM(x) > {rng.randrange(5)}", f"AVG(x) <= {rng.randrange(4)}", f"MAX(x) < {rng.randrange(4)}")
        )
    kind = rng.random()
    return (
        one
        if kind < 0.6
        else f"NOT {one}"
        if kind < 0.7
        else f"{one} {rng.choice(('AND', 'OR'))} {having_test(rng, private)}"
    )


KEYS = (
    "g",
    "h",
    "b",
    "h % 2",
    "UPPER(g)",
    "CASE WHEN h > 1 THEN 'hi' ELSE 'lo' END",
    "MONTH(day)",
    "day",
    "COALESCE(g, '?')",
)


def source(rng: random.Random, private: float) -> tuple[str, str]:
    """(WITH, FROM): the table, perhaps behind a subquery that renames, computes and filters."""
    where = f" WHERE {condition(rng, 1, private)}" if rng.random() < 0.5 else ""
    kind = rng.random()
    if kind < 0.7:
        return "", rng.choice(("t", "t", "t AS q", "main.t", '"t"', "t q"))
    inner = rng.choice(
        (
            f"SELECT * FROM t{where}",
            f"SELECT t.*, 'x' AS name FROM t{where}",
            f"SELECT name, g, h, w, b, day, x, y FROM t{where}",
            f"SELECT name, g, h + 1 AS h, w, b, day, y AS x, x AS y FROM t{where}",
            f"SELECT *, h AS w FROM t{where}",
            f"SELECT name,CASE WHEN h = 1 THEN 'a' ELSE g END AS g, h, w, b, day, 2 * x AS x, y - w AS y FROM t{where}",
            f"SELECT * FROM (SELECT * FROM t WHERE {condition(rng, 0)}){where}",
        )
    )
    if rng.random() < 0.5:
        return f"WITH q AS ({inner}) ", "q"
    return "", f"({inner}){rng.choice(('', ' AS q'))}"


def grouping(rng: random.Random, chosen: Sequence[str], named: bool) -> tuple[str, bool]:
    """(GROUP BY, several sets?): by expression, position or ALL, or as sets."""
    listed = ", ".join(chosen)
    kind = rng.random()
    if kind < 0.35:
        return listed, False
    if kind < 0.5 and named:
        return ", ".join(str(i + 1) for i in range(len(chosen))), False
    if kind < 0.58 and named:
        return "ALL", False
    if kind < 0.74:
        return f"ROLLUP ({listed})", True
    if kind < 0.86:
        return f"CUBE ({listed})", True
    return f"GROUPING SETS ({rng.choice(('(), ', '', '(), '))}({listed}), ({chosen[0]}))", True


def ordering(rng: random.Random, items: int, private: float) -> str:
    """ORDER BY, down to rows that are alike: by what is shown, and by an aggregate that may be shown or not."""
    first = ["1", "1", str(items), "COUNT(*)"]
    if rng.random() < private:
        first = ["SUM(x)", "MAX(x)", "AVG(x) > 1", "SUM(x) - COUNT(*)"]
    way = rng.choice(("", " NULLS FIRST", " DESC"))
    return f" ORDER BY {rng.choice(first)}{way}, {', '.join(str(i + 1) for i in range(items))}"


def statement(rng: random.Random, private: float = 0.0) -> Made:
    """One random statement; `private` is the share of conditions on private columns."""
    before, table = source(rng, private)
    where = f" WHERE {condition(rng, 2, private)}" if rng.random() < 0.6 else ""
    items = [aggregate(rng, private) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    if not any("(" in item for item in items):
        items.append("SUM(x)")
    if rng.random() < 0.15:
        items.insert(rng.randrange(len(items)), rng.choice(("NULL", "'x'", "7", "1 + 1")))
    if rng.random() < 0.2:
        items = [f"{item} AS {rng.choice(('c', 'x', 'g', 'total'))}{i}" for i, item in enumerate(items)]
    having = f" HAVING {having_test(rng, private / 2)}" if rng.random() < 0.2 else ""
    if rng.random() < 0.6:
        return Made(tuple(items), f"FROM {table}{where}{having}", before=before)
    chosen = tuple(rng.sample(KEYS[:3] if rng.random() < 0.6 else KEYS, rng.choice((1, 1, 2))))
    shown = rng.random() < 0.85
    by, several = grouping(rng, chosen, shown)
    listed = (*chosen, *items) if shown else tuple(items)
    order = ordering(rng, len(listed), private) if shown and rng.random() < 0.2 else ""
    return Made(listed, f"FROM {table}{where} GROUP BY {by}{having}{order}", chosen, several, before)


def log(rng: random.Random, private: float = 0.0) -> list[Made]:
    """A log that often takes a difference on purpose: the same statement again with one person left out."""
    found = [statement(rng, private) for _ in range(rng.randrange(1, 6))]
    if rng.random() < 0.4:
        last = found[-1]
        person = rng.choice(("Ann", "Bob", "Cyd"))
        if not last.by and not any(word in last.rest for word in ("WHERE", "HAVING")):
            found.append(Made(last.items, f"{last.rest} WHERE name <> '{person}'", before=last.before))
    return found
