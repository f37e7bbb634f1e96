"""Lines of a log to a Transcript: each statement lowered, expanded by its groups, and paired with its answers."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from math import prod
from typing import Any, TypeAlias

import sqlglot
from sqlglot import exp

from keyhole.datasets import GroupKey, Roster, Source
from keyhole.errors import DIFFERS, LogError, ParseError, QueryError, pass_on_interruption
from keyhole.gather.answers import given_answer
from keyhole.gather.having import named, told
from keyhole.gather.shown_rows import Certain, certain, group_of, of_each, told_apart
from keyhole.gather.whole_table import WholeTableReader, read_over
from keyhole.model.forms import MAX_JOINT_CELLS, find_private_leaves
from keyhole.model.predicate import FALSE, Scalar, make_and, make_not, make_or
from keyhole.model.query import (
    COUNTED_ROWS,
    COVERED,
    DOUBTFUL,
    FINER,
    IF_SHOWN,
    IN_PART,
    OTHER_GROUPS,
    Aggregate,
    Query,
    RowList,
    Statement,
    Term,
)
from keyhole.model.schema import Kind, Schema
from keyhole.model.transcript import ABSENT, Answer, Entry, HandedOut, Line, Noise, Refusal, Transcript
from keyhole.reading import FAILS, Validator, find_refusals
from keyhole.reading.spelling import Spelling
from keyhole.sql import Unread
from keyhole.sql.dialects.engine import Dialect, find_engine
from keyhole.sql.read import read_public_statement
from keyhole.sql.rewriting.row_lists import may_show_private_values, shows_private_values
from keyhole.sql.statements.clock import read_time_stamp
from keyhole.sql.statements.engine_guess import describe_guess

Asked: TypeAlias = tuple[Query, Answer | None, str]  # with the certainty that it was shown
TOO_MANY_CELLS = (
    f"what tells as much, how many people have each combination of private values, is more than {MAX_JOINT_CELLS} cells"
)
CUT_PRIVATELY = "which groups there are depends on private values, and not all of them are listed: leave the LIMIT out"
DROPPED = "groups that are not shown may have been left out for their noise: nothing is read from their absence"
NO_ROW = "a SELECT without GROUP BY always has one row, and the answer has {}: the log has lost it"
SEVERAL_ALIKE = "rows of several people look alike in public columns, and what is computed of each is not judged there"
ORDER_UNKNOWN = "the order in which its rows came may tell more than the rows: add ORDER BY with all columns shown"
ROWS_WANTED = 'the answer of a statement that shows rows is a list of its rows: [["Ann", 50], ["Bob", 60]]'
_NOBODY = Query(Aggregate.SUM, (Term(None, FALSE),))
_SELECT = re.compile(r"\bSELECT\b", re.IGNORECASE)
_OF_TEXTS = re.compile(r"\b(?:SUBSTR(?:ING)?|LEFT|RIGHT|CONCAT|UPPER|LOWER|I?LIKE|NVL|STARTS_?WITH)\b|\|\|", re.I)


@dataclass(frozen=True, slots=True)
class Read:
    """A line of a log with what it was lowered to; else why it was refused, or read and not judged.

    Some texts are several statements: `others` are those after the first. `public`: it looks at dimensions alone.
    """

    line: Line
    statement: Statement | None
    refused: str = ""
    unjudged: str = ""
    others: tuple[Statement, ...] = ()
    public: bool = False

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All of them."""
        return () if self.statement is None else (self.statement, *self.others)

    @property
    def readings(self) -> tuple[Statement, ...]:
        """All of them; in place of a row list, the groupings that it is read as."""
        return tuple(each for s in self.statements for each in ((s,) if s.rows is None else s.rows.readings))


def transcribe(
    lines: Iterable[Line],
    roster: Roster,
    *,
    source: Source | None = None,
    noise: Noise | None = None,
    now: dt.date | None = None,
) -> Transcript:
    """Lower every line, check each reading against the engine, and pair it with its answers.

    A statement that is refused is listed, and the others go on. So is one that was written for another engine and may
    mean something else in DuckDB, and one that the engine reads differently: it is read, and not judged.

    Answers come from the line. Where it has none and there is a source, the groups shown come from the source and the
    answer stays None, to be computed over atoms by `gather`. `now` is when statements ran whose lines do not say it.
    """
    read_lines = lines if isinstance(lines, Sequence) else list(lines)
    schema = spelt_out(roster) if any(map(_looks_at_texts, read_lines)) else roster.schema
    again = WholeTableReader(roster, source)
    return expanded(checked(lowered(read_lines, schema, now, again), roster), roster, source=source, noise=noise)


