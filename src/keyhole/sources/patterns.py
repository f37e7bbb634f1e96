"""Records grouped by their pattern of matches, inside the engine, with exact bit patterns out."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
from numpy.typing import NDArray

from keyhole.evidence import Atoms
from keyhole.predicate import Predicate, to_sql
from keyhole.schema import Schema

WORD = 62  # bits a word: both ends of BIGINT stay clear of the sign


def group(
    con: duckdb.DuckDBPyConnection, table: str, schema: Schema, predicates: Sequence[Predicate], weights: Sequence[str]
) -> Atoms:
    """The atoms of `table` under `predicates` and `weights`, numbered by first appearance.

    Cost: one pass of the engine over the table for every 62 predicates, 8 bytes a record and word.
    """
    words = [
        " | ".join(
            f"(CASE WHEN {to_sql(p)} THEN {1 << b} ELSE 0 END)" for b, p in enumerate(predicates[at : at + WORD])
        )
        for at in range(0, len(predicates), WORD)
    ]
    n_row = con.execute(f"SELECT count(*) FROM {table}").fetchone()
    n = int(n_row[0]) if n_row else 0
    columns: list[NDArray[np.int64]] = []
    for word in words:
        columns.append(
            np.asarray(con.execute(f"SELECT ({word})::BIGINT AS w FROM {table}").fetchnumpy()["w"], np.int64)
        )
    values: list[list[Fraction]] = []
    for weight in weights:
        raw = con.execute(f"SELECT coalesce(({weight})::VARCHAR, '0') AS v FROM {table}").fetchnumpy()["v"]
        distinct, inverse = np.unique(np.asarray(raw, dtype=np.str_), return_inverse=True)
        values.append([Fraction(Decimal(str(v))) for v in distinct])
        columns.append(inverse.astype(np.int64))
    of, first = _classes(columns, n)
    sizes = np.bincount(of, minlength=len(first)).astype(np.int64)
    K = len(first)
    bits = np.zeros((len(predicates), (K + 63) // 64), dtype=np.uint64)
    for p in range(len(predicates)):
        held = (columns[p // WORD][first] >> (p % WORD)) & 1
        packed = np.packbits(held.astype(np.uint8), bitorder="little")
        bits[p].view(np.uint8)[: len(packed)] = packed
    per_atom = tuple(tuple(values[j][int(columns[len(words) + j][r])] for r in first) for j in range(len(weights)))
    return Atoms(of.astype(np.int32), sizes, first, bits, per_atom)


def _classes(columns: list[NDArray[np.int64]], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the distinct rows of the columns by first appearance: class of each record, first record of each class."""
    if not columns or n == 0:
        return np.zeros(n, dtype=np.int64), np.zeros(min(n, 1), dtype=np.int64)
    table = np.ascontiguousarray(np.column_stack(columns))
    keys = table.view(np.dtype((np.void, table.dtype.itemsize * table.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[inverse.ravel()], first[order].astype(np.int64)
