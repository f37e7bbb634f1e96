"""Statements that tell at least as much: an answer computed from grouped answers, opened down to these.

A share, a rank, an average of averages, a QUALIFY or a join of two grouped subqueries is a function of what some plain
SELECTs with GROUP BY answer. Whoever is open when all of these are shown is open when only the function is shown. So
they are judged instead, for the all-clear alone; what they would expose is not claimed (`keyhole.auditing.shown`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from keyhole.model.schema import Column, Kind, Schema, fold_name
from keyhole.sql.lowering.grammar import orders_by_shown
from keyhole.sql.rewriting.moments import find_moments, is_aggregate
from keyhole.sql.statements.tree import (
    COMPARISONS,
    LOGIC,
    PLACES,
    RANKS,
    ROW_SOURCES,
    SPREADS,
    find_condition,
    find_source,
    list_children,
    list_ordered,
    list_sources,
    list_with_queries,
    map_aliases,
    strip_parentheses,
    strip_query,
)

MAX_SELECTS = 64


class NoUpperBound(Exception):
    """The answer is no function of grouped answers; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query of WITH: `rows` passes records on, else it is computed from grouped answers."""

    cte: exp.CTE
    rows: bool


def find_upper_bound(tree: exp.Expr, schema: Schema) -> list[exp.Select]:
    """Plain SELECTs whose answers, all together, determine the answer of the statement.

    Guarantee: every read of the table is inside one of them, under the same WHERE, and whatever else the statement
    looks at is a key or an aggregate that they show. Raises `NoUpperBound`. Cost: one walk over the tree.

    >>> import sqlglot
    >>> from keyhole.model.schema import Column, Kind, Role
    >>> staff = Schema("t", (Column("pay", Kind.INTEGER, Role.PRIVATE), Column("dept", Kind.TEXT)))
    >>> text = "SELECT dept, MAX(pay) - MIN(pay) AS gap FROM t GROUP BY 1 HAVING COUNT(*) > 5 ORDER BY gap LIMIT 3"
    >>> [found.sql() for found in find_upper_bound(sqlglot.parse_one(text), staff)]
    ['SELECT dept, MAX(pay), MIN(pay), COUNT(*) FROM t GROUP BY dept']
    """
    reader = _UpperBound(schema)
    if reader.query(tree, {}):
        raise NoUpperBound("it lists records: only what is computed from aggregates is judged")
    if not reader.found:
        raise NoUpperBound("it asks nothing of the table")
    return list({select.sql(): select for select in reader.found}.values())


class _UpperBound:
    def __init__(self, schema: Schema) -> None:
        self.columns = {fold_name(c.name) for c in schema.columns}
        self.secret = set(map(fold_name, schema.private_names))
        self.public = self.columns - self.secret
        self.found: list[exp.Select] = []
        self.keys: list[set[str]] = []  # of the SELECTs over records in whose expressions the reader is
        self.visible: list[set[str]] = []  # there: the names and aliases (with a dot) in FROM of queries around

    def query(self, node: exp.Expr, known: dict[str, NamedQuery]) -> bool:
        """Opens a query; True if it passes records on."""
        node = strip_query(node)
        if not isinstance(node, exp.Select | exp.SetOperation):
            raise NoUpperBound("only a SELECT with aggregates over the one table is judged")
        known = self.named(node, known)
        if isinstance(node, exp.SetOperation):
            if self.query(node.this, known) or self.query(node.expression, known):
                raise NoUpperBound("a UNION of records is not judged: put it in a view")
            return False
        if node.args.get("into"):
            raise NoUpperBound("SELECT INTO writes a table: only reading is judged")
        if node.args.get("laterals") or node.args.get("sample") or node.args.get("pivots"):
            raise NoUpperBound("LATERAL, PIVOT and samples are not judged: put them in a view")
        sources, joins = list_sources(node), node.args.get("joins") or []
        rows = [self.source(source, known) for source in sources]
        if not any(rows):
            parts = [*_list_parts(node), *(part for join in joins for part in _list_parts(join, "this"))]
            self.visible.append({name for source in sources for name in _names_of_source(source, known)})
            if self.keys:
                self.check_names(parts)
            self.inside(parts, known)
            self.visible.pop()
            return False
        if len(rows) > 1:
            raise NoUpperBound("a join with the records of the table is not judged: put it in a view")
        where = find_condition(node)
        if where is not None and where.find(exp.Query) is not None:
            raise NoUpperBound("a subquery in WHERE is not judged: write the value, or put the condition into a view")
        return self.select(node, known)

    def named(self, node: exp.Expr, known: dict[str, NamedQuery]) -> dict[str, NamedQuery]:
        known = dict(known)
        for cte in list_with_queries(node):
            if node.args["with_"].args.get("recursive") or cte.args["alias"].args.get("columns"):
                raise NoUpperBound("WITH RECURSIVE, or with a list of columns, is not judged: use AS in the SELECT")
            known[fold_name(cte.alias)] = NamedQuery(cte, self.query(cte.this, known))
        return known

    def source(self, node: exp.Expr, known: dict[str, NamedQuery]) -> bool:
        """Does this part of FROM pass records on?"""
        if isinstance(node, exp.Subquery):
            return self.query(node.this, known)
        inner = node.this if isinstance(node, exp.Table) else node
        if isinstance(inner, ROW_SOURCES) and node.find(exp.Column, exp.Query) is None:
            return False  # a list of constants
        if not isinstance(node, exp.Table) or not isinstance(inner, exp.Identifier):
            raise NoUpperBound("FROM takes the one table, or subqueries over it: put the rest in a view")
        named = known.get(fold_name(node.name)) if not node.args.get("db") else None
        return named is None or named.rows

    def inside(self, parts: Iterable[exp.Expr], known: dict[str, NamedQuery]) -> None:
        """Queries inside of expressions, which must not pass records on."""
        for part in parts:
            for inner in _find_queries(part):
                if self.query(inner, known):
                    raise NoUpperBound("a subquery that lists records is not judged: put it in a view")

    def check_names(self, parts: Iterable[exp.Expr]) -> None:
        """A name that no source of a query has means the records outside of it: `(SELECT MAX(pay))` is theirs."""
        for part in parts:
            for column in _columns_outside_queries(part):
                name = f"{fold_name(column.table)}." if column.table else fold_name(column.name)
                if not any(name in names for names in self.visible) and not any(
                    _normalize(column) in k for k in self.keys
                ):
                    raise NoUpperBound(f"{column.name} in a subquery means records outside of it: write it outside")

    def select(self, node: exp.Select, known: dict[str, NamedQuery]) -> bool:
        """A SELECT over records: True if it passes them on, else what it shows is noted."""
        items = [item.unalias() for item in node.expressions]
        grouped = node.args.get("group") is not None or any(map(_has_aggregate, _list_parts(node)))
        if not grouped and not node.args.get("distinct") and not node.find(exp.Window):
            return True
        if any(isinstance(i, exp.Star | exp.Column) and i.is_star for i in items):
            raise NoUpperBound("* beside an aggregate or a window is not judged: name the columns")
        aliases = {name: part for name, part in map_aliases(node).items() if name not in self.columns}
        shown = _GroupedSelect(self, known, aliases)
        if not grouped:
            shown.windows(node, items)
        else:
            clause, keys = resolve_group_keys(node, items, aliases)
            shown.grouped(node, clause, keys)
        if len(self.found) > MAX_SELECTS:
            raise NoUpperBound(f"it is computed from more than {MAX_SELECTS} SELECTs: ask for them separately")
        return False


class _GroupedSelect:
    """What one SELECT over records computes its answer from."""

    def __init__(self, reader: _UpperBound, known: dict[str, NamedQuery], aliases: dict[str, exp.Expr]) -> None:
        self.reader, self.known, self.aliases = reader, known, aliases
        self.sums: dict[str, exp.Expr] = {}
        self.values: dict[str, tuple[exp.Expr, exp.Expr | None]] = {}  # whose distinct values are counted, and of whom

    def grouped(self, node: exp.Select, clause: exp.Group | None, keys: list[exp.Expr]) -> None:
        """GROUP BY: keys and aggregates."""
        texts = {_normalize(key) for key in keys}
        shown, ordered = map_aliases(node), list_ordered(node)
        for part in (*_list_parts(node, "where", "group", "order"), *ordered):
            named = isinstance(part, exp.Column) and len(part.parts) == 1 and fold_name(part.name) in shown
            if not (named and any(part is each for each in ordered)):  # in ORDER BY an alias goes before a column
                self.collect(part, texts)
        self.add(node, clause, keys)

    def windows(self, node: exp.Select, items: list[exp.Expr]) -> None:
        """Window functions of records beside public columns, or DISTINCT: groups by partition and order.

        A frame tells people of one place in the order apart, and a private condition or order tells of whom: not so.
        """
        windows = list(node.find_all(exp.Window))
        if windows and not self.reader.public.issuperset(self.beside(node)):
            raise NoUpperBound("beside a window function over records only public columns are judged: use GROUP BY")
        for window in windows:
            if window.args.get("alias") is not None or window.args.get("spec") is not None:
                raise NoUpperBound("a named window, or one with a frame, over records is not judged: use GROUP BY")
            keys = [*(window.args.get("partition_by") or []), *list_ordered(window)]
            each = _GroupedSelect(self.reader, self.known, self.aliases)
            if is_aggregate(window.this) and window.this.find(exp.Column, exp.Star) is not None:
                each.note(window.this)
            each.add(node, exp.Group(expressions=[k.copy() for k in keys]) if keys else None, keys)
        shown = {fold_name(item.alias_or_name) for item in node.expressions}
        if not windows and not orders_by_shown(node.args.get("order"), shown):
            raise NoUpperBound("ORDER BY of DISTINCT is judged by columns that it shows: add the expression to SELECT")
        plain = [item for item in items if item.find(exp.Window) is None]
        if node.args.get("distinct") and plain:
            self.add(node, exp.Group(expressions=[p.copy() for p in plain]), plain)

    def beside(self, node: exp.Select) -> Iterator[str]:
        """The columns that a SELECT with windows looks at outside of the functions of these."""
        waiting = _list_parts(node)
        while waiting:
            part = waiting.pop()
            if isinstance(part, exp.Query):
                raise NoUpperBound("a subquery beside a window function is not judged: use GROUP BY")
            if isinstance(part, exp.Window):
                waiting += [child for child in part.iter_expressions() if child is not part.this]
            elif isinstance(part, exp.Column):
                if len(part.parts) > 1 or fold_name(part.name) not in self.aliases:
                    yield fold_name(part.name)
            else:
                waiting += part.iter_expressions()

    def collect(self, node: exp.Expr, keys: set[str]) -> None:
        """Notes the aggregates below a node; everything else there must be a key or look at nothing."""
        if _normalize(node) in keys:
            return
        if isinstance(node, exp.Query):
            self.reader.keys.append(keys)
            self.reader.inside([node], self.known)
            self.reader.keys.pop()
        elif isinstance(node, exp.Window):
            self.inner(node.this, keys)
            for child in (*(node.args.get("partition_by") or []), *filter(None, [node.args.get("order")])):
                self.collect(child, keys)
        elif isinstance(node, exp.Grouping):
            return
        elif is_aggregate(node):
            self.note(node)
        elif isinstance(node, exp.Column):
            if len(node.parts) > 1 or fold_name(node.name) not in self.aliases:
                raise NoUpperBound(
                    f"{node.name} is neither in GROUP BY nor in an aggregate: only aggregates are judged"
                )
        else:
            for child in node.iter_expressions():
                self.collect(child, keys)

    def inner(self, node: exp.Expr, keys: set[str]) -> None:
        """The function of a window over groups: its arguments are looked at, it is no aggregate of records itself."""
        for child in node.iter_expressions():
            if isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls) and child is node.this:
                self.inner(child, keys)
            elif not isinstance(child, exp.Star):
                self.collect(child, keys)

    def note(self, node: exp.Expr) -> None:
        found = find_moments(node, self.reader.secret)
        for part in found.sums:
            self.sums.setdefault(part.sql(), part)
        if found.value is not None:
            self.values[_normalize(node)] = (found.value, found.where)

    def add(self, node: exp.Select, clause: exp.Group | None, keys: list[exp.Expr]) -> None:
        """The SELECTs that show all this."""
        counted = [exp.Count(this=exp.Star())]
        shown = list(self.sums.values())
        if shown or not self.values:
            self.reader.found.append(self.made(node, clause, [*keys, *(shown or counted)]))
        for value, where in self.values.values():
            by = exp.Group() if clause is None else clause.copy()
            named = value.expressions if isinstance(value, exp.Tuple) else [value]
            for each in named:
                by.append("expressions", each.copy())
            made = self.made(node, by, [*keys, *named, *counted])
            if where is not None:
                made = made.where(where.copy())
            self.reader.found.append(made)

    def made(self, node: exp.Select, clause: exp.Group | None, items: list[exp.Expr]) -> exp.Select:
        made = exp.Select(expressions=[item.copy() for item in items])
        for name in ("from_", "where"):
            if node.args.get(name) is not None:
                made.set(name, node.args[name].copy())
        if clause is not None and (clause.expressions or any(clause.args.values())):
            made.set("group", clause.copy())
        used = list(_list_used_queries(made, self.known))
        if used:
            made.set("with_", exp.With(expressions=[name.cte.copy() for name in used]))
        return made


def _list_used_queries(made: exp.Expr, known: dict[str, NamedQuery]) -> Iterator[NamedQuery]:
    """The queries of WITH that a SELECT needs, in their order."""
    wanted = {fold_name(table.name) for table in made.find_all(exp.Table) if not table.args.get("db")}
    for name, each in reversed(known.items()):
        if name in wanted and each.rows:
            wanted |= {fold_name(table.name) for table in each.cte.find_all(exp.Table)}
    yield from (each for name, each in known.items() if name in wanted and each.rows)


def _list_parts(node: exp.Expr, *without: str) -> list[exp.Expr]:
    """What a SELECT or a join says besides WITH, FROM and JOIN."""
    return [part.unalias() for part in list_children(node, "with_", "from_", "joins", *without)]


def _find_queries(node: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost queries inside of an expression."""
    if isinstance(node, exp.Query):
        yield node
        return
    for child in node.iter_expressions():
        yield from _find_queries(child)


