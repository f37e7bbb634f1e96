"""What came of a replay, in words and as data."""

from __future__ import annotations

from typing import Any

from .replay import Checked, Outcome, Replay

SHOWN = 20
TEXTS = "Texts (why, sentence, promise) and sizes are not checked."
CLAIMS_ALONE = "The verdict does not say that nobody is missing, and that was not checked. "


def sentence(replayed: Replay) -> str:
    """How many proofs were replayed, and how many hold."""
    held, failed, left = (len(replayed.of(o)) for o in (Outcome.HOLDS, Outcome.FAILS, Outcome.CANNOT))
    done, total = held + failed, held + failed + left
    if not total:
        return "The verdict claims nothing of anybody: there is no proof to replay."
    proofs, hold, fail = ("proof", "holds", "fails") if total == 1 else ("proofs", "hold", "fail")
    said = f"{done} of {total} {proofs} replayed: {held} {hold}, {failed} {fail}."
    return said + (f" {left} cannot be replayed here, and may be right or wrong." if left else "")


def lines(replayed: Replay) -> list[str]:
    """The text of `keyhole verify`."""
    found = [sentence(replayed)]
    for outcome in (Outcome.FAILS, Outcome.CANNOT):
        alike: dict[str, list[Checked]] = {}
        for each in replayed.of(outcome):
            alike.setdefault(each.why, []).append(each)
        for each, *others in list(alike.values())[:SHOWN]:
            more = f" (and {len(others)} more, for the same reason)" if others else ""
            found.append(f"  {outcome.value}: {said(each)}{more}")
        if len(alike) > SHOWN:
            found.append(f"  ... and {len(alike) - SHOWN} more reasons (--format json lists all)")
    for beside in replayed.beside[:SHOWN]:
        found.append(f"  {'fails' if beside.is_false else 'not replayed'}: {beside.why}")
    if len(replayed.beside) > SHOWN:
        found.append(f"  ... and {len(replayed.beside) - SHOWN} more (--format json lists all)")
    if replayed.contradictions:
        found.append(f"  not replayed: contradictions of answers, which carry no proof ({replayed.contradictions})")
    if replayed.unknown:
        found.append(f"  not replayed: fields that the checker does not know ({', '.join(replayed.unknown)})")
    found += [str(each) if each.is_whole else f"  {each}" for each in replayed.cleared]
    return [*found, scope(replayed)]


def scope(replayed: Replay) -> str:
    """What was not checked."""
    return TEXTS if replayed.cleared else CLAIMS_ALONE + TEXTS


def said(each: Checked) -> str:
    """One claim, without its value."""
    who = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in each.claim.who)
    return f"{who}: {each.claim.column} ({each.claim.status}): {each.why}"


def as_data(replayed: Replay) -> dict[str, Any]:
    """The data of `keyhole verify --format json`; no value is in it."""

    def listed(outcome: Outcome) -> list[dict[str, Any]]:
        return [
            {
                "records": [{k: str(v) for k, v in r.items()} for r in c.claim.records],
                "column": c.claim.column,
                "status": c.claim.status,
                "why": c.why,
            }
            for c in replayed.of(outcome)
        ]

    return {
        "proofs": len(replayed.checked),
        "replayed": len(replayed.of(Outcome.HOLDS)) + len(replayed.of(Outcome.FAILS)),
        "hold": len(replayed.of(Outcome.HOLDS)),
        "fails": listed(Outcome.FAILS),
        "cannot": listed(Outcome.CANNOT),
        "contradictions": replayed.contradictions,
        "unknown": list(replayed.unknown),
        "beside": [{"outcome": "fails" if b.is_false else "not replayed", "why": b.why} for b in replayed.beside],
        "all_clear": [str(each) for each in replayed.cleared],
        "scope": scope(replayed),
    }
