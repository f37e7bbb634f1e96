"""`keyhole verify` from the command line: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import keyhole
from keyhole.checker.report import CLAIMS_ALONE, TEXTS
from keyhole.cli import app

LOG = """SELECT SUM(pay) FROM staff;
SELECT SUM(pay) FROM staff WHERE name <> 'Ann';
SELECT COUNT(*) FROM staff WHERE pay > 15 AND team = 'b';
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "staff.csv").write_text("name,team,pay\nAnn,a,10\nBob,a,20\nCyd,b,30\nDan,b,40\n", encoding="utf-8")
    (tmp_path / "log.sql").write_text(LOG, encoding="utf-8")
    options = ["--data", str(tmp_path / "staff.csv"), "--id", "name", "--private", "pay", "--format", "json"]
    done = CliRunner().invoke(
        app, ["audit", str(tmp_path / "log.sql"), *options, "--out", str(tmp_path / "verdict.json")]
    )
    assert done.exit_code == 1, done.output
    return tmp_path


def verify(folder: Path, *more: str, data: str = "staff.csv") -> tuple[int, str]:
    done = CliRunner().invoke(app, ["verify", str(folder / "verdict.json"), "--data", str(folder / data), *more])
    return done.exit_code, done.output


def changed(folder: Path, old: str, new: str) -> None:
    path = folder / "verdict.json"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_all_replayed(folder: Path) -> None:
    assert verify(folder) == (
        0,
        f"3 of 3 proofs replayed: 3 hold, 0 fail.\n{CLAIMS_ALONE}{TEXTS}\n",
    )


def test_a_proof_fails_and_is_named_without_its_value(folder: Path) -> None:
    changed(folder, '"value": 10', '"value": 11')
    code, text = verify(folder)
    assert code == 1
    assert "3 of 3 proofs replayed: 2 hold, 1 fail." in text
    assert "fails: Ann: pay (exposed): the answers of the verdict do not add up to the claimed value" in text
    assert "11" not in text


def test_what_cannot_be_replayed_is_counted(folder: Path) -> None:
    changed(folder, '"kind": "counts"', '"kind": "unheard of"')
    code, text = verify(folder)
    assert code == 3
    assert "1 of 3 proofs replayed: 1 hold, 0 fail. 2 cannot be replayed here, and may be right or wrong." in text


def test_as_json(folder: Path) -> None:
    changed(folder, '"value": 10', '"value": 11')
    code, text = verify(folder, "--format", "json")
    found = json.loads(text)
    assert (code, found["proofs"], found["replayed"], found["hold"], found["cannot"]) == (1, 3, 3, 2, [])
    assert found["fails"][0]["records"] == [{"name": "Ann"}]


def test_what_each_analyst_was_told_is_replayed_too(tmp_path: Path) -> None:
    data, log, verdict = (tmp_path / name for name in ("staff.csv", "log.jsonl", "verdict.json"))
    data.write_text("name,pay\nAnn,10\nBob,20\nCyd,30\n", encoding="utf-8")
    asked = ("SELECT SUM(pay) FROM staff", "SELECT SUM(pay) FROM staff WHERE name <> 'Ann'")
    log.write_text("".join(json.dumps({"sql": sql, "analyst": "eve"}) + "\n" for sql in asked), encoding="utf-8")
    options = ["--data", str(data), "--id", "name", "--private", "pay", "--by", "analyst", "--format", "json"]
    CliRunner().invoke(app, ["audit", str(log), *options, "--out", str(verdict)])
    found = json.loads(verdict.read_text(encoding="utf-8"))
    assert verify(tmp_path)[0] == 0
    found["by"][0]["exposed"][0]["value"] = 11
    verdict.write_text(json.dumps(found), encoding="utf-8")
    assert verify(tmp_path)[0] == 1


# --- with the log -----------------------------------------------------------------------------------------------------


def test_a_statement_that_nobody_asked_fails_with_the_log(folder: Path) -> None:
    assert verify(folder, "--log", str(folder / "log.sql"))[0] == 0
    (folder / "log.sql").write_text(LOG.replace("name <> 'Ann'", "name <> 'Bob'"), encoding="utf-8")
    code, text = verify(folder, "--log", str(folder / "log.sql"))
    assert code == 1
    assert "Ann: pay (exposed): statement 2 does not stand in the log" in text
    assert "2 hold, 1 fail" in text


def test_comments_and_line_breaks_do_not_make_another_statement(folder: Path) -> None:
    text = LOG.replace("WHERE", "-- who;\n  WHERE").replace("SELECT SUM", "SELECT /* all */ SUM")
    (folder / "log.sql").write_text(text, encoding="utf-8")
    assert verify(folder, "--log", str(folder / "log.sql"))[0] == 0
    (folder / "log.sql").write_text(LOG.replace("'Ann'", "'--Ann'").replace("'b'", "'/**/b'"), encoding="utf-8")
    assert verify(folder, "--log", str(folder / "log.sql"))[0] == 1


