"""The rules of an audit, in a row. Each only narrows what is known, and each claim carries its proof."""

from keyhole.audit.known import Rule, Rules
from keyhole.audit.rules.counts import counts
from keyhole.audit.rules.groups import groups
from keyhole.audit.rules.integer import integer
from keyhole.audit.rules.interval import interval
from keyhole.audit.rules.linear import linear
from keyhole.audit.rules.order import order, within_order
from keyhole.audit.rules.persons import persons
from keyhole.audit.rules.rest import rest
from keyhole.audit.rules.squares import squares
from keyhole.audit.width import Within


def quick_rules(within: Within | None = None) -> Rules:
    """The rules that search for nothing: they take a fixed number of passes over the answers."""
    return (linear, persons, squares, counts, within_order(within), rest)


def every_rule(within: Within | None = None, ranges: Rule | None = None) -> Rules:
    """All rules of an audit; `ranges` replaces the rule that searches for ranges. No other list of rules is kept."""
    return (*quick_rules(within), ranges or interval(within), integer(within))


RULES: Rules = every_rule()

__all__ = [
    "RULES",
    "counts",
    "every_rule",
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