def _columns_outside_queries(node: exp.Expr) -> Iterator[exp.Column]:
    """The columns in an expression, without those inside of its queries."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Column):
        yield node
    for child in node.iter_expressions():
        yield from _columns_outside_queries(child)


def _names_of_source(source: exp.Expr, known: dict[str, NamedQuery]) -> set[str]:
    """The names that a part of FROM has: its columns, and its alias with a dot."""
    named = known.get(fold_name(source.name)) if isinstance(source, exp.Table) and not source.args.get("db") else None
    query = source.this if isinstance(source, exp.Subquery) else named.cte.this if named is not None else None
    names = {f"{fold_name(source.alias_or_name)}."}
    if query is not None:
        return names | _names_of_query(query, known)
    alias = source.args.get("alias")
    return names | {
        fold_name(column.name) for column in (alias.args.get("columns") if alias is not None else None) or ()
    }


def _names_of_query(query: exp.Expr, known: dict[str, NamedQuery]) -> set[str]:
    """The columns that a query has; of * those of its sources."""
    while isinstance(query, exp.Subquery | exp.Paren | exp.SetOperation):
        query = query.this
    names: set[str] = set()
    for item in query.expressions:
        if item.is_star:
            names |= {name for source in list_sources(query) for name in _names_of_source(source, known)}
        else:
            names.add(fold_name(item.alias_or_name))
    return {name for name in names if not name.endswith(".")}


def _has_aggregate(node: exp.Expr) -> bool:
    """Is there an aggregate of records in an expression? The function of a window is none, what is in it may be."""
    if isinstance(node, exp.Query):
        return False
    if isinstance(node, exp.Window):
        function: exp.Expr = node.this
        below: list[exp.Expr] = [child for child in node.iter_expressions() if child is not node.this]
        if isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            below += [child for child in function.iter_expressions() if child is not function.this]
            function = function.this
        return any(map(_has_aggregate, (*below, *function.iter_expressions())))
    return is_aggregate(node) or any(map(_has_aggregate, node.iter_expressions()))


def resolve_group_keys(
    node: exp.Select, items: list[exp.Expr], aliases: dict[str, exp.Expr]
) -> tuple[exp.Group | None, list[exp.Expr]]:
    """GROUP BY with positions and aliases replaced by what they stand for, and the keys in it."""
    group = node.args.get("group")
    if group is None:
        return None, []
    clause = group.copy()
    if clause.args.get("all"):
        clause = exp.Group(
            expressions=[item.copy() for item in items if not _has_aggregate(item) and item.find(exp.Column)]
        )
    keys: list[exp.Expr] = []

    def resolve(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            part.set("expressions", [resolve(child) for child in part.expressions])
            return part
        part = strip_parentheses(part)
        if isinstance(part, exp.Literal) and not part.is_string:
            if not part.name.isdigit() or not 1 <= int(part.name) <= len(items):
                raise NoUpperBound(f"GROUP BY {part.name}: the SELECT list has {len(items)} items")
            part = items[int(part.name) - 1].copy()
        elif isinstance(part, exp.Column) and len(part.parts) == 1 and fold_name(part.name) in aliases:
            part = aliases[fold_name(part.name)].copy()
        if _has_aggregate(part) or part.find(exp.Query, exp.Window) is not None:
            raise NoUpperBound("GROUP BY takes columns and expressions over them")
        if _normalize(part) not in {_normalize(key) for key in keys}:
            keys.append(part.copy())
        return part

    for name in ("expressions", "rollup", "cube", "grouping_sets"):
        listed = clause.args.get(name)
        if isinstance(listed, list):
            clause.set(name, [resolve(part) for part in listed])
    return clause, keys


def _normalize(node: exp.Expr) -> str:
    """An expression to compare with others: without what stands before the dots, and without capitals in names."""

    def plain(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and isinstance(part.this, exp.Identifier):
            return exp.column(fold_name(part.name))
        return part

    return str(strip_parentheses(node).copy().transform(plain).sql())


# --- what is shown beside it ------------------------------------------------------------------------------------------
# What a statement shows as it is, beside what it computes from it: `SELECT dept, SUM(pay), RANK() OVER (...) ...`.
#
# The sums stand in the answer, whatever is computed beside them. So the SELECT with its plain items alone was shown,
# and counts as such; what the whole is computed from (`find_upper_bound`) still stands beside it, for the all-clear.


MAX_ITEMS = 40
_CUT_OFF = ("limit", "offset", "qualify", "fetch", "distinct")


def keep_plain_items(
    tree: exp.Expr, columns: Collection[str], can_be_read: Callable[[exp.Select], bool]
) -> exp.Select | None:
    """The SELECT with its keys and those of its aggregates that can be read, if it shows all of its rows and keys.

    Guarantee: each column of its answer is that column of the answer of `tree`, or 0. `columns` are those of the table,
    case folded. None if there is no such aggregate, or nothing else. Cost: one reading for each item.

    >>> import sqlglot
    >>> tree = sqlglot.parse_one("SELECT d AS dept, SUM(x) AS s, RANK() OVER (ORDER BY SUM(x)) FROM t GROUP BY 1")
    >>> keep_plain_items(tree, {"d", "x"}, lambda made: True).sql()
    'SELECT d, SUM(x), 0 FROM t GROUP BY d'
    >>> tree = sqlglot.parse_one("SELECT SUM(x), RANK() OVER (ORDER BY SUM(x)) FROM t GROUP BY d")
    >>> keep_plain_items(tree, {"d", "x"}, lambda made: True)
    """
    if not isinstance(tree, exp.Select) or any(tree.args.get(name) is not None for name in _CUT_OFF):
        return None
    items = [item.unalias() for item in tree.expressions]
    aliases = {name: part for name, part in map_aliases(tree).items() if name not in columns}
    try:
        clause, keys = resolve_group_keys(tree, items, aliases)
    except NoUpperBound:
        return None
    if len(items) > MAX_ITEMS or not all(key in items for key in keys):
        return None
    bare = tree.copy()
    bare.set("order", None)
    bare.set("group", clause)
    rest = [item for item in items if item not in keys and item.find(exp.Window, exp.Query, exp.Grouping) is None]
    told = [item for item in rest if can_be_read(_with_items(bare, [*keys, item]))]
    if not told or len(told) + len(keys) >= len(items):
        return None
    return _with_items(bare, [item if item in keys or item in told else exp.Literal.number(0) for item in items])


def _with_items(bare: exp.Select, items: list[exp.Expr]) -> exp.Select:
    made = bare.copy()
    made.set("expressions", [item.copy() for item in items])
    return made


# --- places in a private order ----------------------------------------------------------------------------------------
# People put in order by a private column (NTILE, RANK, ...) and summed up by their place: what tells more than that.
#
# `SELECT q, AVG(pay) FROM (SELECT pay, NTILE(4) OVER (ORDER BY pay) AS q FROM t) GROUP BY q` looks at each record by
# its pay and the place of that in the order. Both follow from how many people have each pay, so `SELECT pay, COUNT(*)
# FROM t GROUP BY pay` tells at least as much; who they are plays no part, since people who share a place have the same
# pay. With another column beside it that is so only for functions that give equals the same place: RANK, DENSE_RANK,
# PERCENT_RANK, CUME_DIST; NTILE and ROW_NUMBER put one of two equals first, and which one is about who he is. Their
# places alone, not the pay, follow from how many people there are.


_ADDED = (exp.Sum, exp.Avg, *SPREADS)
_AGGREGATES = (*_ADDED, exp.Min, exp.Max, exp.Count, exp.Median)
_OUTER = frozenset(("expressions", "from_", "where", "group", "having", "order", "limit", "with_"))
_INNER = frozenset(("expressions", "from_", "where"))
_PLAIN = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.Alias, exp.Star, exp.Distinct),
    *(*COMPARISONS, exp.Between, exp.In, exp.Is, *LOGIC),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Round, exp.Case, exp.If, exp.Coalesce, exp.Cast, exp.DataType),
    *(exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Filter),
)


def count_ranked_values(tree: exp.Expr, schema: Schema) -> list[exp.Select]:
    """The SELECT that tells at least as much as one over places in a private order; none if it is no such statement.

    Guarantee: two tables in which each combination of the columns shown comes equally often give the same answer (but
    for the order of its rows). Cost: one walk over the tree.

    >>> import sqlglot
    >>> from keyhole.model.schema import Role
    >>> staff = Schema("t", (Column("pay", Kind.INTEGER, Role.PRIVATE), Column("dept", Kind.TEXT)))
    >>> inner = "SELECT pay, NTILE(4) OVER (ORDER BY pay) AS q FROM t WHERE dept = 'legal'"
    >>> tree = sqlglot.parse_one(f"SELECT q, MAX(pay) FROM ({inner}) GROUP BY q")
    >>> [select.sql() for select in count_ranked_values(tree, staff)]
    ["SELECT pay, COUNT(*) FROM t WHERE dept = 'legal' GROUP BY pay"]
    """
    inner = _find_inner_select(tree)
    if inner is None or not isinstance(tree, exp.Select) or not _is_summary(tree):
        return []
    windows = [item.unalias() for item in inner.expressions if isinstance(item.unalias(), exp.Window)]
    columns = _list_columns_looked_at(tree, inner, schema)
    if not windows or columns is None:
        return []
    by = _order_column(windows, schema)
    if by is None or (by.kind is Kind.DOUBLE and tree.find(*_ADDED) is not None):
        return []
    parts = {fold_name(part.name): part for window in windows for part in window.args.get("partition_by") or ()}
    alike = all(len(window.args.get("partition_by") or ()) == len(parts) for window in windows)
    known = {fold_name(c.name): c for c in schema.columns}
    keys = parts | {name: exp.column(name) for name in columns if name != fold_name(by.name)}
    if any(name not in known or known[name].secret for name in keys):
        return []
    one_by_one = [window for window in windows if isinstance(window.this, PLACES)]
    if one_by_one and (not alike or len(keys) > len(parts)):
        return []
    value = fold_name(by.name) in columns or len(one_by_one) < len(windows)  # else places alone: one each
    named = (*(known[name].name for name in keys), *([by.name] if value else ()))
    listed = [exp.column(exp.to_identifier(name, quoted=not name.isidentifier())) for name in named]
    made = exp.Select(expressions=[*listed, exp.Count(this=exp.Star())])
    for name in ("from_", "where"):
        if inner.args.get(name) is not None:
            made.set(name, inner.args[name].copy())
    if listed:
        made.set("group", exp.Group(expressions=[key.copy() for key in listed]))
    return [made]


def _find_inner_select(tree: exp.Expr) -> exp.Select | None:
    """The SELECT over the table in FROM or WITH, if that is all there is."""
    source, ctes = find_source(tree), list_with_queries(tree)
    if isinstance(source, exp.Table) and len(ctes) == 1 and fold_name(ctes[0].alias) == fold_name(source.name):
        inner = ctes[0].this if not ctes[0].args["alias"].args.get("columns") else None
    else:
        inner = source.this if isinstance(source, exp.Subquery) and not ctes else None
    if not isinstance(inner, exp.Select) or not {k for k, v in inner.args.items() if v} <= _INNER:
        return None
    table = find_source(inner)
    plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier) and table.args.get("alias") is None
    return inner if plain and all(query is inner for query in inner.find_all(exp.Query)) else None


def _list_columns_looked_at(tree: exp.Select, inner: exp.Select, schema: Schema) -> list[str] | None:
    """The columns of the table that the outer SELECT looks at through the inner one; None if it may be more."""
    passed: dict[str, exp.Expr] = {}
    every = False
    for item in inner.expressions:
        if isinstance(item, exp.Star) and not any(item.args.values()):
            every = True
        elif isinstance(item.unalias(), exp.Column | exp.Window) and item.alias_or_name:
            passed.setdefault(fold_name(item.alias_or_name), item.unalias())
        else:
            return None
    names = []
    for column in (c for part in _own_parts(tree) for c in part.find_all(exp.Column)):
        name = fold_name(column.name)
        source = passed.get(name)
        if every and schema.find(name) is not None:
            source = None if isinstance(source, exp.Window) else exp.column(name)  # two columns of a name: not judged
        if source is None and name not in {fold_name(item.alias) for item in tree.expressions}:
            return None
        if isinstance(source, exp.Column):
            names.append(fold_name(source.name))
    return list(dict.fromkeys(names))


def _is_summary(tree: exp.Select) -> bool:
    """Is it one SELECT with aggregates of the plain kind, which do not look at the order of rows?"""
    if not {k for k, v in tree.args.items() if v} <= _OUTER:
        return False
    nodes = [node for part in _own_parts(tree) for node in part.walk()]
    grouped = tree.args.get("group") is not None or any(isinstance(node, _AGGREGATES) for node in nodes)
    return grouped and all(type(node) in _PLAIN or isinstance(node, _AGGREGATES) for node in nodes)


def _own_parts(tree: exp.Select) -> list[exp.Expr]:
    return list_children(tree, "from_", "with_")


def _order_column(windows: list[exp.Window], schema: Schema) -> Column | None:
    """The private column by which all of them put people in order, in parts by public columns."""
    found = {_ordered_by(window) for window in windows}
    column = schema.find(found.pop()) if len(found) == 1 else None
    return column if column is not None and column.secret else None


def _ordered_by(window: exp.Window) -> str:
    """The column of ORDER BY; empty if the window is of another kind."""
    keys = list_ordered(window)
    if window.args.get("spec") is not None or window.args.get("alias") is not None or len(keys) != 1:
        return ""
    if not isinstance(window.this, (*RANKS, *PLACES)) or window.this.find(exp.Column) is not None:
        return ""
    parts = window.args.get("partition_by") or ()
    plain = all(isinstance(key, exp.Column) for key in (*keys, *parts))
    return str(keys[0].name) if plain else ""
