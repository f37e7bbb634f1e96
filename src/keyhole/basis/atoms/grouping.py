"""From the codes of records to atoms: group by keys, then the few distinct keys by the patterns they stand for.

Whoever made the codes, a DuckDB here or a database elsewhere: patterns are never stored, they are read off the tables
where they are hashed, compared and written. A hash only says where to look; patterns are compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.atoms.base import Atoms
from keyhole.basis.atoms.plan import (
    Bools,
    Formula,
    Ints,
    Keys,
    Pick,
    Place,
    Plan,
    Tree,
    decide_formula,
    join_tables,
    mask_table,
    pack_columns,
    plan_terms,
)
from keyhole.basis.base import Weights
from keyhole.basis.bits import Words
from keyhole.errors import DataError

Codes: TypeAlias = NDArray[Any]

DIRECT_ROWS = 50_000
GROUPING = 36  # bytes a row while rows are grouped: two hashes, order, leader, class, first
MAX_BYTES = 8 << 30  # patterns beyond this are refused rather than swapped


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """`codes[r]` < `count` is the code of record r in a slot; `leaves` are the numbers of the leaves it decides."""

    slot: str
    route: str
    codes: Codes
    count: int
    leaves: tuple[int, ...]
    column: str | None


@dataclass(frozen=True, slots=True)
class Slot:
    """How one slot went: its route, how many codes occur, how many classes of codes the log can tell apart."""

    name: str
    route: str
    leaves: int
    units: int
    values: int
    classes: int


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Keys of the records, and the tables that turn a key into a pattern."""

    plan: Plan
    slots: tuple[Slot, ...]
    keys: Words  # n rows: the classes of all slots and the codes of all weights, side by side
    fields: Ints
    starts: Ints
    tables: Words
    weighing: tuple[Place, ...]  # where the weights are in the keys
    weights: tuple[tuple[Ints, Weights], ...]


