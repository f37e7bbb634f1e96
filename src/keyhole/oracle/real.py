"""One attack on a real target: find out how noisy it is, learn what it hides, say what is certain without the truth."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from keyhole.errors import ConfigError, ModelError
from keyhole.oracle.base import ModelWarning, YesNoOracle
from keyhole.oracle.likelihood_region import LikelihoodRegion
from keyhole.oracle.line_search import independent, line_search
from keyhole.oracle.newton import OneBitNewton
from keyhole.oracle.noise import GaussianNoise, UniformNoise
from keyhole.oracle.recorded import BudgetReached
from keyhole.oracle.subspace import Subspace
from keyhole.oracle.tails import Floats

PROBES = 24  # answers a threshold when the noise is measured
AGAIN = 12  # times one question is repeated to see whether its answers are drawn anew
CHECKS = 8  # queries that are asked again when there seems to be no noise
SPREAD = 1e-9  # of the range: below this no noise is assumed


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """What is known of the hidden vector: an estimate, a certified range for each entry, and how it was found.

    `low` and `high` hold with probability 1 - delta if the noise is as stated; where it was measured (`measured`) they
    are as good as that. `skipped` queries were not asked.
    """

    estimate: Floats
    low: Floats
    high: Floats
    method: str
    noise: str
    measured: bool
    asked: int
    skipped: int
    notes: tuple[str, ...]


def parse_law(text: str) -> GaussianNoise | UniformNoise | None:
    """gaussian:SD, uniform:HALF-WIDTH or none.

    >>> parse_law("gaussian:0.5"), parse_law("none")
    (GaussianNoise(std=0.5), None)
    """
    kind, _, number = text.partition(":")
    if text == "none":
        return None
    try:
        scale = float(number)
    except ValueError:
        scale = math.nan
    if kind not in ("gaussian", "uniform") or not (math.isfinite(scale) and scale > 0):
        raise ConfigError(
            f"--noise {text!r}: write auto, none, gaussian:SD or uniform:HALF-WIDTH, such as gaussian:0.5"
        )
    return GaussianNoise(scale) if kind == "gaussian" else UniformNoise(scale)


def learn_target(
    oracle: YesNoOracle, queries: Floats, lower: Floats, upper: Floats, *, noise: str = "auto", delta: float = 0.01
) -> Learnt:
    """Learn w of `lower <= w <= upper` from a target that says whether its answer to a query is above a threshold.

    Noise "auto" is measured first. Without noise each independent query is bisected (`line_search`); with noise every
    query is asked once at the estimate (`OneBitNewton`), certified by its own box and by `LikelihoodRegion`, each with
    delta / 2.
    Stops with what is known when the oracle says that its budget is reached.
    """
    rows = np.ascontiguousarray(queries, dtype=np.float64)
    if rows.ndim != 2 or not len(rows) or not np.isfinite(rows).all():
        raise ModelError(f"queries are finite numbers, one query a row; got shape {rows.shape}")
    used = rows[np.any(rows != 0, axis=1)]
    if not len(used):
        raise ModelError("every query is zero: it would ask nothing")
    notes = [] if len(used) == len(rows) else [f"{len(rows) - len(used)} queries are zero and were not asked"]
    try:
        law = measured_law(oracle, used, lower, upper, notes) if noise == "auto" else parse_law(noise)
    except BudgetReached:
        return _nothing(lower, upper, oracle.asked, len(used), "the budget was reached while the noise was measured")
    if law is None:
        return _without_noise(oracle, used, lower, upper, tuple(notes))
    return _with_noise(oracle, used, lower, upper, law, delta, notes, measured=noise == "auto")


def _nothing(lower: Floats, upper: Floats, asked: int, skipped: int, why: str) -> Learnt:
    return Learnt((lower + upper) / 2, lower, upper, "none", "unknown", False, asked, skipped, (why,))


def _without_noise(oracle: YesNoOracle, rows: Floats, lower: Floats, upper: Floats, notes: tuple[str, ...]) -> Learnt:
    resolution = 1e-6 * float(np.max(upper - lower)) * float(np.max(np.abs(rows)))
    try:
        found = line_search(oracle, rows, lower, upper, resolution=resolution)
    except BudgetReached:
        return _nothing(
            lower, upper, oracle.asked, len(rows), "the budget was reached before all queries were bisected"
        )
    if found.span < rows.shape[1]:
        notes = (*notes, f"the queries span {found.span} of {rows.shape[1]} dimensions: the rest of w is not seen")
    low, high = found.low, found.high
    if _contradicted(oracle, rows, found.estimate, 100 * resolution):
        notes = (
            *notes,
            "other queries contradict what was found: the noise is sticky, nothing is certain",
        )
        low, high = lower, upper
    skipped = len(rows) - found.span
    return Learnt(found.estimate, low, high, "line search", "none", False, oracle.asked, skipped, notes)


def _contradicted(oracle: YesNoOracle, rows: Floats, estimate: Floats, room: float) -> bool:
    """Do the last queries get other answers than the estimate gives? Noise drawn once a query shows itself so."""
    wrong = False
    try:
        for q in rows[-CHECKS:]:
            at = float(q @ estimate)
            wrong |= not oracle.above(q, at - room) or bool(oracle.above(q, at + room))
    except BudgetReached:
        pass
    return wrong


def _with_noise(
    oracle: YesNoOracle, rows: Floats, lower: Floats, upper: Floats, law: GaussianNoise | UniformNoise,
    delta: float, notes: list[str], *, measured: bool,
) -> Learnt:  # fmt: skip
    span = independent(rows)
    basis = np.ascontiguousarray(np.linalg.qr(span.T)[0].T)
    space = Subspace(basis, lower, upper)
    attack = OneBitNewton(space, law, delta=delta / 2)
    region = LikelihoodRegion(space, law, delta=delta / 2)
    done = 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        try:
            for q in rows:
                threshold, guess = attack.threshold(q), attack.estimate()
                if threshold is not None:
                    said = oracle.above(q, threshold)
                    region.learn(q, threshold, said, guess)
                    attack.learn(q, threshold, said)
                    done += 1
        except BudgetReached:
            notes.append("the budget was reached")
    notes += [str(w.message) for w in caught if issubclass(w.category, ModelWarning)]
    if len(span) < rows.shape[1]:
        notes.append(f"the queries span {len(span)} of {rows.shape[1]} dimensions: the rest of w is not seen")
    (x, y), (a, b) = region.box(), attack.box()
    low, high = np.maximum(x, a), np.minimum(y, b)
    if np.any(low > high):
        notes.append("the two certificates exclude each other: the noise or the bounds are not as stated")
        low, high = np.minimum(x, a), np.maximum(y, b)
    ends = _entries(basis, low, high, lower, upper)
    told = f"{'gaussian' if isinstance(law, GaussianNoise) else 'uniform'}, standard deviation {law.std:.4g}"
    return Learnt(
        np.clip(attack.estimate(), lower, upper) if len(span) == rows.shape[1] else attack.estimate(), *ends,
        "one-bit Newton", told, measured, oracle.asked, len(rows) - done, tuple(notes),
    )  # fmt: skip


def _entries(basis: Floats, low: Floats, high: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Ranges of the entries of w from those of its coordinates; what is off the subspace is as it was."""
    if len(basis) < basis.shape[1]:
        return lower, upper
    middle, half = basis.T @ (low + high) / 2, np.abs(basis.T) @ (high - low) / 2
    return np.maximum(lower, middle - half), np.minimum(upper, middle + half)


