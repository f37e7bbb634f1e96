"""How a verdict leaves `keyhole audit`: format, file, what is withheld, what it is compared with, what counts for the
exit code.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyhole.cli.shared.terminal import check_out, emit, emit_json, emit_lines, emit_xml
from keyhole.config.arguments import SCREEN, Detail, Format, OutputArguments
from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from keyhole.cli.shared.advising import Additions
    from keyhole.logs.open import Log
    from keyhole.report.cases import PlainVerdict
    from keyhole.report.documents.verdict import SignedOff
    from keyhole.report.formats.baseline import Baseline
    from keyhole.report.formats.redacted import Withheld
    from keyhole.report.formats.sarif import Views
    from keyhole.report.verdict import Verdict
    from keyhole.report.waivers import FailOn, Waiver

SHOWN = 20


@dataclass(frozen=True, slots=True)
class Withholding:
    """--no-values and --redact."""

    values: bool
    everything: bool

    @property
    def what(self) -> Withheld | None:
        """What is taken out."""
        from keyhole.report.formats.redacted import Withheld

        return Withheld.ALL if self.everything else Withheld.VALUES if self.values else None

    def of(self, verdict: Verdict, log: Log) -> tuple[Verdict, Log]:
        """Both as they may be shown."""
        what = self.what
        if what is None:
            return verdict, log
        from keyhole.report.formats.redacted import redacted_log

        return verdict.without(what), redacted_log(log, what, verdict.plain.source.kinds)


@dataclass(frozen=True, slots=True)
class VerdictOutput:
    """Where a verdict goes, and how."""

    how: Format
    out: Path | None
    proof_sql: Path | None
    known: Baseline | None
    withholding: Withholding
    key: bytes | None = None
    detail: Detail = SCREEN

    @classmethod
    def of(
        cls,
        output: OutputArguments,
        proof_sql: Path | None,
        baseline: Path | None,
        withholding: Withholding,
        key: bytes | None = None,
        detail: Detail = SCREEN,
    ) -> VerdictOutput:
        """As the options say; what cannot be written is said before anything is read."""
        check_out(output.out)
        if proof_sql is not None and (withholding.values or withholding.everything):
            raise ConfigError("--proof-sql writes statements and answers: leave it away with --no-values and --redact")
        if baseline is not None and withholding.everything and output.format is not Format.TEXT:
            raise ConfigError(
                "--redact takes the names out by which --baseline knows people: use --format text, or waivers"
            )
        known = None
        if baseline is not None:
            from keyhole.report.formats.baseline import Baseline

            known = Baseline.load(baseline, key)
        return cls(output.format, output.out, proof_sql, known, withholding, key, detail)

    def exit_code(self, verdict: Verdict) -> int:
        """The verdict's, or that of what is new."""
        return verdict.exit_code if self.known is None else self.known.exit_code(verdict.plain)

    def show(
        self,
        verdict: Verdict,
        log: Log,
        counted: WaivedVerdict | None = None,
        additions: Additions | None = None,
        file: Path | None = None,
    ) -> None:
        """Print the verdict, or write it to a file, with what goes beside it; `file` is the log's."""
        said = () if counted is None else counted.said
        if self.how is Format.BASELINE:
            from keyhole.report.documents.json_text import dumps
            from keyhole.report.formats.baseline import baseline_json

            emit_json(dumps(baseline_json(verdict.plain, self.key)), self.out)
            return
        known = None if self.known is None else self.known.against(verdict.plain)
        told, read = self.withholding.of(verdict, log)
        additions = None if additions is None else additions.without(self.withholding.what, verdict.plain.source.kinds)
        if self.how is Format.JSON:
            self._json(told, known, counted, additions)
        elif self.how is Format.HTML:
            from msgspec.structs import replace as replace_fields

            compared = () if known is None else _compared(verdict.plain, told.plain, known)
            lines = [*said, *(line for line, _ in compared if line)]
            document = told.document() if additions is None else additions.add_to(told.document())
            if self.withholding.what is None:  # a digest can be guessed at
                document = replace_fields(document, log_sha256=_digest(file))
            emit(told.to_html(read.name, lines, document), self.out)
        elif self.how is Format.TEXT:
            compared = () if known is None else _compared(verdict.plain, told.plain, known)
            signed = [("", ""), *((line, "bold") for line in said)] if said else []
            more = () if additions is None else additions.lines()
            emit_lines([*told.lines(self.detail), *compared, *signed, *more], self.out)
        else:
            self._for_pipelines(told, read, said, known, _views(told, log, read))
        if self.proof_sql is not None:
            from keyhole.report.formats.proof_sql import proof_sql

            emit(proof_sql(verdict.plain), self.proof_sql)

    def _json(
        self, verdict: Verdict, known: Baseline | None, counted: WaivedVerdict | None, additions: Additions | None
    ) -> None:
        from msgspec.structs import replace as replace_fields

        from keyhole.report.documents.json_text import dumps
        from keyhole.report.formats.baseline import mark_known

        document = verdict.replayable()
        if counted is not None:
            document = replace_fields(document, accepted=counted.signed_off)
        if additions is not None:
            document = additions.add_to(document)
        emit_json(dumps(document if known is None else mark_known(document, verdict.plain, known)), self.out)

    def _for_pipelines(
        self, verdict: Verdict, log: Log, said: tuple[str, ...], known: Baseline | None, views: Views
    ) -> None:
        for line in said:
            click.echo(line, err=True)
        if self.how is Format.SARIF:
            from keyhole.report.formats.sarif import sarif

            emit_json(sarif(verdict.plain, log, known, views), self.out)
        else:
            from keyhole.report.formats.junit import junit

            emit_xml(junit(verdict.plain, log, known, views), self.out)


