"""What a verdict says beside its claims: rows handed out, counts by assumption, the statement that completed a finding.

It is compared with the claims, the log and the data. What cannot be compared is told, and never taken as right.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .engine import Cannot, Engine, plain

if TYPE_CHECKING:
    from .answers import Log

CLAIMED = ("exposed", "features", "groups", "intervals")
WITHOUT_PROOF = ("advice", "by_rule", "suggestion")  # what follows from no proof of the verdict
MARKS = re.compile(r'[\s"()]+')  # engine and auditor write the name of an expression with other blanks and brackets
WINDOW = re.compile(r"\bOVER\b", re.IGNORECASE)

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Disagreement:
    """Something beside the claims that is false, or (`is_false` not set) that cannot be compared here."""

    why: str
    is_false: bool = False


def compare_sections(
    verdict: Entry, engine: Engine, log: Log | None, readings: Collection[tuple[str, ...]]
) -> Iterator[Disagreement]:
    """Everything beside the claims that does not agree with them, with the log or with the data.

    `readings`: the private columns of each reading of the roles; rows are handed out under any of them.
    """
    yield from _compare_counts(verdict, engine)
    total = (verdict.get("statements") or {}).get("total")
    if log is not None and not log.others and total is not None and total != len(log.asked):
        yield Disagreement(f"`statements` has {total} in all, and the log {len(log.asked)}")
    yield from _compare_assumed(verdict)
    yield from _compare_completions(verdict, log)
    for name in ("unjudged", "refused", "warnings"):
        yield from _compare_texts(verdict, name, log)
    numbers = Counter(entry["query"] for entry in verdict.get("rows", ()))
    for number in (number for number, times in numbers.items() if times > 1):
        yield Disagreement(f"`rows` has statement {number} twice", is_false=True)
    rows = Rows(verdict, engine, log, readings)
    for entry in verdict.get("rows", ()):
        yield from rows.compare(entry)
    yield from rows.left_out()
    for view in verdict.get("by", ()):
        yield from _compare_assumed(view)
        yield from _compare_completions(view, log)
        yield from (each for entry in view.get("rows", ()) for each in rows.compare(entry))


def _compare_counts(verdict: Entry, engine: Engine) -> Iterator[Disagreement]:
    ids = [str(name) for name in (verdict.get("source") or {}).get("id") or ()]
    people = verdict.get("people")
    if people is not None and "cells" not in verdict and all(name in engine.columns for name in ids):
        counted = engine.count_people(ids)
        if people != counted:
            yield Disagreement(f"`people` is {people}, and the data has {counted}")
    kinds = (verdict.get("source") or {}).get("kinds") or {}
    for name, kind in (verdict.get("assumed") or {}).items():
        if kinds.get(name) != kind:
            yield Disagreement(f"`assumed` has another kind of {name} than `source`", is_false=True)
    for name in WITHOUT_PROOF:
        if verdict.get(name):
            yield Disagreement(f"`{name}`, which carries no proof")
    graded = [e for name in ("exposed", "features") for e in verdict.get(name, ()) if e.get("grade")]
    for grade, count in (verdict.get("grades") or {}).items():
        people_of = {repr(e["person"]) for e in graded if e["grade"] == grade}
        if count != len(people_of):
            yield Disagreement(f"`grades` counts {count} people as {grade!r}, and {len(people_of)} are listed so")
    if verdict.get("complete") is True and any(verdict.get(name) for name in ("unjudged", "refused", "contradictions")):
        yield Disagreement("`complete` is true, and not every statement was judged", is_false=True)


# --- findings that need the values of the data ------------------------------------------------------------------------


def _compare_assumed(verdict: Entry) -> Iterator[Disagreement]:
    """`by_assumption` counts the claims that are marked as assumed, by column and statements."""
    if "by_assumption" not in verdict:
        return
    people: dict[tuple[str, frozenset[str]], set[str]] = {}
    items: dict[tuple[str, frozenset[str]], list[Entry]] = {}
    whole = True  # does every claim that is meant carry its proof?
    for name in CLAIMED:
        for claim in verdict.get(name, ()):
            if claim.get("assumed") is not True or (name == "intervals" and claim.get("status") == "exposed"):
                continue  # an exposed value is counted where it is listed
            key = (claim["column"], _cited(claim["proof"]))
            whole = whole and (claim.get("certificate") or {"kind": "none"}).get("kind") != "none"
            person = claim.get("person") or claim.get("record")
            people.setdefault(key, set()).add(repr((person, claim.get("row"), claim.get("private"))))
            items.setdefault(key, []).extend(claim["proof"])
    said: Counter[tuple[str, frozenset[str]]] = Counter()
    for entry in verdict["by_assumption"]:
        key = (entry["column"], _cited(entry["proof"]))
        said[key] += entry["people"]
        known = [_without_side(item) for item in items.get(key, ())]
        items_said = [_without_side(item) for item in entry["proof"]]
        if any(item not in known or items_said.count(item) > 1 for item in items_said):
            yield Disagreement(f"`by_assumption` cites of {entry['column']} what no claim cites", is_false=whole)
    counted = {key: len(each) for key, each in people.items()}
    for column, cited in sorted({*said, *counted}, key=repr):
        one, two = said[column, cited], counted.get((column, cited), 0)
        if one != two:
            named = " and ".join(f"Q{number}" for number in sorted(cited)) or "no statement"
            why = f"`by_assumption` counts {one} people for {column} by {named}, and {two} are claimed"
            yield Disagreement(why, is_false=whole)


def _cited(proof: list[Entry]) -> frozenset[str]:
    asked = (str(item["query"]) for item in proof if "query" in item)
    facts = (f"fact {item['fact']}" for item in proof if "fact" in item and "bound" not in item)
    return frozenset((*asked, *facts))


def _without_side(item: Entry) -> Entry:
    return {name: value for name, value in item.items() if name != "side"}


# --- numbers and texts of statements ----------------------------------------------------------------------------------


def _compare_completions(verdict: Entry, log: Log | None) -> Iterator[Disagreement]:
    """`first` names a statement of the log; that it completed the proof is replayed with the claim."""
    for name in CLAIMED:
        for claim in verdict.get(name, ()):
            first = (claim.get("first") or {}).get("query")
            if first is None:
                continue
            if log is not None and str(first).partition(".")[0] not in log.by_number and not log.others:
                yield Disagreement(f"`first` of `{name}` names statement {first}, which is not in the log")


def _compare_texts(verdict: Entry, name: str, log: Log | None) -> Iterator[Disagreement]:
    for entry in verdict.get(name, ()):
        sql = entry.get("sql")
        if log is not None and sql and not log.stands(str(sql)):
            yield Disagreement(f"`{name}` has a statement {entry.get('query')} that does not stand in the log")


# --- rows handed out --------------------------------------------------------------------------------------------------


class Rows:
    """The statements that hand out rows, as a verdict lists them, run on the data."""

    def __init__(self, verdict: Entry, engine: Engine, log: Log | None, readings: Collection[tuple[str, ...]]) -> None:
        self._verdict, self._engine, self._log = verdict, engine, log
        source = verdict.get("source") or {}
        self._hidden = {str(name) for name in source.get("hidden") or ()}
        self._readings = [set(private) for private in readings] or [set()]
        self._is_duckdb = (source.get("dialect") or "duckdb") == "duckdb"

    def compare(self, entry: Entry) -> Iterator[Disagreement]:
        """Does a statement stand in the log, and show what is said of it?"""
        number, sql = entry["query"], entry["sql"]
        where = f"statement {number} of `rows`"
        if self._log is not None:
            if not self._log.stands(sql):
                yield Disagreement(f"{where} does not stand in the log", is_false=not self._is_nameless())
                return
            if not self._log.is_numbered(number, sql):
                yield Disagreement(f"{where} has another number in the log", is_false=not self._log.others)
        listed, records, single = entry["columns"], entry["records"], entry["singled_out"]
        if not listed and records is None and single is None:
            return  # nothing more is said of it
        if not self._is_duckdb or not self._engine.real:
            yield Disagreement(f"{where}: how many rows it shows")
            return
        try:
            names, shown = self._engine.run_on_data(sql)
        except Cannot as cannot:
            yield Disagreement(f"{where}: {cannot}")
            return
        if [MARKS.sub("", n).casefold() for n in dict.fromkeys(names)] != [MARKS.sub("", n).casefold() for n in listed]:
            yield Disagreement(f"{where} shows other columns than it is said to")
        if records is not None and records != len(shown):
            yield Disagreement(f"{where} shows {len(shown)} rows, and {records} are claimed")
        if single is not None and all(single != self._count_single(sql, names, shown, p) for p in self._readings):
            yield Disagreement(f"{where}: how many people its public columns point to is not {single} as it is claimed")

    def _is_nameless(self) -> bool:
        """Were names and constants taken out of the statements?"""
        return (self._verdict.get("source") or {}).get("table") == "the table"

    def _count_single(self, sql: str, names: list[str], shown: list[tuple[Any, ...]], private: set[str]) -> int:
        """How many of the rows have public cells that no other row has."""
        secret = {name.casefold() for name in (private | self._hidden)}
        known = {name.casefold() for name in self._engine.columns}
        at = [
            i
            for i, name in enumerate(names)  # else an expression, or a name that the statement gives
            if (name.casefold() not in secret if name.casefold() in known else self._engine.is_public_cell(sql, i))
        ]
        keys = Counter(repr([plain(row[i]) for i in at]) for row in shown)
        return sum(1 for count in keys.values() if count == 1)

    def left_out(self) -> Iterator[Disagreement]:
        """Statements that show a row for each record, by private values, and that no list of the verdict has."""
        if not self._is_duckdb or not self._engine.real or self._is_nameless():
            return
        asked = {} if self._log is None else {sql: number for number, sql in reversed(self._log.by_number.items())}
        for name in CLAIMED:
            for item in (item for claim in self._verdict.get(name, ()) for item in claim["proof"]):
                if isinstance(item.get("sql"), str):
                    asked.setdefault(item["sql"], str(item["query"]).partition(".")[0])
        lists = ("rows", "unjudged", "refused")
        told = {_normal(str(entry.get("sql"))) for name in lists for entry in self._verdict.get(name, ())}
        for sql, number in asked.items():
            if _normal(sql) not in told and not WINDOW.search(sql) and self._engine.hands_out_rows(sql):
                yield Disagreement(f"statement {number} hands out rows, and `rows` does not list it")


def _normal(sql: str) -> str:
    return " ".join(sql.split()).rstrip("; ")
