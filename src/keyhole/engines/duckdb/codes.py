"""A small code per record and column, such that records of one code agree on every leaf of that column.

How a column is coded (its *route*) depends on its type, its width and what the log asks of it:

- `values`: integers, dates, booleans of a narrow range: the value itself, counted from the smallest;
- `cuts`: numbers, dates and timestamps of a wide range under comparisons only: the interval between the constants
  of the log that the value lies in. A constant and its two neighbours in the column's type are intervals of their
  own, so however the engine rounds a constant to that type, all values of an interval compare alike;
- `dictionary`: text and the like: the number of the value among the distinct ones;
- `constants`: text with very many values under equalities only: which constant of the log it is, or none of them;
- `rows`: anything else, and conditions over several columns: the engine's verdicts themselves, eight leaves a code.

Truth is never computed here: the engine evaluates every leaf on one record of each code. Weights are coded too: exact
rationals, one code per record.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from keyhole.basis import Weights
from keyhole.basis.atoms.grouping import Coded, Codes
from keyhole.basis.atoms.plan import Bools
from keyhole.engines.duckdb.connections import types_of
from keyhole.engines.duckdb.template_truths import template_truths
from keyhole.errors import DataError
from keyhole.model.predicate import Comparison, IsNull, Leaf, Membership, Opaque, Scalar, format_predicate, quote_name
from keyhole.model.schema import Schema

NARROW = 4096  # a range this small is coded by its values, whatever is asked
DICTIONARY = 65_535  # more values than this are not listed: codes stay within two bytes
LOOKUP = 1 << 22  # a range this small is cut through a table, a wider one by binary search
DIGITS = 30  # a constant longer than this may be read as a double by the engine: no cut point
ROWS = 8  # leaves in one code of the `rows` route: 2 bits each
FEW = 64  # rows up to which plain values are quicker to fetch than arrays (which import numpy.ma)
CELLS = 1 << 26  # booleans fetched at a time
ENDLESS = 16  # signs of a DOUBLE that was cut off
SMALL = 10**6  # denominators of quotients such as 1 / w
LARGEST_WEIGHT = 10**70

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_IDENTICAL = ("UBIGINT", "HUGEINT", "UUID", "TIME", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "ENUM")
_EPOCH = dt.datetime(1970, 1, 1)
_DAY = 86_400_000_000


def encode_columns(
    con: duckdb.DuckDBPyConnection, table: str, n: int, schema: Schema, leaves: Sequence[Leaf]
) -> list[Coded]:
    """Code every column that the leaves look at; each leaf is in exactly one slot.

    Cost: a pass of the engine over each column used, 1 to 4 bytes a record and slot.
    """
    types = types_of(con, table)
    by_column: dict[str, dict[int, Leaf]] = {}
    on_rows: list[int] = []
    for i, leaf in enumerate(leaves):
        read = leaf.columns if isinstance(leaf, Opaque) else frozenset((leaf.column,))
        column = schema.find(next(iter(read))) if len(read) == 1 else None
        if column is None or column.name not in types:
            on_rows.append(i)
        else:
            by_column.setdefault(column.name, {})[i] = leaf
    columns = []
    for name, asked in by_column.items():
        coded = _code_column(con, table, n, name, types[name], asked)
        if coded is not None:
            columns.append(coded)
        on_rows.extend(i for i in asked if coded is None or i not in coded.leaves)
    on_rows.sort()
    for at in range(0, len(on_rows), ROWS):
        columns.append(_code_verdicts(con, table, on_rows[at : at + ROWS], leaves))
    return columns


def evaluate_conditions(
    con: duckdb.DuckDBPyConnection, table: str, texts: Sequence[str], n: int
) -> Iterator[tuple[Bools, Bools]]:
    """(is true, is false) of each expression on the n rows of a table, by the engine, in row order.

    Expressions of one template (`template_truths`) are one; the others are listed side by side.
    """
    shared = template_truths(con, table, texts, n)
    rest = iter(_listed(con, table, [text for i, text in enumerate(texts) if i not in shared], n))
    for i in range(len(texts)):
        yield shared.pop(i) if i in shared else next(rest, (np.zeros(0, dtype=np.bool_),) * 2)


def _listed(con: duckdb.DuckDBPyConnection, table: str, texts: Sequence[str], n: int) -> Iterator[tuple[Bools, Bools]]:
    step = max(1, min(128, CELLS // max(1, n)))
    for at in range(0, len(texts), step):
        chunk = texts[at : at + step]
        listed = ", ".join(f"({text}) AS b{i}" for i, text in enumerate(chunk))
        cursor = con.execute(f"SELECT {listed} FROM {table}")
        if n <= FEW:
            for verdicts in zip(*cursor.fetchall(), strict=True):
                yield np.array([v is True for v in verdicts]), np.array([v is False for v in verdicts])
            continue
        fetched = cursor.fetchnumpy()
        for i in range(len(chunk)):
            raw = fetched[f"b{i}"]
            known = np.asarray(np.ma.filled(raw, False), dtype=np.bool_)
            mask = np.ma.getmask(raw)
            yield known, ~known if mask is np.ma.nomask else ~(known | mask)


def decide_codes(
    con: duckdb.DuckDBPyConnection, table: str, n: int, coded: Coded, leaves: Sequence[Leaf]
) -> tuple[NDArray[np.int64], Mapping[int, tuple[Bools, Bools]]]:
    """The codes that occur, and the truth of each leaf of the slot on them."""
    record = np.full(coded.count, -1, dtype=np.int32)
    record[coded.codes] = np.arange(n, dtype=np.int32)
    present = np.flatnonzero(record >= 0)
    if coded.column is None:
        return present, {
            leaf: (present >> 2 * i & 1 == 1, present >> (2 * i + 1) & 1 == 1) for i, leaf in enumerate(coded.leaves)
        }
    rows = record[present]
    order = np.argsort(rows)
    con.register("keyhole_rows", {"r": rows})
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE keyhole_values AS SELECT {quote_name(coded.column)} FROM {table} "
        "WHERE rowid IN (SELECT r FROM keyhole_rows) ORDER BY rowid"
    )
    con.unregister("keyhole_rows")
    back = np.argsort(order)
    texts = [format_predicate(leaves[leaf]) for leaf in coded.leaves]
    verdicts = evaluate_conditions(con, "keyhole_values", texts, len(rows))
    truth = {leaf: (yes[back], no[back]) for leaf, (yes, no) in zip(coded.leaves, verdicts, strict=True)}
    con.execute("DROP TABLE keyhole_values")
    return present, truth


def _as_integers(type_: str, name: str) -> tuple[str, int] | None:
    """A column of that type as exact integers: the SQL, and how many of them make one; None if it has no such form."""
    if type_ in _INTEGERS:
        return f"{name}::BIGINT", 1
    if type_ == "BOOLEAN":
        return f"{name}::BIGINT", 1
    if type_ == "DATE":
        return f"({name} - DATE '1970-01-01')::BIGINT", 1
    if type_ == "TIMESTAMP":
        return f"epoch_us({name})", 1
    decimal = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", type_)
    if decimal and int(decimal[1]) <= 18:
        digits = int(decimal[2])
        return f"({name}::DECIMAL(38,{digits}) * {10**digits})::BIGINT", 10**digits
    return None


def _code_column(
    con: duckdb.DuckDBPyConnection, table: str, n: int, name: str, type_: str, asked: Mapping[int, Leaf]
) -> Coded | None:
    form = _as_integers(type_, quote_name(name))
    if form is not None:
        return _code_integers(con, table, n, name, type_, form, asked)
    if type_ in ("DOUBLE", "FLOAT"):
        return _code_doubles(con, table, name, type_, asked)
    if type_ == "VARCHAR" or type_.split("(")[0] in _IDENTICAL:
        return _code_words(con, table, n, name, type_, asked)
    return None


def _code_integers(
    con: duckdb.DuckDBPyConnection,
    table: str,
    n: int,
    name: str,
    type_: str,
    form: tuple[str, int],
    asked: Mapping[int, Leaf],
) -> Coded | None:
    text, scale = form
    q = quote_name(name)
    # fetchall everywhere: an unfinished result would bar `register`
    [(lo, hi, counted, present)] = con.execute(
        f"SELECT min({text}), max({text}), count({text}), count({q}) FROM {table}"
    ).fetchall()
    if counted != present:  # an infinite timestamp has no number
        return None
    if lo is None:
        return Coded(name, "values", np.zeros(n, dtype=np.uint8), 1, tuple(asked), name)
    span = hi - lo + 1
    cuts = {i: _cuts(leaf, type_, scale) for i, leaf in asked.items()}
    whole = all(c is not None for c in cuts.values())
    if span <= NARROW or (not whole and span <= DICTIONARY):
        return Coded(name, "values", _fetch_offsets(con, table, text, lo, span), span + 1, tuple(asked), name)
    points = {side for c in cuts.values() if c is not None for q_ in c for side in (q_.__floor__(), q_.__ceil__())}
    edges = np.array(sorted(p for p in points if lo <= p <= hi), dtype=np.int64)
    if span <= LOOKUP:
        inside = _interval(edges, np.arange(lo, hi + 1, dtype=np.int64))
        lookup = np.concatenate([np.zeros(1, dtype=inside.dtype), inside])
        codes = lookup[_fetch_offsets(con, table, text, lo, span)]
    else:
        codes = _search_codes(con, f"SELECT {text} AS c FROM {table}", edges)
    return Coded(name, "cuts", codes, 2 * len(edges) + 2, tuple(i for i, c in cuts.items() if c is not None), name)


def _fetch_offsets(con: duckdb.DuckDBPyConnection, table: str, text: str, lo: int, span: int) -> Codes:
    """value - lo + 1, and 0 for NULL."""
    unsigned = "UTINYINT" if span < 1 << 8 else "USMALLINT" if span < 1 << 16 else "UINTEGER"
    return _fetch_codes(con, f"SELECT coalesce({text} - ({lo}) + 1, 0)::{unsigned} AS c FROM {table}")


def _interval(edges: NDArray[Any], values: NDArray[Any]) -> Codes:
    """1 + 2 * (edges below the value) + (the value is an edge)."""
    at = np.searchsorted(edges, values)
    on = edges[np.minimum(at, len(edges) - 1)] == values if len(edges) else np.zeros(len(values), dtype=np.bool_)
    return (2 * at + on + 1).astype(np.uint16 if 2 * len(edges) + 2 < 1 << 16 else np.uint32)


def _search_codes(con: duckdb.DuckDBPyConnection, text: str, edges: NDArray[Any]) -> Codes:
    raw: Any = con.execute(text).fetchnumpy()["c"]
    codes = _interval(edges, np.ma.filled(raw, 0))
    codes[np.ma.getmaskarray(raw)] = 0
    return codes


def _code_doubles(
    con: duckdb.DuckDBPyConnection, table: str, name: str, type_: str, asked: Mapping[int, Leaf]
) -> Coded | None:
    cuts = {i: c for i, leaf in asked.items() if (c := _cuts(leaf, type_, 1)) is not None}
    if not cuts:
        return None
    dtype = np.float32 if type_ == "FLOAT" else np.float64
    middle = np.unique(np.array([float(q) for c in cuts.values() for q in c], dtype=dtype))
    ends = dtype(-np.inf), dtype(np.inf)
    edges = np.unique(np.concatenate([middle, np.nextafter(middle, ends[0]), np.nextafter(middle, ends[1])]))
    # NaN, which SQL puts above every number, is found above every edge
    codes = _search_codes(con, f"SELECT {quote_name(name)} AS c FROM {table}", edges)
    return Coded(name, "cuts", codes, 2 * len(edges) + 2, tuple(cuts), name)


def _code_words(
    con: duckdb.DuckDBPyConnection, table: str, n: int, name: str, type_: str, asked: Mapping[int, Leaf]
) -> Coded | None:
    q = quote_name(name)
    key = f"encode(t.{q})" if type_ == "VARCHAR" else f"t.{q}"  # bytes: a collation may call different texts equal
    con.execute(
        "CREATE OR REPLACE TEMP TABLE keyhole_dictionary AS SELECT v, row_number() OVER () AS c FROM "
        f"(SELECT DISTINCT {key} AS v FROM {table} t WHERE t.{q} IS NOT NULL LIMIT {DICTIONARY + 1})"
    )
    [(count,)] = con.execute("SELECT count(*) FROM keyhole_dictionary").fetchall()
    equalities = [i for i, leaf in asked.items() if type_ == "VARCHAR" and _is_equality(leaf)]
    if count <= NARROW or (count <= DICTIONARY and len(equalities) < len(asked)):
        codes = _join_codes(con, table, n, f"coalesce(d.c, 0)::{'UTINYINT' if count < 1 << 8 else 'USMALLINT'}", key)
        return Coded(name, "dictionary", codes, count + 1, tuple(asked), name)
    if not equalities:
        return None
    constants = sorted({v for i in equalities for v in list_constants(asked[i]) if isinstance(v, str)})
    con.execute(
        "CREATE OR REPLACE TEMP TABLE keyhole_dictionary AS SELECT v, row_number() OVER () + 1 AS c "
        "FROM (SELECT unnest(?::VARCHAR[]) AS v)",
        [constants],
    )
    codes = _join_codes(con, table, n, f"CASE WHEN t.{q} IS NULL THEN 0 ELSE coalesce(d.c, 1) END::UINTEGER", f"t.{q}")
    return Coded(name, "constants", codes, len(constants) + 2, tuple(equalities), name)


def _join_codes(con: duckdb.DuckDBPyConnection, table: str, n: int, code: str, key: str) -> Codes:
    text = f"SELECT t.rowid AS r, {code} AS c FROM {table} t LEFT JOIN keyhole_dictionary d ON {key} = d.v"
    fetched = con.execute(text).fetchnumpy()
    con.execute("DROP TABLE keyhole_dictionary")
    codes = np.asarray(fetched["c"])
    out = np.empty(n, dtype=codes.dtype)
    out[np.asarray(fetched["r"])] = codes  # a join may deliver rows in any order
    return out


def _code_verdicts(con: duckdb.DuckDBPyConnection, table: str, numbers: Sequence[int], leaves: Sequence[Leaf]) -> Coded:
    parts = []
    for i, number in enumerate(numbers):
        text = format_predicate(leaves[number])
        parts.append(f"(CASE WHEN {text} THEN {1 << 2 * i} WHEN NOT ({text}) THEN {2 << 2 * i} ELSE 0 END)")
    codes = _fetch_codes(con, f"SELECT ({' | '.join(parts)})::USMALLINT AS c FROM {table}")
    return Coded(f"rows:{numbers[0]}", "rows", codes, 1 << 2 * len(numbers), tuple(numbers), None)


def _fetch_codes(con: duckdb.DuckDBPyConnection, text: str) -> Codes:
    return np.asarray(con.execute(text).fetchnumpy()["c"])


def _is_equality(leaf: Leaf) -> bool:
    if isinstance(leaf, Comparison):
        return leaf.op in ("=", "<>") and isinstance(leaf.value, str)
    return isinstance(leaf, IsNull) or (isinstance(leaf, Membership) and all(isinstance(v, str) for v in leaf.values))


def list_constants(leaf: Leaf) -> tuple[Scalar, ...]:
    return leaf.values if isinstance(leaf, Membership) else (leaf.value,) if isinstance(leaf, Comparison) else ()


def _cuts(leaf: Leaf, type_: str, scale: int) -> list[Fraction] | None:
    """The positions on the column's axis where the leaf may change; None if it is no comparison with numbers."""
    if not isinstance(leaf, Comparison | Membership | IsNull):
        return None
    positions = [_position(value, type_) for value in list_constants(leaf)]
    return [p * scale for p in positions if p is not None] if None not in positions else None


