"""An attack tried out: a loop that asks a responder and observes the answers, and a score against the known truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Attack, Reconstruction, Target
from keyhole.datasets import Roster, Source
from keyhole.errors import ConfigError, DataError
from keyhole.gather import gather
from keyhole.model.prior import Knowledge
from keyhole.model.query import Query
from keyhole.model.transcript import NULL_ANSWER, Answer, Entry, Noise, Transcript

EXACT = 1e-6  # relative: how near a real number must be to count as exact


class Responder(Protocol):
    """Whatever answers questions: a bare database, a defended one, a running gateway."""

    def answer(self, query: Query) -> Answer:
        """The answer that is given, with its stated noise."""


class ExactResponder:
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


class NoisyResponder:
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


def play_attack(
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
    propose: Callable[[], Query | None] | None = getattr(attack, "propose", None)
    asked = questions if propose is None else iter(propose, None)
    known = knowledge or Knowledge({attack.target.column: attack.target.prior})
    for number, query in enumerate(islice(asked, rounds), 1):
        answer = responder.answer(query)
        entry = Entry(str(number), query.label or query.canonical(), query, answer)
        attack.observe(gather(Transcript((entry,)), roster, known))
        if watch is not None:
            watch(number, query, answer)
    return attack.estimate()


@dataclass(frozen=True, slots=True)
class Score:
    """Shares of records and mean error of the attack, of guessing the prior, and of guessing the commonest value.

    `exact` counts guesses equal to the truth (after rounding to the grid, if there is one); `within` those within
    `tolerance` of it. The majority guess knows the true commonest value: no one value for all scores more.
    Errors are None for categories. NULL values are left out. `exact_low` and `exact_high` are the ends of a 95 %
    interval of `exact`; `control_exact` is the share right among the `control_records` that no answer touches; with
    `precision`, pairs of k and the share right among the k records that come first.
    """

    records: int
    exact: float
    within: float
    tolerance: float
    error: float | None
    prior_exact: float
    prior_within: float
    prior_error: float | None
    majority_exact: float
    exact_low: float = 0.0
    exact_high: float = 1.0
    control_records: int = 0
    control_exact: float | None = None
    precision: tuple[tuple[int, float], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For `--format json`."""
        return asdict(self)


def compute_wilson_interval(right: float, count: int) -> tuple[float, float]:
    """A 95 % confidence interval of a share, from what was counted.

    Reference: E. Wilson, Probable inference, the law of succession, and statistical inference (1927).

    >>> [round(end, 3) for end in compute_wilson_interval(0.5, 100)]
    [0.404, 0.596]
    """
    if not count:
        return 0.0, 1.0
    z = 1.959964
    middle, spread = right + z * z / (2 * count), z * ((right * (1 - right) + z * z / (4 * count)) / count) ** 0.5
    below, above = (middle - spread) / (1 + z * z / count), (middle + spread) / (1 + z * z / count)
    return max(0.0, below), min(1.0, above)


def find_right_guesses(reconstruction: Reconstruction, truth: NDArray[Any], target: Target) -> NDArray[np.bool_]:
    """Which guesses are equal to the truth (rounded to the grid, if there is one); missing truths are never."""
    if target.categories is not None or reconstruction.values.dtype == object:
        pairs = zip(reconstruction.values, _name_truth(reconstruction, truth), strict=True)
        return np.array([real is not None and str(said) == real for said, real in pairs], dtype=bool)
    real = np.asarray(truth, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(target.snap(reconstruction.values) - real) <= EXACT * (1 + np.abs(real)))


def rank_precision(
    right: NDArray[np.bool_], marks: tuple[int, ...] = (10, 25, 50, 100, 250, 1000)
) -> tuple[tuple[int, float], ...]:
    """Share right among the first k, for some k and for all.

    >>> rank_precision(np.array([True] * 10 + [False] * 10))
    ((10, 1.0), (20, 0.5))
    """
    chosen = [k for k in marks if k < len(right)] + ([len(right)] if len(right) else [])
    return tuple((k, float(right[:k].mean())) for k in chosen)


def score_reconstruction(
    reconstruction: Reconstruction, truth: NDArray[Any], target: Target, *, tolerance: float | None = None
) -> Score:
    """Compare with a known truth, record by record. `tolerance` defaults to half a grid step, or 1 % of the range.

    >>> from decimal import Decimal
    >>> from keyhole.model.prior import Prior
    >>> from keyhole.solve.status import SolverStatus
    >>> t = Target("bit", 4, Prior(Decimal(0), Decimal(1), Decimal(1)))
    >>> r = Reconstruction(np.array([0.9, 0.2, 0.1, 0.8]), np.zeros(4), 0.0, SolverStatus.CONVERGED)
    >>> s = score_reconstruction(r, np.array([1, 0, 0, 0]), t)
    >>> s.exact, s.majority_exact, s.error
    (0.75, 0.75, 0.25)
    """
    if len(truth) != target.n:
        raise DataError(f"the truth has {len(truth)} records, the reconstruction {target.n}: score the same table")
    if target.categories is not None or reconstruction.values.dtype == object:
        return _score_categories(reconstruction, truth, target)
    truth = np.asarray(truth, dtype=np.float64)
    there = ~np.isnan(truth)
    truth, values = truth[there], target.snap(reconstruction.values[there])
    if tolerance is None:
        width = target.upper - target.lower
        tolerance = float(target.prior.step) / 2 if target.prior.step else 0.01 * width if np.isfinite(width) else EXACT
    near = EXACT * (1 + np.abs(truth))
    prior = target.snap(np.full(len(truth), target.mean))
    common = Counter(truth.tolist()).most_common(1)[0][1] / len(truth) if len(truth) else 0.0

    def compare(guess: NDArray[np.float64]) -> tuple[float, float, float]:
        off = np.abs(guess - truth)
        if not len(off):
            return 0.0, 0.0, 0.0
        return float((off <= near).mean()), float((off <= tolerance + near).mean()), float(off.mean())

    exact, within, error = compare(values)
    ends = compute_wilson_interval(exact, len(truth))
    return Score(len(truth), exact, within, tolerance, error, *compare(prior), common, *ends)


def _name_truth(reconstruction: Reconstruction, truth: NDArray[Any]) -> list[str | None]:
    """The true values under the names that the guesses use: of categories that no answer tells apart, one for all."""
    return [None if real is None else reconstruction.merged.get(str(real), str(real)) for real in truth]


def _score_categories(reconstruction: Reconstruction, truth: NDArray[Any], target: Target) -> Score:
    there = np.array([t is not None for t in truth], dtype=bool)
    said, real = reconstruction.values[there], _name_truth(reconstruction, truth[there])
    right = float(np.mean([str(a) == b for a, b in zip(said, real, strict=True)])) if len(real) else 0.0
    counts = Counter(real)
    named = Counter(reconstruction.merged.get(name, name) for name in target.categories or ())
    chance = max(named.values()) / named.total() if named else 0.0
    most = counts.most_common(1)[0][1] / len(real) if len(real) else 0.0
    return Score(
        len(real), right, right, 0.0, None, chance, chance, None, most, *compute_wilson_interval(right, len(real))
    )
