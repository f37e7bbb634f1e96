"""Several records a person, and rows of other tables: what an attack says of them, against ranks and enumeration."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.laws.brute import rank

import keyhole
from keyhole.api.attack import attack
from keyhole.api.attack_result import Attacked
from keyhole.config import Config
from keyhole.errors import ContradictionError, DataError

SEEDS = (0, 1, 5, 5051)
WHERE: dict[str, Callable[[int, int], bool]] = {
    "TRUE": lambda p, y: True,
    "y = 1": lambda p, y: y == 1,
    "p <> 1": lambda p, y: p != 1,
    "p <= 2": lambda p, y: p <= 2,
    "p <> 2 AND y = 2": lambda p, y: p != 2 and y == 2,
    "p = 1 OR y = 1": lambda p, y: p == 1 or y == 1,
}


def totals_compared(seed: int) -> int:
    """A total is certain iff the answers determine it, and then it is the true one; how many were."""
    draw = random.Random(seed)
    sizes = [2, *(draw.choice((1, 2, 3)) for _ in range(3))]
    p = [i for i, k in enumerate(sizes, 1) for _ in range(k)]
    y = [draw.randrange(1, 3) for _ in p]
    cost = [draw.randrange(1, 1000) for _ in p]
    asked, rows = [], []
    for where in draw.sample(list(WHERE), 4):
        chosen = [WHERE[where](a, b) for a, b in zip(p, y, strict=True)]
        asked.append((f"SELECT SUM(cost) FROM t WHERE {where}", sum(c for c, k in zip(cost, chosen, strict=True) if k)))
        rows.append([Fraction(k) for k in chosen])
    found = attack(asked, data=pa.table({"p": p, "y": y}), private="cost", id="p", table="t")

    def determined(form: list[int]) -> bool:
        return rank([*rows, [Fraction(v) for v in form]]) == rank(rows)

    said = {int(str(t.label["p"])): t for t in found.totals}
    assert set(said) == {i for i, k in enumerate(sizes, 1) if k > 1}
    for i, total in said.items():
        assert total.rows == tuple(r for r, who in enumerate(p) if who == i)
        assert total.certain == determined([who == i for who in p]), (seed, i)
        if total.certain:
            assert total.total == pytest.approx(sum(c for c, who in zip(cost, p, strict=True) if who == i))
            assert total.error == 0
        else:
            assert total.error > 0
    sure = found.found[0][2].confidence == 0
    for r in np.flatnonzero(sure).tolist():
        assert determined([k == r for k in range(len(p))]), (seed, r)
    assert found.rows == tuple(range(len(p)))
    return sum(t.certain for t in said.values())


def test_totals_are_certain_where_the_answers_determine_them() -> None:
    assert sum(map(totals_compared, SEEDS))


# --- rows of other tables ---------------------------------------------------------------------------------------------

TOLD = """
[source]
table = "visit"
[columns]
id = ["p"]
[columns.private.cost]
[tables.dx]
keys = ["p", "v"]
private = "all"
"""
EXISTS = "EXISTS (SELECT 1 FROM dx WHERE dx.v = visit.v AND dx.code = 'x')"
SOME = "visit JOIN dx ON dx.v = visit.v WHERE dx.code = 'x'"


class Clinic:
    """Visits of people, and which of them have a row: the second meaning of each statement in Python."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        sizes = [draw.choice((1, 1, 2)) for _ in range(draw.randrange(3, 6))]
        self.p = [i for i, k in enumerate(sizes, 1) for _ in range(k)]
        self.sex = [draw.choice("wm") for _ in self.p]
        self.has = tuple(draw.random() < 0.5 for _ in self.p)
        kinds = [draw.choice(("rows", "people")) for _ in range(draw.randrange(1, 4))]
        self.asked = [(kind, draw.choice(("w", "m", "wm"))) for kind in kinds]
        self.cost = [draw.randrange(100) for _ in self.p]

    def answer(self, kind: str, sexes: str, has: tuple[bool, ...]) -> int:
        found = [who for who, sex, h in zip(self.p, self.sex, has, strict=True) if h and sex in sexes]
        return len(found) if kind == "rows" else len(set(found))

    def log(self) -> list[tuple[str, int]]:
        found = []
        for kind, sexes in self.asked:
            public = f"sex IN ({', '.join(repr(s) for s in sexes)})"
            rows, people = (
                f"SELECT COUNT(*) FROM visit WHERE {public} AND {EXISTS}",
                f"SELECT COUNT(DISTINCT visit.p) FROM {SOME} AND {public}",
            )
            found.append((rows if kind == "rows" else people, self.answer(kind, sexes, self.has)))
        return found

    def stored(self, place: Path) -> Path:
        lines = zip(self.p, range(len(self.p)), self.sex, self.cost, strict=True)
        (place / "visit.csv").write_text("p,v,sex,cost\n" + "".join(f"{p},{10 + v},{s},{c}\n" for p, v, s, c in lines))
        rows = "".join(
            f"{p},{10 + v},{'x' if h else 'y'}\n" for v, (p, h) in enumerate(zip(self.p, self.has, strict=True))
        )
        (place / "dx.csv").write_text(f"p,v,code\n{rows}")
        return place

    def shares(self) -> np.ndarray[Any, Any]:
        """How often each visit has a row, among all tables with the same answers."""
        told = [self.answer(*asked, self.has) for asked in self.asked]
        worlds = [
            w for w in product((False, True), repeat=len(self.p)) if [self.answer(*a, w) for a in self.asked] == told
        ]
        return np.array(worlds, dtype=float).mean(axis=0)


