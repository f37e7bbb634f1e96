"""What can be guessed: private values rebuilt from answers, exact or noisy, batch and streaming."""

from keyhole.attacks.base import ActiveAttack, Attack, Measure, Reconstruction, Target
from keyhole.attacks.choose import METHODS, Choice, choose, run
from keyhole.attacks.methods.bounded import Bounded
from keyhole.attacks.methods.conjugate_gradient import ConjugateGradient
from keyhole.attacks.methods.convex import Convex
from keyhole.attacks.methods.extended_kaczmarz import ExtendedKaczmarz
from keyhole.attacks.methods.integer import Integer
from keyhole.attacks.methods.jacobi import Jacobi
from keyhole.attacks.methods.kaczmarz import Kaczmarz
from keyhole.attacks.methods.l1 import L1
from keyhole.attacks.methods.lbfgs import LBFGS
from keyhole.attacks.methods.least_squares import LeastSquares
from keyhole.attacks.methods.sgd import SigmoidSGD
from keyhole.attacks.methods.sparse import BasisPursuit
from keyhole.attacks.play import Exact, Noisy, Responder, play
from keyhole.attacks.problem.arrays import blocks, from_arrays
from keyhole.attacks.saved import resume, save
from keyhole.attacks.score import Score, score
from keyhole.attacks.streaming import Streaming, Tape, replay
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
