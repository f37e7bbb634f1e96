"""What streaming attacks share: one walk over rows as they arrive, O(n) memory, replays from a tape on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from keyhole.attack.base import Floats, Reconstruction, State, Target, Watch
from keyhole.attack.records import RecordRows, record_rows
from keyhole.evidence import Evidence
from keyhole.solve.bitrows import unpack
from keyhole.solve.status import Status

BLOCK = 16  # rows walked per pass over memory
Order = Literal["cyclic", "random", "norm"]


class Streaming(ABC):
    """Base of the streaming attacks: subclasses give `_walk` and `estimate`."""

    name: ClassVar[str] = ""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.rows_seen = 0
        self.squares = 0.0  # of the residuals met since the last pass began
        self.met = 0
        self.status = Status.STREAMING

    def observe(self, evidence: Evidence) -> None:
        """Walk a block of rows, in order, once."""
        self.walk(record_rows(self.target, evidence, self.name))

    def walk(self, rows: RecordRows) -> None:
        """Walk rows over record coordinates, in order."""
        for start in range(0, len(rows), BLOCK):
            residuals = self._walk(rows.take(slice(start, start + BLOCK)))
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


@dataclass(frozen=True, slots=True, eq=False)
class Tape:
    """A log's rows on disk, packed, to be replayed in any order without holding them in memory."""

    rows: RecordRows
    norms: Floats

    @classmethod
    def record(cls, target: Target, blocks: Iterable[Evidence], folder: str | Path) -> Tape:
        """Write the rows of all blocks to `folder` and map them. Disk: n/8 bytes a row (8n with public weights)."""
        path = Path(folder) / "rows.bin"
        parts: list[RecordRows] = []
        with path.open("wb") as file:
            for block in blocks:
                part = record_rows(target, block, "replaying")
                matrix = part.bits if part.bits is not None else part.dense
                assert matrix is not None
                matrix.tofile(file)
                parts.append(part)
        if len({p.bits is None for p in parts}) > 1:  # some blocks have weights, some not: keep them all as weights
            return cls._mixed(parts, path)
        first = parts[0]
        kind = np.uint64 if first.bits is not None else np.float64
        count = sum(len(p) for p in parts)
        width = (first.bits if first.bits is not None else first.dense).shape[1]  # type: ignore[union-attr]
        mapped = np.memmap(path, dtype=kind, mode="r", shape=(count, width)) if count else np.zeros((0, width), kind)
        return cls._assembled(parts, mapped if kind is np.uint64 else None, mapped if kind is np.float64 else None)

    @classmethod
    def _mixed(cls, parts: list[RecordRows], path: Path) -> Tape:
        with path.open("wb") as file:
            for p in parts:
                dense = p.dense if p.dense is not None else unpack(p.bits, p.bits.shape[1] * 64).astype(np.float64)  # type: ignore[arg-type, union-attr]
                dense.tofile(file)
        count, width = sum(len(p) for p in parts), len(parts[0].lower)
        return cls._assembled(parts, None, np.memmap(path, dtype=np.float64, mode="r", shape=(count, width)))

    @classmethod
    def _assembled(cls, parts: list[RecordRows], bits: object, dense: object) -> Tape:
        rows = RecordRows(
            bits,  # type: ignore[arg-type]
            dense,  # type: ignore[arg-type]
            np.concatenate([p.lo for p in parts]),
            np.concatenate([p.hi for p in parts]),
            np.concatenate([p.noise for p in parts]),
            np.concatenate([p.laplace for p in parts]),
            np.max([p.lower for p in parts], axis=0),
            np.min([p.upper for p in parts], axis=0),
        )
        return cls(rows, np.concatenate([p.norms() for p in parts]))


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
    m = len(tape.rows)
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
        for start in range(0, m, BLOCK):
            attack.walk(tape.rows.take(index[start : start + BLOCK]))
        history.append(attack.residual)
        if watch is not None:
            try:
                watch(done, attack.residual)
            except KeyboardInterrupt:  # between two passes: the best so far is the answer
                attack.status = Status.INTERRUPTED
                return done
        quiet = np.union1d(quiet, index) if attack.residual <= small else quiet[:0]
        if len(quiet) == m:  # every row was met, and met well (draws with replacement may take several passes)
            attack.status = Status.CONVERGED
            return done
        if (
            len(history) >= 50
            and attack.residual > small
            and np.median(history[-25:]) > 0.999 * np.median(history[-50:-25])
        ):
            attack.status = Status.STALLED
            return done
    attack.status = Status.ITERATION_LIMIT
    return passes
