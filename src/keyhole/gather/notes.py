"""What is noticed on the way from answers to constraints, beside the constraints themselves."""

from __future__ import annotations

from dataclasses import dataclass, field

from keyhole.gather.evidence import Contradiction, Unjudged
from keyhole.model.transcript import Answer, Entry


@dataclass(slots=True)
class Notes:
    """Answers as they are used (given or computed), contradictions, and what is not judged, collected as found."""

    answers: dict[str, Answer] = field(default_factory=dict)
    contradictions: list[Contradiction] = field(default_factory=list)
    unjudged: list[Unjudged] = field(default_factory=list)
    nobody: list[Unjudged] = field(default_factory=list)  # statements that ask about nobody: judged, but look twice

    def contradict(self, reason: str, *numbers: str) -> None:
        """The named queries cannot all be true."""
        self.contradictions.append(Contradiction(numbers, reason))

    def leave(self, entry: Entry, reason: str) -> None:
        """A query is not judged."""
        self.unjudged.append(Unjudged(entry.number, entry.sql, reason))
