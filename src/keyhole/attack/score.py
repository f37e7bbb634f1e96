"""How good a reconstruction is, beside what a guess without any evidence would score."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.attack.base import Reconstruction, Target
from keyhole.errors import DataError

EXACT = 1e-6  # relative: how near a real number must be to count as exact


@dataclass(frozen=True, slots=True)
class Score:
    """Shares of records and mean error of the attack, of guessing the prior, and of guessing the commonest value.

    `exact` counts guesses equal to the truth (after rounding to the grid, if there is one); `within` those within
    `tolerance` of it. The majority guess knows the true commonest value: no one value for all scores more.
    Errors are None for categories. NULL values are left out.
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

    def as_json(self) -> dict[str, Any]:
        """For `--format json`."""
        return asdict(self)


def score(
    reconstruction: Reconstruction, truth: NDArray[Any], target: Target, *, tolerance: float | None = None
) -> Score:
    """Compare with a known truth, record by record. `tolerance` defaults to half a grid step, or 1 % of the range.

    >>> from decimal import Decimal
    >>> from keyhole.knowledge import Prior
    >>> from keyhole.solve.status import SolverStatus
    >>> t = Target("bit", 4, Prior(Decimal(0), Decimal(1), Decimal(1)))
    >>> r = Reconstruction(np.array([0.9, 0.2, 0.1, 0.8]), np.zeros(4), 0.0, SolverStatus.CONVERGED)
    >>> s = score(r, np.array([1, 0, 0, 0]), t)
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
    return Score(len(truth), exact, within, tolerance, error, *compare(prior), common)


def _score_categories(reconstruction: Reconstruction, truth: NDArray[Any], target: Target) -> Score:
    there = np.array([t is not None for t in truth], dtype=bool)
    said, real = reconstruction.values[there], truth[there]
    right = float(np.mean([str(a) == str(b) for a, b in zip(said, real, strict=True)])) if len(real) else 0.0
    counts = Counter(str(t) for t in real)
    chance = 1 / len(target.categories) if target.categories else 0.0
    most = counts.most_common(1)[0][1] / len(real) if len(real) else 0.0
    return Score(len(real), right, right, 0.0, None, chance, chance, None, most)
