"""`keyhole init`: data to a commented keyhole.toml.

Of private columns it has name and kind alone. What an attacker knows of them (min, max, step, values) is said by
somebody who knows the field, never read off the data: a bound that is somebody's value would give him away.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

from keyhole.api.column_roles import Proposed, as_key, is_person, propose, sounds_public
from keyhole.config import Config, FileLayout, PrivateColumn, toml_key
from keyhole.datasets.survey import Survey, Surveyed, SurveyedTable
from keyhole.engines.engine import DataUrl
from keyhole.errors import DataError
from keyhole.model.schema import Kind, Role, fold_name

VALUES = 50  # of a public column that are listed
BINS = 20
NOT_REVIEWED = "reviewed = false"  # no value is written of such a column: it may be private


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """What is proposed: the table of the people, the roles of its columns, what is known of the private ones."""

    survey: Survey
    table: SurveyedTable
    roles: Mapping[str, Proposed]
    known: Mapping[str, PrivateColumn]

    @property
    def with_secrets(self) -> tuple[str, ...]:
        """Where this table has no private column: those with rows of its people that have one, most rows first."""
        if self.of(Role.PRIVATE):
            return ()
        ids = {fold_name(name) for name in self.of(Role.ID)}
        found = [
            table
            for table in self.survey.tables.values()
            if table is not self.table
            and any(fold_name(column.name) in ids for column in table.columns)
            and any(p.role is Role.PRIVATE for p in propose(table).values())
        ]
        return tuple(table.name for table in sorted(found, key=lambda table: -table.rows))

    @property
    def unreviewed(self) -> tuple[str, ...]:
        """The columns whose role is a guess."""
        return tuple(name for name, proposed in self.roles.items() if proposed.guessed)

    def of(self, role: Role) -> tuple[str, ...]:
        """The columns of a role."""
        return tuple(name for name, proposed in self.roles.items() if proposed.role is role)


def proposal(
    survey: Survey, *, table: str | None = None, roles: Mapping[str, Role] | None = None, bounds: Config | None = None
) -> Proposal:
    """Propose; `roles` are those that were said, and stand. `bounds` has what is known of private columns."""
    people = survey.tables[table] if table is not None else _people(survey)
    if not people.rows:
        what = survey.name if len(survey.tables) == 1 else people.name
        raise DataError.of_file(f"{what} has a header and no rows: it needs one row per person")
    said = roles or {}
    for name in said:
        people.column(name)
    found = propose(people)
    for name, of in _keys(survey, people, found).items():  # a key that is joined on is public, or nothing can be joined
        if found[name].role is not Role.ID:
            found[name] = as_key(name, found[name], of)
    if Role.ID in said.values():
        found = {n: Proposed(Role.HIDDEN, "another id was named") if p.role is Role.ID else p for n, p in found.items()}
    found |= {name: Proposed(role, "as you said") for name, role in said.items()}
    known = {} if bounds is None else dict(bounds.columns.private)
    for name in known:
        people.column(name)
        found[name] = Proposed(Role.PRIVATE, "as you said")
    return Proposal(survey, people, found, known)


def _people(survey: Survey) -> SurveyedTable:
    """The table of the people: the one whose id the most other tables refer to, the largest and widest of equals."""
    return max(survey.tables.values(), key=lambda table: (*_likely(survey, table), table.rows, len(table.columns)))


def unsure(survey: Survey) -> bool:
    """Is the table of the people a guess among equals?"""
    ranks = sorted(_likely(survey, table) for table in survey.tables.values())
    return len(ranks) > 1 and ranks[-1] == ranks[-2]


def _likely(survey: Survey, table: SurveyedTable) -> tuple[bool, int, int, int, bool]:
    """How likely the people are in a table: it is no dimension, others have its id, each row its own, it has secrets.

    Before the secrets it counts in how many other tables every id is one of its own: these refer to it.
    A dimension has fewer rows than another table, an id that names no person, and nothing that looks private.
    """
    roles = propose(table)
    ids = {fold_name(n) for n, p in roles.items() if p.role is Role.ID}
    secrets = any(p.role is Role.PRIVATE for p in roles.values())
    others = [t for t in survey.tables.values() if t is not table]
    alone = sum(c.unique(table.rows) for c in table.columns if fold_name(c.name) in ids)
    fewer = any(table.rows < t.rows for t in others)
    dimension = fewer and not secrets and not any(map(is_person, (table.name, *ids)))
    having = [(t, c) for t in others for c in t.columns if fold_name(c.name) in ids]
    referring = {t.name for t, c in having if survey.refers(t.name, c.name, table.name)} if alone else ()
    return not dimension, len({t.name for t, _ in having}), alone, len(referring), secrets


def _keys(survey: Survey, people: SurveyedTable, roles: Mapping[str, Proposed]) -> dict[str, str]:
    """Columns of the people's table by which other tables are joined, and the first table of each."""
    found: dict[str, str] = {}
    ids = {name for name, proposed in roles.items() if proposed.role is Role.ID}
    for table in survey.tables.values():
        if table is not people:
            for key in _joined_on(people, table, ids)[0]:
                found.setdefault(people.named(key).name, table.name)
    return found


