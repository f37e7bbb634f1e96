"""The twin of hierarchies, partial tables, rounding and several markers: all tables of people are enumerated.

Four towns lie in two counties; people have a sex. Random tables of them are published, some with rows left out, some
cells hidden under one of two markers, numbers rounded or not. It shares nothing with the code: it starts from people.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from keyhole.api.table_repair import TableRepair
from keyhole.api.tables import judge, read_tables, tables
from keyhole.crosstab.options import TableOptions

COUNTY = {"A": "1", "B": "1", "C": "2", "D": "2"}
BASE = list(product("ABCD", "fm"))
SHAPES = (("county", "town"), ("county", "town", "sex"), ("county", "sex"), ("sex",), ("county",))
Cell = tuple[tuple[str, str], ...]  # the categories that it has, without totals
World = dict[tuple[str, str], int]


@dataclass(frozen=True)
class Publication:
    """What is shown: the number (rounded to `step`, if it is not 0) or the marker of each cell; what markers mean."""

    shown: dict[Cell, int | str]
    step: int
    ends: dict[str, tuple[int, int]]

    def fits(self, world: World) -> bool:
        cells = {cell: count(world, cell) for cell in self.shown}
        return all(self._fits(cells[cell], told) for cell, told in self.shown.items())

    def _fits(self, n: int, told: int | str) -> bool:
        if isinstance(told, str):
            return self.ends[told][0] <= n <= self.ends[told][1]
        return 2 * abs(n - told) <= self.step


def count(world: World, cell: Cell) -> int:
    held = dict(cell)

    def inside(town: str, sex: str) -> bool:
        own = {"town": town, "county": COUNTY[town], "sex": sex}
        return all(own[column] == category for column, category in held.items())

    return sum(n for (town, sex), n in world.items() if inside(town, sex))


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        yield from ((first, *rest) for rest in compositions(total - first, parts - 1))


def rows_of(shape: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """The rows of a table with all margins; a town stands with its county."""
    options = {"county": ("1", "2", "Total"), "town": ("A", "B", "C", "D", "Total"), "sex": ("f", "m", "Total")}
    for categories in product(*(options[column] for column in shape)):
        row = dict(zip(shape, categories, strict=True))
        if row.get("town", "Total") == "Total" or row["county"] == COUNTY[row["town"]]:
            yield row


def cell_of(row: dict[str, str]) -> Cell:
    held = {column: category for column, category in row.items() if category != "Total"}
    if "town" in held:
        held.pop("county", None)
    return tuple(sorted(held.items()))


def published(rng: random.Random, folder: Path) -> tuple[list[Path], Publication]:
    world = dict.fromkeys(BASE, 0)
    for _ in range(rng.randint(1, 5)):
        world[rng.choice(BASE)] += 1
    step = rng.choice((0, 0, 2, 3))
    ends = {"x": (0, 99), "y": rng.choice(((0, 99), (0, 2), (1, 3)))}
    chosen = [("county", "town"), *rng.sample(SHAPES[1:], rng.randint(0, 2))]
    without = rng.choice((None, None, "C", "D"))  # a town whose sexes no table shows
    shown: dict[Cell, int | str] = {}
    files = []
    for at, shape in enumerate(chosen):
        lines = [",".join((*shape, "n"))]
        for row in rows_of(shape):
            if "sex" in row and row.get("town") == without and without and row["sex"] != "Total":
                continue
            cell = cell_of(row)
            if cell not in shown:
                n = count(world, cell)
                marker = "y" if ends["y"][0] <= n <= ends["y"][1] and rng.random() < 0.4 else "x"
                hide = rng.random() < 0.45 and cell
                shown[cell] = marker if hide else n if not step else step * round(n / step)
            lines.append(",".join((*row.values(), str(shown[cell]))))
        files.append(folder / f"{at}.csv")
        files[-1].write_text("\n".join([*lines, ""]))
    return files, Publication(shown, step, ends)


def compare(seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    files, told = published(rng, folder)
    lo, hi = told.ends["y"]
    marked = ["x", "y" if hi == 99 else f"y={lo}..{hi}"]
    found = tables(files, value="n", suppressed=marked, nested=["town:county"], rounding=told.step)
    total = told.shown[()]
    assert isinstance(total, int)
    room = told.step // 2
    sizes = range(max(0, total - room), total + room + 1)
    worlds = [dict(zip(BASE, c, strict=True)) for n in sizes for c in compositions(n, len(BASE))]
    worlds = [world for world in worlds if told.fits(world)]
    assert worlds, seed
    assert not found.contradictions, (seed, found.contradictions)
    cases = {found.cell(case): case for case in (*found, *found.ranges)}
    exposed = {found.cell(case) for case in found.exposed}
    for cell, marker in told.shown.items():
        if not isinstance(marker, str):
            continue
        values = {count(world, cell) for world in worlds}
        case = cases.get(frozenset(cell))
        if case is not None:
            low, high = (case.value, case.value) if case.lo is None and case.value is not None else (case.lo, case.hi)
            assert low is None or low <= min(values), (seed, cell)
            assert high is None or max(values) <= high, (seed, cell)
            if found.complete and case.tight:
                assert (low, high) == (min(values), max(values)), (seed, cell, low, high, values)
        assert (frozenset(cell) in exposed) <= (len(values) == 1), (seed, cell)
        if found.complete and found.verdict is not None:
            assert (len(values) == 1) <= (frozenset(cell) in exposed), (seed, cell, values)
    if found.exit_code == 0:
        assert all(len({count(w, c) for w in worlds}) > 1 for c, m in told.shown.items() if isinstance(m, str)), seed


@pytest.mark.parametrize("seed", range(8))
def test_hierarchies_and_rounding_as_enumeration_says(seed: int, tmp_path: Path) -> None:
    compare(seed, tmp_path)


@pytest.mark.soak
def test_hierarchies_and_rounding_as_enumeration_says_for_fresh_seeds(tmp_path: Path) -> None:
    start = random.SystemRandom().randrange(10**9)
    for seed in range(start, start + 150):
        compare(seed, tmp_path)


def repaired(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """With what is suggested hidden, too, every cell that was hidden before has several numbers. Is there a remedy?"""
    files, told = published(random.Random(seed), folder)
    lo, hi = told.ends["y"]
    marked = ["x", "y" if hi == 99 else f"y={lo}..{hi}"]
    drawn = read_tables(files, TableOptions("n", suppressed=marked, nested=["town:county"], rounding=told.step))
    for name in ("_coarser", "_rounded"):  # other ways are not asked for
        monkeypatch.setattr(TableRepair, name, lambda _: iter(()))
    found = TableRepair(drawn, judge(drawn), time_limit=15).suggestion()
    if not found.verified:
        assert found.remedy.hopeless, seed
        return False
    gone = {tuple(sorted(key)) for key in found.cells}
    left = Publication({cell: n for cell, n in told.shown.items() if cell not in gone}, told.step, told.ends)
    total = told.shown[()]
    assert isinstance(total, int)
    room = told.step // 2 + (2 if () in gone else 0)
    sizes = range(max(0, total - room), total + room + 1)
    worlds = [dict(zip(BASE, c, strict=True)) for n in sizes for c in compositions(n, len(BASE))]
    worlds = [world for world in worlds if left.fits(world)]
    for cell, marker in told.shown.items():
        if isinstance(marker, str) and found.after.complete:
            assert len({count(world, cell) for world in worlds}) > 1, (seed, cell)
    return True


@pytest.mark.parametrize("seed", [5013])  # cells that are suppressed besides are recovered: no harm
def test_suggestions_protect_as_enumeration_says(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert repaired(seed, tmp_path, monkeypatch)


@pytest.mark.soak
def test_suggestions_protect_for_fresh_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = random.SystemRandom().randrange(10**9)
    assert sum(repaired(seed, tmp_path, monkeypatch) for seed in range(start, start + 40)) > 0
