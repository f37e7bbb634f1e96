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
from click.testing import CliRunner

import keyhole
from keyhole.checker import Outcome, replay
from keyhole.checker.order import conditional
from keyhole.cli.root import app
from keyhole.oracles import DatabaseOracle, OnlineBisection, Spread, Subspace, UniformNoise
from keyhole.oracles.learners import choose_learner
from keyhole.oracles.learners.bisection import PublishedConstants
from keyhole.oracles.noise import parse_noise
from keyhole.oracles.simulate import play_game
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
    return keyhole.audit(lines, data=data(), private="pay:0..1", id="name")


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
    verdict = keyhole.audit(tmp_path / "asked.jsonl", data=tmp_path / "t.csv", private="pay:0..1", id="name")
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


def simulated(folder: Path, *options: str) -> tuple[list[dict[str, Any]], Path]:
    """The questions that `keyhole oracle simulate --log` writes, and the table beside them."""
    log = folder / "asked.jsonl"
    said = CliRunner().invoke(app, ["oracle", "simulate", "--seeds", "1", "--log", str(log), *options])
    assert said.exit_code == 0, said.output
    return [json.loads(line) for line in log.read_text().splitlines()], folder / "asked.csv"


@pytest.mark.parametrize("method", ["sequential", "newton", "edge"])
def test_simulated_questions_are_audited_query_by_query(tmp_path: Path, method: str) -> None:
    """With bounded noise the proved ranges hold the truth at every step, and their proofs are replayed."""
    shape = ("--dimension", "3", "--subspace", "3", "--queries", "18", "--noise", "uniform:0.03")
    lines, table = simulated(tmp_path, "--learner", method, *shape)
    hidden = [float(row["w"]) for row in pyarrow.csv.read_csv(table).to_pylist()]
    before = [(Fraction(0), Fraction(1))] * len(hidden)
    for upto in (len(lines) // 3, len(lines)):
        verdict = keyhole.audit(lines[:upto], data=table, private="w:0..1", id="id")
        assert not verdict.contradictions
        after = ranges(verdict)
        for true, (low, high), (lo, hi) in zip(hidden, before, after, strict=True):
            assert low <= lo <= Fraction(true) <= hi <= high
        before = after
    assert any(hi - lo < 1 for lo, hi in before)
    found = replay(verdict.dumps(), table, bits=16).checked
    assert found
    assert all(c.outcome is Outcome.HOLDS for c in found), [(c.outcome, c.why) for c in found]


def test_the_log_is_the_game_that_is_scored(tmp_path: Path) -> None:
    lines, table = simulated(tmp_path, "--queries", "40", "--noise", "gaussian:0.02", "--stream", "spread")
    run = play_game(
        choose_learner("newton"), Spread(Subspace.blocks(4, 2)), parse_noise("gaussian:0.02", 4), 40, delta=0.01, seed=0
    )
    assert len(lines) == run.asked
    verdict = keyhole.audit(lines, data=table, private="w:0..1", id="id")
    assert (verdict.exit_code, len(verdict.ranges)) == (3, 0)
    assert "noisy without a bound" in verdict.text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--learner", "oracle-off", "--queries", "9"], "asks no yes/no questions"),
        (["--queries", "100001"], "take fewer --queries"),
    ],
)
def test_a_log_that_cannot_be_written_is_said(tmp_path: Path, options: list[str], words: str) -> None:
    said = CliRunner().invoke(app, ["oracle", "simulate", "--log", str(tmp_path / "asked.jsonl"), *options])
    assert said.exit_code == 2
    assert words in said.output
    assert not list(tmp_path.iterdir())


def test_a_weight_that_looks_at_private_values_is_not_replayed() -> None:
    """CASE over the id is a public weight; over the value itself it is a condition that made-up values may miss."""
    assert not conditional("SELECT SUM(w * CASE id WHEN 1 THEN 0.5 ELSE 2 END) > 1 FROM t WHERE id IN (1)", ["w"])
    for text in (
        "SELECT SUM(w * CASE WHEN w > 0.5 THEN 1 ELSE 2 END) > 1 FROM t",
        "SELECT SUM(w) y, SUM(CASE WHEN y > 1 THEN w ELSE 0 END) FROM t",
        "SELECT SUM(w * CASE id WHEN 1 THEN 2 END) > 1 FROM t WHERE w > 0.5",
        "SELECT SUM(CASE id WHEN 1 THEN CASE WHEN w > 1 THEN 1 END END) > 1 FROM t",
        "SELECT SUM(w) > 1 AND CASE WHEN MAX(v) > 1 THEN TRUE END FROM t",
    ):
        assert conditional(text, ["w"]), text
