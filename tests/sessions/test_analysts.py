"""What somebody is told counts for him, once; for everybody together a release counts once; no cap is passed."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from session_world import COUNT, WHOLE, audited, call, private, staff

from keyhole.book import Mark
from keyhole.config.arguments import BudgetArguments
from keyhole.defence.answering import PrivateAnswer
from keyhole.errors import ConfigError
from keyhole.report.book import describe_book
from keyhole.report.charts.drawing import Series
from keyhole.report.html import sessions as session_pages
from keyhole.sessions.session import Session

OTHER = "SELECT COUNT(*) FROM staff WHERE dept = 'b'"
CAPS = "epsilon = 1\nanalysts = {{ ann = {ann}, bob = {bob} }}"


def capped(folder: Path, ann: str = "0.5", bob: str = "0.5", **more: Any) -> Session[Any]:
    return private(folder, budget=CAPS.format(ann=ann, bob=bob), **more)


def spent(session: Session[Any]) -> list[str]:
    return [str(session.book.state.spent(who)[0]) for who in ("*", "ann", "bob")]


def asked(session: Session[Any], sql: str, analyst: str) -> PrivateAnswer:
    made = session.ask(sql, analyst).noisy
    assert made is not None
    return made


def test_an_answer_counts_for_whoever_is_told_once_and_once_for_everybody_together(tmp_path: Path) -> None:
    with capped(tmp_path) as session:
        first = asked(session, COUNT, "ann")
        assert (first.cost, spent(session)) == (Fraction(1, 10), ["1/10", "1/10", "0"])
        assert asked(session, COUNT, "ann").cost == 0
        assert spent(session) == ["1/10", "1/10", "0"]
        second = asked(session, COUNT, "bob")
        assert (second.groups, second.cost, second.left) == (first.groups, 0, Fraction(4, 10))
        assert spent(session) == ["1/10", "1/10", "1/10"]
    with capped(tmp_path) as session:
        for _ in range(2):
            asked(session, COUNT, "bob")
        assert spent(session) == ["1/10", "1/10", "1/10"]


def test_beyond_his_cap_he_is_answered_afresh_at_his_own_price_or_refused(tmp_path: Path) -> None:
    with capped(tmp_path, bob="0.05") as session:
        first = session.ask(COUNT, "ann")
        second = session.ask(COUNT, "bob")  # 0.1 is more than he has: his own, for what he has
        assert first.noisy is not None
        assert second.noisy is not None
        assert (second.noisy.cost, second.entry == first.entry) == (Fraction(5, 100), False)
        assert "released before" not in second.noisy.how
        assert spent(session) == ["3/20", "1/10", "1/20"]
        third = session.ask(OTHER, "bob")
        assert (str(third.outcome), "nothing is left" in third.reason) == ("refused", True)
        session.ask(OTHER, "ann")
        assert str(session.ask(OTHER, "bob").outcome) == "refused"  # though the book has it
        again = session.ask(COUNT, "bob")
        assert (again.entry, spent(session)[2]) == (second.entry, "1/20")
        assert session.ask(COUNT, "ann").noisy is not None
        assert spent(session)[1] == "1/5"  # never more than he was told, and his own first


def test_the_cheapest_of_what_is_known_is_told(tmp_path: Path) -> None:
    with capped(tmp_path, bob="0.05") as session:
        asked(session, COUNT, "ann")
        asked(session, COUNT, "bob")
    with capped(tmp_path, ann="0.5", bob="0.5") as session:
        asked(session, COUNT, "ann")
        asked(session, COUNT, "bob")
        assert spent(session) == ["3/20", "1/10", "1/20"]  # each his own again, for nothing


def test_a_prepaid_run_counts_for_whom_it_answers(tmp_path: Path) -> None:
    terms = BudgetArguments(mechanism="online-ic", accuracy=0.5, horizon=10)
    many = staff(list(range(2000)), [f"p{at}" for at in range(2000)])
    budget = "epsilon = 100\nanalysts = { ann = 100, bob = 100 }"
    with private(tmp_path, many, budget, terms=terms) as session:
        asked(session, COUNT, "ann")
        everybody, ann, bob = spent(session)
        assert (everybody, ann, bob) == (ann, everybody, "0")
        asked(session, OTHER, "bob")  # another question of the same run
        assert spent(session) == [everybody, everybody, everybody]
        asked(session, OTHER, "ann")
        assert spent(session) == [everybody, everybody, everybody]


def test_analysts_must_be_known(tmp_path: Path) -> None:
    with capped(tmp_path) as session:
        for who, why in ((None, "say who asks"), ("eve", "'eve' has no budget")):
            with pytest.raises(ConfigError, match=why):
                session.ask(COUNT, who)
        assert spent(session) == ["0", "0", "0"]


def test_who_saw_what_is_in_the_book(tmp_path: Path) -> None:
    with capped(tmp_path) as session:
        at = session.ask(COUNT, "ann").entry
        assert session.ask(COUNT, "bob").entry == at  # the receipt is that of the release
        session.ask("SELECT MAX(pay) FROM staff", "bob")
    with audited(tmp_path) as session:
        first = session.ask(WHOLE, "ann")
        replies = [session.ask(WHOLE, "bob") for _ in range(2)]
        assert first.entry != replies[0].entry == replies[1].entry  # new to bob, whoever asked it before: then his own
        assert [reply.reason == "answered before" for reply in replies] == [False, True]
        assert [e.analyst for e in session.book.entries() if e.kind == Mark.TOLD] == ["bob"]
    code, out, _ = call("book", "show", str(tmp_path / "book.keyhole"))
    shown = [line.split("  ")[-1] for line in out.splitlines() if line[:6].strip().isdigit()]
    assert code == 0
    assert f"released: {COUNT} (ann)" in shown
    assert f"shown again: entry {at}, which entry {at - 1} paid for (bob)" in shown  # type: ignore[operator]
    assert [f"answered: {WHOLE} ({who})" in shown for who in ("ann", "bob")] == [True, True]
    assert "refused: SELECT MAX(pay) FROM staff (bob)" in out
    for line in ("spent, everybody together: epsilon 0.1", "spent, ann: epsilon 0.1", "spent, bob: epsilon 0.1"):
        assert line in out
    _, out, _ = call("book", "show", str(tmp_path / "book.keyhole"), "--format", "json")
    plain = json.loads(out)
    assert {who: each["amount"] for who, each in plain["spent"].items()} == {"*": "1/10", "ann": "1/10", "bob": "1/10"}
    assert [e["analyst"] for e in plain["entries"] if e["kind"] == "told"] == ["bob"]
    assert [e["analyst"] for e in plain["not_answered"]] == ["bob"]


def test_chart_table_and_list_of_the_budget_have_the_same_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an analyst buys is a charge and then a release that names the charge: it counts once."""
    with capped(tmp_path) as session:
        session.ask(COUNT, "ann")
        session.ask(OTHER, "ann")
        session.ask(COUNT, "bob")
        session.ask(COUNT, "bob")
        book = describe_book(session.book)
    exact = {who: Fraction(each.amount) for who, each in book.spent.items()}
    assert exact == {"*": Fraction(1, 5), "ann": Fraction(1, 5), "bob": Fraction(1, 10)}
    drawn: list[Series] = []
    monkeypatch.setattr(session_pages, "draw_lines", lambda series, *_, **__: drawn.extend(series))
    page = session_pages.render_book_page(book)
    ends = {("*" if s.name == session_pages.TOGETHER else s.name): s.points[-1][1] for s in drawn}
    assert ends == {who: float(amount) for who, amount in exact.items()}
    assert all(a[1] <= b[1] for s in drawn for a, b in pairwise(s.points))
    assert re.findall(r">(0\.\d+)</td>", page) == ["0.2", "0.2", "0.1"]
    out = call("book", "show", str(tmp_path / "book.keyhole"))[1]
    assert re.findall(r"spent, (.*): epsilon (\S+)", out) == [
        ("everybody together", "0.2"),
        ("ann", "0.2"),
        ("bob", "0.1"),
    ]
