"""PostgreSQL in DuckDB's words: tests/sql/test_dialect_conformance.py runs every rule in both."""

from __future__ import annotations

import datetime as dt
import math
import re
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

from sqlglot import exp

from keyhole.model.numbers import round_fraction
from keyhole.model.schema import Schema, fold_name
from keyhole.sql.dialects.translator import ORDER_OF_TEXTS, TEXT_RULES, Rule, Translator, decides_membership
from keyhole.sql.dialects.types import (
    DECIMAL_NUMBER,
    ISO_DAY,
    ISO_MOMENT,
    WHOLE_NUMBER,
    NotPortable,
    SqlType,
    cast_to_double,
    is_never_zero,
    read_integer,
    read_number,
    type_of,
    widest_type,
)
from keyhole.sql.lowering.date_arithmetic import read_interval, shift_date
from keyhole.sql.statements.tree import SPREADS, strip_parentheses

_T = exp.DataType.Type
_WHOLE = (_T.SMALLINT, _T.INT, _T.BIGINT)
_PARTS = frozenset(["year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "isoyear", "hour", "minute"])
_TRUNCATED = frozenset(["year", "quarter", "month", "week", "day", "hour", "minute"])
_LISTED_WORDS = re.compile(r"\{(?P<words>[A-Za-z0-9_.-]+(?:,[A-Za-z0-9_.-]+)*)\}")  # without quotes or blanks
FEW_DIGITS = 7  # of a constant factor
PLAIN_PATTERN = re.compile(
    r"\^?(?:[A-Za-z0-9 ]|\[[A-Za-z0-9]+(?:-[A-Za-z0-9])?\]|\((?:[A-Za-z0-9 ]+\|)*[A-Za-z0-9 ]+\))+\$?"
)
_FORMAT = re.compile(r"(?:%[YmdHMS]|[-/: .])+")
_FITS = {
    SqlType.INTEGER: WHOLE_NUMBER,
    SqlType.DECIMAL: DECIMAL_NUMBER,
    SqlType.DOUBLE: DECIMAL_NUMBER,
    SqlType.FRACTION: DECIMAL_NUMBER,
    SqlType.DATE: ISO_DAY,
    SqlType.TIMESTAMP: ISO_MOMENT,
}


class PostgresTranslator(Translator):
    """Whole numbers divide without remainder; a cast rounds half away from zero, or to even for a double."""

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self.digits = {fold_name(c.name): c.digits for c in schema.columns if not c.secret}

    def check_text_constant(self, constant: exp.Expr, other: SqlType) -> None:
        """A constant takes the type of what it meets: read as PostgreSQL and DuckDB both read it, or not judged."""
        if other is SqlType.TEXT:
            return
        if other not in _FITS or _FITS[other].fullmatch(constant.name) is None:
            raise NotPortable(
                f": '{constant.name}' is compared with {other}: write it as a number, as TRUE or as YYYY-MM-DD"
            )
        if other.numeric:
            self._number(constant, constant.name, other)

    def _meeting(self, node: exp.Expr) -> None:
        """A text constant beside a whole number is one: what a driver sends as a parameter is logged in quotes."""
        for part, other in ((node.this, node.expression), (node.expression, node.this)):
            constant = strip_parentheses(part)
            if (
                type_of(part) is SqlType.TEXT_CONSTANT
                and type_of(other) is SqlType.INTEGER
                and WHOLE_NUMBER.fullmatch(constant.name)
            ):
                self._number(constant, constant.name, SqlType.INTEGER)

    def _arithmetic(self, node: exp.Expr) -> SqlType:
        """A product of decimals has any number of digits there, and may have too many for DuckDB's DECIMAL."""
        result = super()._arithmetic(node)
        if isinstance(node, exp.Mul) and result is SqlType.DECIMAL and decides_membership(node):
            said = [text for part in (node.this, node.expression) if (text := read_number(part)) is not None]
            if not any(len(text) <= FEW_DIGITS for text in said):
                raise NotPortable(
                    ": a product of decimals may have more digits than DuckDB keeps: multiply by a constant"
                )
        return result

    def _add(self, node: exp.Expr) -> SqlType:
        self._meeting(node)
        left, right = node.this, node.expression
        a, b = type_of(left), type_of(right)
        if isinstance(node, exp.Add) and b.dated and not a.dated:
            left, right, a, b = right, left, b, a
        if isinstance(node, exp.Sub) and a is b is SqlType.DATE:
            return self.replace_node(node, exp.Sub(this=left.copy(), expression=right.copy()), SqlType.INTEGER)
        if not a.dated or isinstance(node, exp.Mul):
            return self._arithmetic(node)
        sign = -1 if isinstance(node, exp.Sub) else 1
        start, parts = _read_constant_day(left), _read_interval(right)
        if start is None or parts is None or (b is SqlType.INTEGER and a is not SqlType.DATE):
            raise NotPortable(
                ": an interval is computed for constant dates only: write the resulting date, or put the expression "
                "into a column of a view"
            )
        moment: dt.date | None = start
        for amount, unit in parts:
            moment = None if moment is None else shift_date(moment, sign * amount, unit)
        if moment is None:
            raise NotPortable(": this interval is not read: write the resulting date")
        return self._day(node, moment, SqlType.DATE if b is SqlType.INTEGER else SqlType.TIMESTAMP)

    def _day(self, node: exp.Expr, moment: dt.date, sql_type: SqlType) -> SqlType:
        text = str(moment)[:10] if sql_type is SqlType.DATE else str(moment)
        kind = _T.DATE if sql_type is SqlType.DATE else _T.TIMESTAMP
        return self.replace_node(node, exp.Cast(this=exp.Literal.string(text), to=exp.DataType(this=kind)), sql_type)

    def _divide(self, node: exp.Div) -> SqlType:
        self._meeting(node)
        a, b = type_of(node.this), type_of(node.expression)
        if not (a.numeric and b.numeric):
            raise NotPortable(": / of anything but numbers is not the same in all engines")
        if node.find(exp.AggFunc) is not None and widest_type([a, b]) is not SqlType.DOUBLE:
            raise NotPortable(
                ": there a quotient of sums or counts may be cut to a whole number, as the column's type says, which "
                "is not known here: ask AVG, or cast one of them to DOUBLE PRECISION"
            )
        if not is_never_zero(node.expression) and not isinstance(strip_parentheses(node.expression), exp.Count):
            raise NotPortable(": a divisor that is 0 is an error there, not so in DuckDB: write NULLIF(divisor, 0)")
        left, right = node.this.copy(), node.expression.copy()
        if a is b is SqlType.INTEGER:
            return self.replace_node(node, exp.IntDiv(this=left, expression=right), SqlType.INTEGER)
        if widest_type([a, b]) is SqlType.DOUBLE:
            return self.replace_node(node, exp.Div(this=left, expression=right), SqlType.DOUBLE)
        if isinstance(_find_enclosing(node), exp.Floor | exp.Ceil) and _has_short_inverse(read_number(node.expression)):
            return self.replace_node(
                node, exp.Div(this=left, expression=right), SqlType.DECIMAL
            )  # it ends after a few digits
        raise NotPortable(
            ": a division of decimals is rounded there in a way of its own: divide whole numbers, or cast one of "
            "them to DOUBLE PRECISION"
        )

    def _modulo(self, node: exp.Mod) -> SqlType:
        self._meeting(node)
        return self.take_remainder(node, ": a remainder by 0 is an error there: write NULLIF(divisor, 0)")

    def _cast(self, node: exp.Cast) -> SqlType:
        to, inner, of = node.to, node.this, type_of(node.this)
        digits = [read_integer(p.this) for p in to.expressions]
        text = strip_parentheses(inner).name if of is SqlType.TEXT_CONSTANT else ""
        if to.this in _WHOLE:
            if of is SqlType.TEXT_CONSTANT and WHOLE_NUMBER.fullmatch(text):
                return self._number(node, text, SqlType.INTEGER)
            if of in (SqlType.INTEGER, SqlType.DECIMAL, SqlType.DOUBLE) or (
                of is SqlType.CONDITION and to.this is _T.INT
            ):
                return SqlType.INTEGER
        elif to.this is _T.DECIMAL:
            if of is SqlType.TEXT_CONSTANT and not digits and DECIMAL_NUMBER.fullmatch(text):
                return self._number(node, text, SqlType.DECIMAL)
            if of in (SqlType.INTEGER, SqlType.DECIMAL) and (not digits or of is SqlType.INTEGER):
                return self.replace_node(node, exp.Paren(this=inner.copy()), SqlType.DECIMAL)
            width, scale = [*digits, 0, 0][:2]
            if of is SqlType.DECIMAL and width and scale is not None and 0 <= scale <= width <= 38:
                return SqlType.DECIMAL
        elif to.this is _T.DOUBLE and of.numeric:
            return SqlType.DOUBLE
        elif (
            to.this in (_T.TEXT, _T.VARCHAR)
            and not digits
            and of in (SqlType.INTEGER, SqlType.TEXT, SqlType.TEXT_CONSTANT, SqlType.CONDITION)
        ):
            return SqlType.TEXT
        elif to.this is _T.DATE and (of.dated or (of is SqlType.TEXT_CONSTANT and ISO_DAY.fullmatch(text))):
            return SqlType.DATE
        elif (
            to.this is _T.TIMESTAMP
            and not digits
            and (of.dated or (of is SqlType.TEXT_CONSTANT and ISO_MOMENT.fullmatch(text)))
        ):
            return SqlType.TIMESTAMP
        raise NotPortable(
            f": a cast of {of} to {to.sql(dialect='postgres')} is not known to give the same in DuckDB: leave it out"
        )

    def _number(self, node: exp.Expr, text: str, sql_type: SqlType) -> SqlType:
        number: exp.Expr = exp.Literal.number(text.lstrip("+-"))
        return self.replace_node(node, exp.Neg(this=number) if text.startswith("-") else number, sql_type)

    def _round(self, node: exp.Round) -> SqlType:
        of, places = type_of(node.this), node.args.get("decimals")
        digits = read_integer(places)
        if places is not None and (digits is None or abs(digits) > 15):
            raise NotPortable(": ROUND to a number of places that is no small constant is not judged")
        if of is SqlType.INTEGER and (digits is None or digits >= 0):
            if digits is None:
                return self.replace_node(node, cast_to_double(node.this), SqlType.DOUBLE)
            return self.replace_node(node, exp.Paren(this=node.this.copy()), SqlType.DECIMAL)
        if of in (SqlType.INTEGER, SqlType.DECIMAL):
            return SqlType.DECIMAL
        raise NotPortable(": ROUND of a double rounds halves to even there, and up in DuckDB: cast it to NUMERIC first")

    def _whole(self, node: exp.Expr) -> SqlType:
        of = self.require_type(node.this, SqlType.INTEGER, SqlType.DECIMAL, SqlType.DOUBLE)
        if node.args.get("decimals") is not None:
            raise NotPortable(self.explain_unlike(node))
        if of is SqlType.DECIMAL and self._is_whole(node.this):  # 7::numeric: DuckDB would make a double of it
            return self.replace_node(node, exp.Paren(this=node.this.copy()), of)
        return self.replace_node(node, cast_to_double(node.this), SqlType.DOUBLE) if of is SqlType.INTEGER else of

    def _is_whole(self, node: exp.Expr) -> bool:
        """Is it a whole number in DuckDB, whatever it is called there?"""
        if isinstance(node, exp.Column):
            return self._column(node) is SqlType.INTEGER
        if isinstance(node, exp.Literal):
            return not node.is_string and node.name.isdigit()
        parts = list(node.iter_expressions())
        return isinstance(node, exp.Paren | exp.Neg | exp.Add | exp.Sub | exp.Mul) and all(map(self._is_whole, parts))

    def _abs(self, node: exp.Abs) -> SqlType:
        return self.require_type(node.this, SqlType.INTEGER, SqlType.DECIMAL, SqlType.DOUBLE)

    def _sign(self, node: exp.Sign) -> SqlType:
        if self.require_type(node.this, SqlType.INTEGER, SqlType.DECIMAL) is SqlType.DECIMAL:
            return SqlType.DECIMAL
        return self.replace_node(node, cast_to_double(exp.Sign(this=node.this.copy())), SqlType.DOUBLE)

    def _nullif(self, node: exp.Nullif) -> SqlType:
        """Its type is that of the comparison: NULLIF(n, 2.5) is a decimal where n is whole."""
        found = super()._nullif(node)
        other = type_of(node.expression)
        if not (found.numeric and other.numeric) or found is other:
            return found
        return SqlType.DECIMAL if {found, other} == {SqlType.INTEGER, SqlType.DECIMAL} else SqlType.FRACTION

    def _extract(self, node: exp.Extract) -> SqlType:
        self.require_type(node.expression, SqlType.DATE, SqlType.TIMESTAMP)
        if node.this.name.lower() not in _PARTS:
            raise NotPortable(f": EXTRACT({node.this.name.upper()} ...) may give something else there than in DuckDB")
        return SqlType.DECIMAL

    def _truncate(self, node: exp.TimestampTrunc) -> SqlType:
        self.require_type(node.this, SqlType.DATE, SqlType.TIMESTAMP)
        if node.args["unit"].name.lower() not in _TRUNCATED or node.args.get("zone") is not None:
            raise NotPortable(": DATE_TRUNC is judged for year, quarter, month, week, day, hour and minute")
        return SqlType.TIMESTAMP

    def _format(self, node: exp.TimeToStr) -> SqlType:
        self.require_type(node.this, SqlType.DATE, SqlType.TIMESTAMP)
        pattern = node.args["format"]
        if not isinstance(pattern, exp.Literal) or _FORMAT.fullmatch(pattern.name) is None:
            raise NotPortable(": TO_CHAR is judged for YYYY, MM, DD, HH24, MI and SS between - / : . and blanks")
        return SqlType.TEXT

    def _bucket(self, node: exp.WidthBucket) -> SqlType:
        whole = self.require_type(node.this, SqlType.INTEGER, SqlType.DECIMAL) is SqlType.INTEGER
        of = strip_parentheses(node.this)
        digits = self.digits.get(fold_name(of.name)) if isinstance(of, exp.Column) else None
        return self.replace_node(
            node, exp.Paren(this=expand_width_bucket(node, 0 if whole else digits, whole)), SqlType.INTEGER
        )

    def _array(self, node: exp.Array) -> SqlType:
        if not isinstance(node.parent, exp.WidthBucket):
            raise NotPortable(self.explain_unlike(node))
        return SqlType.NO_VALUE

    def _matches(self, node: exp.RegexpLike) -> SqlType:
        self.require_type(node.this, SqlType.TEXT)
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or PLAIN_PATTERN.fullmatch(pattern.name) is None:
            raise NotPortable(": a regular expression is judged if it has letters, digits, [a-z], (a|b), ^ and $ alone")
        return SqlType.CONDITION

    def _extremum(self, node: exp.Expr) -> SqlType:
        found = self._chosen(node)
        if found in (SqlType.TEXT, SqlType.CONDITION):
            raise NotPortable(ORDER_OF_TEXTS)
        return found

    def _average(self, node: exp.Avg) -> SqlType:
        """Of whole numbers and decimals it is a decimal; it is not divided further, and rounding only blurs it."""
        return (
            SqlType.DECIMAL
            if self._statistic(node) and type_of(node.this) in (SqlType.INTEGER, SqlType.DECIMAL)
            else SqlType.FRACTION
        )

    def translate(self, tree: exp.Expr) -> exp.Expr:
        """The statement in DuckDB's words; raises `NotPortable`."""
        return super().translate(replace_any_lists(tree.copy()))

    def _split(self, node: exp.SplitPart) -> SqlType:
        self.require_type(node.this, SqlType.TEXT)
        by, at = node.args.get("delimiter"), read_integer(node.args.get("part_index"))
        if not isinstance(by, exp.Literal) or not by.is_string or not by.name or at is None or at < 1:
            raise NotPortable(": SPLIT_PART is judged with a constant text, and a constant place of at least 1")
        return SqlType.TEXT

    def _level(self, node: exp.Expr) -> SqlType:
        """PERCENTILE_CONT(0.5): one constant, behind which stands what is ordered."""
        if not isinstance(node.this, exp.Literal) or not isinstance(node.parent, exp.WithinGroup):
            raise NotPortable(self.explain_unlike(node))
        return SqlType.FRACTION

    def _within(self, node: exp.WithinGroup) -> SqlType:
        """One of the values, or a double between two of them; DuckDB gives a decimal between two decimals."""
        ordered = node.expression.expressions if isinstance(node.expression, exp.Order) else ()
        if len(ordered) != 1 or type(node.this) not in (exp.PercentileCont, exp.PercentileDisc):
            raise NotPortable(self.explain_unlike(node))
        between = isinstance(node.this, exp.PercentileCont)
        kinds = (SqlType.INTEGER, SqlType.DOUBLE, SqlType.FRACTION) if between else (SqlType.INTEGER, SqlType.DECIMAL)
        found = self.require_type(ordered[0].this, *kinds)
        return SqlType.FRACTION if between else found

    def _letters(self, node: exp.Expr) -> SqlType:
        raise NotPortable(
            ": which letters are the same but for their case depends on the locale there: compare with = or LIKE, or "
            "put the expression into a column of a view"
        )

    rules: ClassVar[dict[type[exp.Expr], Rule]] = {
        **TEXT_RULES,
        **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _add),
        **dict.fromkeys((exp.Floor, exp.Ceil), _whole),
        **dict.fromkeys((exp.Greatest, exp.Least), _extremum),
        **dict.fromkeys((exp.Upper, exp.Lower, exp.ILike, exp.Initcap), _letters),
        **dict.fromkeys(SPREADS, Translator._statistic),
        exp.Avg: _average,
        **dict.fromkeys((exp.PercentileCont, exp.PercentileDisc), _level),
        exp.WithinGroup: _within,
        exp.SplitPart: _split,
        exp.Nullif: _nullif,
        exp.Div: _divide,
        exp.Mod: _modulo,
        exp.Cast: _cast,
        exp.Round: _round,
        exp.Abs: _abs,
        exp.Sign: _sign,
        exp.Extract: _extract,
        exp.TimestampTrunc: _truncate,
        exp.TimeToStr: _format,
        exp.WidthBucket: _bucket,
        exp.Array: _array,
        exp.RegexpLike: _matches,
        exp.Interval: lambda _translator, _node: SqlType.INTERVAL,
    }


def _find_enclosing(node: exp.Expr) -> exp.Expr | None:
    """What stands around it, parentheses aside."""
    found = node.parent
    while isinstance(found, exp.Paren):
        found = found.parent
    return found


def _has_short_inverse(text: str | None) -> bool:
    """Is this a divisor of few digits by which a decimal gets a few digits more?"""
    return text is not None and Fraction(text) != 0 and (1 / Fraction(text) * 10**6).denominator == 1


def _read_constant_day(node: exp.Expr) -> dt.date | None:
    """The value of a constant date or timestamp."""
    node = strip_parentheses(node)
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal):
        return None
    try:
        moment = dt.datetime.fromisoformat(node.this.name)
    except ValueError:
        return None
    return moment.date() if type_of(node) is SqlType.DATE else moment


