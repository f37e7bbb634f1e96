"""Attacks on a database that only says "above" or "below" a threshold, under noise."""

from keyhole.oracle.base import ModelWarning, Run, StreamAttack, ThresholdAttack, ThresholdOracle, YesNoOracle
from keyhole.oracle.basis import PrincipalBasis, principal_basis
from keyhole.oracle.batch import HeldOutErrors, train_then_test
from keyhole.oracle.bisection import OnlineBisection, PublishedConstants
from keyhole.oracle.calibration import Probe, calibrate
from keyhole.oracle.classes import StolenClasses, steal_classes
from keyhole.oracle.classifier import StolenClassifier, steal_classifier
from keyhole.oracle.database import DatabaseOracle, NoisyDatabaseOracle, asking
from keyhole.oracle.edge import EdgeBisection
from keyhole.oracle.ellipsoid import EllipsoidBisection
from keyhole.oracle.levels import LevelNewton
from keyhole.oracle.likelihood_region import LikelihoodRegion
from keyhole.oracle.monotone import MonotoneOracle, NoisyOutputOracle, SteepNoise
from keyhole.oracle.newton import OneBitNewton
from keyhole.oracle.noise import (
    CustomNoise,
    GaussianNoise,
    LaplaceNoise,
    OracleNoise,
    TriangularNoise,
    UniformNoise,
)
from keyhole.oracle.oracle_off import OracleOff
from keyhole.oracle.sequential import SequentialBisection
from keyhole.oracle.streams import Around, Concentrated, Scaled, Spread, Stream
from keyhole.oracle.subspace import Subspace
from keyhole.oracle.uniform_between import UniformBetween
from keyhole.oracle.unknown_edge import EdgeFree, edge_free

__all__ = [
    "Around",
    "Concentrated",
    "CustomNoise",
    "DatabaseOracle",
    "EdgeBisection",
    "EdgeFree",
    "EllipsoidBisection",
    "GaussianNoise",
    "HeldOutErrors",
    "LaplaceNoise",
    "LevelNewton",
    "LikelihoodRegion",
    "ModelWarning",
    "MonotoneOracle",
    "NoisyDatabaseOracle",
    "NoisyOutputOracle",
    "OneBitNewton",
    "OnlineBisection",
    "OracleNoise",
    "OracleOff",
    "PrincipalBasis",
    "Probe",
    "PublishedConstants",
    "Run",
    "Scaled",
    "SequentialBisection",
    "Spread",
    "SteepNoise",
    "StolenClasses",
    "StolenClassifier",
    "Stream",
    "StreamAttack",
    "Subspace",
    "ThresholdAttack",
    "ThresholdOracle",
    "TriangularNoise",
    "UniformBetween",
    "UniformNoise",
    "YesNoOracle",
    "asking",
    "calibrate",
    "edge_free",
    "principal_basis",
    "steal_classes",
    "steal_classifier",
    "train_then_test",
]
