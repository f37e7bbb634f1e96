"""Scripts: what in a log steers a session, what asks, and what asks in a wrapping (blocks, PREPARE, COPY, cursors).

Nothing that may hold a question is dropped: it is opened, or listed with the reason why it is not judged. Words in
comments and quotes are no words (`mask_quotes`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from keyhole.model.schema import fold_name
from keyhole.sql.dialects.engine import Dialect, find_engine
from keyhole.sql.statements.engine_guess import describe_guess
from keyhole.sql.statements.split import Fragment, mask_quotes, split_statements
from keyhole.sql.statements.views import NotResolved, insert_views

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
# Settings that can be set to anything without a change in what a later statement means or shows. Schemas and roles are
# among them: a table is known by its name.
_FREE_SETTINGS = re.compile(
    # timeouts, limits of memory and work, plans
    r"\w*_timeout(?:_in_seconds)?|max_execution_time|query_max_(?:run|execution|cpu|planning)_time|max_allowed_packet"
    r"|(?:work|maintenance_work|autovacuum_work|logical_decoding_work)_mem|temp_buffers|hash_mem_multiplier|memory_limit"
    r"|max_memory|threads|worker_threads|external_threads|temp_directory|max_temp_directory_size|wlm_query_slot_count"
    r"|(?:random|seq)_page_cost|cpu_\w+_cost|parallel_\w+_cost|jit(?:_\w+)?|geqo(?:_\w+)?|effective_(?:cache_size|io_concurrency)"
    r"|max_parallel_\w+|min_parallel_\w+|parallel_leader_participation|(?:from|join)_collapse_limit|plan_cache_mode"
    r"|constraint_exclusion|cursor_tuple_fraction|optimizer_(?:switch|search_depth|prune_level)|query_priority"
    r"|enable_(?:async_append|bitmapscan|gathermerge|group_by_reordering|hashagg|hashjoin|incremental_sort|indexscan"
    r"|indexonlyscan|material|memoize|mergejoin|nestloop|parallel_append|parallel_hash|partition_pruning|partitionwise_\w+"
    r"|presorted_aggregate|seqscan|sort|tidscan|progress_bar|progress_bar_print|object_cache|external_access|http_\w+"
    r"|result_cache_for_session)"
    r"|join_(?:distribution_type|reordering_strategy)|task_concurrency|progress_bar_time|max_expression_depth"
    r"|(?:use_cached_result|query_cache_type)|spark\.sql\.(?:shuffle\.partitions|adaptive\.[\w.]+|autobroadcastjointhreshold)"
    r"|spark\.(?:executor|driver|scheduler)\.[\w.]+|s3_\w+|secret_directory|home_directory|extension_directory"
    # who asks, what is noted of it, transactions
    r"|application_name|query_tag|query_group|query_label|role|session_authorization|search_path|schema|current_schema|catalog"
    r"|dataset_id|dataset_project_id|client_min_messages|log_\w+|track_\w+|auto_explain\.\w+|lc_messages|sql_notes|sql_warnings"
    r"|autocommit|implicit_transactions|xact_abort|transaction_(?:isolation|read_only|deferrable)|tx_isolation|tx_read_only"
    r"|default_transaction_\w+|synchronous_commit|isolation_level|session_replication_role|sql_log_bin"
    # how rows are sent, and what only changes of the data look at
    r"|nocount|deadlock_priority|query_governor_cost_limit|cursor_close_on_commit|identity_insert"
    r"|bytea_output|character_set_results|tcp_keepalives_\w+|check_function_bodies|default_tablespace|temp_tablespaces"
    r"|default_table_access_method|default_with_oids|row_security|xmloption|foreign_key_checks|unique_checks|sql_safe_updates"
    r"|checkpoint_threshold|wal_autocheckpoint|(?:jdbc|odbc|client)_(?:query_result_format|session_keep_alive\w*"
    r"|prefetch_\w+|memory_limit|result_chunk_size|metadata_\w+)",
    _I,
)
_UTF8 = r"utf-?8\w*|unicode|default"
_UTC = r"utc|gmt|etc/utc|z|[+-]?0?0(?::00)?|default"
_MODES = (  # of MySQL: they look at what is written, and at mistakes
    r"strict_trans_tables|strict_all_tables|no_engine_substitution|no_zero_date|no_zero_in_date|traditional"
    r"|error_for_division_by_zero|only_full_group_by|no_auto_create_user|no_auto_value_on_zero"
)
# Settings that change nothing at these values: those that every statement is read with.
_FREE_VALUES = {
    **dict.fromkeys(("client_encoding", "character_set_client", "character_set_connection", "encoding"), _UTF8),
    "names": rf"(?:{_UTF8})(?:\s+collate\s+utf-?8\w+)?",  # of two constants
    "collation_connection": r"utf-?8\w+",
    **dict.fromkeys(("timezone", "time_zone"), _UTC),
    **dict.fromkeys(
        (
            *("ansi_nulls", "quoted_identifier", "ansi_padding", "ansi_warnings", "ansi_defaults", "ansi_null_dflt_on"),
            *("concat_null_yields_null", "arithabort", "standard_conforming_strings"),
        ),
        "on|true|1|yes",
    ),
    **dict.fromkeys(("rowcount", "sql_auto_is_null", "numeric_roundabort", "fmtonly", "noexec", "parseonly"), "0|off"),
    "sql_mode": rf"(?:{_MODES})?(?:\s*,\s*(?:{_MODES}))*",
    "textsize": "-1|2147483647",
    "extra_float_digits": "[123]",
    "datestyle": r"iso(?:\s*,\s*mdy)?",
    "intervalstyle": "postgres",
}
_SETS = re.compile(r"(?P<word>SET|ALTER\s+SESSION\s+SET)(?:\s+|(?=@)|$)", _I)
_UNSETS = re.compile(r"(?:RESET|ALTER\s+SESSION\s+UNSET)\s+(?:(?:SESSION|LOCAL|GLOBAL)\s+(?!AUTHORIZATION\b))?", _I)
_ALL_UNSET = re.compile(r"ALL|SESSION\s+AUTHORIZATION|TIME\s+ZONE|QUERY\s+CACHE", _I)
_ASSIGNMENT = re.compile(
    r"(?P<scope>\b(?:SESSION|LOCAL|GLOBAL|PERSIST|PERSIST_ONLY|VARIABLE|VAR)\s+)?"
    r"(?P<name>(?:@@|@|\b)[^\W\d][\w.$]*)(?:\s*:?=|\s+TO\b)",
    _I,
)
_PHRASE = re.compile(  # settings with words of their own
    r"(?:(?:SESSION|LOCAL|GLOBAL)\s+)?(?:TRAN(?:SACTION)?\s+(?:ISOLATION|READ|SNAPSHOT|DEFERRABLE|NOT)\b[\w\s,]*"
    r"|CHARACTERISTICS\s+AS\s+TRANSACTION\b[\w\s,]*|CONSTRAINTS\b[\w\s,.]*"
    r"|(?:(?:DEFAULT\s+)?ROLE|(?:SESSION\s+)?AUTHORIZATION|SCHEMA|CATALOG|PATH)\b[^=]*)|-V",
    _I,
)
_WORDED = re.compile(
    r"(?:(?:SESSION|LOCAL)\s+)?(?:(?P<encoding>NAMES|CHARACTER\s+SET|CHARSET)|(?P<zone>TIME\s+ZONE))\s+(?P<value>.*)",
    _I,
)
_SWITCH = re.compile(r"(?P<names>\w+(?:\s*,\s*\w+)*)\s+(?P<value>.+)", _I)  # SET NOCOUNT ON
_DECLARED = re.compile(r"(?:DECLARE|LET)\s+(?P<names>@?\w+(?:\s*,\s*@?\w+)*)", _I)
_PRAGMA_SETS = re.compile(r"PRAGMA\s+(?:\w+\s*\.\s*)?(?P<name>\w+\s*(?==)|case_sensitive_like\b)", _I)
_ONE_SETTING = re.compile(r"SHOW\s+[\w.]+\s*", _I)  # in PostgreSQL a setting, in DuckDB the columns of a table
_TABLES = re.compile(r"SHOW\s+(?:FULL\s+)?TABLES\b.*", _I)  # Snowflake counts the rows of each
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

KEPT = "its result is kept in a table or view, and what is made of that is not known: audit what reads it, with a view"
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
SETS = (
    'it sets "{}", and what later statements mean may depend on that: leave the line out of the log if it changes '
    "nothing for them"
)
UNSETS = 'it takes back what was set for "{}", so what statements before it mean is not known: log what was set'
SET_BEFORE = (
    '"{}" was set before it, and what it means may depend on that: leave that line out of the log if it changes '
    "nothing for it"
)
COMPUTES = "it computes with a function that may look anywhere: log the SELECT that it stands for"
CLIENT = "what this command of the client shows or runs is not known, so it is not judged"
DUMPED = ".dump prints the records themselves: that is not judged, whoever has the output has the values"


SHORT = 2000  # characters of a text that is worth remembering: logs repeat their statements


@lru_cache(maxsize=4096)
def split_remembered(text: str, dialect: str) -> tuple[Fragment, ...]:
    """What `split_statements` finds, remembered."""
    return tuple(split_statements(text, dialect))


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
    variables: set[str] = field(default_factory=set)  # that were declared
    setting: str = ""  # the first that was set and may change what later statements mean
    now_set: str = ""  # such a one of the statement that is being read

    def steps(self, text: str, at: int = 1) -> Iterator[ScriptStep]:
        """The steps of a script that begins on line `at`, in order.

        >>> script = "BEGIN; PREPARE q (int) AS SELECT SUM(x) FROM t WHERE a > $1; EXECUTE q (3); COMMIT"
        >>> [step.sql for step in Script("postgres").steps(script) if not step.steers]
        ['SELECT SUM(x) FROM t WHERE a > 3']
        >>> [step.sql for step in Script().steps("COPY (SELECT SUM(x) FROM t) TO 'f.csv'; SET @y = (SELECT 1)")]
        ['SELECT SUM(x) FROM t', 'SELECT 1']
        """
        for part in (
            split_remembered(text, self.dialect) if len(text) <= SHORT else split_statements(text, self.dialect)
        ):
            opened = part.opened + at - 1 if part.opened else 0
            yield from self.step(part if at == 1 else replace(part, line=part.line + at - 1, opened=opened))

    @property
    def doubt(self) -> str:
        """Why it is not known what a statement means that comes now; empty if it is."""
        return SET_BEFORE.format(self.setting) if self.setting else ""

    def _viewed(self, step: ScriptStep) -> ScriptStep:
        """A statement that reads a view, with the view's query in it; not judged if a setting may change it."""
        if step.steers or step.unjudged:
            return step
        if self.setting:
            return replace(step, unjudged=self.doubt)
        if not self.views:
            return step
        try:
            return replace(step, sql=insert_views(step.sql, self.dialect, self.views))
        except NotResolved as error:
            return replace(step, unjudged=str(error))

    def step(self, part: Fragment) -> Iterator[ScriptStep]:
        """The steps of one statement."""
        if part.doubt:
            yield ScriptStep(part.sql, part.line, unjudged=part.doubt + describe_guess(part.sql, self.dialect))
        elif _PLAIN.match(part.sql):
            yield self._viewed(ScriptStep(part.sql, part.line))
        else:
            yield from map(self._viewed, self._opened(part.sql, part))
            self.setting = self.setting or self.now_set

    def _opened(self, sql: str, part: Fragment) -> Iterator[ScriptStep]:
        """One statement: passed, opened, or listed."""
        bare_text = mask_quotes(sql, self.dialect)
        if not bare_text.strip():
            if sql.strip():  # a comment, or a text that is no statement
                yield ScriptStep(sql, part.line, steers=not split_statements(sql, self.dialect))
            return
        start = len(bare_text) - len(bare_text.lstrip())
        sql = sql[start:].rstrip()
        bare_text = bare_text[start : start + len(sql)]
        line = part.line + part.sql.count("\n", 0, max(part.sql.find(sql), 0))
        for matches, open_it in _WAYS:
            if (match := matches.match(bare_text)) is not None:
                found = open_it(self, sql, bare_text, match, part)
                if found is not None:
                    yield from (ScriptStep(s.sql, max(s.line, line), s.steers, s.unjudged) for s in found)
                    return
        idle = self.blocks > 0 and _ASKS.search(bare_text) is None and _SELECT.search(sql) is None
        yield ScriptStep(
            sql, line, steers=idle and _IDLE.fullmatch(bare_text.strip()) is not None and not _computes(bare_text)
        )

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
        inner = Script(self.dialect, blocks=1, setting=self.setting)
        found = list(inner.steps(body["body"], at))
        self.now_set = inner.setting
        return found

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
        ran = known.fill(values)
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
            inner = _find_parenthesized(said, said.index("("))
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
        self.views[_normalize_view_name(match["name"])] = sql[slice(*match.span("sql"))]
        return [ScriptStep(sql, steers=self.whole, unjudged="" if self.whole else KEPT)]

    def _drop(self, sql: str, _said: str, _match: re.Match[str], _part: Fragment) -> list[ScriptStep] | None:
        """Views of this script are gone, and who reads them is not judged; others were never known."""
        found = _DROP.fullmatch(sql)  # names in quotes are masked elsewhere
        names = [] if found is None else [_normalize_view_name(name.strip()) for name in found["names"].split(",")]
        mine = [name for name in names if name in self.views]
        self.views.update(dict.fromkeys(mine, ""))
        return [ScriptStep(sql, steers=True)] if mine and mine == names else None

    def _kept(self, sql: str, _said: str, _match: re.Match[str], _part: Fragment) -> list[ScriptStep]:
        return [ScriptStep(sql, unjudged=KEPT)]

    def _perform(self, sql: str, _said: str, match: re.Match[str], part: Fragment) -> list[ScriptStep]:
        select = "SELECT " if match["word"].upper() == "PERFORM" else ""
        return list(self._opened(select + sql[match.end() :], part))

    def _shows(self, sql: str, bare_text: str, _match: re.Match[str], _part: Fragment) -> list[ScriptStep]:
        """SHOW, PRAGMA and their kin: names and settings, or statistics."""
        harmless = _SETTINGS.fullmatch(bare_text) is not None
        engine = find_engine(self.dialect)
        harmless = harmless or (engine.show_is_one_setting and _ONE_SETTING.fullmatch(bare_text) is not None)
        harmless = harmless or (not engine.show_tables_counts_rows and _TABLES.fullmatch(bare_text) is not None)
        if _SELECT.search(bare_text) is not None:
            harmless = False
        why = "" if harmless else STATISTICS
        if not harmless and (changed := _PRAGMA_SETS.match(bare_text)) is not None:
            why = self._remember(changed["name"].strip())
        return [ScriptStep(sql, steers=harmless, unjudged=why)]

    def _remember(self, setting: str) -> str:
        """Why a statement that sets this is not judged; nor are those behind it."""
        self.now_set = setting
        return SETS.format(setting)

    def _steered(self, sql: str, bare_text: str, _match: re.Match[str], part: Fragment) -> list[ScriptStep]:
        if (declared := _DECLARED.match(bare_text)) is not None:
            self.variables.update(name.strip().lower() for name in declared["names"].split(","))
        measures = _MEASURES.match(bare_text) is not None
        changed = "" if measures else find_changed_setting(sql, bare_text, self.dialect, self.variables)
        sets = [ScriptStep(sql, unjudged=self._remember(changed))] if changed else []
        if _SELECT.search(bare_text) is None:
            if sets:
                return sets
            why = STATISTICS if measures else COMPUTES if _computes(bare_text) else _find_unset(bare_text)
            return [ScriptStep(sql, steers=not why, unjudged=why)]
        inner = _find_parenthesized(bare_text, bare_text.index("(")) if _ASSIGNED.match(bare_text) else None
        if inner is None or bare_text[inner[1] + 1 :].strip(" )"):
            return [ScriptStep(sql, unjudged=INSIDE)]
        return [*sets, *self._opened(sql[slice(*inner)], part)]


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
    (re.compile(r"ALTER\s+SESSION\s+(?:SET|UNSET)\b", _I), Script._steered),
    (re.compile(r"[@\w.]+\s*:="), Script._steered),
)


