"""Fewest queries: which sums an attacker should ask, one design a file, each with its decoder."""

from keyhole.attack.design.base import QueryDesign, Secrets
from keyhole.attack.design.compressed_sensing import CompressedSensing
from keyhole.attack.design.differencing import Differencing
from keyhole.attack.design.dobkin_jones_lipton import DobkinJonesLipton
from keyhole.attack.design.fewest_for_bits import fewest_for_bits
from keyhole.attack.design.hadamard import Hadamard
from keyhole.attack.design.lindstrom import Lindstrom
from keyhole.attack.design.random_subsets import RandomSubsets
from keyhole.attack.design.superincreasing import Superincreasing
from keyhole.attack.design.tracker import GeneralTracker, IndividualTracker, find_general_tracker

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
