"""Records grouped by their pattern of matches: exact bits, in time that hardly depends on the number of predicates.

A record's bit for a term is the AND of one look-up for each column, so only the codes of its columns matter (see
`codes`). Records are grouped by their codes first, packed into one integer; then the few distinct
combinations of codes are grouped by their patterns, which are never stored: they are read off the tables where they
are hashed, compared and written. A hash only says where to look; patterns are compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from keyhole.basis import Atoms, Weights
from keyhole.basis.atoms.plan import (
    Ints,
    Keys,
    Leaves,
    Pick,
    Place,
    Plan,
    Tree,
    decide_formula,
    join_tables,
    mask_table,
    pack_columns,
    plan_terms,
    settle_predicate,
)
from keyhole.basis.bits import Words, truth_sets
from keyhole.engines.duckdb.codes import CELLS, decide_codes, encode_columns, evaluate_conditions, weigh
from keyhole.engines.duckdb.connections import fetch_value, types_of
from keyhole.engines.duckdb.template_truths import FEWEST
from keyhole.errors import DataError
from keyhole.model.predicate import Predicate, find_leaves, fold, format_predicate
from keyhole.model.schema import Schema

DIRECT = 2_000_000  # up to this many (record, predicate) pairs the engine evaluates every predicate on every record
DIRECT_ROWS = 50_000
ALWAYS_DIRECT = 3  # predicates that are evaluated faster than columns are coded, whatever n (1 of 10^6: 0.4 times)
GROUPING = 36  # bytes a row while rows are grouped: two hashes, order, leader, class, first
MAX_BYTES = 8 << 30  # patterns beyond this are refused rather than swapped


@dataclass(frozen=True, slots=True)
class _Slot:
    """How one slot went: its route, how many codes occur, how many classes of codes the log can tell apart."""

    name: str
    route: str
    leaves: int
    units: int
    values: int
    classes: int


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    """Keys of the records, and the tables that turn a key into a pattern."""

    plan: Plan
    slots: tuple[_Slot, ...]
    keys: Words  # n rows: the classes of all slots and the codes of all weights, side by side
    fields: Ints
    starts: Ints
    tables: Words
    weighing: tuple[Place, ...]  # where the weights are in the keys
    weights: tuple[tuple[Ints, Weights], ...]


def group_records(
    con: duckdb.DuckDBPyConnection, table: str, schema: Schema, predicates: Sequence[Predicate], weights: Sequence[str]
) -> Atoms:
    """The atoms of `table` under `predicates` and `weights`, numbered by first appearance.

    Two records share an atom if and only if the same predicates are true of them (NULL is not true) and their
    weights are equal; no hash decides. Cost: one pass of the engine over each column used, O(n) for the codes and
    O(K' P / 64) for K' distinct combinations of codes. Memory: about 45 bytes a record, the tables, and the bits
    themselves, P K / 8 bytes (twice that if some predicate combines several terms); `explain_grouping` says how much.
    Small tables take the direct way: the engine evaluates every predicate on every record.

    >>> from keyhole.basis.bits import unpack
    >>> from keyhole.model.predicate import Comparison, IsNull
    >>> from keyhole.model.schema import Column, Kind
    >>> con = duckdb.connect()
    >>> _ = con.execute("CREATE TABLE people AS FROM (VALUES (31), (NULL), (45), (33)) AS t(age)")
    >>> schema = Schema("people", (Column("age", Kind.INTEGER),))
    >>> atoms = group_records(con, "people", schema, [Comparison("age", "<", 40), IsNull("age")], [])
    >>> atoms.of, atoms.sizes, atoms.first, unpack(atoms.table[0], 3)
    (array([0, 1, 2, 0], dtype=int32), array([2, 1, 1]), array([0, 1, 2]), array([ True, False, False]))
    """
    n = _count(con, table)
    if _is_small(con, table, n, len(predicates)):
        return _group_directly(con, table, n, predicates, weights)
    return _group_keys(_prepare(con, table, n, schema, predicates, weights), n)


def explain_grouping(
    con: duckdb.DuckDBPyConnection, table: str, schema: Schema, predicates: Sequence[Predicate], weights: Sequence[str]
) -> str:
    """How `group_records` would go about it: each column's route, codes and classes, the bits, and the memory it needs.

    Runs the dictionaries but not the grouping.
    """
    n = _count(con, table)
    lines = [f"{n:,} records, {len(predicates):,} predicates, {len(weights):,} weights"]
    if _is_small(con, table, n, len(predicates)):
        lines.append("direct: the engine evaluates every predicate on every record")
        need = 2 * n * ((len(predicates) + 63) // 64 + len(weights)) * 8 + min(n * len(predicates), CELLS)
        lines.append(f"memory: {_in_bytes(need)} of verdicts and patterns")
        return "\n".join(lines)
    made = _prepare(con, table, n, schema, predicates, weights)
    width = max([6, *(len(s.name) for s in made.slots)])
    lines.append(f"{'column':<{width}}  route       leaves   units   codes classes")
    for s in made.slots:
        lines.append(f"{s.name:<{width}}  {s.route:<10} {s.leaves:>7,} {s.units:>7,} {s.values:>7,} {s.classes:>7,}")
    for text, (_, values) in zip(weights, made.weights, strict=True):
        lines.append(f"weight {text}: {len(values):,} values")
    inline = sum(s.leaves for s in made.slots if s.route == "rows")
    T = len(made.plan.terms)
    lines.append(
        f"terms: {T:,} bits in {made.tables.shape[1]:,} words; {made.plan.combined:,} predicates combine several"
    )
    lines.append(f"inline: {inline:,} leaves evaluated by the engine on every record")
    looked = f"{len(made.fields)} slots read through {len(made.starts)} tables"
    lines.append(f"keys: {made.keys.shape[1]} word(s) a record; {looked}")
    lines.append(
        f"memory: keys {_in_bytes(made.keys.nbytes)}, tables {_in_bytes(made.tables.nbytes)}, "
        f"at most {_in_bytes(_most_bytes(made, n))} if every record is a class of its own"
    )
    return "\n".join(lines)


def _most_bytes(made: _Prepared, n: int) -> int:
    """Bytes at the widest point of `_grouped` if every record is a class of its own."""
    words, bits = made.keys.shape[1], len(made.plan.terms)
    if made.plan.combined:
        bits += 64 * (len(made.plan.outputs) // 64 + 1)
    combination = 4 * len(made.starts) + 8 * len(made.weighing) + max(GROUPING, bits // 8)
    return int(made.tables.nbytes + n * (8 * words + 12) + n * max(GROUPING, combination))


def _count(con: duckdb.DuckDBPyConnection, table: str) -> int:
    return int(fetch_value(con, f"SELECT count(*) FROM {table}"))


def _is_small(con: duckdb.DuckDBPyConnection, table: str, n: int, P: int) -> bool:
    """Does the direct way win, or is it the only one? The other needs row numbers without gaps."""
    if P <= ALWAYS_DIRECT or (n <= DIRECT_ROWS and n * P <= DIRECT):
        return True
    try:
        [row] = con.execute(f"SELECT min(rowid), max(rowid) FROM {table}").fetchall()
    except duckdb.Error:  # a view
        return True
    return row != (0, n - 1) or "rowid" in {name.casefold() for name in types_of(con, table)}


def _group_directly(
    con: duckdb.DuckDBPyConnection, table: str, n: int, predicates: Sequence[Predicate], weights: Sequence[str]
) -> Atoms:
    """The engine evaluates every predicate on every record."""
    P = len(predicates)
    patterns = np.zeros((n, (P + 63) // 64 * 8), dtype=np.uint8)
    held = np.zeros((8, n), dtype=np.uint8)
    for p, yes in enumerate(_evaluate_predicates(con, table, n, predicates)):
        held[p % 8] = yes
        if p % 8 == 7 or p == P - 1:
            patterns[:, p // 8] = np.packbits(held[: p % 8 + 1], axis=0, bitorder="little")[0]
    weighed = [weigh(con, table, weight) for weight in weights]
    columns = [patterns.view(np.uint64), *(codes.astype(np.uint64)[:, None] for codes, _ in weighed)]
    rows = np.ascontiguousarray(np.concatenate(columns, axis=1))
    of, first = distinct_rows(rows)
    bits = np.zeros((P, (len(first) + 63) // 64), dtype=np.uint64)
    for p in range(P):
        line = np.packbits(patterns[first, p // 8] >> p % 8 & 1, bitorder="little")
        bits[p].view(np.uint8)[: len(line)] = line
    return _atoms(of, first, bits, weighed)


def _evaluate_predicates(
    con: duckdb.DuckDBPyConnection, table: str, n: int, predicates: Sequence[Predicate]
) -> Iterator[NDArray[np.bool_]]:
    """Where each predicate is true: its conditions by the engine, put together here where few texts are many."""
    listed = list(dict.fromkeys(leaf for p in predicates for leaf in find_leaves(p)))
    if len(predicates) < FEWEST or len(listed) > 4 * len(predicates):
        yield from (yes for yes, _ in evaluate_conditions(con, table, [format_predicate(p) for p in predicates], n))
        return
    truths = dict(
        zip(listed, evaluate_conditions(con, table, [format_predicate(leaf) for leaf in listed], n), strict=True)
    )
    algebra = truth_sets(np.ones(n, dtype=np.bool_), truths.__getitem__)
    yield from (fold(p, algebra)[0] for p in predicates)


def _atoms(
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


def _prepare(
    con: duckdb.DuckDBPyConnection,
    table: str,
    n: int,
    schema: Schema,
    predicates: Sequence[Predicate],
    weights: Sequence[str],
) -> _Prepared:
    known = Leaves()
    formulas = [settle_predicate(p, known) for p in predicates]
    coded = encode_columns(con, table, n, schema, known.all)
    slot_of = [""] * len(known.all)
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
        present, truth = decide_codes(con, table, n, c, known.all)
        verdicts = np.empty((len(units), len(present)), dtype=np.bool_)
        for u, unit in enumerate(units):
            verdicts[u] = decide_formula(unit, truth, len(present))
        class_of, first = distinct_rows(pack_columns(verdicts))
        lookup = np.zeros(c.count, dtype=np.uint64)
        lookup[present] = class_of
        places.append(keys.add(c.codes, len(first), lookup))
        unit_of = np.array([term.get(c.slot, -1) for term in made.terms], dtype=np.int64)
        tables.append(mask_table(verdicts[:, first], unit_of))
        slots.append(_Slot(c.slot, c.route, len(c.leaves), len(units), len(present), len(first)))
    weighed = tuple(weigh(con, table, weight) for weight in weights)
    weighing = [keys.add(codes, len(values)) for codes, values in weighed]
    return _Prepared(made, tuple(slots), keys.words(), *join_tables(tables, places, width), tuple(weighing), weighed)


def _group_keys(made: _Prepared, n: int) -> Atoms:
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
    return _atoms(of[key_of], first_of_key[chosen], bits, made.weights)


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
            f"{K:,} atoms and {rows:,} conditions need {_in_bytes(need)} of patterns (at most {_in_bytes(MAX_BYTES)}): "
            "audit the log in parts, or one private column at a time"
        )


def _in_bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
