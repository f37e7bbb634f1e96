"""A transcript: JSON lines with a statement, its answer where there is one, and who asked when."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keyhole.errors import LogError
from keyhole.logs.importers.exported import Exported
from keyhole.logs.importers.records import Text, lines_of
from keyhole.model.transcript import ABSENT, parse_line
from keyhole.sql import Dialect
from keyhole.sql.statements.scripts import Script

_PLAIN = re.compile(r"\s*(?:SELECT|WITH)\b", re.IGNORECASE)


def transcribed(text: Text, dialect: Dialect = Dialect.DUCKDB) -> Iterator[Exported]:
    """The statements, each with its answer. A broken line is listed, and the others go on; what only steers a session
    is passed over.

    >>> [(f.sql, f.answer) for f in transcribed('{"sql": "SELECT SUM(x) FROM t", "answer": 3}')]
    [('SELECT SUM(x) FROM t', Decimal('3'))]
    """
    session = Script(dialect)
    place = 0
    for part in lines_of(text):
        place += bool(part)  # a log that is followed has none at the moment: no line of it
        if not part.strip():
            continue
        try:
            line = parse_line(part, 0, place, "")  # the verdict names the log, or does not
        except LogError as error:
            yield Exported(part.rstrip("\r\n"), place, str(error), is_raw=True)
            continue
        steps = [] if _PLAIN.match(line.sql) else list(session.steps(line.sql, place))
        asked = [step for step in steps if not step.steers]
        steers = bool(steps) and not asked and line.answer is ABSENT
        sql, unjudged = (asked[0].sql, asked[0].unjudged) if len(asked) == 1 else (line.sql, "")
        unjudged = unjudged or ("" if steers else session.doubt)
        said = (line.sql if unjudged else sql, place, "", dialect, steers, unjudged)
        yield Exported(*said, False, line.analyst, line.time, line.answer, line.noise)
