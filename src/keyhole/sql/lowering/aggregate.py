"""SELECT items and HAVING: aggregates and the arithmetic between them -> queries.

Aggregates combined by + - * / and constants are one sum, or one quotient of two sums (`Ratio`). Which order statistic
or spread is meant is found in `statistic.py`, what stands inside SUM in `linear.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import ceil, floor, prod

from sqlglot import exp
from sqlglot.expressions import DataType

from keyhole.model.meaning import NEGATED, negate_test
from keyhole.model.predicate import (
    FALSE,
    MIRRORED,
    TRUE,
    IsNull,
    Leaf,
    Opaque,
    Predicate,
    Truth,
    evaluate_predicate,
    find_leaves,
    make_and,
    make_not,
    make_or,
)
from keyhole.model.query import (
    CEIL,
    CUT,
    FLOOR,
    HALF,
    ORDERED,
    ZERO,
    Aggregate,
    AllOf,
    AnyOf,
    Query,
    Term,
    Test,
    Threshold,
)
from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.sql.lowering.condition import OPERATORS
from keyhole.sql.lowering.constants import NotConstant, to_decimal
from keyhole.sql.lowering.functions import CONDITIONS, REFUSED
from keyhole.sql.lowering.linear import LinearTerm
from keyhole.sql.lowering.public_expressions import FINITE
from keyhole.sql.lowering.statistic import StatisticReader
from keyhole.sql.statements.tree import strip_parentheses


@dataclass(frozen=True, slots=True)
class Ratio:
    """(sum of `terms` + `constant`) divided by the sum of `per`, if any; `whole`: it can only be an integer.

    NULL if nobody satisfies one of the `needs`: one for each SUM and AVG inside.
    """

    terms: tuple[Term, ...]
    constant: Fraction = Fraction(0)
    per: tuple[Term, ...] = ()
    whole: bool = False
    needs: tuple[Predicate, ...] = ()

    def scaled(self, factor: Fraction) -> Ratio:
        """The value times a constant."""
        terms = tuple(replace(t, factor=t.factor * factor) for t in self.terms) if factor else ()
        return Ratio(terms, self.constant * factor, self.per, self.whole and factor.denominator == 1, self.needs)

    def needing(self, *others: Ratio) -> Ratio:
        """The same value, NULL also where one of the others is."""
        needs = dict.fromkeys((*self.needs, *(need for other in others for need in other.needs)))
        return replace(self, needs=tuple(needs))


_T = DataType.Type
SEPARATELY = "ask them separately"
_TO: dict[type[exp.Expr], str] = {exp.Round: HALF, exp.Floor: FLOOR, exp.Ceil: CEIL, exp.Trunc: ZERO}
AGGREGATES = (exp.Sum, exp.Avg, exp.Count, exp.CountIf, exp.Filter, exp.WithinGroup, exp.AggFunc)


class AggregateReader(StatisticReader):
    """Reads what is computed over the matching records."""

    def has_aggregate(self, node: exp.Expr) -> bool:
        """True if there is an aggregate in the expression."""
        return isinstance(node, AGGREGATES) or any(isinstance(n, exp.AggFunc) for n in node.walk())

    def read_question(self, node: exp.Expr, label: str) -> Query:
        """One SELECT item as a query: an aggregate, rounded or not, compared with a constant or not."""
        node = strip_parentheses(node)
        operator = OPERATORS.get(type(node))
        if operator is None:
            if isinstance(node, CONDITIONS):
                raise self.refuse(
                    "a question about an aggregate is one comparison (SUM(x) > 100): ask one at a time", node
                )
            return self._rounded(node, label)
        left, right = strip_parentheses(node.this), strip_parentheses(node.args["expression"])
        if not isinstance(self.fold_constant(left), NotConstant):
            left, right, operator = right, left, MIRRORED[operator]
        bound = self.fold_constant(right)
        if isinstance(bound, NotConstant):
            difference = self._added(self._ratio(left), self._ratio(right).scaled(Fraction(-1)), node)
            shift = Fraction(0) if difference.per else -difference.constant
            return self._tested(self._query(difference, label, node, Fraction(0)), operator, shift, node)
        if not isinstance(bound, Fraction):
            raise self.refuse("an aggregate is compared with a number", right)
        if type(left) in _TO or isinstance(left, exp.Cast) or self._special(left) or self.counts_several_rows(left):
            return self._rounded_test(left, label, operator, bound, node)
        ratio = self._ratio(left)
        if ratio.per:
            return self._tested(self._query(ratio, label, left), operator, bound, node)
        bare_ratio = replace(ratio, constant=Fraction(0))
        return self._tested(self._query(bare_ratio, label, left), operator, bound - ratio.constant, node)

    def read_test(self, node: exp.Expr) -> Test:
        """HAVING as questions joined by AND and OR; NOT is moved into them."""
        node = strip_parentheses(node)
        if isinstance(node, exp.And):
            return AllOf((self.read_test(node.this), self.read_test(node.expression)))
        if isinstance(node, exp.Or):
            return AnyOf((self.read_test(node.this), self.read_test(node.expression)))
        if isinstance(node, exp.Not):
            return negate_test(self.read_test(node.this))
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            return AllOf(
                (
                    self.read_test(low),
                    self.read_test(exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())),
                )
            )
        if isinstance(node, exp.EQ | exp.NEQ) and self._rounds(node):  # of a rounded number: a range
            ends = (made(this=node.this.copy(), expression=node.expression.copy()) for made in (exp.GTE, exp.LTE))
            both = AllOf(tuple(map(self.read_test, ends)))
            return both if isinstance(node, exp.EQ) else negate_test(both)
        query = self.read_question(node, "")
        if query.test is None:
            raise self.refuse("HAVING takes comparisons of aggregates, joined by AND and OR", node)
        return replace(query, label=query.label or query.canonical())

    def _rounds(self, node: exp.Expr) -> bool:
        """Is one side of a comparison a rounded aggregate?"""
        sides = (strip_parentheses(node.this), strip_parentheses(node.expression))
        return any(type(side) in (*_TO, exp.Cast) and self.has_aggregate(side) for side in sides)

    def _rounded_test(self, left: exp.Expr, label: str, operator: str, bound: Fraction, node: exp.Expr) -> Query:
        query = self._rounded(left, label)
        plain = self._tested(replace(query, digits=None), operator, bound, node)
        if query.digits is None:
            return plain
        cast = isinstance(left, exp.Cast)
        found = unround_comparison(query, operator, bound, self.scope.schema, cast=cast)
        if isinstance(found, str):
            raise self.refuse(found, node)
        return found

    def _tested(self, query: Query, operator: str, bound: Fraction, node: exp.Expr) -> Query:
        number = to_decimal(bound)
        if number is None:
            raise self.refuse(f"{bound} has no finite decimal form: write the number you mean", node)
        for leaf in (leaf for term in (*query.terms, *query.per) for leaf in find_leaves(term.where)):
            if isinstance(leaf, Opaque) and leaf.sql.startswith(FINITE):
                # engines rank NaN above every number: a yes would say nothing about the sum
                raise self.refuse("a comparison with a sum that may be NaN is not judged: ask for the sum", node)
        return replace(query, test=Threshold(operator, Decimal(number)))

    def _rounded(self, node: exp.Expr, label: str) -> Query:
        if type(node) in _TO:
            self.allow_only(node, "this", "decimals")
            digits = Fraction(0) if node.args.get("decimals") is None else self.fold_constant(node.args["decimals"])
            if not isinstance(digits, Fraction) or digits.denominator != 1 or abs(digits) > 30:
                raise self.refuse("ROUND takes a constant number of digits", node)
            if digits and not isinstance(node, exp.Round):
                raise self.refuse(f"{type(node).__name__.upper()} is judged without digits: use ROUND", node)
            return self._with_digits(
                self._rounded(strip_parentheses(node.this), label), int(digits), node, _TO[type(node)]
            )
        if isinstance(node, exp.Cast) and node.to.this is _T.DECIMAL and node.to.expressions:
            inner = self._rounded(strip_parentheses(node.this), label)
            digits_of = [int(p.name) for p in node.to.expressions if p.name.isdigit()]
            return self._with_digits(inner, digits_of[1] if len(digits_of) > 1 else 0, node)
        if (people := self.read_distinct_count(node, label)) is not None:
            return people
        if (special := self._special(node)) is not None:
            return self._order(special, node, label)
        return self._query(self._ratio(node), label, node)

    def _with_digits(self, query: Query, digits: int, node: exp.Expr, rounding: str = HALF) -> Query:
        if query.aggregate is Aggregate.PUBLIC:
            raise self.refuse("rounding a public figure is not carried: ask for it as it is", node)
        if query.digits is not None:
            raise self.refuse("rounding twice is not judged: round once", node)
        return replace(query, digits=digits, rounding=rounding)

    def _query(self, ratio: Ratio, label: str, node: exp.Expr, constant: Fraction | None = None) -> Query:
        if not ratio.per and ratio.constant and constant is None:
            shown = to_decimal(ratio.constant)
            raise self.refuse(
                f"a constant beside an aggregate is not judged: leave the {shown} out and add it yourself", node
            )
        if ratio.per and ratio.constant:
            shifted = tuple(replace(t, factor=t.factor * ratio.constant) for t in ratio.per)
            ratio = replace(ratio, terms=_merge_terms((*ratio.terms, *shifted)), constant=Fraction(0))
        return Query(Aggregate.SUM, ratio.terms, ratio.per, label=label, needs=ratio.needs)

    def _ratio(self, node: exp.Expr) -> Ratio:
        """Aggregates combined by + - and by constants, over one common denominator."""
        node = strip_parentheses(node)
        value = self.fold_constant(node)
        if isinstance(value, Fraction):
            return Ratio((), value, whole=value.denominator == 1)
        if not isinstance(value, NotConstant):
            raise self.refuse("a number is needed beside an aggregate", node)
        if isinstance(node, exp.Neg):
            return self._ratio(node.this).scaled(Fraction(-1))
        if isinstance(node, exp.Add | exp.Sub):
            sign = Fraction(-1 if isinstance(node, exp.Sub) else 1)
            return self._added(self._ratio(node.this), self._ratio(node.expression).scaled(sign), node)
        if isinstance(node, exp.Mul):
            left, right = self._ratio(node.this), self._ratio(node.expression)
            for one, other in ((left, right), (right, left)):
                if not one.terms and not one.per:
                    return other.scaled(one.constant).needing(one)
            if left.per and not right.per and not right.constant and right.terms == left.per and not left.constant:
                return Ratio(left.terms, needs=left.needs)  # AVG(x) * COUNT(x)
            raise self.refuse(f"a product of two aggregates is not judged: {SEPARATELY}", node)
        if isinstance(node, exp.Div):
            return self._divided(node)
        if isinstance(node, exp.Cast):
            inner, target = self._ratio(node.this), node.to.this
            if target is _T.DOUBLE or (inner.whole and target in (_T.DECIMAL, _T.BIGINT, _T.INT128)):
                return inner
            raise self.refuse("a cast that may round an aggregate is not judged here: leave it out, or use ROUND", node)
        if (
            isinstance(node, exp.Coalesce)
            and len(node.expressions) == 1
            and self.fold_constant(node.expressions[0]) == 0
        ):
            inner = self._ratio(node.this)
            if inner.per or not isinstance(
                strip_parentheses(node.this), exp.Sum | exp.Filter | exp.Count | exp.CountIf
            ):
                raise self.refuse("COALESCE(..., 0) is judged around one SUM: leave it out", node)
            return replace(inner, needs=())
        return self._aggregate(node)

    def _added(self, left: Ratio, right: Ratio, node: exp.Expr) -> Ratio:
        if left.per == right.per:
            terms = _merge_terms((*left.terms, *right.terms))
            made = Ratio(terms, left.constant + right.constant, left.per, left.whole and right.whole)
            return made.needing(left, right)
        for one, other in ((left, right), (right, left)):
            if one.per and not other.per and not other.terms:
                return replace(one, constant=one.constant + other.constant, whole=False).needing(other)
        raise self.refuse(f"these have different denominators: {SEPARATELY}", node)

    def _divided(self, node: exp.Div) -> Ratio:
        left, below = self._ratio(node.this), strip_parentheses(node.expression)
        if isinstance(below, exp.Nullif) and self.fold_constant(below.expression) == 0:
            below = below.this  # a quotient over 0 is no answer in either spelling
        right = self._ratio(below)
        if not right.terms and not right.per:
            if right.constant == 0:
                raise self.refuse("division by zero", node.expression)
            return replace(left.scaled(1 / right.constant), whole=False).needing(right)
        if right.per == left.per and not left.constant and not right.constant:
            return Ratio(left.terms, Fraction(0), right.terms).needing(left, right)
        if right.per or left.per or right.constant:
            raise self.refuse(f"a quotient of quotients is not judged: {SEPARATELY}", node)
        if left.constant:
            raise self.refuse("a constant divided by an aggregate is not judged: ask for the aggregate", node)
        return Ratio(left.terms, Fraction(0), right.terms).needing(left, right)

    def _aggregate(self, node: exp.Expr, where: Predicate = TRUE) -> Ratio:
        """SUM, COUNT or AVG, under the statement's condition and the FILTER's."""
        self.refuse_fan_out(node)
        if isinstance(node, exp.Filter):
            if not isinstance(node.this, exp.Sum | exp.Avg | exp.Count | exp.CountIf):
                raise self._no_aggregate(node)
            return self._aggregate(node.this, make_and(where, self.read_condition(node.expression.this)))
        if isinstance(node, exp.Sum | exp.Avg | exp.CountIf) and node.this is None:
            raise self.refuse("an argument is missing", node)
        if isinstance(node, exp.Sum | exp.Avg):
            self.allow_only(node, "this")
            if isinstance(node.this, exp.Distinct):
                raise self.refuse_unknown(node.this)
            pieces = self.read_linear(node.this)
            terms = self._terms(pieces, where)
            guards = [p.guard for p in pieces]
            needs = (make_and(self.scope.where, where, require_somebody(guards)),)
            if isinstance(node, exp.Sum):
                return Ratio(terms, whole=all(t.column is None and t.weight is None for t in terms), needs=needs)
            return Ratio(terms, per=self._counts(guards, where), needs=needs)
        if isinstance(node, exp.CountIf):
            self.allow_only(node, "this")
            asked = self.read_condition(node.this)
            somebody = require_somebody([asked, make_not(asked)])  # a sum of 0 and 1, NULL over nobody
            needs = (make_and(self.scope.where, where, somebody),)
            return Ratio(self._counts([asked], where), whole=True, needs=needs)
        if isinstance(node, exp.Count):
            return Ratio(self._count(node, where), whole=True)
        raise self._no_aggregate(node)

    def _no_aggregate(self, node: exp.Expr) -> Exception:
        if isinstance(node, exp.Column):
            found = self.scope.resolve(node)
            name = found.name if isinstance(found, Column) else node.name
            return self.refuse(f"{name} is neither in GROUP BY nor in an aggregate: only aggregates are judged", node)
        if self._special(node) is not None:
            return self.refuse(f"MIN, MAX, MEDIAN and VAR are not judged inside arithmetic: {SEPARATELY}", node)
        if isinstance(node, exp.Round):
            return self.refuse(f"ROUND is judged around the whole item only: {SEPARATELY}", node)
        if isinstance(node, exp.IntDiv):
            return self.refuse("// rounds: use /", node)
        if isinstance(node, exp.AggFunc) and not isinstance(node, tuple(REFUSED)):
            words = "SUM, AVG, COUNT, MIN, MAX, MEDIAN, VAR_SAMP, STDDEV_SAMP"
            return self.refuse(f"{node.sql_name()} is not judged: the aggregates are {words}", node)
        return self.refuse_unknown(node)

    def _terms(self, pieces: list[LinearTerm], where: Predicate) -> tuple[Term, ...]:
        terms = [
            Term(
                power.column,
                make_and(self.scope.where, where, piece.guard),
                factor,
                power.weight.sql if power.weight is not None else None,
                max(power.degree, 1),
            )
            for piece in pieces
            for power, factor in piece.powers
        ]
        return _merge_terms(tuple(terms))

    def _counts(self, guards: list[Predicate], where: Predicate) -> tuple[Term, ...]:
        return _merge_terms(tuple(Term(None, make_and(self.scope.where, where, g)) for g in guards))

    def _count(self, node: exp.Count, where: Predicate) -> tuple[Term, ...]:
        if node.expressions:
            raise self.refuse("COUNT takes one column", node)
        self.allow_only(node, "this", "big_int")
        inner = node.this
        if inner is None or isinstance(inner, exp.Star):
            if isinstance(inner, exp.Star):
                self.allow_only(inner)
            return self._counts([TRUE], where)
        if not isinstance(inner, exp.Distinct):
            return self._counts(self.when_present(inner), where)
        if self.scope.schema.people:
            raise self.refuse(
                "COUNT(DISTINCT ...) stands alone where a person may have several rows: ask it apart", node
            )
        ids = {c.name for c in self.scope.schema.of_role(Role.ID)}
        items = inner.expressions
        if len(items) == 1 and isinstance(items[0], exp.Tuple):
            # a row of values is never NULL
            if ids and {c.name for c in self.list_columns(items[0])} >= ids:
                return self._counts([TRUE], where)
        elif len(items) == 1 and isinstance(strip_parentheses(items[0]), exp.Column):
            column = self.list_columns(items[0])
            if ids == {c.name for c in column}:
                return self._counts(self.when_present(items[0]), where)
            if column and column[0].secret:
                raise self.refuse(
                    f"COUNT(DISTINCT {column[0].name}) of a {self.word} column is not judged: "
                    "GROUP BY it with COUNT(*)",
                    node,
                )
        raise self.refuse(f"COUNT(DISTINCT ...) stands alone, for the id or one public column: {SEPARATELY}", node)


def _merge_terms(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Equal sums collected, those that cancel dropped."""
    if len(terms) <= 1:
        return terms
    total: dict[Term, Fraction] = {}
    for term in terms:
        unit = replace(term, factor=Fraction(1))
        total[unit] = total.get(unit, Fraction(0)) + term.factor
    return tuple(replace(t, factor=f) for t, f in total.items() if f)


