"""Write a made-up hospital of 20,000 people, its declaration and a file of questions, ready for `keyhole answer`.

python examples/private_answers.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

TOML = """\
[source]
data = "patients.parquet"
version = "2026-11"

[columns]
id = ["id"]

[columns.public.sex]
values = ["F", "M"]

[columns.public.age]
min = 0
max = 99
width = 10

[columns.private.diagnosis]
values = ["flu", "cold", "none"]

[columns.private.sugar]
min = 3.0
max = 10.0
step = 0.1
width = 0.5

[budget]
epsilon = 1.0
neighbours = "replace-one"
"""

SQL = """\
SELECT COUNT(*) FROM patients WHERE sex = 'F' AND age BETWEEN 30 AND 49;
SELECT diagnosis, COUNT(*), AVG(sugar) FROM patients WHERE age >= 60 GROUP BY diagnosis;
SELECT COUNT(*) FROM patients WHERE age < 45;
SELECT COUNT(*) FROM patients WHERE diagnosis = 'plague';
"""


def main() -> int:
    """Write the three files."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    n = 20_000
    age = rng.integers(0, 100, n)
    sugar = np.clip(rng.normal(5 + age / 60, 0.9), 3, 10).round(1)
    people = pd.DataFrame(
        {
            "id": np.arange(1, n + 1),
            "sex": rng.choice(["F", "M"], n),
            "age": age,
            "diagnosis": rng.choice(["flu", "cold", "none"], n, p=[0.1, 0.3, 0.6]),
            "sugar": sugar,
        }
    )
    people.to_parquet(folder / "patients.parquet", index=False)
    (folder / "keyhole.toml").write_text(TOML, encoding="utf-8")
    (folder / "questions.sql").write_text(SQL, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
