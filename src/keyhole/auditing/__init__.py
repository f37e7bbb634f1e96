"""What is proved: from Evidence to Exposure, after the answers or before them."""

from typing import TYPE_CHECKING

from keyhole.auditing.base import Auditor, Exposure, Finding, Group, Proof, Status
from keyhole.auditing.examine import examine
from keyhole.auditing.judge import Judge
from keyhole.auditing.online.admission import Admission, Permission

if TYPE_CHECKING:
    from keyhole.auditing.online.online import OnlineAuditor

__all__ = [
    "Admission",
    "Auditor",
    "Exposure",
    "Finding",
    "Group",
    "Judge",
    "OnlineAuditor",
    "Permission",
    "Proof",
    "Status",
    "examine",
]


def __getattr__(name: str) -> object:
    if name == "OnlineAuditor":  # imported when it is used: an audit after the answers does without
        from keyhole.auditing.online.online import OnlineAuditor

        return OnlineAuditor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
