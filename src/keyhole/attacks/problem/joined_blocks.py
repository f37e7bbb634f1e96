"""Blocks of one log as one decoding problem: atoms refined, rows stacked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem, stacked
from keyhole.basis.atoms.base import refine_partitions
from keyhole.errors import CannotHonour
from keyhole.solve.decode.bitrows import pack, unpack
from keyhole.solve.decode.csr import Csr


def join(a: Problem, b: Problem) -> Problem:
    """Both blocks as one problem: atoms are refined so that every row of either is constant on them.

    Blocks of one `Evidence` share their atoms and only stack. Blocks whose private conditions differ cannot be joined
    after the fact (their cells differ): gather the whole log at once instead.
    """
    if not b.m and b.K == 1 and not (b.wishes or b.order):
        return a
    if not a.m and a.K == 1 and not (a.wishes or a.order):
        return b
    if a.features != b.features:
        raise CannotHonour("the blocks split the private column into different cells: observe the whole log at once")
    if not np.array_equal(a.of, b.of):
        finer = refine_partitions(a.of, b.of)
        made = (over(p, finer.of, finer.sizes, up) for p, up in ((a, finer.left), (b, finer.right)))
        a, b = map(_every_atom, made)
    seen = {name for name in a.numbers if name.startswith("fact ")}
    keep = np.array([name not in seen for name in b.numbers], dtype=bool)
    bits = dense = csr = None
    if a.bits is not None and b.bits is not None:
        bits = np.concatenate([a.bits, b.bits[keep]])
    elif a.csr is not None or b.csr is not None:
        csr = a.matrix().stacked(b.matrix().take(keep))
    else:
        dense = np.concatenate([a.totals(), b.totals()[keep]])
    return replace(
        a,
        bits=bits,
        dense=dense,
        csr=csr,
        y=np.concatenate([a.y, b.y[keep]]),
        lo=np.concatenate([a.lo, b.lo[keep]]),
        hi=np.concatenate([a.hi, b.hi[keep]]),
        scale=np.concatenate([a.scale, b.scale[keep]]),
        law=np.concatenate([a.law, b.law[keep]]),
        numbers=a.numbers + tuple(name for name, k in zip(b.numbers, keep, strict=True) if k),
        lower=np.maximum(a.lower, b.lower),
        upper=np.minimum(a.upper, b.upper),
        absent=a.absent | b.absent,
        wishes=a.wishes | b.wishes,
        least=None if a.least is None or b.least is None else np.maximum(a.least, b.least),
        most=None if a.most is None or b.most is None else np.minimum(a.most, b.most),
        order=(*a.order, *b.order),
        unread=(*a.unread, *b.unread),
    )


def _every_atom(p: Problem) -> Problem:
    """A fact that gives values gives every record its own: one equation for each of the finer atoms."""
    low, high = (p.lower, p.upper) if p.least is None or p.most is None else (p.least, p.most)
    told = [j for j, name in enumerate(p.numbers) if name.startswith("fact ") and p.law[j] == NoiseLaw.EXACT]
    matrix = p.matrix() if told else None
    split, names, y, rows = np.zeros(p.m, dtype=bool), [], [], []
    for j in told:
        assert matrix is not None
        part = slice(matrix.starts[j], matrix.starts[j + 1])
        columns, values = matrix.columns[part], matrix.values[part]
        atoms = np.unique(columns % p.K)
        if len(atoms) < 2 or not np.array_equal(low[atoms], high[atoms]):
            continue  # of one atom already, or about a sum
        split[j] = True
        for k in atoms:
            names.append(p.numbers[j])
            rows.append((columns[columns % p.K == k], values[columns % p.K == k]))
            y.append(low[k] * p.sizes[k])
    if not split.any():
        return p
    rest = replace(
        p, bits=None if p.bits is None else p.bits[~split], dense=None if p.dense is None else p.dense[~split],
        csr=None if p.csr is None else p.csr.take(~split),
        y=p.y[~split], lo=p.lo[~split], hi=p.hi[~split], scale=p.scale[~split], law=p.law[~split],
        numbers=tuple(name for name, gone in zip(p.numbers, split, strict=True) if not gone),
    )  # fmt: skip
    return stacked(rest, Csr.of_rows(rows, p.p), np.array(y), names)


def over(p: Problem, of: NDArray[np.int32], sizes: NDArray[np.int64], parent: NDArray[Any]) -> Problem:
    """The same rows over finer atoms: atom k is a part of p's atom `parent[k]`."""
    F = p.p // p.K
    columns = (np.arange(F)[:, None] * p.K + parent[None, :]).ravel()
    bits = dense = csr = None
    if p.csr is not None:
        csr = p.csr.spread(columns)
    elif p.bits is not None:
        bits = pack(unpack(p.bits, p.K)[:, parent]) if p.m else np.zeros((0, (len(parent) + 63) // 64), dtype=np.uint64)
    else:
        dense = p.totals()[:, columns]
    return replace(
        p, of=of, sizes=sizes.astype(np.float64), bits=bits, dense=dense, csr=csr,
        lower=p.lower[columns], upper=p.upper[columns], absent=p.absent[parent],
        least=None if p.least is None else p.least[parent], most=None if p.most is None else p.most[parent],
        order=tuple(answer.over(parent) for answer in p.order),
    )  # fmt: skip
