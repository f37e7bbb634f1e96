"""What can be guessed: private values rebuilt from answers, exact or noisy, batch and streaming.

The attacks themselves are in `attacks.methods`, designs of questions in `attacks.design`.
"""

from keyhole.attacks.base import ActiveAttack, Attack, Measure, Reconstruction, Target, resume, save
from keyhole.attacks.choose import Choice, choose, run
from keyhole.attacks.experiment import Exact, Noisy, Responder, Score, play, score
from keyhole.attacks.problem.arrays import blocks, from_arrays
from keyhole.attacks.replay import Tape, replay
from keyhole.attacks.row_membership import RowMembership, guess_row_membership
from keyhole.attacks.streaming import Streaming
from keyhole.model.transcript import Noise

__all__ = [
    "ActiveAttack",
    "Attack",
    "Choice",
    "Exact",
    "Measure",
    "Noise",
    "Noisy",
    "Reconstruction",
    "Responder",
    "RowMembership",
    "Score",
    "Streaming",
    "Tape",
    "Target",
    "blocks",
    "choose",
    "from_arrays",
    "guess_row_membership",
    "play",
    "replay",
    "resume",
    "run",
    "save",
    "score",
]