def _looks_at_texts(line: Line) -> bool:
    """May it matter how the texts of public columns are spelt?"""
    engine = find_engine(line.dialect)
    return engine.may_ignore_case or (engine.portable_texts and _OF_TEXTS.search(line.sql) is not None)


def spelt_out(roster: Roster) -> Schema:
    """The schema with the values of public columns of text, for engines that treat some texts in a way of their own."""
    texts = [c.name for c in roster.schema.columns if c.kind is Kind.TEXT and not c.secret]
    return replace(roster.schema, spelt={name.casefold(): roster.spellings(name) for name in texts})


def lowered(
    lines: Iterable[Line], schema: Schema, now: dt.date | None = None, again: WholeTableReader | None = None
) -> list[Read]:
    """Every line on its own: lowered, or refused with the reason. What is refused is read `again`, over the table."""
    found = []
    for line in lines:
        when = read_time_stamp(line.time) or now
        try:
            first, *others = read_over(line, schema, when, again)
        except (Unread, QueryError) as error:
            public = read_public_statement(line.sql, line.dialect, schema)
            if public is not None or isinstance(error, Unread):
                why = str(error) if public is None else ""
                found.append(Read(line, public or Statement(line.sql, ()), unjudged=why, public=public is not None))
                continue
            error.first_line = line.at
            if isinstance(error, ParseError) and error.position and _SELECT.search(line.sql, error.position):
                error.message += "; if a second statement starts there, end the first with a semicolon"
            error.message += describe_guess(line.sql, line.dialect)
            placed = error.position is not None
            found.append(Read(line, None, refused=str(error) if placed else f"line {line.at}: {error}"))
        except Exception as error:  # one statement that our reader trips over never stops the others
            pass_on_interruption(error)
            found.append(Read(line, None, refused=_tripped(error)))
        else:
            found.append(Read(line, first, others=tuple(others)))
    return found


def checked(lines: Sequence[Read], roster: Roster) -> list[Read]:
    """What is read, run as it is written on a made-up table: what differs from the reading is not judged.

    Nor is a statement with a constant that nobody has and that is a value of the column but for blanks and capitals.
    """
    asked = [s for r in lines if not r.unjudged and not r.public for s in r.readings]
    spelling = Spelling(roster)
    said = Validator(roster).reasons(asked) if asked else []
    reasons = iter([reason or spelling.reason(s) for s, reason in zip(asked, said, strict=True)])
    found = []
    for each in lines:
        mine = [] if each.unjudged or each.public else [next(reasons) for _ in each.readings]
        found.append(replace(each, unjudged=next(filter(None, mine), each.unjudged)))
    run = find_refusals([() if each.unjudged else each.statements for each in found], roster)
    return [_likely(replace(each, unjudged=each.unjudged or why)) for each, why in zip(found, run, strict=True)]


def _likely(each: Read) -> Read:
    """With the engine that it looks like, where the engine refuses it."""
    if not each.unjudged.startswith(FAILS):
        return each
    return replace(each, unjudged=each.unjudged + describe_guess(each.line.sql, each.line.dialect))


def expanded(
    lines: Iterable[Read], roster: Roster, *, source: Source | None = None, noise: Noise | None = None
) -> Transcript:
    """Each statement as its queries, group by group, paired with the answers."""
    entries: list[Entry] = []
    refused: list[Refusal] = []
    unjudged: list[Refusal] = []
    handed_out: list[HandedOut] = []
    read_lines = list(lines)
    for each in read_lines:
        line, number = each.line, str(each.line.number)
        if (rows := _handed_out(each, roster, source)) is not None:
            handed_out.append(rows)
        if each.statement is None:
            refused.append(Refusal(number, line.sql, each.refused))
            continue
        if each.unjudged:
            unjudged.append(Refusal(number, line.sql, each.unjudged))
            continue
        if each.public:
            entries.append(Entry(number, line.sql, each.statement.queries[0], None))
            continue
        try:
            found, why = _expanded(number, line, each.statements, roster, source, noise)
        except (LogError, QueryError) as error:
            place = f"line {line.at}: " if isinstance(error, LogError) else ""
            refused.append(Refusal(number, line.sql, f"{place}{error}"))
            continue
        except Exception as error:
            pass_on_interruption(error)
            refused.append(Refusal(number, line.sql, _tripped(error)))
            continue
        entries.extend(found)
        if why:
            unjudged.append(Refusal(number, line.sql, why))
        elif not found:  # it shows no row, whatever the private values are: judged, and told of nobody
            entries.append(Entry(number, line.sql, _NOBODY, None))
    waiting = {r.number for r in (*refused, *unjudged)}
    unread = (each for each in read_lines if str(each.line.number) in waiting)
    may_show = frozenset(str(e.line.number) for e in unread if may_show_rows(e.line.sql, roster.schema, e.line.dialect))
    return Transcript(tuple(entries), tuple(refused), tuple(unjudged), tuple(handed_out), may_show)


