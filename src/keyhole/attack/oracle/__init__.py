"""Attacks on a database that only says "above" or "below" a threshold, under noise."""

from keyhole.attack.oracle.base import ModelWarning, Run, StreamAttack, ThresholdAttack, ThresholdOracle, YesNoOracle
from keyhole.attack.oracle.basis import PrincipalBasis, principal_basis
from keyhole.attack.oracle.batch import HeldOutErrors, train_then_test
from keyhole.attack.oracle.bisection import OnlineBisection, PublishedConstants
from keyhole.attack.oracle.calibration import Probe, calibrate
from keyhole.attack.oracle.classifier import StolenClassifier, steal_classifier
from keyhole.attack.oracle.database import DatabaseOracle, NoisyDatabaseOracle, asking
from keyhole.attack.oracle.edge import EdgeBisection
from keyhole.attack.oracle.ellipsoid import EllipsoidBisection
from keyhole.attack.oracle.levels import LevelNewton
from keyhole.attack.oracle.monotone import MonotoneOracle, NoisyOutputOracle, SteepNoise
from keyhole.attack.oracle.newton import OneBitNewton
from keyhole.attack.oracle.noise import (
    CustomNoise,
    GaussianNoise,
    LaplaceNoise,
    OracleNoise,
    TriangularNoise,
    UniformNoise,
)
from keyhole.attack.oracle.oracle_off import OracleOff
from keyhole.attack.oracle.sequential import SequentialBisection
from keyhole.attack.oracle.streams import Around, Concentrated, Scaled, Spread, Stream
from keyhole.attack.oracle.subspace import Subspace

__all__ = [
    "Around",
    "Concentrated",
    "CustomNoise",
    "DatabaseOracle",
    "EdgeBisection",
    "EllipsoidBisection",
    "GaussianNoise",
    "HeldOutErrors",
    "LaplaceNoise",
    "LevelNewton",
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
    "StolenClassifier",
    "Stream",
    "StreamAttack",
    "Subspace",
    "ThresholdAttack",
    "ThresholdOracle",
    "TriangularNoise",
    "UniformNoise",
    "YesNoOracle",
    "asking",
    "calibrate",
    "principal_basis",
    "steal_classifier",
    "train_then_test",
]
