"""Lines of a log to a Transcript: each statement lowered, expanded by its groups, and paired with its answers."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from keyhole.errors import LogError, ParseError, QueryError
from keyhole.predicate import IsNull, Opaque, Scalar, conjunction, disjunction, leaves, negation
from keyhole.query import Aggregate, Query, Statement, Term
from keyhole.schema import Kind, Schema
from keyhole.sql import carried, lower
from keyhole.tables import GroupKey, Roster, Source
from keyhole.transcript import ABSENT, NULL_ANSWER, Answer, Entry, Line, Noise, Refusal, Transcript, parse_answer

_SELECT = re.compile(r"\bSELECT\b", re.IGNORECASE)


def transcribe(
    lines: Iterable[Line],
    roster: Roster,
    *,
    source: Source | None = None,
    noise: Noise | None = None,
) -> Transcript:
    """Lower every line; a statement that is refused is listed, and the others go on.

    So is one that was written for another engine and may mean something else in DuckDB: it is read, and not judged.

    Answers come from the line. Where it has none and there is a source, the groups shown come from the source and the
    answer stays None, to be computed over atoms by `gather`.
    """
    entries: list[Entry] = []
    refused: list[Refusal] = []
    unjudged: list[Refusal] = []
    for line in lines:
        number = str(line.number)
        found = carried(line.sql, line.dialect, roster.schema)
        line = replace(line, sql=found.sql)
        try:
            statement = lower(line.sql, roster.schema)
            if found.reason:
                unjudged.append(Refusal(number, line.sql, found.reason))
                continue
            entries.extend(_expand(number, line, statement, roster, source, noise))
        except QueryError as error:
            error.first_line = line.at
            if isinstance(error, ParseError) and error.position and _SELECT.search(line.sql, error.position):
                error.message += "; if a second statement starts there, end the first with a semicolon"
            refused.append(Refusal(number, line.sql, str(error)))
        except LogError as error:
            refused.append(Refusal(number, line.sql, f"line {line.at}: {error}"))
    return Transcript(tuple(entries), tuple(refused), tuple(unjudged))


def _expand(
    number: str,
    line: Line,
    statement: Statement,
    roster: Roster,
    source: Source | None,
    noise: Noise | None,
) -> list[Entry]:
    law = line.noise or noise
    grouped = bool(statement.keys)
    asked: list[tuple[Query, Answer | None]] = []
    if line.answer is ABSENT:
        shown = source.shown(statement) if source is not None else roster.keys(statement)
        for key in shown if grouped else [{}]:
            asked.extend((q, None) for q in statement.group(key))
    else:
        groups = _groups(line.answer, statement, roster.schema)
        shown = [key for key, _ in groups]
        for key, values in groups:
            for q, given in zip(statement.group(key), values, strict=True):
                asked.append((q, parse_answer(given, law if not isinstance(given, bool) else None)))
    if statement.having:
        asked = _having(statement, asked, shown, roster, source if line.answer is ABSENT else None)
    elif grouped and (line.answer is not ABSENT or (source is not None and _hides(statement, roster))):
        asked.extend(_absent(statement, shown, roster))
    single = len(asked) == 1 and not grouped
    return [
        Entry(number if single else f"{number}.{part}", line.sql, query, answer)
        for part, (query, answer) in enumerate(asked, 1)
    ]


def _having(
    statement: Statement,
    asked: list[tuple[Query, Answer | None]],
    shown: Sequence[GroupKey],
    roster: Roster,
    source: Source | None,
) -> list[tuple[Query, Answer | None]]:
    """HAVING: which groups are shown is itself an answer, a threshold one where the test is private.

    With a source the shown groups are those that pass; from a transcript they are the ones it lists.
    """
    secret = frozenset(c.name for c in roster.schema.columns if c.secret)

    def informative(query: Query) -> bool:
        looks = any(
            not isinstance(leaf, IsNull | Opaque) and leaf.column in secret
            for t in query.terms
            for leaf in leaves(t.where)
        )
        return bool(query.columns) or looks

    every = shown if source is not None or not statement.keys else roster.keys(statement)
    listed = {_text(key) for key in shown}
    kept: list[tuple[Query, Answer | None]] = []
    for key in every if statement.keys else [{}]:
        tests = statement.tests(key)
        passed = all(source.evaluate(q) is True for q in tests) if source is not None else _text(key) in listed
        if passed:
            named = tuple((k, v) for k, v in key.items())
            kept.extend((q, a) for q, a in asked if _text(dict(q.key)) == _text(dict(named)))
            kept.extend((q, Answer(True, None, None)) for q in tests if informative(q))
        elif len(tests) == 1 and informative(tests[0]):
            kept.append((tests[0], Answer(False, None, None)))
    return kept


def _text(key: GroupKey) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((k, str(v)) for k, v in key.items()))


def _absent(statement: Statement, shown: Sequence[GroupKey], roster: Roster) -> list[tuple[Query, Answer | None]]:
    """Groups that could have been shown but were not: nobody is in them.

    For each combination of public keys, one count of zero over all values of the private keys that were not shown
    with it; and where only public things decide, a group that is missing contradicts the table.
    """
    secret = {c.name for c in roster.schema.columns if c.secret}
    private = [k for k in statement.keys if k.column in secret]
    names = {k.name for k in private}
    by_public: dict[tuple[tuple[str, str], ...], list[GroupKey]] = {}
    for key in shown:
        by_public.setdefault(_text({k: v for k, v in key.items() if k not in names}), []).append(key)
    found: list[tuple[Query, Answer | None]] = []
    for public in roster.keys(statement):
        here = by_public.get(_text(public), [])
        if not private:
            if not here:
                for q in statement.group(public):
                    zero = q.aggregate is Aggregate.SUM and not q.per and not q.columns
                    found.append((q, Answer.exact(0) if zero else NULL_ANSWER))
            continue
        listed = disjunction(*(conjunction(*(k.equals(key[k.name]) for k in private if k.name in key)) for key in here))
        chosen = [k for k in statement.keys if k.name in public]
        where = conjunction(statement.where, *(k.equals(public[k.name]) for k in chosen), negation(listed))
        rest = Query(Aggregate.SUM, (Term(None, where),), key=tuple(public.items()), label="every other group")
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
