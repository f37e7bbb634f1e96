"""Attacks on real targets: a web endpoint that fails and is killed, a database, a function; what is certain holds."""

from __future__ import annotations

import base64
import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from keyhole.cli.oracle.attack import attack as command
from keyhole.cli.oracle.attack import read_queries
from keyhole.errors import ConfigError, KeyholeError, ModelError
from keyhole.oracles import (
    GaussianNoise,
    LaplaceNoise,
    LevelNewton,
    OneBitNewton,
    Subspace,
    ThresholdOracle,
    UniformNoise,
)
from keyhole.oracles import recorded as recording
from keyhole.oracles.attack_target import learn_target
from keyhole.oracles.certify.assumptions import LEVELS, Probe, can_tell_scale
from keyhole.oracles.certify.likelihood_region import LikelihoodRegion
from keyhole.oracles.learners.noiseless import line_search
from keyhole.oracles.recorded import Recorded
from keyhole.oracles.result import AskingPlan, Questions
from keyhole.oracles.targets import HttpTarget, StatementTarget, TargetDown

HIDDEN = np.array([0.2, 0.9, 0.5])


class Exact:
    """No noise."""

    def __init__(self, w: np.ndarray) -> None:
        self.w, self.asked = w, 0

    def above(self, q: np.ndarray, threshold: float) -> int:
        self.asked += 1
        return int(q @ self.w > threshold)


class Endpoint(BaseHTTPRequestHandler):
    """Answers exactly; every fifth request fails with a status that may be tried again."""

    served = 0
    fails = True

    def do_POST(self) -> None:
        Endpoint.served += 1
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if Endpoint.fails and Endpoint.served % 5 == 0:
            self.send_error(503)
            return
        said = bool(np.array(asked["query"]) @ HIDDEN > asked["threshold"])
        body = json.dumps({"above": said}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(recording, "FIRST_WAIT", 0.001)
    Endpoint.served, Endpoint.fails = 0, True
    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/above"
    server.shutdown()
    server.server_close()


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.csv"
    path.write_text("a,b,c\n1,0,0\n1,1,0\n0,1,1\n1,1,1\n", encoding="utf-8")
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments])


def test_an_endpoint_that_fails_now_and_then(url: str, queries: Path) -> None:
    done = run(url, "--queries", queries, "--noise", "none", "--format", "json")
    assert done.exit_code == 0, done.exception
    found = json.loads(done.stdout)
    assert [round(e["value"], 3) for e in found["estimates"]] == HIDDEN.tolist()
    assert all(e["low"] <= w <= e["high"] for e, w in zip(found["estimates"], HIDDEN, strict=True))
    assert Endpoint.served > found["asked"]


def test_killed_and_resumed_it_asks_nothing_twice(url: str, queries: Path, tmp_path: Path) -> None:
    Endpoint.fails = False
    record = tmp_path / "answers.jsonl"
    common = ("--queries", queries, "--noise", "none", "--format", "json")
    whole = json.loads(run(url, *common).stdout)
    total = Endpoint.served
    Endpoint.served = 0
    first = run(url, *common, "--record", record, "--budget", 25)
    assert json.loads(first.stdout)["notes"]
    with record.open("a", encoding="utf-8") as file:
        file.write('{"query": [1.0, 0.0')  # a crash in the middle of a line
    again = json.loads(run(url, *common, "--record", record).stdout)
    assert again["estimates"] == whole["estimates"]
    assert (again["recalled"], Endpoint.served) == (25, total + 6)  # both ends of 3 queries: is it the same target?
    assert len(record.read_text(encoding="utf-8").splitlines()) == again["asked"]


def test_a_target_that_changed_before_a_run_went_on_is_noticed(tmp_path: Path) -> None:
    """The query that was bisected before is not among those that are held against the rest."""
    record, eye, w = tmp_path / "r.jsonl", np.eye(12), np.linspace(0.1, 0.9, 12)
    questions = Questions(eye, np.zeros(12), np.ones(12))
    for budget, of in ((30, w), (None, np.where(np.arange(12) == 0, 0.7, w))):
        with Recorded(Exact(of), record, budget=budget) as target:
            found = learn_target(target, questions, AskingPlan("none"))
    assert any("The target changed" in note for note in found.notes)
    assert found.radius == np.inf
    with Recorded(Exact(w), record) as target:  # a whole record asks nothing
        again = learn_target(target, questions, AskingPlan("none"))
        assert again.asked == target.recalled
        assert again.radius == np.inf  # and certifies no more than the run that was withdrawn


