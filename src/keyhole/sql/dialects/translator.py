"""A statement of another engine as a statement of DuckDB, node by node, each with the type of value it gives.

Types come from the schema and go up the tree; a rule per kind of node says what it becomes in DuckDB, or why it is not
known to mean the same. There is a rule only for what a conformance test runs in both engines (tests/sql/conformance);
whatever has none is not judged. What PostgreSQL and SQLite share is here; what is an engine's own is in its module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from sqlglot import exp

from keyhole.model.schema import Schema, folded
from keyhole.sql.dialects.types import DECIMAL_NUMBER, OF_KIND, Differs, Sort, bare_of, sort_of, whole_said, wider

UNLIKE = ": {} may give something else there than in DuckDB, where the data are: put it into --view as a column"
ORDER_OF_TEXTS = ": the order of texts depends on the collation there: compare with = or IN, or put it into --view"
Rule = Callable[[Any, Any], Sort]

COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Is, exp.Like)
ORDERED = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
_LOGICAL = (*COMPARED, exp.NullSafeEQ, exp.NullSafeNEQ, exp.And, exp.Or, exp.Not)
_STRUCTURE = (
    *(exp.Select, exp.From, exp.Group, exp.Order, exp.Ordered, exp.With, exp.CTE, exp.Subquery, exp.Table),
    *(exp.TableAlias, exp.Identifier, exp.Star, exp.Tuple, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Var),
    *(exp.DataType, exp.DataTypeParam),
)
# arguments that are no nodes, and change nothing that is judged
_FLAGS = frozenset(
    {"this", "quoted", "is_string", "desc", "nulls_first", "big_int", "negate", "materialized", "typed", "safe"}
    | {"coalesce", "ignore_nulls", "nested", "_type"}
)


class Translator:
    """The rules that PostgreSQL, SQLite and DuckDB share; an engine's own are in a subclass. Cost: one walk."""

    rules: ClassVar[dict[type[exp.Expr], Rule]] = {}

    def __init__(self, schema: Schema) -> None:
        self.columns = {folded(c.name): self.of_kind(OF_KIND[c.kind]) for c in schema.columns}
        self.aliases: dict[str, Sort] = {}

    def of_kind(self, sort: Sort) -> Sort:
        """What a column of that sort may be in the other engine."""
        return sort

    def statement(self, tree: exp.Expr) -> exp.Expr:
        """The statement in DuckDB's words; raises `Differs`."""
        tree = tree.copy()
        for test in list(tree.find_all(exp.Is)):
            if test.args.get("negate"):  # as DuckDB's parser writes it
                test.replace(exp.Not(this=exp.Is(this=test.this.copy(), expression=test.expression.copy())))
        selects = sorted(tree.find_all(exp.Select), key=lambda s: -s.depth)  # stable: a CTE before its readers
        if not isinstance(tree, exp.Select) or not selects:
            raise Differs(", and it is no SELECT")
        for select in selects:
            for node in _own(select):
                self._visit(node)
            self._visit(select)
        return tree

    def _visit(self, node: exp.Expr) -> None:
        for name, value in node.args.items():
            listed = isinstance(value, list) and all(isinstance(part, exp.Expr) for part in value)
            if value and name not in _FLAGS and not isinstance(value, exp.Expr) and not listed:
                raise Differs(self.unlike(node))
        rule = self.rules.get(type(node)) or _RULES.get(type(node))
        if rule is None:
            raise Differs(self.unlike(node))
        found = rule(self, node)
        if "sort" not in node.meta:
            node.meta["sort"] = found

    def put(self, node: exp.Expr, new: exp.Expr, sort: Sort) -> Sort:
        """`new` instead of `node`, in parentheses."""
        if not isinstance(new, exp.Column | exp.Literal | exp.Func | exp.Paren):
            new = exp.Paren(this=new)
        new.meta["sort"] = node.meta["sort"] = sort
        node.replace(new)
        return sort

    def unlike(self, node: exp.Expr) -> str:
        """The reason for a node without a rule."""
        return UNLIKE.format(word(node))

    # columns and constants

    def _column(self, node: exp.Column) -> Sort:
        name = folded(node.name)
        return self.columns.get(name) or self.aliases.get(name, Sort.UNKNOWN)

    def _literal(self, node: exp.Literal) -> Sort:
        if node.is_string:
            return Sort.SAID
        if node.name.isdigit() and len(node.name) <= 18:
            return Sort.WHOLE
        if DECIMAL_NUMBER.fullmatch(node.name):
            return Sort.EXACT
        raise Differs(f": the number {node.name} is not of one kind in all engines: write it as a decimal")

    def _alias(self, node: exp.Alias) -> Sort:
        sort, name = sort_of(node.this), folded(node.alias)
        same = isinstance(node.this, exp.Column) and folded(node.this.name) == name
        if name in self.columns and not same:
            raise Differs(
                f": a result is named {node.alias}, as a column is, and engines differ in which of them is meant"
            )
        if not same:
            self.aliases[name] = sort if self.aliases.get(name, sort) is sort else Sort.UNKNOWN
        return sort

    def _renamed(self, node: exp.TableAlias) -> Sort:
        if node.args.get("columns"):
            raise Differs(": columns are renamed in FROM, and which is meant is not judged: rename them in SELECT")
        return Sort.ROWS

    # conditions

    def _compared(self, node: exp.Expr) -> Sort:
        operands = list(node.iter_expressions())
        if any(isinstance(part, _LOGICAL) for part in operands):
            raise Differs(": comparisons in a row are not read alike by all engines: put them in parentheses")
        for other in operands[1:]:
            self.alike(operands[0], other, isinstance(node, ORDERED))
        return Sort.TRUTH

    def alike(self, left: exp.Expr, right: exp.Expr, ordered: bool) -> None:
        """May these two be compared, in the same way everywhere?"""
        a, b = sort_of(left), sort_of(right)
        if Sort.NOTHING in (a, b) or (a.numeric and b.numeric):
            return
        if Sort.ROWS in (a, b):
            raise Differs(": a comparison with a subquery or of rows is not judged: compare columns with values")
        if Sort.SAID in (a, b) and a is not b:
            said, other = (left, b) if a is Sort.SAID else (right, a)
            self.said_as(bare_of(said), other)
            a = b = other
        if a is Sort.TEXT or a is b is Sort.SAID:
            if ordered:
                raise Differs(ORDER_OF_TEXTS)
            if a is b or Sort.SAID in (a, b):
                return
        if (a is b and a in (Sort.TRUTH, *OF_KIND.values()) and a is not Sort.UNKNOWN) or self.days_alike(a, b):
            return
        raise Differs(f": {a} is compared with {b}, which engines do in ways of their own: cast one of them")

    def days_alike(self, a: Sort, b: Sort) -> bool:
        """May a date be compared with a timestamp?"""
        return a.dated and b.dated

    def said_as(self, said: exp.Expr, other: Sort) -> None:
        """May this text constant be compared with a value of that sort? It may become a number."""
        raise NotImplementedError

    def _is(self, node: exp.Is) -> Sort:
        if isinstance(node.this, _LOGICAL):
            raise Differs(": IS behind a condition is not read alike by all engines: put the condition in parentheses")
        if isinstance(node.expression, exp.Boolean):
            self.must(node.this, Sort.TRUTH)
        elif not isinstance(node.expression, exp.Null):
            raise Differs(self.unlike(node))
        return Sort.TRUTH

    def _logic(self, node: exp.Expr) -> Sort:
        for part in node.iter_expressions():
            self.must(part, Sort.TRUTH)
        return Sort.TRUTH

    def _like(self, node: exp.Like) -> Sort:
        self.must(node.this, Sort.TEXT)
        if not isinstance(node.expression, exp.Literal):
            raise Differs(": LIKE with a pattern that is no constant is not judged")
        if "\\" in node.expression.name:
            raise Differs(": a backslash in a LIKE pattern is not read alike by all engines: use a pattern without it")
        return Sort.TRUTH

    def must(self, node: exp.Expr | None, *sorts: Sort) -> Sort:
        """The sort of an operand, which must be one of these (NULL may always stand there)."""
        found = sort_of(node)
        if found not in sorts and found is not Sort.NOTHING:
            wanted = " or ".join(dict.fromkeys(sorts))
            raise Differs(f": {found} stands there where {wanted} is expected, and engines then do as they like")
        return found

    # numbers

    def _arithmetic(self, node: exp.Expr) -> Sort:
        operands = [node.this] if isinstance(node, exp.Neg) else [node.this, node.expression]
        sorts = [sort_of(part) for part in operands]
        if not all(sort.numeric for sort in sorts):
            raise Differs(f": {word(node)} of anything but numbers is not the same in all engines")
        found = wider(sorts)
        if found is Sort.DOUBTED and not isinstance(node, exp.Neg):
            self.not_deciding(node)
        return found

    def not_deciding(self, node: exp.Expr) -> None:
        """Fractions of which it is not known how they were held may be added up, and may not decide who is meant."""
        if decides(node):
            raise Differs(
                f": {word(node)} of fractions is rounded there or not, as the type of the column says, which is not "
                "known here: cast it to DOUBLE PRECISION, or compare the column itself"
            )

    # choices

    def _case(self, node: exp.Case) -> Sort:
        ifs = node.args["ifs"]
        for when in ifs:
            if node.this is None:
                self.must(when.this, Sort.TRUTH)
            else:
                self.alike(node.this, when.this, False)
        return self.one_of([when.args["true"] for when in ifs] + [node.args.get("default")], node)

    def _if(self, node: exp.If) -> Sort:
        if isinstance(node.parent, exp.Case):
            return Sort.ROWS
        self.must(node.this, Sort.TRUTH)
        return self.one_of([node.args["true"], node.args.get("false")], node)

    def _chosen(self, node: exp.Expr) -> Sort:
        return self.one_of([node.this, *node.expressions], node)

    def one_of(self, parts: list[exp.Expr | None], node: exp.Expr) -> Sort:
        """The sort of a value that is one of these: all numbers, or all of one sort."""
        sorts = [sort_of(p) for p in parts if p is not None and sort_of(p) is not Sort.NOTHING]
        if not sorts:
            return Sort.NOTHING
        if all(s.numeric for s in sorts):
            return wider(sorts)
        texts = {Sort.TEXT if s is Sort.SAID else s for s in sorts}
        if len(texts) == 1 and not texts & {Sort.ROWS, Sort.UNKNOWN, Sort.SPAN}:
            return texts.pop()
        kinds = " and ".join(sorted(texts))
        raise Differs(f": {word(node)} of {kinds} is not of one kind in all engines: cast them to one")

    def _nullif(self, node: exp.Nullif) -> Sort:
        self.alike(node.this, node.expression, False)
        return self.one_of([node.this], node)

    def _limit(self, node: exp.Limit) -> Sort:
        """As many rows as there are groups: what is left out where there are several is refused when it is read."""
        if whole_said(node.expression) is None or node.args.get("offset") is not None:
            raise Differs(self.unlike(node))
        return Sort.ROWS

    # aggregates

    def _sum(self, node: exp.Sum) -> Sort:
        found = self.must(node.this, Sort.WHOLE, Sort.EXACT, Sort.BINARY, Sort.DOUBTED)
        return Sort.EXACT if found is Sort.WHOLE else found

    def _statistic(self, node: exp.Expr) -> Sort:
        self.must(node.this, Sort.WHOLE, Sort.EXACT, Sort.BINARY, Sort.DOUBTED)
        return Sort.DOUBTED

    def _extreme(self, node: exp.Expr) -> Sort:
        if node.expressions:
            raise Differs(self.unlike(node))
        found = sort_of(node.this)
        if found is Sort.TEXT:
            raise Differs(ORDER_OF_TEXTS)
        return Sort.EXACT if found is Sort.WHOLE else found


