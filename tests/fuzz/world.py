"""Small random tables: a handful of people with public columns full of NULLs and equal values, and two private ones."""

from __future__ import annotations

import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

Unknown = tuple[int, str]  # a record, and a private column
KINDS = {
    "BIGINT": pa.int64(),
    "DECIMAL(18,2)": pa.decimal128(18, 2),
    "DOUBLE": pa.float64(),
}
PUBLIC = {"name": "VARCHAR", "g": "VARCHAR", "h": "BIGINT", "w": "BIGINT", "b": "BOOLEAN", "day": "DATE"}
ARROW = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "BOOLEAN": pa.bool_(), "DATE": pa.date32()}
NAMES = ("Ann", "Bob", "Cyd", "Dan", "Eve", "Fay", "Gus")


@dataclass(frozen=True)
class World:
    """The people: public cells by column, private values by column (None: NULL), and the types of these."""

    public: dict[str, list[Any]]
    private: dict[str, list[int | None]]
    kinds: dict[str, str]

    @property
    def n(self) -> int:
        return len(self.public["name"])

    @property
    def unknowns(self) -> list[Unknown]:
        """The private values that are there; which are NULL is public."""
        return [(i, c) for c, values in self.private.items() for i, v in enumerate(values) if v is not None]

    def arrow(self) -> pa.Table:
        """The table as a user hands it over."""
        made = {c: pa.array(values, ARROW[PUBLIC[c]]) for c, values in self.public.items()}
        for c, values in self.private.items():
            cast = {"BIGINT": int, "DECIMAL(18,2)": Decimal, "DOUBLE": float}[self.kinds[c]]
            made[c] = pa.array([None if v is None else cast(v) for v in values], KINDS[self.kinds[c]])
        return pa.table(made)


def make_world(rng: random.Random, people: int | None = None, values: range = range(-3, 60)) -> World:
    """Few people, so that conditions often single somebody out; equal public rows happen, empty groups too."""
    n = people or rng.randrange(2, len(NAMES) + 1)
    holes = rng.choice((0.0, 0.0, 0.2))

    def cells(choices: tuple[Any, ...]) -> list[Any]:
        return [None if rng.random() < holes else rng.choice(choices) for _ in range(n)]

    days = tuple(__import__("datetime").date(2026, m, d) for m, d in ((1, 1), (1, 31), (2, 1)))
    public = {
        "name": list(NAMES[:n]),
        "g": cells(("a", "b", "b", "c")),
        "h": cells((0, 1, 2, 7)),
        "w": cells((1, 2, 3)) if rng.random() < 0.5 else [rng.choice((0, 1, -2, 3)) for _ in range(n)],
        "b": cells((True, False)),
        "day": cells(days),
    }
    missing = rng.choice((0.0, 0.0, 0.25))
    private: dict[str, list[int | None]] = {
        c: [None if rng.random() < missing else rng.choice(values) for _ in range(n)] for c in ("x", "y")
    }
    kinds = {c: rng.choice(("BIGINT", "BIGINT", *KINDS)) for c in private}
    return World(public, private, kinds)