def _read_interval(node: exp.Expr) -> list[tuple[int, str]] | None:
    """The parts of a constant interval; a whole number is so many days."""
    number = read_integer(node)
    if number is not None and abs(number) < 10**6:
        return [(number, "day")]
    node = strip_parentheses(node)
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = node.args.get("unit")
    return read_interval(node.this.name if unit is None else f"{node.this.name} {unit.name}")


def replace_any_lists(tree: exp.Expr) -> exp.Expr:
    """The tree with IN for = ANY of constants, as drivers write lists; it is changed.

    >>> import sqlglot
    >>> tree = sqlglot.parse_one("SELECT a = ANY (ARRAY[1, 2]), b = ANY ('{x,y}'::text[])", read="postgres")
    >>> replace_any_lists(tree).sql()
    "SELECT a IN (1, 2), b IN ('x', 'y')"
    """
    for test in list(tree.find_all(exp.EQ)):
        listed = _listed_constants(test.expression.this) if isinstance(test.expression, exp.Any) else None
        if listed:
            test.replace(exp.In(this=test.this.copy(), expressions=listed))
    return tree


def _listed_constants(node: exp.Expr) -> list[exp.Expr] | None:
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Cast) and node.to.this is exp.DType.ARRAY):
        node = node.this
    if isinstance(node, exp.Array):
        return [part.copy() for part in node.expressions] if all(map(_is_constant, node.expressions)) else None
    found = _LISTED_WORDS.fullmatch(node.name) if isinstance(node, exp.Literal) and node.is_string else None
    words = [] if found is None else found["words"].split(",")
    return None if any(word.casefold() == "null" for word in words) else [exp.Literal.string(word) for word in words]


