"""A table that was bought: noisy whole numbers in every cell, with the law of their noise."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.defence.noise import LARGEST_SCALE, NoiseSource, checked, root_above
from keyhole.defence.tables.quantity import COUNT, Dose, NoiseLaw, Quantity
from keyhole.defence.tables.residuals import Floats, Names

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class BoughtTable:
    """Noisy quantities over the cells of the axes `names`; `values` has one array a quantity.

    Tables of one `generation` may be combined: within it, what was bought and how much of it followed from variances
    and public things alone. `charge` is the entry of the book that paid for it.
    """

    names: Names
    law: NoiseLaw
    doses: tuple[Dose, ...]
    values: tuple[Whole, ...]
    generation: int = 0
    charge: int = 0
    entry: int = 0
    spoken: Mapping[str, Any] = field(default_factory=dict)  # how each cell is asked in SQL, for transcripts

    def precision(self, dose: Dose) -> float:
        """One over the variance of the noise in a cell."""
        noise = float(dose.noise)
        return 1 / noise if self.law == "gaussian" else 1 / (2 * noise * noise)

    def of(self, quantity: Quantity) -> tuple[Dose, Floats] | None:
        """The noise and the noisy cells of one quantity."""
        for dose, values in zip(self.doses, self.values, strict=True):
            if dose.quantity == quantity:
                return dose, values.astype(np.float64)
        return None

    def holds(self, quantity: Quantity) -> bool:
        """Is a quantity in it?"""
        return any(dose.quantity == quantity for dose in self.doses)

    def packed(self) -> dict[str, Any]:
        """For the book; as long, whatever the numbers are."""
        return {
            "kind": "table" if self.names else "number",
            "names": list(self.names),
            "shape": list(self.values[0].shape),
            "law": self.law,
            "doses": [[d.quantity.column, d.quantity.steps, d.quantity.power, str(d.noise)] for d in self.doses],
            "values": [base64.b64encode(v.astype("<i8").tobytes()).decode() for v in self.values],
            "generation": self.generation,
            **self.spoken,
        }

    @classmethod
    def unpacked(cls, kept: dict[str, Any], charge: int, entry: int) -> BoughtTable:
        """From the book.

        >>> made = BoughtTable(("sex",), "laplace", (Dose(COUNT, Fraction(3)),), (np.array([4, -1]),))
        >>> BoughtTable.unpacked(made.packed(), 7, 9).values[0].tolist()
        [4, -1]
        """
        doses = tuple(Dose(Quantity(c, steps, power), Fraction(noise)) for c, steps, power, noise in kept["doses"])
        shape = tuple(kept["shape"])
        values = tuple(np.frombuffer(base64.b64decode(v), dtype="<i8").reshape(shape) for v in kept["values"])
        return cls(tuple(kept["names"]), kept["law"], doses, values, int(kept["generation"]), charge, entry)


def check_drawable(doses: Sequence[Dose], law: NoiseLaw) -> None:
    """Refuse noise that no sampler draws, before anything is charged."""
    for dose in doses:
        checked(_scale(dose, law))


def drawable(doses: Sequence[Dose], law: NoiseLaw) -> bool:
    """Can a sampler draw all of this noise?"""
    return all(0 < _scale(dose, law) <= LARGEST_SCALE for dose in doses)


def _scale(dose: Dose, law: NoiseLaw) -> Fraction:
    return dose.noise if law == "laplace" else Fraction(root_above(dose.noise))


def noisy(true: Whole, dose: Dose, law: NoiseLaw, noise: NoiseSource) -> Whole:
    """Independent discrete noise on every cell."""
    draw = noise.gaussian if law == "gaussian" else noise.laplace
    drawn = np.fromiter((draw(dose.noise) for _ in range(true.size)), dtype=np.int64, count=true.size)
    return true + drawn.reshape(true.shape)


__all__ = ["COUNT", "BoughtTable", "Whole", "check_drawable", "drawable", "noisy"]
