"""No noise: a linear classifier's boundary from labels alone, one line search a dimension [lowd2005]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keyhole.oracles.certify.tails import Floats

Asked = Callable[[Floats], int]
FINEST = 44  # halvings of a line: beyond, floats are at their end
EVERY, LOOKS = 3, 12  # in the first halvings, both ends are asked again every third time
FURTHEST = 1e6


class Wavering(Exception):
    """A label changed, or contradicts the others: there is noise, or the classifier is not linear."""


def crossing(label: Asked, low: Floats, high: Floats, halvings: int) -> Floats:
    """A point of the boundary between a 0 and a 1, halved `halvings` times; both ends are asked again now and then."""
    for k in range(halvings):
        if k < LOOKS and k % EVERY == 0 and (label(low) != 0 or label(high) != 1):
            raise Wavering
        middle = (low + high) / 2
        low, high = (low, middle) if label(middle) else (middle, high)
    return (low + high) / 2


def hyperplane(label: Asked, low: Floats, high: Floats, reach: float, labels: int) -> tuple[Floats, float]:
    """Unit weights and intercept of a noise-free linear classifier, from about `labels` labels.

    v runs from a 0 to a 1, x0 is where it crosses. For each of the D - 1 directions e across v, x0 + reach e + t v is
    on the boundary for one t, which is bracketed and bisected: w.e / w.v = -t / reach. The error of the angle halves
    with every D labels. Raises `Wavering` when labels contradict each other.
    """
    D, left = len(low), labels

    def counted(x: Floats) -> int:
        nonlocal left
        left -= 1
        return label(x)

    start = crossing(counted, low, high, min(FINEST, max(4, labels // D + 2)))
    v = (high - low) / np.linalg.norm(high - low)
    across = np.linalg.qr(np.column_stack([v, np.eye(D)]))[0][:, 1:].T
    slopes = np.array([_slope(counted, start + reach * e, v, reach, left // (D - 1 - i)) for i, e in enumerate(across)])
    w = v - slopes @ across if D > 1 else v
    w /= np.linalg.norm(w)
    return w, -float(w @ start)


def _slope(label: Asked, at: Floats, v: Floats, reach: float, labels: int) -> float:
    """t / reach with at + t v on the boundary: bracketed by doubling, then halved."""
    above, far, left = label(at), reach / 2, labels - 1
    towards = -1.0 if above else 1.0
    near = 0.0
    while label(at + towards * far * v) == above:
        near, far, left = far, 2 * far, left - 1
        if far > FURTHEST * reach:
            raise Wavering
    for _ in range(max(2, min(left - 1, FINEST))):
        middle = (near + far) / 2
        near, far = (middle, far) if label(at + towards * middle * v) == above else (near, middle)
    return towards * (near + far) / (2 * reach)
