"""Sparse logs and logs of one template beside their peers, in one run: `python -m benchmarks.sparse`.

Processor seconds on one thread, children included; each ratio is between two sides of the same run. Parts: `reading`
(statements of one template), `square` (n = m, ten people a question), `evidence` (only making it), `large` (a million
people), `kaczmarz`.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before numpy is loaded

import duckdb  # noqa: E402
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

from keyhole.attacks.base import Target  # noqa: E402
from keyhole.attacks.choose import run_attack  # noqa: E402
from keyhole.attacks.methods.kaczmarz import Kaczmarz  # noqa: E402
from keyhole.attacks.problem.arrays import from_arrays  # noqa: E402
from keyhole.config import Columns  # noqa: E402
from keyhole.datasets import load_roster  # noqa: E402
from keyhole.gather import gather, transcribe  # noqa: E402
from keyhole.logs.open import as_log  # noqa: E402
from keyhole.model.prior import Knowledge, Prior  # noqa: E402
from keyhole.model.transcript import Noise  # noqa: E402
from keyhole.solve.decode.bitrows import pack  # noqa: E402
from keyhole.solve.decode.kaczmarz import sweep  # noqa: E402

HUNDRED = Prior(Decimal(0), Decimal(100))
_PLAIN = re.compile(r"id \* (\d+) \+ (\d+)\) % (\d+) < (\d+)")


def _seconds(task: Callable[[], object], repeats: int = 1) -> float:
    """Processor seconds of the best of some runs."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        task()
        found.append(time.process_time() - start)
    return min(found)


def _questions(m: int, n: int, each: int, seed: int = 0) -> Any:
    sparse: Any = import_module("scipy.sparse")
    people = np.random.default_rng(seed).integers(0, n, (m, each))
    found = sparse.csr_array((np.ones(m * each), people.ravel(), np.arange(0, m * each + 1, each)), shape=(m, n))
    found.sum_duplicates()
    found.data[:] = 1
    return found


def reading(statements: int = 4_000, people: int = 900, asked: int = 80) -> dict[str, Any]:
    """A log of one template: read, validated and made evidence, beside DuckDB running it and a plain reader."""
    rng = np.random.default_rng(0)
    ids = np.arange(2_000, 2_000 + people)
    table = pa.table({"id": ids, "status": rng.choice(list("ABCD"), people)})
    texts = []
    for _ in range(statements):
        a, b, c = int(rng.integers(2, 2000)), int(rng.integers(4, 400)), int(rng.integers(1, 200))
        texts.append(
            f"SELECT COUNT(*) FROM t WHERE status = 'C' AND id BETWEEN 2000 AND {1999 + asked} "
            f"AND (id * {a} + {c}) % {b} < {b // 2}"
        )
    con = duckdb.connect(config={"threads": "1"})
    con.register("given", table)
    con.execute("CREATE TABLE t AS SELECT * FROM given")
    answers: list[int] = []
    ran = _seconds(lambda: answers.extend(int(con.execute(text).fetchall()[0][0]) for text in texts))

    def plain() -> None:
        few = ids[:asked]
        for text in texts:
            match = _PLAIN.search(text)
            assert match is not None
            a, c, b, k = map(int, match.groups())
            np.packbits((few * a + c) % b < k)

    plainly = _seconds(plain)
    columns = Columns.checked({"id": ["id"], "private": {"status": {"values": list("ABCD")}}})
    roster = load_roster(table.select(["id"]), columns)
    lines = list(as_log(list(zip(texts, answers, strict=True)), None).lines)
    transcribe(lines[:2], roster)  # imports and the made-up table are not the log's
    kept: list[Any] = []
    read = _seconds(lambda: kept.append(transcribe(lines, roster)))
    made = _seconds(lambda: kept.append(gather(kept[0], roster, Knowledge({}))))
    return {
        "statements": statements,
        "judged": len(kept[0].entries),
        "DuckDB runs them, one pass": round(ran, 2),
        "a plain reader (one regular expression, numpy, no check)": round(plainly, 3),
        "Keyhole reads and validates": round(read, 2),
        "Keyhole makes evidence of them": round(made, 2),
        "Keyhole over DuckDB's pass (at most 10)": round((read + made) / ran, 2),
        "Keyhole over the plain reader": round((read + made) / plainly, 1),
    }


