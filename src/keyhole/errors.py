"""The error tree.

KeyholeError                    root: catch this
├── ConfigError                 keyhole.toml or an option is wrong; says what to write
│   └── BookError               a book cannot be gone on with: damaged, older than its witness, for other data
├── DataError                   the custodian's table is wrong (found at load, never at query time)
├── LogError                    a log or transcript cannot be read; says the line
├── QueryError                  one statement is refused; carries the text, a position and a caret
│   ├── ParseError              it is not SQL
│   ├── UnknownColumn           it names a column the table has not
│   └── UnsupportedQuery        it is SQL we do not judge; says what to write instead
├── ContradictionError          answers that no data can explain; names the queries
├── CannotHonour                a method cannot use the knowledge or the answers it was given
├── BudgetExhausted             the ledger has less left than was asked for; carries both numbers
├── NotAvailable                a question met a fault of ours or of the engine; says its kind and nothing of the data
├── NumberError                 a number is too large, or has too many digits, to be read
├── PrivacyParameterError       epsilon, delta, accuracy or a domain out of range
├── ModelError                  an oracle attack was given a query, basis or noise outside its model
├── SolverEnded                 the process of a solver ended before it answered, for want of memory or killed
├── ServerError                 a server did not take a request; carries its status and how long to wait
└── MissingExtra                an optional package is not installed; says the pip command

An error message is an answer: it may depend on the query and the schema, never on private data at query time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

DIFFERS = "read differently from the engine; please report"  # why a statement is not judged: our reading is at fault


LARGEST_POWER, MOST_DIGITS = 400, 10_000  # numbers are read below 10^400, with so many digits
STOPPED_BY_ENGINE = ("Query interrupted",)  # what DuckDB raises as RuntimeError when Ctrl-C comes while it runs


def pass_on_interruption(error: BaseException) -> None:
    """Ctrl-C that an engine turned into an error of its own is KeyboardInterrupt again, and a server that is gone ends
    everything; any other error is left alone.

    >>> pass_on_interruption(RuntimeError("something else"))
    """
    if isinstance(error, ServerGone):
        raise error
    if type(error) is RuntimeError and error.args == STOPPED_BY_ENGINE:
        raise KeyboardInterrupt from None


@contextmanager
def engine_interruptions() -> Iterator[None]:
    """The same around what may ask an engine."""
    try:
        yield
    except RuntimeError as error:
        pass_on_interruption(error)
        raise


class KeyholeError(Exception):
    """Root of everything Keyhole raises on purpose."""


class ConfigError(KeyholeError):
    """A setting is wrong; the message says what to write."""


class BookError(ConfigError):
    """The book cannot be gone on with; the message is for the custodian, who reads what to do."""


class DataError(KeyholeError):
    """The table is unfit: found when the custodian loads it.

    The message may quote a value, an id or a row. `told` is what may be said where others can read it: a message that
    depends on nothing but names of files and columns, None if there is none.
    """

    def __init__(self, message: str, *, told: str | None = None) -> None:
        super().__init__(message)
        self.told = told

    @classmethod
    def of_file(cls, message: str) -> DataError:
        """A fault of the file as such, in which nothing of its content is said."""
        return cls(message, told=message)


class ServerGone(DataError):
    """The server of the data ended the connection: nothing that was begun is finished."""


class LogError(KeyholeError):
    """A log or transcript cannot be read."""


class QueryError(KeyholeError):
    """A statement is refused. `text` is the statement, `position` a character offset into it.

    >>> print(QueryError("COUNT takes one column", "SELECT COUNT(a, b) FROM t", 16))
    COUNT takes one column
      line 1, column 17
      SELECT COUNT(a, b) FROM t
                      ^
    """

    def __init__(self, message: str, text: str = "", position: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.position = position
        self.first_line = 1  # line of the log on which the statement starts

    @property
    def line(self) -> int | None:
        """Line of the caret, from 1, within the statement."""
        return None if self.position is None else self.text.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int | None:
        """Column of the caret, from 1, within its line."""
        return None if self.position is None else self.position - self.text.rfind("\n", 0, self.position)

    def __str__(self) -> str:
        if self.position is None:
            return self.message
        start = self.text.rfind("\n", 0, self.position) + 1
        end = self.text.find("\n", self.position)
        shown = self.text[start : end if end >= 0 else len(self.text)].expandtabs(1)
        at = self.position - start
        left = max(0, at - 60)
        shown, at = shown[left : left + 110], at - left
        place = f"line {self.first_line + (self.line or 1) - 1}, column {self.column}"
        return f"{self.message}\n  {place}\n  {shown}\n  {' ' * at}^"


class ParseError(QueryError):
    """The statement is not SQL."""


class UnknownColumn(QueryError):
    """The statement names a column the table has not."""


class UnsupportedQuery(QueryError):
    """SQL outside what Keyhole judges; the message says what to write instead."""


class ContradictionError(KeyholeError):
    """Answers that no data can explain together."""


class CannotHonour(KeyholeError):
    """A method cannot use the knowledge or the answers it was given."""


class BudgetExhausted(KeyholeError):
    """Less is left than was asked for. Nothing was spent."""

    def __init__(self, message: str, *, remaining: object, requested: object) -> None:
        super().__init__(message)
        self.remaining = remaining
        self.requested = requested


class NotAvailable(KeyholeError):
    """A question met a fault of ours or of the engine, whose words may quote a value and so are not told."""

    def __init__(self, fault: Exception) -> None:
        super().__init__(
            f"this is not available ({type(fault).__name__}): this question was not answered and nothing was spent for "
            "it; what was answered before it is in the book, and given again for nothing. KEYHOLE_DEBUG=1 shows the "
            "owner why"
        )


class NumberError(KeyholeError, ValueError):
    """A number is too large, or has too many digits: 1e999999999 is a short text and a number that fills the memory."""

    LIMITS = f"is too large or too long: numbers are read below 10^{LARGEST_POWER}, with at most {MOST_DIGITS:,} digits"

    def __init__(self, text: str) -> None:
        short = text if len(text) <= 40 else f"{text[:20]}...{text[-10:]}"
        super().__init__(f"the number {short} {self.LIMITS}")


class PrivacyParameterError(KeyholeError):
    """epsilon, delta, accuracy or a domain is out of range."""


class ModelError(KeyholeError):
    """An oracle attack was given something outside its model."""


class SolverEnded(KeyholeError):
    """The process of the integer solver ended before it answered; the next call starts another.

    >>> print(SolverEnded())
    the process of the integer solver ended before it answered: it was killed, or there is not memory enough
    """

    def __init__(self) -> None:
        super().__init__(
            "the process of the integer solver ended before it answered: it was killed, or there is not memory enough"
        )


class ServerError(KeyholeError):
    """A server did not take a request. `status` is that of HTTP, `wait` how many seconds to wait before the next."""

    def __init__(self, message: str, *, status: int | None = None, wait: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.wait = wait


class MissingExtra(KeyholeError):
    """An optional package is not installed; raised by `keyhole.extras` alone.

    >>> print(MissingExtra("the convex attack", "cvxpy", "attack"))
    the convex attack needs cvxpy, which is not installed: pip install 'keyhole[attack]'
    """

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(f"{feature} needs {package}, which is not installed: pip install 'keyhole[{extra}]'")
