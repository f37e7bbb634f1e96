"""JSON that keeps every digit of a number: documents as text and back, and values as JSON has them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache
from json.encoder import encode_basestring
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from keyhole.model.numbers import read_decimal, read_int, shorten_fraction
from keyhole.model.predicate import Scalar
from keyhole.model.transcript import Answer

if TYPE_CHECKING:  # msgspec has no union of text and decimals, and takes a value of such a field as it is
    Value: TypeAlias = int | float | Decimal | str | bool | None
    JsonAnswer: TypeAlias = Value | Mapping[str, Value]
else:
    Value = Any
    JsonAnswer = Any

Labels: TypeAlias = dict[str, Value]  # the id of a record, or the key of a group

MAX_DIGITS = 400  # a longer number is written with an exponent


class Document(msgspec.Struct, frozen=True, omit_defaults=True):
    """A JSON object: its attributes are the fields, in their order; a field that has its default is left out."""


D = TypeVar("D", bound=Document)


def json_number(value: Scalar | float | None) -> Value:
    """A value for JSON: a whole decimal is an integer, another a float, but a Decimal where a float has other digits.

    >>> json_number(Decimal("70")), json_number(Decimal("5.2")), json_number(Decimal("0.10000000000000000001"))
    (70, 5.2, Decimal('0.10000000000000000001'))
    """
    if isinstance(value, Decimal):
        if not value.is_finite():
            return None
        if value.adjusted() < MAX_DIGITS and value == value.to_integral_value():
            return int(value)
        near = float(value)
        return near if Decimal(repr(near)) == value else value
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    return value


def json_fraction(value: Fraction | None) -> Value:
    """A fraction for JSON, as a decimal for people."""
    return None if value is None else json_number(shorten_fraction(value))


def json_labels(record: Mapping[str, Scalar | None]) -> Labels:
    """The id of a record, or the key of a group, for JSON."""
    return {name: json_number(value) for name, value in record.items()}


def json_answer(answer: Answer) -> JsonAnswer:
    """An answer as a transcript has it."""
    if answer.value is not None or answer.null:
        return json_number(answer.value)
    return {"lo": json_fraction(answer.lo), "hi": json_fraction(answer.hi)}


def json_values(data: Any) -> Any:
    """Values inside mappings and lists as JSON has them; weights as text."""
    if isinstance(data, Mapping):
        return {str(name): json_values(each) for name, each in data.items()}
    if isinstance(data, list | tuple):
        return [json_values(each) for each in data]
    if isinstance(data, Answer):
        return json_answer(data)
    if isinstance(data, Document):
        return data
    return str(data) if isinstance(data, Fraction) else json_number(data)


def read_json(text: str) -> Any:
    """JSON from outside as plain data, its numbers as they are written: integers of any size, else decimals."""
    return json.loads(text, parse_float=read_decimal, parse_int=read_int)


def read_document(data: Any, kind: type[D]) -> D:
    """A document of plain data; msgspec.ValidationError, a ValueError, where a field is missing or of another type."""
    return msgspec.convert(data, kind)


@cache
def _defaults(kind: type[Document]) -> dict[str, object]:
    """The fields of a kind of documents, in order, each with its default."""
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


def document_fields(document: Document) -> Iterator[tuple[str, Any]]:
    """The fields that a document has, in order."""
    for name, default in _defaults(type(document)).items():
        value = getattr(document, name)
        if value != default:
            yield name, value


def to_builtins(document: Document) -> dict[str, Any]:
    """A document as dicts and lists; what stands in it several times is shared."""
    shared: dict[int, list[Any]] = {}

    def plain(data: Any) -> Any:
        if isinstance(data, Document):
            return {name: plain(value) for name, value in document_fields(data)}
        if isinstance(data, Mapping):
            return {name: plain(value) for name, value in data.items()}
        if not isinstance(data, list | tuple):
            return data
        if id(data) not in shared:
            shared[id(data)] = [plain(each) for each in data]
        return shared[id(data)]

    made: dict[str, Any] = plain(document)
    return made


def dumps(data: Any) -> str:
    """JSON text, indented by two. Integers of any size and decimals keep all their digits; dates become text.

    >>> print(dumps({"value": Decimal("0.10000000000000000001"), "row": 2**70, "none": []}))
    {
      "value": 0.10000000000000000001,
      "row": 1180591620717411303424,
      "none": []
    }
    """
    parts: list[str] = []
    _write(data, "\n", parts.append)
    return "".join(parts)


def _write(data: Any, line: str, put: Callable[[str], None]) -> None:
    """`line` is a line break and the indentation of what stands around."""
    if isinstance(data, str):
        put(encode_basestring(data))
    elif data is None:
        put("null")
    elif isinstance(data, bool):
        put("true" if data else "false")
    elif isinstance(data, int):
        put(int.__repr__(data))
    elif isinstance(data, float):
        put(float.__repr__(data) if isfinite(data) else "null")
    elif isinstance(data, Decimal):
        put("null" if not data.is_finite() else f"{data:f}" if abs(data.adjusted()) < MAX_DIGITS else str(data))
    elif isinstance(data, Document):
        _write_members([*document_fields(data)], "{}", line, put)
    elif isinstance(data, Mapping):
        _write_members([*data.items()], "{}", line, put)
    elif isinstance(data, list | tuple):
        _write_members([(None, item) for item in data], "[]", line, put)
    else:
        put(encode_basestring(str(data)))


def _write_members(items: list[tuple[Any, Any]], brackets: str, line: str, put: Callable[[str], None]) -> None:
    inner = line + "  "
    before = brackets[0] + inner
    for name, item in items:
        put(before if name is None else f"{before}{encode_basestring(str(name))}: ")
        _write(item, inner, put)
        before = "," + inner
    put(brackets if not items else line + brackets[1])
