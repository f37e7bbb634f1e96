"""WHERE: boolean expressions -> predicates, with SQL's three-valued logic."""

from __future__ import annotations

import datetime as dt
import math
from abc import abstractmethod
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from keyhole.model.predicate import (
    FALSE,
    MIRRORED,
    NULL,
    TRUE,
    And,
    Comparison,
    Constant,
    IsNull,
    Like,
    Membership,
    Opaque,
    Predicate,
    Scalar,
    evaluate_leaf,
    format_literal,
    make_and,
    make_is_true,
    make_not,
    make_or,
)
from keyhole.model.schema import Column, Kind
from keyhole.sql.lowering.constants import NotConstant, Value, coerce_constant, read_listed_text, to_decimal
from keyhole.sql.lowering.exists import read_exists, read_in_query, refuse_null
from keyhole.sql.lowering.functions import CONDITIONS, REFUSED
from keyhole.sql.lowering.names import DerivedColumn, Scope
from keyhole.sql.lowering.public_expressions import PublicExpression, PublicReader
from keyhole.sql.statements.parse import SourceText
from keyhole.sql.statements.tree import strip_parentheses

OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_BARE = (*OPERATORS, exp.Between, exp.In, exp.Like, exp.ILike, exp.Is)


class ConditionReader(PublicReader):
    """Reads conditions on one record."""

    @abstractmethod
    def in_scope(self, scope: Scope) -> ConditionReader:
        """The same reader for a subquery's scope."""

    def read_condition(self, node: exp.Expr) -> Predicate:
        """The condition that a boolean expression states; refuses private columns against anything but constants."""
        node = strip_parentheses(node)
        if (operator := OPERATORS.get(type(node))) is not None:
            self.allow_only(node, "this", "expression")
            return self.compare(node.this, operator, node.args["expression"], node)
        if isinstance(node, exp.And | exp.Or):
            # a chain of a thousand ORs leans to the left: walk it, do not recurse
            join, kind = (make_and, exp.And) if isinstance(node, exp.And) else (make_or, exp.Or)
            parts: list[exp.Expr] = []
            while isinstance(node, kind):
                parts.append(node.args["expression"])
                node = node.this
            return join(*(self.read_condition(p) for p in (node, *reversed(parts))))
        if isinstance(node, exp.Not):
            refuse_null(self.scope, node)
            return make_not(self.read_condition(node.this))
        if (method := _METHODS.get(type(node))) is not None:
            return method(self, node)
        return self._truth(node)

    def _truth(self, node: exp.Expr) -> Predicate:
        """A boolean column, constant or function standing alone."""
        value = self.fold_constant(node)
        if not isinstance(value, NotConstant):
            if value is None or isinstance(value, bool):
                return Constant(value)
            raise self.refuse("a condition is true or false: compare this with something", node)
        if isinstance(node, exp.Column):
            column = self.scope.resolve(node)
            if isinstance(column, DerivedColumn):
                return self.in_scope(column.scope).read_condition(column.node)
            if column.listed is not None and column.listed.type == "BOOLEAN":
                return Comparison(column.name, "=", read_listed_text(column, "=", True, node, self.source))
            if column.kind is not Kind.BOOLEAN:
                cure = 'compare it, or declare kind = "boolean"' if column.kind is Kind.TEXT else "compare it"
                raise self.refuse(f"{column.name} is {column.kind.value}, not true or false: {cure}", node)
            return Comparison(column.name, "=", True)
        if isinstance(node, tuple(REFUSED)):
            raise self.refuse_unknown(node)
        if self.touches_private(node):
            raise self._private(node)
        made = self.read_public(node)
        if made.kind is not Kind.BOOLEAN:
            raise self.refuse("a condition is true or false: compare this with something", node)
        return Opaque(made.sql, made.columns)

    def compare(self, left: exp.Expr, operator: str, right: exp.Expr, node: exp.Expr) -> Predicate:
        """`left operator right`, where at most one side looks at the record unless both are public."""
        if isinstance(left, _BARE) and isinstance(right, exp.Expr) and type(node) in OPERATORS:
            raise self.refuse("a chain of comparisons: join them with AND, or use parentheses", left)
        left, right = strip_parentheses(left), strip_parentheses(right)
        a, b = self.fold_constant(left), self.fold_constant(right)
        if not isinstance(a, NotConstant):
            if not isinstance(b, NotConstant):
                return self._constants(a, operator, b, node)
            left, right, a, b, operator = right, left, b, a, MIRRORED[operator]
        if isinstance(b, NotConstant):
            return self._two(left, operator, right, node)
        return self._against(left, operator, b, right)

    def _constants(self, a: Value, operator: str, b: Value, node: exp.Expr) -> Predicate:
        if a is None or b is None:
            return NULL
        kinds = (Fraction, bool, str, dt.date)
        family = [next(k for k in kinds if isinstance(v, k)) for v in (a, b)]
        if family[0] is not family[1]:
            raise self.refuse("these two constants are of different kinds", node)
        return Constant(evaluate_leaf(Comparison("", operator, b), a))  # type: ignore[arg-type]

    def _against(self, left: exp.Expr, operator: str, value: Value, right: exp.Expr) -> Predicate:
        """A part that looks at the record, against a constant."""
        if isinstance(left, exp.Column):
            found = self.scope.resolve(left)
            if isinstance(found, DerivedColumn):
                return self.in_scope(found.scope)._against(strip_parentheses(found.node), operator, value, right)
            if value is None:
                return NULL
            return compare_column(found, operator, read_constant(found, operator, value, right, self.source))
        if isinstance(left, exp.AggFunc | exp.Filter):
            raise self.refuse_unknown(left)
        if isinstance(value, bool) and isinstance(left, CONDITIONS):
            inner = self.read_condition(left)
            if operator not in ("=", "<>"):
                raise self.refuse("a condition is only compared with = TRUE or = FALSE", left)
            return inner if value == (operator == "=") else make_not(inner)
        if self.touches_private(left):
            return NULL if value is None else self.solve_for_column(left, operator, value, right)
        made = self.read_public(left)
        if value is None:
            return NULL
        scalar = coerce_constant(value, made.kind, "this expression", right, self.source)
        return _compare_guarded(f"{made.raw} {operator} {format_literal(scalar)}", made)

    def _two(self, left: exp.Expr, operator: str, right: exp.Expr, node: exp.Expr) -> Predicate:
        for side in (left, right):
            if isinstance(side, tuple(REFUSED)):
                raise self.refuse_unknown(side)
        if self.touches_private(left) or self.touches_private(right):
            secret = left if self.touches_private(left) else right
            raise self.refuse(f"a {self.word} column may only be compared with constants", secret)
        a, b = self.read_public(left), self.read_public(right)
        self._alike([a, b], node)
        return _compare_guarded(f"{a.raw} {operator} {b.raw}", a, b)

    def _private(self, node: exp.Expr) -> Exception:
        return self.refuse(f"a function of a {self.word} column is not judged: compare the column with constants", node)

    def solve_for_column(self, left: exp.Expr, operator: str, value: Value, right: exp.Expr) -> Predicate:
        """`factor * column + shift operator value`, solved for the private column; only where that is exact."""
        line = self.read_line(left)
        if line is None:
            raise self._private(left)
        column, factor, shift = line
        if not isinstance(value, Fraction):
            value = Fraction(coerce_constant(value, Kind.DECIMAL, "this expression", right, self.source))  # type: ignore[arg-type]
        operator = operator if factor > 0 else MIRRORED[operator]
        bound = (value - shift) / factor
        exact = column.kind in (Kind.INTEGER, Kind.DECIMAL) or (shift == 0 and abs(factor) == 1)
        number = to_decimal(bound)
        if number is None and column.kind is Kind.INTEGER:
            number = Decimal(math.floor(bound)) + Decimal("0.5")  # no integer lies between this and the bound
        if not exact or number is None:
            shown = f": write {column.name} {operator} {number}" if number is not None else ""
            raise self.refuse(f"this cannot be solved for {column.name} without rounding{shown}", left)
        return compare_column(column, operator, number)

    def read_line(self, node: exp.Expr) -> tuple[Column, Fraction, Fraction] | None:
        """(column, factor, shift) if the expression is factor * private column + shift with constants, else None."""
        node = strip_parentheses(node)
        if isinstance(node, exp.Column):
            found = self.scope.resolve(node)
            if isinstance(found, DerivedColumn):
                return self.in_scope(found.scope).read_line(found.node)
            return (found, Fraction(1), Fraction(0)) if found.secret and found.kind.numeric else None
        if isinstance(node, exp.Neg):
            inner = self.read_line(node.this)
            return None if inner is None else (inner[0], -inner[1], -inner[2])
        if not isinstance(node, exp.Add | exp.Sub | exp.Mul):
            return None
        a, b = self.fold_constant(node.this), self.fold_constant(node.expression)
        inner = self.read_line(node.expression if isinstance(a, Fraction) else node.this)
        constant = a if isinstance(a, Fraction) else b
        if inner is None or not isinstance(constant, Fraction):
            return None
        column, factor, shift = inner
        if isinstance(node, exp.Mul):
            return None if constant == 0 else (column, factor * constant, shift * constant)
        if isinstance(node, exp.Add):
            return column, factor, shift + constant
        return (column, factor, shift - constant) if constant is b else (column, -factor, constant - shift)

    def _between(self, node: exp.Between) -> Predicate:
        self.allow_only(node, "this", "low", "high")
        low, high = node.args["low"], node.args["high"]
        return make_and(self.compare(node.this, ">=", low, node), self.compare(node.this, "<=", high, node))

    def _exists(self, node: exp.Exists) -> Predicate:
        if not self.scope.schema.several:
            raise self.refuse_unknown(node)
        return read_exists(self.scope, node, lambda scope, part: self.in_scope(scope).read_condition(part))

    def _in(self, node: exp.In) -> Predicate:
        if isinstance(node.args.get("query"), exp.Expr) and self.scope.schema.several:
            return read_in_query(self.scope, node, lambda scope, part: self.in_scope(scope).read_condition(part))
        if isinstance(node.args.get("query"), exp.Expr):
            raise self.refuse(REFUSED[exp.Any], node.args["query"])
        self.allow_only(node, "this", "expressions")
        items = node.expressions
        if not items:
            raise self.refuse("IN takes a list of values here", node)
        values = [self.fold_constant(i) for i in items]
        for item, value in zip(items, values, strict=True):
            if isinstance(value, NotConstant):
                if isinstance(item, exp.Column):
                    self.scope.resolve(item)
                raise self.refuse("IN takes a list of constants here", item)
        left = strip_parentheses(node.this)
        if self.touches_private(left) and not isinstance(left, exp.Column):
            return make_or(*(self.compare(node.this, "=", i, node) for i in items))
        unknown = NULL if None in values else FALSE
        target = self.scope.resolve(left) if isinstance(left, exp.Column) else self.read_public(left)
        if isinstance(target, DerivedColumn):
            return make_or(*(self.compare(node.this, "=", i, node) for i in items))
        listed = tuple(
            dict.fromkeys(
                read_constant(target, "=", value, item, self.source)  # type: ignore[arg-type]
                for item, value in zip(items, values, strict=True)
                if value is not None
            )
        )
        if isinstance(target, Column):
            return make_or(_member_of(target, listed), unknown)
        if not listed:
            return unknown
        return make_or(_compare_guarded(f"{target.raw} IN ({', '.join(map(format_literal, listed))})", target), unknown)

    def _like(self, node: exp.Expr) -> Predicate:
        self.allow_only(node, "this", "expression", "negate")
        fold = isinstance(node, exp.ILike)
        wrap: Callable[[Predicate], Predicate] = make_not if node.args.get("negate") else lambda part: part
        pattern = self.fold_constant(node.args["expression"])
        left = strip_parentheses(node.this)
        if pattern is None:
            self.touches_private(left)
            return NULL
        if not isinstance(pattern, str):
            raise self.refuse("LIKE takes a constant pattern in single quotes", node)
        if "\\" in pattern:
            raise self.refuse("a backslash in a LIKE pattern means different things to different engines", node)
        if isinstance(left, exp.Column) and isinstance(found := self.scope.resolve(left), Column):
            if found.listed is not None:
                read_listed_text(found, "LIKE", pattern, left, self.source)
            if found.kind is not Kind.TEXT:
                raise self.refuse(f"LIKE takes text, and {found.name} is {found.kind.value}", left)
            return wrap(Like(found.name, pattern, fold))
        if self.touches_private(left):
            raise self._private(left)
        made = self.read_argument(left, (Kind.TEXT,), node)
        return wrap(Opaque(f"{made.sql} {'ILIKE' if fold else 'LIKE'} {format_literal(pattern)}", made.columns))

    def _is(self, node: exp.Is) -> Predicate:
        self.allow_only(node, "this", "expression")
        what, inner = node.expression, strip_parentheses(node.this)
        if isinstance(what, exp.Boolean):
            part = self.read_condition(inner)
            return make_is_true(part if what.this else make_not(part))
        if not isinstance(what, exp.Null):
            raise self.refuse("IS takes NULL, TRUE or FALSE", node)
        return self.is_null(inner)

    def is_null(self, node: exp.Expr) -> Predicate:
        """`node IS NULL`: public even for a private column."""
        node = strip_parentheses(node)
        value = self.fold_constant(node)
        if not isinstance(value, NotConstant):
            return Constant(value is None)
        if isinstance(node, exp.Column):
            found = self.scope.resolve(node)
            if isinstance(found, DerivedColumn):
                return self.in_scope(found.scope).is_null(found.node)
            return IsNull(found.name)
        if not self.touches_private(node):
            made = self.read_public(node)
            return Opaque(f"({made.sql}) IS NULL", made.columns)
        if isinstance(node, CONDITIONS):
            part = self.read_condition(node)
            return make_and(make_not(make_is_true(part)), make_not(make_is_true(make_not(part))))
        if (line := self.read_line(node)) is not None:
            return IsNull(line[0].name)
        raise self._private(node)

    def _distinct_from(self, node: exp.Expr) -> Predicate:
        self.allow_only(node, "this", "expression")
        left, right = node.this, node.args["expression"]
        if self.fold_constant(left) is None or self.fold_constant(right) is None:
            same = self.is_null(right if self.fold_constant(left) is None else left)
        elif isinstance(self.fold_constant(left), NotConstant) and isinstance(self.fold_constant(right), NotConstant):
            if self.touches_private(left) or self.touches_private(right):
                raise self.refuse(f"a {self.word} column may only be compared with constants", node)
            a, b = self.read_public(left), self.read_public(right)
            self._alike([a, b], node)
            same = _compare_guarded(f"{a.raw} IS NOT DISTINCT FROM {b.raw}", a, b)
        else:
            same = make_is_true(self.compare(left, "=", right, node))
        return same if isinstance(node, exp.NullSafeEQ) else make_not(same)

    def _choose(self, node: exp.Expr) -> Predicate:
        """CASE or IF as a condition."""
        if not self.touches_private(node):
            return self._truth(node)
        parts: list[Predicate] = []
        earlier: list[Predicate] = []
        for condition, result in self.read_branches(node):
            mine = condition if condition is not None else TRUE
            parts.append(
                make_and(*(make_not(make_is_true(e)) for e in earlier), make_is_true(mine), self.read_condition(result))
            )
            earlier.append(mine)
        # where no branch applies the CASE is NULL, not FALSE
        rest = make_and(*(make_not(make_is_true(e)) for e in earlier), NULL)
        return make_or(*parts, rest)


