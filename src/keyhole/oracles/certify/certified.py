"""Learning from a noisy target, with what is certain: a learner's box and the likelihood region, on any basis."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np

from keyhole.oracles.base import ModelWarning, StreamAttack, YesNoOracle
from keyhole.oracles.certify.additivity import ANSWERS, AVERAGES, OUTSIDE, AskedBits, doubts
from keyhole.oracles.certify.calibration import LEVELS, Probe, calibrate, telling
from keyhole.oracles.certify.likelihood_region import LikelihoodRegion
from keyhole.oracles.certify.measured import AGAIN, MISFIT, STICKY, sticks
from keyhole.oracles.certify.stated_range import refuted
from keyhole.oracles.certify.tails import Floats
from keyhole.oracles.certify.unknown_edge import EdgeFree, edge_free
from keyhole.oracles.learners.basis import principal_basis
from keyhole.oracles.learners.bisection import OnlineBisection
from keyhole.oracles.learners.edge import EdgeBisection
from keyhole.oracles.learners.line_search import independent
from keyhole.oracles.learners.newton import OneBitNewton
from keyhole.oracles.learners.sequential import SequentialBisection
from keyhole.oracles.learners.silent import SUMS
from keyhole.oracles.learnt import Learnt, Prediction, RestsOn
from keyhole.oracles.noise import GaussianNoise, OracleNoise, UniformNoise
from keyhole.oracles.recorded import BudgetReached, Recorded
from keyhole.oracles.subspace import Subspace

LOG_10 = math.log(10)
UNLIKELY = 3 * LOG_10  # chance of a false alarm: 1e-3, which costs a certificate and claims nothing
ENOUGH = 20  # answers a dimension, before a question at the estimate is about as likely yes as no

if TYPE_CHECKING:
    from keyhole.oracles.real import AskingPlan, Questions


def learn_noisy(oracle: YesNoOracle, asking: Questions, law: OracleNoise, plan: AskingPlan, notes: list[str]) -> Learnt:
    """Ask each query once, at the learner's threshold; then the checks; then what the certificates leave."""
    rows = asking.rows
    space, distance = _space(asking, plan.basis, notes)
    held = min(plan.calibrate, max(0, len(rows) - 1))
    learning, checking = rows[: len(rows) - held], rows[len(rows) - held :]
    attack = _learner(plan, space, law, len(learning))
    known = isinstance(law, GaussianNoise | UniformNoise) and not isinstance(attack, EdgeBisection)
    region = LikelihoodRegion(space, law, delta=plan.delta / 2) if known else None
    session = _Asking(oracle, attack, region, notes, plan.delta)
    doubted = asking.stated and session.outside(asking)
    doubted |= session.doubts(learning, checking) or MISFIT in notes
    apart = region is not None and (region.refuted or _apart(region, attack))
    if apart or (not doubted and _Certain(attack, region, asking, session.free, withdrawn=False).empty()):
        notes.append("nothing within the stated bounds explains the answers: the noise or the bounds are not as stated")
        doubted = True
    if space.d < rows.shape[1]:
        notes.append(f"the queries span {space.d} of {rows.shape[1]} dimensions: the rest of w is not seen")
    if distance > 0:
        notes.append(f"queries are up to {distance:.2g} of their norm off the basis; certificates allow for it")
    if doubted and isinstance(oracle, Recorded):
        oracle.withdraw("its answers speak against what was stated")
    if session.wanting and not doubted:
        notes.append(f"not certified: {'; '.join(session.wanting)}")
    sure = _Certain(attack, region, asking, session.free, withdrawn=doubted or bool(session.wanting))
    ends = sure.entries()
    estimate = attack.estimate()
    kind = _kind(law)
    return Learnt(
        np.clip(estimate, asking.lower, asking.upper) if space.d == space.D else estimate, *ends,
        type(attack).__name__, f"{kind}, standard deviation {law.std:.4g}", plan.noise == "auto", oracle.asked,
        len(rows) - session.done - session.checked, tuple(notes), space.d, sure.radius(), plan.delta,
        tuple(sure.prediction(q) for q in asking.held_out), True, session.conditions(asking),
    )  # fmt: skip


def _kind(law: OracleNoise) -> str:
    name = type(law).__name__.removesuffix("Noise").lower()
    return name.replace("uniformbetween", "uniform, of an edge in an interval")


