"""One SELECT -> a `Statement`: FROM, WHERE, GROUP BY, HAVING, and what ORDER BY and LIMIT give away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from keyhole.errors import QueryError, UnsupportedQuery
from keyhole.model.predicate import Predicate, format_literal, make_and, quote_name
from keyhole.model.query import Aggregate, Key, OrderTerm, Query, Shown, Statement, list_questions
from keyhole.model.schema import Column, Schema, fold_name
from keyhole.sql.lowering.aggregate import AggregateReader
from keyhole.sql.lowering.buckets import read_bucket, write_bucket
from keyhole.sql.lowering.constants import NotConstant, to_decimal
from keyhole.sql.lowering.exists import split_conjunction
from keyhole.sql.lowering.from_clause import SELECT, check_clauses, list_related_tables, read_from_clause
from keyhole.sql.lowering.grammar import find_unclaimed
from keyhole.sql.rewriting.limit import read_order_term
from keyhole.sql.statements.parse import (
    MAX_DEPTH,
    SourceText,
    keep_tree,
    parse_select,
    read_shape,
    recall_tree,
)
from keyhole.sql.statements.tree import find_condition, strip_parentheses

MAX_SETS = 256


def lower_statement(text: str, schema: Schema) -> Statement:
    """What one SQL statement asks of the table: its aggregates as queries, its keys and conditions as values.

    Deterministic, and never touches data: an error depends on the text and the schema alone. Raises `ParseError`,
    `UnknownColumn` or `UnsupportedQuery`, each with the caret and what to write instead. Whatever is returned means
    the same as the text (`Query.canonical`), NULL included; `keyhole.reading` checks that by execution.

    >>> from keyhole.model.schema import Column, Kind, Role
    >>> staff = Schema("staff", (Column("pay", Kind.INTEGER, Role.PRIVATE, nullable=False), Column("dept", Kind.TEXT)))
    >>> lower_statement("SELECT SUM(pay) FROM staff WHERE dept = 'legal'", staff).queries[0].canonical()
    'SUM("pay") FILTER (WHERE "dept" = \\'legal\\')'
    """
    shaped = read_shape(text)
    if shaped is not None and (kept := recall_tree(text, *shaped)) is not None:
        try:
            return _Lowering(kept[0], schema, kept[1]).statement()
        except (QueryError, RecursionError):
            pass  # its place is that of an earlier text: parse this one
    source, select = parse_select(text)
    try:
        lowering = _Lowering(source, schema, select)
        statement = lowering.statement()
    except RecursionError:
        raise UnsupportedQuery(f"nested too deeply (limit {MAX_DEPTH}): write it flatter", text, 0) from None
    if (unclaimed := find_unclaimed(select)) is not None:
        raise source.refuse(unclaimed.reason, unclaimed.node)
    if shaped is not None:
        keep_tree(source, select, *shaped, lowering.spans())
    return statement


class _Lowering:
    def __init__(self, source: SourceText, schema: Schema, select: exp.Select) -> None:
        self.source = source
        self.select = select
        check_clauses(source, select, SELECT, joins=schema.several)
        self.scope = read_from_clause(source, schema, select, {})
        self.items = [_Item(node) for node in select.expressions]
        for item, label in zip(self.items, list_labels(source, [bool(i.alias) for i in self.items]), strict=True):
            item.label = label
        self.keys: list[Key] = []
        self.key_of: dict[str, int] = {}  # canonical text of a key -> its index

    def spans(self) -> list[tuple[int, int]]:
        return find_label_spans(self.source, [bool(i.alias) for i in self.items])

    def statement(self) -> Statement:
        source, select = self.source, self.select
        plain = AggregateReader(self.scope)
        written = self.grouping(plain)
        sets = tuple(dict.fromkeys(written))
        conditions, tests = self.having(plain, sets)
        scope = replace(self.scope, where=make_and(self.scope.where, *conditions)) if conditions else self.scope
        reader = AggregateReader(scope)
        queries: list[Query] = []
        shown_items: list[Shown] = []
        for item in self.items:
            if item.is_key or self.is_constant(reader, item) or self.is_key(reader, item):
                shown_items.append(Shown(sql=self.key_text(reader, item)))
                continue
            shown_items.append(Shown(len(queries)))
            queries.append(reader.read_question(item.node, item.label))
        having = [reader.read_test(test) for test in tests]
        if not queries and not (having and self.keys):  # which groups HAVING shows is an answer by itself
            raise source.refuse(
                "there is no aggregate: only SUM, AVG, COUNT, MIN, MAX and their kin are judged", select
            )
        self.no_public_figure_of_a_private_group(queries, [q for test in having for q in list_questions(test)])
        order = self.order(reader, queries)
        self.limit(reader)
        return Statement(
            source.text,
            tuple(queries),
            scope.where,
            tuple(self.keys),
            sets,
            tuple(having),
            tuple(shown_items),
            scope.table,
            tables=list_related_tables(select, scope.schema) if scope.schema.related else (),
            order=order,
            again=tuple(one for i, one in enumerate(written) if one in written[:i]),
        )

    def key_text(self, reader: AggregateReader, item: _Item) -> str:
        """A constant, a key, or a function of keys as SQL; empty for a constant without a finite decimal form."""
        value = reader.fold_constant(item.node)
        if not isinstance(value, NotConstant):
            number = to_decimal(value) if isinstance(value, Fraction) else value
            return "" if number is None and value is not None else format_literal(number)
        if isinstance(strip_parentheses(item.node), exp.Column):
            found = reader.list_columns(item.node)
            if len(found) == 1 and found[0].secret:
                return quote_name(found[0].name)
        return write_bucket(reader, item.node, self.word) or reader.read_public(item.node).sql

    def no_public_figure_of_a_private_group(self, queries: Sequence[Query], tests: Sequence[Query]) -> None:
        secret = [k.name for k in self.keys if k.hidden(self.scope.schema.private_names)]
        if secret and any(q.aggregate is Aggregate.PUBLIC for q in (*queries, *tests)):
            raise self.source.refuse(
                f"a figure about public columns per {secret[0]}, which is {self.word}, is not judged: ask COUNT(*)",
                self.select,
            )

    @property
    def word(self) -> str:
        return self.scope.schema.word

    def is_constant(self, reader: AggregateReader, item: _Item) -> bool:
        return not isinstance(reader.fold_constant(item.node), NotConstant)

    def is_key(self, reader: AggregateReader, item: _Item) -> bool:
        """A grouped expression, or a function of grouped public columns: it shows nothing but the key."""
        if reader.has_aggregate(item.node):
            return False
        if not self.keys:
            return False
        if isinstance(strip_parentheses(item.node), exp.Column):
            found = reader.list_columns(item.node)
            if len(found) == 1 and quote_name(found[0].name) in self.key_of:
                return True
        if reader.touches_private(item.node):
            return write_bucket(reader, item.node, self.word) in self.key_of
        made = reader.read_public(item.node)
        return made.sql in self.key_of or all(quote_name(name) in self.key_of for name in made.columns)

    # GROUP BY

    def grouping(self, reader: AggregateReader) -> tuple[tuple[int, ...], ...]:
        group = self.select.args.get("group")
        if group is None:
            return ((),)
        for name, value in group.args.items():
            if value and name not in ("expressions", "all", "grouping_sets", "rollup", "cube"):
                raise self.source.refuse(f"GROUP BY with {name} is not judged", group)
            if name in ("grouping_sets", "rollup", "cube") and value:
                raise self.source.refuse("write GROUP BY ROLLUP (a, b), CUBE (a, b) or GROUPING SETS ((a), (b))", group)
        elements: list[list[tuple[int, ...]]] = []
        if group.args.get("all"):
            for item in self.items:
                if not reader.has_aggregate(item.node) and not self.is_constant(reader, item):
                    elements.append([(self.key(item.node, reader),)])
                    item.is_key = True
        for node in group.expressions:
            elements.append(self.element(node, reader))
        count = 1
        for element in elements:
            count *= len(element)
            if count > MAX_SETS:
                raise self.source.refuse(f"more than {MAX_SETS} grouping sets: ask for them separately", group)
        chosen = product(*elements)
        return tuple(tuple(sorted({index for part in combination for index in part})) for combination in chosen)

    def element(self, node: exp.Expr, reader: AggregateReader) -> list[tuple[int, ...]]:
        if isinstance(node, exp.Rollup | exp.Cube):
            parts = [self.bundle(part, reader) for part in node.expressions]
            if isinstance(node, exp.Rollup):
                return [tuple(i for part in parts[:n] for i in part) for n in range(len(parts), -1, -1)]
            if len(parts) > 8:
                raise self.source.refuse(f"more than {MAX_SETS} grouping sets: ask for them separately", node)
            chosen = product(*(((), part) for part in reversed(parts)))
            return [tuple(i for part in reversed(choice) for i in part) for choice in chosen][::-1]
        if isinstance(node, exp.GroupingSets):
            return [one for part in node.expressions for one in self.element(part, reader)]
        return [self.bundle(node, reader)]

    def bundle(self, node: exp.Expr, reader: AggregateReader) -> tuple[int, ...]:
        if isinstance(node, exp.Tuple):
            return tuple(self.key(part, reader) for part in node.expressions)
        return (self.key(node, reader),)

    def key(self, node: exp.Expr, reader: AggregateReader) -> int:
        """The index of the key that `node` names: a column, a position, an alias or an expression."""
        node = strip_parentheses(node)
        name = ""
        position = reader.fold_constant(node) if isinstance(node, exp.Literal | exp.Neg) else None
        if isinstance(position, Fraction):
            if position.denominator != 1 or not 1 <= position <= len(self.items):
                raise self.source.refuse(f"GROUP BY {position}: the SELECT list has {len(self.items)} items", node)
            item = self.items[int(position) - 1]
            item.is_key, name, node = True, item.alias, strip_parentheses(item.node)
        elif isinstance(node, exp.Column) and (alias := self.aliased(node)) is not None:
            alias.is_key, name, node = True, alias.alias, strip_parentheses(alias.node)
        if reader.has_aggregate(node):
            raise self.source.refuse("GROUP BY cannot take an aggregate", node)
        if isinstance(node, exp.Column):
            found = reader.list_columns(node)
            resolved = self.scope.resolve(node)
            if isinstance(resolved, Column):
                name = name or (self.shown(resolved, reader) if self.scope.names is None else node.name)
                return self.add(Key(name, quote_name(found[0].name), found[0].name))
        if reader.touches_private(node):
            made = read_bucket(reader, node, self.word)
            return self.add(replace(made, name=name or self.shown_as(made.sql, reader) or made.sql))
        public = reader.read_public(node)
        if not public.columns:
            raise self.source.refuse("GROUP BY takes a column or an expression over columns", node)
        if isinstance(node, exp.Column):
            name = name or node.name
        if public.column is not None:
            return self.add(Key(name or public.column, public.sql, public.column))
        return self.add(Key(name or self.written(public.sql, reader), public.sql, None, public.columns))

    def shown_as(self, sql: str, reader: AggregateReader) -> str:
        """The alias or text of the SELECT item that is a bucket of private values."""
        mine = (
            i for i in self.items if not reader.has_aggregate(i.node) and write_bucket(reader, i.node, self.word) == sql
        )
        return next((item.alias or item.label for item in mine), "")

    def shown(self, column: Column, reader: AggregateReader) -> str:
        """The name under which a key column appears in the answer: its alias in SELECT, or its own."""
        for item in self.items:
            node = strip_parentheses(item.node)
            if item.alias and isinstance(node, exp.Column) and column in reader.list_columns(node):
                return item.alias
        for other in self.scope.joined:  # a column of a dimension is shown under its own name
            if column.name.startswith(f"{other.related.name}."):
                return column.name[len(other.related.name) + 1 :]
        return column.name

    def written(self, sql: str, reader: AggregateReader) -> str:
        """The name of a key expression: the SELECT item's alias or text, else its canonical text."""
        for item in self.items:
            if reader.has_aggregate(item.node) or self.is_constant(reader, item) or reader.touches_private(item.node):
                continue
            if reader.read_public(item.node).sql == sql:
                return item.alias or item.label or sql
        return sql

    def add(self, key: Key) -> int:
        if key.sql in self.key_of:
            return self.key_of[key.sql]
        taken = {k.name for k in self.keys}
        name = next(n for n in (key.name, key.column, key.sql) if n and n not in taken)
        self.keys.append(replace(key, name=name))
        self.key_of[key.sql] = len(self.keys) - 1
        return len(self.keys) - 1

    def aliased(self, node: exp.Column) -> _Item | None:
        """The SELECT item of that alias, unless the table has a column of the name (which then is meant)."""
        if len(node.parts) > 1:
            return None
        if self.scope.names is None and self.scope.schema.find(node.name) is not None:
            return None
        if self.scope.names is not None and fold_name(node.name) in self.scope.names:
            return None
        return self.item_named(node)

    def item_named(self, node: exp.Column) -> _Item | None:
        """The SELECT item whose alias this is: in HAVING and ORDER BY an alias goes before a column."""
        if len(node.parts) > 1:
            return None
        return next((i for i in self.items if i.alias and fold_name(i.alias) == fold_name(node.name)), None)

    # HAVING, ORDER BY, LIMIT

    def having(
        self, reader: AggregateReader, sets: tuple[tuple[int, ...], ...]
    ) -> tuple[list[Predicate], list[exp.Expr]]:
        """Conditions on the keys (they join WHERE) and tests of aggregates."""
        having = find_condition(self.select, "having")
        conditions: list[Predicate] = []
        tests: list[exp.Expr] = []
        for part in split_conjunction(having) if having is not None else ():
            if reader.has_aggregate(part) or self.refers_to_aggregate(part):
                tests.append(self.unaliased(part))
                continue
            condition = reader.read_condition(part)
            named = {c.name for c in reader.list_columns(part)}
            if len(sets) != 1 or not all(quote_name(n) in self.key_of for n in named):
                raise self.source.refuse("HAVING without an aggregate belongs in WHERE", part)
            conditions.append(condition)
        return conditions, tests

    def refers_to_aggregate(self, part: exp.Expr) -> bool:
        named = (self.item_named(column) for column in part.find_all(exp.Column))
        return any(item is not None and not item.is_key for item in named)

    def unaliased(self, node: exp.Expr) -> exp.Expr:
        """The expression with the aliases of SELECT items replaced by what they stand for."""

        def replaced(part: exp.Expr) -> exp.Expr:
            inside = part.find_ancestor(exp.AggFunc) is not None  # there a column is meant, as in SUM(pay) AS pay
            if isinstance(part, exp.Column) and not inside and (item := self.item_named(part)) is not None:
                return exp.Paren(this=item.node.copy())
            return part

        return (
            strip_parentheses(node.transform(replaced)) if self.refers_to_aggregate(node) else strip_parentheses(node)
        )

    def order(self, reader: AggregateReader, queries: Sequence[Query]) -> tuple[OrderTerm | None, ...]:
        """ORDER BY may only repeat what is shown, or be public; then it reveals nothing more."""
        order = self.select.args.get("order")
        if order is None:
            return ()
        shown_queries = {replace(q, label="") for q in queries}
        for ordered in order.expressions:
            node = strip_parentheses(ordered.this)
            if isinstance(node, exp.Column) and self.item_named(node) is not None:
                continue  # it is shown
            node = self.unaliased(node)
            if isinstance(node, exp.Var | exp.Literal) and (node.name.upper() == "ALL" or node.name.isdigit()):
                if node.name.isdigit() and not 1 <= int(node.name) <= len(self.items):
                    raise self.source.refuse(f"ORDER BY {node.name}: the SELECT list has {len(self.items)} items", node)
                continue
            if reader.has_aggregate(node):
                query = replace(reader.read_question(node, ""), label="")
                if query.aggregate is Aggregate.VAR:
                    query = replace(query, label="")
                if query not in shown_queries and not self.is_public(query, reader):
                    raise self.source.refuse(
                        "ORDER BY an aggregate that is not shown reveals it: add it to SELECT", node
                    )
            elif not self.is_key(reader, _Item(node)) and isinstance(reader.fold_constant(node), NotConstant):
                raise self.source.refuse("ORDER BY takes a key or an item of SELECT here", node)
        return tuple(self.sort(ordered, reader) for ordered in order.expressions)

    def sort(self, ordered: exp.Expr, reader: AggregateReader) -> OrderTerm | None:
        node = strip_parentheses(ordered.this)
        item = self.item_named(node) if isinstance(node, exp.Column) else None
        if isinstance(node, exp.Literal) and node.name.isdigit():
            item = self.items[int(node.name) - 1]
        node = self.unaliased(node) if item is None else strip_parentheses(item.node)
        try:
            return read_order_term(node, ordered, reader, self.key_of, key=self.is_key(reader, _Item(node)))
        except QueryError:
            return None

    def is_public(self, query: Query, reader: AggregateReader) -> bool:
        return not query.columns and not any(reader.list_private_columns(t.where) for t in (*query.terms, *query.per))

    def limit(self, reader: AggregateReader) -> None:
        limit, offset = self.select.args.get("limit"), self.select.args.get("offset")
        if offset is not None and reader.fold_constant(offset.expression) != 0:
            raise self.source.refuse(
                f"OFFSET hides rows: which ones are shown may depend on {self.word} values; leave it out",
                offset,
            )
        if limit is None:
            return
        amount = limit.args.get("expression") or limit.args.get("count")
        if isinstance(amount, exp.Var) and amount.name.upper() == "ALL":
            return
        options = limit.args.get("limit_options")
        count = reader.fold_constant(amount) if isinstance(amount, exp.Expr) else None
        if not isinstance(count, Fraction) or (options is not None and options.args.get("percent")):
            raise self.source.refuse("LIMIT takes a number here", limit)
        if self.keys or self.select.args.get("group") is not None:
            raise self.source.refuse(
                f"LIMIT after GROUP BY: which groups are shown may depend on {self.word} values; "
                "leave it out, or name the groups in WHERE",
                limit,
            )
        if count < 1:
            raise self.source.refuse("LIMIT 0 asks for nothing", limit)


