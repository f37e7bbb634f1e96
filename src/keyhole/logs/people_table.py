"""Which statements of a log are about the people's table: by the names that they read from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from shlex import quote

from keyhole.logs.open import Log
from keyhole.model.schema import Schema, fold_name
from keyhole.model.transcript import Line, Refusal
from keyhole.sql.statements.table_names import (
    TableName,
    is_file_or_catalog,
    is_ignored,
    list_tables_read,
    reads_nothing_of_people,
)


@dataclass(frozen=True, slots=True)
class PeopleLog:
    """A log without the statements that read ignored tables alone; those that may be about others are not judged.

    `doubt` says why it is not sure that the rest is about these people, as the end of a sentence; empty if it is.
    """

    log: Log
    doubt: str = ""


def keep_people_table(log: Log, schema: Schema, ignore: Sequence[str] = ()) -> PeopleLog:
    """Judge by the names in FROM what a log asks about the people of `schema`.

    The table's own name, in any case and schema, and `schema.names` mean the table. One other name is taken for it if
    the log has no second one, and leaves a doubt; a frame has no name, so there it leaves none. Where a log has several
    names, statements that read the others are not judged. Nor is one that reads an ignored table together with another.
    The table's name in an ignored schema is ignored, unless `schema.names` lists it there.

    >>> from keyhole.logs.open import as_log
    >>> both = as_log(["SELECT SUM(pay) FROM staff", "SELECT SUM(pay) FROM staff_2024"])
    >>> kept = keep_people_table(both, Schema("staff", ()))
    >>> [line.sql for line in kept.log.lines], kept.log.unjudged[0].error[:29]
    (['SELECT SUM(pay) FROM staff'], '"staff_2024" is not known to ')
    """
    kept: list[tuple[Line, frozenset[TableName]]] = []
    unjudged: list[Refusal] = []
    ignored = 0
    for line in log.lines:
        read = list_tables_read(line.sql, line.dialect)
        names = frozenset(name for name in read if schema.is_people(name) or not is_file_or_catalog(name))
        left_out = frozenset(name for name in names if _is_left_out(name, schema, ignore))
        if left_out and left_out == names and reads_nothing_of_people(line.sql, line.dialect, ignore):
            ignored += line.repeats
        elif left_out:
            together = _listed(names - left_out) or "something that is not known"
            unjudged.append(_refused(line, f"it reads {_listed(left_out)}, which is ignored, together with {together}"))
        else:
            kept.append((line, names))
    declared = {fold_name(each) for each in (*(r.name for r in schema.related), *schema.unread)}
    named = {name for _, names in kept for name in names}
    own = frozenset(name for name in named if schema.is_people(name))
    others = frozenset(name for name in named - own if name[-1] not in declared)
    split = _in_different_schemas(own, schema)
    if len(_distinct(others)) == 1 and not own and not schema.strict_table:
        doubt = "" if schema.unnamed else _doubt(others, schema)
        lines = [line for line, _ in kept]
    else:
        doubt, lines = "", []
        for line, names in kept:
            if foreign := names & others:
                unjudged.append(_refused(line, _not_said(foreign, schema)))
            elif doubtful := names & split:
                unjudged.append(_refused(line, _in_which_schema(doubtful)))
            else:
                lines.append(line)
    numbers = {line.number for line in lines}
    return PeopleLog(
        replace(
            log,
            lines=tuple(lines),
            unjudged=(*log.unjudged, *unjudged),
            at=(*log.at, *((str(line.number), line.at) for line in log.lines if line.number not in numbers)),
            ignored=log.ignored + ignored,
        ),
        doubt,
    )


def _is_left_out(name: TableName, schema: Schema, ignore: Sequence[str]) -> bool:
    """Is it ignored? The table's own name is in the schemas that are, unless `names` lists it there."""
    if not is_ignored(name, ignore):
        return False
    return not schema.is_people(name) or (len(name) > 1 and not replace(schema, table="").is_people(name))


def _distinct(names: Iterable[TableName]) -> list[TableName]:
    """Names that surely mean different tables: `hr.staff` and `staff` may be one."""
    found: list[TableName] = []
    for name in sorted(names, key=len, reverse=True):
        if not any(name[-len(other) :] == other[-len(name) :] for other in found):  # as far as both are qualified
            found.append(name)
    return found


def _in_different_schemas(own: frozenset[TableName], schema: Schema) -> frozenset[TableName]:
    """Names of the table in several schemas (`hr.staff` and `archive.staff`), none of which was said to be it."""
    said = [name for name in own if len(name) > 1 and replace(schema, table="").is_people(name)]
    doubtful = frozenset(name for name in own if name not in said)
    qualified = _distinct(name for name in own if len(name) > 1)
    if len(qualified) < 2:
        return frozenset()
    return frozenset(name for name in doubtful if len(name) > 1 or not said)


def _refused(line: Line, why: str) -> Refusal:
    return Refusal(str(line.number), line.sql, why, line.repeats, line.analyst)


def _listed(names: Iterable[TableName]) -> str:
    """Names in quotes, which a redacted verdict takes out."""
    return ", ".join(sorted(f'"{".".join(name)}"' for name in names))


def _doubt(others: frozenset[TableName], schema: Schema) -> str:
    name = min(others, key=len)[-1]
    return (
        f'the log reads "{name}", and nobody said that this is the table of the data, "{schema.table}": write names = '
        f'["{name}"] under [source], or --table {quote(name)}'
    )


def _not_said(names: frozenset[TableName], schema: Schema) -> str:
    what = "is not known to be" if len(names) == 1 else "are not known to be"
    return (
        f'{_listed(names)} {what} the table of these people, "{schema.table}": write names = [{_listed(names)}] under '
        f"[source] if so, ignore = [{_listed(names)}] if nothing about them is there"
    )


def _in_which_schema(names: frozenset[TableName]) -> str:
    return (
        f"the log reads tables of this name in several schemas: write names = [{_listed(names)}] under [source] if "
        f"{_listed(names)} is the table of these people"
    )
