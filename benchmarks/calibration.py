"""Is a stated certainty worth what it says? Methods x worlds x fall-backs, on many logs with known secrets.

A probability is compared with the share that is right, in bins of what was stated; a standard error with the root mean
square error, both in units of the prior's spread, in bins of what was stated. A bin of fewer than 1,000 records is
joined to its neighbour. `way` is how the certainty was computed (the status of the attack). An error that is not
stated (infinite) is no claim and not counted. `python -m benchmarks.calibration`: about
six minutes of one core; `--full` four times as long.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from keyhole.attacks import Measure, Reconstruction, Target, from_arrays
from keyhole.attacks.choose import run_attack
from keyhole.config import Config
from keyhole.datasets import load_roster
from keyhole.gather import gather, transcribe
from keyhole.gather.evidence import Evidence
from keyhole.model.prior import Prior
from keyhole.model.transcript import Line, Noise

BIT = Prior(Decimal(0), Decimal(1), Decimal(1))
RARE = Prior(Decimal(0), Decimal(1), Decimal(1), rates=(("0", Decimal("0.8")), ("1", Decimal("0.2"))))
TEN = Prior(Decimal(0), Decimal(9), Decimal(1))
REAL = Prior(Decimal(0), Decimal(1))
OPEN = Prior()
ENOUGH = 1000  # records that a bin must hold to be judged
ALLOWED = 0.05
SLOW = 1200  # records where a log takes long
FULL = 4  # times as many records with --full
EDGES = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0 + 1e-9])

Rng = np.random.Generator
Floats = NDArray[np.float64]
Made = tuple[Evidence, NDArray[Any], bool]  # evidence, secret, is its noise to be estimated?
Asked = tuple[str, NDArray[np.intp], float]  # a statement up to its list of people, these, the true answer
Claims = dict[tuple[str, str], list[Floats]]  # by way and measure


@dataclass(frozen=True, slots=True)
class CalibrationWorld:
    """A way to make logs, the methods that are tried on them, and how many records each guesses."""

    name: str
    make: Callable[[Rng], Made]
    methods: tuple[str, ...]
    records: int = 2400


def _secret(rng: Rng, prior: Prior, n: int) -> Floats:
    if prior is REAL:
        return rng.random(n)
    if prior is OPEN:
        return rng.normal(0, 1, n)
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
    elif kind == "rounded":  # to multiples of `scale`; ties of an even one go to the even multiple
        y = np.round(y / scale) * scale
        noise = Noise("rounded", Fraction(scale) / 2)
    elif kind == "wrong":
        bad = rng.random(m) < 0.2
        y = y + np.where(bad, rng.normal(0, scale, m), 0.0)
    return from_arrays(A, y.tolist(), noise=noise, prior=prior), x, auto


def _of(prior: Prior, n: int, m: int, kind: str, scale: float = 2.0, density: float = 0.5) -> Callable[[Rng], Made]:
    return lambda rng: _log(rng, prior, n, m, kind, scale, density)


def _groups(prior: Prior, n: int, size: int) -> Callable[[Rng], Made]:
    """Exact sums of groups of so many people, each in one."""

    def make(rng: Rng) -> Made:
        x = _secret(rng, prior, n)
        A = np.kron(np.eye(n // size, dtype=int), np.ones((1, size), dtype=int))
        return from_arrays(A, (A @ x[: A.shape[1]]).tolist(), prior=prior), x[: A.shape[1]], False

    return make


CATEGORIES = {"A": 0.4, "B": 0.3, "C": 0.2, "D": 0.1}
CONDITIONS = {"status = 'A'": "A", "status = 'C'": "C", "status IN ('B', 'D')": "BD", "status <> 'B'": "ACD"}


def _counts(n: int, m: int, deviation: float, *, auto: bool = False) -> Callable[[Rng], Made]:
    """Logs of COUNTs of categories with stated base rates, exact or with Gaussian noise, read as SQL."""
    rates = ", ".join(f"{name} = {rate}" for name, rate in CATEGORIES.items())
    config = Config.parse(
        f'[columns]\nid = ["who"]\n[columns.private.status]\nvalues = {list(CATEGORIES)}\nprior = {{{rates}}}\n'
    )

    def make(rng: Rng) -> Made:
        status = rng.choice(list(CATEGORIES), n, p=list(CATEGORIES.values()))

        def asked() -> Iterator[Asked]:
            for who in _people(rng, n, m):
                words, held = list(CONDITIONS.items())[int(rng.integers(len(CONDITIONS)))]
                yield f"COUNT(*) FROM r WHERE {words} AND ", who, float(np.isin(status[who], list(held)).sum())

        return _read(rng, config, n, asked(), deviation), status, auto

    return make


def _above(n: int, m: int, deviation: float, *, sums: bool = False) -> Callable[[Rng], Made]:
    """Logs of COUNTs of people with a number above .3 or .6, half of the statements sums if asked for, read as SQL."""
    config = Config.parse('[columns]\nid = ["who"]\n[columns.private.x]\nmin = 0\nmax = 1\n')

    def make(rng: Rng) -> Made:
        x = rng.random(n)

        def asked() -> Iterator[Asked]:
            for j, who in enumerate(_people(rng, n, m)):
                limit = float(rng.choice([0.3, 0.6]))
                counted = f"COUNT(*) FROM r WHERE x > {limit} AND ", who, float((x[who] > limit).sum())
                yield ("SUM(x) FROM r WHERE ", who, float(x[who].sum())) if sums and j % 2 else counted

        return _read(rng, config, n, asked(), deviation), x, False

    return make


def _people(rng: Rng, n: int, m: int) -> Iterator[NDArray[np.intp]]:
    """Whom each question is about; nobody asks about the first tenth."""
    for _ in range(m):
        yield np.flatnonzero((rng.random(n) < 0.5) & (np.arange(n) >= n // 10))


def _read(rng: Rng, config: Config, n: int, asked: Iterator[Asked], deviation: float) -> Evidence:
    """Evidence of statements about lists of people, answered exactly or with Gaussian noise."""
    roster = load_roster(pa.table({"who": list(range(n))}), config.columns)
    lines = []
    for j, (words, who, true) in enumerate(asked, 1):
        answer = Decimal(repr(round(true + rng.normal(0, deviation), 6))) if deviation else int(true)
        lines.append(Line(j, f"SELECT {words}who IN ({', '.join(map(str, who))})", answer, at=j))
    noise = Noise("gaussian", Fraction(str(deviation))) if deviation else None
    return gather(transcribe(lines, roster, noise=noise), roster, config.knowledge())


SMALLER = ("least-squares", "conjugate-gradient", "jacobi", "extended-kaczmarz", "kaczmarz")
OF_BITS = ("integer", "bounded", "lbfgs", "l1", "kaczmarz")
OF_REALS = ("bounded", "l1", "lbfgs", "kaczmarz", "convex", "sparse", "sgd")
WORLDS: tuple[CalibrationWorld, ...] = (
    CalibrationWorld("bits, exact", _of(BIT, 30, 8, "exact"), ("integer", "bounded", "l1", "kaczmarz")),
    CalibrationWorld("bits, exact, 100 people", _of(BIT, 100, 30, "exact"), ("integer",), SLOW),
    CalibrationWorld("bits, exact, few tables left", _of(BIT, 45, 18, "exact"), ("integer",), SLOW),
    CalibrationWorld("bits, exact sums of two", _groups(BIT, 40, 2), ("integer", "bounded", "kaczmarz", "sgd")),
    CalibrationWorld("grid of 10, exact sums of two", _groups(TEN, 40, 2), ("integer", "bounded", "sgd")),
    CalibrationWorld("reals, exact sums of two", _groups(REAL, 40, 2), ("bounded", "kaczmarz", "sgd", "sparse")),
    CalibrationWorld("reals, exact sums of three", _groups(REAL, 42, 3), ("bounded", "l1")),
    CalibrationWorld("bits, rounded to 2", _of(BIT, 30, 12, "rounded"), ("integer", "bounded", "l1")),
    CalibrationWorld("bits, rounded to 3", _of(BIT, 30, 12, "rounded", 3.0), ("integer", "bounded", "l1")),
    CalibrationWorld("bits, rounded to 3, 60 people", _of(BIT, 60, 12, "rounded", 3.0), ("integer",), SLOW),
    CalibrationWorld("bits, Laplace 2", _of(BIT, 50, 60, "laplace"), OF_BITS),
    CalibrationWorld("bits, Gaussian 2", _of(BIT, 50, 60, "gaussian"), (*OF_BITS, "sgd", "convex", "sparse")),
    CalibrationWorld("bits, Gaussian 9, 2,000 people", _of(BIT, 2000, 900, "gaussian", 9.0), ("integer",)),
    CalibrationWorld(
        "bits, Gaussian 3, rounded, nothing stated", _of(BIT, 50, 150, "auto", 3.0), ("integer", "bounded", "l1")
    ),
    CalibrationWorld(
        "bits, the same, clamped at 0", _of(BIT, 50, 150, "clamped", 3.0, 0.15), ("integer", "bounded"), SLOW
    ),
    CalibrationWorld("bits, noise 4 times the stated", _of(BIT, 50, 120, "understated"), ("integer", "bounded", "l1")),
    CalibrationWorld("bits, one answer in five wrong", _of(BIT, 30, 40, "wrong", 5.0), ("l1",)),
    CalibrationWorld(
        "rare bits, base rate stated", _of(RARE, 50, 60, "gaussian"), ("integer", "bounded", "l1", "sparse")
    ),
    CalibrationWorld("categories A-D, exact counts", _counts(20, 10, 0.0), ("integer", "bounded")),
    CalibrationWorld("categories A-D, Gaussian 1", _counts(20, 30, 1.0), ("integer", "bounded", "l1")),
    CalibrationWorld("categories A-D, Gaussian 2, nothing stated", _counts(20, 90, 2.0, auto=True), ("integer",), SLOW),
    CalibrationWorld("reals, counts above .3 and .6, exact", _above(20, 10, 0.0), ("bounded",), SLOW),
    CalibrationWorld("reals, such counts, Gaussian 1", _above(20, 30, 1.0), ("bounded", "l1"), SLOW),
    CalibrationWorld("reals, such counts and sums, Gaussian .5", _above(20, 30, 0.5, sums=True), ("bounded",), SLOW),
    CalibrationWorld("grid of 10, exact", _of(TEN, 20, 8, "exact"), ("integer", "bounded"), SLOW),
    CalibrationWorld("grid of 10, Gaussian 2", _of(TEN, 40, 40, "gaussian"), ("integer", "bounded", "l1")),
    CalibrationWorld("reals, exact", _of(REAL, 40, 20, "exact"), OF_REALS[:-1]),
    CalibrationWorld("reals, Gaussian .5", _of(REAL, 40, 60, "gaussian", 0.5), OF_REALS),
    CalibrationWorld("reals, Laplace .5", _of(REAL, 40, 60, "laplace", 0.5), ("bounded", "l1", "kaczmarz")),
    CalibrationWorld("reals, one answer in five wrong", _of(REAL, 20, 60, "wrong", 5.0), ("l1",)),
    CalibrationWorld("reals, the same, half as many", _of(REAL, 20, 30, "wrong", 5.0), ("l1",)),
    CalibrationWorld("open range, Gaussian .5", _of(OPEN, 20, 60, "gaussian", 0.5), (*SMALLER, "l1")),
    CalibrationWorld("open range, Laplace .5", _of(OPEN, 20, 60, "laplace", 0.5), (*SMALLER, "l1")),
    CalibrationWorld("open range, one answer in five wrong", _of(OPEN, 20, 60, "wrong", 5.0), ("l1",)),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One bin: what was stated and what came true, both shares (or both errors in units of the prior's spread)."""

    world: str
    method: str
    way: str
    measure: str
    records: int
    stated: float
    came: float

    @property
    def off(self) -> float:
        """The distance."""
        return abs(self.stated - self.came)


