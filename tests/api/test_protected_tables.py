"""Tables as they may be published: marked alike, audited as written, and what knowing the rule adds.

The twin starts from the files that were written and enumerates all tables with the numbers they show.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from tests.support.commands import call_command

from keyhole.api.table_repair import TableRepair, write_protected_tables, write_rounded_tables
from keyhole.api.tables import judge, read_tables, tables
from keyhole.auditing.advice.withhold import withhold
from keyhole.crosstab.cells import Key, TableLayout, read_cells
from keyhole.crosstab.hidden import HiddenCells, find_narrow_cells
from keyhole.crosstab.nesting import Nesting
from keyhole.crosstab.options import TableOptions
from keyhole.crosstab.publication import combine_tables
from keyhole.crosstab.sheet import read_sheet
from keyhole.errors import ConfigError
from keyhole.solve.disclosure_control import Circuit, round_adjacent

HERE = Path(__file__).parents[1] / "crosstab"
A, B = ("a1", "a2", "a3"), ("b1", "b2")
Grid = dict[tuple[str, str], int]
Shown = dict[tuple[str, str], int | None]


def with_margins(cells: Grid) -> Grid:
    found: Grid = {}
    for (row, column), n in cells.items():
        for key in product((row, "Total"), (column, "Total")):
            found[key] = found.get(key, 0) + n
    return found


def write_grid(file: Path, shown: Shown) -> Path:
    rows = [f"{a},{b},{'x' if n is None else n}" for (a, b), n in shown.items()]
    file.write_text("\n".join(["a,b,n", *rows, ""]))
    return file


def read_grid(file: Path) -> Shown:
    with file.open(newline="") as text:
        head, *rows = csv.reader(text)
    assert head == ["a", "b", "n"]
    return {(a, b): None if n == "x" else int(n) for a, b, n in rows}


def worlds_of(shown: Shown) -> list[Grid]:
    """All tables of counts with the numbers shown; the grand total bounds what is hidden."""
    top = shown["Total", "Total"]
    assert top is not None
    found = []
    for counts in product(range(top + 1), repeat=len(A) * len(B)):
        if sum(counts) == top:
            cells = with_margins(dict(zip(product(A, B), counts, strict=True)))
            if all(n is None or cells[key] == n for key, n in shown.items()):
                found.append(cells)
    return found


def groups_of(shown: Shown) -> Iterator[set[tuple[str, str]]]:
    """Hidden cells that rows and columns tie together."""
    left = {key for key, n in shown.items() if n is None}
    while left:
        group = {left.pop()}
        while more := {key for key in left for other in group if key[0] == other[0] or key[1] == other[1]}:
            group |= more
            left -= more
        yield group


def know_rule(worlds: Sequence[Grid], shown: Shown, limit: int) -> list[Grid]:
    """Those in which each group of hidden cells has one that fails N < limit."""
    groups = list(groups_of(shown))
    return [w for w in worlds if all(any(0 < w[key] < limit for key in group) for group in groups)]


def make_grid(rng: random.Random) -> Grid:
    while True:
        cells = {key: rng.choice((0, 1, 1, 2, 3)) for key in product(A, B)}
        if 3 <= sum(cells.values()) <= 8:
            return with_margins(cells)


def values_of(worlds: Sequence[Grid], key: tuple[str, str]) -> set[int]:
    return {world[key] for world in worlds}


def protect(seed: int, folder: Path) -> bool:
    """A table protected against N < limit, written, and enumerated. False: no suppression can protect it."""
    rng = random.Random(seed)
    truth, limit = make_grid(rng), rng.choice((2, 3))
    words = TableOptions("n", rule=[f"N<{limit}"])
    drawn = read_tables([write_grid(folder / "t.csv", dict(truth))], words)
    if not drawn.sensitive:
        return False
    repair = TableRepair(drawn, judge(drawn), time_limit=30).suggestion()
    if not repair.verified or not repair.after.complete:
        assert repair.remedy.hopeless or not repair.remedy.enough or repair.remedy.units, seed
        return False
    written = write_protected_tables(drawn, repair, words, folder / "protected.csv")
    shown = read_grid(folder / "protected.csv")
    assert written.after.exit_code == 0, seed
    assert all(n is None or n == truth[key] for key, n in shown.items()), seed
    primary = {key for key, n in truth.items() if 0 < n < limit}
    assert all(shown[key] is None for key in primary), seed
    if shown["Total", "Total"] is None:
        return True  # too many tables to enumerate
    worlds = worlds_of(shown)
    assert truth in worlds
    for key in primary:
        assert len(values_of(worlds, key)) > 1, (seed, key)
        assert len(values_of(know_rule(worlds, shown, limit), key)) > 1, (seed, key, "who knows the rule")
    return True


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_what_is_written_keeps_its_cells_as_enumeration_says(seed: int, tmp_path: Path) -> None:
    protect(seed, tmp_path)


def add_rule(seed: int, folder: Path) -> int:
    """What follows for somebody who knows the rule, against all tables; how many cells that are."""
    rng = random.Random(seed)
    truth, limit = make_grid(rng), rng.choice((2, 2, 3))
    failing = [key for key, n in truth.items() if 0 < n < limit and "Total" not in key]
    others = [key for key in truth if key not in failing and key != ("Total", "Total")]
    hidden = {*failing, *rng.sample(others, rng.randint(0, 4))}
    shown: Shown = {key: None if key in hidden else n for key, n in truth.items()}
    found = tables([write_grid(folder / "t.csv", shown)], value="n", suppressed=["x=0.."], rule=[f"N<{limit}"])
    worlds = worlds_of(shown)
    knowing = know_rule(worlds, shown, limit)
    follow = {
        key: values_of(knowing, key)
        for key, n in shown.items()
        if n is None and len(values_of(worlds, key)) > 1 and len(values_of(knowing, key)) == 1
    }
    told = {frozenset(cell): int(value) for cell, value in found.by_rule}
    if knowing and not found.unknown_by_rule:
        expected = {
            frozenset((c, v) for c, v in zip("ab", key, strict=True) if v != "Total"): values.pop()
            for key, values in follow.items()
        }
        assert told == expected, seed
    assert not told or found.exit_code == 1, seed
    return len(told)


@pytest.mark.parametrize("seed", range(3))
def test_what_knowing_the_rule_adds_as_enumeration_says(seed: int, tmp_path: Path) -> None:
    add_rule(seed, tmp_path)


@pytest.mark.soak
def test_protected_tables_for_fresh_seeds(tmp_path: Path) -> None:
    start = random.SystemRandom().randrange(10**9)
    assert sum(protect(seed, tmp_path) for seed in range(start, start + 40)) > 0
    assert sum(add_rule(seed, tmp_path) for seed in range(start, start + 150)) > 0


def test_two_cells_of_one_person_each_follow_from_the_rule(tmp_path: Path) -> None:
    """Two cells with 2 together: under N < 2 one of them is 1, so both are. A mark on each would tell more yet."""
    file = tmp_path / "t.csv"
    file.write_text("town,n\nA,x\nB,x\nC,5\nD,6\nTotal,13\n")
    found = tables([file], value="n", suppressed=["x=0.."], rule=["N<2"])
    assert [(dict(cell), int(value)) for cell, value in found.by_rule] == [({"town": "A"}, 1), ({"town": "B"}, 1)]
    assert (list(found), found.exit_code) == ([], 1)
    assert "2 more follow for somebody who knows the rule" in found.text()
    assert next((each["cell"], each["value"]) for each in found.to_json()["by_rule"]) == ({"town": "A"}, 1)
    assert not tables([file], value="n", suppressed=["x=0.."], rule=["N<3"]).by_rule  # 2 and 0 is possible, too
    words = TableOptions("n", suppressed=["x=0.."], rule=["N<2"])
    drawn = read_tables([file], words)
    repair = TableRepair(drawn, judge(drawn)).suggestion()
    assert (len(repair.cells), repair.remedy.smallest, repair.verified) == (1, True, True)


SMALL = ("a1", "a2"), ("b1", "b2")
WIDE = 13  # numbers of a cell that are enumerated; whatever reaches the last of them is taken for unbounded


def protect_range(seed: int, folder: Path) -> None:
    """As few cells as brute force says leave two cells the ranges that they need, and every bound on them is true."""
    rng = random.Random(seed)
    keys = list(product((*SMALL[0], "Total"), (*SMALL[1], "Total")))
    inner = np.array(list(product(range(WIDE), repeat=4))).reshape(-1, 2, 2)
    worlds = np.concatenate([inner, inner.sum(axis=1, keepdims=True)], axis=1)
    worlds = np.concatenate([worlds, worlds.sum(axis=2, keepdims=True)], axis=2).reshape(len(inner), 9)
    truth = worlds[rng.choice(np.flatnonzero(inner.reshape(-1, 4).max(axis=1) <= 4).tolist())]
    primary = rng.sample([0, 1, 3, 4], rng.randint(1, 2))
    needs = {k: (max(0, int(truth[k]) - rng.randint(0, 2)), int(truth[k]) + rng.randint(1, 3)) for k in primary}

    def protects(gone: Sequence[int]) -> bool:
        shown = [k for k in range(9) if k not in primary and k not in gone]
        left = worlds[(worlds[:, shown] == truth[shown]).all(axis=1)]
        return all(left[:, k].min() <= lo and left[:, k].max() >= hi for k, (lo, hi) in needs.items())

    others = [k for k in range(9) if k not in primary]
    least = next(n for n in range(9) if any(map(protects, combinations(others, n))))
    file = folder / "t.csv"
    rows = [f"{a},{b},{truth[k]}" for k, (a, b) in enumerate(keys)]
    file.write_text("\n".join(["a,b,n", *rows, ""]))
    names = [frozenset((c, v) for c, v in zip("ab", key, strict=True) if v != "Total") for key in keys]
    whole = combine_tables([read_cells(read_sheet(file), TableLayout("n"))], Nesting())
    wanted = {names[k]: (Fraction(lo), Fraction(hi)) for k, (lo, hi) in needs.items()}

    def expose(gone: frozenset[Key]) -> list[Circuit[Key]]:
        made = HiddenCells.of(whole.hiding({*gone, *wanted}, "x"), "n")
        return list(find_narrow_cells(made, wanted, Fraction(0)))

    for proof in expose(frozenset()):  # each bound on the cells to suppress is a true one
        for gone in combinations(others, 2):
            assert proof.broken({names[k] for k in gone}) or not protects(gone), seed
    found = withhold(expose, seconds=30)
    assert protects([names.index(key) for key in found.units]), seed
    assert (len(found.units), found.smallest) == (least, True), seed
    assert found.relaxed <= least + 1e-6


@pytest.mark.parametrize("seed", range(12))
def test_as_few_cells_protect_a_range_as_brute_force_says(seed: int, tmp_path: Path) -> None:
    protect_range(seed, tmp_path)


@pytest.mark.soak
def test_as_few_cells_protect_a_range_for_fresh_seeds(tmp_path: Path) -> None:
    start = random.SystemRandom().randrange(10**9)
    for seed in range(start, start + 200):
        protect_range(seed, tmp_path)


FIRMS = "town,n\n" + "".join(f"A,{v}\n" for v in (90, 6, 4)) + "B,3\nB,2\nB,1\nC,40\nC,30\nC,30\n"


def test_files_have_one_mark_and_no_column_that_tells_marks_apart(tmp_path: Path) -> None:
    """A fails dominance, B is suppressed besides: as written nobody can tell, the owner's file says it."""
    (tmp_path / "firms.csv").write_text(FIRMS)
    file = tmp_path / "t.csv"
    file.write_text("town,note,firms,n\nA,3,3,100\nB,4,3,6\nC,5,3,100\nTotal,6,9,206\n")
    public, owner = tmp_path / "protected.csv", tmp_path / "owner.csv"
    given = ("tables", str(file), "--value", "n", "--contributors", str(tmp_path / "firms.csv"), "--count", "firms")
    given += ("--rule", "dominance 75%", "--suggest", "--out", str(public), "--out-owner", str(owner))
    found = call_command(*given)
    assert found.exit_code == 0, found.output
    assert "Written to protected.csv, and audited again: 0 of 2 suppressed cells" in found.output
    assert public.read_text() == "town,n\nA,x\nB,6\nC,x\nTotal,206\n"
    head, first, second = list(csv.reader(owner.read_text().splitlines()))
    assert head == ["town", "number", "why", "least", "most"]
    assert first == ["A", "100", "dominance 1,75%", "0", "200"]  # as far as 120 was needed
    assert second == ["C", "100", "to protect others", "0", "200"]
    book = public.with_suffix(".xlsx")
    assert call_command(*given[:-4], "--out", str(book)).exit_code == 0
    again = tables([book], value="n", suppressed=["x"])
    assert (again.hidden.published, again.exit_code) == (2, 0)


