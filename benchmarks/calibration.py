"""Is a stated certainty worth what it says? Methods x worlds x fall-backs, on many logs with known secrets.

A probability is compared with the share that is right, in bins of what was stated; a standard error with the root mean
square error, both in units of the prior's spread, in bins of what was stated. `python -m benchmarks.calibration`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.attack import Measure, Target, from_arrays
from keyhole.attack.choose import run
from keyhole.evidence import Evidence
from keyhole.knowledge import Prior
from keyhole.transcript import Noise

BIT = Prior(Decimal(0), Decimal(1), Decimal(1))
RARE = Prior(Decimal(0), Decimal(1), Decimal(1), rates=(("0", Decimal("0.8")), ("1", Decimal("0.2"))))
TEN = Prior(Decimal(0), Decimal(9), Decimal(1))
REAL = Prior(Decimal(0), Decimal(1))
ENOUGH = 1000  # records that a bin must hold to be judged
ALLOWED = 0.05
EDGES = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0 + 1e-9])

Rng = np.random.Generator
Made = tuple[Evidence, NDArray[np.float64], bool]  # evidence, secret, is its noise to be estimated?


@dataclass(frozen=True, slots=True)
class CalibrationWorld:
    """A way to make logs, and the methods that are tried on them."""

    name: str
    make: Callable[[Rng], Made]
    methods: tuple[str, ...]


def _secret(rng: Rng, prior: Prior, n: int) -> NDArray[np.float64]:
    if prior is REAL:
        return rng.random(n)
    if prior is RARE:
        return (rng.random(n) < 0.2).astype(np.float64)
    return rng.integers(0, 2 if prior is BIT else 10, n).astype(np.float64)


def _log(rng: Rng, prior: Prior, n: int, m: int, kind: str, scale: float, density: float = 0.5) -> Made:
    x = _secret(rng, prior, n)
    A = (rng.random((m, n)) < density).astype(int)
    A[:, : n // 10] = 0  # people nobody asks about
    y, noise, auto = A @ x, None, False
    if kind in ("laplace", "gaussian"):
        y = y + (rng.laplace(0, scale, m) if kind == "laplace" else rng.normal(0, scale, m))
        noise = Noise(kind, Fraction(str(scale)))
    elif kind in ("auto", "clamped"):
        y = np.round(y + rng.normal(0, scale, m))
        y = np.maximum(y, 0) if kind == "clamped" else y
        noise, auto = Noise("gaussian", Fraction(1)), True
    elif kind == "understated":
        y = y + rng.normal(0, scale, m)
        noise = Noise("gaussian", Fraction(str(scale / 4)))
    elif kind == "rounded":
        y = np.round(y / 2) * 2
        noise = Noise("rounded", Fraction(1))
    elif kind == "wrong":
        bad = rng.random(m) < 0.2
        y = y + np.where(bad, rng.normal(0, scale, m), 0.0)
    return from_arrays(A, y.tolist(), noise=noise, prior=prior), x, auto


def _of(prior: Prior, n: int, m: int, kind: str, scale: float = 2.0, density: float = 0.5) -> Callable[[Rng], Made]:
    return lambda rng: _log(rng, prior, n, m, kind, scale, density)


CONVEX = ("bounded", "lbfgs")
LINEAR = ("kaczmarz",)
WORLDS: tuple[CalibrationWorld, ...] = (
    CalibrationWorld("bits, exact, every table", _of(BIT, 30, 8, "exact"), ("integer",)),
    CalibrationWorld("bits, exact, approximated", _of(BIT, 100, 30, "exact"), ("integer",)),
    CalibrationWorld("bits, rounded to 2", _of(BIT, 40, 20, "rounded"), ("integer",)),
    CalibrationWorld("bits, Laplace 2", _of(BIT, 50, 60, "laplace"), ("integer", "bounded", "l1")),
    CalibrationWorld("bits, Gaussian 2", _of(BIT, 50, 60, "gaussian"), ("integer", *CONVEX, "l1", *LINEAR)),
    CalibrationWorld(
        "bits, Gaussian 3, rounded, nothing stated", _of(BIT, 50, 150, "auto", 3.0), ("integer", "bounded")
    ),
    CalibrationWorld("bits, the same, clamped at 0", _of(BIT, 50, 150, "clamped", 3.0, 0.15), ("integer",)),
    CalibrationWorld("bits, noise 4 times the stated", _of(BIT, 50, 120, "understated"), ("integer", "bounded")),
    CalibrationWorld("rare bits, base rate stated", _of(RARE, 50, 60, "gaussian"), ("integer",)),
    CalibrationWorld("grid of 10, exact", _of(TEN, 20, 8, "exact"), ("integer",)),
    CalibrationWorld("grid of 10, Gaussian 2", _of(TEN, 40, 40, "gaussian"), ("integer", "bounded")),
    CalibrationWorld("reals, exact", _of(REAL, 40, 20, "exact"), ("bounded", "kaczmarz")),
    CalibrationWorld("reals, Gaussian .5", _of(REAL, 40, 60, "gaussian", 0.5), ("bounded", "l1", *LINEAR)),
    CalibrationWorld("reals, one answer in five wrong", _of(REAL, 20, 60, "wrong", 5.0), ("l1",)),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One bin: what was stated and what came true, both shares (or both errors in units of the prior's spread)."""

    world: str
    method: str
    measure: str
    records: int
    stated: float
    came: float

    @property
    def off(self) -> float:
        """The distance."""
        return abs(self.stated - self.came)


