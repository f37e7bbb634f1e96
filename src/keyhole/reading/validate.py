"""Translation validation: the engine runs the analyst's own text on a made-up table, and the form must say the same.

The public columns of that table are real ones, with rows added on which the statement decides something; the private
columns are made up, at least twice over. Every cell is compared, with the number of columns, the groups that are shown,
and NULL against 0. What differs is not judged. The check depends on the text and on public things only.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import Any

from keyhole.meaning import OVER_ZERO, rounds
from keyhole.query import Statement
from keyhole.reading.answers import FREE, Filled, FormAnswer, rows_of
from keyhole.reading.rows import copies, deciding_rows, private_constants, with_ids_of_their_own
from keyhole.tables import ProbeTable, Roster

DIFFERS = "read differently from the engine; please report"
FAILS = "the engine refuses to run it as it is written"
ROWS = 40  # a made-up table has at least so many
BATCH = 250  # statements that share a made-up table
SMALL = 8  # statements up to which one database is filled again and again
REMEMBERED = 100_000


class Validator:
    """Checks readings against the engine; each text once. Cost: about two runs of the text on some hundred rows,
    and one on a few."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._made: list[ProbeTable] = []
        self._known: dict[str, str] = {}

    def reasons(self, statements: Iterable[Statement]) -> list[str]:
        """Why each statement cannot be trusted to be read as the engine reads it; empty if it can."""
        asked = list(statements)
        if len(self._known) + len(asked) > REMEMBERED:
            self._known.clear()
        new = [s for s in {s.text: s for s in asked}.values() if s.text not in self._known]
        told_apart = [s for s in new if "distinct" in s.text.lower()]  # there it matters that an id is one record's
        for some in (told_apart, [s for s in new if s not in told_apart]):
            for start in range(0, len(some), BATCH):
                batch = some[start : start + BATCH]
                for statement, reason in zip(batch, self._checked(batch), strict=True):
                    self._known[statement.text] = reason
        return [self._known[s.text] for s in asked]

    def _checked(self, batch: Sequence[Statement]) -> list[str]:
        """A statement that fails beside others is looked at again alone: their rows are not its own."""
        found = self._looked(batch)
        if len(batch) == 1:
            return found
        return [reason and self._looked([s])[0] for s, reason in zip(batch, found, strict=True)]

    def _looked(self, batch: Sequence[Statement]) -> list[str]:
        fillings = range(4)
        probes = self._probes(1 if len(batch) <= SMALL else len(fillings))
        sample, schema = probes[0].sample(), probes[0].schema
        extra = copies(sample, schema, ROWS)
        extra += [row for turn, s in enumerate(batch) for row in deciding_rows(s, schema, sample, turn)]
        if any("distinct" in s.text.lower() for s in batch):
            extra = with_ids_of_their_own(extra, sample, schema)
        constants: dict[str, list[Any]] = {}
        for statement in batch:
            for name, values in private_constants(statement, schema).items():
                constants.setdefault(name, []).extend(values)
        few = 3 / max(3, len(sample) + len(extra))
        shares = (1.0, 0.5, few, 0.0)  # of the rows; the last two are for sums over nobody
        chosen = (batch, batch, [s for s in batch if _partly(s)], [s for s in batch if not _partly(s)])

        def one(seed: int) -> dict[str, str]:
            some, probe = chosen[seed], probes[seed % len(probes)]
            if not some:
                return {}
            if seed < len(probes):
                probe.place(extra)
            probe.fill(seed, constants, shares[seed])
            filled = Filled(probe, len(probe.listed(["1"])))
            with suppress(Exception):  # one condition that fails: each statement then looks up its own
                filled.prepare(some)
            texts = [(s.text, s.table, len(s.shown)) for s in some]
            return {s.text: _reason(s, rows, filled) for s, rows in zip(some, probe.run(texts), strict=True)}

        if len(probes) == 1:
            found = [one(seed) for seed in fillings]
        else:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(len(probes)) as pool:  # each filling has a database of its own
                found = list(pool.map(one, fillings))
        return [next((said[s.text] for said in found if said.get(s.text)), "") for s in batch]

    def _probes(self, count: int) -> list[ProbeTable]:
        """Databases for made-up tables; few statements share one, which is filled again and again."""
        self._made += [self._roster.probe() for _ in range(count - len(self._made))]
        return self._made[:count]


def _partly(statement: Statement) -> bool:
    """Can some of its numbers be over nobody while others are not?"""
    return bool(statement.keys or statement.having) or any(len(q.needs) > 1 for q in statement.queries)


def _reason(statement: Statement, rows: Sequence[Sequence[Any]] | None, filled: Filled) -> str:
    if rows is None:
        return FAILS
    try:
        filled.prepare([statement])
        claimed = rows_of(statement, filled)
    except Exception:  # whatever our side trips over, the statement was not checked
        return DIFFERS
    return "" if claimed is not None and agree(rows, claimed) else DIFFERS


def agree(rows: Sequence[Sequence[Any]], claimed: Sequence[Sequence[Any]]) -> bool:
    """Are these the same rows, in any order? Each row of the engine takes one of the claimed rows."""
    if len(rows) != len(claimed):
        return False
    left: dict[tuple[Any, ...], list[Sequence[Any]]] = {}
    for claim in claimed:
        left.setdefault(_name(claim, claim), []).append(claim)
    for row in rows:
        pattern = claimed[0]
        if len(row) != len(pattern):
            return False
        mine = left.get(_name(row, pattern), [])
        at = next((i for i, claim in enumerate(mine) if all(map(_same, row, claim))), None)
        if at is None:
            return False
        del mine[at]
    return True


def _name(row: Sequence[Any], pattern: Sequence[Any]) -> tuple[Any, ...]:
    """The key cells of a row, to look it up by."""
    return tuple(
        _plain(v) for v, p in zip(row, pattern, strict=True) if not isinstance(p, FormAnswer) and p is not FREE
    )


def _same(found: Any, claim: Any) -> bool:
    if claim is FREE:
        return True
    if not isinstance(claim, FormAnswer):
        return bool(_plain(found) == _plain(claim))
    if claim.number is OVER_ZERO:
        return found is None or isinstance(found, bool) or (isinstance(found, float) and not isfinite(found))
    if claim.asks:
        return found is claim.truth or (claim.close and isinstance(found, bool))
    if claim.number is None or found is None:
        return found is None and claim.number is None
    if isinstance(found, bool) or not isinstance(found, int | float | Decimal) or not isfinite(found):
        return False
    exact = Fraction(found)
    if claim.digits is None:
        return exact == claim.number or (isinstance(found, float) and abs(exact - claim.number) <= claim.slack)
    step = Fraction(1) / Fraction(10) ** claim.digits
    off = abs(exact / step - round(exact / step))
    below, above = rounds(claim.rounding, exact, step)
    near = exact - below - Fraction(claim.slack) <= claim.number <= exact + above + Fraction(claim.slack)
    return near and off <= Fraction(1, 10**6)


def _plain(value: Any) -> Any:
    """A key as something to compare: numbers by value, days as midnight."""
    if isinstance(value, int | Decimal | float) and not isinstance(value, bool) and isfinite(value):
        return Fraction(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day)
    return str(value) if isinstance(value, dict | list) else value
