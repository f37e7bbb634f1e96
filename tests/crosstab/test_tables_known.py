"""Known answers about published tables: sdcTable's linked example, and the business tables of rtauargus."""

from __future__ import annotations

import csv
import json
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from tests.support.third_party import folder

from keyhole.api.table_repair import TableRepair, write_protected_tables
from keyhole.api.tables import judge, read_tables, tables
from keyhole.auditing.advice.withhold import withhold
from keyhole.checker.replay import Outcome, replay
from keyhole.crosstab.options import TableOptions
from keyhole.report.tables import TablesVerdict

HERE = Path(__file__).parent
TOWNS, SIZES = HERE / "towns.csv", HERE / "sizes.csv"
BOTH = {"value": "n", "nested": ["town:county", "town:size"]}


def known(found: TablesVerdict) -> dict[str, tuple[Decimal | None, Decimal | None]]:
    return {case.who: (case.lo, case.hi) for case in (*found, *found.ranges)}


def replayed(found: TablesVerdict, where: Path) -> int:
    """How many proofs the independent checker accepts; all, or the test fails."""
    data = where / "cells.csv"
    data.write_text(found.hidden.csv(found.hidden.publication.truth), encoding="utf-8")
    checked = replay(found.dumps(), data)
    assert {c.outcome for c in checked.checked} == {Outcome.HOLDS}, [c for c in checked.checked if c.why]
    complete = json.loads(found.dumps())["complete"]  # that the other cells are open is not replayed
    assert checked.exit_code == (3 if complete else 0)
    return len(checked.checked)


@pytest.mark.parametrize(("files", "nested"), [([TOWNS], ["town:county"]), ([SIZES], ["town:size"])])
def test_each_linked_table_alone_keeps_its_cells(files: list[Path], nested: list[str]) -> None:
    found = tables(files, value="n", suppressed=["x"], nested=nested)
    assert (list(found), found.exit_code) == ([], 0)


def test_both_linked_tables_give_one_cell_away(tmp_path: Path) -> None:
    found = tables([TOWNS, SIZES], suppressed=["x"], **BOTH)
    assert [(case.who, case.value) for case in found] == [("town K", 3)]
    assert known(found) == {
        "town K": (3, 3), "town A": (0, 4), "town B": (0, 4), "town L": (0, 6), "town M": (0, 6),
    }  # fmt: skip
    assert (found.complete, found.exit_code) == (True, 1)
    assert "town K = county 2 - size big - town N\n  16 - 6 - 7 = 3" in found.text()
    assert replayed(found, tmp_path) == 5


@pytest.mark.parametrize("knowledge", [{"suppressed": ["x=1..3"]}, {"suppressed": ["x"], "rule": ["N<=3"]}])
def test_the_rule_is_knowledge_and_gives_two_more_away(knowledge: dict[str, list[str]], tmp_path: Path) -> None:
    found = tables([TOWNS, SIZES], **BOTH, **knowledge)
    assert {case.who: case.value for case in found.exposed} == {"town K": 3, "town L": 3, "town M": 3}
    ranges = {who: ends for who, ends in known(found).items() if who in ("town A", "town B")}
    assert ranges in ({}, {"town A": (1, 3), "town B": (1, 3)})  # 1..3 was declared, or follows
    assert replayed(found, tmp_path) >= 3


def business(**options: object) -> TablesVerdict:
    data = folder("business")
    files = [data / "turnover_act_cj.csv", data / "turnover_act_size.csv"]
    nested = [f"ACTIVITY:{HERE / 'nace.csv'}"]
    return tables(files, value="TOT", count="N_OBS", largest="MAX", nested=nested, **options)


def test_business_tables_give_away_106_of_126_cells(tmp_path: Path) -> None:
    found = business(rule=["N<3", "dominance 85%"])
    publication = found.hidden.publication
    assert (len(publication.cells), len(publication.lines), publication.misfits) == (707, 428, ())
    by_rule = {str(r): sum(s.rule == r for s in found.sensitive) for r in found.rules}
    assert by_rule == {"N<3": 82, "dominance 1,85%": 111}
    assert (found.hidden.published, len(found.exposed), found.complete) == (126, 106, True)
    truth = publication.truth
    assert all(truth[found.cell(case)] == case.value for case in found.exposed)
    assert replayed(found, tmp_path) == 126


