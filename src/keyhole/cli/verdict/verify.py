"""`keyhole verify`: every proof of a verdict, replayed by a checker that shares nothing with the auditor."""

from __future__ import annotations

import json
from pathlib import Path

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import emit_json, emit_text, exit_with
from keyhole.config.arguments import Format, TableArguments

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
    from keyhole.api.verify import verify as verify_verdict
    from keyhole.checker.report import as_data, lines

    found = verify_verdict(verdict, log=log, seed=seed, **table)
    if format is Format.JSON:
        emit_json(json.dumps(as_data(found), indent=2, ensure_ascii=False), None)
    else:
        emit_text("\n".join(lines(found)), None)
    exit_with(found.exit_code)