def _is_constant(node: exp.Expr) -> bool:
    return isinstance(node.this if isinstance(node, exp.Neg) else node, exp.Literal)


# --- WIDTH_BUCKET -----------------------------------------------------------------------------------------------------
# WIDTH_BUCKET as the CASE that it is, where every version of PostgreSQL puts every number into the same bucket
#
# With bounds b1 < b2 and c buckets, a number x is in bucket 0 below b1, in c + 1 from b2 on, else in
# floor(c (x - b1) / (b2 - b1)) + 1: lower ends belong to their bucket. With b1 > b2 the order is turned round, and
# upper ends belong. Decimals are computed exactly there. Whole numbers between whole bounds are computed with doubles:
# in early versions the product first, in later ones the quotient, so that 29 is in bucket 30 or 29 of (n, 0, 100, 100).


MOST_BUCKETS = 100
MOST_DIGITS_OF_BOUND = 9  # of a bound behind the point
_LARGEST = 10**15  # whole numbers up to it are doubles


def expand_width_bucket(node: exp.WidthBucket, digits: int | None, whole: bool) -> exp.Case:
    """The CASE that a WIDTH_BUCKET between constants is.

    `digits` are those behind the point that the number can have (None: not known); `whole`: it is a whole number there.
    Guarantee: tests/sql/test_width_bucket.py runs it in PostgreSQL, on the ends and beside them. Raises `NotPortable`.

    >>> import sqlglot
    >>> node = sqlglot.parse_one("WIDTH_BUCKET(n, 10, 0, 3)", read="postgres")
    >>> expand_width_bucket(node, 0, True).sql()
    'CASE WHEN n IS NULL THEN NULL WHEN n > 10 THEN 0 WHEN n > 6 THEN 1 WHEN n > 3 THEN 2 WHEN n > 0 THEN 3 ELSE 4 END'
    """
    if node.args.get("threshold") is not None:
        return _case_of_buckets(node.this, _bounds_of_array(node.args["threshold"]), exp.LT)
    constants = [read_number(node.args.get(name)) for name in ("min_value", "max_value", "num_buckets")]
    if None in constants:
        raise NotPortable(": WIDTH_BUCKET is judged between constants, with a constant number of buckets")
    first, last, count = (Fraction(text) for text in constants if text is not None)
    if not 1 <= count <= MOST_BUCKETS or count.denominator != 1 or first == last:
        raise NotPortable(f": WIDTH_BUCKET is judged for 1 to {MOST_BUCKETS} buckets between two bounds")
    ends = [first + (last - first) * k / count for k in range(int(count) + 1)]
    falling = first > last
    if digits is not None:
        grid = 10**digits
        ends = [Fraction((math.floor if falling else math.ceil)(end * grid), grid) for end in ends]
    if any((end * 10**MOST_DIGITS_OF_BOUND).denominator != 1 for end in ends):
        raise NotPortable(
            f": WIDTH_BUCKET of decimals is judged where its ends have at most {MOST_DIGITS_OF_BOUND} digits behind "
            "the point"
        )
    if (
        whole
        and not any("." in text for text in constants if text is not None)
        and not _formulas_agree(first, last, int(count), ends)
    ):
        raise NotPortable(
            ": WIDTH_BUCKET of whole numbers is computed with doubles there, and versions differ in the bucket of a "
            f"number on a bound: write a bound as a decimal ({constants[0]}.0)"
        )
    return _case_of_buckets(node.this, ends, exp.GT if falling else exp.LT)


