"""`keyhole.verify`: every proof of a verdict, replayed by a checker that shares nothing with the auditor."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Unpack

from keyhole.checker.claims import Unreadable
from keyhole.checker.replay import Replay, replay
from keyhole.config import PrivateColumn
from keyhole.config.arguments import TableArguments
from keyhole.config.settings import Settings, settings
from keyhole.datasets.copy_tables import copy_to_file
from keyhole.datasets.files.prepare import make_plain
from keyhole.engines.engine import DataUrl, is_url
from keyhole.errors import ConfigError, DataError
from keyhole.report.formats.witness import describe_fact


def verify(
    verdict: str | Path, *, log: str | Path | None = None, seed: int | None = None, **table: Unpack[TableArguments]
) -> Replay:
    """Do the proofs of a verdict hold? `exit_code`: 0 all do, 1 one fails, 3 some cannot be replayed here.

    `verdict` is the file that `keyhole audit --format json` wrote. The data are a file or the address of a database.
    With `log` every statement of a proof must stand in it. `seed` repeats the sample of an all-clear that is too large
    to be replayed whole.

    >>> import json, tempfile
    >>> from keyhole.api.audit import audit
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "staff.csv").write_text("name,pay\\nAnn,10\\nBob,20\\n")
    >>> given = {"data": folder / "staff.csv", "private": "pay", "id": "name"}
    >>> found = audit("SELECT SUM(pay) FROM staff WHERE name = 'Ann'", **given)
    >>> _ = (folder / "verdict.json").write_text(found.dumps())
    >>> verify(folder / "verdict.json", data=folder / "staff.csv").exit_code
    0
    """
    config = table.get("config")
    if table.get("data") is None and config is None:
        raise ConfigError("no data: give --data FILE, the table that was audited, or -c keyhole.toml")
    given = settings(**table)
    path = Path(verdict)
    with ExitStack() as life:
        plain = _as_file(given, _texts(path), life)
        try:
            declared = None if config is None else {name: _declared(c) for name, c in given.columns.private.items()}
            return replay(
                path,
                plain,
                log=None if log is None else Path(log),
                table=None if given.table is None or is_url(given.data) else given.table,
                view=given.view,
                declared=declared,
                unreviewed=given.columns.unreviewed,
                facts=None if config is None else [describe_fact(fact) for fact in given.knowledge().facts],
                seed=seed,
            )
        except Unreadable as error:
            raise DataError(str(error)) from None


def _as_file(given: Settings, texts: set[str], life: ExitStack) -> Path:
    """The table as a file that the checker reads; of a database a private copy, gone with `life`."""
    plain = make_plain(given.data, given.config.source, texts, life)
    if not is_url(plain):
        return Path(str(plain))
    return copy_to_file(DataUrl.parse(str(plain)), given.table, given.view, given.config.tables, life)


def _declared(column: PrivateColumn) -> dict[str, Any]:
    """What the settings say of a private column, as a certificate says it."""
    said = {"min": column.min, "max": column.max, "step": column.step, "values": column.values}
    return said | ({"domain": "real"} if column.domain == "real" else {})


def _texts(verdict: Path) -> set[str]:
    """The columns that were judged as text: their commas are no decimals."""
    try:
        kinds = json.loads(verdict.read_bytes())["source"]["kinds"]
        return {name for name, kind in kinds.items() if kind == "text"}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return set()  # the checker says what is wrong with it
