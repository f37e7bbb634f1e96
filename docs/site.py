"""The docs as a site: `python -m docs.site [FOLDER]` writes plain HTML that needs no network and no server.

Every link is checked: to a page, to a heading of a page, to a file of the repository. A broken one is an error.
"""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import dataclass
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

from docs.refresh import printed, refreshed
from keyhole.report.html.page import POLICY, read_style

ROOT = Path(__file__).resolve().parent.parent
PARTS = {
    "Tutorials": ("README.md", "hospital.md", "statistics-office.md", "data-platform.md", "red-team.md"),
    "How to": (
        "install.md",
        "audit.md",
        "people.md",
        "logs.md",
        "ask.md",
        "private-answers.md",
        "tables.md",
        "attack.md",
        "report.md",
        "pipelines.md",
        "serve.md",
        "postgres-door.md",
        "engines.md",
    ),
    "Reference": ("glossary.md", "commands.md", "json.md", "sql.md"),
    "Theory": ("how-it-works.md", "inference.md", "oracle.md", "private-theory.md", "papers.md"),
    "Judge it": ("peers.md", "limits.md", "RESULTS.md"),
}
GALLERY = "gallery"
EXTRA_STYLE = """
.site { display: grid; grid-template-columns: 14rem minmax(0, 1fr); max-width: 80rem; margin: 0 auto; }
.site nav { padding: 1.5rem 1rem; font-size: .92rem; }
.site nav b { display: block; margin-top: 1rem; color: var(--soft); }
.site nav a { display: block; text-decoration: none; padding: .1rem 0; } .site nav a.here { font-weight: 700; }
@media (max-width: 50rem) { .site { display: block; } }
@media print { .site nav { display: none; } .site { display: block; } }
"""
_LINK = re.compile(r"^(?P<path>[^#]*)(?:#(?P<anchor>.*))?$")


@dataclass(frozen=True)
class DocPage:
    """A page: its file, its title, its body as HTML, the anchors of its headings, and what it links to."""

    path: Path
    title: str
    body: str
    anchors: frozenset[str]
    links: tuple[str, ...]


def read_page(path: Path) -> DocPage:
    """A page of Markdown; headings get the anchors that code hosts give them."""
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    tokens = reader.parse(path.read_text(encoding="utf-8"))
    anchors: set[str] = set()
    links: list[str] = []
    title = ""
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            words = "".join(t.content for t in tokens[at + 1].children or [] if t.type in ("text", "code_inline"))
            title = title or words
            anchors.add(anchor := make_heading_anchor(words, anchors))
            token.attrSet("id", anchor)
        for child in token.children or []:
            if child.type == "link_open":
                links.append(str(child.attrGet("href")))
                child.attrSet("href", _link_html(str(child.attrGet("href"))))
            if child.type == "image":
                links.append(str(child.attrGet("src")))
                child.attrSet("src", re.sub(r"^(?:\.\./)?docs/", "", str(child.attrGet("src"))))
    return DocPage(path, title, reader.renderer.render(tokens, reader.options, {}), frozenset(anchors), tuple(links))


def make_heading_anchor(words: str, taken: set[str]) -> str:
    """The anchor of a heading.

    >>> make_heading_anchor("What it costs, and why", set()), make_heading_anchor("Again", {"again"})
    ('what-it-costs-and-why', 'again-1')
    """
    plain = re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")
    number = next(k for k in range(len(taken) + 1) if (plain if k == 0 else f"{plain}-{k}") not in taken)
    return plain if number == 0 else f"{plain}-{number}"


def _link_html(link: str) -> str:
    """A link to a page of the docs as one of the site; others stay."""
    found = _LINK.match(link)
    if found is None or "://" in link or not found["path"].endswith(".md"):
        return link
    name = Path(found["path"]).name
    target = "index.html" if name == "README.md" else name.removesuffix(".md") + ".html"
    return target + (f"#{found['anchor']}" if found["anchor"] else "")


def find_broken_links(pages: dict[Path, DocPage]) -> list[str]:
    """Links that lead nowhere; addresses of other sites are not looked up."""
    found = []
    for page in pages.values():
        for link in page.links:
            if "://" in link or link.startswith("mailto:"):
                continue
            parts = _LINK.match(link)
            assert parts is not None
            target = (page.path.parent / parts["path"]).resolve() if parts["path"] else page.path
            if not target.exists():
                found.append(f"{page.path.name}: {link}: there is no such file")
            elif parts["anchor"] and target in pages and parts["anchor"] not in pages[target].anchors:
                found.append(f"{page.path.name}: {link}: there is no such heading")
    return found


def read_all_pages() -> dict[Path, DocPage]:
    """README, every page of the docs, and what the benchmarks printed."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "RESULTS.md"]
    return {path: read_page(path) for path in paths}


def render_doc_page(page: DocPage, pages: dict[Path, DocPage]) -> str:
    """A page with the way to all others beside it."""
    listed = []
    known = {path.name: each for path, each in pages.items()}
    placed = {name for names in PARTS.values() for name in names}
    rest = tuple(name for name in sorted(known) if name not in placed)
    for part, names in {**PARTS, "More": rest}.items():
        there = [known[name] for name in names if name in known]
        if there:
            listed.append(f"<b>{escape(part)}</b>")
            listed += [_render_entry(each, here=each is page) for each in there]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)} \'self\'">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(page.title)}</title>\n'
        f"<style>\n{read_style()}{EXTRA_STYLE}</style>\n</head>\n<body>\n<div class='site'>\n"
        f"<nav>{''.join(listed)}</nav>\n<main>\n{page.body}\n</main>\n</div>\n</body>\n</html>\n"
    )


def _render_entry(page: DocPage, *, here: bool) -> str:
    href = _link_html(page.path.name)
    return f'<a href="{href}"{" class=here" if here else ""}>{escape(page.title)}</a>'


def build_site(folder: Path) -> list[str]:
    """Write the site; what is returned are its broken links."""
    pages = read_all_pages()
    folder.mkdir(parents=True, exist_ok=True)
    for page in pages.values():
        (folder / _link_html(page.path.name)).write_text(render_doc_page(page, pages), encoding="utf-8")
    images = folder / "images"
    images.mkdir(exist_ok=True)
    for picture in (ROOT / "docs" / "images").glob("*"):
        (images / picture.name).write_bytes(picture.read_bytes())
    return find_broken_links(pages)


def build_gallery(folder: Path) -> list[Path]:
    """Run the commands of report.md, put their pages into the site, and name them on its page."""
    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        printed("keyhole demo .", Path(name))
        refreshed(text, Path(name))
        made = sorted(Path(name, GALLERY).glob("*.html"))
        (folder / GALLERY).mkdir(exist_ok=True)
        for page in made:
            (folder / GALLERY / page.name).write_bytes(page.read_bytes())
    listed = "".join(f'<li><a href="{GALLERY}/{p.name}">{escape(p.stem)}</a></li>' for p in made)
    page = folder / "report.html"
    page.write_text(page.read_text(encoding="utf-8").replace("</main>", f"<ul>{listed}</ul></main>"), encoding="utf-8")
    return made


def main() -> int:
    """Build, and name what is broken."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site"
    wrong = build_site(folder)
    if not build_gallery(folder):
        wrong.append("report.md: its commands made no page")
    for line in wrong:
        sys.stderr.write(f"broken link: {line}\n")
    sys.stdout.write(f"{folder / 'index.html'}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
