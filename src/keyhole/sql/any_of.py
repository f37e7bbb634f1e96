"""`state = ANY (ARRAY['TX', 'LA'])` and `= ANY ('{TX,LA}')`, as drivers of PostgreSQL write lists: IN."""

from __future__ import annotations

import re

from sqlglot import exp

_WORDS = re.compile(r"\{(?P<words>[A-Za-z0-9_.-]+(?:,[A-Za-z0-9_.-]+)*)\}")  # nothing that quotes or blanks are part of


def with_lists(tree: exp.Expr) -> exp.Expr:
    """The tree with IN for = ANY of constants; it is changed.

    >>> import sqlglot
    >>> with_lists(sqlglot.parse_one("SELECT a = ANY (ARRAY[1, 2]), b = ANY ('{x,y}'::text[])", read="postgres")).sql()
    "SELECT a IN (1, 2), b IN ('x', 'y')"
    """
    for test in list(tree.find_all(exp.EQ)):
        listed = _listed(test.expression.this) if isinstance(test.expression, exp.Any) else None
        if listed:
            test.replace(exp.In(this=test.this.copy(), expressions=listed))
    return tree


def _listed(node: exp.Expr) -> list[exp.Expr] | None:
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Cast) and node.to.this is exp.DType.ARRAY):
        node = node.this
    if isinstance(node, exp.Array):
        return [part.copy() for part in node.expressions] if all(map(_constant, node.expressions)) else None
    found = _WORDS.fullmatch(node.name) if isinstance(node, exp.Literal) and node.is_string else None
    words = [] if found is None else found["words"].split(",")
    return None if any(word.casefold() == "null" for word in words) else [exp.Literal.string(word) for word in words]


def _constant(node: exp.Expr) -> bool:
    return isinstance(node.this if isinstance(node, exp.Neg) else node, exp.Literal)


__all__ = ["with_lists"]
