"""Numbers, bits and categories under private conditions: what is stated of them is an average over what they may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from keyhole.attacks import Measure, Reconstruction, Target
from keyhole.attacks.choose import run_attack
from keyhole.attacks.estimates import guess_errors
from keyhole.attacks.estimates.approximate_marginals import cut_range
from keyhole.attacks.problem import assembly
from keyhole.config import Config
from keyhole.datasets import load_roster
from keyhole.gather import gather, transcribe
from keyhole.gather.evidence import Evidence
from keyhole.model.transcript import Line, Noise

RANGE = '[columns]\nid = ["who"]\n[columns.private.x]\nmin = 0\nmax = 100\n'
OPEN = '[columns]\nid = ["who"]\n[columns.private.x]\n'
FINE = RANGE + "step = 1\n"
WORDS = '[columns]\nid = ["who"]\n[columns.private.x]\nvalues = ["A", "B", "C"]\n'


def read(toml: str, n: int, asked: Sequence[tuple[str, float]], noise: float) -> Evidence:
    config = Config.parse(toml)
    lines = [Line(j, f"SELECT {sql}", Decimal(repr(answer)), at=j) for j, (sql, answer) in enumerate(asked, 1)]
    roster = load_roster(pa.table({"who": list(range(n))}), config.columns)
    law = Noise("gaussian", Fraction(str(noise))) if noise else None
    return gather(transcribe(lines, roster, noise=law), roster, config.knowledge())


def log(toml: str, seed: int, n: int, m: int, noise: float, *, sums: bool = False) -> tuple[Evidence, np.ndarray]:
    """Counts of numbers above 30 or 60, half of the statements sums if asked for."""
    rng = np.random.default_rng(seed)
    x, asked = rng.integers(0, 101, n).astype(float), []
    for j in range(m):
        who, limit = np.flatnonzero(rng.random(n) < 0.4), int(rng.choice([30, 60]))
        people = f"who IN ({', '.join(map(str, who)) or -1})"
        if sums and j % 2:
            asked.append((f"SUM(x) FROM r WHERE {people}", float(x[who].sum() + rng.normal(0, noise))))
        else:
            asked.append(
                (f"COUNT(*) FROM r WHERE x > {limit} AND {people}", (x[who] > limit).sum() + rng.normal(0, noise))
            )
    return read(toml, n, [(sql, float(a)) for sql, a in asked], noise), x


def attacked(evidence: Evidence, method: str = "bounded") -> Reconstruction:
    return run_attack(method, Target.of(evidence), evidence)[1]


def of_logs(
    make: Callable[[int], tuple[Evidence, np.ndarray]], logs: int, method: str = "bounded"
) -> tuple[float, float]:
    """Root mean square of stated and of true errors."""
    found = [(attacked(evidence, method), x) for evidence, x in map(make, range(logs))]
    stated, off = (np.concatenate(part) for part in zip(*((f.confidence, f.values - x) for f, x in found), strict=True))
    return float(np.sqrt(np.mean(stated**2))), float(np.sqrt(np.mean(off**2)))


@pytest.mark.parametrize("sums", [False, True])
def test_errors_of_numbers_that_are_counted(sums: bool) -> None:
    stated, true = of_logs(lambda seed: log(RANGE, seed, 25, 25, 2.0, sums=sums), 4)
    assert 0.82 < stated / true < 1.22  # 100 records; it was .65


def test_an_open_range_states_nothing_unproved() -> None:
    evidence, _ = log(OPEN, 1, 20, 120, 1.0)
    assert np.isinf(attacked(evidence).confidence).all()


def test_what_is_proved_stays_certain() -> None:
    asked = [("COUNT(*) FROM r WHERE x = 7 AND who = 0", 1.0), ("COUNT(*) FROM r WHERE x = 7 AND who IN (1, 2)", 1.0)]
    assert attacked(read(OPEN, 3, asked, 0)).confidence.tolist() == [0, np.inf, np.inf]
    asked = [("SUM(x) FROM r WHERE who = 0", 51.0), ("COUNT(*) FROM r WHERE x > 60 AND who IN (1, 2)", 1.0)]
    found = attacked(read(RANGE, 3, asked, 0))
    assert (found.values[0], found.confidence[0]) == (pytest.approx(51), 0)


def test_counts_alone_leave_the_middle_of_a_cell() -> None:
    found = attacked(read(RANGE, 2, [("COUNT(*) FROM r WHERE x > 60 AND who = 0", 1.0)], 0))
    assert found.values.tolist() == pytest.approx([80, 50])
    assert found.confidence.tolist() == pytest.approx([40 / np.sqrt(12), 100 / np.sqrt(12)])


def test_parts_are_the_range() -> None:
    for toml in (RANGE, FINE):
        evidence, _ = log(toml, 1, 5, 4, 1.0, sums=True)
        parts = cut_range(assembly.assemble(Target.of(evidence), evidence))
        assert parts is not None
        assert parts.rates.sum() == pytest.approx(1)
        assert parts.rates @ parts.values == pytest.approx(50)
        spread = parts.rates @ (parts.variances + (parts.values - 50) ** 2)
        assert spread == pytest.approx(Target.of(evidence).deviation ** 2, rel=1e-6)


def test_a_log_too_large_for_the_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sparse rows: a fit has shares at 0 and 1, which are no certainties."""
    for name, value in (("FEW_UNKNOWNS", 5), ("FEW_ENTRIES", 5), ("SPARSE", 1.0)):
        monkeypatch.setattr(assembly, name, value)
    monkeypatch.setattr(guess_errors, "LARGEST_OF_CELLS", 5)
    rng, n = np.random.default_rng(3), 150
    x, asked = rng.choice(list("ABC"), n), []
    for _ in range(220):
        who, word = rng.choice(n, 6, replace=False), str(rng.choice(list("ABC")))
        true = float((x[who] == word).sum() + rng.normal(0, 0.7))
        asked.append((f"COUNT(*) FROM r WHERE x = '{word}' AND who IN ({', '.join(map(str, who))})", true))
    found = attacked(read(WORDS, n, asked, 0.7))
    assert "LSQR" in found.note
    assert found.measure is Measure.PROBABILITY
    right = found.values == x
    assert right.mean() > 0.5
    assert abs(found.confidence.mean() - right.mean()) < 0.1
    sure = found.confidence > 0.9
    assert sure.sum() == 0 or right[sure].mean() > 0.8
