"""The arguments that commands and Python verbs share, each group said once: who is who, what may be spent, where to.

A Python verb takes `**table: Unpack[TableArguments]` and hands it to `config.settings.settings`; a command attaches the
options of a group by name (`cli.shared.options`) and gets the group as one value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from keyhole.config.config import Config

Names = str | Sequence[str]  # one column, or several
BudgetNumber = int | float | str | Decimal | Fraction


class ColumnArguments(TypedDict, total=False):
    """Who is who, and how statements name the table. What is left out is as keyhole.toml has it."""

    private: Names  # as on the command line: "pay", "sugar:3..10:0.1", "ill=flu,cold"
    id: Names
    hidden: Names
    table: str | None
    view: str | None


class TableArguments(ColumnArguments, total=False):
    """The same, with where the table is, and the settings that hold for what is left out."""

    data: object  # a path, a `File`, or a frame of pandas, polars or Arrow
    config: Config | str | Path | None


@dataclass(frozen=True, slots=True)
class BudgetArguments:
    """How statements are answered privately: the cap of the book, how accurate, by which mechanism, for whom."""

    epsilon: BudgetNumber | None = None
    delta: BudgetNumber | None = None
    mechanism: str | None = None  # None: the planner where there is a delta, else laplace
    accuracy: float | str | None = None  # a share of n, or "1%"; of add-remove neighbours: people
    beta: float | None = None
    horizon: int | None = None
    analyst: str | None = None
    book: str | Path | None = None
    spend: BudgetNumber | None = None
    anyway: bool = False
    error: str | None = None  # the bar in the units of the answer, or a share of the largest answer: "500", "5%"


class Format(StrEnum):
    """How a result is written."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    TRANSCRIPT = "transcript"
    HTML = "html"
    BASELINE = "baseline"


@dataclass(frozen=True, slots=True)
class OutputArguments:
    """How a result is written, and to which file; None: to the terminal."""

    format: Format = Format.TEXT
    out: Path | None = None


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of a verdict is printed: `everybody` (--all), the `ranges` of those who stay open, `technical` (-v)."""

    everybody: bool = False
    ranges: bool = False
    technical: bool = False

    def limit(self, few: int) -> int:
        """How many lines of one sort are printed."""
        return 10**9 if self.everybody else few


SCREEN = Detail()
EVERYTHING = Detail(everybody=True, ranges=True, technical=True)
