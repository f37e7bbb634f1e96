"""Group keys there and back: a key value that was fetched must, written as a condition, find its group again.

Engines have values that Python spells otherwise (times in nanoseconds, intervals, blobs): two groups would become one,
or a group nobody's. What does not come back is not judged.
"""

from __future__ import annotations

from keyhole.datasets import Roster
from keyhole.errors import pass_on_interruption
from keyhole.model.predicate import TRUE, Opaque, Predicate, Scalar, disjunction, to_sql
from keyhole.model.query import Aggregate, Key, Query, Statement, Term

FETCHED = 2_000  # about so many values of a key are fetched, chosen by their hash
TRIED = 40  # of these are written as conditions


class KeysThereAndBack:
    """Checks public keys, each once. Cost: three passes over the column in the engine."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._known: dict[Key, bool] = {}

    def hold(self, statement: Statement) -> bool:
        """Do all public keys of a statement come back as they went?"""
        secret = {c.name for c in self._roster.schema.columns if c.secret}
        for key in statement.keys:
            if key.hidden(secret):
                continue  # its values are the source's to tell
            if key not in self._known:
                try:
                    self._known[key] = self._holds(key)
                except Exception as error:  # the engine does not take the value back: an interval, a list
                    pass_on_interruption(error)
                    self._known[key] = False
            if not self._known[key]:
                return False
        return True

    def _holds(self, key: Key) -> bool:
        columns = key.columns or frozenset((key.column or "",))
        every = self._count(f"COUNT(DISTINCT {key.sql})", TRUE)
        parts = 1 + every // FETCHED
        some: Predicate = TRUE if parts == 1 else Opaque(f"hash({key.sql}) % {parts} = 0", columns)
        rows = self._roster.keys(Statement("", (), some, (key,), ((0,),)))
        values = [v for row in rows if (v := row[key.name]) is not None]
        if len(set(values)) != (every if parts == 1 else self._count(f"COUNT(DISTINCT {key.sql})", some)):
            return False  # several groups have one name
        tried: list[Scalar] = values[:: 1 + len(values) // TRIED]
        if not tried:
            return True
        conditions = [key.equals(v) for v in tried]
        each = [f"COUNT(*) FILTER (WHERE {to_sql(c)})" for c in conditions]
        together = f"COUNT(*) FILTER (WHERE {to_sql(disjunction(*conditions))})"
        least = each[0] if len(each) == 1 else f"LEAST({', '.join(each)})"
        return self._count(f"CASE WHEN {least} > 0 AND {' + '.join(each)} = {together} THEN 1 ELSE 0 END", TRUE) == 1

    def _count(self, figure: str, where: Predicate) -> int:
        found = self._roster.figure(Query(Aggregate.PUBLIC, (Term(None, where, weight=figure),)))
        return int(found or 0)
