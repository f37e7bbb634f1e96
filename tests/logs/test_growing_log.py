"""A log with a real writer at work: audited, each statement is whole or refused; followed, each comes once, whole."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import keyhole
from keyhole.errors import LogError
from keyhole.logs.fold import fold_log
from keyhole.logs.lines import LogLines
from keyhole.logs.tail import TailedFile

STAFF = pa.table({"name": ["Ann", "Bob", "Cyd"], "zip": [10, 101, 1010], "pay": [51, 64, 70]})
# half of a statement is another one, and would give Ann or Bob away: zip < 10, zip < 101, zip < 1010
STATEMENT = "SELECT SUM(pay) FROM staff WHERE zip < 10100"
WRITER = """
import sys, time
path, text, count = sys.argv[1], sys.argv[2] + ";\\n", int(sys.argv[3])
with open(path, "ab", buffering=0) as file:
    for at in range(0, len(text) * count, 13):
        file.write((text * count)[at : at + 13].encode())
        time.sleep(0.002)
"""


def writing(path: Path, count: int) -> subprocess.Popen[bytes]:
    path.write_text(f"{STATEMENT};\n", encoding="utf-8")
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), STATEMENT, str(count)])


def test_no_audit_of_it_takes_half_a_statement_for_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "log.sql"
    process = writing(path, 400)
    seen = []
    try:
        while process.poll() is None and len(seen) < 4:
            found = keyhole.audit(path, data=STAFF, private="pay", id="name")
            assert not found.findings
            assert {e.sql for e in found.evidence.transcript.entries} == {STATEMENT}
            assert all("still being written" in r.error for r in found.refused)
            assert found.exit_code == (3 if found.refused else 0)
            seen.append(found.statements.total)
    finally:
        process.kill()
        process.wait()
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


class Stopped(Exception):
    pass


def test_followed_every_line_comes_once_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.sql"
    process = writing(path, 60)

    def idle() -> None:
        if process.poll() is not None and path.stat().st_size == sum(map(len, found)):
            raise Stopped
        time.sleep(0.001)

    found: list[str] = []
    tailed = TailedFile(path, idle)
    try:
        for line in tailed:
            found += [line] if line else []
    except Stopped:
        pass
    finally:
        tailed.close()
        process.kill()
        process.wait()
    assert found == [f"{STATEMENT};\n"] * 61


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    """The half is a statement of its own, and another one; the writer pauses, so the file does not grow meanwhile."""
    path = tmp_path / "log.sql"
    path.write_text(f"{STATEMENT};\n", encoding="utf-8")
    hold = f"import sys; f = open(sys.argv[1], 'a'); f.write({STATEMENT[:-2]!r}); f.flush(); print(1, flush=True)"
    command = [sys.executable, "-c", f"{hold}; sys.stdin.read()", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = keyhole.audit(path, data=STAFF, private="pay", id="name")
        process.kill()
    if sys.platform == "linux":
        assert [e.sql for e in found.evidence.transcript.entries] == [STATEMENT]
        assert ["still being written" in r.error for r in found.refused] == [True]
        assert found.exit_code == 3


def test_whole_lines_of_half_a_statement_wait_for_their_semicolon(tmp_path: Path) -> None:
    """As long as the writer has the file open; when it is gone, the statement is what stands there."""
    path = tmp_path / "log.sql"
    path.write_text(f"{STATEMENT};\n", encoding="utf-8")
    hold = "import sys; f = open(sys.argv[1], 'a'); f.write('SELECT SUM(pay)\\nFROM staff\\n'); f.flush()"
    command = [sys.executable, "-c", f"{hold}; print(1, flush=True); sys.stdin.read()", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = keyhole.audit(path, data=STAFF, private="pay", id="name")
        folded = fold_log(path)  # as the command reads it
        process.kill()
    if sys.platform == "linux":
        assert [e.sql for e in found.evidence.transcript.entries] == [STATEMENT]
        assert ["still being written" in r.error for r in found.refused] == [True]
        assert [line.sql for line in folded.lines] == [STATEMENT]
        assert ["still being written" in r.error for r in folded.refused] == [True]
    whole = keyhole.audit(path, data=STAFF, private="pay", id="name")
    assert [e.sql for e in whole.evidence.transcript.entries] == [STATEMENT, "SELECT SUM(pay)\nFROM staff"]


def _rewritten(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(1, 1))  # another time, however coarse the clock of the file system is


@pytest.mark.parametrize("text", ["SELECT 3;\nSELECT 4;\n", "SELECT 1;\n", "", "SELECT 1;\nSELECT 3;\nSELECT 4;\n"])
def test_a_log_that_is_written_anew_while_it_is_read_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.sql"
    path.write_text("SELECT 1;\nSELECT 2;\n", encoding="utf-8")
    lines = LogLines.of_file(path)
    assert next(lines) == "SELECT 1;\n"
    _rewritten(path, text)
    with pytest.raises(LogError, match="changed while it was read"):
        list(lines)


@pytest.mark.parametrize("text", ["SELECT 1;\nSELECT 2;\n", "SELECT 1;\nSELECT 2;\nSELECT 3;\n"])
def test_a_log_that_was_added_to_is_read_as_it_was(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.sql"
    path.write_text("SELECT 1;\nSELECT 2;\n", encoding="utf-8")
    lines = LogLines.of_file(path)
    assert next(lines) == "SELECT 1;\n"
    _rewritten(path, text)
    assert list(lines) == ["SELECT 2;\n"]


def test_a_log_that_another_file_replaced_is_read_as_it_was(tmp_path: Path) -> None:
    path, other = tmp_path / "log.sql", tmp_path / "other.sql"
    path.write_text("SELECT 1;\nSELECT 2;\n", encoding="utf-8")
    lines = LogLines.of_file(path)
    other.write_text("SELECT 3;\n", encoding="utf-8")
    other.replace(path)
    assert list(lines) == ["SELECT 1;\n", "SELECT 2;\n"]
