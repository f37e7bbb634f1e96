"""Two tables that differ in private values only: whoever asks sees the same, apart from the numbers."""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from keyhole.auditing.online.admission import Admission, ParsedStatement, Permission
from keyhole.book import Book, BookEntry, Mark, sqlite_store
from keyhole.cli import app
from keyhole.defence.noise import ExactNoise
from keyhole.sessions.audited import Audited

PUBLIC = [(f"p{i}", "abc"[i % 3], 20 + 7 * i % 40) for i in range(12)]
ABSENT = (5,)  # who has no private value; the same in both tables
WILD = ("40", "40.5", "-1", "0", "0.000001", "123456789012345", "-987654321.25", "7", "1e6", "99999999999999999999")
TAME = ("40", "40.5", "0", "100", "7.5", "99.5", "12", "63")
QUERIES = "queries.sql"
BUDGETS = {
    "laplace": "epsilon = 20\n",
    "gaussian": 'epsilon = 20\nunit = "rho"\n',
    "online-ic": "epsilon = 100000\n",
}


def table(folder: Path, values: Sequence[str], config: str) -> None:
    folder.mkdir()
    rows = [
        f"{name},{dept},{age},{'' if i in ABSENT else value}"
        for i, ((name, dept, age), value) in enumerate(zip(PUBLIC, values, strict=True))
    ]
    (folder / "t.csv").write_text("name,dept,age,pay\n" + "\n".join(rows) + "\n", encoding="utf-8")
    head = '[source]\ndata = "t.csv"\ntable = "t"\n[columns]\nid = ["name"]\n'
    (folder / "keyhole.toml").write_text(head + config, encoding="utf-8")


def exact(policy: str) -> str:
    columns = "[columns.private.pay]\nmax = 1e320\nkind = 'decimal'\n[online]\nexact_above = 1\n"
    return f'{columns}[book]\npath = "book.keyhole"\npolicy = "{policy}"\n'


def private(mechanism: str) -> str:
    columns = '[columns.private.pay]\nmin = 0\nmax = 100\nstep = "0.5"\nwidth = 20\n'
    columns += '[columns.public.dept]\nvalues = ["a", "b", "c"]\n[columns.public.age]\nmin = 20\nmax = 59\nwidth = 10\n'
    return f'{columns}[book]\npath = "book.keyhole"\n[budget]\nmechanism = "{mechanism}"\n{BUDGETS[mechanism]}'


# --- what is asked ----------------------------------------------------------------------------------------------------

IN_A_LONG_LIST = f"SELECT SUM(pay) FROM t WHERE age IN ({', '.join(map(str, range(300)))})"
NASTY = (
    "",
    ";",
    "SELEC 1",
    "SELECT SUM(pay FROM t",
    "SELECT pay FROM t",
    "SELECT SUM(nothing) FROM t",
    "SELECT * FROM t",
    "SELECT SUM(pay) FROM other",
    "SELECT SUM(pay) FROM t WHERE pay > 30",
    "SELECT MAX(pay) FROM t",
    "SELECT MEDIAN(pay) FROM t",
    "SELECT COUNT(DISTINCT pay) FROM t",
    "SELECT SUM(pay * pay) FROM t",
    "SELECT SUM(1 / pay) FROM t",
    "SELECT SUM(sqrt(pay)) FROM t",
    "SELECT SUM(CAST(pay AS INTEGER)) FROM t",
    "SELECT SUM(CAST(pay AS TINYINT)) FROM t",
    "SELECT SUM(pay) / 0 FROM t",
    "SELECT SUM(pay) / COUNT(pay) FROM t",
    "SELECT SUM(pay) > 100 FROM t",
    "SELECT dept, SUM(pay) FROM t GROUP BY dept HAVING SUM(pay) > 50",
    "SELECT pay, COUNT(*) FROM t GROUP BY pay",
    "SELECT SUM(pay) OVER () FROM t",
    "SELECT VAR_POP(pay) FROM t",
    "SELECT SUM(pay) FROM t WHERE name = 'p1'",
    "SELECT SUM(pay) FROM t WHERE name LIKE '%\\%'",
    "SELECT SUM(pay) FROM t WHERE age / 0 > 1",
    "SELECT SUM(pay) FROM t WHERE dept = 'ß' -- ⚠",
    "SELECT ERROR(pay) FROM t",
    "SELECT SUM(pay) FROM t; DROP TABLE t",
    "SELECT SUM(pay * 1e300) FROM t",
    "SELECT SUM(pay * 123456789012345678) FROM t",
    "SELECT SUM(pay) + 0.1 FROM t",
    "SELECT ROUND(AVG(pay), 2) FROM t",
    IN_A_LONG_LIST,
    "SELECT SUM(pay) FROM (SELECT * FROM t) u",
    "SELECT 1",
    "SELECT COUNT(*) FROM t",
    "SELECT SUM(CASE WHEN pay > 3 THEN 1 ELSE 0 END) FROM t",
    "SELECT COUNT(pay) FROM t",
    "SELECT SUM(age) FROM t",
    "SELECT AVG(pay) FROM t WHERE FALSE",
    "SELECT SUM(-pay) FROM t",
    "SELECT SUM(pay) * 1000000000000 FROM t",
)


