"""What `import keyhole` offers has the words of the commands, and is a function each time that it is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import keyhole

STAFF = "name,dept,pay\nAnn,a,10\nBob,a,20\nCyd,b,30\n"
TOTALS = "dept,n\na,2\nb,1\nTotal,3\n"
BUDGET = """
[source]
data = "staff.csv"
[columns]
id = ["name"]
[columns.public.dept]
values = ["a", "b"]
[columns.private.pay]
min = 0
max = 100
step = 1
[budget]
epsilon = 10.0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"staff.csv": STAFF, "totals.csv": TOTALS, "keyhole.toml": BUDGET}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def people(folder: Path) -> dict[str, object]:
    return {"data": folder / "staff.csv", "private": "pay:0..100:1", "id": "name"}


def audit(folder: Path) -> object:
    return [(f.who, f.value) for f in keyhole.audit("SELECT SUM(pay) FROM staff WHERE dept = 'b'", **people(folder))]


def ask(folder: Path) -> object:
    found = keyhole.ask(["SELECT COUNT(*) FROM staff WHERE dept = 'a'"], config=folder / "keyhole.toml", dry_run=True)
    return found.refused


def session(folder: Path) -> object:
    given = people(folder) | {"private": "pay:0..1000"}
    with keyhole.session(book=folder / "book.keyhole", exact_above=1, **given) as opened:
        return opened.ask("SELECT SUM(pay) FROM staff").exact


def attack(folder: Path) -> object:
    log = [("SELECT SUM(pay) FROM staff WHERE dept = 'b'", 30)]
    return keyhole.attack(log, **people(folder)).to_json()["estimates"]


def tables(folder: Path) -> object:
    return list(keyhole.tables([folder / "totals.csv"], value="n"))


def plan(folder: Path) -> object:
    return keyhole.plan(target="name = 'Ann'", **people(folder)).queries


def reconstruct(folder: Path) -> object:
    return keyhole.reconstruct(folder / "totals.csv", value="n").rows


def verify(folder: Path) -> object:
    found = keyhole.audit("SELECT SUM(pay) FROM staff WHERE dept = 'b'", **people(folder))
    (folder / "verdict.json").write_text(found.dumps(), encoding="utf-8")
    return keyhole.verify(folder / "verdict.json", data=folder / "staff.csv").exit_code


def watch(folder: Path) -> object:
    with keyhole.watch(folder / "staff.csv", private="pay:0..1000", id="name", exact_above=1) as opened:
        return opened.ask("SELECT SUM(pay) FROM staff WHERE dept = 'b'").outcome


def open(folder: Path) -> object:  # noqa: A001 - the verb
    with keyhole.open(**people(folder)) as table:
        return table.roster.n


def connect(folder: Path) -> object:
    return type(keyhole.connect("http://127.0.0.1:9", "key")).__name__


VERBS = {f.__name__: f for f in (audit, ask, session, attack, tables, plan, reconstruct, verify, watch, open, connect)}


def test_every_verb_is_called_here() -> None:
    assert {name for name in keyhole.__all__ if name not in ("File", "__version__")} == set(VERBS)


@pytest.mark.parametrize("name", sorted(VERBS))
def test_a_verb_says_the_same_twice(name: str, folder: Path) -> None:
    """No package has the name of a verb: it would replace the function at its first import."""
    call: Callable[[Path], object] = VERBS[name]
    first = call(folder)
    assert callable(getattr(keyhole, name))
    assert repr(call(folder)) == repr(first)
