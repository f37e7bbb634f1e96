"""The one way from a door to the sessions: who asks, whose turn it is, where the work is done, what is under way.

One process, one event loop. Each population has a thread of its own that decides; a second pool reads. What is under
way is never cancelled: a client that goes away leaves a question whose answer is in the book, and asking again tells
it for nothing.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from keyhole.api.session import choose_policy, open_session
from keyhole.book import EVERYBODY
from keyhole.config.arguments import BudgetArguments
from keyhole.config.settings import Settings, settings
from keyhole.defence.budget.budget import Cap
from keyhole.errors import BookError, ConfigError, KeyholeError
from keyhole.model.query import Refused
from keyhole.model.schema import Schema
from keyhole.report.words.sentence import escape_line
from keyhole.serve.errors import Problem, ProblemKind, explain_error
from keyhole.serve.keys import ApiKey, KeyRing, KeyRole
from keyhole.serve.limits import FairTurns, Pace, TokenBuckets, explain_size
from keyhole.serve.reading import TrialReader
from keyhole.serve.replies import (
    Account,
    AccountBudget,
    AnsweredQuestion,
    CheckedQuestion,
    DescribedTable,
    describe_outcome,
    describe_table,
)
from keyhole.sessions.private import Private
from keyhole.sessions.reply import Reply
from keyhole.sessions.session import Session

log = logging.getLogger("keyhole.serve")
Outcome: TypeAlias = AnsweredQuestion | CheckedQuestion | Problem
Translation: TypeAlias = tuple[str, str]  # a text and "", or "" and why it is not translated
T = TypeVar("T")
READERS = 2  # threads that read and validate statements
ENDINGS = 50  # latest questions that the owner sees
DRAIN_SECONDS = 30.0
SECONDS_TO_LISTEN = 2.0  # for what other gateways write, before it is asked whether the gate closes
DATA_SCHEMES = ("postgresql", "postgres")  # of data URLs under `serve`; anything else is a file


@dataclass(slots=True)
class Flight:
    """A question under way."""

    number: int
    population: str
    analyst: str
    door: str
    sql: str
    since: float
    is_cancelled: Callable[[], bool]
    stage: str = "reading"


@dataclass(frozen=True, slots=True)
class Ending:
    """A question that ended: how, and how long it took."""

    at: str
    analyst: str
    door: str
    outcome: str
    seconds: float


class Population:
    """One session behind the gate, with the thread that decides for it."""

    def __init__(self, config: Path, given: Settings, session: Session[Any]) -> None:
        self.config, self.given, self.policy, self.session = config, given, choose_policy(given), session
        self.name = session.book.state.population
        self.turns = FairTurns()
        self.pace = Pace()
        self.decider = ThreadPoolExecutor(1, thread_name_prefix=f"keyhole-{self.name}")
        self.endings: deque[Ending] = deque(maxlen=ENDINGS)
        self.ended: deque[tuple[int, int]] = deque(maxlen=60)  # second of the clock -> how many ended in it
        self.trouble = ""  # why the latest question was not written into the book
        today = dt.datetime.now(dt.UTC).date().isoformat()
        activity = session.book.store.list_activity(today)
        self.seen = {who: last for who, (_, last) in activity.items()}  # analyst -> when a question ended last
        # by day and analyst: a cap for a day outlives a restart
        self.asked_today = Counter({(today, who): count for who, (count, _) in activity.items()})

    @property
    def schema(self) -> Schema:
        """The columns that questions may name."""
        schema: Schema = self.session.policy.schema
        return schema

    def find_account(self, analyst: str) -> Account | None:
        """What an analyst has left; None without a budget. On the deciding thread."""
        policy = self.session.policy
        if not isinstance(policy, Private):
            return None
        budget = policy.budget(analyst)
        return Account(budget.unit, budget.left)

    def find_cap(self) -> Cap | None:
        """What may be spent; None without a budget."""
        policy = self.session.policy
        return policy.answering.setting.ledger.cap if isinstance(policy, Private) else None

    def find_spent(self, analyst: str) -> Fraction:
        """What an analyst has spent, as prices are shown."""
        spent, cap = self.session.book.state.spent(analyst)[0], self.find_cap()
        return spent if cap is None else cap.show(spent, analyst)

    def note_ending(self, ending: Ending) -> None:
        """A question ended."""
        self.seen[ending.analyst] = ending.at
        self.endings.append(ending)
        second = int(time.time())
        before = self.ended.pop()[1] if self.ended and self.ended[-1][0] == second else 0
        self.ended.append((second, before + 1))

    def count_lately(self) -> int:
        """How many questions ended in the last minute."""
        now = int(time.time())
        return sum(count for second, count in self.ended if now - second < 60)

    def describe_health(self) -> str:
        """How the book and its witness stand, on the deciding thread; raises the BookError of one that is not whole."""
        book = self.session.book
        book.look()
        seen = book.witness.read() if book.witness is not None else None
        witness = "no witness: an older copy would not be noticed ([book] witness)"
        if book.witness is not None:
            witness = f"a witness that has seen entry {0 if seen is None else seen[0]:,}"
        return f"The book has {book.state.seq:,} entries and {witness}."

    def has_share(self, analyst: str) -> bool:
        """May this analyst spend anything? A budget with shares knows its analysts."""
        policy = self.session.policy
        if not isinstance(policy, Private):
            return True
        shares = policy.answering.setting.ledger.cap.analysts
        return not shares or analyst in shares

    def close(self) -> None:
        """Let go of the session, when its thread has nothing left to do."""
        self.decider.shutdown(wait=True)
        self.session.close()


@dataclass(slots=True)
class Gate:
    """All populations of a server, behind its keys and limits."""

    populations: Mapping[str, Population]
    keys: KeyRing
    trials: TrialReader
    per_minute: int = 60
    readings: FairTurns = field(default_factory=lambda: FairTurns(READERS))
    buckets: TokenBuckets = field(default_factory=TokenBuckets)
    flights: dict[int, Flight] = field(default_factory=dict)
    totals: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # (population, door, outcome)
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # set, and replaced, when a question ends
    closing: bool = False
    _readers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(READERS, "keyhole-reading"))
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _running: set[asyncio.Task[Any]] = field(default_factory=set)

    @classmethod
    def open(cls, configs: Sequence[Path], keys: Path, *, per_minute: int = 60) -> Gate:
        """Open every population, or none."""
        ring = KeyRing(keys)
        opened: dict[str, Population] = {}
        try:
            for config in configs:
                found = open_population(config)
                if found.name in opened:
                    found.close()
                    raise ConfigError(
                        f"{opened[found.name].config} and {config} are about one population, {found.name!r}: write "
                        "population = ... under [book] of one of them"
                    )
                opened[found.name] = found
        except BaseException:
            for each in opened.values():
                each.close()
            raise
        return cls(opened, ring, TrialReader({name: each.schema for name, each in opened.items()}), per_minute)

    # --- who ----------------------------------------------------------------------------------------------------------

    def throttle(self, key: ApiKey) -> Problem | None:
        """Take a token of this key. A door does so once a request, before it parses anything."""
        rate = key.per_minute or self.per_minute
        wait = self.buckets.take(key.digest, rate, rate)
        if not wait:
            return None
        return Problem(ProblemKind.RATE, f"at most {rate} requests a minute", retry_after=int(wait) + 1)

    def reachable(self, key: ApiKey) -> list[Population]:
        """The populations that a key reaches."""
        return [each for name, each in self.populations.items() if key.may_reach(name)]

    def list_flights(self, population: str) -> list[Flight]:
        """What is under way there."""
        return [each for each in self.flights.values() if each.population == population]

    def reach(self, name: str | None, key: ApiKey) -> Population | Problem:
        """The population of this name that the key may ask about; the only one, if no name is given."""
        mine = {each.name: each for each in self.reachable(key)}
        if name is None and len(mine) == 1:
            return next(iter(mine.values()))
        if name in mine:
            return mine[name]
        listed = ", ".join(sorted(mine)) or "none"
        return Problem(ProblemKind.NOT_FOUND, f"say which population; this key reaches: {listed}")

    # --- questions ----------------------------------------------------------------------------------------------------

    async def ask(
        self,
        population: str | None,
        key: ApiKey,
        sql: str,
        *,
        door: str = "http",
        is_cancelled: Callable[[], bool] = lambda: False,
        translate: Callable[[], Translation] | None = None,
        check: bool = False,
    ) -> Outcome:
        """Answer one question. Never raises for what a question can cause; a cancelled caller cancels nothing.

        `is_cancelled` is looked at before the page: from there on nothing stops it. `translate` gives the text in the
        words of the data's engine and "", or "" and why not. `check`: what would become of it; nothing is answered,
        charged or written.
        """
        if self.closing:
            return Problem(ProblemKind.CLOSING, "the server is closing: ask again later", retry_after=30)
        if key.role is not KeyRole.ANALYST:
            return Problem(ProblemKind.ROLE, "the key of an owner asks nothing: use the key of an analyst")
        found = self.reach(population, key)
        if isinstance(found, Problem):
            return found
        if problem := self._find_objection(found, key, sql):
            return problem
        flight = Flight(next(self._numbers), found.name, key.name, door, sql, time.time(), is_cancelled)
        task = asyncio.ensure_future(self._follow(found, key, flight, translate, check=check))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _follow(
        self,
        found: Population,
        key: ApiKey,
        flight: Flight,
        translate: Callable[[], Translation] | None,
        *,
        check: bool,
    ) -> Outcome:
        self.flights[flight.number] = flight
        self.tell_change()
        begun, outcome = time.perf_counter(), "internal"
        try:
            result = await self._decide(found, key, flight, translate, check=check)
            found.trouble = ""
            outcome = str(result.kind) if isinstance(result, Problem) else "allow" if check else "answered"
            return result
        except Exception as error:
            problem = explain_error(error)
            outcome = str(problem.kind)
            if problem.kind is ProblemKind.INTERNAL:
                log.error("a question of %s met %s", escape_line(key.name), type(error.__cause__ or error).__name__)
            elif isinstance(error, BookError | ConfigError):
                found.trouble = str(error)
                log.error("%s", escape_line(found.trouble))
            return problem
        finally:
            del self.flights[flight.number]
            self._note(flight, outcome, time.perf_counter() - begun)

    def _find_objection(self, found: Population, key: ApiKey, sql: str) -> Problem | None:
        """Why a question is not even read."""
        if why := explain_size(sql):
            return Problem(ProblemKind.TOO_LARGE, why)
        if not found.has_share(key.name):
            return Problem(ProblemKind.ROLE, f"{key.name} has no share of this budget: ask its owner for one")
        at = (dt.datetime.now(dt.UTC).date().isoformat(), key.name)
        if key.per_day is not None and found.asked_today[at] >= key.per_day:
            return Problem(ProblemKind.RATE, f"this key asks at most {key.per_day} questions a day", retry_after=3600)
        found.asked_today[at] += 1
        return None

    async def _decide(
        self,
        found: Population,
        key: ApiKey,
        flight: Flight,
        translate: Callable[[], Translation] | None,
        *,
        check: bool,
    ) -> Outcome:
        analyst = key.name
        async with self.readings.take(analyst):
            (sql, request), reading = await self._in(
                self._readers, lambda: _measure(lambda: self.read(found, flight.sql, analyst, translate))
            )
        if isinstance(request, str):
            if not check:
                await self.on_book(found, lambda session: session.refuse(sql, Refused(request), analyst))
            return Problem(ProblemKind.REFUSED, request)
        flight.stage = "waiting"
        async with found.turns.take(analyst):
            if flight.is_cancelled():
                return Problem(ProblemKind.CANCELLED, "cancelled before it was decided: nothing was answered or spent")
            flight.stage = "deciding"
            decided, deciding = await self._in(
                found.decider, lambda: _measure(lambda: _answer(found, request, sql, analyst, check=check))
            )
        if decided.drawn is not None:
            await asyncio.sleep(found.pace.delay(reading + deciding, drawn=decided.drawn))
        return decided.outcome

    def read(
        self, found: Population, sql: str, analyst: str, translate: Callable[[], Translation] | None = None
    ) -> tuple[str, Any]:
        """The text that is asked, and the statement as the session reads it; why, if it cannot even be tried."""
        if translate is not None:
            translated, why = translate()
            if why or (why := explain_size(translated)):
                return sql, why
            sql = translated
        return sql, self.trials.explain(found.name, sql, analyst) or found.session.read(sql, analyst)

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, work)

    async def on_book(self, found: Population, work: Callable[[Session[Any]], T]) -> T:
        """Something that looks at a session's book, on the thread that owns it."""
        return await self._in(found.decider, lambda: work(found.session))

    async def follow_book(self, found: Population) -> None:
        """As long as the gate is open: take in what other gateways write while nobody asks here."""
        while not self.closing:
            try:
                if await asyncio.to_thread(found.session.book.store.wait_for_others, SECONDS_TO_LISTEN):
                    await self.on_book(found, lambda session: session.catch_up())
                    self.tell_change()
            except KeyholeError as error:  # whoever asks next meets it, too, and is told
                log.warning("%s", escape_line(str(error)))
                await asyncio.sleep(SECONDS_TO_LISTEN)

    def _note(self, flight: Flight, outcome: str, seconds: float) -> None:
        at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        self.populations[flight.population].note_ending(Ending(at, flight.analyst, flight.door, outcome, seconds))
        self.totals[flight.population, flight.door, outcome] += 1
        log.info(
            "%s %s %s %s %.0f ms", escape_line(flight.population), escape_line(flight.analyst), flight.door, outcome,
            seconds * 1000,
        )  # fmt: skip
        self.tell_change()

    def tell_change(self) -> None:
        """Wake up whoever watches."""
        self.changed.set()
        self.changed = asyncio.Event()

    # --- what may be known --------------------------------------------------------------------------------------------

    def describe(self, population: str | None, key: ApiKey) -> DescribedTable | Problem:
        """Names and kinds of the columns."""
        found = self.reach(population, key)
        return found if isinstance(found, Problem) else describe_table(found.name, found.policy, found.schema)

    async def budget(self, population: str | None, key: ApiKey) -> AccountBudget | Problem:
        """The asker's own account."""
        found = self.reach(population, key)
        if isinstance(found, Problem):
            return found
        today = found.asked_today[dt.datetime.now(dt.UTC).date().isoformat(), key.name]
        if not isinstance(found.session.policy, Private) or not found.has_share(key.name):
            return AccountBudget(analyst=key.name, asked_today=today, per_day=key.per_day)
        account = await self._in(found.decider, lambda: found.find_account(key.name))
        spent = found.find_spent(key.name)
        return AccountBudget(
            analyst=key.name,
            unit=None if account is None else account.unit,
            left=None if account is None else account.left,
            spent=spent,
            asked_today=today,
            per_day=key.per_day,
        )

    # --- the end ------------------------------------------------------------------------------------------------------

    async def drain(self, seconds: float = DRAIN_SECONDS) -> int:
        """Take no new question, and wait for those under way; how many were left when the time was over."""
        self.closing = True
        self.changed.set()
        if not self._running:
            return 0
        _, pending = await asyncio.wait(set(self._running), timeout=seconds)
        return len(pending)

    def close(self) -> None:
        """Let go of everything."""
        self._readers.shutdown(wait=True)
        self.trials.close()
        for each in self.populations.values():
            each.close()


