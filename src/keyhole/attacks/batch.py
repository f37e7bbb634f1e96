"""What batch attacks share: they stack blocks into one problem and solve it when asked for an estimate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np

from keyhole.attacks.base import Floats, Measure, Reconstruction, State, Target, Watch, guess_from_prior
from keyhole.attacks.estimates.guess_errors import average_guess_errors, read_guess
from keyhole.attacks.estimates.standard_errors import compute_errors_after, find_midpoint
from keyhole.attacks.problem.assembly import assemble
from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem, clamp_noise, join_blocks
from keyhole.attacks.problem.order_answers import OrderAnswer
from keyhole.errors import CannotHonour, ContradictionError
from keyhole.gather.evidence import Evidence
from keyhole.model.forms import Feature
from keyhole.solve.decode.csr import Csr
from keyhole.solve.decode.interior.method import Rows, RowTerm, minimise
from keyhole.solve.status import SolverStatus

DENSE_LIMIT = 40_000_000  # entries of a dense design (320 MB): above it only matrix-free methods run


class BatchAttack(ABC):
    """Base of the batch attacks. A subclass gives `_solve`, and says which knowledge it honours."""

    honours: ClassVar[frozenset[str]] = frozenset()
    name: ClassVar[str] = ""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.watch: Watch | None = None  # called at every step of an iterative solver
        self._problem: Problem | None = None

    @property
    def problem(self) -> Problem | None:
        """Everything observed so far, as one decoding problem."""
        return self._problem

    def observe(self, evidence: Evidence) -> None:
        """Take in a block."""
        self.take(assemble(self.target, evidence))

    def take(self, block: Problem) -> None:
        """Take in a block that is assembled already."""
        self._refuse(block)
        self._problem = block if self._problem is None else join_blocks(self._problem, block)

    def estimate(self) -> Reconstruction:
        """Solve for everything seen so far."""
        told = self._problem is not None and (self._problem.m or "facts" in self._problem.wishes)
        ranked = self._problem is not None and self._problem.order and "order statistics" in self.honours
        if self._problem is None or not (told or ranked):
            return guess_from_prior(self.target)
        if "clamped answers" in self.honours or (loose := clamp_noise(self._problem)) is self._problem:
            return self._solve(self._problem)
        return _of_its_law(self._problem, self._solve(loose))

    @abstractmethod
    def _solve(self, problem: Problem) -> Reconstruction: ...

    def _refuse(self, problem: Problem) -> None:
        missing = sorted(problem.wishes - self.honours)
        problem = clamp_noise(problem)
        if missing:
            raise CannotHonour(
                f"{self.name} cannot honour {' and '.join(missing)} on single values of {self.target.column!r}: "
                "take bounded, l1, integer or convex, or leave the knowledge out"
            )
        one_sided = (problem.law == NoiseLaw.INTERVAL) & ~(np.isfinite(problem.lo) & np.isfinite(problem.hi))
        if one_sided.any() and "one-sided answers" not in self.honours:
            first = problem.numbers[int(np.flatnonzero(one_sided)[0])]
            raise CannotHonour(
                f"{self.name} cannot use one-sided answers (threshold questions; query {first} is the first): "
                "take bounded, l1, integer or convex"
            )

    def state(self) -> State:
        """The stacked problem as arrays."""
        p = self._problem
        if p is None:
            return {}
        found: State = {
            "of": p.of, "sizes": p.sizes, "y": p.y, "lo": p.lo, "hi": p.hi, "scale": p.scale, "law": p.law,
            "numbers": np.array(p.numbers, dtype=np.str_), "lower": p.lower, "upper": p.upper, "absent": p.absent,
            "wishes": np.array(sorted(p.wishes), dtype=np.str_), "unread": np.array(p.unread, dtype=np.str_),
            "order_numbers": np.array([o.number for o in p.order], dtype=np.str_),
            "order_members": np.array([o.members for o in p.order]).reshape(len(p.order), p.K),
            "order_ends": np.array([(o.n, o.j, o.k, o.share, o.lo, o.hi) for o in p.order]).reshape(-1, 6),
        }  # fmt: skip
        if p.bits is not None:
            found["bits"] = p.bits
        elif p.csr is not None:
            found |= {"starts": p.csr.starts, "columns": p.csr.columns, "values": p.csr.values}
        else:
            found["dense"] = p.totals()
        if not p.plain:
            raise CannotHonour("a log with private conditions cannot be saved half-way: observe it whole")
        return found

    def resume(self, state: State) -> None:
        """Continue from `state()`."""
        if not state:
            self._problem = None
            return
        s = state
        self._problem = Problem(
            self.target, s["of"], s["sizes"], (Feature(self.target.column, 1, ()),), s.get("bits"), s.get("dense"),
            s["y"], s["lo"], s["hi"], s["scale"], s["law"], tuple(map(str, s["numbers"])), s["lower"], s["upper"],
            s["absent"], frozenset(map(str, s["wishes"])),
            csr=Csr(s["starts"], s["columns"], s["values"], len(s["lower"])) if "starts" in s else None,
            order=tuple(
                OrderAnswer(str(number), members, int(n), int(j), int(k), float(share), float(lo), float(hi))
                for number, members, (n, j, k, share, lo, hi) in zip(
                    s["order_numbers"], s["order_members"], s["order_ends"], strict=True
                )
            ),
            unread=tuple(map(str, s["unread"])),
        )  # fmt: skip


def _of_its_law(problem: Problem, found: Reconstruction) -> Reconstruction:
    """Errors under the law of clamped and suppressed answers, for a guess whose method took them for intervals."""
    if not problem.plain or found.measure is not Measure.STANDARD_ERROR:
        return found
    first = np.zeros(problem.K, dtype=np.int64)
    first[problem.of[::-1]] = np.arange(len(problem.of))[::-1]
    errors = average_guess_errors(problem, found.values[first], found.confidence[first])
    return replace(found, confidence=errors[problem.of])


def form_dense_design(problem: Problem, name: str) -> Floats:
    """The design over means, or a refusal when it would not fit."""
    if problem.m * problem.p > DENSE_LIMIT:
        raise CannotHonour(
            f"{name} needs a dense {problem.m} x {problem.p} matrix, above {DENSE_LIMIT:,} entries: "
            "take conjugate-gradient, lbfgs, jacobi or kaczmarz"
        )
    return problem.design()


def refuse_contradiction(problem: Problem, A: Floats, fitted: Floats) -> None:
    """Raise `ContradictionError`, naming queries, if exact or interval answers are missed by more than rounding."""
    hard = np.isin(problem.law, (NoiseLaw.EXACT, NoiseLaw.INTERVAL))
    missed = np.where(hard, np.abs(problem.residuals(fitted)), 0.0)
    size = np.abs(A) @ np.where(
        np.isfinite(problem.target.deviation), np.full(problem.p, problem.target.deviation), 1.0
    )
    radius = np.where(problem.law == NoiseLaw.EXACT, problem.scale, 0.0)
    allowed = 1e-6 * (1 + np.abs(problem.y) + size) + radius
    if not (missed > allowed).any():
        return
    names = find_culprits(problem, A)
    raise ContradictionError(
        f"no values explain the answers to {', '.join(names)} together"
        + (" within the stated bounds and facts" if problem.wishes else "")
        + ": one of them is wrong, or noise was added; state it (--noise laplace:2) or take l1, which outvotes errors"
    )


def find_culprits(problem: Problem, A: Floats) -> list[str]:
    """Queries of one contradiction: the rows with a pull in the least absolute repair of all hard rows."""
    hard = np.flatnonzero(np.isin(problem.law, (NoiseLaw.EXACT, NoiseLaw.INTERVAL)))
    # max(0, lo - v) is (|v - lo| + |v - far| - const) / 2 with far beyond reach, so intervals repair with two |.| rows
    reach = 10 * (1 + float(np.max(np.abs(problem.y), initial=0.0)))
    ends_lo = np.where(np.isfinite(problem.lo), problem.lo, -np.inf)[hard]
    ends_hi = np.where(np.isfinite(problem.hi), problem.hi, np.inf)[hard]
    lo = np.where(np.isfinite(ends_lo), ends_lo, ends_hi - reach)
    hi = np.where(np.isfinite(ends_hi), ends_hi, ends_lo + reach)
    B = np.concatenate([A[hard], A[hard]])
    y = np.concatenate([lo, hi])
    rows = Rows(B, y, np.ones(len(y)), y, y, np.full(len(y), RowTerm.ABSOLUTE, dtype=np.int8))
    solution = minimise(rows, problem.lower, problem.upper, start=find_midpoint(problem))
    pull = np.abs(solution.dual[: len(hard)] + solution.dual[len(hard) :])
    chosen = hard[pull > 1e-4 * max(1e-12, float(pull.max(initial=0.0)))]
    return [name_answer(problem.numbers[j]) for j in chosen[:12]]


def name_answer(number: str) -> str:
    """An answer as a sentence names it."""
    return number if number.startswith("fact ") else f"query {number}"


def make_reconstruction(
    problem: Problem, u: Floats, A: Floats, status: SolverStatus, note: str = "", rest: Floats | None = None
) -> Reconstruction:
    """Means over atoms to values per record, with standard errors and the residual.

    What no row touches is `rest`: the middle of its bounds, unless the method knows better than where a solver left it.
    """
    if problem.plain:
        u = np.where(A.any(axis=0), u, find_midpoint(problem) if rest is None else rest)
    values, confidence, measure = read_guess(problem, u, compute_errors_after(problem, A, status))
    return Reconstruction(values, confidence, problem.residual(A @ u), status, measure, note)
