"""The dashboard in a browser: log in, look at every screen, see a question arrive, ask whom a denial is about."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page
from tests.serve.serve_world import NOISY, RunningServer, running
from tests.sessions.session_world import DEPT_A, EXACT, NOT_ANN, WHOLE
from tests.support.browser import browser

from keyhole.serve.keys import KeyRole

__all__ = ["browser"]
CODE = "1234-5678-9abc"
SCREENS = ("", "/analysts", "/spending", "/statements", "/denials", "/versions", "/policy", "/check")
SHOTS = os.environ.get("KEYHOLE_SHOTS")  # a folder for pictures of every screen


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("dashboard"), {"exact": EXACT, "noisy": NOISY}, code=CODE) as opened:
        opened.key("owner", KeyRole.OWNER)
        for sql in (WHOLE, NOT_ANN, "SELECT * FROM staff", DEPT_A):
            opened.query(sql, "ann", population="staff")
        opened.query(
            "SELECT COUNT(*) FROM staff WHERE dept = 'a' -- <script>alert(1)</script>", "ann", population="staff"
        )
        opened.query("SELECT COUNT(*) FROM staff WHERE dept = 'a'", "bob", population="noisy")
        yield opened


@pytest.fixture(scope="module")
def context(browser: Browser, server: RunningServer) -> Iterator[BrowserContext]:
    opened = browser.new_context(viewport={"width": 1000, "height": 800})
    page = opened.new_page()
    page.goto(f"{server.url}/dashboard")
    assert page.url.endswith("/dashboard/login")
    page.fill("input[name=secret]", "kh_wrong")
    page.click("button")
    assert "not the key of an owner" in page.content()
    page.fill("input[name=secret]", CODE)  # it works once
    page.click("button")
    assert page.url.endswith("/dashboard")
    page.close()
    yield opened
    opened.close()


def look(context: BrowserContext, url: str, *, width: int = 1000) -> tuple[Page, list[str]]:
    page, errors = context.new_page(), list[str]()
    page.set_viewport_size({"width": width, "height": 800})
    page.on("console", lambda line: errors.append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url)
    return page, errors


@pytest.mark.parametrize("width", [1000, 360])
def test_every_screen_shows_without_an_error_and_fits(
    context: BrowserContext, server: RunningServer, width: int
) -> None:
    for population in ("staff", "noisy"):
        for screen in SCREENS:
            page, errors = look(context, f"{server.url}/dashboard{screen}?population={population}", width=width)
            assert page.locator("h1").inner_text().endswith(population)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, screen
            assert not errors, (screen, errors)
            if SHOTS:
                page.screenshot(path=Path(SHOTS) / f"{population}{screen.replace('/', '-') or '-now'}-{width}.png")
            page.close()


def test_a_question_appears_by_itself(context: BrowserContext, server: RunningServer) -> None:
    page, errors = look(context, f"{server.url}/dashboard?population=staff")
    before = page.locator("tbody tr").count()
    server.query("SELECT SUM(pay) FROM staff WHERE level = 0", "bob", population="staff")
    page.locator("tbody tr").nth(before).wait_for(timeout=20_000)
    assert not errors
    page.close()


def test_the_text_of_a_question_is_text(context: BrowserContext, server: RunningServer) -> None:
    page, errors = look(context, f"{server.url}/dashboard/statements?population=staff&q=script")
    assert "<script>alert(1)</script>" in page.locator("tbody").inner_text()
    assert page.locator("tbody script").count() == 0
    assert not errors
    page.close()


def test_whom_a_denial_is_about_is_behind_a_click_that_is_written_down(
    context: BrowserContext, server: RunningServer
) -> None:
    page, _ = look(context, f"{server.url}/dashboard/denials?population=staff")
    assert NOT_ANN in page.content().replace("&lt;", "<").replace("&gt;", ">")
    assert "Ann" not in page.locator("tbody").inner_text().replace("'Ann'", "")
    page.click("tbody button")
    assert "exposed: Ann's pay" in page.content().replace("&#39;", "'")
    denials = server.get("/v1/denials?population=staff").json()["denials"]
    assert (denials[-1]["verdict"], denials[-1]["analyst"]) == ("revealed", "owner")
    page.close()


def test_the_check_verifies_the_book_and_links_the_report(context: BrowserContext, server: RunningServer) -> None:
    page, errors = look(context, f"{server.url}/dashboard/check?population=staff")
    page.click("main #live button")
    page.wait_for_selector("a[href^='/dashboard/report']", timeout=120_000)
    text = page.locator("pre").inner_text()
    assert "the chain is whole" in text
    assert "keyhole audit: nobody is exposed (exit code 0)" in text
    page.click("a[href^='/dashboard/report']")
    assert "Nobody of 5 people is exposed" in page.locator("h1").inner_text()
    assert not [line for line in errors if "script" not in line]  # the sandbox of the report runs no script
    page.close()


def test_cookies_headers_and_forms(context: BrowserContext, server: RunningServer) -> None:
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/dashboard")
    login = httpx.get(f"{server.url}/dashboard/login")
    policy = login.headers["content-security-policy"]
    assert "unsafe-inline" not in policy
    assert "frame-ancestors 'none'" in policy
    assert login.headers["referrer-policy"] == "same-origin"
    assert not re.search(r"<script(?! src=)|style=|onclick", login.text)
    again = httpx.post(f"{server.url}/dashboard/login", data={"secret": CODE})
    assert again.status_code == 401  # the code was for once
    analyst = httpx.post(f"{server.url}/dashboard/login", data={"secret": server.key("ann")})
    assert analyst.status_code == 401
    head = {"cookie": f"{cookie['name']}={cookie['value']}"}
    for path in ("check", "reveal", "logout"):  # a form without the token of this login
        forged = httpx.post(f"{server.url}/dashboard/{path}", headers=head, data={"number": "0", "csrf": "x"})
        assert forged.status_code == 403, path
    assert httpx.get(f"{server.url}/dashboard/live", headers={}).status_code == 401
    assert httpx.get(f"{server.url}/dashboard/policy").headers["location"] == "/dashboard/login"


def test_a_revoked_key_and_a_logout_end_the_login(browser: Browser, server: RunningServer) -> None:
    opened = browser.new_context()
    page = opened.new_page()
    key = server.gate.keys.add("second", KeyRole.OWNER)
    for end in ("logout", "revoke"):
        page.goto(f"{server.url}/dashboard/login")
        page.fill("input[name=secret]", key)
        page.click("button")
        assert page.locator("h1").inner_text().startswith("Now")
        if end == "logout":
            page.click("footer button")
        else:
            server.gate.keys.revoke("second")
            page.goto(f"{server.url}/dashboard")
        assert page.url.endswith("/dashboard/login")
    opened.close()
