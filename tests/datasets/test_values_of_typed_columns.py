"""Listed values of a private column are texts: a number in a typed file is read as one, or the declaration is refused.

It was an all-clear once: no listed text is the number 1, so `flag = 1` was taken to hold for nobody.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

import keyhole
from keyhole.config import Config, parse_private
from keyhole.errors import ConfigError

FLAGS = pa.table({"name": list("ABCDEF"), "flag": [0, 1, 1, 0, 1, 0]})
CODES = Config.parse('[columns.private.flag]\nvalues = ["0", "1"]\n')


@pytest.fixture(params=["frame", "csv"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    if request.param == "frame":
        return FLAGS
    pyarrow.csv.write_csv(FLAGS, tmp_path / "t.csv")
    return tmp_path / "t.csv"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT COUNT(*) FROM t WHERE flag = '1' AND name = 'B'", 1),
        ("SELECT COUNT(*) FROM t WHERE flag = '1'", 0),
        ("SELECT flag, COUNT(*) FROM t GROUP BY flag", 0),
        ("SELECT name, flag, COUNT(*) FROM t GROUP BY name, flag", 1),
        ("SELECT SUM(flag) FROM t WHERE name = 'B'", 3),
    ],
)
def test_a_frame_and_a_file_are_judged_alike(data: object, sql: str, code: int) -> None:
    found = keyhole.audit(sql, data=data, config=CODES, id="name")
    assert found.exit_code == code
    assert not found.contradictions


def test_a_number_is_a_listed_value_where_the_data_says_that_it_holds_numbers(data: object) -> None:
    found = keyhole.audit("SELECT COUNT(*) FROM t WHERE flag = 1 AND name = 'B'", data=data, config=CODES, id="name")
    assert found.exit_code == (1 if data is FLAGS else 3)


@pytest.mark.parametrize("private", ["flag", "flag:0..1:1", "flag=0,1"])
def test_as_a_number_it_is_exposed(data: object, private: str) -> None:
    found = keyhole.audit("SELECT COUNT(*) FROM t WHERE flag = 1 AND name = 'B'", data=data, private=private, id="name")
    assert found.exit_code == 1


def test_values_beside_another_kind_are_refused(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(FLAGS, tmp_path / "t.csv")
    settings = '[source]\ndata = "t.csv"\n[columns]\nid = ["name"]\n[columns.private.flag]\nkind = "integer"\n'
    (tmp_path / "k.toml").write_text(settings + 'values = ["0", "1"]\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="values lists texts, and kind is integer: write min, max and step"):
        keyhole.audit("SELECT COUNT(*) FROM t", config=tmp_path / "k.toml")


@pytest.mark.parametrize("private", ["flag=0,1", "flag=1,0"])
def test_listed_numbers_with_even_steps_are_numbers(data: object, private: str) -> None:
    found = keyhole.audit("SELECT SUM(flag) FROM t WHERE name = 'B'", data=data, private=private, id="name")
    assert [(f.record, f.value) for f in found] == [({"name": "B"}, 1)]


def test_codes_stay_texts() -> None:
    assert parse_private("code=0,1,5")[1].values == ("0", "1", "5")  # no even steps
    assert parse_private("zip=01234,01235")[1].values == ("01234", "01235")
    texts = pa.table({"name": list("AB"), "code": ["1", "2"]})
    with pytest.raises(ConfigError, match=r"'code' holds text, so it takes values = \[\"\.\.\.\"\], in quotes"):
        keyhole.audit("SELECT COUNT(*) FROM t WHERE code = '1'", data=texts, private="code=1,2", id="name")