def _tripped(error: Exception) -> str:
    """What went wrong with one statement, without its words: they may quote a value."""
    return f"it could not be read ({type(error).__name__}); please report"


def _hides_private_key(statement: Statement, schema: Schema) -> bool:
    """Are there groups by private values of which the result does not say which they are?"""
    secret = {column.name for column in schema.columns if column.secret}
    hidden = [key for key in statement.keys if key.hidden(secret)]
    return any(all(key.sql not in item.sql for item in statement.shown) for key in hidden)


def _expanded(
    number: str,
    line: Line,
    statements: Sequence[Statement],
    roster: Roster,
    source: Source | None,
    noise: Noise | None,
) -> tuple[list[Entry], str]:
    """The entries of all statements of one line, and why something of it is not judged (else empty)."""
    if any(s.mixed for s in statements) and not told_apart(statements, roster):
        statements = [replace(s, certainty=FINER, mixed=False) for s in statements]
    if (
        line.answer is not ABSENT
        and statements[0].certainty != COVERED
        and any(s.certainty == FINER for s in statements)
    ):
        statements = [replace(s, certainty=FINER) for s in statements]  # its numbers are not told apart: none is used
    if line.answer is ABSENT and any(_hides_private_key(s, roster.schema) for s in statements):
        statements = [replace(s, certainty=FINER) for s in statements]  # whose numbers they are is not shown
    alone = len(statements) == 1 and statements[0].certainty != FINER
    if line.answer is not ABSENT and not alone:
        given = of_each(line.answer, statements)
    else:
        given = [line.answer] * len(statements)
    asked: list[Asked] = []
    why = ""
    for statement, answer in zip(statements, given, strict=True):
        found, open_ = _expand(replace(line, answer=answer), statement, roster, source, noise)
        if statement.certainty == COVERED and open_:
            found, open_ = [(query, said, IN_PART) for query, said, _ in found], ""
        asked.extend(found)
        why = why or open_
    if why and statements[0].certainty == COVERED:  # what tells more cannot be listed: it stands for nothing
        return _expanded(number, line, (replace(statements[0], certainty=""),), roster, source, noise)
    single = len(asked) == 1 and not statements[0].keys and len(statements) == 1
    return [
        Entry(number if single else f"{number}.{part}", line.sql, query, answer, certainty)
        for part, (query, answer, certainty) in enumerate(asked, 1)
    ], why


