"""Text -> Query: splitting a log into statements, and lowering one statement to what it asks."""

import logging

from keyhole.sql.dialects.engine import Dialect
from keyhole.sql.dialects.to_duckdb import carried
from keyhole.sql.lowering.lower import lower
from keyhole.sql.read import Unread, read
from keyhole.sql.statements.split import Fragment, split

__all__ = ["Dialect", "Fragment", "Unread", "carried", "lower", "read", "split"]

logging.getLogger("sqlglot").addHandler(logging.NullHandler())  # the parser's remarks are for who sets logging up
