"""Options about how a file is written: they go with the file (`config.settings.File`), whichever command it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

LAYOUT_KEY = "keyhole.layout"


def laid_out(ctx: click.Context, _param: click.Parameter, value: Path | None) -> Any:
    """The file with what was said of how it is written; the path alone if nothing was."""
    said = ctx.meta.get(LAYOUT_KEY)
    if not said:
        return value
    from keyhole.config.settings import File

    try:
        return File(path=value, **said)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None


def _layout(name: str, metavar: str | None, help: str, *, listed: bool = False) -> click.Option:  # noqa: A002
    """An option about how a file is written: it goes with the file (`keyhole.config.settings.File`)."""
    key = name.removeprefix("--")

    def said(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        given = tuple(part.strip() for text in value for part in text.split(",")) if listed else value
        if given:
            ctx.meta.setdefault(LAYOUT_KEY, {})[key] = given

    kind: dict[str, Any] = {"is_flag": True, "default": False} if metavar is None else {"metavar": metavar}
    if listed:
        kind["multiple"] = True
    return click.Option([name], expose_value=False, is_eager=True, callback=said, help=help, **kind)


LAYOUT = (
    _layout("--columns", "A,B,...", "Names of the columns, for a file without a header.", listed=True),
    _layout("--encoding", "NAME", "Encoding of a text file (default: UTF-8, UTF-16 and latin-1 are recognised)."),
    _layout("--delimiter", "SIGN", "What separates the fields of a text file (default: found)."),
    _layout("--decimal", "SIGN", "The sign before decimals in numbers: , or . (default)."),
    _layout("--thousands", "SIGN", "The sign between thousands in numbers, such as . or ,"),
    _layout("--null", "WORD,...", "Words that stand for an empty value, such as NA or ?", listed=True),
    _layout("--trim", None, "Take blanks off the ends of all values."),
    _layout("--sheet", "NAME", "Sheet of an Excel file (default: the first)."),
)
