"""Any statement of a log as plain ones: read as it is, opened where it is several, or put down to what tells more.

A `Statement` whose `certainty` is empty was shown as it is. `IF_SHOWN`: some of its rows may have been cut off (LIMIT,
TOP, QUALIFY), and which ones is not known. `FINER`: only something computed from it was shown.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from keyhole.errors import ParseError, QueryError, UnsupportedQuery
from keyhole.model.numbers import read_fraction
from keyhole.model.predicate import find_columns
from keyhole.model.query import COUNTED_ROWS, COVERED, FINER, IF_SHOWN, Aggregate, Cut, Query, RowList, Statement, Term
from keyhole.model.schema import Schema, fold_name
from keyhole.sql.dialects.engine import Dialect, find_engine
from keyhole.sql.dialects.to_duckdb import Translation, parse_foreign, translate_to_duckdb, transpile_to_duckdb
from keyhole.sql.lowering.from_clause import list_related_tables
from keyhole.sql.lowering.grammar import find_unclaimed
from keyhole.sql.lowering.lower import lower_statement
from keyhole.sql.rewriting.flatten import flatten_subquery
from keyhole.sql.rewriting.limit import RowRange, count_shown_rows, read_row_range
from keyhole.sql.rewriting.row_lists import RowGrouping, group_rows, list_columns
from keyhole.sql.rewriting.upper_bound import NoUpperBound, count_ranked_values, find_upper_bound, keep_plain_items
from keyhole.sql.statements.clock import write_out_time
from keyhole.sql.statements.parse import parse_statement
from keyhole.sql.statements.split import explain_doubtful_comment
from keyhole.sql.statements.table_names import is_with_query, reads_nothing_of_people

_CUT = ("limit", "offset", "qualify", "fetch")
_WEAKER = {"": 0, COVERED: 0, IF_SHOWN: 1, FINER: 2}


class Unread(Exception):
    """A statement that is read and means something else in DuckDB; the text says why."""


def read_statement(sql: str, dialect: str, schema: Schema, now: dt.date | None = None) -> tuple[Statement, ...]:
    """What a statement asks, as one or several plain statements over the table.

    Guarantee: the answers of those returned determine the answer of the text, and those without a `certainty` are
    determined by it in turn. `now` is when it ran, for CURRENT_DATE and its kin. Raises `QueryError` if it is not
    understood, `Unread` if it may mean something else here.

    >>> from keyhole.model.schema import Column, Kind, Role
    >>> staff = Schema("t", (Column("pay", Kind.INTEGER, Role.PRIVATE), Column("dept", Kind.TEXT)))
    >>> found = read_statement("SELECT dept, SUM(pay) FROM t GROUP BY dept ORDER BY 2 DESC LIMIT 3", "duckdb", staff)
    >>> [(part.text, part.certainty, part.limit) for part in found]
    [('SELECT dept, SUM(pay) FROM t GROUP BY dept ORDER BY 2 DESC', 'if shown', 3)]
    """
    if why := explain_doubtful_comment(sql, dialect):
        raise Unread(why)
    if now is not None:
        sql = write_out_time(sql, dialect, now)
    carry = translate_to_duckdb(sql, dialect, schema)
    refused: QueryError
    try:
        statement = lower_statement(carry.sql, schema)
    except QueryError as error:
        foreign = isinstance(error, ParseError) and bool(carry.reason)  # DuckDB's grammar says nothing of it
        refused = UnsupportedQuery(carry.reason) if foreign else error
    else:
        if not carry.reason:
            return _StatementReader(dialect, schema).cover(replace(statement, original=(dialect, sql)), sql)
        refused = UnsupportedQuery(carry.reason)
    try:
        tree, opening = _parse(sql, dialect), _StatementReader(dialect, schema)
        statements = opening.open_statement(tree, carry)
        if all(part.certainty == FINER for part in statements):
            statements = (*opening.read_plain_part(tree), *statements)
    except (QueryError, NoUpperBound, Unread, RecursionError) as error:
        if isinstance(error, Unread):
            raise
        if carry.reason and refused.position is None:
            raise Unread(carry.reason) from None
        raise _choose_refusal(refused, error, sql) from None
    statements = tuple(replace(s, original=(dialect, sql)) if s.text == carry.sql else s for s in statements)
    whole = transpile_to_duckdb(tree, dialect) if carry.reason else carry
    if whole.reason:
        raise Unread(whole.reason)
    return attach_written_text(statements, whole.sql)


def attach_written_text(parts: Iterable[Statement], text: str) -> tuple[Statement, ...]:
    """Statements with the text (in DuckDB's words) that they came from: none of them counts unless it runs."""
    return tuple(replace(part, written="" if part.text == text else text) for part in parts)


def _choose_refusal(refused: QueryError, opening: Exception, sql: str) -> QueryError:
    """The refusal of the text itself; of what it was opened to, if that is what cannot be judged."""
    if isinstance(refused, UnsupportedQuery) and isinstance(opening, UnsupportedQuery):
        return UnsupportedQuery(opening.message, sql, refused.position)
    return refused


class _StatementReader:
    def __init__(self, dialect: str, schema: Schema) -> None:
        self.dialect, self.schema = dialect, schema
        self.engine = find_engine(dialect)
        self.columns = {fold_name(column.name) for column in schema.columns}

    def open_statement(self, tree: exp.Expr, carry: Translation | None = None) -> tuple[Statement, ...]:
        """The plain statements of a tree: exact ones if there are, else such as tell more."""
        while isinstance(tree, exp.Subquery) and tree.args.get("alias") is None and not _is_cut(tree):
            tree = tree.this
        if carry is None:
            try:
                return (self.lower_tree(tree),)
            except (QueryError, Unread):
                pass
        if isinstance(tree, exp.SetOperation):
            return self.read_union(tree)
        if carry is not None and not carry.reason:
            made = flatten_subquery(_parse(carry.sql, Dialect.DUCKDB), self.columns)
            if made is not None and not _is_cut(made):
                try:
                    return (replace(lower_statement(made.sql(dialect="duckdb"), self.schema), text=carry.sql),)
                except QueryError:
                    pass
        if (rows := self.read_rows(tree)) is not None:
            return (rows,)
        whole = flatten_subquery(tree, self.columns) or tree
        if isinstance(whole, exp.Select) and _is_cut(whole):
            try:
                return (self.read_shortened(whole),)
            except (QueryError, Unread):
                pass
        told = count_ranked_values(tree, self.schema) or find_upper_bound(tree, self.schema)
        return tuple(replace(self.lower_tree(part), certainty=FINER) for part in told)

    def read_rows(self, tree: exp.Expr) -> Statement | None:
        """A SELECT that hands out rows, as groupings by what it shows; None if it is none, or cannot be read so."""
        grouping_of_rows = group_rows(tree, self.schema)
        if grouping_of_rows is None or (grouping_of_rows.is_cut and read_row_range(grouping_of_rows.select) is None):
            return None
        secret = {c.name: c for c in self.schema.columns if c.secret}
        whole = self.try_lowering(grouping_of_rows.group_by_all_columns())
        if whole is not None and len(whole.keys) == len(grouping_of_rows.columns):
            hidden = [k.hidden(secret.keys()) for k in whole.keys]
            numeric = [k.column in secret and secret[k.column].kind.numeric for k in whole.keys]
        elif grouping_of_rows.plain:
            names, whole = {fold_name(name) for name in secret}, None
            hidden = numeric = [bool(list_columns(column.node) & names) for column in grouping_of_rows.columns]
        else:
            return None
        private = [column for column, is_hidden in zip(grouping_of_rows.columns, hidden, strict=True) if is_hidden]
        numbers = [column for column, is_number in zip(grouping_of_rows.columns, numeric, strict=True) if is_number]
        counted = not private or whole is None or bool(find_columns(whole.where) & secret.keys())
        alone: list[Statement] = []
        for grouping, places in grouping_of_rows.group_by_public_columns(private, numbers, counted=counted):
            made = (
                self.read_cut_rows(grouping, grouping_of_rows)
                if grouping_of_rows.is_cut
                else self.try_lowering(grouping)
            )
            if made is None or len(made.queries) != len(places):
                return None
            asked = zip(made.queries, places, strict=True)
            items = tuple(replace(query, item=place or COUNTED_ROWS) for query, place in asked)
            alone.append(replace(made, queries=items))
        if whole is not None:
            whole = replace(whole, queries=tuple(replace(query, item=COUNTED_ROWS) for query in whole.queries))
        if grouping_of_rows.is_cut and whole is not None:
            whole = replace(whole, certainty=FINER)
        shown = tuple((column.name, column.place) for column in grouping_of_rows.columns)
        rows = RowList(
            shown,
            grouping_of_rows.width,
            tuple(c.name for c in private),
            whole,
            tuple(alone),
            grouping_of_rows.in_order,
        )
        return replace(alone[0] if whole is None else whole, rows=rows)

    def read_cut_rows(self, grouping: exp.Select, rows: RowGrouping) -> Statement | None:
        """A grouping of single records of which LIMIT shows some: known which, if public columns shown order them."""
        order = rows.select.args.get("order")
        terms = [term.this for term in order.expressions] if order is not None else []
        whole, made = self.try_lowering(grouping), grouping.copy()
        if all(isinstance(term, exp.Column) for term in terms):
            for name in ("order", "limit", "offset"):
                made.set(name, rows.select.args[name].copy() if rows.select.args.get(name) is not None else None)
            try:
                return self.read_shortened(made)
            except (QueryError, Unread):
                pass
        return None if whole is None else replace(whole, certainty=IF_SHOWN, limit=count_shown_rows(rows.select))

    def try_lowering(self, tree: exp.Expr) -> Statement | None:
        try:
            return self.lower_tree(tree)
        except (QueryError, Unread):
            return None

    def read_plain_part(self, tree: exp.Expr) -> tuple[Statement, ...]:
        """What of a statement was shown as it is, beside what is computed from it."""

        def can_be_read(made: exp.Expr) -> bool:
            try:
                self.lower_tree(made)
            except (QueryError, Unread):
                return False
            return True

        part = keep_plain_items(flatten_subquery(tree, self.columns) or tree, self.columns, can_be_read)
        if part is None or not can_be_read(part):
            return ()
        found = self.lower_tree(part)
        places = {shown.query: at for at, shown in enumerate(found.shown, 1) if shown.query is not None}
        asked = tuple(replace(query, item=places.get(at, 0)) for at, query in enumerate(found.queries))
        return (replace(found, queries=asked),)

    def cover(self, statement: Statement, sql: str) -> tuple[Statement, ...]:
        """A statement, with such as tell more beside it where it may be that no rule can use its own answer."""
        secret = self.schema.private_names
        if not _may_be_unusable(statement, secret):
            return (statement,)
        try:
            parts = [self.lower_tree(part) for part in find_upper_bound(_parse(sql, self.dialect), self.schema)]
        except (QueryError, NoUpperBound, Unread, RecursionError):
            return (statement,)
        if any(_may_be_unusable(part, secret) for part in parts):
            return (statement,)
        return (replace(statement, certainty=COVERED), *(replace(part, certainty=FINER) for part in parts))

    def lower_tree(self, tree: exp.Expr) -> Statement:
        sql = tree.sql(dialect=self.engine.parser)
        carry = translate_to_duckdb(sql, self.dialect, self.schema)
        if carry.reason:
            raise Unread(carry.reason)
        return replace(lower_statement(carry.sql, self.schema), original=(self.dialect, sql))

    def read_shortened(self, tree: exp.Select) -> Statement:
        """A SELECT of which only some rows may have been shown; what QUALIFY looks at is shown, or it tells more."""
        whole, rows = tree.copy(), read_row_range(tree)
        for name in _CUT:
            whole.set(name, None)
        qualify = tree.args.get("qualify")
        if qualify is not None:
            if qualify.find(exp.Query) is not None:
                raise UnsupportedQuery("a subquery in QUALIFY is not judged: ask for its value by itself")
            own = whole.args.get("order")
            first = rows.order or () if rows is not None else ()
            also = own.expressions if own is not None else ()
            order = exp.Order(expressions=[each.copy() for each in (*first, *also)])
            for inner in find_upper_bound(tree, self.schema):
                for item in inner.expressions:
                    order.append("expressions", exp.Ordered(this=item.copy(), nulls_first=False))
            whole.set("order", order)
        statement = self.lower_tree(whole)
        cut = None if rows is None else self.find_cut(statement, rows)
        return replace(statement, certainty=IF_SHOWN, limit=count_shown_rows(tree), cut=cut)

    def find_cut(self, statement: Statement, rows: RowRange) -> Cut | None:
        """Which groups are shown, where all terms of the order are public."""
        terms = statement.order if rows.order is None else statement.order[: len(rows.order)]
        public = tuple(term for term in terms if term is not None)
        if len(public) != len(terms):
            return None
        return Cut(public, rows.skipped, rows.shown, self.dialect != Dialect.DUCKDB)

    def read_union(self, tree: exp.SetOperation) -> tuple[Statement, ...]:
        """UNION: the statements of both sides. Rows that are alike become one unless it says ALL.

        Without ORDER BY the rows of the first side come first. With it, they are known by their labels alone.
        """
        sides = [tree.this, tree.expression]
        with_ = tree.args.get("with_")
        if with_ is not None:
            sides = [_prepend_with(side, with_) for side in sides]
        statements_of_sides = [self.open_statement(side) for side in sides]
        certainty = ""
        merged = tree.args.get("distinct", True) and not _have_distinct_constants(sides)
        if merged or not isinstance(tree, exp.Union):
            certainty = FINER
        elif _is_cut(tree):
            certainty = IF_SHOWN
        parts = [part for side in statements_of_sides for part in side]
        if tree.args.get("order") is not None:
            parts = [replace(part, mixed=True) for part in parts]
        if not certainty:
            return tuple(parts)
        weakest = [max(part.certainty, certainty, key=_WEAKER.__getitem__) for part in parts]
        pairs = zip(parts, weakest, strict=True)
        return tuple(replace(part, certainty=weak, limit=None, cut=None) for part, weak in pairs)


def _may_be_unusable(statement: Statement, secret: frozenset[str]) -> bool:
    """May it be that no rule can use an answer of it?"""
    private = any(key.hidden(secret) for key in statement.keys)
    if private and statement.having and not statement.queries:
        return True
    for query in (*statement.queries, *statement.tested):
        if query.aggregate is Aggregate.VAR or (private and query.per):
            return True
        looked_at = query.per if query.test is None else (*query.terms, *query.per)
        if not _are_public(looked_at, secret):  # a quotient over something private, or a yes/no question about it
            return True
    return False


def _are_public(terms: Iterable[Term], secret: frozenset[str]) -> bool:
    return all(term.column is None and not secret & find_columns(term.where) for term in terms)


def _prepend_with(side: exp.Expr, with_: exp.With) -> exp.Expr:
    side = side.copy()
    while isinstance(side, exp.Subquery) and side.args.get("alias") is None:
        side = side.this
    own = side.args.get("with_")
    ctes = [cte.copy() for cte in (*with_.expressions, *(own.expressions if own is not None else ()))]
    side.set("with_", exp.With(expressions=ctes, recursive=with_.args.get("recursive")))
    return side


def _have_distinct_constants(sides: list[exp.Expr]) -> bool:
    """Is there a column in which both sides have a constant of their own?"""
    if not all(isinstance(side, exp.Select) for side in sides):
        return False
    pairs = zip(*([item.unalias() for item in side.expressions] for side in sides), strict=False)
    return any(_are_distinct_constants(a, b) for a, b in pairs)


def _are_distinct_constants(a: exp.Expr, b: exp.Expr) -> bool:
    """Are these two constants that no engine takes for equal? 1 and 1.0 are, 'a' and 'A ' may be."""
    if not isinstance(a, exp.Literal) or not isinstance(b, exp.Literal) or a.is_string is not b.is_string:
        return False
    if a.is_string:
        return a.name.strip().casefold() != b.name.strip().casefold()
    try:
        return read_fraction(a.name) != read_fraction(b.name)
    except ValueError:
        return False


def _is_cut(tree: exp.Expr) -> bool:
    return any(tree.args.get(name) is not None for name in _CUT)


def _parse(sql: str, dialect: str) -> exp.Expr:
    tree = parse_foreign(sql, dialect)
    if tree is None:
        raise NoUpperBound("it cannot be read as one statement")
    if (unclaimed := find_unclaimed(tree)) is not None:
        # what is said of the text itself is clearer where a kind of node is not known at all
        raise NoUpperBound(unclaimed.reason) if unclaimed.whole_node else UnsupportedQuery(unclaimed.reason)
    return tree


def read_public_statement(sql: str, dialect: str, schema: Schema) -> Statement | None:
    """A statement that reads dimensions and nothing else, or no table (`SELECT 1`), as a public figure; else None.

    What asks no table has no term: it is judged, and is no all-clear by itself.

    Guarantee: each table in it is a declared dimension or a query of WITH over such, and it calls no function that is
    unknown here (it might read something else). Its own text is in `written`, to be run before it counts. Cost: two
    parses.

    >>> from keyhole.model.schema import Column, Kind, Related
    >>> states = Related("states", (Column("code", Kind.TEXT),), (("code", "state"),), dimension=True, secret=False)
    >>> schema = Schema("people", (Column("state", Kind.TEXT),), related=(states,))
    >>> read_public_statement("SELECT COUNT(*) FROM states", "duckdb", schema).queries[0].aggregate
    <Aggregate.PUBLIC: 'PUBLIC'>
    >>> read_public_statement("SELECT COUNT(*) FROM states JOIN people ON code = state", "duckdb", schema)
    """
    if reads_nothing_of_people(sql, dialect):
        return Statement(sql, (Query(Aggregate.PUBLIC, ()),))
    if not any(related.dimension for related in schema.related):
        return None
    tree = parse_statement(sql, dialect)
    if not isinstance(tree, exp.Query) or tree.find(exp.Anonymous, exp.AnonymousAggFunc, exp.Into) is not None:
        return None
    tables = [table for table in tree.find_all(exp.Table) if not is_with_query(table)]
    if not tables or not all(_is_dimension(table, schema) for table in tables):
        return None
    asked = Query(Aggregate.PUBLIC, (Term(None, weight="COUNT(*)"),))
    carry = Translation(sql) if dialect == Dialect.DUCKDB else transpile_to_duckdb(tree, dialect)
    if carry.reason:
        return None
    return Statement(sql, (asked,), tables=list_related_tables(tree, schema), written=carry.sql)


def _is_dimension(table: exp.Table, schema: Schema) -> bool:
    related = schema.table_named(table.name) if isinstance(table.this, exp.Identifier) else None
    return related is not None and related.dimension
