"""Values that facts fix by themselves: whatever the log says of them was known before, and is nobody's finding."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from keyhole.auditing.base import Finding, Status
from keyhole.auditing.end_proof import known_ends
from keyhole.auditing.known import Known
from keyhole.gather.evidence import System


def beyond_facts(findings: Iterable[Finding], known: Known) -> list[Finding]:
    """The findings without those that repeat the one value which facts and declarations leave; any other value stays.

    Cost: one look at the facts for each finding, where there are facts about single people at all.
    """
    systems = [s for s in known.evidence.systems if s.bounds]
    return [f for f in findings if not any(_repeats(f, system, known) for system in systems)]


def _repeats(finding: Finding, system: System, known: Known) -> bool:
    if finding.status is not Status.EXPOSED or finding.form or not known.numeric(finding.column):
        return False
    at = next((f for f, each in enumerate(system.features) if each.column == finding.column), None)
    if at is None or finding.value is None:
        return False
    unknown = at * system.atoms.K + int(system.atoms.of[finding.row])
    left = known.grid(finding.column).sole(*known_ends(system, known.evidence, unknown))
    return left is not None and left == Fraction(str(finding.value))
