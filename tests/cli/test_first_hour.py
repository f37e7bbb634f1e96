"""What somebody meets in the first hour: streams, places of files, and verbs that fit together."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.commands import call_command
from tests.support.files import write_files

import keyhole
from keyhole.cli.demo import LOG, PEOPLE
from keyhole.errors import ConfigError, LogError

RUN = [sys.executable, "-c", "from keyhole.cli import main; main()"]
WHO = ("--data", "people.csv", "--id", "Name", "--private", "Blood sugar")
ASK = "SELECT COUNT(*) FROM people WHERE Gender = 'Male'"
SETTINGS = """
[source]
data = "people.csv"
[columns]
id = ["Name"]
[columns.private."Blood sugar"]
min = 3.0
max = 10.0
step = 0.1
[columns.public.Gender]
values = ["Male", "Female"]
[budget]
epsilon = 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_files(tmp_path, {"people.csv": PEOPLE, "log.sql": LOG, "q.sql": ASK, "keyhole.toml": SETTINGS})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(folder: Path, *arguments: str, given: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*RUN, *arguments], cwd=folder, env={**os.environ, **env}, input=given, capture_output=True, check=False
    )


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "latin-1"])
def test_standard_input_is_utf_8_whatever_the_locale(folder: Path, encoding: str) -> None:
    (folder / "people.csv").write_text(PEOPLE.replace("Jeremy", "Jérémy"), encoding="utf-8")
    given = "SELECT SUM(\"Blood sugar\") FROM p WHERE Name = 'Jérémy Doe'".encode()
    assert run(folder, "audit", "-", *WHO, given=given, PYTHONIOENCODING=encoding).returncode == 1


def test_what_is_not_utf_8_is_said(folder: Path) -> None:
    done = run(folder, "audit", "-", *WHO, given="SELECT 'é'".encode("latin-1"))
    assert done.returncode == 2
    assert b"standard input is not UTF-8 text" in done.stderr


def test_junit_is_xml_in_any_encoding(folder: Path) -> None:
    (folder / "people.csv").write_text(PEOPLE.replace("Jeremy", "Jérémy 杜"), encoding="utf-8")
    done = run(folder, "audit", "log.sql", *WHO, "--format", "junit", PYTHONIOENCODING="cp1252")
    assert "Jérémy 杜" in "".join(ElementTree.fromstring(done.stdout).itertext())


@pytest.mark.parametrize("command", ["audit log.sql", "ask -f q.sql"])
def test_a_closed_or_full_output_is_no_verdict(folder: Path, command: str) -> None:
    words = [*RUN, *command.split(), "-c", "keyhole.toml"]
    for ending in (">&-", "> /dev/full"):
        line = " ".join(f"'{word}'" for word in words) + f" {ending}"
        done = subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stderr
        assert "cannot write" in done.stderr
        assert "internal error" not in done.stderr
        assert "Traceback" not in done.stderr


def test_a_byte_order_mark_is_no_statement(folder: Path) -> None:
    done = run(
        folder, "ask", "--decide-only", "-c", "keyhole.toml", "--exact-above", "2", given=b"\xef\xbb\xbf" + LOG.encode()
    )
    assert done.stdout.startswith(b"Q1 allow")


def test_a_budget_that_nobody_named_is_beside_the_data(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "other").mkdir()
    settings = 'data = "people.csv"\n[columns]\nid = ["Name"]\n[columns.private."Blood sugar"]\nmin = 3.0\nmax = 10.0\n'
    (folder / "paid.toml").write_text(f"[source]\n{settings}step = 0.1\n[budget]\nepsilon = 1\n")
    sql = 'SELECT SUM("Blood sugar") FROM people'
    (folder / "q.sql").write_text(sql)
    assert call_command("ask", "-f", "q.sql", "-c", "paid.toml").exit_code == 0
    monkeypatch.chdir(folder / "other")
    (folder / "q.sql").write_text(sql.replace("SUM", "AVG"))
    assert call_command("ask", "-f", "../q.sql", "-c", "../paid.toml").exit_code == 3  # nothing is left
    assert len(list(folder.rglob("*.keyhole"))) == 1


def test_settings_behind_a_link_have_one_ledger(folder: Path) -> None:
    (folder / "b").mkdir()
    (folder / "b" / "keyhole.toml").symlink_to(folder / "keyhole.toml")
    assert call_command("ask", "-f", "q.sql", "-c", "keyhole.toml").exit_code == 0
    again = call_command("ask", "-f", "q.sql", "-c", "b/keyhole.toml")
    assert again.exit_code == 0, again.output
    assert "released before" in again.output
    assert len(list(folder.rglob("*.keyhole"))) == 1


def test_a_file_that_cannot_be_written_is_said_before_anything_is_paid(folder: Path) -> None:
    done = call_command("ask", "-f", "q.sql", "-c", "keyhole.toml", "--out", "nowhere/x")
    assert done.exit_code == 2
    assert not list(folder.glob("*.keyhole"))


def test_the_story_overwrites_nothing(folder: Path) -> None:
    done = call_command("demo", ".")
    assert done.exit_code == 2
    assert "nothing was written" in done.output
    assert call_command("demo", "story").exit_code == call_command("demo", "story").exit_code == 0
    assert call_command("demo", "log.sql").exit_code == 2


def test_what_open_gives_the_other_verbs_take() -> None:
    people = {"name": ["Ann", "Bob", "Cyd"], "team": ["a", "a", "b"], "pay": [10, 20, 30]}
    opened = keyhole.open(pa.table(people), private="pay:0..", id="name")
    log = ["SELECT SUM(pay) FROM t", "SELECT SUM(pay) FROM t WHERE team = 'a'"]
    assert [f.who for f in keyhole.audit(log, data=opened)] == ["Cyd"]
    with keyhole.watch(opened, exact_above=1) as session:
        assert session.admit("SELECT SUM(pay) FROM t WHERE team = 'b'").verdict == "deny"


def test_private_answers_take_the_words_of_the_command(folder: Path) -> None:
    found = keyhole.ask([ASK], config="keyhole.toml", epsilon=1, accuracy=0.5)
    assert not found.refused
    assert (folder / "book.keyhole").exists()
    with pytest.raises(ConfigError, match="no book"):
        keyhole.ask([ASK], data=pa.table({"age": [1]}), private="age:0..9:1", epsilon=1)


def test_an_empty_log_is_said() -> None:
    for text in ("", "   "):
        with pytest.raises(LogError, match="the log is empty"):
            keyhole.audit(text, data=pa.table({"name": ["A"], "pay": [1]}), private="pay")
