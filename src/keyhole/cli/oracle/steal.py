"""`keyhole oracle steal`: learn a classifier that answers with nothing but a label."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyhole.cli.oracle.attack import RATE, read_queries
from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import check_out, emit_json, emit_text
from keyhole.config.arguments import Format, OutputArguments
from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from keyhole.oracles.steal_target import Theft

SHOWN = 12  # weights of a class that are printed

HELP = """Steal a classifier that answers with nothing but a label.

TARGET is a web address that takes {"input": [...]} and says {"label": ...}, or a Python function MODULE:FUNCTION of an
input. --inputs are unlabelled inputs like those it is made for. Labels that never waver are bisected; labels that do
are asked near the boundary and fitted (probit; softmax for several classes). --seed draws other questions than seed 0.

What was stolen is compared with logistic regression on as many labels of random inputs: that asks --labels again, and
one label for each input that is kept back for the score (--score 0: neither).

\b
Examples
  keyhole oracle steal http://localhost:8000/classify --inputs mails.csv --labels 1000
  keyhole oracle steal served:classify --inputs plane.csv --labels 600 --features mine:squares --format json

\b
Exit code
  0 done (warnings included); 2 could not run.
"""


@options.command(
    "steal",
    HELP,
    click.Argument(["target"]),
    click.Option(
        ["--inputs"], type=options.FILE, required=True, help="Inputs: CSV with a header, or JSON lines of numbers."
    ),
    click.Option(
        ["--labels"], type=click.IntRange(min=1), default=1000, show_default=True, help="The most labels to steal with."
    ),
    click.Option(["--classes"], default="0,1", show_default=True, metavar="A,B,...", help="The words of the classes."),
    click.Option(["--features"], metavar="MODULE:FUNCTION", help="A map of an input that the classifier is linear in."),
    click.Option(
        ["--noise-std"],
        type=click.FloatRange(min=0, min_open=True),
        help="Deviation of the noise on the scores, if known.",
    ),
    click.Option(
        ["--score"], type=click.IntRange(min=0), default=200, show_default=True, help="Inputs kept back for the score."
    ),
    options.SEED,
    RATE,
    options.output(Format.TEXT, Format.JSON),
)
def steal(
    target: str,
    inputs: Path,
    labels: int,
    classes: str,
    features: str | None,
    noise_std: float | None,
    score: int,
    seed: int | None,
    rate: float | None,
    output: OutputArguments,
) -> None:
    """Ask, learn, compare, print."""
    import numpy as np

    from keyhole.oracles.steal_target import Service, TheftPlan, open_labels, steal_target

    check_out(output.out)
    words = tuple(word.strip() for word in classes.split(","))
    if len(words) < 2 or not all(words) or len(set(words)) < len(words):
        raise ConfigError(f"--classes {classes!r}: at least two different words, such as spam,ham")
    if noise_std is not None and len(words) > 2:
        raise ConfigError("--noise-std is for two classes: the scores of several have no one noise")
    names, rows = read_queries(inputs)
    plan = TheftPlan(labels, words, noise_std, _features(features), score, seed or 0)
    theft = steal_target(Service(open_labels(target), words, rate), np.array(rows), plan)
    if output.format is Format.JSON:
        emit_json(json.dumps(_json(theft), indent=2), output.out)
    else:
        emit_text("\n".join(_lines(theft, names if features is None else [])), output.out)


def _features(name: str | None) -> Any:
    if name is None:
        return None
    from keyhole.oracles.targets import import_named

    made = import_named("--features", name)
    if not callable(made):
        raise ConfigError(f"--features {name} is not a function of an input")
    return made


def _json(theft: Theft) -> dict[str, Any]:
    score = theft.score
    return {
        "method": theft.method,
        "classes": list(theft.classes),
        "labels": theft.labels,
        "asked": theft.asked,
        "weights": theft.weights.tolist(),
        "intercepts": theft.intercepts.tolist(),
        "scale": theft.scale,
        "doubt": theft.doubt,
        "score": None
        if score is None
        else {
            "inputs": score.inputs,
            "stolen": score.stolen,
            "logistic_regression": {"labels": theft.labels, "share": score.logistic},
        },
    }


def _lines(theft: Theft, names: list[str]) -> list[str]:
    lines = [f"stolen with {theft.labels:,} labels by {theft.method}: {len(theft.classes)} classes"]
    if theft.score is not None:
        s = theft.score
        lines.append(
            f"agrees with the target on {100 * s.stolen:.1f} % of {s.inputs} held-out inputs; logistic regression on "
            f"{theft.labels:,} labels of random inputs: {100 * s.logistic:.1f} % (both ± {100 * s.deviation:.1f})"
        )
    lines.append(f"{theft.asked:,} labels were asked in all; {theft.scale}")
    lines += [f"doubt: {theft.doubt}"] if theft.doubt else []
    named = theft.classes if len(theft.weights) > 1 else theft.classes[1:]
    for word, weights, intercept in zip(named, theft.weights, theft.intercepts, strict=True):
        shown = ", ".join(
            f"{names[k] if names else k + 1} {value:.4g}" for k, value in enumerate(weights[:SHOWN].tolist())
        )
        more = f", and {len(weights) - SHOWN} more (--format json)" if len(weights) > SHOWN else ""
        lines.append(f"{word}: {shown}{more}; intercept {intercept:.4g}")
    return lines
