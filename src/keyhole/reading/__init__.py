"""Is a statement read as the engine reads it? Checked by execution, on a made-up table."""

from keyhole.reading.validator import FAILS, Validator, find_refusals

__all__ = ["FAILS", "Validator", "find_refusals"]
