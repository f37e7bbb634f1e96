"""The questions of one simulated game as a transcript: what the auditor proves from them stands beside the attack."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from keyhole.errors import ConfigError
from keyhole.oracles.certify.tails import Floats
from keyhole.oracles.database import DatabaseOracle
from keyhole.oracles.learners.oracle_off import OracleOff
from keyhole.oracles.noise import GaussianNoise, LaplaceNoise, OracleNoise, UniformNoise
from keyhole.oracles.simulate import OracleMethod, build, dealt
from keyhole.oracles.streams import Stream, blocks

TABLE, ID, COLUMN = "hidden", "id", "w"
MOST = 100_000  # questions that are written down


def questions(
    method: OracleMethod, stream: Stream, noise: OracleNoise, queries: int, *, delta: float, seed: int
) -> tuple[Floats, Iterator[dict[str, Any]]]:
    """The hidden vector of `play` with these arguments, and a line {"sql", "answer", "noise"} for each of its bits.

    Played step by step, which gives the same numbers as `play` up to rounding. The records have ids 1, 2, ..., D.

    >>> from keyhole.oracles.streams import Concentrated
    >>> from keyhole.oracles.subspace import Subspace
    >>> stream, law = Concentrated(Subspace.blocks(2, 2), phi=0), UniformNoise(0.5)
    >>> hidden, lines = questions(OracleMethod.SEQUENTIAL, stream, law, 1, delta=0.01, seed=0)
    >>> next(lines)["noise"]
    {'kind': 'uniform', 'scale': 0.5}
    """
    space = stream.subspace
    attack = build(method, space, noise, queries, delta)
    if isinstance(attack, OracleOff):
        raise ConfigError(f"{method} asks no yes/no questions: take another --method for --log")
    if queries > MOST:
        raise ConfigError(f"{queries:,} questions are more than --log writes ({MOST:,}): take fewer --queries")
    oracle, for_queries = dealt(stream, noise, seed)
    text = DatabaseOracle(lambda _: True, table=TABLE, column=COLUMN, key=ID, ids=range(1, space.D + 1))

    def asked() -> Iterator[dict[str, Any]]:
        for q in chain.from_iterable(blocks(stream, queries, for_queries)):
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


__all__ = ["questions"]
