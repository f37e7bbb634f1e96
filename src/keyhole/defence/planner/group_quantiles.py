"""Quantiles of every group of a GROUP BY, bought together: a person is in one group, so groups share their price.

Whoever is replaced moves within his group, which moves that group's scores by 1 at most; or he leaves one group and
enters another, which moves the scores of each by m = max(q, 1 - q) at most (he is taken from one and added to the
other). So all groups together cost max(1, 2 m) epsilon, or max(1, 2 m^2) epsilon^2 / 8 of zCDP, where one alone costs 1
epsilon or epsilon^2 / 8: medians of all groups cost what one median does. Under add-remove he is in one group alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod

from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import Loss, Neighbours, Unit, round_down, round_up
from keyhole.defence.noise import check_scale
from keyhole.defence.planner.choice import Chooser
from keyhole.defence.planner.layout import lay_out_for_purchase
from keyhole.defence.planner.purchases import Buyer
from keyhole.defence.planner.quantiles import (
    BoughtQuantile,
    draw_quantile,
    epsilon_for_ranks,
    epsilon_of,
    get_sensitivity,
    loss_of_epsilon,
    recall_quantiles,
)
from keyhole.defence.planner.wanted import WantedNumber, WantedStatement
from keyhole.defence.workload import GroupKey
from keyhole.errors import UnsupportedQuery
from keyhole.model.predicate import Comparison, make_and

MOST_RANKED = 500  # groups: each is read and drawn by itself


def price_in_groups(level: Fraction, unit: Unit, neighbours: Neighbours) -> Fraction:
    """What all groups cost, over the price of one.

    >>> [str(price_in_groups(Fraction(q), "rho", "replace-one")) for q in ("1/2", "3/4")]
    ['1', '9/8']
    """
    if neighbours == "add-remove":
        return Fraction(1)
    m = max(level, 1 - level)
    return max(Fraction(1), 2 * m if unit == "epsilon" else 2 * m * m)


@dataclass(frozen=True, slots=True, eq=False)
class GroupOrder:
    """One quantile of every group, before it is bought: the price of all, and with which epsilon each is chosen."""

    wanted: WantedNumber
    loss: Loss
    one: Loss

    def __str__(self) -> str:
        return f"{self.wanted.label} of every group by the exponential mechanism"


def check_groups(question: WantedStatement, chooser: Chooser) -> None:
    """Refuse what is not built; from the statement and the declaration alone."""
    if any(w.kind != "quantile" for w in question.wanted) or len(question.sets) != 1:
        label = next(w.label for w in question.wanted if w.kind == "quantile")
        raise UnsupportedQuery(
            f"{label} with GROUP BY: quantiles of groups are asked in a statement of their own, with one set of groups"
        )
    groups = prod(len(chooser.columns.key_values(column)) for _, column in question.sets[0])
    if groups > MOST_RANKED:
        raise UnsupportedQuery(f"quantiles of {groups} groups; at most {MOST_RANKED}")
    for _, wanted in list_groups(question, chooser):
        for each in wanted:
            lay_out_for_purchase(each, (), chooser.columns)


def list_groups(question: WantedStatement, chooser: Chooser) -> Iterator[tuple[GroupKey, tuple[WantedNumber, ...]]]:
    """Every declared group, and each quantile under its condition: the same as if it were asked with WHERE."""
    (keys,) = question.sets
    for values in product(*(chooser.columns.key_values(column) for _, column in keys)):
        if not question.admits(keys, values):
            continue
        own = tuple(Comparison(column, "=", value) for (_, column), value in zip(keys, values, strict=True))
        named = tuple((name, value) for (name, _), value in zip(keys, values, strict=True))
        yield named, tuple(replace(w, where=make_and(w.where, *own)) for w in question.wanted)


def recall_groups(
    question: WantedStatement, chooser: Chooser, analyst: str | None
) -> list[tuple[GroupKey, list[BoughtQuantile]]] | None:
    """The best that was released of every group, if there is one of each, not vague, that is good enough."""
    beta, target, groups = chooser.terms.beta, chooser.target(), []
    half = chooser.usefulness.half
    for key, wanted in list_groups(question, chooser):
        best = []
        for each in wanted:
            known = sorted(recall_quantiles(chooser.purchases.ledger, each, analyst), key=lambda q: q.ranks(beta))
            if not known or (half is not None and known[0].ranks(beta) > half):
                return None
            if target is not None and known[0].ranks(beta) > target:
                return None
            best.append(known[0])
        groups.append((key, best))
    return groups


def order_groups(question: WantedStatement, chooser: Chooser, analyst: str | None) -> list[GroupOrder]:
    """What is bought for the share of one question, or for the accuracy asked for; each level by itself."""
    unit, neighbours, target, beta = chooser.unit, chooser.neighbours, chooser.target(), chooser.terms.beta
    orders = []
    for wanted in question.wanted:
        times = price_in_groups(wanted.level, unit, neighbours)
        if target is not None:
            epsilon = epsilon_for_ranks(target, beta, chooser.columns.number(wanted.column).steps + 1)
            one = loss_of_epsilon(round_up(epsilon), unit, neighbours, exact_epsilon=True)
        else:
            spend = round_down(chooser.share(analyst) / len(question.wanted) / times, 6)
            one = loss_of_epsilon(spend, unit, neighbours)
        check_scale(
            2 * get_sensitivity(wanted.level, neighbours) / epsilon_of(one)
        )  # drawn at all, before it is charged
        orders.append(GroupOrder(wanted, Loss(unit, one.amount * times, Fraction(0), neighbours), one))
    return orders


def price_orders(orders: Sequence[GroupOrder], ledger: Ledger) -> Loss:
    """What a person pays for all of them."""
    amounts = (ledger.per_person(order.loss).amount for order in orders)
    return replace(orders[0].loss, amount=sum(amounts, Fraction(0)))


def explain_not_sold(orders: Sequence[GroupOrder], chooser: Chooser) -> str:
    """Why they are not sold; empty if they are."""
    for order in orders:
        price = chooser.purchases.ledger.cap.say(order.loss.amount)
        if why := chooser.usefulness.explain_quantile(order.wanted, order.one, price, tree=False):
            return why
    return ""


def buy_groups(
    buyer: Buyer, chooser: Chooser, question: WantedStatement, orders: Sequence[GroupOrder], analyst: str | None
) -> None:
    """Charge for all groups, then read, choose and write down one by one; on the open page."""
    buyer.ledger.check(price_orders(orders, buyer.ledger), analyst=analyst)  # all levels, or none
    for at, order in enumerate(orders):
        paid = buyer.ledger.per_person(order.loss)
        buyer.ledger.spend(paid, analyst=analyst, what=f"{order}: {question.sql}")
        charge = buyer.ledger.charged[-1]
        for _, wanted in list_groups(question, chooser):
            layout = lay_out_for_purchase(wanted[at], (), chooser.columns)
            draw_quantile(buyer, layout, epsilon_of(order.one), charge, analyst, question.sql)
    buyer.purchases.refresh()
