"""Sign-off: what is accepted stops counting until it expires, nothing else does, and the file tells nothing."""

from __future__ import annotations

import datetime as dt
import json
import random
from pathlib import Path

import pytest
from tests.support.commands import run_in
from tests.support.files import write_files

from keyhole.cli.demo import LOG, PEOPLE
from keyhole.report.waivers import Accepted, FailOn, Matter, Waiver, read_waivers, waivers_toml

TODAY = dt.date(2026, 11, 16)
WHO = ("--data", "people.csv", "--id", "Name", "--private", "Blood sugar")
HALF = 'SELECT string_agg(Gender) FROM people;\nSELECT foo("Blood sugar") FROM people;\n'
NEW = "SELECT SUM(\"Blood sugar\") FROM people WHERE Name <> 'Eve Brown';\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path, {"people.csv": PEOPLE, "log.sql": LOG + HALF, "more.sql": LOG + HALF + NEW})
    return tmp_path


def adopt(folder: Path, *options: str) -> None:
    assert run_in(folder, "audit", "log.sql", *WHO, "--format", "json", "--out", "v.json")[0] == 1
    code, out, err = run_in(
        folder, "review", "v.json", "--signed-by", "A. Officer", "--why", "known", "--yes", *options
    )
    assert code == 0, err
    assert "waivers.toml holds" in out


def test_adopt_then_a_new_exposure_fails_then_a_waiver_expires(folder: Path) -> None:
    adopt(folder)
    code, out, _ = run_in(folder, "audit", "log.sql", *WHO, "--accept", "waivers.toml")
    assert code == 0
    assert "signed off (--accept): Blood sugar, exposed by Q1, Q2, Q3" in out
    code, out, _ = run_in(folder, "audit", "more.sql", *WHO, "--accept", "waivers.toml")
    assert code == 1
    text = (folder / "waivers.toml").read_text()
    (folder / "old.toml").write_text(text.replace("why = ", "until = 2020-01-31\nwhy = "))
    code, out, _ = run_in(folder, "audit", "log.sql", *WHO, "--accept", "old.toml")
    assert code == 1
    assert "expired" in out


def test_the_waivers_file_holds_no_name_and_no_value(folder: Path) -> None:
    adopt(folder)
    text = (folder / "waivers.toml").read_text()
    assert not [word for word in ("Jeremy", "Doe", "5.2", "Female", "32000") if word in text]


def test_signing_the_unjudged_does_not_sign_the_exposed(folder: Path) -> None:
    adopt(folder, "--only", "unjudged", "--only", "refused", "--only", "gap")
    assert run_in(folder, "audit", "log.sql", *WHO, "--accept", "waivers.toml")[0] == 1


def test_a_verdict_that_is_not_complete_needs_a_signature_of_its_own(folder: Path) -> None:
    (folder / "open.sql").write_text(HALF)
    assert run_in(folder, "audit", "open.sql", *WHO, "--format", "json", "--out", "v.json")[0] == 3
    run_in(
        folder, "review", "v.json", "--signed-by", "A", "--why", "x", "--yes", "--only", "unjudged", "--only", "refused"
    )
    assert run_in(folder, "audit", "open.sql", *WHO, "--accept", "waivers.toml")[0] == 3
    run_in(folder, "review", "v.json", "--signed-by", "A", "--why", "x", "--yes")
    assert run_in(folder, "audit", "open.sql", *WHO, "--accept", "waivers.toml")[0] == 0


def test_with_a_key_a_waiver_is_for_one_person(folder: Path) -> None:
    (folder / "key").write_bytes(bytes(range(32)))
    (folder / "group.sql").write_text('SELECT Name, SUM("Blood sugar") FROM people GROUP BY Name;\n')
    run_in(folder, "audit", "group.sql", *WHO, "--format", "json", "--out", "v.json")
    verdict = json.loads((folder / "v.json").read_text())
    one = {**verdict, "exposed": verdict["exposed"][:1]}
    (folder / "one.json").write_text(json.dumps(one))
    assert run_in(folder, "review", "one.json", "--signed-by", "A", "--why", "x", "--yes", "--key", "key")[0] == 0
    assert run_in(folder, "audit", "group.sql", *WHO, "--accept", "waivers.toml", "--key", "key")[0] == 1
    (folder / "waivers.toml").unlink()
    assert run_in(folder, "review", "v.json", "--signed-by", "A", "--why", "x", "--yes", "--key", "key")[0] == 0
    assert run_in(folder, "audit", "group.sql", *WHO, "--accept", "waivers.toml", "--key", "key")[0] == 0
    assert (
        run_in(folder, "audit", "group.sql", *WHO, "--accept", "waivers.toml")[0] == 1
    )  # without the key, nothing matches


