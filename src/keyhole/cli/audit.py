"""`keyhole audit`: who is exposed by a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.progress import Said, progress_on_stderr
from keyhole.cli.shared.terminal import exit_with
from keyhole.cli.shared.verdict_output import Signing, VerdictOutput, Withholding
from keyhole.cli.verdict.review import read_key
from keyhole.config.arguments import Detail, Format, OutputArguments, TableArguments
from keyhole.errors import ConfigError, LogError

if TYPE_CHECKING:
    from keyhole.api.advice import RuleCheck
    from keyhole.auditing.clock import Deadline
    from keyhole.cli.shared.advising import Additions
    from keyhole.logs.open import Log
    from keyhole.report.verdict import Verdict

NO_TIME = "the time limit was reached while the log was read: give it more (--time-limit)"
HELP = """Prove who is exposed by a log of aggregate queries.

LOG is a .sql file (the answers are computed from the data), a .jsonl transcript (one {"sql": ..., "answer": ...}
a line), the query history of a database or a dashboard (--log-format), or - for standard input.

\b
Examples
  keyhole audit log.sql --data patients.csv --id Name --private "Blood sugar"
  keyhole audit log.sql -c keyhole.toml --advise --format html --out report.html

\b
Exit code
  0 nobody is exposed, every statement was judged, and the verdict is complete
  1 somebody is exposed, or something new is known of somebody
  3 nobody is, but something was not judged or proved; the text says what
  2 could not run
"""


@options.command(
    "audit",
    HELP,
    click.Argument(["log"]),
    options.TABLE_ARGUMENTS,
    options.LOG_FORMAT,
    options.DIALECT,
    options.NOW,
    options.GROUP_SIZE,
    options.AMONG,
    options.ROUNDING,
    options.WITHIN,
    options.TIME_LIMIT,
    options.BASELINE,
    options.output(Format.TEXT, Format.JSON, Format.SARIF, Format.JUNIT, Format.HTML, Format.BASELINE),
    options.DETAIL,
    options.PROOF_SQL,
    options.NO_VALUES,
    options.REDACT,
    options.ACCEPT,
    options.FAIL_ON,
    options.KEY,
    options.BY_ANALYST,
    options.PROGRESS,
    options.RULE,
    options.ADVISE,
)
def audit(
    log: str,
    table: TableArguments,
    log_format: str,
    dialect: str | None,
    now: str | None,
    group_size: int,
    among: int | None,
    rounding: str | None,
    within: str | None,
    time_limit: float | None,
    baseline: Path | None,
    output: OutputArguments,
    detail: Detail,
    proof_sql: Path | None,
    no_values: bool,
    redact: bool,
    accept: Path | None,
    fail_on: str,
    key: Path | None,
    by: str | None,
    progress: bool,
    rule: tuple[str, ...],
    advise: bool,
) -> None:
    """Read, examine, print; the exit code is the verdict."""
    from keyhole.api.audit import audit as audit_log
    from keyhole.auditing.clock import Deadline

    _check_format(output.format, {"--by": by is not None, "--advise": advise, "--rule": bool(rule)})
    if redact and rule:
        raise ConfigError("--rule names groups of people: leave it away with --redact")
    secret = read_key(key)
    shown = VerdictOutput.of(output, proof_sql, baseline, Withholding(no_values, redact), secret, detail)
    signing = Signing.of(accept, fail_on, secret, baseline, used=output.format is Format.BASELINE)
    clock = Deadline(time_limit)
    with progress_on_stderr(progress) as said:
        read = _read_in_time(clock, partial(_read, log, log_format, dialect, table, said))
        limits: dict[str, Any] = {"group_size": group_size, "within": within, "time_limit": clock}
        how: dict[str, Any] = {"rounding": rounding, "now": now, "progress": said, "among": among}
        again = partial(audit_log, **how, **limits, **table)
        verdict = audit_log(read, by=by, **how, **limits, **table)
        additions = _find_additions(read, verdict, again, table, limits, rule, advise=advise)
    counted = None if signing is None else signing.count(verdict)
    shown.show(verdict, read, counted, additions, None if log == "-" or "://" in log else Path(log))
    exit_with(additions.exit_code(shown.exit_code(verdict) if counted is None else counted.exit_code))


def _check_format(how: Format, asked: Mapping[str, bool]) -> None:
    """What was asked for beside the verdict is shown in the format, or it is an error."""
    for option, wanted in asked.items():
        pipeline = option == "--by" and how in (Format.SARIF, Format.JUNIT)
        if wanted and not pipeline and how not in (Format.TEXT, Format.JSON, Format.HTML):
            shown = "text, JSON, HTML, SARIF or JUnit" if option == "--by" else "text, JSON or HTML"
            raise ConfigError(f"{option} is shown as {shown}, not as {how}")


def _find_additions(
    read: Log,
    verdict: Verdict,
    again: Callable[[Log], Verdict],
    table: TableArguments,
    limits: Mapping[str, Any],
    rule: tuple[str, ...],
    *,
    advise: bool,
) -> Additions:
    """What goes beside the verdict, as far as it was asked for."""
    from keyhole.cli.shared.advising import Additions

    advice, no_advice = None, ""
    checks: tuple[RuleCheck, ...] = ()
    if advise:
        from keyhole.api.advice import advise as advised
        from keyhole.auditing.clock import interrupted

        if interrupted(verdict.exposure):
            no_advice = f"No advice was sought: {verdict.exposure.gap}."
        else:
            advice = advised(read, verdict, again, **limits)
    if rule:
        from keyhole.api.advice import check_rules
        from keyhole.api.open import open as opened
        from keyhole.crosstab.sensitivity import SensitivityRule

        rules = [SensitivityRule.parse(text) for text in rule]
        checks = check_rules(verdict.exposure, opened(**table), rules)
    return Additions(advice, checks, no_advice)


def _read_in_time(clock: Deadline, reading: Callable[[], Log]) -> Log:
    """The log; an error if the time is up before the file is read."""
    try:
        with clock.ringing():
            return reading()
    except KeyboardInterrupt:
        if clock.rang:
            raise LogError(NO_TIME) from None
        raise


def _read(log: str, log_format: str, dialect: str | None, table: TableArguments, said: Said) -> Log:
    """The log, with repeats folded; where it does not say what it was written for, it is the engine of the data."""
    from keyhole.config.settings import settings
    from keyhole.engines.engine import dialect_of
    from keyhole.logs.fold import fold_log
    from keyhole.logs.importers import LogFormat
    from keyhole.logs.open import is_book
    from keyhole.sql import Dialect

    engine = None if dialect is None else Dialect(dialect)
    usual = Dialect(dialect_of(settings(**table).data) or Dialect.DUCKDB)
    read = fold_log(log if log == "-" or is_book(log) else Path(log), LogFormat(log_format), engine, said, usual)
    if not (read.lines or read.refused or read.unjudged or read.passed or read.failed):
        raise LogError(f"{read.name} holds no statement, so there is nothing to audit. Is it the right file?")
    return read
