"""What is shown of a noisy number proves nothing of the true one; its likelihood enters the posterior."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import erf, exp, sqrt
from typing import Any

import pyarrow as pa
import pytest

from keyhole import attack, audit

ROSTER = pa.table({"name": ["a", "b", "c"]})
PEOPLE = pa.table({"name": ["a", "b", "c"], "c": [1, 1, 1]})
GAUSSIAN = {"kind": "gaussian", "scale": 3}
SUM = "SELECT SUM(c) FROM t"


def attacked(*lines: dict[str, Any]) -> Any:
    return attack(list(lines), data=ROSTER, id="name", private="c:0..3:1")


def normal(x: float) -> float:
    return 0.5 * (1 + erf(x / sqrt(2)))


def chance_of_first(value: float, likelihood: Callable[[int], float], people: int = 3) -> float:
    """P(the first has the value), table by table."""
    tables = list(product(range(4), repeat=people))
    weights = [likelihood(sum(t)) for t in tables]
    return sum(w for t, w in zip(tables, weights, strict=True) if t[0] == value) / sum(weights)


@pytest.mark.parametrize(
    ("answer", "noise"),
    [
        ({"suppressed": [0, 0]}, GAUSSIAN),
        ({"lo": 0, "hi": 0}, {"kind": "laplace", "scale": 1}),
        ({"suppressed": [0, 0]}, {"kind": "unknown"}),
        ({"lo": 9, "hi": None}, {"kind": "discrete-gaussian", "scale": 1}),
    ],
)
@pytest.mark.parametrize("sql", [SUM, "SELECT AVG(c) FROM t", "SELECT MAX(c) FROM t"])
def test_a_noisy_range_exposes_nobody(sql: str, answer: object, noise: object) -> None:
    line = {"sql": sql, "answer": answer, "noise": noise}
    assert not list(audit([line], data=PEOPLE, id="name", private="c:0..3:1"))
    found = attacked(line)
    assert max(each["confidence"] for each in found.to_json()["estimates"]) < 0.9
    for lo, hi in found.ranges.values():
        assert (lo == 0).all()
        assert (hi == 3).all()


def test_bounded_noise_widens_a_range() -> None:
    """A number that is shown to be 9, off by at most 2, is 7 at least: nobody has 0, everybody may have 1."""
    lo, hi = attacked({"sql": SUM, "answer": {"lo": 9, "hi": 9}, "noise": {"kind": "uniform", "scale": 2}}).ranges["c"]
    assert (lo.tolist(), hi.tolist()) == ([1, 1, 1], [3, 3, 3])


def test_a_noisy_range_is_its_likelihood() -> None:
    found = attacked({"sql": SUM, "answer": {"lo": 1, "hi": 2}, "noise": GAUSSIAN})
    value, sure = found.estimates()[0], found.found[0][2].confidence[0]
    want = chance_of_first(value, lambda s: normal((2 - s) / 3) - normal((1 - s) / 3))
    assert sure == pytest.approx(want, abs=1e-6)


def test_a_range_of_one_number_is_that_number() -> None:
    found = attacked({"sql": SUM, "answer": {"suppressed": [4, 4]}, "noise": GAUSSIAN})
    sure = found.found[0][2].confidence[0]
    want = chance_of_first(found.estimates()[0], lambda s: exp(-0.5 * ((s - 4) / 3) ** 2))
    assert sure == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize(("op", "yes", "above"), [(">", True, True), (">=", False, False), ("<", True, False)])
def test_a_noisy_yes_is_its_likelihood(op: str, yes: bool, above: bool) -> None:
    found = attacked({"sql": f"SELECT SUM(c) {op} 5 FROM t", "answer": yes, "noise": GAUSSIAN})
    sure = found.found[0][2].confidence[0]
    want = chance_of_first(found.estimates()[0], lambda s: normal((s - 5) / 3 * (1 if above else -1)))
    assert sure == pytest.approx(want, abs=1e-6)


def test_a_noisy_equality_is_not_used_and_said() -> None:
    found = attacked({"sql": "SELECT SUM(c) = 5 FROM t", "answer": True, "noise": GAUSSIAN})
    assert found.found[0][2].confidence.tolist() == [0.25] * 3
    assert any("is not used: whether a noisy number equals" in said for said in found.warnings)


def test_a_group_that_noise_may_have_dropped_is_not_empty() -> None:
    roster = pa.table({"name": ["a", "b"], "g": [1, 2]})
    sql = "SELECT g, COUNT(*) FROM t WHERE c >= 2 GROUP BY g"
    line = {"sql": sql, "answer": [{"key": {"g": 1}, "values": [1]}], "noise": GAUSSIAN}
    found = attack([line], data=roster, id="name", private="c:0..3:1")
    assert found.found[0][2].confidence[1] == 0.25
    assert any("not shown may have been left out" in said for said in found.warnings)
