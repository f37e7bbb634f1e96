"""`keyhole attack --oracle` as a user has it: killed and resumed, timed out, told nonsense; every learner in reach."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from keyhole.cli.oracle.attack import attack as command
from keyhole.errors import ConfigError, KeyholeError, ModelError
from keyhole.oracles import (
    GaussianNoise,
    ModelWarning,
    OnlineBisection,
    SequentialBisection,
    SteepNoise,
    Subspace,
    ThresholdOracle,
    UniformNoise,
    principal_basis,
)
from keyhole.oracles import recorded as recording
from keyhole.oracles import targets as real_targets
from keyhole.oracles.attack_target import learn_target
from keyhole.oracles.learners import LEARNERS
from keyhole.oracles.result import AskingPlan, Questions

HIDDEN = np.array([0.2, 0.9, 0.5])
RUN = [sys.executable, "-c", "from keyhole.cli import main; main()"]
Reply = Callable[[dict[str, Any]], Any]


class Served:
    """An endpoint on the loopback; `reply` makes the body, `pause` seconds pass before each."""

    def __init__(self) -> None:
        self.count, self.pause = 0, 0.0
        self.reply: Reply = lambda asked: {"above": bool(np.array(asked["query"]) @ HIDDEN > asked["threshold"])}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                time.sleep(outer.pause)
                outer.count += 1
                body = json.dumps(outer.reply(asked)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/above"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(recording, "FIRST_WAIT", 0.001)
    made = Served()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.csv"
    path.write_text("a,b,c\n1,0,0\n1,1,0\n0,1,1\n1,1,1\n", encoding="utf-8")
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments])


def found(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.exception
    made = json.loads(result.stdout)
    assert isinstance(made, dict)
    return made


def test_killed_with_signal_9_it_goes_on_and_asks_nothing_twice(served: Served, queries: Path, tmp_path: Path) -> None:
    record, out = tmp_path / "answers.jsonl", tmp_path / "found.json"
    whole = found(run(served.url, "--queries", queries, "--noise", "none", "--format", "json"))
    total, served.count, served.pause = served.count, 0, 0.02
    words = ["oracle", "attack", served.url, "--queries", str(queries), "--noise", "none", "--format", "json"]
    words += ["--record", str(record), "--out", str(out)]
    child = subprocess.Popen([*RUN, *words], env=os.environ)
    for _ in range(2000):
        if record.exists() and record.read_bytes().count(b"\n") >= 12:
            break
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    kept = record.read_bytes().count(b"\n")
    assert 12 <= kept < total
    served.pause = 0.0
    again = found(run(served.url, *words[3:-2]))
    assert again["estimates"] == whole["estimates"]
    assert again["recalled"] == kept
    total += 6  # both ends of three queries: is it the same target?
    assert served.count <= total + 1  # one answer may have been on its way
    assert len(record.read_text(encoding="utf-8").splitlines()) == again["asked"] == total


def test_a_noisy_attack_is_resumed_to_the_same_end(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows, record = rng.random((120, 3)), tmp_path / "r.jsonl"
    asking, plan = Questions(rows, np.zeros(3), np.ones(3)), AskingPlan(noise="gaussian:0.3")
    with recording.Recorded(ThresholdOracle(HIDDEN, GaussianNoise(0.3), rng=rng), record, budget=50) as first:
        part = learn_target(first, asking, plan)
    assert "the budget was reached" in part.notes
    assert part.asked == 50
    with recording.Recorded(ThresholdOracle(HIDDEN, GaussianNoise(0.3), rng=rng), record) as second:
        rest = learn_target(second, asking, plan)
    with recording.Recorded(ThresholdOracle(HIDDEN, GaussianNoise(0.3), rng=rng), record) as third:
        same = learn_target(third, asking, plan)
        assert (second.recalled, third.recalled) == (50, third.asked)
    assert np.array_equal(rest.estimate, same.estimate)
    assert np.array_equal(rest.low, same.low)


def test_a_target_that_hangs_is_asked_again_and_then_given_up(
    served: Served, queries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_targets, "TIMEOUT", 0.05)
    served.pause = 0.3
    done = run(served.url, "--queries", queries, "--record", tmp_path / "r.jsonl")
    assert isinstance(done.exception, ConfigError)
    assert "failed 5 times in a row" in str(done.exception)
    assert "timed out" in str(done.exception)


@pytest.mark.parametrize("reply", [{"above": "perhaps"}, {"below": True}, [1], None, 2, {"above": None}, "nan", 0.5])
def test_nonsense_is_an_error_never_a_no(served: Served, queries: Path, reply: object) -> None:
    served.reply = lambda _asked: reply
    done = run(served.url, "--queries", queries, "--noise", "none")
    assert isinstance(done.exception, ModelError)
    assert "neither yes nor no" in str(done.exception)


def test_a_function_that_fails_is_one_sentence(queries: Path) -> None:
    done = run("math:factorial", "--queries", queries, "--noise", "none")
    assert isinstance(done.exception, KeyholeError)
    assert "math:factorial failed: TypeError" in str(done.exception)


def noisy(path: Path, law: str) -> None:
    """A module with a target whose noise has standard deviation .2, and one that answers from levels."""
    path.write_text(
        "import numpy as np\nR, W = np.random.default_rng(5), np.array([0.2, 0.9, 0.5])\n"
        f"def above(q, t): return int(q @ W + {law} > t)\n"
        f"def level(q, t): return int(np.sum(q @ W + {law} > np.array(t)))\n",
        encoding="utf-8",
    )


@pytest.fixture
def many(tmp_path: Path) -> Path:
    path = tmp_path / "many.jsonl"
    rows = np.random.default_rng(0).random((900, 3)).round(3)
    path.write_text("\n".join(json.dumps(row) for row in rows.tolist()) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "law", "noise", "more", "method"),
    [
        ("a", "R.normal(0, 0.2)", "gaussian:0.2", ("--learner", "newton", "--calibrate", 90), "OneBitNewton"),
        ("b", "R.normal(0, 0.2)", "gaussian:0.2", ("--learner", "sequential"), "SequentialBisection"),
        ("c", "R.uniform(-0.3, 0.3)", "uniform:0.29..0.31", ("--learner", "edge"), "EdgeBisection"),
        ("d", "R.laplace(0, 0.1)", "laplace:0.1", (), "OneBitNewton"),
        ("e", "R.normal(0, 0.2)", "gaussian:0.2", ("--learner", "online-bisection"), "OnlineBisection"),
        ("f", "R.normal(0, 0.2)", "gaussian:0.2", ("--basis", 2), "OneBitNewton"),
    ],
)
def test_every_learner_is_in_reach_and_its_ranges_hold(
    tmp_path: Path, many: Path, monkeypatch: pytest.MonkeyPatch, name: str, law: str, noise: str,
    more: tuple[object, ...], method: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    noisy(tmp_path / f"noisy_{name}.py", law)
    (tmp_path / "test.jsonl").write_text("[1, 1, 1]\n[0, 0, 2]\n", encoding="utf-8")
    made = found(
        run(f"noisy_{name}:above", "--queries", many, "--noise", noise, *more, "--test", "test.jsonl",
            "--range", "0..1", "--format", "json")
    )  # fmt: skip
    assert made["method"] == method
    assert all(e["low"] <= w <= e["high"] for e, w in zip(made["estimates"], HIDDEN, strict=True))
    across = any("queries cannot check the edge" in note for note in made["notes"])
    assert across == (method == "EdgeBisection")  # spread queries do not lie along axes
    assert made["certified"] == (method not in ("EdgeBisection", "OnlineBisection"))  # the latter narrowed nothing
    assert bool(made["conditions"]) == made["certified"]
    for one, truth in zip(made["predictions"], (HIDDEN.sum(), 2 * HIDDEN[2]), strict=True):
        assert one["low"] <= truth <= one["high"]
    if method == "OneBitNewton" and noise.startswith("gaussian") and "--basis" not in more:
        assert made["radius"] < 0.25
        assert any("off centre are too few" in note for note in made["notes"])
        off = np.array([e["value"] for e in made["estimates"]]) - HIDDEN
        assert np.linalg.norm(off) <= made["radius"]


def test_levels_are_in_reach(tmp_path: Path, many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    noisy(tmp_path / "noisy_levels.py", "R.normal(0, 0.2)")
    common = ("--queries", many, "--levels", 4, "--format", "json", "--record", "l.jsonl")
    made = found(run("noisy_levels:level", "--noise", "gaussian:0.2", *common, "--budget", 400))
    assert made["asked"] == 400
    again = found(run("noisy_levels:level", "--noise", "gaussian:0.2", *common))
    assert again["recalled"] == 400
    assert np.abs(np.array([e["value"] for e in again["estimates"]]) - HIDDEN).max() < 0.1
    assert "state it" in str(run("noisy_levels:level", *common[:4]).exception)
    assert "no level from 0 to 3" in str(run("builtins:print", "--noise", "gaussian:1", *common[:4]).exception)


def test_principal_components_are_in_reach_and_a_query_further_off_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    rows = rng.random((400, 2)) @ np.array([[1.0, 1, 0, 0], [0, 0, 1, 1]]) + 1e-3 * rng.standard_normal((400, 4))
    basis = principal_basis(rows[:200])
    space = basis.subspace(np.zeros(4), np.ones(4))
    far = np.vstack([rows[200:], rows[:1] + np.array([[0.3, -0.3, 0, 0]])])
    attack = SequentialBisection(space, GaussianNoise(0.2))
    w = rng.random(4)
    assert attack.run(far, ThresholdOracle(w, GaussianNoise(0.2), rng=rng)).contained
    (tmp_path / "pca.py").write_text(
        f"import numpy as np\nR, W = np.random.default_rng(5), np.array({w.tolist()})\n"
        "def above(q, t): return int(q @ W + R.normal(0, 0.2) > t)\n", encoding="utf-8",
    )  # fmt: skip
    (tmp_path / "q.jsonl").write_text("\n".join(json.dumps(row) for row in rows.tolist()), encoding="utf-8")
    made = found(
        run("pca:above", "--queries", "q.jsonl", "--noise", "gaussian:0.2", "--basis", "auto",
            "--range", "0..1", "--format", "json")
    )  # fmt: skip
    assert made["span"] == 2
    assert all(e["low"] <= v <= e["high"] for e, v in zip(made["estimates"], w, strict=True))
    assert any("off the basis" in note for note in made["notes"])


def test_sticky_noise_under_a_stated_law_withdraws_the_certificate_where_questions_repeat() -> None:
    rng, drawn = np.random.default_rng(2), dict[bytes, float]()

    class Sticky:
        asked = 0

        def above(self, q: np.ndarray, threshold: float) -> int:
            self.asked += 1
            return int(q @ HIDDEN + drawn.setdefault(q.tobytes(), rng.normal(0, 0.3)) > threshold)

    rows = np.tile(rng.random((10, 3)), (40, 1))
    seen = learn_target(Sticky(), Questions(rows, np.zeros(3), np.ones(3)), AskingPlan(noise="gaussian:0.3"))
    assert any("sticky" in note and "nothing is certain" in note for note in seen.notes)
    assert (seen.low.tolist(), seen.high.tolist(), seen.radius) == ([0, 0, 0], [1, 1, 1], np.inf)


def test_a_misstated_noise_is_said_by_the_check_and_nothing_is_certain() -> None:
    rng = np.random.default_rng(4)
    rows = rng.random((2000, 2))
    oracle = ThresholdOracle(HIDDEN[:2], GaussianNoise(0.6), rng=rng)
    asking = Questions(rows, np.zeros(2), np.ones(2))
    seen = learn_target(oracle, asking, AskingPlan(noise="gaussian:0.1", calibrate=600))
    assert any("do not fit the stated noise" in note for note in seen.notes)
    assert seen.radius == np.inf


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--basis", "9"), "from 1 to 3"),
        (("--basis", "many"), "write span, auto"),
        (("--noise", "gaussian:1..2"), "write auto, none"),
        (("--noise", "uniform:2..1"), "low <= high"),
        (("--noise", "gaussian:1e308"), "must be from"),
        (("--noise", "gaussian:1", "--range", "0..1e308"), "its ends are numbers from"),
        (("--noise", "gaussian:0.1", "--learner", "edge"), "edge thresholds need noise"),
        (("--levels", "4", "--noise", "gaussian:1", "--learner", "edge"), "one learner"),
    ],
)
def test_what_does_not_fit_together_is_one_sentence(queries: Path, more: tuple[str, ...], said: str) -> None:
    done = run("math:pow", "--queries", queries, *more)
    assert isinstance(done.exception, KeyholeError)
    assert said in str(done.exception)


def test_files_that_name_an_entry_twice_or_differ_are_refused(tmp_path: Path, queries: Path) -> None:
    (tmp_path / "twice.csv").write_text("a,a\n1,0\n", encoding="utf-8")
    assert "named twice" in str(run("math:pow", "--queries", tmp_path / "twice.csv").exception)
    (tmp_path / "head.csv").write_text("a,b\n", encoding="utf-8")
    assert "only a header" in str(run("math:pow", "--queries", tmp_path / "head.csv").exception)
    done = run("math:pow", "--queries", queries, "--test", tmp_path / "other.csv")
    assert isinstance(done.exception, ConfigError)


def test_words_of_the_command_are_those_of_the_library() -> None:
    (option,) = (each for each in command.params if each.name == "learner")
    assert all(name in (getattr(option, "help", None) or "") for name in LEARNERS)


def test_a_budget_that_ends_a_bisection_keeps_what_is_known(served: Served, queries: Path) -> None:
    made = found(
        run(
            served.url,
            "--queries",
            queries,
            "--noise",
            "none",
            "--budget",
            30,
            "--format",
            "json",
            "--range",
            "0..1",
        )
    )
    first = made["estimates"][0]
    assert first["high"] - first["low"] < 1e-5
    assert first["low"] <= 0.2 <= first["high"]
    assert made["estimates"][2]["high"] - made["estimates"][2]["low"] == 1
    assert any("the budget was reached" in note for note in made["notes"])


def test_off_centre_thresholds_with_a_steep_output_are_refused() -> None:
    attack = SequentialBisection(Subspace.blocks(4, 2), SteepNoise(UniformNoise(1.0), 0.5, 2.0))
    q = attack.subspace.basis[0]
    centre = attack.threshold(q)
    assert centre is not None
    before = attack.box()
    with pytest.raises(ModelError, match="nothing would be certified"):
        attack.learn(q, centre + 5.0, 1)
    attack.learn(q, centre + 0.05, 1)
    assert np.array_equal(before, attack.box())


def test_a_horizon_that_is_passed_is_said() -> None:
    space, rng = Subspace.blocks(4, 2), np.random.default_rng(0)
    attack = OnlineBisection(space, UniformNoise(1.0), horizon=50)
    oracle = ThresholdOracle(rng.random(4), UniformNoise(1.0), rng=rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attack.run(np.tile(space.basis, (25, 1)), oracle)
    with pytest.warns(ModelWarning, match="more than the horizon of 50"):
        attack.run(space.basis, oracle)
