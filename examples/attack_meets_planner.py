"""The planner's own transcript under Keyhole's attacks: how well people's pay is guessed, against epsilon.

python examples/attack_meets_planner.py [--people 60] [--seed 0]

Everybody has a private pay from 0 to 50. Somebody asks for sums by team, level and both, and for every team and level
by itself, and attacks what was released: the noisy tables that the planner bought, cell by cell, with their noise.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import keyhole
from keyhole.config import Config

EPSILONS = (1, 10, 100, 1_000)
TOLD = """
[budget]
epsilon = {epsilon}
delta = 1e-6
[columns]
id = ["name"]
[columns.public.team]
min = 0
max = 7
[columns.public.level]
min = 0
max = 7
[columns.private.pay]
min = 0
max = 50
step = 1
"""


def staff(people: int, seed: int) -> pa.Table:
    """People in teams and levels, with a pay that depends on neither."""
    rng = np.random.default_rng(seed)
    names = [f"p{k}" for k in range(people)]
    return pa.table({"name": names, "team": np.arange(people) % 8, "level": np.arange(people) // 8 % 8,
                     "pay": rng.integers(0, 51, people)})  # fmt: skip


def statements() -> list[str]:
    """Sums by team, by level, by both, and some parts."""
    asked = [f"SELECT {keys}, SUM(pay) FROM staff GROUP BY {keys}" for keys in ("team", "level", "team, level")]
    asked += [f"SELECT SUM(pay) FROM staff WHERE team = {k}" for k in range(8)]
    return [*asked, *(f"SELECT SUM(pay) FROM staff WHERE level <= {k}" for k in range(7))]


def attacked(table: pa.Table, epsilon: float) -> tuple[float, float, float]:
    """Mean absolute error of the guesses, that of the prior, and the share of people guessed exactly."""
    told = Config.parse(TOLD.format(epsilon=epsilon))
    with tempfile.TemporaryDirectory() as folder:
        made = keyhole.ask(statements(), data=table, table="staff", config=told, mechanism="planner", spend=1,
                              anyway=True, book=Path(folder) / "book.keyhole")  # fmt: skip
        log = Path(folder) / "released.jsonl"
        log.write_text("\n".join(made.releases), encoding="utf-8")
        found = keyhole.attack(log, data=table, table="staff", config=told, truth=table)
    score = found.scores["pay"]
    return score.error or 0.0, score.prior_error or 0.0, score.exact


def main() -> None:
    """One line for each epsilon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    table = staff(given.people, given.seed)
    print(f"{given.people} people, {len(statements())} statements, delta 1e-6; pay from 0 to 50")
    print(f"{'epsilon':>8} {'mean error':>11} {'prior':>7} {'exact':>7}")
    for epsilon in EPSILONS:
        error, prior, exact = attacked(table, epsilon)
        print(f"{epsilon:>8} {error:>11.2f} {prior:>7.2f} {exact:>7.2f}")


if __name__ == "__main__":
    main()
