"""The protocol between the coordinator of a test and its nodes: messages in frames, over mutual TLS 1.3.

Both ends show a certificate that the authority of this test signed, see
`gridwright.iotest.coordinator.coordinator`: the coordinator
knows each node by the name in its certificate, and a node talks to its coordinator only. A
frame is the length of its payload (4 bytes, big-endian) and the payload, see `gridwright.iotest.messages`.
"""

from __future__ import annotations

import ssl
import struct
from pathlib import Path
from typing import Any

COORDINATOR = "coordinator"
"""The name in the coordinator's certificate, whatever the name of its machine."""
HEAD = struct.Struct(">I")
MOST = 64 << 20
"""Bytes of a frame: a node's result has a figure for each of at most 4096 streams."""
_END_OF_FIRST = "-----END CERTIFICATE-----\n"
_NO_TIME = {9: "not valid yet", 10: "not valid any more"}
"""X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED (openssl-verification-options(1))."""


class WireError(Exception):
    """The other side does not speak as agreed, or is not who it should be."""


def coordinator_context(credentials: Path) -> ssl.SSLContext:
    """How the coordinator lets nodes in. Raises OSError."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, credentials)
    # Nobody comes back to an earlier session, so nobody can try to.
    context.num_tickets = 0
    return context


def node_context(credentials: Path) -> ssl.SSLContext:
    """How a node reaches its coordinator. Raises OSError, so ssl.SSLError where the file holds none."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, credentials)


def _context(side: int, credentials: Path) -> ssl.SSLContext:
    """A context that knows one authority: the last certificate of the file."""
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(credentials)
    context.load_verify_locations(cadata=credentials.read_text().partition(_END_OF_FIRST)[2])
    return context


def peer_name(certificate: dict[str, Any]) -> str:
    """The name in a certificate that has been verified. Raises WireError if there is none."""
    for kind, name in certificate.get("subjectAltName", ()):
        if kind == "DNS":
            return str(name)
    raise WireError("a certificate without a name")


def in_words(error: ssl.SSLError) -> str:
    """Why a connection could not be made, or did not hold."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _NO_TIME:
            return (
                f"its certificate is {_NO_TIME[error.verify_code]}: the clock of one side is wrong by a day"
            )
        return f"its certificate is not of this test ({error.verify_message})"
    reason = (error.reason or str(error)).lower().replace("_", " ")
    if "certificate" in reason or "unknown ca" in reason:
        return f"a certificate is missing or not of this test ({reason})"
    return f"what came is not what was sent ({reason})"


def frame(payload: bytes) -> bytes:
    """The frame of a message that is encoded."""
    return HEAD.pack(len(payload)) + payload


def length_of(head: bytes) -> int:
    """Bytes of the payload that follows. Raises WireError if these are too many."""
    (length,) = HEAD.unpack(head)
    if length > MOST:
        raise WireError(f"a message of {length} bytes, where {MOST} are the most")
    return int(length)
