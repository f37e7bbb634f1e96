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

import numpy as np

from keyhole.errors import ConfigError, ModelError
from keyhole.oracle.base import YesNoOracle
from keyhole.oracle.tails import Floats

YES, NO = (True, 1, "yes", "true", "1"), (False, 0, "no", "false", "0")
TIMEOUT = 30.0  # seconds


class TargetDown(ConnectionError):
    """The target could not be reached, or failed: it may be asked again."""


class HttpTarget:
    """Posts {"query": [...], "threshold": t} and reads {"above": true}; true/false, 1/0, yes/no alone will do, too.

    A failing connection, a time-out and the statuses 429 and 5xx are `TargetDown` (ask again); any other answer that is
    not yes or no is an error, never "no".
    """

    def __init__(self, url: str) -> None:
        self.url, self.asked = url, 0

    def above(self, q: Floats, threshold: float) -> int:
        """Ask once."""
        body = json.dumps({"query": [float(v) for v in q], "threshold": float(threshold)}).encode()
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
                text = reply.read(1 << 16).decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            if error.code == 429 or error.code >= 500:
                raise TargetDown(f"{self.url} answered with status {error.code}") from None
            raise ConfigError(f"{self.url} answered with status {error.code}: is it the right address?") from None
        except (OSError, http.client.HTTPException) as error:
            raise TargetDown(f"{self.url}: {error}") from None
        self.asked += 1
        try:
            said = json.loads(text)
        except ValueError:
            said = text.strip()
        return bit(said.get("above") if isinstance(said, dict) else said, self.url)


class FunctionTarget:
    """module:function, called as function(query, threshold)."""

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
        self._function: Callable[[Floats, float], object] = found
        self.name, self.asked = name, 0

    def above(self, q: Floats, threshold: float) -> int:
        """Call it once."""
        said = self._function(q, threshold)
        self.asked += 1
        return bit(said, self.name)


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
