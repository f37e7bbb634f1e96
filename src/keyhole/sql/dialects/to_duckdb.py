"""Statements written for another engine, in DuckDB's words: translated where a test shows that it answers the same.

PostgreSQL and SQLite have translations, rule by rule (`postgres.py`, `sqlite.py`); of any other engine the portable
core is judged (`portable.py`). Whatever is neither is not judged, and the reason says what to write instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from keyhole.model.schema import Schema
from keyhole.sql.dialects.engine import Dialect, EngineDialect, find_engine
from keyhole.sql.dialects.portable import explain_nonportable, replace_lengths
from keyhole.sql.dialects.portable_functions import PortableFunctions
from keyhole.sql.dialects.postgres import PostgresTranslator
from keyhole.sql.dialects.sqlite import SqliteTranslator
from keyhole.sql.dialects.translator import Translator
from keyhole.sql.dialects.types import NotPortable
from keyhole.sql.lowering.grammar import find_unclaimed
from keyhole.sql.statements.parse import correct_quoted_words, parse_statement
from keyhole.sql.statements.split import explain_doubtful_comment
from keyhole.sql.statements.tree import COMPARISONS

TRANSLATORS: dict[Dialect, type[Translator]] = {
    Dialect.POSTGRES: PostgresTranslator,
    Dialect.SQLITE: SqliteTranslator,
}
_NO_QUESTION = re.compile(r"\s*(?!(?:SELECT|WITH|FROM)\b)[A-Z]+\b", re.IGNORECASE)  # refused in any dialect
_OWN_CATALOGS = frozenset(("main", "temp", "system"))
_VALUES = (exp.AggFunc, exp.Distinct, exp.Group, exp.Add, exp.Sub, exp.Mul, exp.Div)  # of which no text is one
_NO_TRANSLATION = ", and it has no translation: put what it computes into a column of a view"


@dataclass(frozen=True, slots=True)
class Translation:
    """A statement in DuckDB's words; `reason` says why DuckDB's answer may not be what was answered, or is empty."""

    sql: str
    reason: str = ""


def translate_to_duckdb(sql: str, dialect: str, schema: Schema) -> Translation:
    """The statement in DuckDB's words, and whether it means the same there.

    Guarantee: without a reason, `sql` gives in DuckDB what the statement gives in its engine, provided that the columns
    are of the same kinds there, as far as the conformance tests show. Cost: two or three parses, and one walk over the
    tree. Statements for DuckDB pass as they are.

    >>> from keyhole.model.schema import Column, Kind
    >>> people = Schema("t", (Column("age", Kind.INTEGER),))
    >>> translate_to_duckdb("SELECT COUNT(*) FROM t WHERE age / 10 = 3", "postgres", people).sql
    'SELECT COUNT(*) FROM t WHERE (age // 10) = 3'
    >>> translate_to_duckdb("SELECT COUNT(*) FROM t WHERE 100 / age = 3", "tsql", people).reason
    'written for SQL Server: there 21 / 2 is 10; the data are in DuckDB, where it is 10.5'
    >>> translate_to_duckdb('SELECT COUNT(*) FROM `d.t` WHERE dept = "legal"', "bigquery", people).sql
    'SELECT COUNT(*) FROM "d"."t" WHERE dept = \\'legal\\''
    """
    if dialect == Dialect.DUCKDB or _NO_QUESTION.match(sql):
        return Translation(sql)
    engine = find_engine(dialect)
    if why := explain_doubtful_comment(sql, dialect):
        return Translation(sql, why)
    if "\\" in sql and engine.dialect not in TRANSLATORS:
        why = ": a backslash is not read alike by all engines: write the statement without it"
        return Translation(sql, f"written for {engine.title}{why}")
    try:
        read = parse_foreign(sql, dialect)
        if read is None:
            raise NotPortable(", and it cannot be read as that: is it the right --dialect?")
        if (unclaimed := find_unclaimed(read)) is not None:
            raise NotPortable(f": {unclaimed.reason}")
        translator = TRANSLATORS.get(engine.dialect)
        text = (
            _translate_portable(sql, read, engine, schema)
            if translator is None
            else _translate(sql, read, translator(schema))
        )
    except NotPortable as differs:
        return Translation(sql, f"written for {engine.title}{differs}")
    except RecursionError:
        return Translation(sql, f"written for {engine.title}, and it is nested too deeply: write it flatter")
    return Translation(text)


def _translate(sql: str, read: exp.Expr, translator: Translator) -> str:
    """The text in DuckDB's words; the text itself where both read it alike."""
    translator.text = sql
    made, own = translator.translate(translator.read_texts(sql, read)), parse_statement(sql, Dialect.DUCKDB)
    if own is not None and _drop_order(own) == _drop_order(made):
        return sql
    text = _write(made)
    again = parse_statement(text, Dialect.DUCKDB)
    if again is None or _write(again) != text:
        raise NotPortable(_NO_TRANSLATION)
    return text


