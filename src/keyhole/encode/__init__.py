"""From evidence to worlds: classes of people, spans of the line, rows; and whether a table gives the answers."""

from keyhole.encode.encode import Encoded, TooManyPeople, encode

__all__ = ["Encoded", "TooManyPeople", "encode"]
