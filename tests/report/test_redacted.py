"""What is passed on: no name, value, literal, answer or file name in any format, whatever the log and table hold."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.commands import run_in

from keyhole.cli import app

FORMATS = ("text", "json", "html", "junit", "sarif")
CANARIES = ("Zyxo Quarl", "Vrimpel", "Gnarfstadt", "Bloopitis", "Krumm", "quibzalias", "wozcomment")
NUMBERS = ("73913", "48157", "61.97", "122070", "98317")


def story(folder: Path, seed: int) -> list[str]:
    """A log in which names, towns, diagnoses, aliases, comments and numbers of one's own stand wherever they can."""
    rng = random.Random(seed)
    rows = ["Name,Town,ZIP,Ill,Pay", "Zyxo Quarl,Gnarfstadt,98317,Bloopitis,73913", "Vrimpel,Gnarfstadt,1,flu,48157"]
    rows += [f"person{k},elsewhere,{k},flu,{rng.randint(1000, 9000)}" for k in range(8)]
    (folder / "Krumm people.csv").write_text("\n".join(rows) + "\n")
    log = [
        "SELECT SUM(Pay) FROM people WHERE Town = 'Gnarfstadt' -- wozcomment",
        "SELECT SUM(Pay) AS quibzalias FROM people WHERE Name = 'Vrimpel'",
        "SELECT SUM(Pay) AS \"Zyxo Quarl\" FROM people WHERE ZIP = 98317 AND Town <> 'Gnarfstadt '",
        "SELECT COUNT(*) FROM people WHERE Ill = 'Bloopitis' AND Town = 'Gnarfstadt'",
        "SELECT SUM(Pay) FROM people WHERE Town = 'GNARFSTADT'",
        "SELECT SUM(Pay) FRM people WHERE Name = 'Vrimpel' AND Pay > 61.97",
        "SELECT string_agg(Name || 'Krumm') FROM people",
        "SELECT AVG(Pay) FROM people WHERE Pay > 48157",
        "SELECT Ill, COUNT(*) FROM people GROUP BY Ill",
        "SELECT MEDIAN(Pay) FROM people WHERE `Vrimpel` = 1 OR [Krumm] = 2",
    ]
    rng.shuffle(log)
    (folder / "Krumm log.sql").write_text(";\n".join(log) + ";\n")
    options = [
        "--data",
        "Krumm people.csv",
        "--id",
        "Name",
        "--private",
        "Pay:0..122070:1",
        "--private",
        "Ill=flu,Bloopitis",
    ]
    return ["audit", "Krumm log.sql", *options, "--group-size", "2", "--within", "30%"]


@pytest.mark.parametrize("how", FORMATS)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_canary_is_in_a_redacted_file(tmp_path: Path, how: str, seed: int) -> None:
    command = story(tmp_path, seed)
    code, out, err = run_in(tmp_path, *command, "--format", how, "--redact")
    assert code == 1
    told = out + err
    assert [word for word in (*CANARIES, *NUMBERS) if word.lower() in told.lower()] == []
    shown = run_in(tmp_path, *command, "--format", how)[1]  # it is there without the option
    assert "Krumm" in shown


@pytest.mark.parametrize("how", FORMATS)
def test_without_values_names_stay_and_numbers_of_people_do_not(tmp_path: Path, how: str) -> None:
    command = story(tmp_path, 1)
    code, out, _ = run_in(tmp_path, *command, "--format", how, "--no-values")
    assert code == 1
    assert "person" in out
    assert not re.search(r"\b73913\b", out)


def test_proofs_as_sql_are_not_written_beside_a_redacted_verdict(tmp_path: Path) -> None:
    code, _, err = run_in(tmp_path, *story(tmp_path, 1), "--redact", "--proof-sql", "p.sql")
    assert code == 2
    assert "--proof-sql" in err
    assert not (tmp_path / "p.sql").exists()


