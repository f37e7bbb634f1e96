"""`keyhole watch`: allow or deny each statement before it is answered."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console

from keyhole.audit.examine import merged
from keyhole.audit.history import UNJUDGED
from keyhole.audit.online import Admission, OnlineAuditor
from keyhole.cli.terminal import errors_end_well
from keyhole.errors import LogError
from keyhole.gather.log import LogFormat, open_log
from keyhole.knowledge import Config
from keyhole.sql import split
from keyhole.tables.fingerprint import fingerprint
from keyhole.tables.open import Use, open_table


class Format(StrEnum):
    """How verdicts are written."""

    TEXT = "text"
    JSON = "json"


HELP = """Decide before each answer whether it would expose anybody, given everything answered so far.

Reads SQL statements from standard input, one after another (each ends with a semicolon; or JSON lines
{"sql": ...}), and prints [bold]allow[/], [bold]deny[/] or [bold]refused[/] for each at once. What is allowed counts as
answered from then on, and is in the history file before it is printed. No decision looks at a private value; they
are read once, to notice that one changed since the history began.

[bold]Examples[/]

  keyhole watch -c keyhole.toml < log.sql

  keyhole watch --data people.csv --id Name --private "Blood sugar" --history history.keyhole --insiders 1

  keyhole watch -c keyhole.toml --load published.sql --format json --explain

