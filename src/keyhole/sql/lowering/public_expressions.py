"""Expressions over public columns: checked, named in full, and handed to the engine as canonical text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp
from sqlglot.expressions import DataType
from sqlglot.expressions.datatypes import DType

from keyhole.errors import UnsupportedQuery
from keyhole.model.predicate import (
    Constant,
    Has,
    IsNull,
    Opaque,
    Predicate,
    find_leaves,
    format_literal,
    format_predicate,
    make_not,
    quote_name,
)
from keyhole.model.predicate import find_columns as columns_of
from keyhole.model.schema import Column, Kind
from keyhole.sql.lowering.constants import NotConstant, Value, coerce_constant, fold_constant, number_kind, to_decimal
from keyhole.sql.lowering.functions import (
    CONDITIONS,
    DAY,
    FUNCTIONS,
    HARMLESS,
    NAMED,
    NOT_REPEATABLE,
    NUMBER,
    PARTS,
    RAN,
    REFUSED,
    TEXT,
    TRUNCATIONS,
    Function,
)
from keyhole.sql.lowering.names import DerivedColumn, Scope
from keyhole.sql.statements.tree import name_node

FINITE = "ISFINITE"


@dataclass(frozen=True, slots=True)
class PublicExpression:
    """An expression over public columns: its SQL, and what may come out."""

    raw: str
    kind: Kind
    columns: frozenset[str]
    nullable: bool
    fallible: bool = False
    finite: bool = True
    column: str | None = None  # set if it is that column and nothing else

    @property
    def sql(self) -> str:
        """The text; NULL where the engine would otherwise fail on a value."""
        return f"TRY({self.raw})" if self.fallible else self.raw

    def when_present(self) -> Predicate:
        """The condition that it has a value that can be summed."""
        if self.column is not None:
            return make_not(IsNull(self.column)) if self.nullable else Constant(True)
        if not self.finite:
            return Opaque(f"{FINITE}({self.sql})", self.columns)
        return Opaque(f"({self.sql}) IS NOT NULL", self.columns) if self.nullable or self.fallible else Constant(True)


def multiply(left: PublicExpression, right: PublicExpression) -> PublicExpression:
    """The product of two weights."""
    kind = max((left.kind, right.kind), key=NUMBER.index)
    return combine(f"({left.raw} * {right.raw})", kind, left, right, fallible=kind is not Kind.DOUBLE)


def invert(of: PublicExpression) -> PublicExpression:
    """One over a weight that is not 0."""
    return combine(f"(1 / {of.raw})", Kind.DOUBLE, of)


def combine(
    text: str,
    kind: Kind,
    *parts: PublicExpression,
    nullable: bool | None = None,
    fallible: bool = False,
    finite: bool = True,
) -> PublicExpression:
    """An expression over others: NULL where one of them is, if nothing else is said of it."""
    return PublicExpression(
        text,
        kind,
        frozenset().union(*(p.columns for p in parts)),
        any(p.nullable for p in parts) if nullable is None else nullable,
        fallible or any(p.fallible for p in parts),
        finite and all(p.finite for p in parts),
    )


def kind_family(kind: Kind) -> Kind:
    return Kind.DOUBLE if kind.numeric else Kind.TIMESTAMP if kind in DAY else kind


def common_kind(parts: list[PublicExpression]) -> Kind:
    kinds = [p.kind for p in parts]
    return max(kinds, key=NUMBER.index) if kinds[0].numeric else Kind.TIMESTAMP if Kind.TIMESTAMP in kinds else kinds[0]


_T = DataType.Type
_CASTS: dict[DType, tuple[str, Kind]] = {
    _T.TINYINT: ("TINYINT", Kind.INTEGER),
    _T.SMALLINT: ("SMALLINT", Kind.INTEGER),
    _T.INT: ("INTEGER", Kind.INTEGER),
    _T.BIGINT: ("BIGINT", Kind.INTEGER),
    _T.DOUBLE: ("DOUBLE", Kind.DOUBLE),
    _T.VARCHAR: ("VARCHAR", Kind.TEXT),
    _T.TEXT: ("VARCHAR", Kind.TEXT),
    _T.DATE: ("DATE", Kind.DATE),
    _T.TIMESTAMP: ("TIMESTAMP", Kind.TIMESTAMP),
    _T.TIMESTAMPNTZ: ("TIMESTAMP", Kind.TIMESTAMP),
    _T.BOOLEAN: ("BOOLEAN", Kind.BOOLEAN),
}


class PublicReader(ABC):
    """Reads expressions over public columns in one scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.source = scope.source

    @abstractmethod
    def read_condition(self, node: exp.Expr) -> Predicate:
        """The condition that a boolean expression states."""

    @abstractmethod
    def in_scope(self, scope: Scope) -> PublicReader:
        """The same reader for a subquery's scope."""

    @property
    def word(self) -> str:
        """What messages call a column that may only be summed or compared with constants."""
        return self.scope.schema.word

    def refuse(self, message: str, node: exp.Expr | None = None) -> UnsupportedQuery:
        """The error to raise, with the caret under `node`."""
        return self.source.refuse(message, node)

    def allow_only(self, node: exp.Expr, *known: str) -> None:
        """Refuses a node that carries more than the arguments we understand."""
        for name, value in node.args.items():
            if value and name not in known:
                word = name.strip("_").replace("_", " ").upper()
                raise self.refuse(f"{name_node(node)} with {word} is not judged: leave it out", node)

    def fold_constant(self, node: exp.Expr) -> Value | NotConstant:
        """The value of a constant expression."""
        return fold_constant(node, self.source)

    def touches_private(self, node: exp.Expr | None) -> bool:
        """True if any column below `node` is private; unknown and hidden columns are refused on the way."""
        if node is None or isinstance(node, exp.Literal):
            return False
        private = [self._is_private(column) for column in node.find_all(exp.Column)]
        return any(private)

    def _is_private(self, node: exp.Column) -> bool:
        found = self.scope.resolve(node)
        if isinstance(found, DerivedColumn):
            return self.in_scope(found.scope).touches_private(found.node)
        return found.secret

    def read_public(self, node: exp.Expr) -> PublicExpression:
        """The canonical text of an expression over public columns and constants."""
        if isinstance(node, exp.Paren):
            return self.read_public(node.this)
        if isinstance(node, exp.Column):
            found = self.scope.resolve(node)
            if isinstance(found, DerivedColumn):
                return self.in_scope(found.scope).read_public(found.node)
            return self._column(found, node)
        value = self.fold_constant(node)
        if not isinstance(value, NotConstant):
            return self._constant(value, node)
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Neg):
            return self._arithmetic(node)
        if (function := FUNCTIONS.get(type(node))) is not None:
            return self._call(node, function)
        if (method := _METHODS.get(type(node))) is not None:
            return method(self, node)
        if isinstance(node, CONDITIONS):
            return self._boolean(node)
        raise self.refuse_unknown(node)

    def refuse_unknown(self, node: exp.Expr) -> UnsupportedQuery:
        """Why this kind of node is refused."""
        for kind, reason in REFUSED.items():
            if isinstance(node, kind):
                return self.refuse(reason, node)
        if isinstance(node, exp.AggFunc | exp.WithinGroup | exp.Filter):
            return self.refuse("an aggregate cannot stand here: it belongs in SELECT or HAVING", node)
        if node.find(exp.AggFunc) is not None:
            return self.refuse("a function of an aggregate is not judged: ask for the aggregate", node)
        if node.name.lower() in NOT_REPEATABLE:
            when = f"{RAN}, or " if node.name.lower() == "now" else ""
            return self.refuse(f"{node.name.upper()}() gives another value each time: {when}write the value", node)
        return self.refuse(f"{name_node(node)} is not among the functions that are judged (see docs/sql.md)", node)

    def _column(self, column: Column, node: exp.Expr) -> PublicExpression:
        if column.secret:
            raise self.refuse(f"{column.name} is {self.word}: compare it with constants, or sum it; nothing else", node)
        return PublicExpression(
            quote_name(column.name), column.kind, frozenset((column.name,)), column.nullable, column=column.name
        )

    def _constant(self, value: Value, node: exp.Expr) -> PublicExpression:
        if value is None:
            raise self.refuse("NULL alone has no meaning here: leave it out", node)
        if isinstance(value, Fraction):
            number = to_decimal(value)
            if number is None:
                raise self.refuse(f"{value} has no finite decimal form: write the number you mean", node)
            written = number_kind(node)  # 1000.0 is no integer: 7 // 2.0 is 3.5
            text = format_literal(number) + (".0" if isinstance(number, int) and written is not Kind.INTEGER else "")
            text = f"CAST({text} AS DOUBLE)" if written is Kind.DOUBLE else f"({text})" if number < 0 else text
            return PublicExpression(text, written, frozenset(), False)
        scalar = value
        kinds = {bool: Kind.BOOLEAN, str: Kind.TEXT}
        kind = kinds.get(type(scalar), Kind.TIMESTAMP if hasattr(scalar, "hour") else Kind.DATE)
        return PublicExpression(format_literal(scalar), kind, frozenset(), False)

    def read_argument(self, node: exp.Expr | None, kinds: tuple[Kind, ...], parent: exp.Expr) -> PublicExpression:
        """The argument `node` of `parent`, which must be of one of `kinds`."""
        if not isinstance(node, exp.Expr):
            raise self.refuse(f"{name_node(parent)} lacks an argument", parent)
        value = self.fold_constant(node)
        if isinstance(value, str) and set(kinds) == set(DAY):
            return self._constant(coerce_constant(value, Kind.TIMESTAMP, name_node(parent), node, self.source), node)  # type: ignore[arg-type]
        made = self.read_public(node)
        if made.kind not in kinds:
            wanted = "a number" if Kind.INTEGER in kinds else "text" if Kind.TEXT in kinds else "a date"
            raise self.refuse(f"{name_node(parent)} takes {wanted} here, and this is {made.kind.value}", node)
        return made

    def _arithmetic(self, node: exp.Expr) -> PublicExpression:
        if isinstance(node, exp.Add | exp.Sub) and isinstance(node.expression, exp.Interval):
            return read_interval_added(self, node, node.expression)
        left = self.read_argument(node.this, (*NUMBER, Kind.DATE), node)
        if isinstance(node, exp.Neg):
            left = self.read_argument(node.this, NUMBER, node)
            return combine(f"(-{left.raw})", left.kind, left, fallible=True)
        right = self.read_argument(node.args["expression"], (*NUMBER, Kind.DATE), node)
        if Kind.DATE in (left.kind, right.kind):
            if left.kind is right.kind and isinstance(node, exp.Sub):
                return combine(f"({left.raw} - {right.raw})", Kind.INTEGER, left, right)
            raise self.refuse("of two dates only the difference is understood", node)
        sign = _SIGNS[type(node)]
        if sign == "/":
            finite = right.raw.startswith("NULLIF(") and right.raw.endswith(", 0)")
            finite = finite or (not right.columns and right.raw != "0")
            return combine(f"({left.raw} / {right.raw})", Kind.DOUBLE, left, right, fallible=True, finite=finite)
        kind = max((left.kind, right.kind), key=NUMBER.index)
        return combine(f"({left.raw} {sign} {right.raw})", kind, left, right, fallible=kind is not Kind.DOUBLE)

    def _call(self, node: exp.Expr, function: Function) -> PublicExpression:
        self.allow_only(node, *(name for name, _ in function.arguments), *HARMLESS)
        parts = [self.read_argument(node.args.get(name), kinds, node) for name, kinds in function.arguments]
        text = function.sql.format(*(p.raw for p in parts))
        if not function.nullable:
            kind = function.gives or parts[0].kind
            return combine(text, kind, *parts, fallible=function.fallible, finite=function.finite)
        # MOD and // fail on zero only, so not with a constant divisor
        fails = not (parts[1].kind is Kind.INTEGER and not parts[1].columns and parts[1].raw.strip("0"))
        kind = max((p.kind for p in parts), key=NUMBER.index)
        return combine(text, kind, *parts, nullable=fails or any(p.nullable for p in parts), fallible=fails)

    def _named(self, node: exp.Anonymous) -> PublicExpression:
        name, arguments = str(node.this).lower(), node.expressions
        if name == "date_part" and len(arguments) == 2:
            return read_part_of_day(self, self.fold_constant(arguments[0]), arguments[1], node)
        if name not in NAMED or len(arguments) != len(NAMED[name][1]):
            raise self.refuse_unknown(node)
        sql, kinds, gives = NAMED[name]
        parts = [self.read_argument(a, k, node) for a, k in zip(arguments, kinds, strict=True)]
        return combine(sql.format(*(p.raw for p in parts)), gives, *parts)

    def _chosen(self, node: exp.Expr) -> PublicExpression:
        # COALESCE, GREATEST, LEAST: as many operands as you like, all of one kind
        self.allow_only(node, "this", "expressions", *HARMLESS)
        name = _CHOICES[type(node)]
        operands = [node.this, *node.expressions]
        parts = self._alike([self.read_public(o) for o in operands if not isinstance(o, exp.Null)], node)
        nullable = all(p.nullable or p.fallible for p in parts)
        return combine(f"{name}({', '.join(p.raw for p in parts)})", common_kind(parts), *parts, nullable=nullable)

    def _alike(self, parts: list[PublicExpression], node: exp.Expr) -> list[PublicExpression]:
        if not parts:
            raise self.refuse("NULL alone has no meaning here", node)
        families = {kind_family(p.kind) for p in parts}
        if len(families) > 1 or Kind.OTHER in families:
            kinds = " and ".join(sorted({p.kind.value for p in parts}))
            raise self.refuse(f"{kinds} do not go together here: cast one of them", node)
        return parts

    def _nullif(self, node: exp.Nullif) -> PublicExpression:
        parts = self._alike([self.read_public(node.this), self.read_public(node.expression)], node)
        return combine(f"NULLIF({parts[0].raw}, {parts[1].raw})", parts[0].kind, *parts, nullable=True)

    def _cast(self, node: exp.Cast) -> PublicExpression:
        self.allow_only(node, "this", "to", "safe", *HARMLESS)
        to = node.to
        made = self.read_public(node.this)
        if to.this is _T.DECIMAL:
            digits = [int(p.name) for p in to.expressions if p.name.isdigit()] or [18, 3]
            name, kind = f"DECIMAL({digits[0]}, {digits[1] if len(digits) > 1 else 0})", Kind.DECIMAL
        elif to.this in _CASTS and not to.expressions:
            name, kind = _CASTS[to.this]
        else:
            raise self.refuse("a cast to this type is not judged: INTEGER, DOUBLE, DECIMAL, VARCHAR, DATE are", node)
        fits = made.kind is kind or Kind.TEXT in (made.kind, kind) or (made.kind.numeric and kind.numeric)
        fits = fits or {made.kind, kind} <= set(DAY) or {made.kind, kind} == {Kind.BOOLEAN, Kind.INTEGER}
        if not fits or made.kind is Kind.OTHER:
            raise self.refuse(f"a cast from {made.kind.value} to {kind.value} is not judged", node)
        # text may hold 'nan'; and a cast may fail on a value, as NULL in both spellings
        finite = not (made.kind is Kind.TEXT and kind is Kind.DOUBLE)
        return combine(f"TRY_CAST({made.raw} AS {name})", kind, made, nullable=True, finite=finite)

    def _case(self, node: exp.Expr) -> PublicExpression:
        text, results, columns = "CASE", [], frozenset[str]()
        for condition, result in self.read_branches(node):
            if condition is None:
                text += " ELSE "
            else:
                text += f" WHEN {format_predicate(condition)} THEN "
                columns |= columns_of(condition)
                if self.list_private_columns(condition):
                    raise self.refuse(
                        f"a CASE on a {self.word} condition is judged directly inside SUM, AVG and COUNT", node
                    )
            if isinstance(result, exp.Null):
                text += "NULL"
            else:
                results.append(self.read_public(result))
                text += results[-1].raw
        parts = self._alike(results, node)
        made = combine(f"{text} END", common_kind(parts), *parts, nullable=True)
        return replace(made, columns=made.columns | columns)

    def read_branches(self, node: exp.Expr) -> list[tuple[Predicate | None, exp.Expr]]:
        """The WHENs of a CASE (or IF) with their results, and ELSE as (None, result)."""
        if isinstance(node, exp.If):
            branches: list[tuple[Predicate | None, exp.Expr]] = [(self.read_condition(node.this), node.args["true"])]
            default = node.args.get("false")
        else:
            self.allow_only(node, "this", "ifs", "default")
            branches = []
            for when in node.args["ifs"]:
                test = exp.EQ(this=node.this.copy(), expression=when.this.copy()) if node.this else when.this
                branches.append((self.read_condition(test), when.args["true"]))
            default = node.args.get("default")
        return [*branches, (None, default)] if default is not None else branches

    def list_private_columns(self, condition: Predicate) -> frozenset[str]:
        """The private columns that a condition looks at for more than NULL."""
        rows = {leaf.column for leaf in find_leaves(condition) if isinstance(leaf, Has)}
        return (columns_of(condition) & self.scope.schema.private_names) | rows

    def _boolean(self, node: exp.Expr) -> PublicExpression:
        condition = self.read_condition(node)
        if self.list_private_columns(condition):
            raise self.refuse(f"a {self.word} condition cannot be part of a larger expression", node)
        return PublicExpression(f"({format_predicate(condition)})", Kind.BOOLEAN, columns_of(condition), True)


