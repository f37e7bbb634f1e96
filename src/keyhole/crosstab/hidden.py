"""Hidden cells as records and lines as questions: tables become a log that any auditor of logs can read.

A cell is a record; its label is its id. Where numbers are exact, a line whose hidden cells have coefficients c answers
SUM(c * value) over them: the shown rest of the line. Where they are rounded, the shown cells are records too, each
known to lie as near to its number as it was rounded, and every line says that parts and whole differ by 0: so that an
error of rounding is the same one in every line that has the cell, and ranges are as narrow as the tables make them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

from keyhole.crosstab.cells import Ends, Key, label
from keyhole.crosstab.lines import AdditivityLine
from keyhole.crosstab.numbers import LONGEST
from keyhole.crosstab.publication import Publication
from keyhole.model.numbers import expand_fraction
from keyhole.model.transcript import Line
from keyhole.solve.disclosure_control import Circuit, EquationEnds
from keyhole.solve.rowspace import RowMatrix, RowSpace

NAME = "cells"
ID = "cell"


@dataclass(frozen=True, slots=True, eq=False)
class HiddenCells:
    """The records: hidden cells, margins that no table shows, rounded numbers; and the lines that tell of them."""

    publication: Publication
    keys: tuple[Key, ...]
    published: int  # so many of them are; the others only tie lines together
    lines: tuple[AdditivityLine, ...]
    value: str

    @classmethod
    def of(cls, publication: Publication, value: str) -> HiddenCells:
        """The hidden cells of tables."""
        keys = publication.hidden
        told = tuple(line for line in publication.lines if any(key not in publication.values for key in line.cells))
        if not publication.radius or not told:
            return cls(publication, (*keys, *publication.unpublished), len(keys), told, value)
        shown = dict.fromkeys(key for line in publication.lines for key in line.cells if key in publication.values)
        return cls(publication, (*keys, *publication.unpublished, *shown), len(keys), publication.lines, value)

    @property
    def rounded(self) -> bool:
        """Are the shown cells records too, since their numbers are off?"""
        return self.publication.radius > 0

    @property
    def settled(self) -> Mapping[Key, Fraction]:
        """The numbers that are put into lines: none that is off."""
        return {} if self.rounded else self.publication.values

    def near(self) -> Iterator[tuple[Key, tuple[Fraction, Fraction]]]:
        """The rounded numbers among the records: between which ends each lies; whole ones rounded inwards."""
        whole = self.publication.whole
        for key in self.keys:
            if key in self.publication.values:
                lo, hi = self.publication.ends(key)
                yield key, ((Fraction(ceil(lo)), Fraction(floor(hi))) if whole else (lo, hi))

    def sql(self, line: AdditivityLine) -> str:
        """The question that a line answers."""
        total = 'SUM("' + self.value.replace('"', '""') + '")'
        values = self.settled
        hidden = sorted((key for key in line.parts if key not in values), key=label)
        whole = line.whole not in values
        if whole and hidden:
            parts, rest = name_condition(hidden), name_condition([line.whole])
            return f"SELECT {total} FILTER (WHERE {parts}) - {total} FILTER (WHERE {rest}) FROM {NAME}"
        return f"SELECT {total} FROM {NAME} WHERE {name_condition(hidden or [line.whole])}"

    def answer(self, line: AdditivityLine) -> Fraction:
        """What a line says of its hidden cells."""
        values = self.settled
        rest = sum((values[key] for key in line.parts if key in values), Fraction(0))
        if line.whole in values:
            return values[line.whole] - rest
        alone = not any(key not in values for key in line.parts)
        return rest if alone else -rest

    def log(self) -> Iterator[Line]:
        """The lines as statements with answers."""
        for number, line in enumerate(self.lines, 1):
            yield Line(number, self.sql(line), _expand_number(self.answer(line)), None, number)

    def csv(self, truth: Mapping[Key, Fraction]) -> str:
        """The records as a file; with their values, if all of them are at hand."""
        columns = sorted({column for key in self.keys for column, _ in key})
        text = io.StringIO()
        out = csv.writer(text, lineterminator="\n")
        known = bool(self.keys) and not self.rounded and all(key in truth for key in self.keys)
        out.writerow([ID, "marker", *columns, *([self.value] if known else [])])
        for key in self.keys:
            cell, held = self.publication.cells.get(key), dict(key)
            marker = "not published" if cell is None else f"suppressed {cell.marker or ''}"
            if key in self.publication.values:
                marker = "rounded"
            row = [label(key), marker, *(held.get(c, "(total)") for c in columns)]
            out.writerow([*row, *([_expand_number(truth[key])] if known else [])])
        return text.getvalue()

    def facts(self, ranges: Mapping[str, Ends]) -> Iterator[tuple[str, Ends]]:
        """What is known of the cells of each marker, and of rounded numbers: a condition and a range."""
        for marker, ends in ranges.items():
            if ends != (None, None) and any(self.marker(key) == marker for key in self.keys):
                text = f"suppressed {marker}".replace("'", "''")
                yield f"marker = '{text}'", ends
        yield from ((name_condition([key]), (_expand_number(lo), _expand_number(hi))) for key, (lo, hi) in self.near())

    def marker(self, key: Key) -> str | None:
        """What stands in the place of a cell's number."""
        cell = self.publication.cells.get(key)
        return None if cell is None else cell.marker


def name_condition(keys: Sequence[Key]) -> str:
    """The condition that names these cells."""
    return f"{ID} IN ({', '.join(chr(39) + label(key).replace(chr(39), chr(39) * 2) + chr(39) for key in keys)})"