def _position(value: Scalar, type_: str) -> Fraction | None:
    if type_ in ("DATE", "TIMESTAMP"):
        if not isinstance(value, dt.date) or (isinstance(value, dt.datetime) and value.tzinfo is not None):
            return None
        moment = value if isinstance(value, dt.datetime) else dt.datetime(value.year, value.month, value.day)
        micros = (moment - _EPOCH) // dt.timedelta(microseconds=1)
        return Fraction(micros, _DAY if type_ == "DATE" else 1)
    if isinstance(value, bool) or type_ == "BOOLEAN" or not isinstance(value, int | Decimal):
        return None
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    digits = f"{value:f}" if isinstance(value, Decimal) else str(value)
    return Fraction(value) if len(digits) <= DIGITS else None


def weigh(con: duckdb.DuckDBPyConnection, table: str, weight: str) -> tuple[NDArray[np.int64], Weights]:
    """`values[codes[r]]` is the weight of record r, exactly; NULL weighs nothing. The values are distinct.

    Integers and decimals of up to 18 digits are exact as they are; a double is the decimal that the engine prints
    for it, so 0.1 is 1/10, or the quotient that it is, so x / 3 weighs 1/3: as 0.3333333333333333 an equation would be
    missed that holds, and somebody with it. Cost: a sort of the column; for doubles and text one Fraction for each
    distinct value too.
    """
    [described] = con.execute(f"DESCRIBE SELECT ({weight}) AS w FROM {table}").fetchall()
    type_ = str(described[1])
    form = _as_integers(type_, f"({weight})") if type_ not in ("BOOLEAN", "DATE", "TIMESTAMP") else None
    if form is not None:
        raw = con.execute(f"SELECT coalesce({form[0]}, 0) AS v FROM {table}").fetchnumpy()["v"]
        distinct, codes = _distinct_codes(np.asarray(raw, dtype=np.int64))
        return codes, Weights.reduced(distinct, form[1])
    if type_ in ("DOUBLE", "FLOAT"):
        raw = con.execute(f"SELECT coalesce({weight}, 0::{type_}) AS v FROM {table}").fetchnumpy()["v"]
        numbers, codes = _distinct_codes(np.asarray(raw))
        con.register("keyhole_weights", {"v": numbers})
        texts = con.execute("SELECT v::VARCHAR AS v FROM keyhole_weights").fetchnumpy()["v"]
        con.unregister("keyhole_weights")
    else:
        raw = con.execute(f"SELECT coalesce(({weight})::VARCHAR, '0') AS v FROM {table}").fetchnumpy()["v"]
        texts, codes = _distinct_codes(np.asarray(raw, dtype=np.str_))
    # two texts may be one number: 1 and 1.0
    known: dict[Fraction, int] = {}
    same = np.array([known.setdefault(exact_weight(str(t), weight), len(known)) for t in texts], dtype=np.int64)
    return same[codes] if len(same) else codes, Weights.of(known)


