"""What a verdict promises of those who are not listed, and why it is not more."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.gather.answers import exact_weight
from keyhole.gather.arithmetic import Computed
from keyhole.gather.evidence import Evidence, System
from keyhole.model.predicate import Scalar
from keyhole.model.prior import Prior
from keyhole.model.query import CUT, FINER, Aggregate, Query
from keyhole.model.schema import Column, Kind, Schema
from keyhole.model.transcript import Entry
from keyhole.sql.statements.select_outline import divides_before_adding

COMPLETE = (
    "complete for values that range over all reals: nobody else is determined by the queries that were judged; "
    "known ranges, grids and 0/1 values may give away more"
)
SHOWN_OPEN = (
    "complete: everybody who is not listed is shown to be open, by the rank of the equations or by a second table that "
    "gives the same answers, checked in exact arithmetic"
)
ASSUMED_OPEN = (
    "complete: everybody who is not listed has a second possible value, in a table that gives the same answers, "
    "checked in exact arithmetic. Proved for every range of possible values that contains the data"
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


Held = Callable[[str], NDArray[np.float64] | None]  # a private column's values, None if they are not at hand


def last_digits_gap(evidence: Evidence, schema: Schema, values: Held, digits: int | None, *, given: bool) -> str:
    """Why the last digits of printed sums may tell more than their value does, as the end of a sentence; else empty.

    0.3 + 0.3 and 0.2 + 0.4 are one number and two DOUBLEs. They are told apart only where a printed sum is not exact in
    any order, its column is not called real, and neither ROUND nor `digits` (that analysts see at most) hides its dust.
    `given`: the answers are those of the log.
    """
    computed, dusts = Computed(schema, evidence.knowledge), _dusts(evidence)
    for entry in evidence.transcript.entries:
        query = entry.query
        names = [name for name in sorted(query.columns) if not evidence.prior(name).is_real]
        if not names or entry.certainty == FINER or not _is_printed(entry) or not _may_round(entry, schema):
            continue
        if _has_exact_steps(query, schema) and computed.adds_exactly(query, values, evidence.n):
            continue
        if digits is not None and given and _has_more_digits(entry, digits):
            return f"an answer of the log has more digits than [source] digits = {digits}"
        cancelled = computed.cancelled_dust(query, values, evidence.n)
        if cancelled is None or not _is_hidden(entry, dusts.get(entry.number), cancelled, digits):
            name = next((name for name in names if _kind(name, schema) is Kind.DOUBLE), names[0])
            return _say_last_digits(name, evidence.prior(name), digits)
    return ""


def _dusts(evidence: Evidence) -> dict[str, Fraction]:
    """How far each printed sum may lie from the true one, where the rows of the systems say so."""
    dusts: dict[str, Fraction] = {}
    for system in evidence.systems:
        for row in system.constraints:
            if row.fact is None and row.scale and row.lo is not None and row.hi is not None:
                dusts[row.number] = (row.hi - row.lo) / 2 / abs(row.scale)
    return dusts


def _is_printed(entry: Entry) -> bool:
    """Is its number printed, or compared for equality? Noise, an order and a range hide the last digits."""
    query, answer = entry.query, entry.answer
    if query.test is not None:
        return query.test.op in ("=", "<>") and query.test.unit is None
    if answer is not None and (answer.value is None or (answer.noise is not None and answer.noise.kind != "rounded")):
        return False
    return query.aggregate not in (Aggregate.MIN, Aggregate.MAX, Aggregate.QUANTILE_DISC)


def _may_round(entry: Entry, schema: Schema) -> bool:
    """May the engine round before the last step, so that more than the value is in the digits?"""
    query = entry.query
    if query.aggregate is Aggregate.VAR or _is_rough(query, schema):
        return True
    if any(_kind(name, schema) is Kind.DOUBLE for name in query.columns):
        return True
    if query.aggregate in CUT:
        return not _has_exact_steps(query, schema)
    divided = any(t.factor.denominator & (t.factor.denominator - 1) for t in (*query.terms, *query.per))
    return divided and (len(query.terms) > 1 or divides_before_adding(entry.sql))


def _has_exact_steps(query: Query, schema: Schema) -> bool:
    """Is all exact if the sums are: sums, their quotients, and what lies a half or a quarter between two values?"""
    if query.aggregate in CUT:
        return query.level.denominator & (query.level.denominator - 1) == 0
    return query.aggregate is Aggregate.SUM and not _is_rough(query, schema)


def _has_more_digits(entry: Entry, digits: int) -> bool:
    value = None if entry.answer is None else entry.answer.value
    return isinstance(value, Decimal) and len(value.normalize().as_tuple().digits) > digits


def _is_rough(query: Query, schema: Schema) -> bool:
    """Are rounded averages added up, or values times rounded weights?"""
    weights = (t.weight for t in (*query.terms, *query.per) if t.weight is not None)
    return bool(query.roundings) or not all(exact_weight(weight, schema) for weight in weights)


def _kind(name: str, schema: Schema) -> Kind:
    column = schema.find(name)
    return Kind.DOUBLE if column is None else column.kind


def _is_hidden(entry: Entry, dust: Fraction | None, cancelled: Fraction, digits: int | None) -> bool:
    """Is the number rounded so coarsely, by ROUND or to the digits that are seen, that its dust never shows?

    `dust` is that of a sum as large as the printed one, `cancelled` that of larger numbers of both signs.
    """
    query, answer = entry.query, entry.answer
    value = None if answer is None or isinstance(answer.value, bool) else answer.value
    half = None
    if query.digits is not None:
        half = Fraction(1, 2) / Fraction(10) ** query.digits
    elif answer is not None and answer.noise is not None:
        half = answer.noise.scale
    if half is not None:  # the row of such an answer is as wide as the rounding and the dust
        size = abs(Fraction(value)) if value is not None else Fraction(1)
        unknown = size / (10**6 if query.aggregate is Aggregate.VAR else 10**12)
        return half > (unknown if dust is None else dust - half) + cancelled
    if digits is None or not value or query.test is not None or query.aggregate is Aggregate.VAR:
        return False
    unit = Fraction(10) ** (value.adjusted() + 1 - digits)
    apart = abs(Fraction(value) / unit % 1 - Fraction(1, 2)) * unit  # from where it would be rounded the other way
    return apart > (abs(Fraction(value)) / 10**13 if dust is None else dust) + cancelled


def _say_last_digits(name: str, prior: Prior, digits: int | None) -> str:
    if digits is not None:
        return (
            f"the last digits of some sum of {name} show also with [source] digits = {digits}: write a smaller number"
        )
    real = "" if prior != Prior() else f", or --private {_quoted(f'{name}:real')} if any number is possible"
    return (
        f"{name} is added up in floating point, and the last digits of a sum can tell which values were added: round "
        f"the answers, hold {name} as DECIMAL, or write [source] digits = 12 if nobody sees more digits{real}"
    )


def undeclared(name: str, values: tuple[Scalar, ...]) -> str:
    """What to declare, as the end of a sentence. It names no value: they are what is private.

    >>> undeclared("ill", ("cold", "flu"))
    'the answers show which values ill has, and they are not declared: declare them, --private ill=VALUE,VALUE,...'
    >>> undeclared("sev", (1, 2)).partition("declare them, ")[2]
    '--private sev=VALUE,VALUE,..., or their range and step, --private sev:MIN..MAX:STEP'
    >>> undeclared("pay", ()).partition("declare ")[2]
    'their range and step, --private pay:MIN..MAX:STEP'
    """
    shows = f"the answers show which values {name} has, and they are not declared: declare"
    span = f"their range and step, --private {_quoted(f'{name}:MIN..MAX:STEP')}"
    if not values:
        return f"{shows} {span}"
    domain = f"{shows} them, --private {_quoted(f'{name}=VALUE,VALUE,...')}"
    return domain if isinstance(values[0], str) else f"{domain}, or {span}"


def declaring_line(column: Column) -> str:
    """What to write where nothing is declared of a column, as the end of a sentence. It names no value.

    >>> from keyhole.model.schema import Kind
    >>> declaring_line(Column("ill", Kind.TEXT))
    'declare the possible values, --private ill=VALUE,VALUE,...'
    >>> declaring_line(Column("pay", Kind.INTEGER))
    'declare the possible values, --private pay:MIN..MAX:STEP, or --private pay:real if any number is possible'
    """
    name = column.name
    if not column.kind.numeric:
        return f"declare the possible values, --private {_quoted(f'{name}=VALUE,VALUE,...')}"
    span, real = _quoted(f"{name}:MIN..MAX:STEP"), _quoted(f"{name}:real")
    return f"declare the possible values, --private {span}, or --private {real} if any number is possible"


def _quoted(option: str) -> str:
    """What a shell takes as one word."""
    return f"'{option}'" if " " in option else option
