"""The HTTP door: questions for analysts; book, denials, versions, events, audit and metrics for the owner."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import msgspec
from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response, StreamingResponse

from keyhole.book import BookEntry
from keyhole.book.store import is_in_postgres
from keyhole.report.book import describe_entry
from keyhole.report.documents.json_text import dumps, json_fraction, to_builtins
from keyhole.serve.errors import ERRORS, Problem, ProblemKind, explain_error
from keyhole.serve.gate import Gate, Outcome, Population
from keyhole.serve.guard import KEY, Guard, respond_problem
from keyhole.serve.keys import ApiKey, KeyRole
from keyhole.serve.replies import AccountBudget, AnsweredQuestion, DescribedTable, list_cells
from keyhole.sessions.session import Session
from keyhole.version import __version__

MOST_ENTRIES = 500  # of a book in one response
AUDIT_SECONDS = 600.0
HEARTBEAT = 15.0  # seconds between two signs of life of an event stream
CellBody = int | float | str | bool | None


class StrictBody(BaseModel):
    """A body whose fields are these and no others."""

    model_config = ConfigDict(strict=True, extra="forbid")


class QuestionBody(StrictBody):
    """One SELECT of aggregates. `population` may be left out where the key reaches one only."""

    sql: str = Field(min_length=1, max_length=64 * 1024)
    population: str | None = Field(default=None, max_length=200)


class AnswerBody(StrictBody):
    """Rows as the SELECT list has them. `bars` are error bars of noisy numbers: they hold with probability 1 - beta."""

    outcome: str
    sql: str
    columns: list[str]
    rows: list[list[CellBody]]
    exact: bool
    bars: list[list[CellBody]] | None = None
    beta: float | None = None
    cost: float | None = None
    left: float | None = None
    unit: str | None = None
    notes: list[str] = []
    entry: int | None = None
    receipt: str | None = None


class CheckBody(StrictBody):
    """It would be answered now, for this price."""

    outcome: str
    sql: str
    cost: float | None = None
    unit: str | None = None
    notes: list[str] = []


class ColumnBody(StrictBody):
    name: str
    kind: str
    role: str


class SchemaBody(StrictBody):
    population: str
    table: str
    policy: str
    columns: list[ColumnBody]


class BudgetBody(StrictBody):
    analyst: str
    unit: str | None = None
    spent: float | None = None
    left: float | None = None
    asked_today: int
    per_day: int | None = None


class ProblemBody(StrictBody):
    type: str
    title: str
    status: int
    detail: str
    code: str
    sqlstate: str
    instead: str | None = None
    position: int | None = None
    retry_after: int | None = None


class BookPage(StrictBody):
    """Entries behind number `after`, oldest first; ask again with `next` until there are none."""

    entries: list[dict[str, Any]]
    next: int


class DenialPage(StrictBody):
    """What was asked and not answered."""

    denials: list[dict[str, Any]]
    next: int


class VersionList(StrictBody):
    versions: list[dict[str, Any]]


class HealthBody(StrictBody):
    status: str
    populations: list[dict[str, Any]] | None = None


class AuditRequest(StrictBody):
    population: str | None = Field(default=None, max_length=200)


class AuditBody(StrictBody):
    """What `keyhole audit` of the book says; `exit_code` is its exit code."""

    exit_code: int
    verdict: dict[str, Any]


# --- who asks ---------------------------------------------------------------------------------------------------------


def _key(request: Request) -> ApiKey:
    found = request.scope[KEY]
    assert isinstance(found, ApiKey)
    return found


class NotForYou(Exception):
    """A request that ends with a problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def _owner(request: Request) -> ApiKey:
    key = _key(request)
    if key.role is not KeyRole.OWNER:
        raise NotForYou(Problem(ProblemKind.ROLE, "this is for the owner's key"))
    return key


Caller = Annotated[ApiKey, Depends(_key)]
Owner = Annotated[ApiKey, Depends(_owner)]
PopulationName = Annotated[str | None, Query(max_length=200)]
After = Annotated[int, Query(ge=0, le=2**53)]
Limit = Annotated[int, Query(ge=1, le=MOST_ENTRIES)]