_SIGNS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
_CHOICES: dict[type[exp.Expr], str] = {exp.Coalesce: "COALESCE", exp.Greatest: "GREATEST", exp.Least: "LEAST"}


# --- functions with a spelling of their own ---------------------------------------------------------------------------
# Functions of public columns that have a spelling of their own: parts and formats of days, texts, rounding.


def _read_extract(reader: PublicReader, node: exp.Extract) -> PublicExpression:
    return read_part_of_day(reader, node.this.name, node.expression, node)


def read_part_of_day(
    reader: PublicReader, part: Value | NotConstant, day: exp.Expr, node: exp.Expr
) -> PublicExpression:
    """A part of a day, by its name."""
    if not isinstance(part, str) or part.lower() not in PARTS:
        raise reader.refuse(f"the part of a date is one of {', '.join(sorted(PARTS))}", node)
    made = reader.read_argument(day, DAY, node)
    return combine(f"EXTRACT({part.upper()} FROM {made.raw})", Kind.INTEGER, made)


def read_interval_added(reader: PublicReader, node: exp.Add | exp.Sub, span: exp.Interval) -> PublicExpression:
    """A day and so many years, months, days, ...: a moment, as the engine adds them."""
    unit = span.args["unit"].name.lower().rstrip("s") if span.args.get("unit") is not None else ""
    number = reader.fold_constant(span.this) if span.this is not None else None
    if isinstance(number, str) and number.strip().lstrip("+-").isdigit():
        number = Fraction(number)
    if unit not in TRUNCATIONS or not isinstance(number, Fraction) or number.denominator != 1:
        raise reader.refuse("an interval is a whole number of years, months, days, hours, ...: INTERVAL 30 DAY", node)
    made = reader.read_argument(node.this, DAY, node)
    sign = "+" if isinstance(node, exp.Add) else "-"
    return combine(f"({made.raw} {sign} INTERVAL ({number}) {unit})", Kind.TIMESTAMP, made, fallible=True)


