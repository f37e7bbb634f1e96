"""Steal a classifier of several classes that returns nothing but its choice: softmax regression on aimed questions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.base import ModelWarning
from keyhole.oracles.learners.classifier import SEPARABLE, is_too_steady
from keyhole.oracles.noise import Floats

HALVINGS, TRIES = 30, 20
NEWTON = 40
LEAST, MOST = 1e-6, 100.0  # precision of the prior


class Softmax:
    """Pr(class k | x) = exp(x.C_k) / sum_l exp(x.C_l), C ~ N(0, I/a): the mode.

    `a` by MacKay's fixed point [mackay1992]. Newton's method with halved steps on K D unknowns: O(n (K D)^2) a step.

    >>> model = Softmax(3, 2)
    >>> X = np.array([[-2.0, 1.0], [0.0, 1.0], [2.0, 1.0]] * 50)
    >>> model.fit(X, np.array([0, 1, 2] * 50))
    >>> model.chances(X[:3]).argmax(axis=1).tolist()
    [0, 1, 2]
    """

    def __init__(self, classes: int, width: int) -> None:
        self.C, self.precision = np.zeros((classes, width)), 1.0

    def chances(self, X: Floats) -> Floats:
        """One row of chances a question."""
        score = X @ self.C.T
        score = np.exp(score - score.max(axis=1, keepdims=True))
        return np.asarray(score / score.sum(axis=1, keepdims=True), dtype=np.float64)

    def _loss(self, X: Floats, said: Floats) -> float:
        taken = self.chances(X)[np.arange(len(X)), said]
        return -float(np.sum(np.log(np.maximum(taken, 1e-300)))) + 0.5 * self.precision * float(np.sum(self.C**2))

    def fit(self, X: Floats, said: Floats) -> None:
        """From the mode before, to the mode of these labels."""
        size, wanted = self.C.size, np.eye(len(self.C))[said]
        for _ in range(NEWTON):
            P = self.chances(X)
            weights = P[:, :, None] * (np.eye(len(self.C))[None] - P[:, None, :])
            H = np.einsum("nkl,na,nb->kalb", weights, X, X, optimize=True).reshape(size, size)
            H += self.precision * np.eye(size)
            gradient = ((wanted - P).T @ X - self.precision * self.C).ravel()
            step = np.linalg.solve(H, gradient)
            before, at, share = self._loss(X, said), self.C, 1.0
            gain = float(gradient @ step)
            while share > 1e-6:
                self.C = at + (share * step).reshape(at.shape)
                if self._loss(X, said) <= before - 1e-4 * share * gain:
                    break
                share /= 2
            if gain < 1e-6 or share <= 1e-6:
                break
        known = size - self.precision * float(np.trace(np.linalg.inv(H)))
        self.precision = min(max(max(known, 1e-3) / max(float(np.sum(self.C**2)), 1e-300), LEAST), MOST)


@dataclass(frozen=True, slots=True, eq=False)
class StolenClasses:
    """Weights and intercepts, one row a class, up to a common factor and shift; `doubt` says why they may not fit."""

    weights: Floats
    intercepts: Floats
    queries: int
    doubt: str
    features: Callable[[Floats], Floats] | None = None

    def predict(self, rows: Floats) -> Floats:
        """The number of the class, one a row."""
        seen = rows if self.features is None else np.array([self.features(x) for x in rows])
        return np.asarray(np.argmax(seen @ self.weights.T + self.intercepts, axis=1))


class _Service:
    """What was asked and said, and the model of it; the last labels are kept back for the check."""

    def __init__(
        self, label: Callable[[Floats], int], sample: Floats, classes: int,
        features: Callable[[Floats], Floats] | None, rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self._label, self.sample, self._classes, self._features, self.rng = label, sample, classes, features, rng
        self.middle, spread = sample.mean(axis=0), sample.std(axis=0)
        self.spread = np.where(spread > 0, spread, 1.0)
        self.rows: list[Floats] = []
        self.said: list[int] = []
        self.model = Softmax(classes, len(self.row(sample[0])))

    def row(self, x: Floats) -> Floats:
        seen = (x - self.middle) / self.spread if self._features is None else self._features(x)
        return np.append(np.asarray(seen, dtype=np.float64), 1.0)

    def ask(self, x: Floats) -> int:
        said = self._label(x)
        if not isinstance(said, int | np.integer) or not 0 <= said < self._classes:
            raise ModelError(f"a label is a whole number from 0 to {self._classes - 1}, got {said!r}")
        self.rows.append(self.row(x))
        self.said.append(int(said))
        return int(said)

    def fit(self) -> None:
        self.model.fit(np.array(self.rows), np.array(self.said))

    def guess(self, x: Floats) -> int:
        return int(np.argmax(self.model.C @ self.row(x)))

    def given(self) -> Floats:
        """One of the inputs, moved a little."""
        x = self.sample[int(self.rng.integers(len(self.sample)))]
        return np.asarray(x + 0.3 * self.spread * self.rng.standard_normal(len(x)), dtype=np.float64)

    def between(self) -> Floats:
        """Where the model changes its mind between two inputs; no label is needed to find it."""
        for _ in range(TRIES):
            a, b = self.given(), self.given()
            if (first := self.guess(a)) != self.guess(b):
                break
        else:
            return a
        for _ in range(HALVINGS):
            middle = (a + b) / 2
            a, b = (middle, b) if self.guess(middle) == first else (a, middle)
        near = float(self.rng.random()) * 0.1
        return np.asarray((a + b) / 2 + near * (self.given() - (a + b) / 2), dtype=np.float64)


def steal_classes(
    label: Callable[[Floats], int], inputs: Floats, *, classes: int, queries: int, rng: np.random.Generator,
    features: Callable[[Floats], Floats] | None = None,
) -> StolenClasses:  # fmt: skip
    """Learn argmax_k w_k.f(x) + b_k from its choices alone, with at most `queries` labels.

    A third of the labels go to inputs as given, the rest near where the model so far changes its mind. In the end a
    tenth goes to pairs of equal questions, held against the model: a `ModelWarning` where the classes are not linear in
    the features.

    >>> rng = np.random.default_rng(0)
    >>> W = rng.standard_normal((3, 4))
    >>> X = rng.standard_normal((300, 4))
    >>> stolen = steal_classes(lambda x: int(np.argmax(W @ x)), X, classes=3, queries=400, rng=rng)
    >>> bool(np.mean(stolen.predict(X) == np.argmax(X @ W.T, axis=1)) > 0.97), stolen.queries, stolen.doubt
    (True, 400, '')
    """
    sample = np.asarray(inputs, dtype=np.float64)
    if sample.ndim != 2 or len(sample) < 2 or not np.all(np.isfinite(sample)):
        raise ModelError(f"inputs are finite, one input per row, at least two; got shape {sample.shape}")
    if not isinstance(classes, int | np.integer) or classes < 2:
        raise ModelError(f"there are at least 2 classes, a whole number; got {classes!r}")
    service = _Service(label, sample, int(classes), features, rng)
    if queries < 2 * service.model.C.size:
        raise ModelError(f"queries={queries} labels are too few: at least {2 * service.model.C.size}")
    check, first = min(100, queries // 10), queries // 3
    for k in rng.permutation(len(sample))[:first]:
        service.ask(sample[int(k)])
    while len(service.said) < queries - check:
        service.fit()
        for _ in range(min(max(8, len(service.said) // 5), queries - check - len(service.said))):
            service.ask(service.between())
    service.fit()
    doubt = _unfit(service, check)
    while len(service.said) < queries:
        service.ask(service.between())
    service.fit()
    if doubt:
        warnings.warn(doubt, ModelWarning, stacklevel=2)
    C = service.model.C
    if features is not None:
        return StolenClasses(C[:, :-1].copy(), C[:, -1].copy(), queries, doubt, features)
    W = C[:, :-1] / service.spread
    return StolenClasses(W, C[:, -1] - W @ service.middle, queries, doubt)


def _unfit(service: _Service, labels: int) -> str:
    """Ask doubtful inputs twice: where the model errs and labels do not waver, its class is wrong, not the labels."""
    differ, chances = 0, list[float]()
    for _ in range(labels // 2):
        x = service.between()
        chances.append(1 - float(np.sum(service.model.chances(service.row(x)[None])[0] ** 2)))
        differ += service.ask(x) != service.ask(x)
    guessed = np.argmax(np.array(service.rows) @ service.model.C.T, axis=1)
    misfit = float(np.mean(guessed != np.array(service.said)))
    if misfit < SEPARABLE or not is_too_steady(chances, differ):
        return ""
    return (
        f"asked twice, {differ} of {len(chances)} labels changed where the fitted model expects {sum(chances):.0f}, "
        f"and it errs on {100 * misfit:.0f} %: the classes are not linear in these features, or the noise is sticky"
    )
