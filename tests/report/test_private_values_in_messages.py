"""No private value in what is printed: with --redact and --no-values of nobody, else of nobody who is not exposed."""

from __future__ import annotations

import contextlib
import io
import re
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import csv

import keyhole
from keyhole.cli import app
from keyhole.report.formats.redacted import Withheld
from keyhole.report.verdict import Verdict

FORMATS = ("text", "json", "html", "junit", "sarif")
ILLS = ("Bloopitis", "Quarlfever", "Gnarfpox", "Vrimpelgout", "Zyxosis", "Krummache")
PAYS = ("73913", "48157", "61979", "35381", "92831", "27743")
RATES = ("81.1937", "17.7331", "55.5197", "93.9391", "24.8147", "39.1373")
BORN = ("1931-07-13", "1947-11-29", "1953-02-17", "1968-09-23", "1977-06-11", "1989-12-19")
VALUES = (*ILLS, *PAYS, *RATES, *BORN)
NAMES = ("Aurelia", "Balthasar", "Cunegonde", "Dietlinde", "Eberwulf", "Fridolina")
STATEMENTS = (
    "SELECT MODE(pay) FROM ward",
    "SELECT MODE(ill) FROM ward",
    "SELECT MODE(born) FROM ward",
    "SELECT pay, COUNT(*) FROM ward GROUP BY pay",
    "SELECT pay AS age, SUM(age) FROM ward GROUP BY 1",
    "SELECT ill, COUNT(*) FROM ward GROUP BY ill",
    "SELECT ill, SUM(pay) FROM ward GROUP BY ill",
    "SELECT ill, town, COUNT(*) FROM ward GROUP BY ill, town",
    "SELECT born, COUNT(*) FROM ward GROUP BY born",
    "SELECT rate, COUNT(*) FROM ward GROUP BY rate",
    "SELECT FLOOR(pay / 1000), COUNT(*) FROM ward GROUP BY 1",
    "SELECT ROUND(rate), COUNT(*) FROM ward GROUP BY 1",
    "SELECT EXTRACT(YEAR FROM born), COUNT(*) FROM ward GROUP BY 1",
    "SELECT COUNT(DISTINCT pay) FROM ward",
    "SELECT COUNT(DISTINCT ill) FROM ward",
    "SELECT COUNT(DISTINCT born) FROM ward",
    "SELECT COUNT(DISTINCT ill) FROM ward WHERE town = 'x'",
    "SELECT DISTINCT ill FROM ward",
    "SELECT ill FROM ward",
    "SELECT * FROM ward",
    "SELECT pay FROM ward WHERE age = 20",
    "SELECT MIN(ill), MAX(ill) FROM ward",
    "SELECT MIN(born) FROM ward",
    "SELECT MIN(pay), MAX(pay), MEDIAN(pay) FROM ward",
    "SELECT STRING_AGG(ill, ',') FROM ward",
    "SELECT LIST(pay) FROM ward",
    "SELECT ANY_VALUE(pay) FROM ward",
    "SELECT FIRST(ill) FROM ward",
    "SELECT ARG_MAX(name, pay) FROM ward",
    "SELECT APPROX_QUANTILE(pay, 0.5) FROM ward",
    "SELECT STDDEV(pay), VARIANCE(rate) FROM ward",
    "SELECT CORR(pay, age) FROM ward",
    "SELECT SUM(pay * pay) FROM ward",
    "SELECT SUM(pay * rate) FROM ward",
    "SELECT SUM(pay) / SUM(rate) FROM ward",
    "SELECT EXP(SUM(LN(pay))) FROM ward",
    "SELECT SUM(pay) FROM ward WHERE town = 'x'",
    "SELECT SUM(pay) FROM ward WHERE pay > (SELECT AVG(pay) FROM ward)",
    "SELECT COUNT(*) FROM ward WHERE ill = 'bloopitis'",
    "SELECT COUNT(*) FROM ward WHERE ill = 'bloopitis '",
    "SELECT COUNT(*) FROM ward WHERE ill LIKE '%pox'",
    "SELECT COUNT(*) FROM ward WHERE UPPER(ill) = 'X'",
    "SELECT COUNT(*) FROM ward WHERE pay = 'rich'",
    "SELECT COUNT(*) FROM ward WHERE ill = 7",
    "SELECT COUNT(*) FROM ward WHERE born = 'yesterday'",
    "SELECT COUNT(*) FROM ward WHERE born > CURRENT_DATE",
    "SELECT SUM(ill) FROM ward",
    "SELECT AVG(born) FROM ward",
    "SELECT CAST(ill AS INTEGER) FROM ward",
    "SELECT SUM(CAST(ill AS INTEGER)) FROM ward",
    "SELECT town, pay, RANK() OVER (ORDER BY pay) FROM ward",
    "SELECT town, SUM(pay) FROM ward GROUP BY town ORDER BY 2 DESC LIMIT 1",
    "SELECT town, SUM(pay) FROM ward GROUP BY town HAVING SUM(pay) > 10",
    "SELECT COUNT(*) FROM ward a JOIN ward b ON a.pay = b.pay",
    "SELECT SUM(pay) FROM (SELECT ill, MAX(pay) AS pay FROM ward GROUP BY ill)",
    "SELECT SUM(nothing) FROM ward",
    "SELECT SUM(pay) FRM ward",
    "SELECT CASE WHEN pay > 5 THEN ill ELSE 'low' END, COUNT(*) FROM ward GROUP BY 1",
    "SELECT NTILE(2) OVER (ORDER BY pay), COUNT(*) FROM ward GROUP BY 1",
    "SELECT ill, COUNT(*) FROM ward GROUP BY ill HAVING COUNT(*) > 1",
    "SELECT COUNT(*) FILTER (WHERE ill = 'Flu') FROM ward",
    "SELECT HISTOGRAM(pay) FROM ward",
    "SELECT ENTROPY(ill) FROM ward",
    "SELECT MAD(pay) FROM ward",
)
EXPOSING = ("SELECT SUM(pay) FROM ward WHERE town = 'y' AND age < 50", "SELECT ill, SUM(age) FROM ward GROUP BY ill")
COMMAND = (
    "SELECT pay, COUNT(*) FROM ward GROUP BY pay",
    "SELECT SUM(pay) FROM ward WHERE town = 'x'",
    "SELECT SUM(pay) FROM ward WHERE town = 'x' AND age > 20",
    "SELECT MODE(ill) FROM ward",
    "SELECT STRING_AGG(ill, ',') FROM ward",
)
PRIVATE = ("pay", "ill", "rate", "born")


