"""What one condition says of another is so for every value that a column may have, wherever its grid lies."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from keyhole.gather.counting import ties
from keyhole.model.people import Atom
from keyhole.model.predicate import Comparison, evaluate_leaf
from keyhole.model.prior import Knowledge, Prior
from keyhole.model.schema import Column, Kind, Role, Schema


@pytest.mark.parametrize(
    ("kind", "prior", "values"),
    [
        (Kind.INTEGER, Prior(lo=Decimal(1), hi=Decimal(3), step=Decimal(2)), (1, 3)),
        (Kind.INTEGER, Prior(lo=Decimal(0), hi=Decimal(20), step=Decimal(5)), (0, 5, 10, 15, 20)),
        (Kind.DECIMAL, Prior(lo=Decimal("2.5"), hi=Decimal("4.5")), (Decimal("2.5"), 3, Decimal("4.5"))),
    ],
)
def test_no_tie_is_false_of_a_possible_value(kind: Kind, prior: Prior, values: tuple[int | Decimal, ...]) -> None:
    leaves = [Comparison("cost", op, 3) for op in (">", "=", "<")]
    atoms = [Atom(leaf, np.zeros(1, dtype=np.int64), 1) for leaf in leaves]
    schema = Schema("t", (Column("cost", kind, Role.PRIVATE),))
    found = ties(atoms, schema, Knowledge(priors={"cost": prior}))
    for tie in found:
        (one, holds), (other, then) = tie.left, tie.right
        for value in values:
            if evaluate_leaf(leaves[one], value) is holds:
                assert evaluate_leaf(leaves[other], value) is then, (leaves[one], holds, leaves[other], then, value)
    assert any(tie.left == (0, True) for tie in found)