def statements(seed: int, length: int) -> list[str]:
    rng = random.Random(seed)

    def condition() -> str:
        age = rng.choice((23, 27, 34, 41, 48, 55))
        dept = rng.choice("abcd")
        return rng.choice(
            ("TRUE", f"age <= {age}", f"age > {age}", f"dept = '{dept}'", f"NOT dept = '{dept}' AND age > {age}")
        )

    def one() -> str:
        if rng.random() < 0.35:
            return rng.choice(NASTY)
        number = rng.choice(("SUM(pay)", "AVG(pay)", "COUNT(*)", "SUM(pay) - 2 * SUM(age)", "SUM(pay * age)"))
        if rng.random() < 0.25:
            return f"SELECT dept, {number} FROM t WHERE {condition()} GROUP BY dept"
        return f"SELECT {number} FROM t WHERE {condition()}"

    made = [one() for _ in range(length)]
    return made + rng.sample(made, min(3, length))  # and some again


# --- what is seen -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """All that one run shows, the numbers taken out; and the size of the book that it leaves."""

    code: int
    out: str
    err: str
    size: int


@dataclass(frozen=True)
class Door:
    """A command, and how its output is read."""

    args: tuple[str, ...]
    stdin: str | None = None
    released: bool = False  # what fired is released: it may differ


def ask(texts: Sequence[str], *more: str) -> Door:
    return Door(("ask", "-c", "keyhole.toml", *more, "--", *texts))


def masked(out: str, released: bool) -> str:
    """The output without its numbers."""
    try:
        return json.dumps(_without(json.loads(out), released))
    except ValueError:
        return "\n".join(_lines(out.splitlines(), released))


def _without(found: Any, released: bool) -> Any:
    if isinstance(found, list):
        return [_without(each, released) for each in found]
    if not isinstance(found, dict):
        return found
    ratio = released or is_ratio(str(found.get("sql")))
    made = {}
    for name, value in found.items():
        if name in ("value", "values"):
            made[name] = [v is None for v in value] if isinstance(value, list) else value is None
        elif name == "receipt" or (ratio and name in ("error", "alpha", "value", "values")):
            made[name] = "#"
        elif name == "how" and released:
            made[name] = re.sub(r"measured|from the hypothesis|\d+ of", "#", str(value))
        elif name == "groups" and ratio:
            made[name] = [each["key"] for each in value]
        else:
            made[name] = _without(value, released)
    return made


def is_ratio(sql: str) -> bool:
    """Its bar is made of released numbers."""
    return re.search(r"AVG|/ COUNT", sql) is not None


def _lines(lines: Sequence[str], released: bool) -> Iterator[str]:
    ratio = released
    for line in lines:
        if not line.startswith(" "):  # a statement; what is said of it stands below
            ratio = released or is_ratio(line)
        plain = _line(line, released)
        yield re.sub(r"the bar is [\d.e+-]+ %", "the bar is #", plain) if ratio else plain


def _line(line: str, released: bool) -> str:
    if not re.match(r"  (\w+ = \w+  )*(-?[\d.]+|NULL|unknown)", line):
        return re.sub(r"measured|from the hypothesis|\d+ of", "#", line) if released else line
    key = re.match(r"  (\w+ = \w+  )*", line)
    return (key.group() if key else "") + "#" * (line.count(",") + 1)


