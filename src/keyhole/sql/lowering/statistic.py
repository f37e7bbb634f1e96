"""Order statistics and spreads: which one is meant, of what, and at which level."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from keyhole.model.query import Aggregate
from keyhole.sql.lowering.linear import LinearReader

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

    def statistic(self, inner: exp.Expr) -> tuple[str, exp.Expr, Fraction]:
        """The name of a statistic, what it is taken of, and its level if it is a quantile."""
        half = Fraction(1, 2)
        if inner.this is None:
            raise self.refuse("an argument is missing", inner)
        if isinstance(inner, exp.Count):
            self.only(inner, "this", "big_int")
            return "COUNT", inner.this.expressions[0], half
        if type(inner) in ORDER:
            if inner.args.get("count"):
                raise self.refuse(f"{ORDER[type(inner)].value} takes one column", inner)
            self.only(inner, "this")
            return ORDER[type(inner)].value, inner.this, half
        if type(inner) in SPREAD:
            self.only(inner, "this")
            return SPREAD[type(inner)], inner.this, half
        said, argument, desc = inner.args.get("expression") or inner.args.get("quantile"), inner.this, False
        named: exp.Expr = inner
        if isinstance(inner, exp.WithinGroup):
            ordered = inner.expression.expressions if isinstance(inner.expression, exp.Order) else []
            if type(inner.this) not in PERCENTILE or len(ordered) != 1:
                raise self.refuse("WITHIN GROUP takes PERCENTILE_CONT(0.5), or _DISC, and ORDER BY one column", inner)
            named, said, argument = inner.this, inner.this.this, ordered[0].this
            desc = bool(ordered[0].args.get("desc"))
        level, kind = self.level_of(said, inner), PERCENTILE[type(named)]
        if desc and kind is Aggregate.QUANTILE_DISC:
            raise self.refuse("PERCENTILE_DISC is judged in ascending order: leave DESC out", inner)
        level = 1 - level if desc else level
        return (Aggregate.MEDIAN if kind is Aggregate.QUANTILE_CONT and level == half else kind).value, argument, level

    def level_of(self, node: exp.Expr | None, inner: exp.Expr) -> Fraction:
        """A constant from 0 to 1 with few digits, so that the engine and we mean the same one."""
        level = None if node is None else self.fold(node)
        if not isinstance(level, Fraction) or not 0 <= level <= 1 or (level * 10**9).denominator != 1:
            how = "QUANTILE_CONT(column, 0.5), or PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY column)"
            raise self.refuse(f"write {how}: one constant level from 0 to 1, of at most nine decimals", inner)
        return level
