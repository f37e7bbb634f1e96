"""Pages of the dashboard: login, eight screens, and a stream that tells the browser when something changed.

For the owner alone. A page is made here whole; the script fetches its middle again when the stream says so. Whom a
denied statement would expose is shown behind a click, and that click is written into the book's log of questions.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import statistics
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import Depends, FastAPI, Form, Request
from starlette.responses import RedirectResponse, Response

from keyhole.book import EVERYBODY
from keyhole.book.state import BookState
from keyhole.errors import KeyholeError
from keyhole.model.query import Refused
from keyhole.report.book import describe_accounts, describe_entry, list_spending
from keyhole.report.charts.drawing import Drawing
from keyhole.report.documents.sessions import SpendingStep
from keyhole.report.html.page import Tile, load_templates, read_style
from keyhole.report.html.sessions import draw_spending
from keyhole.report.replies import explain_admission
from keyhole.serve.errors import Problem, ProblemKind
from keyhole.serve.gate import Gate, Population
from keyhole.serve.guard import Guard, read_cookie, respond_problem
from keyhole.serve.http import NotForYou, audit_command, book_path, reach, run_command, stream_events
from keyhole.serve.keys import ApiKey, KeyRole
from keyhole.sessions.audited import Audited
from keyhole.sessions.session import Session

if TYPE_CHECKING:
    from jinja2 import Environment

COOKIE = "keyhole_session"
LOGIN_SECONDS = 8 * 3600
MOST_LOGINS = 100
LISTED = 100  # rows of a table
LOOKED_AT = 2_000  # entries that a search looks at
SCREENS = {
    "now": "Now",
    "analysts": "Analysts",
    "spending": "Budget",
    "statements": "Statements",
    "denials": "Denials",
    "versions": "Data versions",
    "policy": "Policy",
    "check": "Check",
}
STATIC = {"style.css": "text/css", "dashboard.js": "text/javascript"}


@dataclass(frozen=True, slots=True)
class Login:
    """An owner who is logged in; `csrf` stands in every form."""

    digest: str  # of the key: a revoked key ends the login
    csrf: str
    until: float


def _reader(request: Request) -> ApiKey:
    dashboard: Dashboard = request.app.state.dashboard
    found = dashboard.find_login(request)
    if found is None:
        raise NotForYou(Problem(ProblemKind.KEY, "log in at /dashboard/login"))
    return found[1]


def _writer(request: Request, csrf: Annotated[str, Form(max_length=100)] = "") -> ApiKey:
    dashboard: Dashboard = request.app.state.dashboard
    found = dashboard.find_login(request)
    if found is None or not hmac.compare_digest(found[0].csrf.encode(), csrf.encode()):
        raise NotForYou(Problem(ProblemKind.ROLE, "this form is not of this login: load the page again"))
    return found[1]


Reader = Annotated[ApiKey, Depends(_reader)]  # a login
Writer = Annotated[ApiKey, Depends(_writer)]  # a login, and a form of its own pages
PopulationField = Annotated[str | None, Form(max_length=200)]


@dataclass(slots=True)
class CheckRun:
    """A check of the book: under way, or what it said."""

    running: bool = True
    verify: str = ""
    audit: str = ""
    report: str = ""


@dataclass(slots=True)
class Dashboard:
    """The screens of one gate, and who is logged in. Logins are in memory: a restart ends them."""

    gate: Gate
    guard: Guard
    code: str = ""
    logins: OrderedDict[str, Login] = field(default_factory=OrderedDict)  # digest of the cookie -> who
    checks: dict[str, CheckRun] = field(default_factory=dict)
    spending: dict[str, tuple[BookState, list[SpendingStep]]] = field(default_factory=dict)  # up to an entry
    running: set[asyncio.Task[None]] = field(default_factory=set)

    # --- who ----------------------------------------------------------------------------------------------------------

    def find_login(self, request: Request) -> tuple[Login, ApiKey] | None:
        """Who is logged in, if the key still is one."""
        found = self.logins.get(_digest(read_cookie(request.scope, COOKIE)))
        if found is None or time.time() > found.until:
            return None
        key = self.gate.keys.find_digest(found.digest)
        return None if key is None or key.role is not KeyRole.OWNER else (found, key)

    def open_login(self, key: ApiKey) -> Response:
        """A cookie that scripts cannot read, for this dashboard alone."""
        cookie = secrets.token_urlsafe(32)
        self.logins[_digest(cookie)] = Login(key.digest, secrets.token_urlsafe(32), time.time() + LOGIN_SECONDS)
        while len(self.logins) > MOST_LOGINS:
            self.logins.popitem(last=False)
        response = RedirectResponse("/dashboard", 303)
        response.set_cookie(
            COOKIE, cookie, LOGIN_SECONDS, path="/dashboard", secure=self.guard.secure, httponly=True, samesite="strict"
        )
        return response

    def match_secret(self, text: str) -> ApiKey | None:
        """The owner's key for what was typed: the key itself, or the code of the demo, once."""
        if self.code and hmac.compare_digest(self.code.encode(), text.encode()):
            self.code = ""
            return next((key for key in self.gate.keys.keys if key.role is KeyRole.OWNER), None)
        key = self.gate.keys.find(text)
        return key if key is not None and key.role is KeyRole.OWNER else None

    # --- routes -------------------------------------------------------------------------------------------------------

    def add_to(self, app: FastAPI) -> None:
        """Its paths."""
        app.state.dashboard = self
        self._add_login(app)
        self._add_actions(app)
        self._add_screens(app)

    def _add_login(self, app: FastAPI) -> None:
        @app.get("/dashboard/static/{name}", include_in_schema=False)
        async def static(name: str) -> Response:
            if name not in STATIC:
                return respond_problem(Problem(ProblemKind.NOT_FOUND, "there is nothing at this path"))
            return Response(read_static(name), media_type=STATIC[name], headers={"cache-control": "max-age=300"})

        @app.get("/dashboard/login", include_in_schema=False)
        async def ask_login() -> Response:
            return _respond_html(_render("login.html.jinja", wrong=False, demo=bool(self.code)))

        @app.post("/dashboard/login", include_in_schema=False)
        async def login(request: Request, secret: Annotated[str, Form(max_length=200)] = "") -> Response:
            key = self.match_secret(secret.strip())
            if key is not None:
                return self.open_login(key)
            problem = self.guard.refuse_key(request.scope)
            if problem.kind is ProblemKind.RATE:
                return respond_problem(problem)
            return _respond_html(_render("login.html.jinja", wrong=True, demo=bool(self.code)), 401)

        @app.post("/dashboard/logout", include_in_schema=False)
        async def logout(request: Request, key: Writer) -> Response:
            self.logins.pop(_digest(read_cookie(request.scope, COOKIE)), None)
            response = RedirectResponse("/dashboard/login", 303)
            response.delete_cookie(COOKIE, path="/dashboard")
            return response

    def _add_actions(self, app: FastAPI) -> None:
        @app.get("/dashboard/live", include_in_schema=False)
        async def live(key: Reader, population: str | None = None) -> Response:
            found = reach(self.gate, population, key)
            return stream_events(self.gate, found, found.session.book.state.seq, key)

        @app.post("/dashboard/check", include_in_schema=False)
        async def check(key: Writer, population: PopulationField = None) -> Response:
            found = reach(self.gate, population, key)
            if found.name not in self.checks or not self.checks[found.name].running:
                task = asyncio.create_task(self.run_check(found))
                self.running.add(task)
                task.add_done_callback(self.running.discard)
            return RedirectResponse(_link("check", found.name), 303)

        @app.post("/dashboard/reveal", include_in_schema=False)
        async def reveal(
            key: Writer, number: Annotated[int, Form(ge=0)], population: PopulationField = None
        ) -> Response:
            found = reach(self.gate, population, key)
            lines = await self.gate.on_book(found, lambda _: reveal_denial(self.gate, found, number, key.name))
            return self.respond_screen("reveal", found, key, lambda: {"lines": lines})

        @app.get("/dashboard/report", include_in_schema=False)
        async def report(key: Reader, population: str | None = None) -> Response:
            run = self.checks.get(reach(self.gate, population, key).name)
            if run is None or not run.report:
                return respond_problem(Problem(ProblemKind.NOT_FOUND, "there is no report yet: run the check"))
            policy = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
            return _respond_html(run.report, headers={"content-security-policy": policy})

    def _add_screens(self, app: FastAPI) -> None:
        @app.get("/dashboard", include_in_schema=False)
        @app.get("/dashboard/{screen}", include_in_schema=False)
        async def show(
            request: Request, screen: str = "now", population: str | None = None, q: str = "", before: int = 0
        ) -> Response:
            login = self.find_login(request)
            if login is None:
                return RedirectResponse("/dashboard/login", 303)
            if screen not in SCREENS:
                return respond_problem(Problem(ProblemKind.NOT_FOUND, "there is no such screen"))
            names = sorted(name for name in self.gate.populations if login[1].may_reach(name))
            found = reach(self.gate, population or (names[0] if names else None), login[1])
            content = await self.gate.on_book(found, lambda _: self.describe(screen, found, q[:200], before))
            return self.respond_screen(screen, found, login[1], lambda: content, login[0].csrf)

    def respond_screen(
        self, screen: str, found: Population, key: ApiKey, describe: Callable[[], Mapping[str, Any]], csrf: str = ""
    ) -> Response:
        """One screen in its frame."""
        page = _render(
            f"{screen}.html.jinja",
            screen=screen,
            screens=SCREENS,
            population=found.name,
            populations=sorted(name for name in self.gate.populations if key.may_reach(name)),
            owner=key.name,
            csrf=csrf,
            link=_link,
            **describe(),
        )
        return _respond_html(page)

    # --- screens ------------------------------------------------------------------------------------------------------

    def describe(self, screen: str, found: Population, wanted: str, before: int) -> dict[str, Any]:
        """What a screen shows; on the thread that owns the book."""
        match screen:
            case "now":
                return self.describe_now(found)
            case "analysts":
                return {"rows": list(self.list_analysts(found))}
            case "spending":
                cap = found.find_cap()
                unit = found.session.book.state.budget.get("unit", "epsilon") if cap is None else str(cap.unit)
                return {"drawing": self.draw_budget(found, unit), "unit": unit, "accounts": list_accounts(found)}
            case "statements":
                return {"rows": list_statements(found.session, wanted, before), "wanted": wanted}
            case "denials":
                total = sum(found.session.book.store.count_refusals().values())
                first = max(0, total - LISTED)
                return {"rows": list(enumerate(found.session.book.refusals(first), first))[::-1], "total": total}
            case "versions":
                state = found.session.book.state
                return {
                    "rows": [(n, each["version"] or "", n in state.people) for n, each in enumerate(state.epochs, 1)]
                }
            case "policy":
                return {"rows": list(list_settings(found)), "file": found.config.name}
            case _:
                return {"run": self.checks.get(found.name)}

    def describe_now(self, found: Population) -> dict[str, Any]:
        """What is under way, and what ended last."""
        now, endings = time.time(), found.endings
        median = statistics.median(each.seconds for each in endings) * 1000 if endings else 0
        denied = sum(each.outcome == "deny" for each in endings)
        flights = self.gate.list_flights(found.name)
        try:
            health, mood = found.describe_health(), ""
        except KeyholeError as error:
            health, mood = str(error), "bad"
        if found.trouble:
            health, mood = f"{health} The latest question was not written down: {found.trouble}", "bad"
        tiles = [
            Tile(str(len(flights)), "under way"),
            Tile(str(found.count_lately()), "ended in the last minute"),
            Tile(f"{median:.0f} ms", "median of the latest"),
            Tile(str(denied), f"denied of the latest {len(endings)}", "warn" if denied else ""),
            Tile(f"{found.session.book.state.seq:,}", "entries in the book", mood),
        ]
        return {
            "tiles": tiles,
            "flights": [
                (each.analyst, each.door, each.stage, f"{now - each.since:.1f} s", each.sql) for each in flights
            ],
            "endings": [
                (each.at, each.analyst, each.door, each.outcome, f"{each.seconds * 1000:.0f} ms")
                for each in reversed(endings)
            ],
            "health": health,
        }

    def draw_budget(self, found: Population, unit: str) -> Drawing | None:
        """The curves of a budget: of a book that is long, what was written since somebody looked last is read."""
        book = found.session.book
        if not book.state.totals:
            return None
        state, steps = self.spending.setdefault(found.name, (BookState(), []))
        steps += list_spending(book.entries(state.seq), state, found.find_cap())
        ends = [describe_entry(book.entry(seq)) for seq in (1, state.seq)]
        return draw_spending(steps, ends[0], ends[1], unit)

    def list_analysts(self, found: Population) -> Iterator[tuple[str, ...]]:
        """Everybody who has a key or asked something."""
        state, seen = found.session.book.state, found.seen
        counts = found.session.book.store.count_refusals()
        denied = Counter({who: count for (who, verdict), count in counts.items() if verdict == "deny"})
        refused = Counter({who: count for (who, verdict), count in counts.items() if verdict == "refused"})
        keys = {key.name: key for key in self.gate.keys.keys if key.may_reach(found.name)}
        for name in sorted({*keys, *state.heard, *filter(None, denied), *filter(None, refused)} - {EVERYBODY}):
            key = keys.get(name)
            account = found.find_account(name) if found.has_share(name) else None
            yield (
                name,
                "" if key is None else f"{key.role} {key.prefix}…",
                "no key" if key is None else key.expires or "never",
                f"{float(found.find_spent(name)):.4g}" if account is not None else "",
                f"{float(account.left):.4g}" if account is not None else "",
                str(len(state.heard.get(name, ()))),
                str(denied[name]),
                str(refused[name]),
                seen.get(name, ""),
            )

    async def run_check(self, found: Population) -> None:
        """`keyhole book verify` and an audit of the book, in processes of their own."""
        run = self.checks[found.name] = CheckRun()
        try:
            witness = found.session.book.witness
            seen_by = [] if witness is None else ["--witness", str(witness.path.resolve())]
            code, text = await run_command(found, ["book", "verify", book_path(found), *seen_by])
            run.verify = text.strip() if code == 0 else f"keyhole book verify ended with exit code {code}"
            code, page = await run_command(found, audit_command(found, "html"))
            words = {0: "nobody is exposed", 1: "somebody is exposed or inferred", 3: "not everything could be judged"}
            run.audit = f"keyhole audit: {words.get(code, 'it could not run')} (exit code {code})"
            run.report = page if code in words else ""
        except TimeoutError:
            run.audit = run.audit or "the check took too long and was ended: run it on the command line"
        finally:
            run.running = False
            self.gate.tell_change()