def group_tied_cells(hidden: HiddenCells) -> Iterator[HiddenCells]:
    """The hidden cells that lines tie together, a group each; what is known of one says nothing of another."""
    group_of = {key: {key} for key in hidden.keys}
    for line in hidden.lines:
        tied = [key for key in line.cells if key in group_of]
        whole = set().union(*(group_of[key] for key in tied))
        group_of |= dict.fromkeys(whole, whole)
    for group in {id(group): group for group in group_of.values()}.values():
        keys = tuple(key for key in hidden.keys if key in group)
        lines = tuple(line for line in hidden.lines if any(key in group for key in line.cells))
        if lines:
            yield HiddenCells(
                hidden.publication, keys, sum(k in group for k in hidden.keys[: hidden.published]), lines, hidden.value
            )


def _expand_number(value: Fraction) -> Decimal:
    """A sum of published numbers with all its digits."""
    exact = expand_fraction(value, LONGEST)
    assert exact is not None
    return exact


def sum_shown_cells(
    used: Iterable[tuple[AdditivityLine, Fraction]], values: Mapping[Key, Fraction]
) -> dict[Key, Fraction]:
    """The shown cells of a sum of weight * (whole - parts), those that cancel left out."""
    found: dict[Key, Fraction] = {}
    for line, weight in used:
        for key, w in ((line.whole, weight), *((key, -weight) for key in line.parts)):
            if key in values:
                found[key] = found.get(key, Fraction(0)) + w
    return {key: w for key, w in found.items() if w}


def combine_formula(
    used: Iterable[tuple[AdditivityLine, Fraction]], values: Mapping[Key, Fraction]
) -> dict[Key, Fraction]:
    """The shown cells that a proof adds up to; a line whose whole alone is hidden answers that whole itself."""

    def alone(line: AdditivityLine) -> bool:
        return line.whole not in values and all(key in values for key in line.parts)

    return sum_shown_cells(((line, -w if alone(line) else w) for line, w in used), values)


def find_recovered_cells(
    published: Publication, gone: frozenset[Key], targets: Iterable[Key]
) -> dict[Key, frozenset[Key]]:
    """The targets that lines determine when the cells `gone` are hidden too, each with the shown cells that give it."""
    values = {key: v for key, v in published.values.items() if key not in gone}
    place: dict[Key, int] = {}
    rows: list[dict[int, int]] = []
    used: list[AdditivityLine] = []
    for line in published.lines:
        row = {place.setdefault(key, len(place)): 1 for key in line.parts if key not in values}
        if line.whole not in values:
            row[place.setdefault(line.whole, len(place))] = -1
        if row:
            rows.append(row)
            used.append(line)
    if not rows:
        return {}
    space = RowSpace(RowMatrix.from_sparse(rows, len(place)))
    fixed = set(space.determined().tolist())
    found = {}
    for key in targets:
        if key in place and place[key] in fixed:
            weights = space.weights(place[key])
            if weights is not None:
                found[key] = frozenset(sum_shown_cells(((used[i], w) for i, w in weights.items()), values))
    return found


def find_narrow_cells(
    hidden: HiddenCells, needs: Mapping[Key, tuple[Fraction, Fraction]], least: Fraction | None
) -> Iterator[Circuit[Key]]:
    """What proves of hidden cells that they have one number, or a range that does not reach the ends needed.

    The cells are those of `needs`; no number is below `least`. A proof is a sum of lines, and the shown cells in it
    are its units: a cell whose number was hidden moves the end by its weight times its number at most, or without
    bound. Hiding cells that together move it less than what is lacking does not help.
    """
    values = hidden.publication.values
    for group in group_tied_cells(hidden):
        place = {key: k for k, key in enumerate(group.keys)}
        rows: list[dict[int, int]] = []
        for line in group.lines:
            row = {place[key]: 1 for key in line.parts if key not in values}
            rows.append(row if line.whole in values else {**row, place[line.whole]: -1})
        right = [
            values.get(line.whole, Fraction(0)) - sum((values.get(key, Fraction(0)) for key in line.parts), Fraction(0))
            for line in group.lines
        ]
        ends = EquationEnds(rows, right, len(group.keys), least)
        for key in (key for key in group.keys if key in needs):
            yield from _find_narrow_sides(group, ends, place[key], needs[key], least)


def _find_narrow_sides(
    group: HiddenCells, ends: EquationEnds, at: int, need: tuple[Fraction, Fraction], least: Fraction | None
) -> Iterator[Circuit[Key]]:
    """The proofs about one cell."""
    values = group.publication.values
    rooms: dict[int, dict[Key, Fraction | None]] = {}
    proved: dict[int, Fraction] = {}
    for side in (1, -1):
        proof = ends.prove(at, side)
        if proof is None:
            continue
        shown = sum_shown_cells(((group.lines[k], weight) for k, weight in proof.weights.items()), values)
        rooms[side] = {
            key: None if least is None or weight * side > 0 else abs(weight) * (values[key] - least)
            for key, weight in shown.items()
        }
        proved[side] = proof.end
        lacking = need[1] - proof.end if side > 0 else proof.end - need[0]
        if lacking > 0:
            yield Circuit(
                frozenset(
                    (key, Fraction(1) if room is None else min(Fraction(1), room / lacking))
                    for key, room in rooms[side].items()
                    if room is None or room > 0
                )
            )
    if len(proved) == 2 and proved[1] == proved[-1]:
        both = [pair for room in rooms.values() for pair in room.items()]
        yield Circuit.of(key for key, room in both if room is None or room > 0)
