"""What the check of readings costs, in runs and rows: counted, never timed."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest

from keyhole.config import Columns
from keyhole.datasets import AsWritten, Filling, Roster, load_roster
from keyhole.engines.duckdb.probe import DuckDBProbe
from keyhole.reading import Validator
from keyhole.reading.trial import find_head
from keyhole.sql import lower_statement


@pytest.fixture(scope="module")
def roster() -> Roster:
    rows = duckdb.sql("SELECT i AS id, i % 7 AS dept, 20 + i % 50 AS age, 1000 + i AS pay FROM range(2000) AS t(i)")
    return load_roster(rows.arrow().read_all(), Columns.checked({"id": ["id"], "private": {"pay": {}}}))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, AsWritten]]:
    """(filling, text) of every run of a statement."""
    found: list[tuple[str, AsWritten]] = []
    now = ["none"]
    fill, run = DuckDBProbe.fill, DuckDBProbe.run

    def filled(self: DuckDBProbe, filling: Filling, *rest: object) -> object:
        now[0] = filling.name
        return fill(self, filling, *rest)  # type: ignore[arg-type]

    def ran(self: DuckDBProbe, texts: list[AsWritten]) -> object:
        found.extend((now[0], text) for text in texts)
        return run(self, texts)

    monkeypatch.setattr(DuckDBProbe, "fill", filled)
    monkeypatch.setattr(DuckDBProbe, "run", ran)
    return found


def test_texts_of_one_head_are_run_twice_each_and_once_together_over_nobody(
    roster: Roster, runs: list[tuple[str, AsWritten]]
) -> None:
    texts = [f"SELECT SUM(pay) FROM t WHERE age > {i}" for i in range(60)]
    assert Validator(roster).reasons([lower_statement(text, roster.schema) for text in texts]) == [""] * 60
    assert Counter(filling for filling, _ in runs) == {"FIRST": 60, "SECOND": 60, "NOBODY": 1}


def test_what_can_be_partly_over_nobody_is_run_on_a_few_rows(roster: Roster, runs: list[tuple[str, AsWritten]]) -> None:
    text = "SELECT dept, SUM(pay) FROM t GROUP BY dept"
    assert Validator(roster).reasons([lower_statement(text, roster.schema)] * 3) == [""] * 3
    assert Counter(filling for filling, _ in runs) == {"FIRST": 1, "SECOND": 1, "FEW": 1}


def test_a_known_text_is_not_run_again(roster: Roster, runs: list[tuple[str, AsWritten]]) -> None:
    validator, statement = Validator(roster), lower_statement("SELECT AVG(pay) FROM t WHERE age < 30", roster.schema)
    validator.reasons([statement])
    before = len(runs)
    assert (validator.reasons([statement]), len(runs)) == ([""], before)


def test_the_made_up_table_stays_small(roster: Roster) -> None:
    probe = roster.probe()
    assert probe.place([]) <= 300
    texts = [f"SELECT SUM(pay) FROM t WHERE age > {i} AND dept = 3" for i in range(250)]
    placed: list[int] = []
    place = DuckDBProbe.place
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DuckDBProbe, "place", lambda self, extra: placed.append(place(self, extra)) or placed[-1])
        Validator(roster).reasons([lower_statement(text, roster.schema) for text in texts])
    assert len(placed) == 1
    assert max(placed) <= 300 + 250 * 10


def test_a_row_that_is_special_in_one_filling_is_an_ordinary_one_in_the_other(roster: Roster) -> None:
    probe = roster.probe()
    n = probe.place([])
    pay = roster.schema.find("pay")
    assert pay is not None
    seen = [0] * n
    for filling in (Filling.FIRST, Filling.SECOND):
        kept = probe.fill(filling, {"pay": [40, 41]}, [("t",)]).nonzero()[0].tolist()
        values = probe.values(pay).units.tolist()
        assert min(values) < -1
        assert {0, 39, 40, 41, 42} <= set(values)
        for row, v in zip(kept, values, strict=True):
            seen[row] += v not in (0, 1, -1, 39, 40, 41, 42)
    assert min(seen) >= 1


@pytest.mark.parametrize(
    "after",
    ["age > 3 LIMIT 0", "age > 3 GROUP BY age", "age > 3 HAVING COUNT(*) > 1", "age IN (SELECT 1)", "age > 3 -- x",
     "age > 3 UNION ALL SELECT 1", "lower(dept) = 'a'", "age > 3) OR (age < 3", "age > 3; SELECT 1", "age > $$1$$"],
)  # fmt: skip
def test_a_head_is_followed_by_a_condition_alone(after: str) -> None:
    names = ["age", "dept", "limit", "group by"]
    assert find_head("SELECT SUM(pay) FROM t WHERE age > 3 AND dept = 'x LIMIT 0'", names) == "SELECT SUM(pay) FROM t "
    assert find_head(f"SELECT SUM(pay) FROM t WHERE {after}", names) == ""
