"""How much one key, or one address without a key, may ask; and whose turn it is.

Everything here is used on the event loop alone, is in memory, and is bounded.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

MOST_SQL = 64 * 1024  # bytes of one statement
MOST_NESTING = 200  # open parentheses
MOST_LISTED = 10_000  # commas in one pair of parentheses: the items of an IN
MOST_BUCKETS = 10_000  # names whose rate is remembered; the one that was idle longest is forgotten first
MOST_WAITING = 256  # questions of one population that wait for their turn


@dataclass(slots=True)
class TokenBuckets:
    """A token bucket for each name: `burst` at once, `per_minute` in the long run.

    >>> clock = iter([0.0, 0.0, 0.0, 30.0, 30.0]).__next__
    >>> buckets = TokenBuckets(clock=clock)
    >>> [buckets.take("ann", 2, burst=2) for _ in range(5)]
    [0.0, 0.0, 30.0, 0.0, 30.0]
    """

    clock: Callable[[], float] = time.monotonic
    _levels: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)  # name -> (tokens, when)

    def take(self, name: str, per_minute: int, burst: int) -> float:
        """Take a token: 0.0, or how many seconds to wait until there is one."""
        now = self.clock()
        tokens, when = self._levels.pop(name, (float(burst), now))
        tokens = min(float(burst), tokens + (now - when) * per_minute / 60)
        wait = 0.0 if tokens >= 1 else (1 - tokens) * 60 / per_minute
        self._levels[name] = (tokens - 1 if tokens >= 1 else tokens, now)
        while len(self._levels) > MOST_BUCKETS:
            self._levels.popitem(last=False)
        return wait

    def is_empty(self, name: str, per_minute: int) -> bool:
        """Would `take` have to wait? Nothing is taken."""
        tokens, when = self._levels.get(name, (1.0, self.clock()))
        return tokens + (self.clock() - when) * per_minute / 60 < 1


def explain_size(sql: str) -> str:
    """Why a statement is too large to be read; "" if it is not. Looks at its characters alone, before any parser does.

    >>> explain_size("SELECT 1"), explain_size("(" * 300)
    ('', 'the statement nests 201 parentheses: at most 200 are read')
    """
    size = len(sql.encode("utf-8", "surrogatepass"))
    if size > MOST_SQL:
        return f"the statement has {size:,} bytes: at most {MOST_SQL:,} are read"
    commas = [0]
    for character in sql:
        if character == "(":
            commas.append(0)
            if len(commas) - 1 > MOST_NESTING:
                return f"the statement nests {len(commas) - 1} parentheses: at most {MOST_NESTING} are read"
        elif character == ")" and len(commas) > 1:
            commas.pop()
        elif character == ",":
            commas[-1] += 1
            if commas[-1] >= MOST_LISTED:
                return f"the statement lists more than {MOST_LISTED:,} items: at most {MOST_LISTED:,} are read"
    return ""


class TooManyWaiting(Exception):
    """The line is full."""


class FairTurns:
    """One question at a time; among those that wait, analysts take turns, so that one with many does not stop others.

    >>> async def ask(turns, who, done):
    ...     async with turns.take(who):
    ...         await asyncio.sleep(0)
    ...         done.append(who)
    >>> async def main():
    ...     turns, done = FairTurns(), []
    ...     await asyncio.gather(*(ask(turns, who, done) for who in ["ann", "ann", "ann", "bob"]))
    ...     return done
    >>> asyncio.run(main())
    ['ann', 'ann', 'bob', 'ann']
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._busy = False

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._lines.values()))

    @asynccontextmanager
    async def take(self, analyst: str) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raises TooManyWaiting if the line is full."""
        if self._busy:
            if self.waiting >= MOST_WAITING:
                raise TooManyWaiting
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._lines.setdefault(analyst, deque()).append(place)
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._pass_on()
                raise
        self._busy = True
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        while self._lines:
            analyst, line = next(iter(self._lines.items()))
            place = line.popleft()
            del self._lines[analyst]
            if line:
                self._lines[analyst] = line
            if not place.done():
                place.set_result(None)
                return
        self._busy = False
