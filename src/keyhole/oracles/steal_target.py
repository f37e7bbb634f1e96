"""Steal a classifier that answers with nothing but a label, from a living target, and say what it was worth.

What was stolen is held against logistic regression on as many labels of random inputs, both scored on inputs that
neither was taught.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from keyhole.errors import ConfigError, ModelError
from keyhole.oracles.base import ModelWarning
from keyhole.oracles.learners.classes import Softmax, StolenClasses, steal_classes
from keyhole.oracles.learners.classifier import StolenClassifier, steal_classifier
from keyhole.oracles.noise import Floats
from keyhole.oracles.recorded import PatientCaller
from keyhole.oracles.targets import HttpTarget, TargetDown, import_named, read_shape

Features = Callable[[Floats], Floats]
JITTER = 0.3  # deviations by which inputs are moved where there are fewer inputs than labels


class LabelTarget(Protocol):
    """Anything that names the class of an input."""

    name: str

    def label(self, x: Floats) -> object:
        """Its word for the class."""


class HttpLabels:
    """Posts {"input": [...]} and reads {"label": ...}; the label alone will do, too."""

    def __init__(self, url: str) -> None:
        self._target = HttpTarget(url)
        self.name = self._target.name

    def label(self, x: Floats) -> object:
        """Ask once."""
        said = self._target.post({"input": [float(v) for v in x]})
        return said.get("label") if isinstance(said, dict) else said


class FunctionLabels:
    """module:function, called as function(input)."""

    def __init__(self, name: str) -> None:
        function = import_named("TARGET", name)
        if not callable(function):
            raise ConfigError(f"TARGET {name} is not a function of an input")
        self._function: Callable[[Floats], object] = function
        self.name = name

    def label(self, x: Floats) -> object:
        """Call it once; ConnectionError and TimeoutError are `TargetDown`."""
        try:
            return self._function(x)
        except (ConnectionError, TimeoutError) as error:
            raise TargetDown(f"{self.name}: {type(error).__name__}") from None
        except Exception as error:  # its text may hold anything: it is not repeated
            raise ConfigError(f"{self.name} failed: {type(error).__name__}") from None


def open_labels(text: str) -> HttpLabels | FunctionLabels:
    """The target of this name: a web address or module:function."""
    if text.lower().startswith(("http://", "https://")):
        return HttpLabels(text)
    if "://" in text or ":" not in text:  # the first may hold a password: not repeated
        raise ConfigError("TARGET is http://HOST:PORT/PATH, or module:function")
    return FunctionLabels(text)


@dataclass(frozen=True, slots=True)
class TheftPlan:
    """How many labels to steal with, the words of the classes, the noise of the scores if it is known, a map of the
    inputs that the classifier is linear in, and how many inputs to keep for the score (0: no score, no comparison).
    """

    labels: int
    classes: tuple[str, ...] = ("0", "1")
    noise_std: float | None = None
    features: Features | None = None
    score: int = 200
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class TheftScore:
    """Shares of held-out inputs that get the target's label: from what was stolen, and from logistic regression."""

    inputs: int
    stolen: float
    logistic: float

    @property
    def deviation(self) -> float:
        """The larger standard error of the two shares: so many inputs tell them no more exactly."""
        return max(math.sqrt(share * (1 - share) / self.inputs) for share in (self.stolen, self.logistic))


@dataclass(frozen=True, slots=True, eq=False)
class Theft:
    """What was stolen: weights and intercepts, one row a class (one row alone for two classes)."""

    classes: tuple[str, ...]
    method: str
    weights: Floats
    intercepts: Floats
    labels: int
    asked: int
    scale: str
    doubt: str
    score: TheftScore | None


class Service:
    """A target asked politely: its labels as numbers of classes, counted."""

    def __init__(self, target: LabelTarget, classes: Sequence[str], rate: float | None = None) -> None:
        self._target, self._caller, self.asked = target, PatientCaller(rate), 0
        self._numbers = {word: k for k, word in enumerate(classes)}

    def label(self, x: Floats) -> int:
        """The number of the class; a word that is no class is an error."""
        said = self._caller.call(lambda: self._target.label(x))
        self.asked += 1
        number = self._numbers.get(write_label(said))
        if number is None:
            raise ModelError(
                f"{self._target.name} answered with {read_shape(said)}, which is none of the classes "
                f"{', '.join(self._numbers)}: state them with --classes"
            )
        return number


