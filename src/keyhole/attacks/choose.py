"""Which attack fits the evidence, and one call that runs any of them to its end."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Floats, Measure, Reconstruction, Target, Watch, guess_from_prior
from keyhole.attacks.batch import DENSE_LIMIT, refuse_contradiction
from keyhole.attacks.estimates.guess_errors import average_guess_errors
from keyhole.attacks.estimates.matrix_free import SMALL
from keyhole.attacks.estimates.maximum_likelihood import choose_losses, minimise_losses
from keyhole.attacks.estimates.model_fit import fit_noise, warn_of_values_outside_range
from keyhole.attacks.estimates.posterior import EVERY_VALUE, merge_categories
from keyhole.attacks.estimates.standard_errors import SPREAD_LIMIT, compute_standard_errors
from keyhole.attacks.methods import BATCH, METHODS, STREAMING
from keyhole.attacks.methods.integer import Integer
from keyhole.attacks.problem.assembly import assemble
from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem
from keyhole.attacks.replay import Tape, replay_tape
from keyhole.errors import ConfigError, ContradictionError, LogError
from keyhole.gather.evidence import Evidence
from keyhole.solve.status import SolverStatus

UNITS = 2_500  # groups up to which the posterior of values on a grid is computed
MANY = 1500  # groups above which box least squares by L-BFGS is quicker than a dozen factorisations


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A method, why it was taken, how many rows (answers and known values) it had, what was found of their noise."""

    method: str
    why: str
    rows: int
    noise: tuple[str, ...] = ()
    asked: NDArray[np.bool_] | None = None  # the records that some answer is about


def choose_method(problem: Problem) -> Choice:
    """The attack that makes most of the evidence and still fits in memory and time.

    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> e = from_arrays(np.eye(3), [1.0, 2.0, 3.0])
    >>> choose_method(assemble(Target.of(e), e)).method
    'least-squares'
    """
    return Choice(*_method(problem), problem.m)


def _method(problem: Problem) -> tuple[str, str]:
    """Its name, and why."""
    size = f"{problem.m} answers about {problem.target.n} records in {problem.K} groups"
    noisy = ~np.isin(problem.law, (NoiseLaw.EXACT, NoiseLaw.INTERVAL))
    interval = (problem.law == NoiseLaw.INTERVAL).any()
    limited = ((problem.law == NoiseLaw.INTERVAL) & np.isfinite(problem.scale)).any()
    laws = "noise of a known law" if noisy.any() else "answers within stated limits" if limited else "no noise"
    finite = problem.target.categories is not None or 0 < (problem.target.levels or 0) <= EVERY_VALUE
    if problem.m == 0 and "facts" not in problem.wishes and not (finite and problem.order):
        method = "integer" if finite else "bounded" if problem.wishes else "least-squares"
        return (method, "nothing was observed: the known range is the answer")
    if problem.csr is not None and not (finite and problem.p <= UNITS and problem.m * problem.p <= DENSE_LIMIT):
        if problem.wishes or interval or (problem.law == NoiseLaw.LAPLACE).any():
            return (
                "bounded",
                f"{size}, {laws}: sparse, so least squares by LSQR, then bounds and the law of the noise",
            )
        return ("least-squares", f"{size}, {laws}: sparse, so least squares by LSQR")
    if problem.m * problem.p > DENSE_LIMIT:
        if problem.wishes:
            return ("lbfgs", f"{size}: too large for a dense matrix, and bounds are known")
        return ("conjugate-gradient", f"{size}: too large for a dense matrix")
    if finite and (problem.target.categories is not None or problem.p <= UNITS):
        kind = "categories" if problem.target.levels is None else f"values on a grid of {problem.target.levels}"
        return ("integer", f"{size}, {laws}: {kind}, so each record's posterior can be computed")
    smooth = not interval and not (problem.law == NoiseLaw.LAPLACE).any() and problem.plain
    if problem.wishes and smooth and problem.p > MANY:
        return ("lbfgs", f"{size}, {laws}, bounds or facts: at this size quicker than factorising a matrix")
    if problem.wishes or interval or (problem.law == NoiseLaw.LAPLACE).any() or not problem.plain:
        reasons = [
            reason
            for reason, holds in (
                ("bounds or facts", bool(problem.wishes)),
                ("interval answers", bool(interval)),
                ("Laplace noise", bool((problem.law == NoiseLaw.LAPLACE).any())),
                ("private conditions", not problem.plain),
            )
            if holds
        ]
        return ("bounded", f"{size}, {laws}: maximum likelihood with {', '.join(reasons)}")
    return ("least-squares", f"{size}, {laws}, nothing else known: the minimum-norm fit")


