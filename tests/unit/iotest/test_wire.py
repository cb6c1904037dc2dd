"""Frames between coordinator and nodes, and who lets whom in."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.iotest.coordinator.coordinator import Authority, HandedOver
from gridwright.iotest.wire import (
    COORDINATOR,
    HEAD,
    MOST,
    WireError,
    coordinator_context,
    frame,
    in_words,
    length_of,
    node_context,
    peer_name,
)


@given(st.binary(max_size=100))
def test_a_frame_has_the_length_of_its_payload(payload: bytes) -> None:
    sent = frame(payload)
    assert length_of(sent[: HEAD.size]) == len(payload)
    assert sent[HEAD.size :] == payload


def test_nobody_can_send_more_than_there_is_to_say() -> None:
    with pytest.raises(WireError, match="67108864 are the most"):
        length_of(HEAD.pack(MOST + 1))


class Ends:
    """Both ends of a connection, in memory."""

    def __init__(self, coordinator: ssl.SSLContext, node: ssl.SSLContext, name: str = COORDINATOR) -> None:
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.coordinator = coordinator.wrap_bio(up, down, server_side=True)
        self.node = node.wrap_bio(down, up, server_hostname=name)

    def shake(self) -> str:
        """Shake hands; the name of the node. Raises ssl.SSLError."""
        for _ in range(3):
            for end in (self.node, self.coordinator):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        certificate = self.coordinator.getpeercert()
        assert certificate is not None
        return peer_name(certificate)


def of_node(authority: Authority, directory: Path, name: str) -> Path:
    return HandedOver(authority, directory, [name]).file_of(name)


@pytest.mark.parametrize("name", ["node1", "n" * 60 + ".a.long.domain.example", "rack_7-b", "10.0.0.7"])
def test_both_ends_know_each_other(tmp_path: Path, name: str) -> None:
    authority = Authority()
    ends = Ends(authority.context(), node_context(of_node(authority, tmp_path, name)))
    assert ends.shake() == name
    assert ends.node.version() == "TLSv1.3"


def test_a_node_of_another_test_is_not_let_in(tmp_path: Path) -> None:
    authority, other = Authority(), Authority()
    node = node_context(of_node(other, tmp_path, "node1"))
    node.check_hostname, node.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        Ends(authority.context(), node).shake()
    assert in_words(refused.value).startswith("its certificate is not of this test (")


def test_a_node_without_a_certificate_is_not_let_in() -> None:
    node = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    node.check_hostname, node.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(ssl.SSLError) as refused:
        Ends(Authority().context(), node).shake()
    assert in_words(refused.value).startswith("a certificate is missing or not of this test (")


def test_an_older_protocol_is_refused(tmp_path: Path) -> None:
    authority = Authority()
    node = node_context(of_node(authority, tmp_path, "node1"))
    node.minimum_version, node.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        Ends(authority.context(), node).shake()


def test_a_node_talks_to_the_coordinator_of_its_test_only(tmp_path: Path) -> None:
    authority = Authority()
    node = node_context(of_node(authority, tmp_path, "node1"))
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed certificate"):
        Ends(Authority().context(), node).shake()


def test_a_node_cannot_play_the_coordinator(tmp_path: Path) -> None:
    authority = Authority()
    node = node_context(of_node(authority, tmp_path, "node1"))
    false = coordinator_context(of_node(authority, tmp_path, COORDINATOR))
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        Ends(false, node).shake()


@pytest.mark.parametrize("hours", [-23, 0, 23])
def test_clocks_may_be_off_by_a_time_zone(tmp_path: Path, hours: int) -> None:
    authority = Authority(datetime.now(UTC) + timedelta(hours=hours))
    ends = Ends(authority.context(), node_context(of_node(authority, tmp_path, "node1")))
    assert ends.shake() == "node1"


@pytest.mark.parametrize(("days", "said"), [(-2, "not valid any more"), (2, "not valid yet")])
def test_a_certificate_that_is_too_old_or_too_new_is_told_by_the_clock(
    tmp_path: Path, days: int, said: str
) -> None:
    authority = Authority(datetime.now(UTC) + timedelta(days=days))
    ends = Ends(authority.context(), node_context(of_node(authority, tmp_path, "node1")))
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        ends.shake()
    assert in_words(refused.value) == f"its certificate is {said}: the clock of one side is wrong by a day"


def test_credentials_are_the_owners_and_leave_nothing(tmp_path: Path) -> None:
    below = tmp_path / "state"
    given = HandedOver(Authority(), below, ["node1", "node2"])
    (directory,) = (below / "iotest").iterdir()
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in directory.iterdir()} == {0o600}
    assert given.file_of("node1").read_text() != given.file_of("node2").read_text()
    given.remove()
    assert list((below / "iotest").iterdir()) == []


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(GridwrightError, match="it is no directory, and belongs to root") as refused:
        HandedOver(Authority(), tmp_path / "state", ["node1"])
    assert "state: in the spec" in str(refused.value)
