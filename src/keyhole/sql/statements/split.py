"""A log of SQL -> its statements, by scanning only: all of a text, or line by line. No statement is parsed here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from keyhole.sql.dialects.engine import Dialect, find_engine

# /*! ... */, unless it sets what dumps set, and what changes no meaning
_DUMP_SETS = (
    r"@\w+\s*=\s*@@\w+|NAMES\s+\w+|TIME_ZONE\s*=\s*'\+00:00'|SQL_MODE\s*=\s*'NO_AUTO_VALUE_ON_ZERO'"
    r"|(?:UNIQUE_CHECKS|FOREIGN_KEY_CHECKS|SQL_NOTES)\s*=\s*[01]|character_set_(?:client|results)\s*=\s*utf8\w*"
    r"|\w+\s*=\s*@OLD_\w+"
)
_EXECUTED = rf"M?!(?!\d*\s*(?i:SET\s+(?:{_DUMP_SETS})(?:\s*,\s*(?:{_DUMP_SETS}))*)\s*\*/)"
_CARRIAGE_RETURN = re.compile(r"(?:--|#)[^\n]*\r(?!\n)")
_RUN_BY_MYSQL = re.compile(r"/\*M?!")
NESTED = "/* /*"
DASHES = "--"
_BLANK_BEHIND = re.compile(r"--(?:\s|$)")
_NO_MORE_IN_MYSQL = re.compile(r"--(?:\s|$)|(?:(?!/\*)[^;'\"`])*$")  # a comment there, too, or nothing that ends
_BLOCK = re.compile(r"/\*|\*/")
_NEXT_STATEMENT = re.compile(r";[ \t]*(?:--[^\r\n]*)?\r?\n\s*(?:SELECT|WITH)\b", re.IGNORECASE)
_END_OF_LINE = re.compile(r";[ \t]*(?=\r?\n|$|--)")
_FROM_STDIN = re.compile(r"COPY\b[^;]*\bFROM\s+STDIN\b", re.IGNORECASE)
_ENDS_QUERY = re.compile(r"\\(?:g|G|gx|gset|gdesc|gexec|watch|crosstabview)\b")
_ESCAPED = re.compile(r"(?<=[eE])(?<!\w[eE])'(?:[^'\\]|''|\\.)*'", re.DOTALL)  # the text of E'it\'s'
_OPEN_ENDED = re.compile(r"\b(?:UNION|ALL|EXCEPT|INTERSECT)\s*$", re.IGNORECASE)
# in SQL Server's scripts: what begins a line and a statement, and what such a line ends
_STARTS = r"(?:(?:SELECT|DECLARE|SET|USE|PRINT|EXEC|BEGIN|COMMIT|ROLLBACK)\b|WITH\s+\w+\s+AS\b|END\s+(?:TRY|CATCH)\b)"
_ENDS = re.compile(r"(?:SELECT|USE|SET|DECLARE|PRINT|EXEC|BEGIN|COMMIT|ROLLBACK|END)\b", re.IGNORECASE)


_DASHES_IN_DOUBT = (
    "-- without a blank behind it begins a comment in most engines, but in MySQL 5--2 is 7: write a blank behind it, "
    "or name the engine with --dialect"
)


@dataclass(frozen=True, slots=True)
class Fragment:
    """One statement of a log as written, without its semicolon; `line` and `column` count from 1.

    `unclosed` is the mark of a quote or comment that never closes (`/*`, `'`, `$a$`), `/* /*` where it depends on the
    engine whether it does, or `--` where it depends on it whether it is one; `opened` is the line on which that mark
    stands. What such a statement asks is not known.
    """

    sql: str
    line: int
    column: int
    unclosed: str = ""
    opened: int = 0

    @property
    def doubt(self) -> str:
        """Why it is not known what was asked; empty if it is.

        >>> split_statements("SELECT 1;\\nCOMMIT /* all; SELECT 2")[1].doubt
        'line 2: the comment /* is never closed, so it is not known what was asked from there on: close it'
        """
        if not self.unclosed:
            return ""
        if self.unclosed == NESTED:
            return (
                f"line {self.opened}: a comment stands inside a comment, and engines differ in where it ends: write "
                "it without"
            )
        if self.unclosed == DASHES:
            return f"line {self.opened}: {_DASHES_IN_DOUBT}"
        what = "comment" if self.unclosed == "/*" else "quote"
        return (
            f"line {self.opened}: the {what} {self.unclosed} is never closed, so it is not known what was asked from "
            "there on: close it"
        )


def split_statements(text: str, dialect: str = Dialect.DUCKDB) -> list[Fragment]:
    """The statements of `text`, in order; empty ones and those that are only comments are dropped.

    Knows `'...'` with `''`, `"..."`, `--`, nested `/* */` and `$tag$...$tag$`, and what the dialect quotes with beside
    these. A quote that never closes ends at the next semicolon at the end of a line (or at the end of the text), so
    that one broken statement does not swallow the log; a comment that never closes takes the rest. Both come back as
    one fragment that says so (`Fragment.unclosed`). A command of a terminal (`\\timing`, `.mode csv`) is a fragment of
    its own, up to the end of its line; the rows behind `COPY ... FROM STDIN;` are passed over. In SQL Server's scripts
    a line `GO` ends a statement, and so does the end of a line behind which another one begins. Linear in the length of
    the text, except after an unterminated quote, where each one costs a look ahead.

    >>> [f.sql for f in split_statements("SELECT 1; -- a; b\\nSELECT ';' /* c; /* d */ ; */;;")]
    ['SELECT 1', "SELECT ';'"]
    >>> split_statements("SELECT 1;\\n  SELECT 2")[1]
    Fragment(sql='SELECT 2', line=2, column=3, unclosed='', opened=0)
    >>> [f.sql for f in split_statements("SELECT 1\\nGO 3\\nSELECT 2", "tsql")]
    ['SELECT 1', 'SELECT 2']
    """
    return Scan(text, dialect).fragments()


@cache
def _pattern(dialect: str) -> re.Pattern[str]:
    """What matters between two semicolons, longest first; a quote or comment that never closes is handled apart."""
    engine = find_engine(dialect)
    inside = r"[^'\\]|''|\\." if engine.backslash_escapes else r"[^']|''"
    double = r'[^"\\]|""|\\.' if engine.backslash_escapes else r'[^"]|""'
    quotes = [f"'(?:{inside})*'", f'"(?:{double})*"']
    quotes += [r"`[^`]*`"] if engine.backtick_names else []
    quotes += [r"\[[^\]\n]*\]"] if engine.bracket_names else []
    rest = r"[^\n]*" if engine.carriage_return_ends_comment is False else r"[^\r\n]*"
    dashes = r"--(?=\s|\Z)" if engine.dashes_need_blank else "--"
    block = rf"/\*(?!{_EXECUTED})" if engine.runs_marked_comments else r"/\*"
    parts = [r"(?P<semicolon>\\?;)", f"(?P<line>{dashes}{rest})", f"(?P<block>{block})"]
    if engine.hash_comments:
        parts.append(rf"(?P<hash>\#{rest})")
    if engine.lines_end_statements:
        parts.append(r"(?P<go>^[ \t]*GO(?:[ \t]+\d+)?[ \t]*;?[ \t]*\r?$)")
        parts.append(rf"(?P<blank>\n\s*(?={_STARTS}))")
    parts += [r"(?P<command>\\[a-zA-Z!?][^\n]*|^\.[a-zA-Z][^\n]*)", f"(?P<quote>{'|'.join(quotes)})"]
    parts += [r"(?P<dollar>\$(?P<tag>(?:[^\W\d]\w*)?)\$)"] if engine.dollar_quotes else []
    opening = ("`" if engine.backtick_names else "") + (r"\[" if engine.bracket_names else "")
    parts += [rf"(?P<open>['\"{opening}])"]
    quoting = opening + (r"\#" if engine.hash_comments else "")
    marks = rf";'\"$/\\{quoting}-"
    run = rf"[^\s{marks}]+" if engine.lines_end_statements else rf"[^\s{marks}][^{marks}]*"
    parts.append(rf"(?P<word>{run}|[$/\\{quoting}-])")
    flags = re.IGNORECASE if engine.lines_end_statements else re.NOFLAG
    return re.compile("|".join(parts), flags | re.MULTILINE | re.DOTALL)


class Scan:
    """One pass over a text.

    `ended` is the offset behind the last end of a statement and how many there are up to it; `sure` the same for the
    last end that more text behind would not change.
    """

    def __init__(self, text: str, dialect: str) -> None:
        self.text = text
        self.pattern = _pattern(dialect)
        self.engine = find_engine(dialect)
        self.found: list[Fragment] = []
        self.line, self.counted = 1, 0  # lines seen up to the offset `counted`
        self.first: int | None = None  # offset of the first word of the statement
        self.last = 0  # offset behind its last word
        self.depth = 0  # of parentheses
        self.unclosed_dollars: set[str] = set()  # dollar quotes known not to close in the rest of the text
        self.unclosed: tuple[str, int] | None = None  # the first mark of the statement that never closes, and its place
        self.ended = self.sure = (0, 0)
        self.doubt = False  # something never closed, perhaps because the text was cut here

    def fragments(self, at: int = 0) -> list[Fragment]:
        while at < len(self.text) and (match := self.pattern.search(self.text, at)) is not None:
            at = self.step(match)
        self.close()
        return self.found

    def step(self, match: re.Match[str]) -> int:
        """Where to go on behind this match."""
        kind = match.lastgroup
        if kind in ("semicolon", "go"):
            end = self.close() or match.end()
            self.settle(end)
            return end
        if kind in ("line", "hash"):
            if self.engine.dashes_need_blank is None:
                self.doubt_dashes(match)
            return match.end()
        if kind == "block":
            return self.comment(match)
        if kind == "blank":
            if self.first is not None and self.separates():
                self.close()
                self.settle(match.start())
            return match.end()
        if kind == "command" and (self.first is None or _ENDS_QUERY.match(match.group())):
            self.close()
            self.first, self.last = match.start(), match.start() + len(match.group().rstrip())
            self.close()
            self.settle(match.end())
            return match.end()
        if self.first is None:
            self.first = match.start()
        self.last = self.end(match)
        return self.last

    def end(self, match: re.Match[str]) -> int:
        """The end of a word or of a quoted text."""
        kind, text = match.lastgroup, match.group()
        if self.engine.e_strings and kind in ("open", "quote"):
            escaped = _ESCAPED.match(self.text, match.start())
            if escaped is not None:
                return escaped.end()
        if kind == "command":  # inside a statement: only its mark, so that the rest is read
            return match.start() + 1
        # A string that holds a semicolon at the end of a line, followed by a line that starts a statement, is taken for
        # an unterminated one: its closing mark is the opening mark of a later statement.
        if kind == "open" or (kind == "quote" and ";" in text and _NEXT_STATEMENT.search(text) is not None):
            self.doubt = self.doubt or kind == "open"
            return self.break_off(text[0], match.start())
        if kind in ("dollar", "tag"):
            mark = match.group("dollar")
            shut = -1 if mark in self.unclosed_dollars else self.text.find(mark, match.end())
            if shut >= 0:
                return shut + len(mark)
            self.unclosed_dollars.add(mark)
            self.doubt = True
            return self.break_off(mark, match.start())
        if kind == "word":
            self.depth += text.count("(") - text.count(")")
            return match.start() + len(text.rstrip())
        return match.end()

    def break_off(self, mark: str, at: int) -> int:
        """Where a statement ends whose quote or comment does not close."""
        self.unclosed = self.unclosed or (mark, at)
        end = None if mark == "/*" else _END_OF_LINE.search(self.text, at)
        return len(self.text) if end is None else end.start()

    def comment(self, match: re.Match[str]) -> int:
        """The end of a comment. One that is in doubt is kept, so that its statement can say so."""
        at = _end_of_comment(self.text, match.end(), not self.engine.nested_comments)
        nested = self.engine.nested_comments is None and "/*" in self.text[match.end() : at]
        if at >= 0 and not nested:
            return at
        if at < 0:
            self.doubt = True
            at = self.break_off("/*", match.start())
        else:
            self.unclosed = self.unclosed or (NESTED, match.start())
        self.first, self.last = match.start() if self.first is None else self.first, at
        return at

    def doubt_dashes(self, match: re.Match[str]) -> None:
        """Keeps what is a comment in most engines and none in MySQL; between two statements it is a mistake there."""
        plain = _NO_MORE_IN_MYSQL if self.first is None else _BLANK_BEHIND
        if plain.match(match.group()) is None:
            self.unclosed = self.unclosed or (DASHES, match.start())
            self.first, self.last = match.start() if self.first is None else self.first, match.end()

    def separates(self) -> bool:
        """Does this line end the statement? Not inside parentheses, behind UNION, or where WITH goes on."""
        said = self.text[self.first : self.last]
        return self.depth == 0 and _ENDS.match(said) is not None and _OPEN_ENDED.search(said) is None

    def close(self) -> int:
        """Ends the statement; where to go on if what follows is no SQL, else 0."""
        first, self.first, self.depth = self.first, None, 0
        unclosed, self.unclosed = self.unclosed, None
        if first is None:
            return 0
        self.line += self.text.count("\n", self.counted, first)
        self.counted = first
        sql = self.text[first : self.last]
        mark, at = unclosed or ("", first)
        opened = self.line + self.text.count("\n", first, at) if mark else 0
        self.found.append(Fragment(sql, self.line, first - self.text.rfind("\n", 0, first), mark, opened))
        if _FROM_STDIN.match(sql) is None:
            return 0
        rows = re.compile(r"^\\\.\r?$", re.MULTILINE).search(self.text, self.last)
        self.doubt = self.doubt or rows is None
        return rows.end() if rows is not None else 0

    def settle(self, at: int) -> None:
        """A statement ends before this offset."""
        self.ended = (at, len(self.found))
        if not self.doubt:
            self.sure = self.ended


def _end_of_comment(text: str, at: int, flat: bool) -> int:
    depth = 1
    for match in _BLOCK.finditer(text, at):
        opens = match.group() == "/*"
        depth += (0 if flat else 1) if opens else -1
        if depth == 0:
            return match.end()
    return -1


def mask_quotes(sql: str, dialect: str = Dialect.DUCKDB) -> str:
    """The text with comments and whatever is quoted blanked, each character by a blank: where words are only words.

    >>> mask_quotes("SET x = 'SELECT' -- SELECT")
    'SET x =                    '
    """
    engine, pattern, at = find_engine(dialect), _pattern(dialect), 0
    parts: list[str] = []
    while (match := pattern.search(sql, at)) is not None:
        kind, end = match.lastgroup, match.end()
        if kind == "block":
            end = _end_of_comment(sql, end, engine.nested_comments is False)
            end = len(sql) if end < 0 else end
        elif engine.e_strings and (escaped := _ESCAPED.match(sql, match.start())):
            end = escaped.end()
        elif kind in ("dollar", "tag"):
            shut = sql.find(match["dollar"], end)
            end = len(sql) if shut < 0 else shut + len(match["dollar"])
        kept = kind in ("word", "semicolon", "command", "blank", "go")
        parts += [sql[at : match.start()], sql[match.start() : end] if kept else " " * (end - match.start())]
        at = end
    return "".join([*parts, sql[at:]])


def explain_doubtful_comment(sql: str, dialect: str) -> str:
    r"""Why it is not known what is a comment; empty if it is. DuckDB and PostgreSQL end one at a carriage return.

    >>> explain_doubtful_comment("SELECT 1 -- all\r WHERE 2 > 1", "postgres")
    ''
    >>> explain_doubtful_comment("SELECT 1 -- all\r WHERE 2 > 1", "sqlite")[:45]
    'written for SQLite: a carriage return ends a '
    >>> explain_doubtful_comment("SELECT 1 /* all /* of */ them */", "snowflake")[:58]
    'written for Snowflake: a comment stands inside a comment, '
    >>> explain_doubtful_comment("SELECT 1 /*! WHERE 2 > 1 */", "mysql")[:43]
    'written for MySQL: what stands in /*! ... *'
    """
    if dialect == Dialect.DUCKDB or not ("\r" in sql or "!" in sql or "/*" in sql or "--" in sql):
        return ""
    engine, why = find_engine(dialect), ""
    if engine.runs_marked_comments and _RUN_BY_MYSQL.search(sql):
        why = "what stands in /*! ... */ is run by MySQL: write it without"
    elif not engine.carriage_return_ends_comment and _CARRIAGE_RETURN.search(sql):
        why = "a carriage return ends a comment in some engines and not in others: write the statement without it"
    else:
        marks = {part.unclosed for part in split_statements(sql, engine.dialect)}
        if NESTED in marks:
            why = "a comment stands inside a comment, and engines differ in where it ends: write it without"
        elif DASHES in marks:
            why = _DASHES_IN_DOUBT
    return why and f"written for {engine.title}: {why}"


# --- a log that comes line by line ------------------------------------------------------------------------------------
# A log of SQL that comes line by line -> its statements, each as soon as it is whole.


PATIENCE = 1 << 24  # characters in which a quote that was opened may still close


class StatementBuffer:
    """A log that comes line by line: the text that is not told apart yet, and its line (from 1) and column (from 0).

    All statements of `take_line` and `take_rest` are those that `split_statements` finds in the whole, but for a quote
    that closes later than `patience`. With `patience` 0 a quote that is open at the semicolon that ends a line is taken
    for broken at once, as is right where statements come one by one. What begins within a line keeps a semicolon in
    front, so that it is not taken for the beginning of a line. Memory: the statement under way. Cost: linear; what
    stays open is scanned again when it has doubled.

    >>> waiting = StatementBuffer("duckdb", patience=0)
    >>> [[f.sql for f in waiting.take_line(text)] for text in ("SELECT 1; SELECT\\n", "2;\\n", "SELECT ';\\n")]
    [['SELECT 1'], ['SELECT\\n2'], ["SELECT '"]]
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

    def take_line(self, text: str) -> list[Fragment]:
        """One line more; the statements that are whole now.

        An empty text says that nothing more is there at the moment. A comment that is open then, with a semicolon at
        the end of one of its lines, is taken for one that never closes: else it would swallow a log that is followed.
        """
        self._parts.append(text)
        self._size += len(text)
        marks = ";" in text or "\\" in text or text.startswith(".") or not text.strip()
        may_end = marks or find_engine(self.dialect).lines_end_statements
        if not may_end or (text and self._size < self._again):
            return []
        waiting = "".join(self._parts)
        scan = Scan(waiting, self.dialect)
        fragments = scan.fragments(self.column > 0)
        in_comment = bool(fragments) and fragments[-1].unclosed == "/*"
        cut, count = scan.ended if self._size > self.patience else scan.sure
        if in_comment and not text and _END_OF_LINE.search(fragments[-1].sql):
            cut, count = len(waiting), len(fragments)
        whole = [self._moved(f) for f in fragments[:count]]
        self._keep(waiting, cut)
        again = 2 * self._size if in_comment else min(2 * self._size, self.patience)
        self._again = again if scan.doubt or scan.engine.lines_end_statements else 0
        return whole

    def take_rest(self) -> list[Fragment]:
        """What is there when nothing more comes."""
        return [self._moved(f) for f in Scan("".join(self._parts), self.dialect).fragments(self.column > 0)]

    def _keep(self, waiting: str, cut: int) -> None:
        rest = waiting[cut:]
        if not rest.strip():
            cut, rest = len(waiting), ""
        lines = waiting.count("\n", 0, cut)
        self.column = cut - waiting.rfind("\n", 0, cut) - 1 if lines else max(self.column - 1, 0) + cut
        self.line += lines
        rest = f";{rest}" if self.column else rest
        self._parts, self._size = [rest] if rest else [], len(rest)

    def _moved(self, found: Fragment) -> Fragment:
        """A fragment of the text that waits, where it stands in the log."""
        column = found.column + (max(self.column - 1, 0) if found.line == 1 else 0)
        opened = found.opened + self.line - 1 if found.opened else 0
        return Fragment(found.sql, found.line + self.line - 1, column, found.unclosed, opened)
