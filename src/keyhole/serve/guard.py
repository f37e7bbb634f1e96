"""What every HTTP request passes before anything of it is parsed, and what every response carries.

Host and Origin (a page elsewhere must not reach a server on loopback), the size of the body and the time it takes, the
key, its rate; then security headers, and one place where an unforeseen error ends with its type alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from keyhole.report.documents.json_text import dumps
from keyhole.serve.errors import Problem, ProblemKind
from keyhole.serve.gate import Gate
from keyhole.serve.keys import ApiKey
from keyhole.serve.limits import TokenBuckets

log = logging.getLogger("keyhole.serve")
KEY = "keyhole.key"  # where a request keeps whose it is
MOST_BODY = 192 * 1024  # bytes: a statement of 64 kB, however it is escaped
MOST_HEADERS = 16 * 1024
SECONDS_TO_SEND = 10.0  # for the head of a request, and for its body
SECONDS_TO_TAKE = 30.0  # for a client that does not read
WRONG_KEYS_A_MINUTE = 30  # of one address
KEYED = ("/v1/", "/mcp", "/metrics")  # paths that need a key; the dashboard has a login of its own
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}


class SlowClientProtocol(H11Protocol):
    """HTTP/1.1 for clients that may be slow on purpose: one that does not send a head in time, the first or a later
    one, or does not take what is sent, is let go.
    """

    _sending: asyncio.TimerHandle | None = None  # until a head is whole
    _taking: asyncio.TimerHandle | None = None  # until the client has taken what was sent

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A head is due."""
        super().connection_made(transport)
        self._sending = self.loop.call_later(SECONDS_TO_SEND, transport.close)

    def data_received(self, data: bytes) -> None:
        """Part of a head, or of a body: those of a body are counted where it is read."""
        if self._sending is None and (self.cycle is None or self.cycle.response_complete):
            self._sending = self.loop.call_later(SECONDS_TO_SEND, self.transport.close)
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._sending = _stop_clock(self._sending)

    def pause_writing(self) -> None:
        """What was sent waits for the client."""
        super().pause_writing()
        self._taking = self._taking or self.loop.call_later(SECONDS_TO_TAKE, self.transport.abort)

    def resume_writing(self) -> None:
        """It has taken it."""
        super().resume_writing()
        self._taking = _stop_clock(self._taking)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._sending, self._taking = _stop_clock(self._sending), _stop_clock(self._taking)
        super().connection_lost(exc)


def _stop_clock(clock: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    if clock is not None:
        clock.cancel()
    return None


def respond_problem(problem: Problem) -> Response:
    """A problem as RFC 9457 has it."""
    row = problem.row
    body = {"type": "about:blank", "title": row.title, "status": row.status, "detail": problem.detail}
    body |= {"code": str(problem.kind), "sqlstate": row.sqlstate}
    for name in ("instead", "position", "retry_after"):
        if (value := getattr(problem, name)) is not None:
            body[name] = value
    headers = {"www-authenticate": "Bearer"} if problem.kind is ProblemKind.KEY else {}
    if problem.retry_after is not None:
        headers["retry-after"] = str(problem.retry_after)
    return Response(dumps(body), row.status, headers, "application/problem+json")


def read_cookie(scope: Scope, name: str) -> str:
    """A cookie of a request; "" if there is none."""
    try:
        found = SimpleCookie(find_header(scope, b"cookie")).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


def find_header(scope: Scope, name: bytes) -> str:
    """A header of a request; "" if there is none. One that is there twice counts as none."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else ""


class Guard:
    """The outermost layer of the HTTP door."""

    def __init__(self, app: ASGIApp, gate: Gate, hosts: Iterable[str], *, secure: bool = False) -> None:
        self.app, self.gate, self.secure = app, gate, secure
        self.hosts = {host.lower() for host in hosts}
        self.wrong_keys = TokenBuckets()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = self._add_headers(message.get("headers", ()))
            await send(message)

        try:
            found = self._examine(scope)
            body = found if isinstance(found, Problem) else await self._read_body(scope, receive)
            if isinstance(body, Problem):
                await respond_problem(body)(scope, receive, send_with_headers)
            else:
                if scope["path"] == "/mcp":  # what is mounted is behind a slash
                    scope = {**scope, "path": "/mcp/", "raw_path": b"/mcp/"}
                await self.app(scope, _Replayed(body, receive), send_with_headers)
        except Exception as error:
            log.error("a request to the HTTP door met %s", type(error).__name__)
            if not begun:
                problem = Problem(ProblemKind.INTERNAL, f"this request was not answered ({type(error).__name__})")
                await respond_problem(problem)(scope, receive, send_with_headers)

    def _add_headers(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        present = {name.lower() for name, _ in headers}
        more = HEADERS | ({"strict-transport-security": "max-age=31536000"} if self.secure else {})
        return [*headers, *((n.encode(), v.encode()) for n, v in more.items() if n.encode() not in present)]

    def _examine(self, scope: Scope) -> Problem | None:
        """From the head alone."""
        host, origin = find_header(scope, b"host").lower(), find_header(scope, b"origin").lower()
        if host not in self.hosts:
            return Problem(
                ProblemKind.REQUEST, "this server is not called that: name it in hosts = [...] under [serve]"
            )
        if origin and origin not in {f"{scheme}://{name}" for scheme in ("http", "https") for name in self.hosts}:
            return Problem(ProblemKind.ROLE, "pages of other servers may not ask here")
        length = find_header(scope, b"content-length")
        if length and (not length.isdigit() or int(length) > MOST_BODY):
            return Problem(ProblemKind.TOO_LARGE, f"at most {MOST_BODY:,} bytes are read")
        path = scope["path"]
        if not path.startswith(KEYED):
            return None
        key = self.find_key(scope, find_header(scope, b"authorization"))
        if isinstance(key, Problem):
            return key
        scope[KEY] = key
        return self.gate.throttle(key)

    def find_key(self, scope: Scope, authorization: str) -> ApiKey | Problem:
        """Whose request it is. An address that has sent many wrong keys is not looked at for a while."""
        word, _, text = authorization.partition(" ")
        found = self.gate.keys.find(text.strip()) if word.lower() == "bearer" else None
        if found is not None:
            return found
        return self.refuse_key(scope)

    def refuse_key(self, scope: Scope) -> Problem:
        """401, and 429 for an address from which wrong keys keep coming."""
        address = scope["client"][0] if scope.get("client") else "?"
        wait = self.wrong_keys.take(address, WRONG_KEYS_A_MINUTE, WRONG_KEYS_A_MINUTE)
        if wait:
            return Problem(ProblemKind.RATE, "too many wrong keys came from this address", retry_after=int(wait) + 1)
        return Problem(ProblemKind.KEY, "send a key that is known here: Authorization: Bearer kh_...")

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes | Problem:
        """All of it, before anybody parses it."""
        if scope["method"] in ("GET", "HEAD"):
            return b""
        parts, size = [], 0
        try:
            async with asyncio.timeout(SECONDS_TO_SEND):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return Problem(ProblemKind.CANCELLED, "the client went away")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > MOST_BODY:
                        return Problem(ProblemKind.TOO_LARGE, f"at most {MOST_BODY:,} bytes are read")
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            return Problem(ProblemKind.REQUEST, f"the request took more than {SECONDS_TO_SEND:.0f} s to arrive")


class _Replayed:
    """A body that was read, for whoever reads it next."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        return dict(await self._receive())