def cells(world: CalibrationWorld, method: str, records: int, seed: int = 0) -> Iterator[Cell]:
    """Bins of one method on logs of one world, until so many records were guessed."""
    stated: list[NDArray[np.float64]] = []
    came: list[NDArray[np.float64]] = []
    measure = ""
    while sum(map(len, stated)) < records:
        rng = np.random.default_rng([seed, len(stated)])
        evidence, x, auto = world.make(rng)
        target = Target.of(evidence)
        unstated = frozenset(e.number for e in evidence.transcript.entries) if auto else frozenset()
        _, found = run(method, target, evidence, unstated=unstated)
        measure = str(found.measure)
        spread = target.deviation
        if found.measure is Measure.PROBABILITY:
            stated.append(found.confidence)
            came.append((np.abs(found.values - x) < 1e-6).astype(np.float64))
        else:
            stated.append(np.minimum(found.confidence, 10 * spread) / spread)
            came.append(np.abs(found.values - x) / spread)
    said, real = np.concatenate(stated), np.concatenate(came)
    probability = measure == str(Measure.PROBABILITY)
    place = np.digitize(said, EDGES)
    for b in np.unique(place):
        held = place == b
        if probability:
            yield Cell(world.name, method, measure, int(held.sum()), float(said[held].mean()), float(real[held].mean()))
        else:
            both = (float(np.sqrt(np.mean(part[held] ** 2))) for part in (said, real))
            yield Cell(world.name, method, measure, int(held.sum()), *both)


def table(records: int, only: str = "") -> Iterator[Cell]:
    """Every method on every world."""
    for world in WORLDS:
        for method in world.methods:
            if only in f"{world.name} {method}":
                yield from cells(world, method, records)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4000, help="records guessed by each method in each world")
    parser.add_argument("--only", default="", help="a part of the names of world and method")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    given = parser.parse_args()
    found = table(given.records, given.only)
    if given.format == "json":
        print(json.dumps([{"off": c.off, **{k: getattr(c, k) for k in c.__slots__}} for c in found], indent=1))
        return
    print("| world | method | measure | records | stated | came true | off |\n|---|---|---|---|---|---|---|")
    for c in found:
        mark = " **" if c.records >= ENOUGH and c.off > ALLOWED else ""
        print(
            f"| {c.world} | {c.method} | {c.measure} | {c.records} | {c.stated:.3f} | {c.came:.3f} |"
            f" {c.off:.3f}{mark} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
