"""Constants that are nearly there: a condition that matches nobody because of a blank or a capital letter."""

from __future__ import annotations

import re
from itertools import chain

from keyhole.datasets import Roster
from keyhole.model.predicate import Comparison, Leaf, Like, Membership, find_leaves, format_literal
from keyhole.model.query import Statement
from keyhole.model.schema import Column, Kind, Role
from keyhole.reading.trial import list_conditions


class Spelling:
    """Looks constants and patterns up among the values of ids and public columns of text; each column is read once.

    Private and hidden columns are never looked at, so none of their values is ever named; nor is an id.
    """

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._held: dict[str, frozenset[str]] = {}
        self._near: dict[str, dict[str, str]] = {}
        self._patterns: dict[tuple[str, str], bool] = {}

    def reason(self, statement: Statement) -> str:
        """Why a statement is likely not to ask what was meant; empty if nothing looks so."""
        for leaf in dict.fromkeys(chain.from_iterable(map(find_leaves, list_conditions(statement)))):
            if not isinstance(leaf, Comparison | Membership | Like):
                continue
            column = self._roster.schema.find(leaf.column)
            if column is None or column.role not in (Role.PUBLIC, Role.ID) or column.kind is not Kind.TEXT:
                continue
            if why := self._objection(column, leaf):
                return why
        return ""

    def _objection(self, column: Column, leaf: Leaf) -> str:
        if isinstance(leaf, Like):
            if leaf.fold or not self._matches_without_case(column.name, leaf.pattern):
                return ""
            return (
                f"nobody's {column.name} is like {format_literal(leaf.pattern)}, but there is one with other "
                "capital letters: write it as the table does"
            )
        constants = leaf.values if isinstance(leaf, Membership) else ()
        if isinstance(leaf, Comparison) and leaf.op in ("=", "<>"):
            constants = (leaf.value,)
        held = self._values(column.name) if constants else frozenset()
        for constant in constants:
            if not isinstance(constant, str) or constant in held:
                continue
            if (meant := self._nearest(column.name, constant)) is not None:
                blanks = ", or take the blanks off with trim = true under [source]"
                there = (
                    "one that differs in blanks or capital letters" if column.role is Role.ID else format_literal(meant)
                )
                return (
                    f"nobody has {column.name} = {format_literal(constant)}, but there is {there}: "
                    f"write it as the table does{blanks if meant.strip() == constant.strip() else ''}"
                )
        return ""

    def _values(self, column: str) -> frozenset[str]:
        if column not in self._held:
            self._held[column] = self._roster.spellings(column)
        return self._held[column]

    def _nearest(self, column: str, constant: str) -> str | None:
        """A value that is the constant but for blanks and capital letters."""
        if column not in self._near:
            self._near[column] = {_plain(value): value for value in sorted(self._values(column), reverse=True)}
        return self._near[column].get(_plain(constant)) or None

    def _matches_without_case(self, column: str, pattern: str) -> bool:
        """Does the pattern match no value, but one or more if capital letters do not count?"""
        if (column, pattern) not in self._patterns:
            wanted = "".join({"%": ".*", "_": "."}.get(sign) or re.escape(sign) for sign in pattern)
            strict, loose = (re.compile(wanted, re.DOTALL | flag) for flag in (re.NOFLAG, re.IGNORECASE))
            values = self._values(column)
            matched = any(map(strict.fullmatch, values))
            self._patterns[column, pattern] = not matched and any(map(loose.fullmatch, values))
        return self._patterns[column, pattern]


def _plain(text: str) -> str:
    """Without blanks and capital letters."""
    return "".join(text.split()).casefold()
