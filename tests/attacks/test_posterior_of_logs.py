"""The posterior of whole logs, through SQL, against looking at every table: bits, categories, private conditions."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keyhole
from keyhole.attacks.base import Target
from keyhole.attacks.choose import run_attack
from keyhole.attacks.estimates.model_fit import fit_noise
from keyhole.attacks.problem.arrays import from_arrays
from keyhole.attacks.problem.assembly import assemble
from keyhole.attacks.problem.decoding_problem import NoiseLaw
from keyhole.model.prior import Prior
from keyhole.model.transcript import Noise

BIT = Prior(Decimal(0), Decimal(1), Decimal(1))


def attacked(tmp_path: Path, n: int, lines: list[dict[str, Any]], private: str, more: str = "") -> dict[str, float]:
    """Name -> (value, probability) of an attack through SQL."""
    (tmp_path / "r.csv").write_text("who\n" + "\n".join(map(str, range(n))) + "\n")
    (tmp_path / "l.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "k.toml").write_text(f'[columns]\nid = ["who"]\n{private}\n{more}')
    found = keyhole.attack(tmp_path / "l.jsonl", data=tmp_path / "r.csv", config=tmp_path / "k.toml")
    reply = found.to_json()
    return {e["record"]["who"]: (e["value"], e["confidence"]) for e in reply["estimates"]}


@pytest.mark.parametrize("kind", ["exact", "mixed", "noisy"])
def test_counts_of_a_category_at_fourteen(tmp_path: Path, kind: str) -> None:
    """COUNT(*) WHERE status = 'C' with values A-D and a base rate: 2^14 tables, to three decimals."""
    rng, n = np.random.default_rng(len(kind)), 14
    rates = {"A": 0.4, "B": 0.2, "C": 0.3, "D": 0.1}
    status = rng.choice(list(rates), n, p=list(rates.values()))
    lines, rows = [], []
    for j in range(7):
        who = np.flatnonzero(rng.random(n) < 0.5)
        true = int((status[who] == "C").sum())
        noisy = kind == "noisy" or (kind == "mixed" and j % 2)
        answer = true + float(rng.normal(0, 1)) if noisy else true
        listed = ", ".join(map(str, who))
        line = {"sql": f"SELECT COUNT(*) FROM r WHERE status = 'C' AND who IN ({listed})", "answer": answer}
        lines.append(line | ({"noise": {"kind": "gaussian", "scale": 1}} if noisy else {}))
        rows.append((np.isin(np.arange(n), who), answer, noisy))
    prior = ", ".join(f"{k} = {v}" for k, v in rates.items())
    text = f'[columns.private.status]\nvalues = ["A", "B", "C", "D"]\nprior = {{{prior}}}'
    found = attacked(tmp_path, n, lines, text)
    tables = np.array(list(product((0, 1), repeat=n)))
    log = np.where(tables == 1, np.log(0.3), np.log(0.7)).sum(axis=1)
    for held, answer, noisy in rows:
        off = tables @ held - answer
        log += -(off**2) / 2 if noisy else np.where(off == 0, 0.0, -np.inf)
    weight = np.exp(log - log.max())
    chance = weight @ tables / weight.sum()
    for i in range(n):
        value, sure = found[str(i) if str(i) in found else i]
        expected = {"C": chance[i], "A": (1 - chance[i]) * 0.4 / 0.7}
        assert value == max(expected, key=lambda k: expected[k])
        assert sure == pytest.approx(max(expected.values()), abs=1e-3)


def test_sums_and_conditions_on_a_bit_are_one_posterior(tmp_path: Path) -> None:
    """COUNT(*) WHERE c = 1 and SUM(c) say the same of the same people."""
    rng, n = np.random.default_rng(2), 14
    bits = rng.integers(0, 2, n)
    private = "[columns.private.c]\nmin = 0\nmax = 1\nstep = 1"
    found = []
    for sql in ("SELECT COUNT(*) FROM r WHERE c = 1 AND who IN ({})", "SELECT SUM(c) FROM r WHERE who IN ({})"):
        draw = np.random.default_rng(3)
        lines = []
        for _ in range(9):
            who = np.flatnonzero(draw.random(n) < 0.5)
            answer = float(bits[who].sum() + draw.laplace(0, 1.5))
            text = sql.format(", ".join(map(str, who)))
            lines.append({"sql": text, "answer": round(answer, 6), "noise": {"kind": "laplace", "scale": 1.5}})
        found.append(attacked(tmp_path, n, lines, private))
    for who, (value, sure) in found[0].items():
        assert float(value) == float(found[1][who][0])
        assert sure == pytest.approx(found[1][who][1], abs=1e-6)


def test_repeats_of_sticky_noise_add_nothing() -> None:
    rng = np.random.default_rng(5)
    A, x = rng.integers(0, 2, (40, 8)), rng.integers(0, 2, 8)
    y = A @ x + rng.normal(0, 2, 40)
    law = Noise("gaussian", Fraction(2))
    once = from_arrays(A, y.tolist(), noise=law, prior=BIT)
    often = from_arrays(np.tile(A, (3, 1)), np.tile(y, 3).tolist(), noise=law, prior=BIT)
    (_, a), (choice, b) = (run_attack("integer", Target.of(e), e) for e in (once, often))
    assert np.allclose(a.confidence, b.confidence)
    assert any("sticky" in said for said in choice.noise)


def test_clamping_is_seen_and_an_exact_log_stays_exact() -> None:
    rng = np.random.default_rng(6)
    A, x = (rng.random((300, 20)) < 0.2).astype(int), rng.integers(0, 2, 20)
    unit, every = Noise("gaussian", Fraction(1)), np.ones(300, dtype=bool)
    y = np.maximum(np.round(A @ x + rng.normal(0, 2, 300)), 0)
    e = from_arrays(A, y.tolist(), noise=unit, prior=BIT)
    fit = fit_noise(assemble(Target.of(e), e), every)
    held = fit.problem.law == NoiseLaw.GAUSSIAN_BETWEEN
    assert held.any()
    assert (fit.problem.y[held] == 0).all()
    assert fit.problem.scale[0] == pytest.approx(2, rel=0.2)
    e = from_arrays(A, (A @ x).tolist(), noise=unit, prior=BIT)
    fit = fit_noise(assemble(Target.of(e), e), every)
    assert (fit.problem.law == NoiseLaw.EXACT).all()


def test_a_suppressed_noisy_answer_is_a_range_not_a_zero(tmp_path: Path) -> None:
    noise = {"kind": "gaussian", "scale": 0.1}
    line = {"sql": "SELECT SUM(c) FROM r WHERE who IN (0, 1)", "answer": {"suppressed": [1.5, 4]}, "noise": noise}
    found = attacked(tmp_path, 3, [line], "[columns.private.c]\nmin = 0\nmax = 1\nstep = 1")
    assert [float(value) for value, _ in found.values()][:2] == [1.0, 1.0]
