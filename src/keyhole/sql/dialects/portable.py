"""What means the same in every engine: the portable core, decided by one allow-list walk over the syntax tree.

What is on the list: columns compared with constants, BETWEEN, IN, IS NULL, AND, OR, NOT, LIKE without a backslash,
+ - * on numbers, CASE, plain aggregates, GROUP BY, HAVING, simple subqueries, and what `portable_functions.py` knows.
Anything else (/, %, casts, functions) may differ, and more does in engines that compare texts without regard to case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sqlglot import exp

from keyhole.model.schema import Kind, Schema, fold_name
from keyhole.sql.dialects.engine import EngineDialect
from keyhole.sql.dialects.portable_functions import PortableFunctions, is_part_of_day
from keyhole.sql.dialects.translator import COMPARED, FLAGS, ORDER_OF_TEXTS, ORDERED, UNLIKE, has_other_flags, name_node
from keyhole.sql.statements.tree import LOGIC, SPREADS

MAY_IGNORE_CASE = (
    ", and some engines compare texts without regard to case: name the engine, or put the comparison into a view as a "
    "column"
)
_LOGICAL = (*COMPARED, *LOGIC)
_NUMERIC = (exp.Add, exp.Sub, exp.Mul, exp.Neg)
_PLAIN = (
    *(exp.Select, exp.From, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.With, exp.CTE),
    *(exp.Subquery, exp.Table, exp.TableAlias, exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Literal),
    *(exp.Null, exp.Boolean, exp.Paren, exp.Tuple, exp.Case, exp.If, exp.Filter, exp.Rollup, exp.Cube),
    *(exp.Limit, exp.GroupingSets, exp.Sum, exp.Count, exp.Min, exp.Max, exp.Distinct),
    *_LOGICAL,
    *_NUMERIC,
)
_STATISTICAL = (exp.Avg, *SPREADS, exp.Coalesce)
_ALLOWED = frozenset((*_PLAIN, *_STATISTICAL))
_MOMENTS = frozenset((exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.DATETIME2))
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?")
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?|\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")


def explain_nonportable(tree: exp.Expr, engine: EngineDialect, schema: Schema) -> str:
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
    if not engine.is_known and _may_be_text(tree):
        return ": a name in double quotes is a text in MySQL and BigQuery: write it without, or name the engine"
    words = PortableFunctions(engine, schema)
    if engine.may_ignore_case and _has_text(tree, texts):
        made = frozenset().union(*words.list_given_texts(tree))
        if why := explain_case_difference(tree, texts, schema.spelt, made):
            return why if engine.is_known else MAY_IGNORE_CASE
    days = {fold_name(c.name) for c in schema.columns if c.kind is Kind.DATE}

    def same(node: exp.Expr) -> bool:
        if engine.may_ignore_case and is_text_test(node, schema.spelt):
            return True
        return _is_day(node) or is_part_of_day(node, days, engine) or words.is_portable(node)

    for node in tree.walk(prune=same):
        if same(node):
            continue
        why = _explain_node(node, engine, numbers, texts)
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


def _explain_node(node: exp.Expr, engine: EngineDialect, numbers: dict[str, Kind], texts: set[str]) -> str:
    """Why this node (not those below it) is outside the core."""
    if isinstance(node, exp.Div | exp.IntDiv) and engine.divides_integers:
        return ": there 21 / 2 is 10; the data are in DuckDB, where it is 10.5"
    differs = isinstance(node, _STATISTICAL) and not engine.statistics_as_in_duckdb
    if type(node) not in _ALLOWED or has_other_flags(node, FLAGS) or differs:
        return UNLIKE.format(name_node(node))
    if isinstance(node, exp.Literal) and node.is_string and not node.name:
        return ": an empty text is NULL in some engines: leave that comparison out, or put it into a column of a view"
    if isinstance(node, exp.Like) and not engine.is_known:
        return MAY_IGNORE_CASE
    if isinstance(node, exp.Like) and engine.like_ignores_case:
        return (
            ", where LIKE takes no notice of case by default; the data are in DuckDB, where it does: write the pattern "
            "with the capitals that the values have, or use ="
        )
    if isinstance(node, COMPARED):
        return _explain_comparison(node, engine, texts)
    return _explain_arithmetic(node, numbers) if isinstance(node, _NUMERIC) else ""


def _explain_arithmetic(node: exp.Expr, numbers: dict[str, Kind]) -> str:
    """Numbers only; and where it decides who is meant, nothing that one engine rounds and another does not."""
    decides = node.find_ancestor(*COMPARED, exp.Group) is not None
    for leaf in node.find_all(exp.Column, exp.Literal):
        constant = isinstance(leaf, exp.Literal)
        if leaf.is_string if constant else leaf.name.casefold() not in numbers:
            return f": {name_node(node)} of anything but numbers is not the same in all engines"
        rounded = not leaf.name.isdigit() if constant else numbers[leaf.name.casefold()] is Kind.DOUBLE
        if decides and rounded and not isinstance(node, exp.Neg):
            word = name_node(node)
            return f": {word} of fractions is rounded in some engines and not in others: compare the column itself"
    return ""


def _explain_comparison(node: exp.Expr, engine: EngineDialect, texts: set[str]) -> str:
    operands = list(node.iter_expressions())
    if any(
        isinstance(part, _LOGICAL) and not (isinstance(node, exp.Is) and part is not node.this) for part in operands
    ):
        return ": comparisons in a row are not read alike by all engines: put them in parentheses"
    said = [leaf for part in operands for leaf in part.find_all(exp.Literal) if leaf.is_string]
    if not engine.is_known and sum(part.find(exp.Column) is not None for part in operands) > 1:
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


# --- texts compared without regard to case ----------------------------------------------------------------------------
# Texts in engines that compare them without regard to case: when does that make no difference?
#
# MySQL and SQL Server take 'legal' and 'Legal' for equal by default, and texts that differ in blanks at their end.
# Where no two of the texts at hand (the values of the public columns that a statement names, and its own constants) are
# equal in that way, =, IN, GROUP BY and DISTINCT are the same in both. Texts beyond ASCII are left out: which letters
# are equal there depends on the collation. Order (<, MIN, MAX) is another matter, and never the same.
#
# So it is with LIKE, where a pattern finds the same values with and without regard to case, and with LEN, which leaves
# out blanks at the end: of columns whose values are all ASCII and have none there. In SQL Server [ means something in
# it.


WITHOUT_CASE = (
    ", where texts are compared without regard to case by default; the data are in DuckDB, where they are not: "
    "compare numbers, or put the comparison into a column of a view"
)


def explain_case_difference(
    tree: exp.Expr,
    texts: Iterable[str],
    spelt: Mapping[str, frozenset[str]],
    made: frozenset[str] = frozenset(),
) -> str:
    """Why a statement may compare texts otherwise there; empty if it cannot. `spelt` has the values of public columns,
    `made` the texts that its functions give.

    >>> tree = __import__("sqlglot").parse_one("SELECT COUNT(*) FROM t WHERE dept = 'Legal'")
    >>> explain_case_difference(tree, {"dept"}, {"dept": frozenset({"Legal", "IT"})})
    ''
    >>> explain_case_difference(tree, {"dept"}, {"dept": frozenset({"legal", "IT"})})[:45]
    ', where texts are compared without regard to '
    """
    names = {c.name.casefold() for c in tree.find_all(exp.Column)} & set(texts)
    constants = {
        leaf.name for leaf in tree.find_all(exp.Literal) if leaf.is_string and not is_text_test(leaf.parent, spelt)
    }
    if any(part.find(exp.Column, exp.Literal) for part in tree.find_all(exp.Min, exp.Max) if _looks_at(part, names)):
        return WITHOUT_CASE
    for comparison in tree.find_all(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ):
        if sum(_looks_at(side, names) for side in (comparison.this, comparison.expression)) > 1:
            return WITHOUT_CASE  # two columns: their values are not those of one
    for name in names:
        if name not in spelt:
            return WITHOUT_CASE  # a private column, or one that the statement makes
        if not _are_distinct_without_case(spelt[name] | constants):
            return WITHOUT_CASE
    return (
        "" if _are_distinct_without_case(constants) and _are_distinct_without_case(constants | made) else WITHOUT_CASE
    )


def replace_lengths(tree: exp.Expr, spelt: Mapping[str, frozenset[str]]) -> exp.Expr:
    """The tree with LENGTH(column) for LEN, which is read with a cast, and for a LENGTH in bytes, where that is sure.

    >>> tree = __import__("sqlglot").parse_one("SELECT LEN(dept) FROM t", read="tsql")
    >>> replace_lengths(tree, {"dept": frozenset({"Legal", "IT"})}).sql(dialect="duckdb")
    'SELECT LENGTH(dept) FROM t'
    """
    made = tree.copy()
    for length in list(made.find_all(exp.Length)):
        of = length.this
        if isinstance(of, exp.Cast) and of.to.this is exp.DType.TEXT:
            of = of.this
        if is_text_test(plain := exp.Length(this=of.copy()), spelt):
            length.replace(plain)
    return made


def is_text_test(node: exp.Expr | None, spelt: Mapping[str, frozenset[str]]) -> bool:
    """Is it a LIKE or a LENGTH of a public column that gives the same whether or not case and last blanks count?"""
    if not isinstance(node, exp.Like | exp.Length) or not isinstance(node.this, exp.Column):
        return False
    values = spelt.get(node.this.name.casefold())
    if values is None or not all(v.isascii() and v == v.rstrip() for v in values) or node.args.get("binary"):
        return False
    if isinstance(node, exp.Length):
        return True
    pattern = node.expression
    said = pattern.name if isinstance(pattern, exp.Literal) and pattern.is_string else ""
    if not said or not said.isascii() or said != said.rstrip() or set(said) & set("[]^\\"):
        return False
    letters = "".join({"%": ".*", "_": "."}.get(c) or re.escape(c) for c in said)
    strict, loose = (re.compile(letters, re.DOTALL | flag) for flag in (re.NOFLAG, re.IGNORECASE))
    return all((strict.fullmatch(v) is None) is (loose.fullmatch(v) is None) for v in values)


def _looks_at(part: exp.Expr, names: set[str]) -> bool:
    return any(c.name.casefold() in names for c in part.find_all(exp.Column))


def _are_distinct_without_case(values: Iterable[str]) -> bool:
    seen = list(values)
    return all(v.isascii() for v in seen) and len({v.casefold().rstrip() for v in seen}) == len(seen)
