"""Columns whose values were declared by a list, and that are no text, or may be none.

`values = ["1", "2", "10"]` declares texts. Where the data holds whole numbers, the analyst's `score < '9'` compares
numbers, and as texts it would mean something else. A text file does not say what the database holds: there a list of
nothing but numbers, truth values or days is taken to be of such a column.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from contextlib import suppress

from keyhole.model.schema import ListedValues

TEXT = "VARCHAR"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_TRUTHS = frozenset(("true", "false", "t", "f", "yes", "no", "y", "n", "on", "off"))
# types that a made-up table may have; of others (an ENUM spells out its values) it has text
_SIMPLE = re.compile(
    r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UINTEGER|BOOLEAN|DATE|TIMESTAMP|DOUBLE|FLOAT|DECIMAL\(.*\)|UUID"
)


def listed_values(values: Sequence[str] | None, type_: str | None) -> ListedValues | None:
    """What was listed for a column of a type (None: of a text file); None if it is text for sure, or nothing was.

    >>> listed_values(("1", "2"), None), listed_values(("flu", "1"), None), listed_values(("1", "2"), "VARCHAR")
    (ListedValues(values=('1', '2'), type=''), None, None)
    """
    if values is None or type_ == TEXT:
        return None
    if type_ is None:
        return ListedValues(tuple(values)) if all(map(_may_be_no_text, values)) else None
    return ListedValues(tuple(values), type_ if _SIMPLE.fullmatch(type_) else "")


def _may_be_no_text(value: str) -> bool:
    """Is it written as a number, a truth value, or a day?"""
    if _NUMBER.fullmatch(value.strip()) or value.strip().lower() in _TRUTHS:
        return True
    with suppress(ValueError):
        return bool(dt.datetime.fromisoformat(value.strip()))
    return False