def _joined_on(people: SurveyedTable, table: SurveyedTable, ids: Collection[str]) -> tuple[list[str], bool]:
    """The columns of another table that it is joined on, and whether it has public facts and no rows of people.

    It has rows of people if it has their id or another key of theirs; it has facts if a column of its own is a key, and
    people share its values. A table of people by its name, one row each, has facts about those who have several rows
    here, if all its columns sound public.
    """
    own = {fold_name(c.name): c for c in people.columns}
    shared = [c for c in table.columns if fold_name(c.name) in own and own[fold_name(c.name)].kind is c.kind]
    theirs = {fold_name(name) for name in ids}
    facts = [c for c in shared if c.unique(table.rows) and not own[fold_name(c.name)].unique(people.rows)]
    plain = is_person(table.name) and all(sounds_public(c.name) for c in table.columns if c not in facts)
    if facts and (plain or not any(fold_name(c.name) in theirs for c in shared)):
        return [facts[0].name], True
    return [c.name for c in shared if fold_name(c.name) in theirs or own[fold_name(c.name)].unique(people.rows)], False


@dataclass(frozen=True, slots=True)
class NamesInLog:
    """Names in FROM of a log that are not the table's own: `alike` stand in statements that name its private columns or
    its id, so they may mean it; `others` do not.
    """

    alike: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.alike or self.others)


def names_in_log(log: Path, made: Proposal) -> NamesInLog:
    """What a log calls its tables, the most frequent first; which of them is this table is for a person to say."""
    from keyhole.logs.open import open_log
    from keyhole.sql.statements.table_names import is_file_or_catalog, list_tables_read

    own = fold_name(made.table.name)
    telling = [fold_name(name) for name in (*made.of(Role.PRIVATE), *made.of(Role.ID))]
    asked: Counter[str] = Counter()
    alike: set[str] = set()
    for line in open_log(log).lines:
        words = set(re.findall(r"\w+", fold_name(line.sql)))
        tells = any(set(re.findall(r"\w+", name)) <= words for name in telling)
        for name in list_tables_read(line.sql, line.dialect):
            if name[-1] != own and not is_file_or_catalog(name):
                asked[".".join(name)] += 1
                alike |= {".".join(name)} if tells else set()
    ranked = [name for name, _ in asked.most_common()]
    return NamesInLog(tuple(n for n in ranked if n in alike), tuple(n for n in ranked if n not in alike))


def toml(made: Proposal, at: Path, log: NamesInLog | None = None) -> str:
    """The settings file, to be written at a path; paths in it are relative to its folder."""
    return "\n".join(_lines(made, at, log or NamesInLog())) + "\n"


def _named(log: NamesInLog) -> Iterator[str]:
    """Names of the log as comments: nothing is passed over, and no name means this table, until a person says so."""
    if log.alike:
        yield "# These names of the log may mean this table. If they do, take the # away:"
        yield f"# names = {_list(log.alike)}"
    if log.others:
        yield "# These tables of the log may hold nothing about these people. If so, take the # away:"
        yield f"# ignore = {_list(log.others)}"


