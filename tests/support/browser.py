"""A headless browser for tests: Debian's Chromium, without a network, that notes whatever goes wrong.

One browser serves a whole module (fixture `browser`), since starting it takes longer than looking at a page.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class Looked:
    """An open page, with its errors and with every request that was not the file itself."""

    page: Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def program() -> str:
    """The browser on the path; without one the test is skipped, or fails where nothing may be missing."""
    found = next((where for where in map(shutil.which, NAMES) if where), None)
    if found is None:
        message = "no chromium on the path: make test installs it where it may"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a module."""
    with sync_playwright() as tool:
        opened = tool.chromium.launch(executable_path=program(), args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


def find_serious_faults(page: Page) -> list[str]:
    """What axe-core calls serious or critical on a page; without it the test is skipped, or fails in CI."""
    installed = Path(sys.prefix) / "axe"
    file = Path(os.environ.get("AXE_CORE", installed)) / "node_modules" / "axe-core" / "axe.min.js"
    if not file.is_file():
        message = "no axe-core: make test fetches it by npm, or AXE_CORE names the folder of its node_modules"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    page.evaluate(file.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")
    assert found["passes"], "axe-core looked at nothing"
    serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {node['html']}" for each in serious for node in each["nodes"]]


@contextmanager
def browser_page(
    browser: Browser, file: Path, *, width: int = 1000, height: int = 900, dark: bool = False
) -> Iterator[Looked]:
    """The file opened by itself, offline."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", offline=True
    )
    try:
        page = context.new_page()
        seen = Looked(page)
        page.on("console", lambda said: seen.errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.on("request", lambda asked: seen.requests.append(asked.url))
        page.goto(file.as_uri())
        seen.requests[:] = [url for url in seen.requests if url != file.as_uri()]
        yield seen
    finally:
        context.close()
