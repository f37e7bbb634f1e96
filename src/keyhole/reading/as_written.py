"""Statements that were taken apart: their own text is run, too, and what the engine refuses is not judged.

A share, a list with LIMIT, a UNION is judged by plain statements that tell as much or more (`keyhole.sql.read`), which
are run and compared (`Validator`). That says nothing of the text they came from: a function that the engine does not
have, a hint, a clause of another engine are not in them. So the text itself is run once on a made-up table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from keyhole.datasets import Filling, Roster
from keyhole.model.query import Statement
from keyhole.model.schema import Role
from keyhole.reading.rows import copies

FAILS = "the engine refuses to run it as it is written"
RESERVED = """
ALL AND ANY ARRAY AS ASC BOTH CASE CAST CHECK COLLATE COLUMN CONSTRAINT CREATE DEFAULT DESC DISTINCT DO ELSE END EXCEPT
FALSE FETCH FOR FOREIGN FROM GRANT GROUP HAVING IN INTERSECT INTO LATERAL LIMIT NOT NULL OFFSET ON ONLY OR ORDER PRIMARY
QUALIFY REFERENCES RETURNING SELECT SOME TABLE THEN TO TRUE UNION UNIQUE USING WHEN WHERE WINDOW WITH
"""
MANY_LINKS = 200  # queries in WITH, or in parentheses, from which on the engine may give up
ROWS = 40  # a made-up table has at least so many
_LINK = re.compile(r"\(\s*SELECT\b", re.IGNORECASE)


def refusals(lines: Sequence[Sequence[Statement]], roster: Roster) -> list[str]:
    """Why a line cannot count as judged, for each line (the statements that it was opened to); empty if it can.

    Guarantee: where it is empty, the text that the statements came from (`Statement.written`) was executed by the
    engine on a made-up table without an error. Lines whose statements are the text itself are the `Validator`'s, and
    pass. Cost: each different text is run once, on some hundred rows, several in one.
    """
    texts = list(dict.fromkeys(part.written for line in lines for part in line if part.written))
    if not texts:
        return [""] * len(lines)
    mine = [part for line in lines if any(part.written for part in line) for part in line]
    probe = roster.probe()
    probe.place(copies(probe.sample(), [c.name for c in probe.schema.of_role(Role.ID)], ROWS))
    others = dict.fromkeys(other for part in mine for other in part.tables)
    probe.fill(Filling.FIRST, {}, list(dict.fromkeys(part.table for part in mine)), tuple(others), {})
    runs = dict(zip(texts, probe.runs(texts), strict=True))
    failing = ([part.written for part in line if part.written and not runs[part.written]] for line in lines)
    return [refusal(failed[0]) if failed else "" for failed in failing]


def refusal(sql: str) -> str:
    """The engine's refusal, with its likely cause: a table that is called as a word of SQL, or too long a chain."""
    links = len(_LINK.findall(sql))
    if links > MANY_LINKS:
        return (
            f"the engine gives up on it: it has {links:,} queries that read from one another, and some hundreds are "
            "the most; write it as fewer of them, or put the first ones into --view"
        )
    word = re.search(r"\b(?:from|join)\s+([a-z]+)\b", sql, re.IGNORECASE)
    if word is None or word[1].upper() not in RESERVED.split():
        return FAILS
    return f'{FAILS}: {word[1]} is a word of SQL, so write "{word[1]}" for a table of that name'


__all__ = ["FAILS", "ROWS", "refusal", "refusals"]
