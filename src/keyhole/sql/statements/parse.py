"""Text -> syntax tree of one SELECT, and where each node stands in the text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from keyhole.errors import NumberError, ParseError, QueryError, UnsupportedQuery
from keyhole.model.numbers import read_decimal

MAX_LENGTH = 500_000  # characters: a longer statement is a table in disguise
MAX_DEPTH = 60  # nested parentheses: far below the interpreter's recursion limit

_DIALECT = DuckDB()
_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.L_PAREN)
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
_WORDS = (TokenType.VAR, TokenType.IDENTIFIER)
_LONG_NUMBER = re.compile(r"[eE][-+]?\d{3}|\d{100}")
_ONLY_SELECT = "only a SELECT with aggregates over the one table is judged"


class SourceText:
    """One statement: its text, its tokens, and the caret that an error puts under a node."""

    __slots__ = ("labels", "text", "tokens")

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.labels: list[str] | None = None  # the SELECT items as written, if already known

    def position(self, node: exp.Expr | None) -> int:
        """Character offset of the leftmost part of `node` that the parser located; of its parent otherwise."""
        while node is not None:
            starts = [n.meta["start"] for n in node.walk() if n._meta is not None and "start" in n._meta]
            if starts:
                return self._name_of(node, int(min(starts)))
            if (found := self._literal(node)) is not None:
                return found
            node = node.parent
        return self.tokens[0].start if self.tokens else 0

    def _name_of(self, node: exp.Expr, start: int) -> int:
        # some functions have no place of their own: step back from the argument over NAME(
        if isinstance(node, exp.Func) and not (node._meta and "start" in node._meta):
            at = next((i for i, t in enumerate(self.tokens) if t.start == start), 0)
            if at >= 2 and self.tokens[at - 1].token_type is TokenType.L_PAREN:
                name = self.tokens[at - 2]
                if name.text.upper() in (*node.sql_names(), node.key.upper(), "QUANTILE_CONT"):
                    return int(name.start)
        return start

    def _literal(self, node: exp.Expr) -> int | None:
        # nodes without a place of their own are found again by their spelling
        word = node.name.casefold() or node.key
        if isinstance(node, exp.Placeholder | exp.Parameter):
            marks = (TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.COLON)
            return next((t.start for t in self.tokens if t.token_type in marks), None)
        spelled = (t for t in self.tokens if t.text.casefold().replace("_", "") == word.replace("_", ""))
        return next((t.start for t in spelled), None)

    def refuse(self, message: str, node: exp.Expr | None = None) -> UnsupportedQuery:
        """The error to raise for SQL that is not judged."""
        return UnsupportedQuery(message, self.text, self.position(node))


def divides_before_adding(text: str) -> bool:
    """Does a statement divide single values, so that an engine adds rounded quotients up?

    >>> divides_before_adding("SELECT SUM(pay / 3) FROM t"), divides_before_adding("SELECT SUM(pay) / 3 FROM t")
    (True, False)
    """
    try:
        tree = parse(text)[1]
    except QueryError:
        return True
    return any(
        node.find_ancestor(exp.AggFunc) is not None or node.this.find(exp.AggFunc) is None
        for node in tree.find_all(exp.Div)
    )


def parse(text: str) -> tuple[SourceText, exp.Select]:
    """The syntax tree of the one SELECT that `text` holds.

    Raises `ParseError` with the caret at the token that does not fit, `UnsupportedQuery` for anything that is SQL but
    not one SELECT. Cost: one pass of sqlglot's tokenizer and parser.

    >>> parse("SELECT SUM(x) FROM t")[1].key
    'select'
    """
    if len(text) > MAX_LENGTH:
        raise UnsupportedQuery(
            f"the statement has {len(text):,} characters and the limit is {MAX_LENGTH:,}: put long lists into a column "
            "of the table (--view)",
            text,
            0,
        )
    tokens = _tokenize(text)
    if not tokens:
        raise ParseError("the statement is empty", text, 0)
    source = SourceText(text, tokens)
    if tokens[0].token_type not in _STARTS:
        raise _not_select(text, tokens[0])
    _check_tokens(text, tokens)
    try:
        trees = _DIALECT.parser().parse(list(tokens), text)
    except RecursionError:
        raise _too_deep(text, tokens[0].start) from None
    except SqlglotParseError as error:
        raise _syntax_error(text, error, tokens) from None
    except (SqlglotError, ValueError, AttributeError, TypeError, IndexError, KeyError) as error:
        # the parser is not total on token soup: whatever it trips over, the text is not SQL
        raise ParseError(
            f"this is not SQL: {str(error).splitlines()[0] if str(error) else 'no parse'}", text, 0
        ) from None
    tree = trees[0] if trees else None
    while isinstance(tree, exp.Subquery) and not _others(tree, ("this",)):
        tree = tree.this
    if not isinstance(tree, exp.Select):
        if isinstance(tree, exp.SetOperation):
            raise source.refuse(
                "UNION, INTERSECT and EXCEPT are not judged: ask the SELECTs one by one", tree.expression
            )
        raise UnsupportedQuery(_ONLY_SELECT, text, tokens[0].start)
    return source, tree


def _others(node: exp.Expr, known: tuple[str, ...]) -> list[str]:
    return [name for name, value in node.args.items() if name not in known and value]


def _tokenize(text: str) -> list[Token]:
    try:
        return list(_DIALECT.tokenize(text))
    except (TokenError, ValueError, IndexError) as error:
        position = _unterminated(text)
        if position is not None:
            mark = text[position : position + 2] if text[position] == "/" else text[position]
            what = "comment" if mark == "/*" else "quote"
            raise ParseError(f"this {what} is never closed: {mark}", text, position) from None
        raise ParseError(f"this is not SQL: {str(error).splitlines()[0]}", text, 0) from None


def _unterminated(text: str) -> int | None:
    # the first quote or comment that does not close
    pattern = re.compile(r"--[^\r\n]*|/\*(?s:.*?)\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|(?P<open>/\*|['\"])")
    return next((m.start() for m in pattern.finditer(text) if m.group("open")), None)


def _check_tokens(text: str, tokens: Sequence[Token]) -> None:
    depth, previous = 0, tokens[0]
    for token in tokens:
        kind = token.token_type
        if kind in _OPENING:
            depth += 1
            if depth > MAX_DEPTH:
                raise _too_deep(text, token.start)
        elif kind in _CLOSING:
            depth -= 1
        elif kind is TokenType.SEMICOLON:
            if token is not tokens[-1]:
                rest = tokens[tokens.index(token) + 1].start
                raise UnsupportedQuery("one statement at a time: another one begins here", text, rest)
        elif kind in _WORDS and previous.token_type is TokenType.NUMBER and token.start == previous.end + 1:
            # 0x1F and 5x would read as a number with an alias
            raise ParseError(f"{previous.text}{token.text} is no number: write it in decimal", text, previous.start)
        elif kind is TokenType.NUMBER and _LONG_NUMBER.search(token.text):
            try:
                read_decimal(token.text)
            except NumberError as error:
                raise UnsupportedQuery(str(error), text, token.start) from None
            except ValueError:
                raise ParseError(f"{token.text} is no number: write it in decimal", text, token.start) from None
        previous = token


def _too_deep(text: str, position: int) -> QueryError:
    return UnsupportedQuery(f"nested too deeply (limit {MAX_DEPTH}): write it flatter", text, position)


def _not_select(text: str, token: Token) -> QueryError:
    word = token.text.upper()
    if token.token_type in (TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER):
        return ParseError(f"a statement starts with SELECT or WITH, not with {token.text}", text, token.start)
    return UnsupportedQuery(f"{_ONLY_SELECT}, not {word}", text, token.start)


def _syntax_error(text: str, error: SqlglotParseError, tokens: Sequence[Token]) -> ParseError:
    detail = error.errors[0] if error.errors else {}
    description = str(detail.get("description") or "syntax error").split(" but got <Token")[0]
    highlight, before = str(detail.get("highlight") or ""), str(detail.get("start_context") or "")
    # sqlglot gives the text before the place (cut on the left): the tail of some prefix that ends at a token
    for token in tokens:
        if text.startswith(highlight, token.start) and text.endswith(before, 0, token.start):
            line, column = detail.get("line"), detail.get("col")
            if (token.line, token.col) == (line, column) or line is None:
                return ParseError(f"this is not SQL: {_plain(description)}", text, token.start)
    return ParseError(f"this is not SQL: {_plain(description)}", text, tokens[-1].start)


def _plain(description: str) -> str:
    if description.startswith("Invalid expression"):
        return "this word does not fit here"
    if description.startswith("Required keyword"):
        return "something is missing after this"
    return description[:1].lower() + description[1:].replace("<class 'sqlglot.expressions.", "").replace("'>", "")