def prepare_keys(
    formulas: Sequence[Formula],
    count: int,
    coded: Sequence[Coded],
    decide: Callable[[Coded], tuple[Ints, Mapping[int, tuple[Bools, Bools]]]],
    weighed: Sequence[tuple[Ints, Weights]],
    n: int,
) -> Prepared:
    """The keys of n records under settled predicates with `count` leaves, each in one slot of `coded`.

    `decide` says which codes of a slot occur, and the truth of its leaves on them.
    """
    slot_of = [""] * count
    for c in coded:
        for leaf in c.leaves:
            slot_of[leaf] = c.slot
    made = plan_terms(formulas, slot_of)
    width = max(1, (len(made.terms) + 63) // 64)
    keys = Keys(n)
    slots, tables, places = [], [], []
    for c in coded:
        units = made.units.get(c.slot, [])
        if not units:
            continue
        present, truth = decide(c)
        verdicts = np.empty((len(units), len(present)), dtype=np.bool_)
        for u, unit in enumerate(units):
            verdicts[u] = decide_formula(unit, truth, len(present))
        class_of, first = distinct_rows(pack_columns(verdicts))
        lookup = np.zeros(c.count, dtype=np.uint64)
        lookup[present] = class_of
        places.append(keys.add(c.codes, len(first), lookup))
        unit_of = np.array([term.get(c.slot, -1) for term in made.terms], dtype=np.int64)
        tables.append(mask_table(verdicts[:, first], unit_of))
        slots.append(Slot(c.slot, c.route, len(c.leaves), len(units), len(present), len(first)))
    weighing = [keys.add(codes, len(values)) for codes, values in weighed]
    joined = join_tables(tables, places, width)
    return Prepared(made, tuple(slots), keys.words(), *joined, tuple(weighing), tuple(weighed))


def group_keys(made: Prepared) -> Atoms:
    """Group by keys, then the distinct keys by patterns, then combine terms."""
    from keyhole.basis.atoms import kernels as kernels

    key_of, first_of_key = distinct_rows(made.keys)
    keys = made.keys[first_of_key]
    count = len(keys)
    at = np.empty((count, len(made.starts)), dtype=np.int32)
    kernels.spread(kernels.decode, count, 4096, keys, made.fields, made.starts, at)
    extra = np.empty((count, len(made.weighing)), dtype=np.uint64)
    for j, (word, shift, mask) in enumerate(made.weighing):
        extra[:, j] = keys[:, word] >> np.uint64(shift) & np.uint64(mask)
    del keys
    hashes = np.empty(count, dtype=np.uint64)
    multipliers = np.random.default_rng(0).integers(1 << 63, size=made.tables.shape[1], dtype=np.uint64) * 2 + 1
    kernels.spread(kernels.hash_patterns, count, 1024, at, made.tables, extra, multipliers, hashes)
    of, chosen = kernels.classes(hashes, kernels.pattern_leaders, at, made.tables, extra)
    del hashes
    K, T, P = len(chosen), len(made.plan.terms), len(made.plan.outputs)
    _check_memory(K, T)
    bits = np.zeros((T, (K + 63) // 64), dtype=np.uint64)
    kernels.spread(kernels.write_bits, bits.shape[1], 8, chosen, at, made.tables, bits)
    bits = _combine_outputs(made.plan, bits, K)
    if made.plan.combined:  # atoms that only the parts of a predicate told apart are one
        width = (P + 63) // 64
        patterns = np.empty((K, width + extra.shape[1]), dtype=np.uint64)
        kernels.spread(kernels.transpose_bits, bits.shape[1], 8, bits, patterns[:, :width])
        patterns[:, width:] = extra[chosen]
        merged, kept = distinct_rows(patterns)
        if len(kept) < K:
            of, chosen = merged[of], chosen[kept]
            del bits
            bits = np.zeros((P, (len(kept) + 63) // 64), dtype=np.uint64)
            rows = np.arange(K, dtype=np.int32)[:, None]
            kernels.spread(kernels.write_bits, bits.shape[1], 8, kept, rows, patterns, bits)
    return make_atoms(of[key_of], first_of_key[chosen], bits, made.weights)


def _combine_outputs(made: Plan, terms: Words, K: int) -> Words:
    """The bits of the predicates, made in place from those of the terms."""
    last = np.uint64((1 << (K - 1) % 64 + 1) - 1)
    for p, output in enumerate(made.outputs):
        if isinstance(output, Tree) or output.flip:
            terms[p] = _combine_terms(output, terms)
            terms[p, -1] &= last  # flipping sets the bits behind the last atom
    return terms[: len(made.outputs)]


def _combine_terms(output: Pick | Tree, terms: Words) -> Words:
    if isinstance(output, Pick):
        row: Words = terms[output.term]
        return ~row if output.flip else row
    combined = _combine_terms(output.parts[0], terms)
    for part in output.parts[1:]:
        bits = _combine_terms(part, terms)
        combined = combined & bits if output.every else combined | bits
    return combined


def _check_memory(K: int, rows: int) -> None:
    need = rows * ((K + 63) // 64) * 8
    if need > MAX_BYTES:
        raise DataError(
            f"{K:,} classes of people and {rows:,} conditions need {in_bytes(need)} of patterns "
            f"(at most {in_bytes(MAX_BYTES)}): audit the log in parts, or one private column at a time"
        )


def in_bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def most_bytes(made: Prepared, n: int) -> int:
    """Bytes at the widest point of `_grouped` if every record is a class of its own."""
    words, bits = made.keys.shape[1], len(made.plan.terms)
    if made.plan.combined:
        bits += 64 * (len(made.plan.outputs) // 64 + 1)
    combination = 4 * len(made.starts) + 8 * len(made.weighing) + max(GROUPING, bits // 8)
    return int(made.tables.nbytes + n * (8 * words + 12) + n * max(GROUPING, combination))


def make_atoms(
    of: NDArray[np.int32], first: Ints, bits: Words, weighed: Sequence[tuple[NDArray[np.int64], Weights]]
) -> Atoms:
    sizes = np.bincount(of, minlength=len(first)).astype(np.int64)
    per_atom = tuple(values.at(codes[first]) for codes, values in weighed)
    return Atoms(of, sizes, first, bits, per_atom)


def distinct_rows(rows: Words) -> tuple[NDArray[np.int32], Ints]:
    """Number the distinct rows by first appearance: the class of each row, the first row of each class.

    Sorting for a few rows, a hash table confirmed word by word for many.

    >>> distinct_rows(np.array([[7, 1], [5, 1], [7, 1]], dtype=np.uint64))
    (array([0, 1, 0], dtype=int32), array([0, 1]))
    """
    n = len(rows)
    if n == 0 or rows.shape[1] == 0:
        return np.zeros(n, dtype=np.int32), np.zeros(min(n, 1), dtype=np.int64)
    if n > DIRECT_ROWS:
        from keyhole.basis.atoms import kernels as kernels

        hashes = np.empty(n, dtype=np.uint64)
        kernels.spread(kernels.hash_rows, n, 4096, rows, hashes)
        return kernels.classes(hashes, kernels.row_leaders, rows)
    keys = rows.ravel() if rows.shape[1] == 1 else rows.view(np.dtype((np.void, 8 * rows.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank[inverse.ravel()], first[order].astype(np.int64)
