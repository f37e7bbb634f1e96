"""Noise laws an oracle may add before it compares: cdf, density at 0, edges, samples, and a form for compiled code.

The compiled attacks need Pr(noise > x) for every law, at every query. A law therefore packs itself into one array
(kind, scale, tail at 0, rho_max, rho_near, near, stretch) and, for a custom law, a table (knots, tails). Two devices
keep it cheap *and* safe. (a) Within `near` of 0 the density lies between `rho_near` and `rho_max`, so the tail lies
between two straight lines: no transcendental function, and both lines are true bounds. (b) A custom law is read at the
table's neighbouring knots, rounded outwards, which is a true bound because a cdf is monotone. The tests built on these
numbers stay valid exactly; only a few per cent of their power are lost.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from keyhole.errors import ConfigError, ModelError

Floats = NDArray[np.float64]
UNIFORM, GAUSSIAN, LAPLACE, TRIANGULAR, TABLE, BETWEEN = range(6)  # from TABLE on, tails are known between bounds
NO_TABLE: Floats = np.zeros(0)
SMALLEST = 1e-100  # scales from here to its inverse: squares, and squares of thousandths, stay in float range
MOST = 1e12  # u on the command line: from its inverse to here
KINDS = ("uniform", "gaussian", "laplace", "triangular")


@njit(cache=True, error_model="numpy")
def closed_tail(kind: int, scale: float, x: float) -> float:
    """Pr(noise > x) in closed form. Scalars only: the compiler inlines it into the hot loop."""
    if kind == UNIFORM:
        side = 0.5 - 0.5 * x / scale
        return min(1.0, max(0.0, side))
    if kind == GAUSSIAN:
        return 0.5 * math.erfc(x / (scale * 1.4142135623730951))
    part = 0.5 * math.exp(-abs(x) / scale)
    if kind == TRIANGULAR:
        side = max(0.0, 1.0 - abs(x) / scale)
        part = 0.5 * side * side
    return part if x > 0.0 else 1.0 - part


@njit(cache=True, error_model="numpy")
def table_tail(knots: Floats, tails: Floats, x: float) -> tuple[float, float]:
    """(lower, upper) with lower <= Pr(noise > x) <= upper, from the knots on either side of x."""
    k = np.searchsorted(knots, x)
    if k == 0:
        return tails[0], 1.0
    if k == knots.size:
        return 0.0, tails[-1]
    return tails[k], tails[k - 1]


@njit(cache=True, error_model="numpy")
def tail(law: Floats, knots: Floats, tails: Floats, x: float) -> tuple[float, float]:
    """(lower, upper) with lower <= Pr(noise > x) <= upper: two lines near 0, the law's own tail elsewhere."""
    kind = int(law[0])
    if kind == BETWEEN:  # uniform, of a half-width between law[4] and law[1]
        wide, narrow = closed_tail(UNIFORM, law[1], x), closed_tail(UNIFORM, law[4], x)
        return min(wide, narrow), max(wide, narrow)
    if abs(x) > law[5]:
        if kind == TABLE:
            return table_tail(knots, tails, x)
        exact = closed_tail(kind, law[1], x)
        return exact, exact
    one, other = law[2] - law[3] * x, law[2] - law[4] * x
    return min(one, other), max(one, other)


class OracleNoise(Hashable, Protocol):
    """A noise law: symmetric or not, no atom at 0, a positive density at 0."""

    @property
    def std(self) -> float:
        """Standard deviation."""

    @property
    def density_at_zero(self) -> float:
        """rho(0) > 0."""

    @property
    def edge(self) -> float | None:
        """Upper end of the support when the density jumps there, else None."""

    @property
    def fisher(self) -> float | None:
        """Fisher information of a raw noisy answer about its mean; None when it is not finite."""

    @property
    def law(self) -> Floats:
        """(kind, scale, tail at 0, rho_max, rho_near, near, stretch) for the compiled code.

        stretch: how much further than stated an answer may sit from the threshold; 1 but for a steep output.
        """

    @property
    def knots(self) -> Floats:
        """Knots of a tabulated tail; empty for a closed form."""

    @property
    def tails(self) -> Floats:
        """Pr(noise > knot)."""

    def cdf(self, x: float) -> float:
        """Pr(noise <= x)."""

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        """n independent draws."""


def pack_law(kind: int, scale: float, tail0: float, rho_max: float, rho_near: float, near: float) -> Floats:
    return np.array([kind, scale, tail0, rho_max, rho_near, near, 1.0], dtype=np.float64)