def _lines(made: Proposal, at: Path, log: NamesInLog) -> Iterator[str]:
    data, table = made.survey.data, made.table
    what = made.survey.name
    yield f"# Settings for {what}, proposed by `keyhole init`: read them through, they are guesses until you did."
    yield f"# Then: keyhole audit LOG.sql -c {at.name}       (words are explained by `keyhole explain WORD`)"
    yield ""
    yield "[source]"
    yield f"data = {_text(_relative(data, at))}    # {table.rows} rows"
    if len(made.survey.tables) > 1 or isinstance(data, str):
        yield f"table = {_text(table.name)}"
    yield from _layout(made.survey.layout)
    yield from _named(log)
    yield ""
    if made.unreviewed:
        yield f"# Not reviewed: {_comment(', '.join(made.unreviewed))}. Their names say nothing that is known here, so"
        yield "# their roles are guesses. Until they say reviewed = true, `keyhole audit` judges them both ways, as"
        yield "# public and as private, and gives no all-clear. Where a role is wrong, write the right one."
        yield ""
    yield "[columns]"
    ids, hidden = made.of(Role.ID), made.of(Role.HIDDEN)
    yield f"id = {_list(ids)}    # who a row is about" + ("" if ids else "; without one, people are rows by number")
    yield f"hidden = {_list(hidden)}    # nobody knows them, nobody asks about them"
    yield ""
    yield from _private(made)
    yield from _public(made)
    yield from _others(made)
    yield from _budget(table.rows)


def _budget(rows: int) -> Iterator[str]:
    """What `keyhole ask` may spend: a delta well below one person's share."""
    delta = max(6, len(str(rows)) + 1)
    yield "# What private answers may cost in all. With it `keyhole ask` answers with noise, an error bar and a price,"
    yield "# and a book beside this file keeps what was paid; without it answers are exact, or denied."
    yield "[budget]"
    yield "epsilon = 1.0"
    yield f"delta = 1e-{delta}"
    yield "# Whom the noise hides: one person's row may be any other row, and how many people there are is public, so"
    yield '# COUNT(*) over everybody is exact. With "add-remove" that number is hidden too, and bars are in people.'
    yield 'neighbours = "replace-one"'


def _layout(layout: FileLayout) -> Iterator[str]:
    why = {
        "encoding": "how its letters are written",
        "columns": "it has no header",
        "null": "these words stand for no value",
        "trim": "blanks at the ends of values are taken off",
        "decimal": "the sign before decimals",
        "thousands": "the sign between thousands",
    }
    for field in fields(FileLayout):
        value = getattr(layout, field.name)
        if value != field.default:
            written = _list(value) if isinstance(value, tuple) else "true" if value is True else _text(value)
            yield f"{field.name} = {written}" + (f"    # {why[field.name]}" if field.name in why else "")


def _private(made: Proposal) -> Iterator[str]:
    names = made.of(Role.PRIVATE)
    if not names:
        yield from (f"# {_comment(line)}" for line in elsewhere(made))
        yield "# No column looks private, and without one there is nothing to protect. Name it:"
        yield "# [columns.private.COLUMN]"
        yield ""
        return
    yield "# Private columns: what nobody should learn. Say which values are possible: min, max and step, or values; or"
    yield '# domain = "real" if any number is. "?" means not declared. Nothing of this was read off the data.'
    for name in names:
        column, known = made.table.column(name), made.known.get(name)
        yield f"[columns.private.{toml_key(name)}]    # {made.roles[name].why}"
        if made.table.typed:
            yield f"# kind: {column.kind}, as the file says"
        else:
            yield f'kind = "{_kind(column, known)}"'
        if made.roles[name].guessed:
            yield NOT_REVIEWED
        if bounds := _bounds(known):
            yield from bounds
            continue
        yield 'domain = "?"'
        yield from (
            ("# values = [...]",) if _kind(column, known) == "text" else ("# min = ...", "# max = ...", "# step = ...")
        )
    yield ""


def elsewhere(made: Proposal) -> tuple[str, ...]:
    """Which table to name instead, where the people's own has nothing private and their records have."""
    if not made.with_secrets:
        return ()
    best, *rest = made.with_secrets
    others = f" (or {', '.join(rest)})" if rest else ""
    return (
        f"What looks private is in {best}{others}, and statements about it are judged when it is the table:",
        f"run keyhole init again with --table {best}.",
    )


def _kind(column: Surveyed, known: PrivateColumn | None) -> str:
    """The kind to declare; where bounds are known and say otherwise, what follows from them."""
    if known is not None and (known.kind is not None or known.values is not None):
        return known.implied()
    kind = Kind.DECIMAL if column.kind is Kind.DOUBLE else column.kind
    return "text" if kind is Kind.OTHER else str(kind)


