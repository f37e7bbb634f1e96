"""Dashboards of a few hundred people, audited: `python -m benchmarks.dashboard [--repeats N] [--profile]`.

50 statements over 1,000 people with nine private columns, as a dashboard of a staff table asks them, and 12 statements
beside a related table of visits, with and without three about a 0/1 column. Printed are the CPU seconds of an audit
beyond the start-up (imports, an audit of three people) and those of DuckDB running the same statements: medians, in
one run.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import keyhole
from keyhole.config import Config
from keyhole.report.verdict import Verdict

PRIVATE = ("salary", "bonus", "hours", "sick_days", "score", "debt", "kids", "smoker", "diagnosis")
TILES = """
SELECT COUNT(*), SUM(salary), AVG(salary) FROM staff
SELECT dept, COUNT(*), AVG(salary) FROM staff GROUP BY dept
SELECT dept, SUM(bonus), AVG(bonus) FROM staff GROUP BY dept
SELECT dept, AVG(hours) FROM staff GROUP BY dept
SELECT dept, SUM(sick_days) FROM staff GROUP BY dept
SELECT dept, AVG(score) FROM staff GROUP BY dept
SELECT city, AVG(debt) FROM staff GROUP BY city
SELECT city, AVG(kids) FROM staff GROUP BY city
SELECT dept, COUNT(*) FROM staff WHERE smoker = 1 GROUP BY dept
SELECT diagnosis, COUNT(*) FROM staff GROUP BY diagnosis
SELECT city, AVG(salary) FROM staff GROUP BY city
SELECT level, AVG(salary) FROM staff GROUP BY level
SELECT level, SUM(bonus) FROM staff GROUP BY level
SELECT sex, AVG(salary) FROM staff GROUP BY sex
SELECT sex, AVG(bonus), AVG(hours) FROM staff GROUP BY sex
SELECT sex, dept, AVG(salary) FROM staff GROUP BY sex, dept HAVING COUNT(*) >= 10
SELECT dept, MAX(salary) FROM staff GROUP BY dept
SELECT dept, MIN(salary) FROM staff GROUP BY dept
SELECT dept, MEDIAN(salary) FROM staff GROUP BY dept
SELECT city, MAX(bonus) FROM staff GROUP BY city
SELECT quantile_cont(hours, 0.9) FROM staff
SELECT level, MEDIAN(hours) FROM staff GROUP BY level
SELECT city, COUNT(*) FROM staff WHERE sick_days > 10 GROUP BY city
SELECT dept, COUNT(*) FILTER (WHERE score < 3) FROM staff GROUP BY dept
SELECT COUNT(*) FROM staff WHERE salary > 60000
SELECT dept, COUNT(*) FROM staff WHERE salary > 60000 GROUP BY dept
SELECT kids, COUNT(*) FROM staff GROUP BY kids
SELECT smoker, COUNT(*) FROM staff GROUP BY smoker
SELECT sex, COUNT(*) FROM staff WHERE smoker = 1 GROUP BY sex
SELECT dept, diagnosis, COUNT(*) FROM staff GROUP BY dept, diagnosis
SELECT dept, AVG(sick_days) FROM staff WHERE level > 2 GROUP BY dept
SELECT FLOOR(age / 10) * 10 AS decade, AVG(salary) FROM staff GROUP BY decade
SELECT CASE WHEN age < 30 THEN 'young' WHEN age < 50 THEN 'mid' ELSE 'old' END AS b, AVG(score) FROM staff GROUP BY b
SELECT dept, SUM(salary) AS s FROM staff GROUP BY dept ORDER BY s DESC
SELECT dept, SUM(salary) * 100.0 / (SELECT SUM(salary) FROM staff) FROM staff GROUP BY dept
SELECT dept, AVG(salary) FILTER (WHERE sex = 'F') - AVG(salary) FILTER (WHERE sex = 'M') FROM staff GROUP BY dept
SELECT STDDEV_SAMP(salary), AVG(salary) FROM staff
SELECT dept, STDDEV_POP(hours), AVG(hours) FROM staff GROUP BY dept HAVING COUNT(*) >= 20
SELECT AVG(salary) FROM staff WHERE diagnosis = 'flu'
SELECT diagnosis, AVG(sick_days) FROM staff GROUP BY diagnosis
SELECT CORR(salary, bonus) FROM staff
SELECT SUM(bonus) / SUM(salary) FROM staff
SELECT dept, SUM(bonus) / SUM(salary) FROM staff GROUP BY dept
SELECT COUNT(DISTINCT diagnosis) FROM staff
SELECT dept, COUNT(*) FROM staff WHERE smoker = 1 AND sick_days > 5 GROUP BY dept
SELECT ROUND(AVG(debt), -2) FROM staff
SELECT city, ROUND(SUM(debt), -3) FROM staff GROUP BY city
SELECT FLOOR(salary / 10000) * 10000 AS bucket, COUNT(*) FROM staff GROUP BY bucket
SELECT city, SUM(kids), MAX(kids) FROM staff GROUP BY city
SELECT level, AVG(debt) FROM staff WHERE debt > 0 GROUP BY level
"""
WARDS = """
SELECT ward, COUNT(*) FROM patients GROUP BY ward
SELECT ward, AVG(cost) FROM patients GROUP BY ward
SELECT sex, AVG(cost) FROM patients GROUP BY sex
SELECT SUM(cost) FROM patients WHERE age > 60
SELECT ward, SUM(cost) FROM patients WHERE age > 60 GROUP BY ward
SELECT ward, MAX(cost) FROM patients GROUP BY ward
SELECT COUNT(*) FROM patients p WHERE EXISTS (SELECT * FROM visits v WHERE v.patient_id = p.patient_id)
SELECT COUNT(DISTINCT p.patient_id) FROM patients p JOIN visits v ON v.patient_id = p.patient_id WHERE v.reason = 'flu'
SELECT sex, AVG(days) FROM patients GROUP BY sex
SELECT COUNT(*) FROM patients WHERE hiv = 1
SELECT ward, COUNT(*) FROM patients WHERE hiv = 1 GROUP BY ward
SELECT sex, COUNT(*) FROM patients WHERE hiv = 1 GROUP BY sex
"""


def staff(people: int = 1_000) -> pa.Table:
    """A staff table with a fixed seed."""
    rng = np.random.default_rng(28)

    def pick(*words: str) -> list[str]:
        return [words[i] for i in rng.integers(0, len(words), people)]

    return pa.table(
        {
            "id": np.arange(people),
            "dept": pick("sales", "it", "hr", "law", "lab", "shop", "post", "press"),
            "city": pick("Ulm", "Bonn", "Kiel", "Trier", "Jena"),
            "sex": pick("F", "M"),
            "level": rng.integers(1, 6, people),
            "age": rng.integers(18, 66, people),
            "salary": rng.integers(24_000, 120_000, people),
            "bonus": rng.integers(0, 20_000, people),
            "hours": rng.integers(10, 60, people),
            "sick_days": rng.poisson(6, people),
            "score": rng.integers(1, 6, people),
            "debt": np.round(rng.exponential(9_000, people), 2) * (rng.random(people) < 0.6),
            "kids": rng.integers(0, 5, people),
            "smoker": (rng.random(people) < 0.2).astype(np.int64),
            "diagnosis": pick("flu", "none", "none", "none", "asthma", "back", "cold"),
        }
    )


def hospital(people: int = 3_000) -> tuple[pa.Table, pa.Table]:
    """Patients and their visits."""
    rng = np.random.default_rng(29)
    patients = pa.table(
        {
            "patient_id": np.arange(people),
            "ward": [f"w{i}" for i in rng.integers(0, 8, people)],
            "sex": ["FM"[i] for i in rng.integers(0, 2, people)],
            "age": rng.integers(0, 100, people),
            "cost": rng.integers(100, 20_000, people),
            "days": rng.integers(1, 40, people),
            "hiv": (rng.random(people) < 0.05).astype(np.int64),
        }
    )
    rows = 2 * people
    reasons = ("flu", "fall", "check", "birth", "heart")
    visits = pa.table(
        {
            "visit_id": np.arange(rows),
            "patient_id": rng.integers(0, people, rows),
            "reason": [reasons[i] for i in rng.integers(0, len(reasons), rows)],
            "charge": rng.integers(10, 900, rows),
        }
    )
    return patients, visits


def lines(text: str) -> list[str]:
    """The statements of a text."""
    return [line for line in text.splitlines() if line]


def median(run: Callable[[], object], repeats: int) -> float:
    """CPU seconds of a call, once warmed up."""
    run()
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def run_in_duckdb(tables: dict[str, pa.Table], statements: list[str]) -> Callable[[], object]:
    """DuckDB, running the statements one by one."""
    database = duckdb.connect(config={"threads": 1})
    for name, table in tables.items():
        database.register(name, table)
        database.execute(f"CREATE TABLE {name}_ AS FROM {name}")
        database.unregister(name)
        database.execute(f"ALTER TABLE {name}_ RENAME TO {name}")

    def run() -> None:
        for sql in statements:
            database.execute(sql).fetchall()

    return run


def report(name: str, found: Verdict, audit: float, base: float) -> None:
    """One line, and what the verdict says."""
    print(f"{name:28} audit {audit:7.3f} s  DuckDB {base:6.3f} s  {audit / base:6.1f} x  exit {found.exit_code}")


def measure_dashboard(repeats: int) -> None:
    """The dashboard of nine private columns."""
    table, statements = staff(), lines(TILES)

    def audit() -> Verdict:
        return keyhole.audit(statements, data=table, id="id", private=list(PRIVATE), table="staff")

    found = audit()
    report(
        "50 statements, 1,000 people",
        found,
        median(audit, repeats),
        median(run_in_duckdb({"staff": table}, statements), 5),
    )


def measure_visits(repeats: int) -> None:
    """The statements beside a table of visits."""
    patients, visits = hospital()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "hospital.duckdb")
        with duckdb.connect(str(path)) as made:
            made.register("p", patients)
            made.register("v", visits)
            made.execute("CREATE TABLE patients AS FROM p")
            made.execute("CREATE TABLE visits AS FROM v")
        settings = Path(folder, "keyhole.toml")
        settings.write_text(
            f'[source]\ndata = "{path}"\ntable = "patients"\n[columns]\nid = ["patient_id"]\n'
            "[columns.private.cost]\n[columns.private.days]\n[columns.private.hiv]\n"
            '[tables.visits]\nkeys = ["patient_id"]\nprivate = "all"\n'
        )
        every = lines(WARDS)
        taken: dict[str, float] = {}
        for name, statements in {"12 beside visits": every, "without the 0/1 column": every[:9]}.items():

            def audit(asked: list[str] = statements) -> Verdict:
                return keyhole.audit(asked, config=Config.load(settings))

            found = audit()
            taken[name] = median(audit, repeats)
            report(
                name, found, taken[name], median(run_in_duckdb({"patients": patients, "visits": visits}, statements), 5)
            )
        with_bits, without = taken.values()
        print(f"{'':28} with and without the 0/1 column: {with_bits / without:.1f} x")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=("dashboard", "visits"))
    parser.add_argument("--profile", type=int, default=0, help="print so many lines of a profile")
    given = parser.parse_args()
    chosen = {"dashboard": measure_dashboard, "visits": measure_visits}
    profile = cProfile.Profile() if given.profile else None
    if profile is not None:
        profile.enable()
    for name, run in chosen.items():
        if given.only in (None, name):
            run(given.repeats)
    if profile is not None:
        profile.disable()
        pstats.Stats(profile).sort_stats("cumulative").print_stats(given.profile)


if __name__ == "__main__":
    main()
