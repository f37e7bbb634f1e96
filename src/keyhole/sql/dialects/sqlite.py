"""SQLite in DuckDB's words: tests/sql/conformance runs every rule in both."""

from __future__ import annotations

import re
import string
from typing import ClassVar

from sqlglot import exp

from keyhole.sql.dialects.translator import TEXT_RULES, Rule, Translator
from keyhole.sql.dialects.types import (
    ISO_DAY,
    Differs,
    Sort,
    as_double,
    bare_of,
    never_zero,
    number_said,
    sort_of,
    whole_said,
    wider,
)

_T = exp.DataType.Type
_FORMAT = re.compile(r"(?:%[Ymdjw]|[-/ .])+")
_NOT_THERE = (exp.Concat, exp.Left, exp.Right)  # before version 3.44
_DIGITS = re.compile(r"(?:%[Ymdjw])+")


class SqliteTranslator(Translator):
    """Values have types, columns have not: what a table stores is known for whole numbers, texts and ISO dates only."""

    def of_kind(self, sort: Sort) -> Sort:
        """A decimal column holds doubles, and whole numbers where there is no fraction."""
        return Sort.DOUBTED if sort is Sort.EXACT else sort

    def days_alike(self, a: Sort, b: Sort) -> bool:
        """A date is a text there, and so is a timestamp: dates may be compared with dates."""
        return a is b is Sort.DAY

    def alike(self, left: exp.Expr, right: exp.Expr, ordered: bool) -> None:
        """A timestamp is a text there of which the spelling is not known here."""
        if Sort.MOMENT in (sort_of(left), sort_of(right)):
            raise Differs(
                ", where a timestamp is a text; how it was written is not known here: compare a date column instead"
            )
        super().alike(left, right, ordered)

    def said_as(self, said: exp.Expr, other: Sort) -> None:
        """A text is no number there; a date is the text YYYY-MM-DD."""
        if other is not Sort.TEXT and not (other is Sort.DAY and ISO_DAY.fullmatch(said.name)):
            raise Differs(
                f": '{said.name}' is compared with {other}, which depends there on how the column was declared: "
                "write a number without quotes, and a date as YYYY-MM-DD"
            )

    def one_of(self, parts: list[exp.Expr | None], node: exp.Expr) -> Sort:
        """Of whole numbers and fractions each row keeps its own type."""
        found = super().one_of(parts, node)
        mixed = any(sort_of(p) not in (found, Sort.NOTHING) for p in parts if p is not None)
        return Sort.DOUBTED if found.numeric and (mixed or found is Sort.EXACT) else found

    def _arithmetic(self, node: exp.Expr) -> Sort:
        found = super()._arithmetic(node)
        if found is not Sort.EXACT:
            return found
        if node.find(exp.AggFunc) is not None or isinstance(node, exp.Neg):
            return found
        if node.find_ancestor(exp.AggFunc) is None or node.find_ancestor(exp.Where, exp.If) is not None:
            for part in (node.this, node.expression):
                _doubled(part)
        node.meta["sort"] = Sort.BINARY
        return Sort.BINARY

    def _divide(self, node: exp.Div) -> Sort:
        a, b = sort_of(node.this), sort_of(node.expression)
        if not (a.numeric and b.numeric) or node.find(exp.AggFunc) is not None:
            raise Differs(": there a quotient of whole numbers is cut to a whole number: ask the two numbers apart")
        if not never_zero(node.expression):
            raise Differs(": a division by 0 is NULL there and not in DuckDB: write NULLIF(divisor, 0)")
        if a is b is Sort.WHOLE:
            left, right = node.this.copy(), node.expression.copy()
            return self.put(node, exp.IntDiv(this=left, expression=right), Sort.WHOLE)
        if wider([a, b]) is Sort.DOUBTED:
            raise Differs(": / of fractions divides there without remainder where both are whole: cast one to REAL")
        for part in (node.this, node.expression):
            _doubled(part)
        return self.put(node, exp.Div(this=node.this.copy(), expression=node.expression.copy()), Sort.BINARY)

    def _modulo(self, node: exp.Mod) -> Sort:
        if not sort_of(node.this) is sort_of(node.expression) is Sort.WHOLE:
            raise Differs(": % is judged for whole numbers only")
        if not never_zero(node.expression):
            raise Differs(": a remainder by 0 is NULL there and an error in DuckDB: write NULLIF(divisor, 0)")
        return self.put(node, exp.Mod(this=node.this.copy(), expression=node.expression.copy()), Sort.WHOLE)

    def _cast(self, node: exp.Cast) -> Sort:
        to, of = node.to, sort_of(node.this)
        inner = bare_of(node.this)
        if to.this in (_T.INT, _T.BIGINT) and not to.expressions:
            if of is Sort.WHOLE:
                return self.put(node, exp.Paren(this=node.this.copy()), Sort.WHOLE)
            if isinstance(inner, exp.TimeToStr) and _DIGITS.fullmatch(inner.args["format"].name):
                return Sort.WHOLE
        elif to.this is _T.DOUBLE and of.numeric:
            return Sort.BINARY
        elif to.this is _T.TEXT and of in (Sort.WHOLE, Sort.TEXT, Sort.SAID):
            return Sort.TEXT
        raise Differs(
            f": a cast of {of} to {to.sql(dialect='sqlite')} is not known to give the same in DuckDB: leave it out"
        )

    def _round(self, node: exp.Round) -> Sort:
        self.must(node.this, Sort.WHOLE)
        places = node.args.get("decimals")
        if places is not None and whole_said(places) is None:
            raise Differs(": ROUND to a number of places that is no constant is not judged")
        return self.put(node, as_double(node.this), Sort.BINARY)

    def _abs(self, node: exp.Abs) -> Sort:
        return self.must(node.this, Sort.WHOLE, Sort.BINARY)

    def _sum(self, node: exp.Sum) -> Sort:
        """A truth is 1 or 0 there."""
        if sort_of(node.this) is Sort.TRUTH and isinstance(bare_of(node.this), exp.Column):
            number = exp.Cast(this=node.this.copy(), to=exp.DataType(this=_T.INT))
            return self.put(node, exp.Sum(this=number), Sort.EXACT)
        return super()._sum(node)

    def _day(self, node: exp.Expr) -> Sort:
        if sort_of(node.this) is not Sort.DAY or len(list(node.iter_expressions())) > 1:
            raise Differs(": DATE is judged of a date column only: write the date as 'YYYY-MM-DD'")
        return self.put(node, exp.Paren(this=node.this.copy()), Sort.DAY)

    def _format(self, node: exp.TimeToStr) -> Sort:
        inner = bare_of(node.this)
        inner = inner.this if isinstance(inner, exp.TsOrDsToTimestamp) else inner
        pattern = node.args["format"]
        if sort_of(inner) is not Sort.DAY:
            raise Differs(": STRFTIME is judged of a date column only; how a timestamp was written is not known here")
        if not isinstance(pattern, exp.Literal) or _FORMAT.fullmatch(pattern.name) is None:
            raise Differs(": STRFTIME is judged for %Y %m %d %j %w between - / . and blanks")
        return self.put(node, exp.TimeToStr(this=inner.copy(), format=pattern.copy()), Sort.TEXT)

    def _letters(self, node: exp.Expr) -> Sort:
        self.must(node.this, Sort.TEXT)
        return self.put(node, _cased(node.this, upper=isinstance(node, exp.Upper)), Sort.TEXT)

    def _like(self, node: exp.Like) -> Sort:
        """A to Z are the same as a to z in LIKE there, and no other letters."""
        super()._like(node)
        pattern = node.expression.name.translate(_LOWER)
        node.set("this", _cased(node.this, upper=False))
        node.set("expression", exp.Literal.string(pattern))
        return Sort.TRUTH

    def _extremum(self, node: exp.Expr) -> Sort:
        """MAX(a, b) is NULL there where one of them is."""
        found = self._chosen(node)
        parts = [node.this, *node.expressions]
        if not found.numeric or len(parts) != 2 or any(number_said(p) is None for p in parts[1:]):
            raise Differs(": MAX and MIN of several values are judged for a number and a constant number only")
        first = parts[0].copy()
        chosen = type(node)(this=first, expressions=[p.copy() for p in parts[1:]], ignore_nulls=True)
        known = exp.Not(this=exp.Is(this=first.copy(), expression=exp.Null()))
        return self.put(node, exp.Paren(this=exp.Case(ifs=[exp.If(this=known, true=chosen)])), found)

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
        exp.TsOrDsToTimestamp: lambda _translator, _node: Sort.UNKNOWN,
        exp.TimeToStr: _format,
        exp.Like: _like,
    }


_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def _cased(text: exp.Expr, *, upper: bool) -> exp.Expr:
    """A text with A to Z, and no other letter, in one case."""
    letters = (string.ascii_lowercase, string.ascii_uppercase)
    of, to = letters if upper else letters[::-1]
    return exp.Translate(this=text.copy(), from_=exp.Literal.string(of), to=exp.Literal.string(to))


def _doubled(node: exp.Expr) -> None:
    """A constant with a decimal point is a double there."""
    inner = bare_of(node)
    if sort_of(node) is Sort.EXACT and number_said(inner) is not None:
        new = as_double(inner)
        new.meta["sort"] = Sort.BINARY
        node.replace(new)