def _bounds(known: PrivateColumn | None) -> Sequence[str]:
    """What was declared of a private column, as lines; nothing if nothing was."""
    if known is None:
        return ()
    if known.state == "real":
        return ('domain = "real"',)
    if known.values is not None:
        return (f"values = {_list(known.values)}",)
    ends = {"min": known.min, "max": known.max, "step": known.step}
    return tuple(f"{name} = {value:f}" for name, value in ends.items() if value is not None)


def _public(made: Proposal) -> Iterator[str]:
    names = made.of(Role.PUBLIC)
    if not names:
        return
    yield "# Public columns: what anybody may know. `keyhole audit` needs nothing more of them. For answers with noise"
    yield "# (`keyhole ask`) their domains are declared: below are the values that occur. Widen them to all that can"
    yield "# occur, so that they tell nothing about who is in the table."
    left_out = []
    for name in names:
        if made.roles[name].guessed:
            yield f"[columns.public.{toml_key(name)}]    # {made.roles[name].why}"
            if not made.table.typed:
                yield f'kind = "{_kind(made.table.column(name), None)}"'
            yield NOT_REVIEWED
            continue
        domain = _domain(made, made.table.column(name))
        if not domain:
            left_out.append(name)
            continue
        yield f"[columns.public.{toml_key(name)}]"
        yield from domain
    if left_out:
        yield f"# without a domain: {_comment(', '.join(left_out))}"
    yield ""


def _domain(made: Proposal, column: Surveyed) -> list[str]:
    """The domain of a public column as lines; none for dates and for texts that are many or long."""
    table = made.table.name
    if column.kind in (Kind.TEXT, Kind.BOOLEAN, Kind.INTEGER) and 0 < column.distinct <= VALUES:
        found = made.survey.values(table, column.name, VALUES) or []
        if sum(len(str(value)) for value in found) < 2000:
            return [f"values = {_list(found)}"]
    if column.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE) and column.distinct:
        lo, hi = made.survey.ends(table, column.name)
        width = _width(lo, hi)
        lo, hi = _down(lo, width), _down(hi, width) + width
        return [f"min = {lo:f}", f"max = {hi:f}", f"width = {width:f}"]
    return []


def _width(lo: Any, hi: Any) -> Decimal:
    """A round width (1, 2 or 5 times a power of ten) that cuts a range into at most twenty bins.

    >>> _width(17, 90), _width(0, 99999), _width(0, 1)
    (Decimal('5'), Decimal('5000'), Decimal('1'))
    """
    room = max((Decimal(str(hi)) - Decimal(str(lo))) / BINS, Decimal(1) / 1000)
    power = Decimal(10) ** room.adjusted()
    width = next((step * power for step in (1, 2, 5, 10) if step * power >= room), 10 * power)
    return max(width, Decimal(1)).to_integral_value() if width >= 1 or isinstance(lo, int) else width


def _down(value: Any, width: Decimal) -> Decimal:
    return (Decimal(str(value)) // width - (Decimal(str(value)) % width < 0)) * width


def _others(made: Proposal) -> Iterator[str]:
    """The other tables: rows of people, by a key that both have; or facts about a value."""
    rest = [t for t in made.survey.tables.values() if t is not made.table]
    if not rest:
        return
    yield "# Other tables: rows that belong to people (who has one is private too), or public facts about a value."
    for table in rest:
        chosen, dimension = _joined_on(made.table, table, made.of(Role.ID))
        if not chosen:
            where = _comment(made.table.name)
            yield f'# [tables.{toml_key(table.name)}]: it has no key of {where}; write keys = ["col=other"]'
            continue
        yield f"[tables.{toml_key(table.name)}]    # {table.rows} rows"
        yield f"keys = {_list(chosen)}"
        yield f'{"public" if dimension else "private"} = "all"'
    yield ""


def _relative(data: Path | str, at: Path) -> str:
    if isinstance(data, str):  # a password is not written into a file that others read
        return DataUrl.parse(data).shown
    home, there = at.absolute().parent, data.absolute()
    return str(there.relative_to(home)) if there.is_relative_to(home) else str(there)


def _text(value: object) -> str:
    """A text of TOML."""
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _list(values: Sequence[object]) -> str:
    plain = (str(v).lower() if isinstance(v, bool) else str(v) if isinstance(v, int) else _text(v) for v in values)
    return f"[{', '.join(plain)}]"


def _comment(text: str) -> str:
    """A text that ends no comment."""
    return "".join(c if c.isprintable() else "?" for c in text)
