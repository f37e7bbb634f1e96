"""A certificate is earned: by a record of the same question, by checks that were made, by ends that were asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from keyhole.cli.oracle.attack import attack as command
from keyhole.cli.oracle.report import between
from keyhole.errors import ConfigError, KeyholeError
from keyhole.oracles.attack_target import learn_target
from keyhole.oracles.certify.assumptions import MISFIT
from keyhole.oracles.learners.noiseless import find_redundant_rows, line_search
from keyhole.oracles.recorded import Recorded
from keyhole.oracles.result import AskingPlan, OracleResult, Questions
from keyhole.oracles.targets import HttpTarget, open_target, read_bit

SUMS = "SELECT SUM(pay) > {threshold} FROM staff WHERE name IN ({ids})"
ROWS = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])


class Told:
    """Says whether what `answer` makes of a query is above the threshold."""

    def __init__(self, answer: Callable[[np.ndarray], float]) -> None:
        self.answer, self.asked = answer, 0

    def above(self, q: np.ndarray, threshold: float) -> int:
        self.asked += 1
        return int(self.answer(q) > threshold)


def sums(*w: float) -> Told:
    return Told(lambda q: float(q @ np.array(w)))


def asking(rows: np.ndarray, *, stated: bool = True) -> Questions:
    return Questions(rows, np.zeros(rows.shape[1]), np.ones(rows.shape[1]), np.ones((1, rows.shape[1])), stated)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments])


def staff(folder: Path, header: str = "ann,bob,cy") -> tuple[object, ...]:
    (folder / "staff.csv").write_text("name,pay\nann,51\nbob,64\ncy,70\n", encoding="utf-8")
    (folder / "ids.csv").write_text(f"{header}\n1,0,0\n0,1,0\n0,0,1\n", encoding="utf-8")
    return ("--data", folder / "staff.csv", "--id", "name", "--private", "pay", "--queries", folder / "ids.csv")


@pytest.mark.parametrize(
    ("header", "more"),
    [("bob,ann,cy", ()), ("ann,bob,cy", ("--range", "0..99"))],
)
def test_a_record_gives_nobody_the_value_of_another(tmp_path: Path, header: str, more: tuple[str, ...]) -> None:
    record = tmp_path / "r.jsonl"
    common = (SUMS, "--record", record, "--format", "json")
    first = run(*common, *staff(tmp_path))
    assert first.exit_code == 0, first.exception
    kept = record.read_bytes()
    again = run(*common, *staff(tmp_path, header), *more)
    assert isinstance(again.exception, ConfigError)
    assert "r.jsonl, line 1: the record is of another attack" in str(again.exception)
    assert record.read_bytes() == kept
    same = json.loads(run(*common, *staff(tmp_path)).stdout)
    assert same["recalled"] == same["asked"]
    assert same["estimates"] == json.loads(first.stdout)["estimates"]


def test_a_withdrawn_certificate_does_not_come_back(tmp_path: Path) -> None:
    """The target changes between two runs; the third, from the record alone, and a fourth know it."""
    record, found = tmp_path / "r.jsonl", list[OracleResult]()
    for budget, w in ((30, 0.1), (None, 0.7), (None, 0.7), (None, 0.1), (40, 0.1)):
        with Recorded(sums(w, 0.5, 0.9), record, budget=budget) as target:
            found.append(learn_target(target, asking(ROWS), AskingPlan("none")))
    assert all(one.radius == np.inf for one in found[1:])
    assert all((one.low.tolist(), one.high.tolist()) == ([0] * 3, [1] * 3) for one in found[1:])
    assert '"withdrawn"' in record.read_text(encoding="utf-8")


def test_lines_that_contradict_each_other_are_read_also_where_nothing_asks_for_them(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    for _ in range(2):
        with Recorded(sums(0.1, 0.5, 0.9), record) as target:
            found = learn_target(target, asking(ROWS), AskingPlan("none"))
        if np.isfinite(found.radius):
            with record.open("a", encoding="utf-8") as file:
                file.write('{"query": [1.0, 0.0, 0.0], "threshold": 0.4, "above": 1}\n')
    assert found.radius == np.inf


def test_a_run_that_went_on_is_checked_even_if_it_stopped_just_before(tmp_path: Path) -> None:
    """Whatever the second budget: no certificate without both ends asked again."""
    with Recorded(sums(0.1, 0.5, 0.9), None) as target:
        whole = learn_target(target, asking(ROWS), AskingPlan("none")).asked
    for budget in range(whole - 2, whole + 2):
        record = tmp_path / f"{budget}.jsonl"
        for most, w in ((25, 0.1), (budget, 0.7), (None, 0.7)):
            with Recorded(sums(w, 0.5, 0.9), record, budget=most) as target:
                found = learn_target(target, asking(ROWS), AskingPlan("none"))
            assert w == 0.1 or found.radius == np.inf


@pytest.mark.parametrize("budget", [70, 75, 80])
def test_a_budget_switches_no_check_off_without_noise(budget: int) -> None:
    rows = np.vstack([np.eye(3), [[1, 1, 0], [1, 1, 1], [0, 1, 1]]])
    average = Told(lambda q: float(q @ np.array([0.2, 0.9, 0.5]) / q.sum()))
    with Recorded(average, None, budget=budget) as target:
        found = learn_target(target, asking(rows), AskingPlan("none"))
    assert found.radius == np.inf
    assert any("not certified" in note or "contradict" in note for note in found.notes)


def sticky(seed: int) -> Told:
    rng, drawn = np.random.default_rng(seed), dict[bytes, float]()
    return Told(lambda q: float(q @ (0.4, 0.5, 0.6)) + drawn.setdefault(q.tobytes(), rng.normal(0, 0.3)))


@pytest.mark.parametrize(("queries", "budget"), [(300, None), (300, 250), (300, 296), (66, None)])
def test_sticky_answers_are_never_certified_where_queries_repeat(queries: int, budget: int | None) -> None:
    for seed in range(4):
        with Recorded(sticky(seed), None, budget=budget) as target:
            plan = AskingPlan("gaussian:0.3", calibrate=queries // 10)
            found = learn_target(target, asking(np.eye(3)[np.arange(queries) % 3]), plan)
        assert found.radius == np.inf
        assert found.notes


def test_conditions_of_a_noisy_certificate_are_said() -> None:
    rng = np.random.default_rng(3)
    oracle = Told(lambda q: float(q @ (0.4, 0.5, 0.6)) + rng.laplace(0, 0.1))
    found = learn_target(oracle, asking(rng.random((400, 3))), AskingPlan("laplace:0.1"))
    assert np.isfinite(found.radius)
    told = {one.claim: one for one in found.conditions}
    assert not told["answers are sums of query times hidden number"].checked
    assert not told["the noise is laplace, independent and around 0, as stated"].checked
    assert "noise is drawn anew for each answer" in told


def test_a_noise_of_two_points_is_not_taken_for_gaussian() -> None:
    rng = np.random.default_rng(1)
    oracle = Told(lambda q: float(q @ (0.4, 0.5, 0.6)) + 0.5 * rng.choice([-1, 1]))
    found = learn_target(oracle, asking(rng.random((200, 3))), AskingPlan("auto"))
    assert MISFIT in found.notes
    assert found.radius == np.inf


@pytest.mark.parametrize("copies", [0, 4])
def test_copies_of_a_query_check_nothing(copies: int) -> None:
    rows = np.array([[1.0, 0, 0], [1, 1, 0], [1, 1, 1], *[[1, 1, 0], [2, 2, 2]] * copies])
    average = Told(lambda q: float(q @ np.array([0.2, 0.5, 0.8]) / q.sum()))
    found = learn_target(average, Questions(rows, -np.ones(3), np.ones(3)), AskingPlan("none"))
    assert find_redundant_rows(rows, [0, 1, 2]) == []
    assert any("no query was left over" in note for note in found.notes)
    assert [one.checked for one in found.conditions if "sums" in one.claim] == [False]


@pytest.mark.parametrize(
    ("rows", "w"),
    [
        ([[1.0]], [2097153.0]),
        ([[1.0]], [1.0000004]),
        ([[1.0, 1e-10]], [0.5, 1e9]),
        ([[1e7, 0], [0, 1.0]], [0.5, 3.0]),
        ([[1.0, 1], [1, 1 + 1e-7]], [0.3, 0.4]),
        ([[1.0, 0, 0], [0, 1, 1]], [0.2, 0.5, 1e9]),
        ([[0.1, 0.3, 0], [0.7, 0.2, 0], [0, 0.1, 1e-11]], [0.2, 0.5, 1e10]),
    ],
)
def test_ranges_without_noise_hold_the_truth_and_are_rounded_outwards(rows: list[list[float]], w: list[float]) -> None:
    """The twin is exact: the sums are of fractions."""
    exact = [Fraction(v) for v in w]
    oracle = Told(lambda q: 0.0)
    oracle.above = lambda q, t: int(sum(Fraction(float(a)) * b for a, b in zip(q, exact, strict=True)) > Fraction(t))  # type: ignore[method-assign]
    found = learn_target(oracle, asking(np.array(rows), stated=False), AskingPlan("none"))
    for low, v, high in zip(found.low, exact, found.high, strict=True):
        assert low == -np.inf or Fraction(float(low)) <= v <= Fraction(float(high))
        if np.isfinite(low):
            below, above = between(low, high).split(" .. ")
            assert Fraction(below) <= v <= Fraction(above)
    if rows[0] == [1.0, 1e-10]:
        assert np.isinf(found.low).all()


@pytest.mark.parametrize("seed", range(6))
def test_ranges_hold_for_any_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, w = rng.integers(-2, 3, (3, 4)) * 10.0 ** rng.integers(-3, 4, (3, 1)), rng.normal(size=4) * 0.4
    rows = rows[np.any(rows != 0, axis=1)]
    for stated in (True, False):
        box = -8 * np.ones(4), 8 * np.ones(4)
        found = line_search(sums(*w), rows, *box, resolution=1e-6 * np.abs(rows).max(axis=1), stated=stated)
        assert np.all(found.low <= w)
        assert np.all(w <= found.high)


@pytest.mark.parametrize(
    "more", [" HAVING COUNT(*) > 1", " GROUP BY name", " LIMIT 1", " ORDER BY 1", " GROUP BY name HAVING SUM(pay) > 60"]
)
def test_a_statement_with_more_than_a_sum_is_refused(tmp_path: Path, more: str) -> None:
    done = run(SUMS + more, *staff(tmp_path))
    assert "leave out GROUP BY, HAVING" in str(done.exception)


def test_another_user_is_another_target() -> None:
    names = {HttpTarget(f"http://{who}example.org/x").name for who in ("", "ann:s3cret@", "bob:s3cret@", "s3cret@")}
    assert len(names) == 4
    assert not any("s3cret" in name for name in names)


@pytest.mark.parametrize(
    "text",
    ["https:/bob:hunter2@host/x", "http:bob:hunter2@h", "bob:hunter2@h", "http://bob:12/hunter2@h", "htp//b:hunter2@h",
     "http://bob:1#hunter2@h", "http:///bob:hunter2@h", "//bob:hunter2@h/", "http://bob:hunter2/@h"],
)  # fmt: skip
def test_a_mistyped_address_is_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        open_target(text)
    assert "hunter2" not in str(refused.value)


def test_what_a_target_says_or_fails_with_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("keyhole.oracles.recorded.FIRST_WAIT", 0.0)
    (tmp_path / "failing_target.py").write_text(
        "def boom(q, t): raise RuntimeError('hunter2')\ndef down(q, t): raise ConnectionError('hunter2')\n"
        "def word(q, t): return 'hunter2'\n", encoding="utf-8",
    )  # fmt: skip
    (tmp_path / "breaking_target.py").write_text("raise ImportError('hunter2')\n", encoding="utf-8")
    (tmp_path / "q.jsonl").write_text("[1]\n", encoding="utf-8")
    for name in ("failing_target:boom", "failing_target:down", "failing_target:word", "breaking_target:x"):
        done = run(name, "--queries", "q.jsonl")
        assert isinstance(done.exception, KeyholeError)
        assert "hunter2" not in str(done.exception)
    with pytest.raises(KeyholeError, match="text of 7 characters"):
        read_bit("hunter2", "it")


def test_a_check_of_fewer_queries_than_it_takes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text("[1]\n" * 9, encoding="utf-8")
    done = run("math:pow", "--queries", tmp_path / "q.jsonl", "--calibrate", 4)
    assert "--calibrate 4: the check takes at least 5" in str(done.exception)


def test_counts_agree() -> None:
    rows = np.vstack([ROWS, np.zeros((2, 3)), ROWS[:1]])
    found = learn_target(sums(0.1, 0.5, 0.9), asking(rows), AskingPlan("none"))
    assert found.skipped == 2
    assert "2 queries are zero and were not asked" in found.notes
