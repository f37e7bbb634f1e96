"""What is proved: from Evidence to Exposure, after the answers or before them."""

from keyhole.audit.base import Auditor, Exposure, Finding, Group, Proof, Status
from keyhole.audit.examine import examine
from keyhole.audit.judge import Judge
from keyhole.audit.online import OnlineAuditor
from keyhole.audit.verdict import Ruling, Verdict

__all__ = [
    "Auditor",
    "Exposure",
    "Finding",
    "Group",
    "Judge",
    "OnlineAuditor",
    "Proof",
    "Ruling",
    "Status",
    "Verdict",
    "examine",
]
