"""Counts of people by conditions on their records, against every database that gives the same answers."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from people_world import REFUSED, SETTINGS, Tally, World, compared

from keyhole.auditing.examine import examine
from keyhole.config import Config


def test_no_claim_is_false_and_misses_are_counted(tmp_path: Path) -> None:
    tally = Tally()
    for seed in range(1, 10):
        compared(seed, tmp_path, tally)
    sys.stdout.write(f"{tally}\n")
    assert tally.wrong == 0
    assert tally.claims > 10
    assert tally.missed <= tally.determined // 5


@pytest.mark.parametrize("sql", REFUSED)
def test_what_cannot_be_judged_claims_nothing(sql: str, tmp_path: Path) -> None:
    world = World.drawn(3)
    found = examine([sql], data=str(world.stored(tmp_path)), config=Config.parse(SETTINGS))
    assert found.exit_code == 3
    assert not found.findings
    assert len(found.refused) == 1


@pytest.mark.soak
def test_soak(tmp_path: Path) -> None:
    tally, first = Tally(), random.SystemRandom().randrange(10**9)
    for seed in range(first, first + 300):
        compared(seed, tmp_path, tally)
    sys.stdout.write(f"{tally}\n")
    assert tally.wrong == 0
