"""The posterior of categories behind exact, suppressed and noisy counts, through SQL, against every table there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keyhole

RATES = {"A": 0.5, "B": 0.2, "C": 0.3}
CONDITIONS = {"status = 'C'": "C", "status IN ('A', 'B')": "AB", "status <> 'A'": "BC", "status = 'B'": "B"}


def every_table(n: int) -> np.ndarray[Any, Any]:
    """All tables of n people with 3 categories, one a row."""
    tables = np.zeros((3**n, n), dtype=np.int8)
    for i in range(n):
        tables[:, i] = (np.arange(3**n) // 3**i) % 3
    return tables


def asked(rng: np.random.Generator, n: int, questions: int) -> tuple[list[dict[str, Any]], np.ndarray[Any, Any]]:
    """A log whose answers are exact, suppressed to a range, Gaussian or Laplace in turn; and log P(answers | table)."""
    status = rng.choice(list(RATES), n, p=list(RATES.values()))
    tables = every_table(n)
    lines, log = [], np.zeros(len(tables))
    for j in range(questions):
        who = np.flatnonzero(rng.random(n) < 0.5)
        words, held = list(CONDITIONS.items())[int(rng.integers(len(CONDITIONS)))]
        true = int(np.isin(status[who], list(held)).sum())
        counts = np.isin(tables[:, who], ["ABC".index(c) for c in held]).sum(axis=1)
        line: dict[str, Any] = {"sql": f"SELECT COUNT(*) FROM r WHERE {words} AND who IN ({', '.join(map(str, who))})"}
        if j % 4 == 0:
            line["answer"] = true
            log += np.where(counts == true, 0.0, -np.inf)
        elif j % 4 == 1:
            line["answer"] = {"suppressed": [max(true - 1, 0), true + 1]}
            log += np.where(np.abs(counts - true) <= 1, 0.0, -np.inf)
        else:
            kind = "gaussian" if j % 4 == 2 else "laplace"
            y = round(true + float(rng.normal(0, 1) if kind == "gaussian" else rng.laplace(0, 1)), 3)
            line |= {"answer": y, "noise": {"kind": kind, "scale": 1}}
            log -= (counts - y) ** 2 / 2 if kind == "gaussian" else np.abs(counts - y)
        lines.append(line)
    return lines, log + np.log(list(RATES.values()))[tables].sum(axis=1)


def compare(folder: Path, seed: int, n: int, questions: int) -> None:
    """Guess and probability of every person to three decimals."""
    rng = np.random.default_rng([seed, n])
    lines, log = asked(rng, n, questions)
    (folder / "r.csv").write_text("who\n" + "\n".join(map(str, range(n))) + "\n")
    (folder / "l.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    prior = ", ".join(f"{k} = {v}" for k, v in RATES.items())
    listed = json.dumps(list(RATES))
    (folder / "k.toml").write_text(
        f'[columns]\nid = ["who"]\n[columns.private.status]\nvalues = {listed}\nprior = {{{prior}}}\n'
    )
    found = keyhole.attack(folder / "l.jsonl", data=folder / "r.csv", config=folder / "k.toml").to_json()
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    tables = every_table(n)
    chance = np.array([[weight[tables[:, i] == c].sum() for c in range(3)] for i in range(n)])
    for entry in found["estimates"]:
        own = chance[int(entry["record"]["who"])]
        assert entry["confidence"] == pytest.approx(own.max(), abs=5e-4)
        assert own["ABC".index(entry["value"])] == pytest.approx(own.max(), abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_mixed_counts_of_categories_are_every_table(seed: int, tmp_path: Path) -> None:
    compare(tmp_path, seed, 9, 8)


@pytest.mark.soak
def test_the_same_at_fourteen(tmp_path: Path) -> None:
    compare(tmp_path, int(np.random.SeedSequence().entropy or 0) % 10**9, 14, 10)
