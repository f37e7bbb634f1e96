"""What the docs show is what the commands print."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from docs import reference
from docs.refresh import BLOCK, ROOT, lacks_data, pages, printed, refreshed
from docs.site import PARTS

MOST_PAGES, MOST_WORDS = 28, 40_000
LONGEST = 20  # words a sentence, on average, where somebody reads for the first time
TUTORIALS = [ROOT / "docs" / name if name != "README.md" else ROOT / name for name in PARTS["Tutorials"]]
GUIDES = [*TUTORIALS, *(ROOT / "docs" / name for name in PARTS["How to"])]
BANNED = re.compile(r"\b(custodians?|atoms?|epochs?|rosters?|priors?|told|sold)\b", re.IGNORECASE)
FENCE = re.compile(r"^```.*?^```\n?", re.DOTALL | re.MULTILINE)


def prose(text: str) -> str:
    """What a page says itself: no code, no printed output, no generated reference, no comments."""
    return re.sub(r"<!--.*?-->", "", FENCE.sub("", reference.PART.sub("", text)), flags=re.DOTALL)


def typed(text: str) -> str:
    """The same with the code that somebody types or writes, without what is printed."""
    text = re.sub(r"<!--.*?-->", "", reference.PART.sub("", text), flags=re.DOTALL)
    text = re.sub(r"^```console\n.*?^```\n?", "", text, flags=re.DOTALL | re.MULTILINE)
    answers = re.compile(r"^```python\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)
    keep = lambda code: ">>>" not in code or "\n".join(re.findall(r"^(?:>>>|\.\.\.).*$", code, re.MULTILINE))  # noqa: E731
    return answers.sub(lambda m: m[1] if keep(m[1]) is True else str(keep(m[1])), text)


def sentences(text: str) -> list[str]:
    """The sentences of a page; a row of a table and an entry of a list are no sentences."""
    found = []
    for paragraph in re.split(r"\n\s*\n", prose(text)):
        lines = paragraph.strip().splitlines()
        if not lines or lines[0].lstrip().startswith(("#", "|", "!", ">")):
            continue
        joined = re.sub(r"^\s*(?:[-*]|\d+\.) ", "", " ".join(re.sub(r"^\s*[-*] ", ". ", line) for line in lines))
        found += [part for part in re.split(r"(?<=[.?!:])\s+", joined) if len(part.split()) > 1]
    return found


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


def test_the_docs_are_few_and_short() -> None:
    there = sorted((ROOT / "docs").glob("*.md"))
    assert len(there) <= MOST_PAGES
    words = {page.name: len(typed(page.read_text(encoding="utf-8")).split()) for page in [*there, ROOT / "README.md"]}
    assert sum(words.values()) <= MOST_WORDS, words


@pytest.mark.parametrize("name", reference.PAGES)
def test_the_generated_reference_is_current(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert reference.PART.search(page)
    assert reference.written(page) == page, "run `python -m docs.reference`"


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.name)
def test_every_block_of_a_tutorial_is_run(page: Path) -> None:
    left = BLOCK.sub("", page.read_text(encoding="utf-8"))
    fences = FENCE.findall(left)
    if page.name == "README.md":  # the two commands, and Python that is a doctest
        assert all("$ make demo" in fence or ">>>" in fence for fence in fences)
    else:
        assert fences == []


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.name)
def test_sentences_of_a_tutorial_are_short(page: Path) -> None:
    found = sentences(page.read_text(encoding="utf-8"))
    assert len(found) > 10
    assert sum(len(sentence.split()) for sentence in found) / len(found) <= LONGEST


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_guides_have_no_words_of_the_trade(page: Path) -> None:
    assert BANNED.findall(re.sub(r"`[^`]*`", "", prose(page.read_text(encoding="utf-8")))) == []
