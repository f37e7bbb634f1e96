"""The words that people read: none of the trade that a glossary would have to explain first."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from keyhole.cli.root import ENTRIES, load
from keyhole.cli.verdict.explain import OTHERS, PAGES, WORDS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src" / "keyhole").rglob("*.py"))
TEMPLATES = sorted((ROOT / "src" / "keyhole").rglob("*.jinja"))
BANNED = re.compile(r"\b(custodians?|atoms?|epochs?|rosters?|priors?|told|sold)\b", re.IGNORECASE)
NO_SENTENCE = re.compile(  # names of files, settings, and columns of the book
    r"\S+\.(csv|sql|toml|jsonl)|\w+ = \{|epoch INTEGER.*|epoch = \?|, ?epoch\b|SELECT epoch|\(epoch, |^epoch, "
)
MOST_SLOTS = 232  # options over all commands and their parts; a new one needs one that goes. The goal is 190


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module that can be printed: no docstrings, no single words, no SQL of our own."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    spoken = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):  # as it is printed: its pieces alone are no sentences
            spoken |= {id(piece) for piece in node.values}
            written = "".join(str(p.value) if isinstance(p, ast.Constant) else "0" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in spoken:
            written = node.value
        else:
            continue
        text = NO_SENTENCE.sub("", written)
        if len(text.split()) >= 2 and not re.search("CREATE TABLE|SELECT |INSERT INTO", text):
            yield node.lineno, text


def leaves(command: click.Command) -> Iterator[click.Command]:
    for each in getattr(command, "commands", {}).values():  # a group's, or the parts of a command that works alone, too
        yield from leaves(each)
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield command


COMMANDS = [command for entry in ENTRIES for command in leaves(load(entry))]


def test_the_scan_finds_what_it_looks_for(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        '"""The roster, of old."""\nX = "nobody of the roster matches"\nY = f"({X}, prior {1})"\n'
    )
    assert len([line for line, text in sentences(tmp_path / "bad.py") if BANNED.search(text)]) == 2


def test_no_printed_sentence_uses_words_of_the_trade() -> None:
    found = [f"{p.name}:{line}: {text}" for p in SOURCES for line, text in sentences(p) if BANNED.search(text)]
    for page in TEMPLATES:
        shown = re.sub(r"\{[{%#].*?[}%#]\}", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        found += [f"{page.name}: {word}" for word in BANNED.findall(shown)]
    assert found == []


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.name))
def test_help_fits_a_screen(command: click.Command) -> None:
    context = click.Context(command, info_name=f"keyhole {command.name}", terminal_width=100)
    text = command.get_help(context)
    listed = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.MULTILINE)
    assert len([word for word in listed if not word.startswith("--help")]) <= 20
    assert not BANNED.search(NO_SENTENCE.sub("", text))
    examples = re.search(r"Examples?\n(.*?)(?:\n\s*\n|$)", text, re.DOTALL)
    assert examples is None or len(re.findall(r"^\s*keyhole ", examples[1], re.MULTILINE)) <= 2
    if command.name == "audit":
        assert len(text.splitlines()) <= 60


def test_options_are_few() -> None:
    slots = [p for command in COMMANDS for p in command.params if isinstance(p, click.Option)]
    assert len(slots) <= MOST_SLOTS


def test_every_option_is_in_some_help() -> None:
    for command in COMMANDS:
        context = click.Context(command, info_name="keyhole")
        text = command.get_help(context)
        assert all(p.opts[-1] in text for p in command.params if isinstance(p, click.Option)), command.name


def test_the_glossary_page_is_what_explain_reads() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    entries = [line for line in page.splitlines() if line.startswith("**")]
    assert len(entries) == len(WORDS) > 70
    assert all((ROOT / "docs" / name).is_file() for name in PAGES.values())
    assert set(OTHERS.values()) <= set(WORDS)
    assert OTHERS["atom"] == "class"
