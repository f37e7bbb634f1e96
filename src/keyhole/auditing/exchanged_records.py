"""Second tables by exchange, record by record: two people of one atom swap their private values.

No statement of the log tells the people of an atom apart, so that every answer is as before, whatever is computed from
the values: medians, quantiles and squares, too, which no row of a linear program has. Whoever is in one atom with
somebody of another value has two values, in the true table and in that with the two of them exchanged. Needs the true
table, answers that are those of it, nothing known of single people, and statistics that do not depend on the order of
the records: sums of DOUBLEs and variances do, in their last digits. Comparisons are left to other rules.
Cost: a pass over the records of each column, and one query for each answer.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.base import Status
from keyhole.auditing.exchange import MOST_QUERIES, answers_truly
from keyhole.auditing.known import Known
from keyhole.datasets import PrivateValues, Source
from keyhole.gather.evidence import Constraint, System
from keyhole.model.query import ORDERED, Aggregate, Query

Codes: TypeAlias = NDArray[np.int64]


def exchanged(system: System, known: Known, source: Source) -> bool:
    """Is everybody of whom nothing is listed open, since he may be exchanged with somebody of another value?"""
    if not _plain(system, known):
        return False
    held = {name: source.values(name) for name in system.columns}
    if any(np.asarray(values.units).dtype == object for values in held.values() if values.units is not None):
        return False  # beyond 64 bits
    doubles = not all(map(known.exact, held))
    if doubles and (system.constraints or len(held) > 1):
        return False
    present = np.stack([values.present for values in held.values()], axis=1)
    _, alike = np.unique(np.column_stack([system.atoms.of, present]), axis=0, return_inverse=True)
    open_ = (_differ(system, known, name, values, alike.ravel()) for name, values in held.items())
    return all(open_) and _true(system, known, source)


def _plain(system: System, known: Known) -> bool:
    """Are there public conditions, sums and order statistics alone, and no facts, over people of one record each?"""
    several = known.schema.people or known.schema.repeated or known.evidence.counting is not None
    ordered = all(f.where is not None and f.query.aggregate in ORDERED for f in system.order)
    private = several or known.knowledge.facts or system.partitions or system.equal or system.bounds
    return not private and ordered and all(map(known.numeric, system.columns))


def _differ(system: System, known: Known, name: str, values: PrivateValues, alike: Codes) -> bool:
    """Does each class have two values of a column, but for those who are listed or of whom nothing was asked?"""
    found = values.floats if values.units is None else np.asarray(values.units)
    rows = np.flatnonzero(values.present & _asked(system, name))
    if not len(rows):
        return True  # nobody has a value that an answer depends on
    order = rows[np.lexsort((found[rows], alike[rows]))]
    first = np.flatnonzero(np.diff(alike[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    same = found[order[first]] == found[order[last]]
    for start, end in zip(first[same].tolist(), last[same].tolist(), strict=True):
        for row in order[start : end + 1].tolist():
            said = known.of(row, name)
            if said is None or said.status is Status.OPEN:
                return False
    return True


def _asked(system: System, name: str) -> NDArray[np.bool_]:
    """The records that an answer about a column may depend on."""
    K, touched = system.atoms.K, np.zeros(system.atoms.K, dtype=np.bool_)
    for row in system.constraints:
        at, _ = system.row(row).sparse()
        for u in np.asarray(at).tolist():
            touched[u % K] |= system.features[u // K].column == name
    for fact in system.order:
        if fact.where is not None and fact.query.terms[0].column == name:
            touched |= system.atoms.mask(fact.where)
    return touched[system.atoms.of]


def _true(system: System, known: Known, source: Source) -> bool:
    """Are the answers those of the data, and the same in whatever order the records are added?"""
    rows = {c.number: c for c in system.constraints}
    mine = rows.keys() | {f.number for f in system.order}
    entries = [e for e in known.evidence.transcript.entries if e.number in mine]
    if len(entries) != len(mine) or len(entries) > MOST_QUERIES:
        return False
    if any(e.query.test is not None or not _any_order(e.query, rows.get(e.number)) for e in entries):
        return False
    return all(e.answer is not None and answers_truly(source, e.query, e.answer) for e in entries)


def _any_order(query: Query, row: Constraint | None) -> bool:
    """Is a sum the same in whatever order it is added? Order statistics are."""
    if query.aggregate is not Aggregate.SUM or row is None:
        return query.aggregate in ORDERED
    terms = (*query.terms, *query.per)
    whole = all(t.weight is None and t.power == 1 and t.factor.denominator == 1 for t in terms)
    return row.lo is not None and (row.lo == row.hi or whole)
