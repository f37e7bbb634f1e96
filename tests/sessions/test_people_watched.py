"""Several records a person, decided before the answer: against ranks in fractions, the audit, and neighbours."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from session_world import call, written
from tests.laws.brute import rank

from keyhole.api.session import Watch, watch
from keyhole.api.session import session as open_session
from keyhole.auditing.examine import examine
from keyhole.auditing.online import participants
from keyhole.auditing.online.admission import Admission
from keyhole.config import Config
from keyhole.config.settings import settings
from keyhole.datasets.open import Use, open_table
from keyhole.errors import BookError, ConfigError
from keyhole.sessions.reply import Outcome

SEEDS = (0, 1, 9, 10)
Record = tuple[int, str, int]  # person, sex, zip
CONDITIONS: dict[str, Callable[[Record], bool]] = {
    "TRUE": lambda r: True,
    "sex = 'f'": lambda r: r[1] == "f",
    "sex <> 'f'": lambda r: r[1] != "f",
    "zip = 1": lambda r: r[2] == 1,
    "zip >= 2": lambda r: r[2] >= 2,
    "p = 1": lambda r: r[0] == 1,
    "p <> 1": lambda r: r[0] != 1,
    "p <> 2 AND zip <> 1": lambda r: r[0] != 2 and r[2] != 1,
    "p IN (1, 2) OR sex = 'm'": lambda r: r[0] in (1, 2) or r[1] == "m",
}
Rows = list[list[Fraction]]
CROWD = tuple((10 + at, "m", 3) for at in range(24))  # so that the costs are more than 20 different ones


@dataclass(frozen=True)
class Clinic:
    """Records of people; `known[r]`: the private value of record r is not NULL."""

    records: tuple[Record, ...]
    known: tuple[bool, ...]
    stream: tuple[tuple[str, Rows], ...]  # a statement, and the sums that it tells

    def table(self, seed: int) -> pa.Table:
        draw = random.Random(seed)
        cost = [draw.randrange(10**6) if k else None for k in self.known]
        p, sex, zips = zip(*self.records, strict=True)
        return pa.table({"p": p, "sex": sex, "zip": zips, "cost": pa.array(cost, pa.int64())})

    def forms(self, rows: Rows, people: tuple[int, ...]) -> int:
        """How many independent sums over the records of these people alone are determined."""
        others = [r for r, record in enumerate(self.records) if record[0] not in people]
        return rank(rows) - rank([[row[r] for r in others] for row in rows])

    def exposing(self, rows: Rows, insiders: int) -> set[tuple[int, ...]]:
        """Whom rows expose: people, and pairs of whom one would learn something of the other."""
        people = sorted({record[0] for record in self.records} - {p for p, _, _ in CROWD[2:]})  # they are all alike
        alone = {i: self.forms(rows, (i,)) for i in people}
        found: set[tuple[int, ...]] = {(i,) for i in people if alone[i]}
        pairs = combinations(people, 2) if insiders else ()
        return found | {(i, k) for i, k in pairs if self.forms(rows, (i, k)) > alone[i] + alone[k]}


def drawn(seed: int) -> Clinic:
    draw = random.Random(seed)
    sizes = [draw.choice((1, 1, 2, 2, 3)) for _ in range(draw.randrange(3, 6))]
    sizes[0] = 2
    records = tuple((p, draw.choice("fm"), draw.randrange(1, 4)) for p, k in enumerate(sizes, 1) for _ in range(k))
    known = (*(draw.random() > 0.1 for _ in records), *(True for _ in CROWD))
    records += CROWD
    return Clinic(records, known, tuple(_asked(draw, records, known) for _ in range(10)))


def _asked(draw: random.Random, records: tuple[Record, ...], known: tuple[bool, ...]) -> tuple[str, Rows]:
    where = draw.choice(list(CONDITIONS))
    chosen = [CONDITIONS[where](r) and k for r, k in zip(records, known, strict=True)]
    if draw.random() < 0.2:
        rows = [[Fraction(c and r[2] == z) for c, r in zip(chosen, records, strict=True)] for z in (1, 2, 3)]
        return f"SELECT zip, SUM(cost) FROM visits WHERE {where} GROUP BY zip", rows
    if draw.random() < 0.2:
        weighted = [Fraction(c * r[2]) for c, r in zip(chosen, records, strict=True)]
        return f"SELECT SUM(cost * zip) FROM visits WHERE {where}", [weighted]
    return f"SELECT {draw.choice(('SUM', 'AVG'))}(cost) FROM visits WHERE {where}", [[Fraction(c) for c in chosen]]


def watched(clinic: Clinic, seed: int, insiders: int = 0) -> Watch:
    return watch(clinic.table(seed), private="cost:real", id="p", insiders=insiders, table="visits")


def played(clinic: Clinic, session: Watch) -> Iterator[tuple[str, Rows, Outcome, Admission]]:
    for sql, rows in clinic.stream:
        reply = session.ask(sql)
        assert reply.admission is not None
        yield sql, rows, reply.outcome, reply.admission


def compared(seed: int) -> tuple[int, int]:
    """Each decision is that of ranks in fractions; and no offline audit finds anybody in what was allowed."""
    clinic, insiders = drawn(seed), seed % 2
    told: Rows = [[Fraction(0)] * len(clinic.records)]
    kept, denied = [], 0
    with watched(clinic, seed, insiders) as session:
        for sql, rows, outcome, said in played(clinic, session):
            exposed = clinic.exposing(told + rows, insiders)
            assert (outcome is Outcome.DENIED) == bool(exposed), (seed, insiders, sql, outcome, exposed)
            assert {int(str(f.record["p"])) for f in said.who} <= {i for pair in exposed for i in pair}
            if outcome is Outcome.DENIED:
                assert said.proof is not None, (seed, sql)
                denied += 1
            else:
                told += rows
                kept.append(sql)
    assert not clinic.exposing(told, insiders)
    found = examine(kept, data=clinic.table(seed), private="cost:real", id="p", table="visits")
    assert not found.findings, (seed, insiders, found.findings)
    return len(kept), denied


@pytest.mark.parametrize("seed", SEEDS)
def test_decisions_are_those_of_ranks_and_the_audit_finds_nobody(seed: int) -> None:
    allowed, denied = compared(seed)
    assert allowed
    assert denied


@pytest.mark.soak
def test_soak() -> None:
    first = random.SystemRandom().randrange(10**9)
    for seed in range(first, first + 300):
        sys.stdout.write(f"seed {seed}\n")
        compared(seed)


def test_decisions_are_equal_on_neighbouring_data() -> None:
    clinic, told = drawn(2), []
    for other in (10, 20):
        with watched(clinic, other) as session:
            told.append([(outcome, said.reason) for _, _, outcome, said in played(clinic, session)])
    assert told[0] == told[1]


def test_the_proof_names_the_sum_that_would_be_known() -> None:
    table = pa.table({"p": ["Ann", "Ann", "Bob", "Cyd"], "y": [1, 2, 1, 1], "cost": [3, 5, 7, 11]})
    with watch(table, private="cost:0..", exact_above=1, id="p", table="t") as session:
        session.ask("SELECT SUM(cost) FROM t")
        said = session.ask("SELECT SUM(cost) FROM t WHERE p <> 'Ann'").admission
        assert said is not None
        assert (said.who[0].form, said.who[0].rows) == ("total cost of 2 records", (0, 1))
        assert [(s["query"], s["weight"]) for s in said.steps()] == [("1", "1"), ("2", "-1")]
        said = session.ask("SELECT SUM(cost * y) FROM t WHERE p = 'Ann'").admission
        assert said is not None
        assert said.who[0].form == "cost: record 1 + 2 × record 2"
        said = session.ask("SELECT SUM(cost) FROM t WHERE y = 2").admission
        assert said is not None
        assert said.who[0].form == "cost of record 2"


# --- other tables -----------------------------------------------------------------------------------------------------

TOLD = """
[source]
table = "adm"
[columns]
id = ["pid"]
[columns.private.cost]
kind = "integer"
min = 0
[online]
exact_above = 1
[tables.diag]
keys = ["pid", "hadm"]
private = {private}
"""
ROWS_ASKED = (
    "SELECT COUNT(DISTINCT adm.pid) FROM adm JOIN diag ON adm.hadm = diag.hadm WHERE title = 'flu'",
    "SELECT COUNT(DISTINCT adm.pid) FROM adm JOIN diag ON adm.hadm = diag.hadm WHERE title = 3",
    "SELECT COUNT(DISTINCT diag.pid) FROM adm JOIN diag ON adm.hadm = diag.hadm",
    "SELECT SUM(cost) FROM adm WHERE EXISTS (SELECT 1 FROM diag WHERE diag.pid = adm.pid AND title = 'flu')",
    "SELECT COUNT(*) FROM adm WHERE pid IN (SELECT pid FROM diag WHERE title < 'x')",
    "SELECT COUNT(*) FROM adm JOIN diag USING (hadm) WHERE title IS NOT NULL",
    "SELECT MAX(title) FROM adm JOIN diag USING (hadm)",
)


def folder(place: Path, diag: str, kind: str = "csv") -> Path:
    place.mkdir(parents=True, exist_ok=True)
    (place / "adm.csv").write_text("pid,hadm,st,cost\n1,11,CA,3\n1,12,NY,5\n2,13,CA,7\n3,14,NY,11\n4,15,CA,13\n")
    (place / "diag.csv").write_text(f"pid,hadm,title\n{diag}")
    if kind == "csv":
        return place
    con = duckdb.connect(str(place / "h.duckdb"))
    con.execute(f"CREATE TABLE adm AS FROM '{place / 'adm.csv'}'")
    con.execute(f"CREATE TABLE diag AS FROM read_csv('{place / 'diag.csv'}', types = {{'title': 'VARCHAR'}})")
    con.close()
    return place / "h.duckdb"


@pytest.mark.parametrize("kind", ["csv", "duckdb"])
def test_what_is_in_private_rows_is_refused_in_the_same_words_whatever_is_in_them(tmp_path: Path, kind: str) -> None:
    told = []
    for at, diag in enumerate(("1,11,flu\n2,13,flu\n", "1,11,3\n2,15,4\n3,14,\n")):
        with watch(
            folder(tmp_path / str(at), diag, kind), config=Config.parse(TOLD.format(private='"all"'))
        ) as session:
            replies = [session.ask(sql) for sql in ROWS_ASKED]
            assert {reply.outcome for reply in replies} == {Outcome.REFUSED}
            assert all("rows of diag" in reply.reason for reply in replies)
            told.append([reply.reason for reply in replies])
    assert told[0] == told[1]


def test_rows_that_are_public_are_public_conditions(tmp_path: Path) -> None:
    config = Config.parse(TOLD.format(private='["title"]'))
    data = folder(tmp_path, "1,11,flu\n2,13,flu\n3,14,asthma\n")
    having = "EXISTS (SELECT 1 FROM diag WHERE diag.pid = adm.pid)"
    with open_session(config, data=data, book=tmp_path / "b.keyhole") as session:
        told = session.ask(f"SELECT SUM(cost) FROM adm WHERE {having}")
        assert told.exact == (({}, (26,)),)
        assert session.ask("SELECT SUM(cost) FROM adm WHERE pid IN (SELECT pid FROM diag WHERE hadm < 14)").outcome is (
            Outcome.DENIED  # the difference is what 3 paid
        )
        assert session.ask("SELECT SUM(cost) FROM adm").outcome is Outcome.DENIED  # 4 has no row
        assert session.ask(f"SELECT COUNT(DISTINCT pid) FROM adm WHERE {having}").exact == (({}, (3,)),)
        assert "rows of diag" in session.ask(ROWS_ASKED[0]).reason
    folder(tmp_path, "1,11,flu\n2,13,flu\n4,15,asthma\n")
    with pytest.raises(BookError, match="other data"):
        open_session(config, data=data, book=tmp_path / "b.keyhole")


def test_private_rows_do_not_reach_the_roster(tmp_path: Path) -> None:
    marks = set()
    for at, diag in enumerate(("1,11,flu\n", "2,13,asthma\n")):
        given = settings(Config.parse(TOLD.format(private='"all"')), data=folder(tmp_path / str(at), diag))
        roster = open_table(given, Use.WATCH).roster
        names = [str(row[0]) for row in roster._con.execute("SHOW ALL TABLES").fetchall()]
        assert not any("diag" in name for name in names)
        marks.add((roster.fingerprint(), str(roster.schema)))
    assert len(marks) == 1


# --- the book ---------------------------------------------------------------------------------------------------------


def test_what_was_allowed_counts_after_a_restart_in_any_order_of_rows(tmp_path: Path) -> None:
    table = pa.table({"p": ["a", "a", "b", "c", "c"], "y": [1, 2, 1, 1, 2], "cost": [3, 5, 7, 11, 13]})
    book = tmp_path / "b.keyhole"
    with watch(table, private="cost:0..", exact_above=1, id="p", table="t", book=book) as session:
        assert session.ask("SELECT SUM(cost) FROM t").outcome is Outcome.ALLOWED
    with watch(table.take([4, 2, 0, 3, 1]), private="cost:0..", exact_above=1, id="p", table="t", book=book) as session:
        assert session.ask("SELECT SUM(cost) FROM t").reason == "it follows from what was answered before"
        assert session.ask("SELECT SUM(cost) FROM t WHERE p <> 'c'").outcome is Outcome.DENIED
    later = Config.parse('[source]\nversion = "2"')
    with pytest.raises(BookError, match="several rows now"):
        watch(table.slice(0, 4), config=later, private="cost:0..", exact_above=1, id="p", table="t", book=book)
    with pytest.raises(BookError):  # nor is it forgotten when everybody has one row
        watch(table.slice(1, 3), config=later, private="cost:0..", exact_above=1, id="p", table="t", book=book)


def test_a_person_with_too_many_records_is_refused_from_public_things(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(participants, "MOST_CELLS", 30)
    table = pa.table({"p": [1, 1, 1, 1, 1, 1, 2], "cost": [1, 2, 3, 4, 5, 6, 7]})
    with pytest.raises(ConfigError, match="6 of 7 records are of one person"):
        watch(table, private="cost:0..", exact_above=1, id="p")


# --- extremes ---------------------------------------------------------------------------------------------------------

EXTREMES = Config.parse(
    '[columns]\nid = ["p"]\n[columns.private.cost]\nkind = "integer"\nfamily = "minmax"\nmax = 1000\n'
    "[online]\nexact_above = 1"
)


def test_extremes_are_of_people_and_of_all_their_records() -> None:
    table = pa.table({"p": [1, 1, 2, 3, 3], "y": [1, 2, 1, 1, 2], "cost": [3, 5, 7, 11, 13]})
    with watch(table, config=EXTREMES, table="t") as session:
        assert session.ask("SELECT MAX(cost) FROM t WHERE p = 1").outcome is Outcome.DENIED  # two records, one person
        assert session.admit("SELECT MAX(cost) FROM t WHERE p <= 2").allowed
        session.record("SELECT MAX(cost) FROM t WHERE p <= 2", Decimal(7))
        assert session.ask("SELECT MAX(cost) FROM t WHERE p >= 2").outcome is Outcome.DENIED  # above 7 it is that of 3
        assert "some records of a person" in session.ask("SELECT MAX(cost) FROM t WHERE y = 1").reason
        assert session.ask("SELECT SUM(cost) FROM t").outcome is Outcome.REFUSED


ADMITTED = "patient,admission,cost,stay\nAnn,1,30,7\nAnn,2,41,8\nBob,3,52,9\nCyd,4,38,7\nCyd,4,3,1\n"
EXCHANGED = {
    "costs of one person's two records": ("1,30,7", "1,41,7", "2,41,8", "2,30,8"),
    "one of two private columns, of records that are else alike": ("4,38,7", "4,3,7", "4,3,1", "4,38,1"),
}


@pytest.mark.parametrize("one", EXCHANGED)
def test_values_exchanged_between_records_of_one_person_are_a_change(tmp_path: Path, one: str) -> None:
    """82 before and 93 after the exchange would tell the difference of Ann's two costs."""
    columns = "[columns]\nid = ['patient']\n[columns.private.cost]\nmin = 0\n[columns.private.stay]\nmin = 0\n"
    columns += "[online]\nexact_above = 1\n"
    written(tmp_path, {"adm.csv": ADMITTED, "k.toml": f"[source]\ndata = 'adm.csv'\nversion = '1'\n{columns}"})
    config, asked = ("-c", str(tmp_path / "k.toml")), "SELECT SUM(cost) FROM adm WHERE admission IN (1, 3)"
    assert call("ask", *config, asked)[0] == 0
    lines = ADMITTED.splitlines(keepends=True)
    written(tmp_path, {"adm.csv": "".join([lines[0], *reversed(lines[1:])])})
    assert call("ask", *config, asked)[0] == 0  # the order of rows says nothing
    first, as_first, second, as_second = EXCHANGED[one]
    written(tmp_path, {"adm.csv": ADMITTED.replace(second, as_second).replace(first, as_first, 1)})
    for *text, stdin in ((asked.replace("SUM", "AVG"), ""), ("--decide-only", asked)):
        code, out, err = call("ask", *config, *text, stdin=stdin)
        assert (code, out) == (2, "")
        assert "was kept for other data: private values of 'cost" in err
