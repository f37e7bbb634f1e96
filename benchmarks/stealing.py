"""Stealing linear classifiers by labels: against logistic regression on random questions, at equal labels.

python -m benchmarks.stealing              # the grid, 20 seeds
python -m benchmarks.stealing --seeds 3    # quicker

Angles in degrees, means over seeds; inputs are standard normal, scores have deviation 1, the noise is on the score of
every answer. Where adversarial-robustness-toolbox can be imported, its CopycatCNN and KnockoffNets run in the same run
with a logistic regression as the thief (its FunctionallyEquivalentExtraction takes neural networks only).
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.oracle import Rows, table
from keyhole.oracles.learners.classifier import NoisyScores, measure_angle, steal_classifier
from keyhole.oracles.noise import Floats

DIMENSIONS, NOISE, LABELS = (5, 30), (0.0, 0.25, 0.5, 1.0, 2.0), (300, 1000, 3000)


class Thief(LogisticRegression):  # type: ignore[misc]
    """Logistic regression that lets a neural network's arguments pass."""

    def fit(self, X: Floats, y: Floats, **_: Any) -> Thief:
        """Fit, whatever else is said."""
        super().fit(X, y)
        return self


def toolbox(server: NoisyScores, X: Floats) -> dict[str, Floats]:
    """The toolbox's extraction attacks on the same random questions; nothing where it is not installed."""
    try:
        from art.attacks.extraction import CopycatCNN, KnockoffNets  # type: ignore[import-not-found]
        from art.estimators.classification import BlackBoxClassifier  # type: ignore[import-not-found]
        from art.estimators.classification.scikitlearn import (  # type: ignore[import-not-found]
            ScikitlearnLogisticRegression,
        )
    except ImportError:
        return {}
    found = {}
    for attack in (CopycatCNN, KnockoffNets):
        victim = BlackBoxClassifier(lambda Z: np.eye(2)[server.predict(Z).astype(int)], (X.shape[1],), 2)
        start = Thief(max_iter=1000).fit(X[:2], np.array([0, 1]))
        n = len(X)
        play = attack(victim, n, n, nb_epochs=1, nb_stolen=n, use_probability=False)
        stolen = play.extract(X, None, thieved_classifier=ScikitlearnLogisticRegression(start))
        found[attack.__name__] = stolen.model.coef_[0]
    return found


def cell(D: int, std: float, labels: int, seeds: int) -> dict[str, Any]:
    """One row of the grid."""
    angles: dict[str, list[float]] = {}
    offsets: dict[str, list[float]] = {}
    method = ""
    for seed in range(seeds):
        rng = np.random.default_rng([seed, D, labels, int(100 * std)])
        w = rng.standard_normal(D)
        w, b = w / np.linalg.norm(w), 0.5 * float(rng.standard_normal())
        server = NoisyScores(w, b, std, rng=np.random.default_rng([seed, 1]))
        X = rng.standard_normal((labels, D))
        stolen = steal_classifier(
            lambda x, server=server: int(server.predict(x[None])[0]),  # type: ignore[misc]
            X[:500], queries=labels, noise_std=None, rng=np.random.default_rng([seed, 2]),
        )  # fmt: skip
        model, method = LogisticRegression(max_iter=1000).fit(X, server.predict(X)), stolen.method
        both = {"keyhole": (stolen.weights, stolen.intercept), "logistic": (model.coef_[0], float(model.intercept_[0]))}
        for name, (weights, intercept) in both.items():
            angles.setdefault(name, []).append(measure_angle(weights, w))
            offsets.setdefault(name, []).append(abs(intercept / float(np.linalg.norm(weights)) - b))
        for name, weights in toolbox(server, X).items():
            angles.setdefault(name, []).append(measure_angle(weights, w))
    mean = {name: float(np.mean(values)) for name, values in angles.items()}
    return {
        "D": D, "noise": std, "labels": labels, "method": method, **mean, "ratio": mean["keyhole"] / mean["logistic"],
        "offset": float(np.mean(offsets["keyhole"])), "offset_logistic": float(np.mean(offsets["logistic"])),
    }  # fmt: skip


def main() -> None:
    """Print the grid."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")
    rows: Rows = [cell(D, std, n, seeds) for D in DIMENSIONS for std in NOISE for n in LABELS]
    print(table(rows))
    ratios = [row["ratio"] for row in rows]
    print(
        f"\nworst ratio {max(ratios):.3f}; "
        f"better than logistic regression in {sum(r < 1 for r in ratios)} of {len(ratios)}"
    )


if __name__ == "__main__":
    main()
