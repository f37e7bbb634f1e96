"""Fewest queries: which sums an attacker should ask, one design a file, each with its decoder."""

from keyhole.attacks.design.base import QueryDesign, Secrets
from keyhole.attacks.design.compressed_sensing import CompressedSensing
from keyhole.attacks.design.differencing import Differencing
from keyhole.attacks.design.dobkin_jones_lipton import DobkinJonesLipton
from keyhole.attacks.design.fewest_for_bits import fewest_for_bits
from keyhole.attacks.design.hadamard import Hadamard
from keyhole.attacks.design.lindstrom import Lindstrom
from keyhole.attacks.design.random_subsets import RandomSubsets
from keyhole.attacks.design.superincreasing import Superincreasing
from keyhole.attacks.design.tracker import GeneralTracker, IndividualTracker, find_general_tracker

__all__ = [
    "CompressedSensing",
    "Differencing",
    "DobkinJonesLipton",
    "GeneralTracker",
    "Hadamard",
    "IndividualTracker",
    "Lindstrom",
    "QueryDesign",
    "RandomSubsets",
    "Secrets",
    "Superincreasing",
    "fewest_for_bits",
    "find_general_tracker",
]