def _views(told: Verdict, log: Log, read: Log) -> Views:
    """What each analyst asked alone: the verdict over it, and that part of the log as it may be passed on."""
    from keyhole.logs.fold import split_by_analyst

    found = {}
    parts = split_by_analyst(log, "analyst").values() if told.views else ()
    for (who, view), part in zip(told.views.items(), parts, strict=True):
        asked = {str(line.number) for line in part.lines}
        asked |= {refusal.number for refusal in (*part.refused, *part.unjudged)}
        lines = tuple(line for line in read.lines if str(line.number) in asked)
        refused, unjudged = (tuple(r for r in listed if r.number in asked) for listed in (read.refused, read.unjudged))
        found[who] = (view.plain, replace(read, lines=lines, refused=refused, unjudged=unjudged))
    return found


def _digest(file: Path | None) -> str | None:
    """By which a reader knows that it is the same log."""
    import hashlib

    try:
        return None if file is None else hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:  # it was a stream, or is gone
        return None


def _compared(verdict: PlainVerdict, told: PlainVerdict, known: Baseline) -> Iterator[tuple[str, str]]:
    """Who is new against the baseline, and who was known."""
    from keyhole.report.words.proofs import describe_without_value

    pairs = list(zip(verdict.cases, told.cases, strict=True))
    new = [shown for case, shown in pairs if not known.knows(case)]
    old = [shown for case, shown in pairs if known.knows(case)]
    yield "", ""
    yield f"Against the baseline: {len(new)} new, {len(old)} known.", "bold"
    for word, listed in (("new", new), ("known", old)):
        yield from ((f"  {word}: {describe_without_value(each)}", "") for each in listed[:SHOWN])
        if len(listed) > SHOWN:
            yield f"  ... and {len(listed) - SHOWN} more {word} (--format json lists all)", ""


@dataclass(frozen=True, slots=True)
class WaivedVerdict:
    """The exit code, what is said about it, and the same as data."""

    exit_code: int
    said: tuple[str, ...]
    signed_off: SignedOff


@dataclass(frozen=True, slots=True)
class Signing:
    """What was signed off, and what counts besides."""

    waivers: tuple[Waiver, ...]
    fail_on: FailOn
    key: bytes | None

    @classmethod
    def of(
        cls, accept: Path | None, fail_on: str, key: bytes | None, baseline: Path | None, *, used: bool
    ) -> Signing | None:
        """As the options say; None if they say nothing. `used`: the key is for something else."""
        from keyhole.report.waivers import FailOn, read_waivers

        if accept is None and baseline is None and key is not None and not used:
            raise ConfigError("--key belongs to --accept, --baseline or --format baseline: it is for single people")
        if accept is None and fail_on == FailOn.UNJUDGED:
            return None
        if baseline is not None:
            raise ConfigError("--baseline and --accept (or --fail-on) both change what counts: use one of them")
        return cls(() if accept is None else read_waivers(accept), FailOn(fail_on), key)

    def count(self, verdict: Verdict) -> WaivedVerdict:
        """The verdict against what was signed."""
        from keyhole.report.documents.verdict import SignedOff
        from keyhole.report.waivers import FINDINGS, UNNAMED, Accepted, list_matters

        found = list_matters(verdict.document(), self.key)
        if verdict.exit_code == 1 and not any(m.kind in FINDINGS for m in found):
            found.append(UNNAMED)  # something was found that no waiver can name: it counts
        made = Accepted.of(found, self.waivers, dt.date.today())
        signed_off = SignedOff(
            waived=len(made.waived), expired=len(made.expired), left=len(made.left), fail_on=str(self.fail_on)
        )
        return WaivedVerdict(made.exit_code(self.fail_on), tuple(made.sentences(self.fail_on)), signed_off)
