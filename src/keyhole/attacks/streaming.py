"""What streaming attacks share: one walk over rows as they arrive, O(n) memory, replays from a tape on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Floats, Reconstruction, State, Target, Watch
from keyhole.attacks.problem.decoding_problem import Problem, assemble
from keyhole.attacks.problem.moderated_variances import moderated
from keyhole.attacks.problem.records import RecordRows, record_blocks
from keyhole.gather.evidence import Evidence
from keyhole.solve.decode.bitrows import unpack, words_for
from keyhole.solve.decode.csr import Csr
from keyhole.solve.status import SolverStatus

BLOCK = 16  # rows walked at a time, at least
_AT_ONCE = 1 << 20  # coefficients walked at a time, if these are more rows


def at_once(n: int) -> int:
    """How many rows about n records are walked at a time: memory stays O(n)."""
    return max(BLOCK, _AT_ONCE // max(1, n))


Order = Literal["cyclic", "random", "norm"]


class Streaming(ABC):
    """Base of the streaming attacks: subclasses give `_walk` and `estimate`."""

    name: ClassVar[str] = ""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.rows_seen = 0
        self.squares = 0.0  # of the residuals met since the last pass began
        self.met = 0
        self.status = SolverStatus.STREAMING

    def observe(self, evidence: Evidence) -> None:
        """Walk a block of rows, in order, once."""
        for rows in record_blocks(assemble(self.target, evidence), self.name, at_once(self.target.n)):
            self.walk(rows)

    def walk(self, rows: RecordRows) -> None:
        """Walk rows over record coordinates, in order."""
        size = at_once(self.target.n)
        for start in range(0, len(rows), size):
            residuals = self._walk(rows if len(rows) <= size else rows.take(slice(start, start + size)))
            self.squares += float(residuals @ residuals)
            self.met += len(residuals)
            self.rows_seen += len(residuals)

    @property
    def residual(self) -> float:
        """Root mean square residual met since the last pass began."""
        return float(np.sqrt(self.squares / self.met)) if self.met else 0.0

    def begin_pass(self) -> None:
        """Forget the residuals of the pass before."""
        self.squares, self.met = 0.0, 0

    @abstractmethod
    def _walk(self, rows: RecordRows) -> Floats:
        """Walk at most BLOCK rows; give the residual each met."""

    @abstractmethod
    def estimate(self) -> Reconstruction:
        """The guess now."""

    def _counters(self) -> State:
        return {"counters": np.array([self.rows_seen, self.squares, self.met], dtype=np.float64)}

    def _restore_counters(self, state: State) -> None:
        seen, squares, met = state["counters"].tolist()
        self.rows_seen, self.squares, self.met = int(seen), float(squares), int(met)


def pooled(errors: Floats, paths: Floats, moved: NDArray[np.bool_]) -> Floats:
    """Root mean square error per record over shadows (rows), pooled over records (columns) whose `paths` agree.

    Records that no question tells apart are moved alike, so what moved them, to nine digits, names their group. Groups
    of few records are moderated by the others that were `moved` too: the surest of them are mostly the luckiest.

    >>> every = np.ones(3, dtype=bool)
    >>> pooled(np.array([[3.0, 4.0, 1e-9]]), np.array([[7.0, 7.0, 2.0]]), every).round(4).tolist()
    [3.5355, 3.5355, 0.0]
    """
    digits = np.where(np.isfinite(paths), paths, 0.0)
    size = np.maximum(np.abs(digits).max(axis=1, keepdims=True), 1e-300)
    keys = np.ascontiguousarray(np.round(digits / size, 9).T + 0.0)  # + 0.0: no -0
    _, first, of, count = np.unique(
        keys.view([("", keys.dtype)] * keys.shape[1]).ravel(),
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    of = of.ravel()
    total = np.bincount(of, weights=np.mean(errors**2, axis=0)) / count
    total = moderated(total, moved[first], len(errors) * count.astype(np.float64))
    return np.asarray(np.sqrt(total)[of])


@dataclass(frozen=True, slots=True, eq=False)
class Tape:
    """A log's rows on disk, packed, to be replayed in any order without holding them in memory."""

    rows: RecordRows
    norms: Floats

    @classmethod
    def record(cls, target: Target, blocks: Iterable[Evidence], folder: str | Path) -> Tape:
        """Write the rows of all blocks to `folder` and map them. Disk: n/8 bytes a row (8n with public weights)."""
        return cls.of(target, (assemble(target, evidence) for evidence in blocks), folder)

    @classmethod
    def of(cls, target: Target, problems: Iterable[Problem], folder: str | Path) -> Tape:
        """The same from blocks that are assembled already."""
        width = 64 * words_for(target.n)
        ends: list[tuple[Floats, ...]] = []
        lower, upper = np.full(width, -np.inf), np.full(width, np.inf)
        kinds: list[tuple[bool, int]] = []
        sparse: list[Csr] = []  # if the log begins with sparse rows: 12 bytes an entry, kept in memory
        packed, wide = Path(folder) / "rows.bits", Path(folder) / "rows.weights"
        with packed.open("wb") as bits, wide.open("wb") as weights:
            for problem in problems:
                for part in record_blocks(problem, "replaying", at_once(target.n)):
                    if sparse or (part.csr is not None and not kinds):
                        sparse.append(part.sparse())
                    else:
                        matrix, file = (part.bits, bits) if part.bits is not None else (part.weights(), weights)
                        matrix.tofile(file)
                        kinds.append((part.bits is not None, len(part)))
                    ends.append((part.lo, part.hi, part.noise, part.laplace, part.norms()))
                    lower, upper = np.maximum(lower, part.lower), np.minimum(upper, part.upper)
        lo, hi, noise, laplace, norms = (np.concatenate(column) for column in zip(*ends, strict=True))
        if sparse:
            rows = RecordRows(None, None, lo, hi, noise, laplace, lower, upper, reduce(Csr.stacked, sparse))
        elif all(plain for plain, _ in kinds):
            rows = RecordRows(_mapped(packed, np.uint64, len(lo)), None, lo, hi, noise, laplace, lower, upper)
        else:
            path = _widened(packed, wide, kinds, width)
            rows = RecordRows(None, _mapped(path, np.float64, len(lo)), lo, hi, noise, laplace, lower, upper)
        return cls(rows, norms)


