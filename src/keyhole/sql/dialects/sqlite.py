"""SQLite in DuckDB's words: tests/sql/test_dialect_conformance.py runs every rule in both."""

from __future__ import annotations

import re
import string
from typing import ClassVar

from sqlglot import exp

from keyhole.model.schema import fold_name
from keyhole.sql.dialects.translator import TEXT_RULES, Rule, Translator
from keyhole.sql.dialects.types import (
    ISO_DAY,
    NotPortable,
    SqlType,
    cast_to_double,
    is_never_zero,
    read_integer,
    read_number,
    type_of,
    widest_type,
)
from keyhole.sql.statements.tree import strip_parentheses

_T = exp.DataType.Type
ROW_NUMBERS = frozenset({"rowid", "oid", "_rowid_"})
_FORMAT = re.compile(r"(?:%[Ymdjw]|[-/ .])+")
_NOT_THERE = (exp.Concat, exp.Left, exp.Right)  # before version 3.44
_DIGITS = re.compile(r"(?:%[Ymdjw])+")


class SqliteTranslator(Translator):
    """Values have types, columns have not: what a table stores is known for whole numbers, texts and ISO dates only."""

    def read_texts(self, sql: str, tree: exp.Expr) -> exp.Expr:
        """A word in double quotes that names nothing is a text there, where it is compared with a column of texts.

        Read so in a SELECT from one table alone, in which nothing is renamed and nothing else quotes names.
        """
        words = [i for i in tree.find_all(exp.Identifier) if i.args.get("quoted")]
        others = (exp.Join, exp.Subquery, exp.CTE, exp.Alias, exp.TableAlias, exp.Window)
        renamed = any(True for _ in tree.find_all(*others)) or len(list(tree.find_all(exp.Select, exp.Table))) != 2
        if not words or renamed or "`" in sql or "[" in sql:
            return tree
        tree = tree.copy()
        for column in list(tree.find_all(exp.Column)):
            name = column.this
            if not isinstance(name, exp.Identifier) or not name.args.get("quoted") or len(column.parts) > 1:
                continue
            word = fold_name(name.name)
            if word not in self.columns and word not in ROW_NUMBERS and self._is_compared_with_text(column):
                column.replace(exp.Literal.string(name.name))
        return tree

    def _is_compared_with_text(self, column: exp.Column) -> bool:
        parent = column.parent
        if isinstance(parent, exp.EQ | exp.NEQ):
            other = parent.expression if column is parent.this else parent.this
        elif isinstance(parent, exp.In) and column.arg_key == "expressions":
            other = parent.this
        else:
            return False
        known = isinstance(other, exp.Column) and len(other.parts) == 1
        return known and self.columns.get(fold_name(other.name)) is SqlType.TEXT

    def column_type(self, sql_type: SqlType) -> SqlType:
        """A decimal column holds doubles, and whole numbers where there is no fraction."""
        return SqlType.FRACTION if sql_type is SqlType.DECIMAL else sql_type

    def compares_days(self, a: SqlType, b: SqlType) -> bool:
        """A date is a text there, and so is a timestamp: dates may be compared with dates."""
        return a is b is SqlType.DATE

    def check_comparable(self, left: exp.Expr, right: exp.Expr, ordered: bool) -> None:
        """A timestamp is a text there of which the spelling is not known here."""
        if SqlType.TIMESTAMP in (type_of(left), type_of(right)):
            raise NotPortable(
                ", where a timestamp is a text; how it was written is not known here: compare a date column instead"
            )
        super().check_comparable(left, right, ordered)

    def check_text_constant(self, said: exp.Expr, other: SqlType) -> None:
        """A text is no number there; a date is the text YYYY-MM-DD."""
        if other is not SqlType.TEXT and not (other is SqlType.DATE and ISO_DAY.fullmatch(said.name)):
            raise NotPortable(
                f": '{said.name}' is compared with {other}, which depends there on how the column was declared: "
                "write a number without quotes, and a date as YYYY-MM-DD"
            )

    def common_type(self, parts: list[exp.Expr | None], node: exp.Expr) -> SqlType:
        """Of whole numbers and fractions each row keeps its own type."""
        found = super().common_type(parts, node)
        mixed = any(type_of(p) not in (found, SqlType.NULL) for p in parts if p is not None)
        return SqlType.FRACTION if found.numeric and (mixed or found is SqlType.DECIMAL) else found

    def _arithmetic(self, node: exp.Expr) -> SqlType:
        found = super()._arithmetic(node)
        if found is not SqlType.DECIMAL:
            return found
        if node.find(exp.AggFunc) is not None or isinstance(node, exp.Neg):
            return found
        if node.find_ancestor(exp.AggFunc) is None or node.find_ancestor(exp.Where, exp.If) is not None:
            for part in (node.this, node.expression):
                _make_double(part)
        node.meta["sql_type"] = SqlType.DOUBLE
        return SqlType.DOUBLE

    def _divide(self, node: exp.Div) -> SqlType:
        a, b = type_of(node.this), type_of(node.expression)
        if not (a.numeric and b.numeric) or node.find(exp.AggFunc) is not None:
            raise NotPortable(": there a quotient of whole numbers is cut to a whole number: ask the two numbers apart")
        if not is_never_zero(node.expression):
            raise NotPortable(": a division by 0 is NULL there and not in DuckDB: write NULLIF(divisor, 0)")
        if a is b is SqlType.INTEGER:
            left, right = node.this.copy(), node.expression.copy()
            return self.replace_node(node, exp.IntDiv(this=left, expression=right), SqlType.INTEGER)
        if widest_type([a, b]) is SqlType.FRACTION:
            raise NotPortable(": / of fractions divides there without remainder where both are whole: cast one to REAL")
        for part in (node.this, node.expression):
            _make_double(part)
        return self.replace_node(
            node, exp.Div(this=node.this.copy(), expression=node.expression.copy()), SqlType.DOUBLE
        )

    def _modulo(self, node: exp.Mod) -> SqlType:
        return self.take_remainder(
            node, ": a remainder by 0 is NULL there and an error in DuckDB: write NULLIF(divisor, 0)"
        )

    def _cast(self, node: exp.Cast) -> SqlType:
        to, of = node.to, type_of(node.this)
        inner = strip_parentheses(node.this)
        if to.this in (_T.INT, _T.BIGINT) and not to.expressions:
            if of is SqlType.INTEGER:
                return self.replace_node(node, exp.Paren(this=node.this.copy()), SqlType.INTEGER)
            if isinstance(inner, exp.TimeToStr) and _DIGITS.fullmatch(inner.args["format"].name):
                return SqlType.INTEGER
        elif to.this is _T.DOUBLE and of.numeric:
            return SqlType.DOUBLE
        elif to.this is _T.TEXT and of in (SqlType.INTEGER, SqlType.TEXT, SqlType.TEXT_CONSTANT):
            return SqlType.TEXT
        raise NotPortable(
            f": a cast of {of} to {to.sql(dialect='sqlite')} is not known to give the same in DuckDB: leave it out"
        )

    def _round(self, node: exp.Round) -> SqlType:
        self.require_type(node.this, SqlType.INTEGER)
        places = node.args.get("decimals")
        if places is not None and read_integer(places) is None:
            raise NotPortable(": ROUND to a number of places that is no constant is not judged")
        return self.replace_node(node, cast_to_double(node.this), SqlType.DOUBLE)

    def _abs(self, node: exp.Abs) -> SqlType:
        return self.require_type(node.this, SqlType.INTEGER, SqlType.DOUBLE)

    def _sum(self, node: exp.Sum) -> SqlType:
        """A truth is 1 or 0 there."""
        if type_of(node.this) is SqlType.CONDITION and isinstance(strip_parentheses(node.this), exp.Column):
            number = exp.Cast(this=node.this.copy(), to=exp.DataType(this=_T.INT))
            return self.replace_node(node, exp.Sum(this=number), SqlType.DECIMAL)
        return super()._sum(node)

    def _day(self, node: exp.Expr) -> SqlType:
        if type_of(node.this) is not SqlType.DATE or len(list(node.iter_expressions())) > 1:
            raise NotPortable(": DATE is judged of a date column only: write the date as 'YYYY-MM-DD'")
        return self.replace_node(node, exp.Paren(this=node.this.copy()), SqlType.DATE)

    def _format(self, node: exp.TimeToStr) -> SqlType:
        inner = strip_parentheses(node.this)
        inner = inner.this if isinstance(inner, exp.TsOrDsToTimestamp) else inner
        pattern = node.args["format"]
        if type_of(inner) is not SqlType.DATE:
            raise NotPortable(
                ": STRFTIME is judged of a date column only; how a timestamp was written is not known here"
            )
        if not isinstance(pattern, exp.Literal) or _FORMAT.fullmatch(pattern.name) is None:
            raise NotPortable(": STRFTIME is judged for %Y %m %d %j %w between - / . and blanks")
        return self.replace_node(node, exp.TimeToStr(this=inner.copy(), format=pattern.copy()), SqlType.TEXT)

    def _letters(self, node: exp.Expr) -> SqlType:
        self.require_type(node.this, SqlType.TEXT)
        return self.replace_node(node, _change_case(node.this, upper=isinstance(node, exp.Upper)), SqlType.TEXT)

    def _like(self, node: exp.Like) -> SqlType:
        """A to Z are the same as a to z in LIKE there, and no other letters."""
        super()._like(node)
        pattern = node.expression.name.translate(_LOWER)
        node.set("this", _change_case(node.this, upper=False))
        node.set("expression", exp.Literal.string(pattern))
        return SqlType.CONDITION

    def _extremum(self, node: exp.Expr) -> SqlType:
        """MAX(a, b) is NULL there where one of them is."""
        result = self._chosen(node)
        parts = [node.this, *node.expressions]
        if not result.numeric or len(parts) != 2 or any(read_number(p) is None for p in parts[1:]):
            raise NotPortable(": MAX and MIN of several values are judged for a number and a constant number only")
        first = parts[0].copy()
        chosen = type(node)(this=first, expressions=[p.copy() for p in parts[1:]], ignore_nulls=True)
        known = exp.Not(this=exp.Is(this=first.copy(), expression=exp.Null()))
        return self.replace_node(node, exp.Paren(this=exp.Case(ifs=[exp.If(this=known, true=chosen)])), result)

    rules: ClassVar[dict[type[exp.Expr], Rule]] = {
        **{node: rule for node, rule in TEXT_RULES.items() if node not in _NOT_THERE},
        **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Neg), _arithmetic),
        **dict.fromkeys((exp.Upper, exp.Lower), _letters),
        **dict.fromkeys((exp.Greatest, exp.Least), _extremum),
        exp.Div: _divide,
        exp.Mod: _modulo,
        exp.Cast: _cast,
        exp.Round: _round,
        exp.Sum: _sum,
        exp.Abs: _abs,
        exp.Date: _day,
        exp.TsOrDsToTimestamp: lambda _translator, _node: SqlType.UNKNOWN,
        exp.TimeToStr: _format,
        exp.Like: _like,
    }


_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def _change_case(text: exp.Expr, *, upper: bool) -> exp.Expr:
    """A text with A to Z, and no other letter, in one case."""
    letters = (string.ascii_lowercase, string.ascii_uppercase)
    of, to = letters if upper else letters[::-1]
    return exp.Translate(this=text.copy(), from_=exp.Literal.string(of), to=exp.Literal.string(to))


def _make_double(node: exp.Expr) -> None:
    """A constant with a decimal point is a double there."""
    inner = strip_parentheses(node)
    if type_of(node) is SqlType.DECIMAL and read_number(inner) is not None:
        new = cast_to_double(inner)
        new.meta["sql_type"] = SqlType.DOUBLE
        node.replace(new)
