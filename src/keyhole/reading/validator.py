"""Translation validation: the engine runs the analyst's own text on a made-up table, and the form must say the same.

The public columns of that table are real ones, with rows added on which the statement decides something; the private
columns are made up, at least twice over. Every cell is compared, with the number of columns, the groups that are shown,
and NULL against 0. What differs is not judged. The check depends on the text and on public things only.
"""

from __future__ import annotations

import datetime as dt
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np

from keyhole.basis.bits import Mask
from keyhole.datasets import AsWritten, Filling, ProbeTable, Roster
from keyhole.errors import DIFFERS, UnsupportedQuery, pass_on_interruption
from keyhole.model.meaning import OVER_ZERO, invert_rounding
from keyhole.model.predicate import TRUE, Opaque, Predicate, Scalar, format_predicate, make_or
from keyhole.model.query import Aggregate, Key, Query, Statement, Term
from keyhole.model.schema import Role, Schema
from keyhole.reading.answers import FREE, FormAnswer, compute_rows
from keyhole.reading.filled_table import FilledTable, PlacedRows
from keyhole.reading.made_up_rows import (
    Record,
    assign_new_keys,
    copy_rows,
    keep_rows_with_new_ids,
    make_deciding_rows,
    make_up_rows,
)
from keyhole.reading.trial import Trial, may_be_partly_empty

BATCH = 250  # statements that share a made-up table
REMEMBERED = 100_000
QUOTIENT_DIGITS = 16  # that a NUMERIC quotient has at least


