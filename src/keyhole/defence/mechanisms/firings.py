"""What sparse vector runs share: firings that were paid beforehand, and a halt when they are used up."""

from __future__ import annotations

from keyhole.errors import BudgetExhausted


class PrepaidFirings:
    """A run of `firings` firings, all paid when it started; `fired` of them are used."""

    firings: int
    fired: int

    @property
    def halted(self) -> bool:
        """True once all firings are used."""
        return self.fired >= self.firings

    def _go_on(self) -> None:
        """Refuse a question to a run that has halted."""
        if self.halted:
            raise BudgetExhausted(
                f"this run has halted: its {self.firings} firings are used up; start another run",
                remaining=0,
                requested=1,
            )
