"""What was known before: a former verdict, or a file of fingerprints, against which only what is new counts.

A JSON verdict knows people by name, and is kept with the data. A file of fingerprints (`--format baseline`) may be kept
anywhere: with a key it knows people by HMAC, without one the statements and columns of findings, never a plain hash of
a name or a value. What is not surely known counts as new.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import structs

from keyhole.errors import ConfigError, NumberError
from keyhole.report.cases import EXPOSED, GROUP, INFERRED, LIMIT, OPEN, Case, PlainVerdict
from keyhole.report.documents.json_text import read_document, read_json
from keyhole.report.documents.verdict import ExposedValue, GroupTotal, InferredFeature, Interval, VerdictDocument
from keyhole.report.formats.fingerprint import flat

Entry: TypeAlias = ExposedValue | InferredFeature | Interval | GroupTotal

FILE_MARK = "keyhole baseline"


class KnownBy(StrEnum):
    """By what a finding is known again."""

    NAME = "name"
    KEY = "key"
    STATEMENTS = "statements"


@dataclass(frozen=True, slots=True)
class Identity:
    """Which finding it is: the column, what is known of it, whose, and which of his records (rows count from 1)."""

    column: str
    form: str
    records: tuple[str, ...]
    rows: tuple[int, ...]

    @classmethod
    def of_case(cls, case: Case) -> Identity:
        """That of a finding."""
        return cls._of(case.column, case.form, case.records, case.rows)

    @classmethod
    def of_entry(cls, entry: Entry) -> Identity:
        """That of an entry of a JSON verdict."""
        match entry:
            case ExposedValue():
                return cls._of(entry.column, entry.form, [entry.person or entry.record], entry.rows or [entry.row])
            case InferredFeature():
                return cls._of(entry.column, entry.form, [entry.person], entry.rows)
            case Interval():
                return cls._of(entry.column, "", [entry.record], [] if entry.row is None else [entry.row])
            case GroupTotal():
                return cls._of(entry.column, "", entry.records, entry.rows)

    @classmethod
    def _of(cls, column: str, form: str, people: Sequence[Mapping[str, Any]], rows: Sequence[int]) -> Identity:
        return cls(column, form, tuple(sorted(map(_text, people))), tuple(sorted(rows)))

    def text(self, *, by_row: bool) -> str:
        """As one text; rows tell apart records of one person, and change with the order of the file."""
        parts = [self.column, self.form, list(self.records), list(self.rows) if by_row else []]
        return json.dumps(parts, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The findings of a former verdict, as marks of their identity; `by_row` where one person has several records."""

    exposed: frozenset[str] = frozenset()
    inferred: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    rows: frozenset[str] = frozenset()  # statements that hand out rows
    by: KnownBy = KnownBy.NAME
    by_row: bool = False
    key: bytes | None = None

    @classmethod
    def load(cls, path: str | Path, key: bytes | None = None) -> Baseline:
        """Read the output of `keyhole audit --format json`, or of `--format baseline`."""
        try:
            raw = read_json(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot read the baseline {path}: {error.strerror}") from None
        except NumberError as error:
            raise ConfigError(f"the baseline {path}: {error}") from None
        except ValueError as error:
            raise ConfigError(f"the baseline {path} is not JSON: {error}") from None
        try:
            if raw.get("is") == FILE_MARK:
                return cls.of_marks(raw, key)
            return cls.of(read_document(raw, VerdictDocument))
        except (KeyError, TypeError, AttributeError, ValueError):
            raise ConfigError(
                f"the baseline {path} is no verdict: make it with keyhole audit ... --format json --out {path}"
            ) from None

    @classmethod
    def of(cls, verdict: VerdictDocument) -> Baseline:
        """From a verdict."""
        inferred: list[Entry] = [entry for entry in verdict.intervals if entry.status not in (OPEN, LIMIT)]
        return cls(
            frozenset(_both(map(Identity.of_entry, verdict.exposed))),
            frozenset(_both(map(Identity.of_entry, [*inferred, *verdict.features]))),
            frozenset(_both(map(Identity.of_entry, verdict.groups))),
            frozenset(_row_mark(rows.sql) for rows in verdict.rows),
            by_row=verdict.people != verdict.records,
        )

    @classmethod
    def of_marks(cls, raw: Mapping[str, Any], key: bytes | None) -> Baseline:
        """From a file of fingerprints."""
        by = KnownBy(raw["by"])
        if by is KnownBy.KEY and key is None:
            raise ConfigError("the baseline knows people by a key: give it with --key FILE")
        if by is KnownBy.KEY and raw["check"] != _check(key or b""):
            raise ConfigError("the baseline was made with another key: with this one everybody would be new")
        names = ("exposed", "inferred", "groups", "rows")
        exposed, inferred, groups, rows = (frozenset(map(str, raw[name])) for name in names)
        return cls(exposed, inferred, groups, rows, by, bool(raw["by_row"]), key)

    def against(self, verdict: PlainVerdict) -> Baseline:
        """For this verdict: where a person has several records now, each of them counts by itself."""
        return replace(self, by_row=self.by_row or verdict.people != verdict.records)

    def knows(self, case: Case) -> bool:
        """Was at least as much known before? (Exposed now but only inferred before is new.)"""
        found = marked(case, self.by, self.key, by_row=self.by_row)
        if case.status == GROUP:
            return found in self.groups
        return found in self.exposed or (case.status == INFERRED and found in self.inferred)

    def exit_code(self, verdict: PlainVerdict) -> int:
        """1 if somebody is newly exposed or inferred; otherwise as if the known ones were not there."""
        rows = any(_row_mark(each.sql) not in self.rows for each in verdict.rows)
        return 1 if rows or fresh(verdict.cases, self.against(verdict)) else verdict.doubt


def marked(case: Case, by: KnownBy, key: bytes | None, *, by_row: bool) -> str:
    """The mark of a finding: its identity, that under a key, or its statements and column."""
    if by is KnownBy.STATEMENTS:
        used = sorted({flat(step.cited.sql) for step in case.argument.steps})
        return hashlib.sha256(json.dumps([case.column, used], ensure_ascii=False).encode()).hexdigest()[:32]
    text = Identity.of_case(case).text(by_row=by_row)
    return text if by is KnownBy.NAME else _keyed(key or b"", text)


def baseline_json(verdict: PlainVerdict, key: bytes | None) -> dict[str, Any]:
    """A file of fingerprints: by key where there is one, else by statements and columns. No names, no values."""
    by = KnownBy.STATEMENTS if key is None else KnownBy.KEY
    by_row = verdict.people != verdict.records
    names = {EXPOSED: "exposed", INFERRED: "inferred", GROUP: "groups"}
    found: dict[str, set[str]] = {name: set() for name in names.values()}
    for case in verdict.cases:
        for rows in (False, True):
            found[names[case.status]].add(marked(case, by, key, by_row=rows))
    head = {"is": FILE_MARK, "by": str(by), "by_row": by_row, **({} if key is None else {"check": _check(key)})}
    found["rows"] = {_row_mark(each.sql) for each in verdict.rows}
    return head | {name: sorted(marks) for name, marks in found.items()}


def _row_mark(sql: str) -> str:
    """The mark of a statement that hands out rows."""
    return hashlib.sha256(f"rows {flat(sql)}".encode()).hexdigest()[:32]


def fresh(cases: Iterable[Case], baseline: Baseline | None) -> list[Case]:
    """Those that a baseline does not know; all without one."""
    return [case for case in cases if baseline is None or not baseline.knows(case)]


def mark_known(document: VerdictDocument, verdict: PlainVerdict, baseline: Baseline) -> VerdictDocument:
    """The document of a verdict, with `known` on everybody exposed and on every group."""
    exposed = zip(document.exposed, verdict.exposed, strict=True)
    groups = zip(document.groups, verdict.groups, strict=True)
    return structs.replace(
        document,
        exposed=tuple(structs.replace(entry, known=baseline.knows(case)) for entry, case in exposed),
        groups=tuple(structs.replace(entry, known=baseline.knows(case)) for entry, case in groups),
    )


def _both(found: Iterable[Identity]) -> Iterator[str]:
    for each in found:
        yield each.text(by_row=False)
        if each.rows:
            yield each.text(by_row=True)


def _keyed(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:32]


def _check(key: bytes) -> str:
    return _keyed(key, FILE_MARK)


def _text(record: Mapping[str, Any]) -> str:
    # a number is the same number however JSON or the engine spells it
    plain = {str(k): v if v is None or isinstance(v, bool) else _spelled(v) for k, v in record.items()}
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, default=str)


def _spelled(value: Any) -> str:
    if isinstance(value, str):
        return value
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    text = f"{value if isinstance(value, int | Decimal) else Decimal(repr(float(value))):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