class Validator:
    """Checks readings against the engine; each text once for each who asks it, and one thread at a time.

    Cost: a text is parsed once and run twice, on some hundred rows with other private values each time; and over a few
    rows if some of its numbers can be over nobody while others are not, else over none (one run for all of one head).
    """

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._made: ProbeTable | None = None
        self._known: dict[tuple[str | None, str, tuple[str, str]], str] = {}  # (asker, text, as written) -> reason
        self._nobody: dict[AsWritten, list[tuple[Any, ...]] | None] = {}
        self._keys = KeyRoundTrip(roster)
        self._lock = threading.Lock()  # of the made-up table, and of what is remembered

    def reasons(self, statements: Iterable[Statement], asker: str | None = None) -> list[str]:
        """Why each statement cannot be trusted to be read as the engine reads it; empty if it can.

        What is remembered is remembered for `asker`: the time that it takes must not say what others asked.
        """
        asked_statements = list(statements)
        with self._lock:
            if len(self._known) + len(asked_statements) > REMEMBERED:
                self._known.clear()
                self._nobody.clear()
            new = {mark: s for s in asked_statements if (mark := (asker, s.text, s.original)) not in self._known}
            for told_apart in (True, False):  # where it matters that an id is one record's, or not
                some = [s for s in new.values() if _says_distinct(s) is told_apart]
                for start in range(0, len(some), BATCH):
                    batch = some[start : start + BATCH]
                    for statement, reason in zip(batch, self._run_batch(batch), strict=True):
                        if reason and len(batch) > 1:  # looked at again alone: the rows of others are not its own
                            reason = self._run_batch([statement])[0]
                        self._known[asker, statement.text, statement.original] = reason
            found = [self._known[asker, s.text, s.original] for s in asked_statements]
            return [
                why or ("" if self._keys.hold(s) else DIFFERS) for why, s in zip(found, asked_statements, strict=True)
            ]

    def _run_batch(self, batch: Sequence[Statement]) -> list[str]:
        """Why each statement is not what its text says, on a made-up table that they share; empty if it is."""
        if self._made is None:
            self._made = self._roster.probe()
        probe, schema = self._made, self._made.schema
        sample = probe.sample()
        trials = [Trial.of(s, schema) for s in batch]
        public = {c.name: c for c in schema.columns if not c.secret}
        ids = [c.name for c in schema.of_role(Role.ID)]
        extra = copy_rows(sample, ids, ROWS)
        own = [make_deciding_rows(trial, public, ids, sample, turn) for turn, trial in enumerate(trials)]
        if schema.people:  # several rows of one person are as they should be
            joined = [other for each in schema.related if not each.dimension for _, other in each.keys]
            keys = {name: public[name] for name in (*ids, *joined) if name in public}
            pairs = enumerate(zip(own, trials, strict=True))
            own = [assign_new_keys(rows, trial, keys, ids, sample, at) for at, (rows, trial) in pairs]
        extra += [row for rows in own for row in rows]
        if any(map(_says_distinct, batch)) and not schema.people:
            extra = keep_rows_with_new_ids(extra, sample, ids)
        placed = PlacedRows(probe, probe.place(extra))
        if any(not r.dimension and not r.secret for r in schema.related):  # public conditions may look at public rows
            probe.fill(Filling.FIRST, {}, (), (), make_up_rows(trials, own, schema, Filling.FIRST))
        constants: dict[str, list[Scalar]] = {}
        for trial in trials:
            for name, values in trial.private_constants().items():
                constants.setdefault(name, []).extend(values)
        with suppress(Exception):  # one condition that fails: each statement then looks up its own
            placed.prepare(leaf for trial in trials for leaf in trial.public)
        reasons = [""] * len(trials)
        for filling in Filling:
            some = [
                i for i, trial in enumerate(trials) if not reasons[i] and _runs_on(trial.statement, filling, schema)
            ]
            rows = make_up_rows(trials, own, schema, filling) if schema.people and some else {}
            found = self._run_filling(filling, [trials[i] for i in some], placed, constants, rows) if some else []
            for i, reason in zip(some, found, strict=True):
                reasons[i] = reason
        return reasons

    def _run_filling(
        self,
        filling: Filling,
        trials: Sequence[Trial],
        placed: PlacedRows,
        constants: Mapping[str, Sequence[Scalar]],
        rows: Mapping[str, Sequence[Record]],
    ) -> list[str]:
        """What there is to say against each trial on one filling."""
        alike = [trial.asked for trial in trials]
        known: dict[AsWritten, list[tuple[Any, ...]] | None] = {}
        if filling is Filling.NOBODY:  # a run over nobody is remembered by the head of the text, if there is one
            alike, known = (
                [replace(asked, text="", as_written="") if asked.head else asked for asked in alike],
                self._nobody,
            )
        new = {key: trial.asked for key, trial in zip(alike, trials, strict=True) if key not in known}
        kept: Mask = np.zeros(placed.n, dtype=np.bool_)
        queries = (query for trial in trials for query in (*trial.statement.queries, *trial.statement.tested))
        if new or any(query.aggregate is Aggregate.PUBLIC for query in queries):  # asked while it is compared
            others = dict.fromkeys(other for trial in trials for other in trial.statement.tables)
            kept = placed.probe.fill(filling, constants, [t.asked.table for t in trials], tuple(others), rows)
            known |= dict(zip(new, placed.probe.run(list(new.values())), strict=True))
        filled = FilledTable(placed, kept)
        with suppress(Exception):
            filled.prepare(leaf for trial in trials for leaf in trial.private)
        return [_explain_difference(trial, known[key], filled) for key, trial in zip(alike, trials, strict=True)]


def _runs_on(statement: Statement, filling: Filling, schema: Schema) -> bool:
    """Is it run on that filling? Of those for sums over nobody, only on those that may show something."""
    if filling <= Filling.SECOND:
        return True
    if filling in (Filling.FEW, Filling.NOBODY):
        return may_be_partly_empty(statement) is (filling is Filling.FEW)
    without = filling.without(schema)
    return may_be_partly_empty(statement) and any(
        not q.columns.isdisjoint(without) for q in (*statement.queries, *statement.tested)
    )


def _says_distinct(statement: Statement) -> bool:
    return "distinct" in statement.text.lower()