def write_label(said: object) -> str:
    """A label as a word: yes and no of any kind are 1 and 0, whole numbers have no point.

    >>> write_label(True), write_label(2.0), write_label("spam")
    ('1', '2', 'spam')
    """
    value = said.item() if isinstance(said, np.generic) else said
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, str | int) else ""


def steal_target(service: Service, inputs: Floats, plan: TheftPlan) -> Theft:
    """Ask `plan.labels` labels where they teach most; then score what was stolen, and logistic regression beside it.

    The comparison asks as many labels again, of inputs as they are given, and the score one label an input. All labels
    that were asked are counted in `Theft.asked`.

    >>> w = np.array([1.0, -2.0, 0.5])
    >>> class Exact:
    ...     name = "exact"
    ...     def label(self, x):
    ...         return int(w @ x > 0)
    >>> X = np.random.default_rng(0).standard_normal((300, 3))
    >>> theft = steal_target(Service(Exact(), ("0", "1")), X, TheftPlan(200, score=50))
    >>> theft.method, theft.score.stolen > 0.97, theft.score.stolen >= theft.score.logistic
    ('line search', True, True)
    """
    rows = np.asarray(inputs, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 4 or not np.all(np.isfinite(rows)):
        raise ModelError(f"inputs are finite numbers, one input a row, at least four; got shape {rows.shape}")
    rng = np.random.default_rng(plan.seed)
    kept = min(plan.score, len(rows) // 3)
    order = rng.permutation(len(rows))
    held_out, known = rows[order[:kept]], rows[order[kept:]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)  # `doubt` has them
        if len(plan.classes) == 2:
            stolen: StolenClassifier | StolenClasses = steal_classifier(
                service.label, known, queries=plan.labels, noise_std=plan.noise_std, rng=rng, features=plan.features
            )
        else:
            stolen = steal_classes(
                service.label, known, classes=len(plan.classes), queries=plan.labels, rng=rng, features=plan.features
            )
    labels = service.asked
    score = _score(service, stolen, known, held_out, plan, labels, rng) if kept else None
    if isinstance(stolen, StolenClassifier):
        scale = stolen.no_scale or "the noise is known, so the length of the weights is too"
        return Theft(
            plan.classes, stolen.method, stolen.weights[None, :], np.array([stolen.intercept]), labels, service.asked,
            scale, stolen.doubt, score,
        )  # fmt: skip
    scale = "weights of classes are known up to a common factor and shift"
    return Theft(
        plan.classes, "softmax", stolen.weights, stolen.intercepts, labels, service.asked, scale, stolen.doubt, score
    )


def _score(
    service: Service, stolen: StolenClassifier | StolenClasses, known: Floats, held_out: Floats, plan: TheftPlan,
    labels: int, rng: np.random.Generator,
) -> TheftScore:  # fmt: skip
    """Both on the held-out inputs; logistic regression learns `labels` labels of inputs as they come."""
    inputs = known[rng.permutation(len(known))[:labels]]
    if len(inputs) < labels:
        more = known[rng.integers(len(known), size=labels - len(inputs))]
        inputs = np.vstack([inputs, more + JITTER * known.std(axis=0) * rng.standard_normal(more.shape)])
    peer = LogisticRegression(known, plan.features, len(plan.classes))
    peer.fit(inputs, np.array([service.label(x) for x in inputs]))
    truth = np.array([service.label(x) for x in held_out])
    return TheftScore(
        len(held_out),
        float(np.mean(stolen.predict(held_out) == truth)),
        float(np.mean(peer.predict(held_out) == truth)),
    )


class LogisticRegression:
    """The usual one: softmax on standardised inputs (or features), with the usual penalty of one."""

    def __init__(self, sample: Floats, features: Features | None, classes: int) -> None:
        self._features = features
        seen = self._map(sample)
        self._middle, spread = seen.mean(axis=0), seen.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        self._model = Softmax(classes, seen.shape[1] + 1)

    def _map(self, rows: Floats) -> Floats:
        return rows if self._features is None else np.array([self._features(x) for x in rows], dtype=np.float64)

    def _rows(self, rows: Floats) -> Floats:
        return np.column_stack([(self._map(rows) - self._middle) / self._spread, np.ones(len(rows))])

    def fit(self, rows: Floats, labels: np.ndarray) -> None:
        """To the mode of these labels."""
        self._model.fit(self._rows(rows), labels)

    def predict(self, rows: Floats) -> np.ndarray:
        """Numbers of classes."""
        return np.asarray(np.argmax(self._model.chances(self._rows(rows)), axis=1))
