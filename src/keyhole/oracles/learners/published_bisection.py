"""OnlineBisection as a reading copy: Algorithms 1 and 2 of [choromanski2015] line by line, with the paper's names.

`OnlineBisection` is the same algorithm compiled, with its doubts and its memory on disk; a test holds the two equal.
Play it with `keyhole oracle simulate --learner keyhole.oracles.learners.published_bisection:PublishedBisection`.
"""

from __future__ import annotations

import math
import warnings

import numpy as np

from keyhole.oracles.base import UnaskedWarning
from keyhole.oracles.noise import Floats, OracleNoise
from keyhole.oracles.subspace import Subspace

THETA = 3 / 4  # the share of an interval that survives a cut
ETA = 1 / 8  # the margin, in sides: THETA - 1/2 - 8 sin(phi/2) sqrt(d)


class PublishedBisection:
    """Intervals I_1 .. I_d around w, counters N_i and N_i^+, and a cut of all intervals when every N_i is N_crit.

    What the printed text leaves open (THETA, ETA, phi, the 60 of N_crit) is as in `PublishedConstants`.

    >>> from keyhole.oracles.noise import UniformNoise
    >>> learner = PublishedBisection(Subspace.blocks(4, 2), UniformNoise(1.0), T=10**6)
    >>> learner.I.tolist(), math.ceil(learner.N_crit)
    ([[-2.0, 2.0], [-2.0, 2.0]], 3316)
    """

    def __init__(self, subspace: Subspace, noise: OracleNoise, T: int) -> None:
        self.C, self.E, self.T = subspace.basis, noise, T  # the orthonormal basis e_1 .. e_d, the law of the noise
        L = math.sqrt(float(np.sum(np.maximum(subspace.lower**2, subspace.upper**2))))  # sqrt(D) where w is in [0,1]^D
        self.I = np.tile([-L, L], (subspace.d, 1))
        self.stated = np.column_stack(subspace.initial_box())  # where each coordinate of w can lie at all
        self.cos_phi = 1 - 1 / (2048 * subspace.d)
        self._begin_phase()

    def _begin_phase(self) -> None:
        """Counters at zero; p_1, dp and N_crit for the present side of the hypercube."""
        self.N, self.N_plus = np.zeros(len(self.C)), np.zeros(len(self.C))
        side = float(self.I[0, 1] - self.I[0, 0])
        self.p_1 = 1 - self.E.cdf(ETA * side)  # a yes, although w lies a margin below the threshold
        self.dp = (1 - self.E.cdf(-ETA * side)) - self.p_1
        self.N_crit = 60 * math.log(self.T) / self.dp**2 if self.dp**2 > 0 else math.inf
        self.small = side <= math.log(self.T) / math.sqrt(self.T)  # precise enough: nothing is asked any more

    def threshold(self, q: Floats) -> float | None:
        """(m + M) / 2, where q.y lies between m and M in the hypercube; None if no basis vector is within phi of q."""
        z = self.C @ q
        norm = float(np.linalg.norm(z))
        if norm < math.sqrt(1 - 1e-9) and not self.small:  # the margin of the paper is for unit queries
            warnings.warn("a query is shorter than 1 and not asked: scale the queries", UnaskedWarning, stacklevel=2)
            return None
        if self.small or np.max(np.abs(z)) < self.cos_phi * norm:
            return None
        x, y = self.I[:, 0], self.I[:, 1]
        m = float(np.sum(np.minimum(z * x, z * y)))  # the linear programs in closed form (lemma 5.1)
        M = float(np.sum(np.maximum(z * x, z * y)))
        return (m + M) / 2

    def learn(self, q: Floats, threshold: float, bit: int) -> None:
        """An observation for the basis vector nearest to q: positive if w is said to lie above, seen along it."""
        z = self.C @ q
        i = int(np.argmax(np.abs(z)))
        self.N[i] += 1
        self.N_plus[i] += bit if z[i] > 0 else 1 - bit
        if np.all(self.N_crit <= self.N):
            self.shrink_hypercube()

    def shrink_hypercube(self) -> None:
        """ShrinkHyperCube: keep the upper THETA of I_i where N_i^+ > N_i (p_1 + dp/2), the lower THETA elsewhere."""
        for i, (x, y) in enumerate(self.I.copy()):
            if self.N_plus[i] > self.N[i] * (self.p_1 + self.dp / 2):
                self.I[i, 0] = y - THETA * (y - x)
            else:
                self.I[i, 1] = x + THETA * (y - x)
        self._begin_phase()

    def estimate(self) -> Floats:
        """w_approx: any point of the hypercube; here the nearest to its centre that the stated box allows."""
        low, high = np.maximum(self.I[:, 0], self.stated[:, 0]), np.minimum(self.I[:, 1], self.stated[:, 1])
        return np.asarray(np.clip(self.I.mean(axis=1), low, high) @ self.C)