def read_constant(
    target: Column | PublicExpression, operator: str, value: Value, node: exp.Expr, source: SourceText
) -> Scalar:
    """What a column, or an expression over public ones, is compared with: a value of its kind, or a listed one."""
    if not isinstance(target, Column):
        return coerce_constant(value, target.kind, "this expression", node, source)
    if target.listed is not None:
        return read_listed_text(target, operator, value, node, source)
    return coerce_constant(value, target.kind, target.name, node, source)


def compare_column(column: Column, operator: str, value: Scalar) -> Predicate:
    """`column operator value`; an integer column is only ever compared with integers.

    >>> compare_column(Column("n", Kind.INTEGER), ">", Decimal("2.5"))
    Comparison(column='n', op='>=', value=3)
    """
    if column.kind is not Kind.INTEGER or not isinstance(value, Decimal):
        return Comparison(column.name, operator, value)
    if operator in ("=", "<>"):
        never = And((Comparison(column.name, "<", 0), Comparison(column.name, ">", 0)))  # NULL stays NULL
        return never if operator == "=" else make_not(never)
    down = operator.startswith("<")
    return Comparison(column.name, "<=" if down else ">=", math.floor(value) if down else math.ceil(value))


def _member_of(column: Column, values: tuple[Scalar, ...]) -> Predicate:
    if column.kind is Kind.INTEGER:
        whole = tuple(v for v in values if not isinstance(v, Decimal))
        values = whole or values[:1]
    if not values:
        return FALSE
    return compare_column(column, "=", values[0]) if len(values) == 1 else Membership(column.name, values)


def _compare_guarded(text: str, *parts: PublicExpression) -> Opaque:
    """A comparison the engine evaluates: NULL where it would fail on a value (also when casting one side)."""
    fails = any(p.fallible or (p.kind is Kind.DECIMAL and p.column is None) for p in parts)
    return Opaque(f"TRY({text})" if fails else text, frozenset().union(*(p.columns for p in parts)))


_METHODS: dict[type[exp.Expr], Callable[..., Predicate]] = {
    exp.Between: ConditionReader._between,
    exp.In: ConditionReader._in,
    exp.Exists: ConditionReader._exists,
    exp.Like: ConditionReader._like,
    exp.ILike: ConditionReader._like,
    exp.Is: ConditionReader._is,
    exp.NullSafeEQ: ConditionReader._distinct_from,
    exp.NullSafeNEQ: ConditionReader._distinct_from,
    exp.Case: ConditionReader._choose,
    exp.If: ConditionReader._choose,
}

__all__ = ["OPERATORS", "ConditionReader", "compare_column"]
