"""Advice in words and as data: what to withhold, that it was verified, and what else would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from keyhole.auditing.advice.advise import Alternatives, Effect
from keyhole.model.numbers import format_fraction, shorten_fraction
from keyhole.report.documents.json_text import json_number

SHOWN = 40


class Remedied(Protocol):
    """What is said of any remedy."""

    @property
    def units(self) -> frozenset[Any]:
        """What to withhold."""

    @property
    def bound(self) -> int:
        """No remedy is smaller."""

    @property
    def enough(self) -> bool:
        """Is nobody exposed then?"""

    @property
    def smallest(self) -> bool:
        """Is it shown that no smaller set does?"""

    @property
    def hopeless(self) -> bool:
        """Does a proof rest on nothing that can be withheld?"""

    @property
    def stopped(self) -> bool:
        """Did Ctrl-C end the search?"""


def sentence(remedy: Remedied, verb: str, what: str, of: int, clean: str) -> str:
    """`Withhold 2 of 49 statements, and nobody is exposed. No smaller set does.`"""
    n = len(remedy.units)
    if remedy.hopeless:
        return f"Leaving out {what} does not help: what is declared or known beforehand gives somebody away by itself."
    if remedy.stopped:
        best = (
            f"leaving out {n} of {of} {what} breaks every proof found so far, which may not be all" if n else "none yet"
        )
        return f"Stopped (Ctrl-C) before a remedy was found: {best}. At least {remedy.bound} must go."
    if not remedy.enough:
        return f"No remedy was found in the time given; at least {remedy.bound} {what} must go (--time-limit)."
    if not n:
        return f"Nothing needs to be left out: {clean}."
    told = "No smaller set does" if remedy.smallest else f"At least {remedy.bound} must go; a smaller set was not found"
    return f"{verb} {n} of {of} {what}, and {clean}. {told}."


def others(found: Alternatives) -> Iterator[str]:
    """What groups of a least size, rounding and noise would do instead."""
    if found.groups is None:
        yield "answering only about larger groups: no least size up to 100 people is enough"
    else:
        least, cost = found.groups
        lost = f"{cost} {'statement' if cost == 1 else 'statements'} would not be answered"
        yield f"answering only about groups of at least {least} people: {lost}, and nobody is exposed"
    yield from (
        f"rounding every answer to a multiple of {format_fraction(step)}: {left(e)}" for step, e in found.rounding
    )
    if found.amplified is not None:
        yield (
            f"noise of standard deviation s on each answer: the best recovered value is off by {found.amplified:.2g} s "
            "(standard deviation), and no proof holds any more; `keyhole answer` calibrates it"
        )


def left(effect: Effect, what: str = "people") -> str:
    """What is left after a measure."""
    if not effect.complete:
        return f"as far as is proved, {left(replace(effect, complete=True), what)}"
    if effect.clean:
        return "nobody is exposed or narrowed down" if what == "people" else "no cell is recovered"
    noun = what if effect.exposed + effect.inferred > 1 else {"people": "person", "cells": "cell"}[what]
    said = [f"{effect.exposed} {noun} still exactly"] if effect.exposed else []
    if effect.inferred:
        width = "" if effect.narrowest is None else f" (the narrowest is {format_fraction(effect.narrowest)} wide)"
        said.append(f"{effect.inferred}{'' if said else f' {noun}'} to a range{width}")
    return f"given away: {', '.join(said)}"


def as_data(remedy: Remedied, withheld: list[Any], verified: bool, besides: Mapping[str, Any]) -> dict[str, Any]:
    """The field `advice` of a verdict."""
    return {
        "withhold": withheld,
        "enough": remedy.enough,
        "smallest": remedy.smallest,
        "bound": remedy.bound,
        "verified": verified,
        "stopped": remedy.stopped,
        **besides,
    }


def effect_data(effect: Effect) -> dict[str, Any]:
    """An effect as data."""
    width = effect.narrowest
    narrowest = None if width is None else json_number(shorten_fraction(width))
    return {
        "exposed": effect.exposed,
        "inferred": effect.inferred,
        "narrowest": narrowest,
        "complete": effect.complete,
    }


def alternatives_data(found: Alternatives) -> dict[str, Any]:
    """The alternatives as data."""
    groups = None if found.groups is None else {"least": found.groups[0], "withheld": found.groups[1]}
    steps = [{"step": json_number(shorten_fraction(step)), **effect_data(e)} for step, e in found.rounding]
    return {"groups": groups, "rounding": steps, "noise": found.amplified}
