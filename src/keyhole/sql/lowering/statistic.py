"""Aggregates that are no sums: order statistics, spreads, COUNT(DISTINCT ...); which one is meant, and of what."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from keyhole.model.numbers import round_fraction
from keyhole.model.predicate import Opaque, Predicate, make_and, quote_name
from keyhole.model.query import QUANTILES, Aggregate, Query, Term
from keyhole.model.schema import Kind, Role
from keyhole.sql.lowering.linear import LinearReader
from keyhole.sql.lowering.public_expressions import PublicExpression
from keyhole.sql.statements.tree import strip_parentheses

ORDER: dict[type[exp.Expr], Aggregate] = {exp.Min: Aggregate.MIN, exp.Max: Aggregate.MAX, exp.Median: Aggregate.MEDIAN}
SPREAD: dict[type[exp.Expr], str] = {
    exp.Variance: "VAR_SAMP",
    exp.VariancePop: "VAR_POP",
    exp.Stddev: "STDDEV_SAMP",
    exp.StddevSamp: "STDDEV_SAMP",
    exp.StddevPop: "STDDEV_POP",
}
PERCENTILE: dict[type[exp.Expr], Aggregate] = {
    exp.PercentileCont: Aggregate.QUANTILE_CONT,
    exp.PercentileDisc: Aggregate.QUANTILE_DISC,
    exp.Quantile: Aggregate.QUANTILE_DISC,
}


class StatisticReader(LinearReader):
    """Reads MIN, MAX, MEDIAN, quantiles, variances and COUNT(DISTINCT ...)."""

    def read_statistic(self, inner: exp.Expr) -> tuple[str, exp.Expr, Fraction]:
        """The name of a statistic, what it is taken of, and its level if it is a quantile."""
        half = Fraction(1, 2)
        if inner.this is None:
            raise self.refuse("an argument is missing", inner)
        if isinstance(inner, exp.Count):
            self.allow_only(inner, "this", "big_int")
            return "COUNT", inner.this.expressions[0], half
        if type(inner) in ORDER:
            if inner.args.get("count"):
                raise self.refuse(f"{ORDER[type(inner)].value} takes one column", inner)
            self.allow_only(inner, "this")
            return ORDER[type(inner)].value, inner.this, half
        if type(inner) in SPREAD:
            self.allow_only(inner, "this")
            return SPREAD[type(inner)], inner.this, half
        level_node, argument, desc = inner.args.get("expression") or inner.args.get("quantile"), inner.this, False
        named: exp.Expr = inner
        if isinstance(inner, exp.WithinGroup):
            ordered = inner.expression.expressions if isinstance(inner.expression, exp.Order) else []
            if type(inner.this) not in PERCENTILE or len(ordered) != 1:
                raise self.refuse("WITHIN GROUP takes PERCENTILE_CONT(0.5), or _DISC, and ORDER BY one column", inner)
            named, level_node, argument = inner.this, inner.this.this, ordered[0].this
            desc = bool(ordered[0].args.get("desc"))
        level, kind = self.read_level(level_node, inner), PERCENTILE[type(named)]
        if desc and kind is Aggregate.QUANTILE_DISC:
            raise self.refuse("PERCENTILE_DISC is judged in ascending order: leave DESC out", inner)
        level = 1 - level if desc else level
        return (Aggregate.MEDIAN if kind is Aggregate.QUANTILE_CONT and level == half else kind).value, argument, level

    def read_level(self, node: exp.Expr | None, inner: exp.Expr) -> Fraction:
        """A constant from 0 to 1 with few digits, so that the engine and we mean the same one."""
        level = None if node is None else self.fold_constant(node)
        if not isinstance(level, Fraction) or not 0 <= level <= 1 or (level * 10**9).denominator != 1:
            how = "QUANTILE_CONT(column, 0.5), or PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY column)"
            raise self.refuse(f"write {how}: one constant level from 0 to 1, of at most nine decimals", inner)
        return level

    def _special(self, node: exp.Expr) -> exp.Expr | None:
        """The inner aggregate if this is an order statistic, a spread or a public figure, else None."""
        inner = node.this if isinstance(node, exp.Filter) else node
        if isinstance(inner, exp.WithinGroup) or type(inner) in (*ORDER, *SPREAD, *PERCENTILE):
            return inner
        if isinstance(inner, exp.Count) and isinstance(inner.this, exp.Distinct) and len(inner.this.expressions) == 1:
            item = strip_parentheses(inner.this.expressions[0])
            ids = {c.name for c in self.scope.schema.of_role(Role.ID)}
            if not isinstance(item, exp.Tuple) and not self.touches_private(item):
                columns = {c.name for c in self.list_columns(item)}
                return None if columns == ids and isinstance(item, exp.Column) else inner
        return None

    def _order(self, inner: exp.Expr, node: exp.Expr, label: str) -> Query:
        """MIN, MAX, MEDIAN, VAR of one private column; the same of public columns is public knowledge."""
        where = self._filtered(node)
        kind, argument, level = self.read_statistic(inner)
        if not self.touches_private(argument):
            at = f", {round_fraction(level):f}" if kind in QUANTILES else ""
            return self._public_figure(kind, argument, where, node, label, at)
        if isinstance(argument, exp.Distinct):
            raise self.refuse_unknown(argument)
        for column in self.list_columns(argument):
            if isinstance(strip_parentheses(argument), exp.Column) and column.secret and not column.kind.numeric:
                raise self.refuse(f"{kind} of {column.name}, which is {column.kind.value}, is not judged", node)
        pieces = self.read_linear(argument)
        if len(pieces) != 1 or len(pieces[0].powers) != 1:
            raise self.refuse(f"{kind} is judged for a {self.word} column alone: {kind}(column)", node)
        ((power, factor),) = pieces[0].powers
        if power.column is None or power.degree != 1 or power.weight is not None:
            raise self.refuse(f"{kind} is judged for a {self.word} column alone: {kind}(column)", node)
        where = make_and(where, pieces[0].guard)
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
        if self.list_private_columns(where) and self.scope.schema.people and kind in ("MIN", "MAX"):
            picked = self.read_public(argument)
            if picked.kind.numeric:
                where = make_and(where, Opaque(f"({picked.sql}) IS NOT NULL", picked.columns))
                return Query(Aggregate(kind), (Term(None, where, weight=picked.sql),), label=label)
        if self.list_private_columns(where):
            raise self.refuse(
                f"{kind} of a public column under a {self.word} condition is not judged: ask COUNT(*) per value", node
            )
        made: PublicExpression = self.read_public(argument)
        if (
            kind in (Aggregate.MEDIAN, *QUANTILES, *SPREAD.values()) and not made.kind.numeric
        ) or made.kind is Kind.OTHER:
            raise self.refuse(f"{kind} takes a number here", argument)
        text = f"COUNT(DISTINCT {made.sql})" if kind == "COUNT" else f"{kind}({made.sql}{at})"
        return Query(Aggregate.PUBLIC, (Term(None, where, weight=text),), label=label)

    # COUNT(DISTINCT ...) where rows are not people, and what a join to rows of people may not be asked.

    def read_distinct_count(self, node: exp.Expr, label: str) -> Query | None:
        """COUNT(DISTINCT ...) of people, or of any public thing, where a person may have several rows; else None."""
        if (answered := self._declared(node, label)) is not None:
            return answered
        if not self.counts_several_rows(node):
            return None
        inner = node.this if isinstance(node, exp.Filter) else node
        items = inner.this.expressions
        if len(items) != 1 or self.touches_private(items[0]):
            return None
        where = self._filtered(node)
        listed = items[0].expressions if isinstance(items[0], exp.Tuple) else [items[0]]
        made = [self.read_public(item) for item in listed]
        text = made[0].sql if len(made) == 1 else f"({', '.join(part.sql for part in made)})"
        if not self.list_private_columns(where):
            return Query(Aggregate.PUBLIC, (Term(None, where, weight=f"COUNT(DISTINCT {text})"),), label=label)
        return Query(Aggregate.PEOPLE, (Term(None, where, weight=text),), label=label)

    def _declared(self, node: exp.Expr, label: str) -> Query | None:
        """Where answers are private: the id or one declared column, under any condition."""
        schema = self.scope.schema
        if schema.word != str(Role.DECLARED) or not _is_distinct_count(node):
            return None
        inner = node.this if isinstance(node, exp.Filter) else node
        items = inner.this.expressions
        named = schema.find(items[0].name) if len(items) == 1 and isinstance(items[0], exp.Column) else None
        if named is None or named.role not in (Role.ID, Role.DECLARED):
            return None
        weight = quote_name(named.name)
        return Query(Aggregate.PEOPLE, (Term(None, self._filtered(node), weight=weight),), label=label)

    def counts_several_rows(self, node: exp.Expr) -> bool:
        """Is it a COUNT(DISTINCT ...) where a person may have several rows?"""
        return _is_distinct_count(node) and self.scope.schema.people

    def refuse_fan_out(self, node: exp.Expr) -> None:
        """Refuses what counts a record once for each of its rows of another table."""
        if self.scope.multiplied:
            ids = ", ".join(c.name for c in self.scope.schema.of_role(Role.ID)) or "the id"
            raise self.refuse(
                f"a fan-out: a record counts once for each of its rows of {self.scope.multiplied[0]}; ask "
                f"COUNT(DISTINCT {ids}), MIN or MAX, or write EXISTS instead of the join",
                node,
            )

    def _filtered(self, node: exp.Expr) -> Predicate:
        """The statement's condition, and that of a FILTER."""
        if not isinstance(node, exp.Filter):
            return self.scope.where
        return make_and(self.scope.where, self.read_condition(node.expression.this))


def _is_distinct_count(node: exp.Expr) -> bool:
    inner = node.this if isinstance(node, exp.Filter) else node
    return isinstance(inner, exp.Count) and isinstance(inner.this, exp.Distinct)