def test_a_record_of_another_target_is_refused(url: str, queries: Path, tmp_path: Path) -> None:
    Endpoint.fails = False
    record, common = tmp_path / "r.jsonl", ("--queries", queries, "--noise", "none", "--record", tmp_path / "r.jsonl")
    assert run(url + "?key=s3cret", *common, "--budget", 9).exit_code == 0
    assert "of another target" in str(run(url + "?key=other", *common).exception)
    assert run(url + "?key=s3cret", *common).exit_code == 0
    assert "s3cret" not in record.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", ["?key=s3cret", "x%20y", ":0/", " /"])
def test_a_password_is_in_no_message(path: str, monkeypatch: pytest.MonkeyPatch, queries: Path) -> None:
    monkeypatch.setattr(recording, "FIRST_WAIT", 0.001)
    for scheme in ("http", "ftp"):
        done = run(f"{scheme}://ann:s3cret@127.0.0.1:9/{path}", "--queries", queries)
        assert isinstance(done.exception, ConfigError)
        assert "s3cret" not in str(done.exception)


def test_a_password_is_sent_and_a_redirection_is_not_followed(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    seen = list[str | None]()

    def noted(self: Endpoint) -> None:
        seen.append(self.headers["Authorization"])
        self.send_response(302 if self.path == "/moved" else 200)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"true")

    monkeypatch.setattr(Endpoint, "do_POST", noted)
    monkeypatch.setattr(Endpoint, "do_GET", noted, raising=False)
    assert HttpTarget(url.replace("http://", "http://ann:s%40crt@")).above(HIDDEN, 0.5) == 1
    assert seen == ["Basic " + base64.b64encode(b"ann:s@crt").decode()]
    with pytest.raises(ConfigError, match="status 302"):
        HttpTarget(url.replace("/above", "/moved")).above(HIDDEN, 0.5)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT AVG(pay) > {threshold} FROM staff WHERE name IN ({ids})",
        "SELECT SUM(pay) < {threshold} FROM staff WHERE name IN ({ids})",
        "SELECT SUM(pay) > {threshold}, COUNT(*) FROM staff WHERE name IN ({ids})",
        "SELECT SUM(pay) > {threshold} FROM staff WHERE name NOT IN ({ids})",
        "SELECT SUM(pay) > {threshold} FROM staff WHERE name IN ({ids}) OR pay > 3",
        "SELECT SUM(pay) > {threshold} FROM staff WHERE name IN ({ids}, 'Cy')",
        "SELECT SUM(pay) + 3 > {threshold} FROM staff WHERE name IN ({ids})",
        "SELECT COUNT(*) > 0 FROM staff WHERE name IN ({ids}) AND pay > {threshold}",
        "SELECT SUM(pay) > {threshold} FROM staff WHERE name IN ({ids}) AND pay < {threshold}",
    ],
)
def test_a_statement_that_is_no_sum_over_the_ids_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "staff.csv").write_text("name,pay\nAnn,1\nBob,3\nCy,5\n", encoding="utf-8")
    (tmp_path / "q.csv").write_text("Ann,Bob\n1,0\n1,1\n", encoding="utf-8")
    who = ("--data", tmp_path / "staff.csv", "--id", "name", "--private", "pay")
    assert "write a sum over the ids" in str(run(text, "--queries", tmp_path / "q.csv", *who).exception)


@pytest.mark.parametrize("extra", [0, 1])
def test_answers_that_do_not_add_up_are_noticed_or_it_is_said_that_nothing_checked_them(extra: int) -> None:
    class Mean(Exact):
        def above(self, q: np.ndarray, threshold: float) -> int:
            return super().above(q / q.sum(), threshold)

    rows = np.array([[1.0, 0, 0], [1, 1, 0], [0, 1, 1], [1, 1, 1]])[: 3 + extra]
    found = learn_target(Mean(HIDDEN), Questions(rows, -np.ones(3), np.ones(3)), AskingPlan("none"))
    assert ("no query was left over" if not extra else "no sums of hidden numbers") in " ".join(found.notes)
    assert (found.radius == np.inf) == bool(extra)


