"""Lines of a log to a Transcript: each statement lowered, expanded by its groups, and paired with its answers."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from keyhole.errors import DIFFERS, LogError, ParseError, QueryError
from keyhole.gather.having import named, told
from keyhole.predicate import IsNull, Opaque, Scalar, conjunction, disjunction, leaves, negation
from keyhole.query import OTHER_GROUPS, Aggregate, Query, Statement, Term
from keyhole.reading import Spelling, Validator
from keyhole.schema import Kind, Schema
from keyhole.sql import carried, lower
from keyhole.tables import GroupKey, Roster, Source
from keyhole.transcript import ABSENT, Answer, Entry, Line, Noise, Refusal, Transcript, parse_answer

_SELECT = re.compile(r"\bSELECT\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Read:
    """A line of a log with what it was lowered to; else why it was refused, or read and not judged."""

    line: Line
    statement: Statement | None
    refused: str = ""
    unjudged: str = ""


def transcribe(
    lines: Iterable[Line],
    roster: Roster,
    *,
    source: Source | None = None,
    noise: Noise | None = None,
) -> Transcript:
    """Lower every line, check each reading against the engine, and pair it with its answers.

    A statement that is refused is listed, and the others go on. So is one that was written for another engine and may
    mean something else in DuckDB, and one that the engine reads differently: it is read, and not judged.

    Answers come from the line. Where it has none and there is a source, the groups shown come from the source and the
    answer stays None, to be computed over atoms by `gather`.
    """
    return expanded(checked(lowered(lines, roster.schema), roster), roster, source=source, noise=noise)


def lowered(lines: Iterable[Line], schema: Schema) -> list[Read]:
    """Every line on its own: lowered, or refused with the reason."""
    found = []
    for line in lines:
        carry = carried(line.sql, line.dialect, schema)
        try:
            statement = lower(carry.sql, schema)
        except QueryError as error:
            error.first_line = line.at
            if isinstance(error, ParseError) and error.position and _SELECT.search(line.sql, error.position):
                error.message += "; if a second statement starts there, end the first with a semicolon"
            foreign = carry.reason if isinstance(error, ParseError) else ""  # DuckDB's grammar says nothing of it
            found.append(Read(line, None, refused=f"line {line.at}: {foreign}" if foreign else str(error)))
        except Exception as error:  # one statement that our reader trips over never stops the others
            found.append(Read(line, None, refused=_tripped(error)))
        else:
            found.append(Read(line, statement, unjudged=carry.reason))
    return found


def checked(read: Sequence[Read], roster: Roster) -> list[Read]:
    """What is read, run as it is written on a made-up table: what differs from the reading is not judged.

    Nor is a statement with a constant that nobody has and that is a value of the column but for blanks and capitals.
    """
    asked = [r.statement for r in read if r.statement is not None and not r.unjudged]
    spelling = Spelling(roster)
    said = Validator(roster).reasons(asked) if asked else []
    reasons = iter([reason or spelling.reason(s) for s, reason in zip(asked, said, strict=True)])
    return [replace(r, unjudged=next(reasons)) if r.statement is not None and not r.unjudged else r for r in read]


def expanded(
    read: Iterable[Read], roster: Roster, *, source: Source | None = None, noise: Noise | None = None
) -> Transcript:
    """Each statement as its queries, group by group, paired with the answers."""
    entries: list[Entry] = []
    refused: list[Refusal] = []
    unjudged: list[Refusal] = []
    for each in read:
        line, number = each.line, str(each.line.number)
        if each.statement is None:
            refused.append(Refusal(number, line.sql, each.refused))
            continue
        if each.unjudged:
            unjudged.append(Refusal(number, line.sql, each.unjudged))
            continue
        try:
            found, why = _expand(number, line, each.statement, roster, source, noise)
        except LogError as error:
            refused.append(Refusal(number, line.sql, f"line {line.at}: {error}"))
            continue
        except QueryError as error:
            refused.append(Refusal(number, line.sql, str(error)))
            continue
        except Exception as error:
            refused.append(Refusal(number, line.sql, _tripped(error)))
            continue
        entries.extend(found)
        if why:
            unjudged.append(Refusal(number, line.sql, why))
    return Transcript(tuple(entries), tuple(refused), tuple(unjudged))


def _tripped(error: Exception) -> str:
    """What went wrong with one statement, without its words: they may quote a value."""
    return f"it could not be read ({type(error).__name__}); please report"


def _expand(
    number: str,
    line: Line,
    statement: Statement,
    roster: Roster,
    source: Source | None,
    noise: Noise | None,
) -> tuple[list[Entry], str]:
    """The entries of one statement, and why something of it is not judged (else empty)."""
    law = line.noise or noise
    bits = None if law is None or law.kind == "rounded" else law  # a yes or no is not rounded when it is printed
    grouped = bool(statement.keys)
    asked: list[tuple[Query, Answer | None]] = []
    why = ""
    if line.answer is ABSENT:
        shown = source.shown(statement) if source is not None else roster.keys(statement)
        if source is not None and not _found_again(statement, shown, source):
            return [], DIFFERS
        for key in shown if grouped else [{}]:
            asked.extend((q, None) for q in statement.group(key))
    else:
        groups = _groups(line.answer, statement, roster.schema)
        shown = [key for key, _ in groups]
        for key, values in groups:
            for q, given in zip(statement.group(key), values, strict=True):
                asked.append((q, parse_answer(given, bits if isinstance(given, bool) else law)))
    if statement.having:
        found = told(statement, shown, roster, source if line.answer is ABSENT else None)
        kept = {named(key) for key in found.shown}
        asked = [(q, a) for q, a in asked if named(dict(q.key)) in kept]
        asked.extend((q, a if a is None else replace(a, noise=bits)) for q, a in found.said)
        why = found.open
    elif grouped and (line.answer is not ABSENT or (source is not None and _hides(statement, roster))):
        asked.extend(_absent(statement, shown, roster))
    single = len(asked) == 1 and not grouped
    return [
        Entry(number if single else f"{number}.{part}", line.sql, query, answer)
        for part, (query, answer) in enumerate(asked, 1)
    ], why


def _found_again(statement: Statement, shown: Sequence[GroupKey], source: Source) -> bool:
    """Does the key of a group, written as a condition, find somebody? Private blobs and intervals do not."""
    odd = {c.name for c in source.schema.columns if c.secret and c.kind is Kind.OTHER}
    if not any(k.column in odd for k in statement.keys):
        return True  # public keys were checked with the reading
    for key in shown[:: 1 + len(shown) // 40]:
        where = conjunction(*(k.equals(key[k.name]) for k in statement.keys if k.name in key))
        if not source.evaluate(Query(Aggregate.SUM, (Term(None, where),))):
            return False
    return True


def _absent(statement: Statement, shown: Sequence[GroupKey], roster: Roster) -> list[tuple[Query, Answer | None]]:
    """Groups that could have been shown but were not: nobody is in them.

    For each combination of public keys, one count of zero over all values of the private keys that were not shown
    with it; where only public things decide, that contradicts the table.
    """
    secret = {c.name for c in roster.schema.columns if c.secret}
    private = [k for k in statement.keys if k.column in secret]
    names = {k.name for k in private}
    by_public: dict[tuple[tuple[str, str], ...], list[GroupKey]] = {}
    for key in shown:
        by_public.setdefault(named({k: v for k, v in key.items() if k not in names}), []).append(key)
    found: list[tuple[Query, Answer | None]] = []
    for public in roster.keys(statement):
        here = by_public.get(named(public), [])
        if not private and here:
            continue
        listed = disjunction(*(conjunction(*(k.equals(key[k.name]) for k in private if k.name in key)) for key in here))
        chosen = [k for k in statement.keys if k.name in public]
        where = conjunction(statement.where, *(k.equals(public[k.name]) for k in chosen), negation(listed))
        rest = Query(Aggregate.SUM, (Term(None, where),), key=tuple(public.items()), label=OTHER_GROUPS)
        found.append((rest, Answer.exact(0)))
    return found


def _hides(statement: Statement, roster: Roster) -> bool:
    """Does it depend on private values which groups are shown?"""
    secret = {c.name for c in roster.schema.columns if c.secret}
    looks = (not isinstance(leaf, IsNull | Opaque) and leaf.column in secret for leaf in leaves(statement.where))
    return any(k.column in secret for k in statement.keys) or any(looks)


def _groups(answer: Any, statement: Statement, schema: Schema) -> list[tuple[GroupKey, list[Any]]]:
    """A JSON answer as (key, values) pairs."""
    wanted = len(statement.queries)
    if not isinstance(answer, list):
        if statement.keys:
            raise LogError('a GROUP BY has an answer for each group: [{"key": {...}, "values": [...]}, ...]')
        if wanted != 1:
            raise LogError(f'{wanted} numbers were asked for: write [{{"key": {{}}, "values": [...]}}]')
        return [({}, [answer])]
    if (
        not statement.keys
        and len(answer) == wanted
        and not any(isinstance(part, dict) and "values" in part for part in answer)
    ):
        return [({}, list(answer))]
    found: list[tuple[GroupKey, list[Any]]] = []
    for part in answer:
        if not isinstance(part, Mapping) or set(part) - {"key", "values"} or not isinstance(part.get("values"), list):
            raise LogError('each group is {"key": {"column": value}, "values": [...]}')
        if len(part["values"]) != wanted:
            raise LogError(f"a group has {len(part['values'])} values where the SELECT asks for {wanted}")
        given = part.get("key", {})
        key: GroupKey = {}
        for k in statement.keys:
            match = next((name for name in given if name.casefold() == k.name.casefold()), None)
            if match is not None:
                column = schema.find(k.column) if k.column is not None else None
                key[k.name] = _coerce(given[match], column.kind if column else None)
        unknown = [name for name in given if name.casefold() not in {k.name.casefold() for k in statement.keys}]
        if unknown:
            raise LogError(
                f"key {unknown[0]!r} is not in the GROUP BY; it has {', '.join(k.name for k in statement.keys)}"
            )
        if len(statement.sets) == 1 and len(key) != len(statement.keys):
            missing = next(k.name for k in statement.keys if k.name not in key)
            raise LogError(f"a group's key lacks {missing!r}")
        found.append((key, list(part["values"])))
    return found


def _coerce(value: Any, kind: Kind | None) -> Scalar | None:
    """A JSON key value as the column holds it."""
    if value is None or isinstance(value, bool):
        return value
    try:
        if kind is Kind.DATE:
            return dt.date.fromisoformat(str(value))
        if kind is Kind.TIMESTAMP:
            return dt.datetime.fromisoformat(str(value))
        if kind is not None and kind.numeric:
            value = Decimal(value)
        elif kind is Kind.TEXT:
            return str(value)
    except (ValueError, InvalidOperation):
        raise LogError(f"key {value!r} is not a {kind}") from None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else value
    return str(value)
