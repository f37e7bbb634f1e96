"""One prepaid run, many processes: what is shown over all of them was paid for; tuned weights as a session has them."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from tests.support.settings import write_into

from keyhole.book import Book
from keyhole.cli import app
from keyhole.defence.budget.budget import Cap
from keyhole.defence.budget.ledger import Ledger, Purchase, SavedRun
from keyhole.defence.budget.loss import Loss
from keyhole.errors import BookError

CAP = Cap(Loss.of_epsilon(1))
NAME = "online-ic multiplicative-weights"
PROCESSES, EACH = 10, 20

# Ten forked processes over one book, on a run that the parent began. The noise is rigged so that every question fires:
# each one shown is a measured number, and the book says how many of these were bought.
RUSH = """
import dataclasses, json, os, signal, sys, time
from keyhole.book import Book
from keyhole.defence.answering import AnswerSetting
from keyhole.defence.budget.budget import Cap
from keyhole.defence.histogram import Histogram
from keyhole.defence.budget.ledger import Ledger, Purchase
from keyhole.defence.linear import LinearQuery
from keyhole.defence.budget.loss import Loss
from keyhole.defence.strategies.prepaid_run import PrepaidRun
from keyhole.model.query import Refused

path, how, processes, each = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


class Firing:
    "Every comparison passes, slowly; with `quiet` none does."

    threshold, quiet, kill = None, False, False

    def laplace(self, scale):
        if self.threshold in (None, scale):  # a new run draws the noise of its threshold first
            self.threshold = scale
            return 0
        time.sleep(0.01)
        if self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        return -(10**9) if self.quiet else 10**9


@dataclasses.dataclass
class Asked:
    sql: str
    groups, statement = (), None

    @property
    def asked(self):
        return [LinearQuery.of([1, 0])]

    def fingerprint(self):
        return self.sql


class Honest(PrepaidRun):
    def ask(self, question):
        with self.setting.ledger.book.page():
            return self.answer(question, None)


class Liar(PrepaidRun):
    "Load, use, save, each on a page of its own: whoever saves last is believed."

    def ask(self, question):
        ledger, self.live = self.setting.ledger, None
        with ledger.book.page():
            found = self._saved(1, None)
            if found is None:
                return Refused("used up")
            taken, _ = self._take(question, None)
        releases = [taken.run.answer(query) for query in question.asked]
        with ledger.book.page():
            now = ledger.load_run(taken.name).generation
            saved = self._save(dataclasses.replace(taken, generation=now))
            bought = Purchase(question.sql, 1, None, (taken.charge,), (taken.name, saved.generation))
            self.setting.remember(question, releases, bought)
        return releases, 0


def work(number, questions, kind):
    with Book.open(path, "people") as book:
        setting = AnswerSetting(people, Ledger(book, Cap(Loss.of_epsilon(1)), domain="d"), 0.05, 1.0, 1000, anyway=True)
        run = kind(setting, noise=noise)
        made = [run.ask(Asked(f"{number} {k}")) for k in range(questions)]
        return [found[0][0].how for found in made if not isinstance(found, Refused)]


noise, people = Firing(), Histogram.of([100_000, 0])
noise.quiet = how == "restarted"
first = work("first", 1, Honest)
noise.quiet = False
noise.kill = how == "killed"
begin, go = os.pipe()
ends = []
for number in range(processes):
    end, mine = os.pipe()
    if os.fork() == 0:
        os.close(go)
        os.read(begin, 1)  # all start at once, when the parent closes its end
        os.write(mine, json.dumps(work(number, each, Liar if how == "liar" else Honest)).encode())
        os._exit(0)
    os.close(mine)
    ends.append(end)
os.close(go)
print(json.dumps(first))
for end in ends:
    with os.fdopen(end) as said:
        print(said.read())
