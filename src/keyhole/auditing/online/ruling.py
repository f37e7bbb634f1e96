"""What a judged statement comes to: the state of a private column, the reason of a verdict, and its proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

from keyhole.auditing.base import Finding, Proof
from keyhole.auditing.online.admission import Admission, Permission, Premise
from keyhole.auditing.online.disclosed import Disclosed
from keyhole.auditing.online.epochs import ToldRow
from keyhole.auditing.person_form import sum_in_words
from keyhole.model.query import Statement
from keyhole.solve.rowspace.versions import VersionSpace


class Space(Protocol):
    """The numerics behind one private column: see `OnlineRowSpace`; a row is what `Participants.entries` gives."""

    def probe(self, query: Any) -> Any:
        """What one more row would do (`dependent`, `exposes`, `pairs`, `crosses`); changes nothing."""

    def commit(self, decision: Any) -> int:
        """Take the row into the history; returns its number, from 0."""

    def pass_over(self, decision: Any) -> None:
        """The work of `commit` for a row that follows from the history; it changes nothing."""

    def certificate(self, decision: Any, record: int, insider: int | None = None) -> dict[int, Fraction] | None:
        """Exact weights over the committed rows, and the probed one, that give the record."""


@dataclass(slots=True)
class ColumnState:
    """The state of one private column."""

    space: Space
    sources: list[Premise] = field(default_factory=list)


@dataclass(slots=True)
class Judged:
    """A judged statement, ready to be recorded: what each column would become."""

    verdict: Admission
    statement: Statement | None
    at: int  # how many statements the history had
    forms: list[Disclosed] = field(default_factory=list)
    moves: list[tuple[str, Any, Premise]] = field(default_factory=list)  # column, decision, source
    forks: dict[str, ColumnState] = field(default_factory=dict)
    told: list[ToldRow] = field(default_factory=list)  # its rows, where there are epochs


Prover: TypeAlias = Callable[[ColumnState, Any, Premise, list[Finding]], tuple[Finding, dict[str, Premise]] | None]


CROSSES = (
    "it depends on what was answered about an earlier version of the data: whoever knows who changed since would "
    "learn by how much; ask for a private answer (with noise)"
)


def ruling(
    forms: list[Disclosed], who: list[Finding], *, dependent: bool, crosses: bool = False
) -> tuple[Permission, str]:
    """The verdict with a reason that names nobody."""
    before = "together with what was answered before, it would expose somebody"
    if any(f.insider is None for f in who):
        return Permission.DENY, before
    if who:
        return Permission.DENY, f"{before} to another participant"
    if crosses:
        return Permission.DENY, CROSSES
    if not forms:
        return Permission.ALLOW, "it asks only public things"
    if dependent:
        return Permission.ALLOW, "it follows from what was answered before"
    return Permission.ALLOW, "nobody is exposed"


def each_once(who: list[Finding]) -> list[Finding]:
    """Those exposed to everybody first (whom the proof is about before all); the others each with one insider."""
    found: dict[tuple[int, str], Finding] = {}
    for each in sorted(who, key=lambda f: f.insider is not None):
        found.setdefault((each.row, each.column), each)
    return list(found.values())


def proved(
    state: ColumnState, decision: Any, source: Premise, exposed: list[Finding]
) -> tuple[Finding, dict[str, Premise]] | None:
    """The first exposure that has an exact certificate, with its proof and the queries it uses."""
    sources = [*state.sources, source]
    targets = [*((person, None) for person in decision.exposes), *decision.pairs]
    for finding, (person, insider) in zip(exposed, targets, strict=True):
        found = state.space.certificate(decision, person, insider)
        if found is None:
            continue
        used = [(sources[at], weight) for at, weight in sorted(found.items())]
        constant = -sum((weight * premise.offset for premise, weight in used), Fraction(0))
        proof = Proof(0, {premise.key: weight for premise, weight in used}, {finding.row: 1}, constant)
        if finding.rows and isinstance(state.space, VersionSpace):  # columns are records: which sum over them it is
            form = state.space.form(decision, found, person)
            proof = replace(proof, target={row: int(c) for row, c in form.items() if c.denominator == 1})
            finding = replace(finding, form=sum_in_words(finding.column, form), rows=tuple(form))
        return replace(finding, proof=proof), {premise.key: premise for premise, _ in used}
    return None


def unproved(state: ColumnState, decision: Any, source: Premise, exposed: list[Finding]) -> None:
    """No proof: the decision does not depend on it."""
