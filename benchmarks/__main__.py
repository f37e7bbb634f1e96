"""Every benchmark, one after the other: `make bench`."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
import time

import benchmarks

NOT_RUN = {"__main__", "workload"}
LARGE = ["benchmarks.audit", "--rows", "10000000", "--repeats", "1"]


def main() -> int:
    """Run each in a process of its own; say which failed."""
    names = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in NOT_RUN)
    failed = []
    for command in [[f"benchmarks.{name}"] for name in names] + [LARGE]:
        print(f"== python -m {' '.join(command)}", flush=True)
        start = time.perf_counter()
        if subprocess.run([sys.executable, "-m", *command], check=False).returncode:
            failed.append(command[0])
        print(f"   ({time.perf_counter() - start:.0f} s)", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