def seen(folder: Path, door: Door, monkeypatch: pytest.MonkeyPatch) -> Seen:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, list(door.args), input=door.stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    out, err = (text.replace(str(folder), "FOLDER") for text in (result.stdout, result.stderr))
    return Seen(result.exit_code, masked(out, door.released), err, size(folder))


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("book.keyhole*"))


@pytest.fixture(autouse=True)
def same_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same key and the same noise in both runs: what differs comes from the values."""
    monkeypatch.setattr(secrets, "token_bytes", lambda n: bytes(range(n)))
    monkeypatch.setattr(ExactNoise, "_draw", lambda self, kind, scale: int(scale / 3))


def neighbours(seed: int, pool: Sequence[str]) -> Iterator[list[str]]:
    rng = random.Random(seed)
    for _ in range(2):
        yield [rng.choice(pool) for _ in PUBLIC]


def alike(tmp_path: Path, config: str, doors: Sequence[Door], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both tables, door after door: nothing but numbers differs."""
    pool = TAME if "[budget]" in config else WILD
    folders = []
    for k, values in enumerate(neighbours(seed, pool)):
        folders.append(tmp_path / f"{seed}-{k}")
        table(folders[-1], values, config)
    for number, door in enumerate(doors):
        if door.stdin is not None:
            for folder in folders:
                (folder / QUERIES).write_text(door.stdin, encoding="utf-8")
        one, two = (seen(folder, door, monkeypatch) for folder in folders)
        if door.released:
            one, two = (replace(each, size=0) for each in (one, two))
        assert one == two, f"seed {seed}, run {number}: {door.args}"


def exact_doors(seed: int) -> list[Door]:
    first, second, third = (statements(seed + k, 8) for k in (0, 1000, 2000))
    watched = ";\n".join(third) + ";\n"
    return [
        ask(first, "--format", "json"),
        ask(second),
        ask(second[:3], "--dry-run"),
        Door(("ask", "--decide-only", "-c", "keyhole.toml"), watched),
        Door(("ask", "--decide-only", "-c", "keyhole.toml", "--format", "json"), watched),
    ]


def private_doors(mechanism: str, seed: int) -> list[Door]:
    first, second = (statements(seed + k, 8) for k in (0, 1000))
    how = ("ask", "-f", QUERIES, "-c", "keyhole.toml")
    file = ";\n".join(text for text in second if ";" not in text) + ";\n"
    online = mechanism.startswith("online")
    doors = [Door((*how, "--format", "json"), file, online), Door((*how, "--error", "90%"), file, online)]
    doors.append(Door((*how, "--dry-run"), file, online))
    return doors if mechanism != "laplace" else [ask(first, "--format", "json"), ask(second), *doors]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("policy", ["audited", "monitored"])
