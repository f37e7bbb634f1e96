"""Proofs of one shape, told once: the first in full, then for whom the same statements do the same.

A GROUP BY that names everybody gives a proof a person, each from a part of its own (Q1.1, Q1.2, ...): twenty lines that
say one thing.
"""

from __future__ import annotations

from collections.abc import Sequence

from keyhole.report.plain import Case

MANY = 3  # proofs of one shape that are still shown each
NAMED = 8

Shape = tuple[object, ...]


def shape(case: Case) -> Shape | None:
    """The statements and weights of a proof, whichever of their parts it takes; None if it is told otherwise."""
    argument = case.argument
    if argument.rule or argument.ends or argument.known or not argument.steps or case.form:
        return None
    steps = tuple((step.cited.number.partition(".")[0], step.cited.fact, step.weight) for step in argument.steps)
    return case.column, case.status, case.grade, argument.constant, argument.holds, steps


def told_once(cases: Sequence[Case]) -> list[tuple[Case, list[Case]]]:
    """The proofs to be shown in full, each with the others of its shape that are not."""
    alike: dict[Shape, list[Case]] = {}
    for case in cases:
        if (found := shape(case)) is not None:
            alike.setdefault(found, []).append(case)
    many = {each: same for each, same in alike.items() if len(same) > MANY}
    told: list[tuple[Case, list[Case]]] = []
    for case in cases:
        same = many.get(shape(case) or ())
        if same is None or case is same[0]:
            told.append((case, [] if same is None else same[1:]))
    return told


def likewise(others: Sequence[Case]) -> str:
    """`the same for 12 others: Bob (Q1.2), Cyd (Q1.5) and 10 more`; empty if there are none."""
    if not others:
        return ""
    most = NAMED if len(others) > NAMED + 1 else len(others)
    parts = [", ".join(f"Q{q}" for q in case.argument.queries if "." in q) for case in others[:most]]
    names = [f"{case.named} ({queries})" for case, queries in zip(others, parts, strict=False)]
    rest = f" and {len(others) - most} more" if len(others) > most else ""
    return f"the same for {len(others)} others: {', '.join(names)}{rest}"


__all__ = ["likewise", "told_once"]