def _space(asking: Questions, basis: int, notes: list[str]) -> tuple[Subspace, float]:
    """The span of the queries, or their principal components; then any distance off the basis is allowed for."""
    if basis == 0:
        span = independent(asking.rows)
        return Subspace(np.ascontiguousarray(np.linalg.qr(span.T)[0].T), asking.lower, asking.upper), 0.0
    found = principal_basis(asking.rows, basis if basis > 0 else None)
    shown = ", ".join(f"{v:.3g}" for v in found.spectrum[: len(found.basis) + 1])
    notes.append(f"principal components: {len(found.basis)} of {asking.rows.shape[1]} (spectrum {shown}, ...)")
    return found.subspace(asking.lower, asking.upper), found.distance


def _learner(plan: AskingPlan, space: Subspace, law: OracleNoise, queries: int) -> StreamAttack:
    match plan.learner.value:
        case "sequential":
            return SequentialBisection(space, law, delta=plan.delta / 2)
        case "edge":
            return EdgeBisection(space, law, delta=plan.delta / 2)
        case "online-bisection":
            return OnlineBisection(space, law, horizon=max(3, queries))
        case _:
            return OneBitNewton(space, law, delta=plan.delta / 2)


def _apart(region: LikelihoodRegion, attack: StreamAttack) -> bool:
    """Do the two certificates exclude each other?"""
    (a, b), (x, y) = region.box(), attack.box()
    return bool(np.any(np.maximum(a, x) > np.minimum(b, y)))


