"""`keyhole.audit`: one call from a log and a table to the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Unpack

from keyhole.auditing.clock import Deadline
from keyhole.auditing.examine import Progress, examine
from keyhole.config.arguments import TableArguments
from keyhole.logs.open import Log
from keyhole.report.verdict import Verdict


def audit(
    log: str | Path | Log | Sequence[str | Mapping[str, Any] | tuple[str, Any]],
    *,
    group_size: int = 1,
    among: int | None = None,
    rounding: str | int | Decimal | None = None,
    within: str | None = None,
    time_limit: float | Deadline | None = None,
    dialect: str | None = None,
    now: str | None = None,
    by: str | None = None,
    progress: Progress | None = None,
    **table: Unpack[TableArguments],
) -> Verdict:
    """Who is exposed by a log of aggregate queries, with the proof.

    `log` is a path (.sql, .jsonl, or the query history of another system), SQL text, or a list of statements (a
    statement, or a pair of statement and answer). What an export has besides statements is listed as refused.
    `data` is a path or a pandas, polars or Arrow frame; `private`, `id` and `hidden` name one column or several, the
    private as on the command line ("salary", "sugar:3..10:0.1"). Answers that the log lacks are computed from the data.
    `rounding`: the answers of the log were rounded to multiples of it. `config` (a `Config` or the path of a
    keyhole.toml) gives what the arguments do not. `dialect` is what the statements were written for ("postgres",
    "sqlite", ...; default: what the export says, else the engine of
    the data, which is DuckDB for files). A proved range of at most `within` ("0.5", or a share:
    "5%") counts as inferred. With `among` K an all-clear needs that everybody else has more than K possible values,
    instead of two. `time_limit` is for the whole audit, in seconds: what is not read by then is not judged,
    and what is proved is kept. `now` ("2026-11-15", or with a time) is when statements ran whose log does not say it,
    for CURRENT_DATE and its kin. With `by` "analyst", `views` has the verdict over what each analyst asked alone.

    >>> import pyarrow as pa
    >>> people = pa.table({"name": ["Ann", "Bob", "Cyd"], "team": ["a", "a", "b"], "pay": [10, 20, 30]})
    >>> log = "SELECT SUM(pay) FROM t; SELECT SUM(pay) FROM t WHERE team = 'a'"
    >>> verdict = audit(log, data=people, private="pay", id="name")
    >>> [(f.who, f.value) for f in verdict]
    [('Cyd', Decimal('30'))]
    """
    exposure = examine(
        log,
        group_size=group_size,
        among=among,
        rounding=rounding,
        within=within,
        time_limit=time_limit,
        dialect=dialect,
        now=now,
        by=by,
        progress=progress,
        **table,
    )
    return Verdict.of(exposure)
