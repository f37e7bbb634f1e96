"""What `keyhole oracle attack` prints: what was learnt, what of it is certain, and what that rests on."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any

from keyhole.cli.shared.terminal import emit, emit_json, emit_text
from keyhole.config.arguments import Format, OutputArguments

if TYPE_CHECKING:
    from keyhole.oracles.result import OracleResult

SHOWN = 40


def show(found: OracleResult, names: list[str], recalled: int, output: OutputArguments) -> None:
    """Print what was learnt."""
    if output.format is Format.JSON:
        emit_json(json.dumps(_json(found, names, recalled), indent=2), output.out)
    elif output.format is Format.HTML:
        from keyhole.report.html.attacks import render_oracle_attack_page

        emit(
            render_oracle_attack_page(_json(found, names, recalled), say_error(found), _sure(found, len(names))),
            output.out,
        )
    else:
        emit_text("\n".join(_lines(found, names, recalled)), output.out)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def between(low: float, high: float) -> str:
    """A range in six digits that are rounded outwards: what is certified is so as it is printed."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return "none"
    return f"{_rounded(low, ROUND_FLOOR)} .. {_rounded(high, ROUND_CEILING)}"


def _rounded(value: float, way: str, digits: int = 6) -> str:
    return f"{float(Context(prec=digits, rounding=way).create_decimal(Decimal(value))):.{digits}g}"


def _json(found: OracleResult, names: list[str], recalled: int) -> dict[str, Any]:
    return {
        "method": found.method,
        "noise": found.noise,
        "noise_measured": found.measured,
        "asked": found.asked,
        "recalled": recalled,
        "not_asked": found.skipped,
        "span": found.span,
        "radius": _finite(found.radius),
        "delta": found.delta,
        "estimates": [
            {"entry": name, "value": float(v), "error": _finite(off), "low": _finite(lo), "high": _finite(hi)}
            for name, v, off, lo, hi in zip(names, found.estimate, _errors(found), found.low, found.high, strict=True)
        ],
        "error": {"estimated": _finite(found.largest_error), "certified": _finite(found.largest_certified)},
        "predictions": [
            {"answer": one.answer, "low": _finite(one.low), "high": _finite(one.high)} for one in found.predictions
        ],
        "notes": list(found.notes),
        "certified": math.isfinite(found.radius),
        "conditions": [
            {"claim": one.claim, "checked": one.checked, "how": one.how}
            for one in (found.conditions if math.isfinite(found.radius) else ())
        ],
    }


def _errors(found: OracleResult) -> Sequence[float]:
    """The estimated error of each entry; nan where none was estimated."""
    return found.errors or (math.nan,) * len(found.estimate)


def _lines(found: OracleResult, names: list[str], recalled: int) -> list[str]:
    again = f" ({recalled:,} of them from the record)" if recalled else ""
    made = [say_error(found), f"{found.method}; noise: {found.noise}{', measured' if found.measured else ''}"]
    left = "1 query was" if found.skipped == 1 else f"{found.skipped:,} queries were"
    made.append(f"{found.asked:,} answers{again}; {left} not asked")
    made += [f"note: {note}" for note in found.notes]
    made.append(_sure(found, len(names)))
    for rests in found.conditions if math.isfinite(found.radius) else ():
        made.append(f"  if {rests.claim} ({'checked' if rests.checked else 'NOT checked'}: {rests.how})")
    wide = max(5, *(len(name) for name in names[:SHOWN]))
    head = f"  {'± estimated':>11}" if found.errors else ""
    made.append(f"{'entry':<{wide}}  {'estimate':>10}{head}  certified range")
    listed = zip(names, found.estimate, _errors(found), found.low, found.high, strict=True)
    for name, v, off, lo, hi in list(listed)[:SHOWN]:
        beside = f"  {off:>11.2g}" if found.errors else ""
        made.append(f"{name:<{wide}}  {v:>10.5g}{beside}  {between(lo, hi)}")
    if len(names) > SHOWN:
        made.append(f"... and {len(names) - SHOWN} more; --format json has them all")
    if found.predictions:
        made.append(f"{'test':<{wide}}  {'answer':>10}  certified range")
    for number, one in enumerate(found.predictions[:SHOWN], 1):
        made.append(f"{number:<{wide}}  {one.answer:>10.5g}  {between(one.low, one.high)}")
    if len(found.predictions) > SHOWN:
        made.append(f"... and {len(found.predictions) - SHOWN} more; --format json has them all")
    return made


def say_error(found: OracleResult) -> str:
    """The headline: how far an entry is off, as it is estimated and as it is certified; of the worst entry."""
    largest = found.largest_certified
    certified = f"{_rounded(largest, ROUND_CEILING, 3)} certified" if math.isfinite(largest) else "nothing certified"
    if not found.errors:
        if math.isfinite(largest):
            return f"each entry: ± {certified}"
        return "each entry: no error is estimated, nothing certified (a note says why)"
    estimated = f"{found.largest_error:.2g}" if math.isfinite(found.largest_error) else "any number"
    return f"each entry: ± {estimated} estimated, {certified}"


def _sure(found: OracleResult, width: int) -> str:
    """What is certain, in a sentence."""
    if not math.isfinite(found.radius):
        if found.stated:
            return "certified: nothing beyond the stated range"
        if found.noise == "none":
            return "certified: nothing (a note says why)"
        return "certified: nothing: state the range of the hidden numbers with --range LOW..HIGH"
    seen = "" if found.span == width else f", in the {found.span} of {width} dimensions that the queries span"
    ranged = " and the hidden numbers lie in the stated range" if found.stated else ""
    if not found.delta:
        near = f"within {_rounded(found.radius, ROUND_CEILING, 3)} of the truth{seen}"
        return f"certified: the estimate is {near}, if the oracle has no noise{ranged}"
    near = _rounded(found.radius, ROUND_CEILING, 3)
    as_told = "as measured" if found.measured else "as stated"
    return (
        f"certified: with probability {100 * (1 - found.delta):g} % the estimate is within {near} of the "
        f"truth{seen}, if the noise is {as_told}{ranged}"
    )
