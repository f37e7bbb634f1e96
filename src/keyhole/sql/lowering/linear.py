"""What stands inside SUM: a value per record, split into factor x public weight x private column.

A value is a list of `LinearTerm`s: under its condition, the record's value is a polynomial of degree at most two in one
private column, with public weights. Conditions are disjoint; where none holds the value is NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp
from sqlglot.expressions import DataType

from keyhole.errors import UnsupportedQuery
from keyhole.model.predicate import FALSE, TRUE, Comparison, IsNull, Predicate, make_and, make_is_true, make_not
from keyhole.model.schema import Column, Kind
from keyhole.sql.lowering.condition import ConditionReader
from keyhole.sql.lowering.constants import NotConstant, Value
from keyhole.sql.lowering.functions import CONDITIONS, REFUSED
from keyhole.sql.lowering.names import DerivedColumn, Scope
from keyhole.sql.lowering.public_expressions import PublicExpression, invert, multiply
from keyhole.sql.statements.tree import strip_parentheses

MAX_PIECES = 64
MAX_PUBLIC_BRANCHES = 4  # a longer CASE over public columns alone becomes one weight

_T = DataType.Type
_WIDER = {
    Kind.INTEGER: (_T.BIGINT, _T.INT128, _T.DOUBLE),
    Kind.DECIMAL: (_T.DOUBLE,),
    Kind.DOUBLE: (_T.DOUBLE,),
}


@dataclass(frozen=True, slots=True)
class Power:
    """weight * column ** degree; degree 0 (column None) is the weight alone."""

    column: str | None = None
    degree: int = 0
    weight: PublicExpression | None = None


ONE = Power()


@dataclass(frozen=True, slots=True)
class LinearTerm:
    """Under `guard` the value is the sum of factor * power."""

    guard: Predicate
    powers: tuple[tuple[Power, Fraction], ...]


class LinearReader(ConditionReader):
    """Reads the values that aggregates are taken of."""

    def in_scope(self, scope: Scope) -> LinearReader:
        """The same reader for a subquery's scope."""
        return type(self)(scope)

    def read_linear(self, node: exp.Expr) -> list[LinearTerm]:
        """The pieces of a value; refuses what is not linear in the private columns, with the caret under it."""
        node = strip_parentheses(node)
        if isinstance(node, exp.Column):
            return self._of_column(node)
        value = self.fold_constant(node)
        if not isinstance(value, NotConstant):
            return self._read_number(value, node)
        if isinstance(node, exp.Sub) and not self.touches_private(node) and self._dated(node.this):
            return self._weight(self.read_public(node), node)
        if (method := _ARITHMETIC.get(type(node))) is not None:
            return method(self, node)
        if isinstance(node, CONDITIONS):
            return _split_condition(self.read_condition(node))
        if not self.touches_private(node):
            return self._weight(self.read_public(node), node)
        if isinstance(node, exp.Pow):
            return self._power(node)
        if isinstance(node, exp.Cast):
            return self._widened(node)
        raise self._refuse_nonlinear(node)

    def _read_number(self, value: Value, node: exp.Expr) -> list[LinearTerm]:
        if value is None:
            return []
        if isinstance(value, Fraction):
            return [LinearTerm(TRUE, ((ONE, value),) if value else ())]
        raise self.refuse("a number is needed here", node)

    def _refuse_nonlinear(self, node: exp.Expr) -> UnsupportedQuery:
        if isinstance(node, exp.AggFunc):
            return self.refuse("an aggregate inside an aggregate is not judged", node)
        if isinstance(node, tuple(REFUSED)):
            return self.refuse_unknown(node)
        return self.refuse(
            f"only sums and products of a {self.word} column can be judged: this is another function", node
        )

    def _dated(self, node: exp.Expr) -> bool:
        """Is it a date? The difference of two is a number of days."""
        return any(c.kind in (Kind.DATE, Kind.TIMESTAMP) for c in self.list_columns(node)) and self.read_public(
            node
        ).kind in (
            Kind.DATE,
            Kind.TIMESTAMP,
        )

    def _of_column(self, node: exp.Column) -> list[LinearTerm]:
        column = self.scope.resolve(node)
        if isinstance(column, DerivedColumn):
            return self.in_scope(column.scope).read_linear(column.node)
        if column.kind is Kind.BOOLEAN:
            return _split_condition(Comparison(column.name, "=", True))
        if not column.kind.numeric:
            raise self.refuse(f"{column.name} holds {_describe_kind(column)}: only numbers can be summed", node)
        if column.secret:
            return [LinearTerm(_is_present(column), ((Power(column.name, 1), Fraction(1)),))]
        return self._weight(self._column(column, node), node)

    def _weight(self, made: PublicExpression, node: exp.Expr) -> list[LinearTerm]:
        if made.kind is Kind.BOOLEAN:
            return _split_condition(self.read_condition(node))
        if not made.kind.numeric:
            raise self.refuse(f"this is {made.kind.value}: only numbers can be summed", node)
        return [LinearTerm(made.when_present(), ((Power(weight=made), Fraction(1)),))]

    def _sum(self, node: exp.Add | exp.Sub) -> list[LinearTerm]:
        left, right = self.read_linear(node.this), self.read_linear(node.expression)
        sign = -1 if isinstance(node, exp.Sub) else 1
        return self._crossed(
            [
                LinearTerm(make_and(a.guard, b.guard), _collect_powers((*a.powers, *_scale(b, Fraction(sign)).powers)))
                for a in left
                for b in right
            ],
            node,
        )

    def _negative(self, node: exp.Neg) -> list[LinearTerm]:
        return [_scale(p, Fraction(-1)) for p in self.read_linear(node.this)]

    def _multiplied(self, node: exp.Mul) -> list[LinearTerm]:
        return self._product(self.read_linear(node.this), self.read_linear(node.expression), node)

    def _power(self, node: exp.Pow) -> list[LinearTerm]:
        power = self.fold_constant(node.expression)
        if power not in (1, 2):
            raise self.refuse(f"a {self.word} column may be squared, not raised further", node)
        base = self.read_linear(node.this)
        return base if power == 1 else self._product(base, base, node)

    def _product(self, left: list[LinearTerm], right: list[LinearTerm], node: exp.Expr) -> list[LinearTerm]:
        return self._crossed(
            [
                LinearTerm(
                    make_and(a.guard, b.guard),
                    _collect_powers(tuple((self._times(p, q, node), f * g) for p, f in a.powers for q, g in b.powers)),
                )
                for a in left
                for b in right
            ],
            node,
        )

    def _times(self, p: Power, q: Power, node: exp.Expr) -> Power:
        if p.column is not None and q.column is not None and p.column != q.column:
            raise self.refuse(f"a product of two {self.word} columns ({p.column} and {q.column}) is not judged", node)
        if p.degree + q.degree > 2:
            raise self.refuse(f"a {self.word} column may be squared, not raised further", node)
        weight = p.weight or q.weight
        if p.weight is not None and q.weight is not None:
            weight = multiply(p.weight, q.weight)
        return Power(p.column or q.column, p.degree + q.degree, weight)

    def _crossed(self, pieces: list[LinearTerm], node: exp.Expr) -> list[LinearTerm]:
        kept = [p for p in pieces if p.guard != FALSE]
        if len(kept) > MAX_PIECES:
            raise self.refuse(f"more than {MAX_PIECES} cases: ask for them separately", node)
        return kept

    def _quotient(self, node: exp.Div) -> list[LinearTerm]:
        divisor = self.fold_constant(node.expression)
        if isinstance(divisor, Fraction):
            if divisor == 0:
                raise self.refuse("division by zero", node.expression)
            return [_scale(p, 1 / divisor) for p in self.read_linear(node.this)]
        if self.touches_private(node.expression):
            raise self.refuse(f"division by a {self.word} column is not judged", node.expression)
        below = strip_parentheses(node.expression)
        if not (isinstance(below, exp.Nullif) and self.fold_constant(below.expression) == 0):
            raise self.refuse("a divisor may be 0 for some record: write NULLIF(..., 0) around it", node.expression)
        if not self.touches_private(node.this):
            return self._weight(self.read_public(node), node)
        over = self.read_public(node.expression)
        if not over.kind.numeric:
            raise self.refuse(f"this is {over.kind.value}: only numbers divide", node.expression)
        return self._product(self.read_linear(node.this), self._weight(invert(over), node.expression), node)

    def _cases(self, node: exp.Expr) -> list[LinearTerm]:
        branches = self.read_branches(node)
        if len(branches) > MAX_PUBLIC_BRANCHES and not self.touches_private(node):
            return self._weight(self.read_public(node), node)
        pieces: list[LinearTerm] = []
        earlier: list[Predicate] = []
        for condition, result in branches:
            here = make_and(*earlier) if condition is None else make_and(*earlier, condition)
            pieces += [LinearTerm(make_and(here, p.guard), p.powers) for p in self.read_linear(result)]
            if condition is not None:
                earlier.append(make_not(make_is_true(condition)))
        return self._crossed(pieces, node)

    def _coalesce(self, node: exp.Coalesce) -> list[LinearTerm]:
        self.allow_only(node, "this", "expressions")
        if not self.touches_private(node):
            return self._weight(self.read_public(node), node)
        pieces: list[LinearTerm] = []
        earlier: list[Predicate] = []
        for operand in (node.this, *node.expressions):
            mine = self.read_linear(operand)
            pieces += [LinearTerm(make_and(*earlier, p.guard), p.powers) for p in mine]
            earlier += [make_not(make_is_true(p.guard)) for p in mine]
        return self._crossed(pieces, node)

    def _widened(self, node: exp.Cast) -> list[LinearTerm]:
        self.allow_only(node, "this", "to", "safe")
        inner, target = strip_parentheses(node.this), node.to.this
        if isinstance(inner, CONDITIONS) and target in (_T.INT, _T.BIGINT, _T.DOUBLE):
            return _split_condition(self.read_condition(inner))
        kinds = {c.kind for c in self.list_columns(inner)}
        if kinds == {Kind.BOOLEAN} and target in (_T.INT, _T.BIGINT) and isinstance(inner, exp.Column):
            return self.read_linear(inner)
        if kinds and all(target in _WIDER.get(k, ()) for k in kinds) and not node.to.expressions:
            return self.read_linear(inner)
        raise self.refuse(f"a cast of a {self.word} column may round it or fail on it: leave the cast out", node)

    def list_columns(self, node: exp.Expr) -> list[Column]:
        """The columns of the table that an expression looks at."""
        columns: list[Column] = []
        for name in node.find_all(exp.Column):
            column = self.scope.resolve(name)
            columns += (
                self.in_scope(column.scope).list_columns(column.node) if isinstance(column, DerivedColumn) else [column]
            )
        return columns

    def when_present(self, node: exp.Expr) -> list[Predicate]:
        """Disjoint conditions under which the value is not NULL: what COUNT(value) counts."""
        node = strip_parentheses(node)
        value = self.fold_constant(node)
        if not isinstance(value, NotConstant):
            return [] if value is None else [TRUE]
        if isinstance(node, exp.Column):
            found = self.scope.resolve(node)
            if isinstance(found, DerivedColumn):
                return self.in_scope(found.scope).when_present(found.node)
            return [_is_present(found)]
        if isinstance(node, exp.Case | exp.If):
            parts: list[Predicate] = []
            earlier: list[Predicate] = []
            for condition, result in self.read_branches(node):
                here = make_and(*earlier) if condition is None else make_and(*earlier, condition)
                parts += [make_and(here, p) for p in self.when_present(result)]
                if condition is not None:
                    earlier.append(make_not(make_is_true(condition)))
            return [p for p in parts if p != FALSE]
        if not self.touches_private(node):
            made = self.read_public(node)
            return [make_not(self.is_null(node)) if made.nullable or made.fallible else TRUE]
        return [p.guard for p in self.read_linear(node)]


