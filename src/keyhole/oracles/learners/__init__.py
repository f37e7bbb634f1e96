"""Learners from yes and no, one algorithm a file; those that are chosen by a word are registered here."""

from collections.abc import Callable
from typing import Final

from keyhole.oracles.base import StreamAttack
from keyhole.oracles.learners.bisection import OnlineBisection
from keyhole.oracles.learners.newton import OneBitNewton
from keyhole.oracles.learners.sequential import EdgeBisection, SequentialBisection
from keyhole.oracles.noise import OracleNoise
from keyhole.oracles.subspace import Subspace

# a subspace, a law of noise, the length of the stream, the chance that the box may ever lose w
LEARNERS: Final[dict[str, Callable[[Subspace, OracleNoise, int, float], StreamAttack]]] = {
    "newton": lambda space, law, _queries, delta: OneBitNewton(space, law, delta=delta),
    "sequential": lambda space, law, _queries, delta: SequentialBisection(space, law, delta=delta),
    "edge": lambda space, law, _queries, delta: EdgeBisection(space, law, delta=delta),
    "online-bisection": lambda space, law, queries, _delta: OnlineBisection(space, law, horizon=queries),
}
