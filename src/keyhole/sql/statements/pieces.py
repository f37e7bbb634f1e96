"""A log of SQL that comes line by line -> its statements, each as soon as it is whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keyhole.sql.dialects.engines import Dialect
from keyhole.sql.statements.split import Fragment, Scan, ends_a_line

PATIENCE = 1 << 24  # characters in which a quote that was opened may still close


def pieces(lines: Iterable[str], dialect: str = Dialect.DUCKDB, patience: int = PATIENCE) -> Iterator[Fragment]:
    """The statements of `"".join(lines)`, as `split` finds them, but for a quote that closes later than `patience`.

    With `patience` 0 a quote that is open at the semicolon that ends a line is taken for broken at once, as is right
    where statements come one by one. Memory: the statement under way. Cost: linear; what stays open is scanned again
    when it has doubled.

    >>> [f.sql for f in pieces(["SELECT 1; SELECT\\n", "2;\\n", "SELECT ';\\n", "'; SELECT 4"])]
    ['SELECT 1', 'SELECT\\n2', "SELECT ';\\n'", 'SELECT 4']
    >>> [f.sql for f in pieces(["SELECT ';\\n", "SELECT 2;\\n"], patience=0)]
    ["SELECT '", 'SELECT 2']
    """
    waiting = Waiting(dialect, patience)
    for text in lines:
        yield from waiting.taken(text)
    yield from waiting.rest()


class Waiting:
    """The text that is not told apart yet, and the line and column where it begins (from 1 and from 0).

    What begins within a line keeps a semicolon in front, so that it is not taken for the beginning of a line.
    """

    def __init__(self, dialect: str, patience: int = PATIENCE) -> None:
        self.dialect, self.patience = dialect, patience
        self.line, self.column = 1, 0
        self._parts: list[str] = []
        self._size = 0
        self._again = 0  # it is looked at again when it is as long as this

    @property
    def empty(self) -> bool:
        """Is everything told apart?"""
        return not self._parts

    def taken(self, text: str) -> list[Fragment]:
        """One line more; the statements that are whole now.

        An empty text says that nothing more is there at the moment. A comment that is open then, with a semicolon at
        the end of one of its lines, is taken for one that never closes: else it would swallow a log that is followed.
        """
        self._parts.append(text)
        self._size += len(text)
        if not self._may_end(text) or (text and self._size < self._again):
            return []
        waiting = "".join(self._parts)
        scan = Scan(waiting, self.dialect)
        fragments = scan.fragments(self.column > 0)
        in_comment = bool(fragments) and fragments[-1].unclosed == "/*"
        cut, count = scan.ended if self._size > self.patience else scan.sure
        if in_comment and not text and ends_a_line(fragments[-1].sql):
            cut, count = len(waiting), len(fragments)
        whole = [self._moved(f) for f in fragments[:count]]
        self._keep(waiting, cut)
        again = 2 * self._size if in_comment else min(2 * self._size, self.patience)
        self._again = again if scan.doubt or self.dialect == Dialect.TSQL else 0
        return whole

    def rest(self) -> list[Fragment]:
        """What is there when nothing more comes."""
        return [self._moved(f) for f in Scan("".join(self._parts), self.dialect).fragments(self.column > 0)]

    def _may_end(self, text: str) -> bool:
        marks = ";" in text or "\\" in text or text.startswith(".")
        return marks or self.dialect == Dialect.TSQL or not text.strip()

    def _keep(self, waiting: str, cut: int) -> None:
        rest = waiting[cut:]
        if not rest.strip():
            cut, rest = len(waiting), ""
        lines = waiting.count("\n", 0, cut)
        self.column = cut - waiting.rfind("\n", 0, cut) - 1 if lines else self._start() + cut
        self.line += lines
        rest = f";{rest}" if self.column else rest
        self._parts, self._size = [rest] if rest else [], len(rest)

    def _start(self) -> int:
        return self.column - 1 if self.column else 0

    def _moved(self, found: Fragment) -> Fragment:
        """A fragment of the text that waits, where it stands in the log."""
        column = found.column + (self._start() if found.line == 1 else 0)
        opened = found.opened + self.line - 1 if found.opened else 0
        return Fragment(found.sql, found.line + self.line - 1, column, found.unclosed, opened)
