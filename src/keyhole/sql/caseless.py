"""Texts in engines that compare them without regard to case: when does that make no difference?

MySQL and SQL Server take 'legal' and 'Legal' for equal by default, and texts that differ in blanks at their end. Where
no two of the texts at hand (the values of the public columns that a statement names, and its own constants) are equal
in that way, =, IN, GROUP BY and DISTINCT are the same in both. Texts beyond ASCII are left out: which letters are equal
there depends on the collation. Order (<, MIN, MAX) and patterns are another matter, and never the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

WITHOUT_CASE = (
    ", where texts are compared without regard to case by default; the data are in DuckDB, where they are not: "
    "compare numbers, or put the comparison into --view as a column"
)


def differs_by_case(tree: exp.Expr, texts: Iterable[str], spelt: Mapping[str, frozenset[str]]) -> str:
    """Why a statement may compare texts otherwise there; empty if it cannot. `spelt` has the values of public columns.

    >>> tree = __import__("sqlglot").parse_one("SELECT COUNT(*) FROM t WHERE dept = 'Legal'")
    >>> differs_by_case(tree, {"dept"}, {"dept": frozenset({"Legal", "IT"})})
    ''
    >>> differs_by_case(tree, {"dept"}, {"dept": frozenset({"legal", "IT"})})[:45]
    ', where texts are compared without regard to '
    """
    names = {c.name.casefold() for c in tree.find_all(exp.Column)} & set(texts)
    said = {leaf.name for leaf in tree.find_all(exp.Literal) if leaf.is_string}
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
    return "" if _told_apart(said) else WITHOUT_CASE


def _on_text(part: exp.Expr, names: set[str]) -> bool:
    return any(c.name.casefold() in names for c in part.find_all(exp.Column))


def _told_apart(values: Iterable[str]) -> bool:
    seen = list(values)
    return all(v.isascii() for v in seen) and len({v.casefold().rstrip() for v in seen}) == len(seen)
