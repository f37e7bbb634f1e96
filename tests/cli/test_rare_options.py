"""Options that are used seldom do what their help says."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from tests.support.commands import call_command

from keyhole.serve.keys import KeyRing

ROWS = "name,dept,town,age,pay\n" + "".join(
    f"p{i},{'ab'[i % 2]},{'xyz'[i % 3]},{20 + i % 4},{i % 9}\n" for i in range(24)
)


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("staff.csv").write_text(ROWS, encoding="utf-8")


def test_a_key_says_for_how_long_how_often_and_what_it_reaches() -> None:
    limits = ("--days", "30", "--per-minute", "7", "--per-day", "50", "--population", "staff", "--population", "firms")
    assert call_command("serve", "keys", "add", "ann", *limits).exit_code == 0
    (key,) = KeyRing(Path("keys.keyhole")).keys
    assert (key.per_minute, key.per_day, set(key.populations)) == (7, 50, {"staff", "firms"})
    assert key.expires is not None
    until = dt.datetime.fromisoformat(key.expires) - dt.datetime.now(dt.UTC)
    assert dt.timedelta(days=29) < until <= dt.timedelta(days=30)
    assert not key.may_reach("patients")


def test_with_among_an_all_clear_needs_more_values_for_everybody() -> None:
    few = "name,dept,pay\n" + "".join(f"p{i},{'ab'[i % 2]},{i // 2 % 2}\n" for i in range(24))
    Path("staff.csv").write_text(few, encoding="utf-8")
    Path("log.sql").write_text("SELECT dept, SUM(pay) FROM staff GROUP BY dept", encoding="utf-8")
    table = ("audit", "log.sql", "--data", "staff.csv", "--id", "name", "--private", "pay:0..1")
    assert call_command(*table).exit_code == 0
    assert call_command(*table, "--among", "2").exit_code in (1, 3)  # there are two values in all
    assert call_command(*table, "--among", "0").exit_code == 2


def test_a_plan_uses_no_more_columns_than_it_may() -> None:
    asked = (
        "plan",
        "--target",
        "name = 'p0'",
        "--data",
        "staff.csv",
        "--id",
        "name",
        "--private",
        "pay",
        "--min-group",
        "2",
        "--format",
        "json",
    )
    for most in ("1", "3"):
        found = call_command(*asked, "--max-columns", most)
        assert found.exit_code == 0
        columns = {"dept", "town", "age"}
        for query in json.loads(found.stdout)["queries"] or ():
            text = query if isinstance(query, str) else query["sql"]
            assert sum(name in text for name in columns) <= int(most), text


def test_progress_is_said_on_standard_error_alone() -> None:
    Path("log.sql").write_text("SELECT SUM(pay) FROM staff", encoding="utf-8")
    asked = ("audit", "log.sql", "--data", "staff.csv", "--id", "name", "--private", "pay:0..8")
    plain, told = call_command(*asked), call_command(*asked, "--progress")
    assert plain.exit_code in (0, 3)
    assert (told.exit_code, told.stdout) == (plain.exit_code, plain.stdout)
