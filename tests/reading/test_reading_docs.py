"""The examples of docs/how-it-works.md are what is printed."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-it-works.md"


def test_the_examples_of_the_page_are_what_is_printed() -> None:
    failed, attempted = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert (failed, attempted) == (0, 7)