@lru_cache(maxsize=160)  # the methods of a world see the same logs
def _made(world: CalibrationWorld, seed: int, number: int) -> Made:
    return world.make(np.random.default_rng([seed, number]))


def cells(world: CalibrationWorld, method: str, records: int, seed: int = 0, enough: int = ENOUGH) -> Iterator[Cell]:
    """Bins of one method on logs of one world, until so many records were guessed, by the way they were computed."""
    stated: Claims = {}
    came: Claims = {}
    done = logs = 0
    while done < records:
        evidence, x, auto = _made(world, seed, logs)
        target = Target.of(evidence)
        unstated = frozenset(e.number for e in evidence.transcript.entries) if auto else frozenset()
        _, found = run_attack(method, target, evidence, unstated=unstated)
        key = str(found.status.value), str(found.measure)
        said, real = _claims(target, found, x)
        stated.setdefault(key, []).append(said)
        came.setdefault(key, []).append(real)
        done, logs = done + target.n, logs + 1
    for way, measure, said, real in _ways(stated, came, enough):
        yield from _bins(world.name, method, (way, measure), said, real, enough)


def _ways(stated: Claims, came: Claims, enough: int) -> Iterator[tuple[str, str, Floats, Floats]]:
    """What was stated and came true by the way it was computed; ways with too few records are taken together."""
    said, real = ({key: np.concatenate(parts) for key, parts in of.items()} for of in (stated, came))
    many = [key for key in said if len(said[key]) >= enough]
    few = [key for key in said if key not in many]
    if few and sum(len(said[key]) for key in few) < enough and many:
        few.append(many.pop())
    for group in [*([key] for key in many), *([few] if few else [])]:
        way = ", ".join(sorted({key[0] for key in group}))
        yield way, group[0][1], np.concatenate([said[k] for k in group]), np.concatenate([real[k] for k in group])


