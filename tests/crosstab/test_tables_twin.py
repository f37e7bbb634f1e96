"""The twin of `keyhole tables`: all tables of people with the numbers shown are enumerated, and the cells looked up.

It shares nothing with the code: it starts from people, not from lines that add up.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from keyhole.api.tables import tables

People = dict[tuple[str, str, str], int]
BASE = list(product(("a1", "a2"), ("b1", "b2"), ("c1", "c2")))
COLUMNS = ("A", "B", "C")


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        yield from ((first, *rest) for rest in compositions(total - first, parts - 1))


def published(people: People, shape: str) -> dict[tuple[str, ...], int]:
    """A table by some columns, with all margins; a category of a column that is no dimension is the total."""
    found: dict[tuple[str, ...], int] = {}
    for at, n in people.items():
        options = [(v, "Total") if c in shape else ("Total",) for c, v in zip(COLUMNS, at, strict=True)]
        for key in product(*options):
            found[key] = found.get(key, 0) + n
    return found


def world(
    rng: random.Random, shapes: tuple[str, ...], folder: Path
) -> tuple[list[Path], dict[tuple[str, ...], int | None]]:
    """Random people, their tables in files with some cells suppressed, and all that is shown."""
    total = rng.randint(1, 5)
    people: People = dict.fromkeys(BASE, 0)
    for _ in range(total):
        people[rng.choice(BASE)] += 1
    shown: dict[tuple[str, ...], int | None] = {}
    share, files = rng.choice((0.2, 0.5, 0.8)), []
    for shape in shapes:
        cells = published(people, shape)
        file = folder / f"{shape}.csv"
        with file.open("w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow([*shape, "n"])
            for key, n in cells.items():
                if key not in shown:
                    hide = rng.random() < share and key != ("Total",) * 3
                    shown[key] = None if hide else n
                held = shown[key]
                writer.writerow(
                    [*(v for c, v in zip(COLUMNS, key, strict=True) if c in shape), "x" if held is None else held]
                )
        files.append(file)
    return files, shown


def enumerated(shown: dict[tuple[str, ...], int | None], shapes: tuple[str, ...]) -> dict[tuple[str, ...], set[int]]:
    """The values that each hidden cell has over all tables of people with the numbers shown."""
    total = shown["Total", "Total", "Total"]
    assert total is not None
    found: dict[tuple[str, ...], set[int]] = {key: set() for key, n in shown.items() if n is None}
    for counts in compositions(total, len(BASE)):
        people = dict(zip(BASE, counts, strict=True))
        cells: dict[tuple[str, ...], int] = {}
        for shape in shapes:
            cells |= published(people, shape)
        if all(n is None or cells[key] == n for key, n in shown.items()):
            for key, values in found.items():
                values.add(cells[key])
    return found


def compare(seed: int, shapes: tuple[str, ...], folder: Path) -> None:
    rng = random.Random(seed)
    files, shown = world(rng, shapes, folder)
    truth = enumerated(shown, shapes)
    found = tables(files, value="n", suppressed=["x"])
    assert found.hidden.published == len(truth)
    cases = {frozenset(found.cell(case)): case for case in (*found, *found.ranges)}
    exposed = {frozenset(found.cell(case)): case.value for case in found.exposed}
    for key, values in truth.items():
        name = frozenset((c, v) for c, v in zip(COLUMNS, key, strict=True) if v != "Total")
        if name in exposed:
            assert values == {exposed[name]}, (seed, name)
        elif found.complete:
            assert len(values) > 1, (seed, name)
        case = cases.get(name)
        lo, hi = (None, None) if case is None else (case.lo, case.hi)
        assert lo is None or lo <= min(values), (seed, name)
        assert hi is None or max(values) <= hi, (seed, name)
    if len(shapes) < 3 and truth:
        assert found.complete or not found.hidden.lines, (seed, found.gap)
    if found.exit_code == 0:
        assert all(len(values) > 1 for values in truth.values())


LINKED = [("AB",), ("AB", "AC"), ("AB", "C"), ("AB", "BC", "AC"), ("ABC",)]


@pytest.mark.parametrize("shapes", LINKED, ids="+".join)
@pytest.mark.parametrize("seed", [1, 2])
def test_as_enumeration_says(seed: int, shapes: tuple[str, ...], tmp_path: Path) -> None:
    compare(seed, shapes, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("shapes", LINKED, ids="+".join)
def test_as_enumeration_says_for_fresh_seeds(shapes: tuple[str, ...], tmp_path: Path) -> None:
    start = random.SystemRandom().randrange(10**9)
    for seed in range(start, start + 60):
        compare(seed, shapes, tmp_path)