def attacked_clinic(clinic: Clinic, place: Path) -> Attacked:
    log = [("SELECT SUM(cost) FROM visit", sum(clinic.cost)), *clinic.log()]
    return attack(log, data=str(clinic.stored(place)), config=Config.parse(TOLD))


def rows_compared(seed: int, place: Path) -> tuple[int, int]:
    """What is proved is so in all tables; a chance is the share of the tables, where sums alone are asked."""
    clinic = Clinic(seed)
    found, shares = attacked_clinic(clinic, place), clinic.shares()
    plain = all(kind == "rows" for kind, _ in clinic.asked)
    asked = {r for _, sexes in clinic.asked for r, sex in enumerate(clinic.sex) if sex in sexes}
    seen, proved = set(), 0
    for each in found.features:
        (r,) = each.rows
        seen.add(r)
        proved += each.proved
        assert not each.proved or shares[r] == each.chance, (seed, r)
        assert each.proved or not plain or abs(shares[r] - float(each.chance or 0)) < 1e-9, (seed, r)
        assert each.proved == (shares[r] in (0, 1)) or not plain, (seed, r)
    assert seen == asked if plain else seen <= asked
    return proved, len(seen) - proved


def test_rows_of_people_are_proved_or_guessed_as_all_tables_say(tmp_path: Path) -> None:
    found = [rows_compared(seed, tmp_path) for seed in (3, 7, 8, 11, 27, 37)]
    assert sum(proved for proved, _ in found) >= 2
    assert sum(guessed for _, guessed in found) >= 2


@pytest.mark.soak
def test_soak(tmp_path: Path) -> None:
    first = random.SystemRandom().randrange(10**9)
    for seed in range(first, first + 300):
        sys.stdout.write(f"seed {seed}\n")
        totals_compared(seed)
        rows_compared(seed, tmp_path)


# --- odd input --------------------------------------------------------------------------------------------------------


def test_counts_that_cannot_be_true_and_noisy_ones_are_not_used(tmp_path: Path) -> None:
    data, config = str(Clinic(3).stored(tmp_path)), Config.parse(TOLD)
    count = f"SELECT COUNT(*) FROM visit WHERE {EXISTS}"
    found = attack([("SELECT SUM(cost) FROM visit", 5), (count, 99)], data=data, config=config)
    assert not found.features
    assert any("cannot all be true" in w for w in found.warnings)
    noisy = {"sql": count, "answer": 2, "noise": {"kind": "laplace", "scale": 1}}
    found = attack([{"sql": "SELECT SUM(cost) FROM visit", "answer": 5}, noisy], data=data, config=config)
    assert not found.features
    assert any("query 2 " in w for w in found.warnings)


