"""Frames between coordinator and nodes: only those who know the secret can make one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.iotest.wire import HEAD, MOST, Channel, Handshake, Message, Opener, Sealer, WireError, text_of

SHAKE = Handshake(b"s" * 32, "node1", "aa", "bb")
MESSAGES = st.lists(
    st.dictionaries(st.text(), st.one_of(st.integers(), st.text(), st.booleans())), min_size=1, max_size=5
)


def opened(opener: Opener, frame: bytes) -> Message:
    length, tag = opener.expect(frame[: HEAD.size])
    assert length == len(frame) - HEAD.size
    return opener.open(tag, frame[HEAD.size :])


def ends() -> tuple[Channel, Channel]:
    return SHAKE.channel("node"), SHAKE.channel("coordinator")


@given(MESSAGES, MESSAGES)
def test_both_ends_understand_each_other(there: list[Message], back: list[Message]) -> None:
    node, coordinator = ends()
    assert [opened(coordinator.opener, node.sealer.seal(each)) for each in there] == there
    assert [opened(node.opener, coordinator.sealer.seal(each)) for each in back] == back


@given(st.data())
def test_a_changed_frame_is_refused(data: st.DataObject) -> None:
    node, coordinator = ends()
    frame = bytearray(node.sealer.seal({"say": "result", "bytes": 123456789}))
    # The length is not covered: who changes it cuts the payload, or waits for more.
    at = data.draw(st.integers(4, len(frame) - 1))
    frame[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(WireError):
        opened(coordinator.opener, bytes(frame))


def test_a_repeated_a_left_out_and_a_returned_frame_are_refused() -> None:
    node, coordinator = ends()
    first, second = (node.sealer.seal({"number": number}) for number in (1, 2))
    opened(coordinator.opener, first)
    for frame in (first, node.sealer.seal({"number": 3})):
        with pytest.raises(WireError):
            opened(coordinator.opener, frame)
    with pytest.raises(WireError):
        opened(node.opener, second)


@pytest.mark.parametrize(
    "other",
    [
        replace(SHAKE, secret=b"t" * 32),
        replace(SHAKE, node="node2"),
        replace(SHAKE, node_nonce="ab"),
        replace(SHAKE, coordinator_nonce="ab"),
    ],
)
def test_a_proof_is_of_this_secret_this_node_and_these_numbers(other: Handshake) -> None:
    for side in ("node", "coordinator"):
        SHAKE.check(side, {"proof": SHAKE.proof(side)})
        with pytest.raises(WireError, match=f"the {side} does not know the secret"):
            SHAKE.check(side, {"proof": other.proof(side)})
    frame = other.channel("node").sealer.seal({})
    with pytest.raises(WireError):
        opened(SHAKE.channel("coordinator").opener, frame)


def test_one_side_cannot_send_back_the_proof_of_the_other() -> None:
    with pytest.raises(WireError):
        SHAKE.check("node", {"proof": SHAKE.proof("coordinator")})


@pytest.mark.parametrize("proof", [None, 7, "", "é", "00" * 32])
def test_what_is_no_proof_is_refused(proof: object) -> None:
    with pytest.raises(WireError):
        SHAKE.check("node", {"proof": proof})


def test_one_who_has_proven_nothing_cannot_send_much() -> None:
    frame = Sealer().seal({"node": "x" * 5000})
    with pytest.raises(WireError, match="4096 are the most"):
        Opener().expect(frame[: HEAD.size])
    with pytest.raises(WireError):
        SHAKE.channel("node").opener.expect(HEAD.pack(MOST + 1, bytes(16)))


@given(st.binary(max_size=200))
def test_what_is_no_object_is_refused_and_breaks_nothing(payload: bytes) -> None:
    import hmac

    tag = hmac.digest(b"", (0).to_bytes(8, "big") + payload, "sha256")[:16]
    try:
        message = Opener().open(tag, payload)
    except WireError:
        return
    assert isinstance(message, dict)


@pytest.mark.parametrize("value", [None, "", 7, "x" * 257])
def test_a_greeting_has_short_texts(value: object) -> None:
    with pytest.raises(WireError):
        text_of({"node": value}, "node")
