"""One attack on a real target: find out how noisy it is, learn what it hides, say what is certain without the truth.

With noise two certificates stand beside each other, on any basis: a learner's box and the likelihood region.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from keyhole.errors import ConfigError, ModelError
from keyhole.oracles.base import Learner, LevelOracle, ModelWarning, UnaskedWarning, YesNoOracle
from keyhole.oracles.certify.additivity import ANSWERS, AVERAGES, OUTSIDE, AskedBits, collect_doubts
from keyhole.oracles.certify.assumptions import (
    AGAIN,
    LEVELS,
    MISFIT,
    STICKY,
    Probe,
    calibrate,
    can_tell_scale,
    is_sticky,
    measure_noise,
    refute_range,
    widen_range,
)
from keyhole.oracles.certify.likelihood_region import LikelihoodRegion
from keyhole.oracles.certify.unknown_edge import EdgeFreeCertificate, certify_without_edge
from keyhole.oracles.learners import CheckedLearner, choose_learner
from keyhole.oracles.learners.level_newton import LevelNewton
from keyhole.oracles.learners.newton import OneBitNewton
from keyhole.oracles.learners.noiseless import SEARCH, SUMS, learn_noiseless, predict_answers
from keyhole.oracles.learners.sequential import EdgeBisection, require_edge
from keyhole.oracles.learners.stream_attack import StreamAttack
from keyhole.oracles.noise import (
    Floats,
    GaussianNoise,
    LaplaceNoise,
    OracleNoise,
    TriangularNoise,
    UniformBetween,
    UniformNoise,
)
from keyhole.oracles.recorded import BudgetReached, Recorded
from keyhole.oracles.result import (
    AUTO,
    AskingPlan,
    CertificateCondition,
    OracleResult,
    Prediction,
    Questions,
)
from keyhole.oracles.simulate import warn_beforehand
from keyhole.oracles.streams import Resampled
from keyhole.oracles.subspace import Subspace, independent_rows, principal_basis, range_over_box

TWO_ANSWERS = "one query was answered above a threshold, and not above a lower one: the target changed, or has noise"
LAWS: dict[str, Callable[[float], OracleNoise]] = {
    "gaussian": GaussianNoise,
    "uniform": UniformNoise,
    "laplace": LaplaceNoise,
    "triangular": TriangularNoise,
}
LOG_10 = math.log(10)
UNLIKELY = 3 * LOG_10  # chance of a false alarm: 1e-3, which costs a certificate and claims nothing
ENOUGH = 20  # answers a dimension, before a question at the estimate is about as likely yes as no


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


def learn_target(oracle: YesNoOracle, questions: Questions, plan: AskingPlan = AskingPlan()) -> OracleResult:  # noqa: B008 - a frozen value
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
    if law is not None and plan.learner == "edge":
        require_edge(law)
    try:
        if not questions.stated:
            lower, upper = widen_range(oracle, used, lower, upper)
        if plan.noise == "auto":
            law = measure_noise(oracle, used, lower, upper, notes)
    except BudgetReached as reached:
        reason = f"{reached} while the noise was measured"
        return _without_unstated(
            OracleResult.nothing(lower, upper, oracle.asked, len(rows), reason), questions, lower, upper
        )
    asking = replace(questions, rows=used, lower=lower, upper=upper)
    if law is not None:
        if plan.levels > 2:
            raise ModelError("an oracle of several levels is learnt by `learn_levels`")
        learnt = _judge_record(oracle, learn_noisy(oracle, asking, law, plan, notes), asking, zero)
        return _without_unstated(learnt, questions, lower, upper)
    if plan.learner != AUTO:
        notes.append(f"there is no noise: queries were bisected, not asked by --learner {plan.learner}")
    learnt = learn_noiseless(oracle, asking, tuple(notes))
    if plan.budget is not None and learnt.asked < plan.budget:
        why = f"{plan.budget - learnt.asked:,} answers of the budget are left: every query is known to a millionth"
        learnt = replace(learnt, notes=(*learnt.notes, why))
    return _judge_record(oracle, learnt, asking, zero)


def _without_unstated(learnt: OracleResult, questions: Questions, lower: Floats, upper: Floats) -> OracleResult:
    """With noise nothing is certain where no range was stated."""
    if questions.stated:
        return learnt
    return learnt.without_range(
        f"no --range was stated: the hidden numbers were looked for in {lower.min():g}..{upper.max():g}, which with "
        "noise certifies nothing"
    )


def _judge_record(oracle: YesNoOracle, learnt: OracleResult, asking: Questions, zero: int) -> OracleResult:
    """Nothing is certified with a record that speaks against itself, or with which an attack was withdrawn."""
    learnt = replace(learnt, skipped=learnt.skipped + zero)
    if not isinstance(oracle, Recorded):
        return learnt
    searched = learnt.method == SEARCH
    if not oracle.withdrawn and searched and oracle.contradicted():
        oracle.withdraw(TWO_ANSWERS)
    if oracle.withdrawn and math.isfinite(learnt.radius):
        return learnt.withdrawn(asking, f"nothing is certified with these answers, now or later ({oracle.withdrawn})")
    if not learnt.conditions or not (oracle.resumed or oracle.recalled):
        return learnt
    if oracle.resumed:
        again = "both ends of each answer were asked again" if searched else "answers are of several runs"
        stays = CertificateCondition("the target has not changed since the first run", searched, again)
    else:
        stays = CertificateCondition(
            "the target is as it was", False, "all answers are from the record, none was asked for now"
        )
    return replace(learnt, conditions=(*learnt.conditions, stays))


def learn_noisy(
    oracle: YesNoOracle, asking: Questions, law: OracleNoise, plan: AskingPlan, notes: list[str]
) -> OracleResult:
    """Ask each query once, at the learner's threshold; then the checks; then what the certificates leave."""
    rows = asking.rows
    space, distance = _space(asking, plan.basis, notes)
    learnt_from = len(rows) - min(plan.calibrate, max(0, len(rows) - 1))
    learning, checking = rows[:learnt_from], rows[learnt_from:]
    choice = choose_learner("newton" if plan.learner == AUTO else plan.learner)
    length = max(3, len(learning), plan.budget or 0)
    if beforehand := warn_beforehand(choice, Resampled(space, learning), law, length):
        notes.append(beforehand)
    learner = choice.make(space, law, length, plan.delta / 2)
    attack = learner if isinstance(learner, StreamAttack) else OneBitNewton(space, law, delta=plan.delta / 2)
    has_region = isinstance(law, GaussianNoise | UniformNoise) and not isinstance(attack, EdgeBisection)
    region = LikelihoodRegion(space, law, delta=plan.delta / 2) if has_region else None
    interview = _Interview(oracle, learner, attack, region, notes, plan.delta)
    doubted = asking.stated and interview.outside(asking)
    doubted |= interview.doubts(learning, checking, plan.budget) or MISFIT in notes
    estimate = np.asarray(learner.estimate(), dtype=np.float64)
    if space.d == space.D:
        estimate = np.clip(estimate, asking.lower, asking.upper)
    apart = region is not None and (region.refuted or _apart(region, attack))
    if apart or (
        not doubted and _Certificates(attack, region, asking, interview.free, estimate, withdrawn=False).empty()
    ):
        notes.append("nothing within the stated bounds explains the answers: the noise or the bounds are not as stated")
        doubted = True
    if space.d < rows.shape[1]:
        notes.append(f"the queries span {space.d} of {rows.shape[1]} dimensions: the rest of w is not seen")
    if distance > 0:
        notes.append(f"queries are up to {distance:.2g} of their norm off the basis; certificates allow for it")
    if doubted and isinstance(oracle, Recorded):
        oracle.withdraw("its answers speak against what was stated")
    if interview.wanting and not doubted:
        notes.append(f"not certified: {'; '.join(interview.wanting)}")
    sure = _Certificates(attack, region, asking, interview.free, estimate, withdrawn=doubted or bool(interview.wanting))
    ends = sure.entries()
    kind = _kind(law)
    return OracleResult(
        estimate, *ends,
        type(attack).__name__ if learner is attack else choice.name,
        f"{kind}, standard deviation {law.std:.4g}", plan.noise == "auto", oracle.asked,
        len(rows) - interview.done - interview.checked, tuple(notes), space.d, sure.radius(), plan.delta,
        tuple(sure.prediction(q) for q in asking.held_out), True, interview.conditions(asking),
        () if doubted else _estimate_errors(estimate, interview.companion, asking, ends),
    )  # fmt: skip


