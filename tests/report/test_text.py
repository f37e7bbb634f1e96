"""What a person reads: who first, statements counted as written, reasons once, proofs on the page, words explained."""

from __future__ import annotations

import random
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from docs.refresh import BLOCK, pages

import keyhole
from keyhole.cli import app
from keyhole.cli.verdict.explain import OTHERS, PAGES, WORDS, found
from keyhole.config.arguments import EVERYTHING
from keyhole.report.verdict import Verdict
from keyhole.report.words.digits import digits, rounded
from keyhole.report.words.sentence import summarize_verdict

DOCS = Path(__file__).resolve().parents[2] / "docs"
N = 60
STAFF = pa.table({"name": [f"p{i}" for i in range(N)], "no": list(range(N)), "pay": [1000 + i for i in range(N)]})


def staff(log: list[Any], **more: Any) -> Verdict:
    return keyhole.audit(log, data=STAFF, private=more.pop("private", "pay"), id="name", **more)


def one(i: int) -> str:
    return f"SELECT SUM(pay) FROM t WHERE no = {i}"


SUM = "SELECT SUM(pay) FROM t"
ODD = "SELECT MAX(pay) FROM t WHERE pay > {}"  # not judged


def test_everybody_who_is_exposed_is_listed() -> None:
    verdict = staff([one(i) for i in range(N)])
    table = verdict.text(EVERYTHING).partition("Why:")[0]
    assert [i for i in range(N) if re.search(rf"^p{i} .* = {1000 + i} ", table, re.MULTILINE)] == list(range(N))
    screen = verdict.text()
    assert f"... and {N - 20} more, --all" in screen
    assert len(screen.splitlines()) <= 45


def test_exposed_people_come_before_those_narrowed_down() -> None:
    log = ["SELECT COUNT(*) FROM t WHERE pay > 2000", one(59), one(1)]
    verdict = staff(log)
    assert [f.who for f in verdict.exposed] == ["p1", "p59"]
    rows = verdict.text().splitlines()
    table = rows[rows.index(next(r for r in rows if r.startswith("who"))) + 1 :]
    known = [" = " in row for row in table[: table.index("")]]
    assert known == sorted(known, reverse=True)
    assert sum(known) == 2 < len(known)
    assert len(known) == 3  # of 58 people the same is known: they share a line
    assert "p0, p2, p3 and 55 more  pay" in verdict.text()


def test_narrowest_first_among_ranges() -> None:
    log = [f"{SUM} WHERE no < 2", f"{SUM} WHERE no BETWEEN 2 AND 30"]
    verdict = staff(log, private="pay:900..1100")
    shown = re.findall(r"lies in \[([\d.]+), ([\d.]+)\]", verdict.text())
    widths = [Decimal(hi) - Decimal(lo) for lo, hi in shown]
    assert widths == sorted(widths)


def test_statements_are_counted_as_statements() -> None:
    grouped = "SELECT no % 2 AS half, SUM(pay), COUNT(*) FROM t GROUP BY no % 2"
    assert "is exposed by 1 statement." in summarize_verdict(staff([grouped]).plain)
    assert "1 statement with 4 parts" in staff([grouped]).text(EVERYTHING)
    assert "by 3 statements (2 different)." in summarize_verdict(staff([SUM, SUM, one(3)]).plain)


@pytest.mark.parametrize(("judged", "waiting"), [(1, 1), (1, 5), (3, 4), (3, 3)])
def test_nobody_is_no_first_word_where_most_was_not_judged(judged: int, waiting: int) -> None:
    log = [f"{SUM} WHERE no > {-i}" for i in range(1, judged + 1)] + [ODD.format(i) for i in range(waiting)]
    first, _, rest = summarize_verdict(staff(log).plain).partition("; ")
    verb = "was" if waiting == 1 else "were"
    assert first == f"{waiting} of {judged + waiting} statements {verb} not judged, so this is not an all-clear"
    assert rest.startswith(f"nobody of {N} people is exposed by the other {judged}.")


