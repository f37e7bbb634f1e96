"""1e999999999 is a short text and a number that fills the memory: wherever a number is read, a sentence refuses it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

import keyhole
from keyhole.checker.claims import TooLong, fraction, read_json
from keyhole.cli import app
from keyhole.config import Config, PrivateColumn
from keyhole.errors import KeyholeError, NumberError
from keyhole.model.numbers import read_decimal, read_fraction
from keyhole.model.transcript import Noise, read_jsonl

HUGE = ("1e999999999", "-1e400", "1e-999999999", "9" * 5000, "0." + "1" * 20_000, "1" * 401)
SENTENCE = re.compile(r"is too large or too long: (numbers are read )?below 10\^400, (with )?at most 10,000 digits")
SUM = "SELECT SUM(pay) FROM staff"


@pytest.mark.parametrize("text", HUGE)
def test_a_number_is_refused_before_it_is_computed_with(text: str) -> None:
    for read in (read_decimal, read_fraction):
        with pytest.raises(NumberError):
            read(text)
    with pytest.raises(TooLong):
        fraction(text)
    with pytest.raises(TooLong):
        read_json(f'{{"a": [{text}]}}')


def test_large_and_long_numbers_are_read() -> None:
    assert read_decimal("9.5e399") == Decimal("9.5e399") == read_json("9.5e399")
    assert read_fraction("1e-9999") == Fraction(1, 10**9999) == fraction("1e-9999")
    assert read_decimal("0e999999999") == 0 == read_json("0e999999999")
    assert read_decimal(10**399) == 10**399
    with pytest.raises(NumberError):
        read_decimal(10**400)
    with pytest.raises(ValueError, match="not a number"):
        read_decimal("seven")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "staff.csv").write_text("name,team,pay\nAnn,a,10\nBob,a,20\nCyd,b,30\n", encoding="utf-8")
    (tmp_path / "log.sql").write_text(f"{SUM};\n{SUM} WHERE name <> 'Ann';\n", encoding="utf-8")
    return tmp_path


def settings(body: str) -> str:
    return f'[source]\ndata = "staff.csv"\n[columns]\nid = ["name"]\n{body}\n'


def transcript(answer: str, noise: str = "") -> str:
    return f'{{"sql": "{SUM}", "answer": {answer}{noise}}}\n'


WHO = ("--data", "staff.csv", "--id", "name", "--private", "pay")
STATISTICS = "[columns.age]\nmin = 0\nmax = 9\n[[statistics]]\ncount = {}\nmean = { age = 4.5 }\n"
FILES: dict[str, str] = {  # name -> text with a place for the number
    "answer.jsonl": transcript("{}"),
    "ends.jsonl": transcript('{"lo": 0, "hi": {}}'),
    "suppressed.jsonl": transcript('{"suppressed": [0, {}]}'),
    "groups.jsonl": transcript('[{"key": {"team": "a"}, "values": [{}]}]'),
    "noise.jsonl": transcript("60", ', "noise": {"kind": "uniform", "scale": {}}'),
    "unbounded.jsonl": transcript("60", ', "noise": {"kind": "laplace", "scale": {}}'),
    "min.toml": settings("[columns.private.pay]\nmin = {}"),
    "quoted.toml": settings('[columns.private.pay]\nmin = "{}"'),
    "step.toml": settings("[columns.private.pay]\nmin = 0\nmax = 9\nstep = {}"),
    "rate.toml": settings("[columns.private.pay]\nvalues = ['a', 'b']\n[columns.private.pay.rates]\na = {}"),
    "fact.toml": settings("[columns.private.pay]\n[[facts]]\nwhere = \"name = 'Bob'\"\nmax = {}"),
    "public.toml": settings("[columns.private.pay]\n[columns.public.team]\nwidth = {}"),
    "insiders.toml": settings("[columns.private.pay]\n[online]\ninsiders = {}"),
    "budget.toml": settings("[columns.private.pay]\nmin = 0\nmax = 50\n[budget]\nepsilon = {}"),
    "delta.toml": settings("[columns.private.pay]\nmin = 0\nmax = 50\n[budget]\nepsilon = 1\ndelta = {}"),
    "planned.toml": settings("[columns.private.pay]\nmin = 0\nmax = 50\n[budget]\nepsilon = 1\ndelta = 1e-6"),
    "limit.sql": "SELECT team, SUM(pay) FROM staff GROUP BY team LIMIT {};",
    "condition.sql": "SELECT SUM(pay) FROM staff WHERE pay > {};",
    "union.sql": "SELECT {}, SUM(pay) FROM staff UNION ALL SELECT 2, SUM(pay) FROM staff;",
    "round.sql": "SELECT ROUND(SUM(pay), {}) FROM staff;",
    "statistics.toml": STATISTICS,
    "verdict.json": '{"exposed": [], "intervals": [{"lo": {}}]}',
}
REFUSED = [  # the command, in which {} stands for a huge number; files that are made with it
    ("attack", "answer.jsonl", *WHO),
    *(
        ("audit", "log.sql", "-c", f"{name}.toml")
        for name in ("min", "quoted", "step", "rate", "fact", "public", "insiders")
    ),
    ("ask", SUM, "-c", "budget.toml"),
    ("ask", SUM, "-c", "delta.toml"),
    ("audit", "log.sql", *WHO, "--within", "{}"),
    ("audit", "log.sql", *WHO, "--within", "{}%"),
    ("audit", "log.sql", "--data", "staff.csv", "--id", "name", "--private", "pay:0..{}"),
    ("audit", "log.sql", "--data", "staff.csv", "--id", "name", "--private", "pay:0..9:{}"),
    ("attack", "log.sql", *WHO, "--noise", "uniform:{}"),
    ("ask", SUM, "-c", "planned.toml", "--error", "{}"),
    ("audit", "log.sql", *WHO, "--rounding", "{}"),
    ("ask", "-f", "log.sql", "-c", "budget.toml"),
    ("reconstruct", "statistics.toml"),
    ("verify", "verdict.json", "--data", "staff.csv"),
    ("audit", "log.sql", *WHO, "--baseline", "verdict.json"),
    ("report", "verdict.json"),
    ("tables", "table.csv", "--value", "n", "--suppressed", "x", "--rounding", "{}"),
]


@pytest.mark.parametrize("number", ["1e999999999", "9" * 5000])
@pytest.mark.parametrize("command", REFUSED, ids=" ".join)
def test_every_command_refuses_it_with_a_sentence(
    command: tuple[str, ...], number: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "table.csv").write_text("town,n\nA,1\nB,x\nTotal,5\n", encoding="utf-8")
    for name, text in FILES.items():
        (folder / name).write_text(text.replace("{}", number), encoding="utf-8")
    done = CliRunner().invoke(app, [part.replace("{}", number) for part in command])
    assert done.exit_code == 2, done.output
    assert SENTENCE.search(" ".join(done.output.split())), done.output


def test_a_range_of_suppressed_cells_with_it_is_refused(folder: Path) -> None:
    (folder / "table.csv").write_text("town,n\nA,1\nB,x\nTotal,5\n", encoding="utf-8")
    options = ["--value", "n", "--suppressed", "x=0.." + "9" * 5000]
    done = CliRunner().invoke(app, ["tables", str(folder / "table.csv"), *options])
    assert done.exit_code == 2, done.output
    assert SENTENCE.search(" ".join(done.output.split())), done.output


@pytest.mark.parametrize("name", ["answer", "ends", "suppressed", "groups", "noise", "unbounded"])
@pytest.mark.parametrize("number", ["1e999999999", "1e-999999999", "9" * 5000])
def test_a_line_of_a_transcript_with_it_is_refused(name: str, number: str, folder: Path) -> None:
    line = FILES[f"{name}.jsonl"].replace("{}", number)
    (folder / "log.jsonl").write_text(line, encoding="utf-8")
    done = CliRunner().invoke(app, ["audit", str(folder / "log.jsonl"), "--data", str(folder / "staff.csv"), *WHO[2:]])
    assert done.exit_code == 3, done.output
    assert SENTENCE.search(" ".join(done.output.split())), done.output


@pytest.mark.parametrize("number", ["1e999999999", "1e-999999999", "9" * 5000])
@pytest.mark.parametrize(
    ("name", "codes"),
    [("condition.sql", {3}), ("round.sql", {3}), ("limit.sql", {1, 3}), ("union.sql", {0})],  # beside the point
)
def test_a_statement_with_it_ends(name: str, codes: set[int], number: str, folder: Path) -> None:
    (folder / name).write_text(FILES[name].replace("{}", number), encoding="utf-8")
    for dialect in ("duckdb", "postgres", "mysql"):
        options = ["--data", str(folder / "staff.csv"), *WHO[2:], "--dialect", dialect]
        done = CliRunner().invoke(app, ["audit", str(folder / name), *options])
        assert done.exit_code in codes, (dialect, done.output)


def test_a_proof_with_it_is_not_replayed(folder: Path) -> None:
    found = json.loads(
        keyhole.audit(folder / "log.sql", data=folder / "staff.csv", id=["name"], private=["pay"]).dumps()
    )
    for path in places(found["exposed"][0], ("exposed", 0)):
        if path[2] in ("why", "first") or path[-1] == "query":
            continue  # nothing is computed with these
        for value in ("1e999999999", "1/1e999999999", "x > 1e999999999"):
            forged = json.loads(json.dumps(found))
            inside = forged
            for step in path[:-1]:
                inside = inside[step]
            inside[path[-1]] = value
            (folder / "forged.json").write_text(json.dumps(forged), encoding="utf-8")
            done = CliRunner().invoke(app, ["verify", str(folder / "forged.json"), "--data", str(folder / "staff.csv")])
            assert done.exit_code in (1, 2, 3), (path, value, done.output)
            assert "internal error" not in done.output, (path, value, done.output)


def places(data: object, path: tuple[object, ...]) -> Iterator[tuple[object, ...]]:
    for name, each in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield (*path, name)
        yield from places(each, (*path, name))


def test_python_refuses_it_too() -> None:
    huge = Decimal("1e999999999")
    for made in (
        lambda: PrivateColumn(min=huge),
        lambda: PrivateColumn(max="1e999999999"),  # type: ignore[arg-type]
        lambda: Config.parse("[columns.private.pay]\nmax = 1e999999999"),
        lambda: Noise.parse("laplace", huge),
        lambda: list(read_jsonl(["[" * 100_000])),
    ):
        with pytest.raises(KeyholeError):
            made()


def test_numbers_of_settings_pass_as_they_are_written() -> None:
    column = Config.parse(f"[columns.private.pay]\nmin = 1e-30\nmax = {2**80}\nstep = 32.10").columns.private["pay"]
    assert [str(column.min), str(column.max), str(column.step)] == ["1E-30", str(2**80), "32.10"]
