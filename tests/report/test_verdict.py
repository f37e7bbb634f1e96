"""The verdict as Python meets it: text, JSON with all digits, notebook, frame; and what making it costs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from benchmarks import report as bench
from rich.console import Console

import keyhole
from keyhole.auditing.base import Exposure, Index
from keyhole.auditing.examine import examine
from keyhole.gather.evidence import Evidence
from keyhole.model.transcript import Transcript
from keyhole.report.documents.json_text import dumps, json_number
from keyhole.report.exposure import describe_exposure
from keyhole.report.verdict import Verdict

WARD = pa.table({"name": ["a", "b", "c"], "g": ["F", "M", "M"], "ssn": [7, 8, 9], "x": [1, 2, 3]})


def ward(*log: object, private: str = "x", **more: Any) -> Verdict:
    return keyhole.audit(list(log), data=WARD, private=private, id="name", **more)  # type: ignore[arg-type]


SUM = "SELECT SUM(x) FROM t"
MEN = "SELECT SUM(x) FROM t WHERE g = 'M'"


# --- cost ------------------------------------------------------------------------------------------------------------


class Visited(tuple[Any, ...]):
    """A tuple that counts how often its members are visited."""

    visits = 0

    def __iter__(self) -> Any:
        for item in super().__iter__():
            Visited.visits += 1
            yield item


class Looked(dict[str, Any]):
    """A dictionary that counts how often it is asked."""

    asked = 0

    def __getitem__(self, key: str) -> Any:
        Looked.asked += 1
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        Looked.asked += 1
        return super().get(key, default)


def spied(exposure: Exposure) -> Exposure:
    """The same exposure on rows and entries that count."""
    evidence = exposure.evidence
    systems = tuple(replace(s, constraints=Visited(s.constraints)) for s in evidence.systems)
    transcript = Transcript(Visited(evidence.transcript.entries), evidence.transcript.refused)
    return replace(exposure, evidence=replace(evidence, systems=systems, transcript=transcript))


def test_a_verdict_is_said_in_one_pass_over_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and entries are visited a fixed number of times, proofs cost their length: linear, whatever is exposed."""
    made = Index.of

    def counting(evidence: Evidence) -> Index:
        index = made(evidence)
        rows: tuple[Mapping[str, Any], ...] = tuple(Looked(part) for part in index.constraints)
        return Index(rows, Looked(index.entries))

    monkeypatch.setattr(Index, "of", counting)
    for n in (60, 240):
        found = examine(bench.log(n), data=bench.people(n), private=["pay"], id="name")
        assert len(found.exposed) == n
        steps = sum(len(f.proof.weights) for f in found if f.proof is not None)
        Visited.visits = Looked.asked = 0
        verdict = Verdict.of(spied(found))
        verdict.to_json()
        verdict.text()
        verdict.to_frame()
        verdict._repr_html_()
        assert n <= Visited.visits <= 8 * n  # n rows and n entries; a scan for each proof would be n * n
        assert Looked.asked <= 3 * steps  # a step is looked up for its answer, its noise and its words


# --- numbers ---------------------------------------------------------------------------------------------------------

LONG = "12345678901234567890.12345678901234567890"


def test_values_keep_all_their_digits() -> None:
    exact = pa.array([Decimal("12345678.1234567891"), Decimal("0.0000000001")], pa.decimal128(18, 10))
    people = pa.table({"name": ["a", "b"], "g": [1, 2], "x": exact, "y": [2**60 + 1, 3]})
    log = ["SELECT SUM(x) FROM t WHERE g = 1", "SELECT SUM(y) FROM t WHERE g = 1"]
    raw = keyhole.audit(log, data=people, private=["x", "y"], id="name").dumps()
    assert '"value": 12345678.1234567891,' in raw
    assert f'"value": {2**60 + 1},' in raw
    again = json.loads(raw, parse_float=Decimal)
    assert [item["value"] for item in again["exposed"]] == [Decimal("12345678.1234567891"), 2**60 + 1]
    assert [item["lo"] for item in again["intervals"]][:2] == [Decimal("12345678.1234567891"), 2**60 + 1]