def test_what_is_not_judged_is_said_after_an_exposure() -> None:
    log = [one(3), *(ODD.format(i) for i in range(5))]
    assert summarize_verdict(staff(log).plain).startswith(
        f"1 of {N} people is exposed by 6 statements; 5 of 6 statements were"
    )


def test_a_reason_is_told_once() -> None:
    log = [SUM, *(ODD.format(i) for i in range(30)), *(f"SELECT SUM(wages) FROM t WHERE no = {i}" for i in range(3))]
    text = staff(log).text()
    assert text.count("Not judged:") == 1
    assert "Not judged: Q2, Q3, Q4, Q5, Q6, Q7, Q8, Q9 and 22 more (" in text
    assert text.count("Refused:") == 1
    assert "and likewise Q33 and Q34" in text


def test_proofs_fit_the_page() -> None:
    log = [f"{SUM} WHERE no >= {i}" for i in range(0, N, 2)] + [f"{SUM} WHERE no % 2 = 0"]
    text = staff([*log, *(one(i) for i in range(1, N - 2, 2))]).text()
    why = text.partition("Why:")[2].splitlines()
    assert max(len(line) for line in why if line.startswith("  ")) <= 110
    flat = re.sub(r"\s+", " ", text)
    for case in staff(log).plain.exposed[:1]:
        assert all(f"Q{q}" in flat for q in case.argument.queries)


@pytest.mark.parametrize("seed", range(40))
def test_digits_lose_nothing(seed: int) -> None:
    rng = random.Random(seed)
    value = Decimal(rng.randrange(-(10**12), 10**12)).scaleb(rng.randrange(-20, 20))
    assert "E" not in digits(value)
    assert Decimal(digits(value)) == value
    number = rng.uniform(-1, 1) * 10.0 ** rng.randrange(-12, 20)
    assert "e" not in rounded(number)
    assert float(rounded(number)) == pytest.approx(number, rel=1e-11)
    bar = abs(number) * 10.0 ** rng.randrange(-6, 3)
    assert abs(float(rounded(number, bar)) - number) <= bar / 10


# --- words -----------------------------------------------------------------------------------------------------------

TECHNICAL = """
accuracy alpha atoms audited baseline beta book bound budget certificate complete contradiction contradictions
delta denied dialect domain entry epoch epsilon exposed fact inferred insiders judged kind laplace ledger mechanism
monitored narrowed neighbours noise noisy open policy prior private promise proof public queries query rank receipt
refused replayed residual rho roster sound statements step transcript unjudged witness
"""


def told(*words: str) -> str:
    done = CliRunner().invoke(app, ["explain", *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_words_of_the_output_are_explained() -> None:
    """Every technical word that a printed block of the docs uses has an entry."""
    shown = " ".join(m.group() for page in pages() for m in BLOCK.finditer(page.read_text(encoding="utf-8")))
    used = {word for word in TECHNICAL.split() if re.search(rf"\b{word}\b", shown)}
    assert len(used) > 20
    assert all(found(word.removesuffix("ed") if word == "replayed" else word) for word in used)
    assert all(found(word) for word in ("singled out", "error bar", "replace-one", "add-remove", "not judged"))


def test_the_glossary_is_in_order() -> None:
    assert list(WORDS) == sorted(WORDS)
    assert all(entry in WORDS for entry in (*PAGES, *OTHERS.values()))
    assert all((DOCS / page).exists() for page in PAGES.values())
    assert all(found(word) == word for word in WORDS)


def test_explain() -> None:
    assert told("atoms").startswith("class: People whom no statement of the log tells apart")
    assert told("singled", "out").startswith("singled out: ")
    assert told("rank", "Classes").count("\n") > 2
    assert all(f"{word}: " in told() for word in WORDS)
    wrong = CliRunner().invoke(app, ["explain", "clas"])
    assert wrong.exit_code == 2
    assert "did you mean 'class'" in wrong.output
