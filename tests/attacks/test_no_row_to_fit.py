"""Logs that leave a method nothing to fit the column by: sums of squares alone, extremes and facts alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import keyhole
from keyhole.config import Config

WHO = pa.table({"who": [0, 1, 2]})
SQUARES = {"sql": "SELECT SUM(x * x) FROM r WHERE who IN (0, 1)", "answer": 5}
MEDIAN = {"sql": "SELECT MEDIAN(x) FROM r WHERE who IN (0, 1)", "answer": 2}
FACT = '[[facts]]\nwhere = "who = 2"\nmax = 2\n'
METHODS = ("auto", "bounded", "l1", "sparse", "convex", "lbfgs", "jacobi")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("line", [SQUARES, SQUARES | {"noise": {"kind": "laplace", "scale": 1}}, MEDIAN])
def test_the_guess_is_the_prior_within_the_facts(line: dict[str, Any], method: str) -> None:
    config = Config.parse(f'[columns]\nid = ["who"]\n[columns.private.x]\nmin = 0\nmax = 4\n{FACT}')
    found = keyhole.attack([line], data=WHO, config=config, method=method).found[0][2]
    middle, width = np.array([2, 2, 1]), np.array([4, 4, 2])
    pulled = method == "sparse" and line is MEDIAN  # to the common value, which its error knows
    assert np.allclose(found.values, 0 if pulled else middle, atol=1e-6)
    assert np.allclose(found.confidence, np.hypot(width / np.sqrt(12), found.values - middle), atol=1e-6)


@pytest.mark.parametrize("range_", ["", "min = 0\n"])
def test_nothing_bounds_an_open_range(range_: str) -> None:
    config = Config.parse(f'[columns]\nid = ["who"]\n[columns.private.x]\n{range_}')
    found = keyhole.attack([SQUARES], data=WHO, config=config).found[0][2]
    assert np.isinf(found.confidence).all()
