"""`keyhole plan`: the fewest questions that give somebody away, or the proof that none do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.interruption import ask_to_stop
from keyhole.cli.shared.progress import progress_on_stderr
from keyhole.cli.shared.terminal import check_out, emit, emit_json, emit_text, warn
from keyhole.config.arguments import Format, OutputArguments, TableArguments

if TYPE_CHECKING:
    from keyhole.api.plan import Plans
    from keyhole.config import Config

TARGET = click.Option(
    ["--target"],
    required=True,
    metavar="WHERE|all",
    help="Whose value: a condition on id and public columns that one person meets; or all, for one list of questions.",
)
MIN_GROUP = click.Option(
    ["--min-group"],
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="The fewest people that a question may be about.",
)
COLUMNS = click.Option(
    ["--columns"], multiple=True, metavar="COL,...", help="Columns that questions may be about (default: all public)."
)
MAX_COLUMNS = click.Option(
    ["--max-columns"],
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="The most columns in one question.",
)
OPERATORS = click.Option(
    ["--operators"],
    default="=,<>",
    show_default=True,
    metavar="OP,...",
    help="What conditions may use, of =,<>,<,>,BETWEEN,IN,OR.",
)
RUN = options.flag("--run", "Ask the questions through a session, and show the value or the denial.")

HELP = """Find the fewest questions that give somebody away, or prove that none do.

Sees public columns alone: who there is, with what anybody may know. A question is a SUM of the private column over a
group of at least --min-group people, with conditions on at most --max-columns public columns. For a person you get the
SQL, the formula that turns the answers into the value, and the auditor's confirmation; or the proof that it cannot be
done: who shares all public columns, or a second table that answers every such question alike. Of a private column of
categories (--private "diagnosis=flu,cold"), questions are counts of each category.

With --target all you get one list of questions that gives away as many people as possible: how many, how few questions
could do it at best (proved), a formula for each person, and what the auditor confirms.

\b
Examples
  keyhole plan --data people.csv --id Name --private "Blood sugar" --target "Name = 'Jeremy Doe'"
  keyhole plan --data staff.parquet --id name --private salary --target all --min-group 10

\b
With --run the plan is asked: through the session of -c keyhole.toml (its book, its policy), or without one
through two made for it, an open one, which shows the value, and an audited one, which denies.

\b
Exit code
  0 done, plan or proof; 2 could not run. Ctrl-C keeps what was found: the rest is counted as undecided.
"""


@options.command(
    "plan",
    HELP,
    TARGET,
    options.TABLE_ARGUMENTS,
    MIN_GROUP,
    COLUMNS,
    MAX_COLUMNS,
    OPERATORS,
    RUN,
    options.TIME_LIMIT,
    options.output(Format.TEXT, Format.JSON, Format.HTML),
)
def plan(
    target: str,
    table: TableArguments,
    min_group: int,
    columns: tuple[str, ...],
    max_columns: int,
    operators: str,
    run: bool,
    time_limit: float | None,
    output: OutputArguments,
) -> None:
    """Set up, plan, confirm, play, print."""
    from keyhole.api.plan import ALL, Asking, Plans
    from keyhole.attacks.plan import parse_operators
    from keyhole.config.settings import settings
    from keyhole.report.documents.json_text import dumps
    from keyhole.report.plan import describe_plan, render_plan

    given = settings(**table)
    check_out(output.out)
    listed = tuple(name.strip() for text in columns for name in text.split(",") if name.strip())
    asking = Asking(listed, max_columns, parse_operators(operators), min_group)
    until = None if time_limit is None else time.monotonic() + time_limit
    with progress_on_stderr() as progress, ask_to_stop() as stop:
        progress("looking at all groups", 0, 0)
        plans = Plans(given, asking, lambda: stop.asked or (until is not None and time.monotonic() > until))
        for name in plans.left_out:
            warn(f"column {name!r} is left out: its values cannot be written as constants", "warning")
        if target == ALL:
            progress("one list of questions for everybody", 0, 0)
            _everybody(plans, run, table.get("config"), output)
            return
        found = plans.of(plans.row(target))
    if run:
        found = plans.play(found, table.get("config"))
    if output.format is Format.JSON:
        emit_json(dumps(describe_plan(found)), output.out)
    elif output.format is Format.HTML:
        from keyhole.report.html.attacks import render_plan_page

        emit(render_plan_page(describe_plan(found)), output.out)
    else:
        emit_text("\n".join(render_plan(found, max_columns)), output.out)


def _everybody(plans: Plans, run: bool, config: Config | str | Path | None, output: OutputArguments) -> None:
    import numpy as np

    from keyhole.report.documents.json_text import dumps
    from keyhole.report.plan import describe_overview, render_list, render_overview

    seen, planned = plans.everybody(), plans.together()
    if run:
        planned = plans.play_list(planned, config)
    if output.format is Format.TEXT:
        emit_text("\n".join([*render_overview(seen), *render_list(planned)]), output.out)
    else:
        told = describe_overview(seen, plans.roster.labels(np.arange(plans.roster.n)), planned)
        if output.format is Format.JSON:
            emit_json(dumps(told), output.out)
        else:
            from keyhole.report.html.attacks import render_plans_page

            emit(render_plans_page(told), output.out)
    warn(f"set-up took {seen.seconds:.1f} s, the list {planned.seconds:.1f} s", "plan")
