"""Sticky noisy COUNTs of a category under arithmetic conditions on ids: the log as it stands, and box least squares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.cohen_nissim import SHARES, against_lsq_linear, sticky_log, verdict

import keyhole


def test_everybody_asked_about_is_right_from_the_log_as_it_stands(tmp_path: Path) -> None:
    log = sticky_log(3, people=60, about=10, statements=80, deviation=1.0)
    log.write(tmp_path)
    found = keyhole.attack(
        tmp_path / "log.jsonl", data=tmp_path / "clients.csv", id=["client"], private=["status=C,O"], noise="auto"
    ).to_json()
    said = {int(e["record"]["client"]): (e["value"], e["confidence"]) for e in found["estimates"]}
    for client, closed, asked in zip(log.clients.tolist(), log.closed, log.asked, strict=True):
        value, sure = said[client]
        if asked:
            assert value == ("C" if closed else "O")
        else:
            assert sure == 0.5


@pytest.mark.parametrize("share", SHARES)
def test_no_fewer_are_right_than_by_box_least_squares_beyond_the_luck_of_logs(share: float) -> None:
    runs = [against_lsq_linear(sticky_log(seed, statements=300, share=share)) for seed in range(1, 7)]
    gains = np.array([run["right"] - run["lsq_linear right"] for run in runs])
    assert verdict(float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))) != "fewer"
    assert np.mean([run["right"] for run in runs]) > 70
