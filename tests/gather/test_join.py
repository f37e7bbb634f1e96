"""Evidence joined from two logs is the evidence of one."""

from __future__ import annotations

import random

import pytest
from tests.laws.worlds import WORLDS, evidence_of

from keyhole.auditing import Judge
from keyhole.errors import CannotHonour
from keyhole.model.transcript import Line

LOGS = [w for w in WORLDS if len(w.log) >= 2 and w.name != "private_conditions"]


@pytest.mark.parametrize("world", LOGS, ids=[w.name for w in LOGS])
@pytest.mark.parametrize("seed", range(3))
def test_joined_equals_gathered_as_one(world: object, seed: int) -> None:
    from tests.laws.worlds import World

    assert isinstance(world, World)
    source = world.source()
    lines = world.lines()
    cut = random.Random(seed).randrange(len(lines) + 1)
    second = [Line(i, line.sql, line.answer, at=i) for i, line in enumerate(lines[cut:], 1)]
    joined = evidence_of(world, source, lines[:cut]).join(evidence_of(world, source, second))
    whole = evidence_of(world, source, lines)
    ours, theirs = (Judge().examine(e, source.roster) for e in (joined, whole))
    assert [(f.row, f.column, f.value) for f in ours] == [(f.row, f.column, f.value) for f in theirs]
    assert all(f.proof is not None and (f.proof.rule or f.proof.verify(joined)) for f in ours)
    assert ours.rank == theirs.rank
    assert [c.queries for c in ours.contradictions] == [c.queries for c in theirs.contradictions]
    assert {u.number for u in ours.unjudged} == {u.number for u in theirs.unjudged}


def test_different_private_conditions_are_gathered_as_one() -> None:
    world = next(w for w in WORLDS if w.name == "private_conditions")
    source = world.source()
    first, second = (evidence_of(world, source, [line]) for line in world.lines()[:2])
    with pytest.raises(CannotHonour, match="gather them as one"):
        first.join(second)