def find_changed_setting(sql: str, bare_text: str, dialect: str, variables: Collection[str] = ()) -> str:
    """The first setting of a SET that may change what later statements mean; empty if there is none.

    `bare_text` is the text without quotes and comments. Variables are no settings.

    >>> texts = ["SET default_collation = 'NOCASE'", "SET work_mem TO '1GB'", "SET @x = 3", "SET NAMES utf8mb4"]
    >>> [find_changed_setting(sql, mask_quotes(sql, "mysql"), "mysql") for sql in texts]
    ['default_collation', '', '', '']
    >>> [find_changed_setting(sql, sql, "tsql") for sql in ("SET NOCOUNT ON", "SET ANSI_NULLS, ANSI_WARNINGS OFF")]
    ['', 'ANSI_NULLS']
    """
    sets = _SETS.match(bare_text)
    if sets is None:
        return ""
    bare_text = bare_text.rstrip()
    rest, text = bare_text[sets.end() :], sql[sets.end() :]
    engine = find_engine(dialect)
    fills_variables = engine.set_fills_variables and sets["word"].upper() == "SET"
    if fills_variables and "@@" not in rest:
        return ""
    if _PHRASE.fullmatch(rest) or not rest.strip("-vV "):
        return ""
    found = list(_ASSIGNMENT.finditer(rest))
    if found and found[0].start() == 0:
        ends = [*(match.start() for match in found[1:]), len(text)]
        for match, end in zip(found, ends, strict=True):
            name = match["name"]
            scope = (match["scope"] or "").strip().upper()
            is_variable = fills_variables or name.startswith("@") or name.lower() in variables
            is_setting = name.startswith("@@") or not is_variable
            if is_setting and not scope.startswith("VAR") and not _is_free(name, text[match.end() : end]):
                return name
        return ""
    if (worded := _WORDED.fullmatch(text)) is not None:
        name = "names" if worded["encoding"] else "timezone"
        return "" if _is_free(name, worded["value"]) else worded["encoding"] or worded["zone"]
    if (switch := _SWITCH.fullmatch(rest)) is not None:
        names = [name.strip() for name in switch["names"].split(",")]
        return next((name for name in names if not _is_free(name, switch["value"])), "")
    if engine.set_shows_settings and re.fullmatch(r"[\w.]+", rest.strip()):
        return ""
    return " ".join(text.split())[:40]


