"""The joint screen against expressing every target."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.effort import effort

from keyhole.solve.rowspace import RowMatrix, RowSpace
from keyhole.solve.rowspace.space import plausible


@settings(max_examples=effort(150), deadline=None)
@given(st.data())
def test_screen_equals_express(data: st.DataObject) -> None:
    m, K = data.draw(st.integers(0, 5)), data.draw(st.integers(1, 8))
    entries = st.lists(st.integers(-2, 2), min_size=K, max_size=K)
    rows = np.array(data.draw(st.lists(entries, min_size=m, max_size=m)), dtype=np.int64).reshape(m, K)
    label = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=K, max_size=K)), dtype=np.int64)
    space = RowSpace(RowMatrix.from_dense(rows))
    found = plausible(space, label, 4)
    for t in range(4):
        target = {int(k): 1 for k in np.flatnonzero(label == t)}
        if target:
            assert found[t] == (space.express(target) is not None)
