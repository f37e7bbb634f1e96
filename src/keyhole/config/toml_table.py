"""Tables of keyhole.toml as frozen dataclasses: every setting is checked against the type of its field."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from types import NoneType
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from keyhole.errors import ConfigError, NumberError
from keyhole.model.numbers import read_decimal

Number = Decimal
_WORDS = {Decimal: "a number", str: "text", int: "a whole number", bool: "true or false"}


def toml_key(name: str) -> str:
    """A name as a key of keyhole.toml, in quotes where it needs them.

    >>> toml_key("pay"), toml_key("blood sugar")
    ('pay', '"blood sugar"')
    """
    if re.fullmatch(r"[A-Za-z0-9_-]+", name):
        return name
    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")


class TomlTable:
    """A table of keyhole.toml: a frozen dataclass of settings; `__post_init__` checks what they say."""

    __slots__ = ()

    @classmethod
    def checked(cls, raw: Mapping[str, Any], name: str = "keyhole.toml") -> Self:
        """From settings that were already read; every fault is said with the key to mend.

        >>> from keyhole.config.columns import Columns
        >>> Columns.checked({"id": ["Name"], "private": {"pay": {"min": 0}}}).private["pay"].min
        Decimal('0')
        """
        faults: list[str] = []
        made = _table(cls, raw, (), faults)
        if faults:
            raise ConfigError("\n".join(f"{name}: {fault}" for fault in faults))
        assert isinstance(made, cls)
        return made

    @classmethod
    def rewrite(cls, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The settings as its fields say them, where they may be written in another way too."""
        return raw


def _table(kind: type[Any], raw: Any, place: tuple[str, ...], faults: list[str]) -> Any:
    """A table as a value of `kind`; what is wrong goes to `faults`."""
    if isinstance(raw, kind):
        return raw
    if not isinstance(raw, Mapping):
        faults.append(f"{_at(place)}: write a table of settings")
        return None
    try:
        raw = kind.rewrite(raw) if issubclass(kind, TomlTable) else raw
    except NumberError as error:
        faults.append(f"{_at(place)}: {error}")
        return None
    hints, given = get_type_hints(kind), {}
    known, before = [f.name for f in fields(kind)], len(faults)
    for key, value in raw.items():
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known here: {', '.join(known)}"
            faults.append(f"{_at((*place, str(key)))} is not a setting{hint}")
        else:
            given[key] = _value(hints[key], value, (*place, key), faults)
    if len(faults) > before:
        return None
    try:
        return kind(**given)
    except TypeError:
        missing = ", ".join(f.name for f in fields(kind) if f.name not in given and f.name in _needed(kind))
        faults.append(f"{_at(place)}: {missing} is missing")
    except ValueError as error:
        faults.append(f"{_at(place)}: {error}")
    return None


def _needed(kind: type[Any]) -> list[str]:
    return [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]


def _value(hint: Any, value: Any, place: tuple[str, ...], faults: list[str]) -> Any:
    """One setting as what its field holds."""
    kind, parts = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        assert isinstance(hint, type)
        return _table(hint, value, place, faults)
    if kind is dict:
        if isinstance(value, Mapping):
            return {str(key): _value(parts[1], each, (*place, str(key)), faults) for key, each in value.items()}
        faults.append(f"{_at(place)}: write a table")
    elif kind is tuple:
        if parts[0] is str and place[-1] == "values" and isinstance(value, list) and _numbers(value):
            faults.append(
                f"{_at(place)}: these numbers are not a list with even steps, so write min = {min(value)}, max = "
                f"{max(value)} and step = ...; codes that nobody adds up are texts, in quotes"
            )
            return None
        if isinstance(value, list | tuple):
            return tuple(_value(parts[0], each, (*place, str(at)), faults) for at, each in enumerate(value))
        faults.append(f"{_at(place)}: write a list, [...]")
    elif kind is Literal:
        if value in parts and type(value) in {type(part) for part in parts}:
            return value
        faults.append(f"{_at(place)}: write {' or '.join(repr(part) for part in parts)}, not {value!r}")
    else:
        return _read_choice(hint, value, place, faults)
    return None


def _read_choice(hint: Any, value: Any, place: tuple[str, ...], faults: list[str]) -> Any:
    """A setting that may be of several types, or absent."""
    parts = get_args(hint)
    choices = [part for part in parts or (hint,) if part is not NoneType]
    if value is None and NoneType in parts:
        return None
    if len(choices) == 1 and (get_origin(choices[0]) or is_dataclass(choices[0])):
        return _value(choices[0], value, place, faults)
    try:
        if isinstance(value, int | float | Decimal):
            read_decimal(value)
        for choice in choices:
            if get_origin(choice) is tuple and isinstance(value, list | tuple):
                return _value(choice, value, place, faults)
            if choice is Decimal and (number := as_number(value)) is not None:
                return number
            if type(value) is choice:
                return value
    except NumberError as error:
        faults.append(f"{_at(place)}: {error}")
        return None
    words = " or ".join(_WORDS.get(choice, "a list") for choice in choices)
    faults.append(f"{_at(place)}: write {words}, not {value!r}")
    return None


def _numbers(values: list[Any]) -> bool:
    """Is it a list of numbers, and not empty?"""
    return bool(values) and all(isinstance(v, int | float | Decimal) and not isinstance(v, bool) for v in values)


def read_toml(text: str, name: str) -> dict[str, Any]:
    """TOML text with its numbers as decimals; a fault is said with the name of the file."""
    try:
        return tomllib.loads(text, parse_float=read_decimal)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is not valid TOML: {error}") from None
    except NumberError as error:
        raise ConfigError(f"{name}: {error}") from None
    except ValueError:  # the interpreter reads whole numbers of 4,300 digits at most
        raise ConfigError(f"{name}: {NumberError('of more than 4,300 digits')}") from None


def as_number(value: Any) -> Decimal | None:
    """A finite number, as it was written."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = read_decimal(value)
    except NumberError:
        raise
    except ValueError:
        return None
    return number if number.is_finite() else None


def _at(place: tuple[str, ...]) -> str:
    """The place of a setting, as it is called elsewhere: facts are counted from 1.

    >>> _at(("columns", "id")), _at(("facts", "0")), _at(("facts", "1", "min"))
    ('columns.id', 'fact 1', 'fact 2, min')
    """
    if len(place) > 1 and place[0] == "facts":
        return ", ".join((f"fact {int(place[1]) + 1}", *place[2:]))
    return ".".join(place) or "the file"
