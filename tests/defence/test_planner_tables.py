"""Known-variance tables: inference against least squares, tails and prices against twins, bars by counting misses."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import gammaincc

from keyhole.defence.budget.loss import delta_of, epsilon_at, rho_within, textbook_rho
from keyhole.defence.planner.sizing import Rented, is_worth_a_table
from keyhole.defence.simulate.release import SeededNoise
from keyhole.defence.simulate.rule_planner import Rule, RulePlanner, most_noise
from keyhole.defence.tables.error_bars import ErrorLaw, normal_quantile
from keyhole.defence.tables.inference import Functional
from keyhole.defence.tables.noisy_tables import (
    COUNT,
    BoughtTable,
    Dose,
    Generation,
    NoiseLaw,
    Quantity,
    noise_for,
    price,
)

SIZES = {"a": 2, "b": 3, "c": 4}


def least_squares(tables: list[BoughtTable], n: float) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """The twin: generalised least squares over all cells, with n known (as a very precise row)."""
    rows, seen, weights = [], [], []
    for table in tables:
        precision = table.precision(table.doses[0])
        for cell in np.ndindex(*table.values[0].shape):
            row = np.zeros(tuple(SIZES.values()))
            row[tuple(cell[table.names.index(k)] if k in table.names else slice(None) for k in SIZES)] = 1
            rows.append(row.ravel())
            seen.append(table.values[0][cell])
            weights.append(precision)
    a, w = np.array([*rows, np.ones(24)]), np.array([*weights, 1e7])
    covariance = np.linalg.inv(a.T @ (w[:, None] * a))
    return covariance @ (a.T @ (w * np.array([*seen, n]))), covariance


@pytest.mark.parametrize("seed", range(4))
def test_inference_by_residuals_is_least_squares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 60, tuple(SIZES.values()))
    made = Generation(int(true.sum()))
    for names in (("a", "b"), ("b", "c"), ("a", "b", "c"), ("b",), ("b", "c")):
        margin = true.sum(axis=tuple(k for k, name in enumerate(SIZES) if name not in names))
        variance = Fraction(int(rng.integers(20, 400)))
        values = margin + np.rint(rng.normal(0, math.sqrt(variance), margin.shape)).astype(np.int64)
        made.add(BoughtTable(names, "gaussian", (Dose(COUNT, variance),), (values,)))
    best, covariance = least_squares(made.tables, float(true.sum()))
    for kept in (rng.random((2, 3, 4)) < 0.5, np.outer([1, 0], [0, 1, 1]).astype(bool)[:, :, None] & np.ones(4, bool)):
        whole = np.broadcast_to(kept, (2, 3, 4))
        asked, w = Functional.of(("a", "b", "c"), whole), whole.astype(float).ravel()
        assert float(made.value(COUNT, asked)) == pytest.approx(w @ best, rel=1e-3, abs=0.05)
        assert made.variance(COUNT, asked) == pytest.approx(w @ covariance @ w, rel=1e-3)
    grouped = Functional.of(("a", "b"), np.ones((2, 3), dtype=bool), (1,))
    for b, value in enumerate(made.value(COUNT, grouped)):
        w = np.zeros((2, 3, 4))
        w[:, b] = 1
        assert float(value) == pytest.approx(w.ravel() @ best, rel=1e-3, abs=0.05)
        assert made.variance(COUNT, grouped) == pytest.approx(w.ravel() @ covariance @ w.ravel(), rel=1e-3)


@pytest.mark.parametrize("terms", [1, 2, 3, 8, 60])
def test_tails_of_equal_laplace_terms_are_the_closed_form(terms: int) -> None:
    def beyond(x: float) -> float:
        return 2 * sum(
            math.comb(terms - 1 + k, k) * 2.0 ** -(terms + k) * gammaincc(terms - k, x) for k in range(terms)
        )

    for beta in (0.05, 0.001):
        bar = ErrorLaw(0.0, ((1.0, terms),)).bar(beta)
        assert beyond(bar) == pytest.approx(beta, rel=1e-5)
        narrow = normal_quantile(beta) * math.sqrt(2 * terms)  # the liar
        assert terms > 8 or beta > 0.01 or beyond(narrow) > 1.2 * beta


def test_tails_of_mixtures_hold_in_simulation() -> None:
    rng = np.random.default_rng(5)
    law = ErrorLaw(3.0, ((2.0, 2), (0.7, 5)))
    draws = rng.normal(0, math.sqrt(3), 200_000)
    for scale, times in law.laplace:
        draws += rng.laplace(0, scale, (times, draws.size)).sum(axis=0)
    assert np.mean(np.abs(draws) > law.bar(0.05)) == pytest.approx(0.05, abs=0.003)


AGE, PAY = Quantity("age", 3), Quantity("pay", 2)


@pytest.mark.parametrize("quantities", [(COUNT,), (AGE,), (COUNT, AGE), (COUNT, AGE, PAY), (AGE, PAY)])
@pytest.mark.parametrize("form", ["table", "number"])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_prices_are_the_largest_difference_of_neighbouring_tables(
    quantities: tuple[Quantity, ...], form: str, neighbours: str, law: NoiseLaw
) -> None:
    """Brute force: all people (cell or outside, values), all pairs of them, or one alone."""
    noise = {m: Fraction(7 + 3 * at) for at, m in enumerate(quantities)}
    doses = [Dose(m, n) for m, n in noise.items()]
    cells = 3 if form == "table" else 1
    grids = [range(-m.reach, m.reach + 1, 2) if m != COUNT else (1,) for m in quantities]
    people = [()] if form == "number" else []  # a person outside the condition of a number
    people += [(cell, *u) for cell in range(cells) for u in itertools.product(*grids)]

    def vector(person: tuple[int, ...]) -> np.ndarray:  # type: ignore[type-arg]
        found = np.zeros((len(quantities), cells), dtype=object)
        if person:
            found[:, person[0]] = person[1:]
        return found

    nobody = [vector(())] if neighbours == "add-remove" else [vector(p) for p in people]
    most = Fraction(0)
    for mine, other in itertools.product([vector(p) for p in people], nobody):
        moved = [[abs(int(x)) for x in row] for row in mine - other]
        if law == "gaussian":
            here = sum(Fraction(x * x) / (2 * d.noise) for row, d in zip(moved, doses, strict=True) for x in row)
        else:
            here = sum(Fraction(x) / d.noise for row, d in zip(moved, doses, strict=True) for x in row)
        most = max(most, here)
    found = price(doses, law, form, neighbours).amount  # type: ignore[arg-type]
    assert found == most
    back = noise_for(found, quantities, law, form, neighbours)  # type: ignore[arg-type]
    assert price(back, law, form, neighbours).amount <= found  # type: ignore[arg-type]


def test_the_tight_conversion_is_outward_and_larger_than_the_textbook_one() -> None:
    rho = rho_within(1, "1e-6")
    assert round(float(rho), 5) == 0.02436
    assert delta_of(float(rho), 1.0) <= 1e-6 < delta_of(float(rho) * 1.001, 1.0)
    assert round(float(textbook_rho(1, "1e-6")), 5) == 0.01747
    assert float(epsilon_at(rho, "1e-6")) == pytest.approx(1, rel=1e-4)
    exact = min(
        math.exp((a - 1) * (a * 0.02 - 1) + a * math.log1p(-1 / a)) / (a - 1) for a in np.linspace(1.01, 60, 100_000)
    )
    assert delta_of(0.02, 1.0) == pytest.approx(exact, rel=1e-6)


def test_ski_rental_never_pays_more_than_twice_the_better_way() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        number, table = Fraction(1), Fraction(int(rng.integers(1, 60)), int(rng.integers(1, 5)))
        paid, questions, bought = Fraction(0), 0, False
        for questions in range(1, 40):
            if not bought:
                bought = is_worth_a_table(table, number, Rented(paid, questions - 1))
                paid += table if bought else number
            assert paid <= 2 * min(questions * number, max(table, number))


def test_a_rule_is_kept_and_paid_within_twice_the_better_way() -> None:
    rng = np.random.default_rng(2)
    sizes = {"a": 2, "b": 4}
    table = rng.multinomial(5000, rng.dirichlet(np.ones(8))).reshape(2, 4)
    truth = {("a", "b"): table, ("a",): table.sum(axis=1), ("b",): table.sum(axis=0)}
    rule = Rule(5000, 100.0, 0.05, "epsilon")
    whole = rule.price(most_noise(Generation(5000), ("a", "b"), [], rule, sizes, everything=True))
    outside, runs = 0, 60
    for seed in range(runs):
        play = RulePlanner(rule, sizes, truth, SeededNoise(np.random.default_rng(seed)))
        said, true = 0.0, 0.0
        pool = np.array(list(itertools.product(range(1, 4), range(1, 15))))
        for a, b in np.random.default_rng(1000 + seed).choice(pool, 50).tolist():  # in an order of its own, repeats too
            pairs = [(n, m, s) for n, m, s in (("a", a, 2), ("b", b, 4)) if m < 2**s - 1]
            vectors = [np.array([float(m >> k & 1) for k in range(s)]) for _, m, s in pairs]
            question = Functional.product(tuple(n for n, _, _ in pairs), vectors)
            said, true = play.ask(question, (a, b)), float(question.within(truth[question.names].astype(float)))
            assert play.spent <= 2 * min(len(play.asked) * rule.number(), whole)  # at every prefix
        assert play.against_better(whole) <= 2
        outside += abs(said - true) > 100
    assert outside <= 0.05 * runs + 4.2 * math.sqrt(0.05 * 0.95 * runs)
