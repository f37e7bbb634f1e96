"""Who contributes to each cell: from a file of contributors, or from what a table says of them beside its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from keyhole.crosstab.cells import Key, TableLayout
from keyhole.crosstab.nesting import Nesting
from keyhole.crosstab.numbers import as_number
from keyhole.crosstab.publication import Publication
from keyhole.crosstab.sensitivity import Contributions, SensitivityRule
from keyhole.crosstab.sheet import Sheet
from keyhole.errors import ConfigError, DataError


@dataclass(frozen=True, slots=True)
class Sensitive:
    """A cell that fails a rule."""

    key: Key
    rule: SensitivityRule


def counted(sheet: Sheet, value: str, keys: Iterable[Key], nested: Nesting) -> dict[Key, Contributions]:
    """The contributors of each cell: one row of the file a contributor. Cost: rows times distinct sets of columns."""
    if value not in sheet.header:
        raise ConfigError(f"{sheet.name} has no column {value!r}; it has {', '.join(sheet.header)}")
    at, wanted = {name: k for k, name in enumerate(sheet.header)}, set(keys)
    shapes = {frozenset(column for column, _ in key) for key in wanted}
    inside = {parent: (child, of) for child, above in nested.inside.items() for parent, of in above.items()}
    missing = {c for shape in shapes for c in shape} - at.keys() - {p for p, (c, _) in inside.items() if c in at}
    if missing:
        raise ConfigError(f"{sheet.name} has no column {sorted(missing)[0]!r}, so whom a cell counts is not known")
    found: dict[Key, list[Fraction]] = {key: [] for key in wanted}
    for line, row in sheet.rows:
        amount = as_number(row[at[value]], sheet.delimiter)
        if amount is None:
            raise DataError(f"{sheet.name}, line {line}: {value} is no number")
        codes = {c: _codes(c, row, at, nested, inside) for shape in shapes for c in shape}
        for shape in shapes:
            for key in _keys(sorted(shape), codes):
                if key in found:
                    found[key].append(Fraction(amount))
    return {key: Contributions.of(values) for key, values in found.items()}


def _codes(
    column: str,
    row: tuple[str, ...],
    at: Mapping[str, int],
    nested: Nesting,
    inside: Mapping[str, tuple[str, Mapping[str, str]]],
) -> list[str]:
    """The categories of a column that a contributor counts in: its own, and those above."""
    if column in at:
        found = [row[at[column]]]
    else:
        child, of = inside[column]
        found = [of.get(row[at[child]], "")]
    above = nested.parents.get(column, {})
    while found[-1] in above:
        found.append(above[found[-1]])
    return found


def _keys(columns: list[str], codes: Mapping[str, list[str]]) -> Iterable[Key]:
    found: list[list[tuple[str, str]]] = [[]]
    for column in columns:
        found = [[*pairs, (column, code)] for pairs in found for code in codes[column]]
    return map(frozenset, found)


def told(publication: Publication, layout: TableLayout, rules: Iterable[SensitivityRule]) -> dict[Key, Contributions]:
    """What the tables say of the contributors of each cell; in a table of counts the number itself is N.

    A count that was rounded to more than units is not known.
    """
    counts = layout.count is None and layout.largest is None and all(r.kind == "threshold" for r in rules)
    found = {}
    for key, cell in publication.cells.items():
        value = publication.values.get(key, publication.truth.get(key))
        top = tuple(Fraction(x) for x in (cell.largest, cell.second) if x is not None)
        if counts and value is not None and value.denominator == 1:
            found[key] = Contributions(value, int(value) if publication.radii.get(key, 0) < 1 else None)
        elif cell.count is not None or (value is not None and top):
            count = None if cell.count is None else int(cell.count)
            found[key] = Contributions(value or Fraction(0), count, top if value is not None else ())
    return found


def sensitive_cells(
    publication: Publication, known: Mapping[Key, Contributions], rules: Iterable[SensitivityRule]
) -> tuple[list[Sensitive], dict[SensitivityRule, int]]:
    """The cells that fail each rule, and of how many each rule cannot be told."""
    found, unknown = [], {}
    for rule in rules:
        verdicts = {key: rule.sensitive(known[key]) if key in known else None for key in publication.cells}
        found += [Sensitive(key, rule) for key, verdict in verdicts.items() if verdict]
        unknown[rule] = sum(verdict is None and key in publication.values for key, verdict in verdicts.items())
    return found, unknown