def _expand(
    line: Line, statement: Statement, roster: Roster, source: Source | None, noise: Noise | None
) -> tuple[list[Asked], str]:
    """The queries of one statement with their answers, and why something of it is not judged (else empty)."""
    if statement.rows is not None:
        return _expand_rows(line, statement, statement.rows, roster, source, noise)
    law = line.noise or noise
    bits = None if law is None or law.kind == "rounded" else law  # a yes or no is not rounded when it is printed
    grouped = bool(statement.keys)
    asked: list[tuple[Query, Answer | None]] = []
    why = ""
    if line.answer is ABSENT:
        shown = source.returned_groups(statement) if source is not None else roster.keys(statement)
        if source is not None and not _found_again(statement, shown, source):
            return [], DIFFERS
        for key in shown if grouped else [{}]:
            asked.extend((q, None) for q in statement.group(key))
    else:
        groups = _groups(line.answer, statement, roster.schema)
        shown = [key for key, _ in groups]
        _check_rows(statement, shown)
        for key, values in groups:
            pairs = zip(statement.group(key), values, strict=True)
            asked.extend((q, given_answer(q, given, law)) for q, given in pairs)
    if statement.certainty in DOUBTFUL and _hides(statement, roster) and (source is None or line.answer is not ABSENT):
        return [], CUT_PRIVATELY
    if statement.certainty == IF_SHOWN and line.answer is not ABSENT:
        rows = _cut_off(statement, asked, shown, roster, noisy=bits is not None)
        return rows, CUT_PRIVATELY if statement.having else ""
    if _has_too_many_cells(statement, shown, roster):
        return [], TOO_MANY_CELLS
    tells, present = False, None
    if statement.having:
        if line.answer is ABSENT:
            found = told(statement, shown, roster, source)
        else:
            found = told(statement, shown, roster, None, answered=True, noisy=bits is not None)
        kept = {named(key) for key in found.shown}
        asked = [(q, a) for q, a in asked if named(dict(q.key)) in kept]
        asked.extend((q, a if a is None else replace(a, noise=bits)) for q, a in found.said)
        why = found.open
        tells, present = bool(found.said or why or source is None), {group_of(key) for key in found.shown}
    elif grouped and (line.answer is not ABSENT or (source is not None and _hides(statement, roster))):
        if law is not None and not law.bounded and line.answer is not ABSENT and _absent(statement, shown, roster):
            why = DROPPED
        else:
            asked.extend(_absent(statement, shown, roster))
    if statement.certainty != IF_SHOWN or _hides(statement, roster):
        return [(q, a, statement.certainty) for q, a in asked], why
    few = statement.limit is not None and len(shown) * (1 + len(statement.again)) <= statement.limit
    sure = Certain() if few or tells else certain(statement, roster, present)
    places = [(q, a, group_of(dict(q.key))) for q, a in asked]
    return [(q, a, "" if few or at in sure.shown else IF_SHOWN) for q, a, at in places if at not in sure.hidden], why


def _expand_rows(
    line: Line, statement: Statement, rows: RowList, roster: Roster, source: Source | None, noise: Noise | None
) -> tuple[list[Asked], str]:
    """What the rows of a statement say: one by one where public columns point to one record, else by counts."""
    if not _discloses(rows, roster):
        return [], ""
    if statement.certainty != rows.readings[0].certainty:  # one side of a UNION that merges or cuts rows
        parts = tuple(replace(part, certainty=FINER, limit=None, cut=None) for part in rows.alone)
        rows = replace(rows, whole=rows.whole and replace(rows.whole, certainty=FINER), alone=parts)
    secret = {c.name for c in roster.schema.columns if c.secret}
    public = {k.name for k in rows.alone[0].keys if not k.hidden(secret)}
    single, everybody = _single_records(rows, roster)
    is_cut = rows.whole is not None and rows.whole.certainty == FINER
    found: list[Asked] = []
    why = ""
    for part in (*rows.alone, rows.whole):
        by_one = part is not rows.whole
        if part is None or (everybody and not by_one) or (by_one and not everybody and is_cut):
            continue
        answer = ABSENT if line.answer is ABSENT else _grouped_rows(line.answer, rows, part)
        asked, open_ = _expand(replace(line, answer=answer), part, roster, source, noise)
        why = why or open_
        for query, said, certainty in asked:
            key = named({k: v for k, v in query.key if k in public})
            if is_cut or everybody or (key in single) is by_one:
                found.append((query, said, certainty))
    if not everybody and rows.whole is None:
        return found, why or SEVERAL_ALIKE
    return found, why or ("" if everybody or rows.in_order else ORDER_UNKNOWN)


def _grouped_rows(answer: Any, rows: RowList, part: Statement) -> list[dict[str, Any]]:
    """The rows of an answer ([[...], ...] or [{"column": value}, ...]) as the groups of one of its groupings."""
    if not isinstance(answer, list):
        raise LogError(ROWS_WANTED)
    listed: list[dict[str, Any]] = []
    for row in answer:
        values = list(row.values()) if isinstance(row, Mapping) else row
        if not isinstance(values, list) or len(values) != rows.width:
            raise LogError(ROWS_WANTED)
        listed.append({name: values[place - 1] for name, place in rows.columns})
    groups: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    names = {k.name.casefold() for k in part.keys}
    for row in listed:
        key = {name: value for name, value in row.items() if name.casefold() in names}
        groups.setdefault(repr(key), (key, []))[1].append(row)
    places = {place: name for name, place in rows.columns}
    found = []
    for key, members in groups.values():
        values = []
        for query in part.queries:
            counts = query.item == COUNTED_ROWS
            if not counts and len(members) > 1:
                values.append({"lo": None, "hi": None})  # several records: told by the counts
            else:
                values.append(len(members) if counts else members[0][places[query.item]])
        found.append({"key": key, "values": values})
    return found


