"""Fewest queries: the sizes of the literature, and what the auditor says of the designs."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from keyhole import audit
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
    Superincreasing,
    fewest_for_bits,
)
from keyhole.errors import ContradictionError, ModelError


def audited(design: QueryDesign, secret: Sequence[float], private: str = "x") -> dict[str, float]:
    """Whom the auditor proves exposed by the design, asked as SQL on a table in which each query is a column."""
    A = design.queries
    columns = {"who": [str(i) for i in range(A.shape[1])], "x": list(secret)}
    columns |= {f"q{r}": row.tolist() for r, row in enumerate(A)}
    log = "; ".join(f"SELECT SUM(x * q{r}) FROM t" for r in range(len(A)))
    found = audit(log, data=pa.table(columns), private=private, id="who")
    return {f.who: float(f.value) for f in found.exposed}


def test_fewest_for_bits() -> None:
    assert [len(fewest_for_bits(n)) for n in range(1, 6)] == [1, 2, 3, 3, 4]
    with pytest.raises(ModelError, match="too many"):
        fewest_for_bits(7)


def test_lindstrom_is_as_few_as_the_search_finds() -> None:
    for n in range(1, 6):
        assert len(Lindstrom(n).queries) == len(fewest_for_bits(n))


def test_lindstrom_sizes() -> None:
    for k, (m, n) in enumerate([(1, 1), (3, 4), (7, 12), (15, 32), (31, 80)], 1):
        assert Lindstrom(n).queries.shape == (m, n) == (2**k - 1, k * 2 ** (k - 1))
        assert len(Lindstrom(n + 1).queries) == m + 1


def test_lindstrom_tells_all_4096_secrets_apart() -> None:
    secrets = (np.arange(4096)[:, None] >> np.arange(12)) & 1
    assert len(np.unique(secrets @ Lindstrom(12).queries.T, axis=0)) == 4096


@pytest.mark.parametrize("n", range(1, 14))
def test_lindstrom_decodes_any_n(n: int) -> None:
    design = Lindstrom(n)
    rng = np.random.default_rng(n)
    secrets = list(product((0, 1), repeat=n)) if n <= 5 else rng.integers(0, 2, (40, n)).tolist()
    for bits in secrets:
        assert [int(v) for v in design.decode((design.queries @ bits).tolist()).values()] == list(bits)


def test_lindstrom_refuses_what_no_bits_give() -> None:
    design = Lindstrom(5)
    right = (design.queries @ [1, 0, 1, 1, 0]).tolist()
    possible = {tuple((design.queries @ x).tolist()) for x in product((0, 1), repeat=5)}
    for r, off in product(range(len(right)), (-1, 1, 2)):
        wrong = [a + off * (i == r) for i, a in enumerate(right)]
        if tuple(wrong) not in possible:
            with pytest.raises(ContradictionError):
                design.decode(wrong)


def test_dobkin_jones_lipton_sizes_and_overlap() -> None:
    for k, (m, n) in {2: (3, 3), 3: (5, 7), 4: (7, 13), 6: (11, 31)}.items():
        A = DobkinJonesLipton(k).queries
        assert A.shape == (m, n)
        assert set(A.sum(axis=1)) == {k}
        common = A @ A.T
        np.fill_diagonal(common, 0)
        assert common.max() == 1


def test_general_tracker_gives_any_group() -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(0, 100, 12)
    tracker = np.arange(12) % 2 == 0
    for one in range(12):
        design = GeneralTracker(np.arange(12) == one, tracker)
        assert design.queries.sum(axis=1).min() >= 6
        assert design.decode((design.queries @ x).tolist()) == {one: x[one]}


@pytest.mark.parametrize(
    "design",
    [
        Differencing(6, 2, (0, 1, 5)),
        DobkinJonesLipton(2),
        DobkinJonesLipton(3),
        IndividualTracker((np.arange(6) < 3, np.arange(6) % 2 == 0, np.arange(6) > 0), padded=2),
        GeneralTracker(np.arange(6) == 1, np.arange(6) < 3),
        Hadamard(5),
    ],
    ids=lambda d: type(d).__name__,
)
def test_the_auditor_exposes_whom_the_design_does(design: QueryDesign) -> None:
    secret = [round(1.3 * i + 0.7, 1) for i in range(design.queries.shape[1])]
    found = audited(design, secret)
    assert design.exposes
    assert {str(i): secret[i] for i in design.exposes}.items() <= found.items()


def test_the_auditor_exposes_bits_and_grids() -> None:
    bits = [1, 0, 1, 1, 0, 0, 1]
    assert audited(Lindstrom(7), bits, "x:0..1:1") == {str(i): b for i, b in enumerate(bits)}
    grid = [3.0, 3.5, 4.0, 3.5]
    design = Superincreasing(4, Fraction(3), Fraction(4), Fraction(1, 2))
    assert audited(design, grid, "x:3..4:0.5") == {str(i): v for i, v in enumerate(grid)}


def test_one_sum_gives_eighty_bits() -> None:
    bits = np.random.default_rng(2).integers(0, 2, 80).tolist()
    design = Superincreasing(80)
    found = design.decode([sum(2**i * b for i, b in enumerate(bits))])
    assert [int(v) for v in found.values()] == bits


def test_compressed_sensing_counts() -> None:
    right = 0
    for seed in range(10):
        design = CompressedSensing(64, 4, seed)
        rng = np.random.default_rng(seed + 100)
        x = np.zeros(64)
        x[rng.permutation(64)[:4]] = rng.normal(size=4) * 10
        found = design.decode((design.queries @ x).tolist())
        right += max(abs(found[i] - x[i]) for i in range(64)) < 1e-6
    assert (len(design.queries), right) == (27, 10)


def test_hadamard_survives_noise_of_the_order_of_the_root() -> None:
    design, rng = Hadamard(255), np.random.default_rng(9)
    bits = rng.integers(0, 2, 255)
    noise = rng.normal(0, 1.6, design.size)  # a tenth of sqrt N: 2 s / sqrt N = 0.2 on each value
    found = design.decode((design.queries @ bits + noise).tolist())
    assert np.mean([found[i] == bits[i] for i in range(255)]) > 0.98
    values = design.values((design.queries @ bits + noise).tolist())
    assert 0.15 < np.std(values - bits) < 0.25


def test_random_subsets_survive_wild_answers() -> None:
    design, rng = RandomSubsets(24, 160), np.random.default_rng(3)
    bits = rng.integers(0, 2, 24)
    told = (design.queries @ bits).astype(float)
    told[rng.permutation(160)[:12]] = 1000.0
    assert [int(v) for v in design.decode(told.tolist()).values()] == bits.tolist()


def test_bad_designs_are_refused() -> None:
    for make in (
        lambda: Lindstrom(0),
        lambda: DobkinJonesLipton(1),
        lambda: Differencing(3, 1, (1, 2)),
        lambda: Differencing(3, 1, (5,)),
        lambda: Superincreasing(3, Fraction(0), Fraction(1), Fraction(2, 3)),
        lambda: CompressedSensing(5, 5),
        lambda: IndividualTracker((np.ones(3, bool),), padded=2),
    ):
        with pytest.raises(ModelError):
            make()
