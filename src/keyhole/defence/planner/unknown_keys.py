"""GROUP BY keys that nobody declared: noise decides which of them are shown, at the price of a little delta.

A key is kept if its noisy count reaches a threshold T. Whoever is alone with a key is then shown with probability delta
at most; every other key is in both of two neighbouring tables, and its noisy count is an ordinary release.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from keyhole.defence.budget.ledger import KeptRelease, Ledger, Purchase
from keyhole.defence.budget.loss import Loss
from keyhole.defence.planner.choice import Chooser
from keyhole.defence.planner.layout import lay_out_for_purchase
from keyhole.defence.planner.purchases import Buyer
from keyhole.defence.planner.sizing import find_noise
from keyhole.defence.planner.wanted import WantedStatement
from keyhole.defence.tables.noisy_tables import COUNT, LAWS, Dose, NoiseLaw, check_drawable, noise_for, price
from keyhole.defence.workload import Estimate, GroupKey
from keyhole.errors import BudgetExhausted
from keyhole.model.predicate import format_literal, format_predicate, quote_name

SHARE = Fraction(1, 10)  # of what is left of the delta for keys, on one question


def bound_tail(reach: int, noise: Fraction, law: NoiseLaw) -> float:
    """A bound on the chance that one draw of noise is `reach` or more; reach >= 1.

    Discrete Laplace: q^reach / (1 + q) with q = exp(-1/scale), exactly. Discrete Gaussian: its normalising sum is at
    least sqrt(2 pi v), and a sum of a falling function at most its first term and the integral.

    >>> round(bound_tail(10, Fraction(2), "laplace"), 5), bound_tail(60, Fraction(100), "gaussian") < 1e-8
    (0.00419, True)
    """
    if law == "laplace":
        q = math.exp(-1 / float(noise))
        return q**reach / (1 + q) * (1 + 1e-9)
    root = math.sqrt(2 * math.pi * float(noise))
    first = math.exp(-(reach**2) / (2 * float(noise))) / max(1.0, root)
    return (first + math.erfc(reach / math.sqrt(2 * float(noise))) / 2) * (1 + 1e-9)


def find_threshold(noise: Fraction, law: NoiseLaw, delta: Fraction, rows: int) -> int:
    """The smallest T with which keys that one person brings are shown with probability delta at most.

    He has `rows` rows at most, so as many keys, each with a count of at most as many: rows * P(Z >= T - rows) <= delta.

    >>> find_threshold(Fraction(10), "laplace", Fraction(1, 10**6), 1)
    133
    """
    low, high = 0, 1
    while rows * bound_tail(high, noise, law) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if rows * bound_tail(middle, noise, law) > delta else (low, middle)
    return rows + high


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """A purchase of keys, before it is made: its noise, its threshold and its price follow from public things."""

    dose: Dose
    law: NoiseLaw
    delta: Fraction
    least: int
    loss: Loss

    def __str__(self) -> str:
        return f"keys with a noisy count of at least {self.least} ({self.law}, delta {float(self.delta):.3g})"


def order_keys(chooser: Chooser, analyst: str | None) -> KeyOrder:
    """What is bought for the share of one question, or for the accuracy asked for."""
    ledger, unit, neighbours = chooser.purchases.ledger, chooser.unit, chooser.neighbours
    law, delta = LAWS[unit], ledger.delta_left() * SHARE
    if delta <= 0:
        raise BudgetExhausted(
            "nothing is left of the delta for keys: nothing was spent; declare the keys", remaining=delta, requested=0
        )
    target = chooser.target()
    if target is not None:
        dose = Dose(COUNT, find_noise(max(target - 0.5, 0.5), chooser.terms.beta, law))
    else:
        (dose,) = noise_for(chooser.share(analyst), [COUNT], law, "table", neighbours)
    check_drawable([dose], law)
    paid = ledger.per_person(price([dose], law, "table", neighbours))
    loss = Loss(paid.unit, paid.amount, delta, paid.neighbours)
    return KeyOrder(dose, law, delta, find_threshold(dose.noise, law, delta, ledger.rows), loss)


def key_mark(question: WantedStatement) -> str:
    """Under what released keys are kept."""
    return f"keys {question.mark}"


def recall_keys(ledger: Ledger, question: WantedStatement, analyst: str | None) -> KeptRelease | None:
    """The keys that were released before to this question, if the analyst may be told."""
    return next(iter(ledger.recall(key_mark(question), analyst)), None)


def buy_keys(buyer: Buyer, chooser: Chooser, question: WantedStatement, analyst: str | None) -> KeyOrder:
    """Charge, count, draw, keep; on the open page."""
    order = order_keys(chooser, analyst)
    ledger = buyer.ledger
    ledger.spend(order.loss, analyst=analyst, what=f"{order}: {question.sql}")
    charge = ledger.charged[-1]
    (wanted,) = question.wanted
    layout = lay_out_for_purchase(wanted, (), chooser.columns)
    draw = buyer.noise.gaussian if order.law == "gaussian" else buyer.noise.laplace
    kept = []
    for key, count in buyer.margins.keys(question.unknown, [a.column for a in layout.axes], layout.count):
        seen = count + draw(order.dose.noise)
        if seen >= order.least:
            kept.append([list(key), seen])
    made: dict[str, Any] = {
        "kind": "keys", "keys": kept, "noise": str(order.dose.noise), "law": order.law, "least": order.least,
        "lines": list(_write_lines(buyer.table, question, kept, order)),
    }  # fmt: skip
    ledger.remember(key_mark(question), made, Purchase(question.sql, 0, analyst, (charge,)), made)
    buyer.purchases.refresh()
    return order


def _write_lines(table: str, question: WantedStatement, kept: list[Any], order: KeyOrder) -> Iterator[str]:
    """What was released, as lines of a transcript."""
    noise = order.dose.transcript_noise(order.law)
    where = format_predicate(question.wanted[0].where)
    for key, seen in kept:
        own = " AND ".join(
            f"{quote_name(c)}::VARCHAR = {format_literal(v)}" for c, v in zip(question.unknown, key, strict=True)
        )
        sql = f"SELECT COUNT(*) FROM {quote_name(table)} WHERE ({where}) AND {own}"
        yield json.dumps({"sql": sql, "answer": seen, "noise": noise}, ensure_ascii=False)


def list_groups(
    kept: KeptRelease, question: WantedStatement, beta: float
) -> Iterator[tuple[GroupKey, tuple[Estimate, ...]]]:
    """Every key that was kept, with its noisy count and the bar of one draw."""
    law = Dose(COUNT, Fraction(kept.answer["noise"])).error_law(kept.answer["law"])
    bar = Fraction(law.bar(beta)).limit_denominator(10**9) + Fraction(1, 10**9)
    names = [key.name for key in question.statement.keys]
    for key, seen in kept.answer["keys"]:
        yield tuple(zip(names, key, strict=True)), (Estimate(Fraction(seen), bar),)


def describe_keys(kept: KeptRelease) -> str:
    """What must be known of such an answer."""
    return (
        f"nobody declared the keys: those with a noisy count of at least {kept.answer['least']} are shown, records "
        "without a value in none; a count near that bound leans upward, since it was chosen by its noise: declare the "
        "keys for bars that hold for each"
    )
