"""Real targets: whatever says yes or no. A web address, a statement on a database, a Python function."""

from __future__ import annotations

import http.client
import importlib
import json
import math
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from keyhole.errors import ConfigError, ModelError
from keyhole.oracle.base import YesNoOracle
from keyhole.oracle.tails import Floats

YES, NO = (True, 1, "yes", "true", "1"), (False, 0, "no", "false", "0")
TIMEOUT = 30.0  # seconds


class TargetDown(ConnectionError):
    """The target could not be reached, or failed: it may be asked again."""


@runtime_checkable
class Levelled(Protocol):
    """A target that can say how many of several thresholds its answer exceeds."""

    def level(self, q: Floats, thresholds: Floats) -> int:
        """0 to len(thresholds)."""


class HttpTarget:
    """Posts {"query": [...], "threshold": t} and reads {"above": true}; true/false, 1/0, yes/no alone will do, too.

    A failing connection, a time-out and the statuses 429 and 5xx are `TargetDown` (ask again); any other answer that is
    not yes or no is an error, never "no".
    """

    def __init__(self, url: str) -> None:
        self.url, self.asked = url, 0

    def above(self, q: Floats, threshold: float) -> int:
        """Ask once."""
        said = self._post({"query": [float(v) for v in q], "threshold": float(threshold)})
        return bit(said.get("above") if isinstance(said, dict) else said, self.url)

    def level(self, q: Floats, thresholds: Floats) -> int:
        """Ask once: {"query": [...], "thresholds": [...]}, answered by {"level": 2}."""
        said = self._post({"query": [float(v) for v in q], "thresholds": [float(v) for v in thresholds]})
        return a_level(said.get("level") if isinstance(said, dict) else said, len(thresholds), self.url)

    def _post(self, question: dict[str, object]) -> object:
        body = json.dumps(question).encode()
        try:
            request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
                text = reply.read(1 << 16).decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            if error.code == 429 or error.code >= 500:
                raise TargetDown(f"{self.url} answered with status {error.code}") from None
            raise ConfigError(f"{self.url} answered with status {error.code}: is it the right address?") from None
        except (OSError, http.client.HTTPException) as error:
            raise TargetDown(f"{self.url}: {error}") from None
        except ValueError as error:
            raise ConfigError(f"--oracle {self.url}: {error}") from None
        self.asked += 1
        try:
            return json.loads(text)
        except ValueError:
            return text.strip()


class FunctionTarget:
    """module:function, called as function(query, threshold).

    ConnectionError and TimeoutError are `TargetDown` (call again); any other exception is an error.
    """

    def __init__(self, name: str) -> None:
        module, _, attribute = name.partition(":")
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))  # as `python -m` has it
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(f"--oracle {name}: {error}") from None
        if not callable(found):
            raise ConfigError(f"--oracle {name} is not a function of a query and a threshold")
        self._function: Callable[[Floats, float | Floats], object] = found
        self.name, self.asked = name, 0

    def above(self, q: Floats, threshold: float) -> int:
        """Call it once."""
        return bit(self._called(q, threshold), self.name)

    def level(self, q: Floats, thresholds: Floats) -> int:
        """Call it once, with a list of thresholds."""
        return a_level(self._called(q, thresholds), len(thresholds), self.name)

    def _called(self, q: Floats, at: float | Floats) -> object:
        try:
            said = self._function(q, at)
        except (ConnectionError, TimeoutError) as error:
            raise TargetDown(f"{self.name}: {error}") from None
        except Exception as error:
            raise ConfigError(f"{self.name} failed: {type(error).__name__}: {error}") from error
        self.asked += 1
        return said


class StatementTarget:
    """SQL with {threshold} and {ids}: `SELECT SUM(pay) > {threshold} FROM staff WHERE name IN ({ids})`.

    A query has 0 or 1 for each id; `ask` runs the text and returns what the database says.
    """

    def __init__(self, text: str, ids: Sequence[str], ask: Callable[[str], object]) -> None:
        missing = [word for word in ("{threshold}", "{ids}") if word not in text]
        if missing:
            raise ConfigError(f"--oracle: the statement has no {missing[0]}; write where it goes")
        self._text, self._ids, self._ask, self.asked = text, tuple(ids), ask, 0

    def above(self, q: Floats, threshold: float) -> int:
        """Ask once."""
        if not np.isin(q, (0, 1)).all() or not np.any(q):
            raise ModelError("a statement with {ids} takes queries of 0 and 1, not all 0")
        named = ", ".join(f"'{name.replace(chr(39), chr(39) * 2)}'" for name, v in zip(self._ids, q, strict=True) if v)
        said = self._ask(self._text.replace("{threshold}", repr(float(threshold))).replace("{ids}", named))
        self.asked += 1
        return bit(said, "the database")


def bit(said: object, whose: str) -> int:
    """Yes or no, or an error: what is neither is no answer.

    >>> bit("Yes", "it"), bit(0, "it")
    (1, 0)
    """
    word = said.strip().lower() if isinstance(said, str) else said
    if isinstance(word, float) and not math.isfinite(word):
        word = None
    if word in YES:
        return 1
    if word in NO:
        return 0
    raise ModelError(f"{whose} answered {str(said)[:60]!r}, which is neither yes nor no")


def a_level(said: object, most: int, whose: str) -> int:
    """A whole number from 0 to `most`, or an error.

    >>> a_level(2, 3, "it")
    2
    """
    if isinstance(said, bool) or not isinstance(said, int | np.integer) or not 0 <= said <= most:
        raise ModelError(f"{whose} answered {str(said)[:60]!r}, which is no level from 0 to {most}")
    return int(said)


def target_of(text: str, ids: Sequence[str], ask: Callable[[str], object] | None) -> YesNoOracle:
    """The target that `--oracle` names."""
    if text.startswith(("http://", "https://")):
        return HttpTarget(text)
    if text.split(maxsplit=1)[0].upper() == "SELECT" if text.strip() else False:
        if ask is None:
            raise ConfigError("--oracle SELECT ... runs on a table: name it with --data, --id and --private")
        return StatementTarget(text, ids, ask)
    if ":" in text:
        return FunctionTarget(text)
    raise ConfigError(f"--oracle {text!r} is not http://..., a SELECT, or module:function")
