"""What an attack is: it observes evidence block by block and at any time gives a guess per record; saved and resumed.

An attack sees a `Target` (which column, how many records, what was known beforehand) and `Evidence`; never a `Source`.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import ConfigError, LogError
from keyhole.gather.evidence import Evidence
from keyhole.model.prior import Prior
from keyhole.model.query import Query
from keyhole.solve.status import SolverStatus

Floats = NDArray[np.float64]
State = dict[str, NDArray[Any]]
Watch = Callable[
    [int, float], None
]  # (step, residual or gap) of an iterative solver; raising KeyboardInterrupt stops it
_FORMAT = "keyhole attack 2"


class Measure(StrEnum):
    """What the numbers of `Reconstruction.confidence` mean."""

    STANDARD_ERROR = "standard error"
    PROBABILITY = "probability of being right"


@dataclass(frozen=True, slots=True)
class Target:
    """What is attacked, and what was known beforehand: a private column of n records and its prior.

    >>> t = Target("bit", 3, Prior(lo=Decimal(0), hi=Decimal(1), step=Decimal(1)))
    >>> t.mean, t.deviation, t.grid
    (0.5, 0.5, (0.0, 1.0))
    """

    column: str
    n: int
    prior: Prior = field(default_factory=Prior)

    @classmethod
    def of(cls, evidence: Evidence, column: str | None = None) -> Target:
        """The target that some evidence is about; the column may be left out when there is only one."""
        names = sorted({c for system in evidence.systems for c in system.columns} | set(evidence.knowledge.priors))
        if column is None:
            if len(names) != 1:
                listed = ", ".join(names) or "none"
                raise ConfigError(f"say which private column to attack: the evidence is about {listed}")
            column = names[0]
        return cls(column, evidence.n, evidence.prior(column))

    @property
    def lower(self) -> float:
        """Smallest value the column can have; -inf if unknown."""
        return -np.inf if self.prior.lo is None else float(self.prior.lo)

    @property
    def upper(self) -> float:
        """Largest value the column can have; inf if unknown."""
        return np.inf if self.prior.hi is None else float(self.prior.hi)

    @property
    def bounded(self) -> bool:
        """Are both ends known?"""
        return bool(np.isfinite(self.lower) and np.isfinite(self.upper))

    @property
    def mean(self) -> float:
        """The guess before any evidence: the middle of the range, the known end if there is one, else 0."""
        if self.prior.rates and self.grid is not None:
            return float(np.array(self.grid) @ self.rates)
        if self.bounded:
            return (self.lower + self.upper) / 2
        return float(np.clip(0.0, self.lower, self.upper))

    @property
    def deviation(self) -> float:
        """Standard deviation of a value drawn uniformly from the range or grid; inf if the range is open."""
        if not self.bounded:
            return np.inf
        if self.prior.rates and self.grid is not None:
            return float(np.sqrt(np.maximum((np.array(self.grid) - self.mean) ** 2 @ self.rates, 0.0)))
        if self.levels is not None:
            return float(np.sqrt((self.levels**2 - 1) / 12) * float(self.prior.step or 1))
        return float((self.upper - self.lower) / np.sqrt(12))

    @property
    def levels(self) -> int | None:
        """How many values a bounded grid has; None for reals or an open range."""
        if self.prior.step is None or not self.bounded:
            return None
        return int(np.floor((self.upper - self.lower) / float(self.prior.step) + 1e-9)) + 1

    @property
    def grid(self) -> tuple[float, ...] | None:
        """The values of a bounded grid, smallest first."""
        if self.levels is None:
            return None
        return tuple(self.lower + k * float(self.prior.step or 1) for k in range(self.levels))

    @property
    def categories(self) -> tuple[str, ...] | None:
        """The values of a categorical column."""
        return self.prior.values

    @property
    def rates(self) -> Floats:
        """How common each value of `categories` or of `grid` is beforehand, adding up to one; even if not stated.

        >>> Target("c", 3, Prior(values=("A", "B", "C"), rates=(("A", Decimal("0.8")),))).rates.round(3).tolist()
        [0.8, 0.1, 0.1]
        """
        count = len(self.categories) if self.categories is not None else self.levels or 0
        named = np.full(count, np.nan)
        for name, rate in self.prior.rates:
            if self.categories is not None:
                named[self.categories.index(name)] = float(rate)
            else:
                named[round((float(name) - self.lower) / float(self.prior.step or 1))] = float(rate)
        left = np.isnan(named)
        named[left] = max(0.0, 1 - float(named[~left].sum())) / max(1, int(left.sum()))
        return np.asarray(named / named.sum())

    def snap(self, values: Floats) -> Floats:
        """The nearest values that the column can have."""
        values = np.clip(values, self.lower, self.upper)
        if self.prior.step is None:
            return np.asarray(values, dtype=np.float64)
        step, base = float(self.prior.step), 0.0 if self.prior.lo is None else float(self.prior.lo)
        snapped = base + step * np.round((values - base) / step)
        # One rounding to the decimals of the grid: 3 + 22 * 0.1 should read 5.2, not 5.2000000000000002.
        ends = (self.prior.step, self.prior.lo or Decimal(0))
        digits = max(0, *(-int(d.as_tuple().exponent) for d in ends))
        return np.asarray(np.clip(np.round(snapped, digits), self.lower, self.upper))


@dataclass(frozen=True, slots=True, eq=False)
class Reconstruction:
    """A guess per record, in record order, with how sure the attack is of each.

    `values` are numbers (categories: text). `confidence` is what `measure` says: a standard error (inf: nothing is
    known) or a probability of being right. `residual` is the root mean square distance by which the guess misses the
    answers, in the answers' units. `status` says how the solver ended, `note` what it did, in words.
    """

    values: NDArray[Any]
    confidence: Floats
    residual: float
    status: SolverStatus
    measure: Measure = Measure.STANDARD_ERROR
    note: str = ""
    unread: tuple[str, ...] = ()
    merged: Mapping[str, str] = field(default_factory=dict)  # categories that no answer tells apart, and their one name


class Attack(Protocol):
    """Evidence, block by block, to a guess per record."""

    @property
    def target(self) -> Target:
        """What is attacked."""

    def observe(self, evidence: Evidence) -> None:
        """Take in any block of rows (one question or a whole log)."""

    def estimate(self) -> Reconstruction:
        """The guess now. Pure: asking twice gives the same and changes nothing."""

    def state(self) -> State:
        """All that was learnt, as arrays: `resume` with it continues as if never interrupted."""

    def resume(self, state: State) -> None:
        """Continue from a saved state."""


class ActiveAttack(Attack, Protocol):
    """An attack that chooses its own questions."""

    def propose(self) -> Query | None:
        """The next question; None: nothing left worth asking."""


def guess_from_prior(target: Target) -> Reconstruction:
    """The guess before any evidence: the prior's mean, with the prior's spread.

    >>> guess_from_prior(Target("x", 2, Prior(lo=Decimal(3), hi=Decimal(9)))).values.tolist()
    [6.0, 6.0]
    """
    if target.categories is not None:
        best = int(np.argmax(target.rates))
        values = np.full(target.n, target.categories[best], dtype=object)
        return Reconstruction(
            values, np.full(target.n, target.rates[best]), 0.0, SolverStatus.PRIOR, Measure.PROBABILITY
        )
    values = np.full(target.n, target.mean)
    return Reconstruction(values, np.full(target.n, target.deviation), 0.0, SolverStatus.PRIOR)


def save_attack(attack: Attack, path: str | Path) -> None:
    """Write the state as one .npz file; the file appears whole or not at all.

    >>> import tempfile
    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> from keyhole.attacks.methods.least_squares import LeastSquares
    >>> e = from_arrays(np.eye(2), [1.0, 2.0])
    >>> a, b = LeastSquares(Target.of(e)), LeastSquares(Target.of(e))
    >>> a.observe(e)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_attack(a, f"{folder}/half.npz")
    ...     resume_attack(b, f"{folder}/half.npz")
    >>> b.estimate().values.tolist()
    [1.0, 2.0]
    """
    path = Path(path)
    draft = path.with_name(path.name + ".part")
    head = np.array([_FORMAT, type(attack).__name__, attack.target.column, str(attack.target.n)])
    with draft.open("wb") as file:
        np.savez(file, allow_pickle=False, **{"head": head, **{f"state.{k}": v for k, v in attack.state().items()}})
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def resume_attack(attack: Attack, path: str | Path) -> None:
    """Load a saved state into a fresh attack of the same kind on the same target."""
    expected = [_FORMAT, type(attack).__name__, attack.target.column, str(attack.target.n)]
    try:
        with np.load(path, allow_pickle=False) as found:
            head = [str(h) for h in found["head"]]
            state = {k.removeprefix("state."): found[k] for k in found.files if k.startswith("state.")}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        raise LogError(f"{path} is not a saved attack, or is damaged: start again from the transcript") from None
    if head[0] != _FORMAT:
        raise LogError(f"{path} was saved by another version ({head[0]}): start again from the transcript")
    if head != expected:
        raise LogError(f"{path} was saved by {' '.join(head[1:])} records, not {' '.join(expected[1:])} records")
    attack.resume(state)