def _is_free(name: str, value: str) -> bool:
    """May this be set to that without a change in what a statement means?"""
    plain = re.sub(r"^@@(?:(?:session|global|local|persist)\.)?", "", name.lower())
    if _FREE_SETTINGS.fullmatch(plain):
        return True
    allowed = _FREE_VALUES.get(plain)
    said = value.strip().rstrip(",").replace("'", "").replace('"', "").strip()
    return allowed is not None and re.fullmatch(allowed, said, _I) is not None


def _find_unset(said: str) -> str:
    """Why a RESET is not judged: it tells that something was set; empty for what may be set to anything."""
    unset = _UNSETS.match(said)
    names = [] if unset is None else [name.strip() for name in said[unset.end() :].split(",")]
    told = [name for name in names if not (_ALL_UNSET.fullmatch(name) or _is_free(name, "default"))]
    return UNSETS.format(told[0]) if told else ""


def _computes(bare_text: str) -> bool:
    """Is a function called? Where a variable is declared or set: in what it is set to."""
    if _DECLARES.match(bare_text) is None and _IDLE.fullmatch(bare_text.strip()) is None:
        return _CALLS.search(bare_text) is not None
    value = _VALUE.search(bare_text)
    if value is not None and _CALLS.search(bare_text, value.end()) is not None:
        return True
    return _VARIABLE.match(bare_text) is not None and not all(
        _TYPE.fullmatch(c.group()) for c in _CALLS.finditer(bare_text)
    )


