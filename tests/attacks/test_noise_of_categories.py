"""Noise of counts under private conditions: an atom has several unknowns, and the fit uses them all up."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa

from keyhole.attacks import Target
from keyhole.attacks.choose import run_attack
from keyhole.attacks.estimates.model_fit import fit_noise
from keyhole.attacks.problem.assembly import assemble
from keyhole.attacks.problem.decoding_problem import Problem
from keyhole.config import Config
from keyhole.datasets import load_roster
from keyhole.gather import gather, transcribe
from keyhole.gather.evidence import Evidence
from keyhole.model.transcript import Line, Noise

CONFIG = Config.parse('[columns]\nid = ["who"]\n[columns.private.status]\nvalues = ["A", "B", "C", "D"]\n')


SEEDS = range(5)


@cache
def counted(seed: int) -> tuple[Evidence, np.ndarray]:
    """70 counts of categories of 20 people with Gaussian noise of deviation 2, rounded."""
    rng = np.random.default_rng(seed)
    status = rng.choice(list("ABCD"), 20)
    lines = []
    for j in range(1, 71):
        who, held = np.flatnonzero(rng.random(20) < 0.4), str(rng.choice(list("ABCD")))
        answer = Decimal(round(float((status[who] == held).sum() + rng.normal(0, 2))))
        listed = ", ".join(map(str, who)) or "-1"
        lines.append(Line(j, f"SELECT COUNT(*) FROM r WHERE status = '{held}' AND who IN ({listed})", answer, at=j))
    roster = load_roster(pa.table({"who": list(range(20))}), CONFIG.columns)
    return gather(transcribe(lines, roster, noise=Noise("gaussian", Fraction(2))), roster, CONFIG.knowledge()), status


def problem(seed: int) -> Problem:
    evidence, _ = counted(seed)
    return assemble(Target.of(evidence), evidence)


def test_the_scale_of_unstated_noise() -> None:
    found = [float(fit_noise(problem(s), np.ones(70, dtype=bool)).problem.scale[0]) for s in SEEDS]
    assert 1.7 < float(np.mean(found)) < 2.5, found  # it was below 1


def test_stated_noise_that_is_true_fits() -> None:
    for seed in SEEDS:
        assert fit_noise(problem(seed), np.zeros(70, dtype=bool)).messages == ()


def test_certainty_under_unstated_noise_is_earned() -> None:
    stated, right = [], []
    for seed in SEEDS:
        evidence, status = counted(seed)
        unstated = frozenset(e.number for e in evidence.transcript.entries)
        _, found = run_attack("auto", Target.of(evidence), evidence, unstated=unstated)
        stated.append(found.confidence)
        right.append(found.values == status)
    assert abs(float(np.mean(stated)) - float(np.mean(right))) < 0.12  # 100 records; it was .96 against .6
