"""Scripts: what in a log steers a session, what asks, and what asks in a wrapping (blocks, PREPARE, COPY, cursors).

Nothing that may hold a question is dropped: it is opened, or listed with the reason why it is not judged. Words in
comments and quotes are no words (`masked`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from keyhole.schema import folded
from keyhole.sql.engines import Dialect
from keyhole.sql.looks_like import suspicion
from keyhole.sql.prepared import Prepared
from keyhole.sql.split import Fragment, masked, split
from keyhole.sql.views import NotResolved, with_views

_I = re.IGNORECASE | re.DOTALL
_PLAIN = re.compile(r"(?:SELECT|WITH)\b", _I)
_SELECT = re.compile(r"\bSELECT\b", _I)
_ASKS = re.compile(r"\b(?:SELECT|EXECUTE|EXEC|CALL|COPY|TABLE|WITH)\b", _I)
_ENDED = re.compile(
    r"(?:COMMIT|ROLLBACK|ABORT|SAVEPOINT|RELEASE|START\s+TRANSACTION)\b(?:[\s,]+\w+)*\s*"
    r"|(?:BEGIN|END)(?:[\s,]+(?:TRANSACTION|TRAN|WORK|ISOLATION|LEVEL|READ|WRITE|ONLY|COMMITTED|UNCOMMITTED|REPEATABLE"
    r"|SERIALIZABLE|DEFERRED|IMMEDIATE|EXCLUSIVE|CONCURRENT|NOT|DEFERRABLE))*\s*"
    r"|END(?:\s+(?:IF|LOOP|WHILE|CASE|FOR|REPEAT|TRY|CATCH))?(?:\s+\w+)?\s*",
    _I,
)
# What is skipped is on these lists: it cannot show data. A variable may be printed, since what fills it is judged.
_SESSION = re.compile(
    r"(?:SET|RESET|USE|DISCARD|DEALLOCATE|CLOSE|DECLARE|LET|PRINT|RETURN|RAISE|LISTEN|UNLISTEN|LOAD(?!\s+(?:DATA|XML)\b)"
    r"|LOCK|FETCH|MOVE|VACUUM|REINDEX|CHECKPOINT)\b",
    _I,
)
_CALLS = re.compile(r"(?!(?:TABLE|VALUES|IN|AND|OR|NOT)\b)\b[^\W\d]\w*\s*\(", _I)  # a function may look anywhere
_VALUE = re.compile(r":?=|\b(?:TO|DEFAULT)\b", _I)  # what stands behind it is computed
_DECLARES = re.compile(r"(?:DECLARE|LET|LOCK|VACUUM|REINDEX)\b", _I)  # in parentheses: types, options, columns
_VARIABLE = re.compile(r"(?:DECLARE|LET)\b", _I)
_TYPE = re.compile(  # what takes numbers in parentheses, or the columns of a table, and computes nothing
    r"(?:DEC(?:IMAL)?|NUMERIC|NUMBER|FLOAT\d*|DOUBLE|REAL|(?:BIG|SMALL|TINY|MEDIUM)?INT(?:EGER)?|BIT|N?(?:VAR)?CHAR2?|VARYING"
    r"|CHARACTER|STRING|N?TEXT|(?:VAR)?BINARY|RAW|DATETIME\w*|TIME\w*|INTERVAL|SECOND|TABLE|KEY|UNIQUE|CLUSTERED"
    r"|NONCLUSTERED|IDENTITY|ENUM|CURSOR)\s*\(",
    _I,
)
_MEASURES = re.compile(r"SET\b.*(?:STATISTICS|SHOWPLAN|PROFIL|EXPLAIN)|VACUUM\b.*\bVERBOSE\b", _I)
_STATISTICS = re.compile(r"(?:SHOW|PRAGMA|ANALY[SZ]E|SUMMARIZE|DESCRIBE|DESC)\b", _I)
_SETTINGS = re.compile(  # what shows names, types and settings alone
    r"SHOW\s+(?:(?:SESSION\s+|GLOBAL\s+)?VARIABLES|DATABASES|SCHEMAS|(?:FULL\s+)?(?:COLUMNS|FIELDS)|CHARACTER\s+SET|COLLATION"
    r"|ENGINES|PLUGINS|GRANTS|PRIVILEGES|TIME\s+ZONE|TRANSACTION\s+ISOLATION\s+LEVEL)\b.*"
    r"|PRAGMA\s+(?:\w+\s*\.\s*)?(?:table_info|table_xinfo|table_list|index_list|index_info|index_xinfo|foreign_key_list"
    r"|database_list|collation_list|function_list|compile_options|show_tables|version|foreign_keys|journal_mode|synchronous"
    r"|cache_size|temp_store|mmap_size|page_size|busy_timeout|locking_mode|wal_autocheckpoint|wal_checkpoint|auto_vacuum"
    r"|user_version|application_id|encoding|threads|memory_limit|temp_directory|optimize|enable_progress_bar"
    r"|disable_progress_bar|disable_profiling)\b.*",
    _I,
)
_ONE_SETTING = re.compile(r"SHOW\s+[\w.]+\s*", _I)  # in PostgreSQL a setting, in DuckDB the columns of a table
_TABLES = re.compile(r"SHOW\s+(?:FULL\s+)?TABLES\b.*", _I)  # Snowflake counts the rows of each
_SHOWS_ONE = (Dialect.POSTGRES, Dialect.REDSHIFT, Dialect.DUCKDB)
_IDLE = re.compile(  # of a block: nothing is computed, or a variable is declared
    r"(?:NULL|CONTINUE|EXIT|LEAVE|ITERATE|BREAK|ELSE|THEN|LOOP|REPEAT|GO|THROW)\b[^()]*|\w+:|<<\s*\w+\s*>>"
    r"|@?\w+\s+(?:CONSTANT\s+)?(?:\S+%(?:ROW)?TYPE|(?:BIG|SMALL|TINY)?INT\w*|INTEGER|NUMERIC|NUMBER|DECIMAL|FLOAT\d*|REAL"
    r"|DOUBLE|TEXT|STRING|N?VARCHAR2?|N?CHAR|BOOL\w*|BIT|DATE\w*|TIME\w*|INTERVAL|RECORD|REFCURSOR|RESULTSET|CURSOR|JSONB?"
    r"|UUID|MONEY)\b.*",
    _I,
)
_COMMANDS = re.compile(  # of psql, mysql and sqlite3: none of them shows data of its own
    r"\\(?:timing|pset|x|set|unset|echo|qecho|warn|c|connect|q|l|h|help|\?|o|a|t|f|H|C|encoding|conninfo|g|G|gx|gset"
    r"|gdesc|watch|cd|r|reset|p|print|s|sf|sv|z|dp?|d[tvismnfuEDTLOx]|crosstabview|errverbose|bind|parse|if|elif|else|endif"
    r"|prompt|password|e|edit|ef|ev)(?![\w+!])"
    r"|\.(?:mode|headers?|timer|width|separator|output|once|open|tables?|schema|fullschema|databases|exit|quit|echo|bail"
    r"|nullvalue|print|prompt|help|show|indexes|indices|log|limit|timeout|cd|version|highlight|maxrows|maxwidth|columns|rows"
    r"|large_number_rendering|decimal_sep|thousand_sep)\b",
)
_OPENERS = re.compile(  # what may stand before a statement of a block
    r"(?:BEGIN(?:\s+(?:TRY|CATCH|NOT\s+ATOMIC|ATOMIC))?|ELSE(?!\s*IF\b)|LOOP|REPEAT|DO(?=\s+(?:SELECT|WITH)\b)"
    r"|(?:ELSE?IF|IF)\b.*?\bTHEN|EXCEPTION\b(?:\s+WHEN\b.*?\bTHEN)?|WHEN\b.*?\bTHEN|WHILE\b.*?\b(?:DO|LOOP))(?:\s+|$)",
    _I,
)
_FOR = re.compile(r"FOR\s+\w+\s+IN\s+(?P<query>\(?\s*(?:SELECT|WITH)\b.*?)\s+(?:LOOP|DO)\b(?P<rest>.*)", _I)
_PREPARE = re.compile(r"PREPARE\s+(?P<name>\S+?)\s*(?:\((?P<types>[^)]*)\)\s*)?AS\s+(?P<sql>.*)", _I)
_EXECUTE = re.compile(r"EXECUTE\s+(?P<name>[^\s(;]+)\s*(?:\((?P<values>.*)\))?\s*", _I)
_IMMEDIATE = re.compile(r"EXECUTE\s+IMMEDIATE\s*'(?P<sql>(?:[^'\\]|'')*)'\s*", _I)
_RUNS = re.compile(r"(?:EXECUTE|EXEC|CALL)\b", _I)
_COPY = re.compile(r"\\?COPY\s*(?P<what>.*?)\s+(?P<way>TO|FROM)\b", _I)
_COPY_QUERY = re.compile(r"\\?COPY\s*\(", _I)
_CURSOR = re.compile(r"DECLARE\s+(?P<name>\S+)\s+(?:\w+\s+)*?CURSOR\b.*?\bFOR\s+(?P<sql>.*)", _I)
_FETCH = re.compile(r"(?:FETCH|MOVE)\b(?:.*\b(?:FROM|IN))?\s+(?P<name>\S+)(?:\s+INTO\b.*)?\s*", _I)
_EXPLAIN = re.compile(r"EXPLAIN\b(?P<how>\s*\([^)]*\)|(?:\s+(?:ANALYZE|ANALYSE|VERBOSE|QUERY\s+PLAN))*)", _I)
_KEPT = re.compile(
    r"(?:CREATE\b.*?\bAS\b\s*\(?\s*(?:SELECT|WITH|EXECUTE|TABLE|FROM)\b|INSERT\b.*?\b(?:SELECT|WITH)\b)", _I
)
_VIEW = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP\s+|TEMPORARY\s+)?VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>[^\s(]+)\s+AS\s+"
    r"(?P<sql>(?:SELECT|WITH)\b.*)",
    _I,
)
_DROP = re.compile(
    r"DROP\s+VIEW\s+(?:IF\s+EXISTS\s+)?(?P<names>\S+(?:\s*,\s*\S+)*?)(?:\s+(?:CASCADE|RESTRICT))?\s*", _I
)
_DO = re.compile(r"DO\s+(?:LANGUAGE\s+\w+\s*)?(?P<mark>\$\w*\$)(?P<body>.*)(?P=mark)(?:\s*LANGUAGE\s+\w+)?\s*", _I)
_PERFORM = re.compile(r"(?P<word>PERFORM|RETURN\s+QUERY)\s+", _I)
_ASSIGNED = re.compile(r"[^()]*\(\s*(?:SELECT|WITH)\b", _I)
_INCLUDES = re.compile(r"\\(?:i|ir|include|include_relative)\b|\.read\b")
_DUMPS = re.compile(r"\.dump\b")

KEPT = "its result is kept in a table or view, and what is made of that is not known: audit what reads it, with --view"
PLANNED = "EXPLAIN shows what the planner expects, not the answer: what that gives away is not judged"
MEASURED = "EXPLAIN ANALYZE runs the query and shows how many rows each step found, not its answer: that is not judged"
RUNS = "it runs a procedure or a text put together elsewhere: log the statements that it asked, and audit those"
ROWS_OUT = "COPY writes the records themselves to a file: that is not judged, whoever has the file has the values"
ROWS_IN = "COPY changes the table: statements before and after it are about different people"
NO_PREPARE = "its PREPARE is not in the log, or its values are no constants: log the statement with its values"
NO_CURSOR = "it reads a cursor whose query is not in the log: log the DECLARE ... CURSOR too"
INSIDE = "a SELECT stands inside it and cannot be taken out: write it as a statement of its own"
INCLUDED = "it runs another file, which is not in the log: audit that file too"
GENERATED = "\\gexec runs what the query answered as statements, which are not in the log: audit those too"
STATISTICS = (
    "it may print statistics of the data (numbers of rows, least and greatest values), and what these give away is "
    "not judged"
)
COMPUTES = "it computes with a function that may look anywhere: log the SELECT that it stands for"
CLIENT = "what this command of the client shows or runs is not known, so it is not judged"
DUMPED = ".dump prints the records themselves: that is not judged, whoever has the output has the values"


SHORT = 2000  # characters of a text that is worth remembering: logs repeat their statements


@lru_cache(maxsize=4096)
def told_apart(text: str, dialect: str) -> tuple[Fragment, ...]:
    """What `split` finds, remembered."""
    return tuple(split(text, dialect))


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """A statement of a script. `steers`: it asks nothing; `unjudged`: it was read, and why it is not judged."""

    sql: str
    line: int = 1
    steers: bool = False
    unjudged: str = ""


@dataclass(slots=True)
class Script:
    """What a session remembers from statement to statement: what it prepared, its cursors, and open blocks."""

    dialect: str = Dialect.DUCKDB
    prepared: dict[str, Prepared] = field(default_factory=dict)
    cursors: set[str] = field(default_factory=set)
    blocks: int = 0
    views: dict[str, str] = field(default_factory=dict)
    whole: bool = False  # everything that reads its views comes through here

    def steps(self, text: str, at: int = 1) -> Iterator[ScriptStep]:
        """The steps of a script that begins on line `at`, in order.

        >>> script = "BEGIN; PREPARE q (int) AS SELECT SUM(x) FROM t WHERE a > $1; EXECUTE q (3); COMMIT"
        >>> [step.sql for step in Script("postgres").steps(script) if not step.steers]
        ['SELECT SUM(x) FROM t WHERE a > 3']
        >>> [step.sql for step in Script().steps("COPY (SELECT SUM(x) FROM t) TO 'f.csv'; SET y = (SELECT 1)")]
        ['SELECT SUM(x) FROM t', 'SELECT 1']
        """
        for part in told_apart(text, self.dialect) if len(text) <= SHORT else split(text, self.dialect):
            opened = part.opened + at - 1 if part.opened else 0
            yield from self.step(part if at == 1 else replace(part, line=part.line + at - 1, opened=opened))

    def _viewed(self, step: ScriptStep) -> ScriptStep:
        """A statement that reads a view, with the view's query in it."""
        if step.steers or step.unjudged or not self.views:
            return step
        try:
            return replace(step, sql=with_views(step.sql, self.dialect, self.views))
        except NotResolved as error:
            return replace(step, unjudged=str(error))

    def step(self, part: Fragment) -> Iterator[ScriptStep]:
        """The steps of one statement."""
        if part.doubt:
            yield ScriptStep(part.sql, part.line, unjudged=part.doubt + suspicion(part.sql, self.dialect))
        elif _PLAIN.match(part.sql):
            yield self._viewed(ScriptStep(part.sql, part.line))
        else:
            yield from map(self._viewed, self._opened(part.sql, part))

    def _opened(self, sql: str, part: Fragment) -> Iterator[ScriptStep]:
        """One statement: passed, opened, or listed."""
        said = masked(sql, self.dialect)
        if not said.strip():
            if sql.strip():  # a comment, or a text that is no statement
                yield ScriptStep(sql, part.line, steers=not split(sql, self.dialect))
            return
        start = len(said) - len(said.lstrip())
        sql = sql[start:].rstrip()
        said = said[start : start + len(sql)]
        line = part.line + part.sql.count("\n", 0, max(part.sql.find(sql), 0))
        for matches, open_it in _WAYS:
            if (match := matches.match(said)) is not None:
                found = open_it(self, sql, said, match, part)
                if found is not None:
                    yield from (ScriptStep(s.sql, max(s.line, line), s.steers, s.unjudged) for s in found)
                    return
        idle = self.blocks > 0 and _ASKS.search(said) is None and _SELECT.search(sql) is None
        yield ScriptStep(sql, line, steers=idle and _IDLE.fullmatch(said.strip()) is not None and not _computes(said))

    # each takes the text, the text without quotes and comments, and the match; None: it is something else after all

    def _command(self, sql: str, _said: str, _match: re.Match[str], _part: Fragment) -> list[ScriptStep] | None:
        if _COPY.match(sql) or _COPY_QUERY.match(sql):
            return None
        why = INCLUDED if _INCLUDES.match(sql) else DUMPED if _DUMPS.match(sql) else ""
        why = GENERATED if sql.startswith("\\gexec") else why
        if not why and _COMMANDS.match(sql) is None:
            why = CLIENT
        return [ScriptStep(sql, steers=not why, unjudged=why)]

    def _transaction(self, sql: str, said: str, _match: re.Match[str], _part: Fragment) -> list[ScriptStep] | None:
        if _ENDED.fullmatch(said) is None:
            return None
        if said[:3].upper() == "END":
            self.blocks = max(0, self.blocks - 1)
        return [ScriptStep(sql, steers=True)]

    def _block(self, sql: str, said: str, match: re.Match[str], part: Fragment) -> list[ScriptStep]:
        self.blocks += said[:5].upper() == "BEGIN"
        rest = list(self._opened(sql[match.end() :], part))
        if _SELECT.search(match.group()):  # IF (SELECT ...) THEN: which way it went tells something
            rest.insert(0, ScriptStep(sql[: match.end()], unjudged=INSIDE))
        return rest or [ScriptStep(sql, steers=True)]

    def _for(self, sql: str, _said: str, match: re.Match[str], part: Fragment) -> list[ScriptStep]:
        query, rest = sql[slice(*match.span("query"))], sql[slice(*match.span("rest"))]
        return [*self._opened(_bare(query), part), *self._opened(rest, part)]

    def _do(self, sql: str, _said: str, _match: re.Match[str], part: Fragment) -> list[ScriptStep] | None:
        body = _DO.fullmatch(sql)
        if body is None:
            return None
        at = part.line + sql.count("\n", 0, body.start("body"))
        return list(Script(self.dialect, blocks=1).steps(body["body"], at))

    def _prepare(self, sql: str, _said: str, match: re.Match[str], _part: Fragment) -> list[ScriptStep]:
        types = tuple(t.strip() for t in (match["types"] or "").split(",") if t.strip())
        text = sql[slice(*match.span("sql"))]
        self.prepared[match["name"].strip('"').lower()] = Prepared(text, types, self.dialect)
        return [ScriptStep(sql, steers=True)]

    def _execute(self, sql: str, _said: str, match: re.Match[str], part: Fragment) -> list[ScriptStep] | None:
        known = self.prepared.get(match["name"].strip('"').lower())
        if known is None:
            return None
        values = "" if match["values"] is None else sql[slice(*match.span("values"))]
        ran = known.executed(values)
        return [ScriptStep(sql, unjudged=NO_PREPARE)] if ran is None else list(self._opened(ran, part))

    def _immediate(self, sql: str, _said: str, _match: re.Match[str], part: Fragment) -> list[ScriptStep]:
        text = _IMMEDIATE.fullmatch(sql)
        if text is None:
            return [ScriptStep(sql, unjudged=RUNS)]
        return list(self._opened(text["sql"].replace("''", "'"), part))

    def _runs(self, sql: str, said: str, _match: re.Match[str], _part: Fragment) -> list[ScriptStep]:
        return [ScriptStep(sql, unjudged=NO_PREPARE if _EXECUTE.fullmatch(said) else RUNS)]

    def _copy(self, sql: str, said: str, match: re.Match[str], part: Fragment) -> list[ScriptStep]:
        if _COPY_QUERY.match(said):
            inner = _inside(said, said.index("("))
            return [ScriptStep(sql, unjudged=INSIDE)] if inner is None else list(self._opened(sql[slice(*inner)], part))
        return [ScriptStep(sql, unjudged=ROWS_OUT if match["way"].upper() == "TO" else ROWS_IN)]

    def _cursor(self, sql: str, _said: str, match: re.Match[str], part: Fragment) -> list[ScriptStep]:
        self.cursors.add(match["name"].strip('"').lower())
        return list(self._opened(sql[slice(*match.span("sql"))], part))

    def _fetch(self, sql: str, said: str, _match: re.Match[str], _part: Fragment) -> list[ScriptStep]:
        named = _FETCH.fullmatch(said)
        known = named is not None and named["name"].strip('"').lower() in self.cursors
        return [ScriptStep(sql, steers=True)] if known or self.blocks else [ScriptStep(sql, unjudged=NO_CURSOR)]

    def _explain(self, sql: str, _said: str, match: re.Match[str], _part: Fragment) -> list[ScriptStep]:
        return [ScriptStep(sql, unjudged=MEASURED if re.search("ANALY[SZ]E", match["how"], _I) else PLANNED)]

    def _view(self, sql: str, _said: str, match: re.Match[str], _part: Fragment) -> list[ScriptStep]:
        """It shows nothing yet: what reads it does, and that is opened if it is asked in this script."""
        self.views[_view_name(match["name"])] = sql[slice(*match.span("sql"))]
        return [ScriptStep(sql, steers=self.whole, unjudged="" if self.whole else KEPT)]

    def _drop(self, sql: str, _said: str, _match: re.Match[str], _part: Fragment) -> list[ScriptStep] | None:
        """Views of this script are gone, and who reads them is not judged; others were never known."""
        found = _DROP.fullmatch(sql)  # names in quotes are masked elsewhere
        names = [] if found is None else [_view_name(name.strip()) for name in found["names"].split(",")]
        mine = [name for name in names if name in self.views]
        self.views.update(dict.fromkeys(mine, ""))
        return [ScriptStep(sql, steers=True)] if mine and mine == names else None

    def _kept(self, sql: str, _said: str, _match: re.Match[str], _part: Fragment) -> list[ScriptStep]:
        return [ScriptStep(sql, unjudged=KEPT)]

    def _perform(self, sql: str, _said: str, match: re.Match[str], part: Fragment) -> list[ScriptStep]:
        select = "SELECT " if match["word"].upper() == "PERFORM" else ""
        return list(self._opened(select + sql[match.end() :], part))

    def _shows(self, sql: str, said: str, _match: re.Match[str], _part: Fragment) -> list[ScriptStep]:
        """SHOW, PRAGMA and their kin: names and settings, or statistics."""
        harmless = _SETTINGS.fullmatch(said) is not None
        harmless = harmless or (self.dialect in _SHOWS_ONE and _ONE_SETTING.fullmatch(said) is not None)
        harmless = harmless or (self.dialect != Dialect.SNOWFLAKE and _TABLES.fullmatch(said) is not None)
        if _SELECT.search(said) is not None:
            harmless = False
        return [ScriptStep(sql, steers=harmless, unjudged="" if harmless else STATISTICS)]

    def _steered(self, sql: str, said: str, _match: re.Match[str], part: Fragment) -> list[ScriptStep]:
        if _SELECT.search(said) is None:
            why = STATISTICS if _MEASURES.match(said) else COMPUTES if _computes(said) else ""
            return [ScriptStep(sql, steers=not why, unjudged=why)]
        inner = _inside(said, said.index("(")) if _ASSIGNED.match(said) else None
        if inner is None or said[inner[1] + 1 :].strip(" )"):
            return [ScriptStep(sql, unjudged=INSIDE)]
        return list(self._opened(sql[slice(*inner)], part))


