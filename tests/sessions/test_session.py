"""One question, from text to answer: audited, private or monitored; what is told, what is kept, what is never shown."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from session_world import (
    COUNT,
    CSV,
    DECLARED,
    DEPT_A,
    DEPT_B,
    EXACT,
    NOT_ANN,
    PAY,
    TOML,
    WHOLE,
    ask_json,
    audited,
    call,
    listed,
    private,
    raw,
    staff,
    told,
    written,
)  # fmt: skip
from tests.support.settings import write_into

import keyhole
from keyhole.api.session import choose_policy
from keyhole.auditing.online.online import RISK, OnlineAuditor
from keyhole.book import Book, Mark
from keyhole.config.arguments import BudgetArguments
from keyhole.config.settings import settings
from keyhole.defence.histogram import Histogram
from keyhole.engines.duckdb.source import DuckDBSource
from keyhole.errors import BookError, ConfigError, DataError, NotAvailable
from keyhole.model.transcript import Line
from keyhole.sessions.audited import Audited
from keyhole.sessions.private import Private
from keyhole.sessions.session import Session

BY_LEVEL = "SELECT level, SUM(pay), COUNT(*) FROM staff GROUP BY level"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """staff.csv with settings for each policy; every policy has a book of its own."""
    files = {"staff.csv": CSV, "q.sql": COUNT}
    declared = f"{TOML}{DECLARED}"
    files["audited.toml"] = f"{EXACT}[book]\npath = 'audited.keyhole'"
    files["private.toml"] = f"{declared}[budget]\nepsilon = 1\n[book]\npath = 'private.keyhole'"
    files["monitored.toml"] = f"{EXACT}[book]\npolicy = 'monitored'\npath = 'monitored.keyhole'"
    written(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- audited ----------------------------------------------------------------------------------------------------------


def test_exact_answers_that_expose_nobody(tmp_path: Path) -> None:
    with audited(tmp_path) as session:
        whole, grouped, denied = (session.ask(sql) for sql in (WHOLE, BY_LEVEL, NOT_ANN))
        nobody = session.ask(f"{WHOLE} WHERE dept = 'z'")
    assert whole.exact == (({}, (Decimal(150),)),)
    assert grouped.exact == (({"level": 0}, (Decimal(90), Decimal(3))), ({"level": 1}, (Decimal(60), Decimal(2))))
    assert (str(denied.outcome), denied.exact, denied.answered) == ("deny", None, False)
    assert nobody.exact == (({}, (None,)),)  # the sum over nobody is NULL
    with audited(tmp_path) as session:
        for first, sql in ((whole, WHOLE), (grouped, BY_LEVEL.lower().replace("staff", "STAFF"))):
            again = session.ask(sql)  # the same question, whatever its spelling
            assert (again.exact, again.reason) == (first.exact, "answered before")
            assert (again.entry, again.receipt) == (first.entry, first.receipt)
        assert session.book.has(int(whole.entry or 0), str(whole.receipt))


def test_a_denial_reads_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with audited(tmp_path) as session:
        session.ask(WHOLE)

        def read(statement: object, source: object) -> object:
            raise AssertionError("a secret was read")

        monkeypatch.setattr("keyhole.sessions.audited.compute_exact_answer", read)
        assert str(session.ask(NOT_ANN).outcome) == "deny"
        assert str(session.ask("SELECT MAX(pay) FROM staff").outcome) == "refused"
        assert session.ask(WHOLE).answered  # as it was told
        with pytest.raises(NotAvailable, match="AssertionError"):
            session.ask(DEPT_A)
        assert len(session.book.state.answers) == 1


def test_decisions_are_equal_on_neighbouring_data(tmp_path: Path) -> None:
    log = (
        WHOLE,
        NOT_ANN,
        DEPT_A,
        BY_LEVEL,
        f"{WHOLE} WHERE level = 1 AND dept = 'a'",
        "SELECT MIN(pay) FROM staff",
        "nonsense",
    )
    said = []
    for at, pay in enumerate(((10, 20, 30, 40, 50), (0, 0, 0, 0, 10**6))):
        (tmp_path / str(at)).mkdir()
        with audited(tmp_path / str(at), staff(pay)) as session:
            said.append([(str(r.outcome), r.reason, r.instead) for r in map(session.ask, log)])
    assert said[0] == said[1]
    assert {outcome for outcome, _, _ in said[0]} == {"answered", "deny", "refused"}


def test_what_a_denial_offers_instead_is_allowed(tmp_path: Path) -> None:
    with audited(tmp_path) as session:
        session.ask(WHOLE)
        denied = session.ask("SELECT SUM(pay) FROM staff WHERE dept = 'a' AND name <> 'Ann'")
        assert denied.instead is not None
        assert "Ann" not in denied.reason
        offered = session.ask(denied.instead)
        assert offered.answered
        while (more := session.ask("SELECT SUM(pay) FROM staff WHERE level = 1 AND name <> 'Bob'")).instead:
            assert session.ask(more.instead).answered
            if session.ask(more.instead).reason == "answered before":
                break


@pytest.mark.parametrize(
    "declared",
    [
        "values = ['flu', 'cold']",
        "min = 0\nmax = 1\nstep = 1",
        "kind = 'integer'\nmin = 0\nmax = 1",
        "min = 3.0\nmax = 3.5\nstep = 0.5",
    ],
)
def test_a_column_with_two_values_or_named_ones_is_refused(tmp_path: Path, declared: str) -> None:
    flags = staff(["flu", "cold", "flu", "flu", "cold"] if "values" in declared else [1, 0, 1, 1, 0])
    columns = f"[columns.private.pay]\n{declared}"
    sql = "SELECT COUNT(pay) FROM staff WHERE pay = 'flu'" if "values" in declared else WHOLE
    if "3.5" in declared:
        flags = staff([3.0, 3.5, 3.0, 3.0, 3.5])
    config = told(tmp_path, columns=columns)
    for door in (keyhole.session(config, data=flags, id="name"), keyhole.watch(flags, id="name", config=config)):
        with door as session:
            said = session.ask(sql)
            assert str(said.outcome) == "refused"
            assert said.reason


MANY = staff([at * 10 for at in range(30)], [f"p{at:02}" for at in range(30)])  # 2 in dept a, 28 in dept b


def doors(path: Path, data: object, column: str, exact_above: int | None = None) -> Iterator[Session[Any]]:
    path.mkdir()
    book = path / "book.keyhole"
    yield keyhole.session(data=data, private=column, id="name", table="staff", book=book, exact_above=exact_above)
    yield keyhole.watch(data, private=column, id="name", table="staff", exact_above=exact_above)


def test_of_an_undeclared_column_nothing_exact_is_answered(tmp_path: Path) -> None:
    for flags in ([1, 0, 1, 1, 0], list(PAY)):
        for session in doors(tmp_path / str(flags[0]), staff(flags), "pay", 1):
            with session:
                said = session.ask(WHOLE)
                assert str(said.outcome) == "refused"
                assert "[columns.private.pay]" in said.reason
                assert 'domain = "real"' in said.reason
                assert session.ask("SELECT COUNT(*) FROM staff").answered  # it asks only public things


@pytest.mark.parametrize(
    ("column", "pay", "answered"),
    [
        ("pay:0..19", [0, 1, 2, 3, 4], False),
        ("pay:0..20", [0, 1, 2, 3, 4], True),
        ("pay:0.0..9.5:0.5", [0.5, 1.0, 1.5, 2.0, 2.5], False),
        ("pay:0.0..10.0:0.5", [0.5, 1.0, 1.5, 2.0, 2.5], True),
        ("pay:-9.0..9.0", [0, 1, 2, 3, 4], False),  # whole numbers, by the type of the column
        ("pay:-9.0..9.0", [0.5, 1.0, 1.5, 2.0, 2.5], True),
    ],
)
def test_a_column_with_at_most_20_values_is_asked_privately(
    tmp_path: Path, column: str, pay: list[float], answered: bool
) -> None:
    for session in doors(tmp_path / "few", staff(pay), column, 1):
        with session:
            said = session.ask(WHOLE)
            assert said.answered is answered
            assert answered or ("at most 20" in said.reason and 'policy = "private"' in said.reason)


def test_with_a_known_range_exact_answers_need_a_group(tmp_path: Path) -> None:
    none = doors(tmp_path / "none", MANY, "pay:0..1000")
    for session in none:
        with session:
            said = session.ask(WHOLE)
            assert str(said.outcome) == "refused"
            assert "exact_above = 10" in said.reason
    for session in doors(tmp_path / "two", MANY, "pay:0..1000", 2):
        with session:
            assert session.ask(WHOLE).reason == f"nobody is exposed; {RISK}"
            small = session.ask(DEPT_A)
            assert str(small.outcome) == "refused"
            assert "more than 2 people" in small.reason
            assert str(session.ask(f"{WHOLE} WHERE name = 'p01'").outcome) == "deny"
            assert str(session.ask("SELECT dept, SUM(pay) FROM staff GROUP BY dept").outcome) == "refused"
            assert session.ask(f"{WHOLE} WHERE level = 1 AND dept = 'nowhere'").answered  # a group of nobody: NULL
            assert session.ask(DEPT_B).answered  # 28 people: what it leaves of the rest is named as a risk
            assert session.ask(DEPT_A).answered  # it follows from what was answered before


def test_one_weighted_sum_of_a_bounded_column_would_tell_everybody(tmp_path: Path) -> None:
    """Digits of the sum are the values: 10 and 20 are read off 1 * 10 + 1001 * 20."""
    weighted = "SELECT SUM(CASE WHEN level = 0 THEN pay ELSE 1001 * pay END) FROM staff"
    for session in doors(tmp_path / "bounded", MANY, "pay:0..1000", 2):
        with session:
            assert "weighs people differently" in session.ask(weighted).reason
            assert session.ask("SELECT 3 * SUM(pay) FROM staff").answered
    for session in doors(tmp_path / "real", MANY, "pay:real"):
        with session:
            assert session.ask(weighted).reason == "nobody is exposed"


def test_a_column_called_real_holds_more_than_20_values(tmp_path: Path) -> None:
    few = staff([at % 20 for at in range(30)], [f"p{at:02}" for at in range(30)])
    (tmp_path / "few").mkdir()
    for column in ("pay:real", "pay:..:1"):
        for session in doors(tmp_path / column[:5], MANY, column):
            with session:
                assert session.ask(WHOLE).reason == "nobody is exposed"
        for opening in (keyhole.watch, partial(keyhole.session, book=tmp_path / "few" / "book.keyhole")):
            with pytest.raises(DataError, match="at most 20 different ones") as fault:
                opening(data=few, private=column, id="name")
            assert "19" not in str(fault.value)
        with pytest.raises(DataError, match="at most 20 different ones"):  # not there, and at most one a row
            keyhole.watch(staff().drop(["pay"]), private=column, id="name")
    written(tmp_path, {"log.sql": f"{WHOLE};"})
    verdict = keyhole.audit(tmp_path / "log.sql", data=few, private="pay:real", id="name", table="staff")
    assert verdict.exit_code == 0  # after the answers it is the owner's word


def test_exact_above_is_a_number_of_people(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        told(tmp_path, columns="[online]\nexact_above = 0")
    with pytest.raises(ConfigError, match="at least 1"):
        keyhole.watch(staff(), private="pay:0..", id="name", exact_above=0)


def test_people_are_counted_not_their_records(tmp_path: Path) -> None:
    visits = staff([10 * at for at in range(40)], [f"p{at % 4}" for at in range(40)])
    with keyhole.watch(visits, private="pay:0..1000", id="name", table="staff", exact_above=4) as session:
        assert "more than 4 people" in session.ask(WHOLE).reason
    with keyhole.watch(visits, private="pay:0..1000", id="name", table="staff", exact_above=3) as session:
        assert session.ask(WHOLE).answered


def test_a_maximum_of_a_bounded_column_needs_a_group_too(tmp_path: Path) -> None:
    config = told(tmp_path, columns="[columns.private.pay]\nmax = 1000\nfamily = 'minmax'\n[online]\nexact_above = 3")
    asked = "SELECT MAX(pay) FROM staff"
    with keyhole.session(config, data=staff(), id="name") as session:
        assert "more than 3 people" in session.ask(f"{asked} WHERE dept = 'b'").reason
        assert session.ask(asked).answered


def test_one_answers_for_all_doors_of_a_book(tmp_path: Path) -> None:
    with audited(tmp_path) as session, audited(tmp_path) as other:
        assert session.ask(WHOLE).answered
        assert str(other.ask(NOT_ANN).outcome) == "deny"
        assert other.ask(WHOLE).reason == "answered before"
    with keyhole.watch(staff(), private="pay:0..", id="name", exact_above=1, config=told(tmp_path)) as session:
        assert str(session.ask(NOT_ANN).outcome) == "deny"
        assert str(session.ask(DEPT_A).outcome) == "allow"  # and counts from now on
    with audited(tmp_path) as session:
        assert str(session.ask(f"{WHOLE} WHERE name = 'Bob' OR dept = 'b'").outcome) == "deny"
        allowed = session.ask(DEPT_A)
        assert allowed.exact == (({}, (Decimal(30),)),)


def test_of_a_pair_that_two_threads_ask_at_once_one_is_answered(tmp_path: Path) -> None:
    for at in range(3):
        (tmp_path / str(at)).mkdir()
        with audited(tmp_path / str(at)) as one, audited(tmp_path / str(at)) as two:
            start = threading.Barrier(4)
            said: list[str] = []

            def work(session: Any, sql: str, start: threading.Barrier = start, said: list[str] = said) -> None:
                start.wait()
                said.append(f"{session.ask(sql).outcome}")

            pairs = [(one, WHOLE), (one, NOT_ANN), (two, WHOLE), (two, NOT_ANN)]
            threads = [threading.Thread(target=work, args=pair) for pair in pairs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(said) == ["answered", "answered", "deny", "deny"]
            assert len(one.book.state.answers) == 1


# --- interrupted ------------------------------------------------------------------------------------------------------


def test_an_interrupt_before_the_commit_leaves_nothing_and_after_it_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with private(tmp_path) as session:
        with monkeypatch.context() as patch:
            patch.setattr(Private, "_reply", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                session.ask(COUNT)  # charged and drawn on the page, and the page failed
        assert (session.book.state.totals, session.book.state.releases) == ({}, {})
        with monkeypatch.context() as patch:
            patch.setattr(Private, "settled", lambda self, reply: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                session.ask(COUNT)  # on disk, and nobody was told
        again = session.ask(COUNT)
        assert again.noisy is not None
        assert (again.noisy.cost, session.book.state.spent("*")[0]) == (0, Fraction(1, 10))


def test_an_interrupt_between_the_commit_and_what_the_auditor_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with audited(tmp_path) as session:
        with monkeypatch.context() as patch:
            patch.setattr(Audited, "settled", lambda self, reply: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                session.ask(WHOLE)
        assert str(session.ask(NOT_ANN).outcome) == "deny"  # it counts


def test_ctrl_c_says_that_what_was_answered_is_in_the_book(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Private, "settled", lambda self, reply: (_ for _ in ()).throw(KeyboardInterrupt))
    code, out, err = call("ask", "--anyway", "-c", "private.toml", COUNT)
    assert (code, out, "what was answered is in the book" in err) == (130, "", True)
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    code, out, _ = call("ask", "--anyway", "-c", "private.toml", COUNT)
    assert (code, "free; " in out) == (0, True)


def test_a_publication_that_was_not_kept_does_not_hide_what_others_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from keyhole.sessions.published import publish

    with audited(tmp_path) as session, audited(tmp_path) as other:
        policy = session.policy
        assert isinstance(policy, Audited)
        with monkeypatch.context() as patch:
            patch.setattr(Audited, "unjudged", lambda *_: (_ for _ in ()).throw(OSError))
            with pytest.raises(OSError):  # noqa: PT011 - whatever it is
                publish(policy, [Line(1, DEPT_A), Line(2, "SELECT MAX(pay) FROM staff")])
        assert session.book.state.answers == []  # all or nothing
        other.ask(WHOLE)
        with pytest.raises(BookError, match="was not kept: start again"):
            session.ask(NOT_ANN)
    with audited(tmp_path) as session:
        assert str(session.ask(NOT_ANN).outcome) == "deny"


# --- dry runs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["audited", "private", "monitored"])
def test_a_dry_run_tells_no_number_and_writes_nothing(
    folder: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for begun in (False, True):
        if begun:
            assert (
                call("ask", "--anyway", "-c", f"{policy}.toml", "SELECT COUNT(*) FROM staff WHERE dept = 'b'")[0] == 0
            )
        before = listed(folder)
        with monkeypatch.context() as patch:

            def read(*_: object) -> object:
                raise AssertionError("a secret was read")

            patch.setattr(DuckDBSource, "evaluate", read)
            patch.setattr(Histogram, "total", read)
            sql = COUNT if policy == "private" else DEPT_B
            code, said = ask_json("-c", f"{policy}.toml", "--dry-run", sql, sql)
        assert (code, said["dry_run"]) == (0, True)
        assert listed(folder) == before
        for reply in said["replies"]:
            assert {"value", "groups", "error"}.isdisjoint(reply)
            assert reply["outcome"] == "allow"
        if policy == "private":
            assert [reply["cost"] for reply in said["replies"]] == [0.1, 0.0]
            assert (
                call("ask", "--anyway", "-c", "private.toml", "--dry-run", COUNT)[1].splitlines()[1]
                == f"  costs 10 % of your budget (epsilon 0.1); {9 - begun} such questions left; laplace, epsilon 0.1"
            )


def test_a_dry_run_knows_the_book(tmp_path: Path) -> None:
    with audited(tmp_path) as session:
        session.ask(WHOLE)
    with audited(tmp_path, dry_run=True) as session:
        assert str(session.ask(NOT_ANN).outcome) == "deny"
        assert str(session.ask(DEPT_A).outcome) == "allow"
        assert str(session.ask(f"{WHOLE} WHERE dept = 'b' OR name = 'Bob'").outcome) == "deny"  # after the one before
    with private(tmp_path, budget="epsilon = 0.15", dry_run=True) as session:
        quotes = [session.ask(f"{COUNT} AND level = {at}") for at in (0,)]
        assert [str(q.outcome) for q in quotes] == ["refused"]  # level has no declared values
        costs = [session.ask(sql).price for sql in (COUNT, COUNT.replace("'a'", "'b'"))]
        assert [float(c.cost) for c in costs if c is not None] == [0.015, 0.015]


def test_a_dry_run_quotes_what_is_then_charged(tmp_path: Path) -> None:
    for terms in (BudgetArguments(), BudgetArguments(accuracy=0.3)):
        with private(tmp_path, budget="epsilon = 9", dry_run=True, terms=terms) as session:
            quoted = session.ask(COUNT).price
        with private(tmp_path, budget="epsilon = 9", terms=terms) as session:
            paid = session.ask(COUNT).noisy
        assert quoted is not None
        assert paid is not None
        assert quoted.cost == paid.cost > 0


# --- private ----------------------------------------------------------------------------------------------------------


def test_private_answers_are_paid_once_and_the_receipt_is_theirs(tmp_path: Path) -> None:
    with private(tmp_path) as session:
        first = session.ask(COUNT)
        session.ask(COUNT.replace("'a'", "'b'"))
        again = session.ask(COUNT)
        assert first.noisy is not None
        assert again.noisy is not None
        assert (first.noisy.groups, first.entry, first.receipt) == (again.noisy.groups, again.entry, again.receipt)
        assert session.book.has(int(first.entry or 0), str(first.receipt))
        assert session.book.state.spent("*")[0] == Fraction(2, 10)
        public = session.ask("SELECT COUNT(*) FROM staff")
        assert public.answered
        assert (public.entry, public.noisy and public.noisy.cost) == (None, 0)
        refused = session.ask("SELECT MAX(pay) FROM staff")
        assert (str(refused.outcome), session.book.refusals()[-1][2:4]) == (
            "refused",
            ("SELECT MAX(pay) FROM staff", "refused"),
        )


def test_what_is_sealed_is_in_no_output(folder: Path) -> None:
    people = "".join(f"p{at},{'ab'[at % 2]},{at % 2},{at % 100}\n" for at in range(2000))
    (folder / "staff.csv").write_text("name,dept,level,pay\n" + people, encoding="utf-8")
    how = ("--mechanism", "online-ic", "--epsilon", "1000", "--accuracy", "0.5")
    code, _, err = call("ask", "-f", "q.sql", "-c", str(write_into(Path("private.toml"), how)[0]))
    assert code == 0, err
    secret = "987654321987654321"
    with sqlite3.connect("private.keyhole") as db:  # a threshold that stands out
        ((name, fields),) = db.execute("SELECT name, fields FROM sealed").fetchall()
        assert int(json.loads(fields)["level"])
        db.execute("UPDATE sealed SET fields = ?", (json.dumps(json.loads(fields) | {"level": secret}),))
    db.close()
    with Book.open("private.keyhole") as book:
        assert secret in str(book.unseal(name))
    outputs = [
        call("book", "show", "private.keyhole"),
        call("book", "show", "private.keyhole", "--format", "json"),
        call("book", "export", "private.keyhole"),
        call("audit", "private.keyhole", "-c", "private.toml", "--format", "json"),
        call(
            "attack", "private.keyhole", "--data", "staff.csv", "--id", "name", "--private", "pay", "--format", "json"
        ),
    ]
    for code, out, err in outputs:
        assert code in (0, 3), err
        assert out
        assert secret not in out
        assert "NUMPY" not in out
    assert [COUNT in out for _, out, _ in outputs[:2]] == [True, True]
    assert len(outputs[2][1].splitlines()) == 1


# --- monitored --------------------------------------------------------------------------------------------------------


def test_monitored_is_never_a_default_and_tells_nobody(folder: Path) -> None:
    code, said = ask_json("-c", "monitored.toml", WHOLE, NOT_ANN, "SELECT MAX(pay) FROM staff", "nonsense")
    whole, risky, maximum, unread = said["replies"]
    assert code == 3
    assert [whole["value"], risky["value"], maximum["value"]] == [150, 140, 50]
    assert unread["outcome"] == "refused"
    for reply in (whole, risky, maximum):
        assert reply["reason"] == ""
        assert {"who", "proof", "instead"}.isdisjoint(reply)
    _, told_, _ = call("ask", "-c", "monitored.toml", "--explain", NOT_ANN)
    assert "Ann's" not in told_
    assert "deny" not in told_
    with Book.open("monitored.keyhole") as book:
        entries = list(map(book.entry, book.state.answers))
        assert [e.body["verdict"] for e in entries] == ["allow", "deny", "refused"]
        assert [e.kind for e in entries] == [Mark.ANSWER, Mark.ANSWER, Mark.UNJUDGED]
        assert all(e.body["why"] for e in entries)
    _, out, _ = call("book", "show", "monitored.keyhole")
    assert f"answered: {NOT_ANN}, an auditor would say deny" in out
    assert "answered: SELECT MAX(pay) FROM staff, an auditor would say refused" in out


def test_an_auditor_goes_on_where_monitoring_stopped(folder: Path) -> None:
    ask_json("-c", "monitored.toml", WHOLE, "SELECT MAX(pay) FROM staff")
    text = (folder / "monitored.toml").read_text()
    (folder / "monitored.toml").write_text(text.replace("policy = 'monitored'", "policy = 'audited'"))
    code, out, err = call("ask", "-c", "monitored.toml", NOT_ANN)
    assert (code, "that no auditor admitted" in out) == (3, True)
    assert "the book has 1 publication that no verdict accounts for (Q2;" in err
    code, _, err = call("ask", "--decide-only", "-c", "monitored.toml", stdin=WHOLE)
    assert (code, "1 publication that no verdict accounts for (Q2;" in err) == (3, True)


def test_a_reply_says_each_time_that_the_book_has_what_was_not_judged(folder: Path) -> None:
    (folder / "pub.sql").write_text("SELECT MAX(pay) FROM staff; SELECT MIN(pay) FROM staff;")
    _, _, err = call("ask", "--decide-only", "-c", "audited.toml", "--load", "pub.sql", "--accept-unjudged", stdin="")
    assert "no verdict accounts for 2 statements of pub.sql; with --accept-unjudged we go on:" in err
    left = "2 statements in the book were not judged"
    code, out, _ = call("ask", "-c", "audited.toml", WHOLE)
    assert (
        code,
        "exact answer; nobody is exposed by what was judged; " in out,
        f"; {left}; recorded as entry" in out,
    ) == (0, True, True)
    code, out, _ = call("ask", "-c", "audited.toml", WHOLE)
    assert (code, f"exact answer; answered before; {left}" in out) == (0, True)
    replies = json.loads(call("ask", "-c", "audited.toml", "--format", "json", WHOLE, DEPT_A)[1])["replies"]
    assert [reply["reason"].endswith(left) for reply in replies] == [True, True]
    _, out, _ = call("ask", "--decide-only", "-c", "audited.toml", stdin=DEPT_A)
    assert out.strip().endswith(left)


# --- the book as a log ------------------------------------------------------------------------------------------------


def test_audit_and_attack_read_a_book(folder: Path) -> None:
    ask_json("-c", "monitored.toml", WHOLE, NOT_ANN, BY_LEVEL)
    before = listed(folder)
    code, out, _ = call("audit", "monitored.keyhole", "-c", "monitored.toml", "--format", "json")
    verdict = json.loads(out)
    assert (code, [f["record"]["name"] for f in verdict["exposed"]]) == (1, ["Ann"])
    assert verdict["exposed"][0]["value"] == 10
    assert verdict["statements"]["total"] == 3
    code, out, err = call(
        "attack", "monitored.keyhole", "--data", "staff.csv", "--id", "name", "--private", "pay", "--format", "json"
    )
    assert code == 0, err
    estimates = {e["record"]["name"]: e["value"] for e in json.loads(out)["estimates"]}
    assert estimates["Ann"] == pytest.approx(10, abs=0.01)
    code, out, _ = call("book", "export", "monitored.keyhole")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["sql"] for line in lines] == [WHOLE, NOT_ANN, BY_LEVEL]
    assert lines[2]["answer"] == [{"key": {"level": 0}, "values": [90, 3]}, {"key": {"level": 1}, "values": [60, 2]}]
    ask_json("-c", "private.toml", COUNT)
    code, out, err = call("audit", "private.keyhole", "-c", "private.toml", "--format", "json")
    assert (code, json.loads(out)["statements"]["total"]) == (3, 1), err  # noise proves nothing, and rules nothing out
    assert {k: v for k, v in listed(folder).items() if "private.keyhole" not in k} == before
    damaged = raw_copy(folder)
    code, out, err = call("audit", damaged, "-c", "monitored.toml")
    assert (code, out, "damaged" in err) == (2, "", True)


def raw_copy(folder: Path) -> str:
    (folder / "book.keyhole").write_bytes((folder / "monitored.keyhole").read_bytes())
    db = raw(folder)
    db.execute("UPDATE entry SET body = replace(body, '150', '151')")
    db.close()
    return str(folder / "book.keyhole")


# --- the doors --------------------------------------------------------------------------------------------------------


def test_exit_codes_of_ask(folder: Path) -> None:
    assert call("ask", "-c", "audited.toml", WHOLE, DEPT_A)[0] == 0
    assert call("ask", "-c", "audited.toml", WHOLE)[0] == 0  # told again
    assert call("ask", "-c", "audited.toml", WHOLE, NOT_ANN)[0] == 3
    assert call("ask", "-c", "audited.toml", "SELECT MAX(pay) FROM staff")[0] == 3
    assert call("ask", "-c", "audited.toml", "nonsense")[0] == 3
    assert call("ask", "--anyway", "-c", "private.toml", "--analyst", "ann", COUNT)[0] == 0
    assert call("ask", "--anyway", "-c", "private.toml", "SELECT MAX(pay) FROM staff")[0] == 3
    finer, _ = write_into(Path("private.toml"), ("--accuracy", "0.000001"))
    assert call("ask", "--anyway", "-c", str(finer), COUNT)[0] == 3  # more than there is
    assert call("ask", "-c", "missing.toml", WHOLE)[0] == 2
    assert call("ask", "-c", "audited.toml", "--data", "none.csv", WHOLE)[0] == 2
    assert call("ask", "-c", "audited.toml", "--out", "no/such/folder/x", WHOLE)[0] == 2
    code, out, _ = call("ask", "-c", "audited.toml", "-", stdin=f"{WHOLE};\n{DEPT_A};")
    assert (code, out.count("exact answer; answered before")) == (0, 2)
    code, out, _ = call("ask", "-c", "audited.toml", "--explain", NOT_ANN)
    assert (code, "exposed: Ann's pay" in out) == (3, True)
    assert "Ann's" not in call("ask", "-c", "audited.toml", NOT_ANN)[1]


def test_the_python_doors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no book"):
        keyhole.session(data=staff(), private="pay:0..", id="name", exact_above=1)  # a frame, and nothing says where
    (tmp_path / "staff.csv").write_text(CSV, encoding="utf-8")
    with keyhole.session(data=tmp_path / "staff.csv", private="pay:0..", id="name", exact_above=1) as session:
        assert session.book.path == str((tmp_path / "book.keyhole").resolve())  # beside the data
        assert session.ask(WHOLE).exact == (({}, (Decimal(150),)),)
    with keyhole.watch(
        staff(), private="pay:0..", id="name", exact_above=1
    ) as session:  # decisions alone may be kept in memory
        assert session.book.path == ":memory:"
        first = session.ask(WHOLE)
        assert (str(first.outcome), first.exact) == ("allow", None)
        denied = session.ask(NOT_ANN)
        assert denied.admission is not None
        assert [f.who for f in denied.admission.who] == ["Ann"]
    with keyhole.watch(staff(), private="pay:0..", id="name", exact_above=1, book=tmp_path / "h.keyhole") as session:
        assert session.admit(WHOLE).allowed
        assert session.admit(NOT_ANN).allowed  # nothing was recorded
        assert session.record(WHOLE) == "1"
        assert not session.admit(NOT_ANN).allowed
    with keyhole.watch(staff(), private="pay:0..", id="name", exact_above=1, book=tmp_path / "h.keyhole") as session:
        assert not session.admit(NOT_ANN).allowed
        assert isinstance(session.auditing.auditor, OnlineAuditor)


def test_a_budget_means_private_and_none_means_audited(tmp_path: Path) -> None:
    budget = "[budget]\nepsilon = 1"
    for more, columns, policy in (
        ("", budget, "private"),
        ("", "", "audited"),
        ("policy = 'audited'", budget, "audited"),
    ):
        assert choose_policy(settings(told(tmp_path, more, columns=columns), data=staff())) == policy
    with pytest.raises(ConfigError, match="policy"):
        told(tmp_path, "policy = 'open'")
