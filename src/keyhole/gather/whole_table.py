"""Statements that look at the whole table in public ways, read with what the engine computes of it in its place."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from keyhole.datasets import Roster, Source
from keyhole.errors import DIFFERS, QueryError, UnsupportedQuery
from keyhole.gather.row_groups import by_row_groups
from keyhole.gather.second_aggregation import linear_rows
from keyhole.gather.thresholds import with_thresholds
from keyhole.model.query import FINER, Statement
from keyhole.model.schema import Schema, WholeTableColumn
from keyhole.model.transcript import ABSENT, Line
from keyhole.sql import Unread, read_statement
from keyhole.sql.dialects.engine import Dialect
from keyhole.sql.dialects.to_duckdb import translate_to_duckdb
from keyhole.sql.lowering.grammar import find_unclaimed
from keyhole.sql.read import attach_written_text
from keyhole.sql.rewriting.second_aggregation import open_second_aggregation
from keyhole.sql.rewriting.upper_bound import NoUpperBound
from keyhole.sql.rewriting.whole_table import replace_whole_table_parts
from keyhole.sql.statements.clock import write_out_time

BY_ITSELF = (
    "what is computed from a private figure decides who is meant: ask for the figure by itself, and compare with that "
    "number"
)
_AVERAGES_ALIKE = (Dialect.DUCKDB, Dialect.POSTGRES)  # elsewhere an average of whole numbers may be a whole number
_LOOKS = re.compile(r"\bOVER\s*\(|\(\s*(?:SELECT|WITH)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WholeTableReader:
    """Reads what was refused as it stands, over a table; the roster (and the source) keep the columns it computes."""

    roster: Roster
    source: Source | None = None

    def read(
        self, sql: str, dialect: str, now: dt.date | None, refused: QueryError, *, answered: bool = False
    ) -> tuple[Statement, ...]:
        """What a statement asks: windows and subqueries over public columns are computed first.

        Guarantee: over all public rows and made-up private values, the statement and what is returned give the same
        rows in the engine. Raises `refused`, or why what looks at the whole table is not judged. Cost: two copies of
        the table, and four runs of the statement.
        """
        if not _LOOKS.search(sql) and not self.roster.schema.related:
            raise refused
        carry = translate_to_duckdb(
            sql if now is None else write_out_time(sql, dialect, now), dialect, self.roster.schema
        )
        tree = None if carry.reason else _tree(carry.sql)
        if tree is None:
            raise refused
        if self.source is not None and not answered:
            groups = by_row_groups(tree, self.roster.schema, self.source)
            if groups is not None:
                return attach_written_text(groups, carry.sql)
        if not _LOOKS.search(sql):
            raise refused
        told_more = with_thresholds(tree, self.roster.schema, self.source) if self.source is not None else None
        try:
            if told_more is None:
                found = self._opened(carry.sql, tree, refused)
                return attach_written_text((_as_of(dialect, part) for part in found), carry.sql)
            with_numbers = told_more.tree.sql(dialect="duckdb")
            found = self._opened(with_numbers, told_more.tree, None)
        except NoUpperBound as why:
            raise UnsupportedQuery(str(why), sql, refused.position) from None
        except QueryError as error:
            if error is refused:
                raise
            said = error.message if told_more is None else BY_ITSELF  # its number is private, and in the message
            raise UnsupportedQuery(said, sql, refused.position) from None
        parts = (*told_more.asked, *(replace(part, certainty=FINER) for part in found))
        return attach_written_text(parts, carry.sql)

    def linear(
        self, sql: str, dialect: str, now: dt.date | None, found: tuple[Statement, ...]
    ) -> tuple[Statement, ...]:
        """What was read as computed from grouped answers: a second aggregation that is linear in the cells, as such.

        Guarantee: as of `read_statement`. Cost: as of `read_statement`, for what is one; else a walk over the text.
        """
        if dialect not in _AVERAGES_ALIKE or all(part.certainty != FINER for part in found):
            return found
        carry = translate_to_duckdb(
            sql if now is None else write_out_time(sql, dialect, now), dialect, self.roster.schema
        )
        tree = None if carry.reason else _tree(carry.sql)
        second = None if tree is None else open_second_aggregation(tree, self.roster.schema)
        made = None if second is None else linear_rows(second, self.roster, self._computed)
        if tree is None or second is None or made is None:
            return found
        return attach_written_text(
            (made,) if len(second.places) == len(tree.expressions) else (made, *found), carry.sql
        )

    def _opened(self, sql: str, tree: exp.Expr, refused: QueryError | None) -> tuple[Statement, ...]:
        """The statement with public columns for what looks at the whole table; `refused` if nothing does."""
        made, columns = replace_whole_table_parts(tree, self.roster.schema)
        if not columns:
            if refused is not None:
                raise refused
            return read_statement(sql, Dialect.DUCKDB, self.roster.schema)
        if said := self._computed(columns):
            raise NoUpperBound(said)
        text = made.sql(dialect="duckdb")
        found = read_statement(text, Dialect.DUCKDB, self.roster.schema)
        if not self.roster.give_the_same_rows(found[0].table, sql, text):
            raise Unread(DIFFERS)
        return found

    def _computed(self, columns: Sequence[WholeTableColumn]) -> str:
        said = self.roster.compute(columns)
        if self.source is not None:
            self.source.adopt(self.roster.schema)
        return said


def read_over(line: Line, schema: Schema, now: dt.date | None, again: WholeTableReader | None) -> tuple[Statement, ...]:
    """What a line of a log asks. What is refused, or known only by what tells more, is read `again`, over the table."""
    try:
        found = read_statement(line.sql, line.dialect, schema, now)
    except QueryError as refused:
        if again is None:
            raise
        return again.read(line.sql, line.dialect, now, refused, answered=line.answer is not ABSENT)
    return found if again is None else again.linear(line.sql, line.dialect, now, found)


def _as_of(dialect: str, statement: Statement) -> Statement:
    """A statement that was carried over from another engine, whose order may be another."""
    cut = statement.cut
    return statement if cut is None else replace(statement, cut=replace(cut, foreign=dialect != Dialect.DUCKDB))


def _tree(sql: str) -> exp.Expr | None:
    try:
        found = sqlglot.parse(sql, read="duckdb")
    except (SqlglotError, RecursionError, ValueError, AttributeError, TypeError, IndexError, KeyError):
        return None
    tree = found[0] if len(found) == 1 else None
    return tree if isinstance(tree, exp.Select) and find_unclaimed(tree) is None else None
