"""A verdict as SARIF 2.1.0, for code scanning: everybody exposed is a result at the statement that completed it.

Private values are left out: reports of a pipeline are read by more people than the verdict is.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from keyhole.logs.open import Log
from keyhole.report.cases import Case, PlainVerdict
from keyhole.report.formats.baseline import Baseline
from keyhole.report.formats.fingerprint import flat
from keyhole.report.words.proofs import describe_contradiction, describe_without_value
from keyhole.report.words.sentence import explain_nothing_judged
from keyhole.version import __version__

Views: TypeAlias = Mapping[
    str, tuple[PlainVerdict, Log]
]  # analyst -> the verdict over what he asked alone, and his log
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
RULES = (
    ("exposed", "A person's private value is determined", "error"),
    ("inferred", "A person's private value is narrowed down", "error"),
    ("rows", "A statement hands out rows with private values", "error"),
    ("group", "The total of a few people is determined", "error"),
    ("contradiction", "Answers contradict each other", "warning"),
    ("unjudged", "A statement was not judged", "warning"),
    ("refused", "A statement was not understood", "warning"),
)
_INDEX = {name: i for i, (name, _, _) in enumerate(RULES)}


def sarif(verdict: PlainVerdict, log: Log, baseline: Baseline | None = None, views: Views | None = None) -> str:
    """The SARIF text. With a baseline, results say `new` or `unchanged`, and known ones are notes.

    With `views` there is a run more for each analyst, over what he asked alone; its `automationDetails` name him.
    """
    runs = [_run(verdict, log, baseline)]
    for who, (view, part) in (views or {}).items():
        named = {"id": f"keyhole/analyst/{quote(who, safe='')}/", "description": {"text": f"What {who} asked alone"}}
        runs.append({**_run(view, part, baseline), "automationDetails": named})
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": runs}, ensure_ascii=False, indent=2)


def _run(verdict: PlainVerdict, log: Log, baseline: Baseline | None) -> dict[str, Any]:
    place = _Place(log)
    marks = _marks(verdict.cases)
    results = [_found(case, place, baseline, mark) for case, mark in zip(verdict.cases, marks, strict=True)]
    results += [_result("rows", f"Q{r.number} hands out rows", place.at([r.number])) for r in verdict.rows]
    for text, c in {describe_contradiction(c): c for c in verdict.contradictions}.items():
        results.append(_result("contradiction", text, place.at(c.queries[-1:])))
    results += [_result("unjudged", f"Q{u.number}: {u.reason}", place.at([u.number])) for u in verdict.unjudged]
    results += [_result("refused", f"Q{r.number}: {_first(r.error)}", place.at([r.number])) for r in verdict.refused]
    if not verdict.judged:
        results.append(_result("unjudged", explain_nothing_judged(verdict), place.at([])))
    driver = {
        "name": "keyhole",
        "version": __version__,
        "rules": [
            {
                "id": name,
                "shortDescription": {"text": text},
                "defaultConfiguration": {"level": level},
            }
            for name, text, level in RULES
        ],
    }
    return {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The folder keyhole was run in."}}},
        "results": results,
    }


class _Place:
    """Locations in the log file."""

    def __init__(self, log: Log) -> None:
        self._lines = log.places()
        path = Path(log.name)
        self._artifact: dict[str, Any] = {"uri": quote(log.name.replace(" ", "-"))}
        if path.is_file():
            try:
                inside = path.resolve().relative_to(Path.cwd())
                self._artifact = {"uri": quote(inside.as_posix()), "uriBaseId": "SRCROOT"}
            except ValueError:
                self._artifact = {"uri": path.resolve().as_uri()}

    def at(self, numbers: list[str] | tuple[str, ...]) -> list[dict[str, Any]]:
        """One location for each query; the file itself where there is none."""
        lines = [self._lines.get(n.split(".")[0], 1) for n in numbers] or [1]
        return [
            {"physicalLocation": {"artifactLocation": self._artifact, "region": {"startLine": line}}} for line in lines
        ]


def _marks(cases: Sequence[Case]) -> list[str]:
    """A fingerprint of each case, by which a scanner knows it again: of its statements and column, not of a person.

    A hash of a name is undone by a list of names. Those that share their statements are numbered.
    """
    seen: Counter[str] = Counter()
    found = []
    for case in cases:
        used = sorted({flat(step.cited.sql) for step in case.argument.steps})
        text = json.dumps([case.column, case.status, used], ensure_ascii=False)
        found.append(hashlib.sha256(f"{text} {seen[text]}".encode()).hexdigest()[:32])
        seen[text] += 1
    return found


def _found(case: Case, place: _Place, baseline: Baseline | None, mark: str) -> dict[str, Any]:
    *earlier, last = case.argument.queries or (None,)
    result = _result(case.status, describe_without_value(case), place.at([last] if last is not None else []))
    if earlier:
        result["relatedLocations"] = [
            {**location, "id": i, "message": {"text": f"Q{q}"}}
            for i, (q, location) in enumerate(zip(earlier, place.at(earlier), strict=True), 1)
        ]
    result["partialFingerprints"] = {"keyholeStatements/v1": mark}
    if baseline is not None:
        known = baseline.knows(case)
        result["baselineState"] = "unchanged" if known else "new"
        if known:
            result["level"] = "note"
    return result


def _result(rule: str, text: str, locations: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "ruleId": rule,
        "ruleIndex": _INDEX[rule],
        "level": RULES[_INDEX[rule]][2],
        "message": {"text": text},
        "locations": locations,
    }


def _first(text: str) -> str:
    return text.splitlines()[0] if text else text
