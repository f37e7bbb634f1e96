"""Laws of every query design: its answers give the secret, and nobody is claimed whom they do not give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import ClassVar

import numpy as np
from tests.laws.law import Law, Specimen

from keyhole.attacks.design import (
    CompressedSensing,
    Differencing,
    DobkinJonesLipton,
    GeneralTracker,
    Hadamard,
    IndividualTracker,
    Lindstrom,
    QueryDesign,
    RandomSubsets,
    Secrets,
    Superincreasing,
)
from keyhole.attacks.design.base import Number, Queries
from keyhole.errors import ContradictionError, KeyholeError
from keyhole.solve.rowspace import RowMatrix, RowSpace

DRAWS = 12
Noisy = Callable[[np.random.Generator, int], Sequence[float]]


@dataclass(frozen=True, slots=True)
class DesignTrial:
    """A design to be checked. `noise` draws what is added to its answers; None: it decodes exactly."""

    design: QueryDesign
    noise: Noisy | None = None
    near: float = 0.0

    def secret(self, rng: np.random.Generator) -> list[Fraction]:
        """Values of the kind that the design needs."""
        n = self.design.queries.shape[1]
        match self.design.needs:
            case Secrets.REALS:
                return [Fraction(v, 10) for v in rng.integers(-500, 500, (n,)).tolist()]
            case Secrets.SPARSE:
                assert isinstance(self.design, CompressedSensing)
                chosen = rng.permutation(n)[: self.design.sparsity]
                return [Fraction(int(rng.integers(1, 50)), 4) if i in chosen else Fraction(0) for i in range(n)]
            case Secrets.GRID:
                assert isinstance(self.design, Superincreasing)
                at = rng.integers(0, self.design.base, (n,)).tolist()
                return [self.design.lo + j * self.design.step for j in at]
            case _:
                return [Fraction(v) for v in rng.integers(0, 2, (n,)).tolist()]

    def answers(self, secret: Sequence[Fraction]) -> list[Fraction]:
        """The sums, exactly."""
        rows = self.design.queries.tolist()
        return [sum((int(c) * v for c, v in zip(row, secret, strict=True)), Fraction(0)) for row in rows]


def the_answers_decode_to_the_secret(trial: DesignTrial) -> None:
    """For random secrets of its kind, with noise where it is made for noise, everybody exposed is right."""
    rng = np.random.default_rng(7)
    for _ in range(DRAWS):
        secret = trial.secret(rng)
        told: list[Number] = list(trial.answers(secret))
        if trial.noise is not None:
            told = [float(a) + e for a, e in zip(told, trial.noise(rng, len(told)), strict=True)]
        found = trial.design.decode(told)
        assert set(found) == set(trial.design.exposes), "it decodes other people than it says"
        for i, value in found.items():
            assert abs(Fraction(value) - secret[i]) <= trial.near, f"record {i} is {secret[i]}, decoded as {value}"


def a_wrong_number_of_answers_is_refused(trial: DesignTrial) -> None:
    """One answer less, or more, is an error and no guess."""
    told = trial.answers(trial.secret(np.random.default_rng(1)))
    for wrong in (told[:-1], [*told, Fraction(1)]):
        try:
            trial.design.decode(wrong)
        except KeyholeError:
            continue
        raise AssertionError(f"{len(wrong)} answers to {len(told)} queries were decoded")


def everybody_it_exposes_is_determined(trial: DesignTrial) -> None:
    """Any numbers: those whose unit vector is in the row space. Bits and grids: everybody, if all secrets differ."""
    A = trial.design.queries
    if trial.design.needs is Secrets.REALS:
        found = set(RowSpace(RowMatrix.from_dense(A)).determined().tolist())
        assert set(trial.design.exposes) <= found, f"the sums determine {found}, it says {trial.design.exposes}"
    elif trial.design.needs in (Secrets.BITS, Secrets.GRID) and A.shape[1] <= 8:
        sums = {tuple(int(v) for v in np.array(x, dtype=object) @ A.T) for x in product((0, 1), repeat=A.shape[1])}
        assert len(sums) == 1 << A.shape[1], "two secrets give the same answers"
        assert set(trial.design.exposes) == set(range(A.shape[1]))


def answers_that_no_secret_gives_are_refused(trial: DesignTrial) -> None:
    """An exact decoder for bits or a grid notices an answer that cannot be."""
    if trial.noise is not None or trial.design.needs not in (Secrets.BITS, Secrets.GRID):
        return
    rng = np.random.default_rng(3)
    told = trial.answers(trial.secret(rng))
    for r in range(len(told)):
        try:
            trial.design.decode([a + (Fraction(1, 3) if i == r else 0) for i, a in enumerate(told)])
        except ContradictionError:
            continue
        raise AssertionError(f"answer {r + 1} is off by a third, and it was decoded")


def uniform(half: float) -> Noisy:
    """Errors of at most `half`."""
    return lambda rng, m: [float(v) for v in rng.uniform(-half, half, m)]


class AddsAllUp:
    """A liar: it adds all answers up, however many there are, and calls that two people's values."""

    needs: ClassVar[Secrets] = Secrets.REALS

    def __init__(self, real: QueryDesign) -> None:
        self.real = real

    @property
    def queries(self) -> Queries:
        """The real ones."""
        return self.real.queries

    @property
    def exposes(self) -> tuple[int, ...]:
        """The first record and the last, whoever is exposed."""
        return (0, self.real.queries.shape[1] - 1)

    def decode(self, answers: Sequence[Number]) -> Mapping[int, Number]:
        """The sum of the answers, for anybody."""
        return dict.fromkeys(self.exposes, sum((Fraction(a) for a in answers), Fraction(0)))


class AddsBitsUp(AddsAllUp):
    """The same, about bits."""

    needs: ClassVar[Secrets] = Secrets.BITS


OLD = np.array([True, True, True, False, True, False])
CLERK = np.array([True, False, False, True, False, True])
MALE = np.array([True, True, False, True, False, False])
SPECIMENS: tuple[Specimen[DesignTrial], ...] = (
    Specimen("Differencing", DesignTrial(Differencing(6, 2, (0, 1, 5)))),
    Specimen("IndividualTracker", DesignTrial(IndividualTracker((OLD, CLERK, MALE), padded=2))),
    Specimen("GeneralTracker", DesignTrial(GeneralTracker(OLD & CLERK & MALE, ~MALE))),
    Specimen("Lindstrom", DesignTrial(Lindstrom(7))),
    Specimen("DobkinJonesLipton", DesignTrial(DobkinJonesLipton(4))),
    Specimen("CompressedSensing", DesignTrial(CompressedSensing(64, 4), lambda _rng, m: [0.0] * m, 1e-6)),
    Specimen("Hadamard", DesignTrial(Hadamard(24), uniform(0.6))),
    Specimen("RandomSubsets", DesignTrial(RandomSubsets(16, 96), uniform(0.5))),
    Specimen("Superincreasing", DesignTrial(Superincreasing(6, Fraction(3), Fraction(10), Fraction(1, 10)))),
)
LIAR = Specimen("AddsAllUp", DesignTrial(AddsAllUp(Differencing(6, 2, (0, 1, 5)))))
LAWS: tuple[Law[DesignTrial], ...] = (
    Law(the_answers_decode_to_the_secret, (LIAR,)),
    Law(a_wrong_number_of_answers_is_refused, (LIAR,)),
    Law(everybody_it_exposes_is_determined, (LIAR,)),
    Law(answers_that_no_secret_gives_are_refused, (Specimen("AddsBitsUp", DesignTrial(AddsBitsUp(Lindstrom(4)))),)),
)
