"""How much one key, or one address without a key, may ask; whose turn it is; and that no time tells what others asked.

Everything here is used on the event loop alone, is in memory, and is bounded.
"""

from __future__ import annotations

import asyncio
import random
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
MOST_OF_ONE = 128  # of them, those of one analyst
PACES = 64  # latest times of noisy answers that were drawn


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


class Pace:
    """Lets a noisy number that others paid for take as long as one that is drawn now.

    It would be much faster, since nothing is read for it and nothing drawn. So it waits until a time has passed that is
    taken from those of the latest answers that were drawn.

    >>> pace = Pace()
    >>> pace.delay(0.5, drawn=True), pace.delay(0.1, drawn=False), pace.delay(0.6, drawn=False)
    (0.0, 0.4, 0.0)
    """

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=PACES)

    def delay(self, seconds: float, *, drawn: bool) -> float:
        """How long an answer waits that took so many seconds of work; `drawn`: it was not there before."""
        if drawn:
            self._times.append(seconds)
            return 0.0
        return max(random.choice(self._times) - seconds, 0.0) if self._times else 0.0


class TooManyWaiting(Exception):
    """The line is full."""


class FairTurns:
    """So many questions at a time; among those that wait, analysts take turns, so that one with many stops nobody.

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

    def __init__(self, places: int = 1) -> None:
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._free = places

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._lines.values()))

    @asynccontextmanager
    async def take(self, analyst: str) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raises TooManyWaiting if the line is full."""
        if self._free:
            self._free -= 1
        else:
            if self.waiting >= MOST_WAITING or len(self._lines.get(analyst, ())) >= MOST_OF_ONE:
                raise TooManyWaiting
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._lines.setdefault(analyst, deque()).append(place)
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._pass_on()
                raise
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
        self._free += 1
