"""An oracle with a memory on disk: each answer is written down before it is used, so a run goes on where it ended."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import numpy as np

from keyhole.errors import ConfigError, ModelError
from keyhole.oracle.base import YesNoOracle
from keyhole.oracle.tails import Floats
from keyhole.oracle.targets import Levelled, TargetDown

try:
    import fcntl
except ImportError:  # pragma: no cover - no advisory locks on this platform
    fcntl = None  # type: ignore[assignment]

TRIES = 5
FIRST_WAIT = 0.2  # seconds, doubled at each try
PRESSED = "Ctrl-C was pressed"


class BudgetReached(Exception):
    """No more answers: all that may be asked for were, or somebody pressed Ctrl-C. Its text says which."""


class Recorded:
    """A target that is asked at most `budget` times, `rate` times a second, five times where it fails.

    `record` is JSONL, one {"target", "query", "threshold", "above"} an answer (with levels {"query", "thresholds",
    "level"}), durable before it is given. The attack is deterministic, so after a crash it asks the same again: what is
    in the record is read, and what follows is asked. An answer to another question than was asked, or of a target of
    another name, is an error: the record belongs to another attack. `name` holds no password.

    Where `stop` says so (Ctrl-C was pressed) nothing more is asked. `waiting`: the target has the word; who interrupts
    then raises KeyboardInterrupt, else would wait with it.
    """

    def __init__(
        self,
        target: YesNoOracle,
        record: Path | None,
        *,
        name: str = "",
        budget: int | None = None,
        rate: float | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._target, self._path, self._budget, self._rate = target, record, budget, rate
        self._name, self._stop, self.waiting = name, stop, False
        self._file = None if record is None else _alone(record)
        self._known: list[dict[str, Any]] = [] if record is None else self._recorded(record)
        self._last = 0.0
        self.asked = self.recalled = self.failed = 0

    def _recorded(self, record: Path) -> list[dict[str, Any]]:
        """The answers so far; the file then ends with its last whole line."""
        assert self._file is not None
        try:
            found = _read(record)
        except Exception:
            self.close()
            raise
        self._file.truncate(record.read_bytes().rfind(b"\n") + 1)
        return found

    def above(self, q: Floats, threshold: float) -> int:
        """The next answer: from the record, else from the target."""
        question = {"query": [float(v) for v in np.asarray(q)], "threshold": float(threshold)}
        return self._next(question, "above", lambda: self._target.above(q, threshold))

    def level(self, q: Floats, thresholds: Floats) -> int:
        """How many of the thresholds are exceeded, of a target that has levels."""
        if not isinstance(self._target, Levelled):
            raise ConfigError("--levels is for a web address or a Python function; a statement says yes or no")
        target = self._target
        question = {"query": [float(v) for v in np.asarray(q)], "thresholds": [float(v) for v in thresholds]}
        return self._next(question, "level", lambda: target.level(q, thresholds))

    def _next(self, question: dict[str, Any], name: str, ask: Callable[[], int]) -> int:
        if self._stop():
            raise BudgetReached(PRESSED)
        if self.asked < len(self._known):
            line = self._known[self.asked]
            if line.get("target", "") != self._name:
                raise ConfigError(
                    f"{self._path}, line {self.asked + 1}: the record is of another target "
                    f"({str(line.get('target', 'nobody said which'))[:80]}); give another --record"
                )
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
        if self._file is not None:
            of = {"target": self._name} if self._name else {}
            self._file.write(json.dumps({**of, **question, name: said}) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        self.asked += 1
        return said

    def _asked_for(self, ask: Callable[[], int]) -> int:
        """An answer, if nobody presses Ctrl-C meanwhile (an engine may turn that into an error of its own)."""
        self.waiting = True
        try:
            return self._ask(ask)
        except KeyboardInterrupt:
            raise BudgetReached(PRESSED) from None
        except Exception:
            if self._stop():
                raise BudgetReached(PRESSED) from None
            raise
        finally:
            self.waiting = False

    def _ask(self, ask: Callable[[], int]) -> int:
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
                    kept = (
                        f"; {self.asked:,} answers are in {self._path}, the same command goes on" if self._path else ""
                    )
                    raise ConfigError(f"the target failed {TRIES} times in a row ({error}){kept}") from None
                time.sleep(wait)
                wait *= 2
        raise AssertionError("the last try returns or raises")

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
            answer = said["above"] if "above" in said else said["level"]
            most = 1 if "above" in said else len(said["thresholds"])
            if type(answer) is not int or not 0 <= answer <= most or not isinstance(said["query"], list):
                raise ValueError(answer)
            found.append(said)
        except (ValueError, KeyError, TypeError):
            raise ModelError(f"{path}, line {number} is not an answer that was recorded: {line[:60]!r}") from None
    return found


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
