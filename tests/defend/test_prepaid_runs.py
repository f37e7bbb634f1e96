"""One prepaid run, many processes: what is shown over all of them was paid for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from keyhole.defend.budget import Cap
from keyhole.defend.ledger import Ledger, SavedRun
from keyhole.defend.loss import Loss
from keyhole.errors import RunInUse

CAP = Cap(Loss.of_epsilon(1))
PROCESSES, EACH = 10, 20

# Ten forked processes over one ledger. The noise is rigged so that every question fires: each one shown is a measured
# number, and the file says how many of these were bought.
RUSH = """
import contextlib, dataclasses, json, os, signal, sys, time
from fractions import Fraction
import keyhole.defend.ledger as books
from keyhole.defend.budget import Cap
from keyhole.defend.answering import Setting
from keyhole.defend.histogram import Histogram
from keyhole.defend.ledger import Ledger
from keyhole.defend.linear import LinearQuery
from keyhole.defend.loss import Loss
from keyhole.defend.strategies.run import PrepaidRun
from keyhole.errors import RunInUse

path, how, processes, each = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


class Liar(Ledger):
    "Load, use, save: whoever saves last is believed."

    @contextlib.contextmanager
    def lease(self):
        yield

    def save_run(self, name, run):
        now = self.load_run(name)
        return super().save_run(name, dataclasses.replace(run, generation=0 if now is None else now.generation))


class Firing:
    "Every comparison passes, slowly."

    quiet = None

    def laplace(self, scale):
        if self.quiet is None or scale == self.quiet:  # the threshold's noise is drawn first
            self.quiet = scale
            return 0
        time.sleep(0.01)
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return 10**9


@dataclasses.dataclass
class Asked:
    name: str
    groups = ()

    @property
    def asked(self):
        return [LinearQuery.of([1, 0])]

    def fingerprint(self):
        return self.name


def work(number):
    kind = Liar if how == "liar" else Ledger
    with kind(path, Cap(Loss.of_epsilon(1)), version="1", domain="d") as ledger:
        setting = Setting(people, ledger, 0.05, 1.0, 1000, None)
        till = PrepaidRun(setting, noise=Firing())
        try:
            made = till.answer([Asked(f"{number} {k}") for k in range(each)])
        except RunInUse as error:
            return {"refused": str(error), "shown": []}
        return {"shown": [releases[0].how for found in made if not isinstance(found, str) for releases in found[:1]]}


people = Histogram.of([100_000, 0])
people.total(LinearQuery.of([1, 0]))  # the kernels are loaded once, before the fork
if how == "unlocked":
    books.fcntl = None
begin, go = os.pipe()
ends = []
for number in range(processes):
    end, mine = os.pipe()
    if os.fork() == 0:
        os.close(go)
        os.read(begin, 1)  # all start at once, when the parent closes its end
        os.write(mine, json.dumps(work(number)).encode())
        os._exit(0)
    os.close(mine)
    ends.append(end)
os.close(go)
for end in ends:
    with os.fdopen(end) as said:
        print(said.read())
"""


def rush(path: Path, how: str, processes: int = PROCESSES) -> tuple[list[str], list[str], int]:
    """Measured answers shown by all processes, the sentences of those that were refused, and the firings paid for."""
    call = [sys.executable, "-c", RUSH, str(path), how, str(processes), str(EACH)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
    assert not done.stderr, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines() if line]
    with Ledger(path, CAP, version="1", domain="d") as ledger:
        runs = len(ledger.charges())
        saved = ledger.load_run("online-ic multiplicative-weights")
    assert saved is not None
    shown = [how for each in said for how in each["shown"] if "measured" in how]
    return shown, [each["refused"] for each in said if "refused" in each], runs * saved.plan["firings"]


def spent_twice(path: Path, how: str) -> bool:
    """Was more shown than paid for? (The same firing shown by two processes counts twice.)"""
    shown, _, paid = rush(path, how)
    assert shown, "nobody was answered: the test says nothing"
    return len(shown) > paid


@pytest.mark.parametrize("how", ["locked", "unlocked"])
def test_ten_processes_show_no_more_than_was_paid_for(tmp_path: Path, how: str) -> None:
    assert not spent_twice(tmp_path / "b.keyhole", how)


def test_the_liar_is_caught(tmp_path: Path) -> None:
    assert spent_twice(tmp_path / "b.keyhole", "liar")


def test_a_second_process_is_told_and_a_killed_one_leaves_the_run(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    rush(path, "killed", processes=1)  # paid, taken, killed at its first question
    with Ledger(path, CAP, version="1", domain="d") as ledger:
        saved = ledger.load_run("online-ic multiplicative-weights")
        assert saved is not None
        assert (saved.open, saved.fired, len(ledger.charges())) == (True, 0, 1)
        with ledger.lease():
            shown, refused, _ = rush(path, "locked", processes=2)
            assert not shown
            assert len(refused) == 2
            assert all("another process is using the prepaid run" in text for text in refused)
    shown, refused, paid = rush(path, "locked", processes=1)
    assert "2 of" in shown[0]  # one firing more for the stretch that was cut off
    assert (len(shown), refused) == (min(EACH, paid - 1), [])


def test_who_was_overtaken_saves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    with Ledger(path, CAP) as slow, Ledger(path, CAP) as quick:
        first = slow.save_run("r", SavedRun({}, 0, 0, True, np.zeros(1)))
        taken = quick.load_run("r")
        assert taken is not None
        second = quick.save_run("r", SavedRun({}, 1, 0, True, np.zeros(1), taken.generation))

        def finish() -> None:
            with slow.transaction():
                slow.remember("q", {"x": 1})
                slow.save_run("r", SavedRun({}, 5, 9, False, np.zeros(1), first))

        with pytest.raises(RunInUse, match="not shown"):
            finish()
        assert slow.recall("q") is None
        with pytest.raises(RunInUse):  # nor as if there had been none before
            slow.save_run("r", SavedRun({}, 0, 0, True, np.zeros(1)))
        quick.save_run("r", SavedRun({}, 2, 3, False, np.zeros(1), second))
        found = slow.load_run("r")
        assert found is not None
        assert (found.fired, found.asked, found.generation) == (2, 3, 3)


def test_a_ledger_written_before_generations_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    with Ledger(path, CAP) as ledger:
        ledger.save_run("r", SavedRun({}, 1, 2, False, np.zeros(1)))
        ledger._db.execute("ALTER TABLE runs DROP COLUMN generation")
    with Ledger(path, CAP) as ledger:
        saved = ledger.load_run("r")
        assert saved is not None
        assert (saved.fired, saved.asked, saved.generation) == (1, 2, 1)
        assert ledger.save_run("r", saved) == 2