# --- sums over nobody -------------------------------------------------------------------------------------------------
# When a sum is over nobody: the condition that somebody has a value, in its simplest form.


MAX_CASES = 4096


def require_somebody(guards: Sequence[Predicate]) -> Predicate:
    """The condition that one of the guards holds: TRUE if one always does, as in CASE ... ELSE.

    >>> from keyhole.model.predicate import Comparison, make_not, make_is_true
    >>> above = Comparison("x", ">", 5)
    >>> require_somebody([above, make_not(make_is_true(above))])
    Constant(value=True)
    """
    somebody = make_or(*guards)
    asked = tuple(dict.fromkeys(find_leaves(somebody)))
    if len(guards) < 2 or not asked:
        return somebody
    seen = set()
    for truths in _list_joint_truths(asked):
        seen.add(evaluate_predicate(somebody, truths.__getitem__) is True)
        if len(seen) > 1:
            return somebody
    return somebody if not seen else TRUE if True in seen else FALSE


def _list_joint_truths(leaves_asked: Sequence[Leaf]) -> Iterator[Mapping[Leaf, Truth]]:
    """The truths that leaves can have together, and some that they cannot; none at all if there are too many.

    The leaves of one column are NULL together, or none of them is.
    """
    columns: dict[str, list[Leaf]] = {}
    choices: list[list[dict[Leaf, Truth]]] = []
    for leaf in leaves_asked:
        if isinstance(leaf, Opaque):
            choices.append([{leaf: truth} for truth in (True, False, None)])
        else:
            columns.setdefault(leaf.column, []).append(leaf)
    for mine in columns.values():
        null: dict[Leaf, Truth] = {leaf: True if isinstance(leaf, IsNull) else None for leaf in mine}
        others = [leaf for leaf in mine if not isinstance(leaf, IsNull)]
        if 2 ** len(others) > MAX_CASES:
            return
        held = [
            {**dict.fromkeys(mine, False), **dict(zip(others, truths, strict=True))}
            for truths in product((True, False), repeat=len(others))
        ]
        choices.append([null, *held])
    if prod(map(len, choices)) > MAX_CASES:
        return
    for picked in product(*choices):
        yield {leaf: truth for part in picked for leaf, truth in part.items()}


