"""What can be guessed: private values rebuilt from answers, exact or noisy, batch and streaming.

The attacks themselves are in `attacks.methods`, designs of questions in `attacks.design`.
"""

from keyhole.attacks.base import ActiveAttack, Attack, Measure, Reconstruction, Target, resume_attack, save_attack
from keyhole.attacks.choose import Choice, choose_method, run_attack
from keyhole.attacks.experiment import (
    ExactResponder,
    NoisyResponder,
    Responder,
    Score,
    play_attack,
    score_reconstruction,
)
from keyhole.attacks.problem.arrays import from_arrays, split_into_blocks
from keyhole.attacks.replay import Tape, replay_tape
from keyhole.attacks.row_membership import RowMembership, guess_row_membership
from keyhole.attacks.streaming import Streaming
from keyhole.model.transcript import Noise

__all__ = [
    "ActiveAttack",
    "Attack",
    "Choice",
    "ExactResponder",
    "Measure",
    "Noise",
    "NoisyResponder",
    "Reconstruction",
    "Responder",
    "RowMembership",
    "Score",
    "Streaming",
    "Tape",
    "Target",
    "choose_method",
    "from_arrays",
    "guess_row_membership",
    "play_attack",
    "replay_tape",
    "resume_attack",
    "run_attack",
    "save_attack",
    "score_reconstruction",
    "split_into_blocks",
]
