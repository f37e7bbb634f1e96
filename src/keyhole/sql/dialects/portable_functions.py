"""Functions of public columns that every engine computes alike, though they write them differently.

Parts of texts (SUBSTR, LEFT, RIGHT from a place of at least 1), texts put together (CONCAT, ||, and + in SQL Server),
UPPER, LOWER and COALESCE of texts, where all the values that occur are ASCII: then letters are bytes, and A to Z are
the only ones with a case. Whole numbers divided by a constant: cut toward zero where 21 / 2 is 10, and FLOOR(age / 10)
where the quotient has all its digits. DECODE is a CASE. Years, quarters, months and days of a DATE. By the manuals,
since most of these engines do not run here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from itertools import product
from math import prod

from sqlglot import exp

from keyhole.model.schema import Kind, Schema, fold_name
from keyhole.sql.dialects.engine import EngineDialect
from keyhole.sql.statements.tree import read_whole_number

MAX_TEXTS = 20_000
_TEXTS = (exp.Substring, exp.Left, exp.Right, exp.Concat, exp.DPipe, exp.Add, exp.Upper, exp.Lower, exp.Coalesce)


class PortableFunctions:
    """Which nodes of a statement for one engine are such functions, what they become, and which texts they give.

    >>> import sqlglot
    >>> from keyhole.model.schema import Column
    >>> from keyhole.sql.dialects.engine import find_engine
    >>> staff = Schema("t", (Column("dept", Kind.TEXT),), spelt={"dept": frozenset({"law", "IT"})})
    >>> tree = sqlglot.parse_one("SELECT LEFT(dept, 1) + '-' + dept FROM t", read="tsql")
    >>> PortableFunctions(find_engine("tsql"), staff).replace_in(tree).sql(dialect="duckdb")
    "SELECT LEFT(dept, 1) || '-' || dept FROM t"
    >>> sorted(PortableFunctions(find_engine("tsql"), staff).possible_texts(tree.expressions[0]))
    ['I-IT', 'I-law', 'l-IT', 'l-law']
    """

    def __init__(self, engine: EngineDialect, schema: Schema) -> None:
        self.engine = engine
        self.spelt = schema.spelt if engine.portable_texts else {}
        self.nullable = {fold_name(c.name) for c in schema.columns if c.nullable}
        self.whole = {fold_name(c.name) for c in schema.columns if c.kind is Kind.INTEGER}

    def replace_in(self, tree: exp.Expr) -> exp.Expr:
        """The tree with these functions in the words that all read alike."""
        return tree.copy().transform(self._plain)

    def is_portable(self, node: exp.Expr) -> bool:
        """Is it such a function?"""
        if isinstance(node, exp.ILike | exp.StartsWith):
            known = self.engine.has_ilike if isinstance(node, exp.ILike) else self.engine.upper_ignores_locale
            return known and None not in map(self.possible_texts, (node.this, node.expression))
        return self._is_quotient(node) or (isinstance(node, _TEXTS) and self.possible_texts(node) is not None)

    def list_given_texts(self, node: exp.Expr) -> Iterator[frozenset[str]]:
        """The texts that each of these functions of a statement can give."""
        found = self.possible_texts(node) if isinstance(node, _TEXTS) else None
        if found is not None:
            yield found
            return
        for child in node.iter_expressions():
            yield from self.list_given_texts(child)

    def possible_texts(self, node: exp.Expr | None) -> frozenset[str] | None:
        """All the texts that an expression can give; None if it is none of these, or where engines may differ."""
        if isinstance(node, exp.Paren):
            return self.possible_texts(node.this)
        if isinstance(node, exp.Literal) and node.is_string:
            return frozenset((node.name,)) if node.name and node.name.isascii() else None
        if isinstance(node, exp.Column):
            held = self.spelt.get(node.name.casefold())
            return held if held is not None and all(v and v.isascii() and v == v.rstrip() for v in held) else None
        if isinstance(node, exp.Upper | exp.Lower):
            change = str.upper if isinstance(node, exp.Upper) else str.lower
            return self._mapped(node.this, change) if self.engine.upper_ignores_locale else None
        if isinstance(node, exp.Substring | exp.Left | exp.Right):
            return self._cut(node)
        if isinstance(node, exp.Coalesce):  # ISNULL of SQL Server, which is parsed so, cuts to the length of the first
            each = [self.possible_texts(part) for part in (node.this, *node.expressions)]
            return None if self.engine.coalesce_cuts_texts or None in each else frozenset().union(*filter(None, each))
        if isinstance(node, exp.Add) and not self.engine.plus_joins_texts:
            return None
        return self._together(
            _joined_operands(node), null=not (isinstance(node, exp.Concat) and self.engine.concat_skips_null)
        )

    def _cut(self, node: exp.Expr) -> frozenset[str] | None:
        first = read_whole_number(node.args.get("start")) if isinstance(node, exp.Substring) else 1
        asked = node.args.get("length" if isinstance(node, exp.Substring) else "expression")
        many = 10**9 if asked is None else read_whole_number(asked)
        if first is None or many is None or not first >= 1 or not many >= 1:
            return None
        if isinstance(node, exp.Right):
            return self._mapped(_strip_text_cast(node.this), lambda text: text[-many:])
        return self._mapped(_strip_text_cast(node.this), lambda text: text[first - 1 : first - 1 + many])

    def _mapped(self, node: exp.Expr, change: Callable[[str], str]) -> frozenset[str] | None:
        held = self.possible_texts(node)
        return None if held is None else frozenset(map(change, held))

    def _together(self, parts: list[exp.Expr], *, null: bool) -> frozenset[str] | None:
        """Texts one after another; with `null` nothing comes of one that is NULL, as in DuckDB's ||."""
        held = [self.possible_texts(part) for part in parts]
        some = [each for each in held if each is not None]
        if not parts or len(some) < len(held) or prod(map(len, some)) > MAX_TEXTS:
            return None
        if not null and any(fold_name(c.name) in self.nullable for part in parts for c in part.find_all(exp.Column)):
            return None
        return frozenset(map("".join, product(*some)))

    def _is_quotient(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.IntDiv) and self.engine.cuts_integer_division:
            return self._over(node) is not None
        if not isinstance(node, exp.Floor) or node.args.get("decimals") is not None:
            return False
        if not isinstance(node.this, exp.Div):
            return isinstance(node.this, exp.IntDiv) and self._is_quotient(node.this)
        over = self._over(node.this)
        if over is None:
            return False
        parts = self.engine.quotient_parts
        return self.engine.quotient_is_double or (parts > 0 and parts % over == 0)

    def _over(self, node: exp.Expr) -> int | None:
        """The constant by which a whole column is divided."""
        column = isinstance(node.this, exp.Column) and fold_name(node.this.name) in self.whole
        over = read_whole_number(node.expression)
        return over if column and over else None

    def _plain(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.DecodeCase) and len(node.expressions) > 2:
            made = _decode_as_case(node)
            return node if made is node else self.replace_in(made)
        if isinstance(node, exp.Div) and self.engine.divides_integers and self._over(node) is not None:
            return exp.IntDiv(this=node.this.copy(), expression=node.expression.copy())
        if isinstance(node, exp.Floor) and isinstance(node.this, exp.Div) and self._is_quotient(node):
            quotient = exp.Div(this=node.this.this.copy(), expression=node.this.expression.copy())
            return exp.Floor(this=quotient)
        if not isinstance(node, _TEXTS) or self.possible_texts(node) is None:
            return node
        if isinstance(node, exp.Substring):
            kept = {name: node.args[name].copy() for name in ("start", "length") if node.args.get(name) is not None}
            return exp.Substring(this=self.replace_in(_strip_text_cast(node.this)), **kept)
        if isinstance(node, exp.Left | exp.Right):
            return type(node)(this=self.replace_in(_strip_text_cast(node.this)), expression=node.expression.copy())
        if isinstance(node, exp.Upper | exp.Lower | exp.Coalesce):
            return node
        first, *rest = (self.replace_in(part) for part in _joined_operands(node))
        for part in rest:
            first = exp.DPipe(this=first, expression=part)
        return first


