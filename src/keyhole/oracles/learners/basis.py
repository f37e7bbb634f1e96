"""The basis from a sample of queries: principal components, no oracle needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.certify.tails import Floats
from keyhole.oracles.subspace import Subspace

ANYWHERE = 1 - 1e-12  # a neighbourhood that no query is outside of
ROUNDING = 1e-10  # share of the largest singular value below which a direction is rounding


@dataclass(frozen=True, slots=True, eq=False)
class PrincipalBasis:
    """`basis`: d orthonormal rows; `spectrum`: all singular values of the sample; `distance`: the sample's largest
    ||q - Pq|| / ||q||, the neighbourhood that a Subspace on this basis has to allow."""

    basis: Floats
    spectrum: Floats
    distance: float

    def subspace(self, lower: Floats, upper: Floats) -> Subspace:
        """A Subspace for any query: one further off than the sample's is allowed for, and does not end a run.

        The slack is taken from each query's own distance, so certificates stay true; `distance` used as the
        neighbourhood would refuse every later query that is a little further off.
        """
        return Subspace(self.basis, lower, upper, 0.0 if self.distance == 0 else ANYWHERE)


def principal_basis(queries: Floats, d: int | None = None, *, clear_gap: float = 10.0) -> PrincipalBasis:
    """Principal components (not centred: the subspace goes through 0) of a sample of queries [jolliffe2002].

    Without `d`, it is read off the spectrum: the place with the largest ratio of one singular value to the next, which
    must be at least `clear_gap`; else the sample shows no low dimension and a ModelError says so.
    Cost: one singular value decomposition, O(m D min(m, D)).

    >>> rng = np.random.default_rng(0)
    >>> sample = rng.random((50, 2)) @ rng.random((2, 6)) + 1e-4 * rng.standard_normal((50, 6))
    >>> found = principal_basis(sample)
    >>> found.basis.shape, found.distance < 1e-3
    ((2, 6), True)
    """
    sample = np.asarray(queries, dtype=np.float64)
    if sample.ndim != 2 or len(sample) < 2 or not np.all(np.isfinite(sample)) or not np.any(sample):
        raise ModelError(f"principal components need at least two finite queries, not all zero; got {sample.shape}")
    _, spectrum, rows = np.linalg.svd(sample, full_matrices=False)
    if d is None:
        floor = np.maximum(spectrum, ROUNDING * spectrum[0])
        last = ROUNDING * spectrum[0] if len(sample) > sample.shape[1] else floor[-1]
        ratios = floor / np.append(floor[1:], last)
        ratios = ratios[: len(spectrum) - 1] if len(spectrum) > 1 else ratios
        d = int(np.argmax(ratios)) + 1
        if ratios[d - 1] < clear_gap:
            raise ModelError(
                f"no low dimension in these queries: the largest drop in the spectrum is {ratios[d - 1]:.3g}-fold "
                f"(after {d}), less than {clear_gap:g}-fold; pass d yourself or use EllipsoidBisection"
            )
    if not 1 <= d <= int(np.sum(spectrum > ROUNDING * spectrum[0])):
        raise ModelError(f"the sample spans {int(np.sum(spectrum > ROUNDING * spectrum[0]))} dimensions, not {d}")
    basis = np.ascontiguousarray(rows[:d])
    norms = np.linalg.norm(sample, axis=1)
    off = np.linalg.norm(sample - (sample @ basis.T) @ basis, axis=1)
    used = norms > 0
    return PrincipalBasis(basis, spectrum, float(np.max(off[used] / norms[used])))
