"""A table split in a session of Spark, as it is split in PostgreSQL, and the law of equal verdicts there.

python -m tests.support.spark_engine --statements 15 [--master local[2]] [--rows 200] [--seeds 1]

A process of its own, which ends the session with itself. It prints one line of JSON: which statements were asked, the
names in which the verdicts differ (none, but where the data come from), and which liars were noticed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from tests.engines.test_protocol import ROLES, make_log, make_rows, verdicts_are_equal_over_engines

import keyhole
from keyhole.config import Config
from keyhole.config.settings import settings
from keyhole.datasets import Use, open_table, public_half
from keyhole.datasets.public_half import Staying
from keyhole.engines.engine import DataUrl, fetch_rows
from keyhole.engines.open_files import Lifetime
from keyhole.engines.roster import EngineRoster, MadeUpFrom
from keyhole.engines.spark.engine import SparkEngine
from keyhole.errors import DataError, ServerGone
from keyhole.model.predicate import quote_name
from keyhole.model.schema import Role, Schema

PEOPLE, SECRETS = "global_temp.keyhole_people", "global_temp.keyhole_secrets"


def split_in_spark(url: DataUrl, folder: Path, schema: Schema, make: type[SparkEngine]) -> Staying:
    """The rows of Parquet files as two views of the cluster, opened through the protocol."""
    life = Lifetime()
    engine = life.closes(make(url))
    private = [quote_name(c.name) for c in schema.of_role(Role.PRIVATE)]
    public = ", ".join(quote_name(c.name) for c in schema.columns if not c.secret)
    ids = ", ".join(quote_name(c.name) for c in schema.of_role(Role.ID))
    hidden = ", ".join(f"CASE WHEN {name} IS NULL THEN NULL ELSE TRUE END AS {name}" for name in private)
    numbered = f"(SELECT row_number() OVER (ORDER BY {ids}) - 1 AS keyhole_r, * FROM parquet.`{folder}`)"
    for name, listed in ((PEOPLE, f"{public}, {hidden}"), (SECRETS, ", ".join(private))):
        view = name.rpartition(".")[2]
        rows = f"SELECT CAST(keyhole_r AS BIGINT) AS keyhole_r, {listed} FROM {numbered}"
        engine.do(f"INSERT OVERWRITE DIRECTORY '{folder.parent / view}' USING parquet {rows}")
        engine.do(f"CREATE OR REPLACE GLOBAL TEMP VIEW {view} AS SELECT * FROM parquet.`{folder.parent / view}`")
    [(n,)] = fetch_rows(engine, f"SELECT count(*) AS n FROM {PEOPLE}")

    def sample() -> duckdb.DuckDBPyConnection:
        some = duckdb.connect()
        rows = engine.arrow(f"SELECT * FROM {PEOPLE} WHERE keyhole_r % {-(-n // 300)} = 0 ORDER BY keyhole_r")
        some.register("rows", rows.read_all())
        some.execute("CREATE TEMP TABLE people AS SELECT * FROM rows")
        some.unregister("rows")
        return some

    roster = EngineRoster(engine, PEOPLE, schema, life, MadeUpFrom(sample, {}), n)
    return Staying(roster, lambda: make(url), secrets=SECRETS)


class DropsNull(SparkEngine):
    """A liar: rows without a city are lost."""

    def arrow(self, sql: str) -> Any:
        """Without them."""
        rows = f"(SELECT * FROM {PEOPLE} WHERE city IS NOT NULL)"
        return super().arrow(sql.replace(f"FROM {PEOPLE} WHERE", f"FROM {rows} WHERE").replace("city IS NULL", "FALSE"))


class IgnoresCase(SparkEngine):
    """A liar: its texts are compared without regard to case."""

    def arrow(self, sql: str) -> Any:
        """Over small letters."""
        return super().arrow(sql.replace(PEOPLE, f"(SELECT * EXCEPT (city), lower(city) AS city FROM {PEOPLE})"))


class DividesIntegers(SparkEngine):
    """A liar: 21 / 2 is 10."""

    def arrow(self, sql: str) -> Any:
        """Cut quotients."""
        return super().arrow(sql.replace(" / ", " DIV "))


def compare(url: DataUrl, statements: int, rows: int, seeds: int, folder: Path) -> dict[str, Any]:
    """The verdicts over a file and over Spark, and what the liars say."""
    lake = folder / "lake"
    lake.mkdir()
    typed = folder / "staff.parquet"
    (folder / "staff.csv").write_text(make_rows(5, rows), encoding="utf-8")
    with duckdb.connect() as con:
        cast = "* REPLACE (pay::DECIMAL(10, 2) AS pay, age::INTEGER AS age, bonus::INTEGER AS bonus, id::INTEGER AS id)"
        con.execute(f"CREATE TABLE staff AS SELECT {cast} FROM read_csv('{folder / 'staff.csv'}')")
        con.execute(f"COPY staff TO '{typed}' (FORMAT parquet)")
        con.execute(f"COPY (SELECT * FROM staff WHERE id % 2 = 0) TO '{lake}/a.parquet' (FORMAT parquet)")
        con.execute(f"COPY (SELECT * FROM staff WHERE id % 2 = 1) TO '{lake}/b.parquet' (FORMAT parquet)")
    once = Config.parse(f"[source]\ndata = '{typed}'\ntable = 'staff'\n{ROLES}")
    with open_table(settings(once), Use.AUDIT) as opened:
        schema = opened.roster.schema
    ways = "data = 'postgresql://roster@/x'\nsecrets = 'postgresql://source@/x'\nstay = true\n"
    there = Config.parse(f"[source]\n{ways}table = 'staff'\n{ROLES}")

    def examine(config: Config, log: list[str]) -> Any:
        return keyhole.audit(log, config=config, dialect="duckdb")

    def through(make: type[SparkEngine]) -> Callable[..., Staying]:
        return lambda *_: split_in_spark(url, lake, schema, make)

    found: dict[str, Any] = {"differ": [], "unjudged": 0, "exposed": 0, "missed": []}
    for seed in range(1, seeds + 1):
        log = make_log(seed, statements)
        here = examine(once, log)
        setattr(public_half, "read_staying", through(SparkEngine))  # noqa: B010 - for this process alone
        try:
            verdict = examine(there, log)
            verdicts_are_equal_over_engines(here, verdict)
        except AssertionError:
            found["differ"].append(seed)
        found["unjudged"] += len(here.unjudged)
        found["exposed"] += len(here.exposed)
    for liar in (DropsNull, IgnoresCase, DividesIntegers):
        setattr(public_half, "read_staying", through(liar))  # noqa: B010 - for this process alone
        try:
            verdicts_are_equal_over_engines(
                examine(once, make_log(1, statements)), examine(there, make_log(1, statements))
            )
            found["missed"].append(liar.__name__)
        except AssertionError:
            pass
        except DataError as error:  # a liar that writes no SQL is none
            if "counts rows twice or loses some" not in str(error):
                raise
    found["vanished"] = vanish(through, lambda: examine(there, make_log(1, statements)))
    return found


def vanish(through: Callable[[type[SparkEngine]], Callable[..., Staying]], examine: Callable[[], Any]) -> str:
    """What an audit says whose cluster ends in the middle."""

    class Vanishes(SparkEngine):
        """Spark is killed when the people are grouped."""

        def arrow(self, sql: str) -> Any:
            """Up to there as usual."""
            if "min(r) AS r" in sql:
                self._session.sparkContext._gateway.proc.kill()
            return super().arrow(sql)

    setattr(public_half, "read_staying", through(Vanishes))  # noqa: B010 - a module's function, for this process alone
    try:
        examine()
    except ServerGone as error:
        return str(error)
    return "a verdict"


def main() -> int:
    """Print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--statements", type=int, default=15)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="keyhole-spark-") as folder:
        url = DataUrl.parse(f"spark://{given.master}")
        found = compare(url, given.statements, given.rows, given.seeds, Path(folder))
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