"""


def rush(path: Path, how: str, processes: int = PROCESSES) -> tuple[list[str], int]:
    """What all processes showed, and the firings that were paid for."""
    call = [sys.executable, "-c", RUSH, str(path), how, str(processes), str(EACH)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    assert not done.stderr, done.stderr
    said = [how for line in done.stdout.splitlines() if line for how in json.loads(line)]
    with Book.open(path) as book:
        runs = [saved for _, saved in Ledger(book, CAP, domain="d").runs(NAME)]
        return said, sum(saved.plan["firings"] for saved in runs)


def spent_twice(path: Path, how: str) -> bool:
    """Was more shown than paid for? (The same firing shown by two processes counts twice.)"""
    said, paid = rush(path, how)
    shown = [text for text in said if "measured" in text]
    assert len(shown) > 1, "nobody was answered: the test says nothing"
    return len(shown) > paid


def test_ten_processes_show_no_more_than_was_paid_for(tmp_path: Path) -> None:
    assert not spent_twice(tmp_path / "b.keyhole", "queued")


def test_the_liar_is_caught(tmp_path: Path) -> None:
    assert spent_twice(tmp_path / "b.keyhole", "liar")


def test_a_killed_process_leaves_the_run_as_it_was_and_has_shown_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    said, _ = rush(path, "killed", processes=1)
    assert len(said) == 1  # the parent's
    with Book.open(path) as book:
        ((_, saved),) = Ledger(book, CAP, domain="d").runs(NAME)
        assert (saved.fired, saved.asked, len(book.state.losses)) == (1, 1, 1)


def test_a_restart_costs_no_firing(tmp_path: Path) -> None:
    """The noisy threshold is sealed in the book: another process goes on with the same one."""
    path = tmp_path / "b.keyhole"
    said, paid = rush(path, "restarted", processes=1)
    assert "measured" not in said[0]  # a question was asked, and nothing fired
    shown = [text for text in said if "measured" in text]
    assert "1 of" in shown[0]
    assert len(shown) == min(EACH, paid)


def test_a_threshold_that_was_lost_costs_one(tmp_path: Path) -> None:
    """As in a ledger of an earlier version, which never kept it."""
    path = tmp_path / "b.keyhole"
    rush(path, "restarted", processes=0)
    with Book.open(path) as book, book.page():
        ledger = Ledger(book, CAP, domain="d")
        ((name, saved),) = ledger.runs(NAME)
        assert (saved.open, saved.fired, saved.level is None) == (True, 0, False)
        fields = json.loads((book.unseal(name) or (0, ""))[1]) | {"level": None}
        book.seal(name, saved.generation, json.dumps(fields), None)
        book._changed = True
    said, _ = rush(path, "queued", processes=0)
    assert "2 of" in said[0]


def run(fired: int, asked: int, generation: int) -> SavedRun:
    return SavedRun({}, fired, asked, True, 7, np.zeros(1), 1, generation)


def test_who_was_overtaken_saves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    with Book.open(path, "people") as one, Book.open(path, "people") as other:
        slow, quick = Ledger(one, CAP), Ledger(other, CAP)

        def saved(ledger: Ledger, kept: SavedRun, question: str) -> int:
            with ledger.book.page():
                generation = ledger.save_run("r", kept)
                ledger.remember(question, {}, Purchase(question, 1, None, (), ("r", generation)))
                return generation

        first = saved(slow, run(0, 0, 0), "one")
        taken = quick.load_run("r")
        assert taken is not None
        second = saved(quick, run(1, 0, taken.generation), "two")
        for generation in (first, 0):  # nor as if there had been none before
            with pytest.raises(BookError, match="used meanwhile: nothing is shown"):
                saved(slow, run(5, 9, generation), "three")
        assert not list(slow.recall("three"))
        saved(quick, run(2, 3, second), "four")
        found = slow.load_run("r")
        assert found is not None
        assert (found.fired, found.asked, found.level, found.generation) == (2, 3, 7, 3)


COLUMNS = 8
ANSWERED = 30


class Tuned:
    """Nearly independent columns in a folder, and `keyhole ask --mechanism pmw-...` about them."""

    def __init__(self, folder: Path, budget: str = "epsilon = 3") -> None:
        rng = np.random.default_rng(0)
        self.people = (rng.random((20_000, COLUMNS)) < rng.uniform(0.2, 0.8, COLUMNS)).astype(int)
        names = [f"c{k}" for k in range(COLUMNS)]
        pd.DataFrame(self.people, columns=names).assign(id=range(20_000)).to_csv(folder / "t.csv", index=False)
        columns = "".join(f"[columns.private.{name}]\nvalues = [0, 1]\n" for name in names)
        self.toml = folder / "keyhole.toml"
        self.toml.write_text(
            f'[source]\ndata = "t.csv"\ntable = "t"\n[columns]\nid = ["id"]\n{columns}[budget]\n{budget}\n'
        )
        self.asked = rng.permutation(list(combinations(range(COLUMNS), 3)))[:ANSWERED].tolist()

    def truth(self, k: int) -> int:
        return int(self.people[:, self.asked[k]].prod(axis=1).sum())

    def call(self, *options: str, questions: int = ANSWERED) -> Any:
        sql = [f"SELECT COUNT(*) FROM t WHERE c{a} = 1 AND c{b} = 1 AND c{c} = 1" for a, b, c in self.asked[:questions]]
        settings, left = write_into(self.toml, options)
        return CliRunner().invoke(app, ["ask", *sql, "-c", str(settings), "--format", "json", *left])

    def told(self, *options: str, questions: int = ANSWERED) -> list[dict[str, Any]]:
        done = self.call(*options, questions=questions)
        assert done.exit_code == 0, done.output
        return list(json.loads(done.stdout)["replies"])


@pytest.mark.parametrize("mechanism", ["pmw-warm", "pmw-tuned"])
def test_a_session_answers_from_tuned_weights_within_their_bars(tmp_path: Path, mechanism: str) -> None:
    box = Tuned(tmp_path)
    how = ("--mechanism", mechanism, "--accuracy", "0.05", "--beta", "0.001")
    quoted = box.told(*how, "--dry-run", questions=1)
    told = box.told(*how, questions=10)
    assert [r["cost"] > 0 for r in told] == [True] + [False] * 9  # the run is paid when it starts
    assert quoted[0]["cost"] == told[0]["cost"]
    again = box.told(*how)  # another process goes on with the run, and what was told is told again
    assert all(r["cost"] == 0 for r in again)
    assert [r["value"] for r in again[:10]] == [r["value"] for r in told]
    assert all(r["error"] <= 1000 for r in again)
    assert all(abs(r["value"] - box.truth(k)) <= r["error"] for k, r in enumerate(again))
    used = [int(r["how"].split(" of 30 firings")[0].split()[-1]) for r in again]
    assert used == sorted(used)
    assert used[-1] < 30


def test_firings_are_named_in_the_settings_and_a_run_that_used_them_up_says_so(tmp_path: Path) -> None:
    box = Tuned(tmp_path, "epsilon = 100\nfirings = 1")
    box.asked[:2] = [[0, 0, 0], [1, 1, 1]]  # both far from uniform
    how = ("--mechanism", "pmw-tuned", "--horizon", "60", "--epsilon", "1")
    told = box.told(*how, questions=1)
    assert "1 of 1 firings used" in told[0]["how"]
    later = box.call(*how, questions=2)
    assert later.exit_code == 3
    assert "its 1 firings are used up" in json.loads(later.stdout)["replies"][1]["reason"]
    box = Tuned(tmp_path, "epsilon = 100\nfirings = 0\n[book]\npath = 'other.keyhole'")
    assert "needs people, cells, questions and firings" in box.call(*how).output


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ("epsilon = 1\nunit = 'rho'", "pmw-warm is priced in epsilon"),
        ("epsilon = 1\nneighbours = 'add-remove'", "public number of people"),
    ],
)
def test_where_there_can_be_no_such_run_nothing_is_spent(tmp_path: Path, budget: str, reason: str) -> None:
    box = Tuned(tmp_path, budget)
    done = box.call("--mechanism", "pmw-warm")
    assert done.exit_code == 2
    assert reason in done.output


def test_the_price_of_many_counts_says_before_what_would_be_closer(tmp_path: Path) -> None:
    """120 counts by Laplace noise: a run of tuned weights, and one table, would be closer at the same price."""
    box = Tuned(tmp_path, "epsilon = 1\nfirings = 20")
    three = list(combinations(range(COLUMNS), 3))
    sql = [
        f"SELECT COUNT(*) FROM t WHERE c{a} = {value} AND c{b} = 1 AND c{c} = 1;"
        for value in (0, 1)
        for a, b, c in three
        for value in (0, 1)
        for a, b, c in three
    ]
    settings, _ = write_into(box.toml, ["--mechanism", "laplace"])
    call = ["ask", "-f", str(tmp_path / "q.sql"), "-c", str(settings), "--dry-run"]

    def quoted(count: int) -> list[str]:
        (tmp_path / "q.sql").write_text("\n".join(sql[:count]))
        done = CliRunner().invoke(app, [*call, "--format", "json"])
        return [answer["how"] for answer in json.loads(done.stdout)["answers"]]

    few, many = quoted(60), quoted(110)
    assert not any("would be within" in how for how in few)
    assert [k for k, how in enumerate(many) if "would be within" in how] == [109]
    assert (
        "for all 110 statements one table of all 6,561 cells (--mechanism planner buys tables) would be within"
        in many[109]
    )
