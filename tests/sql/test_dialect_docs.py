"""The examples of docs/dialects.md are what is printed, and its table names what has a rule."""

from __future__ import annotations

import doctest
from pathlib import Path

from keyhole.sql.dialects.engine import Dialect

PAGE = Path(__file__).parents[2] / "docs" / "dialects.md"


def test_examples() -> None:
    assert doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


def test_every_dialect_is_named() -> None:
    said = PAGE.read_text(encoding="utf-8")
    assert f"--dialect {'|'.join(Dialect)}" in said