def _kind(law: OracleNoise) -> str:
    name = type(law).__name__.removesuffix("Noise").lower()
    return name.replace("uniformbetween", "uniform, of an edge in an interval")


def _space(asking: Questions, basis: int, notes: list[str]) -> tuple[Subspace, float]:
    """The span of the queries, or their principal components; then any distance off the basis is allowed for."""
    if basis == 0:
        span = independent_rows(asking.rows)
        return Subspace(np.ascontiguousarray(np.linalg.qr(span.T)[0].T), asking.lower, asking.upper), 0.0
    components = principal_basis(asking.rows, basis if basis > 0 else None)
    d, D = components.basis.shape
    spectrum = ", ".join(f"{v:.3g}" for v in components.spectrum[: d + 1])
    notes.append(f"principal components: {d} of {D} (spectrum {spectrum}, ...)")
    return components.subspace(asking.lower, asking.upper), components.distance


def _apart(region: LikelihoodRegion, attack: StreamAttack) -> bool:
    """Do the two certificates exclude each other?"""
    (a, b), (x, y) = region.box(), attack.box()
    return bool(np.any(np.maximum(a, x) > np.minimum(b, y)))


class _Interview:
    """The queries, asked once and then again until the budget, and the checks between."""

    def __init__(
        self, oracle: YesNoOracle, learner: Learner, attack: StreamAttack, region: LikelihoodRegion | None,
        notes: list[str], delta: float,
    ) -> None:  # fmt: skip
        self._oracle, self._attack, self._region, self._notes, self._delta = oracle, attack, region, notes, delta
        self._learner = learner  # who asks; `attack` certifies, and is the same unless the learner has no box
        efficient = isinstance(attack, OneBitNewton | EdgeBisection)
        self.companion = attack if efficient else OneBitNewton(attack.subspace, attack.noise)
        self.passes = 0
        self._law = f"{_kind(attack.noise)}, independent and around 0, as stated"
        self.done = self.checked = 0
        self.free: EdgeFreeCertificate | None = None
        self.wanting: list[str] = []  # checks that the certificate rests on and that were not made
        self._findings = {
            "noise": "not checked",
            "sums": "not checked for this law of noise",
            "anew": "no query repeats",
        }
        self._findings["range"] = "held against a few answers at its ends"
        self._passed = set[str]()  # what was checked with a result
        self._asked: list[tuple[int, float, int]] = []  # row, threshold, bit
        self._probes: list[tuple[Floats, float, int]] = []  # the same off centre: query, threshold, bit

    def outside(self, asking: Questions) -> bool:
        """Is the stated range refuted at its ends?"""
        try:
            wrong = refute_range(self._oracle, asking.rows, asking.lower, asking.upper, self._attack.noise)
        except BudgetReached as reached:  # the first query finds it reached as well, and that is said
            self.wanting.append(f"the check of the stated range at its ends was not made: {reached}")
            return False
        if wrong:
            self._notes.append(
                "an answer lies further outside the stated range than the noise reaches: --range or --noise is wrong, "
                "nothing is certain"
            )
        return wrong

    def doubts(self, learning: Floats, checking: Floats, budget: int | None) -> bool:
        """Learn, then check; True where something speaks against the stated noise, so that nothing is certain.

        With a budget the queries are asked over and over until it is reached, once the check has shown that noise is
        drawn anew.
        """
        doubted = False
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
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
            else:
                if not doubted:
                    self._ask_again(learning, budget)
            doubted |= self._other_models(learning)
        alarms = [str(w.message) for w in caught if issubclass(w.category, ModelWarning)]
        others = [str(w.message) for w in caught if issubclass(w.category, UnaskedWarning)]
        self._notes += list(dict.fromkeys(alarms + others))
        if isinstance(self._attack, EdgeBisection) and self.free is None:
            self.wanting.append("the edge was not checked, and a box rests on it to the last digit")
        return doubted or bool(alarms)

    def _ask_again(self, learning: Floats, budget: int | None) -> None:
        """Pass after pass over the queries until the budget is reached; or why not."""
        if budget is None:
            self._notes.append("every query was asked once: with --budget N they are asked again until N answers")
            return
        if "anew" not in self._passed:
            self._notes.append(
                f"the queries were asked once although the budget allows more: {self._findings['anew']}, and where one "
                "question always has one answer asking it again teaches nothing"
            )
            return
        try:
            while self._learn(learning):
                self.passes += 1
        except BudgetReached as reached:
            self._notes.append(f"{reached}: the queries were asked again, {self.passes} times in full")
            return
        self._notes.append("the queries were not asked again: none of them can narrow what is known any more")

    def _check_noise(self, checking: Floats) -> None:
        if isinstance(self._attack, EdgeBisection):
            self._without_the_edge(self._attack, checking)
        elif len(checking) >= len(LEVELS):
            margins = None if self._region is None else self._region.margins
            probes = calibrate(self._attack, checking, _KeptBits(self._oracle, self._probes), margins)
            self.checked = len(checking)
            self._findings["noise"] = f"{len(checking)} queries off centre {self._held_against(probes)}"
            self._notes.append(self._findings["noise"])

    def conditions(self, asking: Questions) -> tuple[CertificateCondition, ...]:
        """What the certificate rests on, and how far it was checked."""
        known = asking.sums
        return (
            CertificateCondition(
                SUMS, known or "sums" in self._passed, "the statement is one" if known else self._findings["sums"]
            ),
            CertificateCondition(f"the noise is {self._law}", "noise" in self._passed, self._findings["noise"]),
            CertificateCondition("noise is drawn anew for each answer", "anew" in self._passed, self._findings["anew"]),
            CertificateCondition("the hidden numbers lie in the stated range", False, self._findings["range"]),
        )

    def _without_the_edge(self, attack: EdgeBisection, checking: Floats) -> None:
        """What is certain for any edge: the learner's own box is lost where the edge is a little wrong."""
        if not len(checking):
            return
        before = self._oracle.asked
        free = certify_without_edge(attack, checking, self._oracle, delta=self._delta)
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
        if can_tell_scale(self._attack.noise, probes):
            self._passed.add("noise")
            return "fit the stated noise"
        return "are too few, or too little is certain yet, to tell the stated noise from twice or half of it"

    def _learn(self, rows: Floats) -> int:
        """One pass over the queries; how many of them were asked."""
        asked = 0
        for at, q in enumerate(rows):
            threshold, guess = self._learner.threshold(q), self._learner.estimate()
            if threshold is None:
                continue
            bit = self._oracle.above(q, threshold)
            if self._region is not None:
                self._region.learn(q, threshold, bit, guess)
            for each in {id(one): one for one in (self._learner, self._attack, self.companion)}.values():
                each.learn(q, threshold, bit)
            self._asked.append((at, threshold, bit))
            asked += 1
        if not self.passes:
            self.done = asked
            if asked < len(rows):
                own = isinstance(self._learner, CheckedLearner)
                name = self._learner.name if isinstance(self._learner, CheckedLearner) else type(self._learner).__name__
                why = f"{name} gave no threshold" if own else f"they cannot narrow what is certain for {name}"
                self._notes.append(f"{len(rows) - asked:,} queries were not asked: {why}")
        return asked

    def _other_models(self, rows: Floats) -> bool:
        """Do the answers speak against q.w, centred noise, or the stated range? Looked at for Gaussian noise."""
        law, space = self._attack.noise, self._attack.subspace
        if not isinstance(law, GaussianNoise) or not self._asked:
            return False
        every = [(rows[k], t, bit) for k, t, bit in self._asked] + self._probes
        queries, thresholds, bits = (np.array([each[k] for each in every]) for k in range(3))
        evidence = collect_doubts(
            AskedBits(queries, thresholds, bits, law.std, len(self._probes)), space.lower, space.upper
        )
        least = 2 * ANSWERS * (2 * rows.shape[1] + 1)
        self._findings["sums"] = f"not checked: {len(bits)} answers, and the check takes {least}"
        if AVERAGES in evidence.tried:
            self._findings["sums"] = f"models of {', '.join(evidence.tried)} did no better; others are not looked for"
            self._passed.add("sums")
        self._findings["range"] += ", and against numbers outside it" * (OUTSIDE in evidence.tried)
        if evidence.sums >= UNLIKELY:
            self._notes.append(
                "the answers are no sums of query times hidden number with noise around 0 of the stated scale (odds of "
                f"10^{evidence.sums / LOG_10:.0f} against): nothing is certain"
            )
        elif evidence.box >= UNLIKELY:
            self._notes.append(
                "the answers are likelier with hidden numbers outside the stated range than with any inside (odds of "
                f"10^{evidence.box / LOG_10:.0f}): --range or --noise is wrong, nothing is certain"
            )
        return max(evidence.sums, evidence.box) >= UNLIKELY

    def _sticky(self, rows: Floats) -> bool:
        """Sticky noise is harmless where no question is asked twice; else repeats were counted as news."""
        again, need = self._repeats(rows), ENOUGH * self._attack.subspace.d
        if self.done < need:
            self._findings["anew"] = f"the check for sticky answers begins after {need} answers"
            if again:
                self.wanting.append(
                    f"{again} of the queries repeat others, and the check for sticky answers needs {need - self.done} "
                    "more answers to begin"
                )
            return False
        # about the best guess of the bits so far: where a learner of one's own errs, all answers would be alike
        if not is_sticky(self._oracle, rows[0], float(rows[0] @ self.companion.estimate())):
            self._passed.add("anew")
            self._findings["anew"] = (
                "answers to one question differ; noise that is drawn anew in part only goes unnoticed"
            )
            return False
        self._notes.append(f"{STICKY}; {again} of the queries repeat others" + ": nothing is certain" * (again > 0))
        return again > 0

    def _repeats(self, rows: Floats) -> int:
        """How many of the queries that were learnt from repeat others."""
        at = [each for each, _, _ in self._asked]
        return len(at) - len(np.unique(rows[at], axis=0)) if at else 0


