"""The questions of an attack on a yes-or-no oracle, written down as a transcript and audited."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import keyhole
from keyhole.checker import Outcome, replay
from keyhole.oracle import DatabaseOracle, OnlineBisection, Subspace, UniformNoise
from keyhole.oracle.bisection import PublishedConstants
from keyhole.report.verdict import Verdict

NAMES = ["ann", "bob", "cyd", "dan"]
PAY = [0.125, 0.75, 0.5, 0.25]
SCALE = 0.125


class Impatient(PublishedConstants):
    """Cuts after one answer in every direction: the attack may go wrong, what its questions prove does not."""

    def n_crit(self, horizon: int, gap: float) -> float:
        return 1.0


def data() -> pa.Table:
    return pa.table({"name": NAMES, "pay": PAY})


def asked(questions: int, noise: float, seed: int = 0) -> list[dict[str, Any]]:
    """What OnlineBisection asks about one person after the other, with the answers of a noisy database."""
    rng = random.Random(seed)
    law = UniformNoise(max(noise, 1e-3))
    attack = OnlineBisection(Subspace.blocks(4, 4), law, horizon=10**6, constants=Impatient())
    oracle = DatabaseOracle(lambda _sql: True, table="t", column="pay", key="name", ids=NAMES)
    lines = []
    for k in range(questions):
        q = np.eye(4)[k % 4]
        threshold = attack.threshold(q)
        assert threshold is not None
        bit = bool(q @ PAY + rng.uniform(-noise, noise) > threshold)
        attack.learn(q, threshold, int(bit))
        line: dict[str, Any] = {"sql": oracle.statement(q, threshold), "answer": bit}
        lines.append(line | ({"noise": {"kind": "uniform", "scale": noise}} if noise else {}))
    return lines


def audited(lines: list[dict[str, Any]]) -> Verdict:
    return keyhole.examine(lines, data=data(), private="pay:0..1", id="name")


def ranges(verdict: Verdict) -> list[tuple[Fraction, Fraction]]:
    return [(Fraction(str(i["lo"])), Fraction(str(i["hi"]))) for i in verdict.to_json()["intervals"]]


@pytest.mark.parametrize("noise", [0.0, SCALE])
def test_the_audit_proves_what_the_questions_tell(noise: float) -> None:
    """The truth is inside, the ranges only narrow, and the box of the attack is not needed for either."""
    lines = asked(48, noise)
    before = [(Fraction(0), Fraction(1))] * 4
    for upto in range(4, len(lines) + 1, 4):
        verdict = audited(lines[:upto])
        assert not verdict.contradictions
        assert verdict.to_json()["statements"]["noisy"] == (upto if noise else 0)
        after = ranges(verdict)
        for true, (low, high), (lo, hi) in zip(PAY, before, after, strict=True):
            assert low <= lo <= Fraction(true) <= hi <= high
        before = after
    assert all(hi - lo < Fraction(3, 4) for lo, hi in before)
    if not noise:
        assert all(hi - lo <= Fraction(1, 8) for lo, hi in before)


def test_a_transcript_of_questions_is_replayed(tmp_path: Path) -> None:
    (tmp_path / "asked.jsonl").write_text("\n".join(map(json.dumps, asked(16, SCALE))), encoding="utf-8")
    pyarrow.csv.write_csv(data(), tmp_path / "t.csv")
    verdict = keyhole.examine(tmp_path / "asked.jsonl", data=tmp_path / "t.csv", private="pay:0..1", id="name")
    found = replay(verdict.dumps(), tmp_path / "t.csv", bits=16).checked
    assert len(found) == 4
    assert all(c.outcome is Outcome.HOLDS for c in found), [(c.outcome, c.why) for c in found]
    told = verdict.to_json()
    for entry in told["intervals"]:  # a constant that is moved by a hair is a false proof
        proofs = [entry["proof"], *(known["proof"] for known in entry["certificate"].get("known", ()))]
        for item in (item for proof in proofs for item in proof):
            if "test" in item:
                item["test"]["value"] = str(Fraction(item["test"]["value"]) + Fraction(1, 1000))
    false = replay(json.dumps(told), tmp_path / "t.csv", bits=16).checked
    assert {c.outcome for c in false} == {Outcome.FAILS}


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "unknown"])
def test_unbounded_noise_proves_nothing_and_is_no_all_clear(kind: str) -> None:
    law = {"kind": "unknown"} if kind == "unknown" else {"kind": kind, "scale": 0.001}
    verdict = audited([line | {"noise": law} for line in asked(12, 0.0)])
    assert not verdict.findings
    assert not verdict.ranges
    assert not verdict.unjudged
    assert (verdict.exit_code, verdict.complete) == (3, False)
    assert verdict.to_json()["statements"]["noisy"] == 12
    assert "noisy without a bound" in verdict.text()
