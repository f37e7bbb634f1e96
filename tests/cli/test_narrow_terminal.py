"""On a terminal of 80 columns lines are broken between words; piped, they are what they always are."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.files import write_files

from keyhole.cli.demo import CONFIG, LOG, PEOPLE
from keyhole.cli.root import ENTRIES, Subcommand, app, load
from keyhole.cli.shared.narrow_lines import BROKEN_AT, break_line, fit_lines
from keyhole.report.words.proofs import WIDTH
from keyhole.report.words.text import wrap_line

PROGRAM = [sys.executable, "-c", "from keyhole.cli import main; main()"]


def on_a_terminal(folder: Path, command: list[str], columns: int = 80) -> str:
    """What a command shows on a terminal so wide, with NO_COLOR."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"NO_COLOR": "1", "TERM": "xterm"}
    program = [*PROGRAM, *command]
    with subprocess.Popen(program, cwd=folder, stdout=theirs, stderr=subprocess.DEVNULL, env=env) as running:
        os.close(theirs)
        said = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            said += piece
        running.wait(60)
    os.close(ours)
    return said.decode().replace("\r\n", "\n")


def test_a_verdict_fits_80_columns_and_breaks_no_word(tmp_path: Path) -> None:
    write_files(tmp_path, {"people.csv": PEOPLE, "log.sql": LOG, "keyhole.toml": CONFIG})
    command = ["audit", "log.sql", "-c", "keyhole.toml"]
    shown = on_a_terminal(tmp_path, command)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", shown)  # NO_COLOR
    assert max(map(len, plain.splitlines())) <= 80
    piped = subprocess.run([*PROGRAM, *command], cwd=tmp_path, capture_output=True, text=True, check=False)  # fmt: skip
    assert plain.split() == piped.stdout.split()
    assert max(map(len, piped.stdout.splitlines())) > 100  # a reader of lines gets whole ones


def test_what_was_broken_for_a_wide_page_is_put_together_first() -> None:
    assert BROKEN_AT == WIDTH
    words = "so Blood sugar of any of " + ", ".join(f"Person {k}" for k in range(30))
    wide = list(wrap_line(words, ""))
    assert len(wide) > 2
    narrow = [line for line, _ in fit_lines([("Why:", "bold"), *wide, ("next", "")], 60)]
    assert " ".join(narrow).split() == ["Why:", *words.split(), "next"]
    assert max(map(len, narrow)) <= 60
    assert all(len(line) > 40 for line in narrow[1:-2])  # no line is left half full


def test_a_statement_over_a_caret_stays_whole() -> None:
    sql = "  SELECT " + "x" * 10 + ", y" * 40
    assert [line for line, _ in fit_lines([(sql, ""), ("       ^", "")], 60)] == [sql, "       ^"]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_help_fits_a_terminal_of_80_columns(entry: Subcommand) -> None:
    command = load(entry)
    asked = [[entry.name], *([entry.name, name] for name in getattr(command, "commands", {}))]
    for words in asked:
        text = CliRunner().invoke(app, [*words, "--help"], terminal_width=80).output
        assert max(map(len, text.splitlines())) <= 80, max(text.splitlines(), key=len)


def test_the_front_page_fits_too_and_examples_stay_what_they_were() -> None:
    text = CliRunner().invoke(app, ["--help"], terminal_width=80).output
    assert max(map(len, text.splitlines())) <= 80
    for entry in ENTRIES:
        told = load(entry).help or ""
        for line in told.replace(" \\\n", " ").splitlines():
            if line.strip().startswith("keyhole "):
                shlex.split(line.partition(" < ")[0])  # quotes are not broken
                assert break_line(" ".join(line.split()))[0].startswith("keyhole ")