_Way = Callable[[Script, str, str, re.Match[str], Fragment], "list[ScriptStep] | None"]
_WAYS: tuple[tuple[re.Pattern[str], _Way], ...] = (
    (re.compile(r"[\\.]"), Script._command),
    (re.compile(r"(?:BEGIN|END|COMMIT|ROLLBACK|ABORT|SAVEPOINT|RELEASE|START)\b", _I), Script._transaction),
    (_OPENERS, Script._block),
    (_FOR, Script._for),
    (re.compile(r"DO\b", _I), Script._do),
    (_PREPARE, Script._prepare),
    (re.compile(r"EXECUTE\s+IMMEDIATE\b", _I), Script._immediate),
    (_EXECUTE, Script._execute),
    (_RUNS, Script._runs),
    (_COPY, Script._copy),
    (_COPY_QUERY, Script._copy),
    (_CURSOR, Script._cursor),
    (re.compile(r"(?:FETCH|MOVE)\b", _I), Script._fetch),
    (_EXPLAIN, Script._explain),
    (_VIEW, Script._view),
    (re.compile(r"DROP\s+VIEW\b", _I), Script._drop),
    (_KEPT, Script._kept),
    (_PERFORM, Script._perform),
    (_STATISTICS, Script._shows),
    (_SESSION, Script._steered),
    (re.compile(r"[@\w.]+\s*:="), Script._steered),
)


def _computes(said: str) -> bool:
    """Is a function called? Where a variable is declared or set: in what it is set to."""
    if _DECLARES.match(said) is None and _IDLE.fullmatch(said.strip()) is None:
        return _CALLS.search(said) is not None
    value = _VALUE.search(said)
    if value is not None and _CALLS.search(said, value.end()) is not None:
        return True
    return _VARIABLE.match(said) is not None and not all(_TYPE.fullmatch(c.group()) for c in _CALLS.finditer(said))


def _view_name(written: str) -> str:
    """The name under which a view is remembered: case folded, without quotes and what stands before the dot."""
    return folded(written.split(".")[-1].strip('"`[]'))


def _inside(said: str, opened: int) -> tuple[int, int] | None:
    """Where the text between this parenthesis and its partner stands."""
    depth = 0
    for at in range(opened, len(said)):
        depth += {"(": 1, ")": -1}.get(said[at], 0)
        if depth == 0:
            return opened + 1, at
    return None


def _bare(query: str) -> str:
    """A query without the parentheses around it."""
    query = query.strip()
    return query[1:-1].strip() if query.startswith("(") and query.endswith(")") else query
