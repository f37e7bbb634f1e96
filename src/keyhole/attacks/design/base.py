"""What a design is: which sums to ask, whom they give away, and how to read the secret off the answers.

A design is mathematics over records 0 .. n-1: it knows no table and no SQL. Exact designs decode in fractions, and for
bits and grids refuse answers that no secret gives; designs for noisy answers give their best guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import ContradictionError, ModelError

Number: TypeAlias = int | float | Decimal | Fraction
Queries: TypeAlias = NDArray[Any]


class Secrets(StrEnum):
    """What the attacker must know of the values beforehand for a design to work."""

    REALS = "any numbers"
    BITS = "0 or 1"
    GRID = "numbers of a known grid"
    SPARSE = "few differ from 0"


class QueryDesign(Protocol):
    """Questions chosen by the attacker, with the decoder that goes with them."""

    needs: ClassVar[Secrets]

    @property
    def queries(self) -> Queries:
        """(m, n) integers: row r asks for the sum of its entries times the values."""

    @property
    def exposes(self) -> tuple[int, ...]:
        """The records whose values the answers give."""

    def decode(self, answers: Sequence[Number]) -> Mapping[int, Number]:
        """The values of the exposed records. Exact designs refuse answers that no secret gives."""


def as_fractions(answers: Sequence[Number], count: int) -> list[Fraction]:
    """The answers as fractions, one for each query.

    >>> as_fractions([1, Decimal("2.5")], 2)
    [Fraction(1, 1), Fraction(5, 2)]
    """
    if len(answers) != count:
        raise ModelError(f"{count} queries need {count} answers, not {len(answers)}")
    return [Fraction(a) if not isinstance(a, float) else Fraction(repr(a)) for a in answers]


def refuse_inconsistent(queries: Queries, values: Sequence[Fraction], answers: Sequence[Fraction]) -> None:
    """Refuse answers that the decoded values do not give."""
    for r, (row, answer) in enumerate(zip(queries.tolist(), answers, strict=True), 1):
        total = sum((int(c) * v for c, v in zip(row, values, strict=True) if c), Fraction(0))
        if total != answer:
            raise ContradictionError(f"answer {r} is {answer}, and no secret of this kind gives it with the others")


def check_records(n: int, least: int = 1) -> int:
    """A number of records, checked."""
    if n < least:
        raise ModelError(f"{n} records: this design needs at least {least}")
    return n


def subset_row(n: int, members: Sequence[int]) -> NDArray[np.int64]:
    """The 0/1 row of a set of records."""
    row = np.zeros(n, dtype=np.int64)
    if any(not 0 <= i < n for i in members):
        raise ModelError(f"a record outside 0 .. {n - 1}")
    row[list(members)] = 1
    return row
