"""A private answer, or its price, as JSON and as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from keyhole.defence.answering import Answered, Priced
from keyhole.report.words.digits import with_bar


def _number(value: Fraction | None) -> int | float | None:
    if value is None:
        return None
    return value.numerator if value.denominator == 1 else float(value)


def answer_json(a: Answered, n: int | None) -> dict[str, Any]:
    """One answer as the contract has it; `error` is the bar in the unit of the value.

    `alpha` is the same as a share of n under replace-one neighbours, except for a ratio (AVG), which has no share.
    """
    if a.refused is not None:
        return {"sql": a.sql, "refused": a.refused.reason}

    def bars(estimates: Any) -> list[float | int | None]:
        return [_number(e.bar) for e in estimates]

    found: dict[str, Any] = {"sql": a.sql}
    single = not a.grouped and len(a.groups) == 1 and len(a.groups[0][1]) == 1
    if single:
        found["value"] = _number(a.groups[0][1][0].value)
    else:
        found["groups"] = [
            {"key": {k: plain(v) for k, v in key}, "values": [_number(e.value) for e in made], "error": bars(made)}
            for key, made in a.groups
        ]
    worst, shares = [], []
    for column in zip(*(made for _, made in a.groups), strict=True):
        bars_here = [e.bar for e in column]
        widest = None if None in bars_here else max(b for b in bars_here if b is not None)
        worst.append(widest)
        if widest is None or n is None or column[0].ratio:
            shares.append(_number(widest))
        else:
            shares.append(float(widest / n))
    if single:
        found["error"] = _number(worst[0])
        if a.groups[0][1][0].ranks is not None:
            found["ranks"] = a.groups[0][1][0].ranks
    found["alpha"] = shares[0] if len(shares) == 1 else shares
    found |= {
        "beta": a.beta,
        "cost": float(a.cost),
        "left": float(max(a.left, Fraction(0))),
        "neighbours": a.neighbours,
        "how": a.how,
    }
    if a.notes:
        found["notes"] = list(a.notes)
    return found


def plain(value: object) -> object:
    """A key of a group as JSON has it."""
    return value if isinstance(value, str | int | bool) else str(value)


def price_json(p: Priced) -> dict[str, Any]:
    """One price; nothing was spent."""
    if p.refused is not None:
        return {"sql": p.sql, "refused": p.refused.reason}
    return {"sql": p.sql, "cost": float(p.cost), "how": p.how} | ({"notes": list(p.notes)} if p.notes else {})


def price_lines(p: Priced, unit: str) -> Iterator[str]:
    """For people: the statement, and what it would cost, in epsilon or rho."""
    yield " ".join(p.sql.split())
    yield f"  refused: {p.refused}" if p.refused is not None else f"  would cost {unit} {float(p.cost):.4g}: {p.how}"
    for note in p.notes:
        yield f"  note: {note}"


def answer_lines(a: Answered, unit: str) -> Iterator[str]:
    """For people: the statement, each group with its numbers and bars, what it cost in epsilon or rho."""
    yield " ".join(a.sql.split())
    if a.refused is not None:
        yield f"  refused: {a.refused}"
        return
    for key, made in a.groups:
        label = "".join(f"{k} = {plain(v)}  " for k, v in key)
        yield f"  {label}" + ", ".join(_pair(e.value, e.bar, e.ranks) for e in made)
    own = (
        f" (and {unit} {float(a.own):.4g} of the analyst's own share, as for everybody who is told it)" if a.own else ""
    )
    yield (
        f"  cost {unit} {float(a.cost):.4g}{own}, left {unit} {remainder(a.left)}; {a.neighbours}; bars hold with "
        f"probability {1 - a.beta:g}; {a.how}"
    )
    for note in a.notes:
        yield f"  note: {note}"


def remainder(left: Fraction) -> str:
    """What is left, for people."""
    return f"{float(left):.4g}" if left >= 0 else "0 (the cap was lowered below what had been spent)"


def _pair(value: Fraction | None, bar: Fraction | None, ranks: int | None = None) -> str:
    if value is not None and ranks is not None:
        return f"{float(value):.10g} (its rank is within {ranks} people)"
    if value is None or bar is None:
        return "unknown: too few records for a ratio"
    return " ± ".join(with_bar(value, bar))
