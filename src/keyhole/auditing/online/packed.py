"""Bytes and bits as text that JSON can hold: zlib-compressed, in base64. Bits are little-endian, 8 to a byte."""

from __future__ import annotations

import base64
import zlib
from typing import TypeAlias

import numpy as np

from keyhole.basis.bits import Words, pack, unpack

Sparse: TypeAlias = dict[int, int]


def packed(raw: bytes) -> str:
    """Bytes as text.

    >>> unpacked(packed(b"abc"))
    b'abc'
    """
    return base64.b64encode(zlib.compress(raw, 6)).decode("ascii")


def unpacked(text: str) -> bytes:
    """The inverse of `packed`; ValueError for anything else."""
    try:
        return zlib.decompress(base64.b64decode(text, validate=True))
    except zlib.error as error:
        raise ValueError(str(error)) from None


def packed_bits(words: Words, count: int) -> str:
    """`count` bits as text; it depends on the bits alone.

    >>> bits_of(packed_bits(pack(np.array([True, False, True])), 3), 3).tolist()
    [5]
    """
    return packed(np.packbits(unpack(words, count), bitorder="little").tobytes())


def bits_of(text: str, count: int) -> Words:
    """The inverse of `packed_bits`; ValueError if it does not hold `count` bits."""
    raw = np.frombuffer(unpacked(text), dtype=np.uint8)
    if len(raw) != (count + 7) // 8:
        raise ValueError(f"{len(raw)} bytes are not {count} bits")
    bits = np.unpackbits(raw, bitorder="little").view(np.bool_)
    if bits[count:].any():
        raise ValueError(f"bits are set beyond the last of {count}")
    return pack(bits[:count])
