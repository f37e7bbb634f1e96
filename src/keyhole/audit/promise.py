"""What a verdict promises of those who are not listed, and why it is not more."""

from __future__ import annotations

from keyhole.evidence import Evidence, System
from keyhole.knowledge import Prior
from keyhole.predicate import Scalar
from keyhole.schema import Schema

COMPLETE = (
    "complete for values that range over all reals: nobody else is determined by the queries that were judged; "
    "known ranges, grids and 0/1 values may give away more"
)
SHOWN_OPEN = (
    "complete: everybody who is not listed is shown to be open, by the rank of the equations or by a second table that "
    "gives the same answers, checked in exact arithmetic"
)
SOUND = "sound, not complete: everything listed is proved, but"
NOISE_GAP = "some answers are noisy without a bound: they prove nothing, and what they make likely is not judged"
ORDER_GAP = "some answer is an order statistic, and the rules for these can miss something here"
INTERRUPTED_GAP = "the audit was interrupted before all was searched"
TIME_GAP = "the time limit was reached before all was read and searched"
ENDED = frozenset({INTERRUPTED_GAP, TIME_GAP})
RECORDS_GAP = (
    "people have several records or rows, and what conditions on private values, order statistics, ranges and inexact "
    "answers tell of one person's records together was searched by rules that can miss something"
)
NOTHING = "none: nothing was judged"


def beyond_rank(system: System, evidence: Evidence, searched: str | None) -> str:
    """What of a system neither the rank theorem nor second tables decide, as the end of a sentence; empty if nothing.

    `searched` is why second tables do not show everybody open (empty: they do), None if none were looked for.
    """
    if system.partitions:
        names = ", ".join(part.column.name for part in system.partitions)
        return (
            f"there are conditions on private values ({names}), and what their answers tell together was searched by "
            "rules that can miss something"
        )
    if system.equal or any(feature.power != 1 for feature in system.features):
        return "there are squares or variances of private values, and the rules for them can miss something"
    if not system.constraints and not system.order:
        return ""  # no answer said anything of a private value
    if searched is not None and any(row.scale == 0 and row.fact is None for row in system.constraints):
        return "some answer is a quotient of private sums, and that its denominator is not 0 was not searched"
    if searched is not None:
        return searched
    if system.order:
        return ORDER_GAP
    if system.bounds:
        return "facts about single people are known, and what follows from them was not searched"
    for name in system.columns:
        if evidence.prior(name) != Prior():
            return (
                f"what is declared of {name} (a range, a step or its values) can give away more than the equations do, "
                "and that was not searched"
            )
    inexact = not all(row.equation for row in system.constraints)
    return "some answer is no equation" if inexact else ""


def records_gap(evidence: Evidence, schema: Schema) -> set[str]:
    """Why people with several records, or with rows of their own elsewhere, may be given away unseen; empty if not.

    What is complete: exact sums and averages under public conditions, by the rank of the equations, where nothing is
    declared of the values.
    """
    if not schema.people and not schema.repeated:
        return set()
    plain = evidence.counting is None and all(
        not (s.partitions or s.order or s.bounds or s.equal)
        and all(feature.power == 1 for feature in s.features)
        and all(c.exact for c in s.constraints)
        and all(evidence.prior(name) == Prior() for name in s.columns)
        for s in evidence.systems
    )
    return set() if plain else {RECORDS_GAP}


def undeclared(name: str, values: tuple[Scalar, ...]) -> str:
    """What to declare, as the end of a sentence. It names no value: they are what is private.

    >>> undeclared("ill", ("cold", "flu"))
    'a GROUP BY shows which values ill has, and they are not declared: declare them, --private ill=VALUE,VALUE,...'
    >>> undeclared("sev", (1, 2)).partition("declare them, ")[2]
    '--private sev=VALUE,VALUE,..., or their range and step, --private sev:MIN..MAX:STEP'
    >>> undeclared("pay", ()).partition("declare ")[2]
    'their range and step, --private pay:MIN..MAX:STEP'
    """
    shows = f"a GROUP BY shows which values {name} has, and they are not declared: declare"
    span = f"their range and step, --private {_quoted(f'{name}:MIN..MAX:STEP')}"
    if not values:
        return f"{shows} {span}"
    domain = f"{shows} them, --private {_quoted(f'{name}=VALUE,VALUE,...')}"
    return domain if isinstance(values[0], str) else f"{domain}, or {span}"


def _quoted(option: str) -> str:
    """What a shell takes as one word."""
    return f"'{option}'" if " " in option else option
