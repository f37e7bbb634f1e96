"""Real files as their publishers offer them (KEYHOLE_DATA): from `keyhole init` to a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.commands import call_command
from tests.support.third_party import folder as third_party

ADULT = (
    "age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,sex,capital_gain,"
    "capital_loss,hours_per_week,native_country,income"
)
HOLLAND = "SELECT AVG(hours_per_week) FROM adult WHERE native_country = 'Holand-Netherlands'"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.sql").write_text(HOLLAND)
    return tmp_path


def test_adult_raw_warns_with_the_value_that_occurs(place: Path) -> None:
    data = str(third_party("adult") / "adult.data")
    layout = f"[source]\ncolumns = {ADULT.split(',')}\n"
    (place / "raw.toml").write_text(layout)
    (place / "trim.toml").write_text(f"{layout}trim = true\n")
    raw = call_command("audit", "q.sql", "--data", data, "-c", "raw.toml", "--private", "hours_per_week")
    assert raw.exit_code == 3
    assert "nobody has native_country = 'Holand-Netherlands', but there is ' Holand-Netherlands'" in raw.output
    assert "trim = true" in raw.output
    trimmed = call_command("audit", "q.sql", "--data", data, "-c", "trim.toml", "--private", "hours_per_week")
    assert trimmed.exit_code == 1
    assert "row 19610  hours_per_week  = 40" in trimmed.output


def test_adult_by_init(place: Path) -> None:
    (place / "layout.toml").write_text(f"[source]\ncolumns = {ADULT.split(',')}\n")
    done = call_command("init", str(third_party("adult") / "adult.data"), "--bounds", "layout.toml", "--yes")
    assert done.exit_code == 0, done.output
    assert call_command("audit", "q.sql", "-c", "keyhole.toml").exit_code == 1
    told = (place / "keyhole.toml").read_text()
    assert "99999" not in told  # the largest capital gain is somebody's
    assert "4356" not in told  # the largest capital loss


def test_texas_by_init(place: Path) -> None:
    path = third_party("hospital") / "texas-orig.csv"
    assert call_command("init", str(path), "--yes").exit_code == 0
    (place / "q.sql").write_text("SELECT RACE, AVG(LENGTH_OF_STAY) FROM texas GROUP BY RACE")
    done = call_command("audit", "q.sql", "-c", "keyhole.toml")
    assert done.exit_code == 1
    assert "column00 225  LENGTH_OF_STAY  = 2" in done.output


def test_firms_by_init(place: Path) -> None:
    path = third_party("business") / "indiv_dt.csv"
    assert call_command("init", str(path), "--yes").exit_code == 0
    (place / "q.sql").write_text("SELECT NUTS2, SIZE, SUM(TURNOVER) FROM firms WHERE A21 = 'C' GROUP BY NUTS2, SIZE")
    both = call_command("audit", "q.sql", "-c", "keyhole.toml")
    assert both.exit_code == 1
    assert "A21       is not C" in both.output  # if the branch of a firm is private
    settings = place / "keyhole.toml"
    settings.write_text(settings.read_text().replace("reviewed = false", "reviewed = true"))
    done = call_command("audit", "q.sql", "-c", "keyhole.toml", "--format", "json", "--out", "v.json")
    assert done.exit_code == 1
    checked = call_command("verify", "v.json", "-c", "keyhole.toml")
    assert checked.exit_code == 0, checked.output
    assert "3 of 3 proofs replayed: 3 hold" in checked.output
