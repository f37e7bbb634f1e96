"""Every kind of report in a browser without a network: no error, no request, its charts drawn, on paper and a phone."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.report.test_pages import parsed
from tests.report.test_words import BANNED, NO_SENTENCE
from tests.support.browser import browser, browser_page, find_serious_faults
from tests.support.commands import call_command
from tests.support.files import write_files

from keyhole.cli.demo import CONFIG, LOG, PATIENTS, PEOPLE, ROSTER, SAFE, TRANSCRIPT, clinic_csv, clinic_log

__all__ = ["browser"]

BUDGET = """\
[source]
data = "people.csv"
[columns]
id = ["Name"]
[columns.private."Blood sugar"]
min = 3.0
max = 10.0
step = 0.1
[columns.public.Gender]
values = ["Female", "Male"]
[budget]
epsilon = 40
accuracy = 0.4
[book]
path = "budget.keyhole"
"""
BLOCK = """\
[columns.age]
min = 20
max = 22
[columns.sex]
values = ["F", "M"]
[[statistics]]
count = 2
mean = { age = 21.5 }
[[statistics]]
where = "sex = 'F'"
count = 1
"""
ASKED = """\
SELECT COUNT(*) FROM people;
SELECT Gender, COUNT(*) FROM people GROUP BY Gender;
SELECT MEDIAN(ZIP) FROM people;
"""
SUMS = 'SELECT SUM("Blood sugar") FROM people;\nSELECT Gender, SUM("Blood sugar") FROM people GROUP BY Gender;\n'
CELLS = ["region,sector,turnover", "A,x,10", "A,y,x", "A,Total,30", "B,x,x", "B,y,x", "B,Total,12", "Total,x,x"]
CELLS += ["Total,y,27", "Total,Total,42"]
TABLES = ("--value", "turnover", "--total", "Total", "--suppressed", "x", "--min", "0")
WHO = ("--data", "people.csv", "--id", "Name", "--private", "Blood sugar")
AUDIT = ("audit", "log.sql", "-c", "keyhole.toml", "--within", "60%")
TRUTH = ("--data", "roster.csv", "--id", "Name", "--private", "Blood sugar:3..10:0.1", "--truth", "people.csv")
FILES = {
    "people.csv": PEOPLE,
    "roster.csv": ROSTER,
    "log.sql": LOG,
    "safe.sql": SAFE,
    "t.jsonl": TRANSCRIPT,
    "keyhole.toml": CONFIG,
    "budget.toml": BUDGET,
    "q.sql": ASKED,
    "sums.sql": SUMS,
    "ask.csv": "a,b\n" + "1,0\n0,1\n1,1\n0.5,1\n1,0.5\n0.2,0.9\n" * 4,
    "pages_target.py": "def above(query, threshold):\n    return 0.3 * query[0] + 0.7 * query[1] > threshold\n",
    "block.toml": BLOCK,
    "t.csv": "\n".join(CELLS) + "\n",
}
MAN = "SELECT COUNT(*) FROM people WHERE Gender = 'Male'"
# a kind of report: its command, its exit code, how many charts it has, and words that it says
KINDS: dict[str, tuple[tuple[str, ...], int, int, str]] = {
    "audit": ((*AUDIT, "--advise"), 1, 3, "32.1 - 15.5 - 11.4 = 5.2"),
    "audit-redacted": ((*AUDIT, "--redact", "--advise"), 1, 2, "person 1"),
    "audit-clean": (("audit", "safe.sql", *WHO), 0, 1, "Nobody of 6 people is exposed"),
    "verdict": (("report", "verdict.json"), 0, 2, "32.1 - 15.5 - 11.4 = 5.2"),
    "watch": (
        ("ask", "--decide-only", *WHO[:-1], "Blood sugar:3.0..10.0:0.1", "--exact-above", "2", "--explain"),
        3,
        1,
        "2 allowed, 1 denied",
    ),
    "ask": (("ask", "--anyway", "-c", "budget.toml", MAN), 0, 1, "1 of 1 statement was answered with noise"),
    "tables": (("tables", "t.csv", *TABLES), 1, 1, "recovered exactly"),
    "attack": (("attack", "t.jsonl", *TRUTH), 0, 2, "rebuilt exactly"),
    "attack-oracle": (
        ("oracle", "attack", "pages_target:above", "--queries", "ask.csv", "--noise", "none"),
        0,
        1,
        "yes/no",
    ),
    "plan-all": (("plan", *WHO, "--target", "all"), 0, 0, "6 of 6 people can be given away"),
    "reconstruct": (("reconstruct", "block.toml"), 0, 0, "row"),
    "plan": (("plan", *WHO, "--target", "Name = 'Jeremy Doe'", "--min-group", "2"), 0, 0, "give Jeremy Doe away"),
    "answer": (("ask", "-f", "q.sql", "-c", "budget.toml"), 3, 2, "2 of 3 statements were answered with noise"),
    "book": (("report", "budget.keyhole"), 0, 1, "not answered"),
    "oracle": (("oracle", "simulate", "--queries", "400", "--seeds", "2"), 0, 1, "average error"),
    "attacked": (
        ("simulate", "attack", "sums.sql", "-c", "budget.toml", "--epsilon", "1", "--epsilon", "100"),
        0,
        2,
        "the best attack on Blood sugar",
    ),
    "release": (("simulate", "release", "--queries", "20", "--mechanism", "laplace"), 0, 3, "costs epsilon"),
}


def run(folder: Path, *arguments: str, stdin: str = LOG) -> int:
    with contextlib.chdir(folder):
        done = call_command(*arguments, stdin=stdin)
    assert not done.exception or isinstance(done.exception, SystemExit), done.output
    return done.exit_code


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("pages")
    write_files(made, FILES)
    assert run(made, *AUDIT, "--format", "json", "--out", "verdict.json") == 1
    assert run(made, "ask", "-f", "q.sql", "-c", "budget.toml") == 3
    sys.path.append(str(made))  # of the target
    yield made
    sys.path.remove(str(made))


@pytest.mark.parametrize("kind", KINDS)
def test_a_browser_without_a_network_draws_it(kind: str, folder: Path, browser: Browser) -> None:
    command, code, charts, words = KINDS[kind]
    html = () if command[0] == "report" else ("--format", "html")
    file = folder / f"{kind}.html"
    assert run(folder, *command, *html, "--out", file.name) == code
    parsed(file.read_text(encoding="utf-8"))
    with browser_page(browser, file, width=390, dark=True) as phone:
        assert phone.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert not phone.errors
    with browser_page(browser, file) as seen:
        shown = seen.page.inner_text("main")
        assert words in shown
        assert not BANNED.search(NO_SENTENCE.sub("", shown))
        drawn = seen.page.locator("svg").all()
        assert len(drawn) == charts
        assert all((box := svg.bounding_box()) is not None and box["height"] > 60 for svg in drawn)
        assert seen.page.locator("figure").count() == seen.page.locator("figure details table").count() == charts
        assert len(seen.page.pdf()) > 5_000
        assert (seen.errors, seen.requests) == ([], [])


OFFICE = ["region,sector,firms,largest,turnover", "A,x,9,20,100", "A,y,2,4,5", "A,Total,11,20,105", "B,x,1,7,7"]
OFFICE += ["B,y,5,10,40", "B,Total,6,10,47", "Total,x,10,20,107", "Total,y,7,10,45", "Total,Total,17,20,152"]
FIRMS = ("--value", "turnover", "--count", "firms", "--largest", "largest", "--rule", "N<3", "--rule", "dominance 85%")
READ = {  # pages that officers work with
    "budget": ("report", "spent.keyhole"),
    "report": (*AUDIT, "--advise", "--format", "html"),
    "tables": ("tables", "office.csv", *FIRMS, "--suggest", "--format", "html"),
}


@pytest.mark.parametrize("command", READ.values(), ids=READ)
def test_a_page_is_accessible_and_fits_every_screen(command: tuple[str, ...], folder: Path, browser: Browser) -> None:
    """No serious finding of axe-core, light and dark; at 360 px nothing but tables is wider than the screen."""
    (folder / "office.csv").write_text("\n".join([*OFFICE, ""]), encoding="utf-8")
    if command[0] == "report":
        (folder / "spent.toml").write_text(BUDGET.replace("budget.keyhole", "spent.keyhole"), encoding="utf-8")
        (folder / "spent.keyhole").unlink(missing_ok=True)
        assert run(folder, "ask", "--anyway", SUMS.splitlines()[0], "-c", "spent.toml") == 0
    run(folder, *command, "--out", "read.html")
    for width in (360, 768, 1280):
        for dark in (False, True):
            with browser_page(browser, folder / "read.html", width=width, dark=dark) as seen:
                assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
                wide = "[...document.querySelectorAll('main *')].filter(e => e.scrollWidth > e.clientWidth + 1 &&"
                wide += " getComputedStyle(e).overflowX == 'auto' && !e.matches('.wide')).length"
                assert seen.page.evaluate(wide) == 0
                assert find_serious_faults(seen.page) == []


def test_tables_are_shown_with_marked_cells(folder: Path, browser: Browser) -> None:
    """Each cell of a finding has its mark and what is known, the others their number."""
    assert run(folder, "tables", "t.csv", *TABLES, "--format", "html", "--out", "marked.html") == 1
    with browser_page(browser, folder / "marked.html") as seen:
        marked = seen.page.locator("td.mark.recovered")
        assert marked.count() > 0
        assert all(text.startswith("= ") for text in marked.all_inner_texts())
        shown = seen.page.locator("td.mark:not(.recovered):not(.narrowed):not(.suppressed)").all_inner_texts()
        assert {"10", "30", "12", "27", "42"} <= set(shown)
        assert not seen.errors


def test_the_filter_and_the_printer_work_on_a_page(folder: Path, browser: Browser) -> None:
    file = folder / "found.html"
    given = ("--data", "people.csv", "--id", "Name", "--private", "Blood sugar")
    singles = "".join(f"SELECT SUM(\"Blood sugar\") FROM people WHERE ZIP = {z};\n" for z in (32453, 43813, 43765, 32187, 33745, 22983))  # fmt: skip  # noqa: E501
    (folder / "singles.sql").write_text(singles, encoding="utf-8")
    assert run(folder, "audit", "singles.sql", *given, "--format", "html", "--out", file.name) == 1
    with browser_page(browser, file) as seen:
        assert seen.page.locator("#found .card:visible").count() == 6
        seen.page.fill("input.find", "jeremy")
        assert seen.page.locator("#found .card:visible").count() == 1
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert seen.page.locator("details:not([open])").count() == 0
        assert not seen.errors


def test_a_report_of_a_whole_hospital_is_small(folder: Path, browser: Browser) -> None:
    (folder / "patients.csv").write_text(clinic_csv(), encoding="utf-8")
    (folder / "clinic.jsonl").write_text(clinic_log(), encoding="utf-8")
    given = ("--data", "patients.csv", "--id", "patient", "--private", "blood_sugar")
    assert run(folder, "audit", "clinic.jsonl", *given, "--format", "html", "--out", "clinic.html") == 1
    assert (folder / "clinic.html").stat().st_size < 1_000_000
    with browser_page(browser, folder / "clinic.html") as seen:
        assert seen.page.evaluate("performance.getEntriesByType('navigation')[0].domInteractive") < 2000
        assert not seen.errors


def test_the_made_up_hospital_is_the_same_each_time() -> None:
    rows = clinic_csv().splitlines()
    assert len(rows) == PATIENTS + 1
    assert len({row.split(",")[0] for row in rows}) == len(rows)
    assert clinic_csv() == clinic_csv()
    assert clinic_log() == clinic_log()
    assert 150 < clinic_log().count("\n") < 400