def test_exact_answers(policy: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    doors = exact_doors(seed) if policy == "audited" else [ask(statements(seed, 8), "--format", "json")]
    if policy == "monitored":  # which groups pass a HAVING is what it tells
        doors = [replace(d, args=tuple(a for a in d.args if "HAVING" not in a and "BY pay" not in a)) for d in doors]
    alike(tmp_path, exact(policy), doors, seed, monkeypatch)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mechanism", sorted(BUDGETS))
def test_private_answers(mechanism: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = private(mechanism)
    alike(tmp_path, settings, private_doors(mechanism, seed), seed, monkeypatch)
    (tmp_path / "accurate").mkdir()
    doors = [door for door in private_doors(mechanism, seed) if "--error" not in door.args][-2:]
    alike(tmp_path / "accurate", f"{settings}\naccuracy = 0.9\n", doors, seed, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("policy", ["audited", *sorted(BUDGETS)])
def test_many_seeds(policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(60):
        seed = random.randrange(10**9)
        doors = exact_doors(seed) if policy == "audited" else private_doors(policy, seed)
        alike(tmp_path, exact(policy) if policy == "audited" else private(policy), doors, seed, monkeypatch)


@pytest.mark.parametrize("seed", range(2))
def test_all_that_is_nasty(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alike(tmp_path, exact("audited"), [ask(NASTY, "--format", "json")], 11 + seed, monkeypatch)


@pytest.mark.parametrize(
    "args",
    [
        ("ask", "-c", "keyhole.toml", "--error", "nonsense", "SELECT SUM(pay) FROM t"),
        ("ask", "-c", "nothing.toml", "SELECT SUM(pay) FROM t"),
        ("ask", "-c", "keyhole.toml", "--private", "pay:0..", "SELECT SUM(pay) FROM t"),
        ("ask", "-c", "keyhole.toml", "--private", "age", "SELECT SUM(pay) FROM t"),
        ("ask", "-f", "nothing.sql", "-c", "keyhole.toml"),
        ("ask", "--decide-only", "-c", "keyhole.toml", "--load", "nothing.sql"),
    ],
)
def test_bad_input(args: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alike(tmp_path, exact("audited"), [Door(args)], 3, monkeypatch)


def test_in_processes_of_their_own(tmp_path: Path) -> None:
    shown = []
    for k, values in enumerate(neighbours(5, WILD)):
        folder = tmp_path / str(k)
        table(folder, values, exact("audited"))
        command = [
            sys.executable,
            "-c",
            "from keyhole.cli import main; main()",
            "ask",
            "-c",
            "keyhole.toml",
            "--format",
            "json",
            "--",
        ]
        ran = subprocess.run(
            [*command, *statements(5, 6)], cwd=folder, capture_output=True, text=True, check=False, env=os.environ
        )
        shown.append((ran.returncode, masked(ran.stdout, False), ran.stderr.replace(str(folder), "FOLDER")))
    assert shown[0] == shown[1]
    assert shown[0][0] in (0, 3)


# --- whether it fits on the disk --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "sizes"), [("audited", (10, 16, 22, 40)), ("laplace", (9, 11, 13, 40))])
def test_a_small_disk_is_full_for_both(
    policy: str, sizes: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = exact(policy) if policy == "audited" else private(policy)
    texts = [t for t in statements(7, 12) if t.strip(" ;")]
    full = 0
    for pages in sizes:
        monkeypatch.setattr(sqlite_store, "connect", partial(_small, pages))
        (tmp_path / str(pages)).mkdir()
        alike(tmp_path / str(pages), config, [ask(texts, "--format", "json")], 7, monkeypatch)
        full += "disk is full" in CliRunner().invoke(app, list(ask(texts).args)).stderr
    assert 0 < full < len(sizes), "no disk was small enough, or none large enough"


def _small(pages: int, path: str | Path, connected: Any = sqlite_store.connect) -> Any:
    db = connected(path)
    db.execute(f"PRAGMA max_page_count = {pages}")
    return db


# --- liars ------------------------------------------------------------------------------------------------------------


def _names_a_value(self: Audited, asked: ParsedStatement, real: Any = Audited.admission, **how: Any) -> Admission:
    said: Admission = real(self, asked, **how)
    assert self._source is not None
    largest = self._source.values("pay").floats.max()  # type: ignore[attr-defined]
    return said if said.allowed else replace(said, reason=f"{said.reason} (somebody has {largest})")


def _looks_at_a_value(self: Audited, asked: ParsedStatement, real: Any = Audited.admission, **how: Any) -> Admission:
    said: Admission = real(self, asked, **how)
    assert self._source is not None
    first = self._source.values("pay").floats[0]  # type: ignore[attr-defined]
    return replace(said, verdict=Permission.DENY) if said.allowed and first > 0 else said


def _padded_by_its_answer(
    self: Book, kind: Mark, body: dict[str, Any], real: Any = Book.append, **rest: Any
) -> BookEntry:
    if rest.get("room"):
        rest["room"] = 1 + 4096 * len(json.dumps(body.get("answer"))) // 8
    entry: BookEntry = real(self, kind, body, **rest)
    return entry


@pytest.mark.parametrize(
    ("owner", "name", "liar"),
    [
        (Audited, "admission", _names_a_value),
        (Audited, "admission", _looks_at_a_value),
        (Book, "append", _padded_by_its_answer),
    ],
    ids=["an error names a value", "a decision looks at a value", "an entry is as long as its answer"],
)
def test_liars_are_caught(owner: type, name: str, liar: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, liar)
    texts = ["SELECT SUM(pay) FROM t", "SELECT AVG(pay) FROM t WHERE age > 30", "SELECT SUM(pay) FROM t WHERE age = 20"]
    caught = 0
    for seed in range(4):
        try:
            alike(tmp_path, exact("audited"), [ask(texts, "--format", "json")], seed, monkeypatch)
        except AssertionError:
            caught += 1
    assert caught