[bold]Exit code[/]  0 done; 2 could not run.
"""


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("watch", help=HELP)(watch)


def watch(
    data: Annotated[
        Path | None, typer.Option(help="The table: .csv, .tsv, .parquet, .json or .duckdb, one row per person.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="Table name (default: the file stem; then any FROM name fits).")
    ] = None,
    view: Annotated[
        str | None, typer.Option(help="A SELECT over the file that gives one row per person, for joins and sums.")
    ] = None,
    id: Annotated[list[str] | None, typer.Option(help="Column that names the person. Repeatable.")] = None,  # noqa: A002
    private: Annotated[
        list[str] | None,
        typer.Option(metavar="COL[:min..max[:step]]", help="Private column. Repeatable."),
    ] = None,
    hidden: Annotated[
        list[str] | None, typer.Option(help="Column nobody knows and nobody asks about. Repeatable.")
    ] = None,
    history: Annotated[
        Path | None, typer.Option(help="What was answered, kept from run to run; begun if it does not exist.")
    ] = None,
    insiders: Annotated[
        int | None,
        typer.Option(min=0, max=1, help="1: nobody may be exposed to any one other participant either (recommended)."),
    ] = None,
    load: Annotated[
        list[Path] | None, typer.Option(help="A log of what was published earlier: it counts too. Repeatable.")
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="What the --load files were written by.")] = LogFormat.AUTO,
    same_values: Annotated[
        bool,
        typer.Option(
            "--same-values", help="You vouch that no private value changed since the history began; it has no digest."
        ),
    ] = False,
    accept_unjudged: Annotated[
        bool, typer.Option("--accept-unjudged", help="Go on although no verdict accounts for some of --load.")
    ] = False,
    format: Annotated[Format, typer.Option(help="Text for people, JSON lines for machines.")] = Format.TEXT,  # noqa: A002
    explain: Annotated[
        bool, typer.Option("--explain", help="Also say whom and by which proof; for the custodian, not the analyst.")
    ] = False,
    config: Annotated[Path | None, typer.Option("-c", "--config", help="Settings; options here override them.")] = None,
) -> None:
    """Open roster and history, then decide statement by statement."""
    with errors_end_well():
        settings = Config.load(config) if config is not None else Config()
        settings = merged(settings, private=private or (), id=id or (), hidden=hidden or ())
        auditor = _auditor(settings, data, table, view, history, insiders, same_values)
        _remind(auditor)
        try:
            for path in load or ():
                _earlier(auditor, path, log_format, accept_unjudged)
            _decide(auditor, format, explain)
        except KeyboardInterrupt:
            Console(stderr=True).print("stopped; what was allowed is in the history")
            raise typer.Exit(130) from None
        except UnicodeDecodeError:
            raise LogError("standard input is not UTF-8 text") from None
        except BrokenPipeError:  # nobody reads on: what was allowed is in the history all the same
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        finally:
            auditor.close()


def _decide(auditor: OnlineAuditor, how: Format, explain: bool) -> None:
    """Statement by statement, each verdict printed before the next statement is read."""
    if isinstance(sys.stdin, io.TextIOWrapper):  # some locales would let bytes through that are not text
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    for sql in incoming(sys.stdin):
        verdict = auditor.admit(sql) if explain else auditor.decide(sql)  # a proof costs more than its decision
        if verdict.allowed:
            auditor.record(sql)  # durable before anybody is told
        else:
            auditor.seen()
        if sql.startswith("{"):  # no statement of SQL does
            verdict = replace(verdict, reason='a JSON line has the statement as text: {"sql": "SELECT ..."}')
        for line in shown(verdict, how, explain):
            sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _auditor(
    settings: Config,
    data: Path | None,
    table: str | None,
    view: str | None,
    history: Path | None,
    insiders: int | None,
    same_values: bool,
) -> OnlineAuditor:
    opened = open_table(settings, Use.WATCH, data=data, table=table, view=view)
    roster = opened.roster
    families = {name: column.family for name, column in settings.columns.private.items()}
    known = insiders if insiders is not None else settings.online.insiders
    path = history if history is not None else settings.online.history
    if path is None:
        note = "no history file, so what is allowed now is forgotten at the end: give --history FILE"
        Console(stderr=True, highlight=False).print(f"[yellow]keyhole:[/] {note}", soft_wrap=True)
        return OnlineAuditor(roster, insiders=known, families=families)
    if opened.absent:
        absent = ", ".join(repr(name) for name in opened.absent)
        note = (
            f"the data has no {absent}: a change of private values cannot be noticed, and the same question before and "
            "after one tells it"
        )
        Console(stderr=True, highlight=False).print(f"keyhole: {note}", soft_wrap=True, markup=False)
    return OnlineAuditor.open(
        path,
        roster,
        fingerprint(roster),
        version=opened.version,
        insiders=known,
        families=families,
        values=opened.seal,
        vouched=same_values,
    )


def _remind(auditor: OnlineAuditor) -> None:
    """What was accepted once is not accounted for later either: say so at each start."""
    left = [past for past in auditor.past if past.how == UNJUDGED]
    if left:
        count = "1 publication" if len(left) == 1 else f"{len(left)} publications"
        named = ", ".join(f"Q{past.number}" for past in left[:10]) + (", ..." if len(left) > 10 else "")
        note = f"the history has {count} that no verdict accounts for ({named}; accepted with --accept-unjudged)"
        Console(stderr=True, highlight=False).print(f"keyhole: {note}", soft_wrap=True, markup=False)


def _earlier(auditor: OnlineAuditor, path: Path, kind: LogFormat, accept: bool) -> None:
    """Load a log of earlier publications; what cannot be represented stops us unless it was accepted."""
    log = open_log(path, kind)
    had = {past.sql for past in auditor.past}
    left = (*(r for r in log.refused if r.sql not in had), *auditor.unjudged(log.lines))
    count = "1 statement" if len(left) == 1 else f"{len(left)} statements"
    listed = "\n".join(f"  Q{r.number}: {r.error.splitlines()[0]}: {' '.join(r.sql.split())[:100]}" for r in left[:10])
    if len(left) > 10:
        listed += f"\n  ... and {len(left) - 10} more"
    if left and not accept:
        raise LogError(
            f"{count} of {path} cannot be taken into the history, so no verdict would account for "
            f"them:\n{listed}\nTake them out of the log if they gave nothing away, or go on with --accept-unjudged"
        )
    if left:
        Console(stderr=True, highlight=False).print(
            f"keyhole: {count} of {path}: no verdict accounts for\n{listed}", soft_wrap=True, markup=False
        )
    auditor.load(log.lines, log.refused)


def incoming(stream: TextIO | Iterable[str]) -> Iterator[str]:
    """Statements as they come: each as soon as the line that ends it was read; the last one may lack its semicolon.

    >>> list(incoming(["SELECT 1; SELECT\\n", "2;\\n", '{"sql": "SELECT 3"}\\n', "SELECT 4"]))
    ['SELECT 1', 'SELECT\\n2', 'SELECT 3', 'SELECT 4']
    """
    waiting = ""
    for line in stream:
        if not waiting.strip() and line.lstrip()[:1] == "{":
            yield _from_json(line)
            continue
        waiting += line
        if ";" not in line and waiting.strip():
            continue
        parts = split(waiting + "\n_")  # a word behind the end: does it begin a statement of its own?
        whole = parts[:-1] if parts else []
        yield from (part.sql for part in whole)
        last = parts[-1] if parts else None
        waiting = "" if last is None or last.sql == "_" else _from(waiting, last.line, last.column)
    yield from (part.sql for part in split(waiting))


def _from(text: str, line: int, column: int) -> str:
    return "".join(text.splitlines(keepends=True)[line - 1 :])[column - 1 :]


def _from_json(line: str) -> str:
    try:
        raw = json.loads(line)
    except ValueError:
        return line.strip()  # refused, with what is wrong
    sql = raw.get("sql") if isinstance(raw, dict) else None
    return sql if isinstance(sql, str) else line.strip()


def shown(verdict: Admission, how: Format, explain: bool) -> Iterator[str]:
    """A verdict as lines of output."""
    if how is Format.JSON:
        yield json.dumps(verdict.to_json(explain=explain), ensure_ascii=False, default=str)
        return
    yield f"Q{verdict.number} {verdict.verdict}: {verdict.reason}"
    if not explain:
        return
    for item in verdict.who:
        to = f", to {_name(item.insider)}" if item.insider is not None else ""
        yield f"  exposed: {_name(item.record)}'s {item.column}{to}"
    steps = verdict.steps()
    if steps:
        first = verdict.who[0]
        rest = f" + a multiple of {_name(first.insider)}'s" if first.insider is not None else ""
        yield f"  proof: {_formula(steps)} = {_name(first.record)}'s {first.column}{rest}"
        for step in steps:
            if "query" in step:
                yield f"    Q{step['query']}: {' '.join(str(step['sql']).split())}"
        if any("of" in item for item in steps):
            yield "    (a number made of several private sums counts as telling each of them: meant is the sum named)"


def _name(record: Mapping[str, object]) -> str:
    return ", ".join(f"row {v}" if k == "row" else str(v) for k, v in record.items())


def _formula(steps: list[dict[str, Any]]) -> str:
    text = ""
    for item in steps:
        weight = Fraction(item["known"] if "known" in item else item["weight"])
        size = abs(weight)
        asked = f"({item['of']} in Q{item['query']})" if "of" in item else f"Q{item.get('query')}"
        name = str(size) if "known" in item else asked if size == 1 else f"{size} {asked}"
        sign = "-" if weight < 0 else "+"
        text += f" {sign} {name}" if text else f"-{name}" if weight < 0 else name
    return text
