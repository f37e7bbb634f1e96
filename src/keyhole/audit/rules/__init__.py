"""The rules of an audit, in a row. Each only narrows what is known, and each claim carries its proof."""

from keyhole.audit.known import Rules
from keyhole.audit.rules.counts import counts
from keyhole.audit.rules.groups import groups
from keyhole.audit.rules.integer import integer
from keyhole.audit.rules.interval import interval
from keyhole.audit.rules.linear import linear
from keyhole.audit.rules.order import order
from keyhole.audit.rules.persons import persons
from keyhole.audit.rules.rest import rest
from keyhole.audit.rules.squares import squares

RULES: Rules = (linear, persons, squares, counts, order, rest, interval(), integer())

__all__ = ["RULES", "counts", "groups", "integer", "interval", "linear", "order", "persons", "rest", "squares"]
