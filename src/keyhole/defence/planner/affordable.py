"""What accuracy the rest of a budget would pay for, where the one asked for is too dear."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from keyhole.defence.planner.asks import AskedStatement
from keyhole.defence.planner.choice import Chooser, NotSold

TRIED = 45  # round numbers: fifteen powers of ten


def round_numbers(above: float) -> Iterator[float]:
    """1, 2 and 5 times powers of ten, from the first that is larger.

    >>> from itertools import islice
    >>> list(islice(round_numbers(0.03), 4))
    [0.05, 0.1, 0.2, 0.5]
    """
    power = -15
    while True:
        for digit in (1, 2, 5):
            found = float(f"{digit}e{power}")
            if found > above:
                yield found
        power += 1


def affordable(chooser: Chooser, question: AskedStatement, mark: str, analyst: str | None) -> str:
    """Which round accuracy could be paid, in words; empty if none was asked for, or none can.

    From the declaration, the price and the book alone, as every price. Cost: a choice for each number tried.
    """
    asked, ledger = chooser.terms.accuracy, chooser.holdings.ledger
    left, most = ledger.left(analyst), 0.5 if chooser.holdings.n is not None else float("inf")
    if asked is None or left <= 0:
        return ""
    for tried, accuracy in enumerate(round_numbers(asked)):
        if tried == TRIED or accuracy > most:
            return ""
        other = replace(chooser, terms=replace(chooser.terms, accuracy=accuracy))
        chosen = other.choose(question, mark, analyst)
        if not isinstance(chosen, NotSold) and other.cost(chosen, ledger) <= left:
            return f". It cannot be afforded; --accuracy {accuracy:g} could"
    return ""


__all__ = ["affordable"]