# --- responses --------------------------------------------------------------------------------------------------------


def respond(outcome: Outcome | DescribedTable | AccountBudget) -> Response:
    """What the gate says, as JSON that keeps every digit, or as a problem."""
    if isinstance(outcome, Problem):
        return respond_problem(outcome)
    body = {name: value for name, value in msgspec.structs.asdict(outcome).items() if value is not None}
    for name in ("cost", "left", "spent"):
        if name in body:
            body[name] = json_fraction(body[name])
    for name in ("rows", "bars"):
        if name in body:
            body[name] = list_cells(body[name])
    if isinstance(outcome, DescribedTable):
        body["columns"] = [msgspec.structs.asdict(column) for column in outcome.columns]
    elif not isinstance(outcome, AccountBudget):
        body = {"outcome": "answered" if isinstance(outcome, AnsweredQuestion) else "allow"} | body
    return Response(dumps(body), media_type="application/json")


def respond_json(body: object) -> Response:
    """Plain data as JSON."""
    return Response(dumps(body), media_type="application/json")


def add_questions(app: FastAPI, gate: Gate) -> None:
    """What an analyst's key may do."""

    @app.post("/v1/query", response_model=AnswerBody)
    async def query(body: QuestionBody, key: Caller) -> Response:
        """Ask one question. A client that goes away cancels nothing: asked again, the answer is told for nothing."""
        return respond(await gate.ask(body.population, key, body.sql))

    @app.post("/v1/check", response_model=CheckBody)
    async def check(body: QuestionBody, key: Caller) -> Response:
        """What would become of a question, without asking it."""
        return respond(await gate.ask(body.population, key, body.sql, check=True))

    @app.get("/v1/schema", response_model=SchemaBody)
    async def schema(key: Caller, population: PopulationName = None) -> Response:
        """Names, kinds and roles of the columns; no values."""
        return respond(gate.describe(population, key))

    @app.get("/v1/budget", response_model=BudgetBody)
    async def budget(key: Caller, population: PopulationName = None) -> Response:
        """The asker's own account."""
        return respond(await gate.budget(population, key))


def add_ownership(app: FastAPI, gate: Gate) -> None:
    """What the owner's key may do."""
    auditing = asyncio.Semaphore(1)

    @app.get("/v1/book", response_model=BookPage)
    async def book(key: Owner, population: PopulationName = None, after: After = 0, limit: Limit = 100) -> Response:
        """Entries of the book, without what is sealed."""
        found = reach(gate, population, key)
        entries = await gate.on_book(found, lambda session: list(islice(session.book.entries(after), limit)))
        listed = [to_builtins(describe_entry(entry)) for entry in entries]
        return respond_json({"entries": listed, "next": entries[-1].seq if entries else after})

    @app.get("/v1/denials", response_model=DenialPage)
    async def denials(key: Owner, population: PopulationName = None, after: After = 0, limit: Limit = 100) -> Response:
        """What was denied or refused, oldest first; whom it would have exposed is shown on the dashboard alone."""
        rows = await gate.on_book(reach(gate, population, key), lambda session: session.book.refusals(after, limit))
        names = ("at", "analyst", "sql", "verdict", "reason")
        listed = [dict(zip(names, row, strict=True)) for row in rows]
        return respond_json({"denials": listed, "next": after + len(listed)})

    @app.get("/v1/versions", response_model=VersionList)
    async def versions(key: Owner, population: PopulationName = None) -> Response:
        """The versions of the data that were answered about."""
        epochs = await gate.on_book(reach(gate, population, key), lambda session: list(session.book.state.epochs))
        listed = [{"number": n, "version": each["version"]} for n, each in enumerate(epochs, 1)]
        return respond_json({"versions": listed})

    @app.get("/v1/events", responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}})
    async def events(request: Request, key: Owner, population: PopulationName = None, after: After = 0) -> Response:
        """New entries of the book as they are written; `Last-Event-ID` goes on where a stream broke off."""
        last = request.headers.get("last-event-id", "")
        found = reach(gate, population, key)
        is_number = last.isascii() and last.isdigit() and len(last) < 16
        return stream_events(gate, found, int(last) if is_number else after, key)

    @app.post("/v1/audit", response_model=AuditBody)
    async def audit(body: AuditRequest, key: Owner) -> Response:
        """Audit the book, in a process of its own; one at a time."""
        found = reach(gate, body.population, key)
        async with auditing:
            code, text = await run_command(found, audit_command(found, "json"))
        if code not in (0, 1, 3):
            raise NotForYou(Problem(ProblemKind.INTERNAL, f"keyhole audit ended with exit code {code}"))
        return respond_json({"exit_code": code, "verdict": json.loads(text)})

    @app.get("/metrics", include_in_schema=False)
    async def metrics(key: Owner) -> Response:
        """For Prometheus."""
        return Response("".join(list_metrics(gate, key)), media_type="text/plain; version=0.0.4")

    @app.get("/v1/health", response_model=HealthBody, response_model_exclude_none=True)
    async def health(key: Caller) -> Response:
        """Is it open? The owner also learns how the books stand."""
        body: dict[str, Any] = {"status": "closing" if gate.closing else "open"}
        if key.role is KeyRole.OWNER:
            body["populations"] = [
                {"name": each.name, "entries": each.session.book.state.seq, "waiting": each.turns.waiting}
                for each in gate.reachable(key)
            ]
        return respond_json(body)