@pytest.mark.parametrize("noise", ["none", "gaussian:0.2"])
@pytest.mark.parametrize("asking", [True, False], ids=["asking", "solving"])
def test_ctrl_c_keeps_what_is_known_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: str, asking: bool
) -> None:
    """Pressed while the target has the word, or between two questions."""
    (tmp_path / "pressed.py").write_text(
        "import os, signal\nn, at, asking = 0, 40, True\n"
        "def above(q, t):\n    global n\n    n += 1\n"
        "    if n == at and asking: os.kill(os.getpid(), signal.SIGINT)\n    return q @ (0.2, 0.9, 0.5) > t\n",
        encoding="utf-8",
    )
    (tmp_path / "q.csv").write_text("a,b,c\n" + "1,0,0\n1,1,0\n0,1,1\n1,1,1\n" * 30, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("pressed", None)
    pressed = importlib.import_module("pressed")
    pressed.asking, whole = asking, Recorded._next

    def after(self: Recorded, *told: Any) -> int:
        said = whole(self, *told)
        if not asking and self.asked == pressed.at:
            os.kill(os.getpid(), signal.SIGINT)
        return said

    monkeypatch.setattr(Recorded, "_next", after)
    common = (
        "pressed:above",
        "--queries",
        "q.csv",
        "--noise",
        noise,
        "--range",
        "0..1",
        "--format",
        "json",
    )
    done = run(*common, "--record", "r.jsonl")
    assert done.exit_code == 0, done.exception
    found = json.loads(done.stdout)
    assert any("Ctrl-C was pressed" in note for note in found["notes"])
    assert found["asked"] == (pressed.at - 1 if asking else pressed.at)
    pressed.at = -1
    assert json.loads(run(*common, "--record", "r.jsonl").stdout)["recalled"] == found["asked"]


def test_a_run_without_an_answer_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone.py").write_text("def above(q, t): raise KeyboardInterrupt\n", encoding="utf-8")
    (tmp_path / "q.csv").write_text("a\n1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    done = run("gone:above", "--queries", "q.csv", "--noise", "none", "--range", "0..1")
    assert "not one question was answered: Ctrl-C" in str(done.exception)


def test_a_dead_target_keeps_the_record(queries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "FIRST_WAIT", 0.001)
    done = run("http://127.0.0.1:9/", "--queries", queries, "--record", tmp_path / "r.jsonl")
    assert isinstance(done.exception, ConfigError)
    assert "failed 5 times in a row" in str(done.exception)
    with pytest.raises(TargetDown):
        HttpTarget("http://127.0.0.1:9/").above(HIDDEN, 0.0)


def test_a_record_of_another_attack_is_refused(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    with Recorded(Exact(HIDDEN), record) as first:
        first.above(np.array([1.0, 0.0, 0.0]), 0.5)
    with Recorded(Exact(HIDDEN), record) as second, pytest.raises(ConfigError, match="another attack"):
        second.above(np.array([0.0, 1.0, 0.0]), 0.5)
    record.write_text("not json\n", encoding="utf-8")
    with pytest.raises(ModelError, match="line 1"):
        Recorded(Exact(HIDDEN), record)


def test_two_runs_do_not_write_one_record(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    with Recorded(Exact(HIDDEN), record) as first:
        first.above(np.array([1.0, 0.0, 0.0]), 0.5)
        with pytest.raises(ConfigError, match="in use by another run"):
            Recorded(Exact(HIDDEN), record)
    with Recorded(Exact(HIDDEN), record) as again:
        again.above(np.array([1.0, 0.0, 0.0]), 0.5)
        assert again.recalled == 1


@pytest.mark.parametrize(("answers", "room", "tells"), [(20_000, 0.02, True), (100, 0.25, False)])
def test_a_fit_is_said_only_where_another_scale_would_have_been_noticed(answers: int, room: float, tells: bool) -> None:
    probes = tuple(Probe(a, answers, 1 - a, 1 - a - room, 1 - a + room) for a in LEVELS)
    assert can_tell_scale(GaussianNoise(0.3), probes) is tells


def test_a_database_is_asked_and_a_mistyped_id_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "staff.csv").write_text("name,pay\nAnn,0.25\nBob,0.75\n", encoding="utf-8")
    (tmp_path / "q.csv").write_text("Ann,Bob\n1,0\n1,1\n", encoding="utf-8")
    sql = "SELECT SUM(pay) > {threshold} FROM staff WHERE name IN ({ids})"
    who = ("--data", tmp_path / "staff.csv", "--id", "name", "--private", "pay")
    done = run(sql, "--queries", tmp_path / "q.csv", *who, "--format", "json")
    assert done.exit_code == 0, done.exception
    assert [round(e["value"], 3) for e in json.loads(done.stdout)["estimates"]] == [0.25, 0.75]
    (tmp_path / "q.csv").write_text("Ann,Bod\n1,0\n1,1\n", encoding="utf-8")
    done = run(sql, "--queries", tmp_path / "q.csv", *who)
    assert "'Bod' in the header of the queries is nobody's id" in str(done.exception)
    with pytest.raises(ModelError, match="neither yes nor no"):
        StatementTarget(sql, ["Ann"], lambda _sql: None).above(np.array([1.0]), 0.5)


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("a,b\n1,x\n", (), "line 2: an entry is not a number"),
        ("a,b\n1\n", (), "has 1 entries"),
        ("a,b\n1,1e308\n", (), "from -1e100 to 1e100"),
        ("", (), "holds no query"),
        ("a\n1\n", ("--range", "1..0"), "write LOW..HIGH"),
        ("a\n1\n", ("--noise", "cauchy:1"), "write auto, none"),
        ("a\n1\n", ("--noise", "gaussian:-1"), "write auto, none"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, text: str, more: tuple[str, ...], said: str) -> None:
    path = tmp_path / "q.csv"
    path.write_text(text, encoding="utf-8")
    done = run("math:pow", "--queries", path, *more)
    assert isinstance(done.exception, KeyholeError)
    assert said in str(done.exception)


def test_lines_that_are_not_json_and_targets_that_are_none(tmp_path: Path, queries: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text("[1, 0]\nnot json\n", encoding="utf-8")
    assert "line 2 is not JSON" in str(run("math:pow", "--queries", path).exception)
    assert "is not http" in str(run("nonsense", "--queries", queries).exception)
    assert "Missing option '--queries'" in run("math:pow").output
    assert "Missing argument 'TARGET'" in run("--noise", "none", "--queries", queries).output


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("a,b\n1,0\n", encoding="utf-8-sig")
    assert read_queries(tmp_path / "q.csv")[0] == ["a", "b"]


def test_line_search_takes_d_log_answers() -> None:
    rng = np.random.default_rng(1)
    w = rng.random(40)
    oracle = Exact(w)
    found = line_search(oracle, rng.random((60, 40)), np.zeros(40), np.ones(40), resolution=1e-9)
    assert oracle.asked <= 40 * (np.log2(40 / 1e-9) + 3)
    assert np.abs(found.estimate - w).max() < 1e-6
    assert np.all(found.low <= w)
    assert np.all(w <= found.high)


def test_noise_is_noticed_by_the_line_search() -> None:
    oracle = ThresholdOracle(np.array([0.3, 0.6]), GaussianNoise(0.2), rng=np.random.default_rng(5))
    noticed = 0
    for _ in range(20):
        try:
            line_search(oracle, np.eye(2), np.zeros(2), np.ones(2))
        except ModelError as error:
            noticed += "contradicts itself" in str(error)
    assert noticed >= 10


def test_noise_is_measured_and_what_is_certified_holds() -> None:
    held = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        w = rng.random(3)
        oracle = ThresholdOracle(w, GaussianNoise(0.3), rng=rng)
        found = learn_target(oracle, Questions(rng.random((1500, 3)), np.zeros(3), np.ones(3)))
        assert found.measured
        held += bool(np.all(found.low <= w) and np.all(w <= found.high))
        assert np.abs(found.estimate - w).max() < 0.2
    assert held >= 3


def test_sticky_noise_is_said() -> None:
    rng, drawn = np.random.default_rng(2), dict[bytes, float]()

    class Sticky(Exact):
        def above(self, q: np.ndarray, threshold: float) -> int:
            self.asked += 1
            return int(q @ self.w + drawn.setdefault(q.tobytes(), rng.normal(0, 0.1)) > threshold)

    found = learn_target(Sticky(HIDDEN), Questions(rng.random((40, 3)), np.zeros(3), np.ones(3)))
    assert any("sticky" in note for note in found.notes)
    assert (found.low.tolist(), found.high.tolist()) == ([0, 0, 0], [1, 1, 1])


def test_regions_need_a_law_they_know() -> None:
    with pytest.raises(ModelError, match="Gaussian or uniform"):
        LikelihoodRegion(Subspace.blocks(4, 2), LaplaceNoise(1.0))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: OneBitNewton(Subspace.blocks(4, 2), 1.0), "the noise is a law"),
        (lambda: LevelNewton(Subspace.blocks(4, 2), GaussianNoise(1.0), levels=2.5), "a whole number of levels"),
        (lambda: UniformNoise("wide"), "must be a positive number"),
        (lambda: GaussianNoise(1e308), "must be from"),
    ],
)
def test_a_wrong_setting_is_one_sentence(make: Any, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        make()
