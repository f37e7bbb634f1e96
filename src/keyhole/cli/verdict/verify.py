"""`keyhole verify`: every proof of a verdict, replayed by a checker that shares nothing with the auditor."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import emit_json, emit_text, exit_with
from keyhole.config import PrivateColumn
from keyhole.config.arguments import Format, TableArguments
from keyhole.errors import ConfigError, DataError

if TYPE_CHECKING:
    from keyhole.config.settings import Settings

HELP = """Replay every proof of a verdict on made-up private values.

VERDICT is the output of keyhole audit --format json. The original statements are run on the people of the data with
private values made up by chance; each proof must give the made-up value of its person, and the claimed value must be
what the printed answers give. Where the verdict says that nobody is missing, that is replayed too: everybody who is not
listed has another value in a second table, on which the log is run.

\b
Examples
  keyhole verify verdict.json --data patients.csv
  keyhole verify verdict.json --log log.sql --data patients.csv --format json

A verdict of audit --no-values or --redact holds no proofs: none of it can be replayed (3). With --log every statement
of a proof must stand in the log. Of an all-clear that is too large to be replayed whole a sample is replayed, another
one in each run; --seed repeats it.

\b
Exit code
  0 all proofs were replayed and hold; 1 a proof fails; 3 some cannot be replayed here; 2 could not run.
"""


@options.command(
    "verify",
    HELP,
    click.Argument(["verdict"], type=options.FILE),
    options.table(options.DATA, options.TABLE, options.CONFIG),
    options.LOG_FILE,
    options.SEED,
    options.formats(Format.TEXT, Format.JSON),
)
def verify(
    verdict: Path,
    table: TableArguments,
    log: Path | None,
    seed: int | None,
    format: Format,  # noqa: A002 - the word of the option
) -> None:
    """Replay, print; the exit code is the outcome."""
    from keyhole.checker.claims import Unreadable
    from keyhole.checker.replay import replay
    from keyhole.checker.report import as_data, lines
    from keyhole.config.settings import settings
    from keyhole.engines.engine import is_url
    from keyhole.report.formats.witness import describe_fact

    config = table["config"]
    if table["data"] is None and config is None:
        raise ConfigError("no data: give --data FILE, the table that was audited, or -c keyhole.toml")
    given = settings(**table)
    with ExitStack() as life:
        plain = _as_file(given, _texts(verdict), life)
        try:
            declared = None if config is None else {name: _declared(c) for name, c in given.columns.private.items()}
            found = replay(
                verdict,
                plain,
                log=log,
                table=None if given.table is None or is_url(given.data) else given.table,
                view=given.view,
                declared=declared,
                unreviewed=given.columns.unreviewed,
                facts=None if config is None else [describe_fact(fact) for fact in given.knowledge().facts],
                seed=seed,
            )
        except Unreadable as error:
            raise DataError(str(error)) from None
    if format is Format.JSON:
        emit_json(json.dumps(as_data(found), indent=2, ensure_ascii=False), None)
    else:
        emit_text("\n".join(lines(found)), None)
    exit_with(found.exit_code)


def _as_file(given: Settings, texts: set[str], life: ExitStack) -> Path:
    """The table as a file that the checker reads; of a database a private copy, gone with `life`."""
    from keyhole.datasets.copy_tables import copy_to_file
    from keyhole.datasets.files.prepare import make_plain
    from keyhole.engines.engine import DataUrl, is_url

    plain = make_plain(given.data, given.config.source, texts, life)
    if not is_url(plain):
        return Path(str(plain))
    return copy_to_file(DataUrl.parse(str(plain)), given.table, given.view, given.config.tables, life)


def _declared(column: PrivateColumn) -> dict[str, Any]:
    """What the settings say of a private column, as a certificate says it."""
    said = {"min": column.min, "max": column.max, "step": column.step, "values": column.values}
    return said | ({"domain": "real"} if column.domain == "real" else {})


def _texts(verdict: Path) -> set[str]:
    """The columns that were judged as text: their commas are no decimals."""
    try:
        kinds = json.loads(verdict.read_bytes())["source"]["kinds"]
        return {name for name, kind in kinds.items() if kind == "text"}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return set()  # the checker says what is wrong with it
