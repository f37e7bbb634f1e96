"""A time limit is for the whole audit: what was not read is not judged, and what is proved stays."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa
import pytest

import keyhole
from keyhole.api.advice import advise
from keyhole.auditing import rules as audit_rules
from keyhole.auditing.clock import NOT_READ, Deadline, interrupted, read_in_time
from keyhole.auditing.examine import NO_TIME, examine, rules_for
from keyhole.auditing.known import Rule
from keyhole.auditing.promise import TIME_GAP
from keyhole.auditing.rules import RULES, linear, quick_rules
from keyhole.errors import STOPPED_BY_ENGINE, ConfigError, LogError, engine_interruptions
from keyhole.model.transcript import Line, Refusal, Transcript
from keyhole.report.verdict import Verdict

STAFF = {"name": list("abcdef"), "team": list("xxyyzz"), "pay": [2.5, 3.5, 4.5, 1.5, 7.0, 8.0]}
LOG = [
    "SELECT SUM(pay) FROM t",
    "SELECT SUM(pay) FROM t WHERE name <> 'd'",
    *(f"SELECT SUM(pay) FROM t WHERE name > '{n}'" for n in "abcde" * 5),
]
NOISY = "SELECT SUM(pay) FROM nowhere WHERE"


def late(seconds: float) -> Any:
    """A rule that takes a while."""

    def rule(*_: Any) -> Sequence[Any]:
        time.sleep(seconds)
        return ()

    return rule


def test_a_deadline_rings_once_and_only_where_it_was_set() -> None:
    clock = Deadline(0.02)
    with pytest.raises(KeyboardInterrupt), clock.ringing(), clock.ringing():
        time.sleep(5)
    assert clock.rang
    assert clock.passed
    time.sleep(0.03)  # no bell is left
    never = Deadline(None)
    with never.ringing():
        never.check()
    assert (never.left(7), never.rang) == (7, False)


def test_in_a_thread_it_is_looked_at_and_does_not_ring() -> None:
    found: list[Any] = []

    def work() -> None:
        clock = Deadline(0.01)
        with clock.ringing():
            time.sleep(0.03)
        try:
            clock.check()
        except KeyboardInterrupt:
            found.append(clock.rang)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [True]


def test_what_is_not_read_in_time_is_not_judged() -> None:
    lines = [Line(n, f"SELECT {n}") for n in range(1, 101)]

    def slowly(part: Sequence[Line]) -> Transcript:
        time.sleep(0.002 * len(part))
        return Transcript(refused=tuple(Refusal(str(line.number), line.sql, "read") for line in part))

    found = read_in_time(lines, slowly, Deadline(0.2))
    read = [int(r.number) for r in found.refused]
    assert read == list(range(1, len(read) + 1))  # in their order
    assert 16 <= len(read) < 100
    assert [(u.number, u.error) for u in found.unjudged] == [(str(n), NOT_READ) for n in range(len(read) + 1, 101)]
    whole = read_in_time(lines, slowly, Deadline(None))
    assert (len(whole.refused), whole.unjudged) == (100, ())


def test_parts_read_one_after_the_other_are_the_log() -> None:
    kept = [
        examine([*LOG, NOISY], data=pa.table(STAFF), id="name", private="pay:0..9", time_limit=t) for t in (None, 60)
    ]
    one, other = ([(e.number, e.sql, str(e.query), e.answer) for e in k.evidence.transcript.entries] for k in kept)
    assert one == other
    assert [k.exit_code for k in kept] == [1, 1]
    assert len(kept[0].refused) == len(kept[1].refused) == 1


def test_the_clock_keeps_what_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = (linear, late(30), *RULES)
    monkeypatch.setattr(import_module("keyhole.auditing.examine"), "rules_for", lambda *_: rules)
    began = time.monotonic()
    verdict = keyhole.audit([*LOG[:2], NOISY], data=pa.table(STAFF), id="name", private="pay:0..9", time_limit=3)
    assert time.monotonic() - began < 25
    assert {f.who for f in verdict} == {"d"}
    assert TIME_GAP in verdict.promise
    assert TIME_GAP[1:] in verdict.text()
    assert verdict.exit_code == 1


@pytest.mark.parametrize("late_rule", [True, False])
def test_nothing_judged_in_time_is_no_all_clear(monkeypatch: pytest.MonkeyPatch, late_rule: bool) -> None:
    module, asked = import_module("keyhole.auditing.examine"), [{"sql": sql, "analyst": "ann"} for sql in LOG[:2]]
    if late_rule:
        monkeypatch.setattr(module, "rules_for", lambda *_: (late(30), *RULES))
    else:
        monkeypatch.setattr(module, "gather", _ringing_at_first(module.gather))
    verdict = keyhole.audit(asked, data=pa.table(STAFF), id="name", private="pay:0..9", time_limit=1, by="analyst")
    assert (verdict.exit_code, list(verdict)) == (3, [])
    assert {u.reason for u in verdict.exposure.unjudged} == {NOT_READ}
    headline = verdict.text().splitlines()[0]
    assert headline == (
        f"Nothing was judged: {TIME_GAP}, so this is not an all-clear; 2 of 2 statements were not judged."
    )


def _ringing_at_first(gather: Any) -> Any:
    """A step of an engine that turns the bell into an error of its own."""
    calls: list[int] = []

    def called(*given: Any, **named: Any) -> Any:
        if not calls:
            calls.append(1)
            try:
                time.sleep(30)
            except KeyboardInterrupt:
                raise RuntimeError("something else") from None
        return gather(*given, **named)

    return called


def test_no_time_even_to_open_the_table() -> None:
    clock = Deadline(1e-9)
    with pytest.raises(ConfigError, match=NO_TIME[:30]):
        examine(LOG, data=pa.table(STAFF), id="name", private="pay", time_limit=clock)


def test_an_audit_without_a_withheld_statement_that_is_cut_short_is_no_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    from keyhole.logs.open import as_log

    given: dict[str, Any] = {"data": pa.table(STAFF), "id": "name", "private": "pay:0..9"}
    log = as_log(LOG[:2], None)
    verdict = keyhole.audit(log, **given)
    stopped = keyhole.audit(log, **given, time_limit=60)
    ended = stopped.exposure.__class__(stopped.exposure.evidence, stopped.exposure.roster, (), missed=(TIME_GAP,))
    assert interrupted(ended)
    found = advise(log, verdict, lambda _: Verdict.of(ended))
    assert (found.remedy.stopped, found.verified, found.after) == (True, False, None)


def test_an_engine_that_is_stopped_stops_us() -> None:
    """DuckDB turns Ctrl-C into a RuntimeError: it must not be taken for a statement that the engine refuses."""
    with pytest.raises(KeyboardInterrupt), engine_interruptions():
        raise RuntimeError(*STOPPED_BY_ENGINE)
    with pytest.raises(RuntimeError, match="else"), engine_interruptions():
        raise RuntimeError("something else")


def test_the_command_line_names_the_limit(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from keyhole.cli.audit import _read_in_time

    clock = Deadline(0.01)

    def reading() -> Any:
        time.sleep(5)

    with pytest.raises(LogError, match="--time-limit"):
        _read_in_time(clock, reading)


@pytest.mark.parametrize("time_limit", [None, 3.0, Deadline(3.0)])
@pytest.mark.parametrize("group_size", [1, 2])
def test_options_replace_a_rule_by_its_name_and_lose_none(
    monkeypatch: pytest.MonkeyPatch, group_size: int, time_limit: float | Deadline | None
) -> None:
    def one_more(*_: object) -> list[object]:
        return []

    places = {"keyhole.auditing.examine": "keyhole.auditing.rules.interval"}  # where its clock is looked at

    def modules(rules: Iterable[Rule]) -> list[str]:
        return [places.get(rule.__module__, rule.__module__) for rule in rules]

    usual = modules(RULES)
    assert (len(usual), usual.count("keyhole.auditing.rules.linear"), len(set(usual))) == (10, 3, 8)
    assert usual[-4] == "keyhole.auditing.exchange.records"  # no width counts there
    monkeypatch.setattr(audit_rules, "quick_rules", lambda within=None: (*quick_rules(within), one_more))
    wanted = [*usual[:-4], __name__, *usual[-3:], *(["keyhole.auditing.rules.groups"] if group_size > 1 else [])]
    assert modules(rules_for(group_size, "5%", time_limit)) == wanted
