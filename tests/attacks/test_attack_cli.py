"""`keyhole attack` as a user meets it."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from keyhole.attacks.methods import METHODS
from keyhole.cli import app
from keyhole.cli.attack import command as attack
from keyhole.cli.attack.command import Method
from keyhole.cli.shared import terminal

PEOPLE = """Name,ZIP,Gender,Blood sugar
John Smith,32453,Male,4.3
Jeremy Doe,43813,Male,5.2
Susan Atkinson,43765,Female,6.1
Eve Brown,32187,Female,3.2
Joseph Sky,33745,Male,7.1
Alison Moon,22983,Female,6.2
"""
LOG = [
    ('SELECT SUM("Blood sugar") FROM people', 32.1),
    ("SELECT SUM(\"Blood sugar\") FROM people WHERE Gender = 'Female'", 15.5),
    ("SELECT SUM(\"Blood sugar\") FROM people WHERE ZIP > 32000 AND ZIP < 35000 AND Gender = 'Male'", 11.4),
]
KNOWS = """[columns]
id = ["Name"]
[columns.private."Blood sugar"]
min = 3.0
[[facts]]
where = "Name = 'John Smith'"
max = 5.0
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text(PEOPLE)
    public = "\n".join(",".join(line.split(",")[:3]) for line in PEOPLE.splitlines())
    (tmp_path / "roster.csv").write_text(public + "\n")
    (tmp_path / "k.toml").write_text(KNOWS)
    write(tmp_path, [{"sql": sql, "answer": answer} for sql, answer in LOG])
    return tmp_path


