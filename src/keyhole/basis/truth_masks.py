"""Kleene's logic on many rows at once: a condition is where it is true and where it is false."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.model.predicate import Kleene, Leaf, Truth

Mask: TypeAlias = NDArray[np.bool_]
Truths: TypeAlias = tuple[Mask, Mask]  # where it is true, where it is false


def truth_masks(n: int, leaf: Callable[[Leaf], Truths]) -> Kleene[Truths]:
    """The algebra of `predicate.fold` on n rows; `leaf` gives the truths of a single condition.

    >>> from keyhole.model.predicate import And, IsNull, Not, fold
    >>> held = {IsNull("a"): (np.array([True, False]), np.array([False, False]))}
    >>> [m.tolist() for m in fold(And((IsNull("a"), Not(IsNull("a")))), truth_masks(2, held.__getitem__))]
    [[False, False], [True, False]]
    """

    def constant(truth: Truth) -> Truths:
        return np.full(n, truth is True), np.full(n, truth is False)

    return Kleene(
        constant,
        leaf,
        lambda part: (part[1], part[0]),
        lambda part: (part[0], ~part[0]),
        lambda parts: (every_mask([t for t, _ in parts]), _some([f for _, f in parts])),
        lambda parts: (_some([t for t, _ in parts]), every_mask([f for _, f in parts])),
    )


def every_mask(masks: Sequence[Mask]) -> Mask:
    """Where all of them hold."""
    found = masks[0]
    for mask in masks[1:]:
        found = found & mask
    return found


def _some(masks: Sequence[Mask]) -> Mask:
    found = masks[0]
    for mask in masks[1:]:
        found = found | mask
    return found
