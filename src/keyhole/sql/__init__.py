"""Text -> Query: splitting a log into statements, and lowering one statement to what it asks."""

import logging

from keyhole.sql.dialects.engine import Dialect
from keyhole.sql.dialects.to_duckdb import translate_to_duckdb
from keyhole.sql.lowering.lower import lower_statement
from keyhole.sql.read import Unread, read_statement
from keyhole.sql.statements.split import Fragment, split_statements

__all__ = [
    "Dialect",
    "Fragment",
    "Unread",
    "lower_statement",
    "read_statement",
    "split_statements",
    "translate_to_duckdb",
]

logging.getLogger("sqlglot").addHandler(logging.NullHandler())  # the parser's remarks are for who sets logging up
