"""What is proved: from Evidence to Exposure, after the answers or before them."""

from keyhole.audit.admission import Admission, Permission
from keyhole.audit.base import Auditor, Exposure, Finding, Group, Proof, Status
from keyhole.audit.examine import examine
from keyhole.audit.judge import Judge
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
