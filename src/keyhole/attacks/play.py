"""One loop for every attack: ask, hear the answer, observe; passive or active, against any responder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Protocol

import numpy as np

from keyhole.attacks.base import Attack, Reconstruction
from keyhole.datasets import Roster, Source
from keyhole.errors import ConfigError
from keyhole.gather import gather
from keyhole.model.prior import Knowledge
from keyhole.model.query import Query
from keyhole.model.transcript import NULL_ANSWER, Answer, Entry, Noise, Transcript


class Responder(Protocol):
    """Whatever answers questions: a bare database, a defended one, a running gateway."""

    def answer(self, query: Query) -> Answer:
        """The answer that is given, with its stated noise."""


class Exact:
    """Answers with the truth."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def answer(self, query: Query) -> Answer:
        """The true answer; a yes or no for a threshold question; NULL where nobody matches."""
        value = self._source.evaluate(query)
        if value is None:
            return NULL_ANSWER
        if isinstance(value, bool):
            return Answer(value, None, None)
        return Answer.exact(value)


class Noisy:
    """Answers with the truth plus noise of a stated law: an experiment, not a defence (its noise is seeded)."""

    def __init__(self, responder: Responder, noise: Noise, *, rng: np.random.Generator) -> None:
        self._responder, self._noise, self._rng = responder, noise, rng

    def answer(self, query: Query) -> Answer:
        """The answer with noise; NULL and yes/no answers pass through."""
        true = self._responder.answer(query)
        if not isinstance(true.value, Decimal):
            return true
        scale = float(self._noise.scale)
        if self._noise.kind == "rounded":
            step = 2 * self._noise.scale
            value = Decimal(repr(float(round(Fraction(true.value) / step) * step)))
        else:
            value = Decimal(repr(float(true.value) + self._draw(scale)))
        if self._noise.kind in ("rounded", "uniform"):
            return Answer(value, Fraction(value) - self._noise.scale, Fraction(value) + self._noise.scale, self._noise)
        return Answer(value, None, None, self._noise)

    def _draw(self, scale: float) -> float:
        if self._noise.kind == "laplace":
            return float(self._rng.laplace(0.0, scale))
        if self._noise.kind == "gaussian":
            return float(self._rng.normal(0.0, scale))
        return float(self._rng.uniform(-scale, scale))


def play(
    attack: Attack,
    responder: Responder,
    roster: Roster,
    *,
    rounds: int,
    questions: Iterable[Query] = (),
    knowledge: Knowledge | None = None,
    watch: Callable[[int, Query, Answer], None] | None = None,
) -> Reconstruction:
    """Ask up to `rounds` questions and give the estimate after the last.

    An active attack (one with `propose`) asks its own questions until it has none left worth asking; a passive one
    hears the answers to `questions`. The attack sees the roster's public half and the answers, nothing else. Cost: one
    grouping of the roster per question, and what the attack does.
    """
    if rounds < 0:
        raise ConfigError(f"rounds = {rounds} must not be negative")
    known = knowledge or Knowledge({attack.target.column: attack.target.prior})
    for number, query in enumerate(_asked(attack, questions, rounds), 1):
        answer = responder.answer(query)
        entry = Entry(str(number), query.label or query.canonical(), query, answer)
        attack.observe(gather(Transcript((entry,)), roster, known))
        if watch is not None:
            watch(number, query, answer)
    return attack.estimate()


def _asked(attack: Attack, questions: Iterable[Query], rounds: int) -> Iterator[Query]:
    propose: Callable[[], Query | None] | None = getattr(attack, "propose", None)
    given = iter(questions)
    for _ in range(rounds):
        query = propose() if propose is not None else next(given, None)
        if query is None:
            return
        yield query
