"""A noisy table in a book, as lines of a transcript: what was released of each cell, and the law of its noise."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any


def table_lines(kept: dict[str, Any]) -> Iterator[str]:
    """One line a cell and quantity; made from the packed numbers, so that the book holds each of them once.

    `where` has the SQL condition of every cell along each axis, `select` an SQL item and the unit of each quantity.

    >>> packed = base64.b64encode(struct.pack("<2q", 41, -1)).decode()
    >>> kept = {"shape": [2], "values": [packed], "select": [["COUNT(*)", "1"]], "from": '"t"',
    ...         "where": [["\\"sex\\" = 'F'", "\\"sex\\" = 'M'"]], "noise": [["discrete-laplace", "2"]]}
    >>> json.loads(next(table_lines(kept)))["sql"]
    'SELECT COUNT(*) FROM "t" WHERE "sex" = \\'F\\''
    """
    cells = prod(kept["shape"])
    for packed, (item, unit), (law, scale) in zip(kept["values"], kept["select"], kept["noise"], strict=True):
        if not item:
            continue
        numbers = struct.unpack(f"<{cells}q", base64.b64decode(packed))
        size = Fraction(unit)
        noise = {"kind": law, "scale": float(Fraction(scale) * size)}
        for number, where in zip(numbers, product(*kept["where"]), strict=True):
            if None in where:
                continue  # people whose value is NULL: nothing is added up of them
            value = number * size
            said = " AND ".join(f"({w})" if " OR " in w else w for w in where if w)
            sql = f"SELECT {item} FROM {kept['from']}" + (f" WHERE {said}" if said else "")
            answer: float | int = int(value) if value.denominator == 1 else float(value)
            yield json.dumps({"sql": sql, "answer": answer, "noise": noise}, ensure_ascii=False)
