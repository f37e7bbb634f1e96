"""Any statement of a log as plain ones: read as it is, opened where it is several, or put down to what tells more.

A `Statement` whose `certainty` is empty was shown as it is. `IF_SHOWN`: some of its rows may have been cut off (LIMIT,
TOP, QUALIFY), and which ones is not known. `FINER`: only something computed from it was shown.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from keyhole.errors import ParseError, QueryError, UnsupportedQuery
from keyhole.model.numbers import read_fraction
from keyhole.model.predicate import columns
from keyhole.model.query import COUNTED_ROWS, COVERED, FINER, IF_SHOWN, Aggregate, Cut, Query, RowList, Statement, Term
from keyhole.model.schema import Schema, folded
from keyhole.sql.dialects.engine import Dialect, find_engine
from keyhole.sql.dialects.to_duckdb import Carried, carried, in_duckdb, plainly, without_own_catalog
from keyhole.sql.lowering.from_clause import related_names
from keyhole.sql.lowering.grammar import find_unclaimed
from keyhole.sql.lowering.lower import lower
from keyhole.sql.rewriting.flatten import flat
from keyhole.sql.rewriting.limit import RowRange, most_shown, rows_shown
from keyhole.sql.rewriting.row_lists import RowGrouping, columns_in, group_rows
from keyhole.sql.rewriting.upper_bound import NotTold, finer, plain_part, ranked
from keyhole.sql.statements.clock import told
from keyhole.sql.statements.split import comment_in_doubt
from keyhole.sql.statements.table_names import of_with, reads_nothing_of_people

_CUT = ("limit", "offset", "qualify", "fetch")
_WEAKER = {"": 0, COVERED: 0, IF_SHOWN: 1, FINER: 2}


class Unread(Exception):
    """A statement that is read and means something else in DuckDB; the text says why."""


def read(sql: str, dialect: str, schema: Schema, now: dt.date | None = None) -> tuple[Statement, ...]:
    """What a statement asks, as one or several plain statements over the table.

    Guarantee: the answers of those returned determine the answer of the text, and those without a `certainty` are
    determined by it in turn. `now` is when it ran, for CURRENT_DATE and its kin. Raises `QueryError` if it is not
    understood, `Unread` if it may mean something else here.

    >>> from keyhole.model.schema import Column, Kind, Role
    >>> staff = Schema("t", (Column("pay", Kind.INTEGER, Role.PRIVATE), Column("dept", Kind.TEXT)))
    >>> found = read("SELECT dept, SUM(pay) FROM t GROUP BY dept ORDER BY 2 DESC LIMIT 3", "duckdb", staff)
    >>> [(part.text, part.certainty, part.limit) for part in found]
    [('SELECT dept, SUM(pay) FROM t GROUP BY dept ORDER BY 2 DESC', 'if shown', 3)]
    """
    if why := comment_in_doubt(sql, dialect):
        raise Unread(why)
    if now is not None:
        sql = told(sql, dialect, now)
    carry = carried(sql, dialect, schema)
    refused: QueryError
    try:
        statement = lower(carry.sql, schema)
    except QueryError as error:
        foreign = isinstance(error, ParseError) and bool(carry.reason)  # DuckDB's grammar says nothing of it
        refused = UnsupportedQuery(carry.reason) if foreign else error
    else:
        if not carry.reason:
            return _Opening(dialect, schema).covered(statement, sql)
        refused = UnsupportedQuery(carry.reason)
    try:
        tree, opening = _tree(sql, dialect), _Opening(dialect, schema)
        found = opening.opened(tree, carry)
        if all(part.certainty == FINER for part in found):
            found = (*opening.shown(tree), *found)
    except (QueryError, NotTold, Unread, RecursionError) as error:
        if isinstance(error, Unread):
            raise
        if carry.reason and refused.position is None:
            raise Unread(carry.reason) from None
        raise _clearer(refused, error, sql) from None
    whole = in_duckdb(tree, dialect) if carry.reason else carry
    if whole.reason:
        raise Unread(whole.reason)
    return written_as(found, whole.sql)


def written_as(parts: Iterable[Statement], text: str) -> tuple[Statement, ...]:
    """Statements with the text (in DuckDB's words) that they came from: none of them counts unless it runs."""
    return tuple(replace(part, written="" if part.text == text else text) for part in parts)


def _clearer(refused: QueryError, opening: Exception, sql: str) -> QueryError:
    """The refusal of the text itself; of what it was opened to, if that is what cannot be judged."""
    if isinstance(refused, UnsupportedQuery) and isinstance(opening, UnsupportedQuery):
        return UnsupportedQuery(opening.message, sql, refused.position)
    return refused


class _Opening:
    def __init__(self, dialect: str, schema: Schema) -> None:
        self.dialect, self.schema = dialect, schema
        self.engine = find_engine(dialect)
        self.columns = {folded(column.name) for column in schema.columns}

    def opened(self, tree: exp.Expr, carry: Carried | None = None) -> tuple[Statement, ...]:
        """The plain statements of a tree: exact ones if there are, else such as tell more."""
        while isinstance(tree, exp.Subquery) and tree.args.get("alias") is None and not _cut(tree):
            tree = tree.this
        if carry is None:
            try:
                return (self.lowered(tree),)
            except (QueryError, Unread):
                pass
        if isinstance(tree, exp.SetOperation):
            return self.several(tree)
        if carry is not None and not carry.reason:
            made = flat(_tree(carry.sql, Dialect.DUCKDB), self.columns)
            if made is not None and not _cut(made):
                try:
                    return (replace(lower(made.sql(dialect="duckdb"), self.schema), text=carry.sql),)
                except QueryError:
                    pass
        if (rows := self.row_list(tree)) is not None:
            return (rows,)
        whole = flat(tree, self.columns) or tree
        if isinstance(whole, exp.Select) and _cut(whole):
            try:
                return (self.shortened(whole),)
            except (QueryError, Unread):
                pass
        told = ranked(tree, self.schema) or finer(tree, self.schema)
        return tuple(replace(self.lowered(part), certainty=FINER) for part in told)

    def row_list(self, tree: exp.Expr) -> Statement | None:
        """A SELECT that hands out rows, as groupings by what it shows; None if it is none, or cannot be read so."""
        found = group_rows(tree, self.schema)
        if found is None or (found.is_cut and rows_shown(found.select) is None):
            return None
        secret = {c.name: c for c in self.schema.columns if c.secret}
        whole = self.readable(found.whole())
        if whole is not None and len(whole.keys) == len(found.columns):
            hidden = [k.hidden(secret.keys()) for k in whole.keys]
            numeric = [k.column in secret and secret[k.column].kind.numeric for k in whole.keys]
        elif found.plain:
            names, whole = {folded(name) for name in secret}, None
            hidden = numeric = [bool(columns_in(column.node) & names) for column in found.columns]
        else:
            return None
        private = [column for column, is_hidden in zip(found.columns, hidden, strict=True) if is_hidden]
        numbers = [column for column, is_number in zip(found.columns, numeric, strict=True) if is_number]
        counted = not private or whole is None or bool(columns(whole.where) & secret.keys())
        alone: list[Statement] = []
        for grouping, places in found.alone(private, numbers, counted=counted):
            made = self.cut_rows(grouping, found) if found.is_cut else self.readable(grouping)
            if made is None or len(made.queries) != len(places):
                return None
            asked = zip(made.queries, places, strict=True)
            items = tuple(replace(query, item=place or COUNTED_ROWS) for query, place in asked)
            alone.append(replace(made, queries=items))
        if whole is not None:
            whole = replace(whole, queries=tuple(replace(query, item=COUNTED_ROWS) for query in whole.queries))
        if found.is_cut and whole is not None:
            whole = replace(whole, certainty=FINER)
        shown = tuple((column.name, column.place) for column in found.columns)
        rows = RowList(shown, found.width, tuple(c.name for c in private), whole, tuple(alone), found.in_order)
        return replace(alone[0] if whole is None else whole, rows=rows)

    def cut_rows(self, grouping: exp.Select, rows: RowGrouping) -> Statement | None:
        """A grouping of single records of which LIMIT shows some: known which, if public columns shown order them."""
        order = rows.select.args.get("order")
        terms = [term.this for term in order.expressions] if order is not None else []
        whole, made = self.readable(grouping), grouping.copy()
        if all(isinstance(term, exp.Column) for term in terms):
            for name in ("order", "limit", "offset"):
                made.set(name, rows.select.args[name].copy() if rows.select.args.get(name) is not None else None)
            try:
                return self.shortened(made)
            except (QueryError, Unread):
                pass
        return None if whole is None else replace(whole, certainty=IF_SHOWN, limit=most_shown(rows.select))

    def readable(self, tree: exp.Expr) -> Statement | None:
        try:
            return self.lowered(tree)
        except (QueryError, Unread):
            return None

    def shown(self, tree: exp.Expr) -> tuple[Statement, ...]:
        """What of a statement was shown as it is, beside what is computed from it."""

        def can_be_read(made: exp.Expr) -> bool:
            try:
                self.lowered(made)
            except (QueryError, Unread):
                return False
            return True

        part = plain_part(flat(tree, self.columns) or tree, self.columns, can_be_read)
        if part is None or not can_be_read(part):
            return ()
        found = self.lowered(part)
        places = {shown.query: at for at, shown in enumerate(found.shown, 1) if shown.query is not None}
        asked = tuple(replace(query, item=places.get(at, 0)) for at, query in enumerate(found.queries))
        return (replace(found, queries=asked),)

    def covered(self, statement: Statement, sql: str) -> tuple[Statement, ...]:
        """A statement, with such as tell more beside it where it may be that no rule can use its own answer."""
        secret = frozenset(c.name for c in self.schema.columns if c.secret)
        if not _unsure(statement, secret):
            return (statement,)
        try:
            parts = [self.lowered(part) for part in finer(_tree(sql, self.dialect), self.schema)]
        except (QueryError, NotTold, Unread, RecursionError):
            return (statement,)
        if any(_unsure(part, secret) for part in parts):
            return (statement,)
        return (replace(statement, certainty=COVERED), *(replace(part, certainty=FINER) for part in parts))

    def lowered(self, tree: exp.Expr) -> Statement:
        carry = carried(tree.sql(dialect=self.engine.parser), self.dialect, self.schema)
        if carry.reason:
            raise Unread(carry.reason)
        return lower(carry.sql, self.schema)

    def shortened(self, tree: exp.Select) -> Statement:
        """A SELECT of which only some rows may have been shown; what QUALIFY looks at is shown, or it tells more."""
        whole, rows = tree.copy(), rows_shown(tree)
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
            for inner in finer(tree, self.schema):
                for item in inner.expressions:
                    order.append("expressions", exp.Ordered(this=item.copy(), nulls_first=False))
            whole.set("order", order)
        statement = self.lowered(whole)
        cut = None if rows is None else self.cut(statement, rows)
        return replace(statement, certainty=IF_SHOWN, limit=most_shown(tree), cut=cut)

    def cut(self, statement: Statement, rows: RowRange) -> Cut | None:
        """Which groups are shown, where all terms of the order are public."""
        terms = statement.order if rows.order is None else statement.order[: len(rows.order)]
        public = tuple(term for term in terms if term is not None)
        if len(public) != len(terms):
            return None
        return Cut(public, rows.skipped, rows.shown, self.dialect != Dialect.DUCKDB)

    def several(self, tree: exp.SetOperation) -> tuple[Statement, ...]:
        """UNION: the statements of both sides. Rows that are alike become one unless it says ALL.

        Without ORDER BY the rows of the first side come first. With it, they are known by their labels alone.
        """
        sides = [tree.this, tree.expression]
        with_ = tree.args.get("with_")
        if with_ is not None:
            sides = [_with(side, with_) for side in sides]
        found = [self.opened(side) for side in sides]
        certainty = ""
        merged = tree.args.get("distinct", True) and not _told_apart(sides)
        if merged or not isinstance(tree, exp.Union):
            certainty = FINER
        elif _cut(tree):
            certainty = IF_SHOWN
        parts = [part for side in found for part in side]
        if tree.args.get("order") is not None:
            parts = [replace(part, mixed=True) for part in parts]
        if not certainty:
            return tuple(parts)
        weakest = [max(part.certainty, certainty, key=_WEAKER.__getitem__) for part in parts]
        pairs = zip(parts, weakest, strict=True)
        return tuple(replace(part, certainty=weak, limit=None, cut=None) for part, weak in pairs)


def _unsure(statement: Statement, secret: frozenset[str]) -> bool:
    """May it be that no rule can use an answer of it?"""
    asked = (*statement.queries, *statement.tested)
    private = any(key.hidden(secret) for key in statement.keys)
    if private and statement.having and not statement.queries:
        return True
    return any((private and query.per) or _hard(query, secret) for query in asked)


def _hard(query: Query, secret: frozenset[str]) -> bool:
    """Is it a variance, a yes/no question, or a quotient over something private?"""
    if query.aggregate is Aggregate.VAR or (query.test is not None and not _public((*query.terms, *query.per), secret)):
        return True
    return not _public(query.per, secret)


def _public(terms: Iterable[Term], secret: frozenset[str]) -> bool:
    return all(term.column is None and not secret & columns(term.where) for term in terms)


def _with(side: exp.Expr, with_: exp.With) -> exp.Expr:
    side = side.copy()
    while isinstance(side, exp.Subquery) and side.args.get("alias") is None:
        side = side.this
    own = side.args.get("with_")
    ctes = [cte.copy() for cte in (*with_.expressions, *(own.expressions if own is not None else ()))]
    side.set("with_", exp.With(expressions=ctes, recursive=with_.args.get("recursive")))
    return side


def _told_apart(sides: list[exp.Expr]) -> bool:
    """Is there a column in which both sides have a constant of their own?"""
    if not all(isinstance(side, exp.Select) for side in sides):
        return False
    pairs = zip(*([item.unalias() for item in side.expressions] for side in sides), strict=False)
    return any(_differ(a, b) for a, b in pairs)


def _differ(a: exp.Expr, b: exp.Expr) -> bool:
    """Are these two constants that no engine takes for equal? 1 and 1.0 are, 'a' and 'A ' may be."""
    if not isinstance(a, exp.Literal) or not isinstance(b, exp.Literal) or a.is_string is not b.is_string:
        return False
    if a.is_string:
        return a.name.strip().casefold() != b.name.strip().casefold()
    try:
        return read_fraction(a.name) != read_fraction(b.name)
    except ValueError:
        return False


def _cut(tree: exp.Expr) -> bool:
    return any(tree.args.get(name) is not None for name in _CUT)


def _tree(sql: str, dialect: str) -> exp.Expr:
    try:
        found = sqlglot.parse(sql, read=find_engine(dialect).parser)
    except (SqlglotError, RecursionError, ValueError, AttributeError, TypeError, IndexError, KeyError):
        raise NotTold("it cannot be read") from None
    if len(found) != 1 or not isinstance(found[0], exp.Expr):
        raise NotTold("one statement at a time")
    tree = found[0]
    if dialect != Dialect.DUCKDB:
        tree = without_own_catalog(plainly(tree) if find_engine(dialect).national_texts_and_hints else tree)
    if (unclaimed := find_unclaimed(tree)) is not None:
        # what is said of the text itself is clearer where a kind of node is not known at all
        raise NotTold(unclaimed.reason) if unclaimed.whole_node else UnsupportedQuery(unclaimed.reason)
    return tree


def of_dimensions(sql: str, dialect: str, schema: Schema) -> Statement | None:
    """A statement that reads dimensions and nothing else, or no table (`SELECT 1`), as a public figure; else None.

    What asks no table has no term: it is judged, and is no all-clear by itself.

    Guarantee: each table in it is a declared dimension or a query of WITH over such, and it calls no function that is
    unknown here (it might read something else). Its own text is in `written`, to be run before it counts. Cost: two
    parses.

    >>> from keyhole.model.schema import Column, Kind, Related
    >>> states = Related("states", (Column("code", Kind.TEXT),), (("code", "state"),), dimension=True, secret=False)
    >>> schema = Schema("people", (Column("state", Kind.TEXT),), related=(states,))
    >>> of_dimensions("SELECT COUNT(*) FROM states", "duckdb", schema).queries[0].aggregate
    <Aggregate.PUBLIC: 'PUBLIC'>
    >>> of_dimensions("SELECT COUNT(*) FROM states JOIN people ON code = state", "duckdb", schema)
    """
    if reads_nothing_of_people(sql, dialect):
        return Statement(sql, (Query(Aggregate.PUBLIC, ()),))
    if not any(related.dimension for related in schema.related):
        return None
    try:
        (tree,) = sqlglot.parse(sql, read=find_engine(dialect).parser)
    except (SqlglotError, RecursionError, ValueError, AttributeError, TypeError, IndexError, KeyError):
        return None
    if not isinstance(tree, exp.Query) or tree.find(exp.Anonymous, exp.AnonymousAggFunc, exp.Into) is not None:
        return None
    tables = [table for table in tree.find_all(exp.Table) if not of_with(table)]
    if not tables or not all(_is_dimension(table, schema) for table in tables):
        return None
    asked = Query(Aggregate.PUBLIC, (Term(None, weight="COUNT(*)"),))
    carry = Carried(sql) if dialect == Dialect.DUCKDB else in_duckdb(tree, dialect)
    if carry.reason:
        return None
    return Statement(sql, (asked,), tables=related_names(tree, schema), written=carry.sql)


def _is_dimension(table: exp.Table, schema: Schema) -> bool:
    related = schema.table_named(table.name) if isinstance(table.this, exp.Identifier) else None
    return related is not None and related.dimension
