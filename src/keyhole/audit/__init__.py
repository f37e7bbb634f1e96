"""What is proved: from Evidence to Exposure."""

from keyhole.audit.base import Auditor, Exposure, Finding, Group, Proof, Status
from keyhole.audit.examine import examine
from keyhole.audit.rank import Rank

__all__ = ["Auditor", "Exposure", "Finding", "Group", "Proof", "Rank", "Status", "examine"]
