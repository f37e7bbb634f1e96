"""Write the generated parts of the reference: `python -m docs.reference [--check]`.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`: the commands with all their options, the settings
of keyhole.toml, and the fields of every JSON document, each read off the code that defines it.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click
import msgspec

from keyhole.cli.root import ENTRIES, load
from keyhole.config import columns, config, file_layout
from keyhole.report.documents import attacks, sessions, tables, verdict

DOCS = Path(__file__).resolve().parent
PAGES = ("commands.md", "json.md")
PART = re.compile(r"<!-- generated: (?P<name>\w+) -->\n.*?<!-- end -->", re.DOTALL)
SETTINGS = (
    ("[source]", file_layout.SourceTable),
    ("[columns]", columns.Columns),
    ("[columns.private.NAME]", columns.PrivateColumn),
    ("[columns.public.NAME]", columns.PublicColumn),
    ("[tables.NAME]", columns.TableRoles),
    ("[online]", config.Online),
    ("[book]", config.BookTable),
    ("[budget]", config.BudgetTable),
    ("[serve]", config.ServeTable),
    ("[[facts]]", config.FactTable),
)


def commands() -> Iterator[str]:
    """Every command with its help and all its options, in the order of `keyhole --help`."""
    for entry in ENTRIES:
        yield from _command(load(entry), f"keyhole {entry.name}")


def _command(command: click.Command, path: str) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    words = " ".join(piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]")
    yield f"### {path}\n"
    yield f"`{path} {words}`".replace(" `", "`") + "\n"
    yield _plain(command.help or "") + "\n"
    options = [p for p in command.params if isinstance(p, click.Option)]
    if options:
        yield "| option | what |\n|---|---|"
        for option in options:
            name = ", ".join(option.opts) + ("" if option.is_flag else f" {option.make_metavar(context)}")
            default = "" if not option.show_default or option.is_flag else f" Default: {_default(option)}."
            yield f"| `{_cell(name)}` | {_cell(option.help or '')}{default} |"
        yield ""
    for name, each in getattr(command, "commands", {}).items():
        yield from _command(each, f"{path} {name}")


def _default(option: click.Option) -> str:
    shown = option.show_default
    return shown.strip("()") if isinstance(shown, str) else str(option.default)


def _plain(text: str) -> str:
    """A help text as Markdown: what was set apart for the terminal is a block of its own."""
    parts = []
    for part in inspect.cleandoc(text).split("\n\n"):
        lines = part.removeprefix("\b\n").splitlines()
        parts.append("```text\n" + "\n".join(lines) + "\n```" if part.startswith("\b") else " ".join(lines))
    return "\n\n".join(parts)


def settings() -> Iterator[str]:
    """Every table of keyhole.toml, with its keys, their types and defaults."""
    for title, kind in SETTINGS:
        yield f"### {title}\n"
        yield _about(kind).removeprefix(f"{title}: ") + "\n"
        hints = get_type_hints(kind)
        yield "| key | type | default |\n|---|---|---|"
        for each in fields(kind):
            default = "needed" if each.default is MISSING and each.default_factory is MISSING else ""
            if each.default not in (MISSING, None, (), ""):
                default = f"`{str(each.default).lower() if isinstance(each.default, bool) else each.default}`"
            yield f"| `{each.name}` | {_type(hints[each.name])} | {default} |"
        yield ""


def documents() -> Iterator[str]:
    """Every struct of the JSON contract: what it is, its fields and their types."""
    for module in (verdict, tables, sessions, attacks):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__:
                notes = _notes(kind)
                yield f"### {kind.__name__}\n"
                yield _about(kind) + "\n"
                yield "| field | type | |\n|---|---|---|"
                for each in msgspec.structs.fields(kind):
                    note = notes.get(each.name, "")
                    yield f"| `{each.encode_name}` | {_type(each.type)} | {note} |"
                yield ""


def _about(kind: type[Any]) -> str:
    text = inspect.cleandoc(kind.__doc__ or "").split("\n\n>>>")[0]
    return " ".join(text.split())


def _notes(kind: type[Any]) -> dict[str, str]:
    """The comment behind each field, in its source."""
    found = re.findall(r"^ {4}(\w+): [^#\n]*#\s*(.+)$", inspect.getsource(kind), re.MULTILINE)
    return {name: _cell(note) for name, note in found}


def _type(hint: Any) -> str:
    """A type in words that a reader of JSON or TOML knows."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        named = [_type(part) for part in parts if part not in (type(None), msgspec.UnsetType)]
        return " or ".join(dict.fromkeys(named)) + (" or null" if type(None) in parts else "")
    if origin is Literal:
        return " or ".join(f"`{part}`" for part in parts)
    if origin in (tuple, list):
        return f"list of {_type(parts[0])}" if parts else "list"
    if origin is dict:
        return f"table of {_type(parts[1])}"
    names = {"str": "text", "int": "whole number", "bool": "true or false", "Decimal": "number", "float": "number"}
    name = getattr(hint, "__name__", str(hint))
    return names.get(name, "any" if name == "Any" else name)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def written(page: str) -> str:
    """A page with its generated parts written again."""
    makers = {"commands": commands, "settings": settings, "documents": documents}

    def made(found: re.Match[str]) -> str:
        body = "\n".join(makers[found["name"]]()).rstrip()
        return f"<!-- generated: {found['name']} -->\n\n{body}\n\n<!-- end -->"

    return PART.sub(made, page)


def main() -> int:
    """Rewrite the pages, or with --check only say which are out of date."""
    stale = []
    for name in PAGES:
        text = (DOCS / name).read_text(encoding="utf-8")
        new = written(text)
        if new != text:
            stale.append(name)
            if "--check" not in sys.argv:
                (DOCS / name).write_text(new, encoding="utf-8")
    sys.stdout.write(f"{'stale' if '--check' in sys.argv else 'written again'}: {', '.join(stale) or 'none'}\n")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
