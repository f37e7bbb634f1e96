"""Which of many functionals can lie in a row space: all of them screened at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.rowspace import RowSpace
from keyhole.solve.rowspace.factor import shadow_columns


def plausible(
    space: RowSpace, label: NDArray[np.int64], count: int, *, rng: np.random.Generator | None = None
) -> NDArray[np.bool_]:
    """For each of `count` targets, the sum of the columns that carry its label (-1: none): may it be in the row space?

    A functional in the row space vanishes on every null vector. Two random null vectors are drawn per component, modulo
    its prime: a target that is in the row space always passes, one that is not passes with probability about 1/p^2 (p
    about 2^22), and is then rejected by `RowSpace.express`. Cost: O(K) after the factorisation.

    >>> from keyhole.solve.rowspace import RowMatrix
    >>> S = RowSpace(RowMatrix.from_dense([[1, 1, 0], [0, 0, 0]]))
    >>> plausible(S, np.array([0, 0, 1]), 2).tolist()
    [True, False]
    """
    chosen = rng if rng is not None else np.random.default_rng()
    settled = np.zeros(space.matrix.K, dtype=np.bool_)
    known = list(space._known)
    settled[known] = True
    label = label.copy()
    label[known] = -1  # determined alone: they vanish on every null vector
    found = np.ones(count, dtype=np.bool_)
    for part, factor in zip(space._parts, space._factors, strict=True):
        settled[part.columns] = True
        p = factor.field.p
        shadow = shadow_columns(factor.matrix.K, chosen)
        z = (shadow[:, 1:] % np.uint64(p)).astype(np.float64)
        if factor.rank:
            z[factor.pivot_cols] = factor._null_vector(shadow, factor.matrix.sums(shadow)) % p
        here = label[part.columns]
        use = here >= 0
        for lane in range(2):
            total = np.bincount(
                here[use], weights=z[use, lane], minlength=count
            )  # below 2**53: fewer than 2**30 columns
            found &= total % p == 0
    loose = label[~settled]
    found[loose[loose >= 0]] = False
    return found
