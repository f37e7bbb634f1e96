"""0.3 + 0.3 and 0.2 + 0.4 are one number and two DOUBLEs: a log whose sums show the difference is no all-clear."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.support.effort import effort

from keyhole.auditing import Exposure
from keyhole.auditing.examine import examine
from keyhole.cli import app
from keyhole.config import Config, SourceTable
from keyhole.errors import ConfigError
from keyhole.gather.arithmetic import Computed, lowest_bit
from keyhole.model.prior import Knowledge
from keyhole.model.query import Aggregate, Query, Term
from keyhole.model.schema import Column, Kind, Role, Schema

TENTHS, QUARTERS = [0.2, 0.4, 0.3, 0.1], [0.25, 0.5, 1.75, 2.0]
SUM = "SELECT SUM(x) FROM t"


def judged(
    log: Any, values: list[Any] = TENTHS, private: str = "x", digits: int | None = None, **more: Any
) -> Exposure:
    data = pa.table({"n": list("abcd"), "w": [1, 2, 3, 4], "x": values})
    return examine(log, data=data, private=private, id="n", config=Config(source=SourceTable(digits=digits)), **more)


def test_two_doubles_of_one_sum_tell_the_tables_apart() -> None:
    """Of the tables with SUM = 0.6 over two people only those with 0.2 and 0.4 print 0.6000000000000001."""
    tables = [t for t in product((0.2, 0.3, 0.4), repeat=2) if sum(t) == 0.6000000000000001]
    assert {0.3} not in [set(t) for t in tables]
    log = [(f"{SUM} WHERE w < 3", 0.6000000000000001)]
    verdict = judged(log, private="x:0.1..0.4:0.1")
    assert (verdict.exit_code, verdict.complete) == (3, False)
    assert "the last digits of a sum can tell which values were added" in verdict.promise
    assert "[source] digits = 12" in verdict.promise
    assert judged([(f"{SUM} WHERE w < 3", 0.6)], private="x:0.1..0.4:0.1", digits=12).exit_code == 0


@pytest.mark.parametrize(
    "item",
    [
        *("SUM(x)", "AVG(x)", "SUM(2 * x)", "SUM(x * w)", "SUM(x) / 4", "MEDIAN(x)", "QUANTILE_CONT(x, 0.25)"),
        *("ROUND(SUM(x), 15)", "SUM(x), COUNT(*)", "SUM(CASE WHEN w > 1 THEN x ELSE 0 END)"),
    ],
)
def test_sums_of_tenths_are_no_all_clear(item: str) -> None:
    assert judged(f"SELECT {item} FROM t").exit_code == 3


@pytest.mark.parametrize("item", ["SUM(x / 3)", "AVG(x / 7)", "SUM(x) / 3 + SUM(x * w) / 7", "QUANTILE_CONT(x, 0.3)"])
def test_whole_numbers_that_are_divided_first_are_no_all_clear(item: str) -> None:
    assert judged(f"SELECT {item} FROM t", [1, 2, 30, 50]).exit_code == 3


@pytest.mark.parametrize(
    ("item", "more"),
    [
        ("ROUND(SUM(x), 2)", {}),
        ("ROUND(AVG(x), 3)", {}),
        ("SUM(x) > 7", {}),
        ("COUNT(*)", {}),
        ("SUM(x)", {"digits": 12}),
        ("AVG(x)", {"digits": 12}),
        ("MEDIAN(x)", {"digits": 12}),
        ("SUM(x)", {"private": "x:real"}),
        ("SUM(x)", {"private": "x:0..9:0.1", "digits": 12}),
        ("SUM(x)", {"values": QUARTERS}),
        ("AVG(x)", {"values": QUARTERS}),
        ("MEDIAN(x)", {"values": QUARTERS}),
        ("SUM(3 * x)", {"values": QUARTERS}),
        ("SUM(x)", {"values": QUARTERS, "private": "x:0..9:0.25"}),
        ("SUM(x)", {"values": QUARTERS, "private": "x:0..9"}),
        ("SUM(x)", {"values": [1, 2, 3, 5]}),
        ("SUM(x) / 3", {"values": [1, 2, 3, 5]}),
        ("SUM(x)", {"values": pa.array([1, 2, 3, 5], pa.decimal128(5, 1))}),
    ],
)
def test_exact_rounded_and_real_sums_are_complete(item: str, more: dict[str, Any]) -> None:
    verdict = judged(f"SELECT {item} FROM t", **more)
    assert (verdict.exit_code, verdict.gap) == (0, "")


def test_exact_values_on_a_grid_that_is_not_are_no_all_clear() -> None:
    assert judged(SUM, QUARTERS, "x:0..9:0.05").exit_code == 3  # tables of tenths have the same sum
    assert judged(SUM, [2.0**52, 1.5, 0.25, 1.0]).exit_code == 3  # more than 53 bits
    data = pa.table({"n": list("abcd")})
    given = examine([(SUM, 4.5)], data=data, private="x", id="n")
    assert given.exit_code == 3  # no value is at hand, and none is declared
    assert examine([(SUM, 4.5)], data=data, private="x:0..9:0.25", id="n").exit_code == 0


def test_digits_that_do_not_hide_the_dust_are_said() -> None:
    mixed = judged(SUM, [1e9 + 0.1, -1e9, 0.1, 0.3], digits=12)
    assert "show also with [source] digits = 12" in mixed.promise
    assert "has more digits than [source] digits = 12" in judged([(SUM, 1.0000000000000002)], digits=12).promise
    for wrong in ("0", "16", "-1"):
        with pytest.raises(ConfigError, match="write a number from 1 to 15"):
            Config.parse(f"[source]\ndigits = {wrong}")


def test_the_line_is_printed(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('[{"n": "a", "x": 0.1}, {"n": "b", "x": 0.2}, {"n": "c", "x": 0.3}]')
    (tmp_path / "log.sql").write_text(SUM)
    (tmp_path / "keyhole.toml").write_text(
        '[source]\ndata = "t.json"\n[columns]\nid = ["n"]\n[columns.private.x]\nkind = "double"\n'
    )
    done = CliRunner().invoke(app, ["audit", str(tmp_path / "log.sql"), "-c", str(tmp_path / "keyhole.toml")])
    assert done.exit_code == 3, done.output
    assert "write [source] digits = 12" in " ".join(done.output.split())


def test_a_sum_that_is_called_exact_is_exact_in_any_order() -> None:
    draw = random.Random(4)
    schema = Schema("t", (Column("x", Kind.DOUBLE, Role.PRIVATE),))
    query = Query(Aggregate.SUM, (Term("x"),))
    seen = set()
    for _ in range(effort(300)):
        n, bits = draw.randint(1, 30), draw.choice((3, 20, 45, 53))
        values = np.array([draw.randint(-(2**bits), 2**bits) * 2.0 ** draw.choice((-4, -3, 0)) for _ in range(n)])
        exact = Computed(schema, Knowledge()).adds_exactly(query, lambda _, held=values: held, n)
        seen.add(exact)
        if exact:
            for _ in range(5):
                order = draw.sample(list(values), n)
                added = 0.0
                for value in order:
                    added += value
                assert Fraction(added) == sum(map(Fraction, values.tolist()))
        unit = lowest_bit(values)
        assert unit is None or all((Fraction(v) / unit).denominator == 1 for v in values.tolist())
    assert seen == {True, False}
