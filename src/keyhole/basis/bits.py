"""Sets of classes or rows: bits, 64 to a word, or masks, and Kleene's logic on them.

Class k is bit k % 64 of word k // 64; the bits past the last class are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from keyhole.model.predicate import Kleene, Leaf

Words: TypeAlias = NDArray[np.uint64]
Mask: TypeAlias = NDArray[np.bool_]
Truths: TypeAlias = tuple[Mask, Mask]  # where it is true, where it is false
SetType = TypeVar("SetType", Words, Mask)


def pack(mask: NDArray[np.bool_]) -> Words:
    """A mask (or rows of masks) as words.

    >>> pack(np.array([True, False, True])).tolist()
    [5]
    """
    width = (mask.shape[-1] + 63) // 64
    raw = np.zeros((*mask.shape[:-1], 8 * width), dtype=np.uint8)
    packed = np.packbits(mask, axis=-1, bitorder="little")
    raw[..., : packed.shape[-1]] = packed
    return raw.view(np.uint64)


def unpack(words: Words, count: int) -> NDArray[np.bool_]:
    """The inverse of `pack` for `count` classes.

    >>> unpack(pack(np.array([True, False, True])), 3).tolist()
    [True, False, True]
    """
    raw = np.ascontiguousarray(words).view(np.uint8)
    return np.unpackbits(raw, axis=-1, bitorder="little", count=count).view(np.bool_)


def has_bit(words: Words, k: int) -> bool:
    """Is bit k set?"""
    return bool((int(words[k >> 6]) >> (k & 63)) & 1)


def splitmix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of every word: the finaliser of splitmix64 (Steele, Lea and Flood 2014). Callers let products overflow.

    >>> int(splitmix(np.array([1], dtype=np.uint64))[0] >> np.uint64(40))
    5673494
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def every_mask(masks: Sequence[SetType]) -> SetType:
    """Where all of them hold."""
    together: SetType = reduce(np.bitwise_and, masks)
    return together


def truth_sets(everything: SetType, leaf: Callable[[Leaf], tuple[SetType, SetType]]) -> Kleene[tuple[SetType, SetType]]:
    """The algebra of `predicate.fold` on many rows at once: where a condition is true, and where it is false.

    NULL is in neither. `everything` is the set of all rows, as bits or as a mask; `leaf` gives the two sets of a single
    condition.

    >>> from keyhole.model.predicate import And, IsNull, Not, fold
    >>> held = {IsNull("a"): (np.array([True, False]), np.array([False, False]))}
    >>> algebra = truth_sets(np.ones(2, dtype=np.bool_), held.__getitem__)
    >>> [m.tolist() for m in fold(And((IsNull("a"), Not(IsNull("a")))), algebra)]
    [[False, False], [True, False]]
    """
    nothing = np.zeros_like(everything)

    def some_mask(masks: Sequence[SetType]) -> SetType:
        together: SetType = reduce(np.bitwise_or, masks)
        return together

    return Kleene(
        constant=lambda truth: (everything if truth is True else nothing, everything if truth is False else nothing),
        leaf=leaf,
        negate=lambda part: (part[1], part[0]),
        certain=lambda part: (part[0], ~part[0] & everything),
        every=lambda parts: (every_mask([t for t, _ in parts]), some_mask([f for _, f in parts])),
        some=lambda parts: (some_mask([t for t, _ in parts]), every_mask([f for _, f in parts])),
    )