# --- from the book ----------------------------------------------------------------------------------------------------


def list_accounts(found: Population) -> list[tuple[str, str]]:
    """Who spent how much."""
    accounts = describe_accounts(found.session.book.state, found.find_cap())
    return [
        ("everybody together" if who == EVERYBODY else who, f"{float(Fraction(account.amount)):.6g}")
        for who, account in accounts.items()
    ]


def list_statements(session: Session[Any], wanted: str, before: int) -> list[tuple[int, str, str, str, str, str]]:
    """Statements of the book with their receipts, newest first; `wanted` is a part of their text or of a name."""
    last = min(before - 1, session.book.state.seq) if before > 0 else session.book.state.seq
    first = max(0, last - LOOKED_AT)
    rows = []
    for entry in islice(session.book.entries(first), last - first):
        sql = entry.body.get("sql")
        if entry.kind in ("answer", "release", "published", "unjudged") and sql:
            row = (entry.seq, entry.at, entry.analyst or "", str(entry.kind), str(sql), entry.hash)
            if wanted.lower() in f"{row[2]} {row[4]}".lower():
                rows.append(row)
    return rows[::-1][:LISTED]


def list_settings(found: Population) -> Iterator[tuple[str, str]]:
    """The settings as they were read. Where the data are is left out: a data URL may have a password."""
    config = found.given.config
    yield "policy", found.policy
    for name in ("online", "book", "budget", "serve"):
        yield from _list_fields(name, getattr(config, name))
    for name, declared in config.columns.private.items():
        yield from _list_fields(f"private {name}", declared)
    for column in found.schema.columns:
        yield f"column {column.name}", f"{column.role}, {column.kind}"


