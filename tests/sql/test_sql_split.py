"""Splitting a log into statements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sql_world import SCHEMA

from keyhole.errors import ParseError
from keyhole.sql import Fragment, lower_statement, split_statements


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        (" ;; \n;", []),
        ("-- only a comment", []),
        ("/* one; /* nested; */ still; */", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';' ; SELECT 'it''s; '", ["SELECT ';'", "SELECT 'it''s; '"]),
        ('SELECT "a;b", "c"";d" FROM t; SELECT 2', ['SELECT "a;b", "c"";d" FROM t', "SELECT 2"]),
        ("SELECT 1 -- a; b\n + 2; SELECT 3", ["SELECT 1 -- a; b\n + 2", "SELECT 3"]),
        ("SELECT /* a; b */ 1; SELECT 2", ["SELECT /* a; b */ 1", "SELECT 2"]),
        ("SELECT $$a;b$$; SELECT $x$ ; $$ ; $x$; SELECT $1", ["SELECT $$a;b$$", "SELECT $x$ ; $$ ; $x$", "SELECT $1"]),
        ("-- first\nSELECT 1 -- last\n; -- and more", ["SELECT 1"]),
        ("SELECT 3-1, 4/2; SELECT 'ä;李'", ["SELECT 3-1, 4/2", "SELECT 'ä;李'"]),
        ("SELECT 'two\nlines;\nin one'; SELECT 2", ["SELECT 'two\nlines;\nin one'", "SELECT 2"]),
    ],
)
def test_statements(text: str, statements: list[str]) -> None:
    assert [f.sql for f in split_statements(text)] == statements


def test_places_count_from_one() -> None:
    text = "SELECT 1;\n\n  -- x\n  SELECT 2; SELECT\n3"
    assert split_statements(text) == [
        Fragment("SELECT 1", 1, 1),
        Fragment("SELECT 2", 4, 3),
        Fragment("SELECT\n3", 4, 13),
    ]


@pytest.mark.parametrize("broken", ["SELECT 'oops", 'SELECT "oops', "SELECT $$oops", "SELECT $a$oops"])
def test_a_broken_statement_does_not_swallow_the_log(broken: str) -> None:
    good = "SELECT SUM(pay) FROM people WHERE sex = 'F'"
    found = [f.sql for f in split_statements(f"{good};\n{broken};\n{good};\n{good};\n")]
    assert found == [good, broken, good, good]
    with pytest.raises(ParseError):
        lower_statement(found[1], SCHEMA)


def test_a_comment_that_never_ends_takes_the_rest_and_is_refused() -> None:
    found = split_statements("SELECT 1; SELECT 2 /* no end ; SELECT 3")
    assert [f.sql for f in found] == ["SELECT 1", "SELECT 2 /* no end ; SELECT 3"]
    with pytest.raises(ParseError, match="never closed"):
        lower_statement(found[1].sql, SCHEMA)


STATEMENT = st.lists(
    st.sampled_from(["SELECT", "a", "'x'", "'a;b'", "'it''s'", '"n;m"', "$$;$$", "/* ; */", "+", "-- ;\n", "李"]),
    min_size=1,
    max_size=6,
).filter(lambda words: any(not w.startswith(("--", "/*")) for w in words))


@given(st.lists(STATEMENT, max_size=6))
def test_joining_and_splitting_again_gives_the_same_words(statements: list[list[str]]) -> None:
    found = split_statements(" ;\n".join(" ".join(words) for words in statements))
    assert len(found) == len(statements)
    for fragment, words in zip(found, statements, strict=True):
        kept = [w for w in words if not w.startswith(("--", "/*"))]
        assert all(word in fragment.sql for word in kept)


@given(st.text(alphabet="ab;'\"$-/*\n ", max_size=60))
def test_every_fragment_is_a_piece_of_the_text_at_its_place(text: str) -> None:
    lines = text.split("\n")
    last = (0, 0)
    for fragment in split_statements(text):
        assert fragment.sql.strip()
        start = sum(len(line) + 1 for line in lines[: fragment.line - 1]) + fragment.column - 1
        assert text[start : start + len(fragment.sql)] == fragment.sql
        assert (fragment.line, fragment.column) > last
        last = (fragment.line, fragment.column)