def run_attack(
    method: str,
    target: Target,
    evidence: Evidence,
    *,
    watch: Watch | None = None,
    unstated: frozenset[str] = frozenset(),
    within: tuple[Floats, Floats] | None = None,
) -> tuple[Choice, Reconstruction]:
    """Attack with a method by name (`auto` chooses), iterative ones until the residual stops falling.

    `unstated` are the statements whose noise is to be estimated from the answers; other noise is tested against them.
    `within` are proved ends of every record's value (extremes and medians prove some), taken as bounds.

    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> e = from_arrays(np.eye(3), [1.0, 2.0, 3.0])
    >>> choice, found = run_attack("auto", Target.of(e), e)
    >>> choice.method, found.values.tolist()
    ('least-squares', [1.0, 2.0, 3.0])
    """
    if evidence.contradictions:
        raise ContradictionError("; ".join(c.reason for c in evidence.contradictions[:5]))
    problem = assemble(target, evidence)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # what is not finite is refused at the end
        choice, found = _run(method, problem, watch, unstated, within)
    return choice, _name_together(problem, found)


def _name_together(problem: Problem, found: Reconstruction) -> Reconstruction:
    """A guessed category under the name of all that no answer tells from it, with their chance; where `integer`, which
    weighs names against each other, has not done so.
    """
    dense = problem.csr is None and problem.m * problem.p <= DENSE_LIMIT
    merged = merge_categories(problem) if dense and not found.merged else {}
    if not merged or found.measure is not Measure.PROBABILITY:
        return found
    together = Counter(merged.values())
    values, sure = found.values.copy(), found.confidence.copy()
    for at, value in enumerate(values.tolist()):
        if value in merged:
            values[at] = merged[value]
            sure[at] = min(1.0, sure[at] * together[merged[value]])
    return replace(found, values=values, confidence=sure, merged=merged)


def _run(
    method: str,
    problem: Problem,
    watch: Watch | None,
    unstated: frozenset[str],
    within: tuple[Floats, Floats] | None,
) -> tuple[Choice, Reconstruction]:
    target = problem.target
    marked = np.array([name.partition(".")[0] in unstated for name in problem.numbers], dtype=bool)
    fit = fit_noise(problem, marked)
    problem = fit.problem if within is None else _narrowed(fit.problem, *within)
    choice = choose_method(problem) if method == "auto" else Choice(method, "asked for", problem.m)
    choice = replace(choice, noise=(*fit.messages, *warn_of_values_outside_range(fit.problem)), asked=_asked(problem))
    if choice.method in BATCH:
        attack = BATCH[choice.method](target)
        attack.watch = watch
        attack.take(problem)
        if isinstance(attack, Integer) and not problem.m and not problem.order:
            return choice, attack.prior(problem)
        return choice, _finite(problem, attack.estimate())
    if choice.method not in STREAMING:
        raise ConfigError(f"unknown method {method!r}: write auto or one of {', '.join(METHODS)}")
    stream = STREAMING[choice.method](target)
    with tempfile.TemporaryDirectory(prefix="keyhole-") as folder:
        tape = Tape.of(target, [problem], folder)
        if not len(tape.rows):
            return choice, guess_from_prior(target)
        replay_tape(stream, tape, order=stream.order, watch=watch)
        found = stream.estimate()
        del tape  # unmap the file before its folder goes
    return choice, _finite(problem, _checked(choice.method, problem, found))


