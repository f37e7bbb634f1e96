"""The online auditor over a table that changes: known stories, the book's representation, and 2,000 decisions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from tests.laws import epochs as laws
from tests.laws.brute import rank
from tests.laws.streams import roster as small
from tests.laws.streams import stream
from tests.support.effort import effort

from keyhole.auditing.online.admission import Admission, Permission
from keyhole.auditing.online.epochs import Changes, Epochs, ToldRow
from keyhole.auditing.online.online import OnlineAuditor
from keyhole.auditing.online.population import Epoch, Population, person_keys
from keyhole.auditing.online.ruling import CROSSES
from keyhole.basis.bits import pack
from keyhole.config import Columns
from keyhole.datasets import Roster, load_roster
from keyhole.errors import ConfigError, LogError, QueryError

KEY = bytes(range(32))
ALL = "SELECT SUM(pay) FROM t"


def table(people: Mapping[object, str], **private: list[float | None]) -> Roster:
    roles = Columns.checked({"id": ["name"], "private": {name: {} for name in private or ("pay",)}})
    given = private or {"pay": [float(k) for k in range(len(people))]}
    return load_roster(pa.table({"name": list(people), "team": list(people.values()), **given}), roles)


@dataclass(slots=True)
class Book:
    """What a book keeps, as text: epochs, and the rows that were told."""

    changes: Changes = Changes.SECRET
    insiders: int = 0
    families: dict[str, str] = field(default_factory=dict)
    epochs: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    asked: int = 0

    def open(self, roster: Roster, written: Mapping[str, Iterable[object]] | None = None) -> OnlineAuditor:
        """A new epoch."""
        keys = person_keys(roster, KEY)
        by_name = {label["name"]: key for label, key in zip(roster.labels(np.arange(roster.n)), keys, strict=True)}
        listed = None if written is None else {c: [by_name[name] for name in who] for c, who in written.items()}
        epoch = self.population().opened(f"epoch {len(self.epochs) + 1}", keys, listed)
        self.epochs.append(json.dumps(epoch.to_json()))
        return self.auditor(roster)

    def population(self) -> Population:
        return Population(Epoch.from_json(json.loads(text)) for text in self.epochs)

    def auditor(self, roster: Roster) -> OnlineAuditor:
        """Go on within the latest epoch."""
        told = tuple(ToldRow.from_json(json.loads(text)) for text in self.told)
        epochs = Epochs(self.population(), person_keys(roster, KEY), told, self.changes, self.asked)
        return OnlineAuditor(roster, insiders=self.insiders, families=self.families, epochs=epochs)

    def ask(self, auditor: OnlineAuditor, sql: str) -> Admission:
        said = auditor.admit(sql)
        self.asked += 1
        if said.allowed:
            self.told += [json.dumps(row.to_json()) for row in auditor.told(sql)]
            auditor.record(sql)
        else:
            auditor.seen()
        return said


STAFF: dict[object, str] = {"Ann": "a", "Bob": "a", "Cyd": "b", "Dan": "b"}


# -- stories --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("insiders", [0, 1])
def test_the_same_sum_after_a_raise_is_not_told(insiders: int) -> None:
    """Everybody's pay, before and after Bob's raise: the difference is the raise."""
    book = Book(insiders=insiders)
    assert book.ask(book.open(table(STAFF)), ALL).allowed
    later = book.open(table(STAFF))
    said = book.ask(later, ALL)
    assert (said.verdict, said.reason, said.who) == (Permission.DENY, CROSSES, ())
    assert said.number == "2"


def test_with_public_changes_it_is_told_unless_somebody_alone_was_written() -> None:
    for written, verdict in (((), "allow"), (("Bob",), "deny"), (("Bob", "Cyd"), "allow")):
        book = Book(Changes.PUBLIC)
        assert book.ask(book.open(table(STAFF)), ALL).allowed
        said = book.ask(book.open(table(STAFF), {"pay": written}), ALL)
        assert str(said.verdict) == verdict, written
    assert said.reason == "nobody is exposed"
    book.insiders = 1  # the two who were written learn each other's raise
    assert str(book.auditor(table(STAFF)).admit(ALL).verdict) == "allow"  # it was told already
    book.told.pop()
    told = book.auditor(table(STAFF)).admit(ALL)
    assert (str(told.verdict), {f.who for f in told.who}) == ("deny", {"Bob", "Cyd"})


def test_a_raise_is_named_as_one() -> None:
    book = Book(Changes.PUBLIC)
    book.ask(book.open(table(STAFF)), ALL)
    said = book.open(table(STAFF), {"pay": ["Bob"]}).admit(ALL)
    assert [f.who for f in said.who] == ["Bob"]
    assert said.to_json(explain=True)["who"][0]["form"] == "the value, a change of it or a mix of its 2 versions"
    assert {step["query"]: step["weight"] for step in said.steps()} in ({"1": "1", "2": "-1"}, {"1": "-1", "2": "1"})


@pytest.mark.parametrize("changes", Changes)
def test_who_is_gone_or_came_is_still_counted(changes: Changes) -> None:
    """Dan leaves: the sum without him gives his old pay. Eve comes: the sum with her gives hers."""
    book = Book(changes)
    book.ask(book.open(table(STAFF)), ALL)
    smaller = {name: team for name, team in STAFF.items() if name != "Dan"}
    said = book.open(table(smaller), {"pay": []}).admit(ALL)
    assert said.verdict is Permission.DENY
    assert list(said.who[0].record) == ["person"]
    book.epochs.pop()
    said = book.open(table({"Eve": "b", **STAFF}), {"pay": []}).admit(ALL)
    assert (said.verdict, [f.who for f in said.who]) == (Permission.DENY, ["Eve"])


@pytest.mark.parametrize("changes", Changes)
def test_a_changed_public_column_moves_nobodys_value(changes: Changes) -> None:
    """Bob changes teams: the sum of his old team before and after gives him away."""
    book = Book(changes)
    book.ask(book.open(table(STAFF)), "SELECT SUM(pay) FROM t WHERE team = 'b'")
    said = book.open(table({**STAFF, "Bob": "b"}), {"pay": []}).admit("SELECT SUM(pay) FROM t WHERE team = 'b'")
    assert (said.verdict, [f.who for f in said.who]) == (Permission.DENY, ["Bob"])


def test_within_an_epoch_what_follows_is_free() -> None:
    book = Book(insiders=1)
    book.ask(book.open(table({**STAFF, "Eve": "a", "Fay": "b"})), ALL)
    auditor = book.open(table({**STAFF, "Eve": "a", "Fay": "b"}))
    assert book.ask(auditor, "SELECT SUM(pay) FROM t WHERE team = 'a'").allowed
    again = book.ask(auditor, "SELECT AVG(pay) FROM t WHERE team = 'a'")
    assert (again.allowed, again.reason) == (True, "it follows from what was answered before")
    assert book.ask(auditor, "SELECT SUM(pay) FROM t WHERE team = 'b'").reason == CROSSES
    groups = book.ask(auditor, "SELECT team, SUM(pay) FROM t GROUP BY team")
    assert (groups.verdict, groups.reason) == (Permission.DENY, CROSSES)
    assert book.ask(book.auditor(auditor.roster), "SELECT SUM(pay) FROM t WHERE team = 'a'").allowed


def test_groups_are_told_whole_and_read_back() -> None:
    book = Book(Changes.PUBLIC)
    first = book.open(table({**STAFF, "Eve": "a", "Fay": "b"}))
    assert book.ask(first, "SELECT team, SUM(pay) FROM t GROUP BY team").allowed
    assert [json.loads(text)["query"] for text in book.told] == ["1.1", "1.2"]
    assert [row.follows for row in first.told(ALL)] == [True]  # it is written down, and adds nothing
    weighted = "SELECT SUM(pay * length(name)) FROM t WHERE name <> 'Ann'"
    later = book.open(table({**STAFF, "Eve": "a", "Fay": "b"}), {"pay": ["Ann", "Eve"]})
    assert book.ask(later, "SELECT 2 * SUM(pay) - SUM(pay) FILTER (WHERE team = 'b') FROM t").allowed
    assert book.ask(later, weighted).reason == book.auditor(later.roster).admit(weighted).reason


def test_extremes_are_refused_from_the_second_epoch_on() -> None:
    book = Book(families={"pay": "minmax"})
    book.open(table(STAFF))
    said = book.open(table(STAFF)).admit("SELECT MAX(pay) FROM t")
    assert said.verdict is Permission.REFUSED
    assert "changed since its first version" in said.reason
    with pytest.raises(QueryError, match="changed since"):
        book.auditor(table(STAFF)).told("SELECT MAX(pay) FROM t")


def test_columns_are_written_apart() -> None:
    book = Book(Changes.PUBLIC)
    values = {"pay": [1.0, 2.0, 3.0, 4.0], "age": [1.0, 2.0, 3.0, 4.0]}
    auditor = book.open(table(STAFF, **values))
    for column in values:
        assert book.ask(auditor, f"SELECT SUM({column}) FROM t").allowed
    later = book.open(table(STAFF, **values), {"pay": ["Bob"], "age": []})
    assert not book.ask(later, ALL).allowed
    assert book.ask(later, "SELECT SUM(age) FROM t").reason == "it follows from what was answered before"


# -- one epoch is as ever -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("insiders", [0, 1])
@pytest.mark.parametrize("changes", Changes)
def test_with_one_epoch_every_decision_is_as_without(changes: Changes, insiders: int) -> None:
    for seed in (3 + insiders,):
        plain = OnlineAuditor(small(), insiders=insiders)
        keys = person_keys(small(), KEY)
        turned = Population([Population().opened("1", keys[::-1])])  # people were numbered in another order
        counted = OnlineAuditor(small(), insiders=insiders, epochs=Epochs(turned, keys, changes=changes))
        for one in stream(seed, 8):
            said, other = plain.admit(one.sql), counted.admit(one.sql)
            assert (said.verdict, said.reason) == (other.verdict, other.reason)
            assert {(f.who, f.form) for f in said.who} == {(f.who, f.form) for f in other.who}
            for auditor in (plain, counted):
                if said.allowed:
                    auditor.record(one.sql)
                else:
                    auditor.seen()


# -- what is stored -------------------------------------------------------------------------------------------------


def test_ids_count_by_value_and_are_not_stored() -> None:
    numbers, texts = table({7: "a", 8: "a"}), table({"7": "a", "8": "a"})
    assert person_keys(numbers, KEY) == person_keys(texts, KEY) != person_keys(numbers, KEY[::-1])
    book = Book()
    book.ask(book.open(table(STAFF)), ALL)
    assert not any(name in text for name in ("Ann", "Bob") for text in (*book.epochs, *book.told))
    with pytest.raises(ConfigError, match="declare one"):
        person_keys(load_roster(pa.table({"x": [1, 2]}), Columns.checked({"private": {"x": {}}})), KEY)


def test_other_people_need_a_new_epoch() -> None:
    book = Book()
    book.open(table(STAFF))
    for people in ({"Ann": "a", "Bob": "a"}, {**STAFF, "Eve": "b"}, {"Eve": "a", "Bob": "a", "Cyd": "b", "Dan": "b"}):
        with pytest.raises(ConfigError, match="not those of version 'epoch 1'"):
            book.auditor(table(people))
    key = person_keys(table(STAFF), KEY)
    with pytest.raises(ConfigError, match="opened before"):
        book.population().opened("epoch 1", key)
    with pytest.raises(ConfigError, match="one id"):
        book.population().opened("2", [key[0], key[0]])
    with pytest.raises(ConfigError, match="never in the table"):
        book.population().opened("2", key, {"pay": [bytes(16)]})


def test_public_changes_must_be_said() -> None:
    """A log of changes that is missing is not an empty one."""
    book = Book(Changes.PUBLIC)
    book.open(table(STAFF))
    with pytest.raises(ConfigError, match="does not say whose 'pay' was written"):
        book.open(table(STAFF))


def test_rows_need_epochs() -> None:
    with pytest.raises(ConfigError, match="give the auditor its data versions"):
        OnlineAuditor(table(STAFF)).told(ALL)
    with pytest.raises(ConfigError, match="no data version was opened yet"):
        Epochs(Population(), ())


def test_a_damaged_book_is_not_believed() -> None:
    book = Book()
    book.ask(book.open(table(STAFF)), ALL)
    book.ask(book.open(table({**STAFF, "Eve": "a", "Fay": "a"})), "SELECT SUM(pay) FROM t WHERE team = 'a'")
    first, second = (json.loads(text) for text in book.epochs)
    for damaged in ([second], [first, {**second, "added": first["added"]}], [first, {**second, "people": 5}]):
        with pytest.raises(LogError):
            Population(Epoch.from_json(fields) for fields in damaged)
    row = json.loads(book.told[0])
    for fields in ({**row, "row": row["row"][:-4]}, {**row, "row": "!"}, {**row, "scale": "x"}, {**row, "people": 90}):
        with pytest.raises(LogError):
            ToldRow.from_json(fields)
    with pytest.raises(LogError, match="never opened"):
        book.population().at("x")
    book.told.reverse()
    with pytest.raises(LogError, match="out of place"):
        book.auditor(table({**STAFF, "Eve": "a", "Fay": "a"}))


def test_rows_of_every_kind_come_back() -> None:
    book = Book()
    auditor = book.open(table({**STAFF, "Eve": "a"}))
    for sql in (
        "SELECT SUM(pay) FROM t WHERE team = 'a'",
        "SELECT SUM(pay * (length(team) + 2)) + 3 * SUM(pay) FROM t",
    ):
        for row in auditor.told(sql):
            again = ToldRow.from_json(json.loads(json.dumps(row.to_json())))
            assert (again.premise, again.column, again.people) == (row.premise, row.column, row.people)
            assert np.array_equal(again.row, row.row) if isinstance(row.row, np.ndarray) else again.row == row.row
    assert ToldRow("e", "x", row.premise, 2, {1: -(2**61)}).to_json()["row"]["weights"]
    sparse = ToldRow("e", "x", row.premise, 2, {1: -(2**61), 0: 3})
    assert ToldRow.from_json(sparse.to_json()).row == {0: 3, 1: -(2**61)}
    assert ToldRow.from_json(ToldRow("e", "x", row.premise, 2, pack(np.array([False, True]))).to_json()).people == 2


# -- brute force ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", Changes)
@pytest.mark.parametrize("insiders", [0, 1])
def test_decisions_equal_brute_force(changes: Changes, insiders: int) -> None:
    keeper = next(s.subject for s in laws.SPECIMENS if s.subject.changes is changes)
    count, wanted = 0, effort(1500) if changes is Changes.PUBLIC else effort(500)
    for seed in range(1000, 1200):
        count += laws.compared(keeper, seed, insiders)
        if count >= wanted:
            return
    raise AssertionError(f"only {count} decisions were compared")


def test_the_twin_counts_ranks_as_fractions_do() -> None:
    rng = np.random.default_rng(5)
    for _ in range(40):
        rows = rng.integers(-2, 3, size=(5, 6)).tolist()
        rows.append([a - 2 * b for a, b in zip(rows[0], rows[1], strict=True)])
        sparse = [dict(enumerate(row)) for row in rows]
        assert laws.rank_of(sparse, {0, 2, 3, 5}) == rank([[Fraction(r[c]) for c in (0, 2, 3, 5)] for r in rows])


@pytest.mark.soak
@pytest.mark.parametrize("changes", Changes)
@pytest.mark.parametrize("insiders", [0, 1])
def test_many_decisions_equal_brute_force(changes: Changes, insiders: int) -> None:
    keeper = next(s.subject for s in laws.SPECIMENS if s.subject.changes is changes)
    start = int(np.random.default_rng().integers(2**31))
    for seed in range(start, start + 600):
        laws.compared(keeper, seed, insiders)
