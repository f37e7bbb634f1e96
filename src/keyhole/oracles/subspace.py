"""Where the attack lives: an orthonormal basis, the box of the hidden vector, and what a query says there."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from keyhole.errors import ModelError
from keyhole.oracles.noise import Floats

ORTHONORMAL = 1e-9  # largest |<e_i, e_j> - [i = j]| of a basis
ON_SUBSPACE = 1e-6  # relative distance that counts as "on": the square root of float cancellation, with room
_NOTHING = np.zeros(1 << 14)  # the known part and the slack of queries on the subspace; only ever read
EPS = float(np.finfo(np.float64).eps)
# A sum of D squares is off by sqrt(D) eps if the terms round independently, but equal terms round alike: measured up to
# D eps / 30 on blocks of 5 million. Matters from D = 18,000 on.
ROUNDING = 0.25
LONGEST = 1e100  # of an entry of a query or of the box: its square is a float, and so is that of its inverse
GROUP = 64  # rows checked together
WIDE = 64  # from this dimension on numpy's vectorised sum of squares beats a plain loop
ANYWHERE = 1 - 1e-12  # a neighbourhood that no query is outside of
NEGLIGIBLE = 1e-10  # share of the largest singular value below which a direction is rounding


@njit(cache=True, error_model="numpy", fastmath=True)
def _shortest(rows: Floats, d: int) -> float:
    """Smallest squared norm of rows of length d laid end to end; anything if an entry is not finite."""
    low = math.inf
    if d == 2:  # a fixed length, which the compiler can vectorise
        for t in range(rows.size // 2):
            low = min(low, rows[2 * t] * rows[2 * t] + rows[2 * t + 1] * rows[2 * t + 1])
        return low
    at = 0
    for _ in range(rows.size // d):
        square = 0.0
        for _ in range(d):
            square += rows[at] * rows[at]
            at += 1
        low = min(low, square)
    return low


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _first_bad(q: Floats, z: Floats, limit: float) -> int:
    """The first row of queries that is zero, not finite, or further than limit (squared share) away; or -1.

    What a row has outside the subspace is never negative, so a group whose total is below the limit of its shortest
    row has no bad row; only a group that fails this quick test is looked at row by row.
    """
    D, d = q.shape[1], z.shape[1]
    flat_q, flat_z = q.ravel(), z.ravel()
    for start in range(0, q.shape[0], GROUP):
        end = min(q.shape[0], start + GROUP)
        rows_q, rows_z = flat_q[start * D : end * D], flat_z[start * d : end * d]
        total, part = 0.0, 0.0
        for i in range(rows_q.size):
            total += rows_q[i] * rows_q[i]
        for i in range(rows_z.size):
            part += rows_z[i] * rows_z[i]
        shortest = _shortest(rows_z, d)
        # written so that NaN fails
        if total - part <= limit * shortest and shortest > 0.0 and total < math.inf:
            continue
        for t in range(start, end):
            total, part = 0.0, 0.0
            for i in range(D):
                total += q[t, i] * q[t, i]
            for i in range(d):
                part += z[t, i] * z[t, i]
            if not (total - part <= limit * total and 0.0 < total < math.inf):
                return t
    return -1


@dataclass(frozen=True, slots=True, eq=False)
class Subspace:
    """A d-dimensional subspace (rows of `basis` orthonormal) and a box `lower <= w <= upper` for the hidden w.

    `neighbourhood` is the largest ||q - Pq|| / ||q|| a query may have: 0 says that queries lie on the subspace.
    Off the subspace the answer moves by (q - Pq).w, which is known up to ||q - Pq|| * ||upper - lower|| / 2
    around the box's middle: the attacks subtract that slack from every gap, so their certificates stay true.

    >>> plane = Subspace.blocks(4, 2)
    >>> plane.coordinates(np.array([1.0, 1.0, 0.0, 0.0]))
    array([1.41421356, 0.        ])
    >>> [round(float(v), 3) for v in plane.initial_box()[1]]
    [1.414, 1.414]
    """

    basis: Floats
    lower: Floats
    upper: Floats
    neighbourhood: float = 0.0
    columns: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        basis = np.ascontiguousarray(self.basis, dtype=np.float64)
        if basis.ndim != 2 or basis.size == 0 or not np.all(np.isfinite(basis)):
            raise ModelError(f"a basis is a d x D array of finite numbers, got shape {basis.shape}")
        d, D = basis.shape
        if d > D:
            raise ModelError(f"{d} basis vectors cannot be orthonormal in dimension {D}; pass them as rows")
        worst = float(np.max(np.abs(basis @ basis.T - np.eye(d))))
        if worst > ORTHONORMAL:
            raise ModelError(
                f"the basis is not orthonormal: an inner product is off by {worst:.3g}; "
                "orthonormalise it first, e.g. numpy.linalg.qr(vectors.T)[0].T"
            )
        ends = np.asarray(self.lower, dtype=np.float64), np.asarray(self.upper, dtype=np.float64)
        if any(end.shape not in ((), (1,), (D,)) for end in ends):
            raise ModelError(
                f"lower and upper are numbers or arrays of length D = {D}, got shapes {ends[0].shape}, {ends[1].shape}"
            )
        lower, upper = (np.ascontiguousarray(np.broadcast_to(end, (D,))) for end in ends)
        if not (np.all(np.isfinite(lower)) and np.all(np.isfinite(upper)) and np.all(lower < upper)):
            raise ModelError("the box of the hidden vector needs finite lower < upper in every coordinate")
        if max(float(np.abs(lower).max()), float(np.abs(upper).max())) > LONGEST:
            raise ModelError(f"the box of the hidden vector reaches beyond {LONGEST:.0e}: its square is not a float")
        if not 0 <= self.neighbourhood < 1:
            raise ModelError(f"the neighbourhood is a share of the query's norm in [0, 1), got {self.neighbourhood!r}")
        object.__setattr__(self, "basis", basis)
        object.__setattr__(self, "columns", np.ascontiguousarray(basis.T))
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @classmethod
    def blocks(cls, dimension: int, subspace: int) -> Subspace:
        """Equal blocks of coordinates, w in [0,1]^D: e_j = the normalised indicator of block j."""
        whole = all(isinstance(number, int | np.integer) for number in (dimension, subspace))
        if not whole or not 1 <= subspace <= dimension:
            raise ModelError(f"a subspace has whole numbers 1 <= d <= D, got d = {subspace}, D = {dimension}")
        basis = np.zeros((subspace, dimension))
        for row, block in zip(basis, np.array_split(np.arange(dimension), subspace), strict=True):
            row[block] = 1 / math.sqrt(len(block))
        return cls(basis, np.zeros(dimension), np.ones(dimension))

    @property
    def d(self) -> int:
        return int(self.basis.shape[0])

    @property
    def D(self) -> int:  # noqa: N802 - the letter of the literature
        return int(self.basis.shape[1])

    @property
    def _on(self) -> float:
        """Relative distance that counts as "on the subspace"; longer queries round more."""
        return max(ON_SUBSPACE, math.sqrt(ROUNDING * self.D * EPS))

    @property
    def middle(self) -> Floats:
        """Centre of the box of w: the answer before any evidence."""
        return (self.lower + self.upper) / 2

    def coordinates(self, w: Floats) -> Floats:
        """Coordinates e_j.w of a vector."""
        return np.asarray(self.basis @ w, dtype=np.float64)

    def initial_box(self) -> tuple[Floats, Floats]:
        """Exact ranges of the coordinates e_j.w over the box of w: no linear program needed."""
        low, high = self.basis * self.lower, self.basis * self.upper
        return np.minimum(low, high).sum(axis=1), np.maximum(low, high).sum(axis=1)

    def initial_covariance(self) -> Floats:
        """Covariance of the coordinates when w is uniform in its box."""
        return np.ascontiguousarray((self.basis * ((self.upper - self.lower) ** 2 / 12)) @ self.basis.T)

    def project(self, queries: Floats) -> tuple[Floats, Floats, Floats]:
        """For each row q: coordinates z, the known part (q - Pq).middle, and the slack of the unknown part.

        Raises ModelError for a row that is zero, not finite, too long or too short, or too far from the subspace.
        """
        if queries.ndim != 2 or queries.shape[1] != self.D:
            raise ModelError(f"a query has {self.D} entries here, got an array of shape {queries.shape}")
        with np.errstate(invalid="ignore", over="ignore"):  # infinite entries are complained about below
            z = queries @ self.columns
        limit = max(self.neighbourhood * (1 + 1e-9), self._on)
        if self.D < WIDE:
            bad = int(_first_bad(queries, z, limit * limit))
        else:
            with np.errstate(invalid="ignore", over="ignore"):
                squares, inside = np.vecdot(queries, queries), np.vecdot(z, z)
                away = squares - inside
            good = (away <= limit * limit * squares) & (squares > 0) & (squares < math.inf)
            bad = -1 if good.all() else int(np.argmin(good))
        if bad >= 0:
            raise self._complaint(queries[bad], z[bad], bad)
        n = len(queries)
        if self.neighbourhood == 0:
            nothing = _NOTHING[:n] if n <= len(_NOTHING) else np.zeros(n)
            return z, nothing, nothing
        squares, inside = np.vecdot(queries, queries), np.vecdot(z, z)
        residual = np.sqrt(np.maximum(0.0, squares - inside))
        residual[residual <= self._on * np.sqrt(squares)] = 0.0
        known = queries @ self.middle - z @ (self.basis @ self.middle)
        return z, known, residual * (float(np.linalg.norm(self.upper - self.lower)) / 2)

    def _complaint(self, q: Floats, z: Floats, row: int) -> ModelError:
        if not np.all(np.isfinite(q)):
            return ModelError(f"query {row} of the block has an entry that is not a finite number")
        if not np.any(q):
            return ModelError(f"query {row} of the block is zero: it asks nothing; leave it out")
        if not 1 / LONGEST < float(np.abs(q).max()) < LONGEST:
            return ModelError(f"query {row} of the block is too long or too short: its square is not a float; scale it")
        square = float(q @ q)
        away = math.sqrt(max(0.0, square - float(z @ z)) / square)
        return ModelError(
            f"query {row} of the block is {away:.3g} of its norm away from the {self.d}-dimensional subspace, more "
            f"than the stated neighbourhood {max(self.neighbourhood, self._on):.3g}; widen it or fix the basis"
        )


@dataclass(frozen=True, slots=True, eq=False)
class PrincipalBasis:
    """`basis`: d orthonormal rows; `spectrum`: all singular values of the sample; `distance`: the sample's largest
    ||q - Pq|| / ||q||, the neighbourhood that a Subspace on this basis has to allow."""

    basis: Floats
    spectrum: Floats
    distance: float

    def subspace(self, lower: Floats, upper: Floats) -> Subspace:
        """A Subspace for any query: one further off than the sample's is allowed for, and does not end a run.

        The slack is taken from each query's own distance, so certificates stay true; `distance` used as the
        neighbourhood would refuse every later query that is a little further off.
        """
        return Subspace(self.basis, lower, upper, 0.0 if self.distance == 0 else ANYWHERE)


def principal_basis(queries: Floats, d: int | None = None, *, clear_gap: float = 10.0) -> PrincipalBasis:
    """Principal components (not centred: the subspace goes through 0) of a sample of queries [jolliffe2002].

    Without `d`, it is read off the spectrum: the place with the largest ratio of one singular value to the next, which
    must be at least `clear_gap`; else the sample shows no low dimension and a ModelError says so.
    Cost: one singular value decomposition, O(m D min(m, D)).

    >>> rng = np.random.default_rng(0)
    >>> sample = rng.random((50, 2)) @ rng.random((2, 6)) + 1e-4 * rng.standard_normal((50, 6))
    >>> found = principal_basis(sample)
    >>> found.basis.shape, found.distance < 1e-3
    ((2, 6), True)
    """
    sample = np.asarray(queries, dtype=np.float64)
    if sample.ndim != 2 or len(sample) < 2 or not np.all(np.isfinite(sample)) or not np.any(sample):
        raise ModelError(f"principal components need at least two finite queries, not all zero; got {sample.shape}")
    _, spectrum, rows = np.linalg.svd(sample, full_matrices=False)
    if d is None:
        floor = np.maximum(spectrum, NEGLIGIBLE * spectrum[0])
        last = NEGLIGIBLE * spectrum[0] if len(sample) > sample.shape[1] else floor[-1]
        ratios = floor / np.append(floor[1:], last)
        ratios = ratios[: len(spectrum) - 1] if len(spectrum) > 1 else ratios
        d = int(np.argmax(ratios)) + 1
        if ratios[d - 1] < clear_gap:
            raise ModelError(
                f"no low dimension in these queries: the largest drop in the spectrum is {ratios[d - 1]:.3g}-fold "
                f"(after {d}), less than {clear_gap:g}-fold; pass d yourself or use EllipsoidBisection"
            )
    if not 1 <= d <= int(np.sum(spectrum > NEGLIGIBLE * spectrum[0])):
        raise ModelError(f"the sample spans {int(np.sum(spectrum > ROUNDING * spectrum[0]))} dimensions, not {d}")
    basis = np.ascontiguousarray(rows[:d])
    norms = np.linalg.norm(sample, axis=1)
    off = np.linalg.norm(sample - (sample @ basis.T) @ basis, axis=1)
    used = norms > 0
    return PrincipalBasis(basis, spectrum, float(np.max(off[used] / norms[used])))


def range_over_box(q: Floats, lower: Floats, upper: Floats) -> tuple[float, float]:
    """The least and the largest q.w of lower <= w <= upper; an entry that q leaves out may have no bounds.

    >>> range_over_box(np.array([1.0, -2.0, 0.0]), np.zeros(3), np.array([1.0, 1.0, np.inf]))
    (-2.0, 1.0)
    """
    with np.errstate(invalid="ignore"):  # 0 times infinity
        a, b = np.where(q == 0, 0.0, q * lower), np.where(q == 0, 0.0, q * upper)
    return float(np.minimum(a, b).sum()), float(np.maximum(a, b).sum())


def independent_rows(queries: Floats) -> Floats:
    """The first rows that are linearly independent, by Gram-Schmidt.

    >>> independent_rows(np.array([[1.0, 1.0], [2.0, 2.0], [0.0, 1.0]])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return queries[find_independent_rows(queries)]


def find_independent_rows(queries: Floats) -> list[int]:
    """Where they are."""
    if queries.ndim != 2 or not np.all(np.isfinite(queries)) or not np.any(queries):
        raise ModelError(f"queries are finite rows, not all zero; got shape {queries.shape}")
    basis: list[Floats] = []
    chosen = []
    for at, q in enumerate(queries):
        rest = q.copy()
        for _ in range(2):  # twice is enough
            for e in basis:
                rest -= (rest @ e) * e
        size = float(np.linalg.norm(rest))
        if size > 1e-9 * float(np.linalg.norm(q)) and size > 0:
            basis.append(rest / size)
            chosen.append(at)
        if len(chosen) == queries.shape[1]:
            break
    return chosen
