"""Files as they come: any extension, encoding and layout is read as the same table, or the fault is named."""

from __future__ import annotations

import csv
import gzip
import io
import random
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.effort import effort

import keyhole
from keyhole.config import Config
from keyhole.config.settings import File, settings
from keyhole.datasets import Use, open_table
from keyhole.datasets.files.csv_layout import Separation
from keyhole.datasets.files.workbook import PUBLISHED_TABLE, Workbook
from keyhole.errors import ConfigError, DataError

NAMES = ["Ann Ö", "Bob", "Çyd", "Dæ; x", "Eve, y", 'Fay "z"']
TEXT = "name,team,pay\n" + "".join(
    f'"{n.replace(chr(34), chr(34) * 2)}",{"ab"[i % 2]},{i}.5\n' for i, n in enumerate(NAMES)
)


def rows(data: object, **more: Any) -> list[tuple[Any, ...]]:
    """The whole table as the engine holds it, row by row."""
    table = open_table(settings(data=data, private="pay", id="name", **more), Use.AUDIT)
    return table.whole.connection.execute("SELECT name, team, pay FROM everything").fetchall()


PLAIN = [(n, "ab"[i % 2], Decimal(f"{i}.5")) for i, n in enumerate(NAMES)]


def frame() -> pa.Table:
    return pa.table({"name": NAMES, "team": ["ab"[i % 2] for i in range(6)], "pay": [i + 0.5 for i in range(6)]})


# --- content decides --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["t.csv", "t.data", "t.txt", "t", "t.CSV", "t.dat.old", "order.csv", "group.tab", "select"]
)
def test_text_under_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TEXT, encoding="utf-8")
    assert rows(tmp_path / name) == PLAIN


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.bin", "t"])
def test_parquet_under_any_name(tmp_path: Path, name: str) -> None:
    pq.write_table(frame(), tmp_path / name)
    assert rows(tmp_path / name) == PLAIN


@pytest.mark.parametrize("name", ["t.duckdb", "t.db", "t.csv", "t"])
def test_a_database_under_any_name(tmp_path: Path, name: str) -> None:
    with duckdb.connect(tmp_path / name) as con:
        con.register("f", frame())
        con.execute("CREATE TABLE staff AS FROM f")
    assert rows(tmp_path / name) == PLAIN


@pytest.mark.parametrize("name", ["t.json", "t.jsonl", "t.txt.json", "t.dump"])
def test_json_under_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(frame().to_pandas().to_json(orient="records", lines=True), encoding="utf-8")
    assert rows(tmp_path / name) == PLAIN


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (b"SQLite format 3\x00", "an SQLite database"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old Excel workbook"),
        (b"PK\x03\x04junk", "a zip archive"),
        (b"%PDF-1.4", "a PDF"),
    ],
)
def test_what_is_no_table_is_named(tmp_path: Path, start: bytes, told: str) -> None:
    (tmp_path / "t.csv").write_bytes(start + b"\x01" * 100)
    with pytest.raises(DataError, match=told):
        rows(tmp_path / "t.csv")


def test_a_name_that_lies_is_said(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text(TEXT, encoding="utf-8")
    with pytest.raises(DataError, match="is no parquet file, whatever its name says"):
        rows(tmp_path / "t.parquet")


def test_a_table_named_by_a_keyword_can_be_asked(tmp_path: Path) -> None:
    (tmp_path / "order.csv").write_text(TEXT, encoding="utf-8")
    log = ['SELECT SUM(pay) FROM "order"', "SELECT SUM(pay) FROM order"]
    found = keyhole.audit(log, data=tmp_path / "order.csv", private="pay", id="name")
    assert [u.number for u in found.unjudged] == ["2"]
    assert 'write "order"' in found.unjudged[0].reason


# --- encodings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"]
)
@pytest.mark.parametrize("packed", [False, True])
def test_encodings_are_recognised(tmp_path: Path, encoding: str, packed: bool) -> None:
    text = TEXT.replace("Bob", "B“b”") if encoding == "cp1252" else TEXT
    raw = text.encode(encoding)
    (tmp_path / "t.csv").write_bytes(gzip.compress(raw) if packed else raw)
    assert [row[0] for row in rows(tmp_path / "t.csv")] == [
        n.replace("Bob", "B“b”") if text != TEXT else n for n in NAMES
    ]


