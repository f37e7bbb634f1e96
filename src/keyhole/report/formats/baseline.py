"""What was known before: a former verdict, or a file of fingerprints, against which only what is new counts.

A JSON verdict knows people by name, and is kept with the data. A file of fingerprints (`--format baseline`) may be kept
anywhere: with a key it knows people by HMAC, without one the statements and columns of findings, never a plain hash of
a name or a value. What is not surely known counts as new.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

from keyhole.errors import ConfigError, NumberError
from keyhole.model.numbers import read_decimal, read_int
from keyhole.report.formats.fingerprint import flat
from keyhole.report.plain import EXPOSED, GROUP, INFERRED, Case, Plain

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
        return cls(case.column, case.form, tuple(sorted(map(_text, case.records))), tuple(sorted(case.rows)))

    @classmethod
    def of_item(cls, item: Mapping[str, Any]) -> Identity:
        """That of an item of a JSON verdict."""
        people = item["records"] if "records" in item else [item.get("person") or item["record"]]
        rows = item.get("rows") or ([item["row"]] if "row" in item else [])
        return cls(
            str(item["column"]), str(item.get("form") or ""), tuple(sorted(map(_text, people))), tuple(sorted(rows))
        )

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
            raw = json.loads(Path(path).read_text(encoding="utf-8"), parse_float=read_decimal, parse_int=read_int)
        except OSError as error:
            raise ConfigError(f"cannot read the baseline {path}: {error.strerror}") from None
        except NumberError as error:
            raise ConfigError(f"the baseline {path}: {error}") from None
        except ValueError as error:
            raise ConfigError(f"the baseline {path} is not JSON: {error}") from None
        try:
            return cls.of_marks(raw, key) if raw.get("is") == FILE_MARK else cls.of(raw)
        except (KeyError, TypeError, AttributeError, ValueError):
            raise ConfigError(
                f"the baseline {path} is no verdict: make it with keyhole audit ... --format json --out {path}"
            ) from None

    @classmethod
    def of(cls, verdict: Mapping[str, Any]) -> Baseline:
        """From the JSON of a verdict.

        >>> one = {"exposed": [{"record": {"name": "Ann"}, "column": "pay"}], "groups": [], "intervals": []}
        >>> sorted(Baseline.of(one).exposed)
        ['["pay", "", ["{\\\\"name\\\\": \\\\"Ann\\\\"}"], []]']
        """
        inferred = [item for item in verdict.get("intervals", []) if item["status"] not in ("open", "limit")]
        return cls(
            frozenset(_both(map(Identity.of_item, verdict["exposed"]))),
            frozenset(_both(map(Identity.of_item, [*inferred, *verdict.get("features", [])]))),
            frozenset(_both(map(Identity.of_item, verdict.get("groups", [])))),
            frozenset(_row_mark(item["sql"]) for item in verdict.get("rows", [])),
            by_row=verdict.get("people") != verdict.get("records"),
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

    def against(self, verdict: Plain) -> Baseline:
        """For this verdict: where a person has several records now, each of them counts by itself."""
        return replace(self, by_row=self.by_row or verdict.people != verdict.records)

    def knows(self, case: Case) -> bool:
        """Was at least as much known before? (Exposed now but only inferred before is new.)"""
        found = marked(case, self.by, self.key, by_row=self.by_row)
        if case.status == GROUP:
            return found in self.groups
        return found in self.exposed or (case.status == INFERRED and found in self.inferred)

    def exit_code(self, verdict: Plain) -> int:
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


def baseline_json(verdict: Plain, key: bytes | None) -> dict[str, Any]:
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


def mark(data: dict[str, Any], verdict: Plain, baseline: Baseline) -> dict[str, Any]:
    """The JSON of a verdict, with `known` on everybody exposed and on every group."""
    for name, cases in (("exposed", verdict.exposed), ("groups", verdict.groups)):
        for item, case in zip(data[name], cases, strict=True):
            item["known"] = baseline.knows(case)
    return data


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
