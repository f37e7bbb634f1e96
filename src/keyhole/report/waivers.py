"""What somebody signed off: findings and statements by fingerprint, with who, when, why and until when. No values.

A fingerprint is taken of what anybody may read in the log (the statements that a finding needs, and the column), never
of a person or a value: a hash of a name is undone by a list of names. With a key, the person is part of it (HMAC), so
that a waiver is for him alone; without one, for whoever these statements expose in that column.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from keyhole.errors import ConfigError
from keyhole.report.documents.json_text import Labels
from keyhole.report.documents.tables import TablesDocument
from keyhole.report.documents.verdict import ContradictingAnswers, ProofItem, VerdictDocument
from keyhole.report.formats.fingerprint import flat

KINDS = ("rows", "exposed", "inferred", "group", "unjudged", "refused", "contradiction", "gap")
DIGITS = 32


class FailOn(StrEnum):
    """What makes a pipeline fail, each with all that is worse."""

    EXPOSED = "exposed"
    INFERRED = "inferred"
    UNJUDGED = "unjudged"


@dataclass(frozen=True, slots=True)
class Matter:
    """Something to decide on: its kind, its fingerprint, and what it is about in words without values."""

    kind: str
    fingerprint: str
    about: str
    may_show_rows: bool = False  # not judged, and may hand out private values: counts whatever --fail-on says


@dataclass(frozen=True, slots=True)
class Waiver:
    """One signature."""

    kind: str
    fingerprint: str
    about: str
    by: str
    at: dt.date
    why: str
    until: dt.date | None = None

    def holds(self, today: dt.date) -> bool:
        """Not expired."""
        return self.until is None or today <= self.until


FINDINGS = frozenset(("rows", "exposed", "inferred", "group"))
UNNAMED = Matter("exposed", "", "a finding that has no fingerprint")


def list_matters(verdict: VerdictDocument | TablesDocument, key: bytes | None = None) -> list[Matter]:
    """What a verdict leaves to decide, worst first; equal ones once."""
    return list(dict.fromkeys(matter for matter, _ in explain_matters(verdict, key)))


def explain_matters(
    verdict: VerdictDocument | TablesDocument, key: bytes | None = None
) -> Iterator[tuple[Matter, tuple[str, ...]]]:
    """Everything that a verdict leaves to decide, worst first, each with what is shown of it: a proof, a statement."""
    sign = _Signer(key, by_row=verdict.people != verdict.records)
    for rows in verdict.rows or ():
        yield sign.text("rows", rows.sql, about=f"Q{rows.query} hands out rows"), (rows.sql,)
    for exposed in verdict.exposed:
        own = (exposed.form, exposed.grade, str(exposed.row), _listed_rows(exposed.rows))
        yield sign.finding("exposed", exposed.column, exposed.proof, [exposed.record], own), exposed.why
    for interval in verdict.intervals:
        if interval.status == "inferred":
            own = ("", "", str(interval.row or ""), "")
            yield sign.finding("inferred", interval.column, interval.proof, [interval.record], own), interval.why or ()
    for feature in verdict.features or ():
        own = (feature.form, feature.grade, "", _listed_rows(feature.rows))
        yield sign.finding("inferred", feature.column, feature.proof, [feature.person], own), ()
    for group in verdict.groups:
        own = ("", "", "", _listed_rows(group.rows))
        yield sign.finding("group", group.column, group.proof, group.records, own), group.why
    for contradiction in verdict.contradictions:
        if isinstance(contradiction, ContradictingAnswers):
            about = f"contradiction of {_listed(contradiction.queries)}"
            texts = sorted(map(flat, contradiction.sql)) or list(contradiction.queries)
            yield sign.texts("contradiction", texts, about), (*contradiction.sql, contradiction.reason)
        else:
            about = "numbers of published tables that do not add up"
            yield sign.texts("contradiction", [contradiction.reason], about), (contradiction.reason,)
    for unjudged in verdict.unjudged:
        about = f"Q{unjudged.query} was not judged"
        matter = sign.text("unjudged", unjudged.sql, about, may_show_rows=unjudged.may_show_rows)
        yield matter, (*filter(None, [unjudged.sql]), unjudged.reason)
    for refused in verdict.refused:
        about = f"Q{refused.query} was refused"
        matter = sign.text("refused", refused.sql, about, may_show_rows=refused.may_show_rows)
        yield matter, (*filter(None, [refused.sql]), refused.error)
    if not verdict.complete:
        yield Matter("gap", _hash("gap", verdict.promise), "the verdict is not complete"), ()


def _listed_rows(rows: Sequence[int]) -> str:
    return str(list(rows)) if rows else ""


@dataclass(frozen=True, slots=True)
class _Signer:
    """Fingerprints, under a key or without one; `by_row`: a person has several records."""

    key: bytes | None
    by_row: bool

    def text(self, kind: str, sql: str, about: str, *, may_show_rows: bool = False) -> Matter:
        """That of a statement."""
        return Matter(kind, _hash(kind, flat(sql), key=self.key), about, may_show_rows)

    def texts(self, kind: str, texts: Sequence[str], about: str) -> Matter:
        """That of several texts together."""
        return Matter(kind, _hash(kind, *texts, key=self.key), about)

    def finding(
        self, kind: str, column: str, proof: Sequence[ProofItem], people: Sequence[Labels], own: Sequence[str]
    ) -> Matter:
        """That of what is proved: its column and statements; under a key also the people and what is their `own`:
        form and grade, and, where a name does not say which record, row and rows.
        """
        used = {item.query: flat(item.sql or "") for item in proof if item.query}
        parts = [column, *sorted(set(used.values()))]
        if self.key is not None:  # what is known of a person (a total, a yes or no) may be the secret itself
            parts.append(json.dumps(sorted(map(_record, people)), ensure_ascii=False))
            parts += own if self.by_row else own[:2]
        return Matter(kind, _hash(kind, *parts, key=self.key), f"{column}, {kind} by {_listed(used)}")


def _record(record: Mapping[str, Any]) -> str:
    return json.dumps({k: str(v) for k, v in record.items()}, sort_keys=True, ensure_ascii=False)


def _hash(*parts: str, key: bytes | None = None) -> str:
    said = json.dumps(parts, ensure_ascii=False).encode()
    made = hashlib.sha256(said) if key is None else hmac.new(key, said, hashlib.sha256)
    return made.hexdigest()[:DIGITS]


def _listed(queries: Iterable[str]) -> str:
    return ", ".join(f"Q{q}" for q in queries) or "what is known"


def read_waivers(path: Path) -> tuple[Waiver, ...]:
    """Those of a file."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the waivers {path}: {error.strerror}") from None
    except (ValueError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"the waivers {path} are not TOML: {error}") from None
    listed = raw.get("waiver")
    if set(raw) - {"waiver"} or not isinstance(listed, list):
        raise ConfigError(f"{path} is no file of waivers: `keyhole review verdict.json --waivers {path}` writes one")
    return tuple(_waiver(item, number, path) for number, item in enumerate(listed, 1))


