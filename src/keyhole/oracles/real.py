"""One attack on a real target: find out how noisy it is, learn what it hides, say what is certain without the truth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

import numpy as np

from keyhole.errors import ConfigError, ModelError
from keyhole.oracles.base import YesNoOracle
from keyhole.oracles.certify.certified import learn_noisy
from keyhole.oracles.certify.measured import measured_law
from keyhole.oracles.certify.stated_range import uncertified, widened, without_range
from keyhole.oracles.certify.tails import Floats
from keyhole.oracles.certify.uniform_between import UniformBetween
from keyhole.oracles.learners.edge import edge_of
from keyhole.oracles.learners.line_search import independent
from keyhole.oracles.learners.silent import SEARCH, learn_silent, predictions
from keyhole.oracles.learnt import Learnt, RestsOn, nothing_learnt
from keyhole.oracles.levels import LevelNewton
from keyhole.oracles.noise import GaussianNoise, LaplaceNoise, OracleNoise, TriangularNoise, UniformNoise
from keyhole.oracles.recorded import BudgetReached, Recorded
from keyhole.oracles.subspace import Subspace

TWO_ANSWERS = "one query was answered above a threshold, and not above a lower one: the target changed, or has noise"
LAWS: dict[str, Callable[[float], OracleNoise]] = {
    "gaussian": GaussianNoise,
    "uniform": UniformNoise,
    "laplace": LaplaceNoise,
    "triangular": TriangularNoise,
}


class LearnerKind(StrEnum):
    """How a noisy target is learnt from; `auto` is newton."""

    AUTO = "auto"
    NEWTON = "newton"
    SEQUENTIAL = "sequential"
    EDGE = "edge"
    ONLINE_BISECTION = "online-bisection"


@dataclass(frozen=True, slots=True)
class AskingPlan:
    """How to learn: noise (auto, none, or a law), learner, the basis, levels of an answer, queries kept for a check.

    `basis`: 0 for the span of the queries, -1 for principal components with a clear gap, else their number.
    """

    noise: str = "auto"
    learner: LearnerKind = LearnerKind.AUTO
    basis: int = 0
    levels: int = 2
    calibrate: int = 0
    delta: float = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """What to ask (`rows`), what only to answer (`held_out`), and where the hidden numbers lie.

    `stated`: somebody vouches for the bounds; else they are where the search begins, and nothing may rest on them.
    `sums`: it is known that the target's answers are sums of query times hidden number.
    """

    rows: Floats
    lower: Floats
    upper: Floats
    held_out: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    stated: bool = True
    sums: bool = False


class LevelOracle(Protocol):
    """A target that says how many of several thresholds its noisy answer exceeds."""

    asked: int

    def level(self, q: Floats, thresholds: Floats) -> int:
        """0 to len(thresholds)."""


def parse_law(text: str) -> OracleNoise | None:
    """gaussian:SD, uniform:HALF-WIDTH (or LOW..HIGH where it is known to an interval), laplace:, triangular:, none.

    >>> parse_law("gaussian:0.5"), parse_law("none"), parse_law("uniform:0.9..1")
    (GaussianNoise(std=0.5), None, UniformBetween(low=0.9, high=1.0))
    """
    kind, _, number = text.partition(":")
    if text == "none":
        return None
    low, dots, high = number.partition("..")
    try:
        ends = float(low), float(high if dots else low)
    except ValueError:
        ends = math.nan, math.nan
    if kind not in LAWS or not all(math.isfinite(v) and v > 0 for v in ends) or (dots and kind != "uniform"):
        raise ConfigError(
            f"--noise {text!r}: write auto, none, gaussian:SD, laplace:SCALE, uniform:HALF-WIDTH, uniform:LOW..HIGH or "
            "triangular:HALF-WIDTH, such as gaussian:0.5"
        )
    return UniformBetween(*ends) if dots else LAWS[kind](ends[0])


def learn_target(oracle: YesNoOracle, questions: Questions, plan: AskingPlan = AskingPlan()) -> Learnt:  # noqa: B008 - a frozen value
    """Learn w of `lower <= w <= upper` from a target that says whether its answer to a query is above a threshold.

    Noise "auto" is measured first. Without noise each independent query is bisected (`line_search`); with noise every
    query is asked once, at the threshold of the learner, and what is certain comes from its box and from
    `LikelihoodRegion`, each with delta / 2; both begin at the bounds, so where these are not `stated` they are widened
    until no answer contradicts them, and nothing is certified. Stops with what is known when the budget is reached.
    """
    rows, lower, upper = np.ascontiguousarray(questions.rows, dtype=np.float64), questions.lower, questions.upper
    if rows.ndim != 2 or not len(rows) or not np.isfinite(rows).all():
        raise ModelError(f"queries are finite numbers, one query a row; got shape {rows.shape}")
    used = rows[np.any(rows != 0, axis=1)]
    if not len(used):
        raise ModelError("every query is zero: it would ask nothing")
    zero = len(rows) - len(used)
    notes = [f"{zero} queries are zero and were not asked"] if zero else []
    law = None if plan.noise == "auto" else parse_law(plan.noise)
    if law is not None and plan.learner is LearnerKind.EDGE:
        edge_of(law)
    try:
        if not questions.stated:
            lower, upper = widened(oracle, used, lower, upper)
        if plan.noise == "auto":
            law = measured_law(oracle, used, lower, upper, notes)
    except BudgetReached as reached:
        nothing = nothing_learnt(lower, upper, oracle.asked, len(rows), f"{reached} while the noise was measured")
        return nothing if questions.stated else without_range(nothing, _unstated(lower, upper))
    asking = replace(questions, rows=used, lower=lower, upper=upper)
    if law is not None:
        if plan.levels > 2:
            raise ModelError("an oracle of several levels is learnt by `learn_levels`")
        found = _finished(oracle, learn_noisy(oracle, asking, law, plan, notes), asking, zero)
        return found if questions.stated else without_range(found, _unstated(lower, upper))
    if plan.learner is not LearnerKind.AUTO:
        notes.append(f"there is no noise: queries were bisected, not asked by --learner {plan.learner}")
    return _finished(oracle, learn_silent(oracle, asking, tuple(notes)), asking, zero)


def _unstated(lower: Floats, upper: Floats) -> str:
    return (
        f"no --range was stated: the hidden numbers were looked for in {lower.min():g}..{upper.max():g}, which with "
        "noise certifies nothing"
    )


def _finished(oracle: YesNoOracle, found: Learnt, asking: Questions, zero: int) -> Learnt:
    """Nothing is certified with a record that speaks against itself, or with which an attack was withdrawn."""
    found = replace(found, skipped=found.skipped + zero)
    if not isinstance(oracle, Recorded):
        return found
    if not oracle.withdrawn and found.method == SEARCH and oracle.contradicted():
        oracle.withdraw(TWO_ANSWERS)
    if oracle.withdrawn and math.isfinite(found.radius):
        why = f"nothing is certified with these answers, now or later ({oracle.withdrawn})"
        return uncertified(found, asking, why)
    if oracle.resumed and found.conditions:
        again = "both ends of each answer were asked again" if found.method == SEARCH else "answers are of several runs"
        stays = RestsOn("the target has not changed since the first run", found.method == SEARCH, again)
        found = replace(found, conditions=(*found.conditions, stays))
    elif oracle.recalled and found.conditions:
        stays = RestsOn("the target is as it was", False, "all answers are from the record, none was asked for now")
        found = replace(found, conditions=(*found.conditions, stays))
    return found


def learn_levels(oracle: LevelOracle, questions: Questions, plan: AskingPlan) -> Learnt:
    """The same for a target that answers from `levels` levels: `LevelNewton`, an estimate without a certificate."""
    law = None if plan.noise == "auto" else parse_law(plan.noise)
    if law is None:
        raise ConfigError("--levels needs the noise: state it, such as --noise gaussian:0.5")
    if plan.learner is not LearnerKind.AUTO or plan.calibrate:
        raise ConfigError("--levels has one learner and no check: leave --learner and --calibrate out")
    rows, lower, upper = questions.rows, questions.lower, questions.upper
    span = independent(rows)
    space = Subspace(np.ascontiguousarray(np.linalg.qr(span.T)[0].T), lower, upper)
    attack, done = LevelNewton(space, law, levels=plan.levels), 0
    notes = ["answers from several levels: an estimate, no certificate; the ranges are what was stated"]
    if not questions.stated:
        notes = ["answers from several levels: an estimate, no certificate"]
    try:
        for q in rows[np.any(rows != 0, axis=1)]:
            attack.learn(q, oracle.level(q, attack.thresholds(q)))
            done += 1
    except BudgetReached as reached:
        notes.append(str(reached))
    estimate = attack.estimate()
    found = Learnt(
        estimate, lower, upper, f"{plan.levels}-level Newton", plan.noise, False, oracle.asked, len(rows) - done,
        tuple(notes), space.d, math.inf, 0.0, predictions(questions.held_out, estimate, lower, upper),
    )  # fmt: skip
    return found if questions.stated else without_range(found, _unstated(lower, upper))
