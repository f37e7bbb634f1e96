"""What counts for the exit code of an audit: --accept, --fail-on and --key."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from keyhole.report.documents.verdict import SignedOff
    from keyhole.report.verdict import Verdict
    from keyhole.report.waivers import FailOn, Waiver


@dataclass(frozen=True, slots=True)
class Counted:
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

    def counted(self, verdict: Verdict) -> Counted:
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
        return Counted(made.exit_code(self.fail_on), tuple(made.sentences(self.fail_on)), signed_off)
