"""SELECT items and HAVING: aggregates and the arithmetic between them -> queries."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp
from sqlglot.expressions import DataType

from keyhole.model.meaning import negated
from keyhole.model.numbers import round_fraction
from keyhole.model.predicate import MIRRORED, TRUE, Opaque, Predicate, conjunction, leaves, negation, quote_name
from keyhole.model.query import (
    CEIL,
    FLOOR,
    HALF,
    QUANTILES,
    ZERO,
    Aggregate,
    AllOf,
    AnyOf,
    Query,
    Term,
    Test,
    Threshold,
)
from keyhole.model.schema import Column, Kind, Role
from keyhole.sql.lowering.condition import OPERATORS, bare
from keyhole.sql.lowering.constants import NotConstant, to_decimal
from keyhole.sql.lowering.distinct import counted_distinct, fan_out, several_rows
from keyhole.sql.lowering.expression import FINITE, Public
from keyhole.sql.lowering.functions import CONDITIONS, REFUSED
from keyhole.sql.lowering.linear import LinearTerm
from keyhole.sql.lowering.nobody import somewhere
from keyhole.sql.lowering.ratio import Ratio
from keyhole.sql.lowering.statistic import ORDER, PERCENTILE, SPREAD, StatisticReader
from keyhole.sql.lowering.unrounded import compared_unrounded

_T = DataType.Type
SEPARATELY = "ask them separately"
_TO: dict[type[exp.Expr], str] = {exp.Round: HALF, exp.Floor: FLOOR, exp.Ceil: CEIL, exp.Trunc: ZERO}
AGGREGATES = (exp.Sum, exp.Avg, exp.Count, exp.CountIf, exp.Filter, exp.WithinGroup, exp.AggFunc)


class AggregateReader(StatisticReader):
    """Reads what is computed over the matching records."""

    def aggregates(self, node: exp.Expr) -> bool:
        """True if there is an aggregate in the expression."""
        return isinstance(node, AGGREGATES) or any(isinstance(n, exp.AggFunc) for n in node.walk())

    def question(self, node: exp.Expr, label: str) -> Query:
        """One SELECT item as a query: an aggregate, rounded or not, compared with a constant or not."""
        node = bare(node)
        operator = OPERATORS.get(type(node))
        if operator is None:
            if isinstance(node, CONDITIONS):
                raise self.refuse(
                    "a question about an aggregate is one comparison (SUM(x) > 100): ask one at a time", node
                )
            return self._rounded(node, label)
        left, right = bare(node.this), bare(node.args["expression"])
        if not isinstance(self.fold(left), NotConstant):
            left, right, operator = right, left, MIRRORED[operator]
        bound = self.fold(right)
        if isinstance(bound, NotConstant):
            difference = self._added(self._ratio(left), self._ratio(right).scaled(Fraction(-1)), node)
            shift = Fraction(0) if difference.per else -difference.constant
            return self._tested(self._query(difference, label, node, Fraction(0)), operator, shift, node)
        if not isinstance(bound, Fraction):
            raise self.refuse("an aggregate is compared with a number", right)
        if type(left) in _TO or isinstance(left, exp.Cast) or self._special(left) or several_rows(self, left):
            return self._rounded_test(left, label, operator, bound, node)
        ratio = self._ratio(left)
        if ratio.per:
            return self._tested(self._query(ratio, label, left), operator, bound, node)
        bare_ratio = replace(ratio, constant=Fraction(0))
        return self._tested(self._query(bare_ratio, label, left), operator, bound - ratio.constant, node)

    def test(self, node: exp.Expr) -> Test:
        """HAVING as questions joined by AND and OR; NOT is moved into them."""
        node = bare(node)
        if isinstance(node, exp.And):
            return AllOf((self.test(node.this), self.test(node.expression)))
        if isinstance(node, exp.Or):
            return AnyOf((self.test(node.this), self.test(node.expression)))
        if isinstance(node, exp.Not):
            return negated(self.test(node.this))
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            return AllOf(
                (self.test(low), self.test(exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())))
            )
        if isinstance(node, exp.EQ | exp.NEQ) and self._rounds(node):  # of a rounded number: a range
            ends = (made(this=node.this.copy(), expression=node.expression.copy()) for made in (exp.GTE, exp.LTE))
            both = AllOf(tuple(map(self.test, ends)))
            return both if isinstance(node, exp.EQ) else negated(both)
        query = self.question(node, "")
        if query.test is None:
            raise self.refuse("HAVING takes comparisons of aggregates, joined by AND and OR", node)
        return replace(query, label=query.label or query.canonical())

    def _rounds(self, node: exp.Expr) -> bool:
        """Is one side of a comparison a rounded aggregate?"""
        sides = (bare(node.this), bare(node.expression))
        return any(type(side) in (*_TO, exp.Cast) and self.aggregates(side) for side in sides)

    def _rounded_test(self, left: exp.Expr, label: str, operator: str, bound: Fraction, node: exp.Expr) -> Query:
        query = self._rounded(left, label)
        plain = self._tested(replace(query, digits=None), operator, bound, node)
        if query.digits is None:
            return plain
        cast = isinstance(left, exp.Cast)
        found = compared_unrounded(query, operator, bound, self.scope.schema, cast=cast)
        if isinstance(found, str):
            raise self.refuse(found, node)
        return found

    def _tested(self, query: Query, operator: str, bound: Fraction, node: exp.Expr) -> Query:
        number = to_decimal(bound)
        if number is None:
            raise self.refuse(f"{bound} has no finite decimal form: write the number you mean", node)
        for leaf in (leaf for term in (*query.terms, *query.per) for leaf in leaves(term.where)):
            if isinstance(leaf, Opaque) and leaf.sql.startswith(FINITE):
                # engines rank NaN above every number: a yes would say nothing about the sum
                raise self.refuse("a comparison with a sum that may be NaN is not judged: ask for the sum", node)
        return replace(query, test=Threshold(operator, Decimal(number)))

    def _rounded(self, node: exp.Expr, label: str) -> Query:
        if type(node) in _TO:
            self.only(node, "this", "decimals")
            digits = Fraction(0) if node.args.get("decimals") is None else self.fold(node.args["decimals"])
            if not isinstance(digits, Fraction) or digits.denominator != 1 or abs(digits) > 30:
                raise self.refuse("ROUND takes a constant number of digits", node)
            if digits and not isinstance(node, exp.Round):
                raise self.refuse(f"{type(node).__name__.upper()} is judged without digits: use ROUND", node)
            return self._with_digits(self._rounded(bare(node.this), label), int(digits), node, _TO[type(node)])
        if isinstance(node, exp.Cast) and node.to.this is _T.DECIMAL and node.to.expressions:
            inner = self._rounded(bare(node.this), label)
            digits_of = [int(p.name) for p in node.to.expressions if p.name.isdigit()]
            return self._with_digits(inner, digits_of[1] if len(digits_of) > 1 else 0, node)
        if (people := counted_distinct(self, node, label)) is not None:
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
            ratio = replace(ratio, terms=_merged((*ratio.terms, *shifted)), constant=Fraction(0))
        return Query(Aggregate.SUM, ratio.terms, ratio.per, label=label, needs=ratio.needs)

    def _ratio(self, node: exp.Expr) -> Ratio:
        """Aggregates combined by + - and by constants, over one common denominator."""
        node = bare(node)
        value = self.fold(node)
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
        if isinstance(node, exp.Coalesce) and len(node.expressions) == 1 and self.fold(node.expressions[0]) == 0:
            inner = self._ratio(node.this)
            if inner.per or not isinstance(bare(node.this), exp.Sum | exp.Filter | exp.Count | exp.CountIf):
                raise self.refuse("COALESCE(..., 0) is judged around one SUM: leave it out", node)
            return replace(inner, needs=())
        return self._aggregate(node)

    def _added(self, left: Ratio, right: Ratio, node: exp.Expr) -> Ratio:
        if left.per == right.per:
            terms = _merged((*left.terms, *right.terms))
            made = Ratio(terms, left.constant + right.constant, left.per, left.whole and right.whole)
            return made.needing(left, right)
        for one, other in ((left, right), (right, left)):
            if one.per and not other.per and not other.terms:
                return replace(one, constant=one.constant + other.constant, whole=False).needing(other)
        raise self.refuse(f"these have different denominators: {SEPARATELY}", node)

    def _divided(self, node: exp.Div) -> Ratio:
        left, below = self._ratio(node.this), bare(node.expression)
        if isinstance(below, exp.Nullif) and self.fold(below.expression) == 0:
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
        fan_out(self.scope, node)
        if isinstance(node, exp.Filter):
            if not isinstance(node.this, exp.Sum | exp.Avg | exp.Count | exp.CountIf):
                raise self._no_aggregate(node)
            return self._aggregate(node.this, conjunction(where, self.condition(node.expression.this)))
        if isinstance(node, exp.Sum | exp.Avg | exp.CountIf) and node.this is None:
            raise self.refuse("an argument is missing", node)
        if isinstance(node, exp.Sum | exp.Avg):
            self.only(node, "this")
            if isinstance(node.this, exp.Distinct):
                raise self.unknown(node.this)
            pieces = self.linear(node.this)
            terms = self._terms(pieces, where)
            guards = [p.guard for p in pieces]
            needs = (conjunction(self.scope.where, where, somewhere(guards)),)
            if isinstance(node, exp.Sum):
                return Ratio(terms, whole=all(t.column is None and t.weight is None for t in terms), needs=needs)
            return Ratio(terms, per=self._counts(guards, where), needs=needs)
        if isinstance(node, exp.CountIf):
            self.only(node, "this")
            asked = self.condition(node.this)
            somebody = somewhere([asked, negation(asked)])  # a sum of 0 and 1, NULL over nobody
            needs = (conjunction(self.scope.where, where, somebody),)
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
        return self.unknown(node)

    def _terms(self, pieces: list[LinearTerm], where: Predicate) -> tuple[Term, ...]:
        found = [
            Term(
                power.column,
                conjunction(self.scope.where, where, piece.guard),
                factor,
                power.weight.sql if power.weight is not None else None,
                max(power.degree, 1),
            )
            for piece in pieces
            for power, factor in piece.powers
        ]
        return _merged(tuple(found))

    def _counts(self, guards: list[Predicate], where: Predicate) -> tuple[Term, ...]:
        return _merged(tuple(Term(None, conjunction(self.scope.where, where, g)) for g in guards))

    def _count(self, node: exp.Count, where: Predicate) -> tuple[Term, ...]:
        if node.expressions:
            raise self.refuse("COUNT takes one column", node)
        self.only(node, "this", "big_int")
        inner = node.this
        if inner is None or isinstance(inner, exp.Star):
            if isinstance(inner, exp.Star):
                self.only(inner)
            return self._counts([TRUE], where)
        if not isinstance(inner, exp.Distinct):
            return self._counts(self.present(inner), where)
        if self.scope.schema.people:
            raise self.refuse(
                "COUNT(DISTINCT ...) stands alone where a person may have several rows: ask it apart", node
            )
        ids = {c.name for c in self.scope.schema.of_role(Role.ID)}
        items = inner.expressions
        if len(items) == 1 and isinstance(items[0], exp.Tuple):
            # a row of values is never NULL
            if ids and {c.name for c in self.columns_in(items[0])} >= ids:
                return self._counts([TRUE], where)
        elif len(items) == 1 and isinstance(bare(items[0]), exp.Column):
            column = self.columns_in(items[0])
            if ids == {c.name for c in column}:
                return self._counts(self.present(items[0]), where)
            if column and column[0].secret:
                raise self.refuse(
                    f"COUNT(DISTINCT {column[0].name}) of a {self.word} column is not judged: "
                    "GROUP BY it with COUNT(*)",
                    node,
                )
        raise self.refuse(f"COUNT(DISTINCT ...) stands alone, for the id or one public column: {SEPARATELY}", node)

    def _special(self, node: exp.Expr) -> exp.Expr | None:
        """The inner aggregate if this is an order statistic, a spread or a public figure, else None."""
        inner = node.this if isinstance(node, exp.Filter) else node
        if isinstance(inner, exp.WithinGroup) or type(inner) in (*ORDER, *SPREAD, *PERCENTILE):
            return inner
        if isinstance(inner, exp.Count) and isinstance(inner.this, exp.Distinct) and len(inner.this.expressions) == 1:
            item = bare(inner.this.expressions[0])
            ids = {c.name for c in self.scope.schema.of_role(Role.ID)}
            if not isinstance(item, exp.Tuple) and not self.touches_private(item):
                columns = {c.name for c in self.columns_in(item)}
                return None if columns == ids and isinstance(item, exp.Column) else inner
        return None

    def _order(self, inner: exp.Expr, node: exp.Expr, label: str) -> Query:
        """MIN, MAX, MEDIAN, VAR of one private column; the same of public columns is public knowledge."""
        where = self.scope.where
        if isinstance(node, exp.Filter):
            where = conjunction(where, self.condition(node.expression.this))
        kind, argument, level = self.statistic(inner)
        if not self.touches_private(argument):
            at = f", {round_fraction(level):f}" if kind in QUANTILES else ""
            return self._public_figure(kind, argument, where, node, label, at)
        if isinstance(argument, exp.Distinct):
            raise self.unknown(argument)
        for column in self.columns_in(argument):
            if isinstance(bare(argument), exp.Column) and column.secret and not column.kind.numeric:
                raise self.refuse(f"{kind} of {column.name}, which is {column.kind.value}, is not judged", node)
        pieces = self.linear(argument)
        if len(pieces) != 1 or len(pieces[0].powers) != 1:
            raise self.refuse(f"{kind} is judged for a {self.word} column alone: {kind}(column)", node)
        ((power, factor),) = pieces[0].powers
        if power.column is None or power.degree != 1 or power.weight is not None:
            raise self.refuse(f"{kind} is judged for a {self.word} column alone: {kind}(column)", node)
        where = conjunction(where, pieces[0].guard)
        if kind in SPREAD.values():
            if factor != 1:
                raise self.refuse(f"{kind} is judged for a {self.word} column alone: {kind}(column)", node)
            return Query(Aggregate.VAR, (Term(power.column, where),), label=f"{kind}({quote_name(power.column)})")
        aggregate = Aggregate(kind)
        if factor < 0:  # the smallest of -x is the largest x
            aggregate = {Aggregate.MIN: Aggregate.MAX, Aggregate.MAX: Aggregate.MIN}.get(aggregate, aggregate)
            level = 1 - level
            if aggregate is Aggregate.QUANTILE_DISC:
                raise self.refuse("QUANTILE_DISC of a negative multiple is not judged: ask for the column", node)
        return Query(aggregate, (Term(power.column, where, factor),), label=label, level=level)

    def _public_figure(
        self, kind: str, argument: exp.Expr, where: Predicate, node: exp.Expr, label: str, at: str = ""
    ) -> Query:
        if self.secrets(where) and self.scope.schema.people and kind in ("MIN", "MAX"):
            picked = self.public(argument)
            if picked.kind.numeric:
                where = conjunction(where, Opaque(f"({picked.sql}) IS NOT NULL", picked.columns))
                return Query(Aggregate(kind), (Term(None, where, weight=picked.sql),), label=label)
        if self.secrets(where):
            raise self.refuse(
                f"{kind} of a public column under a {self.word} condition is not judged: ask COUNT(*) per value", node
            )
        made: Public = self.public(argument)
        if (
            kind in (Aggregate.MEDIAN, *QUANTILES, *SPREAD.values()) and not made.kind.numeric
        ) or made.kind is Kind.OTHER:
            raise self.refuse(f"{kind} takes a number here", argument)
        text = f"COUNT(DISTINCT {made.sql})" if kind == "COUNT" else f"{kind}({made.sql}{at})"
        return Query(Aggregate.PUBLIC, (Term(None, where, weight=text),), label=label)


def _merged(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Equal sums collected, those that cancel dropped."""
    if len(terms) <= 1:
        return terms
    total: dict[Term, Fraction] = {}
    for term in terms:
        unit = replace(term, factor=Fraction(1))
        total[unit] = total.get(unit, Fraction(0)) + term.factor
    return tuple(replace(t, factor=f) for t, f in total.items() if f)
