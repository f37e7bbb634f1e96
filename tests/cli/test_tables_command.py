"""`keyhole tables` as people call it: text, JSON that `keyhole verify` replays, exit codes, faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from tests.support.commands import call_command

from keyhole.api.table_repair import TableRepair
from keyhole.api.tables import judge, read_tables
from keyhole.cli.shared.advising import add_suggestion, suggestion_lines
from keyhole.crosstab.options import TableOptions

HERE = Path(__file__).parents[1] / "crosstab"
LINKED = [str(HERE / "towns.csv"), str(HERE / "sizes.csv"), "--value", "n", "--nested", "town:county"]
LINKED += ["--nested", "town:size", "--suppressed", "x"]


def test_a_cell_given_away_is_exit_1_with_its_sum() -> None:
    found = call_command("tables", *LINKED)
    assert found.exit_code == 1
    assert found.output.startswith("1 of 5 suppressed cells is recovered exactly from 2 tables (13 cells, 7 lines")
    assert "  16 - 6 - 7 = 3\n" in found.output


def test_what_it_writes_is_replayed_by_verify(tmp_path: Path) -> None:
    verdict, cells = tmp_path / "verdict.json", tmp_path / "cells.csv"
    assert (
        call_command("tables", *LINKED, "--format", "json", "--out", str(verdict), "--cells", str(cells)).exit_code == 1
    )
    data = json.loads(verdict.read_text())
    assert [(each["cell"], each["value"]) for each in data["exposed"]] == [({"town": "K"}, 3)]
    assert {"tables", "cells", "exposed", "inferred", "intervals", "contradictions"} <= data.keys()
    replayed = call_command("verify", str(verdict), "--data", str(cells))
    assert (replayed.exit_code, replayed.output.splitlines()[0]) == (3, "5 of 5 proofs replayed: 5 hold, 0 fail.")
    data["exposed"][0]["value"] = 4
    verdict.write_text(json.dumps(data))
    assert call_command("verify", str(verdict), "--data", str(cells)).exit_code == 1


def test_one_table_alone_is_exit_0() -> None:
    assert (
        call_command("tables", LINKED[0], "--value", "n", "--suppressed", "x", "--nested", "town:county").exit_code == 0
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--value", "n"], "nobody said what it stands for"),
        (["--value", "n", "--suppressed", "x", "--rule", "N>3"], "is no rule: write N<3"),
        (["--value", "n", "--suppressed", "x=3..1"], "3 is above 1"),
        (["--value", "n", "--suppressed", "x", "--within", "wide"], "is no width"),
        (["--value", "n", "--suppressed", "x", "--min", "few"], "'few' is not a number"),
        (["--value", "n", "--suppressed", "x", "--rounding", "-1"], "is below 0"),
        ([], "which column has the numbers"),
    ],
)
def test_faults_are_said_and_end_with_2(arguments: list[str], message: str) -> None:
    found = call_command("tables", LINKED[0], *arguments)
    assert found.exit_code == 2
    assert message in " ".join(found.output.split())


def test_a_wide_header_needs_no_name_for_the_numbers(tmp_path: Path) -> None:
    wide = tmp_path / "wide.csv"
    wide.write_text("town \\ size,number,big,Total\nA,x,2,5\nB,4,4,8\nTotal,7,6,13\n")
    found = call_command("tables", str(wide), "--suppressed", "x")
    assert found.exit_code == 1, found.output
    assert "size number, town A: = 3" in found.output
    assert found.output == call_command("tables", str(wide), "--value", "n", "--suppressed", "x").output
    mixed = call_command("tables", str(wide), LINKED[0], "--suppressed", "x")
    assert mixed.exit_code == 2
    assert "which column has the numbers" in mixed.output


def test_a_contradiction_names_lines(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("town,n\nA,x\nB,x\nTotal,9\n")
    found = call_command("tables", str(tmp_path / "t.csv"), "--value", "n", "--suppressed", "x=1..4")
    assert "Contradiction: line 1 and the max of n, 4 cannot all be true" in found.output


def test_a_repair_is_suggested_and_verified() -> None:
    """One search, in words and as data; `keyhole tables --suggest` prints the same."""
    words = TableOptions("n", suppressed=["x"], nested=["town:county", "town:size"])
    drawn = read_tables([HERE / "towns.csv", HERE / "sizes.csv"], words)
    repair = TableRepair(drawn, judge(drawn)).suggestion()
    said = "\n".join(line for line, _ in suggestion_lines(repair))
    assert "Suppress 1 of 8 shown cells, and no suppressed cell is recovered. No smaller set does.\n  town N" in said
    assert "  Audited again without it: no suppressed cell is recovered.\n" in said
    found = add_suggestion(judge(drawn).document(), repair).suggestion
    assert found is not None
    assert (found.withhold, found.smallest, found.verified) == (({"town": "N"},), True, True)
    assert {each.what for each in found.alternatives.coarser} >= {"without towns.csv", "without county"}


def test_a_suggestion_is_printed_and_written(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("town,n\nA,x\nB,4\nC,5\nTotal,12\n")
    given = ("tables", str(tmp_path / "t.csv"), "--value", "n", "--suppressed", "x", "--suggest")
    found = call_command(*given)
    assert found.exit_code == 1
    assert "Suppress 1 of 3 shown cells" in found.output
    assert json.loads(call_command(*given, "--format", "json").output)["suggestion"]["verified"]


PEOPLE = "name,sex,pay\nann,f,10\nbob,m,20\ncyd,f,35\ndan,m,90\n"
ASKED = (
    "SELECT SUM(pay) FROM t;\nSELECT SUM(pay) FROM t WHERE name <> 'dan';\nSELECT SUM(pay) FROM t WHERE sex = 'm';\n"
)


def audited(folder: Path, *arguments: str) -> Result:
    (folder / "people.csv").write_text(PEOPLE)
    (folder / "log.sql").write_text(ASKED)
    data = ["--data", str(folder / "people.csv"), "--table", "t", "--id", "name", "--private", "pay"]
    return call_command("audit", str(folder / "log.sql"), *data, *arguments)


def test_a_log_is_advised_on(tmp_path: Path) -> None:
    found = audited(tmp_path, "--advise")
    assert found.exit_code == 1
    assert "Withhold 1 of 3 statements, and nobody is exposed or narrowed down. No smaller set does." in found.output
    assert "Audited again without it: nobody is exposed." in found.output
    data = json.loads(audited(tmp_path, "--advise", "--format", "json").output)["advice"]
    assert ([each["query"] for each in data["withhold"]], data["bound"]) in ((["1"], 1), (["2"], 1))


def test_classical_rules_are_ticked_on_a_log(tmp_path: Path) -> None:
    found = audited(tmp_path, "--rule", "N<3", "--rule", "dominance 80%", "--rule", "p 10%")
    assert found.exit_code == 1
    assert "Rule N<3: 1 of 3 answers fails.\n  fails: Q3 (2 contributors)" in found.output
    assert "Rule dominance 1,80%: 1 of 3 answers fails.\n  fails: Q3" in found.output
    data = json.loads(audited(tmp_path, "--rule", "p 1%", "--format", "json").output)["rules"]
    assert [(each["rule"], [f["query"] for f in each["failing"]]) for each in data] == [("p 1%", ["3"])]
    for arguments in (["--rule", "N<3", "--redact"], ["--advise", "--format", "sarif"]):
        assert audited(tmp_path, *arguments).exit_code == 2
