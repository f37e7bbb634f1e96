"""`keyhole audit`: who is exposed by a log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyhole.cli import options
from keyhole.cli.options import Format
from keyhole.cli.progress import progress_on_stderr
from keyhole.cli.terminal import check_out, emit, emit_json, emit_lines, emit_xml, end
from keyhole.errors import LogError

if TYPE_CHECKING:
    from keyhole.logs.open import Log
    from keyhole.report.baseline import Baseline
    from keyhole.report.plain import Plain
    from keyhole.report.verdict import Verdict

SHOWN = 20

HELP = """Prove who is exposed by a log of aggregate queries.

LOG is a .sql file (statements; the answers are computed from the data), a .jsonl transcript
(one {"sql": ..., "answer": ...} a line), the query history of PostgreSQL, DuckDB, BigQuery, Snowflake,
dbt, Metabase or Superset, or - for standard input.

\b
Examples
  keyhole audit log.sql --data patients.csv --id Name --private "Blood sugar"
  keyhole audit transcript.jsonl --data roster.csv --id Name --private salary:0..500000:1 --format json
  keyhole audit log.sql -c keyhole.toml --group-size 3 --out verdict.json --format json
  keyhole audit log.sql --data staff.csv --private salary:0..500000 --within 5% --knowledge facts.toml
  keyhole audit postgresql.csv --data staff.parquet --private salary --log-format postgres-csvlog
  keyhole audit log.sql -c keyhole.toml --baseline verdict.json --format sarif --out keyhole.sarif

\b
Exit code
  0 nobody is exposed, every statement was judged, and the verdict is complete
  1 somebody is exposed or narrowed down (with --baseline: newly)
  3 nobody is, but some statement was refused or not judged, there was none to judge, or the rules that
    judged it can miss something (the text says why)
  2 could not run
"""


def audit(
    log: str,
    data: Path | None,
    table: str | None,
    view: str | None,
    id: tuple[str, ...],  # noqa: A002 - the word of the contract
    private: tuple[str, ...],
    hidden: tuple[str, ...],
    config: Path | None,
    log_format: str,
    dialect: str | None,
    group_size: int,
    rounding: str | None,
    within: str | None,
    time_limit: float | None,
    knowledge: Path | None,
    baseline: Path | None,
    format: Format,  # noqa: A002 - the word of the option
    out: Path | None,
    proof_sql: Path | None,
    progress: bool,
) -> None:
    """Read, examine, print; the exit code is the verdict."""
    from keyhole.logs.detect import LogFormat
    from keyhole.logs.fold import fold_log
    from keyhole.sql import Dialect
    from keyhole.verbs.examine import examine

    check_out(out)
    known = None
    if baseline is not None:
        from keyhole.report.baseline import Baseline

        known = Baseline.load(baseline)
    with progress_on_stderr(progress) as said:
        engine = None if dialect is None else Dialect(dialect)
        read = fold_log(log if log == "-" else Path(log), LogFormat(log_format), engine, said)
        if not (read.lines or read.refused or read.unjudged or read.passed or read.failed):
            raise LogError(f"{read.name} holds no statement, so there is nothing to audit. Is it the right file?")
        verdict = examine(
            read,
            data=data,
            private=private,
            id=id,
            hidden=hidden,
            table=table,
            view=view,
            group_size=group_size,
            rounding=rounding,
            within=within,
            time_limit=time_limit,
            config=config if config is not None else knowledge,
            progress=said,
        )
    show(verdict, read, known, format, out)
    if proof_sql is not None:
        from keyhole.report.proof_sql import proof_sql as script

        emit(script(verdict.plain), proof_sql)
    end(verdict.exit_code if known is None else known.exit_code(verdict.plain))


def show(verdict: Verdict, log: Log, known: Baseline | None, how: Format, out: Path | None) -> None:
    """Print the verdict, or write it to a file."""
    if how is Format.JSON:
        from keyhole.report.as_json import dumps
        from keyhole.report.baseline import mark

        data = verdict.to_json()
        emit_json(dumps(data if known is None else mark(data, verdict.plain, known)), out)
    elif how is Format.SARIF:
        from keyhole.report.sarif import sarif

        emit_json(sarif(verdict.plain, log, known), out)
    elif how is Format.JUNIT:
        from keyhole.report.junit import junit

        emit_xml(junit(verdict.plain, log, known), out)
    else:
        from keyhole.report.text import lines

        emit_lines([*lines(verdict.plain), *(() if known is None else _compared(verdict.plain, known))], out)


def _compared(verdict: Plain, known: Baseline) -> Iterator[tuple[str, str]]:
    """Who is new against the baseline, and who was known."""
    from keyhole.report.baseline import fresh
    from keyhole.report.text import without_value

    new = fresh(verdict.cases, known)
    old = [case for case in verdict.cases if known.knows(case)]
    yield "", ""
    yield f"Against the baseline: {len(new)} new, {len(old)} known.", "bold"
    for word, listed in (("new", new), ("known", old)):
        yield from ((f"  {word}: {without_value(each)}", "") for each in listed[:SHOWN])
        if len(listed) > SHOWN:
            yield f"  ... and {len(listed) - SHOWN} more {word} (--format json lists all)", ""


command = click.Command(
    "audit",
    callback=audit,
    help=HELP,
    params=[
        click.Argument(["log"]),
        *options.TABLE_OPTIONS,
        options.LOG_FORMAT,
        options.DIALECT,
        options.GROUP_SIZE,
        options.ROUNDING,
        options.WITHIN,
        options.TIME_LIMIT,
        options.KNOWLEDGE,
        options.BASELINE,
        options.formats(Format.TEXT, Format.JSON, Format.SARIF, Format.JUNIT),
        options.OUT,
        options.PROOF_SQL,
        options.PROGRESS,
    ],
)
