"""A certificate rests on the range of the secret: none without one, none in a wrong one; declared bounds are one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from keyhole.cli.oracle.attack import attack as command
from keyhole.errors import ModelError
from keyhole.oracles import GaussianNoise, ThresholdOracle
from keyhole.oracles.attack_target import learn_target
from keyhole.oracles.result import AskingPlan, OracleResult, Questions

SUMS = "SELECT SUM(pay) > {threshold} FROM staff WHERE name IN ({ids})"


class Silent:
    """No noise."""

    def __init__(self, *w: float) -> None:
        self.w, self.asked = np.array(w), 0

    def above(self, q: np.ndarray, threshold: float) -> int:
        self.asked += 1
        return int(q @ self.w > threshold)


def learnt(oracle: Silent | ThresholdOracle, rows: np.ndarray, noise: str = "auto", *, stated: bool) -> OracleResult:
    wide = rows.shape[1]
    asking = Questions(rows, np.zeros(wide), np.ones(wide), np.ones((1, wide)), stated)
    return learn_target(oracle, asking, AskingPlan(noise=noise))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments])


ROWS = np.array([[1.0, 0], [1, 1], [0, 1]])
TURNED = np.array([[1.0, 1], [1, -1]])


@pytest.mark.parametrize("noise", ["auto", "none"])
@pytest.mark.parametrize("rows", [ROWS, TURNED])
@pytest.mark.parametrize("w", [(1.2, 0.9), (12, 9), (1.2, 0.5), (-3, 0.5), (0, 1), (1, 1), (-1e6, 1e-3)])
def test_without_noise_a_secret_is_found_wherever_it_is(w: tuple[float, float], rows: np.ndarray, noise: str) -> None:
    seen = learnt(Silent(*w), rows, noise, stated=False)
    assert (seen.method, seen.noise) == ("line search", "none")
    assert np.all(seen.low <= w)
    assert np.all(w <= seen.high)
    assert np.linalg.norm(seen.estimate - w) <= seen.radius < 1e-4 * max(1, *np.abs(w))


@pytest.mark.parametrize("noise", ["auto", "none"])
@pytest.mark.parametrize("rows", [ROWS, TURNED])
@pytest.mark.parametrize("w", [(1.2, 0.9), (12, 9), (1.2, 0.5), (-3, 0.5)])
def test_without_noise_a_wrong_stated_range_is_an_error(w: tuple[float, float], rows: np.ndarray, noise: str) -> None:
    with pytest.raises(ModelError, match=r"--range LOW\.\.HIGH"):
        learnt(Silent(*w), rows, noise, stated=True)


def test_what_the_queries_do_not_span_has_no_range_unless_one_is_stated() -> None:
    row = np.array([[1.0, 1, 0]])
    assert np.isinf(learnt(Silent(1.2, 0.5, 7), row, stated=False).high).all()
    assert learnt(Silent(0.2, 0.5, 0.1), row, stated=True).high.tolist() == [1, 1, 1]


@pytest.mark.parametrize("noise", ["auto", "gaussian:0.3"])
@pytest.mark.parametrize("w", [(0.2, 0.9), (1.2, 0.9), (12.0, 9.0)])
def test_with_noise_nothing_is_certified_without_a_stated_range(w: tuple[float, float], noise: str) -> None:
    rng = np.random.default_rng(1)
    seen = learnt(ThresholdOracle(np.array(w), GaussianNoise(0.3), rng=rng), rng.random((600, 2)), noise, stated=False)
    assert seen.radius == np.inf
    assert np.isinf([seen.low, seen.high]).all()
    assert np.isinf([seen.predictions[0].low, seen.predictions[0].high]).all()
    assert any("no --range was stated" in note for note in seen.notes)


@pytest.mark.parametrize(("w", "why"), [((1.4, 0.9), "likelier with hidden"), ((12.0, 9.0), "further outside")])
def test_with_noise_a_range_that_the_answers_refute_certifies_nothing(w: tuple[float, float], why: str) -> None:
    rng = np.random.default_rng(1)
    oracle = ThresholdOracle(np.array(w), GaussianNoise(0.3), rng=rng)
    seen = learnt(oracle, rng.random((2000, 2)), "gaussian:0.3", stated=True)
    assert any(why in note for note in seen.notes)
    assert (seen.radius, seen.low.tolist(), seen.high.tolist()) == (np.inf, [0, 0], [1, 1])


def test_a_target_that_says_one_thing_only_is_an_error() -> None:
    with pytest.raises(ModelError, match="same answer at every threshold"):
        learnt(Silent(1e40, 1e40), ROWS, stated=False)


def test_the_command_says_what_it_rests_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ranged.py").write_text(
        "import numpy as np\nR = np.random.default_rng(1)\ndef exact(q, t): return q @ np.array([1.2, 0.9]) > t\n"
        "def noisy(q, t): return q @ np.array([1.2, 0.9]) + R.normal(0, 0.3) > t\n", encoding="utf-8",
    )  # fmt: skip
    (tmp_path / "q.csv").write_text("a,b\n1,0\n1,1\n0,1\n", encoding="utf-8")
    common = ("--queries", "q.csv", "--noise")
    assert "a             1.2  1.19999 .. 1.20001" in run("ranged:exact", *common, "auto").stdout
    said = run("ranged:exact", *common, "auto", "--range", "0..2").stdout
    assert "if the oracle has no noise and the hidden numbers lie in the stated range" in said
    refused = str(run("ranged:exact", *common, "none", "--range", "0..1").exception)
    assert "--range LOW..HIGH" in refused
    assert "--learner newton" in refused
    said = run("ranged:noisy", *common, "gaussian:0.3", "--test", "q.csv").stdout
    assert "certified: nothing: state the range of the hidden numbers with --range LOW..HIGH" in said
    made = json.loads(run("ranged:noisy", *common, "gaussian:0.3", "--format", "json").stdout)
    assert [made["radius"], made["estimates"][0]["low"], made["estimates"][0]["high"]] == [None, None, None]
    assert "none" in run("ranged:noisy", *common, "gaussian:0.3", "--format", "html").stdout
    said = run("ranged:noisy", *common, "gaussian:0.3", "--range", "0..2").stdout
    assert "certified: nothing beyond the stated range" in said  # three answers narrow nothing
    (tmp_path / "q.csv").write_text("a,b\n" + "1,0\n1,1\n0,1\n" * 60, encoding="utf-8")
    said = run("ranged:noisy", *common, "gaussian:0.3", "--range", "0..2").stdout
    assert "if answers are sums of query times hidden number (NOT checked: " in said
    assert "if the noise is as stated and the hidden numbers lie in the stated range" in said


@pytest.mark.parametrize(
    ("statement", "more", "stated"),
    [
        (SUMS, ("--private", "pay:0..100"), True),
        (SUMS, ("--private", "pay"), False),
        (SUMS, ("--private", "pay", "--range", "0..200"), True),
        (SUMS.replace("SUM(pay)", "SUM(pay) * 2"), ("--private", "pay:0..100"), False),
    ],
)
def test_declared_bounds_are_the_range_of_a_sum(
    tmp_path: Path, statement: str, more: tuple[str, ...], stated: bool
) -> None:
    (tmp_path / "staff.csv").write_text("name,pay\nann,51\nbob,64\ncy,70\n", encoding="utf-8")
    (tmp_path / "ids.csv").write_text("ann,bob,cy\n1,0,0\n0,1,1\n", encoding="utf-8")
    who = ("--data", tmp_path / "staff.csv", "--id", "name", "--queries", tmp_path / "ids.csv", "--format", "json")
    done = run(statement, *who, *more)
    assert done.exit_code == 0, done.exception
    ann, bob, _ = json.loads(done.stdout)["estimates"]
    assert round(ann["value"], 2) == (102 if "* 2" in statement else 51)
    assert bob["high"] == (float(more[-1].rpartition("..")[2]) if stated else None)


def test_range_goes_before_declared_bounds(tmp_path: Path) -> None:
    (tmp_path / "staff.csv").write_text("name,pay\nann,51\nbob,64\n", encoding="utf-8")
    (tmp_path / "ids.csv").write_text("ann,bob\n1,0\n0,1\n", encoding="utf-8")
    who = ("--data", tmp_path / "staff.csv", "--id", "name", "--queries", tmp_path / "ids.csv")
    done = run(SUMS, *who, "--private", "pay:0..100", "--range", "0..10")
    assert isinstance(done.exception, ModelError)


ADDED = {
    "a further condition": ("ann,51\nbob,64\ncy,70\n", f"{SUMS} AND pay > 60", (0, 100)),
    "somebody without a value": ("ann,\nbob,64\ncy,70\n", SUMS, (0, 100)),
    "two rows of one person": ("ann,90\nann,80\nbob,64\ncy,41\n", SUMS, (40, 200)),
    "one value each": ("ann,51\nbob,64\ncy,70\n", SUMS, (40, 100)),
}


@pytest.mark.parametrize("which", ADDED)
def test_declared_bounds_are_those_of_what_a_person_adds(tmp_path: Path, which: str) -> None:
    rows, statement, ends = ADDED[which]
    (tmp_path / "staff.csv").write_text(f"name,pay\n{rows}", encoding="utf-8")
    (tmp_path / "ids.csv").write_text("ann,bob,cy\n1,1,1\n", encoding="utf-8")
    who = ("--data", tmp_path / "staff.csv", "--id", "name", "--queries", tmp_path / "ids.csv", "--format", "json")
    done = run(statement, *who, "--private", "pay:40..100")
    assert done.exit_code == 0, done.exception
    assert {(e["low"], e["high"]) for e in json.loads(done.stdout)["estimates"]} == {ends}


def test_a_sum_over_nobody_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "staff.csv").write_text("name,pay\nann,51\nbob,64\n", encoding="utf-8")
    (tmp_path / "ids.csv").write_text("ann,bob\n1,0\n0,1\n", encoding="utf-8")
    who = ("--data", tmp_path / "staff.csv", "--id", "name", "--queries", tmp_path / "ids.csv", "--private", "pay")
    refused = run(f"{SUMS} AND pay > 60", *who).exception
    assert isinstance(refused, ModelError)
    assert "write COALESCE(SUM(...), 0)" in str(refused)
    done = run(f"{SUMS.replace('SUM(pay)', 'COALESCE(SUM(pay), 0)')} AND pay > 60", *who)
    assert done.exit_code == 0, done.exception