def _claims(target: Target, found: Reconstruction, x: NDArray[Any]) -> tuple[Floats, ...]:
    """What was stated of every record with a claim, and what came true."""
    if target.categories is not None:
        return found.confidence, (found.values == x).astype(np.float64)
    if found.measure is Measure.PROBABILITY:
        return found.confidence, (np.abs(found.values - x) < 1e-6).astype(np.float64)
    spread = target.deviation if np.isfinite(target.deviation) else 1.0
    claimed = np.isfinite(found.confidence)
    return found.confidence[claimed] / spread, (np.abs(found.values - x) / spread)[claimed]


def _bins(world: str, method: str, key: tuple[str, str], said: Floats, real: Floats, enough: int) -> Iterator[Cell]:
    way, measure = key
    if not len(said):
        return
    order = np.argsort(said, kind="stable")
    said, real = said[order], real[order]
    place = np.digitize(said, EDGES)
    starts = [0]
    for b in np.unique(place)[1:]:
        first = int(np.searchsorted(place, b))
        if first - starts[-1] >= enough and len(said) - first >= enough:
            starts.append(first)
    for first, last in zip(starts, [*starts[1:], len(said)], strict=True):
        parts = said[first:last], real[first:last]
        if measure == str(Measure.PROBABILITY):
            both = [float(part.mean()) for part in parts]
        else:
            both = [float(np.sqrt(np.mean(part**2))) for part in parts]
        yield Cell(world, method, way, measure, last - first, *both)


def table(times: int = 1, only: str = "") -> Iterator[Cell]:
    """Every method on every world, on so many times its records."""
    for world in WORLDS:
        for method in world.methods:
            if only in f"{world.name} {method}":
                yield from cells(world, method, times * world.records)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help=f"guess {FULL} times as many records")
    parser.add_argument("--only", default="", help="a part of the names of world and method")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    given = parser.parse_args()
    found = table(FULL if given.full else 1, given.only)
    if given.format == "json":
        print(json.dumps([{"off": c.off, **{k: getattr(c, k) for k in c.__slots__}} for c in found], indent=1))
        return
    print("| world | method | way | measure | records | stated | came true | off |\n|---|---|---|---|---|---|---|---|")
    for c in found:
        mark = " **" if c.records >= ENOUGH and c.off > ALLOWED else ""
        measure = "p" if c.measure == str(Measure.PROBABILITY) else "error"
        print(
            f"| {c.world} | {c.method} | {c.way} | {measure} | {c.records} | {c.stated:.3f} | {c.came:.3f} |"
            f" {c.off:.3f}{mark} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
