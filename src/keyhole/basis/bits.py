"""Bits over the classes of a basis, 64 to a word: class k is bit k % 64 of word k // 64; the bits past them are 0."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]


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


def holds(words: Words, k: int) -> bool:
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