def test_an_encoding_is_taken_as_said(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(TEXT.replace("Ö", "Ł").replace("æ", "").encode("cp1250"))
    assert rows(File(path=tmp_path / "t.csv", encoding="windows-1250"))[0][0] == "Ann Ł"
    assert rows(tmp_path / "t.csv")[0][0] != "Ann Ł"
    with pytest.raises(DataError, match="is not utf-8: it cannot be read from about line 1"):
        rows(File(path=tmp_path / "t.csv", encoding="utf8"))
    with pytest.raises(ConfigError, match="there is no encoding 'utf-9'"):
        rows(File(path=tmp_path / "t.csv", encoding="utf-9"))


def test_mixed_encodings_are_refused_with_both_lines(tmp_path: Path) -> None:
    first, second = TEXT.splitlines(keepends=True)[:3], TEXT.splitlines(keepends=True)[3:]
    (tmp_path / "t.csv").write_bytes("".join(first).encode() + "".join(second).encode("latin-1"))
    with pytest.raises(DataError, match="mixes encodings: line 2 is UTF-8 and line 4 is not"):
        rows(tmp_path / "t.csv")
    assert len(rows(File(path=tmp_path / "t.csv", encoding="latin-1"))) == 6


# --- rows and columns -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name,team,pay\nAnn,a,1\nBob,b,2,3\n", "line 3 has 4 fields and the first line 3"),
        ("name,team,pay\nAnn,a,1\nBob,b\nCyd,a,3\n", "line 3 has 2 fields and the first line 3"),
        ("staff of 2020\nname,team,pay\nAnn,a,1\n", "line 2 has 3 fields and the first line 1"),
        ("# staff\nname,team,pay\nAnn,a,1\n", "line 2 has 3 fields and the first line 1"),
        ("name,team,pay,pay\nAnn,a,1,2\n", r"two columns named 'pay' \(number 3 and 4\)"),
        ("name,team,pay,Pay\nAnn,a,1,2\n", r"two columns named 'Pay' \(number 3 and 4\)"),
        ("", "is empty"),
        ("name,team,pay\n", "has no rows"),
    ],
)
def test_faults_of_rows_and_columns_are_named(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=told):
        rows(tmp_path / "t.csv")


def test_nobody_is_lost_to_a_comment_sign_or_an_odd_start(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,team,pay\n#Ann,a,1\n#Bob,b,2\nCyd,a,3\n")
    assert [row[0] for row in rows(tmp_path / "t.csv")] == ["#Ann", "#Bob", "Cyd"]
    (tmp_path / "u.csv").write_text("name,team,pay\nAnn,a,1,\nBob,b,2,\n")  # a delimiter at the end of each line
    assert [row[0] for row in rows(tmp_path / "u.csv")] == ["Ann", "Bob"]


def test_a_file_without_a_header_gets_names(tmp_path: Path) -> None:
    (tmp_path / "t.data").write_text(TEXT.partition("\n")[2], encoding="utf-8")
    assert rows(File(path=tmp_path / "t.data", columns=("name", "team", "pay"))) == PLAIN
    told = Config.parse('[source]\ncolumns = ["name", "team", "pay"]')
    assert open_table(settings(told, data=tmp_path / "t.data", private="pay"), Use.AUDIT).roster.n == 6
    with pytest.raises(ConfigError, match="has 3 columns in its first line, and 2 are named"):
        rows(File(path=tmp_path / "t.data", columns=("name", "pay")))
    with pytest.raises(ConfigError, match="first line looks like data, not names: name its 3 columns") as error:
        rows(tmp_path / "t.data")
    assert "Ann" not in str(error.value)


# --- layouts: a twin --------------------------------------------------------------------------------------------------


def written(table: list[tuple[str, str, Decimal | None]], rng: random.Random, path: Path) -> File:
    """The table in some layout, and what has to be said of it."""
    decimal = rng.choice(".,")
    thousands = rng.choice([None, *(sign for sign in ".,' " if sign != decimal)])
    delimiter = rng.choice([sign for sign in ";\t|," if sign not in (decimal, thousands)])
    null = rng.choice([(), ("NA",), ("?", "n/a")])
    header, pad, encoding = rng.random() < 0.5, rng.random() < 0.3, rng.choice(["utf-8", "utf-16", "latin-1", "cp1252"])
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=rng.choice(["\n", "\r\n"]))
    if header:
        writer.writerow(["name", "team", "pay"])
    for name, team, pay in table:
        number = "" if pay is None else f"{pay:,f}" if thousands else f"{pay:f}"
        swapped = number.translate(str.maketrans({",": thousands or "", ".": decimal}))
        cells = [name, team, swapped if pay is not None else rng.choice([*null, ""])]
        writer.writerow([f" {cell} " if pad and rng.random() < 0.5 else cell for cell in cells])
    path.write_bytes(out.getvalue().encode(encoding))
    return File(
        path=path, columns=() if header else ("name", "team", "pay"), null=null, trim=pad,
        decimal="," if decimal == "," else None, thousands=thousands,
    )  # fmt: skip


