"""A statement that is to be checked, with what is looked up in it again and again."""

from __future__ import annotations

import re
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from keyhole.datasets import AsWritten
from keyhole.model.predicate import And, Comparison, Has, Leaf, Membership, Opaque, Predicate, Scalar, find_leaves
from keyhole.model.query import Statement
from keyhole.model.schema import Schema

FEW = 16


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """`public` and `private`: its single conditions, each once; `masks`: where its public conditions are true."""

    statement: Statement
    public: tuple[Leaf, ...]
    private: tuple[Leaf, ...]
    asked: AsWritten
    masks: list[tuple[Predicate, NDArray[np.bool_] | None]] = field(default_factory=list)

    @classmethod
    def of(cls, statement: Statement, schema: Schema) -> Trial:
        """Read the conditions once."""
        secret = schema.private_names
        found = dict.fromkeys(chain.from_iterable(map(_list_leaves, list_conditions(statement))))
        private = tuple(leaf for leaf in found if looks_at_columns(leaf, secret))
        public = tuple(leaf for leaf in found if leaf not in private) if private else tuple(found)
        start = (
            ""
            if may_be_partly_empty(statement)
            else find_head(statement.text, frozenset(c.name for c in schema.columns))
        )
        dialect, text = statement.original
        asked = AsWritten(statement.text, statement.table, len(statement.shown), start, text, dialect)
        return cls(statement, public, private, asked)

    def private_constants(self) -> dict[str, list[Scalar]]:
        """What private columns are compared with, and where a rounded aggregate of them turns."""
        constants: dict[str, list[Scalar]] = {}
        for query in (*self.statement.queries, *self.statement.tested):
            if query.test is not None and query.test.unit is not None:
                for name in query.columns:
                    constants.setdefault(name, []).append(query.test.value)
        for leaf in self.private:
            if not isinstance(leaf, Opaque | Has):
                constants.setdefault(leaf.column, []).extend(list_constants(leaf))
        return constants


def _list_leaves(predicate: Predicate) -> tuple[Leaf, ...]:
    """Every leaf; most conditions are conjunctions of comparisons, which need no walk."""
    if type(predicate) is And and all(type(part) is Comparison for part in predicate.parts):
        return predicate.parts  # type: ignore[return-value]
    return find_leaves(predicate)


def looks_at_columns(leaf: Leaf, names: AbstractSet[str]) -> bool:
    """Does a single condition look at one of these columns?"""
    if isinstance(leaf, Has):
        return True
    return bool(names & leaf.columns) if isinstance(leaf, Opaque) else leaf.column in names


def list_conditions(statement: Statement) -> list[Predicate]:
    """Every condition of a statement; once, if they are few."""
    conditions: list[Predicate] = [statement.where]
    for query in (*statement.queries, *statement.tested):
        for condition in (*(term.where for term in (*query.terms, *query.per)), *query.needs):
            if len(conditions) > FEW or condition not in conditions:
                conditions.append(condition)
    for key in statement.keys:
        conditions += [condition for _, condition in key.cases]
        if key.steps is not None:
            conditions += [key.steps.of(q) for q in (0, 3)]
    return conditions


def list_constants(leaf: Leaf) -> tuple[Scalar, ...]:
    """What a single condition compares with."""
    if isinstance(leaf, Comparison):
        return (leaf.value,)
    return leaf.values if isinstance(leaf, Membership) else ()


def may_be_partly_empty(statement: Statement) -> bool:
    """Can some of its numbers be over nobody while others are not?"""
    return bool(statement.keys or statement.having) or any(len(q.needs) > 1 for q in statement.queries)


# --- heads of statements ----------------------------------------------------------------------------------------------
# What stands before the WHERE of a statement that ends with it: texts with one head agree wherever nobody is.
#
# A condition chooses among no rows in one way only: over an empty table, `SELECT s FROM t WHERE c` answers what `SELECT
# s FROM t` does, whatever c is. So one run over nobody does for all texts of one head (each reading is still compared
# with it by itself), and their results have the same types. That a condition is all that follows is not read from the
# form, which is what is to be checked, but from the words: nothing but constants, operators, brackets, names of columns
# and the words of conditions.


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


def find_head(text: str, columns: Collection[str]) -> str:
    """The text before WHERE, if a condition over these columns is all that follows; else empty.

    >>> find_head("SELECT SUM(pay) FROM t WHERE age > 3 AND (dept = 'a' OR age < 9)", ["age", "dept"])
    'SELECT SUM(pay) FROM t '
    >>> find_head("SELECT SUM(pay) FROM t WHERE age > 3 LIMIT 0", ["age", "dept"])
    ''
    >>> find_head("SELECT SUM(pay) FROM (SELECT * FROM t WHERE age > 3)", ["age"])
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
    return before if _condition_pattern(frozenset(columns)).fullmatch(after) and _is_balanced(after) else ""


@lru_cache(maxsize=64)
def _condition_pattern(columns: frozenset[str]) -> re.Pattern[str]:
    """The words of a condition over these columns; strings are empty by now."""
    names = [re.escape(name) for name in columns if name.casefold() not in _CLAUSES]
    words = "|".join([*_WORDS, *(name for name in names if name.isidentifier())])
    quoted = "|".join(names) or "(?!)"
    token = rf"\s+|''|\"(?:{quoted})\"|\b(?:{words})\b|\b\d+(?:\.\d+)?\b|[<>=!]+|[(),+*-]"
    return re.compile(f"(?:{token})*+", re.IGNORECASE)


def _is_balanced(text: str) -> bool:
    """Does no bracket close what was opened before?"""
    depth = 0
    for mark in text:
        depth += (mark == "(") - (mark == ")")
        if depth < 0:
            return False
    return depth == 0
