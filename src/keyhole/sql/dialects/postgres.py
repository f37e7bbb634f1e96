"""PostgreSQL in DuckDB's words: tests/sql/conformance runs every rule in both."""

from __future__ import annotations

import datetime as dt
import math
import re
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

from sqlglot import exp

from keyhole.model.numbers import round_fraction
from keyhole.model.schema import Schema, folded
from keyhole.sql.dialects.translator import ORDER_OF_TEXTS, TEXT_RULES, Rule, Translator, decides
from keyhole.sql.dialects.types import (
    DECIMAL_NUMBER,
    ISO_DAY,
    ISO_MOMENT,
    WHOLE_NUMBER,
    Differs,
    Sort,
    as_double,
    bare_of,
    never_zero,
    number_said,
    sort_of,
    whole_said,
    wider,
)
from keyhole.sql.lowering.date_arithmetic import shifted, spans

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
    Sort.WHOLE: WHOLE_NUMBER,
    Sort.EXACT: DECIMAL_NUMBER,
    Sort.BINARY: DECIMAL_NUMBER,
    Sort.DOUBTED: DECIMAL_NUMBER,
    Sort.DAY: ISO_DAY,
    Sort.MOMENT: ISO_MOMENT,
}


class PostgresTranslator(Translator):
    """Whole numbers divide without remainder; a cast rounds half away from zero, or to even for a double."""

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self.digits = {folded(c.name): c.digits for c in schema.columns if not c.secret}

    def said_as(self, said: exp.Expr, other: Sort) -> None:
        """A constant takes the type of what it meets: read as PostgreSQL and DuckDB both read it, or not judged."""
        if other is Sort.TEXT:
            return
        if other not in _FITS or _FITS[other].fullmatch(said.name) is None:
            raise Differs(f": '{said.name}' is compared with {other}: write it as a number, as TRUE or as YYYY-MM-DD")
        if other.numeric:
            self._number(said, said.name, other)

    def _meeting(self, node: exp.Expr) -> None:
        """A text constant beside a whole number is one: what a driver sends as a parameter is logged in quotes."""
        for part, other in ((node.this, node.expression), (node.expression, node.this)):
            said = bare_of(part)
            if sort_of(part) is Sort.SAID and sort_of(other) is Sort.WHOLE and WHOLE_NUMBER.fullmatch(said.name):
                self._number(said, said.name, Sort.WHOLE)

    def _arithmetic(self, node: exp.Expr) -> Sort:
        """A product of decimals has any number of digits there, and may have too many for DuckDB's DECIMAL."""
        found = super()._arithmetic(node)
        if isinstance(node, exp.Mul) and found is Sort.EXACT and decides(node):
            said = [text for part in (node.this, node.expression) if (text := number_said(part)) is not None]
            if not any(len(text) <= FEW_DIGITS for text in said):
                raise Differs(": a product of decimals may have more digits than DuckDB keeps: multiply by a constant")
        return found

    def _add(self, node: exp.Expr) -> Sort:
        self._meeting(node)
        left, right = node.this, node.expression
        a, b = sort_of(left), sort_of(right)
        if isinstance(node, exp.Add) and b.dated and not a.dated:
            left, right, a, b = right, left, b, a
        if isinstance(node, exp.Sub) and a is b is Sort.DAY:
            return self.put(node, exp.Sub(this=left.copy(), expression=right.copy()), Sort.WHOLE)
        if not a.dated or isinstance(node, exp.Mul):
            return self._arithmetic(node)
        sign = -1 if isinstance(node, exp.Sub) else 1
        start, parts = _constant_day(left), _span(right)
        if start is None or parts is None or (b is Sort.WHOLE and a is not Sort.DAY):
            raise Differs(
                ": an interval is computed for constant dates only: write the resulting date, or put the expression "
                "into --view as a column"
            )
        moment: dt.date | None = start
        for amount, unit in parts:
            moment = None if moment is None else shifted(moment, sign * amount, unit)
        if moment is None:
            raise Differs(": this interval is not read: write the resulting date")
        return self._day(node, moment, Sort.DAY if b is Sort.WHOLE else Sort.MOMENT)

    def _day(self, node: exp.Expr, moment: dt.date, sort: Sort) -> Sort:
        text = str(moment)[:10] if sort is Sort.DAY else str(moment)
        kind = _T.DATE if sort is Sort.DAY else _T.TIMESTAMP
        return self.put(node, exp.Cast(this=exp.Literal.string(text), to=exp.DataType(this=kind)), sort)

    def _divide(self, node: exp.Div) -> Sort:
        self._meeting(node)
        a, b = sort_of(node.this), sort_of(node.expression)
        if not (a.numeric and b.numeric):
            raise Differs(": / of anything but numbers is not the same in all engines")
        if node.find(exp.AggFunc) is not None and wider([a, b]) is not Sort.BINARY:
            raise Differs(
                ": there a quotient of sums or counts may be cut to a whole number, as the column's type says, which "
                "is not known here: ask AVG, or cast one of them to DOUBLE PRECISION"
            )
        if not never_zero(node.expression) and not isinstance(bare_of(node.expression), exp.Count):
            raise Differs(": a divisor that is 0 is an error there, not so in DuckDB: write NULLIF(divisor, 0)")
        left, right = node.this.copy(), node.expression.copy()
        if a is b is Sort.WHOLE:
            return self.put(node, exp.IntDiv(this=left, expression=right), Sort.WHOLE)
        if wider([a, b]) is Sort.BINARY:
            return self.put(node, exp.Div(this=left, expression=right), Sort.BINARY)
        if isinstance(_outside(node), exp.Floor | exp.Ceil) and _short(number_said(node.expression)):
            return self.put(node, exp.Div(this=left, expression=right), Sort.EXACT)  # it ends after a few digits
        raise Differs(
            ": a division of decimals is rounded there in a way of its own: divide whole numbers, or cast one of "
            "them to DOUBLE PRECISION"
        )

    def _modulo(self, node: exp.Mod) -> Sort:
        self._meeting(node)
        if not sort_of(node.this) is sort_of(node.expression) is Sort.WHOLE:
            raise Differs(": % is judged for whole numbers only")
        if not never_zero(node.expression):
            raise Differs(": a remainder by 0 is an error there: write NULLIF(divisor, 0)")
        return self.put(node, exp.Mod(this=node.this.copy(), expression=node.expression.copy()), Sort.WHOLE)

    def _cast(self, node: exp.Cast) -> Sort:
        to, inner, of = node.to, node.this, sort_of(node.this)
        digits = [whole_said(p.this) for p in to.expressions]
        said = bare_of(inner).name if of is Sort.SAID else ""
        if to.this in _WHOLE:
            if of is Sort.SAID and WHOLE_NUMBER.fullmatch(said):
                return self._number(node, said, Sort.WHOLE)
            if of in (Sort.WHOLE, Sort.EXACT, Sort.BINARY) or (of is Sort.TRUTH and to.this is _T.INT):
                return Sort.WHOLE
        elif to.this is _T.DECIMAL:
            if of is Sort.SAID and not digits and DECIMAL_NUMBER.fullmatch(said):
                return self._number(node, said, Sort.EXACT)
            if of in (Sort.WHOLE, Sort.EXACT) and (not digits or of is Sort.WHOLE):
                return self.put(node, exp.Paren(this=inner.copy()), Sort.EXACT)
            width, scale = [*digits, 0, 0][:2]
            if of is Sort.EXACT and width and scale is not None and 0 <= scale <= width <= 38:
                return Sort.EXACT
        elif to.this is _T.DOUBLE and of.numeric:
            return Sort.BINARY
        elif to.this in (_T.TEXT, _T.VARCHAR) and not digits and of in (Sort.WHOLE, Sort.TEXT, Sort.SAID, Sort.TRUTH):
            return Sort.TEXT
        elif to.this is _T.DATE and (of.dated or (of is Sort.SAID and ISO_DAY.fullmatch(said))):
            return Sort.DAY
        elif to.this is _T.TIMESTAMP and not digits and (of.dated or (of is Sort.SAID and ISO_MOMENT.fullmatch(said))):
            return Sort.MOMENT
        raise Differs(
            f": a cast of {of} to {to.sql(dialect='postgres')} is not known to give the same in DuckDB: leave it out"
        )

    def _number(self, node: exp.Expr, text: str, sort: Sort) -> Sort:
        number: exp.Expr = exp.Literal.number(text.lstrip("+-"))
        return self.put(node, exp.Neg(this=number) if text.startswith("-") else number, sort)

    def _round(self, node: exp.Round) -> Sort:
        of, places = sort_of(node.this), node.args.get("decimals")
        digits = whole_said(places)
        if places is not None and (digits is None or abs(digits) > 15):
            raise Differs(": ROUND to a number of places that is no small constant is not judged")
        if of is Sort.WHOLE and (digits is None or digits >= 0):
            if digits is None:
                return self.put(node, as_double(node.this), Sort.BINARY)
            return self.put(node, exp.Paren(this=node.this.copy()), Sort.EXACT)
        if of in (Sort.WHOLE, Sort.EXACT):
            return Sort.EXACT
        raise Differs(": ROUND of a double rounds halves to even there, and up in DuckDB: cast it to NUMERIC first")

    def _whole(self, node: exp.Expr) -> Sort:
        of = self.must(node.this, Sort.WHOLE, Sort.EXACT, Sort.BINARY)
        if node.args.get("decimals") is not None:
            raise Differs(self.unlike(node))
        if of is Sort.EXACT and self._is_whole(node.this):  # 7::numeric: DuckDB would make a double of it
            return self.put(node, exp.Paren(this=node.this.copy()), of)
        return self.put(node, as_double(node.this), Sort.BINARY) if of is Sort.WHOLE else of

    def _is_whole(self, node: exp.Expr) -> bool:
        """Is it a whole number in DuckDB, whatever it is called there?"""
        if isinstance(node, exp.Column):
            return self._column(node) is Sort.WHOLE
        if isinstance(node, exp.Literal):
            return not node.is_string and node.name.isdigit()
        parts = list(node.iter_expressions())
        return isinstance(node, exp.Paren | exp.Neg | exp.Add | exp.Sub | exp.Mul) and all(map(self._is_whole, parts))

    def _abs(self, node: exp.Abs) -> Sort:
        return self.must(node.this, Sort.WHOLE, Sort.EXACT, Sort.BINARY)

    def _sign(self, node: exp.Sign) -> Sort:
        if self.must(node.this, Sort.WHOLE, Sort.EXACT) is Sort.EXACT:
            return Sort.EXACT
        return self.put(node, as_double(exp.Sign(this=node.this.copy())), Sort.BINARY)

    def _nullif(self, node: exp.Nullif) -> Sort:
        """Its type is that of the comparison: NULLIF(n, 2.5) is a decimal where n is whole."""
        found = super()._nullif(node)
        other = sort_of(node.expression)
        if not (found.numeric and other.numeric) or found is other:
            return found
        return Sort.EXACT if {found, other} == {Sort.WHOLE, Sort.EXACT} else Sort.DOUBTED

    def _extract(self, node: exp.Extract) -> Sort:
        self.must(node.expression, Sort.DAY, Sort.MOMENT)
        if node.this.name.lower() not in _PARTS:
            raise Differs(f": EXTRACT({node.this.name.upper()} ...) may give something else there than in DuckDB")
        return Sort.EXACT

    def _truncate(self, node: exp.TimestampTrunc) -> Sort:
        self.must(node.this, Sort.DAY, Sort.MOMENT)
        if node.args["unit"].name.lower() not in _TRUNCATED or node.args.get("zone") is not None:
            raise Differs(": DATE_TRUNC is judged for year, quarter, month, week, day, hour and minute")
        return Sort.MOMENT

    def _format(self, node: exp.TimeToStr) -> Sort:
        self.must(node.this, Sort.DAY, Sort.MOMENT)
        pattern = node.args["format"]
        if not isinstance(pattern, exp.Literal) or _FORMAT.fullmatch(pattern.name) is None:
            raise Differs(": TO_CHAR is judged for YYYY, MM, DD, HH24, MI and SS between - / : . and blanks")
        return Sort.TEXT

    def _bucket(self, node: exp.WidthBucket) -> Sort:
        whole = self.must(node.this, Sort.WHOLE, Sort.EXACT) is Sort.WHOLE
        of = bare_of(node.this)
        digits = self.digits.get(folded(of.name)) if isinstance(of, exp.Column) else None
        return self.put(node, exp.Paren(this=width_bucket(node, 0 if whole else digits, whole)), Sort.WHOLE)

    def _array(self, node: exp.Array) -> Sort:
        if not isinstance(node.parent, exp.WidthBucket):
            raise Differs(self.unlike(node))
        return Sort.ROWS

    def _matches(self, node: exp.RegexpLike) -> Sort:
        self.must(node.this, Sort.TEXT)
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or PLAIN_PATTERN.fullmatch(pattern.name) is None:
            raise Differs(": a regular expression is judged if it has letters, digits, [a-z], (a|b), ^ and $ alone")
        return Sort.TRUTH

    def _extremum(self, node: exp.Expr) -> Sort:
        found = self._chosen(node)
        if found in (Sort.TEXT, Sort.TRUTH):
            raise Differs(ORDER_OF_TEXTS)
        return found

    def _average(self, node: exp.Avg) -> Sort:
        """Of whole numbers and decimals it is a decimal; it is not divided further, and rounding only blurs it."""
        return Sort.EXACT if self._statistic(node) and sort_of(node.this) in (Sort.WHOLE, Sort.EXACT) else Sort.DOUBTED

    def statement(self, tree: exp.Expr) -> exp.Expr:
        """The statement in DuckDB's words; raises `Differs`."""
        return super().statement(with_lists(tree.copy()))

    def _split(self, node: exp.SplitPart) -> Sort:
        self.must(node.this, Sort.TEXT)
        by, at = node.args.get("delimiter"), whole_said(node.args.get("part_index"))
        if not isinstance(by, exp.Literal) or not by.is_string or not by.name or at is None or at < 1:
            raise Differs(": SPLIT_PART is judged with a constant text, and a constant place of at least 1")
        return Sort.TEXT

    def _level(self, node: exp.Expr) -> Sort:
        """PERCENTILE_CONT(0.5): one constant, behind which stands what is ordered."""
        if not isinstance(node.this, exp.Literal) or not isinstance(node.parent, exp.WithinGroup):
            raise Differs(self.unlike(node))
        return Sort.DOUBTED

    def _within(self, node: exp.WithinGroup) -> Sort:
        """One of the values, or a double between two of them; DuckDB gives a decimal between two decimals."""
        ordered = node.expression.expressions if isinstance(node.expression, exp.Order) else ()
        if len(ordered) != 1 or type(node.this) not in (exp.PercentileCont, exp.PercentileDisc):
            raise Differs(self.unlike(node))
        between = isinstance(node.this, exp.PercentileCont)
        kinds = (Sort.WHOLE, Sort.BINARY, Sort.DOUBTED) if between else (Sort.WHOLE, Sort.EXACT)
        found = self.must(ordered[0].this, *kinds)
        return Sort.DOUBTED if between else found

    def _letters(self, node: exp.Expr) -> Sort:
        raise Differs(
            ": which letters are the same but for their case depends on the locale there: compare with = or LIKE, or "
            "put the expression into --view as a column"
        )

    rules: ClassVar[dict[type[exp.Expr], Rule]] = {
        **TEXT_RULES,
        **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _add),
        **dict.fromkeys((exp.Floor, exp.Ceil), _whole),
        **dict.fromkeys((exp.Greatest, exp.Least), _extremum),
        **dict.fromkeys((exp.Upper, exp.Lower, exp.ILike, exp.Initcap), _letters),
        **dict.fromkeys(
            (exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop), Translator._statistic
        ),
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
        exp.Interval: lambda _translator, _node: Sort.SPAN,
    }


