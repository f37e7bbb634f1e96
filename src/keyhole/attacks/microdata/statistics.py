"""Published statistics: the columns with their values, what cannot be, and figures per group; from TOML or from tables.

    [columns.age]
    min = 0
    max = 125

    [columns.sex]
    values = ["F", "M"]

    [[impossible]]
    where = "age < 15 AND sex = 'M'"

    [[statistics]]
    where = "sex = 'F'"
    count = 4
    mean = { age = 33.5 }       # as printed: off by half a unit of its last digit
    median = { age = 30 }
    min = { age = [8, 10] }     # any figure may be a range

A suppressed count is a range: `count = [0, 2]`.

Of tables of counts the categories are the domain, and every cell is the count of a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from keyhole.config.toml_table import read_toml
from keyhole.crosstab.cells import Ends as MarkerEnds
from keyhole.crosstab.cells import Key, label
from keyhole.crosstab.nesting import Nesting
from keyhole.crosstab.numbers import count_digits
from keyhole.crosstab.publication import Publication
from keyhole.errors import ConfigError, DataError, NumberError
from keyhole.model.numbers import read_decimal
from keyhole.model.predicate import Scalar, format_literal, quote_name

FIGURES = ("sum", "mean", "median", "min", "max")
Ends = tuple[Fraction | None, Fraction | None]


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column of the unknown rows: its name and all values that it can have, numbers in their order."""

    name: str
    values: tuple[Scalar, ...]

    @property
    def numeric(self) -> bool:
        """Does it hold numbers?"""
        return not any(isinstance(v, str | bool) for v in self.values)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a group: `kind` count, sum, mean, median, min or max of a column, between `ends`."""

    kind: str
    column: str
    ends: Ends

    def __str__(self) -> str:
        lo, hi = (None if end is None else float(end) for end in self.ends)
        said = f"{lo:.12g}" if lo == hi and lo is not None else f"[{_shown(lo)}, {_shown(hi)}]"
        return f"{self.kind}{f'({self.column})' if self.column else ''} = {said}"


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """Figures of the rows that satisfy `where` (empty: of all)."""

    where: str
    figures: tuple[Figure, ...]
    name: str = ""

    def __str__(self) -> str:
        return f"{self.name or self.where or 'all rows'}: {', '.join(map(str, self.figures))}"


@dataclass(frozen=True, slots=True)
class Statistics:
    """All that was published, and what is known beforehand."""

    columns: tuple[Attribute, ...]
    statistics: tuple[GroupFigures, ...]
    impossible: tuple[str, ...] = ()


def load_statistics(path: Path) -> Statistics:
    """Read a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}. Is the path right?") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path.name} is not UTF-8 text") from None
    return parse_statistics(text, path.name)


def parse_statistics(text: str, name: str = "the statistics") -> Statistics:
    """Read TOML text; a fault is said with its place.

    >>> text = "[columns.age]\\nmin = 0\\nmax = 9\\n[[statistics]]\\ncount = 3\\nmean = { age = 4.5 }"
    >>> str(parse_statistics(text).statistics[0])
    'all rows: count = 3, mean(age) = [4.45, 4.55]'
    """
    raw = read_toml(text, name)
    known = {"columns", "statistics", "impossible"}
    if set(raw) - known:
        odd = sorted(set(raw) - known)[0]
        raise ConfigError(f"{name}: {odd!r} is not known here; write [columns.NAME], [[statistics]], [[impossible]]")
    columns = tuple(_attribute(name, each, given) for each, given in _table(raw.get("columns"), name).items())
    if not columns:
        raise ConfigError(f"{name}: no column is declared: write [columns.NAME] with values, or min and max")
    listed = raw.get("statistics", [])
    if not isinstance(listed, list) or not listed:
        raise ConfigError(f"{name}: there is no [[statistics]]")
    found = tuple(_statistic(name, k, _table(each, name), columns) for k, each in enumerate(listed, 1))
    never = tuple(_where(name, f"impossible {k}", each) for k, each in enumerate(raw.get("impossible", []), 1))
    return Statistics(columns, found, never)


