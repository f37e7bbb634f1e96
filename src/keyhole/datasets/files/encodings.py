"""In which encoding a text file is written: said by its first bytes, or by which bytes occur in it."""

from __future__ import annotations

import codecs
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from keyhole.errors import ConfigError, DataError

CHUNK = 1 << 22
UTF8 = "utf-8"
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
GZIP = b"\x1f\x8b"


def open_unpacked(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked if it is packed by gzip."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
    return gzip.open(path, "rb") if packed else path.open("rb")  # type: ignore[return-value]


def detect_encoding(path: Path) -> str:
    """The encoding of a text file: by its byte order mark, by every second byte being 0, UTF-8 if it is, else latin-1.

    Bytes that latin-1 has no letters for make it cp1252. A file with lines of UTF-8 and lines that are none is refused:
    whichever were taken, some names would be wrong. Cost: one pass over the bytes; text without accents costs nothing
    more.
    """
    with open_unpacked(path) as file:
        head = file.read(4096)
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    first, second = head[::2].count(0), head[1::2].count(0)
    if len(head) > 8 and max(first, second) > len(head) // 4 and 10 * min(first, second) < max(first, second):
        return "utf-16-le" if second > first else "utf-16-be"
    if first or second:
        raise DataError.of_file(
            f"cannot read {path.name}: it is no text. Write a .csv, an .xlsx, a .parquet, a .json or a .duckdb file"
        )
    return UTF8 if _is_utf8(path) else _of_single_bytes(path)


def _chunks(path: Path) -> Iterator[bytes]:
    with open_unpacked(path) as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder(UTF8)()
    inside = False  # a letter of several bytes
    try:
        for chunk in _chunks(path):
            if inside or not chunk.isascii():
                decoder.decode(chunk)
                inside = bool(decoder.getstate()[0])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _of_single_bytes(path: Path) -> str:
    """latin-1 or cp1252; refused where other lines are UTF-8."""
    good, bad, high = 0, 0, False
    with open_unpacked(path) as file:
        for number, line in enumerate(file, 1):
            if line.isascii():
                continue
            try:
                line.decode(UTF8)
                good = good or number
            except UnicodeDecodeError:
                bad = bad or number
                high = high or any(0x80 <= byte < 0xA0 for byte in line)
            if good and bad:
                raise DataError.of_file(
                    f"{path.name} mixes encodings: line {good} is UTF-8 and line {bad} is not. Write it in one, or "
                    "say which counts with encoding = ... under [source]"
                )
    return "cp1252" if high else "latin-1"


def normalize_encoding(encoding: str) -> str:
    """An encoding by the name that Python has for it.

    >>> normalize_encoding("UTF8"), normalize_encoding("Windows-1252"), normalize_encoding("latin1")
    ('utf-8', 'cp1252', 'iso8859-1')
    """
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        raise ConfigError(f"there is no encoding {encoding!r}: write utf-8, latin-1, cp1252, utf-16, ...") from None


def transcode(path: Path, encoding: str, to: Path) -> None:
    """The same text in UTF-8; a byte that the encoding has not is a fault, told with its line."""
    line = 1
    try:
        with open_unpacked(path) as raw, to.open("w", encoding=UTF8, newline="") as out:
            decoder = codecs.getincrementaldecoder(encoding)()
            while chunk := raw.read(CHUNK):
                text = decoder.decode(chunk)
                line += text.count("\n")
                out.write(text.replace("\x00", ""))
            out.write(decoder.decode(b"", final=True))
    except UnicodeError:
        raise DataError.of_file(
            f"{path.name} is not {encoding}: it cannot be read from about line {line} on. Try "
            "encoding = 'latin-1', 'cp1252' or 'utf-16' under [source], or leave it out"
        ) from None
    except (OSError, EOFError) as error:
        raise DataError.of_file(f"cannot read {path.name}: {error.args[-1] if error.args else error}") from None
