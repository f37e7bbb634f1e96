"""When a sum is over nobody: the condition that somebody has a value, in its simplest form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

from keyhole.model.predicate import FALSE, TRUE, IsNull, Leaf, Opaque, Predicate, Truth, disjunction, evaluate, leaves

MAX_CASES = 4096


def somewhere(guards: Sequence[Predicate]) -> Predicate:
    """The condition that one of the guards holds: TRUE if one always does, as in CASE ... ELSE.

    >>> from keyhole.model.predicate import Comparison, negation, is_true
    >>> above = Comparison("x", ">", 5)
    >>> somewhere([above, negation(is_true(above))])
    Constant(value=True)
    """
    found = disjunction(*guards)
    asked = tuple(dict.fromkeys(leaves(found)))
    if len(guards) < 2 or not asked:
        return found
    seen = set()
    for truths in _cases(asked):
        seen.add(evaluate(found, truths.__getitem__) is True)
        if len(seen) > 1:
            return found
    return found if not seen else TRUE if True in seen else FALSE


def _cases(asked: Sequence[Leaf]) -> Iterator[Mapping[Leaf, Truth]]:
    """The truths that leaves can have together, and some that they cannot; none at all if there are too many.

    The leaves of one column are NULL together, or none of them is.
    """
    columns: dict[str, list[Leaf]] = {}
    choices: list[list[dict[Leaf, Truth]]] = []
    for leaf in asked:
        if isinstance(leaf, Opaque):
            choices.append([{leaf: truth} for truth in (True, False, None)])
        else:
            columns.setdefault(leaf.column, []).append(leaf)
    for mine in columns.values():
        null: dict[Leaf, Truth] = {leaf: True if isinstance(leaf, IsNull) else None for leaf in mine}
        others = [leaf for leaf in mine if not isinstance(leaf, IsNull)]
        if 2 ** len(others) > MAX_CASES:
            return
        held = [
            {**dict.fromkeys(mine, False), **dict(zip(others, truths, strict=True))}
            for truths in product((True, False), repeat=len(others))
        ]
        choices.append([null, *held])
    if prod(map(len, choices)) > MAX_CASES:
        return
    for picked in product(*choices):
        yield {leaf: truth for part in picked for leaf, truth in part.items()}
