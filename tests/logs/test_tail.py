"""A log that is still being written: partial lines, rotation, truncation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keyhole.logs.tail import Ended, LogPlace, TailedFile, find_earlier_files


class Script:
    """What happens to the log while there is nothing to read, step by step; then it is over."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self._steps: Iterator[Callable[[], object]] = iter(steps)

    def __call__(self) -> None:
        step = next(self._steps, None)
        if step is None:
            raise InterruptedError
        step()


def add(path: Path, text: str) -> Callable[[], object]:
    def write() -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)

    return write


def lines_of(path: Path, *steps: Callable[[], object]) -> tuple[list[str], TailedFile]:
    tailed = TailedFile(path, Script(*steps))
    found = []
    try:
        for line in tailed:
            if line:
                found.append(line)
    except InterruptedError:
        pass
    tailed.close()
    return found, tailed


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text("one\ntwo\n", encoding="utf-8")
    return path


def test_lines_come_when_they_are_whole(log: Path) -> None:
    found, tailed = lines_of(log, add(log, "thr"), add(log, "ee\nfo"), add(log, "ur"))
    assert found == ["one\n", "two\n", "three\n"]
    assert [tailed.offset(line, 1) for line in (1, 2, 3, 4)] == [0, 4, 8, 14]
    assert tailed.offset(2, 3) == 6


def test_a_renamed_log_is_read_to_its_end_and_then_left(log: Path) -> None:
    moved = log.with_name("server.log.1")
    steps = [lambda: log.rename(moved), add(moved, "late\n"), lambda: log.write_text("new\n"), add(moved, "last")]
    found, tailed = lines_of(log, *steps, *([lambda: None] * 5))
    assert found == ["one\n", "two\n", "late\n", "last"]
    assert tailed.ended is Ended.ROTATED


@pytest.mark.parametrize("text", ["", "x\n", "completely other lines\n" * 5])
def test_truncation_is_noticed_however_long_it_is_afterwards(log: Path, text: str) -> None:
    def truncate() -> None:
        inode = log.stat().st_ino
        log.write_text(text, encoding="utf-8")
        assert log.stat().st_ino == inode

    found, tailed = lines_of(log, truncate, lambda: None)
    assert found == ["one\n", "two\n"]
    assert tailed.ended is Ended.TRUNCATED


def test_a_place_knows_its_file(log: Path) -> None:
    with log.open("rb") as file:
        place = LogPlace.of(file, 4)
        assert LogPlace.from_json(place.to_json()) == place
        add(log, "three\n")()
        assert place.fits(file)
        os.truncate(log, 0)
        assert not place.fits(file)


def test_what_a_log_was_renamed_to(log: Path) -> None:
    with log.open("rb") as file:
        place = LogPlace.of(file, 4)
    log.rename(log.with_name("server.log.2"))
    log.with_name("server.log.1").write_text("between\n")
    log.write_text("now\n")
    os.utime(log.with_name("server.log.2"), ns=(1, 1))
    assert find_earlier_files(log, place) == [log.with_name("server.log.2"), log.with_name("server.log.1")]
    log.with_name("server.log.2").unlink()
    assert find_earlier_files(log, place) is None


def test_bytes_that_are_no_text_do_not_hide_the_others(log: Path) -> None:
    with log.open("ab") as file:
        file.write(b"K\xf6ln\nend\n")
    found, _ = lines_of(log)
    assert found[2].encode("utf-8", "surrogateescape") == b"K\xf6ln\n"
    assert found[3] == "end\n"
