"""Parts of a parsed statement by the names that SQL has for them, and families of nodes that several readers list."""

from __future__ import annotations

from sqlglot import exp

from keyhole.model.schema import fold_name

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
LOGIC = (exp.And, exp.Or, exp.Not)
POLYNOMIALS = (exp.Column, exp.Identifier, exp.Literal, exp.Mul, exp.Add, exp.Sub, exp.Neg, exp.Paren)
SPREADS = (exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop)
OF_PAIRS = (  # what is computed from two columns
    *(exp.Corr, exp.CovarPop, exp.CovarSamp, exp.RegrSlope, exp.RegrIntercept, exp.RegrR2, exp.RegrCount),
    *(exp.RegrAvgx, exp.RegrAvgy, exp.RegrSxx, exp.RegrSyy, exp.RegrSxy),
)
RANKS = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)  # equals have one place
PLACES = (exp.RowNumber, exp.Ntile)  # equals have different places
ROW_SOURCES = (exp.Values, exp.Unnest, exp.GenerateSeries, exp.GenerateDateArray)  # in FROM, without a table


def strip_parentheses(node: exp.Expr) -> exp.Expr:
    """The expression without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def strip_query(node: exp.Expr) -> exp.Expr:
    """The query without the parentheses around it, and without the name that they have in FROM."""
    while isinstance(node, exp.Subquery | exp.Paren):
        node = node.this
    return node


def find_condition(select: exp.Expr, clause: str = "where") -> exp.Expr | None:
    """What WHERE says, or HAVING or QUALIFY; None without."""
    found = select.args.get(clause)
    return None if found is None else found.this


def find_source(select: exp.Expr) -> exp.Expr | None:
    """The first table or subquery of FROM; None without FROM."""
    from_ = select.args.get("from_")
    return None if from_ is None else from_.this


def list_sources(select: exp.Expr) -> list[exp.Expr]:
    """The tables and subqueries of FROM and of its joins."""
    clauses = (select.args.get("from_"), *(select.args.get("joins") or ()))
    return [clause.this for clause in clauses if clause is not None]


def list_with_queries(tree: exp.Expr) -> list[exp.CTE]:
    """The queries of the WITH that a statement begins with."""
    with_ = tree.args.get("with_")
    return [] if with_ is None else list(with_.expressions)


def list_ordered(node: exp.Expr) -> list[exp.Expr]:
    """What a SELECT or a window is ordered by."""
    order = node.args.get("order")
    return [] if order is None else [term.this for term in order.expressions]


def map_aliases(select: exp.Expr) -> dict[str, exp.Expr]:
    """What the aliases of a SELECT list stand for, by their names, case folded."""
    return {fold_name(item.alias): item.this for item in select.expressions if isinstance(item, exp.Alias)}


def name_table(table: exp.Table) -> tuple[str, ...]:
    """The name of a table as it is written, with what stands before its dots."""
    return tuple(part for part in (table.catalog, table.db, table.name) if part)


def name_node(node: exp.Expr) -> str:
    """The word of SQL for a kind of node, or the name of the function that it calls."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    return node.sql_name().upper() if isinstance(node, exp.Func) else node.key.upper()


def list_children(node: exp.Expr, *without: str) -> list[exp.Expr]:
    """The nodes right below a node, but for those in some of its arguments."""
    values = (value for name, value in node.args.items() if name not in without)
    flat = (part for value in values for part in (value if isinstance(value, list) else [value]))
    return [part for part in flat if isinstance(part, exp.Expr)]


def read_whole_number(node: object) -> int | None:
    """The number that is written, digits alone; None for anything else."""
    return int(node.name) if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() else None
