"""How few sums tell n bits apart: by search, for small n. What the constructions are measured against."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement

import numpy as np

from keyhole.attacks.design.base import Queries, check_records
from keyhole.errors import ModelError

LARGEST = 6  # 2^6 - 1 columns to choose 6 of: a second


def fewest_for_bits(n: int) -> Queries:
    """A matrix with the fewest 0/1 rows such that the 2^n sums of its columns differ: a detecting matrix.

    By trying: m rows are enough iff some n columns of m bits have no two equal subset sums. At least n / log2(n+1) are
    needed, since there are (n+1)^m answers. Exponential; n is at most 6.

    >>> [len(fewest_for_bits(n)) for n in (1, 2, 3, 4, 5)]
    [1, 2, 3, 3, 4]
    """
    if check_records(n) > LARGEST:
        raise ModelError(f"{n} bits are too many to try all designs; `Lindstrom` needs no search")
    for m in range(1, n + 1):
        for A in _designs(m, n):
            if _detects(A):
                return A
    raise AssertionError("the identity detects")


def _designs(m: int, n: int) -> Iterator[Queries]:
    if (n + 1) ** m < 1 << n:
        return
    bits = (np.arange(1, 1 << m)[:, None] >> np.arange(m)) & 1
    for chosen in combinations_with_replacement(range(len(bits)), n):
        yield bits[list(chosen)].T


def _detects(A: Queries) -> bool:
    m, n = A.shape
    places = np.array([(n + 1) ** i for i in range(m)]) @ A
    secrets = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
    return bool(len(np.unique(secrets @ places)) == 1 << n)
