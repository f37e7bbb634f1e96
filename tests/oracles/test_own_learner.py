"""Learners of one's own, and OnlineBisection as a reading copy of the paper: the same numbers as the compiled one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from keyhole.cli.root import app
from keyhole.errors import ConfigError, ModelError
from keyhole.oracles.base import Run, ThresholdOracle, play_by_steps
from keyhole.oracles.learners import CheckedLearner, choose_learner
from keyhole.oracles.learners.bisection import OnlineBisection
from keyhole.oracles.learners.published_bisection import PublishedBisection
from keyhole.oracles.noise import Floats, GaussianNoise, LaplaceNoise, OracleNoise, TriangularNoise, UniformNoise
from keyhole.oracles.streams import Concentrated, Spread, Stream
from keyhole.oracles.subspace import Subspace

ROOT = Path(__file__).resolve().parents[2]
LAWS = (UniformNoise, GaussianNoise, LaplaceNoise, TriangularNoise)


def random_setting(rng: np.random.Generator) -> tuple[Stream, OracleNoise, int]:
    """A subspace of blocks or of any directions, a law, a stream and its length."""
    d = int(rng.integers(1, 4))
    D = int(rng.integers(d, 9))
    space = Subspace.blocks(D, d)
    if rng.random() < 0.5:
        lower = rng.uniform(-2, 0, D)
        space = Subspace(np.linalg.qr(rng.normal(size=(D, d)))[0].T.copy(), lower, lower + rng.uniform(0.5, 3, D))
    law = LAWS[int(rng.integers(len(LAWS)))](float(rng.uniform(0.01, 0.5)))
    stream = Concentrated(space) if rng.random() < 0.8 else Spread(space)
    return stream, law, int(rng.integers(600, 4000))


def game(stream: Stream, law: OracleNoise, T: int, seed: int) -> tuple[ThresholdOracle, Floats]:
    for_w, for_queries, for_noise = np.random.default_rng(seed).spawn(3)
    hidden = for_w.uniform(stream.subspace.lower, stream.subspace.upper)
    return ThresholdOracle(hidden, law, rng=for_noise), stream.block(T, for_queries)


def test_the_reading_copy_equals_the_compiled_algorithm() -> None:
    cuts = 0
    for seed in range(100):
        stream, law, T = random_setting(np.random.default_rng(seed))
        oracle, queries = game(stream, law, T, seed)
        compiled = OnlineBisection(stream.subspace, law, horizon=T)
        mine = compiled.run(queries, oracle)
        oracle, queries = game(stream, law, T, seed)
        copy = PublishedBisection(stream.subspace, law, T)
        theirs = play_by_steps(copy, queries, oracle, stream.subspace)
        cuts += compiled.cuts
        assert theirs.asked == mine.asked, seed
        assert theirs.average_error == pytest.approx(mine.average_error, rel=1e-9), seed
        assert theirs.final_error == pytest.approx(mine.final_error, rel=1e-9, abs=1e-12), seed
        np.testing.assert_allclose(copy.I.T, compiled.box(), rtol=1e-9, err_msg=str(seed))
        np.testing.assert_allclose(copy.estimate(), compiled.estimate(), rtol=1e-9, atol=1e-12, err_msg=str(seed))
        assert copy.N_crit == pytest.approx(compiled.n_crit, rel=1e-9), seed
    assert cuts > 50  # the settings reach several phases


def learner_of_the_page() -> str:
    """The class that docs/oracle.md shows."""
    page = (ROOT / "docs" / "oracle.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(class Nudger:.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_learner_of_the_page_plays_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = learner_of_the_page()
    assert len(code.splitlines()) <= 20
    (tmp_path / "page_learner.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    chosen = ["--queries", "3000", "--seeds", "2", "--stream", "spread", "--format", "json"]
    printed = CliRunner().invoke(app, ["oracle", "simulate", "--learner", "page_learner:Nudger", *chosen])
    assert printed.exit_code == 0, printed.output
    found = json.loads(printed.output)
    assert found["settings"]["method"] == found["summary"]["method"] == "page_learner:Nudger"
    assert [run["asked"] for run in found["runs"]] == [3000, 3000]
    assert found["summary"]["contained"] is None
    assert found["summary"]["bound"] is None
    assert found["summary"]["average_error"] < 8 * found["summary"]["floor"]


def test_its_questions_are_written_down_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logged_learner.py").write_text(learner_of_the_page(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    chosen = ["--queries", "30", "--seeds", "1", "--log", "asked.jsonl"]
    printed = CliRunner().invoke(app, ["oracle", "simulate", "--learner", "logged_learner:Nudger", *chosen])
    assert printed.exit_code == 0, printed.output
    assert len((tmp_path / "asked.jsonl").read_text(encoding="utf-8").splitlines()) == 30


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere_at_all:X", "no module named"),
        ("math:nothing", "has no nothing"),
        ("math:sin", "threshold, learn, estimate missing"),
        ("decimal:Decimal", "threshold, learn, estimate missing"),
    ],
)
def test_what_is_no_learner_is_refused(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        choose_learner(name)


def test_the_learner_of_the_page_attacks_a_living_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unchanged, the class of the docs asks a target; what is certified comes from other eyes on the same bits."""
    (tmp_path / "living_learner.py").write_text(learner_of_the_page(), encoding="utf-8")
    (tmp_path / "living_target.py").write_text(
        "import numpy as np\nR, W = np.random.default_rng(5), np.array([0.2, 0.9])\n"
        "def above(q, t): return q @ W + R.normal(0, 0.3) > t\n",
        encoding="utf-8",
    )
    rows = np.random.default_rng(1).random((1500, 2)).round(3).tolist()
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    chosen = ["--queries", "q.jsonl", "--noise", "gaussian:0.3", "--range", "0..1", "--format", "json"]
    printed = CliRunner().invoke(
        app, ["oracle", "attack", "living_target:above", "--learner", "living_learner:Nudger", *chosen]
    )
    assert printed.exit_code == 0, printed.output
    found = json.loads(printed.stdout)
    assert found["method"] == "living_learner:Nudger"
    assert found["certified"]
    for each, w in zip(found["estimates"], (0.2, 0.9), strict=True):
        assert each["low"] <= w <= each["high"]
        assert abs(each["value"] - w) < 5 * each["error"] < 1
    assert found["error"]["estimated"] < found["error"]["certified"]


