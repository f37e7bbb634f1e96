"""`keyhole review`: walk through a verdict and sign what is accepted."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import write_whole
from keyhole.errors import ConfigError, NumberError

if TYPE_CHECKING:
    from keyhole.report.documents.tables import TablesDocument
    from keyhole.report.documents.verdict import VerdictDocument
    from keyhole.report.waivers import Matter

HELP = """Walk through a verdict and sign off what is accepted.

VERDICT is what `keyhole audit ... --format json --out verdict.json` wrote. Each finding and each statement that
was not judged is shown with its proof; what you accept goes to the waivers file: a fingerprint, who, when, why,
and until when. It holds no names of people and no values, so it may live beside the statements in git.

\b
Examples
  keyhole review verdict.json --signed-by "A. Officer" --until 2027-06-30
  keyhole review verdict.json --signed-by "A. Officer" --only unjudged --why "dashboard of 2025, retired in May" --yes

A waiver counts for whoever the same statements expose in the same column. With --key FILE (any file of 16
random bytes or more, kept with the data) it counts for that person alone; `audit --accept` then needs the key too.
"""


@options.command(
    "review",
    HELP,
    click.Argument(["verdict"], type=options.FILE),
    click.Option(["--waivers"], type=options.FILE, default=Path("waivers.toml"), show_default=True, help="The file."),
    click.Option(["--signed-by"], help="Who signs."),
    click.Option(["--until"], metavar="DAY", help="The last day on which the waivers hold, such as 2027-01-31."),
    click.Option(["--why"], help="The reason for all that is accepted now; else it is asked each time."),
    click.Option(
        ["--only"],
        multiple=True,
        type=click.Choice(["exposed", "inferred", "group", "unjudged", "refused", "contradiction", "gap"]),
        help="Only matters of this kind. Repeatable.",
    ),
    options.KEY,
    options.YES,
)
def review(
    verdict: Path,
    waivers: Path,
    signed_by: str | None,
    until: str | None,
    why: str | None,
    only: tuple[str, ...],
    key: Path | None,
    yes: bool,
) -> None:
    """Show, ask, write after each answer: what was signed is kept when the walk is broken off."""
    from keyhole.report.waivers import Accepted, Waiver, explain_matters, list_matters, read_waivers, waivers_toml

    document = read_verdict(verdict)
    signed = list(read_waivers(waivers)) if waivers.exists() else []
    today = dt.date.today()
    matters = list_matters(document, read_key(key))
    left = [m for m in Accepted.of(matters, signed, today).left if not only or m.kind in only]
    if not left:
        click.echo("Nothing is left to decide.")
        return
    signer = signed_by or _asked("Who signs?", yes=yes)
    last = _day(until)
    shown: dict[str, list[str]] = {}  # under the name of a matter, which has no fingerprint of a key
    for named, texts in explain_matters(document):
        shown.setdefault(named.about, []).extend(line for text in texts for line in text.splitlines())
    for place, matter in enumerate(left, 1):
        click.echo(f"\n{place} of {len(left)}: {matter.about}")
        for line in shown.get(matter.about, ()):
            click.echo(f"  {line}")
        reason = _decide(matter, why, yes=yes)
        if reason is None:
            continue
        signed.append(Waiver(matter.kind, matter.fingerprint, matter.about, signer, today, reason, last))
        write_whole(waivers, waivers_toml(signed))
    click.echo(f"\n{waivers} holds {len(signed)} {'waiver' if len(signed) == 1 else 'waivers'}.")


def _decide(matter: Matter, why: str | None, *, yes: bool) -> str | None:
    """The reason for which it is accepted; None if it is not."""
    if yes:
        return why or _asked("Why?", yes=True)
    chosen = click.prompt("accept, skip or quit?", type=click.Choice(["a", "s", "q"]), default="s")
    if chosen == "q":
        raise click.exceptions.Exit(0)
    if chosen == "s":
        return None
    reason: str = why or click.prompt("why?", type=str)
    return reason


def _asked(question: str, *, yes: bool) -> str:
    if yes:
        raise ConfigError("--yes asks nothing: give --signed-by NAME and --why REASON")
    answer: str = click.prompt(question, type=str)
    return answer


def _day(text: str | None) -> dt.date | None:
    if text is None:
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"--until is a day such as 2027-01-31, not {text!r}") from None


def read_verdict(path: Path) -> VerdictDocument | TablesDocument:
    """The verdict of a file."""
    from keyhole.report.documents.json_text import read_document, read_json
    from keyhole.report.documents.tables import TablesDocument
    from keyhole.report.documents.verdict import VerdictDocument

    try:
        data = read_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except NumberError as error:
        raise ConfigError(f"{path}: {error}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from None
    try:
        if isinstance(data, dict) and "tables" in data:
            return read_document(data, TablesDocument)
        return read_document(data, VerdictDocument)
    except ValueError:
        raise ConfigError(f"{path} is no verdict: keyhole audit ... --format json --out {path} writes one") from None


def read_key(path: Path | None) -> bytes | None:
    """A key file."""
    if path is None:
        return None
    try:
        key = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the key {path}: {error.strerror}") from None
    if len(key) < 16:
        raise ConfigError(f"the key {path} has {len(key)} bytes; 16 are the least: head -c 32 /dev/urandom > {path}")
    return key
