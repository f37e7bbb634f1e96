"""Categories that no answer tells apart go by one name: the attack says C or not, and not which other one."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import keyhole

IDS, CATEGORIES = range(6), ("A", "B", "C", "D")
Asked = list[tuple[str, list[int]]]


def attack(truth: list[str], asked: Asked, private: str = "kind=A,B,C,D", method: str = "auto") -> dict[str, Any]:
    """What the attack says of counts of single categories."""
    table = pa.table({"id": list(IDS), "kind": truth})
    lines = []
    for c, ids in asked:
        inside = ", ".join(map(str, ids))
        answer = sum(truth[i] == c for i in ids)
        lines.append((f"SELECT COUNT(*) FROM t WHERE kind = '{c}' AND id IN ({inside})", answer))
    return keyhole.attack(
        lines, data=table.select(["id"]), table="t", id="id", private=private, truth=table, method=method
    ).to_json()


def chances(truth: list[str], asked: Asked, names: dict[str, str]) -> list[Counter[str]]:
    """By every table that gives these answers: how often each person has each name."""
    found = [Counter[str]() for _ in IDS]
    for table in product(CATEGORIES, repeat=len(truth)):
        if all(sum(table[i] == c for i in ids) == sum(truth[i] == c for i in ids) for c, ids in asked):
            for person, category in enumerate(table):
                found[person][names.get(category, category)] += 1
    return found


@pytest.mark.parametrize("seed", range(6))
def test_each_name_has_the_chance_that_all_tables_give_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.choice(CATEGORIES, len(IDS)).tolist()
    counted = ["C"] if seed % 2 else ["C", "A"]
    names = dict.fromkeys("ABD", "A, B or D") if seed % 2 else dict.fromkeys("BD", "B or D")
    asked = [(c, sorted(rng.choice(len(IDS), 3, replace=False).tolist())) for c in counted for _ in range(3)]
    told, right = attack(truth, asked), 0
    for person, (each, possible) in enumerate(zip(told["estimates"], chances(truth, asked, names), strict=True)):
        assert each["confidence"] == pytest.approx(max(possible.values()) / possible.total(), abs=1e-6)
        assert possible[each["value"]] == max(possible.values())
        right += each["value"] == names.get(truth[person], truth[person])
    assert told["score"]["exact"] == pytest.approx(right / len(IDS))
    assert told["score"]["prior_exact"] == (0.75 if seed % 2 else 0.5)


@pytest.mark.parametrize("method", ["bounded", "l1", "least-squares"])
@pytest.mark.parametrize("seed", range(3))
def test_other_methods_name_them_together_too(method: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.choice(CATEGORIES, len(IDS)).tolist()
    asked = [("C", sorted(rng.choice(len(IDS), 3, replace=False).tolist())) for _ in range(4)]
    possible = chances(truth, asked, dict.fromkeys("ABD", "A, B or D"))
    for each, counted in zip(attack(truth, asked, method=method)["estimates"], possible, strict=True):
        assert each["value"] in ("C", "A, B or D")
        assert each["confidence"] == pytest.approx(counted[each["value"]] / counted.total(), abs=1e-6)


def test_many_categories_are_named_by_what_they_are_not() -> None:
    truth = ["C", "A", "E", "C", "F", "B"]
    told = attack(truth, [("C", [k]) for k in IDS], "kind=A,B,C,D,E,F")
    assert [each["value"] for each in told["estimates"]] == ["C", "not C", "not C", "C", "not C", "not C"]
    assert told["score"]["exact"] == 1
    assert told["score"]["majority_exact"] == pytest.approx(4 / 6)


def test_where_every_category_is_counted_or_none_each_keeps_its_name() -> None:
    truth = ["C", "A", "D", "C", "B", "B"]
    told = attack(truth, [(c, [k]) for c in "ABC" for k in IDS])
    assert [each["value"] for each in told["estimates"]] == truth
    assert told["score"]["prior_exact"] == 0.25


def test_base_rates_that_prefer_one_keep_the_names_apart(tmp_path: Path) -> None:
    settings = tmp_path / "rates.toml"
    settings.write_text('[columns.private.kind]\nvalues = ["A", "B", "C", "D"]\nprior = {A = 0.7}\n')
    table = pa.table({"id": [1, 2]})
    asked = [("SELECT COUNT(*) FROM t WHERE kind = 'C' AND id = 1", 0)]
    found = keyhole.attack(asked, data=table, table="t", id="id", private="kind", config=settings)
    assert found.estimates().tolist() == ["A", "A"]
