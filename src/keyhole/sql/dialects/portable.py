"""What means the same in every engine: the portable core, decided by one allow-list walk over the syntax tree.

What is on the list: columns compared with constants, BETWEEN, IN, IS NULL, AND, OR, NOT, LIKE without a backslash,
+ - * on numbers, CASE, plain aggregates, GROUP BY, HAVING, simple subqueries, the year, quarter, month and day of DATE
(`calendar.py`). Anything else (/, %, casts, functions)
may differ, and so does more in engines that compare texts without regard to case.
"""

from __future__ import annotations

import re

from sqlglot import exp

from keyhole.model.schema import Kind, Schema, folded
from keyhole.sql.dialects.caseless import differs_by_case, is_text_test
from keyhole.sql.dialects.common_words import CommonWords
from keyhole.sql.dialects.engines import CASELESS, Dialect
from keyhole.sql.dialects.translate import COMPARED, ORDER_OF_TEXTS, ORDERED, UNLIKE, word
from keyhole.sql.lowering.calendar import is_calendar

_WHOLE_DIVISION = frozenset(
    {Dialect.POSTGRES, Dialect.REDSHIFT, Dialect.SQLITE, Dialect.TSQL, Dialect.TRINO}
)  # 21 / 2 is 10
_MAY_IGNORE_CASE = CASELESS | {Dialect.UNKNOWN}
MAY_IGNORE_CASE = (
    ", and some engines compare texts without regard to case: name the engine, or put the comparison into --view as a "
    "column"
)
_CASELESS_LIKE = _MAY_IGNORE_CASE | {Dialect.SQLITE}
# where AVG of whole numbers is not cut short, VARIANCE and STDDEV are those of a sample, COALESCE keeps its types
_STATISTICS = frozenset(
    {Dialect.POSTGRES, Dialect.BIGQUERY, Dialect.SNOWFLAKE, Dialect.SPARK, Dialect.DATABRICKS, Dialect.TRINO}
)

_LOGICAL = (*COMPARED, exp.And, exp.Or, exp.Not)
_NUMERIC = (exp.Add, exp.Sub, exp.Mul, exp.Neg)
_PLAIN = (
    *(exp.Select, exp.From, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.With, exp.CTE),
    *(exp.Subquery, exp.Table, exp.TableAlias, exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Literal),
    *(exp.Null, exp.Boolean, exp.Paren, exp.Tuple, exp.Case, exp.If, exp.Filter, exp.Rollup, exp.Cube),
    *(exp.Limit, exp.GroupingSets, exp.Sum, exp.Count, exp.Min, exp.Max, exp.Distinct),
    *_LOGICAL,
    *_NUMERIC,
)
_STATISTICAL = (exp.Avg, exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Coalesce)
_ALLOWED = frozenset((*_PLAIN, *_STATISTICAL))
# arguments that are no nodes, and change nothing that is judged
_FLAGS = frozenset({"this", "quoted", "is_string", "desc", "nulls_first", "big_int", "negate", "materialized"})
_MOMENTS = frozenset((exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.DATETIME2))
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?")
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?|\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")


def portable(tree: exp.Expr, dialect: Dialect, schema: Schema) -> str:
    """Why a statement may mean something else in DuckDB; empty if all of it is in the portable core."""
    numbers = {c.name.casefold(): c.kind for c in schema.columns if c.kind.numeric}
    texts = {c.name.casefold() for c in schema.columns if c.kind in (Kind.TEXT, Kind.OTHER)}
    columns = {c.name.casefold() for c in schema.columns}
    for alias in tree.find_all(exp.Alias):
        name = alias.alias.casefold()
        if isinstance(alias.this, exp.Column) and alias.this.name.casefold() == name:
            continue
        if name in columns:
            return f": a result is named {alias.alias}, as a column is, and engines differ in which of them is meant"
        numbers.pop(name, None)
        texts.add(name)
    if dialect is Dialect.UNKNOWN and _may_be_text(tree):
        return ": a name in double quotes is a text in MySQL and BigQuery: write it without, or name the engine"
    words = CommonWords(dialect, schema)
    if dialect in _MAY_IGNORE_CASE and _has_text(tree, texts):
        made = frozenset().union(*words.outermost(tree))
        if why := differs_by_case(tree, texts, schema.spelt, made):
            return MAY_IGNORE_CASE if dialect is Dialect.UNKNOWN else why
    days = {folded(c.name) for c in schema.columns if c.kind is Kind.DATE}

    def same(node: exp.Expr) -> bool:
        if dialect in _MAY_IGNORE_CASE and is_text_test(node, schema.spelt):
            return True
        return _is_day(node) or is_calendar(node, days, dialect) or words.holds(node)

    for node in tree.walk(prune=same):
        if same(node):
            continue
        why = _differs(node, dialect, numbers, texts)
        if why:
            return why
    return ""


