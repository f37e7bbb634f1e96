"""What can be guessed: private values rebuilt from answers, exact or noisy, batch and streaming."""

from keyhole.attack.arrays import blocks, from_arrays
from keyhole.attack.base import ActiveAttack, Attack, Measure, Reconstruction, Target
from keyhole.attack.choose import METHODS, Choice, choose, run
from keyhole.attack.methods.bounded import Bounded
from keyhole.attack.methods.conjugate_gradient import ConjugateGradient
from keyhole.attack.methods.convex import Convex
from keyhole.attack.methods.extended_kaczmarz import ExtendedKaczmarz
from keyhole.attack.methods.integer import Integer
from keyhole.attack.methods.jacobi import Jacobi
from keyhole.attack.methods.kaczmarz import Kaczmarz
from keyhole.attack.methods.l1 import L1
from keyhole.attack.methods.lbfgs import LBFGS
from keyhole.attack.methods.least_squares import LeastSquares
from keyhole.attack.methods.sgd import SigmoidSGD
from keyhole.attack.methods.sparse import BasisPursuit
from keyhole.attack.play import Exact, Noisy, Responder, play
from keyhole.attack.saved import resume, save
from keyhole.attack.score import Score, score
from keyhole.attack.streaming import Streaming, Tape, replay
from keyhole.model.transcript import Noise

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
