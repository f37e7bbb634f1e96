"""The JSON contract as structs: every digit goes through, both ways, and what is written can be read again."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from tests.support.files import write_files

import keyhole
from keyhole.cli.demo import CONFIG, LOG, PEOPLE
from keyhole.report.documents.json_text import Document, Value, dumps, read_document, read_json, to_builtins
from keyhole.report.documents.verdict import VerdictDocument


class Numbers(Document, frozen=True, kw_only=True):
    """Numbers of every kind, on their own and in a list."""

    value: Value
    values: tuple[Value, ...] = ()
    count: int = 0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1208925819614629174706176", 2**80),
        ("-1208925819614629174706176", -(2**80)),
        ("32.10", Decimal("32.10")),
        ("1e-30", Decimal("1E-30")),
        ("0.10000000000000000001", Decimal("0.10000000000000000001")),
        ("true", True),
        ('"32.10"', "32.10"),
        ("null", None),
    ],
)
def test_numbers_pass_as_written_both_ways(text: str, number: Value) -> None:
    document = read_document(read_json(f'{{"value": {text}, "values": [{text}], "count": {2**80}}}'), Numbers)
    assert document == Numbers(value=number, values=(number,), count=2**80)
    assert [type(each) for each in (document.value, *document.values)] == [type(number)] * 2
    assert str(document.value) == str(number)  # zeros at the end are kept
    assert read_document(read_json(dumps(document)), Numbers) == document
    assert msgspec.convert(to_builtins(document), Numbers) == document


def test_what_has_its_default_is_left_out() -> None:
    assert to_builtins(Numbers(value=None)) == {"value": None}
    assert dumps(Numbers(value=0, values=(1,))) == '{\n  "value": 0,\n  "values": [\n    1\n  ]\n}'


def test_a_verdict_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_files(tmp_path, {"people.csv": PEOPLE, "log.sql": LOG, "keyhole.toml": CONFIG})
    verdict = keyhole.audit(tmp_path / "log.sql", config=tmp_path / "keyhole.toml", within="60%")
    written = verdict.dumps()
    document = read_document(read_json(written), VerdictDocument)
    assert document.exposed[0].value == Decimal("5.2")
    assert [item.query for item in document.exposed[0].proof] == ["1", "2", "3"]
    assert dumps(document) == written == dumps(verdict.to_json())