class _Asking:
    """One pass over the queries, and the checks after it."""

    def __init__(
        self, oracle: YesNoOracle, attack: StreamAttack, region: LikelihoodRegion | None, notes: list[str], delta: float
    ) -> None:
        self._oracle, self._attack, self._region, self._notes, self._delta = oracle, attack, region, notes, delta
        self._law = f"{_kind(attack.noise)}, independent and around 0, as stated"
        self.done = self.checked = 0
        self.free: EdgeFree | None = None
        self.wanting: list[str] = []  # checks that the certificate rests on and that were not made
        self._said = {"noise": "not checked", "sums": "not checked for this law of noise", "anew": "no query repeats"}
        self._said["range"] = "held against a few answers at its ends"
        self._told = set[str]()  # what was checked with a result
        self._asked: list[tuple[int, float, int]] = []  # row, threshold, bit
        self._probes: list[tuple[Floats, float, int]] = []  # the same off centre: query, threshold, bit

    def outside(self, asking: Questions) -> bool:
        """Is the stated range refuted at its ends?"""
        try:
            wrong = refuted(self._oracle, asking.rows, asking.lower, asking.upper, self._attack.noise)
        except BudgetReached as reached:  # the first query finds it reached as well, and that is said
            self.wanting.append(f"the check of the stated range at its ends was not made: {reached}")
            return False
        if wrong:
            self._notes.append(
                "an answer lies further outside the stated range than the noise reaches: --range or --noise is wrong, "
                "nothing is certain"
            )
        return wrong

    def doubts(self, learning: Floats, checking: Floats) -> bool:
        """Learn, then check; True where something speaks against the stated noise, so that nothing is certain."""
        doubted = False
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ModelWarning)
            try:
                self._learn(learning)
            except BudgetReached as reached:
                self._notes.append(str(reached))
            before = self._oracle.asked
            try:
                self._check_noise(checking)
                doubted |= self._sticky(learning)
            except BudgetReached as reached:
                self._notes += [] if str(reached) in self._notes else [str(reached)]
                self.checked = self._oracle.asked - before if not self.checked else self.checked
                missing = len(checking) - self.checked
                if missing > 0:
                    self.wanting.append(f"the check of the noise needs {missing} more answers (--calibrate 0: without)")
                elif self._repeats(learning):
                    self.wanting.append(f"the check for sticky answers needs {AGAIN} more answers")
            doubted |= self._other_models(learning)
        found = [str(w.message) for w in caught if issubclass(w.category, ModelWarning)]
        self._notes += found
        if isinstance(self._attack, EdgeBisection) and self.free is None:
            self.wanting.append("the edge was not checked, and a box rests on it to the last digit")
        return doubted or bool(found)

    def _check_noise(self, checking: Floats) -> None:
        if isinstance(self._attack, EdgeBisection):
            self._without_the_edge(self._attack, checking)
        elif len(checking) >= len(LEVELS):
            margins = None if self._region is None else self._region.margins
            probes = calibrate(self._attack, checking, _Noting(self._oracle, self._probes), margins)
            self.checked = len(checking)
            self._said["noise"] = f"{len(checking)} queries off centre {self._held_against(probes)}"
            self._notes.append(self._said["noise"])

    def conditions(self, asking: Questions) -> tuple[RestsOn, ...]:
        """What the certificate rests on, and how far it was checked."""
        known = asking.sums
        return (
            RestsOn(SUMS, known or "sums" in self._told, "the statement is one" if known else self._said["sums"]),
            RestsOn(f"the noise is {self._law}", "noise" in self._told, self._said["noise"]),
            RestsOn("noise is drawn anew for each answer", "anew" in self._told, self._said["anew"]),
            RestsOn("the hidden numbers lie in the stated range", False, self._said["range"]),
        )

    def _without_the_edge(self, attack: EdgeBisection, checking: Floats) -> None:
        """What is certain for any edge: the learner's own box is lost where the edge is a little wrong."""
        if not len(checking):
            return
        before = self._oracle.asked
        free = edge_free(attack, checking, self._oracle, delta=self._delta)
        self.checked = self._oracle.asked - before
        if free.why:
            self._notes.append(f"the last {len(checking)} queries cannot check the edge: {free.why}")
            return
        x, y = attack.box()
        self._notes.append(
            f"certified is what the last {self.checked:,} answers show whatever the edge is; were it surely as stated, "
            f"the estimate would be within {float(np.linalg.norm(y - x)) / 2:.3g}"
        )
        self.free = free

    def _held_against(self, probes: tuple[Probe, ...]) -> str:
        """What the check says: a fit only where another scale would have been noticed."""
        if not all(probe.believable for probe in probes):
            return "do not fit the stated noise"
        if telling(self._attack.noise, probes):
            self._told.add("noise")
            return "fit the stated noise"
        return "are too few, or too little is certain yet, to tell the stated noise from twice or half of it"

    def _learn(self, rows: Floats) -> None:
        for at, q in enumerate(rows):
            threshold, guess = self._attack.threshold(q), self._attack.estimate()
            if threshold is None:
                continue
            said = self._oracle.above(q, threshold)
            if self._region is not None:
                self._region.learn(q, threshold, said, guess)
            self._attack.learn(q, threshold, said)
            self._asked.append((at, threshold, said))
            self.done += 1
        if self.done < len(rows):
            self._notes.append(
                f"{len(rows) - self.done} queries could not narrow what is certain for {type(self._attack).__name__}"
            )

    def _other_models(self, rows: Floats) -> bool:
        """Do the answers speak against q.w, centred noise, or the stated range? Looked at for Gaussian noise."""
        law, space = self._attack.noise, self._attack.subspace
        if not isinstance(law, GaussianNoise) or not self._asked:
            return False
        every = [(rows[k], t, bit) for k, t, bit in self._asked] + self._probes
        queries, thresholds, bits = (np.array([each[k] for each in every]) for k in range(3))
        told = doubts(AskedBits(queries, thresholds, bits, law.std, len(self._probes)), space.lower, space.upper)
        least = 2 * ANSWERS * (2 * rows.shape[1] + 1)
        self._said["sums"] = f"not checked: {len(bits)} answers, and the check takes {least}"
        if AVERAGES in told.tried:
            self._said["sums"] = f"models of {', '.join(told.tried)} did no better; others are not looked for"
            self._told.add("sums")
        self._said["range"] += ", and against numbers outside it" * (OUTSIDE in told.tried)
        if told.sums >= UNLIKELY:
            self._notes.append(
                "the answers are no sums of query times hidden number with noise around 0 of the stated scale (odds of "
                f"10^{told.sums / LOG_10:.0f} against): nothing is certain"
            )
        elif told.box >= UNLIKELY:
            self._notes.append(
                "the answers are likelier with hidden numbers outside the stated range than with any inside (odds of "
                f"10^{told.box / LOG_10:.0f}): --range or --noise is wrong, nothing is certain"
            )
        return max(told.sums, told.box) >= UNLIKELY

    def _sticky(self, rows: Floats) -> bool:
        """Sticky noise is harmless where no question is asked twice; else repeats were counted as news."""
        again, need = self._repeats(rows), ENOUGH * self._attack.subspace.d
        if self.done < need:
            if again:
                self.wanting.append(
                    f"{again} of the queries repeat others, and the check for sticky answers needs {need - self.done} "
                    "more answers to begin"
                )
            return False
        if not sticks(self._oracle, rows[0], self._attack.answer(rows[0])):
            self._told.add("anew")
            self._said["anew"] = "answers to one question differ; noise that is drawn anew in part only goes unnoticed"
            return False
        self._notes.append(f"{STICKY}; {again} of the queries repeat others" + ": nothing is certain" * (again > 0))
        return again > 0

    def _repeats(self, rows: Floats) -> int:
        """How many of the queries that were learnt from repeat others."""
        at = [each for each, _, _ in self._asked]
        return len(at) - len(np.unique(rows[at], axis=0)) if at else 0


