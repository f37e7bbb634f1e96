"""Rounded tables: ranges as narrow as the numbers make them, an all-clear only where rounding was said, slips named.

The twin enumerates all tables of whole numbers that round to the numbers shown (halves either way).
"""

from __future__ import annotations

import contextlib
import json
import random
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
from click.testing import Result
from tests.support.commands import call_command

from keyhole.api.tables import tables

ONE = "region,n\nA,2\nB,2\nC,10\nD,9\nTotal,23\n"
ZERO = "region,n\nA,x\nB,x\nC,0\nTotal,0\n"
TENS = "region,n\nA,x\nB,x\nC,10\nD,10\nTotal,30\n"
GIVEN = "region,n\nA,x\nB,7\nC,10\nD,10\nTotal,30\n"
SLIP = "region,sex,n\nA,f,x\nA,m,5\nB,f,x\nB,m,7\nA,Total,9\nB,Total,15\nTotal,m,14\nTotal,f,10\nTotal,Total,24\n"


def run(folder: Path, text: str, *options: str) -> Result:
    (folder / "t.csv").write_text(text)
    with contextlib.chdir(folder):
        return call_command("tables", "t.csv", "--value", "n", *options)


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (
            ONE,
            ("--rule", "N<3", "--rounding", "1"),
            0,
        ),  # 2 and 2 of 23 - 10 - 9, each off by half: [2.5, 5.5] less a half
        (ZERO, ("--suppressed", "x=2..9", "--rounding", "10", "--within", "2"), 1),  # both are 2 or 3
        (ZERO, ("--suppressed", "x=2.5..9", "--rounding", "10"), 3),
        (TENS, ("--suppressed", "x", "--rounding", "10"), 0),
        (TENS, ("--suppressed", "x=1..3", "--rounding", "10"), 0),
        (GIVEN, ("--suppressed", "x", "--rounding", "1"), 1),
        (GIVEN, ("--suppressed", "x", "--rounding", "1", "--within", "3"), 0),  # [1, 5] is wider
        (GIVEN, ("--suppressed", "x", "--rounding", "1", "--within", "4"), 1),
        (SLIP, ("--suppressed", "x"), 1),
        (GIVEN, ("--suppressed", "x", "--rounding", "10"), 2),
    ],
)
def test_exit_codes_over_rounded_numbers(tmp_path: Path, text: str, options: tuple[str, ...], code: int) -> None:
    assert run(tmp_path, text, *options).exit_code == code


def test_a_slip_is_named_and_no_all_clear(tmp_path: Path) -> None:
    """That a margin is off by 2 looks like rounding; which one, and by how much, is said, and it is never an exit 0."""
    open_ = SLIP.replace("A,Total,9", "A,Total,x").replace("B,Total,15", "B,Total,x").replace("A,m,5", "A,m,x")
    found = run(tmp_path, open_.replace("Total,f,10", "Total,f,9").replace("B,m,7", "B,m,x"), "--suppressed", "x")
    assert found.exit_code == 3
    assert "Numbers are taken as rounded to 1, as their digits show" in found.output
    assert "taken for rounding: the grand total is 1 more than its 2 cells by sex add up to" in found.output
    assert "read off margins that do not add up to the last digit" in " ".join(found.output.split())


def test_what_was_said_is_repeated_not_what_digits_show(tmp_path: Path) -> None:
    found = run(tmp_path, TENS, "--suppressed", "x", "--rounding", "10")
    assert "Numbers are rounded to 10, as --rounding says, halves either way." in found.output
    assert "region A: lies in [0, 25]" in found.output
    assert "digits show" not in found.output


def test_a_number_that_is_no_multiple_of_the_step_is_an_error(tmp_path: Path) -> None:
    found = run(tmp_path, GIVEN, "--suppressed", "x", "--rounding", "10")
    assert "t.csv, line 3 shows 7 for region B, which is no multiple of it" in " ".join(found.output.split())


def test_tables_with_digits_of_their_own(tmp_path: Path) -> None:
    """A table in whole units beside one with a decimal: 12 is within half a unit, not a twentieth."""
    (tmp_path / "a.csv").write_text("town,n\nA,12.3\nB,x\nC,4.1\nTotal,20.6\n")
    (tmp_path / "b.csv").write_text("town,size,n\nA,s,x\nA,l,5\nA,Total,12\nTotal,Total,21\n")
    found = tables([tmp_path / "a.csv", tmp_path / "b.csv"], value="n", suppressed=["x"])
    assert not found.contradictions
    ranges = {case.who: (case.lo, case.hi) for case in found}
    assert ranges["town B"] == (Fraction("4.05"), Fraction("4.35"))
    assert ranges["size s, town A"] == (Fraction("6.75"), Fraction("7.85"))


