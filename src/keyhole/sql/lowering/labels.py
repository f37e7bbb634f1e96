"""The items of a SELECT list as they are written."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from keyhole.sql.statements.parse import SourceText


def spans(source: SourceText, aliased: list[bool]) -> list[tuple[int, int]]:
    """Where the items of the outermost SELECT list stand, without their aliases; empty if that is not clear."""
    depth, start, end, before = 0, -1, -1, -1
    items: list[tuple[int, int]] = []
    seen_alias = False

    def close() -> None:
        # an alias without AS is the last word of its item
        bare_alias = not seen_alias and len(items) < len(aliased) and aliased[len(items)]
        items.append((start, before if bare_alias else end))

    tokens = source.tokens
    outer = _outermost_select(source)
    for token in tokens[outer + 1 :]:
        kind = token.token_type
        if depth == 0 and kind in _ENDS:
            break
        if depth == 0 and kind is TokenType.COMMA:
            close()
            start, seen_alias = -1, False
            continue
        if kind in (TokenType.L_PAREN, TokenType.L_BRACKET):
            depth += 1
        elif kind in (TokenType.R_PAREN, TokenType.R_BRACKET):
            depth -= 1
            if depth < 0:
                break
        if depth == 0 and kind is TokenType.ALIAS:
            seen_alias = True
        if start < 0:
            start = token.start
        if not seen_alias:
            before, end = end, token.end + 1
    close()
    found = [span for span in items if span[0] >= 0]
    return found if len(found) == len(aliased) else []


def labels(source: SourceText, aliased: list[bool]) -> list[str]:
    """The items of the outermost SELECT list as written, without their aliases."""
    if source.labels is not None:
        return source.labels
    found = spans(source, aliased)
    return [" ".join(source.text[a:b].split()) for a, b in found] if found else [""] * len(aliased)


_ENDS = (
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.ORDER_BY,
    TokenType.LIMIT,
    TokenType.OFFSET,
    TokenType.SEMICOLON,
)


def _outermost_select(source: SourceText) -> int:
    depth = 0
    wrapped = 0
    while wrapped < len(source.tokens) and source.tokens[wrapped].token_type is TokenType.L_PAREN:
        wrapped += 1
    for index, token in enumerate(source.tokens):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        elif token.token_type is TokenType.SELECT and depth == wrapped:
            return index
    return -1
