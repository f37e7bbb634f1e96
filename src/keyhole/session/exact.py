"""The exact answer of a statement: the engine runs the rendering of what was read, never the analyst's text."""

from __future__ import annotations

from keyhole.meaning import passed
from keyhole.query import Query, Statement
from keyhole.session.reply import Exact
from keyhole.tables import GroupKey, Source


def exact(statement: Statement, source: Source) -> Exact:
    """Groups in the order of their keys, each with its numbers; NULL where SQL says NULL.

    A group is shown if its HAVING holds. Cost: one pass of the engine for each number.
    """
    groups: list[GroupKey] = source.shown(statement) if statement.keys else [{}]
    found = []
    for key in groups:
        if all(passed(test, lambda q: _true(source, q)) is True for test in statement.tests(key)):
            found.append((key, tuple(source.evaluate(q) for q in statement.group(key))))
    return tuple(found)


def _true(source: Source, query: Query) -> bool:
    return source.evaluate(query) is True
