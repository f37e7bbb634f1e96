"""What an attack found, on which terms: guesses, their scores against the truth, and the JSON of both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.api.attack_guess import PersonTotal, ShownRow
from keyhole.attacks.base import Measure, Reconstruction, Target
from keyhole.attacks.choose import Choice
from keyhole.attacks.experiment import Score, find_right_guesses, rank_precision, score_reconstruction
from keyhole.config.settings import Settings
from keyhole.datasets import Roster
from keyhole.datasets.open import read_columns
from keyhole.errors import ConfigError, DataError


@dataclass(frozen=True, slots=True)
class AttackTerms:
    """How a log is attacked, what it is scored against, and of whom to report in which order."""

    noise: str | None = None
    method: str = "auto"
    truth: object = None
    tolerance: float | None = None
    target: str | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        if self.tolerance is not None and not (math.isfinite(self.tolerance) and self.tolerance >= 0):
            raise ConfigError(f"--tolerance {self.tolerance:g}: write a number that is not negative")
        if self.by not in (None, "record", "confidence"):
            raise ConfigError(f"--by {self.by!r}: write record or confidence")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Attacked:
    """What was rebuilt, one entry a private column, for the people of `labels`; `scores`, `truths` if it was given."""

    found: tuple[tuple[Target, Choice, Reconstruction], ...]
    labels: tuple[Mapping[str, Any], ...]
    scores: Mapping[str, Score]
    warnings: tuple[str, ...]
    truths: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=dict)  # proved
    rows: tuple[int, ...] = ()  # where ids repeat: the number of each record, from 0
    totals: tuple[PersonTotal, ...] = ()  # of people with several records
    features: tuple[ShownRow, ...] = ()  # of people's rows in other tables

    def __repr__(self) -> str:
        made = ", ".join(f"{target.column} by {choice.method}" for target, choice, _ in self.found)
        right = ", ".join(f"{100 * s.exact:.0f} % of {column} exact" for column, s in self.scores.items())
        return f"<Attacked: {made}, {len(self.labels)} records{f'; {right}' if right else ''}>"

    def _repr_html_(self) -> str:
        from keyhole.report.html.attacks import render_attack_fragment

        return render_attack_fragment({**self.to_json(), "truths": self.truths})

    def estimates(self, column: str | None = None) -> NDArray[Any]:
        """The guesses for a column (the first one), in the order of `labels`."""
        for target, _, result in self.found:
            if column is None or target.column == column:
                return tidy(result.values)
        raise ConfigError(f"{column!r} was not attacked; {', '.join(t.column for t, _, _ in self.found)} was")

    def to_json(self) -> dict[str, Any]:
        """As the contract has it."""
        estimates = [
            {
                "record": dict(label),
                **({"row": self.rows[at] + 1} if self.rows else {}),
                "column": target.column,
                "value": _number(value),
                "confidence": _number(sure),
                **self._range(target.column, at),
            }
            for target, _, result in self.found
            for at, (label, value, sure) in enumerate(
                zip(self.labels, tidy(result.values), result.confidence, strict=True)
            )
        ]
        first = self.found[0]
        reply: dict[str, Any] = {
            "method": first[1].method,
            "why": first[1].why,
            "residual": round(max(r.residual for _, _, r in self.found), 9),
            "status": first[2].status.value,
            "note": first[2].note,
            "confidence": str(first[2].measure),
            "estimates": estimates,
            "warnings": list(self.warnings),
        }
        if self.rows:
            reply["people"] = [each.to_json() for each in self.totals]
        if self.features:
            reply["features"] = [each.to_json() for each in self.features]
        if self.scores:
            whole = {column: s.as_json() for column, s in self.scores.items()}
            reply["score"] = whole[first[0].column] if len(whole) == 1 else whole
        return reply

    def _range(self, column: str, at: int) -> dict[str, Any]:
        if column not in self.ranges:
            return {}
        lo, hi = self.ranges[column]
        return {"range": [_number(lo[at]), _number(hi[at])]}


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found of everybody; `reported` is about those who are wanted, in the order that is."""

    found: tuple[tuple[Target, Choice, Reconstruction], ...]
    ranges: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
    people: Roster
    given: Settings
    terms: AttackTerms
    warnings: list[str]

    def reported(self, wanted: NDArray[np.int64]) -> Attacked:
        """Guesses, scores and ranges of these records."""
        rows = self._ordered(wanted)
        truths: dict[str, NDArray[Any]] = {}
        scores: dict[str, Score] = {}
        for target, choice, result in self.found if self.terms.truth is not None else ():
            real = true_values(target, result, self.terms.truth, self.people, self.given, self.warnings)
            truths[target.column] = real[rows]
            scores[target.column] = self._scored(target, choice, result, real, rows)
        found = tuple(
            (t, c, replace(r, values=r.values[rows], confidence=r.confidence[rows])) for t, c, r in self.found
        )
        labels = tuple(self.people.labels(np.arange(self.people.n)))
        ranges = {column: (lo[rows], hi[rows]) for column, (lo, hi) in self.ranges.items()}
        known = {column: values.tolist() for column, values in truths.items()}
        at = tuple(int(r) for r in rows) if self.people.schema.repeated else ()
        return Attacked(found, tuple(labels[r] for r in rows), scores, tuple(self.warnings), known, ranges, at)

    def _ordered(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.terms.by != "confidence" or not self.found:
            return wanted
        first = self.found[0][2]
        sure = first.confidence[wanted]
        return wanted[np.argsort(-sure if first.measure is Measure.PROBABILITY else sure, kind="stable")]

    def _scored(
        self, target: Target, choice: Choice, result: Reconstruction, real: NDArray[Any], rows: NDArray[np.int64]
    ) -> Score:
        picked = replace(result, values=result.values[rows], confidence=result.confidence[rows])
        made = score_reconstruction(picked, real[rows], replace(target, n=len(rows)), tolerance=self.terms.tolerance)
        right = find_right_guesses(result, real, target)
        control = np.flatnonzero(~choice.asked) if choice.asked is not None else np.zeros(0, dtype=np.int64)
        if len(control):
            made = replace(made, control_records=len(control), control_exact=float(right[control].mean()))
        if self.terms.by == "confidence":
            made = replace(made, precision=rank_precision(right[rows]))
        return made


def tidy(values: NDArray[Any]) -> NDArray[Any]:
    """What is below a solver's rounding of the largest value reads 0."""
    if values.dtype == object:
        return values
    size = float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))
    return np.where(np.abs(values) < 1e-9 * size, 0.0, values)


def _number(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(f"{value:.12g}") if math.isfinite(value) else None
    return None if value is None else str(value)


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
            raise DataError(f"{name} has {len(rows)} rows, the data {people.n}; name the id column with --id")
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
        warnings.append(f"{_records(extra)} of the truth {_is(extra)} not in the data: left out of the score")
    if not people.schema.repeated:
        return [known[key][-1] for key in wanted]
    many = {key: iter(values) for key, values in known.items()}
    found = [next(many[key], people) for key in wanted]
    uneven = next((key for key, value in zip(wanted, found, strict=True) if value is people), None)
    uneven = uneven or next((key for key in wanted if next(many[key], people) is not people), None)
    if uneven is not None:
        raise DataError(f"{name} has not as many records of {', '.join(uneven)!r} as the data: they cannot be matched")
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