def require_law(noise: OracleNoise) -> OracleNoise:
    """A noise law, and not a number or nothing in its place.

    >>> require_law(1.0)
    Traceback (most recent call last):
    ...
    keyhole.errors.ModelError: the noise is a law, such as GaussianNoise(0.5) or UniformNoise(1.0), not 1.0
    """
    if not hasattr(noise, "law") or not hasattr(noise, "cdf"):
        raise ModelError(f"the noise is a law, such as GaussianNoise(0.5) or UniformNoise(1.0), not {noise!r}")
    return noise


def check_positive(name: str, value: float) -> None:
    if not (isinstance(value, int | float | np.number) and math.isfinite(value) and value > 0):
        raise ModelError(f"{name} must be a positive number, got {value!r}; noise of scale 0 has no density at 0")
    if not SMALLEST <= value <= 1 / SMALLEST:
        raise ModelError(
            f"{name} must be from {SMALLEST:g} to {1 / SMALLEST:g}, got {value!r}: its square is not a float"
        )


class ClosedFormNoise:
    """A law without a table; no jump and no finite Fisher information unless said."""

    __slots__ = ()

    @property
    def edge(self) -> float | None:
        return None

    @property
    def fisher(self) -> float | None:
        return None

    @property
    def knots(self) -> Floats:
        return NO_TABLE

    @property
    def tails(self) -> Floats:
        return NO_TABLE


class EvenNoise(ClosedFormNoise, ABC):
    """What uniform laws on [-edge, edge] share, whether the edge is known or lies in an interval (`UniformBetween`)."""

    __slots__ = ()

    @property
    @abstractmethod
    def edge(self) -> float:
        """The half-width."""

    @property
    def std(self) -> float:
        return self.edge / math.sqrt(3)

    @property
    def density_at_zero(self) -> float:
        return 0.5 / self.edge

    def cdf(self, x: float) -> float:
        return min(1.0, max(0.0, 0.5 + 0.5 * x / self.edge))

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        return np.asarray((rng.random(n) - 0.5) * (2 * self.edge))


@dataclass(frozen=True, slots=True)
class UniformNoise(EvenNoise):
    """Uniform on [-half_width, half_width]: rho(0) = 1/(2 half_width), and the density jumps at both edges.

    >>> noise = UniformNoise(2.0)
    >>> noise.density_at_zero, noise.edge, noise.cdf(1.0)
    (0.25, 2.0, 0.75)
    """

    half_width: float

    def __post_init__(self) -> None:
        check_positive("the half-width of uniform noise", self.half_width)

    @property
    def edge(self) -> float:
        return self.half_width

    @property
    def law(self) -> Floats:
        rho = self.density_at_zero
        return pack_law(UNIFORM, self.half_width, 0.5, rho, rho, self.half_width)


