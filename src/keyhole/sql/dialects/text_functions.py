"""Functions of texts that PostgreSQL, SQLite and DuckDB compute alike: by characters, with constant places."""

from __future__ import annotations

from sqlglot import exp

from keyhole.sql.dialects.sorts import Differs, Sort, sort_of, whole_said
from keyhole.sql.dialects.translate import Rule, Translator, word


def _length(self: Translator, node: exp.Expr) -> Sort:
    self.must(node.this, Sort.TEXT)
    return Sort.WHOLE


def _substring(self: Translator, node: exp.Substring) -> Sort:
    self.must(node.this, Sort.TEXT)
    start, length = whole_said(node.args.get("start")), node.args.get("length")
    count = 0 if length is None else whole_said(length)
    if start is None or start < 1 or count is None or count < 0:
        raise Differs(": SUBSTRING is judged from a constant place of at least 1 on; before that engines differ")
    return Sort.TEXT


def _end(self: Translator, node: exp.Expr) -> Sort:
    self.must(node.this, Sort.TEXT)
    count = whole_said(node.args.get("expression"))
    if count is None or count < 0:
        raise Differs(f": {word(node)} is judged with a constant number of characters that is not negative")
    return Sort.TEXT


def _position(self: Translator, node: exp.StrPosition) -> Sort:
    self.must(node.this, Sort.TEXT)
    _constant(node, "substr")
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        raise Differs(f": {word(node)} from another place than the start is not judged")
    return Sort.WHOLE


def _replace(self: Translator, node: exp.Replace) -> Sort:
    self.must(node.this, Sort.TEXT)
    _constant(node, "expression")
    if not isinstance(node.args.get("replacement"), exp.Literal):
        raise Differs(": REPLACE is judged with constants only")
    return Sort.TEXT


def _joined(self: Translator, node: exp.Expr) -> Sort:
    for part in node.iter_expressions():
        if sort_of(part) not in (Sort.TEXT, Sort.SAID):
            raise Differs(f": {word(node)} of anything but texts is not the same in all engines: cast it to TEXT")
    return Sort.TEXT


def _constant(node: exp.Expr, name: str) -> None:
    part = node.args.get(name)
    if not isinstance(part, exp.Literal) or not part.is_string or not part.name:
        raise Differs(f": {word(node)} is judged with a constant text that is not empty")


TEXT_RULES: dict[type[exp.Expr], Rule] = {
    exp.Length: _length,
    exp.Substring: _substring,
    exp.Left: _end,
    exp.Right: _end,
    exp.StrPosition: _position,
    exp.Replace: _replace,
    exp.DPipe: _joined,
    exp.Concat: _joined,
}