def test_linked_tables_are_sheets_of_one_workbook_or_files(tmp_path: Path) -> None:
    files = [HERE / "towns.csv", HERE / "sizes.csv"]
    words = TableOptions("n", suppressed=["x"], nested=["town:county", "town:size"])
    drawn = read_tables(files, words)
    repair = TableRepair(drawn, judge(drawn)).suggestion()
    for name in ("p.csv", "p.xlsx"):
        written = write_protected_tables(drawn, repair, words, tmp_path / name)
        again = tables(written.files, value="n", suppressed=["x"], nested=words.nested)
        assert (again.hidden.published, list(again), again.exit_code) == (6, [], 0)
        assert len(again.hidden.publication.tables) == 2
    with pytest.raises(ConfigError, match=r"nothing was written to no.csv: .* 1 of 5 suppressed cells is recovered"):
        write_protected_tables(drawn, None, words, tmp_path / "no.csv")
    assert not (tmp_path / "no.csv").exists()
    wrong = call_command("tables", *map(str, files), "--value", "n", "--out-owner", str(tmp_path / "o.csv"))
    assert wrong.exit_code == 2


NACE = [("A", "AZ", "01"), ("A", "AZ", "02"), ("B", "BE", "05"), ("C", "BE", "10"), ("C", "BE", "11")]
CODED = "act,n\n01,x\n02,4\nA,x\nAZ,9\n05,3\nB,3\n10,x\n11,5\nC,8\nBE,11\nZ,7\nTotal,27\n"


