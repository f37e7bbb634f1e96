"""Reading a log within a time limit: statement by statement in their order, as many as half of the time allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from keyhole.auditing.deadline import Deadline
from keyhole.model.transcript import Line, Refusal, Transcript

NOT_READ = "it was not read: the time limit was reached (--time-limit)"
SHARE = 0.5  # of the time may be spent on reading; the rest is for judging what was read
FEW = 16  # statements that are read at first, before it is known how long that takes


def read_in_time(
    lines: Sequence[Line], transcribe: Callable[[Sequence[Line]], Transcript], deadline: Deadline
) -> Transcript:
    """The transcript; what was not read in time is listed as not judged. Without a limit all is read at once.

    Parts are twice as large as the one before, while a tenth of the time that is left for reading suffices for them.
    """
    if deadline.seconds is None:
        return transcribe(lines)
    parts, at, size = list[Transcript](), 0, FEW
    while at < len(lines) and (left := deadline.left(share=SHARE)) > 0:
        began = time.monotonic()
        parts.append(transcribe(lines[at : at + size]))
        took = time.monotonic() - began
        at, size = at + size, max(1, min(2 * size, int(size * left / 10 / max(took, 1e-9))))
    return Transcript(
        tuple(e for part in parts for e in part.entries),
        tuple(r for part in parts for r in part.refused),
        (*(u for part in parts for u in part.unjudged), *not_read(lines[at:])),
        tuple(rows for part in parts for rows in part.handed_out),
        frozenset[str]().union(*(part.may_show_rows for part in parts), (str(line.number) for line in lines[at:])),
    )


def not_read(lines: Sequence[Line]) -> list[Refusal]:
    """Statements as not judged, since there was no time for them."""
    return [Refusal(str(line.number), line.sql, NOT_READ) for line in lines]