def checked(seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    table = [
        (
            f"p{i} Ö",
            rng.choice(["a", "b,c", "d;e"]),
            None if rng.random() < 0.2 else Decimal(rng.randrange(10**9)) / 100,
        )
        for i in range(rng.randrange(2, 12))
    ]
    table = [(n, t, None if p is None else p.quantize(Decimal("0.01"))) for n, t, p in table]
    found = rows(written(table, rng, folder / f"t{seed}.csv"))
    assert found == [(n, t, p) for n, t, p in table], seed


@pytest.mark.parametrize("seed", range(effort(25)))
def test_every_layout_is_the_same_table(tmp_path: Path, seed: int) -> None:
    checked(seed, tmp_path)


@pytest.mark.soak
def test_every_layout_is_the_same_table_fresh(tmp_path: Path) -> None:
    start = random.SystemRandom().randrange(10**9)
    for seed in range(start, start + 500):
        checked(seed, tmp_path)


def test_text_keeps_its_commas(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name;team;pay\nAnn;1,5;2,5\nBob;2,5;3,5\n")
    told = Config.parse('[columns.public.team]\nkind = "text"')
    laid = File(path=tmp_path / "t.csv", decimal=",")
    assert rows(laid, config=told)[0] == ("Ann", "1,5", Decimal("2.5"))
    assert rows(laid)[0][1:] == (Decimal("1.5"), Decimal("2.5"))
    assert rows(tmp_path / "t.csv", config=told)[0][2] == "2,5"  # nothing is guessed


@pytest.mark.parametrize(
    "said", [{"delimiter": ";;"}, {"decimal": "x"}, {"thousands": "."}, {"thousands": "1"}, {"columns": ("a", "a")}]
)
def test_a_layout_that_cannot_be(said: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"delimiter|decimal|thousands|columns"):
        File(path="t.csv", **said)


# --- Excel ------------------------------------------------------------------------------------------------------------

SHEET = """<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>
<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>team</t></is></c><c r="C1" t="s"><v>1</v></c>
<c r="D1" t="s"><v>2</v></c></row>
<row r="2"><c r="A2" t="s"><v>3</v></c><c r="B2" t="str"><f>"a"</f><v>a</v></c><c r="C2"><v>1.5</v></c>
<c r="D2" s="1"><v>36925</v></c></row>
<row r="3"><c r="A3" t="inlineStr"><is><t>Bob</t></is></c><c r="C3" t="e"><v>#DIV/0!</v></c>
<c r="D3" s="1"><v>36926.5</v></c></row>
<row r="4"/></sheetData></worksheet>"""
BOOK = """<?xml version="1.0"?><workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"
xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>
<sheet name="staff" sheetId="1" r:id="rId1"/><sheet name="empty" sheetId="2" r:id="rId2"/></sheets></workbook>"""
RELS = """<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="rId1" Target="worksheets/sheet1.xml"/>
<Relationship Id="rId2" Target="/xl/worksheets/sheet2.xml"/></Relationships>"""
WORDS = """<?xml version="1.0"?><sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">
<si><t>name</t></si><si><r><t>p</t></r><r><t>ay</t></r></si><si><t>since</t></si><si><t>Ann Ö</t></si></sst>"""
STYLES = """<?xml version="1.0"?><styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">
<numFmts><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd"/></numFmts>
<cellXfs><xf numFmtId="0"/><xf numFmtId="164"/></cellXfs></styleSheet>"""


def workbook(path: Path) -> Path:
    empty = SHEET.partition("<row")[0] + "</sheetData></worksheet>"
    with zipfile.ZipFile(path, "w") as out:
        for name, text in {
            "xl/workbook.xml": BOOK, "xl/_rels/workbook.xml.rels": RELS, "xl/sharedStrings.xml": WORDS,
            "xl/styles.xml": STYLES, "xl/worksheets/sheet1.xml": SHEET, "xl/worksheets/sheet2.xml": empty,
        }.items():  # fmt: skip
            out.writestr(name, text)
    return path


def test_excel_is_read(tmp_path: Path) -> None:
    path = workbook(tmp_path / "staff.xlsx")
    table = open_table(settings(data=path, private="pay", id="name"), Use.AUDIT)
    found = table.whole.connection.execute("SELECT name, team, pay, since::VARCHAR FROM everything").fetchall()
    assert found == [
        ("Ann Ö", "a", Decimal("1.5"), "2001-02-03 00:00:00"),
        ("Bob", None, None, "2001-02-04 12:00:00"),
    ]
    assert rows(File(path=path, sheet="staff"))[0][0] == "Ann Ö"
    with pytest.raises(ConfigError, match="has no sheet 'x'; it has staff, empty"):
        rows(File(path=path, sheet="x"))
    with pytest.raises(DataError, match="has no value on its sheet"):
        rows(File(path=path, sheet="empty"))
    (tmp_path / "cut.xlsx").write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="zip archive"):
        rows(tmp_path / "cut.xlsx")


ENTITIES = '<!DOCTYPE x [<!ENTITY a "many "><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


def with_part(path: Path, name: str, text: bytes) -> Path:
    with zipfile.ZipFile(workbook(path.with_name("plain.xlsx"))) as book, zipfile.ZipFile(path, "w") as out:
        for part in book.namelist():
            out.writestr(part, text if part == name else book.read(part))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("xl/workbook.xml", BOOK),
        ("xl/_rels/workbook.xml.rels", RELS),
        ("xl/sharedStrings.xml", WORDS.replace("Ann Ö", "&b;")),
        ("xl/styles.xml", STYLES),
        ("xl/worksheets/sheet1.xml", SHEET.replace("Bob", "&b;")),
    ],
)
def test_a_workbook_that_declares_entities_is_refused(part: str, text: str, encoding: str, tmp_path: Path) -> None:
    head, _, rest = text.partition("?>")
    forged = f'{head} encoding="{encoding}"?><!-- {"x" * 70_000} -->{ENTITIES}{rest}'.encode(encoding)
    path = with_part(tmp_path / "staff.xlsx", part, forged)
    with pytest.raises(DataError, match=rf"staff.xlsx: {part} declares entities"):
        rows(path)
    if part != "xl/styles.xml":  # published tables are read without formats
        with pytest.raises(DataError, match=rf"staff.xlsx: {part} declares entities"):
            Workbook(path, PUBLISHED_TABLE).stored_rows()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('r="C3"', 'r="ZZZZZZZZ3"', "more than 16,384 columns"),
        ("<v>3</v>", "<v>99</v>", "the sheet cannot be read"),
        ("<v>3</v>", "<v>x</v>", "the sheet cannot be read"),
        ("<v>3</v>", "<v>-1</v>", "the sheet cannot be read"),
        ('r="B2"', 'r="A2"', "the sheet cannot be read"),
        ('r="B2"', 'r="2"', "the sheet cannot be read"),
    ],
)
def test_a_sheet_that_cannot_be_is_refused(old: str, new: str, says: str, tmp_path: Path) -> None:
    path = with_part(tmp_path / "staff.xlsx", "xl/worksheets/sheet1.xml", SHEET.replace(old, new).encode())
    with pytest.raises(DataError, match=says):
        rows(path)


