"""EllipsoidBisection: no noise, no low dimension. Every bit is a half-space; an ellipsoid keeps what is left."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.base import ModelWarning, Run, YesNoOracle, play_by_steps
from keyhole.oracles.noise import Floats
from keyhole.oracles.subspace import LONGEST

WINDOW = 64  # at least so many of the latest bits are kept to be judged together
UNEXPLAINED = 1e-6  # of the ellipsoid's size: by so much some bit must be wrong before it counts


class EllipsoidBisection:
    """Learns w in a box of any dimension D from exact yes/no answers, by central cuts of an ellipsoid.

    The threshold is q.centre; a query whose range over the ellipsoid is below `resolution` is answered, not
    asked. The ellipsoid always holds w, so every answer not asked for is within resolution / 2; at most
    O(D^2 log(D R / resolution)) queries are asked, whatever their order [cohen2016]. Condition: answers without noise.
    Memory O(D^2); time O(D^2) a query. Any threshold may be learnt from (deep and shallow cuts).

    Bits that nothing explains: one that leaves no vector in the ellipsoid is a ModelWarning at once. Bits that only
    together contradict each other leave an ellipsoid, for it is larger than what they allow; so the latest max(64, 8 D)
    bits and the box go to a linear program each time half of them are new; no solution is a ModelWarning too (once).
    `run` does so at its end as well. Not noticed: a contradiction of which some bit is older than that, and none of
    this kind without scipy (the `attack` extra).

    >>> hidden = np.array([0.2, 0.7, 0.4])
    >>> attack = EllipsoidBisection(np.zeros(3), np.ones(3), resolution=1e-4)
    >>> rng = np.random.default_rng(0)
    >>> for q in rng.random((400, 3)):
    ...     t = attack.threshold(q)
    ...     if t is not None:
    ...         attack.learn(q, t, int(hidden @ q > t))
    >>> bool(np.max(np.abs(attack.estimate() - hidden)) < 1e-3)
    True
    """

    def __init__(self, lower: Floats, upper: Floats, *, resolution: float) -> None:
        low, high = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
        if low.ndim != 1 or low.shape != high.shape or low.size == 0:
            raise ModelError(f"the box needs two arrays of the same length, got shapes {low.shape} and {high.shape}")
        if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high)) and np.all(low < high)):
            raise ModelError("the box of the hidden vector needs finite lower < upper in every coordinate")
        if max(float(np.abs(low).max()), float(np.abs(high).max())) > LONGEST:
            raise ModelError(f"the box of the hidden vector reaches beyond {LONGEST:.0e}: its square is not a float")
        if not resolution > 0:
            raise ModelError(f"resolution is a positive width, got {resolution!r}")
        self.resolution = resolution
        self._c = (low + high) / 2
        self._A = np.diag(low.size * ((high - low) / 2) ** 2)  # the smallest such ellipsoid around the box
        self._low, self._high = low.copy(), high.copy()
        self._window = np.zeros((max(WINDOW, 8 * low.size), low.size + 1))  # rows (g, b) of half-spaces g.w >= b
        self._heard, self._warned = 0, False

    def answer(self, q: Floats) -> float:
        """Present answer to q."""
        return float(self._check(q) @ self._c)

    def width(self, q: Floats) -> float:
        """Length of the range of q.w over the ellipsoid."""
        row = self._check(q)
        return 2 * math.sqrt(max(0.0, float(row @ self._A @ row)))

    def threshold(self, q: Floats) -> float | None:
        """q.centre, or None when the answer is already known to within the resolution."""
        return self.answer(q) if self.width(q) > self.resolution else None

    def learn(self, q: Floats, threshold: float, bit: int) -> None:
        """Keep {q.w > threshold} or its complement; a bit that nothing in the ellipsoid explains is a ModelWarning."""
        row = self._check(q)
        if bit not in (0, 1):
            raise ModelError(f"an answer is 0 or 1, got {bit!r}")
        if not math.isfinite(threshold):
            raise ModelError(f"a threshold is a finite number, got {threshold!r}")
        n, sign = row.size, 1.0 if bit else -1.0
        self._remember(sign * row, sign * threshold)
        half = math.sqrt(max(0.0, float(row @ self._A @ row)))
        if half <= 1e-13 * (1 + float(np.abs(row) @ np.abs(self._c))):
            return  # as narrow as rounding: a cut could only do harm
        depth = sign * (threshold - float(row @ self._c)) / half
        if depth >= 1:
            warnings.warn(
                f"no vector in the ellipsoid explains this bit (threshold {threshold:.6g}, range of answers "
                f"{row @ self._c - half:.6g} to {row @ self._c + half:.6g}): the oracle is noisy or the box is wrong",
                ModelWarning,
                stacklevel=2,
            )
            return
        if depth <= -1 / n:
            return
        step = sign * (self._A @ row) / half
        if n == 1:
            self._c += step * (1 + depth) / 2
            self._A *= ((1 - depth) / 2) ** 2
            return
        self._c += step * (1 + n * depth) / (n + 1)
        shrunk = self._A - np.outer(step, step) * (2 * (1 + n * depth) / ((n + 1) * (1 + depth)))
        # the factor 1 + 1e-12 keeps rounding from cutting w away
        self._A = (shrunk + shrunk.T) / 2 * (n * n * (1 - depth * depth) / (n * n - 1)) * (1 + 1e-12)

    def explained(self) -> bool:
        """Is there a vector in the box that agrees with all of the latest max(64, 8 D) bits? A linear program."""
        from scipy.optimize import linprog

        kept = self._window[: min(self._heard, len(self._window))]
        size = math.sqrt(float(np.max(np.diag(self._A))))
        if len(kept) == 0 or size <= 1e-9 * (1 + float(np.max(np.abs(self._c)))):
            return True  # the rounding of the thresholds is no longer small against the ellipsoid
        # w = centre + size v; the largest violation s, in units of size, is made as small as possible
        rows, bounds = kept[:, :-1], list(zip((self._low - self._c) / size, (self._high - self._c) / size, strict=True))
        norms = np.linalg.norm(rows, axis=1)
        least = (kept[:, -1] - rows @ self._c) / (norms * size)
        cost = np.append(np.zeros(rows.shape[1]), 1.0)
        found = linprog(
            cost,
            A_ub=np.column_stack([-rows / norms[:, None], -np.ones(len(rows))]),
            b_ub=-least,
            bounds=[*bounds, (0.0, None)],
            method="highs",
        )
        return not (found.status == 0 and found.fun is not None and found.fun > UNEXPLAINED)

    def _remember(self, g: Floats, b: float) -> None:
        self._window[self._heard % len(self._window)] = np.append(g, b)
        self._heard += 1
        if self._heard % (len(self._window) // 2) == 0:
            self._judge()

    def _judge(self) -> None:
        if self._warned or self.explained():
            return
        self._warned = True
        warnings.warn(
            f"no vector in the box explains the latest {min(self._heard, len(self._window))} bits together: the oracle "
            "is noisy or the box is wrong; do not trust the estimate",
            ModelWarning,
            stacklevel=4,
        )

    def estimate(self) -> Floats:
        """Centre of the ellipsoid."""
        return self._c.copy()

    def margin(self, q: Floats) -> float:
        """How far `answer(q)` can be from w.q: half the range over the ellipsoid."""
        return self.width(q) / 2

    def radius(self) -> float:
        """How far the estimate can be from w: the longest half-axis of the ellipsoid."""
        return math.sqrt(max(0.0, float(np.linalg.eigvalsh(self._A)[-1])))

    def run(self, queries: Floats | Iterable[Floats], oracle: YesNoOracle) -> Run:
        """Answer or ask each row in turn."""
        run = play_by_steps(self, queries, oracle)
        self._judge()
        return run

    def _check(self, q: Floats) -> Floats:
        row = np.asarray(q, dtype=np.float64)
        if row.shape != self._c.shape:
            raise ModelError(f"a query has {self._c.size} entries here, got shape {row.shape}")
        if not np.all(np.isfinite(row)) or not np.any(row):
            raise ModelError("a query needs finite entries, not all zero")
        if float(np.abs(row).max()) > LONGEST:
            raise ModelError(f"a query has an entry beyond {LONGEST:.0e}: its square is not a float; scale it")
        return row
