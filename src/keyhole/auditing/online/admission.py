"""What an online auditor says of one statement."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any

from keyhole.auditing.base import Finding, Proof
from keyhole.model.query import Statement


@dataclass(frozen=True, slots=True)
class ParsedStatement:
    """A statement that was read and checked, from its text, the schema and public things alone.

    `doubt` is why nothing exact is decided of it, whatever was answered before; empty if there is nothing to say.
    `answer` is what is answered elsewhere, if it is allowed: no part of the decision. `asker` is for whom what was
    looked up is kept, so that no time tells what others asked.
    """

    text: str
    statement: Statement | None  # None: it cannot be read, and `doubt` says why
    doubt: str = ""
    answer: Decimal | None = None
    asker: str | None = None

    @property
    def question(self) -> str:
        """A digest of what is asked, whatever the spelling of the SQL."""
        assert self.statement is not None
        parts = [q.canonical() for q in (*self.statement.queries, *self.statement.tested)]
        keys = [(k.name, k.sql) for k in self.statement.keys]
        shape = repr((parts, keys, self.statement.sets, str(self.statement.having)))
        return hashlib.blake2b(shape.encode(), digest_size=16).hexdigest()


class Permission(StrEnum):
    """What may be done with a query."""

    ALLOW = "allow"
    DENY = "deny"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Premise:
    """A query that a proof uses: answer * scale - offset is its row. `of`: which sum, where it counts as several."""

    number: str
    sql: str
    scale: Fraction
    offset: Fraction
    of: str = ""

    @property
    def key(self) -> str:
        """The name of the row in a proof."""
        return f"{self.number} ({self.of})" if self.of else self.number


@dataclass(frozen=True, slots=True)
class Admission:
    """The decision on one statement. `who` is for the custodian only: it names people.

    `who` lists whom the answer would expose (`insider`: to which other participant), the first with a proof: a
    combination of answered queries and this one, with exact weights; `premises` has the queries of that proof.

    >>> Admission("1", "SELECT SUM(x) FROM t", Permission.ALLOW, "nobody is exposed").to_json()["verdict"]
    'allow'
    """

    number: str
    sql: str
    verdict: Permission
    reason: str
    who: tuple[Finding, ...] = ()
    premises: Mapping[str, Premise] = field(default_factory=dict)

    @property
    def allowed(self) -> bool:
        """True if the query may be answered."""
        return self.verdict is Permission.ALLOW

    @property
    def proof(self) -> Proof | None:
        """Why the first of `who` would be exposed."""
        return self.who[0].proof if self.who else None

    def steps(self) -> list[dict[str, Any]]:
        """The proof as the list of the JSON contract: weights on answers."""
        proof = self.proof
        if proof is None:
            return []
        items: list[dict[str, Any]] = []
        for key, weight in proof.weights.items():
            used = self.premises[key]
            items.append({"query": used.number, "sql": used.sql, "weight": str(weight * used.scale)})
            if used.of:
                items[-1]["of"] = used.of
        if proof.constant:
            items.append({"known": str(proof.constant), "weight": "1"})
        return items

    def to_json(self, *, explain: bool = False) -> dict[str, Any]:
        """The line of the JSON contract; who and proof only on demand."""
        found: dict[str, Any] = {
            "query": self.number,
            "sql": self.sql,
            "verdict": str(self.verdict),
            "reason": self.reason,
        }
        if explain:
            found |= {"who": [_named(f) for f in self.who], "proof": self.steps()}
        return found


def _named(finding: Finding) -> dict[str, Any]:
    item: dict[str, Any] = {"record": dict(finding.record), "column": finding.column}
    if finding.form:
        item["form"] = finding.form
    return item if finding.insider is None else item | {"insider": dict(finding.insider)}