def reach(gate: Gate, name: str | None, key: ApiKey) -> Population:
    """The population, or the end of the request."""
    found = gate.reach(name, key)
    if isinstance(found, Problem):
        raise NotForYou(found)
    return found


def book_path(found: Population) -> str:
    """Where the book of a population is, for a command that runs elsewhere."""
    path = found.session.book.path
    return path if is_in_postgres(path) else str(Path(path).resolve())


def audit_command(found: Population, how: str) -> list[str]:
    """An audit of everything that was answered, with the settings of the population."""
    return ["audit", book_path(found), "-c", str(found.config.resolve()), "--format", how]


def list_metrics(gate: Gate, key: ApiKey) -> Iterator[str]:
    """Counts and sizes of the populations that a key reaches, no text of anybody."""
    labels = {each.name: f"population={json.dumps(each.name, ensure_ascii=False)}" for each in gate.reachable(key)}
    yield "# TYPE keyhole_questions_total counter\n"
    for (population, door, outcome), number in sorted(gate.totals.items()):
        if population in labels:
            yield f'keyhole_questions_total{{{labels[population]},door="{door}",outcome="{outcome}"}} {number}\n'
    yield "# TYPE keyhole_in_flight gauge\n"
    for name, label in labels.items():
        yield f"keyhole_in_flight{{{label}}} {len(gate.list_flights(name))}\n"
    yield "# TYPE keyhole_book_entries gauge\n"
    for name, label in labels.items():
        yield f"keyhole_book_entries{{{label}}} {gate.populations[name].session.book.state.seq}\n"


# --- events and children ----------------------------------------------------------------------------------------------


def stream_events(gate: Gate, found: Population, after: int, key: ApiKey) -> Response:
    """Server-sent events: an `entry` for each entry of the book, a `now` after each question; until the key is gone."""
    return StreamingResponse(_list_events(gate, found, after, key), media_type="text/event-stream")


async def _list_events(gate: Gate, found: Population, after: int, key: ApiKey) -> AsyncIterator[str]:
    while not gate.closing and gate.keys.find_digest(key.digest) is not None:
        changed = gate.changed
        fresh = await gate.on_book(found, partial(_list_entries, after))
        for entry in fresh:
            after = entry.seq
            yield f"id: {entry.seq}\nevent: entry\ndata: {_write_line(to_builtins(describe_entry(entry)))}\n\n"
        now = {
            "in_flight": len(gate.list_flights(found.name)),
            "waiting": found.turns.waiting,
            "entries": found.session.book.state.seq,
        }
        yield f"event: now\ndata: {_write_line(now)}\n\n"
        if len(fresh) == MOST_ENTRIES:
            continue
        try:
            await asyncio.wait_for(changed.wait(), HEARTBEAT)
        except TimeoutError:
            yield ": still here\n\n"


