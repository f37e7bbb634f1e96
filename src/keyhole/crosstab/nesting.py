"""Hierarchies: which categories add up to which.

A column is nested in another (every municipality lies in one county) where some table shows both, or its codes have
parents in a list of codes (NACE: 01 in A, A in AZ). A cell of a municipality says its county by itself, so the county
is left out of its key.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from keyhole.crosstab.cells import CrossTable, Key, PublishedCell, label
from keyhole.crosstab.sheet import Sheet, read_sheet
from keyhole.errors import ConfigError, DataError

FILES = (".csv", ".tsv", ".txt", ".xlsx", ".hrc")
LEVEL = re.compile("@+")


@dataclass(frozen=True, slots=True)
class Nesting:
    """`parents[column][category]` is the code above it; `inside[child][parent][category]` the category it lies in."""

    parents: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    inside: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)

    def reduced(self, key: Key) -> Key:
        """A key without what its other categories imply."""
        held = dict(key)
        drop = {
            parent
            for child, above in self.inside.items()
            for parent, of in above.items()
            if child in held and of.get(held[child]) == held.get(parent)
        }
        return frozenset((c, v) for c, v in key if c not in drop) if drop else key

    def allows(self, key: Key, column: str, category: str) -> bool:
        """Can a cell of `key` have this category?"""
        held = dict(key)
        above = self.inside.get(column, {})
        return all(of.get(category) == held[parent] for parent, of in above.items() if parent in held)

    def comparable(self, key: Key, column: str) -> bool:
        """Is the column a further dimension of a cell? Not one above those it has."""
        return not any(column in above and child in dict(key) for child, above in self.inside.items())


def read_nesting(pairs: Iterable[str], tables: Iterable[CrossTable]) -> Nesting:
    """The hierarchies that `--nested child:parent` and `--nested column:codes.csv` name."""
    tables = list(tables)
    parents: dict[str, dict[str, str]] = {}
    inside: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for pair in pairs:
        child, colon, above = pair.partition(":")
        if not (child and colon and above):
            raise ConfigError(f"--nested {pair!r}: write child:parent (two columns) or column:codes.csv")
        if not any(child in t.columns for t in tables):
            raise ConfigError(f"--nested {pair!r}: no table has a column {child!r}")
        if Path(above).suffix.lower() in FILES:
            parents[child], known = read_code_file(Path(above))
            _check_codes(child, known, above, tables)
        else:
            inside[child][above] = _find_parents(child, above, tables)
    for above_it in inside.values():
        for parent, of in list(above_it.items()):
            for further, beyond in inside.get(parent, {}).items():
                above_it.setdefault(further, {c: beyond[p] for c, p in of.items() if p in beyond})
    return Nesting(parents, dict(inside))


def read_code_file(path: Path) -> tuple[dict[str, str], set[str]]:
    """The code above each code, and all codes: of a tau-Argus `.hrc` file, an sdcTable level file, or a list."""
    if path.suffix.lower() == ".hrc":
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except OSError as error:
            raise DataError.of_file(f"cannot read {path}: {error.strerror}. Is the path right?") from None
        except UnicodeDecodeError:
            raise DataError.of_file(f"{path.name} is not UTF-8 text; save it as UTF-8") from None
        codes = [(line.strip(), k) for k, line in enumerate(lines, 1) if line.strip()]
        bare = [(code.lstrip("@"), code, k) for code, k in codes]
        return read_levels(path.name, [(len(code) - len(name), name.strip(), k) for name, code, k in bare])
    sheet = read_sheet(path)
    rows = [(0, sheet.header), *sheet.rows][0 if LEVEL.fullmatch(sheet.header[0]) else 1 :]
    if len(sheet.header) == 2 and all(LEVEL.fullmatch(row[0]) for _, row in rows):
        return read_levels(path.name, [(len(row[0]) - 2, row[1], k) for k, row in rows])
    above = read_codes(sheet)
    return above, {code for _, row in sheet.rows for code in row if code}


def read_levels(name: str, codes: Sequence[tuple[int, str, int]]) -> tuple[dict[str, str], set[str]]:
    """The code above each of a list in order, each with its depth: 0 right below the total, which is at -1.

    >>> read_levels("h", [(-1, "Tot", 1), (0, "A", 2), (1, "a1", 3), (1, "a2", 4), (0, "B", 5)])[0]
    {'a1': 'A', 'a2': 'A'}
    """
    found: dict[str, str] = {}
    path: list[str] = []
    seen: set[str] = set()
    for depth, code, line in codes:
        if not code or code in seen or depth > len(path):
            fault = "no code" if not code else "stands there twice" if code in seen else "no code of the level above it"
            raise DataError(f"{name}, line {line}: {code!r}: {fault}")
        seen.add(code)
        if depth > 0:
            found[code] = path[depth - 1]
        if depth >= 0:
            path[depth:] = [code]
    return found, seen


def read_codes(sheet: Sheet) -> dict[str, str]:
    """A list of codes with the code above each: two columns, or levels from the finest to the coarsest.

    >>> from keyhole.crosstab.sheet import make_sheet
    >>> read_codes(make_sheet("c", [["a88", "a21", "a10"], ["01", "A", "AZ"], ["02", "A", "AZ"]]))
    {'01': 'A', 'A': 'AZ', '02': 'A'}
    """
    found: dict[str, str] = {}
    for line, row in sheet.rows:
        levels = [code for code in row if code]
        for code, above in pairwise(levels):
            if code == above:
                continue
            if found.setdefault(code, above) != above:
                raise DataError(
                    f"{sheet.name}, line {line}: {code!r} is in {above!r} here, and in {found[code]!r} above"
                )
    for code in found:
        seen, at = {code}, code
        while at in found:
            at = found[at]
            if at in seen:
                raise DataError.of_file(f"{sheet.name}: {code!r} lies in itself")
            seen.add(at)
    return found


def _check_codes(column: str, known: set[str], name: str, tables: Iterable[CrossTable]) -> None:
    """Every category must stand in the list of codes: one that does not would be taken for a code of the top."""
    for cell in (cell for table in tables for cell in table.cells):
        category = dict(cell.key).get(column)
        if category is not None and category not in known:
            raise DataError(
                f"{cell.place}: {column} {category} does not stand in {Path(name).name}, the list of its codes"
            )


def _find_parents(child: str, parent: str, tables: Sequence[CrossTable]) -> dict[str, str]:
    """Which category of the parent each of the child lies in: what tables with both columns show."""
    found: dict[str, str] = {}
    for cell in (cell for table in tables for cell in table.cells):
        held = dict(cell.key)
        if child in held and parent in held and found.setdefault(held[child], held[parent]) != held[parent]:
            raise DataError(
                f"{cell.place}: {child} {held[child]} lies in {parent} {held[parent]} here, and elsewhere in "
                f"{found[held[child]]}: {child} is not nested in {parent}"
            )
    if not found:
        raise ConfigError(f"--nested {child}:{parent}: no table shows both columns, so who lies where is not known")
    lost = {v: cell.place for t in tables for cell in t.cells for c, v in cell.key if c == child and v not in found}
    for category, place in lost.items():
        raise DataError(f"{place}: no table says in which {parent} {child} {category} lies, but --nested does")
    return found


def merge_cells(tables: Iterable[CrossTable], nested: Nesting) -> Iterator[list[PublishedCell]]:
    """The cells of all tables, those of one key together: shown ones first."""
    found: dict[Key, list[PublishedCell]] = defaultdict(list)
    for table in tables:
        mine: dict[Key, PublishedCell] = {}
        digits = table.digits
        for cell in table.cells:
            key = nested.reduced(cell.key)
            if key in mine and mine[key].value != cell.value:
                raise DataError(f"{cell.place}: {label(key)} stands there twice (first {mine[key].place})")
            mine.setdefault(key, replace(cell, key=key, digits=digits))
        for key, cell in mine.items():
            found[key].append(cell)
    for same in found.values():
        yield sorted(same, key=lambda cell: cell.value is None)
