"""Table files as people have them: long, wide, Excel, rounded, wrong; each fault is said with where and what to do."""

from __future__ import annotations

import sys
import zipfile
from fractions import Fraction
from pathlib import Path

import pytest

from keyhole.api.table_repair import TableRepair
from keyhole.api.tables import judge, read_tables, tables
from keyhole.crosstab.cells import GRAND
from keyhole.crosstab.options import TableOptions
from keyhole.errors import KeyholeError
from keyhole.report.tables import TablesVerdict

LONG = "sex,town,n\nf,A,x\nf,B,2\nm,A,4\nm,B,7\nf,Total,5\nm,Total,11\nTotal,A,7\nTotal,B,9\nTotal,Total,16\n"
WIDE = "sex \\ town,A,B,Total\nf,x,2,5\nm,4,7,11\nTotal,7,9,16\n"


def judged(folder: Path, *texts: str, name: str = "t.csv", **options: object) -> TablesVerdict:
    files = []
    for k, text in enumerate(texts):
        files.append(folder / f"{k}{name}")
        files[-1].write_text(text, encoding="utf-8")
    return tables(files, **{"value": "n", "suppressed": ["x"], **options})


def workbook(path: Path, rows: list[list[str]]) -> None:
    """A small .xlsx as Excel writes it: shared strings, numbers as they are."""
    words = sorted({w for row in rows for w in row if not w.isdigit()})
    ns = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'

    def cell(at: str, text: str) -> str:
        kind, value = ("", text) if text.isdigit() else (' t="s"', str(words.index(text)))
        return f'<c r="{at}"{kind}><v>{value}</v></c>'

    lines = [
        f'<row r="{r}">' + "".join(cell(f"{chr(65 + c)}{r}", text) for c, text in enumerate(row) if text) + "</row>"
        for r, row in enumerate(rows, 1)
    ]
    rel = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    with zipfile.ZipFile(path, "w") as book:
        book.writestr(
            "xl/workbook.xml",
            f'<workbook {ns} xmlns:r="{rel}"><sheets><sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>',
        )
        book.writestr(
            "xl/_rels/workbook.xml.rels",
            '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
            '<Relationship Id="rId1" Target="worksheets/sheet1.xml"/></Relationships>',
        )
        book.writestr("xl/sharedStrings.xml", f"<sst {ns}>{''.join(f'<si><t>{w}</t></si>' for w in words)}</sst>")
        book.writestr(
            "xl/worksheets/sheet1.xml", f"<worksheet {ns}><sheetData>{''.join(lines)}</sheetData></worksheet>"
        )


@pytest.mark.parametrize("text", [LONG, WIDE, LONG.replace(",", ";"), LONG.replace(",", "\t"), "\ufeff" + LONG])
def test_long_wide_and_separators_say_the_same(text: str, tmp_path: Path) -> None:
    found = judged(tmp_path, text)
    assert [(case.who, case.value) for case in found] == [("sex f, town A", 3)]


def test_a_workbook_says_the_same(tmp_path: Path) -> None:
    workbook(tmp_path / "t.xlsx", [line.split(",") for line in LONG.splitlines()])
    found = tables([tmp_path / "t.xlsx"], value="n", suppressed=["x"])
    assert [(case.who, case.value) for case in found] == [("sex f, town A", 3)]


