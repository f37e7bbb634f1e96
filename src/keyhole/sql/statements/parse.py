"""Text -> syntax tree of one SELECT, and where each node stands in the text; texts of one shape are parsed once."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from keyhole.errors import NumberError, ParseError, QueryError, UnsupportedQuery
from keyhole.model.numbers import read_decimal
from keyhole.sql.dialects.engine import find_engine

MAX_LENGTH = 500_000  # characters: a longer statement is a table in disguise
LONGEST = 400  # characters of a statement that is shown as it must be written
MAX_DEPTH = 60  # nested parentheses: far below the interpreter's recursion limit

_DIALECT = DuckDB()
_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.L_PAREN)
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
_WORDS = (TokenType.VAR, TokenType.IDENTIFIER)
_LONG_NUMBER = re.compile(r"[eE][-+]?\d{3}|\d{100}")
_ONLY_SELECT = "only a SELECT with aggregates over the one table is judged"


def parse_script(sql: str, dialect: str) -> list[exp.Expr | None]:
    """The statements of a text, as the parser of that dialect reads them; none where it cannot.

    >>> [tree.key for tree in parse_script("SELECT 1; DROP TABLE t", "postgres")], parse_script("SELECT (", "postgres")
    (['select', 'drop'], [])
    """
    try:
        return list(sqlglot.parse(sql, read=find_engine(dialect).parser))
    except (SqlglotError, RecursionError, ValueError, AttributeError, TypeError, IndexError, KeyError):
        return []  # the parser is not total on token soup


def parse_statement(sql: str, dialect: str) -> exp.Expr | None:
    """The one statement of a text; None where it cannot be read, or holds several."""
    trees = parse_script(sql, dialect)
    return trees[0] if len(trees) == 1 else None


def correct_quoted_words(sql: str, dialect: str, words: Mapping[str, str]) -> str:
    """The end of a message: a short statement on one line, with words in double quotes as they must be written.

    >>> correct_quoted_words('SELECT SUM("pay x") FROM t', "mysql", {"pay x": "`pay x`"})
    '. Write: SELECT SUM(`pay x`) FROM t'
    """
    if len(sql) > LONGEST:
        return ""
    made, end = [], 0
    for token in sqlglot.tokenize(sql, read=find_engine(dialect).parser):
        if sql[token.start] == '"' and token.text in words:
            made += [sql[end : token.start], words[token.text]]
            end = token.end + 1
    return f". Write: {' '.join(''.join([*made, sql[end:]]).split())}"


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


def parse_select(text: str) -> tuple[SourceText, exp.Select]:
    """The syntax tree of the one SELECT that `text` holds.

    Raises `ParseError` with the caret at the token that does not fit, `UnsupportedQuery` for anything that is SQL but
    not one SELECT. Cost: one pass of sqlglot's tokenizer and parser.

    >>> parse_select("SELECT SUM(x) FROM t")[1].key
    'select'
    """
    if len(text) > MAX_LENGTH:
        raise UnsupportedQuery(
            f"the statement has {len(text):,} characters and the limit is {MAX_LENGTH:,}: put long lists into a column "
            "of the table (a view)",
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
    while isinstance(tree, exp.Subquery) and not _list_other_arguments(tree, ("this",)):
        tree = tree.this
    if not isinstance(tree, exp.Select):
        if isinstance(tree, exp.SetOperation):
            raise source.refuse(
                "UNION, INTERSECT and EXCEPT are not judged: ask the SELECTs one by one", tree.expression
            )
        raise UnsupportedQuery(_ONLY_SELECT, text, tokens[0].start)
    return source, tree


def _list_other_arguments(node: exp.Expr, known: tuple[str, ...]) -> list[str]:
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


# --- statements of one shape ------------------------------------------------------------------------------------------
# Statements of one shape are parsed once: a log repeats its statements with other constants.
#
# The shape of a text is the text with its constants blanked. The syntax tree of a shape is kept, and the constants of
# the next text are put into it. Only constants that the parser takes as they are (`_PARENTS`) are exchanged; places in
# the kept tree belong to another text, so whoever meets an error parses the text again to find the caret.


MAX_SHAPES = 1024
MAX_SHAPE_LENGTH = 4_000
_CONSTANT = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w.$])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])""")
_PARENTS = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Like, exp.ILike),
    *(exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Paren, exp.If, exp.Case),
)
_UNSAFE = ("--", "/*", "$")


