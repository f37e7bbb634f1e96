"""Speed and accuracy of the attacks beside their peers, in one run: `python -m benchmarks.attack --format text`.

Everything runs on one thread. Parts: `streaming` (share of memory bandwidth), `decoding` (against scipy and cvxpy),
`signs` (+-1 secrets), `bits` (accuracy of every method against the number of queries).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before numpy is loaded

import numpy as np  # noqa: E402
from numba import njit  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from keyhole.attacks.base import Target  # noqa: E402
from keyhole.attacks.choose import run_attack  # noqa: E402
from keyhole.attacks.experiment import score_reconstruction  # noqa: E402
from keyhole.attacks.methods.bounded import Bounded  # noqa: E402
from keyhole.attacks.methods.l1 import L1  # noqa: E402
from keyhole.attacks.problem.arrays import from_arrays  # noqa: E402
from keyhole.model.prior import Prior  # noqa: E402
from keyhole.model.transcript import Noise  # noqa: E402
from keyhole.report.charts.figures import draw_accuracy  # noqa: E402
from keyhole.report.html.page import write_chart  # noqa: E402
from keyhole.solve.decode.bitrows import overlaps, pack, transpose  # noqa: E402
from keyhole.solve.decode.interior.method import Rows, RowTerm, minimise  # noqa: E402
from keyhole.solve.decode.kaczmarz import sweep  # noqa: E402

Floats = NDArray[np.float64]
BIT = Prior(Decimal(0), Decimal(1), Decimal(1))


def _seconds(task: Callable[[], object]) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def _within(seconds: float, work: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """What a function gives, in a process that is ended after so many seconds (then None).

    HiGHS looks at its time limit between iterations only, and one of them may take minutes.
    """
    ours, theirs = multiprocessing.Pipe(duplex=False)

    def task() -> None:
        theirs.send(work(*args, **named))

    child = multiprocessing.get_context("fork").Process(target=task)
    child.start()
    try:
        return ours.recv() if ours.poll(seconds) else None
    finally:
        child.kill()
        child.join()


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator,unused-ignore]
def _plain_pass(words: NDArray[np.uint64], x: Floats) -> float:
    """The limit: read the bits, read x, read and write x; no work on them."""
    total = 0.0
    for i in range(words.shape[0]):
        total += words[i]
    for i in range(x.shape[0]):
        total += x[i]
    for i in range(x.shape[0]):
        x[i] = x[i] * 1.0000000000000002
    return total


def streaming(n: int = 10**6, rows: int = 32, repeats: int = 9) -> dict[str, Any]:
    """Kaczmarz projections on bit-packed rows, beside a plain pass over the same bytes."""
    rng = np.random.default_rng(0)
    words = pack(rng.random((rows, n)) < 0.5)
    X = np.zeros((1, 64 * words.shape[1]))
    y = rng.random((1, rows)) * n / 4
    soft = np.zeros(rows)

    def blocks(k: int) -> Callable[[], None]:
        def walk() -> None:
            for s in range(0, rows, k):
                part = slice(s, s + k)
                sweep(words[part], y[:, part], y[:, part], X, soft[part])

        return walk

    def limit() -> None:
        for j in range(rows):
            _plain_pass(words[j], X[0])

    tasks = {"plain pass": limit, "one at a time": blocks(1), "blocks of 16": blocks(16)}
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for round_ in range(repeats + 1):
        for name, task in tasks.items():  # interleaved: a busy machine slows all alike
            taken = _seconds(task)
            if round_:
                times[name].append(taken)
    best = {name: min(t) for name, t in times.items()}
    moved = rows * (words.shape[1] * 8 + 3 * X.shape[1] * 8)
    return {
        "records": n,
        "microseconds a query": {name: round(1e6 * t / rows, 1) for name, t in best.items()},
        "bytes a second of the plain pass": round(moved / best["plain pass"] / 1e9, 1),
        "share of the limit": {k: round(best["plain pass"] / best[k], 3) for k in ("one at a time", "blocks of 16")},
        "target": 0.5,
    }


def decoding(n: int = 1000, m: int = 4000, repeats: int = 3, patience: float = 25.0) -> dict[str, Any]:
    """L1 and box least squares on noisy subset sums of 0/1 secrets, beside scipy and cvxpy."""
    cp: Any = import_module("cvxpy")
    import scipy.linalg  # noqa: F401 - loaded before the clock starts

    sp: Any = import_module("scipy.sparse")
    optimize: Any = import_module("scipy.optimize")

    rng = np.random.default_rng(0)
    bits = rng.random((m, n)) < 0.5
    A, x = bits.astype(np.float64), (rng.random(n) < 0.5).astype(np.float64)
    y = A @ x + rng.laplace(0, 3, m)
    zero, one, half = np.zeros(n), np.ones(n), np.full(n, 0.5)
    words = pack(bits)
    found: dict[str, Floats] = {}

    def absolute() -> None:
        rows = Rows(A, y, np.ones(m), y, y, np.full(m, RowTerm.ABSOLUTE, dtype=np.int8))
        found["L1"] = minimise(rows, zero, one, start=half).u

    def squares() -> None:
        rows = Rows(A, y, np.ones(m), y, y, np.full(m, RowTerm.QUADRATIC, dtype=np.int8))
        gram = overlaps(transpose(words, n)).astype(np.float64)
        found["Bounded"] = minimise(rows, zero, one, start=half, gram=gram).u

    def scipy_squares() -> None:
        found["scipy lsq_linear"] = optimize.lsq_linear(A, y, (0, 1)).x

    def cvxpy(loss: Callable[[Any], Any], name: str) -> Callable[[], None]:
        def task() -> None:
            u = cp.Variable(n)
            problem = cp.Problem(cp.Minimize(loss(A @ u - y)), [u >= 0, u <= 1])
            problem.solve()
            solver[name] = problem.solver_stats.solver_name
            found[name] = np.asarray(u.value)

        return task

    solver: dict[str, str] = {}
    ours: dict[str, list[float]] = {"L1": [], "Bounded": [], "scipy lsq_linear": []}
    for _ in range(repeats):
        for name, task in (("L1", absolute), ("Bounded", squares), ("scipy lsq_linear", scipy_squares)):
            ours[name].append(_seconds(task))
    times = {name: statistics.median(t) for name, t in ours.items()}
    times["cvxpy L1"] = _seconds(cvxpy(cp.norm1, "cvxpy L1"))
    times["cvxpy least squares"] = _seconds(cvxpy(cp.sum_squares, "cvxpy least squares"))
    eye = sp.identity(m)
    above = sp.vstack([sp.hstack([sp.csr_array(A), -eye]), sp.hstack([sp.csr_array(-A), -eye])]).tocsr()
    cost, bounds = np.r_[zero, np.ones(m)], [(0, 1)] * n + [(0, None)] * m
    cap = patience * times["L1"]

    def textbook() -> None:
        r = _within(cap, optimize.linprog, cost, A_ub=above, b_ub=np.r_[y, -y], bounds=bounds, method="highs-ipm")
        if r is not None and r.x is not None and r.status == 0:
            found["scipy linprog"] = r.x[:n]

    times["scipy linprog"] = _seconds(textbook)
    # ours once more, after the peers: were they luckier with the machine?
    for name, task in (("L1", absolute), ("Bounded", squares)):
        ours[name].append(_seconds(task))
        times[name] = statistics.median(ours[name])
    ratios = {
        "L1 against scipy linprog": times["scipy linprog"] / times["L1"],
        "L1 against cvxpy": times["cvxpy L1"] / times["L1"],
        "Bounded against cvxpy": times["cvxpy least squares"] / times["Bounded"],
        "Bounded against scipy lsq_linear": times["scipy lsq_linear"] / times["Bounded"],
    }
    return {
        "n": n,
        "m": m,
        "seconds": {k: round(v, 3) for k, v in times.items()},
        "linprog stopped unfinished": "scipy linprog" not in found,
        "cvxpy solvers": solver,
        "times faster": {k: round(v, 1) for k, v in ratios.items()},
        "targets": {"L1": 20, "Bounded against cvxpy": 20, "Bounded against scipy lsq_linear": 8},
        "share correct": {k: round(float(((u > 0.5) == (x > 0.5)).mean()), 4) for k, u in found.items()},
        "sum of absolute errors": {k: round(float(np.abs(A @ u - y).sum()), 4) for k, u in found.items() if "L1" in k},
    }


def signs(seeds: int = 20, n: int = 100, m: int = 200, scale: int = 10) -> dict[str, Any]:
    """+-1 secrets, random +-1 questions, Laplace noise: linear program, box least squares, the best possible."""
    prior = Prior(Decimal(-1), Decimal(1), Decimal(2))
    shares: dict[str, list[float]] = {}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        A, x = rng.choice((-1, 1), (m, n)), rng.choice((-1, 1), n)
        y = A @ x + rng.laplace(0, scale, m)
        for name, method, noise in (
            ("box least squares", "bounded", Noise("gaussian", Fraction(scale))),
            ("LP (l1)", "l1", Noise("laplace", Fraction(scale))),
            ("posterior majority (integer)", "integer", Noise("laplace", Fraction(scale))),
        ):
            evidence = from_arrays(A, y, noise=noise, prior=prior)
            target = Target.of(evidence)
            shares.setdefault(name, []).append(
                score_reconstruction(run_attack(method, target, evidence)[1], x, target).exact
            )
    return {
        "n": n,
        "m": m,
        "seeds": seeds,
        "share correct": {k: round(statistics.mean(v), 4) for k, v in shares.items()},
        "standard error": {k: round(statistics.stdev(v) / seeds**0.5, 4) for k, v in shares.items()},
        "published LP": 0.825,
    }


METHODS = (
    ("box least squares", "bounded", "gaussian"),
    ("bounded", "bounded", "laplace"),
    ("l1", "l1", "laplace"),
    ("integer", "integer", "laplace"),
    ("convex", "convex", "laplace"),
    ("lbfgs", "lbfgs", "laplace"),
    ("jacobi", "jacobi", "laplace"),
    ("sparse", "sparse", "laplace"),
    ("sgd", "sgd", "laplace"),
    ("kaczmarz", "kaczmarz", "laplace"),
    ("least-squares", "least-squares", "laplace"),
    ("conjugate-gradient", "conjugate-gradient", "laplace"),
    ("extended-kaczmarz", "extended-kaczmarz", "laplace"),
)
FREE = ("least-squares", "conjugate-gradient", "extended-kaczmarz")  # they cannot honour bounds


def bits(seeds: int = 100, n: int = 73, sizes: tuple[int, ...] = (300, 600, 1000)) -> dict[str, Any]:
    """0/1 secrets, random subsets, Laplace noise of deviation 3.3: accuracy of every method, paired by seed."""
    deviation = 3.3
    law = {
        "laplace": Noise("laplace", Fraction(deviation / 2**0.5)),
        "gaussian": Noise("gaussian", Fraction(deviation)),
    }
    reply: dict[str, Any] = {"n": n, "noise deviation": deviation, "seeds": seeds, "queries": {}}
    for m in sizes:
        shares: dict[str, list[float]] = {}
        seconds: dict[str, float] = {}
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            A, x = rng.integers(0, 2, (m, n)), rng.integers(0, 2, n)
            y = A @ x + rng.laplace(0, deviation / 2**0.5, m)
            for name, method, noise in METHODS:
                evidence = from_arrays(A, y, noise=law[noise], prior=Prior() if method in FREE else BIT)
                target = Target.of(evidence)
                start = time.perf_counter()
                found = run_attack(method, target, evidence)[1]
                seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
                shares.setdefault(name, []).append(score_reconstruction(found, x, Target("x", n, BIT)).exact)
        base = shares["box least squares"]
        reply["queries"][str(m)] = {
            name: {
                "share correct": round(statistics.mean(v), 4),
                "gain over box least squares": round(statistics.mean(a - b for a, b in zip(v, base, strict=False)), 4),
                "standard error of the gain": round(
                    statistics.stdev(a - b for a, b in zip(v, base, strict=False)) / len(v) ** 0.5, 4
                ),
                "seeds": len(v),
                "seconds": round(seconds[name] / len(v), 4),
            }
            for name, v in shares.items()
        }
    return reply


def whole_attack(n: int = 1000, m: int = 4000) -> dict[str, Any]:
    """The same decoding through the public interface: evidence in, values with standard errors out."""
    rng = np.random.default_rng(0)
    A, x = rng.integers(0, 2, (m, n)), rng.integers(0, 2, n)
    y = A @ x + rng.laplace(0, 3, m)
    reply = {}
    for cls, noise in ((L1, Noise("laplace", Fraction(3))), (Bounded, Noise("gaussian", Fraction(3)))):
        evidence = from_arrays(A, y, noise=noise, prior=Prior(Decimal(0), Decimal(1)))
        attack = cls(Target.of(evidence))
        taken = _seconds(lambda attack=attack, evidence=evidence: attack.observe(evidence))  # type: ignore[misc]
        solved = _seconds(attack.estimate)
        reply[cls.__name__] = {"observe seconds": round(taken, 3), "estimate seconds": round(solved, 3)}
    return reply


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "streaming": streaming,
    "decoding": decoding,
    "whole attack": whole_attack,
    "signs": signs,
    "bits": bits,
}


def plot(reply: dict[str, Any], path: Path) -> None:
    """Accuracy of the methods that differ, against the number of queries."""
    shown = ("integer", "bounded", "box least squares", "least-squares")
    curves = {name: [(float(m), row[name]["share correct"]) for m, row in reply["queries"].items()] for name in shown}
    title = f"{reply['n']} secret bits, noise of deviation {reply['noise deviation']}, {reply['seeds']} seeds"
    write_chart(draw_accuracy(curves), path, title=title)


def _text(name: str, reply: dict[str, Any], indent: str = "") -> None:
    print(f"{indent}{name}")
    for key, value in reply.items():
        if isinstance(value, dict) and value and all(isinstance(v, dict) for v in value.values()):
            for size, methods in value.items():
                print(f"{indent}  {key} {size}")
                for method, row in methods.items():
                    cells = "  ".join(f"{k} {v}" for k, v in row.items())
                    print(f"{indent}    {method:<20} {cells}")
        elif isinstance(value, dict):
            _text(str(key), value, indent + "  ")
        else:
            print(f"{indent}  {key}: {value}")


def main() -> None:
    """Run the parts asked for and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--part", choices=tuple(PARTS), action="append", help="only this part (repeatable)")
    parser.add_argument("--seeds", type=int, default=100, help="seeds of the part `bits`")
    parser.add_argument("--plots", type=Path, help="folder for attack-accuracy.svg, from the part `bits`")
    chosen = parser.parse_args()
    replies: dict[str, Any] = {}
    for name in chosen.part or PARTS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        replies[name] = bits(chosen.seeds) if name == "bits" else PARTS[name]()
        if name == "bits" and chosen.plots is not None:
            plot(replies[name], chosen.plots / "attack-accuracy.svg")
        if chosen.format == "text":
            _text(name, replies[name])
            sys.stdout.flush()
    if chosen.format == "json":
        print(json.dumps(replies, indent=2))


if __name__ == "__main__":
    main()
