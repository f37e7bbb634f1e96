"""The docs as a site: every link leads somewhere, every page is reached, and nothing is loaded from elsewhere."""

from __future__ import annotations

from pathlib import Path

from docs.site import PARTS, ROOT, build_site, find_broken_links, read_all_pages, read_page
from playwright.sync_api import Browser
from tests.support.browser import browser, browser_page

__all__ = ["browser"]


def test_no_link_is_broken() -> None:
    assert find_broken_links(read_all_pages()) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# A\n[one](b.md) [two](#nowhere) [three](#a) ![four](no.png) [five](https://example.org)\n")
    found = find_broken_links({page: read_page(page)})
    assert [line.split(": ")[1] for line in found] == ["b.md", "#nowhere", "no.png"]


def test_every_page_of_the_docs_is_named_once() -> None:
    names = [name for several in PARTS.values() for name in several]
    assert len(names) == len(set(names))
    there = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert there <= set(names), "say in docs/site.py where it belongs"


def test_a_browser_opens_the_site(tmp_path: Path, browser: Browser) -> None:
    assert build_site(tmp_path) == []
    with browser_page(browser, tmp_path / "index.html") as seen:
        assert seen.page.locator("nav a").count() >= len(list((ROOT / "docs").glob("*.md")))
        assert not seen.errors
        assert not [url for url in seen.requests if not url.startswith(tmp_path.as_uri())]
