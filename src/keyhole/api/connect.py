"""`keyhole.connect`: questions to a server, with the words of a session."""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import ssl
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from keyhole.errors import ConfigError, ServerError
from keyhole.model.predicate import Scalar
from keyhole.report.documents.json_text import read_json
from keyhole.sessions.reply import Outcome

KEY = "KEYHOLE_KEY"  # the environment variable that has a key
ENDINGS = {"deny": Outcome.DENIED, "answered": Outcome.ANSWERED, "allow": Outcome.ALLOWED}
REFUSALS = ("deny", "refused", "syntax", "column", "budget", "accuracy", "too-large")
Cell = Scalar | Decimal | None


@dataclass(frozen=True, slots=True)
class RemoteReply:
    """What a server says to a question. `bars` are error bars where noise was added, `code` says what was wrong."""

    sql: str
    outcome: Outcome
    reason: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    bars: tuple[tuple[Cell, ...], ...] | None = None
    cost: Cell = None
    left: Cell = None
    unit: str | None = None
    instead: str | None = None
    entry: int | None = None
    receipt: str | None = None
    code: str = ""

    @property
    def answered(self) -> bool:
        """Was it answered, or would it be?"""
        return self.outcome in (Outcome.ANSWERED, Outcome.ALLOWED)


class Client:
    """A connection to the HTTP door of `keyhole serve`. One thread at a time."""

    def __init__(self, url: str, key: str, *, population: str | None = None, timeout: float = 120.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise ConfigError(f"{parts.hostname or url!r} is no address of a server: write https://HOST:PORT")
        if parts.scheme == "http" and not _is_loopback(parts.hostname):
            raise ConfigError(f"the key would be readable on the way to {parts.hostname}: write https://")
        self._population, self._path = population, parts.path.rstrip("/")
        self._headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        self._connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context()
            self._connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout, context=context)
        else:
            self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)

    def ask(self, text: str) -> RemoteReply:
        """One question: its rows, or why there are none. Raises ServerError if the server does not take it."""
        return self._question("/v1/query", text)

    def check(self, text: str) -> RemoteReply:
        """What would become of a question; nothing is answered, spent or written."""
        return self._question("/v1/check", text)

    def ask_all(self, texts: list[str]) -> list[RemoteReply]:
        """Several questions, one after the other."""
        return [self.ask(text) for text in texts]

    def schema(self) -> dict[str, Any]:
        """Names, kinds and roles of the columns."""
        return self._call("GET", "/v1/schema")[1]

    def budget(self) -> dict[str, Any]:
        """One's own account."""
        return self._call("GET", "/v1/budget")[1]

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _question(self, path: str, text: str) -> RemoteReply:
        status, body = self._call("POST", path, {"sql": text, "population": self._population})
        if status == 200:
            return RemoteReply(
                sql=text,
                outcome=ENDINGS[body["outcome"]],
                columns=tuple(body.get("columns", ())),
                rows=tuple(map(tuple, body.get("rows", ()))),
                bars=tuple(map(tuple, body["bars"])) if "bars" in body else None,
                cost=body.get("cost"),
                left=body.get("left"),
                unit=body.get("unit"),
                entry=body.get("entry"),
                receipt=body.get("receipt"),
            )
        outcome = ENDINGS.get(body["code"], Outcome.REFUSED)
        return RemoteReply(text, outcome, body["detail"], instead=body.get("instead"), code=body["code"])

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        if method == "GET" and self._population is not None:
            path = f"{path}?{urlencode({'population': self._population})}"
        sent = None if body is None else json.dumps({k: v for k, v in body.items() if v is not None})
        try:
            self._connection.request(method, self._path + path, sent, self._headers)
            answer = self._connection.getresponse()
            read = read_json(answer.read().decode("utf-8"))
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._connection.close()
            raise ServerError(
                f"the server did not answer ({type(error).__name__}): asked again, nothing is paid twice"
            ) from None
        if answer.status == 200 or read.get("code") in REFUSALS:
            return answer.status, read
        raise ServerError(
            f"{read.get('title')}: {read.get('detail')}", status=answer.status, wait=read.get("retry_after")
        )


def connect(url: str, key: str | None = None, *, population: str | None = None) -> Client:
    """A client of the server at `url`; the key is that of the environment variable KEYHOLE_KEY if none is given.

    `population` names the people to ask about, where the key reaches several. Needs no extra.
    """
    found = key or os.environ.get(KEY)
    if not found:
        raise ConfigError(f"no key: give key=... or put it into the environment variable {KEY}")
    return Client(url, found, population=population)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
