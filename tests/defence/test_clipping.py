"""Bounds bought with a little budget: cells against a twin, the advice, the price, nothing read off for free."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner

from keyhole.cli import app
from keyhole.defence.planner.clipping import advise_bounds, list_edges, make_cell_code


def test_cells_are_powers_of_two_whatever_the_column_holds() -> None:
    odd = [
        None,
        "x",
        "nan",
        "inf",
        "-inf",
        "0",
        "-0.0",
        "1",
        "1.99",
        "2",
        "-1",
        "-2",
        "1e300",
        "-1e300",
        "0.0001",
        "-1e-9",
    ]
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT unnest($1::VARCHAR[]) AS v", [odd])
    found = [row[0] for row in con.execute(f"SELECT {make_cell_code('v')} FROM t").fetchall()]
    for text, cell in zip(odd, found, strict=True):
        try:
            value = float(text) if text is not None else math.nan
        except ValueError:
            value = math.nan
        want = 0 if math.isnan(value) else max(1, sum(value >= float(e) for e in list_edges()))
        assert cell == want, text


def test_advice_is_the_outermost_crowds() -> None:
    counts = [0] * (len(list_edges()) + 1)
    assert advise_bounds("x", counts, 5, Fraction(0)).low is None
    counts[30] = counts[90] = 9
    found = advise_bounds("x", counts, 5, Fraction(0))
    assert found.low == list_edges()[29]
    assert found.high == list_edges()[90]
    counts[95] = 4  # no crowd
    assert advise_bounds("x", counts, 5, Fraction(0)) == found


def test_bounds_are_bought_once_and_hold_most_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    pay = np.append(rng.integers(100, 900, 3000), 10**9)  # one person far out: no bound of anybody's
    (tmp_path / "t.csv").write_text("who,pay,sex\n" + "".join(f"{k},{p},F\n" for k, p in enumerate(pay)))
    told = '[source]\ndata = "t.csv"\n[columns]\nid = ["who"]\n[columns.public.sex]\nvalues = ["F", "M"]\n'
    told += "[columns.private.pay]\nkind = 'integer'\n[budget]\nepsilon = 1\ndelta = 1e-6\n"
    (tmp_path / "keyhole.toml").write_text(told)
    first = CliRunner().invoke(app, ["ask", "--clip", "pay"])
    assert first.exit_code == 0, first.output
    assert "pay: min = 0, max = 1024" in first.output
    again = CliRunner().invoke(app, ["ask", "--clip", "pay"])
    assert "cost epsilon 0;" in again.output
    both = CliRunner().invoke(app, ["ask", "--clip", "pay", "SELECT AVG(pay) FROM t"])
    assert both.exit_code == 0, both.output
    assert "bounds bought; write them into keyhole.toml, then ask" in both.stderr
    assert "refused" not in both.output
    refused = CliRunner().invoke(app, ["ask", "SELECT AVG(pay) FROM t"])
    assert "keyhole ask --clip pay" in refused.output
    assert CliRunner().invoke(app, ["ask", "--clip", "who"]).exit_code == 2
    assert CliRunner().invoke(app, ["ask", "--clip", "pay", "--dry-run"]).exit_code == 2
    shown = CliRunner().invoke(app, ["book", "verify", "book.keyhole"])
    assert shown.exit_code == 0, shown.output


def test_bounds_that_nobody_could_see_are_refused_before_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty people, and a budget for which a crowd of thousands would be needed: it was charged, and said nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("who,pay,sex\n" + "".join(f"{k},{k},F\n" for k in range(60)))
    told = '[source]\ndata = "t.csv"\n[columns]\nid = ["who"]\n[columns.public.sex]\nvalues = ["F", "M"]\n'
    told += "[columns.private.pay]\nkind = 'integer'\n[budget]\nepsilon = 0.01\ndelta = 1e-6\n"
    (tmp_path / "keyhole.toml").write_text(told)
    done = CliRunner().invoke(app, ["ask", "--clip", "pay"])
    assert done.exit_code == 2, done.output
    assert "over half of everybody: declare min and max instead" in done.output
    shown = CliRunner().invoke(app, ["book", "show", "book.keyhole"])
    assert "bounds for pay" not in shown.output


SETTINGS = """[source]
data = "t.csv"
[columns]
id = ["who"]
[columns.public.sex]
values = ["F", "M"]
[columns.private.pay]
kind = "integer"
[columns.private.ill]
kind = "text"
[columns.public.floor]
kind = "integer"
[budget]
epsilon = 1
delta = 1e-6
"""


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [f"p{k},{k % 90},{'FM'[k % 2]},{'xyz'[k % 3]},{k % 7},flu\n" for k in range(3000)]
    (tmp_path / "t.csv").write_text("who,pay,sex,ward,floor,ill\n" + "".join(lines))
    (tmp_path / "keyhole.toml").write_text(SETTINGS)
    return tmp_path


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ("sex", "it is public, so write min and max, or values, under [columns.public.sex]"),
        ("floor", "it is public, so write min and max, or values, under [columns.public.floor]"),
        ("ill", "it holds text, and bounds are of numbers: write values = [...] under [columns.private.ill]"),
        ("who", "the table has no such column to be asked about"),
    ],
)
def test_bounds_of_what_has_none_are_refused_before_the_charge(ward: Path, column: str, why: str) -> None:
    done = CliRunner().invoke(app, ["ask", "--clip", column])
    assert done.exit_code == 2, done.output
    assert why in " ".join(done.output.split())
    shown = CliRunner().invoke(app, ["book", "show"])
    assert f"bounds for {column}" not in shown.output


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("COUNT(*) FROM t WHERE ward = 'x'", "write values = [...] under [columns.public.ward]; declared"),
        ("COUNT(*) FROM t WHERE floor = 2", "or min, max and width, under [columns.public.floor]; declared"),
        ("COUNT(*) FROM t WHERE ill = 'flu'", "write values = [...] under [columns.private.ill]; declared"),
        ("SUM(pay) FROM t", "write min and max under [columns.private.pay] (`keyhole ask --clip pay` buys bounds)"),
        ("COUNT(*) FROM t WHERE who = 'p1'", "column 'who' names people, and nobody is asked about by id privately"),
    ],
)
def test_an_undeclared_column_is_refused_with_what_to_write(ward: Path, sql: str, wanted: str) -> None:
    done = CliRunner().invoke(app, ["ask", f"SELECT {sql}"])
    assert done.exit_code == 3, done.output
    said = " ".join(done.output.split())
    assert wanted in said
    assert ("--clip" in said) == ("pay" in sql)
