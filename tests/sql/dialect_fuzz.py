"""Random public expressions in the words of PostgreSQL or SQLite, some of them outside of what is translated."""

from __future__ import annotations

import random
from collections.abc import Callable

NUMBERS = ("0", "1", "2", "3", "7", "10", "25", "100", "-3", "-10", "0.5", "2.5", "1.25", "0.1")
WORDS = ("''", "'a'", "'A'", "'ab'", "'b'", "'ä'", "'K'", "'none'")
PATTERNS = ("'a%'", "'%B'", "'_'", "'A_'", "'%'", "'ä%'")
DATES = ("2024-01-07", "2000-02-29", "1970-01-01", "1999-12-31", "2024-02-29")


class Random:
    """Expressions by what they give; `depth` bounds how they nest."""

    def __init__(self, seed: int | str, dialect: str) -> None:
        self.rng = random.Random(f"{seed} {dialect}")
        self.dialect = dialect

    def any_(self, depth: int = 3) -> str:
        """A condition, a number, a text or a date."""
        makers: tuple[Callable[[int], str], ...] = (self.condition, self.condition, self.number, self.text, self.date)
        return self.rng.choice(makers)(depth)

    def number(self, depth: int) -> str:
        if depth <= 0 or self.rng.random() < 0.2:
            return self.rng.choice(("n", "m", "m", "d", "x", *NUMBERS))
        a = self.number(depth - 1)
        b = self.number(depth - 1)
        constant = self.rng.choice(NUMBERS)
        shared = (
            *(f"({a} + {b})", f"({a} - {b})", f"({a} * {constant})", f"{a} / {constant}", f"({a} / {b})", f"-({a})"),
            *(f"({a} % {constant})", f"{a} / NULLIF({b}, 0)", f"ABS({a})", f"COALESCE({a}, {b})", f"NULLIF({a}, {b})"),
            *(f"ROUND({a})", f"ROUND({a}, {self.rng.randint(-2, 3)})", f"LENGTH({self.text(depth - 1)})"),
            *(f"CASE WHEN {self.condition(depth - 1)} THEN {a} ELSE {b} END", f"CAST({a} AS INTEGER)"),
        )
        own = (
            *(f"({a})::bigint", f"({a})::numeric", f"({a})::numeric(12, 1)", f"({a})::float8", f"FLOOR({a})"),
            *(f"CEIL({a})", f"GREATEST({a}, {b})", f"LEAST({a}, {b})", f"SIGN({a})", f"MOD({a}, {constant})"),
            *(f"EXTRACT({self.part()} FROM {self.date(depth - 1)})", f"({self.date(0)} - {self.date(0)})"),
            *(f"STRPOS({self.text(depth - 1)}, 'b')", f"({a}) ^ 2", f"TRUNC({a})"),
        )
        other = (
            *(f"CAST({a} AS REAL)", f"MAX({a}, {b})", f"MIN({a}, {constant})", f"IFNULL({a}, {b})"),
            *(f"IIF({self.condition(depth - 1)}, {a}, {b})", f"INSTR({self.text(depth - 1)}, 'b')"),
            *(
                f"CAST(STRFTIME('%{self.rng.choice('YmdjwHs')}', {self.date(0)}) AS INTEGER)",
                f"JULIANDAY({self.date(0)})",
            ),
        )
        return self.rng.choice((*shared, *(own if self.dialect == "postgres" else other)))

    def part(self) -> str:
        return self.rng.choice(("YEAR", "MONTH", "DAY", "DOW", "ISODOW", "DOY", "WEEK", "QUARTER", "ISOYEAR", "EPOCH"))

    def text(self, depth: int) -> str:
        if depth <= 0 or self.rng.random() < 0.4:
            return self.rng.choice(("s", "s", "u", *WORDS))
        a, b = self.text(depth - 1), self.text(depth - 1)
        start, length = self.rng.randint(-1, 3), self.rng.randint(0, 3)
        shared = (
            *(f"{a} || {b}", f"SUBSTR({a}, {start}, {length})", f"SUBSTR({a}, {start})", f"REPLACE({a}, 'a', 'x')"),
            *(f"COALESCE({a}, {b})", f"NULLIF({a}, {b})", f"CAST({self.number(depth - 1)} AS TEXT)", f"UPPER({a})"),
            *(f"LOWER({a})", f"TRIM({a})", f"CASE WHEN {self.condition(depth - 1)} THEN {a} ELSE {b} END"),
        )
        own = (
            *(f"LEFT({a}, {start})", f"RIGHT({a}, {length})", f"CONCAT({a}, {b})", f"({self.number(0)})::text"),
            *(f"TO_CHAR({self.date(depth - 1)}, 'YYYY-MM')", f"REVERSE({a})", f"({self.condition(0)})::text"),
        )
        other = (f"STRFTIME('%Y-%m', {self.date(depth - 1)})", f"HEX({a})", f"STRFTIME('%d', {self.date(0)})")
        return self.rng.choice((*shared, *(own if self.dialect == "postgres" else other)))

    def date(self, depth: int) -> str:
        said = self.rng.choice(DATES)
        plain = ("day", "day", "other", "ts")
        if self.dialect == "sqlite":
            return self.rng.choice((*plain, f"'{said}'", "DATE(day)", f"DATE('{said}', '+1 month')"))
        if depth <= 0 or self.rng.random() < 0.4:
            return self.rng.choice((*plain, f"DATE '{said}'", f"TIMESTAMP '{said} 12:30:00'"))
        unit = self.rng.choice(("day", "month", "year", "week", "hour"))
        amount = self.rng.randint(-40, 40)
        return self.rng.choice(
            (
                f"DATE_TRUNC('{self.rng.choice(('year', 'month', 'week', 'day', 'quarter'))}', {self.date(depth - 1)})",
                f"(DATE '{said}' + INTERVAL '{amount} {unit}')",
                f"(DATE '{said}' - {amount})",
                f"({self.date(depth - 1)})::date",
                f"({self.date(depth - 1)})::timestamp",
                f"({self.date(0)} + INTERVAL '1 month')",
                f"COALESCE({self.date(0)}, {self.date(0)})",
                f"GREATEST({self.date(0)}, {self.date(0)})",
            )
        )

    def condition(self, depth: int) -> str:
        sign = self.rng.choice(("=", "<>", "<", "<=", ">", ">="))
        if depth <= 0:
            return self.rng.choice(
                (f"{self.number(0)} {sign} {self.number(0)}", "b", "n IS NULL", f"s = {self.text(0)}")
            )
        a, b, more = self.number(depth - 1), self.number(depth - 1), depth - 1
        shared = (
            *(f"{a} {sign} {b}", f"{a} {sign} {self.rng.choice(NUMBERS)}", f"{a} BETWEEN {b} AND {self.number(0)}"),
            *(
                f"{a} IN ({', '.join(self.rng.sample(NUMBERS, 3))})",
                f"({a}) IS NULL",
                f"({self.condition(more)}) IS TRUE",
            ),
            *(
                f"({self.condition(more)} AND {self.condition(more)})",
                f"({self.condition(more)} OR {self.condition(more)})",
            ),
            *(f"NOT ({self.condition(more)})", f"{self.text(more)} = {self.text(more)}", f"{self.text(more)} <> 'a'"),
            *(f"{self.text(more)} LIKE {self.rng.choice(PATTERNS)}", f"{self.text(more)} IN ('a', 'AB', '')"),
            *(f"{self.date(more)} {sign} {self.date(more)}", f"{self.date(more)} {sign} '{self.rng.choice(DATES)}'"),
            *(f"{a} = '{self.rng.choice(NUMBERS)}'", f"{self.text(0)} < {self.text(0)}", f"{a} = b"),
        )
        own = (f"{a} IS DISTINCT FROM {b}", f"{self.text(more)} ILIKE {self.rng.choice(PATTERNS)}", "s ~ 'a'")
        other = (f"{a} IS {b}", f"{a} IS NOT {self.rng.choice(NUMBERS)}", "s GLOB 'a*'", f"{self.text(more)} IS 'a'")
        return self.rng.choice((*shared, *(own if self.dialect == "postgres" else other)))
