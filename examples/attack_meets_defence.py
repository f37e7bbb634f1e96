"""The same attack on exact and on defended answers: how many people's bit comes out, against epsilon.

python examples/attack_meets_defence.py [--people 80] [--questions 320] [--seeds 3] [--plot FILE] [--format text|json]

Every person has a private 0/1 value. Somebody asks SUM(bit) over random halves of the people and reconstructs the bits
from the answers: by least squares, and by maximum likelihood within 0..1. The defended database answers the same
questions with exact discrete Laplace noise, the whole budget epsilon shared out over them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

from keyhole.attacks.base import Attack, Target
from keyhole.attacks.experiment import ExactResponder, Responder, play_attack, score_reconstruction
from keyhole.attacks.methods.bounded import Bounded
from keyhole.attacks.methods.least_squares import LeastSquares
from keyhole.config import Columns, PrivateColumn, PublicColumn
from keyhole.datasets import load
from keyhole.defence.answering import Defended
from keyhole.defence.budget.budget import epsilon_budget
from keyhole.defence.declared_domain import declare_domain
from keyhole.defence.histogram import CountedHistogram
from keyhole.defence.mechanisms.laplace import Laplace
from keyhole.model.prior import Knowledge
from keyhole.model.query import Query
from keyhole.model.schema import Schema
from keyhole.report.charts.figures import draw_recovery
from keyhole.report.html.page import write_chart
from keyhole.sql import lower_statement

ATTACKS = ("least-squares", "bounded")
EPSILONS = (1, 3, 10, 30, 100, 300, 1000)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One attack on answers that cost `epsilon` in all (None: exact answers), and what a blind guess scores."""

    attack: str
    epsilon: int | None
    recovered: float
    guess: float


def experiment(people: int, questions: int, seed: int) -> list[Outcome]:
    """Both attacks on all responders, for one table and one list of questions."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, people)
    bit = PrivateColumn(min=Decimal(0), max=Decimal(1), step=Decimal(1))
    roles = Columns(public={"person": PublicColumn(min=Decimal(1), max=Decimal(people))}, private={"bit": bit})
    source = load(pd.DataFrame({"person": np.arange(1, people + 1), "bit": bits}), roles)
    domain = declare_domain(roles, source.schema)
    histogram = CountedHistogram(source, domain, "replace-one")
    asked = [half(rng, people, source.schema) for _ in range(questions)]
    known = Target("bit", people, bit.known())
    found = []
    for epsilon in (None, *EPSILONS):
        for name in ATTACKS:
            responder: Responder = ExactResponder(source)
            if epsilon is not None:
                each = Fraction(epsilon, questions)
                responder = Defended(domain, histogram, Laplace(histogram, epsilon_budget(epsilon), each))
            # Least squares takes no bounds; its guesses are rounded to 0 or 1 when they are scored.
            attack: Attack = LeastSquares(Target("bit", people)) if name == "least-squares" else Bounded(known)
            knowledge = Knowledge() if name == "least-squares" else Knowledge({"bit": bit.known()})
            guess = play_attack(
                attack, responder, source.roster, rounds=questions, questions=asked, knowledge=knowledge
            )
            marks = score_reconstruction(guess, bits, known)
            found.append(Outcome(name, epsilon, marks.exact, marks.majority_exact))
    return found


def half(rng: np.random.Generator, people: int, schema: Schema) -> Query:
    """SUM(bit) over a random half of the people."""
    chosen = np.flatnonzero(rng.integers(0, 2, people)) + 1
    listed = ", ".join(map(str, chosen)) or "1"
    return lower_statement(f"SELECT SUM(bit) FROM people WHERE person IN ({listed})", schema).queries[0]


def main() -> int:
    """Run, print, and plot if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=80)
    parser.add_argument("--questions", type=int, default=320)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    args = parser.parse_args()
    runs = [row for seed in range(args.seeds) for row in experiment(args.people, args.questions, seed)]
    guess = statistics.mean(row.guess for row in runs)
    means = [
        Outcome(
            name, epsilon, statistics.mean(r.recovered for r in runs if (r.attack, r.epsilon) == (name, epsilon)), guess
        )
        for epsilon in (None, *reversed(EPSILONS))
        for name in ATTACKS
    ]
    if args.format == "json":
        json.dump([asdict(m) for m in means], sys.stdout, indent=2)
        print()
    else:
        print(f"{args.people} people, {args.questions} questions, {args.seeds} seeds; a blind guess scores {guess:.3f}")
        print(f"{'epsilon':>10}  " + "  ".join(f"{name:>14}" for name in ATTACKS))
        for epsilon in (None, *reversed(EPSILONS)):
            shares = [f"{m.recovered:>14.3f}" for m in means if m.epsilon == epsilon]
            print(f"{'exact' if epsilon is None else epsilon:>10}  " + "  ".join(shares))
    if args.plot is not None:
        curves = {
            name: [(m.epsilon, m.recovered) for m in means if m.attack == name and m.epsilon is not None]
            for name in ATTACKS
        }
        exact = max(m.recovered for m in means if m.epsilon is None)
        drawing = draw_recovery(curves, {"exact answers": exact, "a blind guess": guess})
        write_chart(drawing, args.plot, title="Share of people recovered, against epsilon")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