class _Noting:
    """An oracle whose bits are kept."""

    def __init__(self, oracle: YesNoOracle, kept: list[tuple[Floats, float, int]]) -> None:
        self._oracle, self._kept, self.asked = oracle, kept, oracle.asked

    def above(self, q: Floats, threshold: float) -> int:
        """As the oracle says."""
        said = self._oracle.above(q, threshold)
        self.asked = self._oracle.asked
        self._kept.append((q, threshold, said))
        return said


class _Certain:
    """Ranges of linear functions of w from every certificate at hand; the stated bounds where they are withdrawn."""

    def __init__(
        self,
        attack: StreamAttack,
        region: LikelihoodRegion | None,
        asking: Questions,
        free: EdgeFree | None,
        *,
        withdrawn: bool,
    ) -> None:
        self._attack, self._region, self._asking, self._withdrawn = attack, region, asking, withdrawn
        self._box = attack.box() if free is None else free.box()

    def prediction(self, q: Floats) -> Prediction:
        """q.w: its part in the subspace by the certificates, the rest by the stated bounds of w."""
        space, lower, upper = self._attack.subspace, self._asking.lower, self._asking.upper
        z = space.basis @ q
        rest = q - z @ space.basis
        rest[np.abs(rest) < 1e-12 * max(1.0, float(np.max(np.abs(q))))] = 0.0
        low, high = self._inside(z)
        low += float(np.minimum(rest * lower, rest * upper).sum())
        high += float(np.maximum(rest * lower, rest * upper).sum())
        stated = float(np.minimum(q * lower, q * upper).sum()), float(np.maximum(q * lower, q * upper).sum())
        low, high = max(low, stated[0]), min(high, stated[1])
        return Prediction(min(max(float(q @ self._attack.estimate()), low), high), low, high)

    def _inside(self, z: Floats) -> tuple[float, float]:
        if self._withdrawn:
            x, y = self._attack.subspace.initial_box()
            return float(np.minimum(z * x, z * y).sum()), float(np.maximum(z * x, z * y).sum())
        x, y = self._box
        low, high = float(np.minimum(z * x, z * y).sum()), float(np.maximum(z * x, z * y).sum())
        if self._region is None:
            return low, high
        a, b = self._region.margins(z)
        return (max(low, a), min(high, b)) if max(low, a) <= min(high, b) else (min(low, a), max(high, b))

    def empty(self) -> bool:
        """Is there an entry, or an answer, of which the certificates leave nothing within the stated bounds?"""
        low, high = self.entries()
        told = [self.prediction(q) for q in self._asking.held_out]
        return bool(np.any(low > high)) or any(one.low > one.high for one in told)

    def entries(self) -> tuple[Floats, Floats]:
        """Ranges of the entries of w."""
        found = [self.prediction(e) for e in np.eye(self._attack.subspace.D)]
        return np.array([one.low for one in found]), np.array([one.high for one in found])

    def radius(self) -> float:
        """How far the estimate is from w at most, in the subspace."""
        if self._withdrawn:
            return math.inf
        space, estimate = self._attack.subspace, self._attack.estimate()
        (x, y), c = self._box, space.coordinates(estimate)
        found = float(np.linalg.norm(np.maximum(np.abs(x - c), np.abs(y - c))))
        if self._region is not None:
            found = min(found, self._region.radius(estimate))
        lower, upper = self._asking.lower, self._asking.upper
        corner = float(np.linalg.norm(np.maximum(np.abs(lower - estimate), np.abs(upper - estimate))))
        low, high = self.entries()
        if found >= corner and np.all(low <= lower) and np.all(high >= upper):
            return math.inf  # no more than was stated
        return min(found, corner)
