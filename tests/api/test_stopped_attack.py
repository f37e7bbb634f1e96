"""Ctrl-C in every phase of an attack, by a real SIGINT: the best so far is kept, and called stopped."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from keyhole.api import attack as attack_verb
from keyhole.api import attack_guess
from keyhole.api.attack import attack_log
from keyhole.api.attack_result import Attacked, AttackTerms
from keyhole.attacks.methods import METHODS
from keyhole.cli.shared.interruption import ask_to_stop
from keyhole.config import Config
from keyhole.config.settings import settings, with_private
from keyhole.logs.open import as_log
from keyhole.solve.status import SolverStatus

N = 12
WITHOUT_STEPS = (
    "least-squares",
    "convex",
)  # a direct solver, and one that is not ours: they end soon, or by themselves
REALS = "min = 0\nmax = 1\n"
BITS = "min = 0\nmax = 1\nstep = 1\n"


def log(exact: bool = False, disjoint: bool = False) -> list[dict[str, object]]:
    rng = np.random.default_rng(3)
    lines: list[dict[str, object]] = []
    for j in range(30):
        who = [3 * (j % 4), 3 * (j % 4) + 1, 3 * (j % 4) + 2] if disjoint else np.flatnonzero(rng.random(N) < 0.5)
        if disjoint and j > 3:
            break
        line: dict[str, object] = {"sql": f"SELECT SUM(v) FROM t WHERE p IN ({', '.join(map(str, who))})"}
        line["answer"] = len(who) // 2 if exact else round(float(len(who) / 2 + rng.normal(0, 1)), 3)
        lines.append(line if exact else line | {"noise": {"kind": "gaussian", "scale": 1}})
    return lines


def go(lines: list[dict[str, object]], method: str, column: str, at: Callable[[str], None] | None = None) -> Attacked:
    config = Config.parse(f"[columns]\nid = ['p']\n[columns.private.v]\n{column}")
    given = with_private(settings(config, data=pa.table({"p": list(range(N))}), table="t"))
    progress = None if at is None else lambda text, _done, _of: at(text)
    return attack_log(
        as_log(lines, None), given, AttackTerms(method=method), progress=progress, interruptible=ask_to_stop
    )


def interrupt(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.001)  # the handler runs between two steps of the interpreter


def interrupt_and_wait(*_: object, **__: object) -> None:
    interrupt()
    raise AssertionError("not interrupted")


@pytest.mark.parametrize("method", [m for m in METHODS if m not in WITHOUT_STEPS])
def test_the_best_so_far_of_every_method(method: str) -> None:
    column = {"integer": BITS, "conjugate-gradient": "", "jacobi": "", "extended-kaczmarz": ""}.get(method, REALS)
    before = signal.getsignal(signal.SIGINT)
    seen: list[str] = []

    def once(text: str) -> None:
        seen.append(text)
        if len(seen) == 1:
            interrupt()

    found = go(log(disjoint=method == "integer"), method, column, once)
    (_, _, guess) = found.found[0]
    assert guess.status is SolverStatus.INTERRUPTED
    assert np.isfinite(guess.values).all()
    assert (guess.confidence > 0).all()
    assert len(seen) == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_groups_that_were_computed_stay_computed() -> None:
    found = go(log(exact=True, disjoint=True), "integer", BITS, interrupt).found[0][2]
    assert found.status is SolverStatus.INTERRUPTED
    assert found.confidence[:3] == pytest.approx([2 / 3] * 3)  # one of three is 1
    assert found.confidence[3:] == pytest.approx([1 / 2] * 9)


def test_ctrl_c_while_ranges_are_proved_keeps_the_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack_guess, "proved_ranges", interrupt_and_wait)
    found = go(log(exact=True, disjoint=True), "auto", BITS)
    assert found.found[0][2].status is SolverStatus.OPTIMAL
    assert not found.ranges
    assert any("interrupted before ranges were proved" in said for said in found.to_json()["warnings"])
    assert "interrupted" in found.to_json()["note"]


def test_ctrl_c_while_the_guess_is_made_again_keeps_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    first = go(log(exact=True, disjoint=True), "auto", BITS).found[0][2]
    run, calls = attack_guess.run_attack, []

    def slower(*args: object, **named: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            interrupt()
        return run(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(attack_guess, "run_attack", slower)
    monkeypatch.setattr(attack_guess, "_again", lambda *_: True)
    found = go(log(exact=True, disjoint=True), "auto", BITS).found[0][2]
    assert len(calls) == 2
    assert found.status is first.status
    assert found.confidence.tolist() == first.confidence.tolist()


def test_ctrl_c_while_counts_of_people_are_read_keeps_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack_verb, "shown_rows", interrupt_and_wait)
    found = go(log(exact=True, disjoint=True), "auto", BITS)
    assert found.found[0][2].status is SolverStatus.OPTIMAL
    assert found.features == ()


def test_a_second_ctrl_c_ends_it() -> None:
    with ask_to_stop() as stop:
        stop()
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            stop()
        with pytest.raises(KeyboardInterrupt):
            interrupt()
