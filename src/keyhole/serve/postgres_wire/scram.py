"""SCRAM-SHA-256 and SCRAM-SHA-256-PLUS for the PostgreSQL door: a key is proved and never sent (RFC 5802, 5929, 7677).

A name that nobody has meets the same exchange, with a salt of its own that stays the same.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
import ssl
import struct
from dataclasses import dataclass

from keyhole.serve.postgres_wire.messages import ProtocolViolation, pack_message, read_message, split_text

MOST_AUTH = 4096
PLAIN, PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
ROUNDS = 4096
SIGNATURES = {  # object identifiers of the signature of a certificate: the digest that binds a channel to it
    "2a864886f70d01010b": "sha256", "2a864886f70d01010c": "sha384", "2a864886f70d01010d": "sha512",
    "2a864886f70d010105": "sha256", "2a864886f70d010104": "sha256",
    "2a8648ce3d040302": "sha256", "2a8648ce3d040303": "sha384", "2a8648ce3d040304": "sha512",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verifier:
    """What is kept of a key: nobody can log in with it."""

    rounds: int
    salt: bytes
    stored: bytes
    server: bytes

    @classmethod
    def parse(cls, text: str) -> Verifier:
        """As PostgreSQL writes it: SCRAM-SHA-256$ROUNDS:SALT$STORED:SERVER."""
        _, first, second = text.split("$")
        (rounds, salt), (stored, server) = first.split(":"), second.split(":")
        return cls(int(rounds), *(base64.b64decode(part) for part in (salt, stored, server)))

    @classmethod
    def of_nobody(cls, name: str, secret: bytes) -> Verifier:
        """For a name without a key: no proof fits it, and its salt is the same at every attempt.

        >>> one, two = (Verifier.of_nobody("eve", b"secret of the server") for _ in range(2))
        >>> one.salt == two.salt, one.stored == two.stored
        (True, False)
        """
        salt = hmac.digest(secret, name.encode("utf-8", "replace"), "sha256")[:16]
        return cls(ROUNDS, salt, secrets.token_bytes(32), secrets.token_bytes(32))


async def prove_key(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, verifier: Verifier, endpoint: bytes | None
) -> bool:
    """One exchange; is it the key? `endpoint` binds the channel under TLS, and then a client that could bind must."""
    offered = [PLUS, PLAIN] if endpoint is not None else [PLAIN]
    names = b"".join(name.encode() + b"\0" for name in offered)
    writer.write(pack_message(b"R", struct.pack("!i", 10) + names + b"\0"))
    first = await _read_answer(reader)
    mechanism, at = split_text(first)
    client_first = first[at + 4 :].decode("utf-8")
    flag, _, bare = client_first.split(",", 2)
    plus = mechanism.decode() == PLUS
    if mechanism.decode() not in offered or plus != flag.startswith("p=") or (flag == "y" and endpoint is not None):
        return False  # a client that could bind was told that it cannot
    if plus and flag != "p=tls-server-end-point":
        return False
    nonce = _read_fields(bare)["r"] + base64.b64encode(secrets.token_bytes(18)).decode()
    salt = base64.b64encode(verifier.salt).decode()
    server_first = f"r={nonce},s={salt},i={verifier.rounds}"
    writer.write(pack_message(b"R", struct.pack("!i", 11) + server_first.encode()))
    without_proof, _, proof = (await _read_answer(reader)).decode("utf-8").rpartition(",p=")
    fields = _read_fields(without_proof)
    header = client_first[: len(client_first) - len(bare)].encode()
    binding = base64.b64encode(header + (endpoint or b"" if plus else b""))
    exchange = f"{bare},{server_first},{without_proof}".encode()
    signature = hmac.digest(verifier.stored, exchange, "sha256")
    given = base64.b64decode(proof, validate=True)
    key = bytes(a ^ b for a, b in zip(given, signature, strict=False))
    fits = [
        hmac.compare_digest(fields["r"].encode(), nonce.encode()),
        hmac.compare_digest(fields["c"].encode(), binding),
        hmac.compare_digest(hashlib.sha256(key).digest(), verifier.stored),
        len(given) == len(signature),
    ]
    if not all(fits):
        return False
    last = base64.b64encode(hmac.digest(verifier.server, exchange, "sha256"))
    writer.write(pack_message(b"R", struct.pack("!i", 12) + b"v=" + last))
    return True


async def _read_answer(reader: asyncio.StreamReader) -> bytes:
    kind, body = await read_message(reader, MOST_AUTH)
    if kind != b"p":
        raise ProtocolViolation("an answer to the challenge is due")
    return body


def _read_fields(text: str) -> dict[str, str]:
    fields = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    if "r" not in fields:
        raise ProtocolViolation("the exchange has no nonce")
    return fields


def find_endpoint(context: ssl.SSLContext) -> bytes | None:
    """The digest of the server's own certificate, which binds a channel to it; None where none is defined.

    The certificate is read in a handshake in memory, since a context does not hand it out.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    client = trusting.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    ended = {client: False, server: False}
    for _ in range(10):
        for side in ended:
            try:
                side.do_handshake()
                ended[side] = True
            except ssl.SSLWantReadError:
                pass
    certificate = client.getpeercert(binary_form=True)
    assert certificate is not None
    digest = SIGNATURES.get(_find_signature(certificate))
    return None if digest is None else hashlib.new(digest, certificate).digest()


def _find_signature(certificate: bytes) -> str:
    """The object identifier behind the signed part of a certificate (DER)."""
    at, _ = _enter(certificate, 0)
    body, size = _enter(certificate, at)
    algorithm, _ = _enter(certificate, body + size)
    identifier, length = _enter(certificate, algorithm)
    return certificate[identifier : identifier + length].hex()


def _enter(der: bytes, at: int) -> tuple[int, int]:
    """Where the content of the element at `at` begins, and how long it is."""
    size = der[at + 1]
    if size < 128:
        return at + 2, size
    digits = size - 128
    return at + 2 + digits, int.from_bytes(der[at + 2 : at + 2 + digits], "big")
