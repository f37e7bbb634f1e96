"""The privacy loss distribution figure: never above the sum, and near what is known."""

from __future__ import annotations

import pytest

from keyhole.defence.budget.composition import composed_epsilon
from keyhole.defence.budget.loss import Loss


def test_one_loss_is_itself_and_many_are_less_than_their_sum() -> None:
    assert composed_epsilon([Loss.of_epsilon("0.5")], 1e-9) == pytest.approx(0.5, abs=1e-3)
    assert composed_epsilon([Loss.of_epsilon("0.01")] * 1000, 1e-6) == pytest.approx(1.36, abs=0.1)
    assert composed_epsilon([Loss.of_rho("0.005")] * 2, 1e-6) < 1.2
    assert composed_epsilon([], 1e-6) == 0