def write(place: Path, lines: list[Any]) -> None:
    (place / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def run(place: Path, *options: str, roster: str = "roster.csv") -> Any:
    base = [str(place / "log.jsonl"), "--data", str(place / roster), "--id", "Name"]
    private = [] if any(o.startswith("--private") for o in options) else ["--private", "Blood sugar"]
    return CliRunner().invoke(app, ["attack", *base, *private, *options])


def test_text_names_the_method_the_reason_and_everybody(place: Path) -> None:
    found = run(place, "--truth", str(place / "people.csv"))
    assert found.exit_code == 0, found.output
    assert "least-squares (3 answers about 6 records in 3 groups" in found.stdout
    assert "Jeremy Doe      5.2       0" in found.stdout
    assert "John Smith      5.7       unknown" in found.stdout
    assert "exact 16.7 % of 6" in found.stdout


def test_json_is_the_contract(place: Path) -> None:
    found = run(place, "--format", "json", "-c", str(place / "k.toml"), "--truth", str(place / "people.csv"))
    assert found.exit_code == 0, found.output
    reply = json.loads(found.stdout)
    assert {"method", "why", "residual", "estimates", "score"} <= set(reply)
    assert reply["method"] == "bounded"
    jeremy = reply["estimates"][1]
    assert jeremy["record"] == {"Name": "Jeremy Doe"}
    assert jeremy["column"] == "Blood sugar"
    assert jeremy["value"] == pytest.approx(5.2)
    assert jeremy["confidence"] == pytest.approx(0)
    assert reply["estimates"][2]["confidence"] == pytest.approx(6.5 / 12**0.5)
    ranges = [e["range"] for e in reply["estimates"]]
    assert ranges == [[3, 5], [5.2, 5.2], [3, 9.5], [3, 9.5], [6.4, 8.4], [3, 9.5]]  # known answer 5
    assert [e["value"] for e in reply["estimates"]] == pytest.approx([4, 5.2, 15.5 / 3, 15.5 / 3, 7.4, 15.5 / 3])
    assert reply["score"]["records"] == 6
    john = reply["estimates"][0]["value"]
    assert 3 <= john <= 5


@pytest.mark.parametrize(
    "method", [m for m in METHODS if m not in ("least-squares", "conjugate-gradient", "extended-kaczmarz")]
)
def test_every_method_that_can_runs_with_bounds(place: Path, method: str) -> None:
    found = run(place, "--private", "Blood sugar:3..10:0.1", "--method", method, "--format", "json")
    assert found.exit_code == 0, found.output
    reply = json.loads(found.stdout)
    assert reply["method"] == method
    assert reply["estimates"][1]["value"] == pytest.approx(5.2, abs=1e-4)


def test_noise_can_be_stated_for_the_whole_log(place: Path) -> None:
    found = run(place, "--private", "Blood sugar:3..10", "--noise", "laplace:0.5", "--format", "json")
    assert found.exit_code == 0, found.output
    assert "Laplace noise" in json.loads(found.stdout)["why"]


def test_the_methods_offered_are_the_methods_there_are() -> None:
    assert [m.value for m in Method] == ["auto", *METHODS]


def test_a_private_column_in_the_roster_is_not_read(place: Path) -> None:
    told = run(place, "--format", "json", roster="people.csv")
    assert told.exit_code == 0, told.output
    assert "it is not read" in told.stderr
    (place / "people.csv").write_text(PEOPLE.replace("4.3", "999").replace("7.1", "nan"))
    other = run(place, "--format", "json", roster="people.csv")
    assert json.loads(other.stdout)["estimates"] == json.loads(told.stdout)["estimates"]


def test_an_empty_transcript_warns_and_gives_the_prior(place: Path) -> None:
    (place / "log.jsonl").write_text("")
    found = run(place, "--private", "Blood sugar:3..10", "--format", "json")
    assert found.exit_code == 0, found.output
    assert "empty" in found.stderr
    assert {e["value"] for e in json.loads(found.stdout)["estimates"]} == {6.5}


def test_out_writes_the_whole_or_nothing(place: Path) -> None:
    assert run(place, "--format", "json", "--out", str(place / "found.json")).exit_code == 0
    assert len(json.loads((place / "found.json").read_text())["estimates"]) == 6
    write(place, [{"sql": LOG[0][0], "answer": 1}, {"sql": LOG[0][0], "answer": 2}])
    failed = run(place, "--out", str(place / "other.json"))
    assert failed.exit_code == 2
    assert not (place / "other.json").exists()


def test_ctrl_c_keeps_the_best_so_far(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def impatient() -> Iterator[Any]:
        yield lambda what, _done, _of: signal.raise_signal(signal.SIGINT) if "step 3" in what else None

    monkeypatch.setattr(attack, "progress_on_stderr", impatient)
    found = run(place, "--method", "kaczmarz", "--format", "json")
    assert found.exit_code == 0, found.output
    reply = json.loads(found.stdout)
    assert reply["status"] == "interrupted"
    assert reply["estimates"][1]["value"] == pytest.approx(5.2, abs=1)


def bad(place: Path, says: str, *options: str) -> None:
    found = run(place, *options)
    assert found.exit_code == 2, found.output
    assert says in " ".join(found.stderr.split()), found.stderr
    assert found.stdout == ""


def skipped(place: Path, says: str) -> None:
    """One bad statement is listed and left out; the others are used."""
    found = run(place, "--format", "json")
    assert found.exit_code == 0, found.output
    assert "statement 4 is not used" in " ".join(found.stderr.split())
    assert says in " ".join(found.stderr.split())
    assert json.loads(found.stdout)["estimates"][1]["value"] == pytest.approx(5.2)


def test_contradicting_answers_say_which(place: Path) -> None:
    write(place, [{"sql": s, "answer": a} for s, a in [*LOG, (LOG[0][0], 99)]])
    bad(place, "query 1, query 4")
    assert run(place, "--method", "l1").exit_code == 0


def test_a_line_that_is_not_json_says_where(place: Path) -> None:
    with (place / "log.jsonl").open("a") as file:
        file.write("{oops\n")
    skipped(place, "line 4")


@pytest.mark.parametrize("answer", ["NaN", "Infinity"])
def test_an_answer_that_is_no_number_says_where(place: Path, answer: str) -> None:
    with (place / "log.jsonl").open("a") as file:
        file.write(f'{{"sql": "SELECT SUM(\\"Blood sugar\\") FROM people", "answer": {answer}}}\n')
    skipped(place, "line 4")


def test_a_log_without_answers_says_so(place: Path) -> None:
    write(place, [{"sql": LOG[0][0]}, {"sql": LOG[1][0]}])
    bad(place, 'line 1: "answer" is missing')


def test_a_fact_about_an_unknown_record(place: Path) -> None:
    (place / "k.toml").write_text(KNOWS.replace("John Smith", "John Smyth"))
    bad(place, "fact 1 is about no record", "-c", str(place / "k.toml"))


def test_an_unknown_record_in_the_truth(place: Path) -> None:
    (place / "truth.csv").write_text(PEOPLE.replace("Eve Brown", "Eve Braun"))
    bad(place, "no record 'Eve Brown' (1 of 6 are missing)", "--truth", str(place / "truth.csv"))


@pytest.mark.parametrize("method", ["least-squares", "conjugate-gradient", "extended-kaczmarz"])
def test_a_method_that_cannot_honour_the_knowledge(place: Path, method: str) -> None:
    bad(place, f"{method} cannot honour bounds and facts", "-c", str(place / "k.toml"), "--method", method)


def test_methods_that_need_more_knowledge_say_which(place: Path) -> None:
    bad(place, "min, max and step", "--method", "integer")
    bad(place, "give min and max", "--method", "sgd")


@pytest.mark.parametrize(
    ("noise", "says"), [("laplace", "kind:scale"), ("cauchy:2", "unknown noise"), ("laplace:x", "not a number")]
)
def test_bad_noise(place: Path, noise: str, says: str) -> None:
    bad(place, says, "--noise", noise)


def test_a_statement_that_is_not_understood(place: Path) -> None:
    write(place, [{"sql": "SELECT SUM(sugar) FROM people", "answer": 3}])
    bad(place, "statement 1 cannot be used")


FIVE = "name,dept,age\na,x,20\nb,x,30\nc,y,40\nd,y,50\ne,z,60\n"


def five(place: Path, lines: list[tuple[str, Any]], *options: str) -> Any:
    """The answers about five people's pay, attacked; the reply."""
    (place / "five.csv").write_text(FIVE)
    write(place, [{"sql": sql, "answer": answer} for sql, answer in lines])
    base = [str(place / "log.jsonl"), "--data", str(place / "five.csv"), "--id", "name"]
    private = [] if "--private" in options else ["--private", "pay:0..1:1"]
    return CliRunner().invoke(app, ["attack", *base, *private, "--format", "json", *options])


def chances(found: Any) -> dict[str, tuple[float, float]]:
    assert found.exit_code == 0, found.output
    return {e["record"]["name"]: (e["value"], e["confidence"]) for e in json.loads(found.stdout)["estimates"]}


def test_two_tables_that_fit_are_as_likely(place: Path) -> None:
    found = chances(five(place, [("SELECT SUM(pay*age) FROM t", 110), ("SELECT SUM(2*pay) FROM t", 6)]))
    assert found["a"] == (1, 1)
    assert [found[name][1] for name in "bcde"] == [0.5] * 4


def test_thresholds_without_noise_count_tables(place: Path) -> None:
    log = [
        ("SELECT SUM(pay) >= 3 FROM t", True),
        ("SELECT SUM(pay) > 1.5 FROM t WHERE age < 50", True),
        ("SELECT SUM(pay) > 0.5 FROM t WHERE age > 50", False),
    ]
    found = chances(five(place, log, "--method", "integer"))
    assert found["d"] == (1, pytest.approx(0.8))


@pytest.mark.parametrize("method", ["kaczmarz", "sgd"])
def test_a_stream_of_contradicting_answers_says_which(place: Path, method: str) -> None:
    log = [("SELECT SUM(pay) FROM t", 3), ("SELECT SUM(pay) FROM t WHERE age < 45", 2)]
    log += [("SELECT SUM(pay) FROM t WHERE age > 45", 2)]
    found = five(place, log, "--private", "pay:0..1", "--method", method)
    assert found.exit_code == 2, found.output
    assert found.stdout == ""
    assert "query 1, query 2, query 3" in " ".join(found.stderr.split())
    assert "extended-kaczmarz" in found.stderr


@pytest.mark.parametrize("method", ["kaczmarz", "sgd"])
def test_a_stream_says_0_only_where_the_value_is_determined(place: Path, method: str) -> None:
    log = [("SELECT SUM(pay) FROM t WHERE dept = 'x'", 10), ("SELECT SUM(pay) FROM t WHERE age > 35", 12.5)]
    log += [("SELECT SUM(pay) FROM t WHERE dept = 'z'", 2.5)]
    found = chances(five(place, log, "--private", "pay:0..10", "--method", method))
    assert found["e"][1] == pytest.approx(0, abs=1e-6)
    assert all(1 <= found[name][1] <= 5 for name in "abcd")


def test_a_stream_without_a_range_says_unknown(place: Path) -> None:
    log = [("SELECT SUM(pay) FROM t WHERE dept = 'x'", 1), ("SELECT SUM(pay*age) FROM t WHERE age > 35", 70)]
    log += [("SELECT SUM(pay) FROM t WHERE dept = 'z'", 0.25)]
    found = chances(five(place, log, "--private", "pay", "--method", "kaczmarz"))
    assert found["e"][1] == 0
    assert all(found[name][1] is None for name in "abcd")


def test_an_interruption_of_the_reading_is_an_interruption(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB reports Ctrl-C as a RuntimeError of its own."""

    def interrupted(*_: object) -> None:
        try:
            terminal._interruption.note(signal.SIGINT, None)  # the handler that the command installs
        except KeyboardInterrupt:
            raise RuntimeError("Query interrupted") from None

    monkeypatch.setattr("keyhole.logs.open.open_log", interrupted)
    found = run(place)
    assert found.exit_code == 130
    assert "interrupted; nothing was written" in found.stderr
    assert found.stdout == ""
    terminal._interruption.asked = False


def test_other_errors_stay_what_they_are(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("keyhole.logs.open.open_log", broken)
    bad(place, "internal error")


def test_an_answer_too_large_for_a_number_says_which(place: Path) -> None:
    with (place / "log.jsonl").open("a") as file:
        file.write('{"sql": "SELECT SUM(\\"Blood sugar\\") FROM people", "answer": 1e399}\n')
    bad(place, "query 4: the answer, or its noise, is too large to compute with")


@pytest.mark.parametrize("tolerance", ["-1", "nan", "inf"])
def test_a_tolerance_that_is_none(place: Path, tolerance: str) -> None:
    bad(place, "--tolerance", "--tolerance", tolerance, "--truth", str(place / "people.csv"))


def test_a_log_that_only_counts_people_warns(place: Path) -> None:
    write(place, [{"sql": "SELECT COUNT(*) FROM people", "answer": 6}])
    found = run(place, "--private", "Blood sugar:3..10")
    assert found.exit_code == 0, found.output
    assert "no answer is about 'Blood sugar'" in found.stderr


def test_people_only_in_the_truth_are_a_warning(place: Path) -> None:
    (place / "truth.csv").write_text(PEOPLE.replace("6.2", "") + "Zoe Extra,1,Female,3\n")
    found = run(place, "--truth", str(place / "truth.csv"), "--format", "json")
    assert found.exit_code == 0, found.output
    assert "1 record of the truth is not in the data" in found.stderr
    assert "1 record of the truth has no value" in found.stderr
    assert json.loads(found.stdout)["score"]["records"] == 5


def test_a_private_condition_without_a_range_bounds_nothing(place: Path) -> None:
    found = chances(five(place, [("SELECT COUNT(*) FROM t WHERE pay > 30", 2)], "--private", "pay"))
    assert {sure for _, sure in found.values()} == {None}


def test_a_private_condition_on_a_grid_stands_for_the_grid_values_in_it(place: Path) -> None:
    """All five above 6 on the grid 0..10 by 4: only 8 is left, not the middle of 6..10."""
    found = chances(five(place, [("SELECT COUNT(*) FROM t WHERE pay > 6", 5)], "--private", "pay:0..10:4"))
    assert {value for value, _ in found.values()} == {8.0}


def test_rounding_of_zero_is_zero(place: Path) -> None:
    found = chances(five(place, [("SELECT SUM(pay) FROM t", 0), ("SELECT SUM(pay*age) FROM t", 0)]))
    assert {value for value, _ in found.values()} == {0.0}
    bounded = chances(
        five(
            place,
            [("SELECT SUM(pay) FROM t WHERE dept = 'x'", 0), ("SELECT SUM(pay) FROM t", 1)],
            "--private",
            "pay:0..1",
            "--method",
            "bounded",
        )
    )
    assert bounded["a"] == (0.0, 0.0)


@pytest.mark.parametrize("noise", ["uniform:0.5", "rounded:0.5"])
def test_noise_within_limits_is_not_called_no_noise(place: Path, noise: str) -> None:
    why = json.loads(run(place, "--private", "Blood sugar:3..10", "--noise", noise, "--format", "json").stdout)["why"]
    assert "no noise" not in why
    assert "stated limits" in why


def test_a_group_that_nobody_is_in_is_named(place: Path) -> None:
    groups = [{"key": {"dept": "x"}, "values": [1]}, {"key": {"dept": "nope"}, "values": [2]}]
    found = five(place, [("SELECT dept, SUM(pay) FROM t GROUP BY dept", groups)])
    assert found.exit_code == 2, found.output
    assert "no such group in the data" in " ".join(found.stderr.split())


def test_a_line_that_is_a_list_is_no_question(place: Path) -> None:
    (place / "log.jsonl").write_text("[1, 2]\n")
    bad(place, 'line 1: write {"sql": "SELECT ...", "answer": ...}')


def test_an_answer_about_missing_values_is_left_out(place: Path) -> None:
    """The roster has no private column, so it does not say who has no value there."""
    missing = {"sql": 'SELECT COUNT(*) FROM people WHERE "Blood sugar" IS NULL', "answer": 0}
    write(place, [missing, {"sql": LOG[0][0], "answer": LOG[0][1]}])
    found = run(place)
    assert found.exit_code == 0, found.output
    assert "query 1 is not used: the data does not say where 'Blood sugar' is NULL" in found.stderr.replace("\n", " ")


def test_a_noisy_zero_is_no_zero(place: Path) -> None:
    noise = {"kind": "discrete-laplace", "scale": 2}
    women = "FROM people WHERE Gender = 'Female' AND \"Blood sugar\" > 5"
    write(
        place,
        [
            {"sql": f"SELECT COUNT(*) {women}", "answer": 0, "noise": noise},
            {"sql": f'SELECT SUM("Blood sugar") {women}', "answer": 12.3},
        ],
    )
    assert run(place).exit_code == 0


@pytest.mark.parametrize("method", ["auto", "bounded", "kaczmarz", "sgd"])
def test_the_problem_is_assembled_once_a_column(place: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    calls = []
    modules = [m for name, m in sys.modules.items() if name.startswith("keyhole.") and hasattr(m, "assemble")]
    assemble = modules[0].assemble

    def counted(target: Any, evidence: Any) -> Any:
        calls.append(target.column)
        return assemble(target, evidence)

    for module in modules:
        monkeypatch.setattr(module, "assemble", counted)
    found = run(place, "--method", method, "--private", "Blood sugar:3..10")
    assert found.exit_code == 0, found.output
    assert calls == ["Blood sugar"]


COUNTS = "SELECT COUNT(*) FROM people WHERE status = 'C' AND client IN ({})"


def counted(place: Path, seed: int, answers: int, *, sd: float = 1.0) -> list[str]:
    """A roster of 40 clients, 12 of them asked about, and rounded noisy counts of one category."""
    rng = np.random.default_rng(seed)
    status = rng.choice(list("ABCD"), 40)
    (place / "clients.csv").write_text("client\n" + "\n".join(map(str, range(40))) + "\n")
    (place / "status.csv").write_text("client,status\n" + "\n".join(f"{i},{s}" for i, s in enumerate(status)) + "\n")
    lines = []
    for _ in range(answers):
        who = np.flatnonzero(rng.random(12) < 0.5)
        true = int((status[who] == "C").sum())
        sql = COUNTS.format(", ".join(map(str, who)) or "-1")
        lines.append({"sql": sql, "answer": int(np.round(true + rng.normal(0, sd)))})
    write(place, lines)
    return [str(s) for s in status]


def test_counts_of_a_category_with_noise_that_nobody_stated(place: Path) -> None:
    status = counted(place, 3, 150)
    options = ("--private", "status=A,B,C,D", "--id", "client", "--noise", "auto", "--format", "json")
    arguments = ["attack", str(place / "log.jsonl"), "--data", str(place / "clients.csv"), *options]
    found = CliRunner().invoke(app, [*arguments, "--by", "confidence", "--truth", str(place / "status.csv")])
    assert found.exit_code == 0, found.output
    assert "noise estimated from" in found.stderr
    reply = json.loads(found.stdout)
    for estimate in reply["estimates"]:
        client = int(estimate["record"]["client"])
        assert estimate["value"] in ("C", "A, B or D")  # nobody asked about A, B or D
        if client < 12 and status[client] == "C":
            assert estimate["value"] == "C"
            assert estimate["confidence"] > 0.9
        elif client >= 12:
            assert (estimate["value"], estimate["confidence"]) == ("A, B or D", 0.75)
    sure = [e["confidence"] for e in reply["estimates"]]
    assert sure == sorted(sure, reverse=True)
    assert reply["score"]["control_records"] == 28
    assert reply["score"]["precision"][-1][0] == 40
    assert reply["score"]["exact_low"] < reply["score"]["exact"] < reply["score"]["exact_high"]
    one = CliRunner().invoke(app, [*arguments, "--target", "client < 3"])
    assert len(json.loads(one.stdout)["estimates"]) == 3
    nobody = CliRunner().invoke(app, [*arguments, "--target", "client > 99"])
    assert nobody.exit_code == 2
    assert "matches nobody" in nobody.stderr


def test_noise_that_does_not_fit_is_said_loudly(place: Path) -> None:
    counted(place, 4, 150, sd=4.0)
    options = ("--private", "status=A,B,C,D", "--id", "client", "--noise", "gaussian:0.7", "--format", "json")
    found = CliRunner().invoke(
        app, ["attack", str(place / "log.jsonl"), "--data", str(place / "clients.csv"), *options]
    )
    assert found.exit_code == 0, found.output
    assert "THE STATED NOISE DOES NOT FIT" in found.stderr


def test_a_statement_without_an_answer_is_listed_and_left_out(place: Path) -> None:
    whole = run(place, "--format", "json")
    write(place, [{"sql": LOG[0][0]}, *({"sql": sql, "answer": answer} for sql, answer in LOG)])
    found = run(place, "--format", "json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["estimates"] == json.loads(whole.stdout)["estimates"]
    assert 'statement 1 is not used: line 1 has no "answer"' in found.stderr


def test_of_a_variance_one_thing_is_said(place: Path) -> None:
    lines = [{"sql": sql, "answer": answer} for sql, answer in LOG[1:]]
    write(place, [*lines, {"sql": 'SELECT VARIANCE("Blood sugar") FROM people', "answer": 2.1}])
    found = run(place)
    assert found.exit_code == 0, found.output
    assert "query 3.1 (VAR) is used for ranges only" in found.stderr
    assert "its rows are listed" not in found.stderr


def test_the_column_of_a_line_that_is_not_json(place: Path) -> None:
    with (place / "log.jsonl").open("a") as file:
        file.write("not json\n")
    skipped(place, "line 4: not JSON (Expecting value at column 1); each line is")