def decides(node: exp.Expr) -> bool:
    """Does it depend on this value who is meant, or to which group he belongs?"""
    return node.find_ancestor(*COMPARED, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Group) is not None


def word(node: exp.Expr) -> str:
    """What a message calls a node."""
    signs: dict[type[exp.Expr], str] = {exp.Div: "/", exp.Mod: "%", exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
    if type(node) in signs:
        return signs[type(node)]
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    if isinstance(node, exp.WithTableHint):
        return node.sql(dialect="tsql")
    return node.sql_name() if isinstance(node, exp.Func) else node.key.upper()


def _own(select: exp.Select) -> Iterator[exp.Expr]:
    """The nodes of a SELECT without those of the SELECTs in it: children first, the SELECT list before the rest."""
    parts = sorted(select.iter_expressions(), key=lambda p: p.arg_key != "expressions")
    for part in parts:
        nodes = list(part.walk(prune=lambda n: isinstance(n, exp.Select)))
        yield from (n for n in reversed(nodes) if not isinstance(n, exp.Select))


def _always(sort: Sort) -> Rule:
    return lambda _translator, _node: sort


def _same(_translator: Translator, node: exp.Expr) -> Sort:
    """What is inside, unchanged."""
    return sort_of(node.this)


_RULES: dict[type[exp.Expr], Rule] = {
    **dict.fromkeys(_STRUCTURE, _always(Sort.ROWS)),
    **dict.fromkeys(COMPARED, Translator._compared),
    **dict.fromkeys((exp.And, exp.Or, exp.Not, exp.Where, exp.Having), Translator._logic),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Neg), Translator._arithmetic),
    **dict.fromkeys((exp.Paren, exp.Filter), _same),
    **dict.fromkeys((exp.Min, exp.Max), Translator._extreme),
    **dict.fromkeys((exp.Coalesce,), Translator._chosen),
    exp.Column: Translator._column,
    exp.Literal: Translator._literal,
    exp.Null: _always(Sort.NOTHING),
    exp.Boolean: _always(Sort.TRUTH),
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
    exp.Count: _always(Sort.EXACT),
    exp.Distinct: lambda _t, node: sort_of(node.expressions[0]) if node.expressions else Sort.ROWS,
}


