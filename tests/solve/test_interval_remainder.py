"""Remainder rows against their definition, by sets."""

from __future__ import annotations

import random
from fractions import Fraction

from keyhole.solve.interval import Polytope
from keyhole.solve.interval.remainder import SHARES, with_remainders

Rows = list[frozenset[int]]


def world(seed: int) -> tuple[int, Rows, list[list[int]]]:
    """Tables of disjoint cells, coarse and fine, small cells hidden; and single sums."""
    rng = random.Random(seed)
    K = rng.randrange(8, 40)
    rows: Rows = []
    tables: list[list[int]] = []
    fine = [rng.randrange(9) for _ in range(K)]
    for label in (fine, [f // 3 for f in fine], [0] * K, [rng.randrange(4) for _ in range(K)]):
        cells = [frozenset(k for k in range(K) if label[k] == c) for c in sorted(set(label))]
        shown = [cell for cell in cells if len(cell) >= rng.choice((1, 3))]
        tables.append(list(range(len(rows), len(rows) + len(shown))))
        rows += shown
    for _ in range(6):
        a, b = sorted(rng.sample(range(K + 1), 2))
        tables.append([len(rows)])
        rows.append(frozenset(range(a, b)))
    return K, rows, tables


def remainders(rows: Rows, tables: list[list[int]]) -> set[frozenset[int]]:
    """What is left of rows without the cells of a table that lie inside, in two passes."""
    known = list(rows)
    found = set[frozenset[int]]()
    for share in SHARES:
        fresh = list[frozenset[int]]()
        for row in known:
            for table in tables:
                inside = [rows[i] for i in table if rows[i] <= row]
                left = row.difference(*inside)
                if inside and 0 < len(left) <= share * len(row) and left not in {*known, *fresh}:
                    fresh.append(left)
        known += fresh
        found.update(fresh)
    return found


def test_remainders_are_those_of_the_definition() -> None:
    count = 0
    for seed in range(60):
        K, rows, tables = world(seed)
        values = [Fraction(random.Random(seed + k).randrange(9)) for k in range(K)]
        said = [sum((values[k] for k in row), Fraction(0)) for row in rows]
        P = Polytope.of([(dict.fromkeys(r, 1), b, b) for r, b in zip(rows, said, strict=True)], [(None, None)] * K)
        plus = with_remainders(P, tables)
        added = [frozenset(plus.polytope.row(i)[0]) for i in range(P.m, plus.polytope.m)]
        assert len(added) == len(set(added))
        assert set(added) == remainders(rows, tables), seed
        for i, row in enumerate(added, P.m):
            total = sum((values[k] for k in row), Fraction(0))
            assert plus.polytope.rows[i] == (total, total)
            entries = dict.fromkeys(range(K), Fraction(0))
            for r, weight in plus.origin[i].items():
                for k in rows[r]:
                    entries[k] += weight
            assert {k for k, a in entries.items() if a} == row
            assert set(entries.values()) <= {Fraction(0), Fraction(1)}
        count += len(added)
    assert count > 100, count
