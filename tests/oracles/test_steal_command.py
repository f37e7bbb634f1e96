"""`keyhole oracle steal`: a web address and a function, several classes, own features, beside logistic regression."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from sklearn.linear_model import LogisticRegression as Peer

from keyhole.cli.oracle.steal import steal
from keyhole.errors import ConfigError, ModelError
from keyhole.oracles.noise import Floats
from keyhole.oracles.steal_target import LogisticRegression, Service, TheftPlan, open_labels, steal_target

W = np.array([1.0, -2.0, 0.5, 0.3])


class LabelServer:
    """An endpoint on the loopback that labels inputs."""

    def __init__(self, label: Callable[[Floats], object]) -> None:
        self.count = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.count += 1
                body = json.dumps({"label": label(np.array(asked["input"]))}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/classify"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()


@pytest.fixture
def served() -> Iterator[LabelServer]:
    made = LabelServer(lambda x: "spam" if x @ W > 0.2 else "ham")
    yield made
    made.server.shutdown()
    made.thread.join(10)
    made.server.server_close()


def write_inputs(folder: Path, rows: Floats) -> Path:
    path = folder / "inputs.csv"
    head = ",".join(f"x{k}" for k in range(rows.shape[1]))
    lines = [",".join(f"{v:.6f}" for v in row) for row in rows.tolist()]
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(steal, [str(a) for a in arguments])


def test_a_web_address_is_stolen_from_and_compared(served: LabelServer, tmp_path: Path) -> None:
    inputs = write_inputs(tmp_path, np.random.default_rng(0).standard_normal((600, 4)))
    done = run(served.url, "--inputs", inputs, "--labels", 150, "--classes", "ham,spam", "--format", "json")
    assert done.exit_code == 0, done.exception
    made = json.loads(done.stdout)
    assert made["method"] == "line search"
    assert made["labels"] <= 150
    assert made["asked"] == served.count == 2 * made["labels"] + 200
    w = np.array(made["weights"][0])
    assert w @ W / np.linalg.norm(w) / np.linalg.norm(W) > 0.999
    assert made["score"]["stolen"] >= max(0.99, made["score"]["logistic_regression"]["share"])
    text = run(served.url, "--inputs", inputs, "--labels", 150, "--classes", "ham,spam").stdout
    assert "held-out inputs; logistic regression on" in text
    assert "spam: x0" in text


def test_several_classes_of_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "three_classes.py").write_text(
        "import numpy as np\nW = np.random.default_rng(3).standard_normal((3, 4))\n"
        "def name(x): return ('red', 'green', 'blue')[int(np.argmax(W @ x))]\n",
        encoding="utf-8",
    )
    inputs = write_inputs(tmp_path, np.random.default_rng(1).standard_normal((700, 4)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    chosen = ("--inputs", inputs, "--labels", 400, "--classes", "red,green,blue")
    made = json.loads(run("three_classes:name", *chosen, "--format", "json").stdout)
    assert (made["method"], len(made["weights"]), made["asked"]) == ("softmax", 3, 1000)
    assert made["score"]["stolen"] > 0.95
    assert made["score"]["stolen"] > made["score"]["logistic_regression"]["share"] - 0.01
    refused = run("three_classes:name", "--inputs", inputs, "--classes", "red,green").exception
    assert isinstance(refused, ModelError)
    assert "none of the classes" in str(refused)


def test_a_feature_map_of_ones_own_mends_a_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "circle_target.py").write_text(
        "import numpy as np\ndef inside(x): return bool(x @ x < 1.5)\n"
        "def squares(x): return np.array([x[0], x[1], x[0] ** 2, x[1] ** 2, x[0] * x[1]])\n",
        encoding="utf-8",
    )
    inputs = write_inputs(tmp_path, np.random.default_rng(2).standard_normal((600, 2)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    chosen = ("--inputs", inputs, "--labels", 600, "--format", "json")
    plain = json.loads(run("circle_target:inside", *chosen).stdout)
    assert plain["doubt"]
    mended = json.loads(run("circle_target:inside", *chosen, "--features", "circle_target:squares").stdout)
    assert mended["score"]["stolen"] > 0.97 > plain["score"]["stolen"]


def test_at_equal_labels_it_is_better_than_logistic_regression_on_average() -> None:
    stolen, logistic = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        w, X = rng.standard_normal(8), rng.standard_normal((900, 8))

        class Noisy:
            name = "noisy"

            def label(self, x: Floats, w: Floats = w, rng: np.random.Generator = rng) -> int:
                return int(w @ x + rng.normal(0, 0.5 * np.linalg.norm(w)) > 0)

        theft = steal_target(Service(Noisy(), ("0", "1")), X, TheftPlan(300, score=5, seed=seed))
        peer = LogisticRegression(X, None, 2)
        asked = X[:300]
        peer.fit(asked, (asked @ w + rng.normal(0, 0.5 * np.linalg.norm(w), 300) > 0).astype(int))
        truth = X[300:] @ w > 0
        stolen.append(np.mean((X[300:] @ theft.weights[0] + theft.intercepts[0] > 0) == truth))
        logistic.append(np.mean(peer.predict(X[300:]) == truth))
    assert np.mean(stolen) > np.mean(logistic)


def test_the_peer_is_as_good_as_the_usual_one() -> None:
    rng = np.random.default_rng(4)
    w, X, Y = rng.standard_normal(6), rng.standard_normal((400, 6)), rng.standard_normal((4000, 6))
    labels = (X @ w + rng.normal(0, 1, 400) > 0).astype(int)
    ours = LogisticRegression(X, None, 2)
    ours.fit(X, labels)
    theirs = Peer(max_iter=1000).fit(X, labels)
    assert np.mean(ours.predict(Y) == theirs.predict(Y)) > 0.985


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("math:pow", "--classes", "a"), "at least two different words"),
        (("math:pow", "--classes", "a,a"), "at least two different words"),
        (("math:pow", "--classes", "a,b,c", "--noise-std", "1"), "is for two classes"),
        (("nonsense",), "TARGET is http"),
        (("math:pow", "--features", "math:pi"), "not a function"),
        (("math:pi",), "not a function"),
        (("math:pow",), "failed: TypeError"),
    ],
)
def test_what_cannot_be_stolen_is_said_in_a_sentence(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    inputs = write_inputs(tmp_path, np.random.default_rng(0).standard_normal((30, 3)))
    refused = run(*arguments, "--inputs", inputs).exception
    assert isinstance(refused, ConfigError)
    assert said in str(refused)


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as refused:
        open_labels("ftp://ann:s3cret@example.org/x")
    assert "s3cret" not in str(refused.value)
