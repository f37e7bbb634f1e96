"""The true values of a private column, to score an attack against."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Reconstruction, Target
from keyhole.config.settings import Settings
from keyhole.datasets import Roster
from keyhole.datasets.open import read_columns
from keyhole.errors import DataError


def true_values(
    target: Target, found: Reconstruction, truth: object, people: Roster, given: Settings, warnings: list[str]
) -> NDArray[Any]:
    """A column of the whole table, matched by id (by row number where there is none).

    Where ids repeat, the first record of a person is the first one of his in the truth, and so on.
    """
    ids = list(given.columns.id)
    rows = read_columns(truth, [*ids, target.column])
    name = truth if isinstance(truth, str | Path) else "the truth"
    if ids:
        known: dict[tuple[str, ...], list[Any]] = {}
        for row in rows:
            known.setdefault(tuple(str(v) for v in row[: len(ids)]), []).append(row[-1])
        values = _matched(known, people, ids, str(name), warnings)
    else:
        if len(rows) != people.n:
            raise DataError(f"{name} has {len(rows)} rows, the roster {people.n}; name the id column with --id")
        values = [row[-1] for row in rows]
    empty = sum(value is None for value in values)
    if empty:
        warnings.append(f"{_records(empty)} of the truth {'has' if empty == 1 else 'have'} no value: not scored")
    return _truth(values, found)


def _matched(
    known: dict[tuple[str, ...], list[Any]], people: Roster, ids: list[str], name: str, warnings: list[str]
) -> list[Any]:
    wanted = [tuple(str(label[id_]) for id_ in ids) for label in people.labels(np.arange(people.n))]
    missing = [key for key in wanted if key not in known]
    if missing:
        raise DataError(f"{name} has no record {', '.join(missing[0])!r} ({len(missing)} of {len(wanted)} are missing)")
    extra = sum(len(known[key]) for key in known.keys() - set(wanted))
    if extra:
        warnings.append(f"{_records(extra)} of the truth {_is(extra)} not in the roster: left out of the score")
    if not people.schema.repeated:
        return [known[key][-1] for key in wanted]
    many = {key: iter(values) for key, values in known.items()}
    found = [next(many[key], people) for key in wanted]
    uneven = next((key for key, value in zip(wanted, found, strict=True) if value is people), None)
    uneven = uneven or next((key for key in wanted if next(many[key], people) is not people), None)
    if uneven is not None:
        raise DataError(
            f"{name} has not as many records of {', '.join(uneven)!r} as the roster: they cannot be matched"
        )
    warnings.append("records of one person are matched with the truth in their order")
    return found


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _truth(values: list[Any], found: Reconstruction) -> NDArray[Any]:
    if found.values.dtype == object:
        names = np.empty(len(values), dtype=object)
        names[:] = values
        return names
    try:
        return np.array([math.nan if v is None else float(v) for v in values])
    except (TypeError, ValueError):
        raise DataError("the truth is not a number: declare the categories with values = [...]") from None