def _write_line(data: object) -> str:
    return " ".join(line.strip() for line in dumps(data).split("\n"))


def _list_entries(after: int, session: Session[Any]) -> list[BookEntry]:
    return list(islice(session.book.entries(after), MOST_ENTRIES))


async def run_command(found: Population, words: Sequence[str]) -> tuple[int, str]:
    """A command of ours in a child, in the folder of the settings; its exit code and output. Bounded in time."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from keyhole.cli import main; main()", *words,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        cwd=found.config.resolve().parent,
    )  # fmt: skip
    try:
        out, _ = await asyncio.wait_for(child.communicate(), AUDIT_SECONDS)
    except (TimeoutError, asyncio.CancelledError):
        child.kill()
        await child.wait()
        raise
    return child.returncode or 0, out.decode("utf-8", "replace")


# --- the application --------------------------------------------------------------------------------------------------


def make_app(gate: Gate, hosts: Sequence[str], *, secure: bool = False, mcp: bool = True, code: str = "") -> Guard:
    """The HTTP door of a gate: API, MCP and dashboard behind one guard. `code` opens the dashboard once (the demo)."""
    from keyhole.serve.dashboard.pages import Dashboard
    from keyhole.serve.mcp import AgentApp

    agents = AgentApp(gate) if mcp else None

    @asynccontextmanager
    async def live(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if agents is not None:
                await stack.enter_async_context(agents.live())
            yield

    app = FastAPI(
        title="Keyhole",
        version=__version__,
        lifespan=live,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    add_questions(app, gate)
    add_ownership(app, gate)
    app.add_exception_handler(NotForYou, _end_with_problem)
    app.add_exception_handler(RequestValidationError, _end_with_fault)
    app.add_exception_handler(HTTPException, _end_with_status)
    app.add_exception_handler(Exception, _end_with_type)
    plain = app.openapi

    def describe() -> dict[str, Any]:
        return describe_problems(plain())

    app.openapi = describe  # type: ignore[method-assign]
    guard = Guard(app, gate, hosts, secure=secure)
    Dashboard(gate, guard, code=code).add_to(app)
    if agents is not None:
        app.mount("/mcp", agents)

    @app.get("/", include_in_schema=False)
    async def home() -> Response:
        return RedirectResponse("/dashboard")

    return guard


def describe_problems(document: dict[str, Any]) -> dict[str, Any]:
    """OpenAPI with the key that every path needs, and with every problem that may come."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    schemas["ProblemBody"] = ProblemBody.model_json_schema()
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"key": []}]
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}
    titles: dict[str, list[str]] = {}
    for row in ERRORS.values():
        titles.setdefault(str(row.status), []).append(row.title)
    for path in document["paths"].values():
        for operation in path.values():
            for status, words in titles.items():
                operation["responses"][status] = {"description": "; ".join(words), "content": content}
    return document


async def _end_with_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, NotForYou)
    return respond_problem(error.problem)


async def _end_with_type(request: Request, error: Exception) -> Response:
    return respond_problem(explain_error(error))


async def _end_with_fault(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if isinstance(part, str) and len(part) < 50)
    return respond_problem(Problem(ProblemKind.REQUEST, f"{place}: {first['msg']}"))


async def _end_with_status(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return respond_problem(Problem(ProblemKind.NOT_FOUND, "there is nothing at this path"))
    if error.status_code == 405:
        response = respond_problem(Problem(ProblemKind.METHOD, "this path takes another method"))
        response.headers.update(error.headers or {})
        return response
    return respond_problem(Problem(ProblemKind.REQUEST, f"the request is not as it must be ({error.status_code})"))