def test_answers_are_written_as_they_were_given() -> None:
    roster = pa.table({"name": ["a", "b"], "g": [1, 2]})
    log = [(f"{SUM} WHERE g = 1", Decimal(LONG)), (f"{SUM} WHERE g = 2", 2**90 + 1)]
    raw = keyhole.audit(log, data=roster, private="x", id="name").dumps()
    assert f'"answer": {LONG}' in raw
    assert f'"answer": {2**90 + 1}' in raw


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("5.2"), "5.2"),
        (Decimal("70"), "70"),
        (Decimal("7E+3"), "7000"),
        (Decimal("0.1000000000000000055511151231257827"), "0.1000000000000000055511151231257827"),
        (Decimal("1E-30"), "1e-30"),
        (Decimal("1.5E+1000"), "1.5E+1000"),
        (Decimal("1000000000000000000000000000000.5"), "1000000000000000000000000000000.5"),
        (Decimal("NaN"), "null"),
        (float("inf"), "null"),
        (True, "true"),
        (2**200, str(2**200)),
    ],
)
def test_a_number_in_json(value: Any, text: str) -> None:
    assert dumps(json_number(value)) == text
    if text not in ("null", "true"):
        assert json.loads(text, parse_float=Decimal) == value


@pytest.mark.parametrize(
    "data",
    [{}, [], [[]], {"a": []}, {"a": {"b": [1, 2.5, None, True, 'ü\n"\\\x00']}, "": -0.0}, "x", [1, [2, [3]]], 1e300],
)
def test_the_writer_writes_what_the_standard_one_writes(data: Any) -> None:
    assert dumps(data) == json.dumps(data, ensure_ascii=False, indent=2)


def test_to_json_is_plain_where_no_digit_is_lost() -> None:
    verdict = ward(SUM, MEN)
    assert json.loads(json.dumps(verdict.to_json())) == json.loads(verdict.dumps())


# --- fields ----------------------------------------------------------------------------------------------------------


def test_statements_are_counted_as_written() -> None:
    hidden = "MAX(x) FILTER (WHERE x > 0)"
    log = [SUM, SUM, f"SELECT g, SUM(x), {hidden} FROM t GROUP BY g", f"SELECT {hidden} FROM t", "SELECT FROM"]
    data = ward(*log).to_json()
    counts = {"total": 5, "judged": 2, "unjudged": 2, "refused": 1, "distinct": 4, "noisy": 0, "failed": 0}
    counts["ignored"] = 0
    assert data["statements"] == counts
    assert (data["people"], data["records"]) == (3, 3)


@pytest.mark.parametrize(
    ("log", "private", "complete"),
    [
        ([SUM], "x", True),
        ([SUM, MEN], "x", True),
        (["SELECT AVG(x), COUNT(*) FROM t"], "x", True),
        ([SUM], "x:0..9", True),
        ([SUM], "x:..:1", True),  # two people exchanged
        ([SUM, "SELECT MAX(x) FROM t"], "x", True),
        ([SUM, "SELECT MEDIAN(x) FROM t"], "x", True),
        ([SUM, "SELECT FROM"], "x", False),
        (["SELECT COUNT(*) FROM t WHERE x > 1"], "x", True),
        (["SELECT SUM(x*x) FROM t"], "x", True),
        ([(SUM, 6), (SUM, 7)], "x", False),
        ([], "x", False),
    ],
)
def test_complete_means_that_everybody_else_is_shown_to_be_open(log: list[Any], private: str, complete: bool) -> None:
    verdict = ward(*log, private=private)
    assert verdict.complete is complete
    assert verdict.to_json()["complete"] is complete


def test_a_fact_about_somebody_is_known_beforehand(tmp_path: Path) -> None:
    config = tmp_path / "keyhole.toml"
    config.write_text('[source]\nversion = "v7"\n[[facts]]\nwhere = "name = \'a\'"\nmax = 5\n', encoding="utf-8")
    verdict = ward(SUM, config=config, hidden="ssn")
    assert verdict.complete  # everybody is still shown to be open
    assert [(f.who, f.hi, f.status) for f in verdict.ranges if f.who == "a"] == [("a", 5, "open")]
    assert verdict.to_json()["source"] == {
        "table": verdict.exposure.roster.schema.table,
        "id": ["name"],
        "private": ["x"],
        "hidden": ["ssn"],
        "dialect": "duckdb",
        "version": "v7",
        "kinds": {"name": "text", "g": "text", "ssn": "integer", "x": "integer"},
    }


