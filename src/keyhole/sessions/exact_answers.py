"""The exact answer of a statement, computed from what was read: the analyst's text is never run on the data.

Sums are taken over atoms in integers of any size (`gather.totals`), as an audit computes the answers that a log lacks,
so that no answer can fail for what somebody's value is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

from sqlglot import exp

from keyhole.auditing.online.online import Past
from keyhole.book import BookEntry, Mark
from keyhole.datasets import GroupKey, Roster, Source
from keyhole.errors import DataError
from keyhole.gather.build import gather
from keyhole.gather.transcribe import Read, expanded
from keyhole.model.numbers import round_fraction
from keyhole.model.predicate import Scalar
from keyhole.model.prior import Knowledge
from keyhole.model.query import Aggregate, Key, OrderTerm, Query, Statement
from keyhole.model.transcript import Answer, Entry, Line
from keyhole.sessions.reply import ExactAnswer
from keyhole.sql import lower_statement
from keyhole.sql.statements.parse import parse_select
from keyhole.sql.statements.tree import strip_parentheses

DIGITS = 17  # of a quotient that has no end
Row: TypeAlias = tuple[Scalar | None, ...]
_Group: TypeAlias = tuple[object, ...]
_Term: TypeAlias = tuple[int | OrderTerm | Query, bool, bool]  # a number of the answer, or what is public; DESC; NULLs


def compute_exact_answer(statement: Statement, source: Source) -> ExactAnswer:
    """Groups in the order of their keys, each with its numbers; NULL where SQL says NULL; a group that HAVING hides is
    not there.

    >>> import pyarrow as pa
    >>> from keyhole.config import Columns
    >>> from keyhole.sql import lower_statement
    >>> from keyhole.datasets import load
    >>> staff = load(pa.table({"dept": ["a", "a", "b"], "pay": [1, 2, 5]}), Columns.checked({"private": {"pay": {}}}))
    >>> statement = lower_statement("SELECT dept, SUM(pay), AVG(pay) FROM t GROUP BY dept", staff.schema)
    >>> compute_exact_answer(statement, staff)
    (({'dept': 'a'}, (Decimal('3'), Decimal('1.5'))), ({'dept': 'b'}, (Decimal('5'), Decimal('5'))))
    """
    log = expanded([Read(Line(1, statement.text), statement)], source, source=source)
    if log.refused or log.unjudged:
        why = (*log.refused, *log.unjudged)[0].error
        raise DataError(f"it was admitted and cannot be computed: {why}")
    secret = any(entry.query.aggregate is not Aggregate.PUBLIC for entry in log.entries)
    filled = gather(log, source, Knowledge(), source=source).transcript.entries if secret else ()
    answers = {e.number: e.answer for e in filled}
    groups, wide = [], len(statement.queries)
    for at in range(0, len(log.entries), wide):
        part = log.entries[at : at + wide]
        key = dict(part[0].query.key)
        if tuple(e.query for e in part) != statement.group(key):
            break  # what follows says which groups are hidden
        groups.append((key, tuple(_choose_value(e, answers.get(e.number), source) for e in part)))
    return tuple(groups)


def _choose_value(entry: Entry, answer: Answer | None, source: Source) -> Decimal | bool | None:
    if answer is None:
        return source.evaluate(entry.query)  # about public columns alone
    if answer.null or isinstance(answer.value, bool) or answer.lo is None or answer.lo != answer.hi:
        return answer.value
    number: Fraction = answer.lo
    if answer.value is not None and Fraction(answer.value) == number:
        return answer.value
    return round_fraction(number, DIGITS)


# --- the order of rows and columns ------------------------------------------------------------------------------------


def sort_groups(statement: Statement, answer: ExactAnswer, roster: Roster) -> ExactAnswer:
    """The groups as ORDER BY wants them; those that it does not tell apart stay in the order of their keys.

    Public terms are ranked by the engine, the others are numbers of the answer. Groups by a private column stay where
    they are. Cost: a pass over the public columns for each public term.
    """
    if not statement.order or len(answer) < 2 or _groups_by_secret(statement, roster):
        return answer
    places = list(range(len(answer)))
    for term, descending, nulls_first in reversed(_list_order_terms(statement, roster)):
        if isinstance(term, int):
            values: Sequence[Decimal | bool | int | None] = [numbers[term] for _, numbers in answer]
        else:
            values = _rank_groups(statement, term, answer, roster)
        null = 0 if nulls_first else 2
        keys = [(null, Decimal(0)) if v is None else (1, Decimal(-v if descending else v)) for v in values]
        places.sort(key=keys.__getitem__)
    return tuple(answer[at] for at in places)


def list_rows(statement: Statement, answer: ExactAnswer, roster: Roster) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """Names and cells of an answer as its SELECT list has them, from left to right.

    A function of keys is computed by the engine. Keys first, then numbers, where that is not possible: a private key,
    or a function of keys under ROLLUP and its kin.
    """
    own = {key.sql: key.name for key in statement.keys}
    others = [item.sql for item in statement.shown if item.query is None and item.sql not in own]
    cells: dict[_Group, GroupKey] = {}
    if others and len(statement.sets) == 1 and not _groups_by_secret(statement, roster):
        more = tuple(Key(f"keyhole {i}", sql, None) for i, sql in enumerate(others))
        wider = replace(statement, keys=(*statement.keys, *more), sets=((*range(len(own) + len(more)),),))
        cells = {_identify(group, own.values()): group for group in roster.keys(wider)}
    rows: list[Row] = []
    for key, numbers in answer:
        found = cells.get(_identify(key, own.values()), {})
        if not statement.shown or len(found) < len(others):
            columns = (*own.values(), *(query.label for query in statement.queries))
            return columns, tuple((*map(k.get, own.values()), *numbers) for k, numbers in answer)
        named = {sql: found.get(f"keyhole {i}") for i, sql in enumerate(others)}
        named |= {sql: key.get(name) for sql, name in own.items()}
        rows.append(tuple(named[item.sql] if item.query is None else numbers[item.query] for item in statement.shown))
    return name_columns(statement.text), tuple(rows)


def name_columns(sql: str) -> tuple[str, ...]:
    """The columns of a SELECT list as they are called: by their alias, by their name, or as they are written.

    >>> name_columns("SELECT dept, SUM(pay) AS total, COUNT(*) FROM t GROUP BY dept")
    ('dept', 'total', 'COUNT(*)')
    """
    items = parse_select(sql)[1].expressions
    return tuple(
        item.alias or (item.name if isinstance(item, exp.Column) else "") or item.sql("duckdb") for item in items
    )


def _groups_by_secret(statement: Statement, roster: Roster) -> bool:
    secret = {c.name for c in roster.schema.columns if c.secret}
    return any(key.hidden(secret) for key in statement.keys)


def _identify(key: GroupKey, names: Iterable[str]) -> _Group:
    """A group, also if its keys went through JSON."""
    return tuple(_format_key(key.get(name)) for name in names)


def _list_order_terms(statement: Statement, roster: Roster) -> list[_Term]:
    """What each term of ORDER BY sorts by."""
    _, tree = parse_select(statement.text)
    order = tree.args.get("order")
    terms: list[_Term] = []
    for public, ordered in zip(statement.order, () if order is None else order.expressions, strict=False):
        how = bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
        if public is not None:
            terms.append((public, False, public.nulls_first))
            continue
        node = strip_parentheses(ordered.this)
        items = _find_items(node, tree.expressions)
        for shown in (statement.shown[at] for at in items):
            if shown.query is not None:
                terms.append((shown.query, *how))
            elif any(key.sql == shown.sql for key in statement.keys):
                terms.append((OrderTerm(shown.sql, *how), False, how[1]))
        if not items:
            terms.append((_read_number(statement, tree, node, roster), *how))
    return terms


def _find_items(node: exp.Expr, items: Sequence[exp.Expr]) -> list[int]:
    """The items of the SELECT list that a term of ORDER BY names: by place, by name, as they are, or ALL."""
    if isinstance(node, exp.Literal) and node.name.isdigit():
        return [int(node.name) - 1]
    if isinstance(node, exp.Var) and node.name.upper() == "ALL":
        return list(range(len(items)))
    named = [at for at, item in enumerate(items) if isinstance(node, exp.Column) and item.alias == node.name != ""]
    return named[:1] or [at for at, item in enumerate(items) if item.unalias() == node][:1]


def _read_number(statement: Statement, tree: exp.Select, node: exp.Expr, roster: Roster) -> int | Query:
    """A number that is written in another way than in the SELECT list, or a public one that is not in it."""
    alone = tree.copy()
    alone.set("expressions", [node.copy()])
    alone.set("order", None)
    query = replace(lower_statement(alone.sql("duckdb"), roster.schema).queries[0], label="")
    return next((i for i, each in enumerate(statement.queries) if replace(each, label="") == query), query)


def _rank_groups(
    statement: Statement, term: OrderTerm | Query, answer: ExactAnswer, roster: Roster
) -> list[Decimal | bool | int | None]:
    """For each group its place in a public order, or a public number."""
    names = [key.name for key in statement.keys]
    ranks: dict[_Group, Decimal | bool | int | None]
    if isinstance(term, Query):
        ranks = {_identify(key, names): values[0] for key, values in roster.figures(statement, [term])}
    else:
        own = [key for key in statement.keys if key.sql == term.sql]
        names = [key.name for key in own[:1]] or names
        asked = replace(statement, keys=(own[0],), sets=((0,),)) if own else statement
        ranks = {_identify(key, names): rank for key, rank in roster.ranked(asked, [term])}
    return [ranks.get(_identify(key, names)) for key, _ in answer]


# --- as JSON ----------------------------------------------------------------------------------------------------------


def format_exact_answer(answer: Iterable[tuple[GroupKey, Iterable[Decimal | bool | None]]]) -> list[dict[str, Any]]:
    """An exact answer as JSON, every digit kept as text."""
    return [
        {"key": {k: _format_key(v) for k, v in key.items()}, "values": [_format_number(v) for v in values]}
        for key, values in answer
    ]


def parse_exact_answer(kept: list[dict[str, Any]]) -> ExactAnswer:
    """The inverse of `told`; keys that JSON has no word for stay text, as they are shown."""
    return tuple((dict(row["key"]), tuple(_parse_number(v) for v in row["values"])) for row in kept)


def _format_key(value: object) -> object:
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def _format_number(value: Decimal | bool | None) -> str | bool | None:
    return value if value is None or isinstance(value, bool) else str(value)


def _parse_number(value: str | bool | None) -> Decimal | bool | None:
    return value if value is None or isinstance(value, bool) else Decimal(value)


def read_past_statement(entry: BookEntry) -> Past:
    """A statement of the book that counts."""
    body = entry.body
    judged = entry.kind != Mark.UNJUDGED
    return Past(int(body["query"]), str(body["sql"]), judged, read_one_number(body.get("answer")))


def read_one_number(answer: Any) -> str | bool | None:
    """What a MIN or MAX was answered with, from what the book keeps; None if it is not one number.

    >>> read_one_number([{"key": {}, "values": ["5.2"]}]), read_one_number([])
    ('5.2', None)
    """
    if isinstance(answer, list):
        values = [value for row in answer for value in row["values"]]
        return values[0] if len(values) == 1 else None
    return answer if isinstance(answer, str) else None
