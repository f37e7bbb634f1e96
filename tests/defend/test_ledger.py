"""The budget's file: durable, shared, exact, and never forgetful."""

from __future__ import annotations

import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from keyhole.defend.budget import Budget, Cap, epsilon_budget
from keyhole.defend.ledger import Ledger, SavedRun
from keyhole.defend.loss import Loss, exact, positive, probability, rounded_up
from keyhole.errors import BudgetExhausted, ConfigError, PrivacyParameterError

ONE = Cap(Loss.of_epsilon(1))


def test_a_second_run_continues_the_first(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    with Ledger(path, ONE) as first:
        first.spend(Loss.of_epsilon("0.4"), what="one")
    with Ledger(path, ONE) as second:
        assert second.left() == Fraction(3, 5)
        with pytest.raises(BudgetExhausted) as refused:
            second.spend(Loss.of_epsilon("0.7"))
        assert (refused.value.remaining, refused.value.requested) == (Fraction(3, 5), Fraction(7, 10))
        second.spend(Loss.of_epsilon("0.6"), what="two")
        assert [(c.amount, c.what) for c in second.charges()] == [(Fraction(2, 5), "one"), (Fraction(3, 5), "two")]


def test_the_cap_is_the_ledgers_not_the_runs(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    with Ledger(path, ONE) as ledger:
        ledger.spend(Loss.of_epsilon(1))
    with Ledger(path, Cap(Loss.of_epsilon("1.5"))) as raised:
        assert raised.left() == Fraction(1, 2)
    with Ledger(path, Cap(Loss.of_epsilon("0.5"))) as lowered:
        assert lowered.left() == Fraction(-1, 2)
        with pytest.raises(BudgetExhausted):
            lowered.spend(Loss.of_epsilon("0.0001"))


def test_another_unit_or_other_neighbours_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    Ledger(path, ONE).close()
    with pytest.raises(PrivacyParameterError, match="counts another unit: unit is 'epsilon' there and 'rho' here"):
        Ledger(path, Cap(Loss.of_rho(1)))
    with pytest.raises(PrivacyParameterError, match="other neighbours"):
        Ledger(path, Cap(Loss.of_epsilon(1, 0, "add-remove")))
    with Ledger(path, ONE) as ledger:
        assert ledger.left() == 1
        with pytest.raises(PrivacyParameterError, match="never mixed"):
            ledger.spend(Loss.of_epsilon(1, 0, "add-remove"))
        with pytest.raises(PrivacyParameterError, match="counts epsilon, and a rho"):
            ledger.spend(Loss.of_rho(1))
        assert ledger.left() == 1


def test_rho_budgets_take_pure_epsilon_by_the_theorem() -> None:
    budget = Budget(Cap(Loss.of_rho(1)))
    budget.spend(Loss.of_epsilon(1))
    assert budget.left() == Fraction(1, 2)
    with pytest.raises(PrivacyParameterError, match="delta"):
        budget.spend(Loss.of_epsilon("0.1", "1e-6"))
    assert budget.left() == Fraction(1, 2)


def test_delta_is_a_budget_too() -> None:
    budget = epsilon_budget(10, "1e-6")
    budget.spend(Loss.of_epsilon(1, "1e-6"))
    with pytest.raises(BudgetExhausted, match="delta"):
        budget.spend(Loss.of_epsilon(1, "1e-9"))
    budget.spend(Loss.of_epsilon(9))
    assert budget.left() == 0
    assert budget.delta_left() == 0


def test_a_change_of_data_is_a_new_version_and_nothing_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    with Ledger(path, ONE, version="1", domain="d") as ledger:
        ledger.attach("aaaa")
        ledger.spend(Loss.of_epsilon("0.5"))
        ledger.remember("q", {"x": 1})
        ledger.save_run("r", SavedRun({}, 1, 2, True, np.zeros(3)))
    with Ledger(path, ONE, version="1", domain="d") as same:
        same.attach("aaaa")
        assert same.recall("q") == {"x": 1}
        saved = same.load_run("r")
        assert saved is not None
        assert (saved.fired, saved.asked, saved.open) == (1, 2, True)
        with pytest.raises(ConfigError, match="new version"):
            same.attach("bbbb")
    with Ledger(path, ONE, version="2", domain="d") as new:
        new.attach("bbbb")
        assert new.left() == Fraction(1, 2)
        assert new.recall("q") is None
        assert new.load_run("r") is None


def test_other_data_is_refused_under_another_domain_too(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    with Ledger(path, ONE, version="1", domain="d") as ledger:
        ledger.attach("aaaa")
    with Ledger(path, ONE, version="1", domain="e") as ledger:
        ledger.attach("aaaa")
        with pytest.raises(ConfigError, match="new version"):
            ledger.attach("bbbb")


def test_a_ledger_from_before_there_were_keyed_digests(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    with Ledger(path, ONE, version="1", domain="d") as ledger:
        ledger._db.execute("INSERT INTO data VALUES ('1', 'd', 'counted')")
    with Ledger(path, ONE, version="1", domain="d") as ledger:
        with pytest.raises(ConfigError, match="new version"):
            ledger.attach("aaaa", "other counts")
        assert ledger.digest() is None
        ledger.attach("aaaa", "counted")
        assert ledger.digest() == "aaaa"


def test_a_rehearsal_knows_the_ledger_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    with Ledger(path, ONE) as ledger:
        ledger.attach("aaaa")
        ledger.spend(Loss.of_epsilon("0.4"))
    with Ledger.rehearsal(path, ONE) as copy:
        with pytest.raises(ConfigError, match="new version"):
            copy.attach("bbbb")
        copy.spend(Loss.of_epsilon("0.6"))
        assert copy.left() == 0
    with Ledger(path, ONE) as ledger:
        assert ledger.left() == Fraction(3, 5)


def test_a_file_that_is_no_ledger(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    path.write_text("this is not a database, " * 100)
    with pytest.raises(ConfigError, match="cannot be opened"):
        Ledger(path, ONE)
    with pytest.raises(ConfigError, match="cannot be opened"):
        Ledger(tmp_path / "no such folder" / "b.keyhole", ONE)
    Ledger(tmp_path / "new.keyhole", ONE).close()
    assert (tmp_path / "new.keyhole").stat().st_mode & 0o077 == 0  # for the custodian alone


def test_a_failed_transaction_leaves_nothing(tmp_path: Path) -> None:
    with Ledger(tmp_path / "b.keyhole", ONE) as ledger:

        def half_done() -> None:
            with ledger.transaction():
                ledger.spend(Loss.of_epsilon("0.5"))
                raise RuntimeError

        with pytest.raises(RuntimeError):
            half_done()
        assert ledger.left() == 1
        ledger.spend(Loss.of_epsilon("0.5"))


def test_analysts_must_be_known() -> None:
    budget = Budget(Cap.declared(Loss.of_epsilon(1), {"alice": 0.3}))
    with pytest.raises(ConfigError, match="say who asks"):
        budget.spend(Loss.of_epsilon("0.1"))
    with pytest.raises(ConfigError, match="'eve' has no budget"):
        budget.spend(Loss.of_epsilon("0.1"), analyst="eve")
    with pytest.raises(BudgetExhausted, match="for alice"):
        budget.spend(Loss.of_epsilon("0.4"), analyst="alice")
    with pytest.raises(ConfigError, match="everybody"):
        Cap.declared(Loss.of_epsilon(1), {"*": 1})
    assert budget.left("alice") == Fraction(3, 10)


@pytest.mark.parametrize("epsilon", [0, -1, "-0.5", "nan", "inf", "x"])
def test_bad_epsilon(epsilon: str | int) -> None:
    with pytest.raises(PrivacyParameterError, match="epsilon must be"):
        Loss.of_epsilon(epsilon)


@pytest.mark.parametrize("delta", [1, 2, -0.1, "nan"])
def test_bad_delta(delta: str | float) -> None:
    with pytest.raises(PrivacyParameterError, match="delta must be"):
        Loss.of_epsilon(1, delta)


def test_numbers_are_read_as_written() -> None:
    assert exact(0.1) == Fraction(1, 10)
    assert positive("1e-3", "x") == Fraction(1, 1000)
    assert probability(0, "delta", zero=True) == 0
    assert rounded_up(0.1) >= Fraction(0.1)
    with pytest.raises(PrivacyParameterError, match="beta"):
        probability(0, "beta")


SPENDER = """
import sys
from keyhole.defend.budget import Cap
from keyhole.defend.ledger import Ledger
from keyhole.defend.loss import Loss
with Ledger(sys.argv[1], Cap(Loss.of_epsilon(1000))) as ledger:
    while True:
        ledger.spend(Loss.of_epsilon("0.5"))
        sys.stdout.write("x")
        sys.stdout.flush()
"""


def test_no_acknowledged_charge_is_lost_when_killed(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    acknowledged = 0
    for seen in (1, 30):
        child = subprocess.Popen([sys.executable, "-c", SPENDER, str(path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.read(seen)
        child.send_signal(signal.SIGKILL)
        acknowledged += seen + len(child.stdout.read())
        child.stdout.close()
        child.wait()
        with Ledger(path, Cap(Loss.of_epsilon(1000))) as ledger:
            charged = ledger.spent() * 2
            assert acknowledged <= charged <= acknowledged + 2  # at most one unacknowledged a kill
            assert len(ledger.charges()) == charged
        acknowledged = int(charged)


def test_processes_share_one_cap(tmp_path: Path) -> None:
    path = tmp_path / "b.keyhole"
    text = SPENDER.replace("1000", "10").replace("while True:", "for _ in range(15):")
    call = [sys.executable, "-c", text, str(path)]
    children = [subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    outputs = [child.communicate() for child in children]
    assert sum(len(out) for out, _ in outputs) == 20
    assert all(b"BudgetExhausted" in err for _, err in outputs if err)
    with Ledger(path, Cap(Loss.of_epsilon(10))) as ledger:
        assert ledger.left() == 0