def _outside(node: exp.Expr) -> exp.Expr | None:
    """What stands around it, parentheses aside."""
    found = node.parent
    while isinstance(found, exp.Paren):
        found = found.parent
    return found


def _short(text: str | None) -> bool:
    """Is this a divisor of few digits by which a decimal gets a few digits more?"""
    return text is not None and Fraction(text) != 0 and (1 / Fraction(text) * 10**6).denominator == 1


def _constant_day(node: exp.Expr) -> dt.date | None:
    """The value of a constant date or timestamp."""
    node = bare_of(node)
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal):
        return None
    try:
        moment = dt.datetime.fromisoformat(node.this.name)
    except ValueError:
        return None
    return moment.date() if sort_of(node) is Sort.DAY else moment


def _span(node: exp.Expr) -> list[tuple[int, str]] | None:
    """The parts of a constant interval; a whole number is so many days."""
    number = whole_said(node)
    if number is not None and abs(number) < 10**6:
        return [(number, "day")]
    node = bare_of(node)
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = node.args.get("unit")
    return spans(node.this.name if unit is None else f"{node.this.name} {unit.name}")


def with_lists(tree: exp.Expr) -> exp.Expr:
    """The tree with IN for = ANY of constants, as drivers write lists; it is changed.

    >>> import sqlglot
    >>> with_lists(sqlglot.parse_one("SELECT a = ANY (ARRAY[1, 2]), b = ANY ('{x,y}'::text[])", read="postgres")).sql()
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


def width_bucket(node: exp.WidthBucket, digits: int | None, whole: bool) -> exp.Case:
    """The CASE that a WIDTH_BUCKET between constants is.

    `digits` are those behind the point that the number can have (None: not known); `whole`: it is a whole number there.
    Guarantee: tests/sql/test_width_bucket.py runs it in PostgreSQL, on the ends and beside them. Raises `Differs`.

    >>> import sqlglot
    >>> node = sqlglot.parse_one("WIDTH_BUCKET(n, 10, 0, 3)", read="postgres")
    >>> width_bucket(node, 0, True).sql()
    'CASE WHEN n IS NULL THEN NULL WHEN n > 10 THEN 0 WHEN n > 6 THEN 1 WHEN n > 3 THEN 2 WHEN n > 0 THEN 3 ELSE 4 END'
    """
    if node.args.get("threshold") is not None:
        return _case_of_buckets(node.this, _bounds_of_array(node.args["threshold"]), exp.LT)
    said = [number_said(node.args.get(name)) for name in ("min_value", "max_value", "num_buckets")]
    if None in said:
        raise Differs(": WIDTH_BUCKET is judged between constants, with a constant number of buckets")
    first, last, count = (Fraction(text) for text in said if text is not None)
    if not 1 <= count <= MOST_BUCKETS or count.denominator != 1 or first == last:
        raise Differs(f": WIDTH_BUCKET is judged for 1 to {MOST_BUCKETS} buckets between two bounds")
    ends = [first + (last - first) * k / count for k in range(int(count) + 1)]
    falling = first > last
    if digits is not None:
        grid = 10**digits
        ends = [Fraction((math.floor if falling else math.ceil)(end * grid), grid) for end in ends]
    if any((end * 10**MOST_DIGITS_OF_BOUND).denominator != 1 for end in ends):
        raise Differs(
            f": WIDTH_BUCKET of decimals is judged where its ends have at most {MOST_DIGITS_OF_BOUND} digits behind "
            "the point"
        )
    if (
        whole
        and not any("." in text for text in said if text is not None)
        and not _formulas_agree(first, last, int(count), ends)
    ):
        raise Differs(
            ": WIDTH_BUCKET of whole numbers is computed with doubles there, and versions differ in the bucket of a "
            f"number on a bound: write a bound as a decimal ({said[0]}.0)"
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
    said = [number_said(each) for each in array.expressions] if isinstance(array, exp.Array) else []
    bounds = [Fraction(text) for text in said if text is not None]
    ascending = all(a < b for a, b in pairwise(bounds))
    if not 1 <= len(said) <= MOST_BUCKETS or len(bounds) < len(said) or not ascending:
        raise Differs(f": WIDTH_BUCKET of an ARRAY is judged for 1 to {MOST_BUCKETS} ascending constants")
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