def _formulas_agree(first: Fraction, last: Fraction, count: int, ends: list[Fraction]) -> bool:
    """Do both formulas put each end, and the whole number before it, where it belongs? Both are monotone."""
    if max(abs(first), abs(last)) > _LARGEST:
        return False
    step = 1 if first > last else -1
    places = [(int(end) + by, k + (by == 0)) for k, end in enumerate(ends) for by in (0, step)]
    inside = [(x, bucket) for x, bucket in places if min(first, last) < x < max(first, last) or x == first]
    a, b = float(first), float(last)
    return all(
        bucket == int(count * (x - a) / (b - a)) + 1 == min(int(count * ((x - a) / (b - a))), count - 1) + 1
        for x, bucket in inside
        if x != last
    )


def _bounds_of_array(array: exp.Expr) -> list[Fraction]:
    """The bounds of WIDTH_BUCKET(x, ARRAY[...]): a number is in the bucket of how many of them it reaches."""
    said = [read_number(each) for each in array.expressions] if isinstance(array, exp.Array) else []
    bounds = [Fraction(text) for text in said if text is not None]
    ascending = all(a < b for a, b in pairwise(bounds))
    if not 1 <= len(said) <= MOST_BUCKETS or len(bounds) < len(said) or not ascending:
        raise NotPortable(f": WIDTH_BUCKET of an ARRAY is judged for 1 to {MOST_BUCKETS} ascending constants")
    return bounds


def _case_of_buckets(of: exp.Expr, ends: list[Fraction], beyond: type[exp.LT | exp.GT]) -> exp.Case:
    """Bucket k before the k-th end; behind all of them, the last."""
    case = exp.Case(ifs=[_when(exp.Is(this=of.copy(), expression=exp.Null()), exp.Null())])
    for number, end in enumerate(ends):
        case.append("ifs", _when(beyond(this=of.copy(), expression=_number_of(end)), exp.Literal.number(number)))
    case.set("default", exp.Literal.number(len(ends)))
    return case


def _when(test: exp.Expr, then: exp.Expr) -> exp.If:
    return exp.If(this=test, true=then)


def _number_of(value: Fraction) -> exp.Expr:
    number: exp.Expr = exp.Literal.number(f"{round_fraction(abs(value)):f}")
    return exp.Neg(this=number) if value < 0 else number
