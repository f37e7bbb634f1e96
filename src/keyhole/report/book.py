"""A book for people and for machines: its entries, its totals, what was not answered. Nothing that is sealed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from keyhole.book import EVERYBODY, Book, BookEntry, Mark
from keyhole.book.state import BookState
from keyhole.defence.budget.budget import Cap
from keyhole.report.documents.sessions import (
    AccountTotal,
    BookDocument,
    BookEntryDocument,
    BookVersion,
    SpendingStep,
    UnansweredStatement,
)
from keyhole.report.words.sentence import counted, escape_line

HELD_BACK = ("told", "epoch", "added", "present", "written")  # rows and keyed ids: long, and for the auditor alone


def describe_book(book: Book, cap: Cap | None = None) -> BookDocument:
    """Everything that may be shown to the owner; amounts are in the unit of `cap`, which the settings say."""
    state = book.state
    return BookDocument(
        population=state.population,
        epochs=tuple(
            BookVersion(epoch=number, version=None if e["version"] is None else str(e["version"]))
            for number, e in enumerate(state.epochs, 1)
        ),
        budget={**state.budget, **({} if cap is None else {"unit": str(cap.unit)})},
        spent=describe_accounts(state, cap),
        spending=tuple(list_spending(book.entries(), BookState(), cap)),
        entries=tuple(map(describe_entry, book.entries())),
        not_answered=tuple(
            UnansweredStatement(at=at, analyst=who, sql=sql, verdict=verdict, reason=reason)
            for at, who, sql, verdict, reason in book.refusals()
        ),
    )


def describe_accounts(state: BookState, cap: Cap | None) -> dict[str, AccountTotal]:
    """What each account spent, may spend, and has left: the one source of what the text, the pages and charts say."""
    found = {}
    named = set() if cap is None else {EVERYBODY, *cap.analysts}
    for who in sorted({*state.totals, *named}):
        counted_amount, delta = state.totals.get(who, (Fraction(0), Fraction(0)))
        amount = counted_amount if cap is None else cap.show(counted_amount, who)
        limit = None if cap is None or who not in named else cap.show(cap.of(who), who)
        left = None if limit is None else str(max(limit - amount, Fraction(0)))
        found[who] = AccountTotal(
            amount=str(amount), delta=str(delta), limit=None if limit is None else str(limit), left=left
        )
    return found


def list_spending(entries: Iterable[BookEntry], state: BookState, cap: Cap | None = None) -> Iterator[SpendingStep]:
    """What was spent after each entry that changed it, for the accounts that it changed: counted as the totals are.
    `state` accounts for the entries before them, and then for these.
    """
    for entry in entries:
        before = dict(state.totals)
        state.take(entry)
        changed = {
            who: str(amount if cap is None else cap.show(amount, who))
            for who, (amount, _) in state.totals.items()
            if before.get(who) != state.totals[who]
        }
        if changed:
            yield SpendingStep(entry=entry.seq, spent=changed)


def describe_entry(entry: BookEntry) -> BookEntryDocument:
    """An entry as the owner may see it."""
    return BookEntryDocument(
        entry=entry.seq,
        at=entry.at,
        kind=entry.kind,
        epoch=entry.epoch,
        analyst=entry.analyst,
        says={name: value for name, value in entry.body.items() if name not in HELD_BACK},
        receipt=entry.hash,
    )


def render_book(book: Book, cap: Cap | None = None) -> Iterator[str]:
    """For people: one line an entry, then what was spent. What analysts wrote is text: it moves no cursor."""
    return map(escape_line, _list_lines(book, cap))


def _list_lines(book: Book, cap: Cap | None) -> Iterator[str]:
    state = book.state
    entries, versions = counted(state.seq, "entry", "entries"), counted(len(state.epochs), "version")
    yield f"{book.path}: the population {state.population!r}, {entries}, {versions} of the data"
    for entry in book.entries():
        said = _describe_kind(entry, cap)
        if said:
            who = f" ({entry.analyst})" if entry.analyst else ""
            yield f"{entry.seq:>6}  {entry.at}  {said}{who}"
    refused = book.refusals()
    if refused:
        yield f"not answered: {len(refused)}"
        for at, analyst, sql, verdict, reason in refused:
            who = f" ({analyst})" if analyst else ""
            yield f"        {at}  {verdict}: {' '.join(sql.split())[:80]}{who}: {reason.splitlines()[0]}"
    unit = state.budget.get("unit", "epsilon") if cap is None else cap.unit
    for account, total in describe_accounts(state, cap).items():
        who = "everybody together" if account == EVERYBODY else account
        slack = f", delta {_format_amount(total.delta)}" if total.delta != "0" else ""
        of = "" if total.limit is None else f" of {_format_amount(total.limit)}"
        left = "" if total.left is None else f"; {_format_amount(total.left)} left"
        yield f"spent, {who}: {unit} {_format_amount(total.amount)}{of}{slack}{left}"


def _describe_kind(entry: BookEntry, cap: Cap | None) -> str:
    body = entry.body
    match entry.kind:
        case Mark.EPOCH:
            return f"version {body['version']!r} of the data" if body["version"] else "the data, without a version"
        case Mark.ANSWER | Mark.PUBLISHED | Mark.UNJUDGED:
            given = "answered" if "answer" in body else "allowed" if entry.kind == Mark.ANSWER else entry.kind
            verdict = f", an auditor would say {body['verdict']}" if body.get("verdict") else ""
            return f"{given}: {_shorten_sql(body)}{verdict}"
        case Mark.CHARGE:
            amount = Fraction(body["amount"])
            shown = amount if cap is None else cap.show(amount, entry.analyst)
            return f"paid {_format_amount(shown)}: {body['what'][:100]}"
        case Mark.RELEASE:
            return f"released: {_shorten_sql(body)}" if body["sql"] else ""
        case Mark.TOLD:
            entries = f"{'entry' if len(body['of']) == 1 else 'entries'} {', '.join(map(str, body['of']))}"
            paid = f", which {entries} paid for" if body["of"] else ""
            return f"shown again: entry {body['entry']}{paid}" if "entry" in body else f"shown{paid}"
        case Mark.FOLLOWED:
            return f"read {body['file']} up to byte {body['offset']}"
        case Mark.ACCEPTED:
            return f"accepted: {counted(body['statements'], 'statement')} that no verdict accounts for"
        case _:
            return ""


def _format_amount(amount: str | Fraction) -> str:
    """An exact amount for people."""
    return f"{float(Fraction(amount)):g}"


def _shorten_sql(body: dict[str, Any]) -> str:
    return " ".join(str(body["sql"]).split())[:100]
