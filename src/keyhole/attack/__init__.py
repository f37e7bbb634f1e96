"""What can be guessed: private values rebuilt from answers, exact or noisy, batch and streaming."""

from keyhole.attack.arrays import blocks, from_arrays
from keyhole.attack.base import ActiveAttack, Attack, Measure, Reconstruction, Target
from keyhole.attack.bounded import Bounded
from keyhole.attack.choose import METHODS, Choice, choose, run
from keyhole.attack.conjugate_gradient import ConjugateGradient
from keyhole.attack.convex import Convex
from keyhole.attack.extended_kaczmarz import ExtendedKaczmarz
from keyhole.attack.integer import Integer
from keyhole.attack.jacobi import Jacobi
from keyhole.attack.kaczmarz import Kaczmarz
from keyhole.attack.l1 import L1
from keyhole.attack.lbfgs import LBFGS
from keyhole.attack.least_squares import LeastSquares
from keyhole.attack.play import Exact, Noisy, Responder, play
from keyhole.attack.saved import resume, save
from keyhole.attack.score import Score, score
from keyhole.attack.sgd import SigmoidSGD
from keyhole.attack.sparse import BasisPursuit
from keyhole.attack.streaming import Streaming, Tape, replay
from keyhole.transcript import Noise

__all__ = [
    "L1",
    "LBFGS",
    "METHODS",
    "ActiveAttack",
    "Attack",
    "BasisPursuit",
    "Bounded",
    "Choice",
    "ConjugateGradient",
    "Convex",
    "Exact",
    "ExtendedKaczmarz",
    "Integer",
    "Jacobi",
    "Kaczmarz",
    "LeastSquares",
    "Measure",
    "Noise",
    "Noisy",
    "Reconstruction",
    "Responder",
    "Score",
    "SigmoidSGD",
    "Streaming",
    "Tape",
    "Target",
    "blocks",
    "choose",
    "from_arrays",
    "play",
    "replay",
    "resume",
    "run",
    "save",
    "score",
]
