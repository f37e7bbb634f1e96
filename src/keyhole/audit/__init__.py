"""What is proved: from Evidence to Exposure, after the answers or before them."""

from typing import TYPE_CHECKING

from keyhole.audit.admission import Admission, Permission
from keyhole.audit.base import Auditor, Exposure, Finding, Group, Proof, Status
from keyhole.audit.examine import examine
from keyhole.audit.judge import Judge

if TYPE_CHECKING:
    from keyhole.audit.online import OnlineAuditor

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
        from keyhole.audit.online import OnlineAuditor

        return OnlineAuditor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