def test_what_is_no_workbook_is_said(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_text("a,b")
    with pytest.raises(KeyholeError, match=r"t.xlsx is no .xlsx workbook"):
        tables([tmp_path / "t.xlsx"], value="n")


def test_an_unexplained_marker_is_said_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(KeyholeError, match=r"0t.csv, line 2: 'x' is no number, and nobody said .*--suppressed 'x'"):
        judged(tmp_path, LONG, suppressed=[])
    with pytest.raises(KeyholeError, match=r"line 2: the value is empty"):
        judged(tmp_path, LONG.replace("x", ""))
    with pytest.raises(KeyholeError, match=r"line 2, column A: 'x' is no number"):
        judged(tmp_path, WIDE, suppressed=["c"])


def test_a_margin_that_does_not_add_up_is_named_with_how_much(tmp_path: Path) -> None:
    found = judged(tmp_path, LONG.replace("m,Total,11", "m,Total,14"))
    assert "sex m is 3 more than its 2 cells by town add up to" in found.contradictions
    assert "the tables do not add up" in found.gap
    assert found.exit_code == 1  # the town still gives the cell away


def test_two_tables_that_differ_are_named(tmp_path: Path) -> None:
    found = judged(tmp_path, LONG, "town,n\nA,7\nB,8\nTotal,16\n")
    assert any("town B is 9 in 0t.csv, line 9, and 8 in 1t.csv, line 3" in c for c in found.contradictions)


def test_hidden_cells_that_cannot_be_are_a_contradiction(tmp_path: Path) -> None:
    found = judged(tmp_path, "town,n\nA,x\nB,9\nTotal,7\n")
    assert found.contradictions
    assert not found.complete


def test_rounded_numbers_prove_ranges_only(tmp_path: Path) -> None:
    text = "town,n\nA,x\nB,2.6\nTotal,5.1\n"
    found = judged(tmp_path, text)
    assert [(c.who, c.status, str(c.lo), str(c.hi)) for c in found] == [("town A", "inferred", "2.4", "2.6")]
    exact = judged(tmp_path, text, rounding="0")
    assert [(c.status, str(c.value)) for c in exact] == [("exposed", "2.5")]


def test_lines_that_nearly_add_up_show_that_whole_numbers_are_rounded(tmp_path: Path) -> None:
    text = "sex,town,n\nf,A,33\nf,B,33\nf,C,33\nf,Total,100\nm,A,x\nm,B,10\nm,C,10\nm,Total,50\n"
    found = judged(tmp_path, text)
    assert found.hidden.publication.radius == Fraction(1, 2)
    assert [(c.status, str(c.lo), str(c.hi)) for c in found] == [("inferred", "28.5", "31.5")]


def test_a_margin_that_no_table_shows_ties_two_tables(tmp_path: Path) -> None:
    found = judged(tmp_path, "town,n\nA,x\nB,4\n", "sex,n\nf,3\nm,6\n", total="none")
    assert [(case.who, case.value) for case in found] == [("town A", 5)]
    assert [case["cell"] for case in found.to_json()["exposed"]] == [{"town": "A"}]  # not the total itself


def test_a_hierarchy_of_codes(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("code,above\n01,A\n02,A\n03,B\n")
    text = "nace,n\n01,x\n02,4\n03,5\nA,x\nB,5\nTotal,12\n"
    found = judged(tmp_path, text, nested=[f"nace:{tmp_path / 'codes.csv'}"])
    assert {case.who: case.value for case in found} == {"nace 01": 3, "nace A": 7}


@pytest.mark.parametrize(
    ("nested", "message"),
    [
        (["town"], "write child:parent"),
        (["twon:county"], "no table has a column 'twon'"),
        (["town:county"], "no table shows both columns"),
        (["town:codes.csv"], "cannot read codes.csv"),
    ],
)
def test_a_hierarchy_that_is_none_is_said(nested: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(KeyholeError, match=message):
        judged(tmp_path, LONG, nested=nested)


def test_a_town_in_two_counties_is_said(tmp_path: Path) -> None:
    text = "county,town,n\n1,A,x\n2,A,3\n1,Total,4\n"
    with pytest.raises(KeyholeError, match="town is not nested in county"):
        judged(tmp_path, text, nested=["town:county"])
    with pytest.raises(KeyholeError, match="no table says in which county town B lies"):
        judged(tmp_path, "county,town,n\n1,A,x\nTotal,B,3\n1,Total,4\n", nested=["town:county"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n\n3\n", "no column looks like a dimension"),
        ("town,n\nA,3\nA,4\n", "town A stands there twice"),
        ("town,town,n\nA,B,4\n", "'town' stands there twice"),
        ("town,n\nA,3,4\n", "3 fields, the header has 2"),
        ("town,n\n", "has no rows"),
        ("town,n\nA,3\n,4\n", "town is empty"),
        ("town,m\nA,3\n", "has no column 'n'"),
    ],
)
def test_a_file_that_is_no_table_is_said(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(KeyholeError, match=message):
        judged(tmp_path, text)


def test_a_wrong_word_for_the_total_is_no_all_clear(tmp_path: Path) -> None:
    with pytest.raises(KeyholeError, match="sex 'Total' looks like the total of sex"):
        judged(tmp_path, LONG, total="Sum")
    with pytest.raises(KeyholeError, match="no table has the category 'Total'"):
        judged(tmp_path, "town,n\nA,x\nB,4\n")
    odd = "sex,town,n\nf,A,1\nf,B,2\nf,Alles,3\nm,A,4\nm,B,7\nm,Alles,11\nTotal,A,x\nTotal,B,9\n"
    with pytest.raises(KeyholeError, match="town 'Alles' looks like the total of town"):
        judged(tmp_path, odd)
    assert [case.value for case in judged(tmp_path, odd, total=["Total", "Alles"])] == [5]


def test_rules_are_checks_of_their_own(tmp_path: Path) -> None:
    text = "town,n,firms,top\nA,100,9,90\nB,50,2,30\nC,x,1,\nTotal,160,12,90\n"
    found = judged(tmp_path, text, count="firms", largest="top", rule=["N<3", "dominance 85%"], by=["town"])
    shown = {(next(iter(s.key))[1], str(s.rule)) for s in found.shown}
    assert shown == {("B", "N<3"), ("A", "dominance 1,85%")}
    assert (found.applied, found.exit_code) == (False, 1)


def test_contributors_decide_the_rules(tmp_path: Path) -> None:
    firms = tmp_path / "firms.csv"
    firms.write_text("town,n\n" + "".join(f"A,{v}\n" for v in (90, 6, 4)) + "B,50\nB,30\nB,20\nC,5\nC,5\nC,5\n")
    found = judged(tmp_path, "town,n\nA,100\nB,100\nC,15\nTotal,215\n", rule=["p 5%"], contributors=firms)
    assert [(dict(s.key), str(s.rule)) for s in found.sensitive] == [({"town": "A"}, "p 5%")]
    assert found.applied
    assert [case.value for case in found] == [100]  # hiding one cell of a line hides nothing
    with pytest.raises(KeyholeError, match="--rule needs to know the contributors"):
        judged(tmp_path, "town,n\nA,100\nTotal,100\n", rule=["p 5%"])


def test_nothing_suppressed_is_no_all_clear(tmp_path: Path) -> None:
    found = judged(tmp_path, "town,n\nA,3\nTotal,3\n")
    assert (found.exit_code, found.gap) == (3, "no cell is suppressed, so none was judged")


def test_a_hidden_grand_total_has_a_name(tmp_path: Path) -> None:
    found = judged(tmp_path, "town,n\nA,3\nB,4\nTotal,x\n")
    assert [(case.who, case.value) for case in found] == [(GRAND, 7)]


def test_two_spellings_of_a_dimension_would_leave_a_link_unseen(tmp_path: Path) -> None:
    with pytest.raises(KeyholeError, match=r"has a column 'Town', 0t.csv a column 'town'"):
        judged(tmp_path, "town,n\nA,x\nTotal,9\n", "Town,sex,n\nA,f,1\nA,Total,3\n")


def test_a_category_that_the_list_of_codes_lacks_is_said(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("code,above\n01,A\n")
    with pytest.raises(KeyholeError, match=r"line 3: nace 02 does not stand in codes.csv"):
        judged(tmp_path, "nace,n\n01,x\n02,4\nA,7\nTotal,7\n", nested=[f"nace:{tmp_path / 'codes.csv'}"])


def test_lines_that_give_one_cell_two_numbers_contradict(tmp_path: Path) -> None:
    found = judged(tmp_path, "town,n\nA,x\nB,4\nTotal,9\n", "town,sex,n\nA,f,3\nA,m,3\nB,f,x\nB,m,x\nA,Total,x\n")
    assert found.contradictions
    assert not found.complete


def test_an_empty_marker_says_nothing_of_a_margin_that_is_not_published(tmp_path: Path) -> None:
    found = judged(tmp_path, "town,n\nA,\nB,\n", "sex,n\nf,3\nm,2\n", total="none", suppressed=["=1..3"])
    assert not found.contradictions  # the total, 5, is above 3
    assert {case.who: (case.lo, case.hi) for case in found.ranges} == {"town A": (2, 3), "town B": (2, 3)}


def test_counts_rounded_to_fives_are_whole(tmp_path: Path) -> None:
    found = judged(tmp_path, "town,n\nA,x\nB,10\nC,5\nTotal,20\n", rounding="5")
    assert found.hidden.publication.whole
    ((case),) = [*found, *found.ranges]
    assert (case.lo, case.hi) == (0, 11)  # 22 - 8 - 3 at most, whole and not below 0


@pytest.mark.parametrize("name", ["O'Brien", 'say "so"', "a; DROP TABLE cells", "Zürich\u2028", "1..3", "x,y"])
def test_odd_categories_are_only_names(name: str, tmp_path: Path) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    found = judged(tmp_path, f"town,n\n{quoted},x\nB,7\nTotal,9\n")
    assert [case.value for case in found] == [2]


def test_a_split_of_one_town_says_nothing_of_the_others(tmp_path: Path) -> None:
    """Sizes are shown for one town of three: the others have some too, and they do not count as 0."""
    found = judged(tmp_path, "town,n\nA,12\nB,x\nC,x\nTotal,21\n", "town,size,n\nA,s,x\nA,l,x\nA,Total,12\n")
    assert not found.contradictions
    assert {case.who: (case.lo, case.hi) for case in found.ranges} == {
        "town B": (0, 9),
        "town C": (0, 9),
        "size s, town A": (0, 12),
        "size l, town A": (0, 12),
    }
    assert found.exit_code == 0


def test_a_county_whose_towns_are_not_listed_is_no_gap(tmp_path: Path) -> None:
    counties = "county,n\n1,20\n2,x\n3,8\nTotal,36\n"
    towns = "county,town,n\n1,A,x\n1,B,x\n1,C,9\n1,Total,20\n"
    found = judged(tmp_path, counties, towns, nested=["town:county"])
    assert not found.contradictions
    assert [(case.who, case.value) for case in found] == [("county 2", 8)]


def test_a_sensitive_cell_needs_a_range_as_wide_as_its_rule(tmp_path: Path) -> None:
    """A, of 90, 6 and 4, must reach 105 (p 10%) or 120 (dominance 75%); B and C leave it up to 100 + c."""
    firms = tmp_path / "firms.csv"
    firms.write_text("town,n\n" + "".join(f"A,{v}\n" for v in (90, 6, 4)) + "B,3\nB,2\nB,1\nC,40\nC,30\nC,30\n")
    text = "town,n\nA,x\nB,x\nC,100\nTotal,206\n"
    found = judged(tmp_path, text, rule=["p 10%", "dominance 75%"], contributors=firms)
    short = [(dict(p.key), str(p.rule), *p.needs, p.lo, p.hi) for p in found.unprotected]
    assert short == [({"town": "A"}, "dominance 1,75%", 80, 120, 0, 106)]
    assert (found.exit_code, list(found)) == (1, [])
    assert "town A: from 0 to 106, needed 80 to 120" in found.text()
    assert found.to_json()["protection"][0]["needs"] == [80, 120]
    assert judged(tmp_path, text, rule=["p 10%"], contributors=firms).exit_code == 0
    words = TableOptions("n", suppressed=["x"], rule=["dominance 75%"], contributors=firms)
    drawn = read_tables([tmp_path / "0t.csv"], words)
    assert TableRepair(drawn, judge(drawn), protects=False).suggestion().cells == ()
    repair = TableRepair(drawn, judge(drawn)).suggestion()
    assert (len(repair.cells), repair.remedy.smallest, repair.verified) == (1, True, True)
    assert not repair.after.unprotected


def test_ctrl_c_keeps_what_was_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["keyhole.auditing.rules.interval"], "ranges", stopped)
    found = judged(tmp_path, "town,n\nA,x\nB,4\nTotal,9\n", "sex,n\nf,x\nm,x\nTotal,9\n")
    assert [(case.who, case.value) for case in found] == [("town A", 5)]
    assert "the search was stopped (Ctrl-C)" in found.gap
    assert judged(tmp_path, "sex,n\nf,x\nm,x\nTotal,9\n").exit_code == 3


def test_a_category_that_is_added_up_in_a_margin_is_no_total(tmp_path: Path) -> None:
    """r3 happens to be r1 + r2, and the margin adds all three."""
    rows = ["r,c,n", "r1,c1,0", "r1,c2,1", "r1,Total,1", "r2,c1,0", "r2,c2,2", "r2,Total,2", "r3,c1,x", "r3,c2,x"]
    rows += ["r3,Total,3", "Total,c1,1", "Total,c2,5", "Total,Total,6"]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    found = tables([tmp_path / "t.csv"], value="n", suppressed=["x=1..3"])
    assert sorted(str(case.value) for case in found) == ["1", "2"]
