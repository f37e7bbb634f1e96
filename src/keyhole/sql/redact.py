"""A statement that may be shown to strangers: its constants replaced, its comments dropped, its shape kept."""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"""
    (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<name> "(?:[^"]|"")*" )
    | (?P<text> (?:\b[EeNnXxBb]|\b[Uu]&)?'(?:[^']|'')*(?:'|\Z) | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z) )
    | (?P<number> (?<![\w.$"])(?: 0[xX][0-9a-fA-F_]+ | (?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)? ) )
    """,
    re.VERBOSE | re.DOTALL,
)


def without_constants(text: str) -> str:
    """The text with every text constant as 'x' and every number as 0; comments are gone, since they may tell anything.

    >>> without_constants("SELECT SUM(x2) FROM t WHERE name = 'O''Neil' AND zip > 32.5e3 -- Neil's")
    "SELECT SUM(x2) FROM t WHERE name = 'x' AND zip > 0"
    >>> without_constants("c = 0x1F AND d = $q$it's$q$ /* 5 */")
    "c = 0 AND d = 'x'"
    """
    shown = {"comment": "", "text": "'x'", "number": "0"}

    def replaced(match: re.Match[str]) -> str:
        kind = next(name for name in ("comment", "name", "text", "number") if match[name] is not None)
        return shown.get(kind, match[0])

    return _PIECE.sub(replaced, text).strip()
