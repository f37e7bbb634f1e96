"""What may not pass silently: groups not shown, impossible counts, false facts, broken lines."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import keyhole
from keyhole.auditing import Status
from keyhole.config import Config
from keyhole.errors import DataError
from keyhole.logs.open import open_log
from keyhole.report.verdict import Verdict

WARD = pa.table({"id": [1, 2, 3, 4], "g": list("MMFF"), "d": ["flu", "flu", "cold", "cold"], "x": [1, 2, 3, 4]})
ROSTER = WARD.drop_columns(["d", "x"])


def audit(*log: object, data: object = WARD, private: tuple[str, ...] = ("x", "d")) -> Verdict:
    return keyhole.audit(list(log), data=data, private=private, id="id")  # type: ignore[arg-type]


def known(verdict: Verdict, column: str) -> dict[object, object]:
    for f in verdict:
        assert f.proof is not None
        assert f.proof.verify(verdict.evidence) is not bool(f.proof.rule)
    return {f.record["id"]: f.value for f in verdict.exposed if f.column == column}


@pytest.mark.parametrize("item", ["SUM(x)", "AVG(x)", "COUNT(*)", "MAX(x)"])
def test_groups_that_were_not_shown_have_nobody(item: str) -> None:
    verdict = audit(f"SELECT d, {item} FROM t WHERE g = 'M' GROUP BY d")
    assert known(verdict, "d") == {1: "flu", 2: "flu"}
    assert verdict.exit_code == 1


def test_a_grouping_that_shows_nothing_says_something() -> None:
    verdict = audit("SELECT d, COUNT(*) FROM t WHERE d <> 'flu' AND g = 'M' GROUP BY d")
    assert known(verdict, "d") == {1: "flu", 2: "flu"}


def test_a_chained_count_names_all_it_rests_on() -> None:
    people = pa.table({"id": [1, 3, 2, 5], "g": [1, 1, 0, 1], "d": ["no", "no", "no", "flu"]})
    log = ("SELECT COUNT(*) FROM t WHERE d = 'flu' AND g = 1", "SELECT COUNT(*) FROM t WHERE d <> 'flu' AND id <= 3")
    verdict = audit(*log, data=people, private=("d",))
    sick = next(f for f in verdict.exposed if f.record["id"] == 5)
    assert sick.proof is not None
    assert set(sick.proof.weights) == {"1", "2"}
    assert "set aside" in verdict.why(sick)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([("SELECT COUNT(*) FROM t WHERE x > 5", 3), ("SELECT COUNT(*) FROM t WHERE x > 6", 4)], "cannot both be true"),
        ([("SELECT COUNT(*) FROM t WHERE x > 5", 5)], "between 0 and 4"),
        ([("SELECT COUNT(*) FROM t WHERE x > 5", -1)], "between 0 and 4"),
        ([("SELECT COUNT(*) FROM t WHERE x > 5", 2.5)], "not a number of people"),
        ([("SELECT COUNT(*) FROM t WHERE x > 5", 0), ("SELECT SUM(x) FROM t WHERE x > 5", 9)], "nobody matches"),
        ([("SELECT g, COUNT(*) FROM t GROUP BY g", [{"key": {"g": "M"}, "values": [2]}])], "public things"),
        ([("SELECT SUM(x) FROM t WHERE g = 'Z'", 3)], "about nobody"),
    ],
)
def test_impossible_answers_are_contradictions(pairs: list[tuple[str, object]], words: str) -> None:
    verdict = audit(*pairs, data=ROSTER, private=("x",))
    assert any(words in c.reason for c in verdict.contradictions), verdict.contradictions
    assert not verdict.exposed
    assert verdict.exit_code == (1 if verdict.inferred else 3)


def test_a_false_fact_is_named() -> None:
    config = Config.parse(
        '[columns]\nid = ["id"]\nhidden = ["d"]\n[columns.private.x]\nmin = 0\nmax = 10\n'
        '[[facts]]\nwhere = "id = 1"\ncolumn = "x"\nequals = 5'
    )
    verdict = keyhole.audit(["SELECT SUM(x) FROM t WHERE g = 'M'"], data=WARD, config=config)
    reasons = " ".join(c.reason for c in verdict.contradictions)
    assert "fact 1 is not true" in reasons
    assert "together give id 2's x = -2, which is not so in the data" in reasons


def test_broken_transcript_lines_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"sql": "SELECT SUM(x) FROM t", "answer": 10}\n{oops\n{"sql": "SELECT 1", "answr": 3}\n'
        '{"sql": "SELECT SUM(x) FROM t", "answer": NaN}\n{"sql": "SELECT g, SUM(x) FROM t GROUP BY g", "answer": 3}\n'
        '{"sql": "SELECT SUM(x) FROM t WHERE id = 1", "answer": 1, "answer": 2}\n'
    )
    verdict = keyhole.audit(path, data=ROSTER, private=["x"], id="id")
    assert [r.number for r in verdict.refused] == ["2", "3", "4", "5", "6"]
    assert all(f"line {n}" in r.error for n, r in zip(range(2, 7), verdict.refused, strict=True))
    assert verdict.exit_code == 3


def test_places_are_lines_of_the_file() -> None:
    log = open_log("SELECT SUM(x) FROM t;\n\n-- note\nSELECT SUM(xx) FROM t;\n")
    verdict = keyhole.audit(log, data=WARD, private=["x", "d"], id="id")
    assert "line 4, column 12" in verdict.refused[0].error


def test_the_declared_grid_is_checked() -> None:
    with pytest.raises(DataError, match="not on the step that was declared"):
        keyhole.audit("SELECT SUM(x) FROM t", data=WARD, private=["x:0..6:4", "d"], id="id")
    assert keyhole.audit("SELECT SUM(x) FROM t", data=WARD, private=["x:0..6:0.5", "d"], id="id").exit_code == 0


def test_infinity_in_a_csv_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,x\n1,3\n2,inf\n")
    with pytest.raises(DataError, match=r"NaN or infinity .first in row 2"):
        keyhole.audit("SELECT SUM(x) FROM t", data=tmp_path / "t.csv", private=["x"], id="id")


def test_text_that_only_the_log_knows_of() -> None:
    pairs = [("SELECT COUNT(*) FROM t WHERE d = 'flu' AND g = 'M'", 2)]
    verdict = audit(*pairs, data=ROSTER, private=("d",))
    assert {f.status for f in verdict} == {Status.EXPOSED}
    assert len(verdict) == 2
