"""`keyhole ask -f FILE` under a budget: a file of statements answered privately, what is left shared out over them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from keyhole.cli.shared.terminal import SOME_REFUSED, emit, emit_json, emit_text, exit_with, warn
from keyhole.config.arguments import BudgetArguments, Format, OutputArguments
from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from keyhole.api.ask import Answers
    from keyhole.config import Config
    from keyhole.config.settings import Settings


def answer_file(
    file: str,
    given: Settings,
    terms: BudgetArguments,
    config: Config | str | Path | None,
    output: OutputArguments,
    *,
    dry_run: bool,
) -> None:
    """Load, open the book, answer or price, show."""
    from keyhole.api.ask import answer_statements
    from keyhole.logs.open import LogFormat, open_log

    read = open_log(file if file == "-" else Path(file), LogFormat.AUTO)
    found = answer_statements([line.sql for line in read.lines], given, terms, config, dry_run=dry_run)
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
    from keyhole.sessions.reply import BudgetState

    budget = BudgetState(str(found.budget.unit), found.budget.amount, found.left)
    for a in found.answers:
        yield from render_answer(a, budget)
    cap = found.budget
    yield f"spent {float(found.spent):g} of {cap.unit} {float(cap.amount):g} (book {found.ledger})"


def _prices(found: Answers) -> Iterator[str]:
    from keyhole.report.replies import render_price
    from keyhole.sessions.reply import BudgetState, format_remainder

    budget = BudgetState(str(found.budget.unit), found.budget.amount, found.left)
    for p in found.prices:
        yield from render_price(p, budget)
    total = sum((p.cost for p in found.prices), Fraction(0))
    rest = f" ({found.refused} would be refused)" if found.refused else ""
    left = f"{found.budget.unit} {format_remainder(found.left)}"
    yield f"nothing was spent; all would cost {float(total):g}{rest}; left is {left}"
