"""Steal a classifier that returns nothing but labels, even when it randomises its scores.

The classifier says 1 iff w.f(x) + b + noise > 0, with known features f (the inputs themselves unless said). Labels
alone give the direction of (w, b); its length only in units of the noise, where there is noise of a known deviation.
Without noise the boundary is found by one line search a dimension [lowd2005]; with noise by a probit regression with a
prior whose width the labels choose.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from keyhole.errors import ModelError
from keyhole.oracles.base import ModelWarning
from keyhole.oracles.noise import Floats

FINEST = 44  # halvings of a line: beyond, floats are at their end
EVERY, LOOKS = 3, 12  # in the first halvings, both ends are asked again every third time
FURTHEST = 1e6
STEPS = 60
NARROWEST, WIDEST = 16.0, 1e-8  # of the prior's precision, the first for each dimension
Label = Callable[[Floats], int]
Features = Callable[[Floats], Floats]
USEFUL = 0.7  # deviations of the noise: how far from the boundary questions are, where they can be aimed
GROWTH = 8  # the model is fitted again when the labels have grown by 1/8
SEGMENT = 30  # halvings of the model's own score between two inputs; costs no label
WIDE = 0.9  # quantile of the inputs' norms: how far out is asked
LOOKED = 24  # labels at most near the boundary, and as many elsewhere, after line searches
CHECKED = 64  # labels at most for each of the two looks at whether the model fits
UNLIKELY, RARE = 4.0, 1e-3  # deviations, and the chance, from which the model is doubted
SEPARABLE = 0.05  # share of labels on the wrong side, below which there may be no noise at all


class NoisyScores:
    """A defence: a linear model whose score gets fresh noise before it is turned into the only output, a label."""

    def __init__(self, weights: Floats, intercept: float, std: float, *, rng: np.random.Generator) -> None:
        self._w, self._b, self._std, self._rng = np.asarray(weights, dtype=np.float64), intercept, std, rng

    def predict(self, rows: Floats) -> Floats:
        """Labels 0 or 1, one per row."""
        scores = rows @ self._w + self._b + self._std * self._rng.standard_normal(len(rows))
        return (scores > 0).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class StolenClassifier:
    """Weights (on the features) and intercept up to a positive factor; `scale` is that factor when it is known.

    Where it is None, `no_scale` says why: labels alone do not tell w from 2 w. `method` is "line search" or "probit";
    `doubt` says why the model class seems wrong, and is empty where nothing speaks against it.

    `trace`: (labels asked so far, weights, intercept) at each checkpoint.
    """

    weights: Floats
    intercept: float
    scale: float | None
    queries: int
    trace: tuple[tuple[int, Floats, float], ...]
    method: str
    no_scale: str = ""
    doubt: str = ""
    features: Features | None = None

    def predict(self, rows: Floats) -> Floats:
        """Labels 0 or 1."""
        seen = rows if self.features is None else np.array([self.features(x) for x in rows])
        return np.asarray(seen @ self.weights + self.intercept > 0, dtype=np.float64)


def measure_angle(a: Floats, b: Floats) -> float:
    """Angle between two vectors, in degrees.

    >>> round(measure_angle(np.array([1.0, 0.0]), np.array([1.0, 1.0])), 6)
    45.0
    """
    cosine = float(a @ b) / (float(np.linalg.norm(a)) * float(np.linalg.norm(b)))
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))


def steal_classifier(
    label: Label,
    inputs: Floats,
    *,
    queries: int,
    noise_std: float | None,
    rng: np.random.Generator,
    features: Features | None = None,
    checkpoints: int = 12,
) -> StolenClassifier:
    """Learn a classifier, linear in known features, from labels alone.

    `inputs`: unlabelled inputs the attacker has (they give the range of features); `noise_std`: the deviation of the
    defence's noise in score units if known, which fixes the length of w; None claims direction only. `features`: a map
    that the classifier is linear in (a kernel's, say); None: the inputs themselves.

    Labels that never waver are bisected: D line searches (`search_hyperplane`). Labels that do go into a probit fit
    with all labels so far; the next ones are asked near its boundary, as wide as the inputs across it, and at random as
    long as the noise is larger than the scores, where nothing is gained by aiming. Never more than `queries` labels.
    In the end labels are asked again and elsewhere: a `ModelWarning` where the model class does not fit.
    Cost: O(n D^2) for each fit to n labels, some 8 log(n) fits.
    """
    sample = np.asarray(inputs, dtype=np.float64)
    if sample.ndim != 2 or len(sample) < 2:
        raise ModelError(f"inputs are an array with one input per row, at least two; got shape {sample.shape}")
    if not np.all(np.isfinite(sample)):
        raise ModelError("inputs have an entry that is not a finite number; leave those rows out")
    if noise_std is not None and not (math.isfinite(noise_std) and noise_std > 0):
        raise ModelError(f"noise_std is the deviation of the noise, above 0, or None if unknown; got {noise_std!r}")
    if checkpoints < 1:
        raise ModelError(f"checkpoints is at least 1, got {checkpoints}")
    D = sample.shape[1] if features is None else len(features(sample[0]))
    if queries < 2 * (D + 1):
        raise ModelError(f"queries={queries} labels are too few for {D} features: at least {2 * (D + 1)}")
    theft = _Theft(label, sample, queries, features, rng)
    exact = _noise_free(theft, queries) if features is None else None
    return exact or _noisy(theft, queries, noise_std, checkpoints)


class _OutOfLabels(Exception):
    """The budget is spent."""


class _Theft:
    """Labels asked so far, on standardised inputs, and the model fitted to them."""

    def __init__(
        self, label: Label, sample: Floats, queries: int, features: Features | None, rng: np.random.Generator
    ) -> None:
        self._label, self._left, self.rng = label, queries, rng
        self.middle, spread = sample.mean(axis=0), sample.std(axis=0)
        self.spread = np.where(spread > 0, spread, 1.0)
        self.sample = (sample - self.middle) / self.spread
        self.radius = float(np.quantile(np.linalg.norm(self.sample, axis=1), WIDE))
        self._ready: list[Floats] = []
        self._features = features
        probe = self.row(self.sample[0])
        self._rows, self.count = np.empty((queries, len(probe))), 0
        self._bits = np.empty(queries)
        self.model = Probit(len(probe))
        self.trace: list[tuple[int, Floats, float]] = []

    def row(self, u: Floats) -> Floats:
        """What the model sees of a standardised input: features, and a 1 for the intercept."""
        seen = u if self._features is None else self._features(self.raw(u))
        return np.append(np.asarray(seen, dtype=np.float64), 1.0)

    def raw(self, u: Floats) -> Floats:
        return np.asarray(self.middle + u * self.spread, dtype=np.float64)

    def ask(self, u: Floats) -> int:
        """One label of a standardised input, kept."""
        if self.count >= self._left:
            raise _OutOfLabels
        said = self._label(self.raw(u))
        if said not in (0, 1):
            raise ModelError(f"a label is 0 or 1, got {said!r}")
        self._rows[self.count], self._bits[self.count] = self.row(u), said
        self.count += 1
        return int(said)

    def fit(self) -> None:
        self.model.fit(self._rows[: self.count], self._bits[: self.count])

    def misfit(self) -> float:
        """Share of the labels so far that are on the wrong side of the model."""
        return float(np.mean((self._rows[: self.count] @ self.model.c > 0) != (self._bits[: self.count] > 0)))

    def classes(self) -> set[int]:
        return {int(v) for v in self._bits[: self.count]}

    def unshrunk(self) -> tuple[Floats, float]:
        """The model's weights and intercept.

        A shrunk w would inflate the offset b / ||w||, so b is taken down by ||w|| over its posterior size.
        """
        c, S = self.model.c.copy(), self.model.covariance
        length = float(c[:-1] @ c[:-1])
        c[-1] *= math.sqrt(length / (length + float(np.trace(S[:-1, :-1])))) if length > 0 else 1.0
        return self.unscaled(c)

    def unscaled(self, c: Floats) -> tuple[Floats, float]:
        """Weights and intercept on inputs (or features) as they are."""
        if self._features is not None:
            return c[:-1].copy(), float(c[-1])
        weights = c[:-1] / self.spread
        return weights, float(c[-1]) - float(weights @ self.middle)

    def inputs(self) -> Floats:
        """A fresh input, as far out as the wide ones of the sample; D in a row are orthogonal."""
        if self._features is None:
            if not self._ready:
                D = self.sample.shape[1]
                self._ready = list(self.radius * np.linalg.qr(self.rng.standard_normal((D, D)))[0].T)
            return self._ready.pop() * float(self.rng.choice([-1.0, 1.0]))
        one = self.sample[int(self.rng.integers(len(self.sample)))]
        return np.asarray(one + 0.1 * self.rng.standard_normal(len(one)), dtype=np.float64)

    def aimed(self) -> Floats:
        """An input about USEFUL deviations from the model's boundary, else as wide as the sample."""
        c = self.model.c
        if self._features is not None:
            return self._between()
        u, length = self.inputs(), float(c[:-1] @ c[:-1])
        size = math.sqrt(length + float(c[-1]) ** 2)
        if size <= USEFUL or length == 0:
            return u
        score = float(u @ c[:-1]) + float(c[-1])
        return np.asarray(u - (1 - USEFUL / size) * score / length * c[:-1], dtype=np.float64)

    def _between(self) -> Floats:
        """The model's crossing between two inputs that it tells apart; labels are not needed to find it."""
        for _ in range(SEGMENT):
            low, high = self.inputs(), self.inputs()
            if (float(self.row(low) @ self.model.c) > 0) != (float(self.row(high) @ self.model.c) > 0):
                break
        else:
            return low
        wanted = USEFUL * float(self.rng.standard_normal())
        if float(self.row(low) @ self.model.c) > 0:
            low, high = high, low
        for _ in range(SEGMENT):
            middle = (low + high) / 2
            low, high = (low, middle) if float(self.row(middle) @ self.model.c) > wanted else (middle, high)
        return (low + high) / 2


def _pair(theft: _Theft, most: int) -> tuple[Floats, Floats]:
    """Two inputs with labels 0 and 1."""
    seen: dict[int, Floats] = {}
    for u in theft.sample[theft.rng.permutation(len(theft.sample))][:most]:
        seen.setdefault(theft.ask(u), u)
        if len(seen) == 2:
            return seen[0], seen[1]
    raise ModelError(
        f"all {theft.count} inputs that were asked got the same label; give inputs from both classes, or more queries"
    )


def _noise_free(theft: _Theft, queries: int) -> StolenClassifier | None:
    """By line searches, if labels do not waver; None if they do, or if other inputs contradict the result."""
    low, high = _pair(theft, queries // 2)
    reach, check = math.sqrt(theft.sample.shape[1]), min(2 * LOOKED, queries // 8)
    try:
        w, b = search_hyperplane(theft.ask, low, high, reach, queries - theft.count - check)
        if not _agrees(theft, w, b, min(check, queries - theft.count)):
            return None
    except (Wavering, _OutOfLabels):
        return None
    weights, intercept = theft.unscaled(np.append(w, b))
    why = "no noise was seen in the labels, so nothing fixes the length of w"
    trace = ((theft.count, weights, intercept),)
    return StolenClassifier(weights, intercept, None, theft.count, trace, "line search", why)


def _agrees(theft: _Theft, w: Floats, b: float, labels: int) -> bool:
    """Are inputs on either side of the boundary, near it and as given, labelled as it says?"""
    each = max(1, theft.count // len(w))
    near = max(1e-3, 2.0 ** (6 - min(each, 40)))
    for k in range(labels):
        u, side = theft.inputs(), k // 2 % 2
        if k % 2:
            u = theft.sample[int(theft.rng.integers(len(theft.sample)))]
            score = float(u @ w) + b
            if abs(score) < near:
                continue
            side = int(score > 0)
        else:
            u = u - (float(u @ w) + b - (2 * side - 1) * near) * w
        if theft.ask(u) != side:
            return False
    return True


class Wavering(Exception):
    """A label changed, or contradicts the others: there is noise, or the classifier is not linear."""


def search_hyperplane(label: Label, low: Floats, high: Floats, reach: float, labels: int) -> tuple[Floats, float]:
    """Unit weights and intercept of a noise-free linear classifier, from about `labels` labels.

    v runs from a 0 to a 1, x0 is where it crosses. For each of the D - 1 directions e across v, x0 + reach e + t v is
    on the boundary for one t, which is bracketed and bisected: w.e / w.v = -t / reach. The error of the angle halves
    with every D labels. Raises `Wavering` when labels contradict each other.
    """
    D, left = len(low), labels

    def counted(x: Floats) -> int:
        nonlocal left
        left -= 1
        return label(x)

    start = find_crossing(counted, low, high, min(FINEST, max(4, labels // D + 2)))
    v = (high - low) / np.linalg.norm(high - low)
    across = np.linalg.qr(np.column_stack([v, np.eye(D)]))[0][:, 1:].T
    slopes = np.array([_slope(counted, start + reach * e, v, reach, left // (D - 1 - i)) for i, e in enumerate(across)])
    w = v - slopes @ across if D > 1 else v
    w /= np.linalg.norm(w)
    return w, -float(w @ start)


def find_crossing(label: Label, low: Floats, high: Floats, halvings: int) -> Floats:
    """A point of the boundary between a 0 and a 1, halved `halvings` times; both ends are asked again now and then."""
    for k in range(halvings):
        if k < LOOKS and k % EVERY == 0 and (label(low) != 0 or label(high) != 1):
            raise Wavering
        middle = (low + high) / 2
        low, high = (low, middle) if label(middle) else (middle, high)
    return (low + high) / 2


def _slope(label: Label, at: Floats, v: Floats, reach: float, labels: int) -> float:
    """t / reach with at + t v on the boundary: bracketed by doubling, then halved."""
    above, far, left = label(at), reach / 2, labels - 1
    towards = -1.0 if above else 1.0
    near = 0.0
    while label(at + towards * far * v) == above:
        near, far, left = far, 2 * far, left - 1
        if far > FURTHEST * reach:
            raise Wavering
    for _ in range(max(2, min(left - 1, FINEST))):
        middle = (near + far) / 2
        near, far = (middle, far) if label(at + towards * middle * v) == above else (near, middle)
    return towards * (near + far) / (2 * reach)


def _noisy(theft: _Theft, queries: int, noise_std: float | None, checkpoints: int) -> StolenClassifier:
    D = len(theft.model.c) - 1
    marks = sorted({int(v) for v in np.geomspace(min(max(theft.count + 1, 2 * D), queries), queries, checkpoints)})
    first, reserved = max(2 * (D + 1), 24), min(2 * CHECKED, queries // 4)
    doubts: tuple[str, ...] = ()
    try:
        while theft.count < min(first, queries):
            theft.ask(theft.inputs())
        if len(theft.classes()) < 2:
            _pair(theft, queries - theft.count)
        while theft.count < queries - reserved:
            theft.fit()
            _mark(theft, marks)
            batch = min(max(D // 2, theft.count // GROWTH, 4), queries - reserved - theft.count)
            for _ in range(batch):
                theft.ask(theft.aimed())
        theft.fit()
        doubts = tuple(filter(None, (_steadier(theft, reserved // 2), _elsewhere(theft, queries - theft.count))))
    except _OutOfLabels:
        pass
    theft.fit()
    weights, intercept = theft.unshrunk()
    theft.trace.append((theft.count, weights, intercept))
    for doubt in doubts:
        warnings.warn(doubt, ModelWarning, stacklevel=3)
    why = "" if noise_std is not None else "noise_std was not given, and labels alone do not tell w from 2 w"
    return StolenClassifier(
        weights, intercept, noise_std, theft.count, tuple(theft.trace), "probit", why, "; ".join(doubts),
        theft._features,
    )  # fmt: skip


def _mark(theft: _Theft, marks: list[int]) -> None:
    """A checkpoint, if one was passed since the last."""
    passed = [m for m in marks if m <= theft.count]
    if passed and (not theft.trace or theft.trace[-1][0] < passed[-1]):
        theft.trace.append((theft.count, *theft.unshrunk()))


def _share(theft: _Theft, u: Floats) -> float:
    """The model's chance of a 1."""
    return float(ndtr(theft.row(u) @ theft.model.c))


def is_too_steady(chances: list[float], differ: int) -> bool:
    """Is it rarer than 1 in 1,000 that so few pairs of labels differ, where pair i differs with chance i?

    >>> is_too_steady([0.5] * 12, 0), is_too_steady([0.5] * 12, 3)
    (True, False)
    """
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    return float(law[: differ + 1].sum()) < RARE


def _steadier(theft: _Theft, labels: int) -> str:
    """Ask doubtful inputs twice: fresh noise makes 2 p (1 - p) of the pairs differ, a wrong model class does not."""
    differ, chances = 0, list[float]()
    for _ in range(labels // 2):
        u = theft.aimed()
        p = _share(theft, u)
        chances.append(2 * p * (1 - p))
        differ += theft.ask(u) != theft.ask(u)
    if theft.misfit() < SEPARABLE or not is_too_steady(chances, differ):
        return ""  # labels that the model explains without noise may well be steady
    return (
        f"asked twice, {differ} of {len(chances)} labels changed where the fitted noise changes {sum(chances):.0f}: "
        "the classifier is not linear in these features, or its noise is sticky"
    )


def _elsewhere(theft: _Theft, labels: int) -> str:
    """The inputs as they were given: how much more do their labels surprise the model than it expects?"""
    surprise = expected = variance = 0.0
    for _ in range(labels):
        u = theft.sample[int(theft.rng.integers(len(theft.sample)))]
        p = min(max(_share(theft, u), 1e-4), 1 - 1e-4)
        surprise -= math.log(p if theft.ask(u) else 1 - p)
        entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
        expected += entropy
        variance += p * math.log(p) ** 2 + (1 - p) * math.log(1 - p) ** 2 - entropy**2
    if surprise - expected > UNLIKELY * math.sqrt(variance) + math.log(1e4):
        return (
            f"away from the boundary labels surprise the model ({surprise:.0f} nats where it expects {expected:.0f}): "
            "the classifier is not linear in these features, or some labels are flipped"
        )
    return ""


class Probit:
    """Pr(label = 1 | x) = Phi(x.c), c ~ N(0, I/a): the mode and its curvature.

    `a` climbs the evidence by MacKay's fixed point, a = (D - a tr S) / ||c||^2 [mackay1992], so that few labels shrink
    the estimate and many do not; at most 16 D, where ||c|| would be a quarter of the noise.
    Newton's method with halved steps: the posterior is log-concave. O(n D^2) a step.

    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.standard_normal((4000, 2)), np.ones(4000)])
    >>> y = (X @ np.array([1.0, -2.0, 0.5]) + rng.standard_normal(4000) > 0).astype(float)
    >>> model = Probit(3)
    >>> model.fit(X, y)
    >>> [round(float(v), 1) for v in model.c]
    [1.0, -2.0, 0.6]
    """

    def __init__(self, width: int) -> None:
        self.c = np.zeros(width)
        self.precision = 1.0
        self.covariance: Floats = np.eye(width)

    def fit(self, X: Floats, y: Floats) -> None:
        """From the mode before, to the mode of these labels."""
        signs = 2 * np.asarray(y, dtype=np.float64) - 1
        for _ in range(4):
            self._climb(X, signs)
            known = len(self.c) - self.precision * float(np.trace(self.covariance))
            wanted = max(known, 1e-3) / max(float(self.c @ self.c), 1e-300)
            before, self.precision = self.precision, min(max(wanted, WIDEST), NARROWEST * len(self.c))
            if abs(math.log(self.precision / before)) < 0.05:
                break

    def _value(self, c: Floats, X: Floats, signs: Floats) -> float:
        return float(np.sum(log_ndtr(signs * (X @ c)))) - 0.5 * self.precision * float(c @ c)

    def _climb(self, X: Floats, signs: Floats) -> None:
        best, prior = self._value(self.c, X, signs), self.precision * np.eye(len(self.c))
        for _ in range(STEPS):
            u = signs * (X @ self.c)
            slope = np.exp(-0.5 * u * u - 0.5 * math.log(2 * math.pi) - log_ndtr(u))
            weight = np.maximum(slope * (slope + u), 0.0)
            H = (X * weight[:, None]).T @ X + prior
            gradient = X.T @ (signs * slope) - self.precision * self.c
            step, size = np.linalg.solve(H, gradient), 1.0
            gain = float(gradient @ step)
            while size > 1e-6:
                value = self._value(self.c + size * step, X, signs)
                if value >= best + 1e-4 * size * gain:
                    break
                size /= 2
            else:
                break
            self.c, best = self.c + size * step, value
            if gain < 1e-6:
                break
        self.covariance = np.asarray(np.linalg.inv(H), dtype=np.float64)
