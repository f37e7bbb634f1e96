"""A statement of another engine as a statement of DuckDB, node by node, each with the type of value it gives.

Types come from the schema and go up the tree; a rule per kind of node says what it becomes in DuckDB, or why it is not
known to mean the same. There is a rule only for what `tests/sql/test_dialect_conformance.py` runs in both engines;
whatever has none is not judged. What PostgreSQL and SQLite share is here; what is an engine's own is in its module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from sqlglot import exp

from keyhole.model.schema import Schema, fold_name
from keyhole.sql.dialects.engine import Dialect
from keyhole.sql.dialects.types import (
    DECIMAL_NUMBER,
    TYPE_OF_KIND,
    NotPortable,
    SqlType,
    is_never_zero,
    read_integer,
    type_of,
    widest_type,
)
from keyhole.sql.statements.parse import correct_quoted_words
from keyhole.sql.statements.tree import COMPARISONS, LOGIC, strip_parentheses
from keyhole.sql.statements.tree import name_node as name_plain_node

UNLIKE = ": {} may give something else there than in DuckDB, where the data are: put it into a column of a view"
ORDER_OF_TEXTS = ": the order of texts depends on the collation there: compare with = or IN, or put it into a view"
Rule = Callable[[Any, Any], SqlType]

COMPARED = (*COMPARISONS, exp.Between, exp.In, exp.Is, exp.Like)
ORDERED = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
_LOGICAL = (*COMPARED, exp.NullSafeEQ, exp.NullSafeNEQ, *LOGIC)
_STRUCTURE = (
    *(exp.Select, exp.From, exp.Group, exp.Order, exp.Ordered, exp.With, exp.CTE, exp.Subquery, exp.Table),
    *(exp.TableAlias, exp.Identifier, exp.Star, exp.Tuple, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Var),
    *(exp.DataType, exp.DataTypeParam),
)
# arguments that are no nodes, and change nothing that is judged
FLAGS = frozenset({"this", "quoted", "is_string", "desc", "nulls_first", "big_int", "negate", "materialized"})
_TYPED_FLAGS = FLAGS | {"typed", "safe", "coalesce", "ignore_nulls", "nested", "_type"}


class Translator:
    """The rules that PostgreSQL, SQLite and DuckDB share; an engine's own are in a subclass. Cost: one walk."""

    rules: ClassVar[dict[type[exp.Expr], Rule]] = {}

    def __init__(self, schema: Schema) -> None:
        self.columns = {fold_name(c.name): self.column_type(TYPE_OF_KIND[c.kind]) for c in schema.columns}
        self.aliases: dict[str, SqlType] = {}
        self.text = ""  # as the statement was written

    def read_texts(self, sql: str, tree: exp.Expr) -> exp.Expr:
        """The tree with words in double quotes as texts, where the engine reads them so."""
        return tree

    def column_type(self, sql_type: SqlType) -> SqlType:
        """What a column of that type may be in the other engine."""
        return sql_type

    def translate(self, tree: exp.Expr) -> exp.Expr:
        """The statement in DuckDB's words; raises `NotPortable`."""
        tree = tree.copy()
        for test in list(tree.find_all(exp.Is)):
            if test.args.get("negate"):  # as DuckDB's parser writes it
                test.replace(exp.Not(this=exp.Is(this=test.this.copy(), expression=test.expression.copy())))
        selects = sorted(tree.find_all(exp.Select), key=lambda s: -s.depth)  # stable: a CTE before its readers
        if not isinstance(tree, exp.Select) or not selects:
            raise NotPortable(", and it is no SELECT")
        for select in selects:
            for node in _nodes_of_select(select):
                self._visit(node)
            self._visit(select)
        return tree

    def _visit(self, node: exp.Expr) -> None:
        if has_other_flags(node, _TYPED_FLAGS):
            raise NotPortable(self.explain_unlike(node))
        rule = self.rules.get(type(node)) or _RULES.get(type(node))
        if rule is None:
            raise NotPortable(self.explain_unlike(node))
        found = rule(self, node)
        if "sql_type" not in node.meta:
            node.meta["sql_type"] = found

    def replace_node(self, node: exp.Expr, new: exp.Expr, sql_type: SqlType) -> SqlType:
        """`new` instead of `node`, in parentheses."""
        if not isinstance(new, exp.Column | exp.Literal | exp.Func | exp.Paren):
            new = exp.Paren(this=new)
        new.meta["sql_type"] = node.meta["sql_type"] = sql_type
        node.replace(new)
        return sql_type

    def explain_unlike(self, node: exp.Expr) -> str:
        """The reason for a node without a rule."""
        return UNLIKE.format(name_node(node))

    # columns and constants

    def _column(self, node: exp.Column) -> SqlType:
        name = fold_name(node.name)
        return self.columns.get(name) or self.aliases.get(name, SqlType.UNKNOWN)

    def _literal(self, node: exp.Literal) -> SqlType:
        if node.is_string:
            return SqlType.TEXT_CONSTANT
        if node.name.isdigit() and len(node.name) <= 18:
            return SqlType.INTEGER
        if DECIMAL_NUMBER.fullmatch(node.name):
            return SqlType.DECIMAL
        raise NotPortable(f": the number {node.name} is not of one kind in all engines: write it as a decimal")

    def _alias(self, node: exp.Alias) -> SqlType:
        sql_type, name = type_of(node.this), fold_name(node.alias)
        same = isinstance(node.this, exp.Column) and fold_name(node.this.name) == name
        if name in self.columns and not same:
            raise NotPortable(
                f": a result is named {node.alias}, as a column is, and engines differ in which of them is meant"
            )
        if not same:
            self.aliases[name] = sql_type if self.aliases.get(name, sql_type) is sql_type else SqlType.UNKNOWN
        return sql_type

    def _renamed(self, node: exp.TableAlias) -> SqlType:
        if node.args.get("columns"):
            raise NotPortable(": columns are renamed in FROM, and which is meant is not judged: rename them in SELECT")
        return SqlType.NO_VALUE

    # conditions

    def _compared(self, node: exp.Expr) -> SqlType:
        operands = list(node.iter_expressions())
        if any(isinstance(part, _LOGICAL) for part in operands):
            raise NotPortable(": comparisons in a row are not read alike by all engines: put them in parentheses")
        for other in operands[1:]:
            self.check_comparable(operands[0], other, isinstance(node, ORDERED))
        return SqlType.CONDITION

    def check_comparable(self, left: exp.Expr, right: exp.Expr, ordered: bool) -> None:
        """May these two be compared, in the same way everywhere?"""
        a, b = type_of(left), type_of(right)
        if SqlType.NULL in (a, b) or (a.numeric and b.numeric):
            return
        if SqlType.NO_VALUE in (a, b):
            raise NotPortable(": a comparison with a subquery or of rows is not judged: compare columns with values")
        if SqlType.TEXT_CONSTANT in (a, b) and a is not b:
            said, other = (left, b) if a is SqlType.TEXT_CONSTANT else (right, a)
            self.check_text_constant(strip_parentheses(said), other)
            a = b = other
        if a is SqlType.TEXT or a is b is SqlType.TEXT_CONSTANT:
            if ordered:
                raise NotPortable(ORDER_OF_TEXTS)
            if a is b or SqlType.TEXT_CONSTANT in (a, b):
                return
        if (
            a is b and a in (SqlType.CONDITION, *TYPE_OF_KIND.values()) and a is not SqlType.UNKNOWN
        ) or self.compares_days(a, b):
            return
        raise NotPortable(
            self._explain_unknown_words(left, right)
            or f": {a} is compared with {b}, which engines do in ways of their own: cast one of them"
        )

    def _explain_unknown_words(self, left: exp.Expr, right: exp.Expr) -> str:
        """Why one of these is no text, if it is a word in double quotes that no column and no alias has."""
        unknown = [
            column
            for column in left.root().find_all(exp.Column)
            if column.this.args.get("quoted")
            and len(column.parts) == 1
            and fold_name(column.name) not in {*self.columns, *self.aliases}
        ]
        wrong = next((column for column in unknown if column is left or column is right), None)
        if wrong is None:
            return ""
        compared = [c for c in unknown if c is wrong or isinstance(c.parent, COMPARED)]
        texts = {c.name: exp.Literal.string(c.name).sql() for c in compared}
        write = correct_quoted_words(self.text, Dialect.DUCKDB, texts)
        return f": no column {wrong.this.sql()} is known here. Text takes single quotes: {texts[wrong.name]}{write}"

    def compares_days(self, a: SqlType, b: SqlType) -> bool:
        """May a date be compared with a timestamp?"""
        return a.dated and b.dated

    def check_text_constant(self, said: exp.Expr, other: SqlType) -> None:
        """May this text constant be compared with a value of that type? It may become a number."""
        raise NotImplementedError

    def _is(self, node: exp.Is) -> SqlType:
        if isinstance(node.this, _LOGICAL):
            raise NotPortable(
                ": IS behind a condition is not read alike by all engines: put the condition in parentheses"
            )
        if isinstance(node.expression, exp.Boolean):
            self.require_type(node.this, SqlType.CONDITION)
        elif not isinstance(node.expression, exp.Null):
            raise NotPortable(self.explain_unlike(node))
        return SqlType.CONDITION

    def _logic(self, node: exp.Expr) -> SqlType:
        for part in node.iter_expressions():
            self.require_type(part, SqlType.CONDITION)
        return SqlType.CONDITION

    def _like(self, node: exp.Like) -> SqlType:
        self.require_type(node.this, SqlType.TEXT)
        if not isinstance(node.expression, exp.Literal):
            raise NotPortable(": LIKE with a pattern that is no constant is not judged")
        if "\\" in node.expression.name:
            raise NotPortable(
                ": a backslash in a LIKE pattern is not read alike by all engines: use a pattern without it"
            )
        return SqlType.CONDITION

    def require_type(self, node: exp.Expr | None, *types: SqlType) -> SqlType:
        """The type of an operand, which must be one of these (NULL may always stand there)."""
        found = type_of(node)
        if found not in types and found is not SqlType.NULL:
            wanted = " or ".join(dict.fromkeys(types))
            raise NotPortable(f": {found} stands there where {wanted} is expected, and engines then do as they like")
        return found

    # numbers

    def _arithmetic(self, node: exp.Expr) -> SqlType:
        operands = [node.this] if isinstance(node, exp.Neg) else [node.this, node.expression]
        types = [type_of(part) for part in operands]
        if not all(sql_type.numeric for sql_type in types):
            raise NotPortable(f": {name_node(node)} of anything but numbers is not the same in all engines")
        found = widest_type(types)
        if found is SqlType.FRACTION and not isinstance(node, exp.Neg):
            self.refuse_deciding(node)
        return found

    def refuse_deciding(self, node: exp.Expr) -> None:
        """Fractions of which it is not known how they were held may be added up, and may not decide who is meant."""
        if decides_membership(node):
            raise NotPortable(
                f": {name_node(node)} of fractions is rounded there or not, as the type of the column says, which is "
                "not known here: cast it to DOUBLE PRECISION, or compare the column itself"
            )

    def take_remainder(self, node: exp.Mod, by_zero: str) -> SqlType:
        """Of whole numbers, by one that is never 0."""
        if not type_of(node.this) is type_of(node.expression) is SqlType.INTEGER:
            raise NotPortable(": % is judged for whole numbers only")
        if not is_never_zero(node.expression):
            raise NotPortable(by_zero)
        return self.replace_node(
            node, exp.Mod(this=node.this.copy(), expression=node.expression.copy()), SqlType.INTEGER
        )

    # choices

    def _case(self, node: exp.Case) -> SqlType:
        ifs = node.args["ifs"]
        for when in ifs:
            if node.this is None:
                self.require_type(when.this, SqlType.CONDITION)
            else:
                self.check_comparable(node.this, when.this, False)
        return self.common_type([when.args["true"] for when in ifs] + [node.args.get("default")], node)

    def _if(self, node: exp.If) -> SqlType:
        if isinstance(node.parent, exp.Case):
            return SqlType.NO_VALUE
        self.require_type(node.this, SqlType.CONDITION)
        return self.common_type([node.args["true"], node.args.get("false")], node)

    def _chosen(self, node: exp.Expr) -> SqlType:
        return self.common_type([node.this, *node.expressions], node)

    def common_type(self, parts: list[exp.Expr | None], node: exp.Expr) -> SqlType:
        """The type of a value that is one of these: all numbers, or all of one type."""
        types = [type_of(p) for p in parts if p is not None and type_of(p) is not SqlType.NULL]
        if not types:
            return SqlType.NULL
        if all(s.numeric for s in types):
            return widest_type(types)
        texts = {SqlType.TEXT if s is SqlType.TEXT_CONSTANT else s for s in types}
        if len(texts) == 1 and not texts & {SqlType.NO_VALUE, SqlType.UNKNOWN, SqlType.INTERVAL}:
            return texts.pop()
        kinds = " and ".join(sorted(texts))
        raise NotPortable(f": {name_node(node)} of {kinds} is not of one kind in all engines: cast them to one")

    def _nullif(self, node: exp.Nullif) -> SqlType:
        self.check_comparable(node.this, node.expression, False)
        return self.common_type([node.this], node)

    def _limit(self, node: exp.Limit) -> SqlType:
        """As many rows as there are groups: what is left out where there are several is refused when it is read."""
        if read_integer(node.expression) is None or node.args.get("offset") is not None:
            raise NotPortable(self.explain_unlike(node))
        return SqlType.NO_VALUE

    # aggregates

    def _sum(self, node: exp.Sum) -> SqlType:
        found = self.require_type(node.this, SqlType.INTEGER, SqlType.DECIMAL, SqlType.DOUBLE, SqlType.FRACTION)
        return SqlType.DECIMAL if found is SqlType.INTEGER else found

    def _statistic(self, node: exp.Expr) -> SqlType:
        self.require_type(node.this, SqlType.INTEGER, SqlType.DECIMAL, SqlType.DOUBLE, SqlType.FRACTION)
        return SqlType.FRACTION

    def _extreme(self, node: exp.Expr) -> SqlType:
        if node.expressions:
            raise NotPortable(self.explain_unlike(node))
        found = type_of(node.this)
        if found is SqlType.TEXT:
            raise NotPortable(ORDER_OF_TEXTS)
        return SqlType.DECIMAL if found is SqlType.INTEGER else found


