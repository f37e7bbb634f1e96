"""What SQL Server writes and no other engine: N'texts', and hints on tables that change no answer."""

from __future__ import annotations

from sqlglot import exp

# how rows are locked and found; READPAST and SNAPSHOT choose which rows are seen, and are no such hints
_HARMLESS = frozenset(
    (
        *("NOLOCK", "READUNCOMMITTED", "READCOMMITTED", "READCOMMITTEDLOCK", "REPEATABLEREAD", "SERIALIZABLE"),
        *("HOLDLOCK", "ROWLOCK", "PAGLOCK", "TABLOCK", "TABLOCKX", "UPDLOCK", "XLOCK", "NOWAIT"),
        *("INDEX", "FORCESEEK", "FORCESCAN"),
    )
)


def plainly(tree: exp.Expr) -> exp.Expr:
    """The tree with N'text' as text, and without hints that say how a table is locked or searched; it is changed.

    >>> import sqlglot
    >>> plainly(sqlglot.parse_one("SELECT SUM(x) FROM t WITH (NOLOCK) WHERE a = N'b'", read="tsql")).sql()
    "SELECT SUM(x) FROM t WHERE a = 'b'"
    >>> plainly(sqlglot.parse_one("SELECT SUM(x) FROM t WITH (READPAST)", read="tsql")).sql()
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
        if all(isinstance(hint, exp.WithTableHint) for hint in hints) and _HARMLESS.issuperset(said):
            table.set("hints", None)
    return tree