def measured_law(
    oracle: YesNoOracle, rows: Floats, lower: Floats, upper: Floats, notes: list[str]
) -> GaussianNoise | None:
    """How noisy the target is: bisect one query, repeat one question, then fit a Gaussian to shares of yeses.

    None: answers do not waver. Answers that never differ although the threshold is where they turn are sticky: repeats
    add nothing then, and a note says so.
    """
    q = rows[int(np.argmax(np.abs(rows).sum(axis=1)))]
    low, high = float(np.minimum(q * lower, q * upper).sum()), float(np.maximum(q * lower, q * upper).sum())
    whole = high - low
    while high - low > SPREAD * whole:
        middle = (low + high) / 2
        low, high = (middle, high) if oracle.above(q, middle) else (low, middle)
    at = (low + high) / 2
    again = [oracle.above(q, at + shift * whole) for shift in (-1e-6, 1e-6) for _ in range(AGAIN)]
    if all(again[:AGAIN]) and not any(again[AGAIN:]):
        return None
    if len(set(again)) == 1:
        notes.append("answers to one question never differ: the noise may be sticky, drawn once for each question")
    return _fitted(oracle, q, at, whole, notes)


def _fitted(oracle: YesNoOracle, q: Floats, at: float, whole: float, notes: list[str]) -> GaussianNoise:
    """A Gaussian's centre and deviation by maximum likelihood, on thresholds around `at`, widened as needed."""
    reach = whole / 64
    while reach < whole:
        yes = [sum(oracle.above(q, at + s * reach) for _ in range(PROBES)) for s in (-1.0, 1.0)]
        if yes[0] >= 0.8 * PROBES and yes[1] <= 0.2 * PROBES:
            break
        reach *= 2
    marks = at + reach * np.linspace(-1.2, 1.2, 13)
    shares = np.array([sum(oracle.above(q, float(t)) for _ in range(PROBES)) for t in marks]) / PROBES
    best, found = math.inf, reach
    for centre in at + reach * np.linspace(-0.6, 0.6, 25):
        for std in reach * np.geomspace(0.1, 3.0, 60):
            p = np.clip([0.5 * math.erfc(float((t - centre) / (std * math.sqrt(2)))) for t in marks], 1e-6, 1 - 1e-6)
            loss = -float(np.sum(shares * np.log(p) + (1 - shares) * np.log(1 - p)))
            if loss < best:
                best, found = loss, float(std)
    notes.append(f"the noise was measured by {13 * PROBES} answers to one query and taken as Gaussian")
    return GaussianNoise(found)