def _read_truncation(reader: PublicReader, node: exp.Expr) -> PublicExpression:
    reader.allow_only(node, "this", "unit", *HARMLESS)
    unit = node.args["unit"].name.lower() if node.args.get("unit") else ""
    if unit not in TRUNCATIONS:
        raise reader.refuse(f"DATE_TRUNC takes one of {', '.join(sorted(TRUNCATIONS))}", node)
    made = reader.read_argument(node.this, DAY, node)
    return combine(f"DATE_TRUNC('{unit}', {made.raw})", Kind.TIMESTAMP, made)


def _read_difference(reader: PublicReader, node: exp.DateDiff) -> PublicExpression:
    reader.allow_only(node, "this", "expression", "unit", *HARMLESS)
    unit = node.args["unit"].name.lower() if node.args.get("unit") else ""
    if unit not in TRUNCATIONS:
        raise reader.refuse(f"DATE_DIFF takes one of {', '.join(sorted(TRUNCATIONS))}", node)
    start, end = reader.read_argument(node.expression, DAY, node), reader.read_argument(node.this, DAY, node)
    return combine(f"DATE_DIFF('{unit}', {start.raw}, {end.raw})", Kind.INTEGER, start, end)


def _read_format(reader: PublicReader, node: exp.TimeToStr) -> PublicExpression:
    reader.allow_only(node, "this", "format")
    pattern = reader.fold_constant(node.args["format"])
    if not isinstance(pattern, str) or pattern.replace("%%", "").count("%") != sum(
        pattern.replace("%%", "").count(f"%{c}") for c in "YmdHMSjyBbAaUWw"
    ):
        raise reader.refuse("STRFTIME takes a text of %Y %m %d %H %M %S %j %B %b %A %a", node)
    made = reader.read_argument(node.this, DAY, node)
    return combine(f"STRFTIME({made.raw}, {format_literal(pattern)})", Kind.TEXT, made)


