"""`COL:min..max:step`, `COL:real` and `COL=value,value`: a private column in one option."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import get_args

from keyhole.errors import ConfigError, NumberError
from keyhole.knowledge.columns import KindName, PrivateColumn
from keyhole.knowledge.toml_table import as_number

_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)"
_DASHED = re.compile(
    rf"^(?P<name>.+):\s*(?P<lo>{_NUMBER})\s*(?:-|\u2013|,)\s*(?P<hi>{_NUMBER})(?P<step>:[\d.]+)?$", re.DOTALL
)
_SPACED = re.compile(
    rf"^(?P<name>.+?):\s*(?P<lo>{_NUMBER})(?:\s*:\s*|\s+(?:to|bis|and)\s+)(?P<hi>{_NUMBER})(?P<step>:[\d.]+)?$",
    re.DOTALL,
)
_EQUALS = re.compile(
    rf"^(?P<name>[^:=]+)=\s*(?P<lo>{_NUMBER})?\s*\.\.\s*(?P<hi>{_NUMBER})?(?P<step>:[\d.]+)?$", re.DOTALL
)
_LISTED = re.compile(r"^(?P<name>[^:=]+):(?P<values>[^:=.,]+(?:,[^:=.,]+)+)$", re.DOTALL)
_PRIVATE = re.compile(r"^(?P<name>.+?)(?::(?P<lo>[^:]*)\.\.(?P<hi>[^:]*?)(?::(?P<step>[^:]+))?)?$", re.DOTALL)


def parse_private(text: str) -> tuple[str, PrivateColumn]:
    """`COL[:min..max[:step]]`, `COL:real` for any number, or `COL=value,value,...`: the short form of a private column.

    >>> parse_private("ill=flu,cold")
    ('ill', PrivateColumn(min=None, max=None, step=None, values=('flu', 'cold'), width=None, family='sum', kind=None))
    >>> parse_private("Blood sugar:3..10:0.1")[1].step
    Decimal('0.1')
    >>> parse_private("salary:0..")[1].max is None, parse_private("debt:-50..-1")[1].max
    (True, Decimal('-1'))
    >>> parse_private("hiv:integer")
    Traceback (most recent call last):
    keyhole.errors.ConfigError: --private 'hiv:integer': a kind is declared in keyhole.toml (kind = 'integer'); here \
write COL, COL:min..max, COL:min..max:step or COL:real
    >>> parse_private("pay:real")[1].state, parse_private("pay")[1].state
    ('real', 'undeclared')
    """
    if dashed := _DASHED.match(text) or _SPACED.match(text) or _EQUALS.match(text):
        meant = f"{dashed['name']}:{dashed['lo'] or ''}..{dashed['hi'] or ''}{dashed['step'] or ''}"
        raise ConfigError(f"--private {text!r}: write {meant} for a range")
    if listing := _LISTED.match(text):
        raise ConfigError(f"--private {text!r}: write {listing['name']}={listing['values']} for categories")
    name, equals, listed = text.partition("=")
    if equals and name.strip() and ".." not in listed:
        return _categories(text, name.strip(), listed)
    column, colon, word = text.rpartition(":")
    if colon and word.strip().lower() == "real" and column.strip():
        if ".." in column:
            raise ConfigError(
                f"--private {text!r}: a range has ends, and real has none; write COL:min..max or COL:real"
            )
        return column.strip(), PrivateColumn(domain="real")
    if colon and word.strip().lower() in get_args(KindName) and column.strip():
        raise ConfigError(
            f"--private {text!r}: a kind is declared in keyhole.toml (kind = {word.strip().lower()!r}); here write "
            "COL, COL:min..max, COL:min..max:step or COL:real"
        )
    found = _PRIVATE.match(text)
    if not found or not text.strip():
        raise ConfigError("--private needs a column: write --private COL, COL:min..max, COL:min..max:step or COL:real")
    numbers: dict[str, Decimal | None] = {}
    for key, part in (("min", found["lo"]), ("max", found["hi"]), ("step", found["step"])):
        if part is None or not part.strip():
            continue
        try:
            numbers[key] = as_number(part.strip())
        except NumberError as error:
            raise ConfigError(f"--private {text[:60]!r}: {error}") from None
        if numbers[key] is None:
            raise ConfigError(f"--private {text!r}: {part!r} is not a number; write COL:min..max:step")
    try:
        return found["name"], PrivateColumn(numbers.get("min"), numbers.get("max"), numbers.get("step"))
    except ValueError as error:
        raise ConfigError(f"--private {text!r}: {error}") from None


def _categories(text: str, name: str, listed: str) -> tuple[str, PrivateColumn]:
    values = tuple(value.strip() for value in listed.split(","))
    if not all(values):
        raise ConfigError(f"--private {text!r}: a value is empty; write {name}=flu,cold")
    try:
        return name, PrivateColumn(values=values)
    except ValueError as error:
        raise ConfigError(f"--private {text!r}: {error}") from None
