"""What outsiders found: each a way in which an answer once told more than was promised."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import keyhole
import keyhole.config
from keyhole.book import Book, Mark
from keyhole.errors import BookError, ConfigError, DataError
from keyhole.sessions.reply import Reply

PEOPLE = "name,dept,pay\nAnn,a,51\nBob,a,51\nCyd,b,70\nDan,b,80\n"
ALL = "SELECT SUM(pay) FROM people"
SOME = "SELECT SUM(pay) FROM people WHERE dept = 'a'"


class Folder:
    """Settings and data in a folder, asked again and again."""

    def __init__(self, path: Path, data: str = PEOPLE) -> None:
        self.path, self.data = path, path / "people.csv"
        self.data.write_text(data)

    def ask(self, sql: str, *, pay: str = "", more: str = "", column: str = "pay", id: str = "name") -> Reply:  # noqa: A002
        toml = f'[source]\ndata = "people.csv"\n{more}\n[online]\nexact_above = 1\n'
        toml += f"[columns.private.{column}]\nmax = 1000\n{pay}\n"
        toml = toml.replace("[columns.private", f'[columns]\nid = ["{id}"]\n[columns.private', 1)
        (self.path / "keyhole.toml").write_text(toml)
        with keyhole.session(self.path / "keyhole.toml") as session:
            return session.ask(sql)


def test_what_is_known_of_single_people_is_not_ignored(tmp_path: Path) -> None:
    fact = '[[facts]]\nwhere = "name = \'Ann\'"\ncolumn = "pay"\nequals = 51'
    reply = Folder(tmp_path).ask(SOME, pay=fact)
    assert str(reply.outcome) == "refused"
    assert "facts" in reply.reason


@pytest.mark.parametrize("first", ["sum", "minmax"])
def test_a_column_keeps_its_family(tmp_path: Path, first: str) -> None:
    folder = Folder(tmp_path)
    asked = {"sum": SOME, "minmax": SOME.replace("SUM", "MAX")}
    second = "minmax" if first == "sum" else "sum"
    assert folder.ask(asked[first], pay=f'family = "{first}"').answered
    assert str(folder.ask(asked[second], pay=f'family = "{second}"').outcome) == "refused"
    version = 'version = "2"'
    assert str(folder.ask(asked[second], pay=f'family = "{second}"', more=version).outcome) == "refused"


@pytest.mark.parametrize("name", ["Pay", "salary"])
def test_a_column_keeps_its_name_over_versions(tmp_path: Path, name: str) -> None:
    folder = Folder(tmp_path)
    assert folder.ask(ALL, more='version = "1"').answered
    folder.data.write_text(PEOPLE.replace("pay", name).replace("Bob,a,51", "Bob,a,60"))
    with pytest.raises(BookError, match="keeps its name"):
        folder.ask(ALL.replace("pay", name), more='version = "2"', column=name)


def test_people_keep_their_ids_over_versions(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "name,seat,pay\n1,2,51\n2,1,64\n3,4,70\n4,3,80\n")
    assert folder.ask("SELECT SUM(pay) FROM people WHERE name IN (1, 3)", more='version = "1"').answered
    with pytest.raises(BookError, match="same ids"):
        folder.ask("SELECT SUM(pay) FROM people WHERE name IN (1, 3)", more='version = "2"', id="seat")


def test_what_monitored_gave_is_not_recalled_under_audited(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    one = "SELECT SUM(pay) FROM people WHERE name = 'Ann'"
    monitored = '[book]\npolicy = "monitored"'
    assert folder.ask(one, more=monitored).answered
    assert str(folder.ask(one).outcome) == "refused"
    assert str(folder.ask(ALL).outcome) == "refused"  # somebody knows Ann's pay
    assert folder.ask(one, more=monitored).answered


def test_an_entry_takes_the_same_room_for_tiny_and_huge_numbers(tmp_path: Path) -> None:
    sizes = set()
    for number, value in enumerate((1.0, 1e69)):
        folder = tmp_path / str(number)
        folder.mkdir()
        people = pa.table({"name": [f"p{i}" for i in range(60)], "g": [i // 2 for i in range(60)], "pay": [value] * 60})
        told = keyhole.config.Config.parse(f"[book]\npath = '{folder}/book.keyhole'")
        with keyhole.session(told, data=people, private="pay:0..", id="name", exact_above=1, table="t") as session:
            assert session.ask("SELECT g, SUM(pay) FROM t GROUP BY g").answered
        with Book.open(folder / "book.keyhole") as book:
            rows = book.store.db.execute("SELECT length(body) FROM entry WHERE kind = ?", (str(Mark.ANSWER),))
            sizes |= set(rows.fetchall())
    assert len(sizes) == 1


OVERFLOWING = (
    "SELECT SUM(pay) FROM t",
    "SELECT AVG(pay) FROM t WHERE g < 20",
    "SELECT g % 3, SUM(pay * 1000000000000) FROM t GROUP BY g % 3",
    "SELECT SUM(pay * w * w) FROM t",
    "SELECT SUM(pay) / SUM(tiny) FROM t",
)


def numbers_of(pay: list[float]) -> pa.Table:
    n = len(pay)
    return pa.table(
        {"name": [f"p{i}" for i in range(n)], "g": list(range(n)), "w": [1e34] * n, "tiny": [1e-300] * n, "pay": pay}
    )


@pytest.mark.parametrize("huge", [1.7e308, -1.7e308, 1e71])
@pytest.mark.parametrize("command", ["ask", "audit"])
def test_numbers_whose_sums_may_be_infinite_are_found_when_the_data_is_loaded(command: str, huge: float) -> None:
    data = numbers_of([1.0 + i for i in range(59)] + [huge])
    call = partial(keyhole.session, exact_above=1) if command == "ask" else partial(keyhole.audit, list(OVERFLOWING))
    with pytest.raises(DataError, match="column 'pay' holds a number beyond 1e70") as told:
        call(data=data, private="pay:real", id="name", table="t")
    assert ("row 60" in str(told.value)) == (command == "audit")
    public = data.rename_columns(["name", "g", "pay", "tiny", "w"])
    with pytest.raises(DataError, match="column 'w' holds a number beyond 1e70"):
        keyhole.session(data=public, private="pay:real", id="name", exact_above=1, table="t")


@pytest.mark.parametrize("sql", OVERFLOWING)
def test_whether_an_answer_comes_does_not_depend_on_how_large_numbers_are(sql: str, tmp_path: Path) -> None:
    seen = set()
    for number, size in enumerate((1.0, 1e60, 1e69 / 60, -1e69 / 60)):
        data = numbers_of([size * (1 + i) for i in range(60)])
        told = keyhole.config.Config.parse(f"[book]\npath = '{tmp_path}/{number}.keyhole'")
        with keyhole.session(told, data=data, private="pay:real", id="name", exact_above=1, table="t") as session:
            reply = session.ask(sql)
            seen.add((reply.answered, str(reply.outcome)))
    assert seen == {(True, "answered")}


def test_a_weight_beyond_what_sums_hold_is_refused_whatever_the_private_values_are(tmp_path: Path) -> None:
    for number, size in enumerate((1e-300, 1.0, 1e66)):
        data = numbers_of([size * i for i in range(60)])
        told = keyhole.config.Config.parse(f"[book]\npath = '{tmp_path}/{number}.keyhole'")
        with keyhole.session(told, data=data, private="pay:real", id="name", exact_above=1, table="t") as session:
            reply = session.ask("SELECT SUM(pay * w * w * w) FROM t")
            assert (str(reply.outcome), "is beyond 1e70 for some record" in str(reply.reason)) == ("refused", True)


@pytest.mark.parametrize(
    ("pay", "sql"),
    [
        ((3, 3, 1), "SELECT SUM(pay) FILTER (WHERE g = 'x') / SUM(pay) FROM r"),
        ((0, 1, 1), "SELECT SUM(pay) / SUM(pay) FROM r WHERE name = 'B'"),
    ],
)
def test_a_quotient_says_that_its_denominator_is_not_zero(pay: tuple[int, ...], sql: str) -> None:
    people = pa.table({"name": ["A", "B", "C"], "g": ["y", "x", "y"], "pay": list(pay)})
    verdict = keyhole.audit([sql], data=people, private=f"pay:0..{max(pay) + 1}:1", id="name")
    assert verdict.exit_code != 0


def test_an_empty_list_of_who_was_written_is_not_believed_beside_changed_values(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.ask(ALL, more='version = "1"').answered
    (tmp_path / "written.csv").write_text("name,column\n")
    public = 'version = "2"\n[book]\nchanges = "public"\nwritten = "written.csv"'
    folder.data.write_text(PEOPLE.replace("Bob,a,51", "Bob,a,60"))
    with pytest.raises(ConfigError, match="names nobody"):
        folder.ask(ALL, more=public)
    (tmp_path / "written.csv").write_text("name,column\nBob,pay\n")
    assert str(folder.ask(ALL, more=public).outcome) == "deny"
