"""Text files whose quotes or backslashes can be read in two ways are refused; the file and the line are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from keyhole.cli import app
from keyhole.config import Columns, PrivateColumn
from keyhole.datasets.load import load, read_columns
from keyhole.errors import DataError

ROLES = Columns(id=("name",), private={"pay": PrivateColumn()})


@pytest.mark.parametrize("layout", ["", "trim = true", 'encoding = "latin-1"'])
@pytest.mark.parametrize("name", ["t.csv", "t.txt", "t.tsv"])
def test_quotes_that_cannot_be_made_out(tmp_path: Path, name: str, layout: str) -> None:
    data, log = tmp_path / name, tmp_path / "log.sql"
    text = 'name,pay\n"Ann"x,1\nBob",2\n"Cy"d",3\n'
    data.write_text(text.replace(",", "\t") if name == "t.tsv" else text)
    log.write_text("SELECT SUM(pay) FROM t;")
    (tmp_path / "k.toml").write_text(f"[source]\n{layout}\n")
    who = ["--data", str(data), "--id", "name", "--private", "pay", "-c", str(tmp_path / "k.toml")]
    ran = CliRunner().invoke(app, ["audit", str(log), *who])
    assert ran.exit_code == 2
    assert f"cannot read {name}: line 2: " in ran.output
    assert "delimiter under [source]" in ran.output
    assert not [word for word in ("sniff", "keyhole-", str(tmp_path)) if word in ran.output]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ('a\\"b,1\n', 2),
        ('"c\\"d",1\na\\"b,2\n', 3),
        ('"c\\"d\ne",1\nx\\\\y,2\n', 4),
        ('"c\\"d",1\n"C:\\dir",2\n', 3),
    ],
)
def test_a_backslash_that_may_belong_to_the_value(tmp_path: Path, rows: str, line: int) -> None:
    data = tmp_path / "t.csv"
    data.write_text(f"name,pay\n{rows}")
    with pytest.raises(DataError, match=rf"t\.csv, line {line}: a backslash"):
        load(data, ROLES)


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ('"c\\"d",1\n"x\\\\y",2\n', ['c"d', "x\\y"]),
        ("C:\\dir,1\nx\\y,2\n", ["C:\\dir", "x\\y"]),
        ('"C:\\",1\n"D:\\",2\n', ["C:\\", "D:\\"]),
    ],
)
def test_backslashes_that_can_be_read_in_one_way(tmp_path: Path, rows: str, names: list[str]) -> None:
    data = tmp_path / "t.csv"
    data.write_text(f"name,pay\n{rows}")
    assert [row[0] for row in read_columns(data, ["name"])] == names