@dataclass(frozen=True, slots=True)
class Template:
    """A tree, its constants in the order of the text, and the labels with the places of constants in them."""

    tree: exp.Select
    constants: tuple[exp.Literal, ...]
    labels: tuple[tuple[str | int, ...], ...]


class _Shapes(threading.local):
    """The kept trees: one set per thread, since a tree is filled in place."""

    def __init__(self) -> None:
        self.known: dict[str, Template] = {}


_SHAPES = _Shapes()


def forget_trees() -> None:
    """Drops every kept tree of this thread."""
    _SHAPES.known.clear()


def read_shape(text: str) -> tuple[str, list[tuple[int, int]]] | None:
    """The text with its constants blanked, and where they stood; None if the text is not worth keeping.

    >>> read_shape("SELECT SUM(x2) FROM t WHERE a = 'b' AND c < 1.5")
    ("SELECT SUM(x2) FROM t WHERE a = '' AND c < 0", [(32, 35), (44, 47)])
    """
    if len(text) > MAX_SHAPE_LENGTH or any(mark in text for mark in _UNSAFE):
        return None
    places: list[tuple[int, int]] = []
    pieces: list[str] = []
    last = 0
    for match in _CONSTANT.finditer(text):
        start, end = match.span()
        if text[start] == '"':
            continue
        places.append((start, end))
        pieces += (text[last:start], "''" if text[start] == "'" else "0")
        last = end
    pieces.append(text[last:])
    return "".join(pieces), places


def recall_tree(text: str, shape: str, places: list[tuple[int, int]]) -> tuple[SourceText, exp.Select] | None:
    """The kept tree of the shape, with the constants of `text` in it."""
    template = _SHAPES.known.get(shape)
    if template is None:
        return None
    for node, (start, end) in zip(template.constants, places, strict=True):
        node.args["this"] = _value(text[start:end])
    source = SourceText(text, ())
    source.labels = [
        " ".join("".join(p if isinstance(p, str) else text[slice(*places[p])] for p in label).split())
        for label in template.labels
    ]
    return source, template.tree


def keep_tree(
    source: SourceText, tree: exp.Select, shape: str, places: list[tuple[int, int]], spans: list[tuple[int, int]]
) -> None:
    """Keeps the tree of a text that was lowered; `spans` are the places of its labels."""
    constants = sorted((n for n in tree.find_all(exp.Literal) if "start" in n.meta), key=lambda n: int(n.meta["start"]))
    if len(constants) != len(places) or len(spans) != len(tree.expressions):
        return
    for node, (start, end) in zip(constants, places, strict=True):
        text = source.text[start:end]
        if node.meta["start"] != start or node.this != _value(text) or node.is_string != (text[0] == "'"):
            return
        if not isinstance(node.parent, _PARENTS):
            return
    if len(_SHAPES.known) >= MAX_SHAPES:
        forget_trees()
    labels = tuple(_pieces_of_label(source.text, span, places) for span in spans)
    _SHAPES.known[shape] = Template(tree, tuple(constants), labels)


def _value(text: str) -> str:
    return text[1:-1].replace("''", "'") if text[0] == "'" else text


def _pieces_of_label(text: str, span: tuple[int, int], places: list[tuple[int, int]]) -> tuple[str | int, ...]:
    at, end = span
    found: list[str | int] = []
    for index, (start, stop) in enumerate(places):
        if at <= start and stop <= end:
            found += (text[at:start], index)
            at = stop
    return (*found, text[at:end])