def _mapped(path: Path, kind: type[np.uint64 | np.float64], count: int) -> Any:
    """The rows of a file, read as they are used."""
    size = path.stat().st_size
    if not count or not size:
        return np.zeros((count, 0), dtype=kind)
    return np.memmap(path, dtype=kind, mode="r", shape=(count, size // (8 * count)))


def _widened(packed: Path, wide: Path, kinds: list[tuple[bool, int]], width: int) -> Path:
    """Bits and weights in one file of weights, in the log's order."""
    path = packed.with_name("rows.mixed")
    with packed.open("rb") as bits, wide.open("rb") as weights, path.open("wb") as out:
        for plain, count in kinds:
            if plain:
                words = np.fromfile(bits, dtype=np.uint64, count=count * (width // 64)).reshape(count, -1)
                unpack(words, width).astype(np.float64).tofile(out)
            else:
                np.fromfile(weights, dtype=np.float64, count=count * width).tofile(out)
    return path


def replay(
    attack: Streaming,
    tape: Tape,
    *,
    order: Order = "cyclic",
    passes: int = 1000,
    tolerance: float = 1e-10,
    rng: np.random.Generator | None = None,
    watch: Watch | None = None,
) -> int:
    """Replay a log until the residual stops falling; gives the passes made.

    `cyclic` keeps the log's order, `random` shuffles each pass, `norm` draws rows with probability |a_j|^2 / |A|_F^2
    (Strohmer and Vershynin 2009). Ends when a pass met residuals below `tolerance` times the answers' size, or when the
    median residual of the last 25 passes is not 0.1 % below that of the 25 before. Memory stays O(n).
    """
    m, size = len(tape.rows), at_once(attack.target.n)
    if m == 0:
        return 0
    rng = rng or np.random.default_rng(0)
    finite = np.where(np.isfinite(tape.rows.lo), tape.rows.lo, tape.rows.hi)
    small = tolerance * (1.0 + float(np.sqrt(np.mean(finite**2))))
    history: list[float] = []
    quiet = np.zeros(0, dtype=np.int64)
    share = tape.norms / max(tape.norms.sum(), 1e-300)
    for done in range(1, passes + 1):
        if order == "cyclic":
            index = np.arange(m)
        elif order == "random":
            index = rng.permutation(m)
        else:
            index = rng.choice(m, size=m, p=share)
        attack.begin_pass()
        for start in range(0, m, size):
            attack.walk(tape.rows.take(index[start : start + size]))
        history.append(attack.residual)
        if watch is not None:
            try:
                watch(done, attack.residual)
            except KeyboardInterrupt:  # between two passes: the best so far is the answer
                attack.status = SolverStatus.INTERRUPTED
                return done
        quiet = np.union1d(quiet, index) if attack.residual <= small else quiet[:0]
        if len(quiet) == m:  # every row was met, and met well (draws with replacement may take several passes)
            attack.status = SolverStatus.CONVERGED
            return done
        if (
            len(history) >= 50
            and attack.residual > small
            and np.median(history[-25:]) > 0.999 * np.median(history[-50:-25])
        ):
            attack.status = SolverStatus.STALLED
            return done
    attack.status = SolverStatus.ITERATION_LIMIT
    return passes
