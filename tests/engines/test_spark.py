"""Data in Spark, read once: the same verdict as from the files themselves, and one sentence where it cannot be had."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.effort import FULL

import keyhole
from keyhole.engines.engine import DataUrl
from keyhole.engines.spark.engine import SparkEngine

LOG = [
    "SELECT SUM(pay) FROM staff WHERE dept = 'd1'", "SELECT COUNT(*), SUM(pay) FROM staff WHERE city IS NULL",
    "SELECT AVG(pay) FROM staff WHERE city <> 'Bonn'", "SELECT SUM(pay) FROM staff WHERE age BETWEEN 30 AND 44",
    "SELECT SUM(pay) FROM staff WHERE city LIKE 'c%'", "SELECT SUM(pay) FROM staff WHERE hired < DATE '2012-03-01'",
    "SELECT dept, SUM(pay) FROM staff GROUP BY dept",
    "SELECT SUM(pay) FROM staff WHERE NOT (city = 'Bonn' OR age < 33)",
    "SELECT SUM(pay) FROM staff WHERE dept IN ('d2', 'd3')", "SELECT SUM(pay * age) FROM staff WHERE age > 25",
    "SELECT SUM(pay) FROM staff WHERE age % 7 = 3",
    "SELECT dept, AVG(pay) FROM staff GROUP BY dept HAVING COUNT(*) > 20",
    "SELECT SUM(pay) FROM staff", "SELECT SUM(pay) FROM staff WHERE id <> 17", "SELECT SUM(pay) / COUNT(*) FROM staff",
]  # fmt: skip
STAFF = {
    "id": list(range(200)),
    "dept": [f"d{i * 7 % 9}" for i in range(200)],
    "city": [("Aachen", "Bonn", "cham", None)[i * 5 % 4 if i % 3 else 3] for i in range(200)],
    "age": [None if i % 17 == 0 else 20 + i * 11 % 40 for i in range(200)],
    "hired": [date(2010 + i % 5, 1 + i % 12, 1 + i % 28) for i in range(200)],
    "pay": pa.array(
        [None if i % 23 == 0 else Decimal(150000 + i * 7919 % 90000) / 100 for i in range(200)], pa.decimal128(10, 2)
    ),
}


def has_java() -> bool:
    """A pipeline without Java fails; elsewhere the test says that it is skipped."""
    return shutil.which("java") is not None or bool(os.environ.get("CI"))


@pytest.mark.skipif(not has_java(), reason="no Java here: apt-get install openjdk-17-jre-headless")
def test_fifteen_statements_have_the_verdict_of_the_files(tmp_path: Path) -> None:
    """In a process of its own, which ends the session of Spark with itself."""
    lake = tmp_path / "lake" / "staff"
    lake.mkdir(parents=True)
    pq.write_table(pa.table(STAFF).slice(0, 90), lake / "part-0.parquet")
    pq.write_table(pa.table(STAFF).slice(90), lake / "part-1.parquet")
    (tmp_path / "log.sql").write_text(";\n".join(LOG), encoding="utf-8")
    words = [
        "audit", "log.sql", "--data", "spark://local[2]", "--table", f"parquet.`{lake}`", "--id", "id", "--private",
        "pay:real", "--format", "json", "--out", "there.json",
    ]  # fmt: skip
    code = "import sys; from keyhole.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 1, done.stderr[-2000:]
    there = json.loads((tmp_path / "there.json").read_text(encoding="utf-8"))
    here = keyhole.audit(LOG, data=pa.table(STAFF), table="staff", id="id", private="pay:real", dialect="spark")
    assert len(here.exposed) == 1
    told = json.loads(json.dumps(here.to_json(), default=str))
    for name in ("exposed", "intervals", "unjudged", "refused", "promise", "atoms", "rank", "queries"):
        assert str(there[name]) == str(told[name]), name


def test_files_of_a_lake_are_named_as_in_spark() -> None:
    engine = object.__new__(SparkEngine)
    found = engine.find_files("parquet.`/data/people/`")
    assert found is not None
    assert (found.schema, found.name, found.files) == ("parquet", "people", "/data/people/")
    assert engine.find_files("hr.people") is None
    assert DataUrl.parse("sc://db:15002/;token=secret").shown == "sc://db:15002/;token=..."


@pytest.mark.skipif(not has_java(), reason="no Java here: apt-get install openjdk-17-jre-headless")
def test_the_verdict_is_the_same_through_the_protocol_and_liars_are_noticed() -> None:
    """Decided and grouped by Spark itself; a cluster that ends in the middle ends the audit."""
    words = ["--statements", "200", "--master", "local-cluster[2,1,1024]", "--rows", "400"] if FULL else []
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.spark_engine", *words],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=6000 if FULL else 900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["differ"], found["unjudged"], found["missed"]) == ([], 0, [])
    assert found["exposed"]
    assert "Spark ended the session" in found["vanished"]
