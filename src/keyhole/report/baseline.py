"""Who was exposed before: a former JSON verdict against which only new exposures count."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from keyhole.errors import ConfigError
from keyhole.report.plain import GROUP, INFERRED, Case, Plain

Key = tuple[str, str]  # record as canonical JSON, column


@dataclass(frozen=True, slots=True)
class Baseline:
    """The people, ranges and groups of a former verdict."""

    exposed: frozenset[Key] = frozenset()
    inferred: frozenset[Key] = frozenset()
    groups: frozenset[tuple[frozenset[str], str]] = frozenset()

    @classmethod
    def load(cls, path: str | Path) -> Baseline:
        """Read the output of `keyhole audit --format json`."""
        try:
            raw = json.loads(Path(path).read_text(encoding="utf-8"), parse_float=Decimal)
        except OSError as error:
            raise ConfigError(f"cannot read the baseline {path}: {error.strerror}") from None
        except ValueError as error:
            raise ConfigError(f"the baseline {path} is not JSON: {error}") from None
        try:
            return cls.of(raw)
        except (KeyError, TypeError, AttributeError):
            raise ConfigError(
                f"the baseline {path} is no verdict: make it with keyhole audit ... --format json --out {path}"
            ) from None

    @classmethod
    def of(cls, verdict: Mapping[str, Any]) -> Baseline:
        """From the JSON of a verdict.

        >>> one = {"exposed": [{"record": {"name": "Ann"}, "column": "pay"}], "groups": [], "intervals": []}
        >>> Baseline.of(one).exposed
        frozenset({('{"name": "Ann"}', 'pay')})
        """
        return cls(
            frozenset(_key(item["record"], item["column"]) for item in verdict["exposed"]),
            frozenset(
                _key(item["record"], item["column"])
                for item in verdict.get("intervals", [])
                if item["status"] not in ("open", "limit")
            ),
            frozenset((frozenset(map(_text, g["records"])), str(g["column"])) for g in verdict.get("groups", [])),
        )

    def knows(self, case: Case) -> bool:
        """Was at least as much known before? (Exposed now but only inferred before is new.)"""
        if case.status == GROUP:
            return (frozenset(map(_text, case.records)), case.column) in self.groups
        key = _key(case.records[0], case.column)
        return key in self.exposed or (case.status == INFERRED and key in self.inferred)

    def exit_code(self, verdict: Plain) -> int:
        """1 if somebody is newly exposed or inferred; otherwise as if the known ones were not there."""
        return 1 if fresh(verdict.cases, self) else verdict.doubt


def fresh(cases: Iterable[Case], baseline: Baseline | None) -> list[Case]:
    """Those that a baseline does not know; all without one."""
    return [case for case in cases if baseline is None or not baseline.knows(case)]


def mark(data: dict[str, Any], verdict: Plain, baseline: Baseline) -> dict[str, Any]:
    """The JSON of a verdict, with `known` on everybody exposed and on every group."""
    for name, cases in (("exposed", verdict.exposed), ("groups", verdict.groups)):
        for item, case in zip(data[name], cases, strict=True):
            item["known"] = baseline.knows(case)
    return data


def _key(record: Mapping[str, Any], column: str) -> Key:
    return _text(record), str(column)


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