def test_numbers_in_a_workbook_keep_every_digit(tmp_path: Path) -> None:
    """Ids of 17 digits that a DOUBLE would make one, as libraries write them, stay two people."""
    ids = ("12345678901234567", "12345678901234568")
    people = "".join(
        f'<row r="{r}"><c r="A{r}"><v>{n}</v></c><c r="B{r}"><v>1</v></c><c r="C{r}"><v>{r}</v></c></row>'
        for r, n in enumerate(ids, 2)
    )
    sheet = SHEET.partition('<row r="2"')[0] + people + "</sheetData></worksheet>"
    path = with_part(tmp_path / "staff.xlsx", "xl/worksheets/sheet1.xml", sheet.encode())
    assert [row[0] for row in rows(path)] == [int(n) for n in ids]


def test_a_published_workbook_is_read_as_stored(tmp_path: Path) -> None:
    """A date is its number and an error its sign, which may be what marks a suppressed cell; empty rows count."""
    path = with_part(
        tmp_path / "staff.xlsx", "xl/worksheets/sheet1.xml", SHEET.replace('row r="3"', 'row r="5"').encode()
    )
    assert Workbook(path, PUBLISHED_TABLE).stored_rows()[1:5] == [
        ["Ann Ö", "a", "1.5", "36925"], [], [], ["Bob", "", "#DIV/0!", "36926.5"]
    ]  # fmt: skip


