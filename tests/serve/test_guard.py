"""What stands in front of the HTTP door: hosts, origins, sizes, keys, rates, slow clients; and the file of keys."""

from __future__ import annotations

import datetime as dt
import http.client
import json
import os
import resource
import socket
import ssl
import stat
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import httpx
import pytest
from fastapi import FastAPI
from tests.serve.serve_world import SECRETS, RunningServer, running, started, write_world
from tests.sessions.session_world import EXACT, NOT_ANN, WHOLE

from keyhole.config.config import TlsTable
from keyhole.engines.duckdb.connections import lock_down
from keyhole.errors import BookError, BudgetExhausted, ConfigError, NotAvailable
from keyhole.report.book import render_book
from keyhole.report.words.sentence import escape_line
from keyhole.serve import guard
from keyhole.serve.dashboard.pages import LOGIN_SECONDS, Dashboard
from keyhole.serve.errors import ERRORS, ProblemKind, explain_error
from keyhole.serve.gate import open_population
from keyhole.serve.keys import KeyRing, KeyRole
from keyhole.serve.limits import MOST_BUCKETS, MOST_LISTED, TokenBuckets, explain_size
from keyhole.serve.server import bind, check_tls


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("guard")) as opened:
        yield opened


# --- requests ---------------------------------------------------------------------------------------------------------


def test_a_page_elsewhere_reaches_nothing(server: RunningServer) -> None:
    for path in ("/v1/schema", "/mcp/", "/dashboard/login"):
        head = server.head("ann")
        assert httpx.get(server.url + path, headers={**head, "host": "evil.example"}).status_code == 400
        other = httpx.get(server.url + path, headers={**head, "origin": "http://evil.example"})
        assert other.status_code == 403
        assert "access-control-allow-origin" not in other.headers
    own = httpx.get(f"{server.url}/v1/schema", headers={**server.head("ann"), "origin": server.url})
    assert own.status_code == 200
    asked = httpx.options(f"{server.url}/v1/query", headers={**server.head("ann"), "origin": server.url})
    assert asked.status_code == 405


def test_nothing_is_told_without_a_key(server: RunningServer) -> None:
    for path in ("/metrics", "/v1/health", "/v1/openapi.json", "/v1/budget", "/mcp/"):
        answer = httpx.get(server.url + path)
        assert (answer.status_code, answer.json()["code"]) == (401, "key"), path
        assert "staff" not in answer.text


def test_no_setting_and_no_path_comes_over_http(server: RunningServer) -> None:
    document = server.get("/v1/openapi.json", "ann").json()
    schemas = document["components"]["schemas"]
    taken = {field for name in ("QuestionBody", "AuditRequest") for field in schemas[name]["properties"]}
    assert not any(schemas[name].get("additionalProperties", True) for name in ("QuestionBody", "AuditRequest"))
    for path in document["paths"].values():
        for operation in path.values():
            taken |= {each["name"] for each in operation.get("parameters", ()) if each["in"] != "header"}
    assert taken == {"sql", "population", "after", "limit"}


def test_the_engine_loads_nothing_and_reads_no_file() -> None:
    con = lock_down(duckdb.connect())
    for text in (
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_csv('https://db.example/a.csv')",
        "COPY (SELECT 1) TO '/tmp/keyhole'",
    ):
        with pytest.raises(duckdb.Error):
            con.execute(text)
    con.close()


def test_what_is_too_large_is_not_read(server: RunningServer) -> None:
    assert server.query("SELECT 1 -- " + "x" * 70_000).status_code == 400
    assert server.query("x" * 300_000).status_code == 413
    deep = server.query(f"SELECT SUM(pay) FROM staff WHERE {'(' * 300}pay > 1{')' * 300}")
    assert (deep.status_code, deep.json()["code"]) == (413, "too-large")
    listed = f"SELECT SUM(pay) FROM staff WHERE level IN ({','.join('1' for _ in range(MOST_LISTED + 1))})"
    assert server.query(listed).status_code == 413
    assert explain_size("SELECT 1") == ""

    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 10_000

    chunked = httpx.post(f"{server.url}/v1/query", content=endless(), headers=server.head("ann"))
    assert chunked.status_code == 413


def test_whoever_sends_slowly_is_let_go(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "SECONDS_TO_SEND", 0.2)
    host, port = server.url.removeprefix("http://").split(":")
    head = f"POST /v1/query HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    head += f"Authorization: {server.head('ann')['authorization']}\r\nContent-Length: 50\r\n\r\n"
    for start in ("POST /v1/query HTT", head, head + "{"):  # nothing of a head, and nothing or little of a body
        with socket.create_connection((host, int(port)), 10) as sending:
            sending.sendall(start.encode())
            sending.settimeout(20)
            answer = sending.recv(10_000)
            assert answer == b"" or b"took more than" in answer or b"400" in answer.split(b"\r\n")[0]


def is_cut_off(connection: socket.socket, more: bytes) -> bool:
    """Does the other side end a connection on which this is sent again and again, and nothing is read?"""
    connection.setblocking(False)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            connection.send(more)
        except BlockingIOError:
            pass
        except ConnectionError:
            return True
        time.sleep(0.02)
    return False


