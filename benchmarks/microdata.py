"""Rows from a census model against CP-SAT called directly: `python -m benchmarks.microdata [--census FOLDER]`.

Both read the same .lp.gz, find the rows and prove that there are no others, in a process of its own from its first
import on; CPU seconds. Directly means: the model as it stands, a 0/1 variable a column, one solve, one more without the
solution. Nothing is run where the folder is not there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

MODEL = "model_29165030307.lp.gz"

OURS = """
import time; start = time.process_time()
import sys
from keyhole.attacks.microdata.reconstruct import reconstruct
found = reconstruct(sys.argv[1])
print(time.process_time() - start, len(found.rows), found.unique)
"""

DIRECTLY = """
import time; start = time.process_time()
import gzip, sys
from ortools.sat.python import cp_model
text = gzip.open(sys.argv[1], "rt").read()
model, z = cp_model.CpModel(), {}
for line in text[text.index("Subject To") + 10 : text.index("Bounds")].split("\\n"):
    if ":" in line:
        left, right = line.split(":", 1)[1].rsplit("=", 1)
        terms = []
        for name in left.split(" + "):
            name = name.strip()
            if name not in z:
                z[name] = model.new_constant(0) if name == "__dummy" else model.new_bool_var("")
            terms.append(z[name])
        model.add(sum(terms) == int(float(right)))
solver = cp_model.CpSolver()
solver.parameters.num_workers = 1
solver.solve(model)
rows = [v for v in z.values() if solver.value(v)]
model.add_bool_or([v.negated() for v in rows])
print(time.process_time() - start, len(rows), solver.solve(model) == cp_model.INFEASIBLE)
"""


def seconds(code: str, path: Path, repeats: int) -> tuple[float, str]:
    """The best of several runs, and what it found."""
    found = []
    for _ in range(repeats):
        ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
        cpu, *rest = ended.stdout.split()
        found.append((float(cpu), " ".join(rest)))
    return min(found)


def main() -> int:
    """Both, and their ratio; 1 if ours takes more than 1.2 times as long."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--census", type=Path, default=Path(os.environ.get("KEYHOLE_DATA", ".")) / "census")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    path = given.census / MODEL
    if not path.is_file():
        print(f"not run: {path} is not there (--census FOLDER, or KEYHOLE_DATA)")
        return 0
    ours, rows = seconds(OURS, path, given.repeats)
    direct, same = seconds(DIRECTLY, path, given.repeats)
    print(
        f"keyhole: {ours:.2f} CPU s ({rows}); CP-SAT directly: {direct:.2f} CPU s ({same}); ratio {ours / direct:.2f}"
    )
    return int(ours > 1.2 * direct or rows != same)


if __name__ == "__main__":
    raise SystemExit(main())
