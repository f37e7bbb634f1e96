"""A contradiction, made irreducible: whatever the others are impossible without is left out, then said.

The deletion filter of infeasible systems (Chinneck & Dravnieks 1991) over statements, facts and declared ends. Rules
that look at order, counts or several proofs name all that they used; here the log is judged again with one of these
less, and what is refuted all the same stays smaller. Every set that is named was refuted by the rules themselves; that
none of it can be left out is said only if each smaller set was shown to have a table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from keyhole.auditing.base import Exposure, query_order
from keyhole.gather.evidence import Contradiction, Evidence
from keyhole.model.prior import Fact, Knowledge, Prior
from keyhole.model.transcript import Transcript

Again = Callable[[Transcript, Knowledge], Exposure]
SECONDS = 5.0  # for all contradictions of a log
MOST = 40  # statements, facts and ends of one
MAYBE = "a smaller set may do"
END_WORDS = {"min": "lo", "max": "hi", "step": "step"}


@dataclass(frozen=True, slots=True)
class Member:
    """A statement or a fact by its number, or a declared end of a column: ("min", "pay")."""

    word: str
    name: str

    def said(self, knowledge: Knowledge) -> str:
        """In words.

        >>> from decimal import Decimal
        >>> Member("min", "pay").said(Knowledge({"pay": Prior(lo=Decimal(0))}))
        'the min of pay, 0'
        """
        if self.word in END_WORDS:
            return f"the {self.word} of {self.name}, {getattr(knowledge.prior(self.name), END_WORDS[self.word])}"
        return self.name if self.word == "fact" else f"Q{self.name}"


def irreducible(found: Exposure, again: Again) -> Exposure:
    """The same verdict, its contradictions made smaller. Cost: one short audit of the named statements per member."""
    if not any(c.reducible for c in found.contradictions):
        return found
    until = time.monotonic() + SECONDS
    made = [_smaller(c, found.evidence, again, until) if c.reducible else c for c in found.contradictions]
    return replace(found, contradictions=tuple(dict.fromkeys(made)))


def _smaller(said: Contradiction, evidence: Evidence, again: Again, until: float) -> Contradiction:
    members = list(_members(said, evidence))
    if len(members) > MOST or not _judged(members, evidence, again)[0]:
        return replace(said, reason=f"{said.reason} ({MAYBE})", reducible=False)
    kept, shown = _filtered(members, evidence, again, until)
    if not shown and len(kept) < len(members):  # the tables that fit fewer answers are found sooner
        kept, shown = _filtered(kept, evidence, again, until)
    names = tuple(sorted((m.name for m in kept if m.word not in END_WORDS), key=query_order))
    return Contradiction(names, _reason(kept, evidence.knowledge, shown=shown))


def _filtered(members: list[Member], evidence: Evidence, again: Again, until: float) -> tuple[list[Member], bool]:
    """What is left of a refuted set, and whether a table was shown for each set with one less."""
    shown = True
    for each in tuple(members):
        if time.monotonic() > until:
            return members, False
        fewer = [m for m in members if m != each]
        refuted, fits = _judged(fewer, evidence, again)
        members, shown = (fewer, shown) if refuted else (members, shown and fits)
    return members, shown


def _members(said: Contradiction, evidence: Evidence) -> Iterator[Member]:
    """Statements, then facts, then ends: the order in which they are left out."""
    yield from (Member("query", q) for q in said.queries if not q.startswith("fact "))
    yield from (Member("fact", f"fact {n}") for n in range(1, len(evidence.knowledge.facts) + 1))
    for column, prior in evidence.knowledge.priors.items():
        ends = [word for word in ("step", "max", "min") if getattr(prior, END_WORDS[word]) is not None]
        yield from (Member(word, column) for word in ends)


def _judged(members: Sequence[Member], evidence: Evidence, again: Again) -> tuple[bool, bool]:
    """(are they refuted, is a table shown that fits them) by an audit of these alone."""
    asked = {m.name for m in members if m.word == "query"}
    log = Transcript(tuple(e for e in evidence.transcript.entries if e.number in asked), ())
    known = _knowing(members, evidence.knowledge)
    if not log.entries:
        ends = [m for m in members if m.word in END_WORDS]
        return False, sum(fact != Fact(fact.where, fact.column) for fact in known.facts) + len(ends) <= 1
    found = again(log, known)
    return bool(found.contradictions), found.complete


def _knowing(members: Sequence[Member], knowledge: Knowledge) -> Knowledge:
    """What is known without the facts and ends that are left out; a fact that says nothing keeps the place of one."""
    kept = {(m.word, m.name) for m in members}
    facts = tuple(
        fact if ("fact", f"fact {n}") in kept else Fact(fact.where, fact.column)
        for n, fact in enumerate(knowledge.facts, 1)
    )
    return Knowledge({name: _prior(name, prior, kept) for name, prior in knowledge.priors.items()}, facts)


def _prior(name: str, prior: Prior, kept: set[tuple[str, str]]) -> Prior:
    """A prior without some of its ends; a minimum that the steps are counted from stays with them."""
    step = prior.step if ("step", name) in kept else None
    counted = step is not None and prior.lo is not None and prior.lo % step != 0
    lo = prior.lo if counted or ("min", name) in kept else None
    return replace(prior, lo=lo, hi=prior.hi if ("max", name) in kept else None, step=step)


def _reason(members: Sequence[Member], knowledge: Knowledge, *, shown: bool) -> str:
    numbered = [m for m in members if m.word not in END_WORDS]
    order = [*sorted(numbered, key=lambda m: query_order(m.name)), *(m for m in members if m not in numbered)]
    said = [m.said(knowledge) for m in order]
    listed = said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"
    maybe = "" if shown else f" ({MAYBE})"
    return f"{listed} cannot {'all ' if len(said) > 1 else ''}be true: no table fits{maybe}"