def _may_be_text(tree: exp.Expr) -> bool:
    """Is a column in double quotes, and no table, which would be a mistake where these are texts?"""
    parts = [part for column in tree.find_all(exp.Column) for part in column.parts[:-1]]
    parts += [table.this for table in tree.find_all(exp.Table)]
    if any(isinstance(part, exp.Identifier) and part.quoted for part in parts):
        return False
    return any(isinstance(c.this, exp.Identifier) and c.this.quoted for c in tree.find_all(exp.Column))


def _has_text(tree: exp.Expr, texts: set[str]) -> bool:
    """Does a statement look at texts at all? A constant that is a number or a day is none."""
    said = (leaf for leaf in tree.find_all(exp.Literal) if leaf.is_string and not _NUMBER.fullmatch(leaf.name))
    return any(True for _ in said) or any(c.name.casefold() in texts for c in tree.find_all(exp.Column))


def _differs(node: exp.Expr, dialect: Dialect, numbers: dict[str, Kind], texts: set[str]) -> str:
    """Why this node (not those below it) is outside the core."""
    if isinstance(node, exp.Div | exp.IntDiv) and dialect in _WHOLE_DIVISION:
        return ": there 21 / 2 is 10; the data are in DuckDB, where it is 10.5"
    unusual = any(
        value and name not in _FLAGS and not isinstance(value, exp.Expr) and not _nodes(value)
        for name, value in node.args.items()
    )
    if type(node) not in _ALLOWED or unusual or (isinstance(node, _STATISTICAL) and dialect not in _STATISTICS):
        return UNLIKE.format(word(node))
    if isinstance(node, exp.Literal) and node.is_string and not node.name:
        return ": an empty text is NULL in some engines: leave that comparison out, or put it into --view as a column"
    if isinstance(node, exp.Like) and dialect is Dialect.UNKNOWN:
        return MAY_IGNORE_CASE
    if isinstance(node, exp.Like) and dialect in _CASELESS_LIKE:
        return (
            ", where LIKE takes no notice of case by default; the data are in DuckDB, where it does: write the pattern "
            "with the capitals that the values have, or use ="
        )
    if isinstance(node, COMPARED):
        return _comparison(node, dialect, texts)
    return _arithmetic(node, numbers) if isinstance(node, _NUMERIC) else ""


def _arithmetic(node: exp.Expr, numbers: dict[str, Kind]) -> str:
    """Numbers only; and where it decides who is meant, nothing that one engine rounds and another does not."""
    decides = node.find_ancestor(*COMPARED, exp.Group) is not None
    for leaf in node.find_all(exp.Column, exp.Literal):
        constant = isinstance(leaf, exp.Literal)
        if leaf.is_string if constant else leaf.name.casefold() not in numbers:
            return f": {word(node)} of anything but numbers is not the same in all engines"
        rounded = not leaf.name.isdigit() if constant else numbers[leaf.name.casefold()] is Kind.DOUBLE
        if decides and rounded and not isinstance(node, exp.Neg):
            return (
                f": {word(node)} of fractions is rounded in some engines and not in others: compare the column itself"
            )
    return ""


def _comparison(node: exp.Expr, dialect: Dialect, texts: set[str]) -> str:
    operands = list(node.iter_expressions())
    if any(
        isinstance(part, _LOGICAL) and not (isinstance(node, exp.Is) and part is not node.this) for part in operands
    ):
        return ": comparisons in a row are not read alike by all engines: put them in parentheses"
    said = [leaf for part in operands for leaf in part.find_all(exp.Literal) if leaf.is_string]
    if dialect is Dialect.UNKNOWN and sum(part.find(exp.Column) is not None for part in operands) > 1:
        return ": a comparison of two columns is not judged unless the engine is known: name it with --dialect"
    if isinstance(node, ORDERED):
        named_here = {c.name.casefold() for part in operands for c in part.find_all(exp.Column)}
        if any(not _NUMBER.fullmatch(leaf.name) for leaf in said) or (said and named_here & texts):
            return ORDER_OF_TEXTS
        if named_here & texts and sum(part.find(exp.Column) is not None for part in operands) > 1:
            return ORDER_OF_TEXTS
    return ""


def _is_day(node: exp.Expr) -> bool:
    """DATE '2026-11-15' and TIMESTAMP '2026-11-15 12:00:00': constants everywhere."""
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal):
        return False
    if node.to.is_type("date"):
        return _DAY.fullmatch(node.this.name) is not None
    return node.to.this in _MOMENTS and _MOMENT.fullmatch(node.this.name) is not None


def _nodes(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, exp.Expr) for part in value)
