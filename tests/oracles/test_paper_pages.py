"""The page that goes through papers line by line: whatever function or test they name is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("papers.md",)
FUNCTION = re.compile(r"`([\w/]+\.py): (\w+)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def read_page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_every_function_it_names_is_in_its_module(page: str) -> None:
    named = FUNCTION.findall(read_page(page))
    assert len(named) >= 15
    for path, name in named:
        source = (ROOT / "src" / "keyhole" / path).read_text(encoding="utf-8")
        assert re.search(rf"^\s*(?:def|class) {name}\b", source, re.MULTILINE), f"{path} has no {name}"
        importlib.import_module("keyhole." + path.removesuffix(".py").replace("/", "."))


@pytest.mark.parametrize("page", PAGES)
def test_every_test_it_names_exists(page: str) -> None:
    named = TEST.findall(read_page(page))
    assert len(named) >= 10
    for path, name in named:
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^def {name}\b", source, re.MULTILINE), f"{path} has no {name}"


@pytest.mark.parametrize("page", PAGES)
def test_every_row_says_what_checks_it(page: str) -> None:
    rows = [
        line
        for line in read_page(page).splitlines()
        if line.startswith("| ") and not line.startswith(("| the ", "| in the text"))
    ]
    assert len(rows) >= 12
    for row in rows:
        cells = re.split(r"(?<!\\)\|", row)[1:-1]
        assert len(cells) == 4
        assert all(cell.strip() for cell in cells[:3]), row
