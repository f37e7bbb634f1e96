"""Planted bad mechanisms: each must be caught by the law of `mechanisms` that it is listed under.

Among them the classic wrong sparse vectors (Lyu, Su and Li 2017 tell their story): no threshold noise, query noise that
does not grow with c, the comparison's noise reused for the answer, and TOPs without end.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from fractions import Fraction

from tests.laws import mechanism_games as games
from tests.laws.exact_laws import Law, bucket
from tests.laws.law import Specimen
from tests.laws.mechanism_games import GAMES, HIGH, LOW, SEARCH, STREAM, THRESHOLD, Counts, Game, scaled, seeded

from keyhole.defence.budget.budget import Budget
from keyhole.defence.budget.loss import Loss
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.sparse_vector import Sparse, numeric_sparse_scales
from keyhole.defence.noise import NoiseSource
from keyhole.errors import DataError


def _named(name: str) -> Game:
    return next(game for game in GAMES if game.name == name)


# --- wrong sparse vectors -------------------------------------------------------------------------------------------


def no_threshold_noise(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """AboveThreshold that compares with the bare threshold."""
    budget.spend(Loss.of_epsilon(2))
    shown: list[bool] = []
    for q in SEARCH:
        shown.append(histogram.total(q) + noise.laplace(Fraction(2)) >= THRESHOLD)
        if shown[-1]:
            break
    return tuple(shown)


def query_noise_not_scaled_with_c(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """Sparse for two firings whose queries get the noise of one."""
    budget.spend(Loss.of_epsilon(4))
    level = THRESHOLD + noise.laplace(Fraction(1))
    shown: list[bool] = []
    for q in STREAM:
        shown.append(histogram.total(q) + noise.laplace(Fraction(1)) >= level)
        if shown[-1]:
            level = THRESHOLD + noise.laplace(Fraction(1))
        if sum(shown) == 2:
            break
    return tuple(shown)


def noise_reused_for_the_answer(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """NumericSparse that gives out the number it compared."""
    budget.spend(Loss.of_epsilon(4))
    scales = numeric_sparse_scales(1, 4)
    level = THRESHOLD + noise.laplace(scales.threshold)
    for i, q in enumerate((LOW, HIGH)):
        noisy = histogram.total(q) + noise.laplace(scales.query)
        if noisy >= level:
            return i, bucket(noisy, games.ANSWER_CUTS)
    return None


def tops_without_end(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """Sparse for two firings that never halts."""
    budget.spend(Loss.of_epsilon(4))
    level = THRESHOLD + noise.laplace(Fraction(1))
    return tuple(histogram.total(q) + noise.laplace(Fraction(2)) >= level for q in STREAM)


# --- a crowd of questions, half of which one person raises and half of which he lowers --------------------------------


def _no_law(counts: Counts, factor: float) -> Law:
    raise AssertionError("the crowd has no law in closed form: it is for empirical bounds")


def _crowd(fresh: bool) -> games.Play:
    def play(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
        """A hundred TOPs or BOTs with the noise of a single firing, sold for epsilon 1."""
        budget.spend(Loss.of_epsilon(1))
        level = 10 + noise.laplace(Fraction(2))
        lead = 0
        for i in range(100):
            q, sign = (LOW, 1) if i % 2 == 0 else (HIGH, -1)
            if histogram.total(q) + noise.laplace(Fraction(4)) >= level:
                lead += sign
                if fresh:
                    level = 10 + noise.laplace(Fraction(2))
        return lead >= 6

    return play


CROWD = ((10, 10), (11, 9))
CROWD_FRESH = Game(
    "query noise not scaled with c, a crowd", Sparse, _crowd(True), CROWD, _no_law, Loss.of_epsilon(1), 1.0, 0.0, 6000
)
CROWD_FIXED = Game(
    "TOPs without end, a crowd", Sparse, _crowd(False), CROWD, _no_law, Loss.of_epsilon(1), 1.0, 0.0, 6000
)


# --- bad manners with the budget ------------------------------------------------------------------------------------


def reads_before_paying(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """Looks first, pays later."""
    value = histogram.total(games.ONE) + noise.laplace(Fraction(2))
    budget.spend(Loss.of_epsilon(Fraction(1, 2)))
    return bucket(value, games.CUTS)


def never_pays(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """Forgets the charge."""
    return bucket(histogram.total(games.ONE) + noise.laplace(Fraction(2)), games.CUTS)


def pays_when_it_fires(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """AboveThreshold that is charged only for a TOP: its price tells what the data said."""
    level = THRESHOLD + noise.laplace(Fraction(1))
    for q in SEARCH:
        if histogram.total(q) + noise.laplace(Fraction(2)) >= level:
            budget.spend(Loss.of_epsilon(2))
            return True
    return False


def an_error_that_tells(histogram: Histogram, budget: Budget, noise: NoiseSource) -> Hashable:
    """Complains about the data at query time."""
    budget.spend(Loss.of_epsilon(Fraction(1, 2)))
    count = histogram.total(LinearQuery.of([0, 1]))
    if count == 11:
        raise DataError(f"{count} records have no value")
    return bucket(histogram.total(games.ONE) + noise.laplace(Fraction(2)), games.CUTS)


def _lie(name: str, game: Game) -> Specimen[Game]:
    return Specimen(name, replace(game, door=seeded(7)))


def badly_scaled(game: Game, factor: Fraction, seed: int = 7) -> Specimen[Game]:
    """A good mechanism behind a door whose noise is wrong by a factor."""
    return Specimen(f"{game.name}, noise times {float(factor):.3g}", replace(game, door=scaled(factor, seed)))


_LAPLACE, _SPARSE, _FIRST = _named("laplace"), _named("sparse"), _named("above-threshold")

# Too much noise costs accuracy, not privacy: it is caught too, in the long run of `make soak`.
TOO_LITTLE_NOISE = tuple(badly_scaled(game, Fraction(9, 10)) for game in GAMES)
TOO_MUCH_NOISE = tuple(badly_scaled(game, Fraction(11, 10)) for game in GAMES)
WRONG_SPARSE_VECTORS = (
    _lie("no threshold noise", replace(_FIRST, play=no_threshold_noise)),
    _lie("query noise not scaled with c", replace(_SPARSE, play=query_noise_not_scaled_with_c)),
    _lie("noise reused for the answer", replace(_named("numeric-sparse"), play=noise_reused_for_the_answer)),
    _lie("TOPs without end", replace(_SPARSE, play=tops_without_end)),
)
OVERCLAIMING = (_lie("claims half its epsilon", replace(_LAPLACE, epsilon=0.25)),)
BETRAYING = (
    badly_scaled(_LAPLACE, Fraction(1, 3)),
    _lie("query noise not scaled with c, a crowd", CROWD_FRESH),
    _lie("TOPs without end, a crowd", CROWD_FIXED),
)
NOT_PAYING = (
    _lie("reads before paying", replace(_LAPLACE, play=reads_before_paying)),
    _lie("never pays", replace(_LAPLACE, play=never_pays)),
)
TELLING_BY_PRICE = (
    _lie("pays when it fires", replace(_FIRST, play=pays_when_it_fires, pair=((4, 8), (5, 7)))),
    _lie("an error that tells", replace(_LAPLACE, play=an_error_that_tells)),
)