def test_a_connection_that_asked_once_is_held_to_the_same(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "SECONDS_TO_SEND", 0.3)
    monkeypatch.setattr(guard, "SECONDS_TO_TAKE", 0.3)
    host, port = server.url.removeprefix("http://").split(":")
    head = f"GET /dashboard/login HTTP/1.1\r\nHost: {host}:{port}\r\n".encode()
    with socket.create_connection((host, int(port)), 10) as dripping:
        dripping.sendall(head + b"\r\n")
        assert b"200" in dripping.recv(100).split(b"\r\n")[0]
        dripping.sendall(head)
        assert is_cut_off(dripping, b"a: b\r\n")
    with socket.create_connection((host, int(port)), 10) as deaf:
        assert is_cut_off(deaf, 50 * (head + b"\r\n"))


def test_ten_thousand_wrong_keys_meet_401_and_429_in_bounded_memory(server: RunningServer) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    host, port = server.url.removeprefix("http://").split(":")
    ends = Counter[int]()
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    for number in range(10_000 if os.environ.get("KEYHOLE_EFFORT") == "full" else 1_000):
        connection.request("GET", "/v1/schema", headers={"authorization": f"Bearer kh_{number}"})
        answer = connection.getresponse()
        text = answer.read()
        ends[answer.status] += 1
        if answer.status == 429:
            assert int(answer.headers["retry-after"]) >= 1
            assert json.loads(text)["code"] == "rate"
    connection.close()
    assert set(ends) == {401, 429}
    assert server.get("/v1/schema", "ann").status_code == 200  # a right key is let in all the same
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    server_guarded = TokenBuckets()
    for number in range(MOST_BUCKETS + 100):
        server_guarded.take(str(number), 1, 1)
    assert len(server_guarded._levels) == MOST_BUCKETS


def test_a_key_has_a_rate_and_a_cap_for_a_day(server: RunningServer) -> None:
    server.key("slow", per_minute=3)
    ends = [server.get("/v1/schema", "slow") for _ in range(5)]
    assert [each.status_code for each in ends][:3] == [200] * 3
    assert ends[-1].status_code == 429
    assert int(ends[-1].headers["retry-after"]) >= 1
    server.key("daily", per_day=2)
    assert [server.query(WHOLE, "daily").status_code for _ in range(3)] == [200, 200, 429]
    refused = server.query("SELEC", "daily")  # also what is refused counts
    assert refused.status_code == 429


def test_a_cap_for_a_day_outlives_a_restart(tmp_path: Path) -> None:
    for expected in ([200, 422], [429, 429]):
        with running(tmp_path) as server:
            server.key("agent", per_day=2)
            assert [server.query(sql, "agent").status_code for sql in (WHOLE, "SELEC")] == expected