def _waiver(item: Any, number: int, path: Path) -> Waiver:
    where = f"waiver {number} of {path}"
    needed = {"kind": str, "fingerprint": str, "by": str, "why": str, "at": dt.date}
    if not isinstance(item, dict):
        raise ConfigError(f"{where} is not a table")
    if unknown := set(item) - {*needed, "about", "until"}:
        raise ConfigError(f"{where} has {sorted(unknown)[0]!r}, which no waiver has")
    for name, kind in needed.items():
        if not isinstance(item.get(name), kind) or item[name] == "":
            raise ConfigError(f"{where} needs {name}: who signed what, when and why, is what a waiver says")
    if item["kind"] not in KINDS:
        raise ConfigError(f"{where}: kind is one of {', '.join(KINDS)}, not {item['kind']!r}")
    until = item.get("until")
    if until is not None and (not isinstance(until, dt.date) or isinstance(until, dt.datetime)):
        raise ConfigError(f"{where}: until is a day, such as until = 2027-01-31")
    about = str(item.get("about", ""))
    return Waiver(item["kind"], item["fingerprint"], about, item["by"], item["at"], item["why"], until)


def waivers_toml(waivers: Iterable[Waiver]) -> str:
    """The text of the file."""
    parts = ["# Signed off with `keyhole review`, for `keyhole audit --accept`. No names of people, no values.\n"]
    for each in waivers:
        until = "" if each.until is None else f"until = {each.until.isoformat()}\n"
        parts.append(
            f"\n[[waiver]]\nkind = {json.dumps(each.kind)}\nfingerprint = {json.dumps(each.fingerprint)}\n"
            f"about = {json.dumps(each.about, ensure_ascii=False)}\nby = {json.dumps(each.by, ensure_ascii=False)}\n"
            f"at = {each.at.isoformat()}\nwhy = {json.dumps(each.why, ensure_ascii=False)}\n{until}"
        )
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A verdict against what was signed: what is left to decide, what is waived, which signatures are out of date."""

    left: tuple[Matter, ...]
    waived: tuple[Matter, ...]
    expired: tuple[Matter, ...]

    @classmethod
    def of(cls, found: Iterable[Matter], waivers: Iterable[Waiver], today: dt.date) -> Accepted:
        """Each matter with its waivers; one that has expired waives nothing."""
        signed: dict[tuple[str, str], bool] = {}
        for each in waivers:
            name = (each.kind, each.fingerprint)
            signed[name] = signed.get(name, False) or each.holds(today)
        names = {m: signed.get((m.kind, m.fingerprint)) for m in found}
        return cls(
            tuple(m for m, holds in names.items() if not holds),
            tuple(m for m, holds in names.items() if holds),
            tuple(m for m, holds in names.items() if holds is False),
        )

    def exit_code(self, fail_on: FailOn) -> int:
        """1 somebody is left who counts; 3 something else is left that counts; 0 nothing is."""
        kinds = {m.kind for m in self.left}
        worst = {FailOn.EXPOSED: {"rows", "exposed"}}.get(fail_on, FINDINGS)
        if kinds & worst:
            return 1
        return 3 if kinds and (fail_on is FailOn.UNJUDGED or any(m.may_show_rows for m in self.left)) else 0

    def sentences(self, fail_on: FailOn) -> Iterator[str]:
        """What the output says about it: a verdict that was changed by a signature must show it."""
        if fail_on is not FailOn.UNJUDGED:
            rest = "ranges, groups and what was not judged" if fail_on is FailOn.EXPOSED else "what was not judged"
            yield f"Only --fail-on {fail_on} counts for the exit code; {rest} does not."
            unread = tuple(m for m in self.left if m.may_show_rows)
            if unread:
                yield f"Not judged, and may hand out private values, so it counts: {_some(unread)}."
        if self.waived:
            yield f"{len(self.waived)} signed off (--accept): {_some(self.waived)}."
        if self.expired:
            yield f"{len(self.expired)} signed off once, but expired: {_some(self.expired)}."


def _some(found: tuple[Matter, ...], shown: int = 5) -> str:
    more = f" and {len(found) - shown} more" if len(found) > shown else ""
    return "; ".join(m.about for m in found[:shown]) + more
