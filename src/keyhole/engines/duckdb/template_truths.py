"""Conditions that differ in their whole numbers alone are one expression over a table of those numbers.

`(id * 37 + 11) % 101 < 50` and `(id * 5 + 2) % 97 < 48` have one template. The engine compiles it once and evaluates it
on every pair of a row and a tuple of constants, instead of compiling thousands of expressions. Only conditions that
then mean the same are taken: whole numbers below 2^31, which the engine reads as INTEGER, beside columns of type
INTEGER or BIGINT alone, under + - * %, comparisons and logic. Everything else, and whatever fails, is evaluated as
written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import duckdb
import numpy as np
from numpy.typing import NDArray

from keyhole.engines.duckdb.connections import types_of

Bools: TypeAlias = NDArray[np.bool_]

FEWEST = 8  # conditions of one template from which it pays
CELLS = 1 << 21  # truths that are fetched at a time
_TOKEN = re.compile(r'"(?:[^"]|"")*"|[A-Za-z_]\w*|\d[\w.]*|\S')
_WORDS = frozenset(("AND", "OR", "NOT", "IN", "BETWEEN", "IS", "TRUE", "FALSE", "NULL"))
_SIGNS = frozenset("()+-*%<>=!,")
_TYPES = ("INTEGER", "BIGINT")
_CONSTANT = "keyhole constant "


def template_of(text: str) -> tuple[str, tuple[int, ...], frozenset[str]] | None:
    """The text with its whole numbers as columns, these numbers, and the columns it looks at; None if it has others.

    >>> template_of('"id" * 37 % 5 < 2')
    ('"id" * "keyhole constant 0" % "keyhole constant 1" < "keyhole constant 2"', (37, 5, 2), frozenset({'id'}))
    >>> template_of('TRY("id" < 7)')[0]
    '("id" < "keyhole constant 0")'
    >>> template_of('"id" < 1.5') is None, template_of("abs(id) < 1") is None
    (True, True)
    """
    constants: list[int] = []
    columns: set[str] = set()
    pieces: list[str] = []
    last = 0
    if "--" in text or "/*" in text:
        return None
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token[0] == '"' and len(token) > 1:
            columns.add(token[1:-1].replace('""', '"'))
        elif token[0].isdigit():
            if not (token.isascii() and token.isdigit()) or len(token) > 10 or int(token) >= 1 << 31:
                return None
            pieces += (text[last : match.start()], f'"{_CONSTANT}{len(constants)}"')
            constants.append(int(token))
            last = match.end()
        elif token == "TRY":  # without it: where nothing fails it does nothing, and where something does, we do not
            pieces.append(text[last : match.start()])
            last = match.end()
        elif token.upper() not in _WORDS and token not in _SIGNS:
            return None
    return "".join((*pieces, text[last:])), tuple(constants), frozenset(columns)


def template_truths(
    con: duckdb.DuckDBPyConnection, table: str, texts: Sequence[str], n: int
) -> dict[int, tuple[Bools, Bools]]:
    """(is true, is false) on the n rows of a table, in their order, of the texts that share a template with others."""
    shared: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    looks: dict[str, frozenset[str]] = {}
    for i, text in enumerate(texts):
        made = template_of(text)
        if made is not None and made[1]:
            shared.setdefault(made[0], []).append((i, made[1]))
            looks[made[0]] = made[2]
    many = {template: listed for template, listed in shared.items() if len(listed) >= FEWEST}
    if not many or not n:
        return {}
    types = types_of(con, table)
    if any(name.casefold().startswith("keyhole") for name in types):
        return {}  # our own names are taken
    truths: dict[int, tuple[Bools, Bools]] = {}
    for template, listed in many.items():
        if not all(types.get(name) in _TYPES for name in looks[template]):
            continue
        try:
            truths |= dict(_evaluate_template(con, table, template, listed, n))
        except duckdb.Error:
            continue  # one of them fails: each is then asked alone
    return truths


def _evaluate_template(
    con: duckdb.DuckDBPyConnection, table: str, template: str, listed: Sequence[tuple[int, tuple[int, ...]]], n: int
) -> Iterator[tuple[int, tuple[Bools, Bools]]]:
    """One expression on every pair of a row and a tuple of constants."""
    asked = (
        f'SELECT "keyhole number" AS k, "keyhole row" AS r, ({template}) AS b FROM keyhole_constants CROSS JOIN '
        f'(SELECT *, row_number() OVER () - 1 AS "keyhole row" FROM {table}) AS "keyhole rows"'
    )
    step = max(1, CELLS // n)
    for start in range(0, len(listed), step):
        part = listed[start : start + step]
        constants = np.array([numbers for _, numbers in part], dtype=np.int32)
        columns = {f"{_CONSTANT}{c}": np.ascontiguousarray(constants[:, c]) for c in range(constants.shape[1])}
        con.register("keyhole_constants", {"keyhole number": np.arange(len(part), dtype=np.int32), **columns})
        try:
            fetched = con.execute(asked).fetchnumpy()
        finally:
            con.unregister("keyhole_constants")
        yes, no = np.zeros((2, len(part), n), dtype=np.bool_)
        at = np.asarray(fetched["k"]), np.asarray(fetched["r"])
        raw: Any = fetched["b"]
        known = np.asarray(np.ma.filled(raw, False), dtype=np.bool_)
        void = np.ma.getmaskarray(raw)
        yes[at], no[at] = known, ~(known | void)
        yield from ((i, (yes[j], no[j])) for j, (i, _) in enumerate(part))