def test_who_has_the_visits_alone_can_attack_them(tmp_path: Path) -> None:
    """The outsider's file has no private rows: what is asked about them is passed over, and said so."""
    Clinic(3).stored(tmp_path)
    (tmp_path / "dx.csv").unlink()
    count = f"SELECT COUNT(*) FROM visit WHERE {EXISTS}"
    for data in (tmp_path, tmp_path / "visit.csv"):
        found = attack([("SELECT SUM(cost) FROM visit", 5), (count, 1)], data=str(data), config=Config.parse(TOLD))
        assert any("statement 2 is not used" in w for w in found.warnings)


def test_the_truth_is_matched_record_by_record() -> None:
    roster = pa.table({"p": [1, 1, 2], "y": [1, 2, 1]})
    asked = [("SELECT SUM(cost) FROM t WHERE y = 2", 5), ("SELECT SUM(cost) FROM t WHERE p = 1", 8)]
    whole = roster.append_column("cost", pa.array([3, 5, 7]))
    found = attack(asked, data=roster, private="cost", id="p", table="t", truth=whole)
    assert found.truths["cost"] == [3, 5, 7]
    assert found.scores["cost"].exact == pytest.approx(2 / 3)
    for wrong in (whole.slice(1), pa.concat_tables([whole, whole.slice(2)])):
        with pytest.raises(DataError, match="cannot be matched"):
            attack(asked, data=roster, private="cost", id="p", table="t", truth=wrong)


def test_in_json_a_record_has_its_row_and_a_person_his_total() -> None:
    found = keyhole.attack(
        [("SELECT SUM(cost) FROM t WHERE p = 1", 8)], data=pa.table({"p": [1, 1, 2]}), private="cost", id="p", table="t"
    ).to_json()
    assert [e["row"] for e in found["estimates"]] == [1, 2, 3]
    assert found["people"] == [
        {"record": {"p": 1}, "column": "cost", "rows": [1, 2], "total": 8.0, "confidence": 0.0, "certain": True}
    ]


# --- answers about the records of one person together -----------------------------------------------------------------

ADMITTED = pa.table({"p": ["Ann", "Ann", "Bob", "Cyd", "Cyd"], "admission": [1, 2, 3, 4, 5]})
GRID = "[columns]\nid = ['p']\n[columns.private.cost]\nmin = 0\nmax = 3\nstep = 1\n"
ANN = "SELECT {} FROM adm WHERE p = 'Ann'"


def of_ann(*asked: tuple[str, int], columns: str = GRID, data: pa.Table = ADMITTED, method: str = "auto") -> Attacked:
    log = [(ANN.format(what), answer) for what, answer in asked]
    return attack(log, data=data, config=Config.parse(columns), table="adm", method=method)


def test_a_total_that_is_known_is_not_the_only_table() -> None:
    shared = of_ann(("SUM(cost)", 3)).to_json()  # 0 + 3, 1 + 2, 2 + 1, 3 + 0
    assert shared["method"] == "integer"
    assert "the only table" not in shared["note"]
    assert "not who has which" in shared["note"]
    assert [(t["record"], t["total"], t["certain"]) for t in shared["people"]] == [({"p": "Ann"}, 3, True)]
    alone = of_ann(("SUM(cost)", 6), data=ADMITTED.slice(0, 2)).to_json()
    assert "the only table that meets every answer" in alone["note"]
    beside = of_ann(("SUM(cost)", 6)).to_json()  # nothing is said of Bob and Cyd
    assert "the only table" not in beside["note"]


@pytest.mark.parametrize("columns", [GRID, GRID.replace("step = 1\n", ""), GRID.partition("min")[0]])
def test_answers_that_contradict_an_extreme_are_refused(columns: str) -> None:
    with pytest.raises(ContradictionError, match=r"queries 1, 2|query 1, query 2"):
        of_ann(("SUM(cost)", 6), ("MAX(cost)", 2), columns=columns)
    assert of_ann(("SUM(cost)", 4), ("MAX(cost)", 2), columns=columns).ranges["cost"][0][:2].tolist() == [2, 2]


def test_probabilities_know_an_extreme() -> None:
    """A total of 3 with nobody above 2: 1 + 2 or 2 + 1."""
    both = of_ann(("SUM(cost)", 3), ("MAX(cost)", 2)).to_json()
    assert [(e["value"], e["confidence"]) for e in both["estimates"][:2]] == [(1, 0.5), (1, 0.5)]
    assert "MAX" not in both["note"]
    assert "MAX" not in of_ann(("SUM(cost)", 3)).to_json()["note"]
