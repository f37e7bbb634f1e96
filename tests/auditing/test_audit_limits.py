"""A time limit, Ctrl-C and too many tables: what is proved stays, and nobody is called open who is not shown to be."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

import keyhole
from keyhole.auditing import Judge
from keyhole.auditing.examine import examine
from keyhole.auditing.known import Claim, Known
from keyhole.auditing.promise import INTERRUPTED_GAP
from keyhole.auditing.rules import RULES, linear
from keyhole.checker import replay
from keyhole.config.arguments import Detail
from keyhole.encode import states
from keyhole.gather.evidence import System
from keyhole.report.documents.json_text import dumps

STAFF = {"name": list("abcd"), "team": ["x", "x", "y", "y"], "pay": [2.5, 3.5, 4.5, 1.5]}
LOG = ["SELECT SUM(pay) FROM t", "SELECT SUM(pay) FROM t WHERE team = 'x'", "SELECT SUM(pay) FROM t WHERE name <> 'd'"]
FOUND = {"c", "d"}  # by equations alone


def interrupted(system: System, known: Known) -> Iterator[Claim]:
    """A rule in the middle of which somebody presses Ctrl-C."""
    raise KeyboardInterrupt
    yield


def test_what_was_proved_before_an_interruption_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("keyhole.auditing.examine"), "rules_for", lambda *_: (linear, interrupted))
    found = examine(LOG, data=pa.table(STAFF), id="name", private="pay:0..9")
    assert {f.who for f in found.exposed} == FOUND
    assert found.promise.endswith(INTERRUPTED_GAP)
    assert found.exit_code == 1
    assert found.limited == {(0, "pay"), (1, "pay")}
    assert examine(LOG[:2], data=pa.table(STAFF), id="name", private="pay:0..9").exit_code == 3


def test_an_interruption_before_anything_was_proved_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("keyhole.auditing.examine"), "rules_for", lambda *_: (interrupted, *RULES))
    with pytest.raises(KeyboardInterrupt):
        examine(LOG, data=pa.table(STAFF), id="name", private="pay:0..9")


def test_an_interrupted_look_for_the_first_statement_keeps_the_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("keyhole.auditing.first._firsts", stop)
    found = examine(LOG, data=pa.table(STAFF), id="name", private="pay")
    assert {f.who for f in found.exposed} == FOUND
    assert not found.firsts


def test_a_time_limit_is_a_status_and_the_range_is_still_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "t.csv"
    pyarrow.csv.write_csv(pa.table(STAFF), data)
    log = [("SELECT SUM(pay) FROM t WHERE name < 'c'", 6.0), ("SELECT SUM(pay) FROM t WHERE name > 'a'", 9.5)]
    with monkeypatch.context() as brief:
        brief.setattr(import_module("keyhole.auditing.examine"), "SECONDS", 1e-9)
        verdict = keyhole.audit(log, data=data, id="name", private="pay:0..5")
    said = verdict.to_json()
    ranges = {i["record"]["name"]: (i["lo"], i["hi"], i["status"]) for i in said["intervals"]}
    assert ranges == {
        "a": (1, 5, "limit"),
        "b": (1, 5, "limit"),
        "c": (0, 5, "open"),
        "d": (0, 5, "open"),
    }  # two of one atom
    assert "(the time limit was reached)" in verdict.text()
    assert verdict.text(Detail(ranges=True)).count("(it may be narrower still; a limit ended the search)") == 2
    assert "time limit was reached" in said["promise"]
    assert verdict.exit_code == 3
    assert {str(c.outcome) for c in replay(dumps(said), data).checked} == {"holds"}
    later = keyhole.audit(log, data=data, id="name", private="pay:0..5").to_json()
    assert {(i["status"], i.get("tight", True)) for i in later["intervals"]} == {("open", True)}


def test_too_many_tables_are_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is alone in a class, so nobody is shown open by an exchange."""
    ills = {"name": list("abcde"), "ill": ["flu", "cold", "flu", "cold", "flu"]}
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("e", "e")]
    log = [f"SELECT COUNT(*) FROM t WHERE ill = 'flu' AND name IN {pair}" for pair in pairs]
    open_to = keyhole.audit(log, data=pa.table(ills), id="name", private="ill=flu,cold").to_json()
    assert {i["status"] for i in open_to["intervals"]} == {"exposed", "open"}
    monkeypatch.setattr(states, "RECORDS", 1)
    limited = keyhole.audit(log, data=pa.table(ills), id="name", private="ill=flu,cold").to_json()
    assert {i["status"] for i in limited["intervals"]} == {"exposed", "limit"}


def test_a_judge_without_systems_is_finished_at_once() -> None:
    found = examine(["SELECT COUNT(*) FROM t"], data=pa.table(STAFF), id="name", private="pay")
    assert Judge().examine(found.evidence, found.roster).exit_code == 0
