"""Questions with their answers: all that an outsider ever sees. JSONL on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

from keyhole.errors import LogError, NumberError
from keyhole.model.numbers import read_decimal, read_fraction
from keyhole.model.query import Query

FIELDS = frozenset({"sql", "answer", "noise", "analyst", "time"})  # of a line of a transcript
ANSWERS = (
    'an answer is a number (12.5, without quotes), true or false, null, {"suppressed": [lo, hi]} or '
    '{"lo": 1, "hi": 2}; of a GROUP BY, a list with {"key": {"column": value}, "values": [...]} for each row'
)
NOISE_KINDS = ("laplace", "gaussian", "discrete-laplace", "discrete-gaussian", "uniform", "rounded", "unknown")


@dataclass(frozen=True, slots=True)
class Noise:
    """The public law of the error of an answer: Laplace scale, Gaussian standard deviation, or half-width.

    `unknown` says that an answer differs from the truth in a way nobody states; its scale means nothing.
    """

    kind: str
    scale: Fraction

    @property
    def bounded(self) -> bool:
        """Is the error surely at most `scale`?"""
        return self.kind in ("uniform", "rounded")

    @classmethod
    def parse(cls, kind: object, scale: object) -> Noise:
        """From the two fields of a transcript line or of `--noise kind:scale`."""
        if kind not in NOISE_KINDS:
            raise LogError(f"unknown noise {kind!r}: write one of {', '.join(NOISE_KINDS)}")
        if kind == "unknown":
            return cls("unknown", Fraction(0))
        try:
            value = read_fraction(str(scale))
        except NumberError as error:
            raise LogError(f"noise scale: {error}") from None
        except ValueError:
            raise LogError("the noise scale is not a number") from None
        if value < 0:
            raise LogError(f"noise scale {scale} is negative")
        return cls(str(kind), value)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered: `lo <= truth <= hi` (None: unbounded), a point value if one was given, and the noise law.

    `shown` are the ends between which a noisy number was said to lie, where its noise has no bound: they hold that
    number, and prove nothing of the truth.

    >>> Answer.exact(Decimal("32.1")).width
    Fraction(0, 1)
    """

    value: Decimal | bool | None
    lo: Fraction | None
    hi: Fraction | None
    noise: Noise | None = None
    shown: tuple[Fraction | None, Fraction | None] | None = None

    @classmethod
    def exact(cls, value: Decimal | int) -> Answer:
        """An answer without any error."""
        exact = Fraction(value)
        return cls(Decimal(value), exact, exact)

    @property
    def width(self) -> Fraction | None:
        """hi - lo, or None if unbounded."""
        return None if self.lo is None or self.hi is None else self.hi - self.lo

    @property
    def null(self) -> bool:
        """SQL NULL: nothing matched."""
        return self.value is None and self.lo is None and self.hi is None and self.noise is None


NULL_ANSWER = Answer(None, None, None)

Given: TypeAlias = Any  # JSON: number, bool, None, {"suppressed": [lo, hi]}, {"lo", "hi"}, or a list of groups


class Absent:
    """The type of ABSENT: a line without an answer (None already means SQL NULL)."""


ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log: the text, where it stood, its answer if the log has one, and the engine it was written for."""

    number: int
    sql: str
    answer: Given = ABSENT
    noise: Noise | None = None
    at: int = 1  # line of the file
    dialect: str = "duckdb"
    analyst: str | None = None  # who asked, where the log says it
    time: str | None = None  # when, as the log writes it
    repeats: int = 1  # how often it stands in the log, where repeats were folded


@dataclass(frozen=True, slots=True)
class Entry:
    """One query with its answer; `number` is "3" or, for a part of a statement, "3.2".

    `certainty` is empty if the answer was shown, else why it may not have been (`query.IF_SHOWN`, `FINER`);
    `COVERED` was shown and has FINER ones beside it, `IN_PART` needs them: something of its statement is not here.
    """

    number: str
    sql: str
    query: Query
    answer: Answer | None
    certainty: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A statement that was not understood, with the reason. `is_raw`: `sql` is a whole entry of the log that could not
    be read, with its answer if it has one.
    """

    number: str
    sql: str
    error: str
    repeats: int = 1
    analyst: str | None = None
    is_raw: bool = False


@dataclass(frozen=True, slots=True)
class HandedOut:
    """A statement that shows rows with private values, or of people whom a private condition chose.

    `columns` are those shown; `records` how many rows, `singled_out` how many of them public columns among these point
    to (None: not known).
    """

    number: str
    sql: str
    columns: tuple[str, ...]
    records: int | None
    singled_out: int | None


@dataclass(frozen=True, slots=True)
class Transcript:
    """Ordered questions and answers, what could not be read, and what was read but means something else elsewhere."""

    entries: tuple[Entry, ...] = ()
    refused: tuple[Refusal, ...] = ()
    unjudged: tuple[Refusal, ...] = ()
    handed_out: tuple[HandedOut, ...] = ()
    may_show_rows: frozenset[str] = frozenset()  # not judged, and may show private values (numbers)

    def __len__(self) -> int:
        return len(self.entries)