def _discloses(rows: RowList, roster: Roster) -> bool:
    """Does it tell anything private?"""
    secret = frozenset(c.name for c in roster.schema.columns if c.secret)
    return bool(rows.private) or any(find_private_leaves(part.where, secret) for part in rows.readings)


def _single_records(rows: RowList, roster: Roster) -> tuple[set[tuple[tuple[str, str], ...]], bool]:
    """The public columns of rows that point to one record under the public conditions, and whether all do."""
    secret = {c.name for c in roster.schema.columns if c.secret}
    keys = tuple(k for k in rows.alone[0].keys if not k.hidden(secret))
    by_public = replace(rows.alone[0], keys=keys, sets=(tuple(range(len(keys))),))
    sizes = roster.figures(by_public, [Query(Aggregate.SUM, (Term(None),))])
    single = {named(key) for key, (count,) in sizes if count == 1}
    return single, len(single) == len(sizes)


def _handed_out(each: Read, roster: Roster, source: Source | None) -> HandedOut | None:
    """The rows that a line of a log hands out, if it does; None in place of a number that is not known."""
    number, line = str(each.line.number), each.line
    lists = [s.rows for s in each.statements if s.rows is not None and s.rows.columns and _discloses(s.rows, roster)]
    if not lists:
        unread = each.statement is None or bool(each.unjudged)
        tree = _tree_of(line.sql, line.dialect) if unread else None
        if tree is None or not shows_private_values(tree, roster.schema):
            return None
        return HandedOut(number, line.sql, (), None, None)
    columns = tuple(dict.fromkeys(name for rows in lists for name, _ in rows.columns))
    if each.unjudged or line.answer is not ABSENT or len(lists) > 1:
        return HandedOut(number, line.sql, columns, None, None)
    rows, secret = lists[0], frozenset(c.name for c in roster.schema.columns if c.secret)
    where, limit = rows.alone[0].where, rows.alone[0].limit
    if limit is not None or rows.alone[0].certainty or (find_private_leaves(where, secret) and source is None):
        return HandedOut(number, line.sql, columns, None, None)
    single, everybody = _single_records(rows, roster)
    if not find_private_leaves(where, secret):
        records = len(roster.support(Query(Aggregate.SUM, (Term(None, where),))))
        return HandedOut(number, line.sql, columns, records, len(single))
    counted = source.evaluate(Query(Aggregate.SUM, (Term(None, where),))) if source is not None else None
    records = int(counted) if counted is not None else 0
    return HandedOut(number, line.sql, columns, records, records if everybody else None)


def may_show_rows(sql: str, schema: Schema, dialect: str = Dialect.DUCKDB) -> bool:
    """Can it not be excluded that a statement, which was not judged, hands out private values as they are?"""
    return may_show_private_values(_tree_of(sql, dialect), schema)


def _tree_of(sql: str, dialect: str) -> exp.Expr | None:
    """The statement as a tree; None for what cannot be parsed, or is several statements."""
    try:
        engine = find_engine(dialect)
        by_itself = engine.portable_texts and not engine.may_ignore_case
        trees = sqlglot.parse(sql, read=engine.parser if by_itself else "duckdb")
    except Exception:
        return None
    return trees[0] if len(trees) == 1 else None


def _cut_off(
    statement: Statement,
    answered: Sequence[tuple[Query, Answer | None]],
    shown: Sequence[GroupKey],
    roster: Roster,
    *,
    noisy: bool,
) -> list[Asked]:
    """Groups with the answers that were listed, and those that LIMIT may have cut off, as if they were shown too."""
    listed = {named(key) for key in shown}
    sure = Certain() if statement.having or _hides(statement, roster) else certain(statement, roster)
    if not noisy and not sure.shown <= {group_of(key) for key in shown}:
        raise LogError("a group that LIMIT surely keeps is missing from the answer")
    if not noisy and not sure.hidden.isdisjoint(group_of(key) for key in shown):
        raise LogError("the answer has a group that LIMIT surely cuts off")
    groups = [key for key in roster.keys(statement) if group_of(key) not in sure.hidden]
    rest = [key for key in groups if named(key) not in listed]
    hidden = [(q, None, IF_SHOWN) for key in rest for q in statement.group(key)]
    return [*((q, a, "") for q, a in answered), *hidden]


