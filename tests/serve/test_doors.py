"""One script over all doors: equal rows, the right codes, nothing of anybody else."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
import httpx2
import pandas as pd
import psycopg
import pytest
import sqlalchemy as sa
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from tests.serve.serve_world import NOISY, SECRETS, RunningServer, running
from tests.sessions.session_world import DEPT_A, EXACT, NOT_ANN, WHOLE
from tests.support.postgres import programs

import keyhole
from keyhole.errors import ConfigError, ServerError
from keyhole.serve import http
from keyhole.serve.errors import ERRORS, ProblemKind
from keyhole.serve.keys import KeyRole

GROUPS = "SELECT dept, SUM(pay) AS total FROM staff GROUP BY dept ORDER BY total DESC"
EMPTY = "SELECT SUM(pay) FROM staff WHERE dept = 'z'"
POOR = NOISY.replace("epsilon = 60", "epsilon = 0.000001").replace('"noisy"', '"poor"')  # pays for nothing
Rows: TypeAlias = list[list[Any]]
End: TypeAlias = tuple[str, Rows | None]
SCRIPT: tuple[tuple[str, str, str, Rows | None], ...] = (  # population, statement, code, rows
    ("staff", WHOLE, "answered", [[150]]),
    ("staff", GROUPS, "answered", [["b", 120], ["a", 30]]),
    ("staff", EMPTY, "answered", [[None]]),
    ("staff", "SELECT level, COUNT(*) FROM staff WHERE dept = 'z' GROUP BY level", "answered", []),
    ("staff", NOT_ANN, "deny", None),
    ("staff", "SELECT * FROM staff", "refused", None),
    ("staff", "SELECT SUM(pay) FROM staff WHERE", "syntax", None),
    ("staff", "SELECT SUM(wage) FROM staff", "column", None),
    ("staff", "INSERT INTO staff VALUES (1)", "refused", None),
    ("poor", "SELECT COUNT(*) FROM staff WHERE dept = 'a' AND pay >= 7", "budget", None),
    ("staff", WHOLE, "answered", [[150]]),
)
WANTED: list[End] = [(code, rows) for _, _, code, rows in SCRIPT]
STATES = {str(ERRORS[ProblemKind(code)].sqlstate): code for code in ("deny", "refused", "syntax", "column", "budget")}
STATUS = {"answered": 200, "allow": 200, "deny": 403, "refused": 422, "syntax": 422, "column": 422, "budget": 402}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("doors"), {"exact": EXACT, "noisy": NOISY, "poor": POOR}, wire=True) as opened:
        yield opened


def play_mcp(play: Callable[[Client], Any], transport: Any) -> Any:
    async def main() -> Any:
        async with Client(transport) as client:
            return await play(client)

    return asyncio.run(main())


def over_http(server: RunningServer, name: str, play: Callable[[Client], Any]) -> Any:
    async def main() -> Any:
        async with (
            httpx2.AsyncClient(headers=server.head(name), timeout=60) as http,
            Client(streamable_http_client(f"{server.url}/mcp", http_client=http)) as client,
        ):
            return await play(client)

    return asyncio.run(main())


async def ask_script(client: Client) -> list[End]:
    """Over MCP. A denial is a result; what failed is an error of the tool."""
    ends: list[End] = []
    for population, sql, *_ in SCRIPT:
        result = await client.call_tool("ask", {"sql": sql, "population": population})
        found = result.structured_content or {}
        code = str(found["code"] if "code" in found else found["outcome"])
        assert bool(result.is_error) == (code not in ("answered", "deny"))
        assert not [name for name in SECRETS if name in str(result.content).replace(sql, "")]
        ends.append((code, found.get("rows")))
    return ends


def ask_http(server: RunningServer, name: str) -> list[End]:
    ends: list[End] = []
    for population, sql, *_ in SCRIPT:
        answer = server.query(sql, name, population=population)
        body = answer.json()
        code = body.get("code", body.get("outcome"))
        assert answer.status_code == STATUS[code], answer.text
        assert not [name for name in SECRETS if name in answer.text.replace(sql, "")]
        ends.append((code, body.get("rows")))
    return ends


def end_of(sql: str, error: BaseException, sqlstate: object) -> End:
    """Of an error over the PostgreSQL door."""
    assert not [name for name in SECRETS if name in str(error).replace(sql, "")]
    return STATES[str(sqlstate)], None


def ask_psycopg(server: RunningServer, name: str) -> list[End]:
    ends: list[End] = []
    for population, sql, *_ in SCRIPT:
        with psycopg.connect(server.address(name, population), autocommit=True) as connection:
            try:
                ends.append(("answered", [list(row) for row in connection.execute(sql.encode()).fetchall()]))
            except psycopg.Error as error:
                ends.append(end_of(sql, error, error.sqlstate))
    return ends


def ask_asyncpg(server: RunningServer, name: str) -> list[End]:
    async def main() -> list[End]:
        ends: list[End] = []
        for population, sql, *_ in SCRIPT:
            connection = await asyncpg.connect(server.address(name, population))
            try:
                ends.append(("answered", [list(row) for row in await connection.fetch(sql)]))
            except asyncpg.PostgresError as error:
                ends.append(end_of(sql, error, error.sqlstate))
            finally:
                await connection.close()
        return ends

    return asyncio.run(main())


def ask_pandas(server: RunningServer, name: str) -> list[End]:
    ends: list[End] = []
    for population, sql, *_ in SCRIPT:
        engine = sa.create_engine(server.address(name, population).replace("postgresql:", "postgresql+psycopg:"))
        try:
            with engine.connect() as connection:
                frame = pd.read_sql(sa.text(sql), connection)
            rows = [[None if cell is None or cell is pd.NA or cell != cell else cell for cell in row]
                    for row in frame.to_numpy(dtype=object).tolist()]  # fmt: skip
            ends.append(("answered", rows))
        except pd.errors.DatabaseError as error:  # of SQLAlchemy's error, of the driver's
            ends.append(end_of(sql, error, getattr(getattr(error.__cause__, "orig", None), "sqlstate", "")))
        finally:
            engine.dispose()
    return ends


def ask_psql(server: RunningServer, name: str) -> list[End]:
    """Its cells are texts: a NULL is told apart, numbers are read."""
    where = programs()
    assert where is not None, "psql comes with the extra"
    ends: list[End] = []
    for population, sql, *_ in SCRIPT:
        words = [where / "psql", server.address(name, population).replace(server.key(name), ""), "-XAtq", "-c", sql]
        environment = {"PATH": os.environ["PATH"], "PGPASSWORD": server.key(name)}
        words += ["-P", "null=NULL", "-v", "VERBOSITY=sqlstate"]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            ends.append((STATES[done.stderr.split()[-1]], None))
            continue
        cells = [line.split("|") for line in done.stdout.splitlines()]
        ends.append(("answered", [[read_cell(text) for text in row] for row in cells]))
    return ends


def read_cell(text: str) -> object:
    return None if text == "NULL" else int(text) if text.isdigit() else text


CLIENTS: dict[str, Callable[[RunningServer, str], list[End]]] = {
    "HTTP": ask_http,
    "MCP": lambda server, name: over_http(server, name, ask_script),
    "psycopg": ask_psycopg,
    "asyncpg": ask_asyncpg,
    "pandas": ask_pandas,
    "psql": ask_psql,
}


@pytest.mark.parametrize("door", CLIENTS)
def test_one_script_over_all_doors(server: RunningServer, door: str) -> None:
    assert CLIENTS[door](server, f"{door}-user") == WANTED
    entries = [e for e in server.gate.populations["staff"].session.book.entries() if e.analyst == f"{door}-user"]
    assert [entry.kind for entry in entries] == ["answer"] * 4  # the last of the five was told again
    assert not [name for name in SECRETS if name in server.said()]


def test_the_same_over_stdio(tmp_path: Path) -> None:
    with running(tmp_path, {"exact": EXACT, "poor": POOR}) as server:
        key = server.key("agent")
    words = ["-c", "from keyhole.cli import main; main()", "serve", "--mcp-stdio", "-c", "exact/keyhole.toml"]
    words += ["-c", "poor/keyhole.toml"]
    config = tmp_path / "exact" / "keyhole.toml"
    config.write_text(f"{EXACT}[serve]\nkeys = '{tmp_path / 'keys.keyhole'}'\n", encoding="utf-8")
    parameters = StdioServerParameters(
        command=sys.executable, args=words, cwd=tmp_path, env={**os.environ, "KEYHOLE_KEY": key}
    )
    assert play_mcp(ask_script, parameters) == WANTED


def test_an_agent_has_the_tools_of_an_analyst_and_no_other(server: RunningServer) -> None:
    async def look(client: Client) -> tuple[set[str], set[str], Any, Any, Any, str]:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        resources = {str(each.uri) for each in (await client.list_resources()).resources}
        described = await client.call_tool("describe", {"population": "staff"})
        checked = await client.call_tool("check", {"sql": WHOLE, "population": "staff"})
        budget = await client.call_tool("budget", {"population": "noisy"})
        rules = await client.read_resource("keyhole://rules")
        schema = await client.read_resource("keyhole://schema")
        assert "pay" in str(schema)
        return tools, resources, described, checked, budget, str(rules)

    tools, resources, described, checked, budget, rules = over_http(server, "agent", look)
    assert tools == {"ask", "check", "describe", "budget"}
    assert resources == {"keyhole://schema", "keyhole://rules"}
    assert [c["name"] for c in described.structured_content["columns"]] == ["name", "dept", "level", "pay"]
    assert checked.structured_content["outcome"] == "allow"
    assert budget.structured_content["unit"] == "epsilon"
    assert "A denial is final" in rules


def test_without_a_key_there_is_not_even_a_list_of_tools(server: RunningServer) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    answer = httpx2.post(f"{server.url}/mcp/", json=body)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_the_budget_ends_with_402_and_the_account_is_ones_own(server: RunningServer) -> None:
    sql = "SELECT COUNT(*) FROM staff WHERE dept = 'a'"
    ends = []
    for number in range(12):
        answer = server.query(f"{sql} AND level <= {number}", "cyd", population="noisy")
        ends.append(answer.status_code)
        if answer.status_code == 402:
            assert answer.json()["code"] == "budget"
            break
    body = server.get("/v1/budget?population=noisy", "cyd").json()
    assert body["analyst"] == "cyd"
    assert server.get("/v1/budget?population=noisy", "dan").json()["spent"] == 0


def test_a_check_answers_and_writes_nothing(server: RunningServer) -> None:
    before = server.gate.populations["staff"].session.book.state.seq
    assert server.query(DEPT_A, "bob", "/v1/check", population="staff").json() == {
        "outcome": "allow", "sql": DEPT_A, "notes": [],
    }  # fmt: skip
    assert server.query(NOT_ANN, "bob", "/v1/check", population="staff").status_code == 403
    assert server.gate.populations["staff"].session.book.state.seq == before


def test_who_may_reach_what(server: RunningServer) -> None:
    for path in ("/v1/book", "/v1/denials", "/v1/versions", "/v1/events", "/metrics"):
        assert server.get(f"{path}?population=staff", "ann").status_code == 403
    assert server.query(WHOLE, "owner", population="staff").json()["code"] == "role"
    assert server.query(WHOLE, "ann").json()["code"] == "not-found"  # which of the two?
    server.key("only", populations=("noisy",))
    assert server.query(WHOLE, "only", population="staff").status_code == 404
    assert server.get("/v1/schema", "only").json()["population"] == "noisy"


def test_the_owner_reads_the_book_and_follows_it(server: RunningServer) -> None:
    server.query(WHOLE, "ann", population="staff")
    server.query(NOT_ANN, "ann", population="staff")
    page = server.get("/v1/book?population=staff&limit=2").json()
    assert [entry["entry"] for entry in page["entries"]] == [1, 2]
    assert page["next"] == 2
    denials = server.get("/v1/denials?population=staff").json()["denials"]
    assert (denials[0]["sql"], denials[0]["verdict"]) == (NOT_ANN, "deny")
    assert server.get("/v1/versions?population=staff").json() == {"versions": [{"number": 1, "version": "1"}]}
    text = server.get("/metrics").text
    assert 'keyhole_questions_total{population="staff",door="http",outcome="deny"}' in text
    seen: list[str] = []
    with httpx2.stream(
        "GET", f"{server.url}/v1/events?population=staff", headers={**server.head("owner"), "last-event-id": "2"}
    ) as stream:
        for line in stream.iter_lines():
            seen.append(line)
            if line.startswith("event: now"):
                break
    ids = [int(line[4:]) for line in seen if line.startswith("id: ")]
    assert ids[0] == 3
    assert ids == sorted(ids)


def test_an_owner_of_one_population_learns_nothing_of_another(server: RunningServer) -> None:
    server.query(WHOLE, "ann", population="staff")
    server.key("half", KeyRole.OWNER, populations=("noisy",))
    metrics, health = server.get("/metrics", "half").text, server.get("/v1/health", "half").json()
    assert "staff" not in metrics
    assert 'keyhole_book_entries{population="noisy"}' in metrics
    assert [each["name"] for each in health["populations"]] == ["noisy"]


def test_a_revoked_key_follows_the_book_no_longer(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "HEARTBEAT", 0.1)
    key = server.gate.keys.add("gone", KeyRole.OWNER)
    head = {"authorization": f"Bearer {key}".encode(), "last-event-id": b"\xb2"}
    with httpx2.stream("GET", f"{server.url}/v1/events?population=staff", headers=head, timeout=20) as stream:
        lines = stream.iter_lines()
        assert any(line.startswith("event: now") for line in lines)
        server.gate.keys.revoke("gone")
        assert len(list(lines)) < 50  # it ends


def test_the_audit_runs_in_a_child_and_says_what_the_command_says(server: RunningServer) -> None:
    server.query(WHOLE, "ann", population="staff")
    answer = httpx2.post(
        f"{server.url}/v1/audit", json={"population": "staff"}, headers=server.head("owner"), timeout=120
    )
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["exit_code"] == 0
    assert body["verdict"]["exposed"] == []


# --- the client -------------------------------------------------------------------------------------------------------


def test_the_client_asks_as_a_session_does(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with keyhole.connect(server.url, server.key("eve"), population="staff") as client:
        whole, groups, denied = client.ask_all([WHOLE, GROUPS, NOT_ANN])
        assert (whole.answered, whole.rows) == (True, ((150,),))
        assert groups.columns == ("dept", "total")
        assert (str(denied.outcome), denied.code, denied.answered) == ("deny", "deny", False)
        assert client.ask("SELECT SUM(pay) FROM staff WHERE").code == "syntax"
        assert client.check(DEPT_A).answered
        assert client.schema()["table"] == "staff"
        assert client.budget()["analyst"] == "eve"
        average = client.ask("SELECT AVG(pay) FROM staff WHERE level = 0")
        assert average.rows == ((30,),)
    monkeypatch.delenv("KEYHOLE_KEY", raising=False)
    for url, key in (("http://db.example", "kh_x"), ("ftp://localhost", "kh_x"), (server.url, None)):
        with pytest.raises(ConfigError):
            keyhole.connect(url, key)
    with keyhole.connect(server.url, "kh_wrong") as client, pytest.raises(ServerError) as wrong:
        client.ask(WHOLE)
    assert wrong.value.status == 401
    with keyhole.connect("http://127.0.0.1:9", "kh_x") as client, pytest.raises(ServerError, match="did not answer"):
        client.ask(WHOLE)


def test_the_roles_of_a_name_do_not_mix(server: RunningServer) -> None:
    server.key("fay")
    with pytest.raises(ConfigError, match="use two names"):
        server.gate.keys.add("fay", KeyRole.OWNER)
