"""Is a statement read as the engine reads it? Checked by execution, on a made-up table."""

from keyhole.reading.as_written import FAILS, refusals
from keyhole.reading.spelling import Spelling
from keyhole.reading.validate import Validator

__all__ = ["FAILS", "Spelling", "Validator", "refusals"]