@pytest.mark.parametrize("how", ["text", "json", "html"])
def test_what_goes_beside_a_verdict_is_redacted_too(tmp_path: Path, how: str) -> None:
    """Advice, what each analyst sees, who completed a finding and when, and the digest of the log."""
    story(tmp_path, 1)
    asked = ["Town = 'Gnarfstadt'", "Town = 'Gnarfstadt' AND Name <> 'Vrimpel'", "ZIP < 98317"]
    sql = [f"SELECT SUM(Pay) AS quibzalias FROM people WHERE {where}" for where in asked]
    lines = [{"sql": s, "analyst": f"Krumm {k}", "time": f"2031-07-0{k + 1}T10:00:00"} for k, s in enumerate(sql)]
    (tmp_path / "Krumm.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ("--data", "Krumm people.csv", "--id", "Name", "--private", "Pay", "--by", "analyst", "--advise")
    command = ("audit", "Krumm.jsonl", *options, "--format", how)
    code, out, err = run_in(tmp_path, *command, "--redact")
    assert code == 1
    told = (out + err).lower()
    assert [w for w in (*CANARIES, *NUMBERS, "2031", "sha-256") if w.lower() in told] == []
    assert "analyst 1" in told
    shown = run_in(tmp_path, *command)[1]
    assert all(w in shown for w in ("Krumm 1", "Vrimpel", "quibzalias"))
    hushed = run_in(tmp_path, *command, "--no-values")[1]
    assert "Vrimpel" in hushed
    assert [w for w in ("73913", "48157", "122070", "100000", "10000 ") if w in hushed] == []  # nor how large they are


@pytest.mark.parametrize("how", [*FORMATS, "baseline"])
def test_a_waived_verdict_names_no_canary_either(tmp_path: Path, how: str) -> None:
    command = story(tmp_path, 2)
    run_in(tmp_path, *command, "--format", "json", "--out", "v.json")
    assert run_in(tmp_path, "review", "v.json", "--signed-by", "A", "--why", "x", "--yes")[0] == 0
    code, out, err = run_in(tmp_path, *command, "--format", how, "--accept", "waivers.toml", "--redact")
    assert code == 0
    told = out + err + (tmp_path / "waivers.toml").read_text()
    assert [word for word in (*CANARIES, *NUMBERS) if word.lower() in told.lower()] == []


def test_words_of_statements_that_were_refused_are_withheld(tmp_path: Path) -> None:
    """A forgotten quote, an alias, a stray line: anybody's name may stand there."""
    (tmp_path / "ward.csv").write_text("name,city,pay\nZebulon,Q,7\nBob,R,5\nCyd,R,6\n", encoding="utf-8")
    log = [
        "SELECT SUM(pay) FROM ward WHERE name = Zebulon",
        "SELECT zebulon, SUM(pay) FROM ward GROUP BY zebulon",
        "SELECT SUM(zz.pay) FROM ward zebulon",
        "Zebulon earns 77123",
        "SELECT zebulon(pay) FROM ward",
        "SELECT SUM(pay) FROM zebulon_table",
    ]
    (tmp_path / "log.sql").write_text(";\n".join(log) + ";\n", encoding="utf-8")
    given = ["--data", str(tmp_path / "ward.csv"), "--table", "ward", "--id", "name", "--private", "pay", "--redact"]
    for form in ("text", "json", "sarif", "junit", "html"):
        done = CliRunner().invoke(app, ["audit", str(tmp_path / "log.sql"), *given, "--format", form])
        assert done.exit_code == 3
        assert "zebulon" not in done.output.lower()
        assert "77123" not in done.output


ODD_ANSWERS = ("[[5.1375]]", '"6,2513"', '{"value": 7.1013}', '{"lo": 6.2513, "hi": 5.1375}', "7.1013e999", "5.1375,")


@pytest.mark.parametrize("how", FORMATS)
def test_an_answer_that_cannot_be_read_is_not_quoted(tmp_path: Path, how: str) -> None:
    (tmp_path / "d.csv").write_text("name,sugar\nAnn,5.1375\nBob,6.2513\nCyd,7.1013\n")
    lines = [f'{{"sql": "SELECT SUM(sugar) FROM d WHERE name = \'Ann\'", "answer": {odd}}}' for odd in ODD_ANSWERS]
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
    options = ["audit", "log.jsonl", "--data", "d.csv", "--id", "name", "--private", "sugar", "--no-values"]
    code, out, _ = run_in(tmp_path, *options, "--format", how)
    assert code == 3
    assert not re.search(r"5\.1375|6[.,]2513|7\.1013|Decimal", out)
    if how == "text":
        assert "an answer is a number (12.5, without quotes), true or false, null" in out
        assert "lo of the answer is above its hi" in out
        assert "a number is too large or too long" in out


@pytest.mark.parametrize("how", FORMATS)
def test_the_name_of_the_log_is_withheld_where_a_line_cannot_be_read(tmp_path: Path, how: str) -> None:
    (tmp_path / "d.csv").write_text("name,sugar\nAnn,5\nBob,6\nCyd,7\n")
    broken = [
        "broken",
        '{"sql": 3}',
        '{"sql": "SELECT 1", "anna": 3}',
        '{"sql": "SELECT 1", "noise": 3}',
        "[" * 100_000,
    ]
    (tmp_path / "hiv_of_anna.jsonl").write_text("\n".join(['{"sql": "SELECT SUM(sugar) FROM d"}', *broken]) + "\n")
    options = ["audit", "hiv_of_anna.jsonl", "--data", "d.csv", "--id", "name", "--private", "sugar", "--redact"]
    code, out, _ = run_in(tmp_path, *options, "--format", how)
    assert code == 3
    assert "anna" not in out