def ward() -> str:
    """Six people; every private value is a word or number that nothing else is."""
    rows = ["name,town,age,ill,pay,rate,born"]
    for k, row in enumerate(zip(NAMES, ILLS, PAYS, RATES, BORN, strict=True)):
        rows.append(f"{row[0]},{'xxxyyx'[k]},{20 + 7 * k},{','.join(row[1:])}")
    return "\n".join(rows) + "\n"


def people() -> pa.Table:
    """The same as a table."""
    return csv.read_csv(io.BytesIO(ward().encode()))


def occurring(said: str, values: tuple[str, ...]) -> list[str]:
    """The values that occur."""
    return [v for v in values if re.search(rf"(?<![\w.]){re.escape(v)}(?!\w)", said)]


def forms(verdict: Verdict) -> str:
    """The verdict in every form that needs no log."""
    return "\n".join((verdict.text(), verdict.dumps(), verdict.to_html(), repr(verdict), verdict.promise))


@cache
def judged(statement: str) -> Verdict:
    """A statement alone."""
    return keyhole.audit([statement], data=people(), id="name", private=list(PRIVATE))


@pytest.mark.parametrize("statement", [*STATEMENTS, *EXPOSING])
def test_a_verdict_that_is_passed_on_has_no_private_value(statement: str) -> None:
    verdict = judged(statement)
    hushed = forms(verdict.without(Withheld.VALUES))
    assert occurring(hushed, VALUES) == []
    passed_on = forms(verdict.without(Withheld.ALL))
    assert occurring(passed_on, (*VALUES, *NAMES)) == []


