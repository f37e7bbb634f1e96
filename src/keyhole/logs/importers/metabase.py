"""Metabase's saved questions: the JSON of GET /api/card (all cards, or one), or of POST /api/dataset/native (the SQL of
a question that was made in the graphical editor).

Native questions hold SQL. Questions of the editor have none in /api/card and are listed as refused, as are questions
with variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from keyhole.logs.exported import NO_TEMPLATE, Asker, Exported, faulty, is_template, statements
from keyhole.logs.records import Text, read_field, records
from keyhole.sql.dialects.engine import recognize_dialect


def read(text: Text, name: str) -> Iterator[Exported]:
    """The statements of the saved questions.

    >>> card = '{"name": "pay", "dataset_query": {"type": "native", "native": {"query": "SELECT SUM(x) FROM t"}}}'
    >>> [f.sql for f in read(card, "cards.json")]
    ['SELECT SUM(x) FROM t']
    """
    for record in records(text, name):
        label = str(record.fields.get("name") or f"card {record.fields.get('id', '')}").strip()
        sql = _native(record.fields.get("dataset_query")) or _converted(record.fields)
        if record.fault:
            yield faulty(record.raw, record.at, record.fault)
        elif sql is None:
            why = "a question without SQL: open it in Metabase, choose 'View the SQL', and add that statement"
            yield faulty(label, record.at, why)
        elif is_template(sql):
            yield faulty(sql, record.at, NO_TEMPLATE)
        else:
            engine = recognize_dialect(read_field(record.fields.get("database"), "engine"))  # most exports do not say
            author = read_field(record.fields.get("creator"), "email", "common_name", "id")  # not who opens it later
            for found in statements(sql, record.at, who=Asker(author)):
                yield replace(found, at=record.at, dialect=engine)


def _native(query: Any) -> str | None:
    """The SQL of a question: in `native.query`, or from version 0.57 on in its one native stage."""
    if not isinstance(query, Mapping):
        return None
    native = query.get("native")
    if isinstance(native, Mapping) and isinstance(native.get("query"), str):
        return str(native["query"])
    stages = query.get("stages")
    if isinstance(stages, list) and len(stages) == 1 and isinstance(stages[0], Mapping):
        inner = stages[0].get("native")
        return inner if isinstance(inner, str) else None
    return None


def _converted(fields: Mapping[str, Any]) -> str | None:
    """The answer of /api/dataset/native; parameters that it leaves open are a template."""
    sql = fields.get("query")
    if "dataset_query" in fields or not isinstance(sql, str):
        return None
    return f"{{{{}}}} {sql}" if fields.get("params") else sql
