"""Ranges from a log to the verdict, against all tables of small worlds, and through the independent checker."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.effort import effort

import keyhole
from keyhole.auditing import Status
from keyhole.checker import Outcome, replay
from keyhole.config import Config
from keyhole.config.arguments import Detail
from keyhole.errors import ConfigError
from keyhole.report.documents.json_text import dumps
from keyhole.report.verdict import Verdict

HOSPITAL = {
    "Name": ["John Smith", "Jeremy Doe", "Susan Atkinson", "Eve Brown", "Joseph Sky", "Alison Moon"],
    "ZIP": [32453, 43813, 43765, 32187, 33745, 22983],
    "Gender": ["Male", "Male", "Female", "Female", "Male", "Female"],
    "Blood sugar": [4.3, 5.2, 6.1, 3.2, 7.1, 6.2],
}
LOG = [
    'SELECT SUM("Blood sugar") FROM people',
    "SELECT SUM(\"Blood sugar\") FROM people WHERE Gender = 'Female'",
    "SELECT SUM(\"Blood sugar\") FROM people WHERE ZIP > 32000 AND ZIP < 35000 AND Gender = 'Male'",
]
JOHN = "[[facts]]\nwhere = \"Name = 'John Smith'\"\nmax = 5\n"


def hospital(declared: str = "", facts: str = JOHN, log: list[Any] | None = None, **more: Any) -> Verdict:
    text = f'[source]\ndigits = 12\n[columns]\nid = ["Name"]\n[columns.private."Blood sugar"]\n{declared}\n{facts}'
    return keyhole.audit(log or LOG, data=pa.table(HOSPITAL), config=Config.parse(text), **more)


def ends(verdict: Verdict) -> dict[str, tuple[Any, Any]]:
    """Of everybody: the range in the JSON, by first name."""
    found = {}
    for i in verdict.to_json()["intervals"]:
        found[i["record"]["Name"].split()[0]] = (i["lo"], i["hi"])
    return found


# --- known answers ----------------------------------------------------------------------------------------------------


def test_hospital_with_one_known_bound() -> None:
    verdict = hospital()
    unbounded = (None, None)
    assert ends(verdict) == {
        "John": (None, 5),
        "Jeremy": (5.2, 5.2),
        "Susan": unbounded,
        "Eve": unbounded,
        "Joseph": (6.4, None),
        "Alison": unbounded,
    }
    assert (verdict.exit_code, verdict.complete) == (1, True)


def test_hospital_with_bounds_for_all() -> None:
    verdict = hospital("min = 3")
    women = dict.fromkeys(("Susan", "Eve", "Alison"), (3, 9.5))
    assert ends(verdict) == {"John": (3, 5), "Jeremy": (5.2, 5.2), "Joseph": (6.4, 8.4), **women}
    assert all(f.tight and f.proof is not None and f.proof.verify(verdict.evidence) for f in verdict.ranges)
    text = verdict.text(Detail(ranges=True))
    assert "Q3 = 11.4; John Smith is at least 3 (known); so Joseph Sky's Blood sugar is at most 8.4." in text
    assert "Q3 = 11.4; John Smith is at most 5 (fact 1); so Joseph Sky's Blood sugar is at least 6.4." in text
    assert "the other 2 people of Q2 are at least 3 each (known): 6" in text
    men = next(i for i in verdict.to_json()["intervals"] if i["record"]["Name"] == "Joseph Sky")
    assert [(p.get("query"), p.get("fact"), p.get("bound"), p["side"]) for p in men["proof"]] == [
        ("3", None, None, "lo"),
        (None, 1, "max", "lo"),
        ("3", None, None, "hi"),
        (None, None, "min", "hi"),
    ]
    women_proof = next(i for i in verdict.to_json()["intervals"] if i["record"]["Name"] == "Eve Brown")["proof"]
    assert {"bound": "min", "people": 2, "of": "2", "each": 3, "weight": "-1", "side": "hi"} in women_proof


def test_a_width_makes_a_range_inferred() -> None:
    log = LOG[1:]
    assert hospital("min = 3", log=log).exit_code == 0
    narrow = hospital("min = 3", log=log, within="2")
    assert [(f.who, f.status, f.lo, f.hi) for f in narrow.inferred] == [
        ("Joseph Sky", Status.INFERRED, Decimal("6.4"), Decimal("8.4"))
    ]
    assert narrow.exit_code == 1
    assert not hospital("min = 3", log=log, within="1.9").inferred
    assert [f.who for f in hospital("min = 3", log=log, within="24%").inferred] == ["Joseph Sky"]
    assert not hospital("min = 3", log=log, within="23%").inferred
    for wrong in ("x", "-1", "%", "nan"):
        with pytest.raises(ConfigError, match="within"):
            hospital(within=wrong)


def test_open_within_a_width_needs_two_tables_that_far_apart() -> None:
    """The women are each in [3, 9.5]: two tables 6.5 apart, so with a width of 7 they are inferred, not open."""
    log = [LOG[1]]
    assert hospital("min = 3", facts="", log=log, within="6.4").exit_code == 0
    assert len(hospital("min = 3", facts="", log=log, within="6.5").inferred) == 3


def test_one_value_of_the_grid_is_left() -> None:
    people = pa.table({"n": list("abc"), "x": [9, 10, 4]})
    log = ["SELECT SUM(x) FROM t WHERE n <> 'c'", "SELECT ROUND(SUM(x), -1) FROM t"]
    verdict = keyhole.audit(log[:1], data=people, private="x:0..10", id="n")
    assert {f.who: (f.lo, f.hi) for f in verdict.ranges} == {"a": (9, 10), "b": (9, 10)}
    assert verdict.exit_code == 0  # 9 and 10, or 10 and 9
    full = keyhole.audit([(log[0], 20)], data=people.drop(["x"]), private="x:0..10", id="n")
    assert {f.who: f.value for f in full.exposed} == {"a": 10, "b": 10}
    assert "is at least 10" in full.why(full.exposed[0])
    half = keyhole.audit([(log[0], Decimal("19.5"))], data=people.drop(["x"]), private="x:0..10:0.5", id="n")
    assert {f.who: (f.lo, f.hi) for f in half.ranges} == {"a": (9.5, 10), "b": (9.5, 10)}


def test_rounded_suppressed_and_threshold_answers_are_judged() -> None:
    people = pa.table({"n": list("abcd"), "g": ["p", "p", "q", "q"]})

    def audit(*log: Any) -> Verdict:
        return keyhole.audit(list(log), data=people, private="x:0..10", id="n")

    total, but_a = "SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE n <> 'a'"
    rounded = audit(("SELECT ROUND(SUM(x), 1) FROM t", 20), (but_a, 15))
    first = rounded.inferred[0]
    assert (first.who, str(first.lo)[:7], str(first.hi)[:7]) == ("a", "4.94999", "5.05000")  # outwards by DOUBLE dust
    assert not rounded.unjudged
    hidden = audit((total, {"suppressed": [1, 3]}))
    assert {(f.lo, round(f.hi or 0, 9)) for f in hidden.ranges} == {(0, 3)}
    above = audit(("SELECT SUM(x) > 35 FROM t", True))
    assert {(round(f.lo or 0, 9), f.hi) for f in above.ranges} == {(5, 10)}  # outwards by DOUBLE dust
    assert above.exit_code == 0
    all_of_it = audit(("SELECT SUM(x) > 39.999 FROM t", True))
    assert {(round(f.lo or 0, 9), f.hi) for f in all_of_it.ranges} == {(Decimal("9.999"), 10)}


def test_facts_about_totals_and_people_that_the_log_does_not_use() -> None:
    facts = "[[facts]]\nwhere = \"Gender = 'Male'\"\nsum_max = 16\n"
    verdict = hospital("min = 3", facts=facts, log=LOG[:1])
    assert {(f.lo, f.hi) for f in verdict.ranges if f.who in ("Susan Atkinson", "Eve Brown")} == {(3, Decimal("17.1"))}
    assert not verdict.findings


def test_whoever_was_known_beforehand_is_nobodys_finding() -> None:
    facts = "[[facts]]\nwhere = \"Name = 'John Smith'\"\nequals = 4.3\n"
    verdict = hospital("min = 3", facts=facts, log=LOG[1:2])
    assert verdict.exit_code == 0
    assert [f.who for f in hospital("min = 3", facts=facts, log=LOG[2:]).exposed] == ["Joseph Sky"]


def test_at_a_bound_everybody_is_exposed() -> None:
    people = pa.table({"n": list("abc"), "x": [0, 0, 7]})
    log = ["SELECT SUM(x) FROM t WHERE n < 'c'", "SELECT SUM(x) FROM t"]
    verdict = keyhole.audit(log, data=people, private="x:0..9", id="n")
    assert {f.who: f.value for f in verdict.exposed} == {"a": 0, "b": 0, "c": 7}
    assert verdict.exit_code == 1


def test_a_system_that_is_too_large_is_not_searched_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import keyhole.auditing.bounded

    monkeypatch.setattr(keyhole.auditing.bounded, "MOST_ENTRIES", 1)
    verdict = hospital("min = 3", facts="", log=LOG[1:])
    assert (verdict.ranges, verdict.exit_code) == ((), 0)  # everybody is open by exchange
    near = hospital("min = 3", facts="", log=LOG[1:], within="1%")
    assert not near.ranges
    assert (near.exit_code, "was not searched" in near.promise) == (3, True)


# --- contradictions ---------------------------------------------------------------------------------------------------


def test_a_conflict_names_what_it_needs_and_nothing_else() -> None:
    people = pa.table({"n": list("abcdef"), "g": list("ppqqrr")})
    log = [
        ("SELECT SUM(x) FROM t WHERE g = 'p'", 5),
        ("SELECT SUM(x) FROM t WHERE g = 'q'", 5),
        ("SELECT SUM(x) FROM t WHERE g = 'r'", 5),
        ("SELECT SUM(x) FROM t WHERE n IN ('a', 'c')", 11),
        ("SELECT SUM(x) FROM t WHERE n IN ('e', 'b')", 3),
    ]
    verdict = keyhole.audit(log, data=people, private="x:0..9", id="n")
    assert [c.queries for c in verdict.contradictions] == [("1", "2", "4")]
    assert verdict.contradictions[0].reason == "Q1, Q2, Q4 and the min of x, 0 cannot all be true: no table fits"
    assert not verdict.ranges
    assert verdict.exit_code == 3
    assert not keyhole.audit(log, data=people, private="x", id="n").contradictions


def test_facts_in_a_conflict_are_named() -> None:
    facts = (
        JOHN
        + "[[facts]]\nwhere = \"Name = 'Joseph Sky'\"\nmax = 6\n"
        + "[[facts]]\nwhere = \"Name = 'Eve Brown'\"\nmax = 99\n"
    )
    people = pa.table({k: v for k, v in HOSPITAL.items() if k != "Blood sugar"})
    config = Config.parse(f'[columns]\nid = ["Name"]\n[columns.private."Blood sugar"]\n{facts}')
    log = list(zip(LOG, [32.1, 15.5, 11.4], strict=True))
    verdict = keyhole.audit(log, data=people, config=config)
    assert [c.queries for c in verdict.contradictions] == [("3", "fact 1", "fact 2")]
    both = JOHN + '[[facts]]\nwhere = "ZIP = 32453"\nmin = 7\n'
    config = Config.parse(f'[columns]\nid = ["Name"]\n[columns.private."Blood sugar"]\n{both}')
    verdict = keyhole.audit(log, data=people, config=config)
    assert [c.queries for c in verdict.contradictions] == [("fact 1", "fact 2")]


# --- all tables of small worlds ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Small:
    """People with whole numbers from 0 to 4, a log with its answers, and all tables that give them."""

    data: Path
    log: list[Any]
    config: Config
    truth: tuple[int, ...]
    tables: list[tuple[int, ...]]


@dataclass(frozen=True)
class Asked:
    """A statement over some people; `kind` says how its sum is answered."""

    inside: tuple[int, ...]
    kind: str
    at: int

    @property
    def sql(self) -> str:
        where = f"n IN ({', '.join(repr(f'r{i}') for i in self.inside)})"
        return f"SELECT SUM(x){f' > {self.at}' if self.kind == 'threshold' else ''} FROM t WHERE {where}"

    def answer(self, table: tuple[int, ...]) -> Any:
        said = sum(table[i] for i in self.inside)
        return {"sum": said, "threshold": said > self.at, "interval": {"lo": said - 1, "hi": said + 1}}[self.kind]

    def allows(self, table: tuple[int, ...], truth: tuple[int, ...]) -> bool:
        said, told = sum(table[i] for i in self.inside), self.answer(truth)
        return bool(told["lo"] <= said <= told["hi"] if self.kind == "interval" else self.answer(table) == told)


def small(rng: random.Random, folder: Path) -> Small:
    n = rng.randrange(2, 6)
    truth = tuple(rng.choice((0, 0, 1, 2, 3, 4, 4)) for _ in range(n))
    data = folder / "t.csv"
    data.write_text("\n".join(["n,x", *(f"r{i},{x}" for i, x in enumerate(truth))]) + "\n", encoding="utf-8")
    asked = []
    for _ in range(rng.randrange(1, 4)):
        inside = tuple(i for i in range(n) if rng.random() < 0.6) or (0,)
        asked.append(Asked(inside, rng.choice(("sum", "sum", "sum", "threshold", "interval")), rng.randrange(1, 8)))
    facts, limits = "", [(0, 4)] * n
    if rng.random() < 0.4:
        i = rng.randrange(n)
        facts, limits[i] = f"[[facts]]\nwhere = \"n = 'r{i}'\"\nmax = {truth[i]}\n", (0, truth[i])
    every = product(*(range(lo, hi + 1) for lo, hi in limits))
    tables = [t for t in every if all(a.allows(t, truth) for a in asked)]
    config = Config.parse(f'[columns]\nid = ["n"]\n[columns.private.x]\nmin = 0\nmax = 4\n{facts}')
    return Small(data, [(a.sql, a.answer(truth)) for a in asked], config, truth, tables)


def check(seed: int, folder: Path, *, replayed: bool = True) -> tuple[int, int, int]:
    """One world; how many ranges, how many of them tight, and whether it was an all-clear."""
    world = small(random.Random(seed), folder)
    verdict = keyhole.audit(world.log, data=world.data, config=world.config)
    assert not verdict.contradictions, (seed, verdict.contradictions)
    columns = [sorted({t[i] for t in world.tables}) for i in range(len(world.truth))]
    for f in (*verdict.findings, *verdict.ranges):
        left = columns[f.row]
        assert f.lo is None or f.lo <= left[0], (seed, f)
        assert f.hi is None or f.hi >= left[-1], (seed, f)
        assert f.status is not Status.EXPOSED or [f.value] == left, (seed, f, left)
        assert f.proof is not None
        learned = any(b.learned is not None for side in f.proof.sides for b in side.bounds)  # by another rule
        by_rule = f.proof.rule or f.proof.rest is not None or f.proof.both is not None or learned
        assert by_rule or f.proof.verify(verdict.evidence), (seed, f)
        assert f.status is not Status.OPEN or not f.tight or (f.lo, f.hi) == (left[0], left[-1]), (seed, f, left)
    if verdict.complete:
        listed = {f.row for f in verdict.findings}
        known = {i for i, t in enumerate(world.truth) if t == 0 and f"'r{i}'" in str(world.config.facts)}
        assert all(len(left) > 1 for i, left in enumerate(columns) if i not in listed | known), (seed, columns)
    if not replayed:
        return len(verdict.ranges), sum(f.tight for f in verdict.ranges), verdict.complete
    done = replay(verdict.dumps(), world.data, bits=16)
    assert not done.of(Outcome.FAILS), (seed, [(c.claim.who, c.why) for c in done.of(Outcome.FAILS)])
    thresholds = any(">" in sql for sql, _ in world.log)
    assert thresholds or not done.of(Outcome.CANNOT), (seed, [(c.claim.who, c.why) for c in done.of(Outcome.CANNOT)])
    return len(verdict.ranges), sum(f.tight for f in verdict.ranges), verdict.complete


def test_ranges_against_all_tables(tmp_path: Path) -> None:
    found = [check(seed, tmp_path, replayed=seed % 3 == 0) for seed in range(effort(40))]
    assert sum(one for one, _, _ in found) > effort(25)
    assert sum(tight for _, tight, _ in found) > effort(15)
    assert sum(complete for _, _, complete in found) > effort(15)


@pytest.mark.soak
def test_ranges_against_all_tables_of_many_worlds(tmp_path: Path) -> None:
    for seed in range(10_000, 10_400):
        check(seed, tmp_path)


# --- planted false proofs ---------------------------------------------------------------------------------------------


def tampered(claim: dict[str, Any]) -> Iterator[str]:
    """Make a claim false, one way after the other."""
    lo, hi = claim["lo"], claim["hi"]
    if hi is not None:
        claim["hi"] = hi - Decimal("0.001")
        yield "an end rounded inward"
        claim["hi"] = hi
    if lo is not None:
        claim["lo"] = lo + Decimal("0.001")
        yield "the other end rounded inward"
        claim["lo"] = lo
    for item in claim["proof"]:
        before = item["weight"]
        item["weight"] = str(-Fraction(before))
        yield "a wrong sign"
        item["weight"] = before
        for name in ("each", "people"):
            if name in item:
                item[name] += 1
                yield f"another {name}"
                item[name] -= 1
    claim["proof"] = claim["proof"][:-1]
    yield "a step left out"


def test_planted_false_ranges_are_rejected(tmp_path: Path) -> None:
    data = tmp_path / "people.csv"
    lines = [",".join(HOSPITAL), *(",".join(map(str, row)) for row in zip(*HOSPITAL.values(), strict=True))]
    data.write_text("\n".join([*lines, ""]), encoding="utf-8")
    config = Config.parse(f'[columns]\nid = ["Name"]\n[columns.private."Blood sugar"]\nmin = 3\n{JOHN}')
    log = [*LOG, 'SELECT ROUND(AVG("Blood sugar"), 1) FROM people WHERE ZIP < 32500']
    verdict = json.loads(keyhole.audit(log, data=data, config=config).dumps(), parse_float=Decimal)
    assert replay(dumps(verdict), data, bits=16).exit_code == 0
    claims, planted = [i for i in verdict["intervals"] if i["certificate"]["kind"] == "range"], 0
    for claim in claims:
        only = {**verdict, "exposed": [], "intervals": [claim]}
        for what in tampered(claim):
            found = replay(dumps(only), data, bits=16)
            assert [c.outcome for c in found.checked] == [Outcome.FAILS], (what, claim["record"])
            planted += 1
    assert planted > 20


def test_a_table_sold_as_a_bound_is_rejected(tmp_path: Path) -> None:
    """The true value is claimed as both ends: a table shows that it is possible, and proves nothing."""
    data = tmp_path / "t.csv"
    data.write_text("n,x\na,2\nb,3\n", encoding="utf-8")
    verdict = json.loads(keyhole.audit(["SELECT SUM(x) FROM t"], data=data, private="x:0..4", id="n").dumps())
    claim = verdict["intervals"][0]
    claim["lo"] = claim["hi"] = 2
    assert [str(c.outcome) for c in replay(json.dumps(verdict), data).checked] == ["fails", "holds"]


def test_the_limit_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped at once, propagation is kept, and what was not searched is no all-clear."""
    from keyhole.solve.interval.simplex import Simplex

    def stop(self: Simplex) -> None:
        raise KeyboardInterrupt

    people = pa.table({"n": list("abc"), "x": [2.0, 5.0, 4.0]})  # on a grid all tables would be looked at
    log = ["SELECT SUM(x) FROM t WHERE n < 'c'", "SELECT SUM(x) FROM t WHERE n > 'a'"]
    whole = keyhole.audit(log, data=people, private="x:0..9000000", id="n")  # too many tables to look at
    assert whole.exit_code == 0
    monkeypatch.setattr(Simplex, "infeasible", stop)
    verdict = keyhole.audit(log, data=people, private="x:0..9000000", id="n")
    assert verdict.exit_code == 3
    assert "interrupted before all was searched" in verdict.promise
    assert [(f.who, f.lo, f.hi) for f in verdict.ranges] == [(f.who, f.lo, f.hi) for f in whole.ranges]
    assert not any(f.tight for f in verdict.ranges)
