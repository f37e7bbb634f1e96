"""Start-up: CPU of `keyhole --help` and of a three-row audit, against `python -c "import duckdb"` in the same run.

Medians over alternating runs, so that a busy machine disturbs all alike: `python -m benchmarks.startup`.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 9
BUDGET = {"keyhole --help": 2.0, "keyhole --version": 2.0, "shell completion": 2.0, "three-row audit": 4.0}


def cpu(command: list[str], env: dict[str, str] | None = None) -> float:
    """User and system seconds of one child."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=env, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Measure and print the ratios."""
    import os

    keyhole = [sys.executable, "-c", "from keyhole.cli import main; main()"]
    completing = {**os.environ, "_KEYHOLE_COMPLETE": "bash_complete", "COMP_WORDS": "keyhole a", "COMP_CWORD": "1"}
    with tempfile.TemporaryDirectory() as folder:
        data, log = Path(folder, "people.csv"), Path(folder, "log.sql")
        data.write_text("name,team,pay\nAnn,a,10\nBob,a,20\nCyd,b,30\n")
        log.write_text("SELECT SUM(pay) FROM people;\n")
        audit = [*keyhole, "audit", str(log), "--data", str(data), "--id", "name", "--private", "pay"]
        commands: dict[str, tuple[list[str], dict[str, str] | None]] = {
            "import duckdb": ([sys.executable, "-c", "import duckdb"], None),
            "keyhole --help": ([*keyhole, "--help"], None),
            "keyhole --version": ([*keyhole, "--version"], None),
            "shell completion": ([*keyhole], completing),
            "three-row audit": (audit, None),
        }
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(RUNS):
            for name, (command, env) in commands.items():
                taken[name].append(cpu(command, env))
    base = statistics.median(taken["import duckdb"])
    for name, times in taken.items():
        middle = statistics.median(times)
        bound = f"(at most {BUDGET[name]:g})" if name in BUDGET else ""
        print(f"{name:20} {1000 * middle:6.0f} ms CPU  {middle / base:5.2f} x  {bound}")


if __name__ == "__main__":
    main()
