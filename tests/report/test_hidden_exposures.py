"""Attempts to let something new pass as known: by a baseline, or by a waiver for something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.commands import run_in

VISITS = "name,visit,pay\nAnn,1,10\nAnn,2,20\nBob,1,30\nCy,1,44\nDi,2,50\n"
WHO = ("--data", "v.csv", "--id", "name", "--private", "pay")
FIRST = "SELECT SUM(pay) FROM v WHERE visit = 1 AND name = 'Ann';\n"
SECOND = "SELECT SUM(pay) FROM v WHERE visit = 2 AND name = 'Ann';\n"
TOTAL = "SELECT SUM(pay) FROM v WHERE name = 'Ann';\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "v.csv").write_text(VISITS)
    (tmp_path / "key").write_bytes(bytes(range(32)))
    return tmp_path


def audit(folder: Path, log: str, *more: str) -> tuple[int, str]:
    (folder / "l.sql").write_text(log)
    code, out, err = run_in(folder, "audit", "l.sql", *WHO, *more)
    return code, out + err


MADE = [("json", ()), ("baseline", ()), ("baseline", ("--key", "key"))]


@pytest.mark.parametrize(("how", "key"), MADE)
def test_another_record_of_a_known_person_is_new(folder: Path, how: str, key: tuple[str, ...]) -> None:
    assert audit(folder, FIRST, "--format", how, *key, "--out", "b.json")[0] == 1
    known = ("--baseline", "b.json", *key)
    assert audit(folder, FIRST, *known)[0] == 0
    for log in (FIRST + SECOND, TOTAL):
        code, said = audit(folder, log, *known)
        assert code == 1
        assert "Against the baseline: 1 new" in said


@pytest.mark.parametrize("key", [(), ("--key", "key")])
def test_fingerprints_name_nobody(folder: Path, key: tuple[str, ...]) -> None:
    audit(folder, FIRST + SECOND, "--format", "baseline", *key, "--out", "b.json")
    text = (folder / "b.json").read_text()
    assert not [word for word in ("Ann", "pay", "10", "20", "visit") if f'"{word}"' in text]
    assert set(json.loads(text)) <= {"is", "by", "by_row", "check", "exposed", "inferred", "groups", "rows"}


def test_a_keyed_baseline_needs_its_key(folder: Path) -> None:
    audit(folder, FIRST, "--format", "baseline", "--key", "key", "--out", "b.json")
    assert audit(folder, FIRST, "--baseline", "b.json")[0] == 2
    (folder / "other").write_bytes(bytes(32))
    code, said = audit(folder, FIRST, "--baseline", "b.json", "--key", "other")
    assert code == 2
    assert "another key" in said


def signed(folder: Path, log: str, *key: str) -> None:
    audit(folder, log, "--format", "json", "--out", "verdict.json")
    made = run_in(folder, "review", "verdict.json", "--signed-by", "A", "--why", "x", "--yes", *key)
    assert made[0] == 0


LISTED = "SELECT string_agg(name) FROM v"


@pytest.mark.parametrize("key", [(), ("--key", "key")])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (FIRST, FIRST + SECOND),
        (FIRST, TOTAL),
        ("SELECT SUM(pay) FROM v WHERE name = 'Bob' AND name <> 'a  b';\n",) * 2,
        (f"{LISTED} -- x\nWHERE visit = 1;\n", f"{LISTED} -- x WHERE visit = 1\n;\n"),
    ],
    ids=["another record", "his total", "the same", "a comment that swallows a condition"],
)  # fmt: skip
def test_a_waiver_is_for_what_was_signed(folder: Path, before: str, after: str, key: tuple[str, ...]) -> None:
    signed(folder, before, *key)
    assert audit(folder, before, "--accept", "waivers.toml", *key)[0] == 0
    assert audit(folder, after, "--accept", "waivers.toml", *key)[0] == (
        0 if after == before else 1 if "SUM" in after else 3
    )


def test_a_signed_contradiction_is_that_of_its_statements(folder: Path) -> None:
    def log(column: str) -> str:
        sql = f"SELECT SUM(pay) FROM v WHERE {column} = 1"
        return "".join(json.dumps({"sql": sql, "answer": a}) + "\n" for a in (84, 85))

    def judged(text: str, *more: str) -> tuple[int, str, str]:
        (folder / "l.jsonl").write_text(text)
        return run_in(folder, "audit", "l.jsonl", *WHO, *more)

    code, out, _ = judged(log("visit"), "--format", "json", "--out", "verdict.json")
    assert (code, out) == (3, "")
    run_in(folder, "review", "verdict.json", "--signed-by", "A", "--why", "x", "--yes")
    assert judged(log("visit"), "--accept", "waivers.toml")[0] == 0
    assert judged(log("2 - visit"), "--accept", "waivers.toml")[0] == 3
