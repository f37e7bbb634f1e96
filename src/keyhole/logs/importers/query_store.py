"""SQL Server's Query Store as CSV or JSON: query_sql_text, with execution_type and last_execution_time where joined.

A text with parameters ("(@1 int)SELECT ... WHERE a = @1") has lost its values, and is listed as refused; Query Store
has one row for a text, however often it ran, and does not say who asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from keyhole.logs.exported import Asker, Exported, failed, faulty, refuse_record, statements
from keyhole.logs.records import Text, records
from keyhole.sql import Dialect
from keyhole.sql.statements.split import mask_quotes

NO_VALUES = (
    "the values of its parameters (@...) are not in Query Store, so it cannot be judged: turn forced parameterization "
    "off, or log the statements with an Extended Events session"
)
_PARAMETERS = re.compile(r"^\s*\((?:@\w+\s+[^@]*?,?\s*)+\)")
_PARAMETER = re.compile(r"(?<!@)@\w+")


def read(text: Text, name: str) -> Iterator[Exported]:
    """The statements of an export.

    >>> rows = "query_sql_text,execution_type\\n(@1 int)SELECT SUM(x) FROM t WHERE a=@1,0\\nSELECT SUM(x) FROM t,0"
    >>> [(f.sql, bool(f.fault)) for f in read(rows, "store.csv")]
    [('(@1 int)SELECT SUM(x) FROM t WHERE a=@1', True), ('SELECT SUM(x) FROM t', False)]
    """
    for record in records(text, name):
        sql = record.text("query_sql_text")
        kind = str(record.fields.get("execution_type") or "0").strip()
        word = str(record.fields.get("execution_type_desc") or "Regular").strip().lower()
        who = Asker(time=record.stamp("last_execution_time"))
        if record.fault or not sql:
            yield refuse_record(record, "it has no query_sql_text", who)
        elif kind in ("3", "4") or word in ("aborted", "exception"):
            ran = kind == "4" or word == "exception"  # it has a plan: what failed is not its text
            yield failed(sql, record.at, Dialect.TSQL, "exception" if ran else "aborted", who)
        elif _PARAMETERS.match(sql) or _PARAMETER.search(mask_quotes(sql, Dialect.TSQL)):
            yield faulty(sql, record.at, NO_VALUES, who)
        else:
            yield from statements(sql, record.at, Dialect.TSQL, who=who)
