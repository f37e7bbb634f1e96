"""Advice in words and as data: what to withhold, that it was verified, and what else would do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from keyhole.auditing.advice.advise import Alternatives, Effect
from keyhole.auditing.advice.withhold import Remedy
from keyhole.model.numbers import format_fraction
from keyhole.report.documents.json_text import json_fraction
from keyhole.report.documents.tables import CellSuggestion, CoarserTables, SuggestionAlternatives
from keyhole.report.documents.verdict import (
    AdviceAlternatives,
    LargerGroups,
    RoundingEffect,
    StatementAdvice,
    WithheldStatement,
)

SHOWN = 40


def sentence(remedy: Remedy[Any], verb: str, what: str, of: int, clean: str) -> str:
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
            "(standard deviation), and no proof holds any more; a private policy (`keyhole ask`) calibrates it"
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


def describe_advice(
    remedy: Remedy[Any],
    withhold: Sequence[WithheldStatement],
    of: int,
    after: str,
    found: Alternatives | None,
    *,
    verified: bool,
) -> StatementAdvice:
    """The field `advice` of a verdict."""
    return StatementAdvice(
        withhold=tuple(withhold),
        enough=remedy.enough,
        smallest=remedy.smallest,
        bound=remedy.bound,
        verified=verified,
        stopped=remedy.stopped,
        of=of,
        after=after,
        alternatives=None if found is None else _describe_alternatives(found),
    )


def _describe_alternatives(found: Alternatives) -> AdviceAlternatives:
    groups = None if found.groups is None else LargerGroups(least=found.groups[0], withheld=found.groups[1])
    rounding = tuple(_describe_rounding(step, effect) for step, effect in found.rounding)
    return AdviceAlternatives(groups=groups, rounding=rounding, noise=found.amplified)


def _describe_rounding(step: Fraction, effect: Effect) -> RoundingEffect:
    return RoundingEffect(
        step=json_fraction(step),
        exposed=effect.exposed,
        inferred=effect.inferred,
        narrowest=json_fraction(effect.narrowest),
        complete=effect.complete,
    )


def describe_suggestion(
    remedy: Remedy[Any],
    withhold: Sequence[dict[str, str]],
    coarser: Sequence[tuple[str, int, Effect]],
    rounded: Sequence[tuple[Fraction, Effect]],
    *,
    verified: bool,
) -> CellSuggestion:
    """The field `suggestion` of a verdict on tables."""
    return CellSuggestion(
        withhold=tuple(withhold),
        enough=remedy.enough,
        smallest=remedy.smallest,
        bound=remedy.bound,
        verified=verified,
        stopped=remedy.stopped,
        alternatives=SuggestionAlternatives(
            coarser=tuple(
                CoarserTables(
                    what=what,
                    cells=cells,
                    exposed=effect.exposed,
                    inferred=effect.inferred,
                    narrowest=json_fraction(effect.narrowest),
                    complete=effect.complete,
                )
                for what, cells, effect in coarser
            ),
            rounding=tuple(_describe_rounding(step, effect) for step, effect in rounded),
        ),
    )
