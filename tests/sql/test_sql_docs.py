"""The page about SQL prints what the code prints, and names every dialect."""

from __future__ import annotations

import doctest
from pathlib import Path

from keyhole.sql.dialects.engine import Dialect

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"


def test_the_examples_of_the_page_are_what_is_printed() -> None:
    failed, attempted = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert attempted > 15
    assert failed == 0


def test_every_dialect_is_named() -> None:
    assert f"--dialect {'|'.join(Dialect)}" in PAGE.read_text(encoding="utf-8")
