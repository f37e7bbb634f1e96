"""Counts under conditions on two private columns leave those under one as they are, and end no method."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import keyhole
from keyhole.config import Config

RATES = np.array([0.5, 0.2, 0.3])
CONFIG = (
    '[columns]\nid = ["who"]\n[columns.private.x]\nmin = 0\nmax = 2\nstep = 1\nprior = {"0" = 0.5, "1" = 0.2}\n'
    '[columns.private.y]\nvalues = ["A", "B", "C"]\n'
)
TIED = {"sql": "SELECT COUNT(*) FROM r WHERE x = 1 AND y = 'A' AND who IN (0, 1, 2)", "answer": 1}
N = 6


def attacked(lines: list[dict[str, Any]], method: str = "auto") -> Any:
    """The attack on x."""
    people = pa.table({"who": list(range(N))})
    return keyhole.attack(lines, data=people, config=Config.parse(CONFIG), method=method).found[0][2]


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_are_of_one_column_alone_are_used_beside_one_of_two(seed: int) -> None:
    """Against every table of x; what ties y to x is left out there, too."""
    rng = np.random.default_rng(seed)
    x, tables = rng.choice(3, N, p=RATES), np.array(list(product(range(3), repeat=N)))
    x[0], log, lines = 1, np.log(RATES)[tables].sum(axis=1), [TIED]
    for _ in range(5):
        who, k = np.flatnonzero(rng.random(N) < 0.6), int(rng.integers(3))
        if not len(who):
            continue
        added = np.where(np.arange(3) >= k, np.arange(3), 0) if rng.random() < 0.5 else (np.arange(3) == k).astype(int)
        item = f"SUM(CASE WHEN x >= {k} THEN x ELSE 0 END)" if added.max() > 1 else f"COUNT(*) FILTER (WHERE x = {k})"
        said = float(added[x[who]].sum() + rng.normal(0, 0.7))
        sql = f"SELECT {item} FROM r WHERE who IN ({', '.join(map(str, who))})"
        lines.append({"sql": sql, "answer": said, "noise": {"kind": "gaussian", "scale": 0.7}})
        log -= (added[tables[:, who]].sum(axis=1) - said) ** 2 / (2 * 0.7**2)
    weight = np.exp(log - log.max())
    found = attacked(lines)
    for i in range(N):
        right = weight[tables[:, i] == found.values[i]].sum() / weight.sum()
        assert found.confidence[i] == pytest.approx(right, abs=1e-3)


@pytest.mark.parametrize("method", ["bounded", "l1", "lbfgs", "jacobi", "sparse"])
def test_a_log_of_tied_counts_alone_ends_in_a_guess(method: str) -> None:
    found = attacked([TIED], method)
    off = np.array([found.values - v for v in range(3)])
    assert np.allclose(found.confidence, np.sqrt(RATES @ off**2), atol=1e-6)