def _found_again(statement: Statement, shown: Sequence[GroupKey], source: Source) -> bool:
    """Does the key of a group, written as a condition, find somebody? Private blobs and intervals do not."""
    odd = {c.name for c in source.schema.columns if c.secret and c.kind is Kind.OTHER}
    if not any(k.column in odd or k.cases or k.steps for k in statement.keys):
        return True  # public keys were checked with the reading
    for key in shown[:: 1 + len(shown) // 40]:
        where = make_and(*(k.equals(key[k.name]) for k in statement.keys if k.name in key))
        if not source.evaluate(Query(Aggregate.SUM, (Term(None, where),))):
            return False
    return True


def _absent(statement: Statement, shown: Sequence[GroupKey], roster: Roster) -> list[tuple[Query, Answer | None]]:
    """Groups that could have been shown but were not: nobody is in them.

    For each combination of public keys, one count of zero over all values of the private keys that were not shown
    with it; where only public things decide, that contradicts the table.
    """
    secret = {c.name for c in roster.schema.columns if c.secret}
    private = [k for k in statement.keys if k.hidden(secret)]
    names = {k.name for k in private}
    by_public: dict[tuple[tuple[str, str], ...], list[GroupKey]] = {}
    for key in shown:
        by_public.setdefault(named({k: v for k, v in key.items() if k not in names}), []).append(key)
    found: list[tuple[Query, Answer | None]] = []
    for public in roster.keys(statement):
        here = by_public.get(named(public), [])
        if not private and here:
            continue
        listed = make_or(*(make_and(*(k.equals(key[k.name]) for k in private if k.name in key)) for key in here))
        chosen = [k for k in statement.keys if k.name in public]
        where = make_and(statement.where, *(k.equals(public[k.name]) for k in chosen), make_not(listed))
        rest = Query(Aggregate.SUM, (Term(None, where),), key=tuple(public.items()), label=OTHER_GROUPS)
        found.append((rest, Answer.exact(0)))
    return found


def _hides(statement: Statement, roster: Roster) -> bool:
    """Does it depend on private values which groups are shown?"""
    secret = {c.name for c in roster.schema.columns if c.secret}
    looks = find_private_leaves(statement.where, frozenset(secret))
    return any(k.hidden(secret) for k in statement.keys) or bool(looks)


def _has_too_many_cells(statement: Statement, shown: Sequence[GroupKey], roster: Roster) -> bool:
    """Are its groups more combinations of private values than are put into one system?"""
    secret = {c.name for c in roster.schema.columns if c.secret}
    hidden = [key.name for key in statement.keys if key.hidden(secret)]
    return prod(len({key[name] for key in shown}) for name in hidden) > MAX_JOINT_CELLS


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
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            raise LogError('the key of a group is {"column": value}')
        if len({name.casefold() for name in given}) != len(given):
            raise LogError("the key of a group has a column twice")
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


def _check_rows(statement: Statement, shown: Sequence[GroupKey]) -> None:
    """Refuse an answer with rows that no engine gives: too few, too many, or one group twice.

    Which groups there are is looked at elsewhere (`told`, `_absent`, `_cut_off`): this depends on the text alone.
    """
    if not statement.keys:
        may_be_empty = bool(statement.having) or statement.certainty == IF_SHOWN
        if len(shown) > 1 or not (shown or may_be_empty):
            raise LogError(NO_ROW.format(f"{len(shown)} rows" if shown else "none"))
    if statement.limit is not None and len(shown) > statement.limit:
        raise LogError(f"the answer has {len(shown)} rows where LIMIT leaves at most {statement.limit}")
    times: Counter[tuple[tuple[str, str], ...]] = Counter(map(named, shown))
    for key in shown:
        rolled = tuple(at for at, k in enumerate(statement.keys) if k.name in key)
        if rolled not in statement.sets:
            raise LogError("a group's key does not have the columns of a grouping set")
        if times[named(key)] > 1 + statement.again.count(rolled):
            raise LogError("a group stands in the answer twice")


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
        raise LogError(
            f"a key of the answer is not of the kind of its column, {kind}: write it as the column holds it"
        ) from None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else value
    return str(value)
