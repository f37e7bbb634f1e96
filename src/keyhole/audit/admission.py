"""What an online auditor says of one statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Permission(StrEnum):
    """What may be done with a query."""

    ALLOW = "allow"
    DENY = "deny"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Admission:
    """The decision on one statement. `who` and `proof` are for the custodian only: they name people.

    `who` lists whom the answer would expose (`insider`: to which other participant); `proof` gives the first of them
    as a combination of answered queries and this one, with exact weights.

    >>> Admission("1", "SELECT SUM(x) FROM t", Permission.ALLOW, "nobody is exposed").to_json()["verdict"]
    'allow'
    """

    number: str
    sql: str
    verdict: Permission
    reason: str
    who: tuple[Mapping[str, Any], ...] = ()
    proof: tuple[Mapping[str, Any], ...] = ()

    @property
    def allowed(self) -> bool:
        """True if the query may be answered."""
        return self.verdict is Permission.ALLOW

    def to_json(self, *, explain: bool = False) -> dict[str, Any]:
        """The line of the JSON contract; who and proof only on demand."""
        found: dict[str, Any] = {
            "query": self.number,
            "sql": self.sql,
            "verdict": str(self.verdict),
            "reason": self.reason,
        }
        if explain:
            found |= {"who": [dict(w) for w in self.who], "proof": [dict(p) for p in self.proof]}
        return found