# --- dates ------------------------------------------------------------------------------------------------------------

DATED = "name,born,seen,pay\n" + "".join(f"p{i},2001-02-0{i},2020-01-0{i} 1{i}:00:00,{i}\n" for i in range(1, 6))
ASKED = [
    "SELECT SUM(pay) FROM t WHERE born < '2001-02-03'",
    "SELECT SUM(pay) FROM t WHERE born = DATE '2001-02-04'",
    "SELECT SUM(pay) FROM t WHERE EXTRACT(YEAR FROM born) = 2001",
    "SELECT SUM(pay) FROM t WHERE seen < '2020-01-02 12:30:00'",
    "SELECT born, SUM(pay) FROM t GROUP BY born",
    "SELECT SUM(pay) FROM t WHERE born LIKE '2001%'",
    "SELECT SUM(pay) FROM t WHERE born = '2001-02-04 00:00:00'",
]


def test_frames_and_files_judge_dates_alike(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(DATED)
    said = {
        name: keyhole.audit(ASKED, data=data, private="pay", id="name")
        for name, data in {
            "file": path,
            "text": pd.read_csv(path),
            "times": pd.read_csv(path, parse_dates=["born", "seen"]),
            "polars": pl.read_csv(path),
            "polars dates": pl.read_csv(path, try_parse_dates=True),
        }.items()
    }
    first = said["file"].to_json()
    assert first["exposed"]
    for name, verdict in said.items():
        other = verdict.to_json()
        for key in ("exposed", "refused", "unjudged", "statements", "atoms", "rank"):
            assert other[key] == first[key], (name, key)


def test_a_private_date_is_never_read_off_where_others_can_look(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"name": ["a", "b"], "born": pd.to_datetime(["2001-01-01", "2001-01-02"]), "t": ["2001-01-01"] * 2}
    )
    given = settings(data=frame, private=["born", "t"], id="name")
    kinds = {c.name: str(c.kind) for c in open_table(given, Use.WATCH).roster.schema.columns}
    assert (kinds["born"], kinds["t"]) != ("date", "date")
    audited = open_table(given, Use.AUDIT)
    assert dict(audited.assumed) == {"born": "date", "t": "date"}


def test_a_day_that_may_be_two_days_stays_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,born,pay\nAnn,03/04/2001,1\nBob,04/05/2001,2\n")
    found = keyhole.audit(
        ["SELECT SUM(pay) FROM t WHERE born = '03/04/2001'"], data=tmp_path / "t.csv", private="pay", id="name"
    )
    assert [f.who for f in found.exposed] == ["Ann"]
    (tmp_path / "t.csv").write_text("name,born,pay\nAnn,03/04/2001 10:00:00,1\nBob,04/05/2001 10:00:00,2\n")
    table = open_table(settings(data=tmp_path / "t.csv", private="pay", id="name"), Use.AUDIT)
    assert str(table.roster.schema.columns[1].kind) == "text"


# --- what a fault may say ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "value"),
    [("kind = 'integer'", "secretly"), ("min = 0\nmax = 9", "77"), ("values = ['1', '2']", "silver")],
)
def test_a_fault_names_no_private_value(tmp_path: Path, declared: str, value: str) -> None:
    (tmp_path / "t.csv").write_text(f"name,team,pay\nAnn,a,1\nBob,b,{value}\n")
    told = Config.parse(f"[columns.private.pay]\n{declared}")
    with pytest.raises(DataError, match="row 2") as error:
        rows(tmp_path / "t.csv", config=told)
    assert value not in str(error.value)
    public = Config.parse("[columns.public.team]\nkind = 'integer'")
    with pytest.raises(DataError, match="row 1: 'a' is not an integer"):
        rows(tmp_path / "t.csv", config=public)


