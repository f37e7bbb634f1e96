"""Constants that are nearly there: a condition that matches nobody because of a blank or a capital letter."""

from __future__ import annotations

from itertools import chain

from keyhole.predicate import Comparison, Membership, leaves, literal
from keyhole.query import Statement
from keyhole.reading.trial import conditions
from keyhole.schema import Kind, Role
from keyhole.tables import Roster


class Spelling:
    """Looks constants up among the values of public columns of text; each column is read once.

    Ids, private and hidden columns are never looked at, so none of their values is ever named.
    """

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._known: dict[str, tuple[frozenset[str], dict[str, str]]] = {}

    def reason(self, statement: Statement) -> str:
        """Why a statement is likely not to ask what was meant; empty if nothing looks so."""
        for leaf in dict.fromkeys(chain.from_iterable(map(leaves, conditions(statement)))):
            if isinstance(leaf, Membership):
                constants = leaf.values
            elif isinstance(leaf, Comparison) and leaf.op in ("=", "<>"):
                constants = (leaf.value,)
            else:
                continue
            column = self._roster.schema.find(leaf.column)
            if column is None or column.role is not Role.PUBLIC or column.kind is not Kind.TEXT:
                continue
            held, near = self._values(column.name)
            for constant in constants:
                if isinstance(constant, str) and constant not in held and (meant := near.get(_plain(constant))):
                    blanks = ", or take the blanks off with --trim (trim = true under [source])"
                    return (
                        f"nobody has {column.name} = {literal(constant)}, but there is {literal(meant)}: "
                        f"write it as the table does{blanks if meant.strip() == constant.strip() else ''}"
                    )
        return ""

    def _values(self, column: str) -> tuple[frozenset[str], dict[str, str]]:
        if column not in self._known:
            held = self._roster.spellings(column)
            self._known[column] = (held, {_plain(value): value for value in sorted(held, reverse=True)})
        return self._known[column]


def _plain(text: str) -> str:
    """Without blanks and capital letters."""
    return "".join(text.split()).casefold()