# --- comparisons of rounded numbers -----------------------------------------------------------------------------------
# A comparison of a rounded number as one of the number itself: FLOOR(y) > 5.2 is y >= 6.
#
# With s the unit (1, or 10^-d for d digits) a rounded number is k s, k whole, so that `> c` and `>= c` are k >= k0, and
# `< c` and `<= c` are not(k >= k0). Rounding never turns an order round, hence k >= k0 is y >= e or y > e:
#
#     FLOOR  y >= k0 s            CEIL   y > (k0 - 1) s
#     TRUNC  y >= k0 s if k0 > 0, else y > (k0 - 1) s
#     ROUND  y >= (k0 - 1/2) s if k0 > 0, else y > (k0 - 1/2) s      (a half goes away from zero)
#
# It is exact of the number that the engine rounds. With digits, a DOUBLE is multiplied and divided on the way, which
# moves the edge by an ulp: `Threshold.unit` says so. What is not sure (a CAST of a DOUBLE, which adds 10^-9 first;
# digits of a statistic of DOUBLEs; constants that a DOUBLE does not hold) is refused.


LARGEST, LARGEST_FLOAT = 2**53, 2**24  # whole numbers below these are all held by a DOUBLE, by a FLOAT
MOST_DIGITS = 15
ASK_RANGE = "= and <> of a rounded number ask for a range: compare it by >= and <="
UNSURE = "where a rounded number turns here is not sure: compare the number itself"


