"""One script over HTTP, MCP over HTTP and MCP over stdio: equal rows, the right codes, nothing of anybody else."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from tests.serve.serve_world import NOISY, SECRETS, RunningServer, running
from tests.sessions.session_world import DEPT_A, EXACT, NOT_ANN, WHOLE

import keyhole
from keyhole.errors import ConfigError, ServerError
from keyhole.serve.keys import KeyRole

GROUPS = "SELECT dept, SUM(pay) AS total FROM staff GROUP BY dept ORDER BY total DESC"
EMPTY = "SELECT SUM(pay) FROM staff WHERE dept = 'z'"
SCRIPT: tuple[tuple[str, str, object], ...] = (  # statement, code, rows
    (WHOLE, "answered", [[150]]),
    (GROUPS, "answered", [["b", 120], ["a", 30]]),
    (EMPTY, "answered", [[None]]),
    ("SELECT level, COUNT(*) FROM staff WHERE dept = 'z' GROUP BY level", "answered", []),
    (NOT_ANN, "deny", None),
    ("SELECT * FROM staff", "refused", None),
    ("SELECT SUM(pay) FROM staff WHERE", "syntax", None),
    ("SELECT SUM(wage) FROM staff", "column", None),
    ("INSERT INTO staff VALUES (1)", "refused", None),
    (WHOLE, "answered", [[150]]),
)
STATUS = {"answered": 200, "allow": 200, "deny": 403, "refused": 422, "syntax": 422, "column": 422, "budget": 402}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("doors"), {"exact": EXACT, "noisy": NOISY}) as opened:
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


async def ask_script(client: Client) -> list[tuple[str, object, bool]]:
    ends = []
    for sql, *_ in SCRIPT:
        result = await client.call_tool("ask", {"sql": sql, "population": "staff"})
        found = result.structured_content or {}
        code = found["code"] if "code" in found else found["outcome"]
        ends.append((str(code), found.get("rows"), bool(result.is_error)))
    return ends


def test_one_script_over_three_doors(server: RunningServer) -> None:
    wanted = [(code, rows) for _, code, rows in SCRIPT]
    seen = []
    for sql, code, _ in SCRIPT:
        answer = server.query(sql, "ann", population="staff")
        assert answer.status_code == STATUS[code], answer.text
        body = answer.json()
        seen.append((body.get("code", body.get("outcome")), body.get("rows")))
        assert not [name for name in SECRETS if name in answer.text.replace(sql, "")]
    assert seen == wanted
    by_mcp = over_http(server, "bob", ask_script)
    assert [(code, rows) for code, rows, _ in by_mcp] == wanted
    assert [failed for *_, failed in by_mcp] == [code not in ("answered", "deny") for code, _ in wanted]
    assert not [name for name in SECRETS if name in server.said()]


def test_the_same_over_stdio(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        key = server.key("agent")
    words = ["-c", "from keyhole.cli import main; main()", "serve", "--mcp-stdio", "-c", "exact/keyhole.toml"]
    config = tmp_path / "exact" / "keyhole.toml"
    config.write_text(f"{EXACT}[serve]\nkeys = '{tmp_path / 'keys.keyhole'}'\n", encoding="utf-8")
    parameters = StdioServerParameters(
        command=sys.executable, args=words, cwd=tmp_path, env={**os.environ, "KEYHOLE_KEY": key}
    )
    by_stdio = play_mcp(ask_script, parameters)
    assert [(code, rows) for code, rows, _ in by_stdio] == [(code, rows) for _, code, rows in SCRIPT]


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
