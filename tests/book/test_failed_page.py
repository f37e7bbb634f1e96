"""A page that fails leaves the state of the book as it was, and reads nothing again for it."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import pytest
from tests.support.postgres_book import BookPlace

from keyhole.book import Book, Mark
from keyhole.book.state import BookState

WHO = ("ann", "bob", None)


class Breaks(Exception):
    """Something goes wrong on a page."""


def write_anything(book: Book, rng: Random) -> None:
    """One entry of a kind drawn at random, which names what is there or what is not."""
    charges = rng.sample(sorted(book.state.losses), min(2, len(book.state.losses)))
    question = {"question": rng.choice("pqr")}
    row = {"column": rng.choice("xy")}
    bodies: list[tuple[Mark, dict[str, Any]]] = [
        (Mark.CHARGE, {"amount": str(Fraction(1, rng.randint(1, 9))), "delta": "0", "what": "q"}),
        (Mark.RELEASE, {**question, "of": rng.choice([None, charges]), "run": "w", "generation": rng.randint(1, 9)}),
        (Mark.TOLD, {"of": charges, "entry": rng.randint(1, 9)}),
        (Mark.ANSWER, {**question, "query": rng.randint(1, 50), "sql": "s", "told": [row], "families": {"x": "sum"}}),
        (Mark.ANSWER, {"query": 3, "sql": "s", "families": {"z": "minmax"}, "verdict": "deny"}),
        (Mark.UNJUDGED, {"query": rng.randint(1, 50), "sql": "s", "log": "a.log", "error": "e"}),
        (Mark.ROWS, {"of": rng.randint(1, 9), "told": [row]}),
        (Mark.FOLLOWED, {"file": rng.choice("fg"), "offset": rng.randint(1, 9)}),
        (Mark.ACCEPTED, {"statements": 1, "entries": []}),
        (Mark.DATA, {rng.choice("uv"): rng.choice("12")}),
        (Mark.PEOPLE, {"people": 1}),
        (Mark.EPOCH, {"version": rng.choice(["1", None])}),
        (Mark.BUDGET, {"unit": rng.choice(["rho", "epsilon"])}),
    ]
    kind, body = rng.choice(bodies)
    if "run" in body:
        book.seal("w", body["generation"], "", b"")
    book.append(kind, body, analyst=rng.choice(WHO))


def charge_and_fail(book: Book) -> None:
    """A page with an entry that is not kept."""
    with book.page():
        book.append(Mark.CHARGE, {"amount": "1/10", "delta": "0", "what": "q"}, analyst="ann")
        raise Breaks


@pytest.mark.parametrize("seed", range(8))
def test_the_state_is_what_the_entries_add_up_to_whichever_pages_fail(place: BookPlace, seed: int) -> None:
    rng = Random(seed)
    with place.open("people") as book:
        for _ in range(60):
            fails = rng.random() < 0.5
            try:
                with book.page():
                    for _ in range(rng.randint(0, 4)):
                        write_anything(book, rng)
                    if fails:
                        raise Breaks
            except Breaks:
                assert fails
            assert book.state == BookState().take_all(book.entries())
    with place.open() as again:  # its totals are what the entries add up to
        assert again.state == BookState().take_all(again.entries())


def test_a_failing_page_reads_no_entry(place: BookPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.open("people") as book:
        before = BookState().take_all(book.entries())
        read: list[int] = []
        real = Book.entries
        monkeypatch.setattr(Book, "entries", lambda self, after=0: read.append(after) or real(self, after))
        with pytest.raises(Breaks):
            charge_and_fail(book)
        assert book.state == before
        assert 0 not in read  # what others wrote is looked for, from the last entry on


def test_what_others_wrote_stays_when_the_page_after_it_fails(place: BookPlace) -> None:
    with place.open("people") as one, place.open() as two:
        with one.page():
            one.append(Mark.CHARGE, {"amount": "1/10", "delta": "0", "what": "q"}, analyst="ann")
        with pytest.raises(Breaks):
            charge_and_fail(two)
        assert two.state == one.state