def has_other_flags(node: exp.Expr, known: frozenset[str]) -> bool:
    """Has it an argument that is no node, none of these, and not empty?"""
    return any(
        value
        and name not in known
        and not isinstance(value, exp.Expr)
        and not (isinstance(value, list) and all(isinstance(part, exp.Expr) for part in value))
        for name, value in node.args.items()
    )


def decides_membership(node: exp.Expr) -> bool:
    """Does it depend on this value who is meant, or to which group he belongs?"""
    return node.find_ancestor(*COMPARED, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Group) is not None


def name_node(node: exp.Expr) -> str:
    """What a message calls a node."""
    signs: dict[type[exp.Expr], str] = {exp.Div: "/", exp.Mod: "%", exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
    if type(node) in signs:
        return signs[type(node)]
    return node.sql(dialect="tsql") if isinstance(node, exp.WithTableHint) else name_plain_node(node)


def _nodes_of_select(select: exp.Select) -> Iterator[exp.Expr]:
    """The nodes of a SELECT without those of the SELECTs in it: children first, the SELECT list before the rest."""
    parts = sorted(select.iter_expressions(), key=lambda p: p.arg_key != "expressions")
    for part in parts:
        nodes = list(part.walk(prune=lambda n: isinstance(n, exp.Select)))
        yield from (n for n in reversed(nodes) if not isinstance(n, exp.Select))


def _give_always(sql_type: SqlType) -> Rule:
    return lambda _translator, _node: sql_type


def _give_inner_type(_translator: Translator, node: exp.Expr) -> SqlType:
    """What is inside, unchanged."""
    return type_of(node.this)


_RULES: dict[type[exp.Expr], Rule] = {
    **dict.fromkeys(_STRUCTURE, _give_always(SqlType.NO_VALUE)),
    **dict.fromkeys(COMPARED, Translator._compared),
    **dict.fromkeys((*LOGIC, exp.Where, exp.Having), Translator._logic),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Neg), Translator._arithmetic),
    **dict.fromkeys((exp.Paren, exp.Filter), _give_inner_type),
    **dict.fromkeys((exp.Min, exp.Max), Translator._extreme),
    **dict.fromkeys((exp.Coalesce,), Translator._chosen),
    exp.Column: Translator._column,
    exp.Literal: Translator._literal,
    exp.Null: _give_always(SqlType.NULL),
    exp.Boolean: _give_always(SqlType.CONDITION),
    exp.Alias: Translator._alias,
    exp.TableAlias: Translator._renamed,
    exp.NullSafeEQ: Translator._compared,
    exp.NullSafeNEQ: Translator._compared,
    exp.Is: Translator._is,
    exp.Like: Translator._like,
    exp.Case: Translator._case,
    exp.If: Translator._if,
    exp.Nullif: Translator._nullif,
    exp.Limit: Translator._limit,
    exp.Sum: Translator._sum,
    exp.Avg: Translator._statistic,
    exp.Count: _give_always(SqlType.DECIMAL),
    exp.Distinct: lambda _t, node: type_of(node.expressions[0]) if node.expressions else SqlType.NO_VALUE,
}


