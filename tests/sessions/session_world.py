"""Five people, two departments, and the doors to a session over them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from click.testing import CliRunner
from tests.support.files import write_files

import keyhole
from keyhole.api.session import open_session
from keyhole.cli import app
from keyhole.config import Config
from keyhole.config.arguments import BudgetArguments
from keyhole.config.settings import settings
from keyhole.sessions.session import Session

NAMES, PAY = ("Ann", "Bob", "Cyd", "Dan", "Eve"), (10, 20, 30, 40, 50)
WHOLE = "SELECT SUM(pay) FROM staff"
DEPT_A, DEPT_B = f"{WHOLE} WHERE dept = 'a'", f"{WHOLE} WHERE dept = 'b'"
NOT_ANN = f"{WHOLE} WHERE name <> 'Ann'"  # with WHOLE it tells Ann's
COUNT = "SELECT COUNT(*) FROM staff WHERE dept = 'a'"
DECLARED = '[columns.private.pay]\nmin = 0\nmax = 100\n[columns.public.dept]\nvalues = ["a", "b"]\n'


def staff(pay: Sequence[object] = PAY, names: Sequence[str] = NAMES) -> pa.Table:
    dept = ["a" if at < 2 else "b" for at in range(len(names))]
    return pa.table({"name": list(names), "dept": dept, "level": [at % 2 for at in range(len(names))], "pay": pay})


def told(folder: Path, more: str = "", *, version: str | None = "1", columns: str = "") -> Config:
    """Settings with a book at book.keyhole in the folder; `more` goes under [book]."""
    source = "" if version is None else f"[source]\nversion = '{version}'\n"
    return Config.parse(f"{source}[book]\npath = '{folder / 'book.keyhole'}'\n{more}\n{columns}")


def audited(
    folder: Path, data: object = None, more: str = "", *, version: str | None = "1", columns: str = "", **how: Any
) -> Session[Any]:
    config = told(folder, more, version=version, columns=columns)
    return keyhole.session(
        config, data=staff() if data is None else data, private="pay:..10000000000", id="name", exact_above=1, **how
    )


def private(
    folder: Path,
    data: object = None,
    budget: str = "epsilon = 1",
    *,
    version: str | None = "1",
    more: str = "",
    dry_run: bool = False,
    terms: BudgetArguments | None = None,
) -> Session[Any]:
    config = told(folder, more, version=version, columns=f"{DECLARED}[budget]\n{budget}")
    given = settings(config, data=staff() if data is None else data, id="name")
    few = replace(terms or BudgetArguments(), anyway=True)  # of few people noise leaves next to nothing
    return open_session(given, config, few, dry_run=dry_run)


def raw(folder: Path) -> sqlite3.Connection:
    """The book's file, for whoever would change it: the triggers that keep it append-only are gone."""
    db = sqlite3.connect(folder / "book.keyhole", isolation_level=None)
    for name in ("entry_kept", "entry_unchanged"):
        db.execute(f"DROP TRIGGER IF EXISTS {name}")
    return db


def listed(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, with its bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def call(*args: str, stdin: str = "") -> tuple[int, str, str]:
    """A command as a user calls it: exit code, output, errors."""
    done = CliRunner().invoke(app, list(args), input=stdin)
    return done.exit_code, done.stdout, done.stderr


def ask_json(*args: str) -> tuple[int, dict[str, Any]]:
    code, out, err = call("ask", "--anyway", "--format", "json", *args)
    return code, json.loads(out) if out else {"error": err}


def written(folder: Path, files: Mapping[str, str]) -> None:
    write_files(folder, files)


CSV = "name,dept,level,pay\n" + "".join(
    f"{name},{'a' if at < 2 else 'b'},{at % 2},{pay}\n" for at, (name, pay) in enumerate(zip(NAMES, PAY, strict=True))
)
TOML = "[source]\ndata = 'staff.csv'\nversion = '1'\n[columns]\nid = ['name']\n"
EXACT = f"{TOML}[columns.private.pay]\nmin = 0\n[online]\nexact_above = 1\n"  # exact answers about two people or more
