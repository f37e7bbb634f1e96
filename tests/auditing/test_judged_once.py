"""A system is judged once for each set of answers about its columns, however often the log is judged."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa
import pytest

from keyhole.auditing.examine import examine
from keyhole.auditing.known import Claim, Known
from keyhole.auditing.rules import RULES
from keyhole.gather.evidence import System
from keyhole.model.transcript import Transcript

STAFF = pa.table(
    {
        "name": list("abcdefgh"),
        "dept": list("xxyyzzzz"),
        "pay": [51, 64, 70, 80, 33, 90, 45, 47],
        "kids": [0, 1, 2, 0, 1, 3, 0, 1],
        "sick": [1, 0, 4, 2, 2, 5, 1, 7],
    }
)
LOG = [
    "SELECT dept, SUM(pay) FROM t GROUP BY dept ORDER BY 2 DESC LIMIT 1",
    "SELECT SUM(pay) FROM t WHERE name <> 'a'",
    "SELECT SUM(pay) FROM t",
    "SELECT dept, SUM(kids) FROM t GROUP BY dept",
    "SELECT dept, AVG(sick), MAX(sick) FROM t GROUP BY dept",
]


def test_what_may_not_have_been_shown_is_about_one_column(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: dict[tuple[str, ...], list[System]] = {}

    def counting(system: System, known: Known) -> Iterator[Claim]:
        if all(each is not system for each in judged.setdefault(system.columns, [])):
            judged[system.columns].append(system)
        yield from ()

    monkeypatch.setattr(import_module("keyhole.auditing.examine"), "rules_for", lambda *_: (counting, *RULES))
    monkeypatch.setattr(import_module("keyhole.auditing.examine"), "with_firsts", lambda found, *_: found)
    private = ["pay:0..99:1", "kids:0..9:1", "sick:0..9:1"]
    found = examine(LOG, data=STAFF, id="name", private=private)
    assert {(f.who, f.column) for f in found.exposed if not f.if_shown} >= {("a", "pay")}
    assert {names: len(systems) for names, systems in judged.items()} == {("kids",): 1, ("pay",): 2, ("sick",): 1}
    alone = examine([q for q in LOG if "pay" not in q], data=STAFF, id="name", private=private)
    assert [str(f) for f in found.findings if f.column != "pay"] == [str(f) for f in alone.findings]


def test_the_statement_that_completed_a_finding_is_looked_for_among_those_about_its_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, asked = import_module("keyhole.auditing.examine"), list[frozenset[str]]()
    gather = module.gather

    def counted(transcript: Transcript, *more: Any, **options: Any) -> Any:
        asked.append(frozenset(name for e in transcript.entries for name in e.query.named_columns & {"pay", "kids"}))
        return gather(transcript, *more, **options)

    monkeypatch.setattr(module, "gather", counted)
    log = [
        "SELECT SUM(kids) FROM t",
        "SELECT SUM(kids) FROM t WHERE dept = 'x'",
        "SELECT MAX(pay) FROM t",
        "SELECT MAX(pay) FROM t WHERE name <> 'f'",
        "SELECT SUM(kids) FROM t WHERE dept = 'z'",
    ]
    found = examine(log, data=STAFF, id="name", private=["pay:0..99:1", "kids:0..9:1"])
    assert [(f.who, f.value) for f in found.exposed] == [("f", 90)]
    assert [first.statement for first in found.firsts.values()] == [4]
    assert asked[0] == {"pay", "kids"}
    assert set(asked[1:]) == {frozenset({"pay"})}