def test_a_statement_inside_another_one_is_not_said_to_stand_there(folder: Path) -> None:
    inside = LOG.replace("SELECT SUM(pay) FROM staff WHERE", "SELECT * FROM (SELECT SUM(pay) FROM staff WHERE", 1)
    (folder / "log.sql").write_text(inside.replace("'Ann';", "'Ann');"), encoding="utf-8")
    code, text = verify(folder, "--log", str(folder / "log.sql"))
    assert code == 3
    assert "statement 2 stands inside another statement of the log" in text


ANSWERS = [100, 90, 2]


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        (ANSWERS, 0),
        ([None, None, None], 1),
        ([101, 91, 2], 1),  # the same value of Ann, by answers that nobody got
        ([100, 91, 2], 1),
        ([100, 90, 1], 1),
        ([{"lo": 100, "hi": 100}, 90, 2], 1),
        ([[{"key": {}, "values": [100]}], 90, 2], 0),
        ([[100], 90, 2], 0),  # one row of one cell
        ([[{"key": {}, "values": [100, 4]}], 90, 2], 3),
    ],
)
def test_the_answers_are_those_of_the_log(folder: Path, answers: list[object], code: int) -> None:
    lines = [
        json.dumps({"sql": sql, "answer": answer}) for sql, answer in zip(LOG.strip().split("\n"), answers, strict=True)
    ]
    (folder / "log.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert verify(folder, "--log", str(folder / "log.jsonl"))[0] == code


@pytest.mark.parametrize(
    ("noise", "code"), [({"kind": "uniform", "scale": 1}, 1), ({"kind": "laplace", "scale": 1}, 1)]
)
def test_noise_that_the_log_has_and_the_proof_has_not(folder: Path, noise: dict[str, object], code: int) -> None:
    lines = [
        json.dumps({"sql": sql, "answer": answer, "noise": noise})
        for sql, answer in zip(LOG.strip().split("\n"), ANSWERS, strict=True)
    ]
    (folder / "log.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert verify(folder, "--log", str(folder / "log.jsonl"))[0] == code


GROUPED = [
    ("SELECT team, COUNT(*), SUM(pay) FROM staff GROUP BY team", [("a", 2, 30), ("b", 2, 70)]),
    ("SELECT COUNT(*), SUM(pay) FROM staff WHERE name <> 'Ann'", [(3, 90)]),
    ("SELECT team, STDDEV_POP(pay), AVG(pay) FROM staff WHERE name > 'C' GROUP BY team", [("b", 5, 35)]),
    ("SELECT team FROM staff WHERE name > 'C' GROUP BY team HAVING SUM(pay) > 10", [("b",)]),
    ("SELECT ROUND(AVG(pay), 0) FROM staff WHERE name <> 'Bob'", [(27,)]),
]


@pytest.mark.parametrize("wrong", [False, True])
def test_answers_by_groups_are_those_of_the_log(tmp_path: Path, wrong: bool) -> None:
    data, log, verdict = (tmp_path / name for name in ("staff.csv", "log.jsonl", "verdict.json"))
    data.write_text("name,team,pay\nAnn,a,10\nBob,a,20\nCyd,b,30\nDan,b,40\n", encoding="utf-8")

    def write(add: int) -> None:
        lines = []
        for sql, rows in GROUPED:
            keys = 1 if "GROUP BY" in sql else 0
            answer = [{"key": {"team": r[0]} if keys else {}, "values": [v + add for v in r[keys:]]} for r in rows]
            lines.append(json.dumps({"sql": sql, "answer": answer}))
        log.write_text("\n".join(lines), encoding="utf-8")

    write(0)
    found = keyhole.audit(log, data=data, id=["name"], private=["pay"])
    verdict.write_text(found.dumps(), encoding="utf-8")
    assert {each["row"] for each in json.loads(found.dumps())["exposed"]} >= {1, 2}
    write(int(wrong))
    done = CliRunner().invoke(app, ["verify", str(verdict), "--data", str(data), "--log", str(log)])
    assert done.exit_code == int(wrong), done.output


def test_other_data_is_not_the_data(folder: Path) -> None:
    (folder / "other.csv").write_text("name,team,pay\nAnn,a,10\nBob,a,20\n", encoding="utf-8")
    assert verify(folder, data="other.csv")[0] == 3


def test_could_not_run(folder: Path) -> None:
    assert verify(folder, data="missing.csv")[0] == 2
    (folder / "verdict.json").write_text("{}", encoding="utf-8")
    assert verify(folder)[0] == 2
    (folder / "verdict.json").write_text("not JSON", encoding="utf-8")
    assert verify(folder)[0] == 2


def test_nothing_claimed_is_nothing_to_replay(folder: Path) -> None:
    (folder / "log.sql").write_text("SELECT SUM(pay) FROM staff", encoding="utf-8")
    options = ["--data", str(folder / "staff.csv"), "--id", "name", "--private", "pay", "--format", "json"]
    CliRunner().invoke(app, ["audit", str(folder / "log.sql"), *options, "--out", str(folder / "verdict.json")])
    code, text = verify(folder)
    assert (code, text.splitlines()[0]) == (0, "The verdict claims nothing of anybody: there is no proof to replay.")


def test_data_read_without_the_settings_of_the_audit_is_said_and_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "plain.data").write_text("Ann,51\nBob,64\n")
    settings = tmp_path / "k.toml"
    settings.write_text(
        '[source]\ndata = "plain.data"\ncolumns = ["name", "pay"]\n[columns]\nid = ["name"]\n[columns.private.pay]\n'
    )
    found = keyhole.audit(["SELECT SUM(pay) FROM t WHERE name = 'Ann'"], config=settings)
    verdict = tmp_path / "v.json"
    verdict.write_text(found.dumps())
    (tmp_path / "plain.csv").write_text("Ann,51\nBob,64\n")
    without = CliRunner().invoke(app, ["verify", str(verdict), "--data", str(tmp_path / "plain.csv")])
    assert without.exit_code == 2
    assert "-c keyhole.toml" in without.output
    assert CliRunner().invoke(app, ["verify", str(verdict), "-c", str(settings)]).exit_code == 0


@pytest.mark.parametrize("withheld", ["--redact", "--no-values"])
def test_what_was_withheld_cannot_be_replayed_and_does_not_fail(folder: Path, withheld: str) -> None:
    out = str(folder / "verdict.json")
    options = ["--data", str(folder / "staff.csv"), "--id", "name", "--private", "pay", "--format", "json"]
    CliRunner().invoke(app, ["audit", str(folder / "log.sql"), *options, withheld, "--group-size", "2", "--out", out])
    code, said = verify(folder, "--log", str(folder / "log.sql"))
    assert code == 3, said
    assert "0 hold, 0 fail." in said
    assert "cannot be replayed: " in said
    assert "the verdict was redacted" in said
    claims = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))["exposed"]
    assert (claims[0]["record"] == {"name": "person 1"}) == (withheld == "--redact")


