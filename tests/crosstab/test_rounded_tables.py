"""Rounded tables: a range may be narrower than what is proved, so nothing is called complete."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from keyhole.cli import app

ONE = "region,n\nA,2\nB,2\nC,10\nD,9\nTotal,23\n"
ZERO = "region,n\nA,x\nB,x\nC,0\nTotal,0\n"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (ONE, ("--rule", "N<3", "--rounding", "1")),
        (ZERO, ("--suppressed", "x=2..9", "--rounding", "10", "--within", "2")),
        (ZERO, ("--suppressed", "x=2.5..9", "--rounding", "10")),
    ],
)
def test_no_all_clear_over_rounded_numbers(tmp_path: Path, text: str, options: tuple[str, ...]) -> None:
    (tmp_path / "t.csv").write_text(text)
    with contextlib.chdir(tmp_path):
        done = CliRunner().invoke(app, ["tables", "t.csv", "--value", "n", *options])
    assert done.exit_code in (1, 3)


def test_a_step_that_changes_nothing_is_not_offered(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(ONE)
    with contextlib.chdir(tmp_path):
        done = CliRunner().invoke(app, ["tables", "t.csv", "--value", "n", "--rule", "N<3", "--suggest"])
    assert "multiple of 1:" not in done.stdout
