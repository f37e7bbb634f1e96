"""Where in the log a finding belongs: at the statement that completed it."""

from __future__ import annotations

from keyhole.audit.base import Exposure, Finding, Group, query_order


def everybody(verdict: Exposure) -> list[Finding | Group]:
    """All that a verdict found: people first, then groups."""
    found: list[Finding | Group] = [*verdict.findings]
    found.extend(verdict.groups)
    return found


def used(found: Finding | Group) -> list[str]:
    """The queries of a finding's proof, in order; background facts left out."""
    weights = found.proof.weights if found.proof is not None else {}
    return sorted((q for q in weights if not q.startswith("fact")), key=query_order)


def completed_by(found: Finding | Group) -> str | None:
    """The last query that a finding needed: before it, this proof did not hold."""
    numbers = used(found)
    return numbers[-1] if numbers else None


def said(found: Finding | Group) -> str:
    """One sentence about a finding, with its proof and without its value: pipelines are read by many."""
    names = ", ".join("Q" + q for q in used(found)) or "background knowledge"
    if isinstance(found, Group):
        people = "; ".join(", ".join(str(v) for v in r.values()) for r in found.records)
        return f"the total {found.column} of {people} is determined by {names}"
    what = "exposed" if found.status == "exposed" else "narrowed down"
    return f"{found.who}: {found.column} is {what} by {names}"
