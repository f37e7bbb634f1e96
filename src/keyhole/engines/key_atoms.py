"""Atoms of a table in another engine: it decides each condition on the values that occur, and groups by one number.

Every column is coded by small numbers such that records of one code agree on every condition of the log on that column:

- `values`: the engine decides the conditions on one record of each different value; values with equal verdicts are one
  code. A small table of (record, code) goes there, and the table is joined with it by value;
- `cuts`: of a wide column under comparisons, the interval between the constants that the value lies in;
- `rows`: anything else: the verdicts themselves, on every record.

The codes side by side are the key, and the engine counts the records of each key. Truth is never computed here, and no
value comes over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.basis import Atoms, Weights
from keyhole.basis.atoms.grouping import Coded, distinct_rows, group_keys, prepare_keys
from keyhole.basis.atoms.plan import Bools, Ints, Leaves, settle_predicate
from keyhole.engines.duckdb.codes import exact_weight, list_constants
from keyhole.engines.engine import Engine, fetch_rows
from keyhole.errors import DataError
from keyhole.extras import import_extra
from keyhole.model.predicate import IsNull, Leaf, Opaque, Predicate, format_literal, quote_name
from keyhole.model.schema import Schema

DICTIONARY = 65_536  # different values of a column that are listed
FEW = 6  # conditions on a column up to which they are evaluated on every record
ROWS = 8  # conditions in one code of the `rows` route: 2 bits each
AT_ONCE = 400  # items in one SELECT: PostgreSQL stops at 1,664 columns
KEY = 1 << 62  # a key is below this
Truth: TypeAlias = Mapping[int, tuple[Bools, Bools]]


@dataclass(frozen=True, slots=True)
class Slot:
    """A code of every record: the expression, how many codes there are, the truth of its leaves on each.

    `join` is what the expression needs in FROM, `put` the small table that goes there.
    """

    name: str
    leaves: tuple[int, ...]
    item: str
    count: int
    truth: Truth = field(repr=False)
    join: str = ""
    put: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class KeyedRecords:
    """How an engine finds the class of a record again: the keys of all rows, and which first row means which class."""

    slots: tuple[Slot, ...]
    names: tuple[str, ...]
    text: str
    first: Ints
    atom: NDArray[np.int32]

    def rows(self, engine: Engine) -> str:
        """A SELECT of the keys (`names`) and the number r of each row; what it joins with is put there first."""
        for slot in self.slots:
            if slot.put is not None:
                engine.put(slot.name, slot.put)
        return self.text


def group_by_keys(
    engine: Engine,
    table: str,
    row: str,
    n: int,
    schema: Schema,
    predicates: Sequence[Predicate],
    weights: Sequence[str],
) -> Atoms:
    """Records grouped by (which predicates hold, values of the weights), numbered by their first record.

    Two records share an atom if and only if the same predicates are true of them and their weights are equal. Cost: in
    the engine a pass for each column that many conditions look at, and one to group; here 40 bytes for each different
    key. The class of each record comes over when first somebody asks for it.
    """
    known = Leaves()
    formulas = [settle_predicate(p, known) for p in predicates]
    slots = list(_code_columns(engine, table, row, schema, known.all))
    places, words = _strides([slot.count for slot in slots])
    keys = [" + ".join(f"CAST({slots[i].item} AS BIGINT) * {stride}" for i, stride in parts) or "0" for parts in words]
    weighed = [_weight_item(engine, table, sql, f"w{j}") for j, sql in enumerate(weights)]
    names = tuple([f"k{j}" for j in range(len(keys))] + [f"w{j}" for j in range(len(weights))])
    listed = ", ".join([*(f"CAST({key} AS BIGINT) AS k{j}" for j, key in enumerate(keys)), *weighed, f"p.{row} AS r"])
    text = f"SELECT {listed} FROM {table} p{''.join(slot.join for slot in slots)}"
    recipe = KeyedRecords(tuple(slots), names, text, np.zeros(0, np.int64), np.zeros(0, np.int32))
    by = ", ".join(names)
    grouped = f"SELECT {by}, count(*) AS c, min(r) AS r FROM ({recipe.rows(engine)}) q GROUP BY {by}"
    found = engine.arrow(grouped).read_all()
    first = found["r"].to_numpy().astype(np.int64)
    order = np.argsort(first)
    first, counts = first[order], found["c"].to_numpy().astype(np.int64)[order]
    numbers = [found[f"k{j}"].to_numpy().astype(np.int64)[order] for j in range(len(keys))]
    coded = [
        Coded(slot.name, "", numbers[at] // stride % slot.count, slot.count, slot.leaves, None)
        for slot, (at, stride) in zip(slots, places, strict=True)
    ]
    truths = {slot.name: slot.truth for slot in slots}

    def decide(slot: Coded) -> tuple[Ints, Truth]:
        present = np.unique(slot.codes)
        return present, {leaf: (yes[present], no[present]) for leaf, (yes, no) in truths[slot.slot].items()}

    codes = [_weight_codes(found[f"w{j}"].take(order).to_pylist(), sql) for j, sql in enumerate(weights)]
    atoms = group_keys(prepare_keys(formulas, len(known.all), coded, decide, codes, len(first)))
    of = atoms.of
    _check_rows(int(counts.sum()) == n and len(np.unique(first)) == len(first))
    sizes = np.zeros(atoms.K, dtype=np.int64)
    np.add.at(sizes, of, counts)
    recipe = replace(recipe, first=first, atom=of)

    @cache
    def fetch() -> NDArray[np.int32]:
        return _class_of_each(engine, recipe, n)

    return replace(atoms, of_records=fetch, sizes=sizes, first=first[atoms.first], recipe=recipe).named(
        predicates, weights
    )


def _check_rows(fits: bool) -> None:
    """Every row has one key, and each key its rows: an engine that says otherwise is not believed."""
    if not fits:
        raise DataError.of_file("the engine of the data counts rows twice or loses some: did the table change?")


def _class_of_each(engine: Engine, recipe: KeyedRecords, n: int) -> NDArray[np.int32]:
    """The class of each record, by what the keys of its row are: the first row with the same says which."""
    by = ", ".join(recipe.names)
    firsts = f"SELECT {by}, min(r) AS f FROM ({recipe.rows(engine)}) q GROUP BY {by}"
    same = " AND ".join(f"(a.{n} = b.{n} OR (a.{n} IS NULL AND b.{n} IS NULL))" for n in recipe.names)
    if all(name.startswith("k") for name in recipe.names):
        same = " AND ".join(f"a.{name} = b.{name}" for name in recipe.names)
    text = f"SELECT a.r AS r, b.f AS f FROM ({recipe.text}) a JOIN ({firsts}) b ON {same}"
    table = engine.arrow(text).read_all()
    rows, firsts_of_rows = table["r"].to_numpy(), table["f"].to_numpy()
    _check_rows(np.array_equal(np.sort(rows), np.arange(n)) and bool(np.isin(firsts_of_rows, recipe.first).all()))
    of = np.empty(n, dtype=np.int32)
    of[rows] = recipe.atom[np.searchsorted(recipe.first, firsts_of_rows)]
    return of


def _strides(counts: Sequence[int]) -> tuple[list[tuple[int, int]], list[list[tuple[int, int]]]]:
    """Where each code is: (key, stride) of each, and the (code, stride) that each key is the sum of.

    >>> _strides([3, 4, 1 << 61])
    ([(0, 1), (0, 3), (1, 1)], [[(0, 1), (1, 3)], [(2, 1)]])
    """
    places: list[tuple[int, int]] = []
    words: list[list[tuple[int, int]]] = [[]]
    stride = 1
    for i, count in enumerate(counts):
        if stride * count > KEY:
            words.append([])
            stride = 1
        places.append((len(words) - 1, stride))
        words[-1].append((i, stride))
        stride *= count
    return places, words


def _code_columns(engine: Engine, table: str, row: str, schema: Schema, leaves: Sequence[Leaf]) -> Iterator[Slot]:
    by_column: dict[str, list[int]] = {}
    on_rows: list[int] = []
    for i, leaf in enumerate(leaves):
        read = leaf.columns if isinstance(leaf, Opaque) else frozenset((leaf.column,))
        column = schema.find(next(iter(read))) if len(read) == 1 else None
        if column is None:
            on_rows.append(i)
        else:
            by_column.setdefault(column.name, []).append(i)
    for at, (name, asked) in enumerate(by_column.items()):
        slot = None
        if len(asked) > FEW:
            slot = _code_values(engine, table, row, f"keyhole_d{at}", name, asked, leaves)
            if slot is None:
                asked, others = _split_cuts(asked, leaves)
                on_rows += others
                slot = _code_cuts(engine, table, row, f"keyhole_d{at}", name, asked, leaves) if asked else None
        else:
            on_rows += asked
        if slot is not None:
            yield slot
    for at in range(0, len(on_rows), ROWS):
        yield _code_verdicts(engine, on_rows[at : at + ROWS], leaves)


def _code_values(
    engine: Engine, table: str, row: str, slot: str, name: str, asked: Sequence[int], leaves: Sequence[Leaf]
) -> Slot | None:
    """Codes by the verdicts on one record of each value; None if there are too many values."""
    q = quote_name(name)
    few = f"SELECT count(*) AS n FROM (SELECT DISTINCT {q} FROM {table} LIMIT {DICTIONARY + 1}) q"
    if int(fetch_rows(engine, few)[0][0]) > DICTIONARY:
        return None
    null = f"CASE WHEN {q} IS NULL THEN 1 ELSE 0 END AS void"
    parts = []
    for start in range(0, len(asked), AT_ONCE):
        items = [engine.spelling.truth(leaves[i], f"b{i}") for i in asked[start : start + AT_ONCE]]
        text = f"SELECT min({row}) AS r, {', '.join([null, *items])} FROM {table} GROUP BY {q}"
        part = engine.arrow(text).read_all()
        parts.append(part.take(np.argsort(part["r"].to_numpy())))
    rows = parts[0]["r"].to_numpy().astype(np.int64)
    listed = [part[f"b{i}"] for part, chunk in zip(parts, _chunks(asked), strict=True) for i in chunk]
    verdicts = np.stack([column.to_numpy().astype(np.int8) for column in listed], axis=1)
    class_of, first = distinct_rows(np.ascontiguousarray(_as_words(verdicts)))
    void = np.flatnonzero(parts[0]["void"].to_numpy() == 1)
    rest = int(class_of[void[0]]) if len(void) else int(np.bincount(class_of).argmax())
    kept = class_of != rest
    pa = import_extra("pyarrow", "data that stay in their engine")
    put = pa.table({"r": pa.array(rows[kept], pa.int64()), "k": pa.array(class_of[kept], pa.int32())})
    listed_codes = f"SELECT t.{q} AS keyhole_v, d.k AS keyhole_k FROM {engine.put(slot, put)} d"
    join = f" LEFT JOIN ({listed_codes} JOIN {table} t ON t.{row} = d.r) {slot} ON "
    return Slot(
        slot, tuple(asked), f"coalesce({slot}.keyhole_k, {rest})", len(first), _truth(asked, verdicts[first]),
        f"{join}{slot}.keyhole_v = p.{q}", put,
    )  # fmt: skip


def _chunks(asked: Sequence[int]) -> Iterator[Sequence[int]]:
    yield from (asked[start : start + AT_ONCE] for start in range(0, len(asked), AT_ONCE))


def _as_words(verdicts: NDArray[np.int8]) -> NDArray[np.uint64]:
    """Rows of verdicts as words, equal where they are."""
    width = -(-verdicts.shape[1] // 8) * 8
    padded = np.zeros((len(verdicts), width), dtype=np.int8)
    padded[:, : verdicts.shape[1]] = verdicts
    return padded.view(np.uint64)


def _truth(asked: Sequence[int], verdicts: NDArray[np.int8]) -> Truth:
    return {i: (verdicts[:, at] == 1, verdicts[:, at] == 0) for at, i in enumerate(asked)}


def _split_cuts(asked: Sequence[int], leaves: Sequence[Leaf]) -> tuple[list[int], list[int]]:
    """Those that compare with constants of one sort, and the others."""
    sorts: dict[object, list[int]] = {}
    for i in asked:
        kinds = {_sort_of(value) for value in list_constants(leaves[i])}
        sorts.setdefault(kinds.pop() if len(kinds) == 1 else None, []).append(i)
    nulls = [i for i in asked if isinstance(leaves[i], IsNull)]
    chosen = max((s for s in sorts if s is not None), key=lambda s: len(sorts[s]), default=None)
    kept = [] if chosen is None else [*sorts[chosen], *nulls]
    return kept, [i for i in asked if i not in set(kept)]


def _sort_of(value: Any) -> object:
    if isinstance(value, bool | str):
        return None
    return "number" if isinstance(value, int | Decimal) else type(value)


def _code_cuts(
    engine: Engine, table: str, row: str, slot: str, name: str, asked: Sequence[int], leaves: Sequence[Leaf]
) -> Slot:
    """Codes by where the value lies among the constants; the conditions are decided on one record of each code."""
    edges = sorted({value for i in asked for value in list_constants(leaves[i])})
    column = f"p.{quote_name(name)}"

    def find(low: int, high: int) -> str:
        if low == high:
            return str(2 * low + 1)
        middle = (low + high) // 2
        at = format_literal(edges[middle])
        return (
            f"CASE WHEN {column} < {at} THEN {find(low, middle)} WHEN {column} = {at} THEN {2 * middle + 2} "
            f"ELSE {find(middle + 1, high)} END"
        )

    item = f"CASE WHEN {column} IS NULL THEN 0 ELSE {find(0, len(edges))} END"
    codes = f"SELECT {item} AS keyhole_c, p.{row} AS keyhole_f FROM {table} p"
    firsts = f"SELECT keyhole_c, min(keyhole_f) AS keyhole_f FROM ({codes}) q GROUP BY keyhole_c"
    count = 2 * len(edges) + 2
    verdicts = np.full((count, len(asked)), -1, dtype=np.int8)
    for chunk_at, chunk in enumerate(_chunks(asked)):
        items = ", ".join(engine.spelling.truth(leaves[i], f"b{i}") for i in chunk)
        text = f"SELECT f.keyhole_c, {items} FROM ({firsts}) f JOIN {table} t ON t.{row} = f.keyhole_f"
        for found in fetch_rows(engine, text):
            verdicts[int(found[0]), chunk_at * AT_ONCE : chunk_at * AT_ONCE + len(chunk)] = found[1:]
    return Slot(slot, tuple(asked), item, count, _truth(asked, verdicts))


def _code_verdicts(engine: Engine, numbers: Sequence[int], leaves: Sequence[Leaf]) -> Slot:
    """The verdicts themselves as a code."""
    parts = []
    for i, number in enumerate(numbers):
        text = engine.spelling.condition(leaves[number])
        parts.append(f"CASE WHEN {text} THEN {1 << 2 * i} WHEN NOT ({text}) THEN {2 << 2 * i} ELSE 0 END")
    codes = np.arange(1 << 2 * len(numbers))
    truth = {leaf: (codes >> 2 * i & 1 == 1, codes >> (2 * i + 1) & 1 == 1) for i, leaf in enumerate(numbers)}
    return Slot(f"rows:{numbers[0]}", tuple(numbers), " + ".join(parts), len(codes), truth)


def _weight_item(engine: Engine, table: str, weight: str, name: str) -> str:
    """A weight as its text; a double as it is, since engines print them in their own ways."""
    sql = engine.spelling.expression(weight)
    kind = str(engine.arrow(f"SELECT ({sql}) AS w FROM {table} LIMIT 0").read_all().schema.field("w").type)
    return f"({sql}) AS {name}" if kind in ("double", "float") else f"CAST(({sql}) AS {engine.spelling.text}) AS {name}"


def _weight_codes(values: Sequence[Any], weight: str) -> tuple[Ints, Weights]:
    """`values[codes[r]]` is the weight of row r, exactly; NULL weighs nothing."""
    known: dict[Fraction, int] = {}
    texts: dict[Any, int] = {}
    for value in values:
        if value not in texts:
            text = "0" if value is None else repr(value) if isinstance(value, float) else str(value)
            texts[value] = known.setdefault(exact_weight(text, weight), len(known))
    codes = np.array([texts[value] for value in values], dtype=np.int64)
    return codes, Weights.of(known)
