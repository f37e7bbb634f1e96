"""Of whom it is not known whether they are open, because a limit stopped the search."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from keyhole.auditing.base import Status
from keyhole.auditing.known import Known
from keyhole.gather.evidence import System


def limited(known: Known) -> frozenset[tuple[int, str]]:
    """(row, column): a time limit, Ctrl-C or too many tables ended the search; neither listed nor shown to be open.

    What is proved of them stays as it is: the best proved range, which may be wider than it need be.
    """
    return frozenset(
        (row, name)
        for number, system in enumerate(known.evidence.systems)
        if number not in known.shown
        for row, name in _stopped(known, number, system)
        if (said := known.of(row, name)) is None or said.status is Status.OPEN
    )


def _stopped(known: Known, number: int, system: System) -> Iterator[tuple[int, str]]:
    searched = known.searched.get(number)
    early = searched is not None and bool(searched.ranges.stopped)
    if not early and number not in known.limits:
        return
    searched_columns, settled = set[str](), set[tuple[int, str]]()
    if searched is not None:
        made = searched.bounded
        for j, found in enumerate(searched.ranges.of):
            searched_columns.add(made.column(j))
            if found.wider(searched.apart(found)) or found.tight:
                settled.add((made.atom(j), made.column(j)))
    names = set(system.columns) if number in known.limits else searched_columns
    for name in sorted(names):
        left = np.array([(k, name) not in settled for k in range(system.atoms.K)], dtype=np.bool_)
        yield from ((int(row), name) for row in np.flatnonzero(left[system.atoms.of]))