def _explain_difference(trial: Trial, rows: Sequence[Sequence[Any]] | None, filled: FilledTable) -> str:
    if rows is None:
        return explain_refusal(trial.statement.text)
    try:
        claimed = compute_rows(trial, filled)
    except UnsupportedQuery as error:  # the engine of the data computes no such thing for us
        return error.message
    except Exception as error:  # whatever our side trips over, the statement was not checked
        pass_on_interruption(error)
        return DIFFERS
    return "" if claimed is not None and rows_agree(rows, claimed) else DIFFERS


def rows_agree(rows: Sequence[Sequence[Any]], claimed: Sequence[Sequence[Any]]) -> bool:
    """Are these the same rows, in any order? Each row of the engine takes one of the claimed rows."""
    if len(rows) != len(claimed) or any(len(row) != len(claimed[0]) for row in rows):
        return False
    if len(rows) == 1:
        return all(map(_cells_agree, rows[0], claimed[0]))
    left: dict[tuple[Any, ...], list[Sequence[Any]]] = {}
    columns = range(len(claimed[0]) if claimed else 0)  # rows are looked up by the cells of keys
    keys = [i for i in columns if not any(claim[i] is FREE or isinstance(claim[i], FormAnswer) for claim in claimed)]
    for claim in claimed:
        left.setdefault(tuple(_normalize(claim[i]) for i in keys), []).append(claim)
    for row in rows:
        mine = left.get(tuple(_normalize(row[i]) for i in keys), [])
        at = next((i for i, claim in enumerate(mine) if all(map(_cells_agree, row, claim))), None)
        if at is None:
            return False
        del mine[at]
    return True


def _cells_agree(cell: Any, claim: Any) -> bool:
    if claim is FREE:
        return True
    if not isinstance(claim, FormAnswer):
        return bool(_normalize(cell) == _normalize(claim))
    if claim.number is OVER_ZERO:
        return cell is None or isinstance(cell, bool) or (isinstance(cell, float) and not isfinite(cell))
    if claim.asks:
        return cell is claim.truth or (claim.close and isinstance(cell, bool))
    if claim.number is None or cell is None:
        return cell is None and claim.number is None
    if isinstance(cell, bool) or not isinstance(cell, int | float | Decimal) or not isfinite(cell):
        return False
    if claim.digits is None and type(cell) is int:
        return bool(cell == claim.number)
    exact = Fraction(cell)
    if claim.digits is None:
        if isinstance(cell, Decimal):
            return exact == claim.number or _is_rounded_quotient(cell, claim.number)
        return exact == claim.number or (isinstance(cell, float) and abs(exact - claim.number) <= claim.slack)
    step = Fraction(1) / Fraction(10) ** claim.digits
    off = abs(exact / step - round(exact / step))
    below, above = invert_rounding(claim.rounding, exact, step)
    near = exact - below - Fraction(claim.slack) <= claim.number <= exact + above + Fraction(claim.slack)
    return near and off <= Fraction(1, 10**6)


def _is_rounded_quotient(cell: Decimal, number: Fraction) -> bool:
    """Is a decimal the number, but for its own last digit? PostgreSQL's AVG is a NUMERIC of at least 16 digits.

    A number that has no more digits behind its point than the decimal must be that decimal.

    >>> _is_rounded_quotient(Decimal("0.66666666666666666667"), Fraction(2, 3))
    True
    >>> _is_rounded_quotient(Decimal("0.67"), Fraction(2, 3)), _is_rounded_quotient(Decimal("12"), Fraction(13))
    (False, False)
    """
    _, digits, exponent = cell.as_tuple()
    if not isinstance(exponent, int) or len(digits) < QUOTIENT_DIGITS:
        return False
    unit = Fraction(10) ** exponent
    return (number / unit).denominator != 1 and abs(Fraction(cell) - number) <= unit


def _normalize(value: Any) -> Any:
    """A key as something to compare: numbers by value, days as midnight."""
    if isinstance(value, int | Decimal | float) and not isinstance(value, bool) and isfinite(value):
        return Fraction(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day)
    return str(value) if isinstance(value, dict | list) else value