@pytest.mark.parametrize("constant", ["Holand", " holand ", "HOLAND"])
@pytest.mark.parametrize("form", ["= {}", "<> {}", "IN ({}, 'x')", "NOT IN ({})"])
def test_a_constant_that_is_nearly_there_is_pointed_out(tmp_path: Path, constant: str, form: str) -> None:
    (tmp_path / "t.csv").write_text("name, country, pay\nAnn, Holand, 1\nBob, Cuba, 2\nCyd, Cuba, 3\n")
    sql = f"SELECT SUM(pay) FROM t WHERE country {form.format(repr(constant))}"
    (found,) = keyhole.audit([sql], data=tmp_path / "t.csv", private="pay", id="name").unjudged
    assert f"nobody has country = '{constant}', but there is ' Holand'" in found.reason
    assert ("trim = true" in found.reason) is (constant.strip() == "Holand")
    trimmed = File(path=tmp_path / "t.csv", trim=True)
    exact = f"SELECT SUM(pay) FROM t WHERE country {form.format(repr('Holand'))}"
    assert not keyhole.audit([exact], data=trimmed, private="pay", id="name").unjudged


def test_a_separator_inside_quotes_separates_nothing(tmp_path: Path) -> None:
    """Both signs give rows of one width; only one of them cuts no quoted field."""
    file = tmp_path / "t.csv"
    file.write_text('a,"b; c",d\n1,"x; y",2\n2,"z; y",3\n3,"w; y",5\n')
    assert Separation.of(file).delimiter == ","


ODD_NAMES = ('5" pipe', '"', 'a "b" c', '"5', 'C:\\ "x"', "it's", "'", "x\u2028\x0cy")


@pytest.mark.parametrize(("escape", "always"), [('"', False), ('"', True), ("\\", False), ("\\", True)])
def test_quotes_inside_of_quotes_are_read_as_they_were_written(tmp_path: Path, escape: str, always: bool) -> None:
    """An odd number of quotes in a value is no sign that another quote is used; an empty field is no doubled quote."""

    def cell(value: str) -> str:
        inside = value.replace("\\", "\\\\") if escape == "\\" else value
        return f'"{inside.replace(chr(34), escape + chr(34))}"' if always or '"' in value or "\\" in value else value

    for name in (*ODD_NAMES, *(["C:\\"] if escape == '"' else [])):
        table = [["name", "team", "pay"], [name, "", "1"], ["Bob", "b", "2"]]
        (tmp_path / "t.csv").write_text("".join(f"{','.join(map(cell, row))}\n" for row in table), encoding="utf-8")
        assert [row[0] for row in rows(tmp_path / "t.csv")] == [name, "Bob"]
    assert rows(File(path=tmp_path / "t.csv", null=["NA"]))[0][0] == name  # written anew


def test_a_name_that_stands_twice_is_seen_behind_odd_signs(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("na\u2028me,pay,pay\nAnn,1,2\n", encoding="utf-8")
    with pytest.raises(DataError, match="two columns named 'pay'"):
        rows(tmp_path / "t.csv")


def test_ids_that_are_written_in_two_ways_are_two_people(tmp_path: Path) -> None:
    """As numbers 1e3 and 1000 are one: two people would have been one with two records."""
    file = tmp_path / "t.csv"
    for one, other in (("1e3", "1000"), ("1.0", "1"), ("true", "t"), ("2026-01-01", "2026-1-1")):
        file.write_text(f"name,team,pay\n{one},a,1\n{other},a,2\n{one}5,b,4\n", encoding="utf-8")
        found = keyhole.audit([f"SELECT SUM(pay) FROM t WHERE name = '{other}'"], data=file, private="pay", id="name")
        assert [(f.who, f.value) for f in found] == [(other, 2)], one


def test_codes_that_are_written_in_two_ways_are_two_groups(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    for one, other in (("1E2", "100"), ("true", "TRUE")):
        file.write_text(f"name,team,pay\nAnn,{one},1\nBob,{other},2\n", encoding="utf-8")
        found = keyhole.audit(["SELECT team, SUM(pay) FROM t GROUP BY team"], data=file, private="pay", id="name")
        assert {(f.who, f.value) for f in found} == {("Ann", 1), ("Bob", 2)}, one
    file.write_text("name,team,pay\nAnn,2.0,1\nBob,2,2\nCyd,1.5,3\n", encoding="utf-8")  # numbers, typed by hand
    found = keyhole.audit(["SELECT SUM(pay) FROM t WHERE team > 1.9"], data=file, private="pay", id="name")
    assert not found.refused
    assert not found.unjudged
