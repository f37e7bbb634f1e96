"""The view pg_stat_statements as CSV or JSON.

PostgreSQL keeps one normalised text for all executions of a kind: constants are replaced by $1, $2, ... and are lost.
Such statements cannot be judged and are listed as refused; those without a constant are judged.
"""

from __future__ import annotations

from collections.abc import Iterator

from keyhole.logs.importers.exported import NO_PARAMETERS, Asker, Exported, faulty, has_parameters, statements
from keyhole.logs.importers.records import Text, records
from keyhole.sql import Dialect


def read(text: Text, name: str) -> Iterator[Exported]:
    """The statements of an export.

    >>> rows = "query,calls\\nSELECT SUM(x) FROM t,1\\nSELECT SUM(x) FROM t WHERE a = $1,9"
    >>> [(f.sql, bool(f.fault)) for f in read(rows, "statements.csv")]
    [('SELECT SUM(x) FROM t', False), ('SELECT SUM(x) FROM t WHERE a = $1', True)]
    """
    for record in records(text, name):
        sql = record.text("query")
        if record.fault or not sql:
            yield faulty(str(record.fields or record.raw), record.at, record.fault or "it has no query")
        elif sql == "<insufficient privilege>":
            yield faulty(sql, record.at, "the text was hidden from the role that exported it: use pg_read_all_stats")
        elif has_parameters(sql):
            why = f"{NO_PARAMETERS}: pg_stat_statements keeps normalised texts; log the statements (csvlog) instead"
            yield faulty(sql, record.at, why)
        else:
            who = Asker(record.stamp("usename", "rolname", "userid"))
            yield from statements(sql, record.at, Dialect.POSTGRES, who=who)