def test_a_walk_asks_shows_the_proof_and_keeps_what_was_signed(folder: Path) -> None:
    run_in(folder, "audit", "log.sql", *WHO, "--format", "json", "--out", "v.json")
    code, out, _ = run_in(folder, "review", "v.json", "--signed-by", "A. Officer", stdin="a\nfor the ward\nq\n")
    assert code == 0
    assert "Q1 - Q2 - Q3 = Jeremy Doe's Blood sugar = 5.2" in out
    signed = read_waivers(folder / "waivers.toml")
    assert [(w.kind, w.by, w.why) for w in signed] == [("exposed", "A. Officer", "for the ward")]


@pytest.mark.parametrize(
    ("fail_on", "kinds", "code"),
    [
        ("exposed", ["inferred", "unjudged"], 0),
        ("exposed", ["exposed"], 1),
        ("inferred", ["inferred"], 1),
        ("inferred", ["group"], 1),
        ("inferred", ["unjudged", "gap"], 0),
        ("unjudged", ["unjudged"], 3),
        ("unjudged", ["gap"], 3),
        ("unjudged", ["contradiction"], 3),
        ("unjudged", ["inferred", "unjudged"], 1),
    ],
)
def test_what_counts(fail_on: str, kinds: list[str], code: int) -> None:
    left = [Matter(kind, kind, kind) for kind in kinds]
    assert Accepted.of(left, [], TODAY).exit_code(FailOn(fail_on)) == code


def test_fail_on_is_said_in_the_output(folder: Path) -> None:
    (folder / "open.sql").write_text(HALF)
    code, out, _ = run_in(folder, "audit", "open.sql", *WHO, "--fail-on", "inferred")
    assert code == 3
    assert "may hand out private values, so it counts: Q2 was refused" in out
    (folder / "open.sql").write_text(HALF.splitlines()[0])
    code, out, _ = run_in(folder, "audit", "open.sql", *WHO, "--fail-on", "inferred")
    assert code == 0
    assert "Only --fail-on inferred counts" in out
    data = json.loads(run_in(folder, "audit", "open.sql", *WHO, "--fail-on", "inferred", "--format", "json")[1])
    assert data["accepted"]["fail_on"] == "inferred"


def test_a_file_of_waivers_says_the_same_when_read_again(tmp_path: Path) -> None:
    rng = random.Random(5)
    letters = "aä\"'\\\n= [x]"

    def word() -> str:
        return "".join(rng.choices(letters, k=8)) + "."

    marks = [f"{rng.getrandbits(128):032x}" for _ in range(20)]
    ends = [None, TODAY]
    made = tuple(Waiver("gap", m, word(), word(), TODAY, word(), ends[k % 2]) for k, m in enumerate(marks))
    (tmp_path / "w.toml").write_text(waivers_toml(made))
    assert read_waivers(tmp_path / "w.toml") == made


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("x = 1", "no file of waivers"),
        ("[[waiver]]\nkind = 'exposed'", "needs fingerprint"),
        ("[[waiver]]\nkind='odd'\nfingerprint='a'\nby='b'\nwhy='c'\nat=2026-01-01", "kind is one of"),
        ("[[waiver]]\nkind='gap'\nfingerprint='a'\nby='b'\nwhy=''\nat=2026-01-01", "needs why"),
        ("[[waiver]]\nkind='gap'\nfingerprint='a'\nby='b'\nwhy='c'\nat=2026-01-01\nuntil='soon'", "until is a day"),
        ("not toml", "not TOML"),
    ],
)
def test_a_bad_file_of_waivers_is_an_error(folder: Path, text: str, word: str) -> None:
    (folder / "bad.toml").write_text(text)
    code, _, err = run_in(folder, "audit", "log.sql", *WHO, "--accept", "bad.toml")
    assert code == 2
    assert word in err