# --- group keys there and back ----------------------------------------------------------------------------------------
# Group keys there and back: a key value that was fetched must, written as a condition, find its group again.
#
# Engines have values that Python spells otherwise (times in nanoseconds, intervals, blobs): two groups would become
# one, or a group nobody's. What does not come back is not judged.


FETCHED = 2_000  # about so many values of a key are fetched, chosen by their hash
TRIED = 40  # of these are written as conditions


class KeyRoundTrip:
    """Checks public keys, each once. Cost: three passes over the column in the engine."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._known: dict[Key, bool] = {}

    def hold(self, statement: Statement) -> bool:
        """Do all public keys of a statement come back as they went?"""
        for key in statement.keys:
            if key.hidden(self._roster.schema.private_names):
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
        each = [f"COUNT(*) FILTER (WHERE {format_predicate(c)})" for c in conditions]
        together = f"COUNT(*) FILTER (WHERE {format_predicate(make_or(*conditions))})"
        least = each[0] if len(each) == 1 else f"LEAST({', '.join(each)})"
        return self._count(f"CASE WHEN {least} > 0 AND {' + '.join(each)} = {together} THEN 1 ELSE 0 END", TRUE) == 1

    def _count(self, figure: str, where: Predicate) -> int:
        found = self._roster.figure(Query(Aggregate.PUBLIC, (Term(None, where, weight=figure),)))
        return int(found or 0)


# --- statements that were taken apart ---------------------------------------------------------------------------------
# Statements that were taken apart: their own text is run, too, and what the engine refuses is not judged.
#
# A share, a list with LIMIT, a UNION is judged by plain statements that tell as much or more (`keyhole.sql.read`),
# which are run and compared (`Validator`). That says nothing of the text they came from: a function that the engine
# does not have, a hint, a clause of another engine are not in them. So the text itself is run once on a made-up table.


FAILS = "the engine refuses to run it as it is written"
RESERVED = """
ALL AND ANY ARRAY AS ASC BOTH CASE CAST CHECK COLLATE COLUMN CONSTRAINT CREATE DEFAULT DESC DISTINCT DO ELSE END EXCEPT
FALSE FETCH FOR FOREIGN FROM GRANT GROUP HAVING IN INTERSECT INTO LATERAL LIMIT NOT NULL OFFSET ON ONLY OR ORDER PRIMARY
QUALIFY REFERENCES RETURNING SELECT SOME TABLE THEN TO TRUE UNION UNIQUE USING WHEN WHERE WINDOW WITH
"""
MANY_LINKS = 200  # queries in WITH, or in parentheses, from which on the engine may give up
ROWS = 40  # a made-up table has at least so many
_LINK = re.compile(r"\(\s*SELECT\b", re.IGNORECASE)


def find_refusals(lines: Sequence[Sequence[Statement]], roster: Roster) -> list[str]:
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
    probe.place(copy_rows(probe.sample(), [c.name for c in probe.schema.of_role(Role.ID)], ROWS))
    others = dict.fromkeys(other for part in mine for other in part.tables)
    probe.fill(Filling.FIRST, {}, list(dict.fromkeys(part.table for part in mine)), tuple(others), {})
    runs = dict(zip(texts, probe.can_run(texts), strict=True))
    failing = ([part.written for part in line if part.written and not runs[part.written]] for line in lines)
    return [explain_refusal(failed[0]) if failed else "" for failed in failing]


def explain_refusal(sql: str) -> str:
    """The engine's refusal, with its likely cause: a table that is called as a word of SQL, or too long a chain."""
    links = len(_LINK.findall(sql))
    if links > MANY_LINKS:
        return (
            f"the engine gives up on it: it has {links:,} queries that read from one another, and some hundreds are "
            "the most; write it as fewer of them, or put the first ones into a view"
        )
    word = re.search(r"\b(?:from|join)\s+([a-z]+)\b", sql, re.IGNORECASE)
    if word is None or word[1].upper() not in RESERVED.split():
        return FAILS
    return f'{FAILS}: {word[1]} is a word of SQL, so write "{word[1]}" for a table of that name'