def _translate_portable(sql: str, read: exp.Expr, engine: EngineDialect, schema: Schema) -> str:
    """The text in DuckDB's words, if it is in the portable core as both engines read it."""
    if engine.backtick_names and (why := _explain_quoted_column(sql, read, engine, schema)):
        raise NotPortable(why)
    own, text, words = parse_statement(sql, Dialect.DUCKDB), sql, PortableFunctions(engine, schema)
    read = words.replace_in(spell_out_rollup(read))
    if engine.ignores_case:
        read = replace_lengths(read, schema.spelt)
    if (
        own is None
        or _drop_order(own) != _drop_order(read)
        or _has_iif(read)
        or any(map(words.is_portable, read.walk()))
    ):
        if not engine.is_known:
            raise NotPortable(", and engines read it differently")
        text = _write(read)
        own = parse_statement(text, Dialect.DUCKDB)
    why = explain_nonportable(read, engine, schema)
    if not why:
        why = _NO_TRANSLATION if own is None else explain_nonportable(own, engine, schema)
    if why:
        raise NotPortable(why)
    return text


def _explain_quoted_column(sql: str, read: exp.Expr, engine: EngineDialect, schema: Schema) -> str:
    """Why a column in double quotes gives a sum of texts: where these are texts, names stand in backticks."""
    texts = []
    for text in read.find_all(exp.Literal):
        around = text.parent
        compared = isinstance(around, COMPARISONS) and around.expression.is_number
        is_value = compared or isinstance(around, _VALUES)
        if text.is_string and is_value and f'"{text.name}"' in sql and schema.find(text.name) is not None:
            texts.append(text.name)
    if not texts:
        return ""
    write = correct_quoted_words(sql, engine.dialect, {name: f"`{name}`" for name in texts})
    return f', where "{texts[0]}" is a text. Names take backticks: `{texts[0]}`{write}'


def _has_iif(tree: exp.Expr) -> bool:
    """Is there an IF that is written as a function? It is parsed alike everywhere, but DuckDB has no IIF."""
    return any(not isinstance(choice.parent, exp.Case) for choice in tree.find_all(exp.If))


def spell_out_rollup(tree: exp.Expr) -> exp.Expr:
    """GROUP BY a, b WITH ROLLUP, as MySQL and SQL Server write GROUP BY ROLLUP (a, b)."""
    made = tree.copy()
    for group in made.find_all(exp.Group):
        rollup = group.args.get("rollup")
        if isinstance(rollup, list) and len(rollup) == 1 and not rollup[0].expressions and group.expressions:
            group.set("rollup", None)
            group.set("expressions", [exp.Rollup(expressions=[each.copy() for each in group.expressions])])
    return made


def _write(tree: exp.Expr) -> str:
    try:
        return tree.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE)
    except (SqlglotError, ValueError):
        raise NotPortable(_NO_TRANSLATION) from None


def parse_foreign(sql: str, dialect: str) -> exp.Expr | None:
    """The one statement of a text, without what other engines write and what changes nothing; None if there is none."""
    tree = parse_statement(sql, dialect)
    if tree is None or dialect == Dialect.DUCKDB:
        return tree
    return drop_own_catalog(simplify_tsql(tree) if find_engine(dialect).national_texts_and_hints else tree)


def drop_own_catalog(tree: exp.Expr) -> exp.Expr:
    """The tree with `hr.staff` for `main.hr.staff`: DuckDB keeps the name for itself; it is changed.

    >>> import sqlglot
    >>> drop_own_catalog(sqlglot.parse_one("SELECT SUM(pay) FROM main.hr.staff")).sql()
    'SELECT SUM(pay) FROM hr.staff'
    """
    for table in tree.find_all(exp.Table):
        if table.catalog.casefold() in _OWN_CATALOGS:
            table.set("catalog", None)
    return tree


