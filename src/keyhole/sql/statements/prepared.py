"""PREPARE and EXECUTE: the statement that ran, with its values as typed constants in the tree."""

from __future__ import annotations

from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

_T = exp.DataType.Type
_WHOLE = (_T.SMALLINT, _T.INT, _T.BIGINT)
_WORDS = (_T.TEXT, _T.VARCHAR)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement with places for values, and the types that were declared for them (none if they were not)."""

    sql: str
    types: tuple[str, ...]
    dialect: str

    def executed(self, values: str) -> str | None:
        """The statement with these values in their places; None where that cannot be said exactly.

        Each value must be a constant. One with a declared type is cast to it, unless it is of that type as it is
        written, so that a numeric 10 does not divide as a whole number would.

        >>> Prepared("SELECT SUM(x) FROM t WHERE a > $1 AND b = $2", ("int", "text"), "postgres").executed("-3, 'v'")
        "SELECT SUM(x) FROM t WHERE a > -3 AND b = 'v'"
        >>> Prepared("SELECT SUM(x) FROM t WHERE a / $1 > 2", ("numeric",), "postgres").executed("10")
        'SELECT SUM(x) FROM t WHERE a / CAST(10 AS DECIMAL) > 2'
        """
        try:
            tree = sqlglot.parse_one(self.sql, read=self.dialect)
            given = sqlglot.parse_one(f"SELECT {values}", read=self.dialect).expressions if values.strip() else []
            constants = [self._typed(value, place) for place, value in enumerate(given)]
            places = list(tree.find_all(exp.Parameter, exp.Placeholder, bfs=False))
            for used, place in enumerate(places, 1):
                number = place.name if place.name not in ("", "?") else str(used)  # $2, or the next ?
                place.replace(constants[int(number) - 1].copy())
            return tree.sql(dialect=self.dialect)
        except (SqlglotError, ValueError, IndexError, RecursionError):
            return None

    def _typed(self, value: exp.Expr, place: int) -> exp.Expr:
        inner = value.this if isinstance(value, exp.Neg | exp.Cast) else value
        if not isinstance(inner, exp.Literal | exp.Null | exp.Boolean):
            raise ValueError("no constant")
        if place >= len(self.types):
            return value
        to = exp.DataType.build(self.types[place], dialect=self.dialect)
        whole = to.this in _WHOLE and not inner.is_string and inner.name.isdigit()
        plain = isinstance(value, exp.Null) or whole or (to.this in _WORDS and inner.is_string and not to.expressions)
        return value if plain else exp.Cast(this=value, to=to)
