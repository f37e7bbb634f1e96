"""`keyhole oracle simulate`: text, JSON, plots, exit codes."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.commands import run_command

from keyhole.cli import app
from keyhole.cli.oracle.simulate import StreamName
from keyhole.errors import ConfigError
from keyhole.oracles.simulate import StreamKind
from keyhole.report.charts.figures import compute_guides, draw_errors
from keyhole.report.html.page import write_chart


def invoke(*arguments: str) -> tuple[int, str, str]:
    return run_command("oracle", "simulate", *arguments)


@pytest.mark.parametrize("method", ["online-bisection", "sequential", "newton", "edge", "oracle-off"])
def test_json_has_runs_and_a_summary(method: str) -> None:
    code, out, _ = invoke("--learner", method, "--queries", "3000", "--seeds", "2", "--format", "json")
    assert code == 0
    found = json.loads(out)
    assert [run["seed"] for run in found["runs"]] == [0, 1]
    summary = found["summary"]
    assert set(summary) == {
        "method", "queries", "average_error", "final_error", "contained", "floor", "bound",
        "published_bound", "seconds",
    }  # fmt: skip
    assert summary["method"] == method
    assert summary["queries"] == 3000
    assert math.isclose(summary["average_error"], sum(r["average_error"] for r in found["runs"]) / 2)
    if method == "oracle-off":
        assert summary["contained"] is None
        assert summary["bound"] is None
    else:
        assert summary["contained"] is True
        assert summary["average_error"] < summary["bound"]
    for run in found["runs"]:
        ts = [t for t, _ in run["trace"]]
        assert ts == sorted(set(ts))
        assert ts[0] == 1
        assert ts[-1] <= 3000


def test_same_seed_same_numbers() -> None:
    one, two = (json.loads(invoke("--queries", "500", "--seeds", "1", "--format", "json")[1]) for _ in range(2))
    assert one["runs"][0]["average_error"] == two["runs"][0]["average_error"]


def test_text_shows_every_seed_and_the_floor() -> None:
    code, out, _ = invoke("--queries", "2000", "--seeds", "3", "--stream", "spread", "--noise", "laplace:1")
    assert code == 0
    assert re.search(r"newton, 2,000 queries: average error 0\.\d+ = \d+\.\d+ x floor 0\.\d+", out)
    assert len(re.findall(r"^ +\d +0\.\d+", out, re.MULTILINE)) == 3


def test_theory_is_printed_beside_the_measurement() -> None:
    out = invoke("--queries", "1000", "--seeds", "1", "--learner", "online-bisection")[1]
    assert "loses w with probability at most" in out
    assert "once the stop side is reached, which cannot be" in out
    assert "minimax" not in out  # uniform noise: faster than 1/sqrt(T) is possible
    assert "minimax: no method" in invoke("--queries", "1000", "--seeds", "1", "--noise", "gaussian:0.25")[1]


def test_the_page_has_the_chart_and_needs_no_network(tmp_path: Path) -> None:
    path = tmp_path / "error.html"
    code, _, err = invoke("--queries", "2000", "--seeds", "1", "--format", "html", "--out", str(path))
    assert code == 0, err
    text = path.read_text(encoding="utf-8")
    assert "newton" in text
    assert not re.search(r'(?:src|href)\s*=\s*"(?:https?:)?//', text)
    charts = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert charts
    for chart in charts:
        xml.etree.ElementTree.fromstring(chart)
    assert "<path" in "".join(charts)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--noise", "cauchy:1"], "unknown noise"),
        (["--noise", "uniform"], "KIND:u"),
        (["--subspace", "9"], "larger than"),
        (["--learner", "edge", "--noise", "gaussian:1"], "edge"),
        (["--delta", "2", "--learner", "sequential"], "delta"),
        (["--learner", "guess"], "guess"),
        (["--queries", "0"], "queries"),
    ],
)
def test_could_not_run_is_2_and_says_why(arguments: list[str], words: str) -> None:
    code, out, err = invoke("--seeds", "1", *(["--queries", "100"] if "--queries" not in arguments else []), *arguments)
    assert code == 2
    assert words in err
    assert not out


def test_result_can_go_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    code, out, _ = invoke("--queries", "100", "--seeds", "1", "--format", "json", "--out", str(path))
    assert (code, out) == (0, "")
    assert json.loads(path.read_text())["summary"]["queries"] == 100


def test_options_name_what_can_be_played() -> None:
    assert [s.value for s in StreamName] == [s.value for s in StreamKind]


def test_help_teaches() -> None:
    result = CliRunner().invoke(app, ["oracle", "simulate", "--help"], terminal_width=200)
    assert result.exit_code == 0
    for words in ("keyhole oracle simulate --learner sequential", "Exit code", "contained", "standard deviation"):
        assert words in result.output


def test_guides_meet_the_measured_end() -> None:
    guides = compute_guides([(1, 0.5), (100, 0.05)], 0.04)
    assert guides["1/sqrt(T)"][-1] == pytest.approx((100, 0.05))
    assert guides["floor"][0] == pytest.approx((1, 0.4))
    assert compute_guides([], 1.0) == {}
    with pytest.raises(ConfigError, match="cannot plot"):
        write_chart(draw_errors({"a": [(1, 1)]}), Path("a.gif"), title="a")
    with pytest.raises(ConfigError, match="cannot write"):
        write_chart(draw_errors({"a": [(1, 1)]}), Path("/nonexistent/a.svg"), title="a")
