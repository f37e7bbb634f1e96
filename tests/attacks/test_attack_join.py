"""Blocks with facts joined to blocks without, in any order: nothing that was told is lost, and nothing counts twice."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from keyhole.attacks.base import Target
from keyhole.attacks.batch import BatchAttack
from keyhole.attacks.methods.bounded import Bounded
from keyhole.attacks.methods.l1 import L1
from keyhole.attacks.methods.least_squares import LeastSquares
from keyhole.attacks.problem.arrays import from_arrays, row_condition
from keyhole.attacks.problem.assembly import assemble
from keyhole.attacks.problem.decoding_problem import Problem, join_blocks
from keyhole.gather.evidence import Bound, Constraint, Evidence

X = np.array([3, 3, 1, 2, 5])
PAIR = [1, 1, 0, 0, 0]
TARGET = Target("x", 5)


def block(rows: list[list[int]], about: list[int], *bounds: tuple[int | None, int | None], first: int = 1) -> Evidence:
    """Answers to the rows, and facts that bound the records of `about`, numbered from 1."""
    A = np.array([about, *rows])
    evidence = from_arrays(A, (A @ X).tolist(), first=first)
    system = evidence.systems[0]
    facts = tuple(
        Bound("x", row_condition(0), None if lo is None else Fraction(lo), None if hi is None else Fraction(hi), number)
        for number, (lo, hi) in enumerate(bounds, 1)
    )
    return replace(evidence, systems=(replace(system, constraints=system.constraints[1:], bounds=facts),))


def joined(*blocks: Evidence) -> Problem:
    found = assemble(TARGET, blocks[0])
    for other in blocks[1:]:
        found = join_blocks(found, assemble(TARGET, other))
    return found


def per_record(problem: Problem, values: NDArray[np.float64] | None) -> list[float]:
    assert values is not None
    return [float(v) for v in values[problem.of]]


ROWS = block([[0, 1, 1, 0, 0], [0, 0, 0, 1, 1]], [1, 1, 1, 1, 1], first=10)
TOLD = block([[1, 0, 1, 1, 0]], PAIR, (2, None), (None, 4), first=20)
MORE = block([[1, 0, 1, 1, 0]], [0, 1, 1, 0, 0], (0, 3), first=30)
INF = float("inf")


@pytest.mark.parametrize("blocks", list(permutations([ROWS, TOLD, MORE])))
def test_bounds_are_the_narrowest_of_all_blocks(blocks: tuple[Evidence, ...]) -> None:
    problem = joined(*blocks)
    low, high = [2.0, 2.0, 0.0, -INF, -INF], [4.0, 3.0, 3.0, INF, INF]
    assert per_record(problem, problem.lower) == low
    assert per_record(problem, problem.upper) == high
    assert per_record(problem, problem.least) == low
    assert per_record(problem, problem.most) == high
    assert problem.wishes == {"facts"}
    assert sorted(problem.numbers) == ["11", "12", "21", "31"]


@pytest.mark.parametrize("blocks", list(permutations([ROWS, TOLD, MORE])))
def test_every_row_is_still_met_by_the_truth(blocks: tuple[Evidence, ...]) -> None:
    problem = joined(*blocks)
    means = np.bincount(problem.of, weights=X) / problem.sizes
    assert np.allclose(problem.design() @ means, problem.y)
    assert int(problem.sizes.sum()) == 5


EVERYBODY = block([], [1, 1, 1, 1, 1], (1, 5))


@pytest.mark.parametrize("blocks", [(ROWS, EVERYBODY), (EVERYBODY, ROWS)], ids=["after", "before"])
def test_facts_without_an_answer_are_not_forgotten(blocks: tuple[Evidence, ...]) -> None:
    assert assemble(TARGET, EVERYBODY).m == 0
    problem = joined(*blocks)
    assert per_record(problem, problem.lower) == [1.0] * 5
    assert per_record(problem, problem.upper) == [5.0] * 5
    assert problem.wishes == {"facts"}
    with pytest.raises(Exception, match="cannot honour facts"):
        attack(LeastSquares, *blocks)


def attack(kind: type[BatchAttack], *blocks: Evidence) -> list[float]:
    made = kind(TARGET)
    for part in blocks:
        made.observe(part)
    return [round(float(v), 5) for v in made.estimate().values]


NOTHING = replace(from_arrays(np.ones((1, 5)), [14]), systems=())


@pytest.mark.parametrize("blocks", [(TOLD, NOTHING), (NOTHING, TOLD)], ids=["after", "before"])
def test_a_block_about_nothing_changes_nothing(blocks: tuple[Evidence, ...]) -> None:
    problem, alone = joined(*blocks), assemble(TARGET, TOLD)
    assert problem.numbers == alone.numbers
    assert per_record(problem, problem.lower) == per_record(alone, alone.lower)


THREE = (3, 3)  # a fact that gives the value of both
COARSE = block([[0, 0, 1, 1, 0]], PAIR, THREE, first=40)
FINE = block([[1, 0, 1, 0, 0]], PAIR, THREE, first=50)
SILENT = block([[0, 1, 0, 0, 1]], [1, 1, 1, 1, 1], first=60)


@pytest.mark.parametrize("kind", [LeastSquares, Bounded, L1])
@pytest.mark.parametrize("blocks", list(permutations([COARSE, FINE, SILENT])))
def test_a_fact_about_a_group_holds_for_each_whatever_tells_them_apart_later(
    kind: type[BatchAttack], blocks: tuple[Evidence, ...]
) -> None:
    assert attack(kind, *blocks) == [3, 3, 1, 2, 5]


@pytest.mark.parametrize("blocks", list(permutations([COARSE, FINE, SILENT])))
def test_a_fact_told_twice_counts_once(blocks: tuple[Evidence, ...]) -> None:
    problem = joined(*blocks)
    told = [row for row, name in zip(problem.totals().tolist(), problem.numbers, strict=True) if name == "fact 1"]
    assert len(told) == 2
    assert [sum(row) for row in told] == [1, 1]
    assert sorted(n for n in problem.numbers if n != "fact 1") == ["41", "51", "61"]


@pytest.mark.parametrize("turned", [False, True])
def test_each_part_of_a_group_gets_its_own_total(turned: bool) -> None:
    x, trio = np.array([3, 3, 3, 2, 5]), [1, 1, 1, 0, 0]
    made = []
    for asked in ([0, 0, 0, 1, 1], [1, 0, 0, 1, 0]):
        evidence = from_arrays(np.array([trio, asked]), [9, int(np.array(asked) @ x)])
        system, fact = evidence.systems[0], Bound("x", row_condition(0), Fraction(3), Fraction(3), 1)
        made.append(replace(evidence, systems=(replace(system, constraints=system.constraints[1:], bounds=(fact,)),)))
    problem = joined(*(made[::-1] if turned else made))
    assert sorted(y for y, name in zip(problem.y, problem.numbers, strict=True) if name == "fact 1") == [3, 6]


def with_sum(evidence: Evidence) -> Evidence:
    """A fact about a total: the first two records sum to 6."""
    system = evidence.systems[0]
    pair = from_arrays(np.array([PAIR]), [6]).systems[0]
    parts = pair.constraints[0].parts
    row = Constraint("fact 1", parts, Fraction(1), Fraction(0), Fraction(6), Fraction(6), None, True, "", 1)
    return replace(
        evidence,
        systems=(replace(system, atoms=system.atoms.join(pair.atoms), constraints=(*system.constraints, row)),),
    )


@pytest.mark.parametrize("turned", [False, True])
def test_a_fact_about_a_sum_stays_one_about_the_sum(turned: bool) -> None:
    blocks = [with_sum(block([[0, 0, 1, 1, 0]], PAIR)), with_sum(block([[1, 0, 1, 0, 0]], PAIR, first=7))]
    problem = joined(*(blocks[::-1] if turned else blocks))
    told = [row for row, name in zip(problem.totals().tolist(), problem.numbers, strict=True) if name == "fact 1"]
    assert [sum(row) for row in told] == [2]


def test_records_without_a_value_in_either_block_have_none() -> None:
    def null(evidence: Evidence) -> Evidence:
        system = evidence.systems[0]
        return replace(evidence, systems=(replace(system, present={"x": row_condition(0)}),))

    full, missing = block([[0, 1, 1, 0, 0]], PAIR), null(block([], PAIR))
    for blocks in ((full, missing), (missing, full)):
        problem = joined(*blocks)
        assert problem.absent[problem.of].tolist() == [False, False, True, True, True]
