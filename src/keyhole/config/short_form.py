"""`COL:min..max:step`, `COL:real` and `COL=value,value`: a private column in one option."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import get_args

from keyhole.config.columns import KindName, PrivateColumn, even_grid
from keyhole.config.toml_table import as_number, toml_key
from keyhole.errors import ConfigError, NumberError

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
_CANONICAL = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")  # 007 and +1 are codes
_RANGE = re.compile(rf"(?P<lo>{_NUMBER})?\s*(?:\.\.|-|\u2013|\bto\b)\s*(?P<hi>{_NUMBER})?\s*(?::\s*(?P<step>[\d.]+))?")
_PRIVATE = re.compile(r"^(?P<name>.+?)(?::(?P<lo>[^:]*)\.\.(?P<hi>[^:]*?)(?::(?P<step>[^:]+))?)?$", re.DOTALL)


def parse_private(text: str) -> tuple[str, PrivateColumn]:
    """`COL[:min..max[:step]]`, `COL:real` for any number, or `COL=value,value,...`: the short form of a private column.

    >>> parse_private("ill=flu,cold")
    ('ill', PrivateColumn(min=None, max=None, step=None, values=('flu', 'cold'), width=None, family='sum', kind=None))
    >>> parse_private("hiv=0,1")  # numbers are numbers
    ('hiv', PrivateColumn(min=Decimal('0'), max=Decimal('1'), step=Decimal('1'), values=None, width=None, \
family='sum', kind=None))
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
        numbers = [as_number(value) for value in values if _CANONICAL.fullmatch(value)]
        grid = even_grid([n for n in numbers if n is not None]) if len(numbers) == len(values) else None
        return name, PrivateColumn(values=values) if grid is None else PrivateColumn(*grid)  # uneven: codes
    except NumberError as error:
        raise ConfigError(f"--private {text[:60]!r}: {error}") from None
    except ValueError as error:
        raise ConfigError(f"--private {text!r}: {error}") from None


def _of_numbers(values: Sequence[str], name: str, where: str, range_form: str) -> PrivateColumn:
    """A list of numbers as min, max and step."""
    grid = even_grid([number for value in values if (number := as_number(value)) is not None])
    if grid is None:
        raise ConfigError(
            f"{where}: these numbers are not a list with even steps: write {range_form}; codes that nobody adds up "
            f"are texts, values = {json.dumps(list(values))} under [columns.private.{toml_key(name)}] in keyhole.toml"
        )
    return PrivateColumn(*grid)


def parse_known_values(name: str, answer: str, *, is_number: bool) -> PrivateColumn:
    """What somebody answers who is asked for the possible values of a column: a range, a list, or `real`.

    >>> parse_known_values("hiv", "values 0,1", is_number=True) == parse_known_values("hiv", "0-1:1", is_number=True)
    True
    >>> parse_known_values("ill", "flu, cold", is_number=False).values
    ('flu', 'cold')
    >>> parse_known_values("hiv", "yes", is_number=True)
    Traceback (most recent call last):
    keyhole.errors.ConfigError: 'yes' is not understood: hiv holds numbers, so write min..max, min..max:step, \
values 0,1,2 or real
    """
    if answer.lower() == "real":
        return parse_private(f"{name}:real")[1]
    forms = "min..max, min..max:step, values 0,1,2 or real" if is_number else "values a,b,c"
    said = f"{answer!r} is not understood: {name} holds {'numbers' if is_number else 'no numbers'}, so write {forms}"
    word, _, rest = answer.partition(" ")
    listed = rest.strip() if word.lower().rstrip(":=") == "values" else answer
    values = [value.strip().strip("'\"") for value in listed.strip("[]").split(",")]
    found = _RANGE.fullmatch(answer)
    try:
        if is_number and found and (found["lo"] or found["hi"]):
            lo, hi, step = (None if found[part] is None else as_number(found[part]) for part in ("lo", "hi", "step"))
            return PrivateColumn(lo, hi, step)
        if len(values) < 2 or not all(values) or (is_number and not all(_CANONICAL.fullmatch(v) for v in values)):
            raise ConfigError(said)
        if is_number:
            return _of_numbers(values, name, repr(answer), "min..max:step")
        return PrivateColumn(values=tuple(values))
    except ValueError as error:
        raise ConfigError(f"{answer!r}: {error}") from None