def test_a_cap_counts_what_the_book_has(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        for sql in (WHOLE, NOT_ANN, "SELEC"):
            server.query(sql, "agent")
    population = open_population(tmp_path / "exact" / "keyhole.toml")
    try:
        ((day, name),) = population.asked_today
        assert name == "agent"
        assert population.asked_today[day, name] == 3
    finally:
        population.close()


def test_every_problem_is_told_alike(server: RunningServer) -> None:
    server.query(WHOLE)
    for answer in (
        httpx.get(f"{server.url}/v1/schema"),
        server.get("/nothing", "ann"),
        server.get("/v1/query", "ann"),
        server.query("SELECT", more=1),
        server.get("/v1/book?after=-1"),
        server.query(NOT_ANN),
    ):
        body = answer.json()
        assert answer.headers["content-type"] == "application/problem+json"
        assert body["status"] == answer.status_code
        assert body["sqlstate"] == ERRORS[ProblemKind(body["code"])].sqlstate
        assert answer.headers["cache-control"] == "no-store"
        assert not [name for name in SECRETS if name in answer.text.replace("kh_...", "").replace("'Ann'", "")]


def test_what_is_not_foreseen_is_told_by_its_type(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    session = server.gate.populations["staff"].session

    def fail(*_: object) -> None:
        raise ValueError("Bob has 20")

    monkeypatch.setattr(type(session.policy), "admit", fail)
    answer = server.query("SELECT SUM(pay) FROM staff WHERE level = 1", "ann")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert answer.json()["detail"] == "this question was not answered (ValueError)"
    assert "Bob" not in server.said()
    monkeypatch.undo()
    assert explain_error(NotAvailable(ValueError("Bob has 20"))).kind is ProblemKind.INTERNAL
    assert explain_error(BookError("/home/owner/book")).detail == "the book cannot be gone on with: ask its owner"
    assert explain_error(BudgetExhausted("0 is left", remaining=0, requested=1)).row.status == 402


def test_log_lines_have_no_line_of_somebody_else(server: RunningServer) -> None:
    assert escape_line("a\nb\x1b[2J\u202e") == "a\\nb\\x1b[2J\\u202e"
    server.query("SELECT SUM(pay) FROM staff WHERE dept = 'x\n2026 staff owner http answered'", "ann")
    assert all(line.count("\n") == 0 for line in server.lines)
    assert "SELECT" not in server.said()  # no text of a question
    assert "kh_" not in server.said()


def test_the_book_on_a_terminal_is_text(server: RunningServer) -> None:
    """Whatever an analyst writes moves no cursor of the owner."""
    new = "SELECT COUNT(*) FROM staff WHERE level >= 0"  # what was answered before is told again without an entry
    for sql in (f"{new} -- \x1b[2J\u202e", "SELEC \x1b]0;owned\x07"):
        server.query(sql, "ann")
    lines = list(render_book(server.gate.populations["staff"].session.book))
    assert any("\\x1b[2J" in line for line in lines)
    assert all(line.isprintable() for line in lines)


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_is_shown_once_and_nowhere_again(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path / "keys.keyhole")
    key = ring.add("ann", KeyRole.ANALYST)
    assert len(key) == 46  # 3, and 43 characters for 256 bits
    assert stat.S_IMODE(ring.path.stat().st_mode) == 0o600
    assert key not in ring.path.read_text(encoding="utf-8")
    late = ring.add("bob", KeyRole.ANALYST, expires=dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1))
    assert ring.find(late) is None
    assert KeyRing(ring.path).find(key) is not None
    other = KeyRing(ring.path)
    other.revoke("ann")
    assert ring.find(key) is None  # another process revoked it
    ring.path.chmod(0o644)
    os.utime(ring.path, ns=(1, 1))
    with pytest.raises(ConfigError, match="others can read"):
        KeyRing(ring.path)


def test_each_digest_is_compared_whole_whichever_matches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = KeyRing(tmp_path / "keys.keyhole")
    keys = [ring.add(f"a{n}", KeyRole.ANALYST) for n in range(5)]
    compared: list[str] = []
    from keyhole.serve import keys as module

    real = module.hmac.compare_digest

    def count(left: str, right: str) -> bool:
        compared.append(left)
        return real(left, right)

    monkeypatch.setattr(module.hmac, "compare_digest", count)
    for key in (keys[0], keys[-1], "kh_wrong"):
        compared.clear()
        ring.find(key)
        assert len(compared) == 5


def test_whoever_guesses_at_the_login_is_turned_away_by_address(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        ends = Counter(httpx.post(f"{server.url}/dashboard/login", data={"secret": f"kh_{n}"}).status_code
                       for n in range(guard.WRONG_KEYS_A_MINUTE + 5))  # fmt: skip
        assert ends[401] >= guard.WRONG_KEYS_A_MINUTE
        assert ends[429] >= 1
        assert set(ends) == {401, 429}


def test_over_tls_the_cookie_is_secure_and_ends(server: RunningServer) -> None:
    server.key("owner", KeyRole.OWNER)
    key = server.gate.keys.find(server.key("owner"))
    assert key is not None
    for secure in (True, False):
        app = FastAPI()
        opened = Dashboard(server.gate, guard.Guard(app, server.gate, [], secure=secure)).open_login(key)
        words = opened.headers["set-cookie"].split("; ")
        assert ("Secure" in words) is secure
        assert {"HttpOnly", "SameSite=strict", f"Max-Age={LOGIN_SECONDS}"} <= set(words)


# --- doors ------------------------------------------------------------------------------------------------------------


def test_off_loopback_a_door_needs_tls(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "1"]
    subprocess.run([*made, "-subj", "/CN=localhost"], check=True, capture_output=True)
    with pytest.raises(ConfigError, match="can be reached from other machines"):
        bind("0.0.0.0:0", None)
    tls = TlsTable(str(cert), str(key))
    bind("0.0.0.0:0", tls).close()
    context = check_tls(tls)
    assert context is not None
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    with pytest.raises(ConfigError, match="cannot be used"):
        check_tls(TlsTable(str(key), str(cert)))


def test_the_code_of_the_demo_is_in_no_address(tmp_path: Path) -> None:
    with started(tmp_path, "--demo", "--http", "127.0.0.1:0") as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "The last one is denied" in line:
                break
        code = next(line.split()[-1] for line in lines if "once:" in line)
        urls = [word for line in lines for word in line.split() if "://" in word]
        assert urls
        assert all(code not in url for url in urls)
        assert all(url.startswith("http://127.0.0.1:") for url in urls)
        where = urls[0].split("/v1")[0]
        ends = [httpx.post(f"{where}/dashboard/login", data={"secret": code}).status_code for _ in range(2)]
        assert ends == [303, 401]  # it works once


@pytest.mark.parametrize("data", ["https://db.example/a.csv", "s3://bucket/a.parquet", "file://x"])
def test_data_from_elsewhere_is_not_served(tmp_path: Path, data: str) -> None:
    (config,) = write_world(tmp_path, {"one": EXACT.replace("'staff.csv'", f"'{data}'")})
    with pytest.raises(ConfigError, match=r"is not served|no data"):
        open_population(config)
