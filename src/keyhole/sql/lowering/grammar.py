"""The grammar that is judged: which reader claims each argument of each node of a parsed statement.

The readers look at the arguments that they know. An argument that none of them knows (a hint, a sample, a frame, a kind
of join) would be dropped in silence, and with it what it gives away. So the parsed tree is walked once, and a statement
with an argument that is not on the list is not judged. Of some arguments only constants are claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from sqlglot import exp

from keyhole.model.schema import fold_name
from keyhole.sql.lowering.functions import CONDITIONS
from keyhole.sql.lowering.functions import FUNCTIONS as PUBLIC_FUNCTIONS
from keyhole.sql.statements.tree import OF_PAIRS, PLACES, RANKS, ROW_SOURCES, SPREADS

# who reads it: module.function below keyhole.sql
LOWER, BOUND, READ = "lower.lower_statement", "upper_bound.find_upper_bound", "read.read_statement"
BOTH = f"{LOWER}, {BOUND}"

# clauses and names: argument by argument
CLAIMED: dict[type[exp.Expr], dict[str, str]] = {
    exp.Select: {
        **dict.fromkeys(("with_", "expressions", "from_", "joins", "where", "group", "having", "order"), BOTH),
        **dict.fromkeys(("distinct", "windows"), BOUND),
        **dict.fromkeys(("limit", "offset", "qualify"), READ),
    },
    **dict.fromkeys(
        (exp.Union, exp.Except, exp.Intersect),
        dict.fromkeys(("with_", "this", "expression", "distinct", "order", "limit", "offset"), READ),
    ),
    exp.Subquery: dict.fromkeys(("this", "alias"), BOTH),
    exp.Table: dict.fromkeys(("this", "db", "catalog", "alias"), "from_clause.read_from_clause"),
    exp.TableAlias: dict.fromkeys(("this", "columns"), "from_clause.read_from_clause"),
    exp.CTE: dict.fromkeys(("this", "alias", "materialized"), BOTH),
    exp.With: dict.fromkeys(("expressions", "recursive"), BOTH),
    exp.Join: {
        **dict.fromkeys(("this", "on", "using"), "from_clause.read_from_clause"),
        **dict.fromkeys(("side", "kind"), "from_clause.read_from_clause"),
    },
    exp.Group: dict.fromkeys(
        ("expressions", "grouping_sets", "cube", "rollup", "all"), "upper_bound.resolve_group_keys"
    ),
    **{
        kind: {"expressions": "upper_bound.resolve_group_keys"}
        for kind in (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)
    },
    exp.Order: {"expressions": BOTH},
    exp.Ordered: dict.fromkeys(("this", "desc", "nulls_first"), "limit.read_order_term"),
    exp.Limit: dict.fromkeys(("expression", "limit_options"), "limit.read_row_range"),
    exp.Fetch: dict.fromkeys(("direction", "count", "limit_options"), "limit.read_row_range"),
    exp.LimitOptions: dict.fromkeys(("percent", "rows", "with_ties"), "limit.read_row_range"),
    exp.Offset: {"expression": "limit.read_row_range"},
    **{kind: {"this": BOTH} for kind in (exp.From, exp.Where, exp.Having, exp.Qualify, exp.Paren)},
    exp.Distinct: {"expressions": BOTH},
    exp.Filter: dict.fromkeys(("this", "expression"), "moments.find_moments"),
    exp.WithinGroup: dict.fromkeys(("this", "expression"), "moments.find_moments"),
    exp.Window: dict.fromkeys(("this", "partition_by", "order", "spec", "alias", "over"), BOUND),
    exp.WindowSpec: dict.fromkeys(("kind", "start", "start_side", "end", "end_side", "exclude"), BOUND),
    **{kind: {"this": BOUND} for kind in (exp.IgnoreNulls, exp.RespectNulls)},
    exp.Column: dict.fromkeys(("this", "table", "db", "catalog"), "names.Scope"),
    exp.Identifier: dict.fromkeys(("this", "quoted"), "names.Scope"),
    exp.Alias: dict.fromkeys(("this", "alias"), LOWER),
    exp.Star: dict.fromkeys(("except_", "replace", "rename"), "flatten.flatten_subquery"),
    exp.Values: dict.fromkeys(("expressions", "alias"), BOUND),
    exp.Unnest: dict.fromkeys(("expressions", "alias"), BOUND),
    exp.GenerateSeries: dict.fromkeys(("start", "end", "step", "is_end_exclusive"), BOUND),
    exp.GenerateDateArray: dict.fromkeys(("start", "end", "step"), BOUND),
    **dict.fromkeys((exp.Cast, exp.TryCast), dict.fromkeys(("this", "to", "safe"), BOTH)),
    exp.DataType: dict.fromkeys(("this", "expressions", "nested"), BOTH),
    exp.DataTypeParam: {"this": BOTH},
    exp.In: dict.fromkeys(("this", "expressions", "query"), BOTH),
    exp.Anonymous: dict.fromkeys(("this", "expressions"), BOTH),
}

# functions of their arguments and of nothing else: those that lowering has the engine evaluate, and these. Lowering
# refuses arguments that it does not read (`PublicReader.allow_only`); the upper bound visits them all. An aggregate is
# read by lowering wherever it stands.
FUNCTIONS: frozenset[type[exp.Expr]] = frozenset(
    (
        *(*PUBLIC_FUNCTIONS, *CONDITIONS, *SPREADS, *OF_PAIRS, *RANKS, *PLACES),
        *(exp.Literal, exp.RawString, exp.Null, exp.Boolean, exp.Var, exp.National, exp.Interval, exp.Array),
        *(exp.Xor, exp.Escape, exp.Glob, exp.RegexpILike, exp.Exists, exp.Any, exp.All),
        *(
            exp.Add,
            exp.Sub,
            exp.Mul,
            exp.Div,
            exp.Neg,
            exp.SafeDivide,
            exp.Cbrt,
            exp.Log,
            exp.Floor,
            exp.Ceil,
            exp.Round,
        ),
        *(exp.Trunc, exp.WidthBucket, exp.Degrees, exp.Radians, exp.Pi, exp.IsNan, exp.IsInf),
        *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot),
        *(exp.Case, exp.If, exp.DecodeCase, exp.Coalesce, exp.Nullif, exp.Nvl2, exp.Greatest, exp.Least),
        *(exp.DPipe, exp.Concat, exp.ConcatWs, exp.Initcap, exp.Trim, exp.Substring, exp.RegexpExtract, exp.Split),
        *(exp.Pad, exp.Repeat, exp.NumberToStr, exp.ToChar, exp.ToNumber, exp.TimeToStr, exp.StrToTime, exp.StrToDate),
        *(exp.Second, exp.Extract, exp.Timestamp, exp.DateTrunc, exp.TimestampTrunc, exp.DateFromParts),
        *(exp.DateAdd, exp.DateSub, exp.DateDiff, exp.DatetimeAdd, exp.DatetimeSub, exp.DatetimeDiff),
        *(exp.TimestampAdd, exp.TimestampSub, exp.TimestampDiff),
        *(exp.TsOrDsAdd, exp.TsOrDsToDate, exp.TsOrDsToTimestamp, exp.TimeStrToTime),
        *(exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentDatetime, exp.CurrentTime, exp.Grouping),
        *(exp.Sum, exp.Count, exp.CountIf, exp.Avg, exp.Min, exp.Max, exp.Median, exp.Quantile, exp.ApproxDistinct),
        *(exp.PercentileCont, exp.PercentileDisc, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue),
    )
)
# what is read of an aggregate or of the function of a window; in its other arguments (flags) an expression is dropped
_READ_OF_AGGREGATES = frozenset(("this", "expression", "expressions", "quantile", "offset", "default"))
# functions that the parser knows by name alone, and that look at nothing but their arguments
NAMED_FUNCTIONS = frozenset(("total", "ratio_to_report", "prefix", "suffix", "weekday", "yearweek", "date"))

_CONSTANT = (
    *(exp.Literal, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Null, exp.Var, exp.Interval),
    *(exp.Cast, exp.DataType, exp.DataTypeParam),
)
_WORDS: dict[type[exp.Expr], str] = {exp.Bracket: "an element of a list, x[1],"}  # where the parser's is no word of SQL
_SIDES = frozenset(("", "LEFT", "RIGHT", "FULL"))
_KINDS = frozenset(("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"))


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """A part of a statement that no reader claims, and why the statement is not judged with it.

    `whole_node`: nobody knows this kind of node at all; else one of its arguments is not claimed.
    """

    node: exp.Expr
    reason: str
    whole_node: bool


def find_unclaimed(tree: exp.Expr) -> Unclaimed | None:
    """The first part of a parsed statement that no reader claims; None if all of it is claimed.

    Cost: one walk over the tree.

    >>> import sqlglot
    >>> find_unclaimed(sqlglot.parse_one("SELECT a, COUNT(*) FROM t GROUP BY a LIMIT 3", read="duckdb"))
    >>> find_unclaimed(sqlglot.parse_one("SELECT a, COUNT(*) FROM t GROUP BY a LIMIT (SELECT 3)", read="duckdb")).reason
    'LIMIT is judged with a constant only: write the number'
    >>> find_unclaimed(sqlglot.parse_one("SELECT COUNT(*) FROM t TABLESAMPLE 10%", read="duckdb")).reason
    'TABLE with SAMPLE is not judged: leave it out, or put it in a view'
    """
    return next((unclaimed for node in tree.walk() for unclaimed in _unclaimed_of(node)), None)


def _unclaimed_of(node: exp.Expr) -> Iterator[Unclaimed]:
    """What is not claimed of one node, the nodes below it left out."""
    kind = type(node)
    word = node.sql_name() if isinstance(node, exp.Func) and kind is not exp.Anonymous else node.key.upper()
    word = _WORDS.get(kind, word)
    claimed = CLAIMED.get(kind)
    if claimed is None and kind not in FUNCTIONS:
        yield Unclaimed(node, f"{word} is not judged: leave it out, or put it in a view", whole_node=True)
        return
    if isinstance(node, exp.AggFunc):
        for name, value in node.args.items():
            if name not in _READ_OF_AGGREGATES and isinstance(value, exp.Expr) and not is_constant(value):
                yield Unclaimed(node, f"{word} with so many arguments is not judged: leave them out", whole_node=False)
    if claimed is not None:
        for name, value in node.args.items():
            if value and name not in claimed:
                what = name.strip("_").replace("_", " ").upper()
                reason = f"{word} with {what} is not judged: leave it out, or put it in a view"
                if name == "hints":  # as it is written, for whoever has to find it
                    written = ", ".join(hint.sql("tsql") for hint in value)
                    reason = f"{written} may give something else there: leave it out, or put it in a view"
                yield Unclaimed(node, reason, whole_node=False)
    if (check := _CHECKS.get(kind)) is not None and (reason := check(node)):
        yield Unclaimed(node, reason, whole_node=kind is exp.Anonymous)


def is_constant(node: object) -> bool:
    """Is it written as a constant: a number, or arithmetic of numbers? A bound of a frame may also be a word."""
    return not isinstance(node, exp.Expr) or all(type(part) in _CONSTANT for part in node.walk())


def _check_limit(node: exp.Expr) -> str:
    amount = node.args.get("expression") or node.args.get("count")
    if isinstance(amount, exp.Column) and len(amount.parts) == 1 and amount.name.upper() == "ALL":
        return ""
    return "" if is_constant(amount) else f"{node.key.upper()} is judged with a constant only: write the number"


def _check_frame(node: exp.Expr) -> str:
    fixed = is_constant(node.args.get("start")) and is_constant(node.args.get("end"))
    return "" if fixed else "the frame of a window is judged with constant bounds only: write the number"


def _check_type(node: exp.Expr) -> str:
    fixed = all(map(is_constant, node.expressions))
    return "" if fixed else "a type is judged with constants in its parentheses only: write the number"


def _check_renamed(node: exp.Expr) -> str:
    spine = node.parent
    spine = spine.this if isinstance(spine, exp.Table) else spine
    if not node.args.get("columns") or isinstance(spine, ROW_SOURCES):
        return ""
    return "renaming columns behind an alias is not judged: use AS in a subquery"


def _check_join(node: exp.Expr) -> str:
    side, kind = str(node.args.get("side") or "").upper(), str(node.args.get("kind") or "").upper()
    return "" if side in _SIDES and kind in _KINDS else f"{side} {kind} JOIN is not judged".strip()


def _check_named(node: exp.Expr) -> str:
    name = str(node.this).lower()
    return "" if name in NAMED_FUNCTIONS else f"{name.upper()} is not among the functions that are judged"


def orders_by_shown(order: exp.Expr | None, shown: Collection[str]) -> bool:
    """Does ORDER BY look at nothing but columns of the answer (`shown`, case folded): is it no news then?"""
    for part in order.walk() if order is not None else ():
        if isinstance(part, exp.Column) and (len(part.parts) > 1 or fold_name(part.name) not in shown):
            return False
        if isinstance(part, exp.Query | exp.AggFunc | exp.Window):
            return False
    return True


def _check_union(node: exp.Expr) -> str:
    """ORDER BY of a UNION may look at what is shown: its columns, and functions of them."""
    first = node
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    if orders_by_shown(node.args.get("order"), {fold_name(item.alias_or_name) for item in first.expressions}):
        return ""
    return "ORDER BY of a UNION is judged by columns that it shows: add the expression to each SELECT"


_CHECKS: dict[type[exp.Expr], Callable[[exp.Expr], str]] = {
    **dict.fromkeys((exp.Limit, exp.Offset, exp.Fetch), _check_limit),
    exp.WindowSpec: _check_frame,
    exp.DataType: _check_type,
    exp.TableAlias: _check_renamed,
    exp.Join: _check_join,
    exp.Anonymous: _check_named,
    **dict.fromkeys((exp.Union, exp.Except, exp.Intersect), _check_union),
}

__all__ = ["CLAIMED", "FUNCTIONS", "NAMED_FUNCTIONS", "Unclaimed", "find_unclaimed", "is_constant", "orders_by_shown"]
