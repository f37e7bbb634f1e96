"""The attacks, all registered here: a name as users write it gives the class."""

from typing import Final

from keyhole.attacks.batch import BatchAttack
from keyhole.attacks.methods.bounded import Bounded
from keyhole.attacks.methods.convex import Convex
from keyhole.attacks.methods.extended_kaczmarz import ExtendedKaczmarz
from keyhole.attacks.methods.integer import Integer
from keyhole.attacks.methods.jacobi import Jacobi
from keyhole.attacks.methods.kaczmarz import Kaczmarz, RandomizedKaczmarz
from keyhole.attacks.methods.l1 import L1
from keyhole.attacks.methods.lbfgs import LBFGS
from keyhole.attacks.methods.least_squares import ConjugateGradient, LeastSquares
from keyhole.attacks.methods.sgd import SigmoidSGD
from keyhole.attacks.methods.sparse import BasisPursuit
from keyhole.attacks.streaming import Streaming

BATCH: Final[dict[str, type[BatchAttack]]] = {
    cls.name: cls
    for cls in (
        LeastSquares, Bounded, L1, Integer, BasisPursuit, Convex, ConjugateGradient, LBFGS, Jacobi, ExtendedKaczmarz,
    )
}  # fmt: skip
STREAMING: Final[dict[str, type[Streaming]]] = {cls.name: cls for cls in (Kaczmarz, RandomizedKaczmarz, SigmoidSGD)}
METHODS: Final[tuple[str, ...]] = (*BATCH, *STREAMING)

__all__ = [
    "BATCH",
    "L1",
    "LBFGS",
    "METHODS",
    "STREAMING",
    "BasisPursuit",
    "Bounded",
    "ConjugateGradient",
    "Convex",
    "ExtendedKaczmarz",
    "Integer",
    "Jacobi",
    "Kaczmarz",
    "LeastSquares",
    "RandomizedKaczmarz",
    "SigmoidSGD",
]
