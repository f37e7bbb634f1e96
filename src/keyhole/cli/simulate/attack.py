"""`keyhole simulate attack`: private answers under our own attacks, error against epsilon."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import check_out, emit, emit_json
from keyhole.config.arguments import Format, OutputArguments, TableArguments
from keyhole.errors import ConfigError, LogError

if TYPE_CHECKING:
    from keyhole.config import Config

HELP = """Attack your own private answers: how well people are guessed, against epsilon.

For each epsilon the statements of a log are answered privately, with a whole budget of their own in a book that is
thrown away; everything that was released goes to `keyhole attack`, and its guesses are held against the data. For the
owner: the data is read, nothing is charged to your book, and what is shown is how far off guesses are on average.

\b
Examples
  keyhole simulate attack questions.sql -c keyhole.toml
  keyhole simulate attack questions.sql -c keyhole.toml --epsilon 0.1 --epsilon 1 --epsilon 100 --format json

\b
Exit code
  0 done; 2 could not run.
"""
EPSILONS = (0.1, 1.0, 10.0, 100.0)


@options.command(
    "attack",
    HELP,
    click.Argument(["queries"], type=options.FILE, metavar="LOG"),
    options.table(options.CONFIG),
    click.Option(["--epsilon"], type=float, multiple=True, help="A budget to try. Repeatable (0.1, 1, 10, 100)."),
    options.output(Format.TEXT, Format.JSON, Format.HTML),
)
def attack(
    queries: Path,
    table: TableArguments,
    epsilon: tuple[float, ...],
    output: OutputArguments,
) -> None:
    """Answer, attack, show; once for each epsilon."""
    from keyhole.config.settings import settings
    from keyhole.logs.open import read_log

    given = settings(**table)
    check_out(output.out)
    statements = [line.sql for line in read_log(queries)]
    if not statements:
        raise LogError(f"{queries} has no statement")
    if any(each <= 0 for each in epsilon):
        raise ConfigError("--epsilon is above 0")
    rows = []
    for each in epsilon or EPSILONS:
        rows += _attacked(statements, given.data, given.table, given.config, each)
    said = {"statements": len(statements), "runs": rows}
    if output.format is Format.JSON:
        emit_json(json.dumps(said, indent=2), output.out)
        return
    if output.format is Format.HTML:
        from keyhole.report.html.simulations import render_attacked_defence_page

        emit(render_attacked_defence_page(said), output.out)
        return
    lines = [f"{len(statements)} statements; error: mean distance of a guess from the truth, or share of wrong ones"]
    lines.append(f"{'epsilon':>8} {'column':<16} {'answered':>8} {'error':>10} {'without':>10} {'exact':>7}  method")
    for row in rows:
        error, prior, exact = (_number(row[name]) for name in ("error", "prior_error", "exact"))
        shown = f"{row['epsilon']:>8g} {row['column']!s:<16} {row['answered']:>8} {error:>10} {prior:>10} {exact:>7}"
        lines.append(f"{shown}  {row['method']}")
    emit("\n".join([*lines, "without: the same guesses made without any answer"]), output.out)


def _attacked(
    statements: list[str], data: object, table: str | None, told: Config, epsilon: float
) -> list[dict[str, object]]:
    """One row for each private column: what was answered, and how far off the best attack is."""
    from dataclasses import replace

    from keyhole.api.ask import ask
    from keyhole.api.attack import attack as attack_transcript
    from keyhole.errors import KeyholeError

    budget = replace(told.budget, epsilon=None, delta_for_keys=type(told.budget.delta)(0), analysts={}, accuracy=None)
    own = replace(told, budget=budget, book=replace(told.book, path=None))
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder) / "book.keyhole"
        made = ask(statements, data=data, table=table, config=own, epsilon=str(epsilon), book=book, spend=1,
                      anyway=True)  # fmt: skip
        log = Path(folder) / "released.jsonl"
        log.write_text("\n".join(made.releases), encoding="utf-8")
        rest = {"epsilon": epsilon, "answered": len(made.answers) - made.refused}
        if not made.releases:
            return [rest | {"column": "", "method": "nothing was released", "error": None, "prior_error": None,
                            "exact": None}]  # fmt: skip
        try:
            found = attack_transcript(log, data=data, table=table, config=own, truth=data)
        except KeyholeError as error:
            return [rest | {"column": "", "method": f"no attack: {error}", "error": None, "prior_error": None,
                            "exact": None}]  # fmt: skip
    methods = {target.column: str(choice.method) for target, choice, _ in found.found}
    return [
        rest | {"column": column, "method": methods[column], "error": score.error, "prior_error": score.prior_error,
                "exact": score.exact}
        for column, score in found.scores.items()
    ]  # fmt: skip


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float | int) else "-"
