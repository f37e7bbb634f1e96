"""Group keys that Python spells otherwise than the engine: kept apart, or not judged; never merged and never lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

import keyhole
from keyhole.engines.duckdb import roster
from keyhole.errors import DIFFERS

TEXT = "SELECT k, SUM(pay) FROM t GROUP BY k"
KEYS = [
    ("TIMESTAMP_NS", ("'2026-01-01 00:00:00.000000001'", "'2026-01-01 00:00:00.000000002'"), True),
    ("TIMESTAMPTZ", ("'2026-01-01 00:00:00.000001+02'", "'2026-01-01 00:00:00.000002+02'"), True),
    ("HUGEINT", ("170141183460469231731687303715884105727", "170141183460469231731687303715884105726"), True),
    ("DECIMAL(38,10)", ("1234567890123456789012345678.0000000001", "1234567890123456789012345678.0000000002"), True),
    ("DOUBLE", ("0.3", "0.30000000000000004"), True),
    ("FLOAT", ("0.1", "16777217"), True),
    ("VARCHAR", ("chr(233)", "'e' || chr(769)"), True),
    ("VARCHAR", ("'a'", "'a' || chr(0) || 'b'"), True),
    ("BIT", ("'101'", "'0101'"), True),
    ("BLOB", ("'\\xAA'::BLOB", "'\\xAB'::BLOB"), False),
    ("INTERVAL", ("INTERVAL 1 MONTH", "INTERVAL 31 DAY"), False),
    ("INTEGER[]", ("[1]", "[1, 2]"), False),
    ("STRUCT(a INTEGER)", ("{'a': 1}", "{'a': 2}"), False),
]


def table(folder: Path, kind: str, values: Sequence[str]) -> Path:
    """Two people, told apart by the key alone."""
    path = folder / "t.duckdb"
    con = duckdb.connect(str(path))
    con.execute(f"CREATE TABLE t (name VARCHAR, k {kind}, pay BIGINT)")
    for i, value in enumerate(values):
        con.execute(f"INSERT INTO t VALUES ('{'AB'[i]}', {value}, {i + 5})")
    con.close()
    return path


@pytest.mark.parametrize(("kind", "values", "kept"), KEYS, ids=[f"{kind} {v[0]}" for kind, v, _ in KEYS])
def test_keys_are_kept_apart_or_not_judged(kind: str, values: Sequence[str], kept: bool, tmp_path: Path) -> None:
    """Groups by a BLOB were summed over nobody, with exit 0; an INTERVAL stopped the whole audit."""
    data = table(tmp_path, kind, values)
    verdict = keyhole.audit([TEXT, "SELECT SUM(pay) FROM t"], data=data, private="pay", id="name")
    assert [f.who for f in verdict.exposed] == (["A", "B"] if kept else [])
    assert verdict.exit_code == (1 if kept else 3)
    assert [(u.number, u.reason) for u in verdict.unjudged] == ([] if kept else [("1", DIFFERS)])
    with keyhole.watch(data, private="pay:0..", id="name", exact_above=1) as session:
        assert str(session.admit(TEXT).verdict) == ("deny" if kept else "refused")


@pytest.mark.parametrize("kind", ["TIMESTAMP_NS", "BLOB", "INTERVAL"])
def test_private_keys_are_kept_apart_or_not_judged(kind: str, tmp_path: Path) -> None:
    """Groups by a private BLOB were about nobody, and by a private INTERVAL stopped the whole audit."""
    data = table(tmp_path, kind, next(values for k, values, _ in KEYS if k == kind))
    log = ["SELECT name, k, SUM(pay) FROM t GROUP BY name, k", "SELECT SUM(pay) FROM t WHERE name = 'A'"]
    verdict = keyhole.audit(log, data=data, private=["pay", "k"], id="name")
    found = [(f.who, f.column) for f in verdict.exposed]
    assert found == ([(who, column) for who in "AB" for column in ("k", "pay")] if "NS" in kind else [("A", "pay")])
    assert len([*verdict.unjudged, *verdict.refused]) == ("NS" not in kind)


def test_a_private_uuid_can_be_loaded(tmp_path: Path) -> None:
    """It was searched for the words of infinity as if it were text, and the audit stopped."""
    uuids = [f"'00000000-0000-0000-0000-00000000000{i}'" for i in range(2)]
    verdict = keyhole.audit(
        ["SELECT name, k, COUNT(*) FROM t GROUP BY name, k"],
        data=table(tmp_path, "UUID", uuids),
        private=["k"],
        id="name",
    )
    assert [f.who for f in verdict.exposed] == ["A", "B"]


def test_keys_that_are_merged_on_the_way_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A liar: nanoseconds are fetched as Python's times, which have microseconds."""
    data = table(tmp_path, *KEYS[0][:2])
    monkeypatch.setattr(roster, "_fetched_keys", lambda con, table, keys: list(keys))
    verdict = keyhole.audit([TEXT], data=data, private="pay", id="name")
    assert (verdict.exit_code, [u.reason for u in verdict.unjudged]) == (3, [DIFFERS])
    assert not verdict.findings


def test_many_keys_are_looked_at_in_part(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    con = duckdb.connect(str(path))
    con.execute("CREATE TABLE t AS SELECT 'n' || i AS name, i * 3 AS k, 5 AS pay FROM range(5000) AS r(i)")
    con.close()
    verdict = keyhole.audit(["SELECT k, SUM(pay) FROM t GROUP BY k"], data=path, private="pay", id="name")
    assert len(verdict.exposed) == 5000
