"""Who has no token, the wrong one, or asks too often is refused; who has it is let in."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.services.listening import Gate, Listening, PeerRate

TOKEN = 2 * "0123456789abcdef"
OPEN = Listening(address="127.0.0.1", port=1)
CLOSED = Listening(address="10.0.0.1", port=1, token=TOKEN)
BEHIND = Listening(
    address="10.0.0.7",
    port=1,
    token=TOKEN,
    proxies=(ipaddress.ip_network("10.0.0.0/28"),),
    proxy_header="X-Token",
)


def status(gate: Gate, headers: dict[str, str], peer: str = "10.0.0.2") -> int:
    refusal = gate.refusal(peer, headers)
    return 200 if refusal is None else refusal.status


def test_the_token_lets_in_and_nothing_else_does() -> None:
    gate = Gate(CLOSED)
    assert status(gate, {"authorization": f"Bearer {TOKEN}"}) == 200
    assert status(gate, {"authorization": f"bearer  {TOKEN}"}) == 200
    for wrong in (
        {},
        {"authorization": ""},
        {"authorization": TOKEN},
        {"authorization": "Bearer "},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": f"Bearer {TOKEN}0"},
        {"authorization": f"Basic {TOKEN}"},
        {"x-token": TOKEN},
    ):
        assert status(gate, wrong) == 401


def test_wrong_tokens_are_limited_and_lock_nobody_out_who_has_the_right_one() -> None:
    gate = Gate(CLOSED)
    for number in range(300):
        guess = {"authorization": f"Bearer guess{number:032}"}
        assert status(gate, guess) == (401 if number < 10 else 429)
        assert status(gate, {"authorization": f"Bearer {TOKEN}"}) == 200
    assert status(gate, {"authorization": "Bearer guess"}, peer="10.0.0.3") == 401


def test_an_ipv6_host_that_changes_its_address_is_one_peer() -> None:
    gate = Gate(CLOSED)
    wrong = [status(gate, {}, peer=f"2001:db8:0:1::{number:x}") for number in range(1, 21)]
    assert wrong == [401] * 10 + [429] * 10
    assert status(gate, {}, peer="2001:db8:0:2::1") == 401


def test_a_proxy_alone_is_heard_and_needs_the_token_in_its_header() -> None:
    gate = Gate(BEHIND)
    assert status(gate, {"x-token": TOKEN}) == 200
    assert status(gate, {"x-token": TOKEN}, peer="::ffff:10.0.0.2") == 200
    assert status(gate, {"x-token": TOKEN}, peer="10.0.1.2") == 403
    assert status(gate, {"x-token": "x" + TOKEN}) == 401
    assert status(gate, {"authorization": f"Bearer {TOKEN}"}) == 401


@pytest.mark.parametrize("host", ["localhost:9", "127.0.0.1", "127.0.0.1:80", "LOCALHOST", ""])
def test_without_a_token_this_machine_is_asked_by_its_own_names(host: str) -> None:
    assert status(Gate(OPEN), {"host": host}, peer="127.0.0.1") == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:9",
        "[::1]",
        "127.0.0.1.evil.example",
        "localhost:1@evil",
        "localhost:evil",
        "localhost, evil.example",
        "localhost, localhost",
    ],
)
def test_a_page_of_the_web_cannot_ask_by_a_name_of_its_own(host: str) -> None:
    assert status(Gate(OPEN), {"host": host}, peer="127.0.0.1") == 421


@given(st.text(), st.text())
def test_no_header_breaks_it_and_none_but_the_token_lets_in(host: str, offered: str) -> None:
    assert status(Gate(CLOSED), {"host": host, "authorization": f"Bearer {offered}"}) in {
        200 if offered.strip() == TOKEN else 401
    }
    assert status(Gate(OPEN), {"host": host, "authorization": offered}) in {200, 421}


def test_a_rate_refills_with_time_and_forgets_the_oldest_of_many_addresses() -> None:
    now = [100.0]
    rate = PeerRate(at_once=2, per_s=0.5, clock=lambda: now[0])
    assert [rate.take("a") for _ in range(3)] == [True, True, False]
    assert rate.take("b")
    now[0] += 2
    assert [rate.take("a") for _ in range(2)] == [True, False]
    for number in range(5000):
        rate.take(f"peer{number}")
    assert len(rate._peers) <= 4096
