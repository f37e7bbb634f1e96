"""An oracle with a memory on disk: each answer is written down before it is used, so a run goes on where it ended."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO, TypeVar

import numpy as np

from keyhole.errors import ConfigError, ModelError
from keyhole.oracles.base import LevelOracle, YesNoOracle
from keyhole.oracles.noise import Floats
from keyhole.oracles.targets import TargetDown

try:
    import fcntl
except ImportError:  # pragma: no cover - no advisory locks on this platform
    fcntl = None  # type: ignore[assignment]

TRIES = 5
FIRST_WAIT = 0.2  # seconds, doubled at each try
PRESSED = "Ctrl-C was pressed"
Answer = TypeVar("Answer")


class BudgetReached(Exception):
    """No more answers: all that may be asked for were, or somebody pressed Ctrl-C. Its text says which."""


class PatientCaller:
    """Calls at most `rate` times a second, and five times, slower each time, where a target fails."""

    def __init__(self, rate: float | None = None) -> None:
        self._rate, self._last, self.failed = rate, 0.0, 0

    def call(self, ask: Callable[[], Answer], kept: Callable[[], str] = lambda: "") -> Answer:
        """What it says; `kept` says, where it fails for good, what is not lost."""
        wait = FIRST_WAIT
        for attempt in range(1, TRIES + 1):
            if self._rate is not None:
                time.sleep(max(0.0, self._last + 1 / self._rate - time.monotonic()))
            self._last = time.monotonic()
            try:
                return ask()
            except TargetDown as error:
                self.failed += 1
                if attempt == TRIES:
                    raise ConfigError(f"the target failed {TRIES} times in a row ({error}){kept()}") from None
                time.sleep(wait)
                wait *= 2
        raise AssertionError("the last try returns or raises")


class Recorded:
    """A target that is asked at most `budget` times, `rate` times a second, five times where it fails.

    `record` is JSONL, one {"target", "asks", "query", "threshold", "above"} an answer (with levels {"query",
    "thresholds", "level"}), durable before it is given. The attack is deterministic, so after a crash it asks the same
    again: what is in the record is read, and what follows is asked. An answer to another question than was asked, of a
    target of another name, or under other terms (`asks`, a digest of whose entries they are and of all that
    decides the questions) is an error: the record belongs to another attack. `name` holds no password.

    `resumed`: its answers are of more than one run; the first of a later one has "resumed" in its line. `withdrawn`:
    why an attack with this record certified nothing, in a line of its own; no later attack with it may.

    Where `stop` says so (Ctrl-C was pressed) nothing more is asked. `waiting`: the target has the word; who interrupts
    then raises KeyboardInterrupt, else would wait with it.
    """

    def __init__(
        self,
        target: YesNoOracle,
        record: Path | None,
        *,
        name: str = "",
        asks: str = "",
        budget: int | None = None,
        rate: float | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._target, self._path, self._budget, self._caller = target, record, budget, PatientCaller(rate)
        self._name, self._asks, self._stop, self.waiting = name, asks, stop, False
        self._file = None if record is None else _alone(record)
        self._answers = list[tuple[tuple[float, ...], float, int]]()  # query, threshold, yes or no
        try:
            told = [] if record is None else self._recorded(record)
            self.withdrawn = "; ".join(str(line["withdrawn"]) for line in told if "withdrawn" in line)
            self._known = [line for line in told if "withdrawn" not in line]
            self.resumed = any("resumed" in line for line in self._known)
            for line in self._known:
                self._noted(line)
        except BaseException:
            self.close()
            raise
        self.asked = self.recalled = 0

    def _recorded(self, record: Path) -> list[dict[str, Any]]:
        """The answers so far; the file then ends with its last whole line."""
        assert self._file is not None
        found = _read(record)
        self._same_attack(found)
        self._file.truncate(record.read_bytes().rfind(b"\n") + 1)
        return found

    def _same_attack(self, lines: list[dict[str, Any]]) -> None:
        """Every line is of this target, and was asked under these terms."""
        for number, line in enumerate(lines, 1):
            if line.get("target", "") != self._name:
                raise ConfigError(
                    f"{self._path}, line {number}: the record is of another target "
                    f"({str(line.get('target', 'nobody said which'))[:80]}); give another --record"
                )
            if line.get("asks", "") != self._asks:
                raise ConfigError(
                    f"{self._path}, line {number}: the record is of another attack (other entries or their order, "
                    "queries, range, noise, learner or checks): its answers would be given to others; "
                    "give another --record"
                )

    def _noted(self, line: dict[str, Any]) -> None:
        if "above" in line:
            self._answers.append((tuple(line["query"]), line["threshold"], line["above"]))

    def contradicted(self) -> bool:
        """Is one query's answer above a threshold and not above a lower one, in what was asked or is in the record?

        Answers without noise of a target that stays as it is never are. Cost: one pass.
        """
        above, below = dict[tuple[float, ...], float](), dict[tuple[float, ...], float]()
        for q, at, yes in self._answers:
            ends, pick = (above, max) if yes else (below, min)
            ends[q] = pick(ends.get(q, at), at)
        return any(q in below and at >= below[q] for q, at in above.items())

    def withdraw(self, why: str) -> None:
        """Write down that nothing may be certified with this record."""
        if not self.withdrawn:
            self.withdrawn = why
            self._write({"withdrawn": why})

    def above(self, q: Floats, threshold: float) -> int:
        """The next answer: from the record, else from the target."""
        question = {"query": [float(v) for v in np.asarray(q)], "threshold": float(threshold)}
        return self._next(question, "above", lambda: self._target.above(q, threshold))

    def level(self, q: Floats, thresholds: Floats) -> int:
        """How many of the thresholds are exceeded, of a target that has levels."""
        if not isinstance(self._target, LevelOracle):
            raise ConfigError("--levels is for a web address or a Python function; a statement says yes or no")
        target = self._target
        question = {"query": [float(v) for v in np.asarray(q)], "thresholds": [float(v) for v in thresholds]}
        return self._next(question, "level", lambda: target.level(q, thresholds))

    def _next(self, question: dict[str, Any], name: str, ask: Callable[[], int]) -> int:
        if self._stop():
            raise BudgetReached(PRESSED)
        if self.asked < len(self._known):
            line = self._known[self.asked]
            if {key: line.get(key) for key in question} != question or name not in line:
                raise ConfigError(
                    f"{self._path}, line {self.asked + 1}: the record is of another attack (other queries, noise or "
                    "bounds); give another --record"
                )
            self.asked += 1
            self.recalled += 1
            return int(line[name])
        if self._budget is not None and self.asked >= self._budget:
            raise BudgetReached("the budget was reached")
        said = self._asked_for(ask)
        line = {**question, name: said}
        if self.recalled and self.recalled == self.asked:  # the first of this run, after others of an earlier one
            line["resumed"] = self.resumed = True
        self._write(line)
        self._noted(line)
        self.asked += 1
        return said

    @property
    def failed(self) -> int:
        """How often the target failed and was asked again."""
        return self._caller.failed

    def _kept(self) -> str:
        return f"; {self.asked:,} answers are in {self._path}, the same command goes on" if self._path else ""

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is not None:
            of = {"target": self._name} if self._name else {}
            under = {"asks": self._asks} if self._asks else {}
            self._file.write(json.dumps({**of, **under, **line}) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def _asked_for(self, ask: Callable[[], int]) -> int:
        """An answer, if nobody presses Ctrl-C meanwhile (an engine may turn that into an error of its own)."""
        self.waiting = True
        try:
            return self._caller.call(ask, self._kept)
        except KeyboardInterrupt:
            raise BudgetReached(PRESSED) from None
        except Exception:
            if self._stop():
                raise BudgetReached(PRESSED) from None
            raise
        finally:
            self.waiting = False

    def close(self) -> None:
        """Let go of the record."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read(path: Path) -> list[dict[str, Any]]:
    """The answers so far; a last line that was cut off in a crash is not one."""
    found = []
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            said = json.loads(line)
            if isinstance(said.get("withdrawn"), str):
                found.append(said)
                continue
            answer = said["above"] if "above" in said else said["level"]
            most = 1 if "above" in said else len(said["thresholds"])
            if type(answer) is not int or not 0 <= answer <= most or not _of_numbers(said):
                raise ValueError(answer)
            found.append(said)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ModelError(f"{path}, line {number} is not an answer that was recorded") from None
    return found


def _of_numbers(said: dict[str, Any]) -> bool:
    at = [said["threshold"]] if "above" in said else said["thresholds"]
    return isinstance(said["query"], list) and all(type(v) in (int, float) for v in (*said["query"], *at))


def _alone(path: Path) -> TextIO:
    """The record, open to write after its end, and nobody else's as long as it is open."""
    try:
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ConfigError(f"{path} is in use by another run: wait for its end, or give another --record") from None
    return file
