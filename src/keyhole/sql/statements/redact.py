"""A statement that may be shown to strangers: its constants replaced, its comments dropped, its shape kept."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

_PIECE = re.compile(
    r"""
    (?P<comment> --[^\r\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<name> "(?:[^"]|"")*" )
    | (?P<text> (?:\b[EeNnXxBb]|\b[Uu]&)?'(?:[^']|'')*(?:'|\Z) | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z) )
    | (?P<number> (?<![\w.$"])(?: 0[xX][0-9a-fA-F_]+ | (?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)? ) )
    """,
    re.VERBOSE | re.DOTALL,
)


def remove_constants(text: str) -> str:
    """The text with every text constant as 'x' and every number as 0; comments are gone, since they may tell anything.

    >>> remove_constants("SELECT SUM(x2) FROM t WHERE name = 'O''Neil' AND zip > 32.5e3 -- Neil's")
    "SELECT SUM(x2) FROM t WHERE name = 'x' AND zip > 0"
    >>> remove_constants("c = 0x1F AND d = $q$it's$q$ /* 5 */")
    "c = 0 AND d = 'x'"
    """
    shown = {"comment": "", "text": "'x'", "number": "0"}

    def replaced(match: re.Match[str]) -> str:
        kind = next(name for name in ("comment", "name", "text", "number") if match[name] is not None)
        return shown.get(kind, match[0])

    return _PIECE.sub(replaced, text).strip()


_WORD = re.compile(
    r"""(?P<quoted>"(?:[^"]|"")*(?:"|\Z)|`[^`]*(?:`|\Z)|\[[^\]]*(?:\]|\Z)) | (?P<bare>[^\W\d][\w$]*)(?P<call>\s*\()?""",
    re.X,
)


_BARE = re.compile(r"[^\W\d][\w$]*")


def redact_statement(text: str, names: Iterable[str]) -> str:
    """The text without constants and without any word that is not SQL's own, a function, or one of `names`.

    An alias, a schema and, in some dialects, a text constant in double quotes can be anybody's name.

    >>> sql = 'SELECT SUM(pay) AS ann FROM ward.staff WHERE "Ann" = name AND zip = 5'
    >>> redact_statement(sql, ["pay", "staff", "name"])
    'SELECT SUM(pay) AS x FROM x.staff WHERE "x" = name AND x = 0'
    """
    known = {name.lower() for name in names}

    def kept(match: re.Match[str]) -> str:
        if match["quoted"] is not None:
            inside = match[0][1:-1].replace('""', '"')
            return match[0] if inside.lower() in known else '"x"'
        word = match["bare"]
        called = match["call"] is not None and word.upper() in _functions()
        own = called or word.lower() in known or word.upper() in _keywords()
        return match[0] if own else f"x{match['call'] or ''}"

    pieces = re.split(r"('x')", remove_constants(text))
    return "".join(piece if piece == "'x'" else _WORD.sub(kept, piece) for piece in pieces)


def list_withheld_words(text: str, names: Iterable[str]) -> frozenset[str]:
    """The words of a statement that its shape does not show, in lower case.

    >>> sorted(list_withheld_words("SELECT SUM(pay) FROM staff WHERE name = Zoe -- Eve", ["pay", "name"]))
    ['eve', 'staff', 'zoe']
    """
    shown = {word.lower() for word in _BARE.findall(redact_statement(text, names))}
    return frozenset(word.lower() for word in _BARE.findall(text)) - shown


@cache
def _functions() -> frozenset[str]:
    from sqlglot.expressions import FUNCTION_BY_NAME

    return frozenset(FUNCTION_BY_NAME)


@cache
def _keywords() -> frozenset[str]:
    from sqlglot.tokens import Tokenizer

    return frozenset(word for phrase in Tokenizer.KEYWORDS for word in phrase.upper().split())