def read_lines(nace: dict[str, list[str]], cells: dict[tuple[str, str, str], float | None]) -> list[list[Any]]:
    """The sums that written tables say, from their files and the codes alone: a whole, then its parts."""
    found = []
    for table, act, other in cells:
        children = [(table, child, other) for child in nace.get(act, ()) if (table, child, other) in cells]
        if children:
            found.append([(table, act, other), *children])
        if other == "Total":
            found.append([(table, act, other), *(c for c in cells if c[:2] == (table, act) and c[2] != "Total")])
    both = [key for key in cells if key[0] == "cj" and key[2] == "Total" and ("size", *key[1:]) in cells]
    return [*found, *([key, ("size", *key[1:])] for key in both)]


def test_business_tables_are_protected_as_they_are_written(tmp_path: Path) -> None:
    """From the files alone, by linear programs of its own: every firm's range reaches as far as the rule needs."""
    data = folder("business")
    sources = {"cj": data / "turnover_act_cj.csv", "size": data / "turnover_act_size.csv"}
    rules = ["N<3", "dominance 85%"]
    nested = [f"ACTIVITY:{HERE / 'nace.csv'}"]
    words = TableOptions("TOT", nested=nested, rule=rules, count="N_OBS", largest="MAX")
    drawn = read_tables(list(sources.values()), words)
    repair = TableRepair(drawn, judge(drawn))
    remedy = repair.show_what_follows(withhold(repair.proofs, seconds=10))
    assert 0 < remedy.bound <= len(remedy.units)
    written = write_protected_tables(drawn, repair.suggest(remedy), words, tmp_path / "p.csv")
    assert not written.after.unprotected
    assert not list(written.after)
    assert written.after.exit_code in (0, 3), "3: on a busy machine the search for second tables may end too early"
    cells: dict[tuple[str, str, str], float | None] = {}
    needs: dict[tuple[str, str, str], float] = {}
    for (name, source), file in zip(sources.items(), written.files, strict=True):
        shown = list(csv.reader(file.read_text().splitlines()))
        assert [len(shown[0]), shown[0][-1]] == [3, "TOT"]
        cells |= {(name, a, o): None if n == "x" else float(n) for a, o, n in shown[1:]}
        for row in csv.DictReader(source.read_text().splitlines()):
            key = (name, row["ACTIVITY"], row["CJ" if name == "cj" else "SIZE"])
            if 0 < int(row["N_OBS"]) < 3 or float(row["MAX"]) > 0.85 * float(row["TOT"]) > 0:
                assert cells[key] is None, key
                needs[key] = float(row["MAX"]) / 0.85 if float(row["MAX"]) > 0.85 * float(row["TOT"]) else 0.0
    nace: dict[str, list[str]] = {}
    for levels in csv.reader((HERE / "nace.csv").read_text().splitlines()[1:]):
        for below, above in pairwise(levels):
            if below != above and below not in nace.setdefault(above, []):
                nace[above].append(below)
    hidden = {key: k for k, key in enumerate(key for key, n in cells.items() if n is None)}
    rows, right = [], []
    for whole, *parts in read_lines(nace, cells):
        row, rest = np.zeros(len(hidden)), 0.0
        for key, sign in [(whole, -1), *((part, 1) for part in parts)]:
            if key in hidden:
                row[hidden[key]] += sign
            else:
                rest -= sign * float(cells[key] or 0)
        if row.any():
            rows.append(row)
            right.append(rest)
    for key, most in needs.items():
        aim = np.zeros(len(hidden))
        aim[hidden[key]] = -1
        top = linprog(aim, A_eq=np.array(rows), b_eq=right, bounds=(0, None), method="highs")
        low = linprog(-aim, A_eq=np.array(rows), b_eq=right, bounds=(0, None), method="highs")
        assert top.status == 3 or -top.fun >= most - 1e-3, key  # 3: without bound
        assert low.status == 0
        assert top.status == 3 or -top.fun > low.fun + 1e-3, key
