"""A headless browser for tests: Debian's Chromium, without a network, that notes whatever goes wrong.

One browser serves a whole module (fixture `browser`), since starting it takes longer than looking at a page.
"""

from __future__ import annotations

import os
import shutil
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