def read_jsonl(lines: Iterable[str], name: str = "transcript") -> Iterator[Line]:
    """Read JSONL: `{"sql": ..., "answer": ..., "noise": ...}` a line; numbers as decimals. Blank lines are skipped.

    >>> [line.answer for line in read_jsonl(['{"sql": "SELECT 1", "answer": 32.10}'])]
    [Decimal('32.10')]
    """
    number = 0
    for at, text in enumerate(lines, 1):
        if text.strip():
            number += 1
            yield parse_line(text, number, at, name)


def parse_line(text: str, number: int, at: int, name: str) -> Line:
    """One line of a transcript, or a LogError that says what is wrong with it, and in which file if it has a `name`."""
    where = f"{name}, line {at}" if name else f"line {at}"
    try:
        raw = json.loads(
            text,
            parse_float=read_decimal,
            parse_int=read_decimal,
            parse_constant=_not_a_number,
            object_pairs_hook=_no_repeats,
        )
    except NumberError as error:
        raise LogError(f"{where}: a number {error.LIMITS}") from None  # it may be an answer: never quoted
    except RecursionError:
        raise LogError(f"{where}: nested too deeply") from None
    except ValueError as error:
        # a decoder counts lines and columns within this one line
        said = f"{error.msg} at column {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise LogError(f'{where}: not JSON ({said}); each line is {{"sql": ..., "answer": ...}}') from None
    if not isinstance(raw, dict) or not isinstance(raw.get("sql"), str):
        raise LogError(f'{where}: write {{"sql": "SELECT ...", "answer": ...}}')
    unknown = set(raw) - FIELDS
    if unknown:
        listed = "sql, answer, noise, analyst, time"
        raise LogError(f"{where}: unknown field {sorted(unknown)[0]!r}; known: {listed}")
    noise = parse_noise(raw.get("noise"), where)
    analyst, time = (None if raw.get(field) is None else str(raw[field]) for field in ("analyst", "time"))
    return Line(number, raw["sql"], raw.get("answer", ABSENT), noise, at, analyst=analyst, time=time)


def parse_noise(law: object, where: str) -> Noise | None:
    """The field `noise` of a statement: what is said there of the error of its answer, if anything."""
    if law is None:
        return None
    if not isinstance(law, dict) or (set(law) != {"kind", "scale"} and law != {"kind": "unknown"}):
        raise LogError(f'{where}: noise is {{"kind": "laplace", "scale": 2}}')
    try:
        return Noise.parse(law["kind"], law.get("scale"))
    except LogError as error:
        raise LogError(f"{where}: {error}") from None


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [key for key, _ in pairs]
        raise ValueError(f"field {next(k for k in names if names.count(k) > 1)!r} stands there twice")
    return found


def _not_a_number(text: str) -> Decimal:
    raise ValueError(f"{text} is not a JSON number")


def parse_answer(text: Given, noise: Noise | None, radius: Fraction = Fraction(0)) -> Answer:
    """One JSON answer as an `Answer`; `radius` is the stated error of floating-point summation."""
    if text is None:
        return NULL_ANSWER
    if isinstance(text, bool):
        return Answer(text, None, None, noise)
    if isinstance(text, dict):
        pair = text.get("suppressed") if set(text) == {"suppressed"} else None
        if set(text) == {"lo", "hi"}:
            pair = [text["lo"], text["hi"]]
        if not isinstance(pair, list) or len(pair) != 2:
            raise LogError(ANSWERS)
        lo, hi = (None if end is None else Fraction(_number(end)) for end in pair)
        if lo is not None and hi is not None and lo > hi:
            raise LogError("lo of the answer is above its hi")
        return _between(lo, hi, noise)
    value = _number(text)
    if noise is not None and noise.bounded:
        return Answer(value, Fraction(value) - noise.scale, Fraction(value) + noise.scale, noise)
    if noise is not None:
        return Answer(value, None, None, noise)
    return Answer(value, Fraction(value) - radius, Fraction(value) + radius)


def _between(lo: Fraction | None, hi: Fraction | None, noise: Noise | None) -> Answer:
    """A number of which two ends are given. They are ends of what is printed: the truth lies as far off as noise is.

    >>> _between(Fraction(0), Fraction(1), Noise("uniform", Fraction(2))).width, Noise("laplace", Fraction(2)).bounded
    (Fraction(5, 1), False)
    """
    if noise is None:
        return Answer(None, lo, hi)
    if not noise.bounded:
        return Answer(None, None, None, noise, (lo, hi))
    off = noise.scale
    return Answer(None, None if lo is None else lo - off, None if hi is None else hi + off, noise)


def _number(given: Given) -> Decimal:
    given = given.item() if hasattr(given, "item") else given  # a number of NumPy or pandas
    if isinstance(given, bool) or not isinstance(given, int | float | Decimal):
        raise LogError(ANSWERS)
    try:
        value = read_decimal(given)
    except NumberError as error:
        raise LogError(f"an answer {error.LIMITS}") from None
    if not value.is_finite():
        raise LogError("an answer is NaN or infinite; write null for SQL NULL")
    return value