def _estimate_errors(
    estimate: Floats, companion: StreamAttack, asking: Questions, ends: tuple[Floats, Floats]
) -> tuple[float, ...]:
    """One standard error of each entry, as the answers themselves let expect: an estimate, not a certificate.

    In the span of the queries: the covariance of the best estimator of the same bits, and how far the learner is from
    it. An edge's box has no better estimate: a uniform law over it. Off the span: a uniform law over the stated range,
    where one was stated, else nothing is known. Never more than what is certified (`ends`).
    """
    space, centre = companion.subspace, companion.subspace.coordinates(companion.estimate())
    if isinstance(companion, OneBitNewton):
        covariance = companion.covariance()
    else:
        x, y = companion.box()
        covariance = np.diag((y - x) ** 2 / 12)
    off = space.coordinates(estimate) - centre
    inside = np.einsum("id,ij,jd->d", space.basis, covariance, space.basis) + (off @ space.basis) ** 2
    rest = np.eye(space.D) - space.basis.T @ space.basis
    unseen = np.abs(rest).max(axis=1) > 1e-9
    prior = rest**2 @ ((asking.upper - asking.lower) ** 2 / 12)
    errors = np.sqrt(np.maximum(inside + np.where(unseen, prior if asking.stated else math.inf, 0.0), 0.0))
    return tuple(np.minimum(errors, np.maximum(ends[1] - estimate, estimate - ends[0])).tolist())


