"""`keyhole watch LOG`: every statement of a growing log enters the book once, as published."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import keyhole
from keyhole.book import Book, Mark
from keyhole.errors import BookError, LogError
from keyhole.logs.importers import LogFormat
from keyhole.sessions.follow import Entered, Entering, Follower

ALL = "SELECT SUM(pay) FROM t"
SETTINGS = '[source]\ndata = "t.csv"\n[columns]\nid = ["name"]\n[columns.private.pay]\nmin = 0\n'
SETTINGS += '[online]\nexact_above = 1\n[book]\npath = "book.keyhole"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = "".join(f"p{i},{'ab'[i % 2]},{20 + i},{100 + i * i}\n" for i in range(12))
    (tmp_path / "t.csv").write_text("name,team,age,pay\n" + rows, encoding="utf-8")
    (tmp_path / "keyhole.toml").write_text(SETTINGS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def add(path: str, text: str) -> Callable[[], object]:
    def write() -> None:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)

    return write


def follow(
    *steps: Callable[[], object], log: str = "log.sql", kind: LogFormat = LogFormat.AUTO, ignored: tuple[str, ...] = ()
) -> tuple[list[Entered], Follower]:
    """Follow the log; between two looks at it the steps happen, one by one; then it stops."""
    waiting: Iterator[Callable[[], object]] = iter((*steps, *([lambda: None] * 6)))
    over: list[bool] = []
    found: list[Entered] = []

    def wait() -> None:
        step = next(waiting, None)
        over.extend([True] if step is None else [])
        if step is not None:
            step()

    from keyhole.api.session import open_watch
    from keyhole.config.settings import settings, with_private
    from keyhole.sessions.open import AuditTerms

    given = with_private(settings("keyhole.toml"))
    session, _ = open_watch(given, "keyhole.toml", AuditTerms(despite=True, explain=True))
    with session:
        follower = Follower(
            session.auditing, Path(log), found.append, wait, lambda: bool(over), warnings.append, kind, ignored=ignored
        )
        follower.run()
    return found, follower


warnings: list[str] = []


def statements(*kinds: Mark) -> list[str]:
    with Book.rehearsal("book.keyhole") as book:
        return [e.body["sql"] for e in book.entries() if e.kind in (kinds or (Mark.PUBLISHED, Mark.UNJUDGED))]


@pytest.mark.usefixtures("folder")
def test_statements_enter_as_they_come_and_whom_they_expose_is_told() -> None:
    Path("log.sql").write_text(f"{ALL};\n", encoding="utf-8")
    found, follower = follow(
        add("log.sql", "SELECT SUM(pay) FROM t WHERE name"),
        add("log.sql", " <> 'p3';\nSELECT 1; BEGIN;\n"),
        add("log.sql", f"{ALL};\nSELECT SUM(pay) FROM t WHERE team = 'a'"),
    )
    assert [(e.number, e.how, e.reason) for e in found] == [
        ("1", Entering.PUBLISHED, "nobody is exposed"),
        ("2", Entering.PUBLISHED, "it exposes somebody"),
    ]
    assert found[1].admission is not None
    assert [f.who for f in found[1].admission.who] == ["p3"]
    assert statements() == [ALL, "SELECT SUM(pay) FROM t WHERE name <> 'p3'"]
    assert (follower.counts.repeated, follower.counts.elsewhere) == (1, 1)


@pytest.mark.usefixtures("folder")
def test_it_goes_on_where_it_stopped() -> None:
    Path("log.sql").write_text(f"PREPARE q AS SELECT SUM(pay) FROM t WHERE age > $1;\n{ALL};\n", encoding="utf-8")
    follow()
    found, _ = follow(add("log.sql", "EXECUTE q(25);\n"))  # what was prepared before the stop is known
    assert [e.sql for e in found] == ["SELECT SUM(pay) FROM t WHERE age > 25"]
    assert not follow()[0]
    assert statements(Mark.PUBLISHED) == [ALL, "SELECT SUM(pay) FROM t WHERE age > 25"]


@pytest.mark.usefixtures("folder")
def test_what_cannot_be_represented_makes_later_sessions_refuse_until_it_is_accepted() -> None:
    Path("log.sql").write_text(f"{ALL};\nSELECT MEDIAN(pay) FROM t;\nSELECT MEDIAN(pay) FROM t;\n", encoding="utf-8")
    found, _ = follow()
    assert [e.how for e in found] == [Entering.PUBLISHED, Entering.UNJUDGED]
    for opened in (keyhole.watch, keyhole.session):
        with pytest.raises(BookError, match="incomplete: 1 statement"):
            opened(config="keyhole.toml")
    ran = run("ask", "--decide-only", "-c", "keyhole.toml", "--accept-unjudged", given=f"{ALL};")
    assert ran.returncode == 0, ran.stderr
    with keyhole.watch(config="keyhole.toml") as session:
        assert session.ask(ALL).answered


@pytest.mark.usefixtures("folder")
def test_a_session_that_is_open_refuses_from_then_on() -> None:
    Path("log.sql").write_text("SELECT MEDIAN(pay) FROM t;\n", encoding="utf-8")
    with keyhole.watch(config="keyhole.toml") as session:
        assert session.ask(ALL).answered
        follow()
        reply = session.ask("SELECT SUM(pay) FROM t WHERE team = 'a'")
        assert not reply.answered
        assert "lacks something" in reply.reason


@pytest.mark.usefixtures("folder")
def test_rotation_loses_nothing() -> None:
    Path("log.sql").write_text(f"{ALL};\n", encoding="utf-8")
    steps = (
        lambda: Path("log.sql").rename("log.sql.1"),
        add("log.sql.1", "SELECT SUM(pay) FROM t WHERE age > 23;\n"),
        lambda: Path("log.sql").write_text("SELECT SUM(pay) FROM t WHERE age > 25;\n"),
        *([lambda: None] * 6),
    )
    found, follower = follow(*steps)
    assert len(found) == 3
    assert not follower.counts.unjudged
    Path("log.sql").rename("log.sql.2")  # and while nobody looks
    add("log.sql.2", "SELECT SUM(pay) FROM t WHERE age > 26;\n")()
    Path("log.sql").write_text("SELECT SUM(pay) FROM t WHERE age > 27;\n", encoding="utf-8")
    found, follower = follow()
    assert [e.sql[-2:] for e in found] == ["26", "27"]
    assert not follower.counts.unjudged


@pytest.mark.usefixtures("folder")
def test_what_is_gone_makes_the_book_incomplete() -> None:
    Path("log.sql").write_text(f"{ALL};\n", encoding="utf-8")
    found, _ = follow(lambda: Path("log.sql").write_text("SELECT SUM(pay) FROM t WHERE age > 25;\n"))
    assert [e.how for e in found] == [Entering.PUBLISHED, Entering.UNJUDGED, Entering.PUBLISHED]
    assert "truncated" in found[1].reason
    Path("log.sql").unlink()
    Path("log.sql").write_text("SELECT SUM(pay) FROM t WHERE age > 28;\n", encoding="utf-8")
    found, _ = follow()
    assert "rotated or truncated while nobody followed" in found[0].reason
    with pytest.raises(BookError, match="incomplete: 2 statements"):
        keyhole.watch(config="keyhole.toml")


AGAIN = f"{ALL} WHERE age > 21;\n" * 8  # a log that begins as it did: the same dashboards, day after day


@pytest.mark.parametrize("while_followed", [True, False])
@pytest.mark.parametrize("before", [8, 24])  # it was written anew to less, or to more, than was read
@pytest.mark.usefixtures("folder")
def test_a_log_that_is_written_anew_with_the_same_beginning(while_followed: bool, before: int) -> None:
    """What is behind the place up to which it was read, and what is before it, is something else by now."""
    Path("log.sql").write_text(AGAIN + f"{ALL};\n" * 16, encoding="utf-8")
    anew = f"{ALL} WHERE age > 25;\n" * before + f"{ALL} WHERE age > 26;\n"

    def write() -> None:
        inode = Path("log.sql").stat().st_ino
        Path("log.sql").write_text(AGAIN + anew, encoding="utf-8")
        assert Path("log.sql").stat().st_ino == inode

    found, _ = follow(*([write] if while_followed else []))
    if not while_followed:
        write()
        found += follow()[0]
    assert [(e.how, e.sql[-2:]) for e in found] == [
        (Entering.PUBLISHED, "21"),
        (Entering.PUBLISHED, " t"),
        (Entering.UNJUDGED, "n)"),
        (Entering.PUBLISHED, "25"),
        (Entering.PUBLISHED, "26"),
    ]


@pytest.mark.usefixtures("folder")
def test_what_is_written_late_to_a_renamed_log_is_missed_and_said() -> None:
    """A server that goes on writing under the old name long after the new file is there."""
    Path("log.sql").write_text(f"{ALL};\n", encoding="utf-8")
    rotated = (lambda: Path("log.sql").rename("log.sql.1"), lambda: Path("log.sql").write_text(f"{ALL};\n"))
    late = add("log.sql.1", "SELECT SUM(pay) FROM t WHERE name = 'p3';\n")
    found, follower = follow(*rotated, *([lambda: None] * 8), late)
    assert [e.how for e in found] == [Entering.PUBLISHED, Entering.UNJUDGED]
    assert "under its old name" in found[1].reason
    assert follower.counts.unjudged == 1


def csv_line(sql: str, who: str, process: int, *, state: str = "00000", severity: str = "LOG") -> str:
    row = ["2026-11-16 10:00:00 UTC", who, "hr", str(process), *[""] * 22]
    row[11], row[12] = severity, state
    row[13], row[19] = (f"statement: {sql}", "") if severity == "LOG" else ("it failed", sql)
    return ",".join('"' + part.replace('"', '""') + '"' for part in row) + "\n"


@pytest.mark.usefixtures("folder")
def test_a_server_log_says_who_asked_and_what_failed() -> None:
    wrong = "SELECT SUM(pay) FROM t WHERE age > 22"
    lines = [
        csv_line(ALL, "ann", 1),
        csv_line(wrong, "bob", 2),
        csv_line(wrong, "bob", 2, state="42703", severity="ERROR"),
        csv_line("SELECT count(*) FROM orders", "bob", 2),
        csv_line(ALL, "bob", 2),
    ]
    Path("log.csv").write_text("".join(lines), encoding="utf-8")
    found, follower = follow(log="log.csv", ignored=("orders",))
    assert [(e.sql, e.analyst, e.time) for e in found] == [(ALL, "ann", "2026-11-16 10:00:00 UTC")]
    assert (follower.counts.failed, follower.counts.elsewhere, follower.counts.repeated) == (1, 1, 1)
    with Book.rehearsal("book.keyhole") as book:
        assert book.state.heard.keys() == {"ann", "bob"}  # bob was told the same
    verdict = keyhole.audit("book.keyhole", config="keyhole.toml", by="analyst")
    assert list(verdict.views) == ["ann"]


@pytest.mark.usefixtures("folder")
def test_what_was_cancelled_makes_the_book_incomplete_unless_it_is_about_something_else() -> None:
    asked = [ALL, "SELECT count(*) FROM orders"]
    lines = [
        csv_line(sql, "bob", 2, state=s, severity=w) for sql in asked for s, w in (("", "LOG"), ("57014", "ERROR"))
    ]
    Path("log.csv").write_text("".join(lines), encoding="utf-8")
    found, follower = follow(log="log.csv", ignored=("orders",))
    assert [(e.sql, e.how) for e in found] == [(ALL, Entering.UNJUDGED)]
    assert (follower.counts.failed, follower.counts.elsewhere, follower.counts.unjudged) == (0, 1, 1)


@pytest.mark.usefixtures("folder")
def test_today_is_the_day_of_the_record() -> None:
    asked = "SELECT SUM(pay) FROM t WHERE DATE '2026-11-{:02}' <= CURRENT_DATE AND team = 'a'"
    lines = [csv_line(asked.format(day), "ann", 1) for day in (16, 17)]
    lines.append(lines[1].replace("2026-11-16 10", "2026-11-17 10"))  # the same text a day later is another question
    Path("log.csv").write_text("".join(lines), encoding="utf-8")
    found, follower = follow(log="log.csv")
    assert not follower.counts.unjudged
    assert ["CAST('2026-11-16' AS DATE)" in each.sql for each in found] == [True, True, False]


@pytest.mark.usefixtures("folder")
def test_a_log_without_times_needs_now() -> None:
    Path("log.sql").write_text("SELECT SUM(pay) FROM t WHERE DATE '2026-11-16' <= CURRENT_DATE;\n", encoding="utf-8")
    loaded = ["ask", "--decide-only", "-c", "keyhole.toml", "--load", "log.sql"]
    ran = run(*loaded)
    assert ran.returncode == 2
    assert "--now" in ran.stderr
    assert run(*loaded, "--now", "2026-11-17").returncode == 0
    asked = run(
        "ask",
        "--decide-only",
        "-c",
        "keyhole.toml",
        "--now",
        "2026-11-17",
        given=Path("log.sql").read_text(encoding="utf-8"),
    )
    assert "Q1 allow" in asked.stdout or "Q2 allow" in asked.stdout
    asked = run("ask", "-c", "keyhole.toml", "--now", "2026-11-17", Path("log.sql").read_text(encoding="utf-8"))
    assert asked.returncode == 0


@pytest.mark.usefixtures("folder")
def test_a_text_of_many_lines_on_one_line_of_the_log_hides_nothing_behind_it() -> None:
    def line(*texts: str) -> str:
        query = ";\n\n\n".join(texts)
        return json.dumps({"metadata": {"query": query, "queryState": "FINISHED"}, "context": {"user": "ann"}}) + "\n"

    asked = [f"SELECT SUM(pay) FROM t WHERE age > {i}" for i in range(21, 27)]
    Path("log.json").write_text(line(*asked[:3]), encoding="utf-8")
    follow(log="log.json", kind=LogFormat.TRINO)
    add("log.json", line(asked[3]) + line(*asked[4:]))()
    follow(log="log.json", kind=LogFormat.TRINO)
    assert statements() == asked


@pytest.mark.usefixtures("folder")
def test_what_is_written_at_once_is_not_followed() -> None:
    Path("cards.json").write_text(json.dumps([{"dataset_query": {}}]), encoding="utf-8")
    with pytest.raises(LogError, match="--load"):
        follow(log="cards.json", kind=LogFormat.METABASE)
    with pytest.raises(LogError, match="there is no log"):
        follow(log="nowhere.sql")


def run(*args: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from keyhole.cli.shared.terminal import run; run()", *args]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=False)


def started(*args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from keyhole.cli.shared.terminal import run; run()", *args]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **pipes)  # type: ignore[call-overload,no-any-return]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(number: signal.Signals) -> None:
    Path("log.sql").write_text(f"{ALL};\n", encoding="utf-8")
    process = started("watch", "log.sql", "-c", "keyhole.toml", "--format", "json")
    assert process.stdout is not None
    line = json.loads(process.stdout.readline())
    assert (line["verdict"], line["sql"], line["who"]) == ("published", ALL, [])
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "stopped; 1 statement read, 1 new in the book" in errors


def entered() -> int:
    """How many statements are in the book; one that is being begun has none."""
    try:
        return len(statements())
    except BookError:
        return 0


def killed(folder: Path, kills: int, count: int, seed: int) -> None:
    """Written to, killed, and started again; at the end every statement is in the book once, in its order."""
    rng = random.Random(seed)
    texts = [f"SELECT SUM(pay) FROM t WHERE age > {20 + i % 11} AND team <> 'x{i}'" for i in range(count)]
    waiting = list(texts)
    log = folder / "log.sql"
    log.write_text("", encoding="utf-8")
    for _ in range(kills):
        process = started("watch", "log.sql", "-c", "keyhole.toml", "--log-format", "sql")
        size = rng.randrange(1, max(2, 2 * len(waiting) // (kills + 1)))
        some, waiting = waiting[:size], waiting[size:]
        for text in some:
            add(str(log), f"{text};\n")()
        before, look = entered(), bool(some) and rng.random() < 0.7
        try:
            while look and entered() == before and process.poll() is None:
                time.sleep(0.02)
            time.sleep(rng.random() / 10)
        finally:
            process.kill()
            process.communicate(timeout=60)
    for text in waiting:
        add(str(log), f"{text};\n")()
    follow()
    assert statements() == texts


def test_killed_it_loses_nothing_and_enters_nothing_twice(folder: Path) -> None:
    killed(folder, 2, 12, 3)


@pytest.mark.soak
def test_killed_again_and_again(folder: Path) -> None:
    killed(folder, 12, 200, random.randrange(10**9))


@pytest.mark.usefixtures("folder")
def test_a_comment_that_never_closes_is_entered_as_unjudged_and_the_log_goes_on() -> None:
    """It swallowed whatever was written behind it, in silence."""
    Path("log.sql").write_text(f"{ALL};\n/* all;\n{ALL} WHERE name = 'p1';\n", encoding="utf-8")
    told, follower = follow(add("log.sql", f"{ALL} WHERE age > 25;\n"))
    assert [e.how for e in told] == [Entering.PUBLISHED, Entering.UNJUDGED, Entering.PUBLISHED]
    assert told[1].reason.startswith("line 2: the comment /* is never closed")
    assert follower.counts.unjudged == 1
    again, _ = follow()
    assert not again
