"""What somebody who asked is told, as JSON and as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from keyhole.report.admission import explained
from keyhole.report.answer import answer_json, answer_lines, plain, price_json, price_lines
from keyhole.report.documents.json_text import json_number
from keyhole.sessions.reply import Outcome, Reply


def reply_json(reply: Reply, *, explain: bool = False, n: int | None = None) -> dict[str, Any]:
    """The fields of docs/json.md; `explain` adds whom it would expose, for the custodian. `n` where it is public."""
    found: dict[str, Any] = {"sql": reply.sql, "outcome": str(reply.outcome)}
    if reply.noisy is not None and reply.answered:
        found |= {k: v for k, v in answer_json(reply.noisy, n).items() if k != "sql"}
    elif reply.price is not None and reply.answered:
        found |= {k: v for k, v in price_json(reply.price).items() if k != "sql"}
    else:
        found["reason"] = reply.reason
    if reply.exact is not None:
        groups = [
            {
                "key": {k: None if v is None else plain(v) for k, v in key.items()},
                "values": list(map(json_number, values)),
            }
            for key, values in reply.exact
        ]
        single = not reply.grouped and len(groups) == 1 and len(reply.exact[0][1]) == 1
        found |= {"value": json_number(reply.exact[0][1][0])} if single else {"groups": groups}
    if reply.instead is not None:
        found["instead"] = reply.instead
    if explain and reply.admission is not None:
        said = reply.admission.to_json(explain=True)
        found |= {"who": said["who"], "proof": said["proof"]}
    if reply.entry is not None:
        found |= {"entry": reply.entry, "receipt": reply.receipt}
    return found


def reply_lines(reply: Reply, *, explain: bool = False, unit: str = "epsilon") -> Iterator[str]:
    """For people: the statement, its numbers or why there are none; prices are in `unit`."""
    if reply.noisy is not None:
        yield from answer_lines(reply.noisy, unit)
        return
    if reply.price is not None:
        yield from price_lines(reply.price, unit)
        return
    yield " ".join(reply.sql.split())
    if reply.exact is not None:
        for key, values in reply.exact:
            label = "".join(f"{k} = {'NULL' if v is None else v}  " for k, v in key.items())
            yield f"  {label}" + ", ".join(_shown(v) for v in values)
        if not reply.exact:
            yield "  no row"
        yield f"  exact; {reply.reason}; entry {reply.entry}" if reply.reason else f"  exact; entry {reply.entry}"
        return
    word = "denied" if reply.outcome is Outcome.DENIED else str(reply.outcome)
    yield f"  {word}: {reply.reason}"
    if reply.instead is not None:
        yield f"  allowed now: {' '.join(reply.instead.split())}"
    if explain and reply.admission is not None:
        yield from explained(reply.admission)


def _shown(value: Decimal | bool | None) -> str:
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else f"{value.normalize():f}"
