"""What the docs show is what the commands print."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from docs.refresh import BLOCK, ROOT, lacks_data, pages, printed, refreshed


@pytest.fixture(scope="module")
def folder() -> Path:
    path = Path(tempfile.mkdtemp())
    printed("keyhole demo .", path)
    return path


WITH_OUTPUT = [page for page in pages() if BLOCK.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", WITH_OUTPUT, ids=[page.name for page in WITH_OUTPUT])
def test_printed_output_is_current(page: Path, folder: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if lacks_data(text):
        pytest.skip(f"{page.name} shows third-party data: set KEYHOLE_DATA to the folder that holds them")
    assert refreshed(text, folder) == text, f"run `make docs` to print the output in {page.name} again"


@pytest.mark.parametrize("page", [*pages(), *ROOT.glob("*.md")], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_readme_opens_with_the_two_commands() -> None:
    head = (ROOT / "README.md").read_text(encoding="utf-8").split("## ")[0]
    assert "make demo" in head
    assert "make test" in head


def test_every_reference_key_is_in_the_bibliography() -> None:
    known = set(re.findall(r"@\w+\{([\w-]+),", (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")))
    for path in (ROOT / "src").rglob("*.py"):
        for key in re.findall(r"\[([a-z]+(?:-[a-z]+)*\d{4}[a-z]?)\]", path.read_text(encoding="utf-8")):
            assert key in known, f"{path.name} cites {key}, which docs/references.bib lacks"
