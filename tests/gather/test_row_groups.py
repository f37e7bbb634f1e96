"""GROUP BY a column of rows of people: a question for each value that is shown, and one for all others."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest
from tests.auditing import people_world
from tests.auditing.people_world import Asked, Held, Person, Tally, Unit, compared, has

from keyhole.auditing.base import Exposure
from keyhole.auditing.examine import examine
from keyhole.config import Config

PLAIN = people_world.statements


def grouped(draw: random.Random) -> Asked:
    """A statement of those worlds, or a count of people by what their rows say."""
    if draw.random() < 0.4:
        return PLAIN(draw)
    sex = draw.choice(("f", "m", ""))
    by_key = draw.random() < 0.7

    def kept(u: Unit) -> bool:
        return sex in ("", u.sex)

    def counts(p: Person, h: Held) -> dict[str, int | None]:
        if not by_key:
            rows = people_world.every(h)
            return {code: int(any(kept(u) for u in p) and has(rows, code)) for code in "xy"}
        mine = [r if u.key is not None else () for u, r in zip(p, h.rows, strict=True)]
        return {c: int(any(kept(u) and has(r, c) for u, r in zip(p, mine, strict=True))) for c in "xy"}

    key = "hadm" if by_key else "pid"
    asked = [f"a.sex = '{sex}'"] * bool(sex) + ["d.code <> 'z'"] * (not by_key)  # a row of nobody's is not in `Held`
    where = f" WHERE {' AND '.join(asked)}" if asked else ""
    named = draw.choice(("d.code", "1", "code"))
    join = f"FROM adm a JOIN diag d ON a.{key} = d.{key}{where}"
    return Asked(f"SELECT d.code, COUNT(DISTINCT a.pid) AS n {join} GROUP BY {named} ORDER BY n", counts)


def seeded(seeds: range, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Tally:
    monkeypatch.setattr(people_world, "statements", grouped)
    tally = Tally()
    for seed in seeds:
        compared(seed, folder, tally)
    return tally


def test_every_claim_holds_in_every_database_with_the_same_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = seeded(range(3), tmp_path, monkeypatch)
    assert tally.claims > 3
    assert tally.wrong == 0


@pytest.mark.soak
def test_more_worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = random.SystemRandom().randrange(10**9)
    print(f"\nfirst seed {first}: {seeded(range(first, first + 150), tmp_path, monkeypatch)}")  # noqa: T201


@pytest.fixture
def hospital(tmp_path: Path) -> Path:
    path = tmp_path / "h.duckdb"
    con = duckdb.connect(str(path))
    people = "(1, 10, 'f'), (2, 20, 'f'), (3, 30, 'm'), (4, 40, 'm')"
    rows = "(1, 10, 'x'), (2, 20, 'x'), (3, 30, 'y'), (3, 30, NULL)"
    con.execute(f"CREATE TABLE adm AS FROM (VALUES {people}) t(pid, hadm, sex)")
    con.execute(f"CREATE TABLE diag AS FROM (VALUES {rows}) t(pid, hadm, code)")
    con.close()
    return path


def audit(hospital: Path, *log: str) -> Exposure:
    settings = people_world.SETTINGS.replace("[columns.private.ill]\n", "")
    return examine(list(log), data=str(hospital), config=Config.parse(settings))


def test_a_full_count_of_one_value_shows_who_has_it(hospital: Path) -> None:
    join = "FROM adm a JOIN diag d ON a.hadm = d.hadm"
    found = audit(hospital, f"SELECT sex, d.code AS c, COUNT(DISTINCT a.pid) {join} GROUP BY sex, c")
    assert not found.refused
    have = sorted((f.who, f.form) for f in found.findings if f.grade == "shown to have")
    assert [who for who, _ in have] == ["pid 1", "pid 2"]


@pytest.mark.parametrize(
    "rest",
    [
        "GROUP BY d.code HAVING COUNT(DISTINCT a.pid) > 1",  # which groups are hidden depends on private rows
        "GROUP BY d.code LIMIT 1",
        "GROUP BY ROLLUP (d.code)",
        "GROUP BY UPPER(d.code)",
    ],
)
def test_what_hides_groups_or_computes_with_the_column_is_refused(hospital: Path, rest: str) -> None:
    found = audit(hospital, f"SELECT COUNT(DISTINCT a.pid) FROM adm a JOIN diag d ON a.hadm = d.hadm {rest}")
    assert found.refused
    assert found.exit_code == 3


def test_a_count_of_rows_by_their_column_is_a_fan_out(hospital: Path) -> None:
    found = audit(hospital, "SELECT d.code, COUNT(*) FROM adm a JOIN diag d ON a.hadm = d.hadm GROUP BY d.code")
    assert "rows of diag" in found.refused[0].error
