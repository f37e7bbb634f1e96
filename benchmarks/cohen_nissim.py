"""A log of the kind that Cohen and Nissim attacked: noisy COUNTs of a category under arithmetic conditions on ids.

900 people, 80 of them asked about, 4,000 statements, whole numbers, sticky Gaussian noise of standard deviation 3; the
log states none of it. `keyhole attack` reads the file as it stands; beside it scipy's box least squares (`lsq_linear`)
on the same rows. Both shares of the category are always printed, one even (as the attack's prior has it) and one not;
differences are paired, with their standard error over logs. Solving is compared by CPU time.
`python -m benchmarks.cohen_nissim`; cohen2018.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before numpy is loaded

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from scipy.optimize import lsq_linear  # noqa: E402

from keyhole.attacks import Target, from_arrays  # noqa: E402
from keyhole.attacks.choose import run_attack  # noqa: E402
from keyhole.attacks.problem.assembly import assemble  # noqa: E402
from keyhole.model.prior import Prior  # noqa: E402
from keyhole.model.transcript import Noise  # noqa: E402

SHARES = (0.4, 0.5)  # of the people whose status is C
SIZES = (300, 600, 1000)


@dataclass(frozen=True, slots=True, eq=False)
class StickyLog:
    """The people, who of them is asked about, whose status is C; the statements with their rows and answers."""

    clients: NDArray[np.int64]
    asked: NDArray[np.bool_]
    closed: NDArray[np.bool_]
    statements: tuple[str, ...]
    rows: NDArray[np.float64]  # over those asked about
    answers: NDArray[np.float64]

    def write(self, folder: Path) -> None:
        """`loans.csv` (the truth), `clients.csv` (the public half) and `log.jsonl`."""
        lines = [f"{c},{'C' if s else 'O'}\n" for c, s in zip(self.clients, self.closed, strict=True)]
        (folder / "loans.csv").write_text("client,status\n" + "".join(lines))
        (folder / "clients.csv").write_text("client\n" + "".join(f"{c}\n" for c in self.clients))
        told = ({"sql": sql, "answer": int(y)} for sql, y in zip(self.statements, self.answers, strict=True))
        (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in told))


def sticky_log(
    seed: int, people: int = 900, about: int = 80, statements: int = 4000, deviation: float = 3.0, share: float = 0.5
) -> StickyLog:
    """A log of random statements. Noise is drawn from a hash of the text, so that asking again says nothing new."""
    rng = np.random.default_rng(seed)
    clients = np.sort(rng.choice(np.arange(1000, 9000), people, replace=False))
    closed = rng.random(people) < share
    first = (people - about) // 2
    asked = np.zeros(people, dtype=bool)
    asked[first : first + about] = True
    low, high = clients[asked][[0, -1]]
    told: list[str] = []
    rows, answers = np.zeros((statements, about)), np.zeros(statements)
    for j in range(statements):
        times, power = int(rng.integers(2, 2000)), int(rng.integers(50, 95))
        held = np.floor(100 * np.power(clients[asked] * float(times), power / 100)) % 2 == 0
        told.append(
            f"SELECT COUNT(*) FROM loans WHERE client BETWEEN {low} AND {high} "
            f"AND FLOOR(100 * POWER(client * {times}, 0.{power})) % 2 = 0 AND status = 'C'"
        )
        sticky = np.random.default_rng([seed, *hashlib.sha256(told[-1].encode()).digest()])
        rows[j] = held
        answers[j] = round(float(np.count_nonzero(held & closed[asked])) + sticky.normal(0, deviation))
    return StickyLog(clients, asked, closed, tuple(told), rows, answers)


def attacked(folder: Path) -> dict[int, str]:
    """Client -> status, as `keyhole attack` says on the files of a folder."""
    command = [
        sys.executable, "-c", "from keyhole.cli import main; main()", "attack",
        str(folder / "log.jsonl"), "--data", str(folder / "clients.csv"),
        "--id", "client", "--private", "status=C,O", "--noise", "auto", "--truth", str(folder / "loans.csv"),
        "--format", "json",
    ]  # fmt: skip
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    reply = json.loads(done.stdout)
    return {int(e["record"]["client"]): str(e["value"]) for e in reply["estimates"]}


def against_lsq_linear(log: StickyLog) -> dict[str, float]:
    """Right by Keyhole's attack and by scipy's box least squares on the same rows, and their CPU seconds.

    Keyhole's time is that of estimating the noise and of the posterior; both begin with a matrix and answers.
    """
    A, y, truth = log.rows, log.answers, log.closed[log.asked]
    bit, unit = Prior(Decimal(0), Decimal(1), Decimal(1)), Noise("gaussian", Fraction(1))
    evidence = from_arrays(A.astype(int), y.tolist(), noise=unit, prior=bit)
    unstated = frozenset(e.number for e in evidence.transcript.entries)
    target = Target.of(evidence)
    start = time.process_time()
    assemble(target, evidence)
    read = time.process_time() - start
    start = time.process_time()
    found = run_attack("auto", target, evidence, unstated=unstated)[1]
    ours = time.process_time() - start - read
    start = time.process_time()
    theirs = lsq_linear(A, y, (0, 1)).x
    scipy = time.process_time() - start
    return {
        "statements": len(y),
        "right": float(np.count_nonzero((found.values > 0.5) == truth)),
        "lsq_linear right": float(np.count_nonzero((theirs > 0.5) == truth)),
        "seconds": ours,
        "lsq_linear seconds": scipy,
    }


def whole(seed: int, statements: int, share: float) -> dict[str, Any]:
    """`keyhole attack` on the log file as it stands: how many of those asked about are right."""
    log = sticky_log(seed, statements=statements, share=share)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log.write(folder)
        before = sum(os.times()[2:4])
        said = attacked(folder)
        seconds = sum(os.times()[2:4]) - before
    truth = dict(zip(log.clients[log.asked].tolist(), log.closed[log.asked], strict=True))
    right = sum((said[client] == "C") == closed for client, closed in truth.items())
    return {
        "share": share,
        "statements": statements,
        "asked about": len(truth),
        "right": right,
        "seconds": seconds,
    }


def compared(draws: int, size: int, share: float) -> dict[str, float]:
    """Means of `against_lsq_linear` over logs of so many random statements, the paired difference, the ratio of times.

    The verdict is a tie unless the difference is more than two of its standard errors.
    """
    against_lsq_linear(sticky_log(0, statements=300))  # compiled code is loaded before anything is timed
    runs = [against_lsq_linear(sticky_log(seed, statements=size, share=share)) for seed in range(1, draws + 1)]
    mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
    gains = np.array([run["right"] - run["lsq_linear right"] for run in runs])
    return mean | {
        "share": share,
        "difference": float(gains.mean()),
        "standard error": float(gains.std(ddof=1) / np.sqrt(draws)),
        "ratio": mean["seconds"] / mean["lsq_linear seconds"],
    }


def verdict(difference: float, error: float) -> str:
    """More, fewer, or a tie within two standard errors.

    >>> verdict(0.3, 0.1), verdict(-0.3, 0.1), verdict(0.1, 0.1)
    ('more', 'fewer', 'tie')
    """
    if abs(difference) <= 2 * error:
        return "tie"
    return "more" if difference > 0 else "fewer"


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=2, help="whole logs attacked through the command, of each share")
    parser.add_argument("--statements", type=int, default=4000, help="statements of each")
    parser.add_argument("--draws", type=int, default=200, help="logs of 300, 600 and 1,000 statements beside scipy")
    given = parser.parse_args()
    print(
        "| share of C | log | statements | asked about | right | CPU s, reading included |\n|---|---|---|---|---|---|"
    )
    for share in SHARES:
        for seed in range(given.logs):
            r = whole(seed, given.statements, share)
            print(
                f"| {share:.0%} | {seed + 1} | {r['statements']} | {r['asked about']} | {r['right']} "
                f"| {r['seconds']:.1f} |",
                flush=True,
            )
    print(
        "\n| share of C | random statements | right of 80 | lsq_linear | paired difference (standard error) | "
        "| CPU ms solving | lsq_linear | ratio |\n|---|---|---|---|---|---|---|---|---|"
    )
    for share in SHARES:
        for size in SIZES:
            row = compared(given.draws, size, share)
            difference, error = row["difference"], row["standard error"]
            print(
                f"| {share:.0%} | {size} | {row['right']:.2f} | {row['lsq_linear right']:.2f} "
                f"| {difference:+.3f} ({error:.3f}) | {verdict(difference, error)} "
                f"| {1000 * row['seconds']:.1f} | {1000 * row['lsq_linear seconds']:.1f} | {row['ratio']:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
