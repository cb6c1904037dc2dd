"""What goes between the coordinator of a test and its nodes: frames that only holders of the secret can make.

A frame is the length of its payload (4 bytes, big-endian), a tag (16 bytes) and the payload, a JSON object in
UTF-8. The tag is the first half of HMAC-SHA256 (RFC 2104, FIPS 180-4) over the frame's number in its
direction and the payload, with a key of the direction: a frame that was changed, repeated, left out or sent
back is refused.

The keys come out of a handshake, whose three frames have an empty key:

    node         {"gridwright": version, "node": name, "nonce": N}
    coordinator  {"nonce": C, "proof": HMAC(secret, "coordinator" N C name)}
    node         {"proof": HMAC(secret, "node" N C name)}

Each side has proven that it knows the secret, which is never sent, before the other one listens to it.
"""

from __future__ import annotations

import hmac
import json
import secrets
import struct
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]

SECRET_BYTES = 32
NONCE_BYTES = 16
TAG_BYTES = 16
HEAD = struct.Struct(">I16s")
MOST_UNPROVEN = 4096
"""Bytes of a frame from one who has proven nothing yet."""
MOST = 64 << 20
"""Bytes of any other: a node's result has a figure for each of at most 4096 streams."""


class WireError(Exception):
    """The other side does not speak as agreed, or does not know the secret."""


class Sealer:
    """Makes the frames of one direction, in order."""

    def __init__(self, key: bytes = b"") -> None:
        self._key = key
        self._number = 0

    def seal(self, message: Message) -> bytes:
        """The frame of a message."""
        payload = json.dumps(message, separators=(",", ":")).encode()
        tag = _tag(self._key, self._number, payload)
        self._number += 1
        return HEAD.pack(len(payload), tag) + payload


class Opener:
    """Checks the frames of one direction, in order."""

    def __init__(self, key: bytes = b"", most: int = MOST_UNPROVEN) -> None:
        self._key = key
        self._number = 0
        self._most = most

    def expect(self, head: bytes) -> tuple[int, bytes]:
        """Length and tag of the frame that begins so. Raises WireError if it is too long."""
        length, tag = HEAD.unpack(head)
        if length > self._most:
            raise WireError(f"a message of {length} bytes, where {self._most} are the most")
        return length, tag

    def open(self, tag: bytes, payload: bytes) -> Message:
        """The message of a frame. Raises WireError if it is not one of the other side."""
        if not hmac.compare_digest(tag, _tag(self._key, self._number, payload)):
            raise WireError("a message that the other side did not send so")
        self._number += 1
        try:
            message = json.loads(payload)
        except ValueError as error:
            raise WireError("a message that is no JSON") from error
        if not isinstance(message, dict):
            raise WireError("a message that is no object")
        return message


@dataclass(frozen=True, slots=True)
class Channel:
    """Both directions of a connection, seen from one of its ends."""

    sealer: Sealer
    opener: Opener


def nonce() -> str:
    """A number that nobody has used before."""
    return secrets.token_hex(NONCE_BYTES)


@dataclass(frozen=True, slots=True)
class Handshake:
    """What the two sides have told each other in the open."""

    secret: bytes
    node: str
    node_nonce: str
    coordinator_nonce: str

    def proof(self, side: str) -> str:
        """What `side` (`node` or `coordinator`) sends to show that it knows the secret."""
        return self._derive(side).hex()

    def check(self, side: str, message: Message) -> None:
        """Check the proof that `side` sent. Raises WireError."""
        given = message.get("proof")
        if not isinstance(given, str) or not hmac.compare_digest(
            given.encode(errors="replace"), self.proof(side).encode()
        ):
            raise WireError(f"the {side} does not know the secret of this test")

    def channel(self, side: str) -> Channel:
        """The connection after the handshake, as `side` has it."""
        other = "coordinator" if side == "node" else "node"
        return Channel(
            Sealer(self._derive(f"frames of the {side}")),
            Opener(self._derive(f"frames of the {other}"), MOST),
        )

    def _derive(self, purpose: str) -> bytes:
        # A JSON list, so that no two lists of words have one text.
        text = json.dumps([purpose, self.node_nonce, self.coordinator_nonce, self.node]).encode()
        return hmac.digest(self.secret, text, "sha256")


def text_of(message: Message, key: str) -> str:
    """A short text out of a frame of the handshake. Raises WireError if there is none."""
    value = message.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= 256:
        raise WireError(f"a greeting without {key}")
    return value


def _tag(key: bytes, number: int, payload: bytes) -> bytes:
    return hmac.digest(key, number.to_bytes(8, "big") + payload, "sha256")[:TAG_BYTES]