class _KeptBits:
    """An oracle whose bits are kept."""

    def __init__(self, oracle: YesNoOracle, kept: list[tuple[Floats, float, int]]) -> None:
        self._oracle, self._kept, self.asked = oracle, kept, oracle.asked

    def above(self, q: Floats, threshold: float) -> int:
        """As the oracle says."""
        bit = self._oracle.above(q, threshold)
        self.asked = self._oracle.asked
        self._kept.append((q, threshold, bit))
        return bit


class _Certificates:
    """Ranges of linear functions of w from every certificate at hand; the stated bounds where they are withdrawn."""

    def __init__(
        self,
        attack: StreamAttack,
        region: LikelihoodRegion | None,
        asking: Questions,
        free: EdgeFreeCertificate | None,
        estimate: Floats,
        *,
        withdrawn: bool,
    ) -> None:
        self._attack, self._region, self._asking, self._withdrawn = attack, region, asking, withdrawn
        self._estimate = estimate
        self._box = attack.box() if free is None else free.box()

    def prediction(self, q: Floats) -> Prediction:
        """q.w: its part in the subspace by the certificates, the rest by the stated bounds of w."""
        space, lower, upper = self._attack.subspace, self._asking.lower, self._asking.upper
        z = space.basis @ q
        rest = q - z @ space.basis
        rest[np.abs(rest) < 1e-12 * max(1.0, float(np.max(np.abs(q))))] = 0.0
        low, high = self._inside(z)
        off, stated = range_over_box(rest, lower, upper), range_over_box(q, lower, upper)
        low, high = max(low + off[0], stated[0]), min(high + off[1], stated[1])
        return Prediction(min(max(float(q @ self._estimate), low), high), low, high)

    def _inside(self, z: Floats) -> tuple[float, float]:
        if self._withdrawn:
            return range_over_box(z, *self._attack.subspace.initial_box())
        low, high = range_over_box(z, *self._box)
        if self._region is None:
            return low, high
        a, b = self._region.margins(z)
        return (max(low, a), min(high, b)) if max(low, a) <= min(high, b) else (min(low, a), max(high, b))

    def empty(self) -> bool:
        """Is there an entry, or an answer, of which the certificates leave nothing within the stated bounds?"""
        low, high = self.entries()
        answers = [self.prediction(q) for q in self._asking.held_out]
        return bool(np.any(low > high)) or any(one.low > one.high for one in answers)

    def entries(self) -> tuple[Floats, Floats]:
        """Ranges of the entries of w."""
        ranges = [self.prediction(e) for e in np.eye(self._attack.subspace.D)]
        return np.array([one.low for one in ranges]), np.array([one.high for one in ranges])

    def radius(self) -> float:
        """How far the estimate is from w at most, in the subspace."""
        if self._withdrawn:
            return math.inf
        space, estimate = self._attack.subspace, self._estimate
        (x, y), c = self._box, space.coordinates(estimate)
        distance = float(np.linalg.norm(np.maximum(np.abs(x - c), np.abs(y - c))))
        if self._region is not None:
            distance = min(distance, self._region.radius(estimate))
        lower, upper = self._asking.lower, self._asking.upper
        corner = float(np.linalg.norm(np.maximum(np.abs(lower - estimate), np.abs(upper - estimate))))
        low, high = self.entries()
        if distance >= corner and np.all(low <= lower) and np.all(high >= upper):
            return math.inf  # no more than was stated
        return min(distance, corner)


def learn_levels(oracle: LevelOracle, questions: Questions, plan: AskingPlan) -> OracleResult:
    """The same for a target that answers from `levels` levels: `LevelNewton`, an estimate without a certificate."""
    law = None if plan.noise == "auto" else parse_law(plan.noise)
    if law is None:
        raise ConfigError("--levels needs the noise: state it, such as --noise gaussian:0.5")
    if plan.learner != AUTO or plan.calibrate:
        raise ConfigError("--levels has one learner and no check: leave --learner and --calibrate out")
    rows, lower, upper = questions.rows, questions.lower, questions.upper
    span = independent_rows(rows)
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
    learnt = OracleResult(
        estimate, lower, upper, f"{plan.levels}-level Newton", plan.noise, False, oracle.asked, len(rows) - done,
        tuple(notes), space.d, math.inf, 0.0, predict_answers(questions.held_out, estimate, lower, upper),
    )  # fmt: skip
    return _without_unstated(learnt, questions, lower, upper)