def _distinct_codes(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    if values.dtype.kind == "i" and len(values):
        lo, hi = int(values.min()), int(values.max())
        if hi - lo <= 4 * len(values):
            seen = np.zeros(hi - lo + 1, dtype=np.bool_)
            seen[values - lo] = True
            rank = np.cumsum(seen) - 1
            return np.flatnonzero(seen) + lo, rank[values - lo]
    distinct, codes = np.unique(values, return_inverse=True)
    return distinct, codes.astype(np.int64).ravel()


def exact_weight(text: str, weight: str) -> Fraction:
    """The number of a text: of one with as many digits as a DOUBLE has, the quotient of small numbers that it is.

    >>> exact_weight("0.1", "w"), exact_weight("0.3333333333333333", "1 / w")
    (Fraction(1, 10), Fraction(1, 3))
    >>> exact_weight("0.30000000000000004", "w").denominator
    25000000000000000
    """
    try:
        number = Fraction(Decimal(text))
    except (InvalidOperation, OverflowError, ValueError):
        raise DataError(f"the weight {weight} is {text!r} for some record: a weight must be a finite number") from None
    if abs(number) > LARGEST_WEIGHT:
        raise DataError(f"the weight {weight} is beyond 1e70 for some record: the sums that it is for may be infinite")
    if len(text) < ENDLESS:
        return number
    simple = number.limit_denominator(SMALL)
    return simple if float(simple) == float(number) else number