def _table(given: Any, name: str) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name}: {given!r} should be a table")
    return given


def _where(name: str, place: str, given: Any) -> str:
    if not isinstance(given, Mapping) or set(given) != {"where"} or not isinstance(given["where"], str):
        raise ConfigError(f'{name}, {place}: write [[impossible]] with where = "..."')
    return str(given["where"])


def _attribute(name: str, column: str, given: Any) -> Attribute:
    given = _table(given, name)
    place = f"{name}, [columns.{column}]"
    if set(given) - {"values", "min", "max", "step"}:
        raise ConfigError(f"{place}: write values = [...], or min, max and step")
    if "values" in given:
        values = given["values"]
        if not isinstance(values, list) or not values or len(set(map(repr, values))) != len(values):
            raise ConfigError(f"{place}: values is a list of different values")
        if not all(isinstance(v, str) for v in values) and any(isinstance(v, str | bool) for v in values):
            raise ConfigError(f"{place}: values are all text or all numbers")
        return Attribute(column, tuple(values if isinstance(values[0], str) else sorted(values)))
    if "min" not in given or "max" not in given:
        raise ConfigError(f"{place}: without both min and max there are no end of values")
    lo, hi, step = (_number(given.get(end, 1), place) for end in ("min", "max", "step"))
    if lo > hi or step <= 0:
        raise ConfigError(f"{place}: min = {lo} to max = {hi} by {step} is no range")
    count = int((hi - lo) / step) + 1
    if count > 10**6:
        raise ConfigError(f"{place}: {count} values are too many; narrow min and max, or take a larger step")
    numbers = [lo + k * step for k in range(count)]
    return Attribute(column, tuple(int(v) if v == v.to_integral_value() else v for v in numbers))


def _statistic(name: str, k: int, given: Mapping[str, Any], columns: tuple[Attribute, ...]) -> GroupFigures:
    place = f"{name}, statistic {k}"
    odd = sorted(set(given) - {"where", "name", "count", *FIGURES})
    if odd:
        raise ConfigError(f"{place}: {odd[0]!r} is not known; write where, name, count, {', '.join(FIGURES)}")
    figures = []
    if "count" in given:
        figures.append(Figure("count", "", _ends(given["count"], place, exact=True)))
    for kind in FIGURES:
        for column, said in _table(given.get(kind), place).items():
            found = next((c for c in columns if c.name == column), None)
            if found is None or not found.numeric:
                raise ConfigError(f"{place}: {kind} of {column!r}, which is no declared column of numbers")
            figures.append(Figure(kind, column, _ends(said, place, exact=kind != "mean")))
    if not figures:
        raise ConfigError(f"{place}: it says nothing; write count, {', '.join(FIGURES)}")
    texts = [given.get(word, "") for word in ("where", "name")]
    if not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"{place}: where and name are text")
    return GroupFigures(texts[0].strip(), tuple(figures), texts[1])


def _ends(given: Any, place: str, *, exact: bool) -> Ends:
    """A number, with half a unit of its last digit around it unless it is exact; or a range, null for no end."""
    if isinstance(given, list):
        if len(given) != 2:
            raise ConfigError(f"{place}: a range is [lo, hi]")
        lo, hi = (None if end in ("", "none") else Fraction(_number(end, place)) for end in given)
        if lo is not None and hi is not None and lo > hi:
            raise ConfigError(f"{place}: the range {given} is empty")
        return lo, hi
    number = _number(given, place)
    half = Fraction(0) if exact else Fraction(1, 2 * 10 ** count_digits(number))
    return Fraction(number) - half, Fraction(number) + half