def unround_threshold(op: str, at: Fraction, rounding: str, unit: Fraction) -> tuple[str, Fraction]:
    """The comparison of y that is that of y rounded to multiples of `unit`; `op` is one of > >= < <=.

    >>> asked = [(">", Fraction("5.2"), FLOOR), (">", Fraction("2.75"), HALF), ("<", Fraction(0), HALF)]
    >>> [(op, str(at)) for op, at in (unround_threshold(*each, Fraction(1)) for each in asked)]
    [('>=', '6'), ('>=', '5/2'), ('<=', '-1/2')]
    """
    if op in ("<", "<="):
        opposite, edge = unround_threshold(NEGATED[op], at, rounding, unit)
        return NEGATED[opposite], edge
    k = floor(at / unit) + 1 if op == ">" else ceil(at / unit)
    if rounding == HALF:
        return (">=" if k > 0 else ">"), (k - Fraction(1, 2)) * unit
    down = rounding == FLOOR or (rounding != CEIL and k > 0)
    return (">=", k * unit) if down else (">", (k - 1) * unit)


def unround_comparison(query: Query, op: str, at: Fraction, schema: Schema, *, cast: bool) -> Query | str:
    """A query with digits, compared with a constant, as a comparison of its number; a reason where it cannot be.

    `cast`: the digits are those of a CAST to DECIMAL.
    """
    assert query.digits is not None
    if op in ("=", "<>"):
        return ASK_RANGE
    unit = Fraction(1) / Fraction(10) ** query.digits
    op, edge = unround_threshold(op, at, query.rounding, unit)
    kinds = {column.kind for name in query.columns if (column := schema.find(name)) is not None}
    whole = all(t.factor.denominator == 1 and t.weight is None for t in query.terms) and not query.per
    held = whole and len(kinds) <= 1 and kinds <= {Kind.INTEGER, Kind.DECIMAL}  # by the engine, with all its digits
    ordered = query.aggregate in ORDERED
    if ordered and query.aggregate in CUT and kinds != {Kind.DECIMAL}:
        held = False
    narrow = ordered and not held
    unsure = (cast or (query.digits != 0 and (ordered or query.aggregate is Aggregate.VAR))) and not held
    number = to_decimal(edge)
    if unsure or number is None or abs(query.digits) > MOST_DIGITS:
        return UNSURE
    if max(abs(edge), abs(at)) / min(unit, Fraction(1)) >= (LARGEST_FLOAT if narrow else LARGEST):
        return UNSURE
    return replace(query, digits=None, rounding=HALF, test=Threshold(op, Decimal(number), unit))
