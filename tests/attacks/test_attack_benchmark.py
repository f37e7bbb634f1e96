"""The benchmark's parts run, at a small size, and say what the docs quote."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks import attack, sparse
from tests.support.effort import effort


def test_streaming_reports_a_share_of_the_limit() -> None:
    reply = attack.streaming(n=6400, rows=4, repeats=1)
    assert set(reply["share of the limit"]) == {"one at a time", "blocks of 16"}
    assert all(share > 0 for share in reply["share of the limit"].values())


def test_decoding_agrees_with_its_peers() -> None:
    reply = attack.decoding(n=20, m=60, repeats=1, patience=1e6)
    errors = list(reply["sum of absolute errors"].values())
    assert np.ptp(errors) < 1e-3
    assert set(reply["share correct"]) >= {"L1", "Bounded", "scipy lsq_linear", "scipy linprog", "cvxpy L1"}


def test_known_noise_and_integrality_pay_on_a_small_scale() -> None:
    reply = attack.bits(seeds=effort(4) + 1, n=16, sizes=(80,))["queries"]["80"]
    assert reply["integer"]["share correct"] >= reply["least-squares"]["share correct"]
    assert {name for name, *_ in attack.METHODS} == set(reply)


@pytest.mark.soak
def test_posterior_majority_beats_the_linear_program() -> None:
    shares = attack.signs(seeds=20)["share correct"]
    assert shares["posterior majority (integer)"] > shares["LP (l1)"]


def test_the_python_of_the_docs_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "attack.md").read_text(encoding="utf-8")
    code, played = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(code, "docs/attack.md", "exec"), {})
    assert capsys.readouterr().out == "1.0\n"
    exec(compile(played, "docs/attack.md", "exec"), {})
    noisy, replayed = capsys.readouterr().out.splitlines()
    assert [float(value) for value in noisy.strip("[]").split()] == pytest.approx([10, 20, 30], abs=3)
    assert replayed == "[10. 20. 30.]"


def test_the_benchmark_of_sparse_logs_runs_small_and_agrees_with_its_peers(capsys: pytest.CaptureFixture[str]) -> None:
    read = sparse.reading(statements=30, people=60, asked=20)
    assert read["judged"] == 30
    square = sparse.square(n=300, each=10)
    assert square["exact, 0..100 known"]["root mean square error"] < 1e-3
    assert square["Gaussian noise 1, 0..100 known"]["stated"] < 28
    whole = sparse.large(n=3_000, m=600)
    assert 0.8 < whole["exact"]["root mean square of error over stated error (1 is honest)"] < 1.25
    assert len(sparse.kaczmarz(((200, 40),))) == 2
    page = (Path(__file__).parents[2] / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    sparse.show("square", square)
    for line in capsys.readouterr().out.splitlines():
        assert line.split(":")[0] in page  # the results show what it prints
