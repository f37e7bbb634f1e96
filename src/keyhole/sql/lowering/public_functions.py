"""Functions of public columns that have a spelling of their own: parts and formats of days, texts, rounding."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from keyhole.model.predicate import literal
from keyhole.model.schema import Kind
from keyhole.sql.lowering.constants import NotConstant, Value
from keyhole.sql.lowering.expression import Public, joined
from keyhole.sql.lowering.functions import DAY, HARMLESS, NUMBER, PARTS, TEXT, TRUNCATIONS

if TYPE_CHECKING:
    from keyhole.sql.lowering.public import PublicReader


def _extract(reader: PublicReader, node: exp.Extract) -> Public:
    return part_of(reader, node.this.name, node.expression, node)


def part_of(reader: PublicReader, part: Value | NotConstant, day: exp.Expr, node: exp.Expr) -> Public:
    """A part of a day, by its name."""
    if not isinstance(part, str) or part.lower() not in PARTS:
        raise reader.refuse(f"the part of a date is one of {', '.join(sorted(PARTS))}", node)
    made = reader.taking(day, DAY, node)
    return joined(f"EXTRACT({part.upper()} FROM {made.raw})", Kind.INTEGER, made)


def shifted_by(reader: PublicReader, node: exp.Add | exp.Sub, span: exp.Interval) -> Public:
    """A day and so many years, months, days, ...: a moment, as the engine adds them."""
    unit = span.args["unit"].name.lower().rstrip("s") if span.args.get("unit") is not None else ""
    number = reader.fold(span.this) if span.this is not None else None
    if isinstance(number, str) and number.strip().lstrip("+-").isdigit():
        number = Fraction(number)
    if unit not in TRUNCATIONS or not isinstance(number, Fraction) or number.denominator != 1:
        raise reader.refuse("an interval is a whole number of years, months, days, hours, ...: INTERVAL 30 DAY", node)
    made = reader.taking(node.this, DAY, node)
    sign = "+" if isinstance(node, exp.Add) else "-"
    return joined(f"({made.raw} {sign} INTERVAL ({number}) {unit})", Kind.TIMESTAMP, made, fallible=True)


def _truncate(reader: PublicReader, node: exp.Expr) -> Public:
    reader.only(node, "this", "unit", *HARMLESS)
    unit = node.args["unit"].name.lower() if node.args.get("unit") else ""
    if unit not in TRUNCATIONS:
        raise reader.refuse(f"DATE_TRUNC takes one of {', '.join(sorted(TRUNCATIONS))}", node)
    made = reader.taking(node.this, DAY, node)
    return joined(f"DATE_TRUNC('{unit}', {made.raw})", Kind.TIMESTAMP, made)


def _difference(reader: PublicReader, node: exp.DateDiff) -> Public:
    reader.only(node, "this", "expression", "unit", *HARMLESS)
    unit = node.args["unit"].name.lower() if node.args.get("unit") else ""
    if unit not in TRUNCATIONS:
        raise reader.refuse(f"DATE_DIFF takes one of {', '.join(sorted(TRUNCATIONS))}", node)
    start, end = reader.taking(node.expression, DAY, node), reader.taking(node.this, DAY, node)
    return joined(f"DATE_DIFF('{unit}', {start.raw}, {end.raw})", Kind.INTEGER, start, end)


def _formatted(reader: PublicReader, node: exp.TimeToStr) -> Public:
    reader.only(node, "this", "format")
    pattern = reader.fold(node.args["format"])
    if not isinstance(pattern, str) or pattern.replace("%%", "").count("%") != sum(
        pattern.replace("%%", "").count(f"%{c}") for c in "YmdHMSjyBbAaUWw"
    ):
        raise reader.refuse("STRFTIME takes a text of %Y %m %d %H %M %S %j %B %b %A %a", node)
    made = reader.taking(node.this, DAY, node)
    return joined(f"STRFTIME({made.raw}, {literal(pattern)})", Kind.TEXT, made)


def _substring(reader: PublicReader, node: exp.Substring) -> Public:
    reader.only(node, "this", "start", "length")
    parts = [reader.taking(node.this, TEXT, node), reader.taking(node.args.get("start"), (Kind.INTEGER,), node)]
    if node.args.get("length"):
        parts.append(reader.taking(node.args["length"], (Kind.INTEGER,), node))
    return joined(f"SUBSTRING({', '.join(p.raw for p in parts)})", Kind.TEXT, *parts, fallible=True)


def _matched(reader: PublicReader, node: exp.RegexpExtract) -> Public:
    reader.only(node, "this", "expression", "group", "null_if_pos_overflow", *HARMLESS)
    pattern, group = reader.fold(node.args["expression"]), node.args.get("group")
    number = Fraction(0) if group is None else reader.fold(group)
    if not isinstance(pattern, str) or not isinstance(number, Fraction) or number.denominator != 1 or number < 0:
        raise reader.refuse("REGEXP_EXTRACT takes a constant pattern, and the number of a group", node)
    made = reader.taking(node.this, TEXT, node)
    return joined(f"REGEXP_EXTRACT({made.raw}, {literal(pattern)}, {number})", Kind.TEXT, made, fallible=True)


def _trim(reader: PublicReader, node: exp.Trim) -> Public:
    reader.only(node, "this", "position")
    name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(str(node.args.get("position") or "").upper(), "TRIM")
    made = reader.taking(node.this, TEXT, node)
    return joined(f"{name}({made.raw})", Kind.TEXT, made)


def _concat(reader: PublicReader, node: exp.Expr) -> Public:
    operands = [node.this, node.args["expression"]] if isinstance(node, exp.DPipe) else node.expressions
    parts = [reader.taking(o, (*TEXT, Kind.INTEGER, Kind.DATE), node) for o in operands]
    if all(part.kind is not Kind.TEXT for part in parts):
        raise reader.refuse("of what is joined one part is text", node)
    if isinstance(node, exp.DPipe):
        return joined(f"({parts[0].raw} || {parts[1].raw})", Kind.TEXT, *parts)
    made = joined(f"CONCAT({', '.join(p.raw for p in parts)})", Kind.TEXT, *parts)
    return Public(made.raw, Kind.TEXT, made.columns, False, made.fallible)


def _whole(reader: PublicReader, node: exp.Expr) -> Public:
    # FLOOR, CEIL and ROUND of an integer are a DOUBLE or the integer itself
    reader.only(node, "this", "decimals", *HARMLESS)
    made = reader.taking(node.this, NUMBER, node)
    name = "FLOOR" if isinstance(node, exp.Floor) else "CEIL" if isinstance(node, exp.Ceil) else "ROUND"
    places = node.args.get("decimals")
    text = f"{name}({made.raw})"
    if places is not None:
        digits = reader.fold(places)
        if name != "ROUND" or not isinstance(digits, Fraction) or digits.denominator != 1 or abs(digits) > 30:
            raise reader.refuse(f"{name} takes a constant number of digits", node)
        text = f"ROUND({made.raw}, {digits})"
    return joined(text, made.kind, made, fallible=True)


def _logarithm(reader: PublicReader, node: exp.Log) -> Public:
    if node.args.get("expression") is None:
        base, argument = Fraction(10), node.this
    else:
        base, argument = reader.fold(node.this), node.expression  # type: ignore[assignment]
    if base not in (2, 10):
        raise reader.refuse("LOG is judged to base 10 or 2 only: write LN(x) / LN(b)", node)
    made = reader.taking(argument, NUMBER, node)
    name = "LOG10" if base == 10 else "LOG2"
    return joined(f"{name}({made.raw})", Kind.DOUBLE, made, fallible=True, finite=False)


SPELLED: dict[type[exp.Expr], Callable[..., Public]] = {  # (reader, node) -> what it is
    exp.Extract: _extract,
    exp.TimestampTrunc: _truncate,
    exp.DateTrunc: _truncate,
    exp.DateDiff: _difference,
    exp.TimeToStr: _formatted,
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.RegexpExtract: _matched,
    exp.DPipe: _concat,
    exp.Concat: _concat,
    exp.Floor: _whole,
    exp.Ceil: _whole,
    exp.Round: _whole,
    exp.Log: _logarithm,
}

__all__ = ["SPELLED", "part_of", "shifted_by"]
