"""Reports as pages: one file that loads nothing, in which names and values are text whatever they contain."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser

import pyarrow as pa
import pytest
from jinja2 import UndefinedError
from msgspec.structs import replace
from tests.support.files import write_files

import keyhole
from keyhole.cli.demo import CONFIG, LOG, PEOPLE
from keyhole.report.charts.svg import Axis
from keyhole.report.documents.json_text import read_document, read_json
from keyhole.report.documents.verdict import VerdictDocument
from keyhole.report.formats.document import describe_query_map
from keyhole.report.html.audit import render_audit_page
from keyhole.report.html.page import render_page
from keyhole.report.verdict import Verdict

NASTY = "<script>alert(1)</script>\"'&=1+1"
TURNED = "\u202eevil\u2067 אבג"


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    folder = tmp_path_factory.mktemp("story")
    write_files(folder, {"people.csv": PEOPLE, "log.sql": LOG, "keyhole.toml": CONFIG})
    return keyhole.audit(folder / "log.sql", config=folder / "keyhole.toml", within="60%")


class Structure(HTMLParser):
    """The tags of a page, opened and closed, and what of it is text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for key, value in attrs if key in ("src", "href", "action", "srcset", "data")]
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)


def parsed(page: str) -> Structure:
    found = Structure()
    found.feed(page)
    assert not found.open
    return found


def test_the_story_is_told_with_its_proof_and_the_sql(hospital: Verdict) -> None:
    said = "\n".join(parsed(hospital.to_html("log.sql")).text)
    assert "Q1 - Q2 - Q3 = Jeremy Doe's Blood sugar = 5.2\n32.1 - 15.5 - 11.4 = 5.2" in said
    assert "SELECT SUM(\"Blood sugar\") FROM people WHERE Gender = 'Female'" in said
    assert hospital.text().splitlines()[0] in said


def test_a_page_names_nothing_that_it_would_have_to_load(hospital: Verdict) -> None:
    page = hospital.to_html("log.sql")
    assert all(link.startswith("#") for link in parsed(page).links)
    assert "http://" not in page
    assert "https://" not in page
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page


def test_the_page_of_a_verdict_file_is_that_of_the_verdict(hospital: Verdict) -> None:
    written = read_document(read_json(hospital.dumps()), VerdictDocument)
    written = replace(written, map=describe_query_map(hospital.evidence))
    assert render_audit_page(written, "log.sql") == hospital.to_html("log.sql")


def test_names_columns_and_statements_come_out_as_text() -> None:
    people = pa.table({"na<me": [NASTY, TURNED, "Cy"], 'pa"y': [10, 20, 30]})
    log = [f"""SELECT SUM("pa""y") FROM t WHERE "na<me" = '{NASTY.replace("'", "''")}'""", 'SELECT SUM("pa""y") FROM t']
    log += [f"""SELECT SUM("pa""y") FROM t WHERE "na<me" = '{TURNED}'""", "SELECT median(<u>) FROM t"]
    verdict = keyhole.audit(log, data=people, private='pa"y', id="na<me")
    found = parsed(verdict.to_html("<u>log</u>"))
    said = "\n".join(found.text)
    assert NASTY in said
    assert "\\u202eevil" in said
    assert "<u>log</u>" in said
    assert "u" not in found.tags
    assert found.tags.count("script") == 1


def test_an_axis_has_round_numbers_and_takes_one_value() -> None:
    assert Axis.of("x", [5.0]).ticks()
    assert Axis.of("x", []).ticks()
    assert Axis("x", 0, 3, whole=True).ticks() == [0, 1, 2, 3]
    assert Axis("x", -1e-9, 1e9).at(5e8, 0, 100) == 50


def test_a_template_that_names_an_absent_field_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="drawing"):
        render_page("chart.html.jinja", "chart", "A chart without a drawing.")


def test_templates_are_loaded_when_a_page_is_written() -> None:
    """Importing what writes pages costs nothing; only writing one loads the template engine."""
    code = "import sys, keyhole.report.html.audit, keyhole.report.html.sessions; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
