"""`keyhole answer`: answer a file of statements with differential privacy, against a durable budget."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import SOME_REFUSED, check_out, emit, emit_json, emit_text, exit_with, warn
from keyhole.config.arguments import BudgetArguments, Format, OutputArguments, TableArguments
from keyhole.errors import ConfigError
from keyhole.sessions.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from keyhole.api.answer import Answers


HELP = """Answer COUNT, SUM and AVG with differential privacy.

Every answer carries its error bar and its price; the ledger is charged before anything is shown, and what was
released before is given again for nothing. keyhole.toml declares the domains of columns and the budget.

\b
Examples
  keyhole answer queries.sql --data patients.csv -c keyhole.toml --epsilon 1
  keyhole answer queries.sql -c keyhole.toml --accuracy 0.01 --dry-run
  keyhole answer - -c keyhole.toml --mechanism online-ic --format json --out answers.json

\b
Exit code
  0 every statement was answered; 3 some were refused; 2 could not run.
"""


@options.command(
    "answer",
    HELP,
    click.Argument(["queries"], metavar="QUERIES.sql"),
    options.TABLE_ARGUMENTS,
    options.LOG_FORMAT,
    options.budget(
        options.EPSILON,
        options.DELTA,
        click.Option(
            ["--mechanism"],
            type=click.Choice(MECHANISMS),
            help="How answers are made (default: the planner where there is a delta, else laplace).",
        ),
        options.ACCURACY,
        options.BETA,
        options.HORIZON,
        options.ANALYST,
        options.BOOK,
        options.SPEND,
        options.ANYWAY,
    ),
    options.DRY_RUN,
    options.output(Format.TEXT, Format.JSON, Format.TRANSCRIPT, Format.HTML),
)
def answer(
    queries: str,
    table: TableArguments,
    log_format: str,
    terms: BudgetArguments,
    dry_run: bool,
    output: OutputArguments,
) -> None:
    """Load, open the ledger, answer or price, show."""
    from keyhole.api.answer import answer_statements
    from keyhole.config.settings import settings
    from keyhole.logs.open import LogFormat, open_log

    table = options.settings_here(table)
    given = settings(**table)
    check_out(output.out)  # before anything is paid for
    read = open_log(queries if queries == "-" else Path(queries), LogFormat(log_format))
    found = answer_statements([line.sql for line in read.lines], given, terms, table.get("config"), dry_run=dry_run)
    if output.format is Format.TRANSCRIPT:
        if dry_run:
            raise ConfigError("--dry-run releases nothing, so there is no transcript: take --format text or json")
        for a in found.answers:
            if a.refused is not None:
                warn(f"not in the transcript: {' '.join(a.sql.split())}: {a.refused}")
        emit("".join(f"{line}\n" for line in found.releases), output.out)
    elif output.format is Format.JSON:
        import json

        emit_json(json.dumps(found.to_json(), indent=2, ensure_ascii=False), output.out)
    elif output.format is Format.HTML:
        from keyhole.report.html.sessions import render_answers_page

        emit(render_answers_page(found.document()), output.out)
    else:
        emit_text("\n".join(_prices(found) if dry_run else _lines(found)), output.out)
    if found.fault is not None:
        raise found.fault
    exit_with(SOME_REFUSED if found.refused else 0)


def _lines(found: Answers) -> Iterator[str]:
    from keyhole.report.replies import render_answer

    for a in found.answers:
        yield from render_answer(a, found.budget.unit)
    cap = found.budget
    yield f"spent {float(found.spent):g} of {cap.unit} {float(cap.amount):g} (book {found.ledger})"


def _prices(found: Answers) -> Iterator[str]:
    from keyhole.report.replies import format_remainder, render_price

    for p in found.prices:
        yield from render_price(p, found.budget.unit)
    total = sum((p.cost for p in found.prices), Fraction(0))
    rest = f" ({found.refused} would be refused)" if found.refused else ""
    left = f"{found.budget.unit} {format_remainder(found.left)}"
    yield f"nothing was spent; all would cost {float(total):g}{rest}; left is {left}"
