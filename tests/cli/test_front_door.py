"""The command line as a whole: what it imports, which words it takes, how every command ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.support.files import write_files

import keyhole
from keyhole.cli.demo import LOG, PEOPLE, TRANSCRIPT
from keyhole.cli.plan import COLUMNS
from keyhole.cli.root import ENTRIES, app, load
from keyhole.cli.shared import options
from keyhole.logs.open import LogFormat
from keyhole.sql import Dialect

RUN = [sys.executable, "-c", "from keyhole.cli import main; main()"]
HEAVY = {"numba", "pydantic", "duckdb", "sqlglot", "numpy", "rich", "typer", "scipy", "pandas"}
WHO = ("--data", "people.csv", "--id", "Name", "--private", "Blood sugar")
COMMANDS: dict[str, tuple[str, ...]] = {
    "audit": ("log.sql", *WHO),
    "ask": ("--decide-only", *WHO),
    "attack": ("t.jsonl", *WHO),
    "oracle": ("simulate", "--queries", "100", "--seeds", "1"),
    "demo": ("story",),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path, {"people.csv": PEOPLE, "log.sql": LOG, "t.jsonl": TRANSCRIPT})
    return tmp_path


def run(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*RUN, *arguments], cwd=folder, env={**os.environ, **env}, input=LOG.encode(), capture_output=True, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "env"),
    [(["--help"], {}), (["--version"], {}), (["audit", "--help"], {}), (["ask", "--help"], {}),
     ([], {"_KEYHOLE_COMPLETE": "bash_complete", "COMP_WORDS": "keyhole a", "COMP_CWORD": "1"})],
)  # fmt: skip
def test_what_help_version_and_completion_import(arguments: list[str], env: dict[str, str]) -> None:
    code = (
        "import sys, atexit; atexit.register(lambda: sys.stderr.write('\\n@' + ' '.join(sys.modules)));"
        "from keyhole.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env={**os.environ, **env}, capture_output=True, text=True, check=True
    )
    assert done.stdout
    modules = set(done.stderr.rsplit("@", 1)[1].split())
    assert not modules & HEAVY


def test_the_lines_of_the_root_are_those_of_the_commands() -> None:
    for entry in ENTRIES:
        command = load(entry)
        assert command.name == entry.name
        assert (command.help or "").partition("\n")[0] == entry.line


def leaves(command: click.Command) -> list[click.Command]:
    return list(command.commands.values()) if isinstance(command, click.Group) else [command]


def test_a_word_means_the_same_in_every_command() -> None:
    shared = {"audit", "watch", "attack", "ask", "plan"}
    seen: dict[str, click.Parameter] = {}
    for entry in ENTRIES:
        for command in leaves(load(entry)):
            words = {word for p in command.params if isinstance(p, click.Option) for word in p.opts}
            if entry.name in shared:
                common = {"--data", "--config", "-c", "--id", "--private", "--hidden", "--table", "--out"}
                assert common | {"--format"} <= words
            for p in command.params:
                if not isinstance(p, click.Option) or "simulate" in (entry.name, command.name):
                    continue
                for word in p.opts:
                    before = seen.setdefault(word, p)
                    if word in ("--format", "--method"):
                        assert isinstance(p.type, options.OneOf)
                    elif word == "--by":  # what a verdict is told by: analysts of an audit, certainty of an attack
                        assert isinstance(p.type, click.Choice)
                    elif word == "--target":
                        assert (p.metavar or "").startswith("WHERE")  # of people: in plan one of them, or all
                    elif (entry.name, word) == ("plan", "--columns"):
                        assert p is COLUMNS  # which columns questions may be about
                    else:
                        assert before is p, word


def test_words_are_tied_to_what_they_mean() -> None:
    assert tuple(LogFormat) == tuple(options.LOG_FORMAT.type.choices)
    assert tuple(Dialect) == options.DIALECTS


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_any_encoding(folder: Path, name: str, encoding: str) -> None:
    done = run(folder, name, *COMMANDS[name], PYTHONIOENCODING=encoding)
    assert b"Traceback" not in done.stderr
    assert b"internal error" not in done.stderr
    assert done.returncode in (0, 1, 3), done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_a_word_nobody_knows_is_one_sentence(folder: Path, name: str) -> None:
    done = run(folder, name, *COMMANDS[name], "--nonsense")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"keyhole: ")
    assert done.stderr.count(b"\n") == 1


def test_verbs_are_sorted_and_there() -> None:
    assert keyhole.__all__ == sorted(keyhole.__all__)
    assert all(callable(getattr(keyhole, name)) for name in keyhole.__all__ if name != "__version__")
    assert app.name == "keyhole"


def test_import_keyhole_imports_nothing_heavy() -> None:
    code = "import keyhole, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & HEAVY


@pytest.mark.parametrize("name", ["audit", "attack", "demo"])
def test_a_reader_that_went_away_ends_it_quietly(folder: Path, name: str) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*RUN, name, *COMMANDS[name]], cwd=folder, stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE,
        check=False,
    )  # fmt: skip
    os.close(write)
    assert (done.returncode, done.stderr.replace(b"warning", b"")[:9]) in ((141, b""), (141, b": the dat"))


def test_ctrl_c_while_the_first_modules_are_imported() -> None:
    code = (
        "import sys, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job is born deaf to it
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from keyhole.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted; nothing was written\n")


def test_a_slow_query_draws_no_progress_on_stdout_where_no_script_runs(folder: Path) -> None:
    """DuckDB takes `python -c` for a terminal: its "60%" went before the JSON of an attack on a busy machine."""
    code = """
import atexit
def tell():
    import duckdb
    print(*duckdb.execute("SELECT value FROM duckdb_settings() WHERE name = 'enable_progress_bar'").fetchone())
atexit.register(tell)
from keyhole.cli import main
main()"""
    done = subprocess.run(
        [sys.executable, "-c", code, "audit", "log.sql", *WHO], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1] == "false"