@dataclass(frozen=True, slots=True)
class UniformBetween(EvenNoise):
    """Uniform on [-a, a], with a known only to lie between `low` and `high`: tests use whichever makes them safe.

    `std`, `density_at_zero`, `cdf` and draws are those of the wider law.

    >>> UniformBetween(0.99, 1.01).edge
    1.01
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        check_positive("the least half-width", self.low)
        check_positive("the largest half-width", self.high)
        if self.low > self.high:
            raise ModelError(f"the half-width lies between low <= high, got {self.low!r} and {self.high!r}")

    @property
    def edge(self) -> float:
        return self.high

    @property
    def law(self) -> Floats:
        return pack_law(BETWEEN, self.high, 0.5, 0.5 / self.low, self.low, 0.0)


@dataclass(frozen=True, slots=True)
class GaussianNoise(ClosedFormNoise):
    """Normal with mean 0 and standard deviation `std`.

    >>> round(GaussianNoise(1.0).cdf(1.96), 3)
    0.975
    """

    std: float

    def __post_init__(self) -> None:
        check_positive("the standard deviation of Gaussian noise", self.std)

    @property
    def density_at_zero(self) -> float:
        return 1 / (self.std * math.sqrt(2 * math.pi))

    @property
    def fisher(self) -> float | None:
        return 1 / self.std**2

    @property
    def law(self) -> Floats:
        near, rho = 0.1 * self.std, self.density_at_zero
        return pack_law(GAUSSIAN, self.std, 0.5, rho, rho * math.exp(-0.005), near)

    def cdf(self, x: float) -> float:
        return 0.5 * math.erfc(-x / (self.std * math.sqrt(2)))

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        return rng.normal(0.0, self.std, n)


@dataclass(frozen=True, slots=True)
class LaplaceNoise(ClosedFormNoise):
    """Two-sided exponential with scale b: rho(0) = 1/(2b), standard deviation b sqrt 2.

    >>> LaplaceNoise(1.0).density_at_zero, round(LaplaceNoise(1.0).std, 3)
    (0.5, 1.414)
    """

    scale: float

    def __post_init__(self) -> None:
        check_positive("the scale of Laplace noise", self.scale)

    @property
    def std(self) -> float:
        return self.scale * math.sqrt(2)

    @property
    def density_at_zero(self) -> float:
        return 0.5 / self.scale

    @property
    def fisher(self) -> float | None:
        return 1 / self.scale**2

    @property
    def law(self) -> Floats:
        near, rho = 0.05 * self.scale, self.density_at_zero
        return pack_law(LAPLACE, self.scale, 0.5, rho, rho * math.exp(-0.05), near)

    def cdf(self, x: float) -> float:
        return 0.5 * math.exp(x / self.scale) if x < 0 else 1 - 0.5 * math.exp(-x / self.scale)

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        return rng.laplace(0.0, self.scale, n)


@dataclass(frozen=True, slots=True)
class TriangularNoise(ClosedFormNoise):
    """Triangular on [-half_width, half_width] with its peak at 0: bounded, but no jump at the edge.

    >>> TriangularNoise(1.0).density_at_zero, TriangularNoise(1.0).edge, TriangularNoise(1.0).cdf(0.5)
    (1.0, None, 0.875)
    """

    half_width: float

    def __post_init__(self) -> None:
        check_positive("the half-width of triangular noise", self.half_width)

    @property
    def std(self) -> float:
        return self.half_width / math.sqrt(6)

    @property
    def density_at_zero(self) -> float:
        return 1 / self.half_width

    @property
    def law(self) -> Floats:
        rho = self.density_at_zero
        return pack_law(TRIANGULAR, self.half_width, 0.5, rho, rho, 0.0)

    def cdf(self, x: float) -> float:
        part = max(0.0, 1 - abs(x) / self.half_width) ** 2 / 2
        return part if x < 0 else 1 - part

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        return rng.triangular(-self.half_width, 0.0, self.half_width, n)


@dataclass(frozen=True, slots=True)
class CustomNoise:
    """Any law with a cdf: `distribution(x) = Pr(noise <= x)`, `scale` its rough size, `jump` a jump edge if known.

    The tail is tabulated on knots +-scale 2^(k/64), dense towards 0, so a test at a tiny gap keeps its power.
    Refused (ModelError): a cdf that is not monotone from 0 to 1, an atom at 0, no density at 0.

    >>> logistic = CustomNoise(lambda x: (1 + math.tanh(x / 2)) / 2, scale=1.8)
    >>> round(logistic.density_at_zero, 4)
    0.25
    """

    distribution: Callable[[float], float]
    scale: float
    jump: float | None = None
    knots: Floats = field(init=False, repr=False, compare=False)
    tails: Floats = field(init=False, repr=False, compare=False)
    density_at_zero: float = field(init=False)
    std: float = field(init=False)

    def __post_init__(self) -> None:
        check_positive("the scale of custom noise", self.scale)
        above = self.scale * 2.0 ** (np.arange(-25 * 64, 10 * 64 + 1) / 64)
        knots = np.concatenate([-above[::-1], [0.0], above])
        values = np.array([self.distribution(float(x)) for x in knots])
        if not np.all(np.isfinite(values)) or np.any(np.diff(values) < 0) or values[0] < 0 or values[-1] > 1:
            raise ModelError("the noise cdf must rise from 0 to 1 without falling; check its sign and its range")
        if values[0] > 0.01 or values[-1] < 0.99:
            raise ModelError(
                f"the noise cdf is {values[0]:.3g} at {knots[0]:.3g} and {values[-1]:.3g} at {knots[-1]:.3g}: "
                f"scale={self.scale:g} is too small for this law; give its rough size"
            )
        h = self.scale * np.array([1e-3, 1e-4, 1e-5])
        slopes = np.array([(self.distribution(float(x)) - self.distribution(float(-x))) / (2 * x) for x in h])
        # a density at 0 keeps the slope as h falls; one that vanishes there takes the slope with it, h by h
        if slopes[2] * self.scale <= 1e-9 or (slopes[2] < 0.2 * slopes[0] and slopes[1] < 0.5 * slopes[0]):
            raise ModelError(
                "the noise has no density at 0 (its cdf is flat there): a central threshold learns nothing"
            )
        if slopes[2] > 5 * slopes[0] and slopes[1] > 2 * slopes[0]:
            raise ModelError("the noise has a point mass at 0 (its cdf jumps there): the model needs a density at 0")
        middles, mass = (knots[1:] + knots[:-1]) / 2, np.diff(values)
        mean = float(np.sum(middles * mass))
        object.__setattr__(self, "knots", knots)
        object.__setattr__(self, "tails", np.ascontiguousarray(1 - values))
        object.__setattr__(self, "density_at_zero", float(slopes[2]))
        object.__setattr__(self, "std", math.sqrt(float(np.sum((middles - mean) ** 2 * mass))))

    @property
    def edge(self) -> float | None:
        return self.jump

    @property
    def fisher(self) -> float | None:
        return None

    @property
    def law(self) -> Floats:
        return pack_law(TABLE, self.scale, 1 - self.cdf(0.0), self.density_at_zero, self.density_at_zero, 0.0)

    def cdf(self, x: float) -> float:
        return float(self.distribution(x))

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        """Inverse cdf by interpolation between the knots."""
        return np.interp(rng.random(n), 1 - self.tails, self.knots)


@dataclass(frozen=True, slots=True)
class SteepNoise:
    """The noise as the linear attack should see it when it is added after an output with slopes in [least, most].

    |output(a) - output(t)| >= least |a - t|, so at a central threshold the bits say at least what bits with the
    noise / least would say: SequentialBisection's certificate stays true with that law. The test of the model
    allows the steeper slope too. This holds for thresholds between the two ends of the side that is tested: others are
    a ModelError in SequentialBisection.learn, and OneBitNewton's box does not learn from its own that lie further off.

    >>> from keyhole.oracles.noise import UniformNoise
    >>> SteepNoise(UniformNoise(1.0), 0.5, 1.0).std == UniformNoise(2.0).std
    True
    """

    noise: OracleNoise
    least: float
    most: float

    def __post_init__(self) -> None:
        if not 0 < self.least <= self.most:
            raise ModelError(f"slopes need 0 < least <= most, got {self.least!r} and {self.most!r}")

    @property
    def std(self) -> float:
        return self.noise.std / self.least

    @property
    def density_at_zero(self) -> float:
        return self.noise.density_at_zero * self.least

    @property
    def edge(self) -> float | None:
        return None

    @property
    def fisher(self) -> float | None:
        return None

    @property
    def law(self) -> Floats:
        kind, scale, tail0, rho_max, rho_near, near, stretch = self.noise.law
        s = self.least
        steep = stretch * self.most / s
        return np.array([kind, scale / s, tail0, rho_max * s, rho_near * s, near / s, steep])

    @property
    def knots(self) -> Floats:
        return self.noise.knots / self.least

    @property
    def tails(self) -> Floats:
        return self.noise.tails

    def cdf(self, x: float) -> float:
        return self.noise.cdf(x * self.least)

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        return self.noise.sample(rng, n) / self.least


def quantile(noise: OracleNoise, share: float) -> float:
    """x with Pr(noise <= x) = share, by bisection of the cdf.

    >>> from keyhole.oracles.noise import UniformNoise
    >>> round(quantile(UniformNoise(1.0), 0.75), 6)
    0.5
    """
    low, high = -50 * noise.std, 50 * noise.std
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if noise.cdf(middle) < share else (low, middle)
    return (low + high) / 2


def noise_by_kind(kind: str, u: float, dimension: int) -> UniformNoise | GaussianNoise | LaplaceNoise | TriangularNoise:
    """The law `kind` with standard deviation dimension * u / sqrt 3, so that kinds can be compared.

    >>> noise_by_kind("uniform", 0.25, 4)
    UniformNoise(half_width=1.0)
    >>> round(noise_by_kind("laplace", 0.25, 4).std, 4) == round(noise_by_kind("gaussian", 0.25, 4).std, 4) == 0.5774
    True
    """
    std = dimension * u / math.sqrt(3)
    match kind:
        case "uniform":
            return UniformNoise(dimension * u)
        case "gaussian":
            return GaussianNoise(std)
        case "laplace":
            return LaplaceNoise(std / math.sqrt(2))
        case "triangular":
            return TriangularNoise(std * math.sqrt(6))
        case _:
            raise ConfigError(f"unknown noise {kind!r}; write one of {', '.join(KINDS)}, such as uniform:0.25")


def parse_noise(text: str, dimension: int) -> UniformNoise | GaussianNoise | LaplaceNoise | TriangularNoise:
    """`KIND:u`, as on the command line.

    >>> parse_noise("uniform:0.25", 4)
    UniformNoise(half_width=1.0)
    """
    kind, colon, number = text.partition(":")
    try:
        u = float(number)
    except ValueError:
        u = math.nan
    if not colon or not (math.isfinite(u) and u > 0):
        raise ConfigError(f"--noise {text!r} is not KIND:u with u > 0; write for example uniform:0.25")
    if not 1 / MOST <= u <= MOST:
        raise ConfigError(f"--noise {text!r}: u is from {1 / MOST:g} to {MOST:g}; the hidden entries are in [0, 1]")
    return noise_by_kind(kind, u, dimension)
