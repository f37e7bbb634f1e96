"""What stands before the WHERE of a statement that ends with it: texts with one head agree wherever nobody is.

A condition chooses among no rows in one way only: over an empty table, `SELECT s FROM t WHERE c` answers what
`SELECT s FROM t` does, whatever c is. So one run over nobody does for all texts of one head (each reading is still
compared with it by itself), and their results have the same types. That a condition is all that follows is not read
from the form, which is what is to be checked, but from the words: nothing but constants, operators, brackets, names of
columns and the words of conditions.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

_WORDS = frozenset(
    ("and", "or", "not", "between", "in", "is", "null", "like", "ilike", "true", "false", "date", "timestamp")
)
# no column of such a name is taken for one: behind WHERE it may begin another clause
_CLAUSES = frozenset(
    ("select", "from", "where", "group", "having", "order", "limit", "offset", "fetch", "qualify", "window", "union",
     "intersect", "except", "using", "sample", "tablesample", "for", "values", "table", "with", "by", "filter", "over",
     "case", "when", "exists", "any", "all", "some", "collate", "escape")
)  # fmt: skip
_PARTED = re.compile(r"(\s*select\b[^'\"`$;]*?\bfrom\b[^'\"`$;]*?)\bwhere\b(.*)", re.IGNORECASE | re.DOTALL)
_STRING = re.compile(r"'(?:[^']|'')*+'")


def head(text: str, columns: Collection[str]) -> str:
    """The text before WHERE, if a condition over these columns is all that follows; else empty.

    >>> head("SELECT SUM(pay) FROM t WHERE age > 3 AND (dept = 'a' OR age < 9)", ["age", "dept"])
    'SELECT SUM(pay) FROM t '
    >>> head("SELECT SUM(pay) FROM t WHERE age > 3 LIMIT 0", ["age", "dept"])
    ''
    >>> head("SELECT SUM(pay) FROM (SELECT * FROM t WHERE age > 3)", ["age"])
    ''
    """
    parted = _PARTED.fullmatch(text)
    if parted is None or "--" in text or "/*" in text:
        return ""
    before, after = parted.groups()
    once = len(re.findall(r"\bselect\b", before, re.IGNORECASE)) == 1
    if not once or before.count("(") != before.count(")"):
        return ""
    after = _STRING.sub("''", after)
    return before if _condition(frozenset(columns)).fullmatch(after) and _balanced(after) else ""


@lru_cache(maxsize=64)
def _condition(columns: frozenset[str]) -> re.Pattern[str]:
    """The words of a condition over these columns; strings are empty by now."""
    names = [re.escape(name) for name in columns if name.casefold() not in _CLAUSES]
    words = "|".join([*_WORDS, *(name for name in names if name.isidentifier())])
    quoted = "|".join(names) or "(?!)"
    token = rf"\s+|''|\"(?:{quoted})\"|\b(?:{words})\b|\b\d+(?:\.\d+)?\b|[<>=!]+|[(),+*-]"
    return re.compile(f"(?:{token})*+", re.IGNORECASE)


def _balanced(text: str) -> bool:
    """Does no bracket close what was opened before?"""
    depth = 0
    for mark in text:
        depth += (mark == "(") - (mark == ")")
        if depth < 0:
            return False
    return depth == 0