def test_proof_items_carry_the_answer() -> None:
    roster = WARD.drop_columns(["x"])
    log = [(SUM, 6), (MEN, 5.0), ("SELECT SUM(x) FROM t WHERE g = 'X'", None)]
    verdict = keyhole.audit(log, data=roster, private="x", id="name")
    (item,) = verdict.to_json()["exposed"]
    assert [(p["query"], p["weight"], p["answer"]) for p in item["proof"]] == [("1", "1", 6), ("2", "-1", 5)]


# --- forms -----------------------------------------------------------------------------------------------------------


def test_text_is_what_the_console_prints() -> None:
    verdict = ward(SUM, MEN, "SELECT MAX(x) FROM t", "SELECT SUM(y) FROM t", group_size=2)
    console = Console(width=2_000, highlight=False, soft_wrap=True, record=True, file=StringIO())
    console.print(verdict)
    printed = [line.rstrip() for line in console.export_text().rstrip().splitlines()]
    assert verdict.text().splitlines() == printed
    assert verdict.text().splitlines()[0].startswith("1 of 3 people is exposed by 4 statements; ")


def test_why_has_formula_and_arithmetic() -> None:
    verdict = ward(SUM, MEN, group_size=2)
    assert verdict.why(verdict.exposed[0]) == "Q1 - Q2 = a's x = 1\n6 - 5 = 1"
    assert verdict.why(verdict.groups[0]) == "Q2 = total x of 2 people = 5\n5 = 5"


def test_a_notebook_shows_why_and_what_was_not_judged() -> None:
    people = pa.table({"name": ["<b>", "c"], "g": [1, 2], "x": [1, 2]})
    log = ["SELECT SUM(x) FROM t WHERE g = 1", "SELECT MAX(x) FROM t WHERE x > 0", "SELECT SUM(y) FROM t WHERE g < 3"]
    shown = keyhole.audit(log, data=people, private="x", id="name")._repr_html_()
    for part in (
        "Why:",
        "Q1 = &lt;b&gt;",
        "1 = 1",
        "→ 1",
        "Not judged: Q2 (MAX",
        "Refused: Q3",
        "What to do:",
        "Proved:",
    ):
        assert part in shown, part
    assert "<b>&#x27;s" not in shown
    assert "g &lt; 3" in shown


def test_a_verdict_offers_what_an_exposure_has() -> None:
    verdict = ward(SUM, MEN)
    exposure = verdict.exposure
    assert [*verdict] == [*exposure]
    assert len(verdict) == 1
    for name in ("exposed", "inferred", "refused", "unjudged", "contradictions", "groups", "exit_code", "rank",
                 "promise", "records", "queries", "atoms", "findings", "evidence", "complete"):  # fmt: skip
        assert getattr(verdict, name) == getattr(exposure, name), name
    assert repr(verdict) == "<Verdict: 1 exposed, 0 inferred of 3 people, 2 statements>"
    assert describe_exposure(exposure).exposed[0].argument == verdict.plain.exposed[0].argument


def test_one_name_or_several() -> None:
    assert ward(SUM, private="x").text() == keyhole.audit([SUM], data=WARD, private=["x"], id=["name"]).text()


def test_the_page_on_formats_names_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    section = page.split("## `keyhole audit --format json`")[1].split("\n## ")[0]
    table, prose = section.split("\n\n", 2)[1:]
    listed = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    log = [SUM, MEN, "SELECT MAX(x) FROM t WHERE x > 0", "SELECT FROM"]
    log.append("SELECT COUNT(*) FROM t WHERE x > 1 AND g = 'M'")
    data = ward(*log, group_size=2).to_json()
    assert listed == set(data)
    rows = {re.findall(r"`(\w+)`", row)[0]: row for row in table.splitlines()[2:]}
    for name in ("exposed", "groups", "intervals", "unjudged", "refused"):
        assert data[name], name
        for item in data[name]:
            assert {field for field in item if f"`{field}`" not in rows[name]} == set(), name
    for name in ("statements", "source"):
        assert {field for field in data[name] if f"`{field}`" not in rows[name]} == set(), name
    for item in data["exposed"][0]["proof"]:
        assert {field for field in item if f'"{field}"' not in prose and f"`{field}`" not in prose} == set()