def test_two_tables_that_round_one_number_differently_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("town,n\nA,10\nB,x\nTotal,40\n")
    (tmp_path / "b.csv").write_text("town,n\nA,20\nB,x\nTotal,40\n")
    found = tables([tmp_path / "a.csv", tmp_path / "b.csv"], value="n", suppressed=["x"], rounding=10)
    assert any("town A is 10 in a.csv, line 2, and 20 in b.csv, line 2" in reason for reason in found.contradictions)
    assert found.exit_code != 0


Grid = dict[tuple[str, str], int]
BASE = list(product(("a", "b"), ("c", "d")))


def with_margins(cells: Grid) -> Grid:
    found: Grid = {}
    for (row, column), n in cells.items():
        for key in product((row, "Total"), (column, "Total")):
            found[key] = found.get(key, 0) + n
    return found


def compare(seed: int, folder: Path) -> None:
    """Every hidden cell's least and largest number over all tables that round to what is shown, against the verdict."""
    rng = random.Random(seed)
    step = rng.choice((2, 3, 5))
    truth = with_margins({key: rng.randint(0, 5) for key in BASE})
    shown = {
        key: None if rng.random() < 0.45 and key != ("Total", "Total") else step * round(n / step)
        for key, n in truth.items()
    }
    rows = [f"{a},{b},{'x' if n is None else n}" for (a, b), n in shown.items()]
    (folder / "t.csv").write_text("\n".join(["A,B,n", *rows, ""]))
    ends = rng.choice(("x", "x=0..4", "x=1.."))
    lo, _, hi = ends.partition("=")[2].partition("..")
    found = tables([folder / "t.csv"], value="n", suppressed=[ends], rounding=step)
    top = (shown["Total", "Total"] or 0) + step
    worlds = []
    for counts in product(range(top + 1), repeat=4):
        if sum(counts) <= top:
            cells = with_margins(dict(zip(BASE, counts, strict=True)))
            if all(_fits(cells[key], n, step, int(lo or 0), int(hi or top)) for key, n in shown.items()):
                worlds.append(cells)
    if not worlds:  # the declared range is not true of this table
        assert found.exit_code != 0
        return
    cases = {found.cell(case): case for case in (*found, *found.ranges)}
    for key, n in shown.items():
        if n is None:
            name = frozenset((c, v) for c, v in zip("AB", key, strict=True) if v != "Total")
            values = {world[key] for world in worlds}
            case = cases.get(name)
            assert case is None or (case.lo, case.hi) == (min(values), max(values)), (seed, name)
            if case is None:  # nothing narrower than what was known follows
                assert min(values) <= int(lo or 0), (seed, name)
                assert not hi or max(values) >= int(hi), (seed, name)
            if found.exit_code == 0:
                assert len(values) > 1, (seed, name)
    assert found.complete or not found.hidden.published or found.verdict is None, (seed, found.gap)


def _fits(n: int, shown: int | None, step: int, lo: int, hi: int) -> bool:
    return lo <= n <= hi if shown is None else 2 * abs(n - shown) <= step


@pytest.mark.parametrize("seed", range(6))
def test_ranges_are_those_of_all_tables(seed: int, tmp_path: Path) -> None:
    compare(seed, tmp_path)


@pytest.mark.soak
def test_ranges_are_those_of_all_tables_for_fresh_seeds(tmp_path: Path) -> None:
    start = random.SystemRandom().randrange(10**9)
    for seed in range(start, start + 200):
        compare(seed, tmp_path)


def test_proofs_over_rounded_numbers_are_replayed(tmp_path: Path) -> None:
    run(
        tmp_path,
        GIVEN,
        "--suppressed",
        "x",
        "--rounding",
        "1",
        "--format",
        "json",
        "--out",
        "v.json",
        "--cells",
        "c.csv",
    )
    data = json.loads((tmp_path / "v.json").read_text())
    assert [(i["lo"], i["hi"], i["status"]) for i in data["intervals"]] == [(1, 5, "inferred")]
    assert (data["rounding"], data["rounding_given"]) == (1, True)
    with contextlib.chdir(tmp_path):
        done = call_command("verify", "v.json", "--data", "c.csv")
    assert (done.exit_code, done.output.splitlines()[0]) == (3, "1 of 1 proof replayed: 1 holds, 0 fails.")
    assert "the other cells of published tables" in done.output


def test_a_step_that_changes_nothing_is_not_offered(tmp_path: Path) -> None:
    assert "multiple of 1:" not in run(tmp_path, ONE, "--rule", "N<3", "--suggest").stdout
