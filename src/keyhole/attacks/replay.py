"""A log recorded on disk and replayed to a streaming attack, in any order, until its residual stops falling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from keyhole.attacks.base import Floats, Target, Watch
from keyhole.attacks.problem.assembly import assemble
from keyhole.attacks.problem.decoding_problem import Problem
from keyhole.attacks.streaming import Order, RecordRows, Streaming, count_rows_at_once, split_record_rows
from keyhole.gather.evidence import Evidence
from keyhole.solve.decode.bitrows import unpack, words_for
from keyhole.solve.decode.csr import Csr
from keyhole.solve.status import SolverStatus

RARE = 20  # draws a row in a pass by norm, at most


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
                for part in split_record_rows(problem, "replaying", count_rows_at_once(target.n)):
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


def replay_tape(
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
    m, size = len(tape.rows), count_rows_at_once(attack.target.n)
    if m == 0:
        return 0
    rng = rng or np.random.default_rng(0)
    finite = np.where(np.isfinite(tape.rows.lo), tape.rows.lo, tape.rows.hi)
    small = tolerance * (1.0 + float(np.sqrt(np.mean(finite**2))))
    history: list[float] = []
    quiet = np.zeros(0, dtype=np.int64)
    share = tape.norms / max(tape.norms.sum(), 1e-300)
    rarest = float(share[share > 0].min(initial=1.0))
    drawn = min(RARE * m, max(m, int(1 / rarest)))  # by norm: a pass meets short rows, too
    for done in range(1, passes + 1):
        if order == "cyclic":
            index = np.arange(m)
        elif order == "random":
            index = rng.permutation(m)
        else:
            index = rng.choice(m, size=drawn, p=share)
        attack.begin_pass()
        for start in range(0, len(index), size):
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