# --- functions of texts -----------------------------------------------------------------------------------------------
# Functions of texts that PostgreSQL, SQLite and DuckDB compute alike: by characters, with constant places.


def _text_length(self: Translator, node: exp.Expr) -> SqlType:
    self.require_type(node.this, SqlType.TEXT)
    return SqlType.INTEGER


def _substring(self: Translator, node: exp.Substring) -> SqlType:
    self.require_type(node.this, SqlType.TEXT)
    start, length = read_integer(node.args.get("start")), node.args.get("length")
    count = 0 if length is None else read_integer(length)
    if start is None or start < 1 or count is None or count < 0:
        raise NotPortable(": SUBSTRING is judged from a constant place of at least 1 on; before that engines differ")
    return SqlType.TEXT


def _text_end(self: Translator, node: exp.Expr) -> SqlType:
    self.require_type(node.this, SqlType.TEXT)
    count = read_integer(node.args.get("expression"))
    if count is None or count < 0:
        raise NotPortable(f": {name_node(node)} is judged with a constant number of characters that is not negative")
    return SqlType.TEXT


def _text_position(self: Translator, node: exp.StrPosition) -> SqlType:
    self.require_type(node.this, SqlType.TEXT)
    _check_constant_text(node, "substr")
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        raise NotPortable(f": {name_node(node)} from another place than the start is not judged")
    return SqlType.INTEGER


