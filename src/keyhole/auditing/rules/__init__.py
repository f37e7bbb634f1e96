"""The rules of an audit, in a row. Each only narrows what is known, and each claim carries its proof."""

from keyhole.auditing.exchange import exchange
from keyhole.auditing.known import Rule, Rules
from keyhole.auditing.numbers import Within
from keyhole.auditing.rules.counts import counts
from keyhole.auditing.rules.groups import groups
from keyhole.auditing.rules.integer import integer
from keyhole.auditing.rules.interval import interval
from keyhole.auditing.rules.linear import linear, persons, rest
from keyhole.auditing.rules.order import order, within_order
from keyhole.auditing.rules.squares import squares
from keyhole.auditing.rules.worlds import worlds


def quick_rules(within: Within | None = None) -> Rules:
    """The rules that search for nothing: they take a fixed number of passes over the answers."""
    return (linear, persons, squares, counts, within_order(within), rest)


def every_rule(within: Within | None = None, ranges: Rule | None = None) -> Rules:
    """All rules of an audit; `ranges` replaces the rule that searches for ranges. No other list of rules is kept.

    People are shown open by exchange, however near their values are: not where a width counts.
    """
    exchanges = () if within is not None else (exchange,)
    return (*quick_rules(within), *exchanges, ranges or interval(within), worlds(within), integer(within))


RULES: Rules = every_rule()

__all__ = [
    "RULES",
    "counts",
    "every_rule",
    "exchange",
    "groups",
    "integer",
    "interval",
    "linear",
    "order",
    "persons",
    "quick_rules",
    "rest",
    "squares",
]