def test_hierarchies_of_other_tools_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(CODED)
    (tmp_path / "h.csv").write_text("a88,a21,a10\n01,A,AZ\n02,A,AZ\n05,B,BE\n10,C,BE\n11,C,BE\nZ,Z,Z\n")
    tree = ["AZ", "@A", "@@01", "@@02", "BE", "@B", "@@05", "@C", "@@10", "@@11", "Z"]
    (tmp_path / "h.hrc").write_text("\n".join(tree))
    levels = ["@;Tot", *(f"@@{'@' * each.count('@')};{each.lstrip('@')}" for each in tree)]
    (tmp_path / "h.txt").write_text("\n".join(levels))
    (tmp_path / "named.csv").write_text("\n".join(["level;code", *levels]))
    said = {
        tables([tmp_path / "t.csv"], value="n", suppressed=["x"], nested=[f"act:{tmp_path / name}"]).text()
        for name in ("h.csv", "h.hrc", "h.txt", "named.csv")
    }
    assert len(said) == 1
    assert "act 10 = act C - act 11" in said.pop()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("AZ\n@@01\n", "line 2: '01': no code of the level above it"),
        ("AZ\n@A\n@A\n", "line 3: 'A': stands there twice"),
        ("AZ\n@\n", "line 2: '': no code"),
        ("AZ\n@A\n", r"act .* does not stand in h.hrc"),
    ],
)
def test_faults_of_a_hierarchy_are_said(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(CODED)
    (tmp_path / "h.hrc").write_text(text)
    with pytest.raises(Exception, match=message):
        tables([tmp_path / "t.csv"], value="n", suppressed=["x"], nested=[f"act:{tmp_path / 'h.hrc'}"])


def test_a_column_with_hundreds_of_texts_is_asked_about(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("town,remark,n\n" + "".join(f"t{k},r{k},{k}\n" for k in range(201)) + "Total,r,20100\n")
    with pytest.raises(ConfigError, match=r"town has 202 different texts. Is it a dimension\? If so, say --along town"):
        tables([file], value="n")
    assert tables([file], value="n", by=["town"], rule=["N<3"]).hidden.published == 2


def round_to(seed: int, folder: Path) -> bool:
    """Controlled rounding of a small table, and what enumeration says of its sensitive cells. False: refused."""
    rng = random.Random(seed)
    truth, limit, step = make_grid(rng), rng.choice((2, 3)), rng.choice((3, 5))
    words = TableOptions("n", rule=[f"N<{limit}"])
    drawn = read_tables([write_grid(folder / "t.csv", dict(truth))], words)
    failing = [key for key, n in truth.items() if 0 < n < limit]
    inner = [dict(zip(product(A, B), n, strict=True)) for n in product(range(4), repeat=6) if sum(n) <= 8 + 2 * step]

    def near(cells: Grid, rounded: Grid) -> bool:
        return all(abs(n - rounded[key]) < step and n >= 0 for key, n in cells.items())

    try:
        files = write_rounded_tables(drawn, words, Fraction(step), folder / "rounded.csv")
    except ConfigError:
        return False
    rounded = {key: int(n or 0) for key, n in read_grid(files[0]).items()}
    assert with_margins({key: rounded[key] for key in product(A, B)}) == rounded, seed
    assert all(n % step == 0 for n in rounded.values()), seed
    assert near(truth, rounded), seed
    assert all(rounded[key] == n for key, n in truth.items() if n % step == 0), seed
    worlds = [cells for cells in map(with_margins, inner) if near(cells, rounded)]  # some of all: it only needs two
    assert all(len(values_of(worlds, key)) > 1 for key in failing), seed
    return True


@pytest.mark.parametrize("seed", range(4))
def test_rounded_tables_add_up_and_keep_their_cells(seed: int, tmp_path: Path) -> None:
    round_to(seed, tmp_path)


@pytest.mark.soak
def test_rounded_tables_for_fresh_seeds(tmp_path: Path) -> None:
    start = random.SystemRandom().randrange(10**9)
    assert sum(round_to(seed, tmp_path) for seed in range(start, start + 100)) > 20


def test_rounding_is_written_by_the_command_and_refused_where_it_protects_too_little(tmp_path: Path) -> None:
    (tmp_path / "firms.csv").write_text(FIRMS)
    file, out = tmp_path / "t.csv", tmp_path / "r.csv"
    file.write_text("town,n\nA,100\nB,6\nC,101\nTotal,207\n")
    given = ("tables", str(file), "--value", "n", "--contributors", str(tmp_path / "firms.csv"), "--out", str(out))
    rule = ("--rule", "dominance 75%")  # A must reach 120
    found = call_command(*given, *rule, "--round-to", "50")
    assert found.exit_code == 0, found.output
    assert "every number is a multiple of 50 next to the true one, and every line adds up" in found.output
    assert out.read_text() == "town,n\nA,100\nB,0\nC,100\nTotal,200\n"
    out.unlink()
    small = call_command(*given, *rule, "--round-to", "7")
    assert (small.exit_code, out.exists()) == (2, False)
    assert "1 cells have a narrower range than their rule needs; take a larger step" in " ".join(small.output.split())
    assert call_command(*given, "--round-to", "50").exit_code == 2  # what is to be protected?
    assert call_command(*given, *rule, "--round-to", "50", "--suggest").exit_code == 2


@pytest.mark.parametrize("seed", range(6))
def test_adjacent_multiples_are_as_near_as_brute_force_says(seed: int) -> None:
    rng = random.Random(seed)
    step = Fraction(rng.choice((3, 5)))
    values = [Fraction(rng.randint(0, 9)) for _ in range(4)]
    values += [values[0] + values[1], values[2] + values[3], sum(values)]
    rows = [{0: 1, 1: 1, 4: -1}, {2: 1, 3: 1, 5: -1}, {4: 1, 5: 1, 6: -1}]
    found = round_adjacent(values, rows, step, 10)
    ends = [sorted({v // step * step, -(-v // step) * step}) for v in values]
    fits = [w for w in product(*ends) if all(sum(c * w[k] for k, c in row.items()) == 0 for row in rows)]
    least = min(sum(abs(a - b) for a, b in zip(w, values, strict=True)) for w in fits)
    assert found is not None
    assert tuple(found) in fits
    assert sum(abs((a or 0) - b) for a, b in zip(found, values, strict=True)) == least
