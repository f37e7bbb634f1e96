"""The row space engine against its peers, in one run: `python -m benchmarks.rowspace --format json|text`.

wide        K = 425,000 columns, m = 1,000 queries: screen and certificates against the float route (Gram matrix by
            popcount, eigh, projection of a random vector), which certifies nothing
small       m = 300, K = 400: against deleting each column and taking numpy's matrix_rank, and against one SVD
chain       queries {k, k-1, k-3}: how many are found exposed by us, by the Gram route, by the SVD
many        10,000 exposed at m = 10,500: with and without peeling
online      n = 400,000 records, 1,000 independent queries answered

Both sides of a ratio are run alternately and the minimum of each is taken. `--only NAME` runs one part, `--scale s`
shrinks all sizes.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from keyhole.solve.rowspace import RowMatrix, RowSpace
from keyhole.solve.rowspace.factor import Factor
from keyhole.solve.rowspace.kernels import spread
from keyhole.solve.rowspace.online import OnlineRowSpace
from keyhole.solve.rowspace.verify import verify

Words = NDArray[np.uint64]
Bools = NDArray[np.bool_]
Report = dict[str, Any]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    out = work()
    return time.perf_counter() - start, out


def alternate(sides: dict[str, Callable[[], Any]], rounds: int) -> tuple[dict[str, float], dict[str, Any]]:
    """The minimum time of each side over `rounds` interleaved runs, and each side's last result."""
    best: dict[str, float] = {}
    results: dict[str, Any] = {}
    for _ in range(rounds):
        for name, work in sides.items():
            seconds, results[name] = timed(work)
            best[name] = min(best.get(name, np.inf), seconds)
    return best, results


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def pack(mask: Bools) -> Words:
    padded = np.zeros((len(mask) + 63) // 64 * 64, dtype=np.uint8)
    padded[: len(mask)] = mask
    return np.packbits(padded, bitorder="little").view(np.uint64)


class Population:
    """Six public columns over n people, and statements over them: ranges, equalities, conjunctions."""

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.n, self.rng = n, rng
        sizes = (2, 90, 60, 900, 40, 30_000)
        self.columns = [rng.integers(0, size, size=n) for size in sizes]

    def statement(self) -> Bools:
        rng = self.rng
        mask = np.ones(self.n, dtype=bool)
        for j in rng.choice(len(self.columns), size=int(rng.integers(1, 4)), replace=False):
            column = self.columns[j]
            top = int(column.max()) + 1
            if top <= 40:
                mask &= column == rng.integers(0, top)
            else:
                a, b = np.sort(rng.integers(0, top + 1, size=2))
                mask &= (column >= a) & (column < b)
        return mask

    def log(self, m: int, pairs: int, triples: int) -> Words:
        """m statements, among them `pairs` that differ by one person and `triples` Q_a + Q_b + person = Q_c."""
        rows = [self.statement() for _ in range(m - pairs - 2 * triples)]
        for t in range(pairs):
            row = rows[t].copy()
            row[self.rng.integers(self.n)] ^= True
            rows.append(row)
        for t in range(pairs, pairs + triples):
            cut = self.rng.random(self.n) < 0.5
            person = int(self.rng.choice(np.flatnonzero(rows[t])))
            left, right = rows[t] & cut, rows[t] & ~cut
            left[person] = right[person] = False
            rows += [left, right]
        order = self.rng.permutation(len(rows))
        return np.array([pack(rows[i]) for i in order])


# -- peers ------------------------------------------------------------------------------------------------------


@intrinsic
def popcount(typingctx: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


@njit(cache=True, nogil=True)
def gram_rows(lo: int, hi: int, bits: Words, out: NDArray[np.int64]) -> None:
    """Rows lo..hi of A A' by popcount, in strips of words that stay in cache."""
    W = bits.shape[1]
    strip = 256
    for start in range(0, W, strip):
        stop = min(W, start + strip)
        for i in range(lo, hi):
            a = bits[i]
            for j in range(i + 1):
                b = bits[j]
                total = np.uint64(0)
                for w in range(start, stop):
                    total += popcount(a[w] & b[w])  # type: ignore[call-arg]
                out[i, j] += np.int64(total)


@njit(cache=True, nogil=True)
def project_words(lo: int, hi: int, bits: Words, y: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """out[k] = sum of y over the rows that hold column k, for the words lo..hi."""
    for i in range(bits.shape[0]):
        if y[i] == 0.0:
            continue
        for w in range(lo, hi):
            x = bits[i, w]
            for b in range(64):
                out[64 * w + b] += y[i] * float((x >> np.uint64(b)) & np.uint64(1))


@njit(cache=True, nogil=True)
def row_dots(lo: int, hi: int, bits: Words, g: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    for i in range(lo, hi):
        total = 0.0
        for w in range(bits.shape[1]):
            x = bits[i, w]
            for b in range(64):
                total += g[64 * w + b] * float((x >> np.uint64(b)) & np.uint64(1))
        out[i] = total


def float_route(bits: Words, K: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Columns k with z_k = 0 for z = g - A' (A A')^+ A g, up to a tolerance: the usual way, with its usual faults."""
    m, W = bits.shape
    gram = np.zeros((m, m), dtype=np.int64)
    spread(gram_rows, m, 8, bits, gram)
    gram = gram + np.tril(gram, -1).T
    values, vectors = np.linalg.eigh(gram.astype(np.float64))
    keep = values > values.max() * m * np.finfo(np.float64).eps
    g = np.zeros(64 * W)
    g[:K] = rng.standard_normal(K)
    s = np.zeros(m)
    spread(row_dots, m, 8, bits, g, s)
    y = vectors[:, keep] @ ((vectors[:, keep].T @ s) / values[keep])
    lift = np.zeros(64 * W)
    spread(project_words, W, 64, bits, y, lift)
    return np.flatnonzero(np.abs(g - lift)[:K] < 1e-8)


def by_svd(A: NDArray[np.float64]) -> NDArray[np.int64]:
    """Columns whose leverage (squared norm of their row of V) is 1, from one SVD."""
    _, s, Vt = np.linalg.svd(A, full_matrices=False)
    V = Vt[s > s.max() * max(A.shape) * np.finfo(np.float64).eps]
    return np.flatnonzero(np.abs((V**2).sum(axis=0) - 1) < 1e-8)


def by_gram(A: NDArray[np.float64]) -> NDArray[np.int64]:
    """The leverages from eigh of A A'."""
    values, vectors = np.linalg.eigh(A @ A.T)
    keep = values > values.max() * len(A) * np.finfo(np.float64).eps
    V = (vectors[:, keep] / np.sqrt(values[keep])).T @ A
    return np.flatnonzero(np.abs((V**2).sum(axis=0) - 1) < 1e-8)


def by_deletion(A: NDArray[np.float64], columns: range) -> list[int]:
    """Columns whose deletion lowers numpy's matrix_rank."""
    full = np.linalg.matrix_rank(A)
    return [k for k in columns if np.linalg.matrix_rank(np.delete(A, k, axis=1)) < full]


# -- parts ------------------------------------------------------------------------------------------------------


def exact(matrix: RowMatrix) -> tuple[list[int], int, int]:
    """Everything we promise: screen, proof of completeness, and a written-out proof for each determined column."""
    S = RowSpace(matrix)
    exposed = S.determined().tolist()
    longest = 0
    for k in exposed:
        weights = S.weights(k)
        assert weights is not None
        longest = max(longest, len(weights))
    return exposed, S.rank, longest


def wide(scale: float) -> Report:
    K, m = int(425_000 * scale), int(1_000 * min(1.0, 4 * scale))
    bits = Population(K, np.random.default_rng(1)).log(m, pairs=20, triples=10)
    exact(RowMatrix.from_bits(bits, K))  # compile
    rng = np.random.default_rng(2)
    float_route(bits[:64, :64].copy(), 4096, rng)
    best, results = alternate(
        {
            "screen": lambda: RowSpace(RowMatrix.from_bits(bits, K)),
            "exact": lambda: exact(RowMatrix.from_bits(bits, K)),
            "float": lambda: float_route(bits, K, rng),
        },
        rounds=3,
    )
    exposed, rank, longest = results["exact"]
    return {
        "K": K,
        "m": m,
        "rank": rank,
        "exposed": len(exposed),
        "longest proof": longest,
        "screen s": best["screen"],
        "screen and proofs s": best["exact"],
        "float route s": best["float"],
        "float route finds": len(results["float"]),
        "float / exact": best["float"] / best["exact"],
        "peak GB": peak_gb(),
    }


def small(scale: float) -> Report:
    m, K = int(300 * min(1.0, 4 * scale)), int(400 * min(1.0, 4 * scale))
    rng = np.random.default_rng(3)
    dense = (rng.random((m, K)) < 0.3).astype(np.int64)
    for t in range(10):
        dense[m - 1 - t] = dense[t]
        dense[m - 1 - t, 7 * t] ^= 1
    A = dense.astype(np.float64)
    best, results = alternate(
        {"exact": lambda: exact(RowMatrix.from_dense(dense)), "svd": lambda: by_svd(A)}, rounds=15
    )
    some = range(0, K, 8)
    deletion, found = timed(lambda: by_deletion(A, some))
    deletion *= K / len(some)
    exposed = results["exact"][0]
    assert found == [k for k in exposed if k in some]
    return {
        "K": K,
        "m": m,
        "exposed": len(exposed),
        "exact ms": best["exact"] * 1e3,
        "one svd ms": best["svd"] * 1e3,
        "deletion loop ms (one column in 8, times 8)": deletion * 1e3,
        "exact / svd": best["exact"] / best["svd"],
        "deletion / exact": deletion / best["exact"],
    }


def chain(scale: float) -> Report:
    out: Report = {}
    for N in (40, 300):
        everybody = np.array([[int(k - j in (0, 1, 3)) for j in range(N)] for k in range(N)])
        stranger = np.zeros((N, 1), dtype=np.int64)
        stranger[0] = 1
        nobody = np.hstack([everybody, stranger])
        for name, dense in ((f"{N}, all", everybody), (f"{N}, none", nobody)):
            A = dense.astype(np.float64)
            out[name] = {
                "truth": N if dense is everybody else 0,
                "exact": len(RowSpace(RowMatrix.from_dense(dense)).determined()),
                "gram": len(by_gram(A)),
                "svd": len(by_svd(A)),
            }
    return out


def many(scale: float) -> Report:
    people, bases, K = int(10_000 * scale), int(500 * scale), int(40_000 * scale)
    rng = np.random.default_rng(4)
    rows = rng.random((bases + people, K)) < 0.3
    chosen = rng.permutation(K)[:people]
    for t, k in enumerate(chosen.tolist()):
        row = rows[rng.integers(0, bases)].copy()
        row[k] ^= True
        if t % 10 == 9:  # and somebody given away before: proofs build on proofs
            row[chosen[t - 5]] ^= True
        rows[bases + t] = row
    bits = np.array([pack(row) for row in rows])
    RowSpace(RowMatrix.from_bits(bits[: bases + 400], K))  # compile
    peeled, S = min((timed(lambda: RowSpace(RowMatrix.from_bits(bits, K))) for _ in range(3)), key=lambda t: t[0])
    matrix = S.matrix

    def write_out() -> int:
        return sum(verify(matrix, S.weights(k), {k: 1}) for k in S.determined().tolist())

    written, verified = timed(write_out)

    def unpeeled() -> int:
        factor = Factor(RowMatrix.from_bits(bits, K), np.random.default_rng(5))
        return len(factor.certify(factor.candidates().tolist()))

    plain, found = timed(unpeeled)
    return {
        "K": K,
        "m": bases + people,
        "exposed": len(S.determined()),
        "peeled s": peeled,
        "all proofs written out and verified again s": written,
        "proofs verified": verified,
        "without peeling s": plain,
        "without peeling finds": found,
        "without / with peeling": plain / peeled,
        "without / with peeling and all proofs": plain / (peeled + written),
        "peak GB": peak_gb(),
    }


def online(scale: float) -> Report:
    n, answered = int(400_000 * scale), int(1_000 * scale)
    population = Population(n, np.random.default_rng(6))
    out: Report = {"n": n, "answered": answered}
    for insiders in (0, 1):
        S = OnlineRowSpace(n, insiders=insiders)
        probe, commit, asked, denied = [], [], [], 0
        while S.rank < answered:
            bits = pack(population.statement())
            seconds, decision = timed(lambda bits=bits, S=S: S.probe(bits))  # type: ignore[misc]
            if decision.dependent:
                continue
            probe.append(seconds)
            if decision.safe:
                commit.append(timed(lambda d=decision, S=S: S.commit(d))[0])  # type: ignore[misc]
                asked.append(bits)
            else:
                denied += 1
        attack, proof, repeat = [], [], []
        for t in range(12):
            k = int(population.rng.integers(n))
            bits = asked[7 * t % len(asked)].copy()
            repeat.append(timed(lambda bits=bits, S=S: S.probe(bits))[0])  # type: ignore[misc]
            bits[k >> 6] ^= np.uint64(1) << np.uint64(k & 63)
            seconds, decision = timed(lambda bits=bits, S=S: S.probe(bits))  # type: ignore[misc]
            assert k in decision.exposes
            attack.append(seconds)
            seconds, weights = timed(lambda d=decision, k=k, S=S: S.certificate(d, k))  # type: ignore[misc]
            assert weights is not None
            proof.append(seconds)
        tail = len(probe) // 5
        state = sum(block.nbytes for block in S._blocks) + S._T.nbytes + S._g.nbytes
        out[f"insiders {insiders}"] = {
            "new query ms": float(np.median(probe[-tail:])) * 1e3,
            "repeated query ms": float(np.median(repeat)) * 1e3,
            "commit ms": float(np.median(commit[-tail:])) * 1e3,
            "planted attack ms": float(np.median(attack)) * 1e3,
            "its proof ms": float(np.median(proof)) * 1e3,
            "denied": denied,
            "state MB": state / 1e6,
        }
    return out


PARTS: dict[str, Callable[[float], Report]] = {
    "wide": wide,
    "small": small,
    "chain": chain,
    "many": many,
    "online": online,
}


def show(report: Report, indent: int = 0) -> None:
    for name, value in report.items():
        if isinstance(value, dict):
            print(" " * indent + name)
            show(value, indent + 2)
        else:
            text = f"{value:,.3g}" if isinstance(value, float) and value < 100 else f"{value:,.0f}"
            print(" " * indent + f"{name:<46}{text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", choices=["json", "text"], default="text")
    parser.add_argument("--only", choices=sorted(PARTS), action="append")
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    report = {name: PARTS[name](options.scale) for name in PARTS if not options.only or name in options.only}
    if options.format == "json":
        print(json.dumps(report, indent=2))
    else:
        show(report)


if __name__ == "__main__":
    main()
