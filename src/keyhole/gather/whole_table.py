"""Statements that look at the whole table in public ways, read with what the engine computes of it in its place."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from keyhole.datasets import Roster, Source
from keyhole.errors import DIFFERS, QueryError, UnsupportedQuery
from keyhole.model.predicate import Scalar, format_literal, quote_name
from keyhole.model.query import FINER, Aggregate, Key, Statement
from keyhole.model.schema import Kind, Related, Schema, WholeTableColumn, fold_name
from keyhole.model.transcript import ABSENT, Line
from keyhole.sql import Unread, read_statement
from keyhole.sql.dialects.engine import Dialect
from keyhole.sql.dialects.to_duckdb import translate_to_duckdb
from keyhole.sql.lowering.grammar import find_unclaimed, orders_by_shown
from keyhole.sql.read import attach_written_text
from keyhole.sql.rewriting.second_aggregation import SecondAggregation, open_second_aggregation
from keyhole.sql.rewriting.upper_bound import NoUpperBound
from keyhole.sql.rewriting.whole_table import replace_whole_table_parts
from keyhole.sql.statements.clock import write_out_time
from keyhole.sql.statements.table_names import is_with_query

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


# --- second aggregation -----------------------------------------------------------------------------------------------
# Second aggregations over groups as linear statements: their public divisors are computed by the engine, then read.


MAX_DIVISORS = 60  # each is a term of the form
MAX_COLUMNS = 100  # that the engine has computed for a log: each costs a copy of the table


def linear_rows(
    second: SecondAggregation, roster: Roster, compute: Callable[[Sequence[WholeTableColumn]], str]
) -> Statement | None:
    """The statement with a term for each divisor; None if there are too many, or the engine says something else.

    Guarantee: over all public rows and made-up private values both give the same rows. Factors are exact fractions; a
    query whose engine adds rounded numbers up says so (`Query.roundings`).
    """
    columns = (*second.divisors, *second.figures)
    if sum(column.computed for column in roster.schema.columns) + len(columns) > MAX_COLUMNS or compute(columns):
        return None
    divisors = {column.name: _values(column.name, roster) for column in second.divisors}
    if not all(0 < len(values) <= MAX_DIVISORS for values in divisors.values()):
        return None
    text = second.over_records(divisors)
    try:
        found = read_statement(text, Dialect.DUCKDB, roster.schema)
    except (QueryError, Unread):
        return None
    if len(found) != 1 or found[0].certainty or any(query.test is not None for query in found[0].queries):
        return None
    (statement,) = found
    if not roster.give_the_same_rows(statement.table, second.kept.sql(dialect="duckdb"), text):
        return None
    roundings = roster.n if second.rounded else 0
    asked = list(statement.queries)
    for at, shown in enumerate(statement.shown):
        if shown.query is not None:
            label = second.kept.expressions[at].unalias().sql(dialect="duckdb")
            asked[shown.query] = replace(asked[shown.query], label=label, roundings=roundings, item=second.places[at])
    return replace(statement, queries=tuple(asked))


def _values(name: str, roster: Roster) -> list[int]:
    """The values of a public column of whole numbers, without NULL."""
    listed = Statement("", (), keys=(Key(name, quote_name(name), name),), sets=((0,),))
    return sorted(value for key in roster.keys(listed) if isinstance(value := key[name], int) and value > 0)


# --- row groups -------------------------------------------------------------------------------------------------------
# `SELECT v.kind, COUNT(DISTINCT p.id) ... JOIN visits v ... GROUP BY v.kind`: a question for each value that is
# shown.
# A person may have rows of several kinds, so the groups do not add up: each is a question of its own, about those who
# have such a row. That no other group is shown is one question more, whose answer is 0.


MOST = 200  # values of one column of rows
_CLAUSES = frozenset(("expressions", "from_", "joins", "where", "group", "order"))


def by_row_groups(tree: exp.Expr, schema: Schema, source: Source) -> tuple[Statement, ...] | None:
    """The questions of a GROUP BY over one column of the rows of people; None if it is none.

    Guarantee: their answers determine the answer of the statement, and are determined by it. Cost: one question to the
    engine for each value.
    """
    if not isinstance(tree, exp.Select) or not {k for k, v in tree.args.items() if v} <= _CLAUSES:
        return None
    group = tree.args.get("group")
    if group is None or any(value for name, value in group.args.items() if name != "expressions"):
        return None
    if not orders_by_shown(tree.args.get("order"), {fold_name(item.alias_or_name) for item in tree.expressions}):
        return None  # the order would be dropped here
    items = [item.unalias() for item in tree.expressions]
    keys = [_meant(part, items, tree) for part in group.expressions]
    pairs = zip(group.expressions, keys, strict=True)
    mine = [(part, key, related) for part, key in pairs if (related := _rows(key, tree, schema)) is not None]
    if len(mine) != 1:
        return None
    part, key, related = mine[0]
    column = exp.column(key.name, table=key.args.get("table"), quoted=True)
    own = related.find(column.name)
    assert own is not None
    values = source.row_values(related.name, own.name)
    if len(values) > MOST:
        raise UnsupportedQuery(
            f"GROUP BY {own.name} of {related.name}: more than {MOST} values; name those you want in WHERE"
        )
    try:
        asked = [(value, _one(tree, part, column, _equals(column, value))) for value in values]
        shown = [(value, each) for value, text in asked for each in read_statement(text, Dialect.DUCKDB, schema)]
        there = [(value, each) for value, each in shown if _some(each, source)]
        rest = _one(tree, part, column, _others(column, [value for value, _ in there]))
        return (*(each for _, each in there), *read_statement(rest, Dialect.DUCKDB, schema))
    except (QueryError, Unread):
        return None  # the statement itself is refused, in its own words


def _meant(part: exp.Expr, items: Sequence[exp.Expr], tree: exp.Select) -> exp.Expr:
    """What a part of GROUP BY stands for: a position or an alias of the SELECT list, or itself."""
    if isinstance(part, exp.Literal) and part.name.isdigit() and 1 <= int(part.name) <= len(items):
        return items[int(part.name) - 1]
    if isinstance(part, exp.Column) and not part.table:
        named = (item.this for item in tree.expressions if isinstance(item, exp.Alias) and item.alias == part.name)
        return next(named, part)
    return part


def _rows(key: exp.Expr, tree: exp.Select, schema: Schema) -> Related | None:
    """The table whose rows a column stands in, if it is joined and has rows of people."""
    if not isinstance(key, exp.Column):
        return None
    tables = [part.this for part in (tree.args["from_"], *(tree.args.get("joins") or ()))]
    for table in tables:
        related = schema.table_named(table.name) if isinstance(table, exp.Table) else None
        if related is None or related.dimension or related.find(key.name) is None:
            continue
        if fold_name(key.table) == fold_name(table.alias or table.name) or (
            not key.table and not schema.find(key.name)
        ):
            return related
    return None


def _one(tree: exp.Select, part: exp.Expr, column: exp.Column, condition: exp.Expr) -> str:
    """The statement about those with such a row, without the key."""
    made = tree.copy()
    kept = [k.copy() for k in tree.args["group"].expressions if k is not part]
    items = [item for item in tree.expressions if not _same(item.unalias(), column)]
    if any(isinstance(k, exp.Literal) for k in kept):
        raise UnsupportedQuery("GROUP BY positions beside a column of rows are not judged: write the names")
    made.set("expressions", [item.copy() for item in items])
    made.set("group", exp.Group(expressions=kept) if kept else None)
    made.set("order", None)
    return str(made.where(condition).sql(dialect="duckdb"))


def _same(one: exp.Expr, other: exp.Column) -> bool:
    if not isinstance(one, exp.Column) or fold_name(one.name) != fold_name(other.name):
        return False
    return not one.table or not other.table or fold_name(one.table) == fold_name(other.table)


def _equals(column: exp.Column, value: Scalar | None) -> exp.Expr:
    if value is None:
        return exp.Is(this=column.copy(), expression=exp.Null())
    return exp.EQ(this=column.copy(), expression=exp.maybe_parse(format_literal(value), dialect="duckdb"))


def _others(column: exp.Column, shown: Sequence[Scalar | None]) -> exp.Expr:
    """Any other value; NULL is one, unless it was shown."""
    parts: list[exp.Expr] = []
    if named := [value for value in shown if value is not None]:
        parts.append(exp.Not(this=exp.or_(*(_equals(column, value) for value in named))))
    else:
        parts.append(exp.Not(this=_equals(column, None)))
    return parts[0] if None in shown else exp.or_(*parts, _equals(column, None))


def _some(statement: Statement, source: Source) -> bool:
    """Is there anybody in the group?"""
    if statement.keys:
        return bool(source.returned_groups(statement))
    return bool(source.evaluate(statement.queries[0]))


# --- thresholds -------------------------------------------------------------------------------------------------------
# `WHERE pay > (SELECT AVG(pay) FROM t)`: a private figure that decides who is meant, put down to what tells more.
# Whoever sees the average, and the count of those above that number, sees at least the count of those above the
# average. So both are judged in its place, for the all-clear alone (`keyhole.model.query.FINER`).


DIGITS = 12  # behind the point, of a constant that is read


@dataclass(frozen=True, slots=True)
class PrivateFigures:
    """A statement with numbers in the place of private figures, and the statements that ask for these."""

    tree: exp.Expr
    asked: tuple[Statement, ...]


def with_thresholds(tree: exp.Expr, schema: Schema, source: Source) -> PrivateFigures | None:
    """Subqueries of one private number, each by its value in the data; None if there are none that can be.

    Guarantee: the answers of `asked`, together with that of `tree`, determine the answer of the statement. The numbers
    are private: they stand in what is judged, never in what is printed.
    """
    made = tree.copy()
    secret = {fold_name(c.name) for c in schema.columns if c.secret}
    asked: list[Statement] = []
    for node in list(made.find_all(exp.Subquery)):
        names = {fold_name(c.name) for c in node.find_all(exp.Column)}
        if node.find_ancestor(exp.Subquery) is not None or isinstance(node.parent, exp.From | exp.Join | exp.In):
            continue
        if names & secret:
            figure = _figure(node, schema, _kinds(tree, schema))
            value = None if figure is None else source.evaluate(figure.queries[0])
            if figure is None or not isinstance(value, Decimal):
                return None
            asked.append(replace(figure, certainty=FINER))
            value = _short(value, node, schema)
            number = exp.Literal.number(f"{abs(value):f}")
            node.replace(exp.Paren(this=number if value >= 0 else exp.Neg(this=number)))
    return PrivateFigures(made, tuple(asked)) if asked else None


def _short(value: Decimal, node: exp.Subquery, schema: Schema) -> Decimal:
    """A number that whole numbers are compared with alike, where the number itself has more digits than are read.

    >>> from keyhole.model.schema import Column
    >>> tree = __import__("sqlglot").parse_one("SELECT COUNT(*) FROM t WHERE days > (SELECT AVG(days) FROM t)")
    >>> _short(Decimal(14) / 3, tree.find(exp.Subquery), Schema("t", (Column("days", Kind.INTEGER),)))
    Decimal('4.5')
    """
    compared = node.parent
    if value == round(value, DIGITS) or not isinstance(
        compared, exp.GT | exp.GTE | exp.LT | exp.LTE | exp.EQ | exp.NEQ
    ):
        return value
    other = compared.expression if compared.this is node else compared.this
    column = schema.find(other.name) if isinstance(other, exp.Column) else None
    whole = column is not None and column.kind is Kind.INTEGER
    return value.to_integral_value(ROUND_FLOOR) + Decimal("0.5") if whole else value


def _kinds(tree: exp.Expr, schema: Schema) -> set[Kind]:
    """Of the private numbers that a statement looks at."""
    found = (schema.find(column.name) for column in tree.find_all(exp.Column))
    return {column.kind for column in found if column is not None and column.secret and column.kind.numeric}


def _figure(node: exp.Subquery, schema: Schema, kinds: set[Kind]) -> Statement | None:
    """The subquery as a statement of one exact number that looks at its own records alone."""
    inner = node.this
    if not isinstance(inner, exp.Select) or inner.find(exp.Subquery) is not None:
        return None
    if any(is_with_query(table) for table in inner.find_all(exp.Table)):
        return None  # by itself it would be read as the table
    own = {fold_name(table.alias or table.name) for table in inner.find_all(exp.Table)}
    if any(column.table and fold_name(column.table) not in own for column in inner.find_all(exp.Column)):
        return None
    try:
        found = read_statement(inner.sql(dialect="duckdb"), Dialect.DUCKDB, schema)
    except (QueryError, Unread):
        return None
    if len(found) != 1 or found[0].certainty or found[0].keys or found[0].having or len(found[0].queries) != 1:
        return None
    query = found[0].queries[0]
    exact = kinds <= {Kind.INTEGER} or (kinds <= {Kind.INTEGER, Kind.DECIMAL} and not query.per)
    sums = query.aggregate in (Aggregate.SUM, Aggregate.MIN, Aggregate.MAX) and query.test is None
    return found[0] if exact and sums else None