def _drop_order(tree: exp.Expr) -> exp.Expr:
    """The tree without ORDER BY, whose NULLs each engine puts where it likes (a LIMIT is judged on one row only)."""
    if tree.find(exp.Order) is None:
        return tree
    bare = tree.copy()
    for select in bare.find_all(exp.Select):
        select.set("order", None)
    return bare


# --- SQL Server -------------------------------------------------------------------------------------------------------
# What SQL Server writes and no other engine: N'texts', and hints on tables that change no answer.


# how rows are locked and found; READPAST and SNAPSHOT choose which rows are seen, and are no such hints
_LOCK_HINTS = frozenset(
    (
        *("NOLOCK", "READUNCOMMITTED", "READCOMMITTED", "READCOMMITTEDLOCK", "REPEATABLEREAD", "SERIALIZABLE"),
        *("HOLDLOCK", "ROWLOCK", "PAGLOCK", "TABLOCK", "TABLOCKX", "UPDLOCK", "XLOCK", "NOWAIT"),
        *("INDEX", "FORCESEEK", "FORCESCAN"),
    )
)


def simplify_tsql(tree: exp.Expr) -> exp.Expr:
    """The tree with N'text' as text, and without hints that say how a table is locked or searched; it is changed.

    >>> import sqlglot
    >>> simplify_tsql(sqlglot.parse_one("SELECT SUM(x) FROM t WITH (NOLOCK) WHERE a = N'b'", read="tsql")).sql()
    "SELECT SUM(x) FROM t WHERE a = 'b'"
    >>> simplify_tsql(sqlglot.parse_one("SELECT SUM(x) FROM t WITH (READPAST)", read="tsql")).sql()
    'SELECT SUM(x) FROM t WITH (READPAST)'
    """
    for text in list(tree.find_all(exp.National)):
        plain = exp.Literal.string(text.name)
        if text is tree:
            return plain
        text.replace(plain)
    for table in tree.find_all(exp.Table):
        hints = table.args.get("hints") or []
        said = [part.name.upper() for hint in hints for part in hint.expressions]
        if all(isinstance(hint, exp.WithTableHint) for hint in hints) and _LOCK_HINTS.issuperset(said):
            table.set("hints", None)
    return tree


# --- a whole statement ------------------------------------------------------------------------------------------------
# A whole statement of another engine in DuckDB's words, to see that it can be run at all.
#
# What is judged of it are plain statements with a tested translation (`translate_to_duckdb`); the rest is a function of
# these, of which it is enough that there is one. The translator passes on names of functions that it does not know:
# such a function may be anything (one of the database's own, that reads what it likes), so a statement with one is not
# judged.


_LIKE_SUM = frozenset(("total", "ratio_to_report"))  # of one number, alone or OVER a window, as SUM is


def transpile_to_duckdb(tree: exp.Expr, dialect: str) -> Translation:
    """The tree in DuckDB's words, to be run and not to be read; with a reason where it has none.

    >>> import sqlglot
    >>> transpile_to_duckdb(sqlglot.parse_one("SELECT TOP 3 a, SUM(x) FROM t GROUP BY a", read="tsql"), "tsql").sql
    'SELECT a, SUM(x) FROM t GROUP BY a LIMIT 3'
    >>> transpile_to_duckdb(sqlglot.parse_one("SELECT dbo.f(SUM(x)) FROM t", read="tsql"), "tsql").reason
    'written for SQL Server, and F has no translation: put what it computes into a column of a view'
    """
    made = spell_out_rollup(tree).transform(_replace_known_word)
    unknown = made.find(exp.Anonymous, exp.AnonymousAggFunc)
    what = "it" if unknown is None else unknown.name.upper()
    try:
        if unknown is None:
            return Translation(made.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE))
    except (SqlglotError, ValueError):
        pass
    title = find_engine(dialect).title
    return Translation(
        "", f"written for {title}, and {what} has no translation: put what it computes into a column of a view"
    )


def _replace_known_word(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Anonymous) and node.name.lower() in _LIKE_SUM and len(node.expressions) == 1:
        return exp.Sum(this=node.expressions[0].copy())
    if isinstance(node, exp.NumberToStr | exp.ToChar):  # formats are the engine's own; each gives a text
        return exp.cast(node.this.copy(), exp.DType.TEXT)
    if isinstance(node, exp.LimitOptions):
        node.set("with_ties", None)
    return node
