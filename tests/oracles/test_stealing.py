"""Stolen classifiers: as good as logistic regression at equal labels, sharp without noise, doubted where wrong."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_ndtr
from sklearn.linear_model import LogisticRegression

from keyhole.errors import ModelError
from keyhole.oracles import ModelWarning, steal_classes, steal_classifier
from keyhole.oracles.learners.classifier import NoisyScores, Probit, measure_angle
from keyhole.oracles.noise import Floats

R = np.random.default_rng
PLANE = R(11).standard_normal((300, 2))


def served(seed: int, D: int, std: float) -> tuple[Floats, float, NoisyScores]:
    rng = R([seed, D])
    w = rng.standard_normal(D)
    return (
        w / np.linalg.norm(w),
        float(0.5 * rng.standard_normal()),
        NoisyScores(w / np.linalg.norm(w), 0.0, std, rng=R([seed, 1])),
    )


@pytest.mark.parametrize(("std", "labels", "most"), [(0.5, 400, 0.9), (2.0, 400, 1.05)])
def test_at_equal_labels_it_is_no_worse_than_logistic_regression(std: float, labels: int, most: float) -> None:
    mine, theirs = 0.0, 0.0
    for seed in range(6):
        w, _, server = served(seed, 8, std)
        X = R([seed, 2]).standard_normal((labels, 8))
        stolen = steal_classifier(
            lambda x, server=server: int(server.predict(x[None])[0]), X, queries=labels, noise_std=None, rng=R(seed)
        )
        mine += measure_angle(stolen.weights, w)
        theirs += measure_angle(LogisticRegression(max_iter=1000).fit(X, server.predict(X)).coef_[0], w)
    assert mine <= most * theirs


def test_without_noise_half_a_degree_takes_376_labels_in_30_dimensions() -> None:
    off = []
    for seed in range(5):
        rng = R(seed)
        w, b = rng.standard_normal(30), 0.3
        stolen = steal_classifier(
            lambda x, w=w, b=b: int(x @ w + b > 0), rng.standard_normal((300, 30)),
            queries=376, noise_std=None, rng=rng,
        )  # fmt: skip
        assert stolen.method == "line search"
        assert stolen.queries <= 376
        off.append(measure_angle(stolen.weights, w))
        assert abs(stolen.intercept / np.linalg.norm(stolen.weights) - b / np.linalg.norm(w)) < 0.05
    assert np.mean(off) < 0.5


def test_the_intercept_is_good() -> None:
    off = []
    for seed in range(5):
        w, b = np.array([0.6, 0.8]), 0.4
        server = NoisyScores(w, b, 0.5, rng=R(seed))
        stolen = steal_classifier(
            lambda x, server=server: int(server.predict(x[None])[0]), PLANE, queries=600, noise_std=0.5, rng=R(seed)
        )
        assert stolen.scale is not None
        off.append(abs(stolen.intercept / np.linalg.norm(stolen.weights) - b))
        assert abs(stolen.scale * np.linalg.norm(stolen.weights) - 1) < 0.25
    assert np.mean(off) < 0.05


def circle(x: Floats) -> int:
    return int(x @ x > 1.4)


def exclusive_or(x: Floats) -> int:
    return int(x[0] * x[1] > 0)


def quadratic(x: Floats) -> Floats:
    return np.array([x[0], x[1], x[0] ** 2, x[1] ** 2, x[0] * x[1]])


@pytest.mark.parametrize("label", [circle, exclusive_or])
@pytest.mark.parametrize("seed", range(3))
def test_a_wrong_model_class_is_noticed_and_features_mend_it(label: object, seed: int) -> None:
    assert callable(label)
    with pytest.warns(ModelWarning, match="not linear in these features"):
        flat = steal_classifier(label, PLANE, queries=600, noise_std=None, rng=R(seed))
    assert flat.doubt
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mended = steal_classifier(label, PLANE, queries=600, noise_std=None, rng=R(seed), features=quadratic)
    assert np.mean(mended.predict(PLANE) == [label(x) for x in PLANE]) > 0.98


def test_honest_noise_is_not_doubted() -> None:
    doubted = 0
    for seed in range(8):
        _, _, server = served(seed, 4, 0.3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stolen = steal_classifier(
                lambda x, server=server: int(server.predict(x[None])[0]), R(seed).standard_normal((200, 4)),
                queries=400, noise_std=None, rng=R(seed),
            )  # fmt: skip
        doubted += bool(stolen.doubt)
    assert doubted == 0


def test_sticky_noise_is_doubted() -> None:
    """Noise drawn once an input: asked twice, nothing changes."""
    drawn: dict[bytes, float] = {}
    rng = R(4)

    def label(x: Floats) -> int:
        return int(x[0] + drawn.setdefault(x.tobytes(), float(rng.normal(0, 0.7))) > 0)

    with pytest.warns(ModelWarning, match="sticky"):
        assert steal_classifier(label, PLANE, queries=600, noise_std=None, rng=R(0)).doubt


def test_several_classes() -> None:
    W = R(0).standard_normal((3, 5))
    X = R(1).standard_normal((600, 5))
    stolen = steal_classes(lambda x: int(np.argmax(W @ x)), X, classes=3, queries=300, rng=R(2))
    assert np.mean(stolen.predict(X) == np.argmax(X @ W.T, axis=1)) > 0.97
    with pytest.warns(ModelWarning, match="not linear"):
        steal_classes(lambda x: int(min(2, np.linalg.norm(x) // 0.8)), PLANE, classes=3, queries=300, rng=R(3))
    with pytest.raises(ModelError, match="from 0 to 2"):
        steal_classes(lambda x: 7, PLANE, classes=3, queries=300, rng=R(3))
    with pytest.raises(ModelError, match="too few"):
        steal_classes(lambda x: 0, PLANE, classes=3, queries=10, rng=R(3))


def test_the_probit_mode_equals_a_general_optimiser() -> None:
    """Twin: the same penalised likelihood, maximised by scipy."""
    rng = R(9)
    X = np.column_stack([rng.standard_normal((200, 3)), np.ones(200)])
    y = (X @ np.array([1.0, -0.5, 0.2, 0.3]) + rng.standard_normal(200) > 0).astype(float)
    model = Probit(4)
    model.fit(X, y)
    signs = 2 * y - 1

    def loss(c: Floats) -> float:
        return -float(np.sum(log_ndtr(signs * (X @ c)))) + 0.5 * model.precision * float(c @ c)

    model._climb(X, signs)
    assert np.allclose(minimize(loss, np.zeros(4), tol=1e-10).x, model.c, atol=1e-4)
