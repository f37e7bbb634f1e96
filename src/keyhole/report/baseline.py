"""Who was exposed before: a former JSON verdict against which only new exposures count."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyhole.audit.base import Exposure, Finding, Group, Status
from keyhole.errors import ConfigError
from keyhole.report.place import everybody

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
            raw = json.loads(Path(path).read_text(encoding="utf-8"))
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
                if item["status"] != str(Status.OPEN)
            ),
            frozenset((frozenset(map(_text, g["records"])), str(g["column"])) for g in verdict.get("groups", [])),
        )

    def knows(self, found: Finding | Group) -> bool:
        """Was at least as much known before? (Exposed now but only inferred before is new.)"""
        if isinstance(found, Group):
            return (frozenset(map(_text, found.records)), found.column) in self.groups
        key = _key(found.record, found.column)
        return key in self.exposed or (found.status is Status.INFERRED and key in self.inferred)

    def exit_code(self, verdict: Exposure) -> int:
        """1 if somebody is newly exposed or inferred; otherwise as if the known ones were not there."""
        if fresh(everybody(verdict), self):
            return 1
        return verdict.doubt


def fresh(found: Iterable[Finding | Group], baseline: Baseline | None) -> list[Finding | Group]:
    """Those that a baseline does not know; all without one."""
    return [f for f in found if baseline is None or not baseline.knows(f)]


def marked(verdict: Exposure, baseline: Baseline) -> dict[str, Any]:
    """The JSON of a verdict, with `known` on everybody exposed and on every group."""
    data = verdict.to_json()
    for item, finding in zip(data["exposed"], verdict.exposed, strict=True):
        item["known"] = baseline.knows(finding)
    for item, group in zip(data["groups"], verdict.groups, strict=True):
        item["known"] = baseline.knows(group)
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
    return str(int(value)) if value == int(value) else repr(float(value))
