"""`keyhole init`: from a file to settings, with a few questions or none."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyhole.cli.setup.engine import engine
from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import check_out, emit, emit_json, warn, write_whole
from keyhole.config.arguments import Format, OutputArguments, TableArguments
from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from keyhole.api.column_roles import Proposed
    from keyhole.api.init import Proposal
    from keyhole.config import PrivateColumn

HELP = """Look at a file or database and propose a keyhole.toml.

It says who is who: which column names a person, which are private, which nobody may ask about; all others are public.
A column whose name it does not know gets `reviewed = false`: `keyhole audit` judges it both ways, as public and as
private, and gives no all-clear until you have looked at it and written `reviewed = true`.
Of private columns it writes name and kind, and never a value or a bound from the data: what everybody knows of them
(min, max, step, values) is asked for, or given with --bounds. DATA may be a .duckdb file or a folder with several
tables.

\b
Examples
  keyhole init patients.csv
  keyhole init staff.xlsx --yes --bounds bounds.toml --out staff.toml

\b
Exit code
  0 the settings were written; 2 could not run (a file that is there is never written over without --force,
  and nothing is written if the input ends before the questions do); 130 interrupted.
"""

FORCE = options.flag("--force", "Write over settings that are there.")
BOUNDS = click.Option(
    ["--bounds"],
    type=options.FILE,
    help="A TOML file: what is known of private columns ([columns.private.NAME]), and how DATA is written ([source]).",
)


@options.command(
    "init",
    HELP,
    click.Argument(["data"], type=options.DATA_FILE),
    options.table(options.TABLE, options.ID, options.PRIVATE, options.HIDDEN),
    BOUNDS,
    options.LOG_FILE,
    options.YES,
    FORCE,
    options.output(Format.TEXT, Format.JSON),
    parts={"engine": engine},
)
def init(
    table: TableArguments,
    bounds: Path | None,
    log: Path | None,
    yes: bool,
    force: bool,
    output: OutputArguments,
) -> None:
    """Look, propose, ask, write."""
    from keyhole.api.init import NamesInLog, elsewhere, names_in_log, proposal, toml, unsure
    from keyhole.config import Columns, Config, parse_private
    from keyhole.config.settings import FILE
    from keyhole.datasets.survey import Survey
    from keyhole.engines.engine import is_url
    from keyhole.model.schema import Role

    at = output.out if output.out is not None else Path(FILE)
    check_out(at)
    if at.exists() and not force:
        raise ConfigError(f"{at} is there already: nothing was written. Name another file with --out, or say --force")
    said = dict(parse_private(text) for text in table["private"])
    known = Config() if bounds is None else Config.load(bounds)
    roles = dict.fromkeys(said, Role.PRIVATE) | dict.fromkeys(table["id"], Role.ID)
    roles |= dict.fromkeys(table["hidden"], Role.HIDDEN)
    bare = {n: c for n, c in said.items() if c == type(c)()}
    with ExitStack() as life:
        data, named = table["data"], table["table"]
        where = str(data) if is_url(data) else Path(str(data))
        survey = Survey(where, known.source, life, named)  # its [source] may say how the file is written
        if named is not None and is_url(data):
            named = next(iter(survey.tables))
        if named is not None and named not in survey.tables:
            raise ConfigError(f"{survey.name} has no table {named!r}; it has {', '.join(survey.tables)}")
        given = {**known.columns.private, **{n: c for n, c in said.items() if n not in bare}}
        made = proposal(survey, table=named, roles=roles, bounds=Config(columns=Columns(private=given)))
        if named is None and unsure(survey):
            warn(f"which table has the people is a guess: {made.table.name}; --table names another")
        if not yes:
            try:
                made = _asked(made)
            except click.Abort as ended:
                if not isinstance(ended.__context__, EOFError):
                    raise  # Ctrl-C
                raise ConfigError(
                    "the input ended before the questions did, so nothing was written: answer them, or take what is "
                    "proposed with --yes"
                ) from None
        named_in_log = NamesInLog() if log is None else names_in_log(log, made)
        text = toml(made, at, named_in_log)
        Config.parse(text, str(at))  # what is written can be read
        write_whole(at, text)
        told = [(name, str(made.table.column(name).kind), p) for name, p in made.roles.items()]
        seen = made.table.rows
        instead = elsewhere(made)
        bare_of_secrets = not made.of(Role.PRIVATE) and len(survey.tables) == 1
    if bare_of_secrets:
        instead = ("No column looks private, and without one there is nothing to protect: name it with --private COL.",)
    if named_in_log:
        listed = ", ".join((*named_in_log.alike, *named_in_log.others))
        instead = (*instead, f"The log names other tables: {listed}. Say under [source] in {at} what they are.")
    if unreviewed := [name for name, _, p in told if p.guessed]:
        instead = (*instead, _look_at(unreviewed, at))
    _report_settings(output.format, at, seen, told, instead)


def _report_settings(
    how: Format, at: Path, seen: int, told: list[tuple[str, str, Proposed]], more: tuple[str, ...]
) -> None:
    """Say what was written: the role of each column, what to do instead, and what comes next."""
    if how is Format.JSON:
        import json

        columns = [
            {"column": n, "kind": k, "role": str(p.role), "why": p.why, "reviewed": not p.guessed} for n, k, p in told
        ]
        data = {"written": str(at), "rows": seen, "columns": columns} | ({"instead": " ".join(more)} if more else {})
        emit_json(json.dumps(data, indent=2, ensure_ascii=False), None)
        return
    wide, kinds = max(len(n) for n, _, _ in told), max(len(k) for _, k, _ in told)
    lines = [f"{name:<{wide}}  {kind:<{kinds}}  {p.role!s:<7}  {p.why}" for name, kind, p in told]
    emit("\n".join([f"{seen} rows, {len(told)} columns", *lines, *more, *_next(at)]), None)


def _look_at(names: list[str], at: Path) -> str:
    """What to do about columns whose role is a guess."""
    guess, them = ("their roles are guesses", "they are") if len(names) > 1 else ("its role is a guess", "it is")
    return (
        f"Not reviewed: {', '.join(names)}: {guess}. Correct {at} and write reviewed = true there; until then {them} "
        "judged both ways, and no verdict is an all-clear."
    )


def _next(at: Path) -> tuple[str, str]:
    """What to do with the file that was written."""
    return (
        f"written to {at}: read it through, then keyhole audit LOG.sql -c {at}",
        f'  or, for answers that are safe to give, keyhole ask -c {at} "SELECT ..."',
    )


def _asked(made: Proposal) -> Proposal:
    """The proposal after a few questions; an empty answer takes what is proposed.

    The columns that a question or an answer names are reviewed by that; nobody has looked at the others.
    """
    from keyhole.api.init import proposal
    from keyhole.config import Columns, Config
    from keyhole.model.schema import Role

    roles = {name: p.role for name, p in made.roles.items()}
    seen: set[str] = set()
    for role, question in (
        (Role.ID, "Which columns name a person"),
        (Role.PRIVATE, "Which columns are private (nobody should learn them)"),
        (Role.HIDDEN, "Which columns does nobody ask about"),
    ):
        now = [name for name, r in roles.items() if r is role]
        answer = click.prompt(question, default=", ".join(now) or "none", err=True)
        chosen = [] if answer.strip() in ("none", "-") else [part.strip() for part in answer.split(",") if part.strip()]
        for name in chosen:
            made.table.column(name)
        roles |= dict.fromkeys(now, Role.PUBLIC) | dict.fromkeys(chosen, role)
        seen |= {*now, *chosen}
    known = {name: column for name, column in made.known.items() if roles[name] is Role.PRIVATE}
    for name in (n for n, r in roles.items() if r is Role.PRIVATE and n not in known):
        column = _ask_values(name, is_number=made.table.column(name).kind.numeric)
        if column is not None:
            known[name] = column
    bounds = Config(columns=Columns(private=known))
    answered = proposal(made.survey, table=made.table.name, roles=roles, bounds=bounds)
    guesses = {name: made.roles[name] for name in made.unreviewed if name not in seen}
    return replace(answered, roles={**answered.roles, **guesses})


def _ask_values(name: str, *, is_number: bool) -> PrivateColumn | None:
    """What everybody knows of a private column; asked again until it is understood, None if it is nothing."""
    from keyhole.config.short_form import parse_known_values

    forms = "min..max, min..max:step, values 0,1,2, or real (any number)" if is_number else "values a,b,c"
    while True:
        answer = click.prompt(f"What does everybody know of {name}? {forms}", default="nothing", err=True).strip()
        if answer.lower() in ("nothing", "?"):
            return None
        try:
            return parse_known_values(name, answer, is_number=is_number)
        except ConfigError as error:
            warn(str(error))