def _normalize_view_name(written: str) -> str:
    """The name under which a view is remembered: case folded, without quotes and what stands before the dot."""
    return fold_name(written.split(".")[-1].strip('"`[]'))


def _find_parenthesized(said: str, opened: int) -> tuple[int, int] | None:
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


# --- PREPARE and EXECUTE ----------------------------------------------------------------------------------------------
# PREPARE and EXECUTE: the statement that ran, with its values as typed constants in the tree.


_T = exp.DataType.Type
_WHOLE = (_T.SMALLINT, _T.INT, _T.BIGINT)
_TEXTS = (_T.TEXT, _T.VARCHAR)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement with places for values, and the types that were declared for them (none if they were not)."""

    sql: str
    types: tuple[str, ...]
    dialect: str

    def fill(self, values: str) -> str | None:
        """The statement with these values in their places; None where that cannot be said exactly.

        Each value must be a constant. One with a declared type is cast to it, unless it is of that type as it is
        written, so that a numeric 10 does not divide as a whole number would.

        >>> Prepared("SELECT SUM(x) FROM t WHERE a > $1 AND b = $2", ("int", "text"), "postgres").fill("-3, 'v'")
        "SELECT SUM(x) FROM t WHERE a > -3 AND b = 'v'"
        >>> Prepared("SELECT SUM(x) FROM t WHERE a / $1 > 2", ("numeric",), "postgres").fill("10")
        'SELECT SUM(x) FROM t WHERE a / CAST(10 AS DECIMAL) > 2'
        """
        try:
            tree = sqlglot.parse_one(self.sql, read=self.dialect)
            given = sqlglot.parse_one(f"SELECT {values}", read=self.dialect).expressions if values.strip() else []
            constants = [self._typed(value, place) for place, value in enumerate(given)]
            places = list(tree.find_all(exp.Parameter, exp.Placeholder, bfs=False))
            for used, place in enumerate(places, 1):
                number = place.name if place.name not in ("", "?") else str(used)  # $2, or the next ?
                place.replace(constants[int(number) - 1].copy())
            return tree.sql(dialect=self.dialect)
        except (SqlglotError, ValueError, IndexError, RecursionError):
            return None

    def _typed(self, value: exp.Expr, place: int) -> exp.Expr:
        inner = value.this if isinstance(value, exp.Neg | exp.Cast) else value
        if not isinstance(inner, exp.Literal | exp.Null | exp.Boolean):
            raise ValueError("no constant")
        if place >= len(self.types):
            return value
        to = exp.DataType.build(self.types[place], dialect=self.dialect)
        whole = to.this in _WHOLE and not inner.is_string and inner.name.isdigit()
        plain = isinstance(value, exp.Null) or whole or (to.this in _TEXTS and inner.is_string and not to.expressions)
        return value if plain else exp.Cast(this=value, to=to)