def _read_substring(reader: PublicReader, node: exp.Substring) -> PublicExpression:
    reader.allow_only(node, "this", "start", "length")
    parts = [
        reader.read_argument(node.this, TEXT, node),
        reader.read_argument(node.args.get("start"), (Kind.INTEGER,), node),
    ]
    if node.args.get("length"):
        parts.append(reader.read_argument(node.args["length"], (Kind.INTEGER,), node))
    return combine(f"SUBSTRING({', '.join(p.raw for p in parts)})", Kind.TEXT, *parts, fallible=True)


def _read_regexp_match(reader: PublicReader, node: exp.RegexpExtract) -> PublicExpression:
    reader.allow_only(node, "this", "expression", "group", "null_if_pos_overflow", *HARMLESS)
    pattern, group = reader.fold_constant(node.args["expression"]), node.args.get("group")
    number = Fraction(0) if group is None else reader.fold_constant(group)
    if not isinstance(pattern, str) or not isinstance(number, Fraction) or number.denominator != 1 or number < 0:
        raise reader.refuse("REGEXP_EXTRACT takes a constant pattern, and the number of a group", node)
    made = reader.read_argument(node.this, TEXT, node)
    return combine(f"REGEXP_EXTRACT({made.raw}, {format_literal(pattern)}, {number})", Kind.TEXT, made, fallible=True)