def _describe_kind(column: Column) -> str:
    return (
        "values of an unknown type" if column.kind is Kind.OTHER else f"{column.kind.value}s".replace("texts", "text")
    )


def _is_present(column: Column) -> Predicate:
    return make_not(IsNull(column.name)) if column.nullable else TRUE


def _split_condition(condition: Predicate) -> list[LinearTerm]:
    """A condition as the number 1 or 0, NULL where it is unknown."""
    pieces = [LinearTerm(condition, ((ONE, Fraction(1)),)), LinearTerm(make_not(condition), ())]
    return [p for p in pieces if p.guard != FALSE]


def _scale(piece: LinearTerm, factor: Fraction) -> LinearTerm:
    return LinearTerm(piece.guard, tuple((p, f * factor) for p, f in piece.powers) if factor else ())


def _collect_powers(powers: tuple[tuple[Power, Fraction], ...]) -> tuple[tuple[Power, Fraction], ...]:
    total: dict[Power, Fraction] = {}
    for power, factor in powers:
        total[power] = total.get(power, Fraction(0)) + factor
    return tuple((p, f) for p, f in total.items() if f)


_ARITHMETIC: dict[type[exp.Expr], Callable[..., list[LinearTerm]]] = {
    exp.Add: LinearReader._sum,
    exp.Sub: LinearReader._sum,
    exp.Neg: LinearReader._negative,
    exp.Mul: LinearReader._multiplied,
    exp.Div: LinearReader._quotient,
    exp.Case: LinearReader._cases,
    exp.If: LinearReader._cases,
    exp.Coalesce: LinearReader._coalesce,
}