class Silent:
    """Never asks, and says what it is told to say."""

    def __init__(self, estimate: Floats, at: float | None = None) -> None:
        self.said, self.at = estimate, at

    def threshold(self, q: Floats) -> float | None:
        return self.at

    def learn(self, q: Floats, threshold: float, bit: int) -> None:
        raise AssertionError("nothing was asked")

    def estimate(self) -> Floats:
        return self.said


def play(learner: Silent) -> Run:
    space, law = Subspace.blocks(4, 2), UniformNoise(0.5)
    oracle, queries = game(Spread(space), law, 50, 1)
    return play_by_steps(CheckedLearner("silent", learner, space), queries, oracle, space)


def test_a_learner_that_asks_nothing_is_played_to_the_end() -> None:
    run = play(Silent(np.full(4, 0.5)))
    assert (run.queries, run.asked, run.trace[-1][0]) == (50, 0, 50)


@pytest.mark.parametrize("learner", [Silent(np.zeros(3)), Silent(np.full(4, np.nan)), Silent(np.zeros(4), np.inf)])
def test_what_a_learner_says_is_checked(learner: Silent) -> None:
    with pytest.raises(ModelError, match="silent: "):
        play(learner)


BROKEN = """
import numpy as np

class Falls:
    def __init__(self, subspace, noise, queries): self.D = subspace.D
    def threshold(self, query): return 0.5
    def learn(self, query, threshold, bit): raise ZeroDivisionError("a step of nothing")
    def estimate(self): return np.full(self.D, 0.5)

class Alone(Falls):
    def __init__(self, subspace): pass

class Nowhere(Falls):
    def estimate(self): return np.full(self.D, np.nan)

class Far(Falls):
    def threshold(self, query): return float(query.sum() / 2)
    def learn(self, query, threshold, bit): pass
    def estimate(self): return np.full(self.D, 1e6)

class Silent(Falls):
    def threshold(self, query): return None
"""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Falls", r"Falls.learn failed: ZeroDivisionError: a step of nothing"),
        ("Alone", r"Alone\(subspace, noise, queries\) failed: TypeError"),
        ("Nowhere", r"got \[nan, nan, nan, nan\]"),
    ],
)
def test_a_learner_that_fails_is_named_and_is_no_bug_of_ours(
    name: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_learners.py").write_text(BROKEN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    chosen = ["--queries", "30", "--seeds", "1"]
    printed = CliRunner().invoke(app, ["oracle", "simulate", "--learner", f"broken_learners:{name}", *chosen])
    assert printed.exit_code == 2
    assert re.search(why, printed.output)
    assert "bug of ours" not in printed.output


def attack_with(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    (tmp_path / "broken_learners.py").write_text(BROKEN, encoding="utf-8")
    (tmp_path / "shy_target.py").write_text(
        "import numpy as np\nR, W = np.random.default_rng(5), np.array([0.2, 0.9])\n"
        "def above(q, t): return q @ W + R.normal(0, 0.3) > t\n",
        encoding="utf-8",
    )
    rows = np.random.default_rng(0).random((300, 2)) + 1
    (tmp_path / "queries.jsonl").write_text("\n".join(json.dumps(row.tolist()) for row in rows), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    chosen = ["--queries", "queries.jsonl", "--noise", "gaussian:0.3", "--range", "0..1", "--format", "json"]
    learner = name if "-" in name else f"broken_learners:{name}"
    printed = CliRunner().invoke(app, ["oracle", "attack", "shy_target:above", "--learner", learner, *chosen])
    assert printed.exit_code == 0, printed.output
    found: dict[str, Any] = json.loads(printed.output)
    return found


def test_a_learner_far_off_neither_makes_the_noise_sticky_nor_the_estimate_leave_the_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether answers differ is looked at where they can; what is stated of the estimate is of the one shown."""
    found = attack_with("Far", tmp_path, monkeypatch)
    assert not any("sticky" in note for note in found["notes"])
    for entry in found["estimates"]:
        assert 0 <= entry["value"] <= 1
        assert entry["error"] is None or entry["error"] <= 1


def test_queries_that_a_learner_leaves_out_are_its_own_doing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = attack_with("Silent", tmp_path, monkeypatch)["notes"]
    assert any("not asked: broken_learners:Silent gave no threshold" in note for note in notes)


def test_an_attack_says_when_never_asking_is_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = attack_with("online-bisection", tmp_path, monkeypatch)["notes"]
    assert any("and never asking by" in note for note in notes)
