"""Known answers about published tables: sdcTable's linked example, and the business tables of rtauargus."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from tests.support.third_party import folder

from keyhole.api.tables import tables
from keyhole.checker.replay import replay
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
    assert checked.exit_code == 0, [c for c in checked.checked if c.why]
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
