"""Bets against the model: wealth that grows only if no vector in the box explains the bits.

The log of the wealth is a doubt: under the model it exceeds log(1/a) with probability at most a (Ville's inequality
[ville1939]). Every bit is bet on at first, later one in 64. What a learner does with its box is none of these kernels'
business: they get numbers.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from keyhole.oracles.noise import Floats, tail

ALWAYS_BET = 1024  # every bit is bet on up to here, then one in BET_MASK + 1
BET_MASK = 63
RARER, OFTENER = 0.25, 4.0  # bets on a wrong edge: proofs a quarter as often; and 4, 64 or 1,024 times
LOG_3 = math.log(3.0)


@njit(cache=True, error_model="numpy")
def bet(
    law: Floats,
    knots: Floats,
    tails: Floats,
    counts: Floats,
    doubt: Floats,
    slot: int,
    above: float,
    reach: float,
    bit: float,
) -> None:
    """Bet against the model: `above` = threshold - q.centre, `reach` = half the range of q.w over the box.

    If w is in the box, Pr(bit = 1) lies between two tails. When the running frequency of ones in this slot
    (direction and sign of the query) is outside them, stake on the frequency against the nearer tail: the wealth
    exp(doubt) is a supermartingale under the model. With nothing to bet on, the wealth stays.
    """
    guess = (counts[slot, 1] + 0.5) / (counts[slot, 0] + 1.0)
    counts[slot, 0] += 1.0
    counts[slot, 1] += bit
    most = tail(law, knots, tails, above - reach * law[6])[1]
    if guess > most:
        doubt[0] += math.log(guess / most) if bit > 0.0 else math.log((1.0 - guess) / (1.0 - most))
        return
    least = tail(law, knots, tails, above + reach * law[6])[0]
    if guess < least:
        doubt[0] += math.log(guess / least) if bit > 0.0 else math.log((1.0 - guess) / (1.0 - least))


@njit(cache=True, error_model="numpy")
def is_downwards(seen: int) -> bool:
    """Which edge the next question is put at: the parity of the ones in `seen` (Thue and Morse), as fair as a coin."""
    parity = False
    while seen:
        parity = not parity
        seen &= seen - 1
    return parity


@njit(cache=True, error_model="numpy")
def bet_on_edge(doubt: Floats, narrow: float, edge: float, gap: float, reach: float, proof: bool, begun: float) -> None:
    """Bet against the stated edge, between `narrow` and `edge`, by how often a bit is a proof.

    Whatever w is, one of the two edges, taken by a fair coin, gives a proof (a yes above, a no below) with chance at
    least r = (gap - (edge - narrow)) / (2 narrow); and with w in the box at most R = (reach + gap) / (4 edge). The
    wealths are supermartingales then. They begin anew now and then, for the `begun`-th time, each with its share.
    """
    if reach + gap > narrow:
        return
    least, most = 0.5 * (gap - (edge - narrow)) / narrow, 0.25 * (reach + gap) / edge
    if least > 0.0:
        doubt[3] += math.log(RARER) if proof else math.log((1.0 - RARER * least) / (1.0 - least))
    wider, times = doubt[3], OFTENER
    for k in range(4, 7):
        if times * most < 0.5:
            doubt[k] += math.log(times) if proof else math.log((1.0 - times * most) / (1.0 - most))
        wider, times = max(wider, doubt[k] - LOG_3), times * 16.0
    doubt[0] = max(doubt[0], wider - math.log((begun + 1.0) * (begun + 2.0)))


@njit(cache=True, error_model="numpy")
def bet_on_phase(
    z: Floats, said: np.ndarray, ranges: Floats, middle: Floats, seen: int, law: tuple[Floats, Floats, Floats],
    doubt: tuple[Floats, Floats],
) -> None:  # fmt: skip
    """The bets on the bits of rows that were asked against one box: at q.middle, of a w in `ranges`.

    `said`: the bit of each row, -1 where it was not asked; `seen`: how many bits came before these.
    """
    packed, knots, tails = law
    counts, sums = doubt
    for t in range(z.shape[0]):
        if said[t] < 0:
            continue
        seen += 1
        if seen > ALWAYS_BET and seen & BET_MASK:
            continue
        low, high, threshold, j = 0.0, 0.0, 0.0, 0
        for i in range(z.shape[1]):
            v = z[t, i]
            low += min(v * ranges[i, 0], v * ranges[i, 1])
            high += max(v * ranges[i, 0], v * ranges[i, 1])
            threshold += v * middle[i]
            j = i if abs(v) > abs(z[t, j]) else j
        slot = 2 * j if z[t, j] > 0.0 else 2 * j + 1
        bit = float(said[t])
        bet(packed, knots, tails, counts, sums, slot, threshold - 0.5 * (low + high), 0.5 * (high - low), bit)
