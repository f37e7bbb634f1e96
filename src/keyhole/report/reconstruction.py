"""Rows that were rebuilt from statistics, in words and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from keyhole.attacks.microdata.reconstruct import RebuiltRows, RebuiltStatus, RowValues
from keyhole.auditing.base import visible
from keyhole.report.documents.attacks import ReconstructionDocument
from keyhole.report.documents.json_text import json_labels

SHOWN = 40


def describe_reconstruction(found: RebuiltRows) -> ReconstructionDocument:
    """The fields of the contract."""
    return ReconstructionDocument(
        sentence=summarize_reconstruction(found),
        unique=found.unique,
        rows=tuple(map(json_labels, found.rows)),
        common=None if found.common is None else tuple(map(json_labels, found.common)),
        status=str(found.status),
        cells=found.cells,
        of=found.of,
    )


def summarize_reconstruction(found: RebuiltRows) -> str:
    """What came of it."""
    n, searched = len(found.rows), f"{found.cells} numbers, one per cell, were searched"
    one, several = ("person", "people") if found.people else ("row", "rows")
    rows = f"1 {one}" if n == 1 else f"{n} {several}"
    if found.status is RebuiltStatus.STOPPED:
        return f"Stopped before any rows were found, so nothing is claimed ({searched})."
    if found.status is RebuiltStatus.LIMIT:
        return f"The time was up before any rows were found, so nothing is claimed ({searched}; --time-limit)."
    if found.unique:
        return f"The {rows} below {'is' if n == 1 else 'are'} the only ones that give these statistics ({searched})."
    many = len(found.common or ())
    share = f"{many} {f'{one} is' if many == 1 else f'{several} are'} in"
    if not found.proved:
        told = "others exist" if found.unique is False else "whether others do is not known"
        why = "the time was up" if found.status is RebuiltStatus.ROWS else "the search was stopped"
        more = "; --time-limit" if found.status is RebuiltStatus.ROWS else ""
        proved = f" Proved by then: {share} every set." if many else ""
        return f"The {rows} below give these statistics; {told}: {why} ({searched}{more}).{proved}"
    shared = f"{share} all of them" if many else f"no {one} is in all of them"
    return f"Several sets of {rows} give these statistics; {shared} ({searched})."


def render_reconstruction(found: RebuiltRows) -> Iterator[tuple[str, str]]:
    """The reconstruction as lines, each with the style in which a terminal shows it."""
    yield summarize_reconstruction(found), "bold red" if found.unique or found.common else "bold yellow"
    if found.common and not found.unique:
        yield "", ""
        yield f"In every set of {'people' if found.people else 'rows'} with these statistics:", "bold"
        yield from _table(found.common)
    if found.rows:
        yield "", ""
        yield (f"The {'people' if found.people else 'rows'}:" if found.unique else "One such set:"), "bold"
        yield from _table(found.rows)
    if found.proved:
        yield "", ""
        yield (
            "Proved by exhaustive search in whole numbers (CP-SAT); the rows were checked against every figure.",
            "dim",
        )


def _table(rows: Sequence[RowValues]) -> Iterator[tuple[str, str]]:
    """Rows in columns; equal ones once, with how often."""
    counted = Counter(tuple(row.items()) for row in rows)
    names = [name for name, _ in next(iter(counted))]
    many = any(times > 1 for times in counted.values())
    listed = [[*names, *(["rows"] if many else [])]]
    for items, times in list(counted.items())[:SHOWN]:
        listed.append([*(visible(str(value)) for _, value in items), *([str(times)] if many else [])])
    widths = [max(len(row[k]) for row in listed) for k in range(len(listed[0]))]
    for k, row in enumerate(listed):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip(), "bold" if k == 0 else ""
    if len(counted) > SHOWN:
        yield f"  ... and {len(counted) - SHOWN} more (--format json lists all)", ""
