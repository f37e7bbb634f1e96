"""Where the checker finds second tables that show everybody open: what the all-clear of a verdict rests on.

Records of one class may exchange what is private of them, and values may move along null vectors. Both follow from the
public columns and from the log. The data decide only which are needed, and that there is room; in which direction
is not said, since that would bound a value. `keyhole.checker` makes the tables and runs the log on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.base import Directions, Exposure
from keyhole.auditing.exchange import free_directions
from keyhole.auditing.promise import COMPLETE
from keyhole.gather.evidence import Evidence, System
from keyhole.model.grid import Grid
from keyhole.model.prior import Fact, Prior
from keyhole.model.schema import Kind, Role, Schema
from keyhole.model.transcript import ABSENT, Line
from keyhole.report.documents.json_text import Value, json_number, json_values
from keyhole.report.documents.verdict import AlikePart, LoggedStatement, Witness


def describe_witness(exposure: Exposure) -> Witness | None:
    """What the all-clear rests on; None where second values do not show it. Cost: a text a record, and null vectors."""
    if not exposure.complete or exposure.needs_more or exposure.log is None:
        return None
    evidence, schema, shown = exposure.evidence, exposure.roster.schema, exposure.shown
    if exposure.assumption is not None:
        evidence = exposure.assumption.exposure.evidence
        shown |= exposure.assumption.exposure.shown | exposure.assumption.exchanged
    parts = [
        _describe_part(system, evidence, schema, exposure.directions.get(number), known=number in shown)
        for number, system in enumerate(evidence.systems)
    ]
    by_rank = exposure.promise == COMPLETE
    return Witness(
        kind="witness",
        statements=tuple(map(_describe_line, exposure.log.lines)),
        domains={c.name: _describe_domain(exposure.evidence.prior(c.name)) for c in schema.of_role(Role.PRIVATE)},
        facts=tuple(map(describe_fact, evidence.knowledge.facts)),
        whole=by_rank or all(number in shown and _sees_all(s) for number, s in enumerate(evidence.systems)),
        parts=tuple(parts),
    )


def _sees_all(system: System) -> bool:
    """Do the classes tell apart whom answers do? A MIN under a private condition has a public one that they do not."""
    return all(fact.where is not None for fact in system.order)


def _describe_line(line: Line) -> LoggedStatement:
    noise: dict[str, Value] | None = None
    if line.noise is not None:
        noise = {"kind": line.noise.kind, "scale": json_values(line.noise.scale)}
    return LoggedStatement(
        sql=line.sql, **({} if line.answer is ABSENT else {"answer": json_values(line.answer)}), noise=noise
    )


def _describe_domain(prior: Prior) -> dict[str, Any]:
    if prior.is_real:
        return {"domain": "real"}
    said: dict[str, Any] = {"min": prior.lo, "max": prior.hi, "step": prior.step}
    found = {name: json_number(value) for name, value in said.items() if value is not None}
    return found | ({} if prior.values is None else {"values": list(prior.values)})


def describe_fact(fact: Fact) -> dict[str, Value]:
    """What is known besides, as facts of a keyhole.toml say it."""
    said = {"min": fact.lo, "max": fact.hi, "sum_min": fact.sum_lo, "sum_max": fact.sum_hi}
    found = {name: json_number(value) for name, value in said.items() if value is not None}
    return {"where": fact.where, "column": fact.column, **found}


def _describe_part(
    system: System, evidence: Evidence, schema: Schema, directions: Directions | None, *, known: bool
) -> AlikePart:
    """`known`: exchange, and the directions if there are any, show everybody open."""
    names = dict.fromkeys((*system.columns, *(part.column.name for part in system.partitions)))
    units = {name: _unit(schema, name, evidence.prior(name)) for name in names}
    if directions is None and not known:
        directions = free_directions(system, units)
    if directions is not None:
        units |= dict(zip(directions.names, directions.units, strict=True))
    return AlikePart(
        columns=tuple(names),
        units=tuple(str(unit / next(iter(units.values()))) for unit in units.values()),
        classes=tuple(_describe_classes(system.atoms.of)) if _sees_all(system) else (),
        vectors=()
        if directions is None or not _sees_all(system)
        else tuple(_describe_vectors(directions, tuple(names), system.atoms.first)),
    )


def _unit(schema: Schema, name: str, prior: Prior) -> Fraction:
    """By how much a value moves at least; 1 where any number is possible."""
    column = schema.find(name)
    grid = Grid.of(Kind.DOUBLE, prior) if column is None else Grid.of(column.kind, prior, column.digits)
    return grid.step or Fraction(1)


def _describe_classes(of: NDArray[np.int32]) -> Iterator[str]:
    """The classes of several records."""
    order = np.argsort(of, kind="stable")
    ends = np.cumsum(np.bincount(of)).tolist()
    start = 0
    for end in ends:
        if end - start > 1:
            yield describe_rows((order[start:end] + 1).tolist())
        start = end


def describe_rows(rows: Iterable[int]) -> str:
    """Ascending rows as a text, with runs as their ends.

    >>> describe_rows([1, 3, 4, 5, 9])
    '1 3-5 9'
    """
    runs: list[list[int]] = []
    for row in rows:
        if runs and runs[-1][1] == row - 1:
            runs[-1][1] = row
        else:
            runs.append([row, row])
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def _describe_vectors(found: Directions, names: tuple[str, ...], first: NDArray[np.int64]) -> Iterator[str]:
    place = [names.index(name) for name in found.names]
    rows = (first[found.classes] + 1).tolist()
    last, words = 0, list[str]()
    entries = zip(found.which.tolist(), rows, found.steps.tolist(), found.columns.tolist(), strict=True)
    for which, row, steps, column in entries:
        if which != last:
            yield _up_to_sign(words)
            last, words = which, []
        words.append(f"{row}:{steps}" + (f":{place[column]}" if place[column] else ""))
    if words:
        yield _up_to_sign(words)


def _up_to_sign(words: list[str]) -> str:
    """A vector whose first entry is positive, so that its sign says nothing.

    >>> _up_to_sign(["3:-1", "7:2"])
    '3:1 7:-2'
    """
    if ":-" not in words[0]:
        return " ".join(words)
    return " ".join(word.replace(":-", ":") if ":-" in word else word.replace(":", ":-", 1) for word in words)