def _number(given: Any, place: str) -> Decimal:
    if isinstance(given, bool) or not isinstance(given, int | Decimal):
        raise DataError(f"{place}: {given!r} is no number")
    try:
        number = read_decimal(given)
    except NumberError as error:
        raise DataError(f"{place}: {error}") from None
    if not number.is_finite():
        raise DataError(f"{place}: {given!r} is no number")
    return number


def _shown(end: float | None) -> str:
    return "" if end is None else f"{end:.12g}"


def read_count_tables(published: Publication, nested: Nesting, markers: Mapping[str, MarkerEnds]) -> Statistics:
    """What tables of counts say about the rows that were counted."""
    categories: dict[str, dict[str, None]] = {}
    for key in published.cells:
        for column, category in sorted(key):
            categories.setdefault(column, {})[category] = None
    leaves = {column: _finest_categories(column, names, nested) for column, names in categories.items()}
    if not leaves:
        raise ConfigError("the tables have no categories, so there is nothing to reconstruct")
    columns = tuple(Attribute(column, tuple(names)) for column, names in leaves.items())
    found = [_count_of_cell(key, ends, nested, leaves) for key, ends in _list_cells(published, markers)]
    if not any(not s.where for s in found):
        most = Figure("count", "", (Fraction(0), _most_rows(published, markers)))
        found.append(GroupFigures("", (most,), "all rows"))
    return Statistics(columns, tuple(found), tuple(_impossible_pairs(nested, leaves)))


def _list_cells(published: Publication, markers: Mapping[str, MarkerEnds]) -> Iterator[tuple[Key, Ends]]:
    for key, cell in published.cells.items():
        if key in published.values:
            yield key, published.ends(key)
        else:
            ends = markers.get(cell.marker or "", (None, None))
            lo, hi = (None if end is None else Fraction(end) for end in ends)
            if lo is not None or hi is not None or not key:
                yield key, (lo, hi if key else hi or _most_rows(published, markers))


def _most_rows(published: Publication, markers: Mapping[str, MarkerEnds]) -> Fraction:
    """How many rows there are at most: the smallest sum over the categories of a column."""
    sums: dict[str, Fraction | None] = {}
    for key, cell in published.cells.items():
        if len(key) == 1:
            ((column, _),) = key
            before = sums.get(column, Fraction(0))
            known = markers.get(cell.marker or "", (None, None))[1]
            shown = published.ends(key)[1] if key in published.values else None
            top = shown if shown is not None else None if known is None else Fraction(known)
            sums[column] = None if top is None or before is None else before + top
    ends = [each for each in sums.values() if each is not None]
    if not ends:
        raise ConfigError("nothing says how many rows there are: no table shows the grand total, nor all of a margin")
    return min(ends)


def _finest_categories(column: str, names: Mapping[str, None], nested: Nesting) -> list[str]:
    """The finest categories of a column."""
    above = nested.parents.get(column, {})
    inner = {above[c] for c in names if c in above}
    return [c for c in names if c not in inner]


def _count_of_cell(key: Key, ends: Ends, nested: Nesting, leaves: Mapping[str, list[str]]) -> GroupFigures:
    parts = []
    for column, category in sorted(key):
        inside = [leaf for leaf in leaves[column] if category in _with_parents(leaf, nested.parents.get(column, {}))]
        parts.append(f"{quote_name(column)} IN ({', '.join(map(format_literal, inside))})" if inside else "FALSE")
    return GroupFigures(" AND ".join(parts), (Figure("count", "", ends),), label(key))


def _with_parents(category: str, above: Mapping[str, str]) -> Iterator[str]:
    yield category
    while category in above:
        category = above[category]
        yield category


def _impossible_pairs(nested: Nesting, leaves: Mapping[str, list[str]]) -> Iterator[str]:
    """A town lies in its own county only."""
    for child, over in nested.inside.items():
        for parent, of in over.items():
            if child in leaves and parent in leaves:
                for category, inside in of.items():
                    other_parent = f"{quote_name(parent)} <> {format_literal(inside)}"
                    yield f"{quote_name(child)} = {format_literal(category)} AND {other_parent}"