def _list_fields(name: str, table: Any) -> Iterator[tuple[str, str]]:
    for each in fields(table):
        value = getattr(table, each.name)
        if value is None or value == () or value == {} or (isinstance(value, str) and "://" in value):
            continue
        if is_dataclass(value):
            yield from _list_fields(f"{name} {each.name}", value)
        else:
            yield f"{name} {each.name}", str(value)


def reveal_denial(gate: Gate, found: Population, number: int, owner: str) -> list[str]:
    """Whom a statement that was denied would expose if it were answered now; that somebody looked is written down."""
    session = found.session
    refusals = session.book.refusals(number, 1)
    if not refusals:
        return ["there is no such statement"]
    sql = refusals[0][2]
    session.book.note_refusal(sql, "revealed", f"{owner} looked at whom it would expose", owner)
    policy = session.policy
    if not isinstance(policy, Audited):
        return [sql, "answers of this policy are noisy: no statement of it exposes anybody by itself"]
    try:
        _, request = gate.read(found, sql, owner)
        if isinstance(request, str | Refused):
            return [sql, request if isinstance(request, str) else request.reason]
        with session.book.page():
            policy.catch_up()
            admission = policy.admission(request, explain=True)
    except KeyholeError as error:
        return [sql, str(error)]
    return [sql, f"now: {admission.verdict}", *explain_admission(admission)]


# --- HTML -------------------------------------------------------------------------------------------------------------


@cache
def _templates() -> Environment:
    return load_templates("keyhole.report.html", "keyhole.serve.dashboard")


def _render(template: str, **content: object) -> str:
    return _templates().get_template(template).render(**content)


@cache
def read_static(name: str) -> str:
    """The style sheet of all pages with a few lines of the dashboard, or its script."""
    own = files("keyhole.serve.dashboard").joinpath("templates", name.replace("style", "dashboard"))
    text = own.read_text(encoding="utf-8")
    return read_style() + text if name == "style.css" else text


def _respond_html(page: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(page, status, headers, "text/html; charset=utf-8")


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogateescape")).hexdigest()


def _link(screen: str, population: str) -> str:
    return f"/dashboard/{screen}?population={quote(population, safe='')}"
