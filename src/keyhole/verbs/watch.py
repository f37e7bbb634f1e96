"""`keyhole.watch`: an auditor that decides before each answer."""

from __future__ import annotations

from pathlib import Path

from keyhole.audit.online import OnlineAuditor
from keyhole.knowledge import Config
from keyhole.settings import Names, Settings, settings, with_private
from keyhole.tables.fingerprint import fingerprint
from keyhole.tables.open import Table, Use, open_table


def watch(
    data: object = None,
    *,
    private: Names = (),
    id: Names = (),  # noqa: A002 - the word of the contract
    hidden: Names = (),
    table: str | None = None,
    view: str | None = None,
    history: str | Path | None = None,
    insiders: int | None = None,
    config: Config | str | Path | None = None,
) -> OnlineAuditor:
    """An auditor over the public half of the table: `admit(sql)` decides, `record(sql)` counts it as answered.

    With a `history` file what was answered is kept from run to run. Close it, or use it in a `with` block of
    `contextlib.closing`.

    >>> import pyarrow as pa
    >>> auditor = watch(pa.table({"name": ["Ann", "Bob", "Cyd"], "pay": [1, 2, 3]}), private="pay", id="name")
    >>> str(auditor.admit("SELECT SUM(pay) FROM staff WHERE name = 'Ann'").verdict)
    'deny'
    """
    given = with_private(settings(config, data=data, table=table, view=view, private=private, id=id, hidden=hidden))
    return watched(given, history, insiders)[0]


def watched(
    given: Settings, history: str | Path | None, insiders: int | None, *, vouched: bool = False
) -> tuple[OnlineAuditor, Table]:
    """The auditor of merged settings, and the table it watches. `vouched`: see `OnlineAuditor.open`."""
    opened = open_table(given, Use.WATCH)
    families = {name: column.family for name, column in given.columns.private.items()}
    online = given.config.online
    known = insiders if insiders is not None else online.insiders
    path = history if history is not None else online.history
    if path is None:
        return OnlineAuditor(opened.roster, insiders=known, families=families, knowledge=given.knowledge()), opened
    auditor = OnlineAuditor.open(
        path,
        opened.roster,
        fingerprint(opened.roster),
        version=opened.version,
        insiders=known,
        families=families,
        values=opened.seal,
        vouched=vouched,
        knowledge=given.knowledge(),
    )
    return auditor, opened
