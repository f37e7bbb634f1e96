"""A data file with a real writer at work: one state of it, or an error; never half a row, never another verdict."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import keyhole
from keyhole.datasets.files import growing
from keyhole.errors import DataError

HEADER = "name,dept,pay\n"
ROW = "{},a,{}\n"
LOG = "SELECT SUM(pay) FROM staff; SELECT SUM(pay) FROM staff WHERE name <> 'p0'"
WRITER = """
import sys, time
path, rows, piece, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
text = "".join(f"p{i},a,{1000 + i}\\n" for i in range(3, rows))
with open(path, "ab", buffering=0) as file:
    print("ready", flush=True)
    sys.stdin.readline()
    for at in range(0, len(text), piece):
        file.write(text[at : at + piece].encode())
        time.sleep(pause)
    if pause:
        sys.stdin.readline()
"""


@contextmanager
def writer(path: Path, rows: int, piece: int, pause: float) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WRITER, str(path), str(rows), str(piece), str(pause)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def staff(folder: Path, rows: int = 3) -> Path:
    path = folder / "staff.csv"
    path.write_text(HEADER + "".join(ROW.format(f"p{i}", 1000 + i) for i in range(rows)), encoding="utf-8")
    return path


def audited(path: Path) -> tuple[int, int, list[object]]:
    found = keyhole.audit(LOG, data=path, private="pay", id="name")
    return found.exit_code, found.records, [f.value for f in found.exposed]


def test_half_a_row_is_never_data(tmp_path: Path) -> None:
    """A writer that stopped in the middle of a row, 10 of 1003: said so; when it is complete, it is read."""
    path = staff(tmp_path)
    with writer(path, 4, 7, 0.0) as process:
        process.stdin.write("go\n")
        process.stdin.flush()
        process.wait(timeout=20)
    assert audited(path)[:2] == (1, 4)
    path = staff(tmp_path)
    with path.open("ab") as mine:  # what this process itself has open is its own matter
        mine.write(b"p3,a,10")
        mine.flush()
        assert audited(path)[1] == 4
    if sys.platform != "linux":
        return
    path = staff(tmp_path)
    with writer(path, 4, 7, 60.0) as process:
        process.stdin.write("go\n")
        process.stdin.flush()
        while path.read_bytes().endswith(b"\n"):
            time.sleep(0.01)
        with pytest.raises(DataError, match=r"staff.csv is being written .* may be half of one"):
            audited(path)


def test_one_state_or_an_error_while_a_writer_is_at_work(tmp_path: Path) -> None:
    path = staff(tmp_path)
    seen = []
    with writer(path, 40_000, 997, 0.0003) as process:
        process.stdin.write("go\n")
        process.stdin.flush()
        for _ in range(6):
            try:
                seen.append(audited(path))
            except DataError as error:
                assert "changed while it was read" in str(error) or "being written" in str(error)  # noqa: PT017
                seen.append((2, 0, []))
    for code, records, values in seen:
        if code != 2:  # a state: whole rows, and the verdict of a file with so many
            assert (code, values) == (1, [1000])
            assert records >= 3
    assert any(code == 2 for code, _, _ in seen)


def test_what_changes_in_the_middle_is_refused_though_it_can_be_read(tmp_path: Path) -> None:
    path = staff(tmp_path)

    def grow() -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write("p9,a,1\n")

    def grow_and_fail() -> None:
        grow()
        raise ValueError("what it tripped over")

    def fail() -> None:
        raise ValueError("on its own")

    for change, said in ((grow, "changed while"), (grow_and_fail, "changed while"), (path.unlink, "changed while")):
        with pytest.raises(DataError, match=said), growing.require_unchanged(path):
            change()
        path = staff(tmp_path)
    with pytest.raises(DataError, match="changed while it was read"), growing.require_unchanged(tmp_path):
        grow()
    with pytest.raises(ValueError, match="on its own"), growing.require_unchanged(tmp_path):
        fail()
    (tmp_path / "notes.txt").write_text("no table", encoding="utf-8")
    with growing.require_unchanged(tmp_path):
        (tmp_path / "notes.txt").write_text("changes", encoding="utf-8")