# --- functions of texts -----------------------------------------------------------------------------------------------
# Functions of texts that PostgreSQL, SQLite and DuckDB compute alike: by characters, with constant places.


def _text_length(self: Translator, node: exp.Expr) -> Sort:
    self.must(node.this, Sort.TEXT)
    return Sort.WHOLE


def _substring(self: Translator, node: exp.Substring) -> Sort:
    self.must(node.this, Sort.TEXT)
    start, length = whole_said(node.args.get("start")), node.args.get("length")
    count = 0 if length is None else whole_said(length)
    if start is None or start < 1 or count is None or count < 0:
        raise Differs(": SUBSTRING is judged from a constant place of at least 1 on; before that engines differ")
    return Sort.TEXT


def _text_end(self: Translator, node: exp.Expr) -> Sort:
    self.must(node.this, Sort.TEXT)
    count = whole_said(node.args.get("expression"))
    if count is None or count < 0:
        raise Differs(f": {word(node)} is judged with a constant number of characters that is not negative")
    return Sort.TEXT


def _text_position(self: Translator, node: exp.StrPosition) -> Sort:
    self.must(node.this, Sort.TEXT)
    _check_constant_text(node, "substr")
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        raise Differs(f": {word(node)} from another place than the start is not judged")
    return Sort.WHOLE


def _text_replace(self: Translator, node: exp.Replace) -> Sort:
    self.must(node.this, Sort.TEXT)
    _check_constant_text(node, "expression")
    if not isinstance(node.args.get("replacement"), exp.Literal):
        raise Differs(": REPLACE is judged with constants only")
    return Sort.TEXT


def _joined_text(self: Translator, node: exp.Expr) -> Sort:
    for part in node.iter_expressions():
        if sort_of(part) not in (Sort.TEXT, Sort.SAID):
            raise Differs(f": {word(node)} of anything but texts is not the same in all engines: cast it to TEXT")
    return Sort.TEXT


def _check_constant_text(node: exp.Expr, name: str) -> None:
    part = node.args.get(name)
    if not isinstance(part, exp.Literal) or not part.is_string or not part.name:
        raise Differs(f": {word(node)} is judged with a constant text that is not empty")


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
