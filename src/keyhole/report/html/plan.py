"""The report of a plan: the few harmless questions that give one person away, and the arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from keyhole.report.html.markup import Markup, lines, table, tag
from keyhole.report.html.page import Section, Tile, page


def plan_page(found: Mapping[str, Any]) -> str:
    """One page of what `keyhole plan --format json` says."""
    queries = found.get("queries") or []
    exposes = found.get("exposes") or []
    who = ", ".join(str(v) for v in found["target"].values())
    sentence = f"{len(queries)} questions give {who} away." if exposes else f"There is no plan for {who}."
    tiles = [Tile(str(len(queries)), "questions"), Tile(str(len(exposes)), "confirmed by the auditor")]
    return page("plan", sentence, "bad" if exposes else "good", [], tiles, _sections(found, queries))


def _sections(found: Mapping[str, Any], queries: list[str]) -> Iterator[Section]:
    rows = [(f"Q{k}", tag("code", lines(sql))) for k, sql in enumerate(queries, 1)]
    body: list[Markup] = [table(("", "question"), rows)] if rows else []
    if found.get("formula"):
        body.append(tag("pre", lines(str(found["formula"]))))
    yield Section("The questions and the arithmetic", tuple(body))
    rest = {
        k: v for k, v in found.items() if k not in ("queries", "formula", "target") and isinstance(v, str | int | float)
    }
    yield Section("More", (table(("", ""), list(rest.items())),) if rest else ())