@pytest.mark.parametrize("statement", STATEMENTS)
def test_of_who_is_not_found_no_value_is_printed(statement: str) -> None:
    """Reasons, promises and refusals are no place for what was read off a private column."""
    verdict = judged(statement)
    reasons = "\n".join((verdict.promise, *(u.reason for u in verdict.unjudged), *(r.error for r in verdict.refused)))
    assert occurring(reasons, VALUES) == []
    if not (verdict.plain.cases or verdict.plain.narrowed):
        assert occurring(forms(verdict), VALUES) == []


def test_the_battery_has_refusals_and_findings() -> None:
    verdicts = [judged(statement) for statement in STATEMENTS]
    assert sum(bool(v.refused) for v in verdicts) >= 20
    assert sum(bool(v.unjudged) for v in verdicts) >= 2
    assert sum(v.exit_code == 1 for v in verdicts) >= 3
    assert sum("VALUE" in v.promise for v in verdicts) >= 5


@pytest.mark.parametrize("how", [*FORMATS, "baseline"])
def test_the_command_prints_no_private_value_either(tmp_path: Path, how: str) -> None:
    (tmp_path / "ward.csv").write_text(ward(), encoding="utf-8")
    (tmp_path / "log.sql").write_text("".join(f"{s};\n" for s in COMMAND), encoding="utf-8")
    given = ["--data", "ward.csv", "--id", "name", *(f"--private={name}" for name in PRIVATE), "--format", how]
    for options in (["--redact", "--advise"], ["--no-values", "--rule", "N<3", "--rule", "dominance 50%"]):
        if how not in ("text", "json"):
            options = options[:1]
        with contextlib.chdir(tmp_path):
            done = CliRunner().invoke(app, ["audit", "log.sql", *given, *options])
        assert done.exit_code == 1, done.output
        assert occurring(done.output, VALUES) == []


def test_a_report_made_of_a_redacted_verdict_has_none(tmp_path: Path) -> None:
    hushed = judged("SELECT COUNT(DISTINCT pay) FROM ward").without(Withheld.ALL)
    (tmp_path / "verdict.json").write_text(hushed.dumps(), encoding="utf-8")
    with contextlib.chdir(tmp_path):
        done = CliRunner().invoke(app, ["report", "verdict.json", "--out", "page.html"])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "VALUE,VALUE" in page
    assert occurring(page + done.output, (*VALUES, *NAMES)) == []


@pytest.mark.parametrize(
    ("sql", "answer", "quoted"),
    [
        ("SELECT born, COUNT(*) FROM t GROUP BY born", '[{"key": {"born": "Xq7Secret"}, "values": [1]}]', "Xq7Secret"),
        ("SELECT SUM(pay) FROM t", "true", "is true"),
    ],
)
@pytest.mark.parametrize("format_", FORMATS)
def test_an_answer_of_another_kind_is_not_quoted(
    tmp_path: Path, sql: str, answer: str, quoted: str, format_: str
) -> None:
    (tmp_path / "t.csv").write_text("name,pay,born\nAnn,5,1931-07-13\nBob,6,1947-11-29\n")
    (tmp_path / "log.jsonl").write_text(f'{{"sql": "{sql}", "answer": {answer}}}\n')
    who = ["--data", str(tmp_path / "t.csv"), "--id", "name", "--private", "pay", "--private", "born"]
    done = CliRunner().invoke(app, ["audit", str(tmp_path / "log.jsonl"), *who, "--no-values", "--format", format_])
    assert done.exit_code == 3, done.output
    assert quoted not in done.output
