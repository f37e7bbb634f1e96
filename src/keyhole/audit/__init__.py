"""What is proved: from Evidence to Exposure, after the answers or before them."""

from keyhole.audit.admission import Admission, Permission
from keyhole.audit.base import Auditor, Exposure, Finding, Group, Proof, Status
from keyhole.audit.examine import examine
from keyhole.audit.online import OnlineAuditor
from keyhole.audit.rank import Rank

__all__ = [
    "Admission",
    "Auditor",
    "Exposure",
    "Finding",
    "Group",
    "OnlineAuditor",
    "Permission",
    "Proof",
    "Rank",
    "Status",
    "examine",
]