def _joined_operands(node: exp.Expr | None) -> list[exp.Expr]:
    if isinstance(node, exp.Concat):
        return list(node.expressions)
    return [node.this, node.expression] if isinstance(node, exp.DPipe | exp.Add) else []


def _decode_as_case(node: exp.DecodeCase) -> exp.Expr:
    """DECODE(x, 'a', 1, 'b', 2, 3) as a CASE; itself if something else than constants is looked for."""
    of, *rest = node.expressions
    pairs = list(zip(rest[0::2], rest[1::2], strict=False))
    if not all(isinstance(sought, exp.Literal) for sought, _ in pairs):
        return node
    made = exp.Case()
    for sought, then in pairs:
        made = made.when(exp.EQ(this=of.copy(), expression=sought.copy()), then.copy())
    return made.else_(rest[-1].copy()) if len(rest) % 2 else made


def _strip_text_cast(node: exp.Expr) -> exp.Expr:
    """Without the cast to text that the parser of SQL Server puts around arguments."""
    return node.this if isinstance(node, exp.Cast) and node.to.this is exp.DType.TEXT else node


# --- parts of a day ---------------------------------------------------------------------------------------------------
# Parts of a day that every engine computes alike: the year, quarter, month and day of a DATE, and the first day of it.
#
# SQL counts days by the Gregorian calendar in every engine, and a DATE has no time zone. Weeks, days of the week and
# times of day differ (the first day of a week, the zone of a session), and so do names of months: they are not here.