def _read_trim(reader: PublicReader, node: exp.Trim) -> PublicExpression:
    reader.allow_only(node, "this", "position")
    name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(str(node.args.get("position") or "").upper(), "TRIM")
    made = reader.read_argument(node.this, TEXT, node)
    return combine(f"{name}({made.raw})", Kind.TEXT, made)


def _read_concatenation(reader: PublicReader, node: exp.Expr) -> PublicExpression:
    operands = [node.this, node.args["expression"]] if isinstance(node, exp.DPipe) else node.expressions
    parts = [reader.read_argument(o, (*TEXT, Kind.INTEGER, Kind.DATE), node) for o in operands]
    if all(part.kind is not Kind.TEXT for part in parts):
        raise reader.refuse("of what is joined one part is text", node)
    if isinstance(node, exp.DPipe):
        return combine(f"({parts[0].raw} || {parts[1].raw})", Kind.TEXT, *parts)
    made = combine(f"CONCAT({', '.join(p.raw for p in parts)})", Kind.TEXT, *parts)
    return replace(made, nullable=False, finite=True)


def _read_rounding(reader: PublicReader, node: exp.Expr) -> PublicExpression:
    # FLOOR, CEIL and ROUND of an integer are a DOUBLE or the integer itself
    reader.allow_only(node, "this", "decimals", *HARMLESS)
    made = reader.read_argument(node.this, NUMBER, node)
    name = "FLOOR" if isinstance(node, exp.Floor) else "CEIL" if isinstance(node, exp.Ceil) else "ROUND"
    places = node.args.get("decimals")
    text = f"{name}({made.raw})"
    if places is not None:
        digits = reader.fold_constant(places)
        if name != "ROUND" or not isinstance(digits, Fraction) or digits.denominator != 1 or abs(digits) > 30:
            raise reader.refuse(f"{name} takes a constant number of digits", node)
        text = f"ROUND({made.raw}, {digits})"
    return combine(text, made.kind, made, fallible=True)


