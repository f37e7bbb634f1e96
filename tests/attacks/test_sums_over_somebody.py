"""SUM under a private condition is NULL over nobody, so a printed 0 is over somebody; a range may hide a NULL."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import keyhole
from keyhole.config import Config

CONFIG = '[columns]\nid = ["who"]\n[columns.private.x]\nmin = 0\nmax = 4\nstep = 1\n'
SQL = "SELECT SUM(x) FROM r WHERE x < 2 AND who IN (0, 1)"
TABLES = np.array(list(product(range(5), repeat=2)))


def chance_of_guess(answer: Any, **more: Any) -> tuple[float, float]:
    """(guess, its probability) of the first person."""
    lines = [{"sql": SQL, "answer": answer, **more}]
    found = keyhole.attack(lines, data=pa.table({"who": [0, 1, 2]}), config=Config.parse(CONFIG)).found[0][2]
    return float(found.values[0]), float(found.confidence[0])


@pytest.mark.parametrize(("answer", "somebody"), [(0, True), ({"suppressed": [0, 0]}, False), (None, None), (1, True)])
def test_the_posterior_is_that_of_every_table(answer: Any, somebody: bool | None) -> None:
    small = TABLES < 2
    total, some = np.where(small, TABLES, 0).sum(axis=1), small.any(axis=1)
    said = answer if isinstance(answer, int) else 0
    possible = ~some if answer is None else (total == said) & (some | (not somebody))
    guess, stated = chance_of_guess(answer)
    assert stated == pytest.approx((TABLES[possible, 0] == guess).mean(), abs=1e-6)


def test_a_printed_zero_that_was_rounded_is_one_too() -> None:
    """x of 0 or 1 in the sum: 0 or 1, and somebody's."""
    small = TABLES < 2
    total = np.where(small, TABLES, 0).sum(axis=1)
    guess, stated = chance_of_guess(0, noise={"kind": "rounded", "scale": 1})
    assert stated == pytest.approx((TABLES[(total <= 1) & small.any(axis=1), 0] == guess).mean(), abs=1e-6)
