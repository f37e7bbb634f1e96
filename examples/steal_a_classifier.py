"""Steal a linear classifier that returns nothing but labels, with randomised scores as its defence.

    python examples/steal_a_classifier.py            # a table
    python examples/steal_a_classifier.py error.html # and a plot (.html or .svg)

The model is a scikit-learn LogisticRegression on the breast cancer data that ships with scikit-learn: 30 features. The
thief has unlabelled inputs and may ask for labels at inputs that it makes up. Needs scikit-learn.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from keyhole.oracles.learners.classifier import NoisyScores, measure_angle, steal_classifier
from keyhole.report.charts.figures import draw_errors
from keyhole.report.html.page import write_chart


def main() -> None:
    """Train, defend, steal, compare."""
    inputs, classes = load_breast_cancer(return_X_y=True)
    inputs = StandardScaler().fit_transform(inputs)
    served, thief = slice(0, 400), slice(400, None)
    model = LogisticRegression(max_iter=1000).fit(inputs[served], classes[served])
    w, b = model.coef_[0], float(model.intercept_[0])
    print(f"served model: 30 features, ||w|| = {np.linalg.norm(w):.3f}, scores vary by {np.std(inputs @ w + b):.1f}")
    curves: dict[str, list[tuple[float, float]]] = {}
    for std in (0.0, 1.0, 4.0, 16.0):
        # undefended, the model itself answers; defended, its scores get noise. Only labels leave the server.
        server = NoisyScores(w, b, std, rng=np.random.default_rng(1)) if std else model
        stolen = steal_classifier(
            lambda x, server=server: int(server.predict(x[None, :])[0]),  # type: ignore[misc]
            inputs[thief],
            queries=20_000,
            noise_std=std or None,
            rng=np.random.default_rng(0),
        )
        print(f"\nnoise on every score: {std:g}")
        print(f"{'labels asked':>14}  {'angle (degrees)':>15}  {'agreement':>9}")
        truth = inputs @ w + b > 0
        for asked, weights, intercept in stolen.trace:
            agreement = float(np.mean((inputs @ weights + intercept > 0) == truth))
            print(f"{asked:>14,}  {measure_angle(weights, w):>15.3f}  {agreement:>9.4f}")
        if stolen.scale is not None:
            length = stolen.scale * float(np.linalg.norm(stolen.weights))
            print(f"noise scale known, so length too: ||w|| = {length:.3f}")
        else:
            print(f"length of w not claimed: {stolen.no_scale}")
        curves[f"noise {std:g}"] = [(n, max(1e-4, measure_angle(weights, w))) for n, weights, _ in stolen.trace]
    for name in sys.argv[1:2]:
        title = "Stealing a classifier from labels"
        drawing = draw_errors(curves, x="labels asked", y="angle to the true weights, degrees")
        write_chart(drawing, Path(name), title=title)
        print(f"\nplot: {name}")


if __name__ == "__main__":
    main()
