"""Real targets: whatever says yes or no. A web address, a statement on a database, a Python function."""

from __future__ import annotations

import base64
import hashlib
import http.client
import importlib
import json
import math
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from keyhole.errors import ConfigError, ModelError
from keyhole.oracles.noise import Floats

YES, NO = (True, 1, "yes", "true", "1"), (False, 0, "no", "false", "0")
TIMEOUT = 30.0  # seconds


class TargetDown(ConnectionError):
    """The target could not be reached, or failed: it may be asked again."""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows nowhere: a question that is posted would be sent on without its body, and what came back be no answer."""

    def redirect_request(self, *_: object) -> None:
        return None


class HttpTarget:
    """Posts {"query": [...], "threshold": t} and reads {"above": true}; true/false, 1/0, yes/no alone will do, too.

    A failing connection, a time-out and the statuses 429 and 5xx are `TargetDown` (ask again); any other answer that is
    not yes or no is an error, never "no". `user:password@` is sent as basic authentication. `name` is the address as it
    may be shown and recorded: with the user (another user may be told another thing) and no password, and with a digest
    for what follows the question mark and for a user without a password, which may be a key. An '@' after the host is
    refused: before it may stand a password.

    >>> HttpTarget("http://ann:secret@example.org:8000/above?key=12").name
    'http://ann@example.org:8000/above?sha256=3e2348dea45b'
    """

    def __init__(self, url: str) -> None:
        self.asked = 0
        try:
            parts = urllib.parse.urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            host = None
        astray = host and "@" in parts.path + parts.query + parts.fragment
        if not host or astray or any(letter <= " " or letter == "\x7f" for letter in url):
            raise ConfigError("TARGET: that is no web address; write http://HOST:PORT/PATH, other characters as %XX")
        who, _, netloc = parts.netloc.rpartition("@")
        self._url = urllib.parse.urlunsplit((parts.scheme, netloc, parts.path, parts.query, ""))
        told = f"sha256={_digest(parts.query)}" if parts.query else ""
        user, colon, _ = who.partition(":")
        shown = f"{user if colon else 'sha256-' + _digest(user)}@{netloc}" if user else netloc
        self.name = urllib.parse.urlunsplit((parts.scheme, shown, parts.path, told, ""))
        self._headers = {"Content-Type": "application/json"}
        if who:
            pair = base64.b64encode(urllib.parse.unquote_to_bytes(who)).decode()
            self._headers["Authorization"] = f"Basic {pair}"
        self._opener = urllib.request.build_opener(_Stay)

    def above(self, q: Floats, threshold: float) -> int:
        """Ask once."""
        said = self.post({"query": [float(v) for v in q], "threshold": float(threshold)})
        return read_bit(said.get("above") if isinstance(said, dict) else said, self.name)

    def level(self, q: Floats, thresholds: Floats) -> int:
        """Ask once: {"query": [...], "thresholds": [...]}, answered by {"level": 2}."""
        said = self.post({"query": [float(v) for v in q], "thresholds": [float(v) for v in thresholds]})
        return read_level(said.get("level") if isinstance(said, dict) else said, len(thresholds), self.name)

    def post(self, question: dict[str, object]) -> object:
        """What is said to a question, as JSON or as a word."""
        request = urllib.request.Request(self._url, json.dumps(question).encode(), self._headers)
        try:
            with self._opener.open(request, timeout=TIMEOUT) as reply:
                text = reply.read(1 << 16).decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 429 or error.code >= 500:
                raise TargetDown(f"{self.name} answered with status {error.code}") from None
            asked = "is it the right address?"
            if error.code in (401, 403):
                asked = "it lets nobody in without leave; http://user:password@... sends a name and password"
            raise ConfigError(f"{self.name} answered with status {error.code}: {asked}") from None
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or str(error) or type(error).__name__
            raise TargetDown(f"{self.name}: {why}") from None
        except ValueError:
            raise ConfigError(f"{self.name}: no web address that can be asked") from None
        self.asked += 1
        try:
            return json.loads(text)
        except ValueError:
            return text.strip()


def import_named(option: str, name: str) -> object:
    """What module:attribute names, the value of an option; modules of the current folder are found."""
    module, _, attribute = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` has it
    try:
        named: object = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:  # its text may be the module's own: what is missing is a name
        raise ConfigError(f"{option} {name}: no module named {error.name!r} is found from here") from None
    except AttributeError:
        raise ConfigError(f"{option} {name}: the module {module} has no {attribute}") from None
    except Exception as error:
        raise ConfigError(f"{option} {name}: {module} cannot be imported ({type(error).__name__})") from None
    return named


class FunctionTarget:
    """module:function, called as function(query, threshold).

    ConnectionError and TimeoutError are `TargetDown` (call again); any other exception is an error.
    """

    def __init__(self, name: str) -> None:
        function = import_named("TARGET", name)
        if not callable(function):
            raise ConfigError(f"TARGET {name} is not a function of a query and a threshold")
        self._function: Callable[[Floats, float | Floats], object] = function
        self.name, self.asked = name, 0

    def above(self, q: Floats, threshold: float) -> int:
        """Call it once."""
        return read_bit(self._called(q, threshold), self.name)

    def level(self, q: Floats, thresholds: Floats) -> int:
        """Call it once, with a list of thresholds."""
        return read_level(self._called(q, thresholds), len(thresholds), self.name)

    def _called(self, q: Floats, at: float | Floats) -> object:
        try:
            said = self._function(q, at)
        except (ConnectionError, TimeoutError) as error:
            raise TargetDown(f"{self.name}: {type(error).__name__}") from None
        except Exception as error:  # its text may hold anything, a password or an answer: it is not repeated
            raise ConfigError(f"{self.name} failed: {type(error).__name__}") from None
        self.asked += 1
        return said


class StatementTarget:
    """SQL with {threshold} and {ids}: `SELECT SUM(pay) > {threshold} FROM staff WHERE name IN ({ids})`.

    A query has 0 or 1 for each id; `ask` runs the text and returns what the database says.
    """

    def __init__(self, text: str, ids: Sequence[str], ask: Callable[[str], object], data: str = "") -> None:
        missing = [word for word in ("{threshold}", "{ids}") if word not in text]
        if missing:
            raise ConfigError(f"TARGET: the statement has no {missing[0]}; write where it goes")
        self._text, self._ids, self._ask, self.asked = text, tuple(ids), ask, 0
        self.name = f"{text.strip()} on {data}" if data else text.strip()

    def statement(self, q: Floats, threshold: float) -> str:
        """The text of one question."""
        if not np.isin(q, (0, 1)).all() or not np.any(q):
            raise ModelError("a statement with {ids} takes queries of 0 and 1, not all 0")
        named = ", ".join(f"'{name.replace(chr(39), chr(39) * 2)}'" for name, v in zip(self._ids, q, strict=True) if v)
        return self._text.replace("{threshold}", repr(float(threshold))).replace("{ids}", named)

    def above(self, q: Floats, threshold: float) -> int:
        """Ask once."""
        said = self._ask(self.statement(q, threshold))
        self.asked += 1
        if said is None:
            raise ModelError(
                "the database answered with NULL, which is neither yes nor no: these ids have no value that the "
                "statement sums; leave them out, or write COALESCE(SUM(...), 0)"
            )
        return read_bit(said, "the database")


def read_bit(said: object, whose: str) -> int:
    """Yes or no, or an error: what is neither is no answer.

    >>> read_bit("Yes", "it"), read_bit(0, "it")
    (1, 0)
    """
    word = said.item() if isinstance(said, np.generic) else said
    word = word.strip().lower() if isinstance(word, str) else word
    if not isinstance(word, str | int | float) or (isinstance(word, float) and not math.isfinite(word)):
        word = None
    if word in YES:
        return 1
    if word in NO:
        return 0
    raise ModelError(f"{whose} answered with {read_shape(said)}, which is neither yes nor no")


def read_shape(said: object) -> str:
    """What an answer is like, without a word of it: it may be the secret.

    >>> read_shape("Ann earns 51,000"), read_shape(None), read_shape(0.25)
    ('text of 16 characters', 'null', 'a number of 4 characters')
    """
    if said is None:
        return "null"
    kinds = {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return f"{kinds.get(type(said), f'a {type(said).__name__}')} of {len(str(said))} characters"


def read_level(said: object, most: int, whose: str) -> int:
    """A whole number from 0 to `most`, or an error.

    >>> read_level(2, 3, "it")
    2
    """
    if isinstance(said, bool) or not isinstance(said, int | np.integer) or not 0 <= said <= most:
        raise ModelError(f"{whose} answered with {read_shape(said)}, which is no level from 0 to {most}")
    return int(said)


def open_target(text: str) -> HttpTarget | FunctionTarget:
    """The target of this name, if it is no statement."""
    if text.lower().startswith(("http://", "https://")):
        return HttpTarget(text)
    if "://" in text:  # may hold a password: not repeated
        raise ConfigError("TARGET: a web address begins with http:// or https://")
    if re.fullmatch(r"[^\W\d][\w.]*:[^\W\d]\w*", text):
        return FunctionTarget(text)
    shown = f" {text!r}" if re.fullmatch(r"[\w.]+", text) else ""  # a mistyped address may hold a password
    raise ConfigError(f"TARGET{shown} is not http://..., a SELECT, or module:function")