def _read_logarithm(reader: PublicReader, node: exp.Log) -> PublicExpression:
    if node.args.get("expression") is None:
        base, argument = Fraction(10), node.this
    else:
        base, argument = reader.fold_constant(node.this), node.expression  # type: ignore[assignment]
    if base not in (2, 10):
        raise reader.refuse("LOG is judged to base 10 or 2 only: write LN(x) / LN(b)", node)
    made = reader.read_argument(argument, NUMBER, node)
    name = "LOG10" if base == 10 else "LOG2"
    return combine(f"{name}({made.raw})", Kind.DOUBLE, made, fallible=True, finite=False)


_METHODS: dict[type[exp.Expr], Callable[..., PublicExpression]] = {  # (reader, node) -> what it is
    exp.Extract: _read_extract,
    exp.TimestampTrunc: _read_truncation,
    exp.DateTrunc: _read_truncation,
    exp.DateDiff: _read_difference,
    exp.TimeToStr: _read_format,
    exp.Substring: _read_substring,
    exp.Trim: _read_trim,
    exp.RegexpExtract: _read_regexp_match,
    exp.DPipe: _read_concatenation,
    exp.Concat: _read_concatenation,
    exp.Floor: _read_rounding,
    exp.Ceil: _read_rounding,
    exp.Round: _read_rounding,
    exp.Log: _read_logarithm,
    exp.Anonymous: PublicReader._named,
    exp.Coalesce: PublicReader._chosen,
    exp.Greatest: PublicReader._chosen,
    exp.Least: PublicReader._chosen,
    exp.Nullif: PublicReader._nullif,
    exp.Cast: PublicReader._cast,
    exp.TryCast: PublicReader._cast,
    exp.Case: PublicReader._case,
    exp.If: PublicReader._case,
}