_PARTS_OF_DAY = (exp.Year, exp.Quarter, exp.Month, exp.Day, exp.DayOfMonth)
_UNITS_OF_DAY = frozenset(("year", "quarter", "month", "day"))
_WRAPPED_DAYS = (
    exp.TsOrDsToDate,
    exp.TsOrDsToTimestamp,
    exp.TimeStrToTime,
)  # what sqlglot puts around a column of days
_DAY_FORMAT = re.compile(r"(%[Ymd]|[-. ])+")
_DAY_FORMAT_WITH_SLASHES = re.compile(r"(%[Ymd]|[-./ ])+")


def is_part_of_day(node: exp.Expr, days: AbstractSet[str], engine: EngineDialect) -> bool:
    """Is this such a part of a column of days? `days` are the columns that are DATE, case folded.

    >>> import sqlglot
    >>> from keyhole.sql.dialects.engine import find_engine
    >>> tree = sqlglot.parse_one("SELECT DATE_FORMAT(d, '%Y-%m'), YEAR(d), WEEK(d), YEAR(e) FROM t", read="mysql")
    >>> [is_part_of_day(item, {"d"}, find_engine("mysql")) for item in tree.expressions]
    [True, True, False, False]
    """
    if not engine.is_known:
        return False
    if isinstance(node, _PARTS_OF_DAY):
        return _is_day_column(node.this, days)
    if isinstance(node, exp.Extract):
        return node.name.lower() in _UNITS_OF_DAY and _is_day_column(node.expression, days)
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc):
        unit = node.args.get("unit")
        return (
            unit is not None
            and unit.name.lower() in _UNITS_OF_DAY
            and not node.args.get("zone")
            and _is_day_column(node.this, days)
        )
    if isinstance(node, exp.TimeToStr):
        said = node.args.get("format")
        written = (
            _DAY_FORMAT if engine.slash_follows_culture else _DAY_FORMAT_WITH_SLASHES
        )  # there / is the separator of a culture
        plain = isinstance(said, exp.Literal) and written.fullmatch(said.name) is not None
        return plain and not node.args.get("culture") and _is_day_column(node.this, days)
    return False


def _is_day_column(node: exp.Expr | None, days: AbstractSet[str]) -> bool:
    """A column of days, or that cast to a day or a moment."""
    if isinstance(node, _WRAPPED_DAYS):
        return _is_day_column(node.this, days)
    if isinstance(node, exp.Cast):
        return node.to.is_type("date", "timestamp", "timestampntz", "datetime") and _is_day_column(node.this, days)
    return isinstance(node, exp.Column) and fold_name(node.name) in days
