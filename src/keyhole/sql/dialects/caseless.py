"""Texts in engines that compare them without regard to case: when does that make no difference?

MySQL and SQL Server take 'legal' and 'Legal' for equal by default, and texts that differ in blanks at their end. Where
no two of the texts at hand (the values of the public columns that a statement names, and its own constants) are equal
in that way, =, IN, GROUP BY and DISTINCT are the same in both. Texts beyond ASCII are left out: which letters are equal
there depends on the collation. Order (<, MIN, MAX) is another matter, and never the same.

So it is with LIKE, where a pattern finds the same values with and without regard to case, and with LEN, which leaves
out blanks at the end: of columns whose values are all ASCII and have none there. In SQL Server [ means something in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sqlglot import exp

WITHOUT_CASE = (
    ", where texts are compared without regard to case by default; the data are in DuckDB, where they are not: "
    "compare numbers, or put the comparison into --view as a column"
)


def differs_by_case(
    tree: exp.Expr,
    texts: Iterable[str],
    spelt: Mapping[str, frozenset[str]],
    made: frozenset[str] = frozenset(),
) -> str:
    """Why a statement may compare texts otherwise there; empty if it cannot. `spelt` has the values of public columns,
    `made` the texts that its functions give.

    >>> tree = __import__("sqlglot").parse_one("SELECT COUNT(*) FROM t WHERE dept = 'Legal'")
    >>> differs_by_case(tree, {"dept"}, {"dept": frozenset({"Legal", "IT"})})
    ''
    >>> differs_by_case(tree, {"dept"}, {"dept": frozenset({"legal", "IT"})})[:45]
    ', where texts are compared without regard to '
    """
    names = {c.name.casefold() for c in tree.find_all(exp.Column)} & set(texts)
    said = {leaf.name for leaf in tree.find_all(exp.Literal) if leaf.is_string and not is_text_test(leaf.parent, spelt)}
    if any(part.find(exp.Column, exp.Literal) for part in tree.find_all(exp.Min, exp.Max) if _on_text(part, names)):
        return WITHOUT_CASE
    for comparison in tree.find_all(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ):
        if sum(_on_text(side, names) for side in (comparison.this, comparison.expression)) > 1:
            return WITHOUT_CASE  # two columns: their values are not those of one
    for name in names:
        if name not in spelt:
            return WITHOUT_CASE  # a private column, or one that the statement makes
        if not _told_apart(spelt[name] | said):
            return WITHOUT_CASE
    return "" if _told_apart(said) and _told_apart(said | made) else WITHOUT_CASE


def with_lengths(tree: exp.Expr, spelt: Mapping[str, frozenset[str]]) -> exp.Expr:
    """The tree with LENGTH(column) for LEN, which is read with a cast, and for a LENGTH in bytes, where that is sure.

    >>> tree = __import__("sqlglot").parse_one("SELECT LEN(dept) FROM t", read="tsql")
    >>> with_lengths(tree, {"dept": frozenset({"Legal", "IT"})}).sql(dialect="duckdb")
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


def _on_text(part: exp.Expr, names: set[str]) -> bool:
    return any(c.name.casefold() in names for c in part.find_all(exp.Column))


def _told_apart(values: Iterable[str]) -> bool:
    seen = list(values)
    return all(v.isascii() for v in seen) and len({v.casefold().rstrip() for v in seen}) == len(seen)
