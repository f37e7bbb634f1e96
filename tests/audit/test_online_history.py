"""The history file: nothing acknowledged is lost, nothing damaged is believed, no other people are mixed in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyhole.audit.history import History, Past, write_history
from keyhole.audit.online import OnlineAuditor, Permission
from keyhole.errors import ConfigError, LogError
from keyhole.knowledge import Columns, Config
from keyhole.settings import settings as merged
from keyhole.tables import DuckDBRoster, load_roster
from keyhole.tables.fingerprint import fingerprint
from keyhole.tables.open import Use, open_table

ALL, SOME = "SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE a = 1"


def people(a: tuple[int, ...] = (1, 1, 2), x: tuple[int | None, ...] = (4, 5, 6)) -> DuckDBRoster:
    roles = Columns.checked({"id": ["name"], "private": {"x": {}}})
    return load_roster(pa.table({"name": [f"p{i}" for i in range(len(a))], "a": list(a), "x": list(x)}), roles)


def opened(path: Path, roster: DuckDBRoster | None = None, version: str | None = None) -> OnlineAuditor:
    roster = roster or people()
    return OnlineAuditor.open(path, roster, fingerprint(roster), version=version)


def test_a_history_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "h.keyhole"
    first = opened(path)
    assert first.record(ALL, answer="15") == "1"
    first.close()
    second = opened(path)
    assert second.admit(SOME).verdict is Permission.DENY
    assert second.admit(ALL).number == "2"
    assert [p.answer for p in second.past] == ["15"]
    second.close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "h.keyhole"
    first = opened(path)
    with pytest.raises(ConfigError, match="another process"):
        opened(path)
    first.close()
    opened(path).close()
    with pytest.raises(ConfigError, match="closed"):
        first.record(ALL)


@given(cut=st.integers(1, 60))
@settings(max_examples=30, deadline=None)
def test_a_line_cut_short_was_never_acknowledged(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("h") / "h.keyhole"
    write_history(path, "f", None, [Past(1, ALL), Past(2, SOME)])
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    with History.open(path, "f") as history:
        assert [p.number for p in history.past] == [1]
        history.append(Past(2, "SELECT 2"))
    with History.open(path, "f") as history:
        assert [p.sql for p in history.past] == [ALL, "SELECT 2"]


@given(at=st.integers(0, 10_000), value=st.integers(1, 255))
@settings(max_examples=60, deadline=None)
def test_a_damaged_history_is_not_believed(tmp_path_factory: pytest.TempPathFactory, at: int, value: int) -> None:
    path = tmp_path_factory.mktemp("h") / "h.keyhole"
    write_history(path, "f", None, [Past(1, ALL), Past(2, SOME), Past(3, ALL)])
    raw = bytearray(path.read_bytes())
    last = raw.rstrip(b"\n").rfind(b"\n") + 1
    raw[at % last] ^= value  # anywhere but in the last line
    path.write_bytes(bytes(raw))
    with pytest.raises(LogError, match=r"damaged|not a history"):
        History.open(path, "f")


def test_other_people_are_refused_and_nothing_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "h.keyhole"
    first = opened(path, version="1")
    first.record(ALL)
    first.close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="version '2' has other people"):
        opened(path, people(a=(1, 1, 2, 2), x=(4, 5, 6, 7)), version="2")
    with pytest.raises(ConfigError, match="still '1'"):
        opened(path, people(a=(1, 2, 2)), version="1")
    with pytest.raises(ConfigError, match="other data"):
        opened(path, people(x=(4, None, 6)), version="1")  # who has no value is public
    assert path.read_bytes() == before


ROLES = Columns.checked({"id": ["name"], "private": {"x": {}}})


def table(x: tuple[int | None, ...], a: tuple[int, ...] = (1, 1, 2)) -> pa.Table:
    return pa.table({"name": [f"p{i}" for i in range(len(a))], "a": list(a), "x": list(x)})


def watched(
    path: Path, data: pa.Table, version: str | None = None, vouched: bool = False, roles: Columns = ROLES
) -> OnlineAuditor:
    opened = open_table(merged(Config(columns=roles), data=data), Use.WATCH)
    mark = fingerprint(opened.roster)
    return OnlineAuditor.open(path, opened.roster, mark, version=version, values=opened.seal, vouched=vouched)


def test_a_new_version_of_the_same_data_carries_on(tmp_path: Path) -> None:
    path = tmp_path / "h.keyhole"
    first = watched(path, table((4, 5, 6)), version="1")
    first.record(ALL)
    first.close()
    second = watched(path, table((4, 5, 6)), version="2")
    assert second.admit(SOME).verdict is Permission.DENY
    second.close()
    with History.open(path, fingerprint(people()), "2") as history:
        assert history.version == "2"
        assert len(history.past) == 1


def test_changed_private_values_are_refused_under_any_version(tmp_path: Path) -> None:
    """The same sum before and after tells the change: a raise, here."""
    path = tmp_path / "h.keyhole"
    first = watched(path, table((4, 5, 6)), version="1")
    first.record(ALL)
    first.close()
    before = path.read_bytes()
    for version in ("1", "2", None):
        for x in ((4, 27, 6), (5, 4, 6)):  # a raise; an exchange
            with pytest.raises(ConfigError, match="private values of 'x' changed") as refused:
                watched(path, table(x), version=version)
            assert not any(word in str(refused.value) for word in ("27", "p1", "p0"))
            with pytest.raises(ConfigError, match="changed"):
                watched(path, table(x), version=version, vouched=True)  # who vouches is held to what is known
    assert path.read_bytes() == before
    watched(path, table((4, 5, 6))).close()


def test_the_order_and_the_spelling_of_private_values_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "h.keyhole"
    first = watched(path, table((4, 5, 6)))
    first.record(ALL)
    first.close()
    turned = pa.table({"name": ["p2", "p1", "p0"], "a": [2, 1, 1], "x": [6.0, 5.0, 4.0]})
    watched(path, turned).close()
    nameless = Columns.checked({"private": {"x": {}}})
    other = tmp_path / "i.keyhole"
    again = watched(other, table((4, 5, 6)).drop_columns(["name"]), roles=nameless)
    again.record(ALL)
    again.close()
    watched(other, turned.drop_columns(["name"]), roles=nameless).close()
    with pytest.raises(ConfigError, match="changed"):
        watched(other, pa.table({"a": [1, 1, 2], "x": [6, 5, 4]}), roles=nameless)


def test_the_key_of_a_history_is_its_owners_and_is_not_made_twice(tmp_path: Path) -> None:
    path, key = tmp_path / "h.keyhole", tmp_path / "h.keyhole.key"
    first = watched(path, table((4, 5, 6)))
    first.record(ALL)
    first.close()
    assert (key.stat().st_mode & 0o777, len(key.read_bytes())) == (0o600, 32)
    kept = key.read_bytes()
    link = tmp_path / "elsewhere"
    link.mkdir()
    (link / "l.keyhole").symlink_to(path)
    watched(link / "l.keyhole", table((4, 5, 6))).close()
    assert [p.name for p in link.iterdir()] == ["l.keyhole"]
    key.unlink()
    with pytest.raises(ConfigError, match=r"key .* is missing"):
        watched(path, table((4, 5, 6)))
    assert not key.exists()
    key.write_bytes(kept[:5])
    with pytest.raises(ConfigError, match="5 bytes"):
        watched(path, table((4, 5, 6)))
    key.write_bytes(kept)
    watched(path, table((4, 5, 6))).close()


def test_a_history_without_digests_needs_the_custodians_word(tmp_path: Path) -> None:
    path = tmp_path / "h.keyhole"
    opened(path).close()
    watched(path, table((4, 5, 6))).close()  # nothing was answered yet: the digest is written down
    with pytest.raises(ConfigError, match="changed"):
        watched(path, table((4, 5, 7)))
    path = tmp_path / "i.keyhole"
    first = opened(path)  # no private values at hand
    first.record(ALL)
    first.close()
    opened(path).close()
    with pytest.raises(ConfigError, match="--same-values"):
        watched(path, table((4, 5, 6)))
    watched(path, table((4, 5, 6)), vouched=True).close()
    watched(path, table((4, 5, 6))).close()
    with pytest.raises(ConfigError, match="changed"):
        watched(path, table((4, 5, 7)))


def test_fingerprints_see_what_is_public_and_nothing_else() -> None:
    base = fingerprint(people())
    assert fingerprint(people(x=(7, 8, 9))) == base
    assert fingerprint(people(a=(2, 1, 1))) != base
    assert fingerprint(people(x=(None, 5, 6))) != base
    roles = Columns.checked({"id": ["name"], "private": {"x": {}}})
    rows = {"name": ["p2", "p0", "p1"], "a": [2, 1, 1]}
    assert fingerprint(load_roster(pa.table({**rows, "x": [6, 4, 5]}), roles)) == base  # order of rows
    assert fingerprint(load_roster(pa.table(rows), roles)) == base  # the private column need not be there
    renamed = load_roster(pa.table({"name": ["p0", "p1", "p2"], "b": [1, 1, 2], "x": [4, 5, 6]}), roles)
    assert fingerprint(renamed) != base


def test_fingerprints_do_not_depend_on_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = pa.array([0, 1_000_000], type=pa.timestamp("us", tz="UTC"))
    marks = set()
    for zone in ("UTC", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        roster = load_roster(pa.table({"seen": seen, "x": [1, 2]}), Columns.checked({"private": {"x": {}}}))
        marks.add(fingerprint(roster))
        first = roster._con.execute("SELECT seen::VARCHAR FROM people WHERE rowid = 0").fetchone()
        assert first == ("1970-01-01 00:00:00",)
    assert len(marks) == 1


def test_strange_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "h.keyhole"
    path.write_text("SELECT 1;\n", encoding="utf-8")
    with pytest.raises(LogError, match="not a history"):
        History.open(path, "f")
    with pytest.raises(ConfigError, match="cannot write"):
        History.open(tmp_path / "no" / "h.keyhole", "f")


def test_an_empty_file_is_begun(tmp_path: Path) -> None:
    path = tmp_path / "h.keyhole"
    path.touch()
    with History.open(path, "f") as history:
        assert history.past == []
        history.append(Past(1, ALL))
    with History.open(path, "f") as history:
        assert [p.sql for p in history.past] == [ALL]
    with pytest.raises(ConfigError, match="cannot open"):
        History.open(tmp_path, "f")  # a folder is none


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_lines_removed_swapped_or_repeated_are_noticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("h") / "h.keyhole"
    write_history(path, "f", "1", [Past(1, ALL), Past(2, SOME)])
    with History.open(path, "f", "2") as history:  # each way of writing a line
        history.append(Past(3, ALL))
        history.extend([Past(4, SOME), Past(5, ALL)])
        history.append(Past(6, ALL))
    whole = path.read_bytes().splitlines(keepends=True)
    at = data.draw(st.integers(1, len(whole) - 2))
    kept = data.draw(
        st.sampled_from(
            [
                whole[:at] + whole[at + 1 :],
                [*whole[:at], whole[at + 1], whole[at], *whole[at + 2 :]],
                [*whole[:at], whole[at], *whole[at:]],
            ]
        )
    )
    path.write_bytes(b"".join(whole))
    with History.open(path, "f", "2") as history:
        assert [p.number for p in history.past] == [1, 2, 3, 4, 5, 6]
    path.write_bytes(b"".join(kept))
    with pytest.raises(LogError, match="damaged, or one before it is missing"):
        History.open(path, "f", "2")


OLD = """{"keyhole": "history", "format": 1, "fingerprint": "f", "version": null, "crc": "HEAD"}
{"query": 1, "sql": "SELECT SUM(x) FROM t", "how": "answered", "crc": "LINE"}
"""


def test_a_history_without_a_chain_is_read_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "h.keyhole"
    text = OLD
    for place, line in zip(("HEAD", "LINE"), OLD.splitlines(), strict=True):
        body = line.partition(', "crc"')[0] + "}"
        text = text.replace(place, f"{zlib.crc32(body.encode()):08x}")
    path.write_text(text, encoding="utf-8")
    with History.open(path, "f") as history:
        history.append(Past(2, SOME))
        history.extend([Past(3, ALL)])
    with History.open(path, "f") as history:
        assert [p.number for p in history.past] == [1, 2, 3]


def test_a_statement_that_can_no_longer_be_read_is_not_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "h.keyhole"
    write_history(path, fingerprint(people()), None, [Past(1, "SELECT MODE(x) FROM t")])
    with pytest.raises(LogError, match="can no longer be read"):
        opened(path)


def test_a_failed_write_allows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "h.keyhole"
    auditor = opened(path)
    auditor.record(ALL)
    before = path.read_bytes()

    def full(handle: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(ConfigError, match="No space left"):
        auditor.record("SELECT SUM(x) FROM t WHERE a > 0")
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert len(auditor.past) == 1
    auditor.close()


CHILD = """
import sys
from pathlib import Path
from keyhole.audit.history import History, Past
with History.open(Path(sys.argv[1]), "f") as history:
    for number in range(len(history.past) + 1, 10**6):
        history.append(Past(number, f"SELECT SUM(x) FROM t WHERE a > {number}"))
        print(number, flush=True)  # acknowledged
"""


def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "h.keyhole"
    known = 0
    for count in (5, 40, 17):
        child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(CHILD), str(path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        for _ in range(count):
            known = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read().split()
        child.stdout.close()
        child.wait()
        known = int(rest[-1]) if rest else known
        with History.open(path, "f") as history:
            assert [p.number for p in history.past] == list(range(1, len(history.past) + 1))
            assert known <= len(history.past) <= known + 1
            known = len(history.past)


def test_loading_a_log_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from keyhole.transcript import Line

    path = tmp_path / "h.keyhole"
    auditor = opened(path)
    before = path.read_bytes()

    def broken(self: Path, target: Path) -> Path:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(ConfigError, match="Input/output"):
        auditor.load([Line(1, ALL), Line(2, SOME)])
    monkeypatch.undo()
    assert path.read_bytes() == before
    auditor.close()
    again = opened(path)
    again.load([Line(1, ALL)])
    again.close()
    last = opened(path)
    assert [p.how for p in last.past] == ["published"]
    last.record("SELECT COUNT(*) FROM t")  # the replaced file is the one that is written to
    last.close()
    with History.open(path, fingerprint(people())) as history:
        assert len(history.past) == 2