def _text_replace(self: Translator, node: exp.Replace) -> SqlType:
    self.require_type(node.this, SqlType.TEXT)
    _check_constant_text(node, "expression")
    if not isinstance(node.args.get("replacement"), exp.Literal):
        raise NotPortable(": REPLACE is judged with constants only")
    return SqlType.TEXT


def _joined_text(self: Translator, node: exp.Expr) -> SqlType:
    for part in node.iter_expressions():
        if type_of(part) not in (SqlType.TEXT, SqlType.TEXT_CONSTANT):
            raise NotPortable(
                f": {name_node(node)} of anything but texts is not the same in all engines: cast it to TEXT"
            )
    return SqlType.TEXT


def _check_constant_text(node: exp.Expr, name: str) -> None:
    part = node.args.get(name)
    if not isinstance(part, exp.Literal) or not part.is_string or not part.name:
        raise NotPortable(f": {name_node(node)} is judged with a constant text that is not empty")


TEXT_RULES: dict[type[exp.Expr], Rule] = {
    exp.Length: _text_length,
    exp.Substring: _substring,
    exp.Left: _text_end,
    exp.Right: _text_end,
    exp.StrPosition: _text_position,
    exp.Replace: _text_replace,
    exp.DPipe: _joined_text,
    exp.Concat: _joined_text,
}
