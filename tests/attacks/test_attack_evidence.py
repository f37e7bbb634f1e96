"""From SQL logs to decoding problems: facts, private cells, categories, NULLs, thresholds, blocks, play, score."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.effort import effort

from keyhole.attacks.base import Reconstruction, Target, resume_attack, save_attack
from keyhole.attacks.choose import choose_method, run_attack
from keyhole.attacks.experiment import ExactResponder, NoisyResponder, play_attack, score_reconstruction
from keyhole.attacks.methods.bounded import Bounded
from keyhole.attacks.methods.integer import Integer
from keyhole.attacks.methods.kaczmarz import Kaczmarz
from keyhole.attacks.methods.l1 import L1
from keyhole.attacks.methods.least_squares import LeastSquares
from keyhole.attacks.problem.arrays import from_arrays, split_into_blocks
from keyhole.attacks.problem.assembly import assemble
from keyhole.attacks.replay import Tape, replay_tape
from keyhole.config import Config
from keyhole.datasets import load, load_roster
from keyhole.errors import CannotHonour, ConfigError, ContradictionError, DataError, LogError
from keyhole.gather import gather, transcribe
from keyhole.gather.evidence import Evidence
from keyhole.model.predicate import Comparison
from keyhole.model.prior import Knowledge, Prior
from keyhole.model.query import Aggregate, Query, Term
from keyhole.model.transcript import Line, Noise
from keyhole.solve.status import SolverStatus

PEOPLE: dict[str, list[Any]] = {
    "name": ["Ann", "Bob", "Cyd", "Dan", "Eve"],
    "team": ["a", "a", "b", "b", "b"],
    "pay": [10, 20, 30, 40, 50],
    "ill": ["flu", "cold", "flu", "none", "none"],
}


def evidence_of(log: list[tuple[str, Any]], toml: str, noise: Noise | None = None) -> Evidence:
    config = Config.parse(toml)
    public = {k: v for k, v in PEOPLE.items() if k not in config.columns.private}
    roster = load_roster(pa.table(public), config.columns)
    lines = [Line(i, sql, answer, at=i) for i, (sql, answer) in enumerate(log, 1)]
    known = config.knowledge()
    return gather(transcribe(lines, roster, noise=noise), roster, known)


PAY = '[columns]\nid = ["name"]\n[columns.private.pay]\nmin = 0\nmax = 100\n'


def estimate(make: Any, evidence: Evidence, column: str = "pay") -> Reconstruction:
    attack = make(Target.of(evidence, column))
    attack.observe(evidence)
    return attack.estimate()


def test_averages_sums_and_weights_become_rows() -> None:
    log = [
        ("SELECT AVG(pay) FROM t WHERE team = 'a'", 15),
        ("SELECT SUM(pay) FROM t WHERE name IN ('Ann', 'Cyd')", 40),
        ("SELECT SUM(pay) FROM t WHERE name = 'Cyd'", 30),
        ("SELECT SUM(2 * pay) FROM t WHERE name = 'Dan'", 80),
        ("SELECT SUM(pay) FROM t", 150),
    ]
    found = estimate(Bounded, evidence_of(log, PAY))
    assert found.values == pytest.approx([10, 20, 30, 40, 50], abs=1e-5)
    assert found.residual < 1e-6


def test_threshold_answers_narrow_the_bounded_attack_and_are_refused_by_least_squares() -> None:
    log = [
        ("SELECT SUM(pay) > 80 FROM t WHERE name = 'Eve'", True),
        ("SELECT SUM(pay) < 10 FROM t WHERE name = 'Ann'", True),
    ]
    evidence = evidence_of(log, PAY)
    for make in (Bounded, L1, Kaczmarz):
        found = estimate(make, evidence)
        assert found.values[4] >= 80 - 1e-6
        assert found.values[0] <= 10 + 1e-6
    bare = evidence_of(log, '[columns]\nid = ["name"]\n[columns.private.pay]\n')
    with pytest.raises(CannotHonour, match="one-sided"):
        estimate(LeastSquares, bare)


def test_rounded_and_suppressed_answers_are_intervals() -> None:
    log = [
        ("SELECT ROUND(SUM(pay), -1) FROM t WHERE team = 'a'", 30),
        ("SELECT SUM(pay) FROM t WHERE team = 'b'", {"suppressed": [110, 130]}),
    ]
    found = estimate(Bounded, evidence_of(log, PAY))
    assert 25 - 1e-5 <= found.values[0] + found.values[1] <= 35 + 1e-5
    assert 110 - 1e-5 <= found.values[2:].sum() <= 130 + 1e-5


def test_facts_equal_and_group_sums_are_equations_for_all() -> None:
    toml = (
        '[columns]\nid = ["name"]\n[columns.private.pay]\n'
        "[[facts]]\nwhere = \"name = 'Ann'\"\nequals = 10\n"
        "[[facts]]\nwhere = \"team = 'b'\"\nsum_min = 120\nsum_max = 120\n"
    )
    evidence = evidence_of([("SELECT SUM(pay) FROM t WHERE team = 'a'", 30)], toml)
    for make in (LeastSquares, Bounded, L1, Kaczmarz):
        found = estimate(make, evidence)
        assert found.values[:2] == pytest.approx([10, 20], abs=1e-5) or make is Kaczmarz
        assert found.values[2:].sum() == pytest.approx(120, abs=1e-4)


def test_a_fact_about_nobody_is_an_error() -> None:
    toml = PAY + "[[facts]]\nwhere = \"name = 'Zoe'\"\nmax = 5\n"
    evidence = evidence_of([("SELECT SUM(pay) FROM t", 150)], toml)
    with pytest.raises(ConfigError, match="fact 1 is about no record"):
        estimate(Bounded, evidence)


def test_private_conditions_are_refined_to_cells() -> None:
    log = [
        ("SELECT SUM(pay) FROM t WHERE pay > 25", 120),
        ("SELECT SUM(pay) FROM t", 150),
        ("SELECT COUNT(*) FROM t WHERE pay > 25 AND team = 'a'", 0),
        ("SELECT COUNT(*) FROM t WHERE pay > 25 AND team = 'b'", 3),
        ("SELECT SUM(pay) FROM t WHERE name = 'Ann'", 10),
    ]
    found = estimate(Bounded, evidence_of(log, PAY))
    assert found.values[:2] == pytest.approx([10, 20], abs=1e-4)
    assert found.values[2:].sum() == pytest.approx(120, abs=1e-4)
    assert (found.values[2:] >= 25 - 1e-4).all()


CONDITIONS = ["g = 1", "h = 0", "g < 2", "h = 1 AND g > 0", "name IN ('p0', 'p2')", "x > 5", "x <= 3", "x = 7"]
ASKED = ["SUM(x)", "COUNT(*)", "AVG(x)", "SUM(x) > 12", "ROUND(SUM(x), -1)"]


@given(st.integers(0, 2**32 - 1))
@example(261)  # every answer says nothing of anybody
@settings(max_examples=effort(25), deadline=None)
def test_true_answers_never_contradict_whatever_is_asked(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9))
    table = {"name": [f"p{i}" for i in range(n)], "x": rng.integers(0, 11, n).tolist()}
    table |= {"g": rng.integers(0, 3, n).tolist(), "h": rng.integers(0, 2, n).tolist()}
    config = Config.parse('[columns]\nid = ["name"]\n[columns.private.x]\nmin = 0\nmax = 10')
    source = load(pa.table(table), config.columns)
    lines = []
    for number in range(1, int(rng.integers(3, 8))):
        where = " AND ".join(rng.choice(CONDITIONS, int(rng.integers(0, 3)), replace=False))
        text = f"SELECT {rng.choice(ASKED)} FROM t" + (f" WHERE {where}" if where else "")
        lines.append(Line(number, text, at=number))
    known = config.knowledge()
    log = transcribe(lines, source.roster, source=source)
    evidence = gather(log, source.roster, known, source=source)
    if not evidence.systems:
        return
    found = run_attack("bounded", Target("x", n, known.prior("x")), evidence)[1]
    assert found.status in (
        SolverStatus.CONVERGED,
        SolverStatus.PRIOR,
    )  # the prior: nothing was asked that says anything
    assert found.residual < 1e-5
    assert (found.values > -1e-5).all()
    assert (found.values < 10 + 1e-5).all()


def test_counts_of_conditions_place_a_value() -> None:
    log = [("SELECT COUNT(*) FROM t WHERE pay > 60 AND team = 'a'", 2), ("SELECT COUNT(*) FROM t WHERE pay > 60", 2)]
    found = estimate(Bounded, evidence_of(log, PAY))
    assert (found.values[:2] > 60).all()
    assert (found.values[2:] <= 60).all()


def test_categories_are_counted_exactly() -> None:
    toml = '[columns]\nid = ["name"]\n[columns.private.ill]\nvalues = ["flu", "cold", "none"]\n'
    log = [
        ("SELECT COUNT(*) FROM t WHERE ill = 'flu'", 2),
        ("SELECT COUNT(*) FROM t WHERE ill = 'flu' AND name IN ('Bob', 'Dan', 'Eve')", 0),
        ("SELECT COUNT(*) FROM t WHERE ill = 'cold' AND name = 'Bob'", 1),
        ("SELECT COUNT(*) FROM t WHERE ill = 'cold'", 1),
    ]
    evidence = evidence_of(log, toml)
    for choice, found in (
        run_attack("auto", Target.of(evidence, "ill"), evidence),
        ("", estimate(Integer, evidence, "ill")),
    ):
        assert found.values.tolist() == ["flu", "cold", "flu", "none", "none"]
        assert found.confidence.tolist() == [1.0] * 5
        assert choice == "" or choice.method == "integer"  # type: ignore[union-attr]
    with pytest.raises(CannotHonour, match="private conditions"):
        estimate(Kaczmarz, evidence, "ill")


def test_records_without_a_value_get_none() -> None:
    people = pa.table({"name": ["Ann", "Bob", "Cyd"], "x": [1.0, None, 3.0]})
    source = load(people, Config.parse('[columns]\nid = ["name"]\n[columns.private.x]').columns)
    lines = [Line(1, "SELECT SUM(x) FROM t"), Line(2, "SELECT SUM(x) FROM t WHERE name = 'Ann'")]
    evidence = gather(transcribe(lines, source.roster, source=source), source.roster, Knowledge(), source=source)
    found = estimate(LeastSquares, evidence, "x")
    assert found.values[[0, 2]] == pytest.approx([1, 3])
    assert np.isnan(found.values[1])


@pytest.mark.parametrize("make", [LeastSquares, Bounded])
def test_contradicting_answers_are_named(make: Any) -> None:
    log = [
        ("SELECT SUM(pay) FROM t", 150),
        ("SELECT SUM(pay) FROM t WHERE team = 'a'", 30),
        ("SELECT SUM(pay) FROM t WHERE name = 'Ann'", 10),
        ("SELECT SUM(pay) FROM t WHERE team = 'b'", 121),
    ]
    toml = PAY if make is Bounded else '[columns]\nid = ["name"]\n[columns.private.pay]\n'
    with pytest.raises(ContradictionError) as caught:
        estimate(make, evidence_of(log, toml))
    for name in ("query 1", "query 2", "query 4"):
        assert name in str(caught.value)
    assert "query 3" not in str(caught.value)
    assert estimate(L1, evidence_of(log, toml)).values[0] == pytest.approx(10, abs=1e-5)


def test_answers_beyond_the_bounds_are_contradictions_too() -> None:
    log = [("SELECT SUM(pay) FROM t WHERE team = 'a'", 201)]
    with pytest.raises(ContradictionError, match="query 1"):
        estimate(Bounded, evidence_of(log, PAY))


def test_a_share_of_wrong_answers_is_outvoted() -> None:
    rng = np.random.default_rng(3)
    A, x = rng.integers(0, 2, (80, 12)), rng.normal(size=12)
    y = A @ x
    y[rng.choice(80, 16, replace=False)] += rng.normal(0, 100, 16)
    found = estimate(L1, from_arrays(A, y.tolist()), "x")
    assert found.values == pytest.approx(x, abs=1e-5)
    assert "16 of 80 answers not met" in found.note


@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
@settings(max_examples=effort(25), deadline=None)
def test_blocks_with_other_atoms_join_to_the_same_problem(seed: int, cut: int) -> None:
    rng = np.random.default_rng(seed)
    A, x = rng.integers(0, 2, (8, 9)), rng.integers(0, 5, 9)
    whole = from_arrays(A, (A @ x).tolist())
    first = from_arrays(A[:cut], (A[:cut] @ x).tolist())
    second = from_arrays(A[cut:], (A[cut:] @ x).tolist(), first=cut + 1)
    attack = LeastSquares(Target.of(whole))
    attack.observe(first)
    attack.observe(second)
    problem = attack.problem
    assert problem is not None
    assert problem.K == assemble(Target.of(whole), whole).K
    assert attack.estimate().values == pytest.approx(np.linalg.pinv(A.astype(float)) @ (A @ x), abs=1e-6)


def test_the_choice_fits_the_evidence() -> None:
    bit, box = Prior(Decimal(0), Decimal(1), Decimal(1)), Prior(Decimal(0), Decimal(1))
    A, laplace, gauss = np.eye(4), Noise("laplace", Fraction(1)), Noise("gaussian", Fraction(1))
    cases = [
        (from_arrays(A, [1, 0, 1, 0], prior=bit), "integer", "no noise"),
        (from_arrays(A, [1, 0, 1, 0], prior=bit, noise=laplace), "integer", "posterior"),
        (from_arrays(A, [1, 0, 1, 0], prior=box), "bounded", "bounds"),
        (from_arrays(A, [1, 0, 1, 0], noise=laplace), "bounded", "Laplace"),
        (from_arrays(A, [1, 0, 1, 0], noise=gauss), "least-squares", "known law"),
        (from_arrays(np.zeros((0, 4)), []), "least-squares", "nothing was observed"),
        (from_arrays(np.random.default_rng(0).integers(0, 2, (30, 1600)), [800] * 30, prior=box), "lbfgs", "quicker"),
    ]
    for evidence, method, why in cases:
        choice = choose_method(assemble(Target.of(evidence), evidence))
        assert choice.method == method
        assert why in choice.why


def test_large_logs_go_without_a_matrix() -> None:
    rng = np.random.default_rng(4)
    A = rng.integers(0, 2, (7000, 6000), dtype=np.int8)
    evidence = from_arrays(A, [1.0] * 7000)
    problem = assemble(Target.of(evidence), evidence)
    assert choose_method(problem).method == "conjugate-gradient"
    with pytest.raises(CannotHonour, match="dense 7000 x 6000"):
        estimate(L1, evidence, "x")


QUESTIONS = [Query(Aggregate.SUM, (Term("pay", Comparison("name", "=", who)),)) for who in PEOPLE["name"]]


def test_play_hears_a_passive_attack_out() -> None:
    source = load(pa.table(PEOPLE), Config.parse(PAY).columns)
    heard: list[int] = []
    attack = Bounded(Target("pay", 5, Prior(Decimal(0), Decimal(100))))
    found = play_attack(
        attack,
        ExactResponder(source),
        source.roster,
        rounds=4,
        questions=QUESTIONS,
        watch=lambda i, _q, _a: heard.append(i),
    )
    assert heard == [1, 2, 3, 4]
    assert found.values == pytest.approx([10, 20, 30, 40, 50], abs=1e-4)  # the fifth is the prior's middle, 50


class Halving(Kaczmarz):
    """An active attack: asks for one person at a time, and stops by itself."""

    left = iter(QUESTIONS)

    def propose(self) -> Query | None:
        return next(self.left, None)


def test_play_lets_an_active_attack_ask() -> None:
    source = load(pa.table(PEOPLE), Config.parse(PAY).columns)
    found = play_attack(Halving(Target("pay", 5)), ExactResponder(source), source.roster, rounds=100)
    assert found.values == pytest.approx([10, 20, 30, 40, 50])


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "uniform", "rounded"])
def test_play_against_noise_of_every_law(kind: str) -> None:
    source = load(pa.table(PEOPLE), Config.parse(PAY).columns)
    noisy = NoisyResponder(ExactResponder(source), Noise(kind, Fraction(2)), rng=np.random.default_rng(5))
    attack = Bounded(Target("pay", 5, Prior(Decimal(0), Decimal(100))))
    found = play_attack(attack, noisy, source.roster, rounds=5, questions=QUESTIONS)
    assert found.values == pytest.approx([10, 20, 30, 40, 50], abs=15)
    assert found.status is SolverStatus.CONVERGED


def test_score_beside_guessing() -> None:
    target = Target("x", 4, Prior(Decimal(0), Decimal(10)))
    guess = Reconstruction(np.array([1.0, 2.0, 9.0, np.nan]), np.zeros(4), 0.0, SolverStatus.CONVERGED)
    found = score_reconstruction(guess, np.array([1.0, 2.05, 5.0, np.nan]), target)
    assert (found.records, found.exact, found.within) == (3, pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert (found.tolerance, found.prior_exact, found.majority_exact) == (
        0.1,
        pytest.approx(1 / 3),
        pytest.approx(1 / 3),
    )
    assert found.error == pytest.approx((0 + 0.05 + 4) / 3)
    with pytest.raises(DataError, match="3 records"):
        score_reconstruction(guess, np.zeros(3), target)


def test_a_tape_holds_plain_and_weighted_rows_in_the_order_of_the_log(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    plain, weighted = rng.integers(0, 2, (20, 70)), rng.integers(-2, 3, (20, 70))
    x = rng.normal(size=70)
    first = from_arrays(plain, (plain @ x).tolist())
    second = from_arrays(weighted, (weighted @ x).tolist(), first=21)
    tape = Tape.record(Target.of(first), [first, second], tmp_path)
    assert tape.rows.dense is not None
    assert np.array_equal(np.asarray(tape.rows.dense)[:, :70], np.vstack([plain, weighted]))
    assert np.allclose(tape.norms, (np.vstack([plain, weighted]) ** 2).sum(axis=1))
    attack = Kaczmarz(Target.of(first))
    replay_tape(attack, tape, order="random", rng=rng)
    walked = Kaczmarz(Target.of(first))
    for _ in range(400):
        walked.observe(first)
        walked.observe(second)
    A = np.vstack([plain, weighted])
    expected = np.linalg.pinv(A.astype(float)) @ (A @ x)
    assert attack.estimate().values == pytest.approx(expected, abs=1e-4)
    assert walked.estimate().values == pytest.approx(expected, abs=1e-2)


def test_a_saved_state_is_checked(tmp_path: Path) -> None:
    evidence = from_arrays(np.eye(3), [1.0, 2.0, 3.0])
    attack = Kaczmarz(Target.of(evidence))
    attack.observe(split_into_blocks(evidence, 2)[0])
    save_attack(attack, tmp_path / "half.npz")
    with pytest.raises(LogError, match="Kaczmarz x 3"):
        resume_attack(Kaczmarz(Target("x", 4)), tmp_path / "half.npz")
    (tmp_path / "bad.npz").write_bytes(b"no")
    with pytest.raises(LogError, match="not a saved attack"):
        resume_attack(attack, tmp_path / "bad.npz")
    assert not list(tmp_path.glob("*.part"))
