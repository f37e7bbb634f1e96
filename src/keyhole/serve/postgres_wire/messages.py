"""Messages of PostgreSQL's protocol, version 3: how they are read and written, each with a bound on its size."""

from __future__ import annotations

import asyncio
import struct

MOST_MESSAGE = 1 << 20
MOST_RESPONSE = 16 << 20  # of the shadow: it passes through the memory of the server
DETAIL_FIELDS = (b"W", b"F", b"L", b"R")  # of an error: where in the server's code it was raised


class ProtocolViolation(Exception):
    """The other side does not keep the protocol: the connection ends."""


async def read_message(reader: asyncio.StreamReader, most: int = MOST_MESSAGE) -> tuple[bytes, bytes]:
    """Kind and body of the next message."""
    head = await reader.readexactly(5)
    size = int.from_bytes(head[1:], "big", signed=True)
    if not 4 <= size <= most:
        raise ProtocolViolation("a message of this size is not read")
    return head[:1], await reader.readexactly(size - 4)


def pack_message(kind: bytes, body: bytes = b"") -> bytes:
    """A message.

    >>> pack_message(b"S")
    b'S\\x00\\x00\\x00\\x04'
    """
    return kind + struct.pack("!i", len(body) + 4) + body


def pack_error(code: str, text: str, severity: str = "ERROR") -> bytes:
    """An error or, with another severity, what ends a connection."""
    return pack_message(b"E", _pack_fields(severity, code, text))


def pack_notice(text: str) -> bytes:
    """A remark beside an answer."""
    return pack_message(b"N", _pack_fields("NOTICE", "00000", text))


def _pack_fields(severity: str, code: str, text: str) -> bytes:
    fields = (("S", severity), ("V", severity), ("C", code), ("M", text.replace("\0", "\ufffd")))
    return b"".join(f"{name}{value}".encode("utf-8", "replace") + b"\0" for name, value in fields) + b"\0"


def strip_details(body: bytes) -> bytes:
    """An error without the places in the server's code where it was raised, and without empty details and hints."""
    return b"\0".join(part for part in body.split(b"\0") if part[:1] not in DETAIL_FIELDS and part not in (b"D", b"H"))


def split_text(body: bytes, start: int = 0) -> tuple[bytes, int]:
    """The bytes up to the next zero, and where the rest begins."""
    end = body.find(b"\0", start)
    if end < 0:
        raise ProtocolViolation("a text has no end")
    return body[start:end], end + 1


def split_values(body: bytes, start: int) -> tuple[list[bytes | None], int]:
    """A count and so many values with their lengths, as Bind and DataRow have them."""
    count, at = unpack("!h", body, start), start + 2
    values: list[bytes | None] = []
    for _ in range(count):
        size = unpack("!i", body, at)
        at += 4
        if size > len(body) - at:
            raise ProtocolViolation("a value is longer than its message")
        values.append(None if size < 0 else body[at : at + size])
        at += max(size, 0)
    return values, at


def unpack(layout: str, body: bytes, at: int) -> int:
    """One number."""
    try:
        number: int = struct.unpack_from(layout, body, at)[0]
    except struct.error:
        raise ProtocolViolation("a message is cut off") from None
    return number


def pack_parse(name: bytes, sql: str) -> bytes:
    """Prepare a statement."""
    return pack_message(b"P", name + b"\0" + sql.encode("utf-8", "replace") + b"\0\0\0")


def pack_bind(
    portal: bytes, statement: bytes, values: list[bytes | None], formats: bytes = b"\0\0", results: bytes = b"\0\0"
) -> bytes:
    """Bind a statement to a portal."""
    packed = b"".join(struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v for v in values)
    return pack_message(
        b"B", portal + b"\0" + statement + b"\0" + formats + struct.pack("!h", len(values)) + packed + results
    )


def split_columns(body: bytes) -> list[tuple[str, int]]:
    """Names and types of a RowDescription."""
    columns, at = [], 2
    for _ in range(unpack("!h", body, 0)):
        name, at = split_text(body, at)
        columns.append((name.decode(), unpack("!I", body, at + 6)))
        at += 18
    return columns