class _Item:
    """One item of the SELECT list."""

    __slots__ = ("alias", "is_key", "label", "node")

    def __init__(self, node: exp.Expr) -> None:
        self.alias = node.alias if isinstance(node, exp.Alias) else ""
        self.node: exp.Expr = node.this if isinstance(node, exp.Alias) else node
        self.is_key = False
        self.label = ""  # as written, without the alias


# --- the items of a SELECT list ---------------------------------------------------------------------------------------
# The items of a SELECT list as they are written.


def find_label_spans(source: SourceText, aliased: list[bool]) -> list[tuple[int, int]]:
    """Where the items of the outermost SELECT list stand, without their aliases; empty if that is not clear."""
    depth, start, end, before = 0, -1, -1, -1
    items: list[tuple[int, int]] = []
    seen_alias = False

    def close() -> None:
        # an alias without AS is the last word of its item
        bare_alias = not seen_alias and len(items) < len(aliased) and aliased[len(items)]
        items.append((start, before if bare_alias else end))

    tokens = source.tokens
    outer = _find_outermost_select(source)
    for token in tokens[outer + 1 :]:
        kind = token.token_type
        if depth == 0 and kind in _ENDS_OF_LIST:
            break
        if depth == 0 and kind is TokenType.COMMA:
            close()
            start, seen_alias = -1, False
            continue
        if kind in (TokenType.L_PAREN, TokenType.L_BRACKET):
            depth += 1
        elif kind in (TokenType.R_PAREN, TokenType.R_BRACKET):
            depth -= 1
            if depth < 0:
                break
        if depth == 0 and kind is TokenType.ALIAS:
            seen_alias = True
        if start < 0:
            start = token.start
        if not seen_alias:
            before, end = end, token.end + 1
    close()
    found = [span for span in items if span[0] >= 0]
    return found if len(found) == len(aliased) else []


def list_labels(source: SourceText, aliased: list[bool]) -> list[str]:
    """The items of the outermost SELECT list as written, without their aliases."""
    if source.labels is not None:
        return source.labels
    found = find_label_spans(source, aliased)
    return [" ".join(source.text[a:b].split()) for a, b in found] if found else [""] * len(aliased)


_ENDS_OF_LIST = (
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.ORDER_BY,
    TokenType.LIMIT,
    TokenType.OFFSET,
    TokenType.SEMICOLON,
)


def _find_outermost_select(source: SourceText) -> int:
    depth = 0
    wrapped = 0
    while wrapped < len(source.tokens) and source.tokens[wrapped].token_type is TokenType.L_PAREN:
        wrapped += 1
    for index, token in enumerate(source.tokens):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        elif token.token_type is TokenType.SELECT and depth == wrapped:
            return index
    return -1
