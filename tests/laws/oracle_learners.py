"""Laws of whatever learns from an oracle, one bit, one level or one raw number at a time, and a liar for each.

`oracles` has the stricter laws of the streaming attacks; these hold for every learner that is shipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from tests.laws import oracles_liars as liars
from tests.laws.law import Law, Specimen
from tests.laws.oracles import LITTLE, NEAR, SPACE, Builder
from tests.laws.oracles import SPECIMENS as STREAM_ATTACKS

from keyhole.errors import ModelError
from keyhole.oracles.base import CertifyingLearner, ThresholdOracle
from keyhole.oracles.learners.ellipsoid import EllipsoidBisection
from keyhole.oracles.learners.level_newton import LevelNewton
from keyhole.oracles.learners.oracle_off import OracleOff
from keyhole.oracles.noise import Floats, OracleNoise, UniformNoise

SILENT = UniformNoise(1e-12)  # for learners that take answers to be exact


class Learner(Protocol):
    """What every learner shows."""

    def answer(self, q: Floats) -> float:
        """Its present answer to q."""

    def estimate(self) -> Floats:
        """Its present estimate."""


@dataclass(frozen=True, slots=True)
class Schooling:
    """How a learner is made for a stream of a given length, taught one query, and sent through many.

    `hear` gives it some possible answer to a query, `mishear` one that is no answer at all.
    """

    make: Callable[[int], Any]
    step: Callable[[Any, Floats, ThresholdOracle], None]
    hear: Callable[[Any, Floats], None]
    mishear: Callable[[Any, Floats], None]
    noise: OracleNoise = LITTLE

    def game(self, seed: int, queries: int) -> tuple[Floats, ThresholdOracle]:
        """Queries and an oracle to ask them, the same each time."""
        for_w, for_queries, for_noise = np.random.default_rng(seed).spawn(3)
        return NEAR.block(queries, for_queries), ThresholdOracle(for_w.random(4), self.noise, rng=for_noise)


def _same(one: Learner, other: Learner) -> None:
    a, b = one.estimate(), other.estimate()
    assert np.allclose(a, b, rtol=0, atol=1e-9), f"{a} against {b}"


def a_run_is_its_steps(school: Schooling) -> None:
    """A whole array at once, and its rows one by one: the same estimate, and as many answers asked for."""
    queries, oracle = school.game(1, 600)
    whole, stepped, twin = school.make(600), school.make(600), school.game(1, 600)[1]
    whole.run(queries, oracle)
    for q in queries:
        school.step(stepped, q, twin)
    assert oracle.asked == twin.asked, f"{oracle.asked} answers against {twin.asked}"
    _same(whole, stepped)


def runs_one_after_the_other_are_one_run(school: Schooling) -> None:
    """The same rows, seven at a time."""
    queries, oracle = school.game(2, 1200)
    whole, parts, twin = school.make(1200), school.make(1200), school.game(2, 1200)[1]
    whole.run(queries, oracle)
    for piece in np.split(queries, range(7, 1200, 7)):
        parts.run(piece, twin)
    _same(whole, parts)


def more_answers_bring_its_answers_nearer(school: Schooling) -> None:
    """Mean error on fresh queries after 3,000 answers is below a fifth of the error after 10."""
    early, late = 0.0, 0.0
    for seed in range(4):
        queries, oracle = school.game(seed, 3400)
        learner, fresh = school.make(3000), queries[3000:]

        def missed(learner: Learner = learner, fresh: Floats = fresh, hidden: Floats = oracle.hidden) -> float:
            return float(np.mean([abs(learner.answer(q) - float(hidden @ q)) for q in fresh]))

        learner.run(queries[:10], oracle)
        early += missed()
        learner.run(queries[10:3000], oracle)
        late += missed()
    assert late < early / 5, f"{late / 4:.4g} after {early / 4:.4g}"


def looking_does_not_teach(school: Schooling) -> None:
    """Answers and estimates may be had at any time, and scribbled on."""
    queries, oracle = school.game(3, 300)
    watched, alone, twin = school.make(300), school.make(300), school.game(3, 300)[1]
    for q in queries:
        watched.answer(q)
        watched.estimate()[:] = -9
        school.step(watched, q, oracle)
        school.step(alone, q, twin)
    _same(watched, alone)


def no_query_is_asked_twice(school: Schooling) -> None:
    """The oracle counts no more answers than there were queries, and some."""
    queries, oracle = school.game(4, 500)
    school.make(500).run(queries, oracle)
    assert 0 < oracle.asked <= 500, f"{oracle.asked} answers to 500 queries"


def nonsense_is_refused_and_teaches_nothing(school: Schooling) -> None:
    """A query of zeros, of another length or not finite, and an answer that is none."""
    queries, oracle = school.game(5, 200)
    learner, twin = school.make(200), school.make(200)
    learner.run(queries, oracle)
    twin.run(queries, school.game(5, 200)[1])
    wrong = (np.zeros(4), np.ones(3), np.array([1.0, math.nan, 1.0, 1.0]), np.array([math.inf, 1.0, 1.0, 1.0]))
    for heard, q in (*((school.hear, q) for q in wrong), (school.mishear, queries[0])):
        try:
            heard(learner, q)
        except ModelError:
            continue
        raise AssertionError(f"accepted {q}, or an answer to it that is none")
    _same(learner, twin)


def _ask(attack: CertifyingLearner, q: Floats, oracle: ThresholdOracle) -> None:
    threshold = attack.threshold(q)
    if threshold is not None:
        attack.learn(q, threshold, oracle.above(q, threshold))


def _hear(attack: CertifyingLearner, q: Floats) -> None:
    attack.learn(q, 0.5, 1)


def _mishear(attack: CertifyingLearner, q: Floats) -> None:
    attack.learn(q, 0.5, 2)


def _by_bits(build: Builder) -> Schooling:
    return Schooling(partial(build, SPACE, LITTLE), _ask, _hear, _mishear)


def _by_ellipsoid(kind: type[EllipsoidBisection]) -> Schooling:
    return Schooling(lambda T: kind(np.zeros(4), np.ones(4), resolution=1e-3), _ask, _hear, _mishear, SILENT)


SPECIMENS: tuple[Specimen[Schooling], ...] = (
    *(Specimen(attack.name, _by_bits(attack.subject)) for attack in STREAM_ATTACKS),
    Specimen("EllipsoidBisection", _by_ellipsoid(EllipsoidBisection)),
    Specimen(
        "LevelNewton",
        Schooling(
            make=lambda T: LevelNewton(SPACE, LITTLE, levels=4),
            step=lambda attack, q, oracle: attack.learn(q, oracle.level(q, attack.thresholds(q))),
            hear=lambda attack, q: attack.learn(q, 1),
            mishear=lambda attack, q: attack.learn(q, 4),
        ),
    ),
    Specimen(
        "OracleOff",
        Schooling(
            make=lambda T: OracleOff(SPACE, LITTLE),
            step=lambda attack, q, oracle: attack.learn(q, oracle.noisy(q)),
            hear=lambda attack, q: attack.learn(q, 0.5),
            mishear=lambda attack, q: attack.learn(q, math.nan),
        ),
    ),
)


def _liar(build: Builder, name: str) -> tuple[Specimen[Schooling], ...]:
    return (Specimen(name, _by_bits(build)),)


LAWS: tuple[Law[Schooling], ...] = (
    Law(a_run_is_its_steps, _liar(liars.Skipping, "Skipping")),
    Law(runs_one_after_the_other_are_one_run, _liar(liars.ForgetsAtBlocks, "ForgetsAtBlocks")),
    Law(more_answers_bring_its_answers_nearer, _liar(liars.Deaf, "Deaf")),
    Law(looking_does_not_teach, (Specimen("GivesItselfAway", _by_ellipsoid(liars.GivesItselfAway)),)),
    Law(no_query_is_asked_twice, _liar(liars.AsksTwice, "AsksTwice")),
    Law(nonsense_is_refused_and_teaches_nothing, _liar(liars.Swallows, "Swallows")),
)