@dataclass(frozen=True, slots=True)
class Decided:
    """What is told. `drawn`: was noise drawn for it? None: it is no noisy answer that is new to the asker.

    An exact answer is decided and computed anew for whoever asks it first, so its time tells nothing.
    """

    outcome: Outcome
    drawn: bool | None


def _measure(work: Callable[[], T]) -> tuple[T, float]:
    """What some work gives, and how many seconds it took."""
    begun = time.perf_counter()
    return work(), time.perf_counter() - begun


def _answer(found: Population, request: Any, sql: str, analyst: str, *, check: bool) -> Decided:
    """On the deciding thread."""
    session = found.session
    with session.book.lock:
        session.book.look()  # what other gateways charged is not of this question
    state = session.book.state
    before, all_before, entries = found.find_spent(analyst), state.spent(EVERYBODY)[0], state.seq
    if isinstance(request, Refused):
        reply = Reply.refused(sql, request) if check else session.refuse(sql, request, analyst)
    else:
        reply = session.check(request, analyst) if check else session.answer(request, analyst)
    account = found.find_account(analyst)
    if account is not None:
        account = replace(account, cost=found.find_spent(analyst) - before)
    # it is written down who is told, unless he was told before
    is_new = isinstance(session.policy, Private) and reply.answered and state.seq > entries
    drawn = state.spent(EVERYBODY)[0] > all_before if is_new else None
    return Decided(describe_outcome(reply, found.schema, account), drawn)


def open_population(config: Path) -> Population:
    """One population from its settings, which are read from a file and from nowhere else."""
    given = settings(config)
    data = str(given.data)
    scheme = data.partition("://")[0].lower() if "://" in data else ""
    if scheme and scheme not in DATA_SCHEMES:
        raise ConfigError(f"{config}: data at {scheme}://... is not served: name a file, or postgresql://...")
    session = open_session(given, config, BudgetArguments())
    for note in session.notes:
        log.warning("%s", escape_line(note))
    return Population(config, given, session)
