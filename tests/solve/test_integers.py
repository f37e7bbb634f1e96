"""Integer systems: LP files, the smaller system and what all solutions share, against plain enumeration."""

from __future__ import annotations

import gzip
import random
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from keyhole.errors import DataError
from keyhole.solve.integers.lp_file import parse_lp, read_lp
from keyhole.solve.integers.other_process import call_apart
from keyhole.solve.integers.reduce import reduce_system
from keyhole.solve.integers.search import find_irreducible, find_shared_values
from keyhole.solve.integers.system import NO_END, LinearRow, system_of_rows
from keyhole.solve.status import SolverStatus

HEAD = "\\ a comment\nMinimize\n obj: x\nSubject To\n"


def test_every_form_of_a_row_and_a_bound_is_read() -> None:
    rows = " a: x + 2 y - z >= -1\n b : 3 x - -2 z <= 7\n x + y = 2\n d: 1 <= y + z <= 3\n e: 0.5 x + 1.5 y <= 2\n"
    bounds = "Bounds\n 0 <= x <= 4\n y <= 3\n -1 <= z <= 5\n w = 2\n"
    model = parse_lp(f"{HEAD}{rows} f: w = 2\n{bounds}Generals\n x y\n z\nEnd\n")
    assert model.names == ("x", "y", "z", "w")
    assert model.rows == ("a", "b", "row 3", "d", "e", "f")
    system = model.system
    told = [
        (system.column[a:b].tolist(), system.coefficient[a:b].tolist(), int(lo), int(hi))
        for a, b, lo, hi in zip(system.start, system.start[1:], system.lo, system.hi, strict=False)
    ]
    assert told == [
        ([0, 1, 2], [1, 2, -1], -1, NO_END),
        ([0, 2], [3, 2], -NO_END, 7),
        ([0, 1], [1, 1], 2, 2),
        ([1, 2], [1, 1], 1, 3),
        ([0, 1], [1, 3], -NO_END, 4),
        ([3], [1], 2, 2),
    ]
    assert (system.lower.tolist(), system.upper.tolist()) == ([0, 0, -1, 2], [4, 3, 5, 2])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "no Subject To"),
        (f"{HEAD} a: x + y\nEnd", "no right side"),
        (f"{HEAD} a: 3 = 4\nBinaries x\nEnd", "no sum of columns|no right side"),
        (f"{HEAD} a: x = y\nBinaries x y\nEnd", "'y' is no number"),
        (f"{HEAD} a: x = 1\nEnd", "x is not listed under Binaries or Generals"),
        (f"{HEAD} a: x >= 1\nGenerals x\nEnd", "x has no end"),
        (f"{HEAD} a: x = 1\nBounds\n x is small\nBinaries x\nEnd", "a bound is not understood"),
    ],
)
def test_what_is_no_model_is_said(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_lp(text)


def test_a_packed_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "m.lp.gz"
    file.write_bytes(gzip.compress(f"{HEAD} a: x + y = 1\nBinaries\n x y\nEnd\n".encode()))
    assert read_lp(file).names == ("x", "y")
    with pytest.raises(DataError, match="cannot read"):
        read_lp(tmp_path / "none.lp")


def slots(kinds: int, people: int, rows: list[tuple[list[int], int]]) -> str:
    """A model with a slot a person, each of one kind; rows count people of some kinds."""
    names = [[f"s{p}k{k}" for k in range(kinds)] for p in range(people)]
    lines = [f" slot{p}: {' + '.join(row)} = 1" for p, row in enumerate(names)]
    lines += [
        f" c{i}: {' + '.join(names[p][k] for p in range(people) for k in chosen)} = {n}"
        for i, (chosen, n) in enumerate(rows)
    ]
    flat = " ".join(name for row in names for name in row)
    return HEAD + "\n".join(lines) + f"\nBinaries\n {flat}\nEnd\n"


@pytest.mark.parametrize("seed", range(8))
def test_slots_become_one_number_per_kind_with_the_same_solutions(seed: int) -> None:
    rng = random.Random(seed)
    kinds, people = rng.randint(2, 3), rng.randint(2, 4)
    who = [rng.randrange(kinds) for _ in range(people)]
    rows = [(chosen, sum(w in chosen for w in who)) for chosen in ([0], [0, 1], [1]) if rng.random() < 0.7]
    model = parse_lp(slots(kinds, people, rows))
    small = reduce_system(model.system)
    found = call_apart(find_shared_values, small.system, 20)
    assert found.solution is not None
    spread = small.spread(found.solution)
    assert model.system.holds(spread)
    truth = {
        tuple(counts)
        for counts in product(range(people + 1), repeat=kinds)
        if sum(counts) == people and all(sum(counts[k] for k in chosen) == n for chosen, n in rows)
    }
    assert found.unique == (len(truth) == 1)
    alive = [k for k in range(kinds) if any(t[k] for t in truth)]
    assert found.common is not None
    assert sorted(found.common[found.common > 0].tolist()) == sorted(
        least for k in alive if (least := min(t[k] for t in truth))
    )
    assert small.system.columns <= kinds


def random_system(rng: random.Random) -> tuple[list[LinearRow], list[int], list[int]]:
    n = rng.randint(1, 4)
    rows = []
    for _ in range(rng.randint(1, 4)):
        columns = tuple(sorted(rng.sample(range(n), rng.randint(1, n))))
        lo = rng.randint(-2, 4)
        rows.append(LinearRow(columns, tuple(rng.choice((1, 1, 2, -1)) for _ in columns), lo, lo + rng.randint(0, 2)))
    return rows, [0] * n, [rng.randint(1, 3) for _ in range(n)]


def fits(rows: list[LinearRow], z: tuple[int, ...]) -> bool:
    return all(
        row.lo <= sum(c * z[k] for k, c in zip(row.columns, row.coefficients, strict=True)) <= row.hi for row in rows
    )


def compare(seed: int) -> None:
    rows, lower, upper = random_system(random.Random(seed))
    truth = [z for z in product(*(range(top + 1) for top in upper)) if fits(rows, z)]
    system = system_of_rows(rows, lower, upper)
    small = reduce_system(system)
    found = call_apart(find_shared_values, small.system, 20)
    if not truth:
        assert found.status is SolverStatus.INFEASIBLE, seed
        groups, sure = call_apart(find_irreducible, system, 20)
        kept = [rows[k] for k in groups]
        grid = list(product(*(range(top + 1) for top in upper)))
        assert sure
        assert not any(fits(kept, z) for z in grid), seed
        for left_out in kept:
            assert any(fits([r for r in kept if r is not left_out], z) for z in grid), seed
        return
    assert found.solution is not None
    assert found.common is not None
    assert tuple(small.spread(found.solution).tolist()) in truth, seed
    assert found.unique == (len(truth) == 1), seed
    least = np.array(truth).min(axis=0)
    assert found.common.tolist() == least[small.kept].tolist(), seed


@pytest.mark.parametrize("seed", range(20))
def test_what_all_solutions_share_is_what_enumeration_says(seed: int) -> None:
    compare(seed)


@pytest.mark.soak
def test_what_all_solutions_share_for_fresh_seeds() -> None:
    start = random.SystemRandom().randrange(10**9)
    for seed in range(start, start + 400):
        compare(seed)
