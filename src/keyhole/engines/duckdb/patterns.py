"""Records grouped by their pattern of matches: exact bits, in time that hardly depends on the number of predicates.

A record's bit for a term is the AND of one look-up for each column, so only the codes of its columns matter (see
`codes`). Records are grouped by their codes first, packed into one integer; then the few distinct
combinations of codes are grouped by their patterns, which are never stored: they are read off the tables where they
are hashed, compared and written. A hash only says where to look; patterns are compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import duckdb
import numpy as np
from numpy.typing import NDArray

from keyhole.basis import Atoms
from keyhole.basis.atoms.grouping import (
    DIRECT_ROWS,
    Coded,
    Prepared,
    distinct_rows,
    group_keys,
    in_bytes,
    make_atoms,
    most_bytes,
    prepare_keys,
)
from keyhole.basis.atoms.plan import Bools, Ints, Leaves, settle_predicate
from keyhole.basis.bits import truth_sets
from keyhole.engines.duckdb.codes import CELLS, decide_codes, encode_columns, evaluate_conditions, weigh
from keyhole.engines.duckdb.connections import fetch_value, types_of
from keyhole.engines.duckdb.template_truths import FEWEST
from keyhole.model.predicate import Predicate, find_leaves, fold, format_predicate
from keyhole.model.schema import Schema

DIRECT = 2_000_000  # up to this many (record, predicate) pairs the engine evaluates every predicate on every record
ALWAYS_DIRECT = 3  # predicates that are evaluated faster than columns are coded, whatever n (1 of 10^6: 0.4 times)


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
    return group_keys(_prepare(con, table, n, schema, predicates, weights))


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
        lines.append(f"memory: {in_bytes(need)} of verdicts and patterns")
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
        f"memory: keys {in_bytes(made.keys.nbytes)}, tables {in_bytes(made.tables.nbytes)}, "
        f"at most {in_bytes(most_bytes(made, n))} if every record is a class of its own"
    )
    return "\n".join(lines)


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
    return make_atoms(of, first, bits, weighed)


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


def _prepare(
    con: duckdb.DuckDBPyConnection,
    table: str,
    n: int,
    schema: Schema,
    predicates: Sequence[Predicate],
    weights: Sequence[str],
) -> Prepared:
    known = Leaves()
    formulas = [settle_predicate(p, known) for p in predicates]
    coded = encode_columns(con, table, n, schema, known.all)

    def decide(slot: Coded) -> tuple[Ints, Mapping[int, tuple[Bools, Bools]]]:
        return decide_codes(con, table, n, slot, known.all)

    return prepare_keys(formulas, len(known.all), coded, decide, [weigh(con, table, weight) for weight in weights], n)