def _finite(problem: Problem, found: Reconstruction) -> Reconstruction:
    """Guesses that are numbers; an error that is none is unknown."""
    if found.values.dtype == object:
        return found
    if not (np.isfinite(found.values) | problem.absent[problem.of]).all():
        raise LogError("the answers are too large, or too far apart in size, to compute with: no guess is a number")
    return replace(found, confidence=np.where(np.isnan(found.confidence), np.inf, found.confidence))


def _narrowed(problem: Problem, lo: Floats, hi: Floats) -> Problem:
    """The problem with what is proved of the records as bounds of their groups, a rounding error wider."""
    least, most = np.full(problem.K, np.inf), np.full(problem.K, -np.inf)
    np.minimum.at(least, problem.of, lo - 1e-9 * (1 + np.abs(lo)))
    np.maximum.at(most, problem.of, hi + 1e-9 * (1 + np.abs(hi)))
    if not problem.plain:
        if problem.least is not None and problem.most is not None:
            least, most = np.maximum(problem.least, least), np.minimum(problem.most, most)
        return replace(problem, least=least, most=most)
    lower, upper = np.maximum(problem.lower, least), np.minimum(problem.upper, most)
    return replace(problem, lower=lower, upper=upper, least=lower, most=upper, wishes=problem.wishes | {"bounds"})


def _asked(problem: Problem) -> NDArray[np.bool_]:
    """The records that some row touches."""
    held: NDArray[np.bool_] = np.asarray(problem.touched().reshape(-1, problem.K).any(axis=0))
    for answer in problem.order:
        held = held | answer.members
    return np.asarray(held[problem.of])


def _checked(method: str, problem: Problem, found: Reconstruction) -> Reconstruction:
    """A stream's guess, refused if the answers contradict each other, with the errors of the formula or the posterior.

    Both need the matrix, so a log too large for one is left as the stream says.
    """
    if problem.csr is not None or problem.m * problem.p > DENSE_LIMIT or found.status is SolverStatus.INTERRUPTED:
        return found
    A = problem.design()
    means = np.bincount(problem.of, weights=found.values, minlength=problem.K) / problem.sizes
    hard = np.isin(problem.law, (NoiseLaw.EXACT, NoiseLaw.INTERVAL))
    missed = np.abs(problem.residuals(A @ means))[hard]
    if missed.size and float(missed.max()) > 1e-6 * (1 + float(np.abs(problem.y[hard]).max())):
        term, weight = choose_losses(problem)
        best = minimise_losses(problem, A, term, weight, np.asarray(problem.law == NoiseLaw.EXACT)).u
        try:
            refuse_contradiction(problem, A, A @ best)
        except ContradictionError as error:
            raise ContradictionError(
                f"{error}; {method} meets answers one by one and never settles on such a log: "
                "extended-kaczmarz is the form for inconsistent answers"
            ) from None
    if problem.m * problem.p > SMALL or problem.p > SPREAD_LIMIT:
        return found
    plain = compute_standard_errors(problem, A)
    # what is determined is not certain while the stream is still on its way
    formula = plain if found.status is SolverStatus.CONVERGED else np.maximum(plain, 1e-300)
    averaged = average_guess_errors(problem, means, formula)
    if averaged is not formula:  # the posterior says what this guess is worth, whoever made it
        return replace(found, confidence=averaged[problem.of])
    settled = (plain == 0) & (found.status is SolverStatus.CONVERGED)  # determined, and the stream has arrived
    left = np.linalg.lstsq(A, problem.residuals(A @ means), rcond=None)[0]  # the way that it still has to go
    return replace(found, confidence=np.where(settled, 0.0, np.hypot(plain, left))[problem.of])
