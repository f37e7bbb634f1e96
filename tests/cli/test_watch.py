"""`keyhole ask --decide-only` as a user meets it: verdicts as they come, histories, loads, errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.support.commands import run_command
from tests.support.files import write_files

from keyhole.cli.demo import CONFIG, LOG, PEOPLE, ROSTER, SAFE
from keyhole.cli.session.decide import read_statements

run = CliRunner()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {"people.csv": PEOPLE, "roster.csv": ROSTER, "log.sql": LOG, "safe.sql": SAFE, "keyhole.toml": CONFIG}
    write_files(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def watch(*args: str, stdin: str = LOG) -> tuple[int, str, str]:
    return run_command("ask", "--decide-only", *args, stdin=stdin)


RANGE = ("--private", "Blood sugar:3.0..10.0:0.1", "--exact-above", "1")
WHO = ("--data", "people.csv", "--id", "Name", *RANGE)


def test_the_hospital_log(folder: Path) -> None:
    code, out, err = watch("-c", "keyhole.toml")
    assert code == 3
    assert [line.split(":")[0] for line in out.splitlines()] == ["Q1 allow", "Q2 allow", "Q3 deny", "  Try instead"]
    assert "Jeremy" not in out
    assert "a new book begins" in err  # beside the settings
    code, again, err = watch("-c", "keyhole.toml")
    assert (code, again.count(" allow: "), err) == (3, 2, "")
    assert "--book" in watch(*WHO)[2]  # without settings nothing is kept, and it says so


def test_json_lines_and_what_only_the_custodian_sees(folder: Path) -> None:
    _, out, _ = watch(*WHO, "--format", "json")
    said = [json.loads(line) for line in out.splitlines()]
    assert [set(line) - {"instead"} for line in said] == [{"query", "sql", "verdict", "reason"}] * 3
    assert ["instead" in line for line in said] == [False, False, True]
    assert (
        watch(*WHO, stdin=f"{said[0]['sql']}; {said[1]['sql']}; {said[2]['instead']}")[0] == 0
    )  # what it offers, it allows
    assert [line["verdict"] for line in said] == ["allow", "allow", "deny"]
    assert [line["query"] for line in said] == ["1", "2", "3"]
    _, out, _ = watch(*WHO, "--format", "json", "--explain")
    last = json.loads(out.splitlines()[2])
    assert last["who"] == [{"record": {"Name": "Jeremy Doe"}, "column": "Blood sugar"}]
    assert [(p["query"], p["weight"]) for p in last["proof"]] == [("1", "1"), ("2", "-1"), ("3", "-1")]
    _, out, _ = watch(*WHO, "--explain")
    assert "proof: Q1 - Q2 - Q3 = Jeremy Doe's Blood sugar" in out


def test_insiders(folder: Path) -> None:
    two = 'SELECT SUM("Blood sugar") FROM people WHERE ZIP IN (32453, 43813);'
    assert "Q1 allow" in watch(*WHO, stdin=two)[1]
    settings = Path("keyhole.toml").read_text(encoding="utf-8").split("[online]")[0]
    Path("two.toml").write_text(f"{settings}[online]\ninsiders = 1\nexact_above = 1\n", encoding="utf-8")
    code, out, _ = watch("-c", "two.toml", "--explain", stdin=two)
    assert code == 3
    assert "Q1 deny" in out
    assert "exposed: John Smith's Blood sugar, to Jeremy Doe" in out
    assert "proof: Q1 = John Smith's Blood sugar + a multiple of Jeremy Doe's" in out
    Path("two.toml").write_text(f"{settings}[online]\ninsiders = 2\n", encoding="utf-8")
    assert watch("-c", "two.toml", stdin=two)[0] == 2


def test_the_private_column_is_not_needed(folder: Path) -> None:
    code, out, _ = watch("--data", "roster.csv", "--table", "people", "--id", "Name", *RANGE)
    assert (code, "Q3 deny" in out) == (3, True)
    code, _, err = watch("--data", "people.csv", "--id", "Name", "--private", "Blod sugar")
    assert code == 2
    assert "did you mean 'Blood sugar'" in err


def test_a_book_is_kept_from_run_to_run(folder: Path) -> None:
    first = "\n".join(LOG.splitlines()[:3])
    third = LOG.splitlines()[3]
    (folder / "keyhole.toml").write_text(CONFIG + '[book]\npath = "h.keyhole"\n', encoding="utf-8")
    assert watch("-c", "keyhole.toml", stdin=first)[1].count("allow") == 2
    code, out, err = watch("-c", "keyhole.toml", stdin=third)
    assert out.startswith("Q3 deny")
    assert err == ""
    code, out, err = watch("-c", "keyhole.toml", "--book", "other.keyhole", stdin=third)
    assert (code, out, "one population has one book" in err) == (2, "", True)  # it would be asked anew there
    # the same book decides over the roster file, which has no private column
    roster = ("--data", "roster.csv", "--table", "people", "--id", "Name", *RANGE)
    code, out, _ = watch(*roster, "--book", "h.keyhole", stdin=third)
    assert (code, out[:7]) == (3, "Q3 deny")


def test_other_data_is_refused(folder: Path) -> None:
    assert watch(*WHO, "--book", "h.keyhole")[0] == 3
    (folder / "people.csv").write_text(PEOPLE.replace("43813", "43814"), encoding="utf-8")
    code, out, err = watch(*WHO, "--book", "h.keyhole")
    assert (code, out) == (2, "")
    assert "kept for other data" in err


def test_earlier_publications(folder: Path) -> None:
    (folder / "published.sql").write_text("\n".join(LOG.splitlines()[:3]), encoding="utf-8")
    third = LOG.splitlines()[3]
    code, out, _ = watch(*WHO, "--load", "published.sql", "--book", "h.keyhole", stdin=third)
    assert (code, out[:7]) == (3, "Q3 deny")
    (folder / "odd.sql").write_text('SELECT MAX("Blood sugar") FROM people;', encoding="utf-8")
    code, out, err = watch(*WHO, "--load", "odd.sql", stdin=third)
    assert (code, out) == (2, "")
    assert "--accept-unjudged" in err
    code, out, err = watch(*WHO, "--load", "odd.sql", "--accept-unjudged", "--book", "h2.keyhole", stdin=third)
    assert (code, out[:8]) == (0, "Q2 allow")
    assert "no verdict accounts for" in err
    code, out, err = watch(*WHO, "--load", "odd.sql", "--book", "h2.keyhole", stdin=third)  # accepted before
    assert code == 0
    assert "cannot be taken" not in err
    assert "the book has 1 publication that no verdict accounts for (Q1;" in err
    _, _, err = watch(*WHO, "--book", "h2.keyhole", stdin=third)  # and at each start
    assert "the book has 1 publication that no verdict accounts for (Q1;" in err
    assert watch(*WHO, "--book", "h.keyhole", stdin=third)[2] == ""
    export = [{"QUERY_TEXT": 'SELECT SUM("Blood sugar") FROM people'}, {"QUERY_ID": 1}]
    (folder / "history.json").write_text(json.dumps(export), encoding="utf-8")
    code, _, err = watch(*WHO, "--load", "history.json")
    assert code == 2
    assert "1 statement of history.json" in err
    assert watch(*WHO, "--load", "missing.sql")[0] == 2


def test_refusals_go_on(folder: Path) -> None:
    code, out, _ = watch(
        *WHO, "--format", "json", stdin='SELECT MAX("Blood sugar") FROM people; SELEC; SELECT COUNT(*) FROM people'
    )
    assert code == 3
    assert [json.loads(line)["verdict"] for line in out.splitlines()] == ["refused", "refused", "allow"]


@pytest.mark.parametrize("line", ['{"sql": 5}', '{"sq": "SELECT 1"}', "{broken"])
def test_a_json_line_without_a_statement_says_so(folder: Path, line: str) -> None:
    code, out, _ = watch(*WHO, stdin=line + "\n" + LOG)
    assert code == 3
    assert out.splitlines()[0] == 'Q1 refused: a JSON line has the statement as text: {"sql": "SELECT ..."}'
    assert "Q4 deny" in out


def test_the_proof_names_the_sum_that_is_meant(folder: Path) -> None:
    (folder / "two.csv").write_text("n,x,y\na,1,2\nb,2,3\nc,3,4\nd,4,5\n", encoding="utf-8")
    columns = ("--id", "n", "--private", "x:0..", "--private", "y:0..")
    who = ("--data", "two.csv", *columns, "--exact-above", "1", "--explain")
    _, out, _ = watch(*who, stdin="SELECT SUM(x) / SUM(y) FROM two; SELECT SUM(y) FROM two WHERE n <> 'c'")
    assert "proof: (the denominator's sum of y in Q1) - Q2 = c's y" in out
    assert "counts as telling each of them" in out
    _, out, _ = watch(*who, stdin="SELECT SUM(x) FROM two WHERE n = 'a'")
    assert "proof: Q1 = a's x" in out
    assert "counts as telling" not in out


def test_no_data_no_verdict(folder: Path) -> None:
    (folder / "keyhole.toml").rename(folder / "elsewhere.toml")
    assert watch("--private", "Blood sugar")[0] == 2
    assert watch("--data", "people.csv")[0] == 2
    assert watch("-c", "nowhere.toml")[0] == 2


def test_each_verdict_is_there_before_the_next_statement(folder: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from keyhole.cli import main; main()",
        "ask",
        "--decide-only",
        *WHO,
        "--format",
        "json",
    ]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder
    )
    assert child.stdin is not None
    assert child.stdout is not None
    said = []
    for line in LOG.splitlines(keepends=True)[1:]:
        child.stdin.write(line)
        child.stdin.flush()
        said.append(json.loads(child.stdout.readline())["verdict"])  # would wait for ever if it were held back
    child.stdin.close()
    assert child.wait(timeout=60) == 3
    child.stdout.close()
    assert said == ["allow", "allow", "deny"]


def test_input_that_is_not_text_and_output_that_nobody_reads(folder: Path) -> None:
    watching = (
        f"{sys.executable} -c 'from keyhole.cli import main; main()' ask --decide-only -c keyhole.toml --book h.keyhole"
    )
    done = subprocess.run(
        ["bash", "-c", f"printf 'SELECT \\xff;' | {watching}"], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 2
    assert "not UTF-8" in done.stderr
    many = "SELECT COUNT(*) FROM people;" * 3000
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {watching} | head -n 1"],
        input=many, capture_output=True, text=True, cwd=folder, check=False,
    )  # fmt: skip
    assert done.stdout == "Q1 allow: it asks only public things\n"
    assert done.stderr == ""
    assert done.returncode == 141  # as the shell counts a broken pipe


PARTS = st.sampled_from(
    ["SELECT 1", "SELECT 'a;b'", 'SELECT "c;d"', "SELECT /* ; */ 2", "SELECT\n3", "SELECT 4 -- ;\n+ 5"]
)


@given(st.lists(PARTS, max_size=5), st.lists(st.sampled_from([";", ";\n", " ;\n\n", "\n;\n"]), min_size=5, max_size=5))
def test_statements_arrive_whole_however_the_lines_fall(parts: list[str], ends: list[str]) -> None:
    text = "".join(part + end for part, end in zip(parts, ends, strict=False))
    assert [sql for sql, _ in read_statements(text.splitlines(keepends=True))] == parts


def test_a_raise_under_a_history_stops_the_command(folder: Path) -> None:
    total = 'SELECT SUM("Blood sugar") FROM people;'
    assert watch(*WHO, "--book", "h.keyhole", stdin=total)[0] == 0
    people = folder / "people.csv"
    people.write_text(PEOPLE.replace("5.2", "5.9"), encoding="utf-8")
    assert people.read_text(encoding="utf-8") != PEOPLE
    code, out, err = watch(*WHO, "--book", "h.keyhole", stdin=total)
    assert (code, out) == (2, "")
    assert "private values of 'Blood sugar' changed" in err
    assert not any(word in err for word in ("5.9", "5.2", "Jeremy"))
    roster = ("--data", "roster.csv", "--table", "people", *WHO[2:])
    code, out, err = watch(*roster, "--book", "h.keyhole", stdin=total)  # without the values nobody can tell
    assert (code, out.split(":")[0]) == (0, "Q2 allow")
    assert "cannot be noticed" in err
