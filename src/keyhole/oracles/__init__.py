"""Attacks on a database that only says "above" or "below" a threshold, under noise."""

from keyhole.oracles.base import (
    CertifyingLearner,
    HeldOutErrors,
    Learner,
    ModelWarning,
    MonotoneOracle,
    NoisyOutputOracle,
    Run,
    ThresholdOracle,
    UnaskedWarning,
    YesNoOracle,
    play_by_steps,
    train_then_test,
)
from keyhole.oracles.certify.assumptions import Probe, calibrate
from keyhole.oracles.certify.likelihood_region import LikelihoodRegion
from keyhole.oracles.certify.unknown_edge import EdgeFreeCertificate, certify_without_edge
from keyhole.oracles.database import DatabaseOracle, NoisyDatabaseOracle, asking
from keyhole.oracles.learners.bisection import OnlineBisection, PublishedConstants
from keyhole.oracles.learners.classes import StolenClasses, steal_classes
from keyhole.oracles.learners.classifier import StolenClassifier, steal_classifier
from keyhole.oracles.learners.ellipsoid import EllipsoidBisection
from keyhole.oracles.learners.level_newton import LevelNewton
from keyhole.oracles.learners.newton import OneBitNewton
from keyhole.oracles.learners.oracle_off import OracleOff
from keyhole.oracles.learners.sequential import EdgeBisection, SequentialBisection
from keyhole.oracles.learners.stream_attack import StreamAttack
from keyhole.oracles.noise import (
    CustomNoise,
    GaussianNoise,
    LaplaceNoise,
    OracleNoise,
    SteepNoise,
    TriangularNoise,
    UniformBetween,
    UniformNoise,
)
from keyhole.oracles.streams import Around, Concentrated, Scaled, Spread, Stream
from keyhole.oracles.subspace import PrincipalBasis, Subspace, principal_basis

__all__ = [
    "Around",
    "CertifyingLearner",
    "Concentrated",
    "CustomNoise",
    "DatabaseOracle",
    "EdgeBisection",
    "EdgeFreeCertificate",
    "EllipsoidBisection",
    "GaussianNoise",
    "HeldOutErrors",
    "LaplaceNoise",
    "Learner",
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
    "ThresholdOracle",
    "TriangularNoise",
    "UnaskedWarning",
    "UniformBetween",
    "UniformNoise",
    "YesNoOracle",
    "asking",
    "calibrate",
    "certify_without_edge",
    "play_by_steps",
    "principal_basis",
    "steal_classes",
    "steal_classifier",
    "train_then_test",
]