# --- verdicts that are written by somebody else -----------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new"), [('"value": 10', '"value": 3, "value": 10'), ("{", '{"exposed": [], ')])
def test_a_field_that_stands_twice_is_refused(folder: Path, old: str, new: str) -> None:
    path = folder / "verdict.json"
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    code, text = verify(folder)
    assert code == 2
    assert "stands twice in one object" in text


def test_true_is_not_one(folder: Path) -> None:
    for name in ("staff.csv", "verdict.json"):
        path = folder / name
        path.write_text(path.read_text(encoding="utf-8").replace("Ann,a,10", "Ann,a,1"), encoding="utf-8")
    options = ["--data", str(folder / "staff.csv"), "--id", "name", "--private", "pay", "--format", "json"]
    out = str(folder / "verdict.json")
    CliRunner().invoke(app, ["audit", str(folder / "log.sql"), *options, "--out", out])
    assert verify(folder)[0] == 0
    verdict = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    verdict["exposed"][0]["value"] = True
    verdict["intervals"][0] |= {"lo": True, "hi": True, "value": True}
    (folder / "verdict.json").write_text(json.dumps(verdict), encoding="utf-8")
    assert verify(folder)[0] == 1


ODD_TYPES = [
    ("exposed.0.row", None, "`exposed[0].row` must be a whole number"),
    ("exposed.0.row", True, "`exposed[0].row` must be a whole number"),
    ("exposed.0.proof", None, "`exposed[0].proof` must be a list of objects"),
    ("exposed.0.proof.0.weight", None, "`exposed[0].proof[0].weight` must be a number, or p/q as text"),
    ("exposed.0.proof.0.ends", 3, "`exposed[0].proof[0].ends` must be a pair"),
    ("exposed.0.certificate", 3, "`exposed[0].certificate` must be an object"),
    ("exposed.0.why", "so", "`exposed[0].why` must be a list of texts"),
    ("intervals", None, "`intervals` must be a list of objects"),
    ("intervals.0.prior", [1], "`intervals[0].prior` must be a pair"),
    ("source", 3, "`source` must be an object"),
    ("rows", 3, "`rows` must be a list of objects"),
    ("by_assumption", [{"column": "pay"}], "`by_assumption[0].people` is missing"),
    ("statements", [], "`statements` must be an object"),
    ("complete", 1, "`complete` must be true or false"),
]


@pytest.mark.parametrize(("path", "value", "sentence"), ODD_TYPES)
def test_an_odd_type_is_told_by_its_field(folder: Path, path: str, value: object, sentence: str) -> None:
    verdict = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    at: Any = verdict
    *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
    for step in steps:
        at = at[step]
    at[last] = value
    (folder / "verdict.json").write_text(json.dumps(verdict), encoding="utf-8")
    code, text = verify(folder)
    assert code == 2
    assert sentence in text
    assert "Error" not in text