def square(n: int = 5_000, each: int = 10) -> dict[str, Any]:
    """n questions about n people: `from_arrays` and the whole attack with errors, beside scipy's lsqr."""
    linalg: Any = import_module("scipy.sparse.linalg")
    A = _questions(n, n, each)
    x = np.random.default_rng(1).integers(0, 101, n).astype(np.float64)
    y = A @ x
    small = from_arrays(A[: n // 2], y[: n // 2], prior=HUNDRED)
    run_attack("auto", Target.of(small), small)  # compiled before the clock starts
    peer: list[Any] = []
    theirs = _seconds(lambda: peer.append(linalg.lsqr(A, y, atol=1e-12, btol=1e-12, iter_lim=4 * n)))
    reply: dict[str, Any] = {"n = m": n, "people a question": each, "scipy lsqr": round(theirs, 2)}
    reply["scipy lsqr, largest error"] = float(f"{np.abs(peer[0][0] - x).max():.2g}")
    noisy = y + np.random.default_rng(2).normal(0, 1, n)
    for name, answers, noise, prior in (
        ("exact, nothing known", y, None, None),
        ("exact, 0..100 known", y, None, HUNDRED),
        ("Gaussian noise 1, 0..100 known", noisy, Noise("gaussian", Fraction(1)), HUNDRED),
    ):
        found: list[Any] = []

        def whole(found: list[Any] = found, answers: Any = answers, noise: Any = noise, prior: Any = prior) -> None:
            evidence = from_arrays(A, answers, noise=noise, prior=prior)
            found.append(run_attack("auto", Target.of(evidence), evidence))

        ours = _seconds(whole)
        choice, guess = found[0]
        sure = np.isfinite(guess.confidence)
        off = np.abs(guess.values - x)[sure]
        reply[name] = {
            "method": choice.method,
            "seconds": round(ours, 2),
            "over scipy lsqr (at most 3)": round(ours / theirs, 2),
            "root mean square error": float(f"{np.sqrt(np.mean(off**2)):.2g}"),
            "stated": float(f"{np.sqrt(np.mean(guess.confidence[sure] ** 2)):.2g}"),
        }
    return reply


def evidence(sizes: tuple[tuple[int, int], ...] = ((100_000, 200_000), (200_000, 100_000))) -> dict[str, Any]:
    """`from_arrays` alone, ten people a question, beside scipy's lsqr solving the same rows at two tolerances."""
    linalg: Any = import_module("scipy.sparse.linalg")
    reply: dict[str, Any] = {}
    for m, n in sizes:
        A = _questions(m, n, 10)
        y = A @ np.random.default_rng(1).integers(0, 101, n).astype(np.float64)
        made = _seconds(lambda A=A, y=y: from_arrays(A, y, prior=HUNDRED), 3)  # type: ignore[misc]
        exact = _seconds(lambda A=A, y=y: linalg.lsqr(A, y, atol=1e-12, btol=1e-12, iter_lim=1000), 3)  # type: ignore[misc]
        rough = _seconds(lambda A=A, y=y: linalg.lsqr(A, y), 3)  # type: ignore[misc]
        reply[f"{m} answers about {n} people"] = {
            "from_arrays, seconds": round(made, 2),
            "over scipy lsqr to 1e-12 (at most 3)": round(made / exact, 2),
            "over scipy lsqr to 1e-6": round(made / rough, 2),
        }
    return reply


def large(n: int = 1_000_000, m: int = 100_000, each: int = 10) -> dict[str, Any]:
    """A million people, a hundred thousand questions."""
    A = _questions(m, n, each)
    x = np.random.default_rng(1).integers(0, 101, n).astype(np.float64)
    y = A @ x + np.random.default_rng(2).normal(0, 5, m)
    reply: dict[str, Any] = {"n": n, "m": m, "people a question": each}
    for name, answers, noise in (("exact", A @ x, None), ("Gaussian noise 5", y, Noise("gaussian", Fraction(5)))):
        made: list[Any] = []
        read = _seconds(lambda answers=answers, noise=noise, made=made: made.append(  # type: ignore[misc]
            from_arrays(A, answers, noise=noise, prior=HUNDRED)))  # fmt: skip
        solved = _seconds(lambda made=made: made.append(run_attack("auto", Target.of(made[0]), made[0])))  # type: ignore[misc]
        guess = made[1][1]
        off = (guess.values - x) / guess.confidence
        reply[name] = {
            "from_arrays, seconds": round(read, 1),
            "attack with errors, seconds": round(solved, 1),
            "root mean square of error over stated error (1 is honest)": round(float(np.sqrt(np.mean(off**2))), 3),
        }
    reply["peak memory of the process, GB (at most 8)"] = round(
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2
    )
    return reply


def kaczmarz(sizes: tuple[tuple[int, int], ...] = ((1_000, 2_000), (20_000, 500), (200_000, 64))) -> dict[str, Any]:
    """`Kaczmarz.observe` beside its kernel on rows that are packed already: the guess and its eight shadows."""
    reply: dict[str, Any] = {}
    for n, m in sizes:
        rng = np.random.default_rng(0)
        bits = rng.random((m, n)) < 0.5
        y = bits @ rng.random(n)
        words, ends, soft = pack(bits), np.tile(y, (9, 1)), np.zeros(m)
        for name, prior in (("open", None), ("in a box", Prior(Decimal(0), Decimal(1)))):
            evidence = from_arrays(bits.astype(np.uint8), y, prior=prior)
            X = np.zeros((9, 64 * words.shape[1]))

            def kernel(X: Any = X, ends: Any = ends, words: Any = words, soft: Any = soft) -> None:
                sweep(words, ends, ends, X, soft)

            kernel()
            bare = _seconds(kernel, 5)
            attacks = [Kaczmarz(Target.of(evidence)) for _ in range(5)]
            attacks.pop().observe(evidence)
            whole = min(_seconds(lambda a=a, e=evidence: a.observe(e)) for a in attacks)  # type: ignore[misc]
            reply[f"{m} answers about {n} records, {name}"] = {
                "kernel, ms": round(1e3 * bare, 1),
                "observe, ms": round(1e3 * whole, 1),
                "over the kernel (at most 3)": round(whole / bare, 2),
            }
    return reply


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "reading": reading,
    "square": square,
    "evidence": evidence,
    "large": large,
    "kaczmarz": kaczmarz,
}


def show(name: str, reply: dict[str, Any], indent: str = "") -> None:
    """One line a figure."""
    print(f"{indent}{name}")
    for key, value in reply.items():
        if isinstance(value, dict):
            show(key, value, indent + "  ")
        else:
            print(f"{indent}  {key}: {value}", flush=True)


def main() -> None:
    """Run the parts asked for and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=tuple(PARTS), action="append", help="only this part (repeatable)")
    for name in parser.parse_args().part or PARTS:
        show(name, PARTS[name]())


if __name__ == "__main__":
    main()
