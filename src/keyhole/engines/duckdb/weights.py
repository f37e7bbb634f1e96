"""Public weights of a query as exact rationals, one code per record."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from keyhole.basis import Weights
from keyhole.engines.duckdb.codes import scaled
from keyhole.errors import DataError

ENDLESS = 16  # signs of a DOUBLE that was cut off
SMALL = 10**6  # denominators of quotients such as 1 / w
LARGEST = 10**70  # of a weight


def weigh(con: duckdb.DuckDBPyConnection, table: str, weight: str) -> tuple[NDArray[np.int64], Weights]:
    """`values[codes[r]]` is the weight of record r, exactly; NULL weighs nothing. The values are distinct.

    Integers and decimals of up to 18 digits are exact as they are; a double is the decimal that the engine prints
    for it, so 0.1 is 1/10, or the quotient that it is, so x / 3 weighs 1/3: as 0.3333333333333333 an equation would be
    missed that holds, and somebody with it. Cost: a sort of the column; for doubles and text one Fraction for each
    distinct value too.
    """
    [described] = con.execute(f"DESCRIBE SELECT ({weight}) AS w FROM {table}").fetchall()
    type_ = str(described[1])
    form = scaled(type_, f"({weight})") if type_ not in ("BOOLEAN", "DATE", "TIMESTAMP") else None
    if form is not None:
        raw = con.execute(f"SELECT coalesce({form[0]}, 0) AS v FROM {table}").fetchnumpy()["v"]
        distinct, codes = _codes(np.asarray(raw, dtype=np.int64))
        return codes, Weights.reduced(distinct, form[1])
    if type_ in ("DOUBLE", "FLOAT"):
        raw = con.execute(f"SELECT coalesce({weight}, 0::{type_}) AS v FROM {table}").fetchnumpy()["v"]
        numbers, codes = _codes(np.asarray(raw))
        con.register("keyhole_weights", {"v": numbers})
        texts = con.execute("SELECT v::VARCHAR AS v FROM keyhole_weights").fetchnumpy()["v"]
        con.unregister("keyhole_weights")
    else:
        raw = con.execute(f"SELECT coalesce(({weight})::VARCHAR, '0') AS v FROM {table}").fetchnumpy()["v"]
        texts, codes = _codes(np.asarray(raw, dtype=np.str_))
    # two texts may be one number: 1 and 1.0
    known: dict[Fraction, int] = {}
    same = np.array([known.setdefault(_exact(str(t), weight), len(known)) for t in texts], dtype=np.int64)
    return same[codes] if len(same) else codes, Weights.of(known)


def _codes(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    if values.dtype.kind == "i" and len(values):
        lo, hi = int(values.min()), int(values.max())
        if hi - lo <= 4 * len(values):
            seen = np.zeros(hi - lo + 1, dtype=np.bool_)
            seen[values - lo] = True
            rank = np.cumsum(seen) - 1
            return np.flatnonzero(seen) + lo, rank[values - lo]
    distinct, codes = np.unique(values, return_inverse=True)
    return distinct, codes.astype(np.int64).ravel()


def _exact(text: str, weight: str) -> Fraction:
    """The number of a text: of one with as many digits as a DOUBLE has, the quotient of small numbers that it is.

    >>> _exact("0.1", "w"), _exact("0.3333333333333333", "1 / w"), _exact("0.30000000000000004", "w").denominator
    (Fraction(1, 10), Fraction(1, 3), 25000000000000000)
    """
    try:
        found = Fraction(Decimal(text))
    except (InvalidOperation, OverflowError, ValueError):
        raise DataError(f"the weight {weight} is {text!r} for some record: a weight must be a finite number") from None
    if abs(found) > LARGEST:
        raise DataError(f"the weight {weight} is beyond 1e70 for some record: the sums that it is for may be infinite")
    if len(text) < ENDLESS:
        return found
    simple = found.limit_denominator(SMALL)
    return simple if float(simple) == float(found) else found
