"""One seeded game of an attack against a simulated oracle, the summary of several, and its questions as a transcript.

What the auditor proves from such a transcript stands beside what the attack has learnt.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any

import numpy as np

from keyhole.errors import ConfigError
from keyhole.oracles.base import ModelWarning, Run, ThresholdOracle, UnaskedWarning, play_by_steps
from keyhole.oracles.bounds import (
    average_error_floor,
    coordinates_factor,
    minimax_lower_bound,
    one_bit_deviation,
    phase_level_error,
    published_average_error,
    published_failure,
    published_final_error,
    published_least_queries,
    published_reach,
)
from keyhole.oracles.database import DatabaseOracle
from keyhole.oracles.learners import ORACLE_OFF, LearnerChoice
from keyhole.oracles.learners.bisection import PublishedConstants
from keyhole.oracles.learners.oracle_off import OracleOff
from keyhole.oracles.learners.stream_attack import StreamAttack
from keyhole.oracles.noise import Floats, GaussianNoise, LaplaceNoise, OracleNoise, UniformNoise
from keyhole.oracles.streams import Concentrated, Spread, Stream, draw_blocks
from keyhole.oracles.subspace import Subspace

SAMPLE = 20_000  # queries from which a stream's second moments are estimated
PUBLISHED = "online-bisection"
FORECASTS = 64  # vectors of which a forecast takes the mean
LONGEST_FORECAST = 10**12


class StreamKind(StrEnum):
    """Which queries come."""

    CONCENTRATED = "concentrated"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class Summary:
    """Means over seeds; `contained` is True if the box held w in every run, None for a method without a box.

    `bound`: mean of the runs' own bounds, what their boxes certify. `published_bound`: the theorem's, for
    online-bisection, else None.
    """

    method: str
    queries: int
    average_error: float
    final_error: float
    contained: bool | None
    floor: float
    bound: float
    published_bound: float | None
    seconds: float


def build_stream(kind: StreamKind, subspace: Subspace) -> Stream:
    """The stream named `kind` on a subspace."""
    return Concentrated(subspace) if kind is StreamKind.CONCENTRATED else Spread(subspace)


def play_game(
    method: LearnerChoice, stream: Stream, noise: OracleNoise, queries: int, *, delta: float, seed: int
) -> Run:
    """One game: w uniform in its box, then `queries` queries, all from the seed. Bits the model cannot explain warn.

    >>> from keyhole.oracles.learners import choose_learner
    >>> stream = Spread(Subspace.blocks(4, 2))
    >>> run = play_game(choose_learner("newton"), stream, UniformNoise(1.0), 2000, delta=0.01, seed=1)
    >>> run.queries, run.contained, run.average_error < 0.2
    (2000, True, True)
    """
    if queries < 1:
        raise ConfigError(f"a stream has at least one query, got {queries}")
    oracle, for_queries = deal_game(stream, noise, seed)
    asked = draw_blocks(stream, queries, for_queries)
    if method.name == ORACLE_OFF:
        return OracleOff(stream.subspace, noise).run(asked, oracle)
    learner = method.make(stream.subspace, noise, queries, delta)
    if isinstance(learner, StreamAttack):
        return learner.run(asked, oracle)
    return play_by_steps(learner, asked, oracle, stream.subspace)


def deal_game(stream: Stream, noise: OracleNoise, seed: int) -> tuple[ThresholdOracle, np.random.Generator]:
    """The oracle of a seed, with its w and its noise, and where the queries are drawn from."""
    for_w, for_queries, for_noise = np.random.default_rng(seed).spawn(3)
    hidden = for_w.uniform(stream.subspace.lower, stream.subspace.upper)
    return ThresholdOracle(hidden, noise, rng=for_noise), for_queries


def error_floor(method: LearnerChoice, stream: Stream, noise: OracleNoise, queries: int) -> float:
    """Cramer-Rao floor of the average error: of one bit at a central threshold, or of the raw answer for oracle-off."""
    sample = stream.coordinates(SAMPLE, np.random.default_rng(0))
    deviation = noise.std if method.name == ORACLE_OFF else one_bit_deviation(noise)
    return average_error_floor(deviation, coordinates_factor(sample), queries)


def hit_chance(stream: Stream) -> float:
    """Least share, over basis vectors, of queries within the published angle; from a sample."""
    space = stream.subspace
    sample: Floats = stream.coordinates(SAMPLE, np.random.default_rng(0))
    z = np.abs(sample) / np.linalg.norm(sample, axis=1)[:, None]
    return float(np.min(np.mean(z >= PublishedConstants().cos_phi(space.d) * (1 - 1e-12), axis=0)))


def warn_beforehand(method: LearnerChoice, stream: Stream, noise: OracleNoise, queries: int) -> str:
    """What must be said before a stream begins: that the method is expected to err more than who never asks; else "".

    Of online-bisection alone. Who never asks answers from the middle of the box of w.

    >>> from keyhole.oracles.learners import choose_learner
    >>> from keyhole.oracles.noise import UniformNoise
    >>> plane, published = Concentrated(Subspace.blocks(4, 2)), choose_learner("online-bisection")
    >>> print(warn_beforehand(published, plane, UniformNoise(1.0), 10**4))  # doctest: +ELLIPSIS
    over 10,000 queries online-bisection is expected to err by 0.4..., and never asking by 0.2...: it takes about ...
    >>> warn_beforehand(published, plane, UniformNoise(1.0), 10**6)
    ''
    """
    if method.name != PUBLISHED or queries < 3:
        return ""
    never, expected = idle_error(stream), forecast_error(stream, noise, queries)
    if expected < never:
        return ""
    longer = queries
    while longer < LONGEST_FORECAST and forecast_error(stream, noise, longer) >= never:
        longer *= 2
    enough = f"it takes about {longer:,.0f} to be better" if longer < LONGEST_FORECAST else "no stream is long enough"
    return (
        f"over {queries:,} queries {method} is expected to err by {expected:.2g}, and never asking by {never:.2g}: "
        f"{enough}; newton and sequential are better at any length"
    )


def idle_error(stream: Stream) -> float:
    """The mean error of who never asks and answers from the middle of the box, for w uniform in it."""
    rng, space = np.random.default_rng(0), stream.subspace
    w = rng.uniform(space.lower, space.upper, (SAMPLE // 10, space.D))
    off = (w - space.middle) @ space.basis.T
    return float(np.mean(np.abs(np.sum(stream.coordinates(len(w), rng) * off, axis=1))))


def forecast_error(stream: Stream, noise: OracleNoise, queries: int) -> float:
    """The average error of OnlineBisection that its phases let expect, for w uniform in its box."""
    rng, hits = np.random.default_rng(0), hit_chance(stream)
    draws = (phase_level_error(noise, stream.subspace, queries, rng=rng, hit_chance=hits) for _ in range(FORECASTS))
    spread = float(np.mean(np.abs(stream.coordinates(SAMPLE, np.random.default_rng(0))).sum(axis=1)))
    return float(np.mean(list(draws))) * max(1.0, spread / math.sqrt(stream.subspace.d))


def summarise_runs(
    method: LearnerChoice, stream: Stream, noise: OracleNoise, queries: int, runs: Sequence[Run]
) -> Summary:
    """Means over the runs, with the floor, what the boxes certify on average, and the published bound if any."""
    published = None
    if method.name == PUBLISHED:
        published = published_average_error(noise, stream.subspace, queries, hit_chance(stream))
    held = [run.contained for run in runs]
    return Summary(
        method=str(method),
        queries=queries,
        average_error=float(np.mean([run.average_error for run in runs])),
        final_error=float(np.mean([run.final_error for run in runs])),
        contained=None if None in held else all(held),
        floor=error_floor(method, stream, noise, queries),
        bound=float(np.mean([run.bound for run in runs])),
        published_bound=published,
        seconds=math.fsum(run.seconds for run in runs),
    )


def state_theory(method: LearnerChoice, stream: Stream, noise: OracleNoise, queries: int) -> list[str]:
    """What is proved about the setting, in sentences to print beside the measured error.

    >>> from keyhole.oracles.learners import choose_learner
    >>> stream = Concentrated(Subspace.blocks(4, 2))
    >>> for line in state_theory(choose_learner(PUBLISHED), stream, UniformNoise(1.0), 10**6):
    ...     print(line)
    published: the box loses w with probability at most 4e-35
    published: average error at most 2.024316
    published: final error at most 0.019538 once the stop side is reached, which cannot be: it takes T >= 10^7,624
    """
    lines, d = list[str](), stream.subspace.d
    if method.name == PUBLISHED and queries >= 3:
        lines.append(
            f"published: the box loses w with probability at most {published_failure(stream.subspace, queries):.2g}"
        )
        average = published_average_error(noise, stream.subspace, queries, hit_chance(stream))
        lines.append(f"published: average error at most {average:.6f}")
        needed, reach = published_least_queries(noise, stream.subspace, queries), published_reach(noise, d)
        lines.append(
            f"published: final error at most {published_final_error(d, queries):.6f} once the stop side is reached"
            + (f", which cannot be: it takes T >= 10^{reach:,.0f}" if needed > queries else "")
        )
    lower = minimax_lower_bound(noise, d, queries)
    if lower > 0:
        lines.append(f"minimax: no method has a smaller average error than {lower:.6f} for every w (axis queries)")
    return lines


def play_games(
    method: LearnerChoice,
    stream: Stream,
    noise: OracleNoise,
    queries: int,
    *,
    delta: float,
    seeds: int,
    done: Callable[[int], None] = lambda _: None,
) -> tuple[list[Run], Summary, list[str]]:
    """Seeds 0..seeds-1: the runs, their summary and the warnings that were given."""
    if seeds < 1:
        raise ConfigError(f"at least one seed is needed, got {seeds}")
    runs, said = list[Run](), list[str]()
    for seed in range(seeds):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            runs.append(play_game(method, stream, noise, queries, delta=delta, seed=seed))
        said.extend(
            f"seed {seed}: {w.message}" for w in caught if issubclass(w.category, ModelWarning | UnaskedWarning)
        )
        done(seed + 1)
    return runs, summarise_runs(method, stream, noise, queries, runs), said


TABLE, ID, COLUMN = "hidden", "id", "w"
MOST = 100_000  # questions that are written down


def play_as_transcript(
    method: LearnerChoice, stream: Stream, noise: OracleNoise, queries: int, *, delta: float, seed: int
) -> tuple[Floats, Iterator[dict[str, Any]]]:
    """The hidden vector of `play_game` with these arguments, and a {"sql", "answer", "noise"} for each bit.

    Played step by step, which gives the same numbers as `play_game` up to rounding. The records have ids 1, 2, ..., D.

    >>> from keyhole.oracles.learners import choose_learner
    >>> stream, law = Concentrated(Subspace.blocks(2, 2), phi=0), UniformNoise(0.5)
    >>> hidden, lines = play_as_transcript(choose_learner("sequential"), stream, law, 1, delta=0.01, seed=0)
    >>> next(lines)["noise"]
    {'kind': 'uniform', 'scale': 0.5}
    """
    space = stream.subspace
    attack = method.make(space, noise, queries, delta)
    if queries > MOST:
        raise ConfigError(f"{queries:,} questions are more than --log writes ({MOST:,}): take fewer --queries")
    oracle, for_queries = deal_game(stream, noise, seed)
    text = DatabaseOracle(lambda _: True, table=TABLE, column=COLUMN, key=ID, ids=range(1, space.D + 1))

    def asked() -> Iterator[dict[str, Any]]:
        for q in chain.from_iterable(draw_blocks(stream, queries, for_queries)):
            threshold = attack.threshold(q)
            if threshold is not None:
                bit = oracle.above(q, threshold)
                attack.learn(q, threshold, bit)
                yield {"sql": text.statement(q, threshold), "answer": bool(bit), "noise": _law(noise)}

    return oracle.hidden, asked()


def _law(noise: OracleNoise) -> dict[str, Any]:
    """A law as a transcript has it; `unknown` where it has no word for it."""
    match noise:
        case UniformNoise(half_width):
            return {"kind": "uniform", "scale": half_width}
        case GaussianNoise(std):
            return {"kind": "gaussian", "scale": std}
        case LaplaceNoise(scale):
            return {"kind": "laplace", "scale": scale}
    return {"kind": "unknown"}
