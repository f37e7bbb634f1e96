"""A statement as its fingerprint sees it: how it is laid out does not matter, what it says does."""

from __future__ import annotations

import re

# kept as they are: literals and names in quotes, comments (where a line ends, so does a comment); else blanks are one
_PIECES = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|\$(\w*)\$.*?\$\1\$|--[^\n]*\n?|\#[^\n]*\n?|/\*.*?\*/|(\s+)""",
    re.DOTALL,
)


def flat(sql: str) -> str:
    r"""The statement with every run of blanks as one, outside of quotes and comments.

    >>> flat("SELECT  1\n  FROM t")
    'SELECT 1 FROM t'
    >>> flat("x = 'a  b'") == flat("x = 'a b'"), flat("1 -- all\nWHERE y") == flat("1 -- all WHERE y")
    (False, False)
    """
    return _PIECES.sub(lambda found: " " if found[2] else found[0], sql).strip()
