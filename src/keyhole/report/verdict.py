"""The verdict over a log, as Python users, terminals and notebooks meet it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from keyhole.auditing.base import Exposure, Finding, Group
from keyhole.config.arguments import SCREEN, Detail
from keyhole.extras import import_extra
from keyhole.gather.evidence import Contradiction, Evidence, Unjudged
from keyhole.model.transcript import Refusal
from keyhole.report.cases import Case, PlainVerdict, Record
from keyhole.report.documents.json_text import dumps, json_number, to_builtins
from keyhole.report.documents.verdict import StatementCounts, VerdictDocument
from keyhole.report.exposure import describe_exposure
from keyhole.report.formats.document import describe_verdict, lists_everybody
from keyhole.report.words.proofs import explain_case, format_formula
from keyhole.report.words.text import render_lines, render_views

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console, ConsoleOptions, RenderResult

    from keyhole.report.formats.redacted import Withheld


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """Who is exposed, and why: iterate it for the findings, print it, or take it as text, JSON or a frame.

    `exposure` is what the audit proved; `plain` the same as plain data, which every form of output is made from.
    """

    exposure: Exposure
    plain: PlainVerdict
    withheld: Withheld | None = None
    views: Mapping[str, Verdict] = field(default_factory=dict)  # analyst -> the verdict over what he asked alone
    _cases: Mapping[tuple[tuple[int, ...], str, bool], Case] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "_cases",
            {(c.rows, c.column, bool(c.assumed)): c for c in (*self.plain.ranges, *self.plain.cases)},
        )

    @classmethod
    def of(cls, exposure: Exposure) -> Verdict:
        """The verdict of an audit."""
        return cls(
            exposure, describe_exposure(exposure), views={who: cls.of(part) for who, part in exposure.views.items()}
        )

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is proved of single people, in the order of the table; last what holds if other columns are private."""
        return tuple(f for part in self._parts() for f in part.findings)

    @property
    def exposed(self) -> tuple[Finding, ...]:
        """The people whose value is known exactly."""
        return tuple(f for part in self._parts() for f in part.exposed)

    @property
    def inferred(self) -> tuple[Finding, ...]:
        """The people of whom something new is known, but not all."""
        return tuple(f for part in self._parts() for f in part.inferred)

    @property
    def ranges(self) -> tuple[Finding, ...]:
        """Those who stay open, and of whom a narrower range is proved than was declared of their column."""
        return self.exposure.ranges

    @property
    def groups(self) -> tuple[Group, ...]:
        """Small groups whose total is determined."""
        return tuple(g for part in self._parts() for g in part.groups)

    def _parts(self) -> tuple[Exposure, ...]:
        return (self.exposure, *self.exposure.readings)

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """The statements that were not understood."""
        return self.exposure.refused

    @property
    def unjudged(self) -> tuple[Unjudged, ...]:
        """The queries that were read, but that no rule judges."""
        return self.exposure.unjudged

    @property
    def contradictions(self) -> tuple[Contradiction, ...]:
        """Answers that cannot all be true."""
        return self.exposure.contradictions

    @property
    def evidence(self) -> Evidence:
        """What the proofs are about: `proof.verify(verdict.evidence)` checks one again."""
        return self.exposure.evidence

    @property
    def exit_code(self) -> int:
        """That of the command: 0 nobody exposed and complete, 1 somebody exposed or inferred, 3 neither; that of the
        worst view where analysts are judged apart.
        """
        return max((self.plain.exit_code, *(view.exit_code for view in self.views.values())), key=(0, 3, 1).index)

    @property
    def complete(self) -> bool:
        """Is everybody who is not listed shown to be open?"""
        return self.plain.complete

    @property
    def promise(self) -> str:
        """What holds of those who are not listed."""
        return self.plain.promise

    @property
    def records(self) -> int:
        """How many records."""
        return self.plain.records

    @property
    def queries(self) -> int:
        """How many queries were read, parts of statements counted one by one."""
        return self.plain.queries

    @property
    def judged(self) -> int:
        """How many of them were judged."""
        return self.plain.judged

    @property
    def statements(self) -> StatementCounts:
        """How many statements there were, and how many were judged."""
        return self.plain.statements

    @property
    def atoms(self) -> int:
        """How many classes of records the log tells apart."""
        return self.plain.atoms

    @property
    def rank(self) -> int:
        """The rank of the log's equations."""
        return self.plain.rank

    def why(self, finding: Finding | Group) -> str:
        """The proof of one finding in words, and under it in numbers.

        >>> import keyhole, pyarrow as pa
        >>> people = pa.table({"name": ["Ann", "Bob"], "pay": [10, 20]})
        >>> log = ["SELECT SUM(pay) FROM t WHERE name = 'Bob'"]
        >>> verdict = keyhole.audit(log, data=people, private="pay", id="name")
        >>> print(verdict.why(verdict.exposed[0]))
        Q1 = Bob's pay = 20
        20 = 20
        """
        return explain_case(self._case(finding))

    def text(self, detail: Detail = SCREEN) -> str:
        """What `keyhole audit` prints: one screen, or more `detail`."""
        return "\n".join(line.rstrip() for line, _ in self.lines(detail))

    def to_frame(self) -> pd.DataFrame:
        """One row a finding: id, column, status, value, lo, hi, singled_out, proof. Needs the `frames` extra."""
        frames = import_extra("pandas", "to_frame()")
        rows = [
            {
                **case.records[0],
                "column": case.column,
                "status": case.status,
                "value": json_number(case.value),
                "lo": json_number(case.lo),
                "hi": json_number(case.hi),
                "singled_out": case.singled_out,
                "proof": format_formula(case),
            }
            for case in self.plain.findings
        ]
        ids = self.plain.source.id or ("row",)
        columns = [*ids, "column", "status", "value", "lo", "hi", "singled_out", "proof"]
        table: pd.DataFrame = frames.DataFrame(rows, columns=columns)
        return table

    def document(self) -> VerdictDocument:
        """The verdict as what `keyhole audit --format json` writes, in typed fields: see docs/json.md."""
        document = describe_verdict(self.plain, self._everybody())
        return replace(document, by=tuple(replace(view.document(), analyst=who) for who, view in self.views.items()))

    def replayable(self) -> VerdictDocument:
        """The document with what `keyhole verify` needs to replay the all-clear, as JSON has it."""
        from keyhole.report.formats.witness import describe_witness

        if self.withheld is not None:
            return self.document()
        views = tuple(replace(view.replayable(), analyst=who) for who, view in self.views.items())
        return replace(self.document(), by=views, witness=describe_witness(self.exposure))

    def to_json(self) -> dict[str, Any]:
        """The same as dicts and lists.

        Numbers are int or float, but a Decimal where a float would change the digits: `dumps` writes them all.
        """
        return to_builtins(self.replayable())

    def to_html(self, log: str = "", said: Sequence[str] = (), document: VerdictDocument | None = None) -> str:
        """The report of `keyhole audit --format html`: one page that loads nothing.

        `log` is the name it shows; what is `said` stands below the sentence; `document` has what is shown besides
        (`advice`).
        """
        from keyhole.report.formats.document import describe_query_map
        from keyhole.report.html.audit import render_audit_page

        document = self.document() if document is None else document
        return render_audit_page(replace(document, map=describe_query_map(self.evidence)), log, said)

    def dumps(self) -> str:
        """The JSON text."""
        return dumps(self.replayable())

    def without(self, what: Withheld, people: dict[int, int] | None = None) -> Verdict:
        """The verdict as it may be passed on: every form of output then lacks what is withheld.

        `people` has the numbers that stand for rows; the views of analysts share them.
        """
        from keyhole.report.formats.redacted import redacted

        people = {} if people is None else people
        told = redacted(self.plain, what, people)
        names = (f"analyst {k}" if what == "all" else who for k, who in enumerate(self.views, 1))
        views = {name: view.without(what, people) for name, view in zip(names, self.views.values(), strict=True)}
        return Verdict(self.exposure, told, what, views)

    def lines(self, detail: Detail = SCREEN) -> Iterator[tuple[str, str]]:
        """What `keyhole audit` prints, each line with its style."""
        yield from render_lines(self.plain, detail)
        if self.views:
            yield from render_views({who: view.plain for who, view in self.views.items()}, detail)

    def _everybody(self) -> Sequence[Record]:
        if self.withheld == "all" or not lists_everybody(self.plain):
            return ()
        return self.exposure.roster.labels(np.arange(self.records))

    def _case(self, finding: Finding | Group) -> Case:
        rows = (finding.row,) if isinstance(finding, Finding) else finding.rows
        assumed = isinstance(finding, Finding) and finding.assumed
        return self._cases[tuple(row + 1 for row in rows), finding.column, assumed]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        yield from (Text(line, style=style) for line, style in self.lines())

    def _repr_html_(self) -> str:
        from keyhole.report.html.audit import render_verdict_fragment

        return render_verdict_fragment(self.plain)

    def __repr__(self) -> str:
        asked = self.plain.statements.total
        return (
            f"<Verdict: {len(self.exposed)} exposed, {len(self.inferred)} inferred of {self.records} people, "
            f"{asked} {'statement' if asked == 1 else 'statements'}>"
        )
