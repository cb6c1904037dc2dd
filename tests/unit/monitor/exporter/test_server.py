"""The exporter answers those who may ask, and goes on whatever others send, hold back, or break."""

from __future__ import annotations

import gzip
import http.client
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridwright.monitor.exporter.metric_families import TextFormat
from gridwright.monitor.exporter.page_program import PageOrder
from gridwright.monitor.exporter.server import AT_ONCE, OF_ONE_PEER, MetricsServer, NoPage, Pages
from gridwright.services.listening import Listening, ListeningChoice, listening_of
from tests.support.as_user import ALICE, as_user
from tests.support.certificates import make_certificate
from tests.support.strangers import flood, silent_connections

TOKEN = 2 * "0123456789abcdef"
ANSWERS = """
import struct, sys, time
sys.stdin.buffer.readline()
count = 0
while letter := sys.stdin.buffer.read(1):
    count += 1
    for piece in (b"page %d as " % count, letter, b" " + b"x" * 100000 + b"\\n"):
        sys.stdout.buffer.write(struct.pack(">I", len(piece)) + piece)
    sys.stdout.buffer.write(struct.pack(">I", 0))
    sys.stdout.buffer.flush()
"""
"""Speaks as the program that writes pages does."""
PLAIN = Listening(address="127.0.0.1", port=0)


@contextmanager
def serving(
    listening: Listening = PLAIN,
    program: str = ANSWERS,
    *,
    interval_s: float = 60.0,
    connection_s: float = 10.0,
) -> Iterator[int]:
    """A server in a thread; gives its port."""
    ended = threading.Event()
    with Pages(PageOrder(), interval_s, (sys.executable, "-P", "-c", program)) as pages:
        server = MetricsServer(listening, pages, connection_s=connection_s)
        thread = threading.Thread(target=server.serve, args=(ended.is_set,))
        thread.start()
        try:
            yield int(server.url.rpartition(":")[2])
        finally:
            ended.set()
            thread.join()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as port:
        yield port


def ask(
    port: int, path: str = "/metrics", method: str = "GET", **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers; asked again while a rate or the number of connections is at its limit."""
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request(method, path, headers={n.replace("_", "-"): v for n, v in headers.items()})
            answer = connection.getresponse()
            body = answer.read()
        except (ConnectionError, http.client.RemoteDisconnected):
            continue
        finally:
            connection.close()
        if answer.status != 429:
            return answer.status, body, dict(answer.getheaders())


def test_who_asks_gets_the_page_in_the_format_that_it_asks_for(port: int) -> None:
    status, body, headers = ask(port)
    assert status == 200
    assert b" as p x" in body.lower()
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    _, body, headers = ask(port, Accept="application/openmetrics-text;version=1.0.0")
    assert b" as o x" in body.lower()
    assert headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"


def test_scrapes_within_the_interval_share_a_page(port: int) -> None:
    assert ask(port)[1] == ask(port)[1]


def test_both_formats_have_the_same_sample_and_the_next_interval_has_another() -> None:
    def asked(pages: Pages, format_: TextFormat) -> bytes:
        return pages.get(format_).split()[3]

    program = (sys.executable, "-P", "-c", ANSWERS)
    with Pages(PageOrder(), 60.0, program) as pages:
        assert [asked(pages, each) for each in (TextFormat.PLAIN, TextFormat.OPENMETRICS) * 2] == [
            *(b"P", b"o"),
            *(b"P", b"o"),
        ]
    with Pages(PageOrder(), 0.0, program) as pages:
        assert [asked(pages, each) for each in (TextFormat.PLAIN, TextFormat.OPENMETRICS)] == [b"P", b"O"]


def test_the_page_is_packed_for_those_who_ask_for_it(port: int) -> None:
    _, packed, headers = ask(port, Accept_Encoding="gzip")
    assert headers["Content-Encoding"] == "gzip"
    assert len(packed) < 5000
    assert gzip.decompress(packed) == ask(port)[1]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "FLY"])
def test_nothing_can_be_written(port: int, method: str) -> None:
    status, _, headers = ask(port, method=method)
    assert status == 405
    assert headers["Allow"] == "GET, HEAD"


def test_a_head_has_headers_alone(port: int) -> None:
    status, body, headers = ask(port, method="HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 100_000


def test_there_is_nothing_else(port: int) -> None:
    for path in ("/etc/passwd", "/metrics/", "/../metrics", "/metrics%00"):
        assert ask(port, path)[0] == 404
    assert ask(port, "/")[0] == 200
    assert ask(port, "/metrics?name[]=up")[0] == 200


def test_a_page_of_the_web_cannot_ask(port: int) -> None:
    assert ask(port, Host="evil.example")[0] == 421
    twice = b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n"
    assert raw(port, twice).startswith(b"HTTP/1.1 421 ")


def raw(port: int, sent: bytes) -> bytes:
    """All that comes back for these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        found = b""
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(1 << 16):
                found += chunk
        except TimeoutError:
            raise
        except OSError:
            # It was shut before all of it was sent, or read.
            pass
    return found


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.binary(max_size=300)
    | st.builds(
        lambda verb, path, header: b"%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n" % (verb, path, header),
        st.sampled_from([b"GET", b"HEAD", b"get", b"\xff", b"POST"]),
        st.binary(max_size=40) | st.just(b"/metrics"),
        st.binary(max_size=80) | st.just(b"Accept: " + b"a," * 500),
    )
)
def test_whatever_is_sent_others_are_answered(port: int, sent: bytes) -> None:
    answer = raw(port, sent)
    assert not answer.startswith(b"HTTP/1.1 5") or answer.startswith(b"HTTP/1.1 505")
    assert ask(port)[0] == 200


def test_what_was_sent_is_not_repeated(port: int) -> None:
    assert b"alert" not in raw(port, b"GET <script>alert(1)</script> x y z\r\n\r\n")
    assert b"alert" not in raw(port, b"GET /<script>alert(1)</script> HTTP/1.1\r\nHost: localhost\r\n\r\n")


def test_headers_without_end_are_cut(port: int) -> None:
    endless = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
    for more in (b"".join(b"X%d: y\r\n" % each for each in range(1000)), b"X: " + b"y" * 100_000):
        # What is left unread makes the kernel shut the connection, at times before the answer is read.
        answer = raw(port, endless + more)
        assert not answer or b" 431 " in answer
    assert ask(port)[0] == 200


def test_those_who_send_and_read_nothing_hold_up_nobody_for_long() -> None:
    with serving(connection_s=0.5) as port, ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            for _ in range(AT_ONCE + 4)
        ]
        for each in slow[:2]:
            each.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
        # As many as one address may have are held, until their time is up; the others were shut at once.
        assert ask(port)[0] == 200
        for each in slow:
            try:
                while each.recv(1 << 16):
                    pass
            except ConnectionError:
                pass


def test_an_address_has_its_share_of_connections_and_the_longest_silent_makes_room() -> None:
    with serving(connection_s=20.0) as port, ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            for _ in range(OF_ONE_PEER)
        ]
        assert raw(port, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        assert silent[0].recv(1) == b""
        silent[1].sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert silent[1].recv(100).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("encrypted", [False, True])
def test_hundreds_of_silent_connections_of_another_user_keep_no_scrape_out(
    tmp_path: Path, encrypted: bool
) -> None:
    choice = ListeningChoice(port=0)
    if encrypted:
        certificate, key = make_certificate(tmp_path)
        # A proxy that passes TLS on: all peers are one address.
        files = {"certificate": certificate, "key": key, "token": TOKEN, "proxies": ["127.0.0.0/8"]}
        choice = ListeningChoice(port=0, has_sessions=True, **files)  # type: ignore[arg-type]
    with serving(listening_of(choice), connection_s=20.0) as port, silent_connections(port, 520):
        for _ in range(3):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            if encrypted:
                trusted = ssl.create_default_context(cafile=str(certificate))
                connection = http.client.HTTPSConnection("127.0.0.1", port, context=trusted, timeout=20)
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
            assert connection.getresponse().status == 200
            connection.close()


def test_the_token_is_asked_for_and_guesses_are_slowed_down() -> None:
    with serving(Listening(address="127.0.0.1", port=0, token=TOKEN)) as port:
        assert ask(port, Authorization=f"Bearer {TOKEN}")[0] == 200
        status, _, headers = ask(port)
        assert status == 401
        assert headers["WWW-Authenticate"].startswith("Bearer")
        for number in range(9):
            assert ask(port, Authorization=f"Bearer guess{number}")[0] == 401
        guess = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n"
        assert b" 429 " in raw(port, guess % b"guess")


def test_over_tls_the_page_is_read_and_plain_text_is_not_understood(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    choice = ListeningChoice(port=0, certificate=certificate, key=key)
    with serving(listening_of(choice), connection_s=1.0) as port:
        trusted = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=trusted, timeout=20)
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == 200
        connection.close()
        assert b"200" not in raw(port, b"GET /metrics HTTP/1.1\r\n\r\n")
        # One that begins no TLS is shut when its time is up, and nobody waits for it.
        with socket.create_connection(("127.0.0.1", port), timeout=20) as idle:
            assert idle.recv(1) == b""


def test_a_program_that_ends_is_told_and_not_started_again_and_again() -> None:
    with serving(program="import sys; sys.stdin.buffer.readline()") as port:
        for _ in range(3):
            status, body, _ = ask(port)
            assert status == 503
            assert b"the sampler has ended" in body


def test_a_program_that_hangs_or_writes_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridwright.monitor.exporter.server.ANSWER_S", 0.3)
    hangs = "import sys, time; sys.stdin.buffer.readline(); time.sleep(60)"
    with (
        Pages(PageOrder(), program=(sys.executable, "-P", "-c", hangs)) as pages,
        pytest.raises(NoPage, match="answered"),
    ):
        pages.get(TextFormat.PLAIN)
    monkeypatch.setattr("gridwright.monitor.exporter.server.ANSWER_S", 20)
    monkeypatch.setattr("gridwright.monitor.exporter.server.MOST_BYTES", 1 << 16)
    with (
        Pages(PageOrder(), program=(sys.executable, "-P", "-c", ANSWERS)) as pages,
        pytest.raises(NoPage, match="65536 bytes"),
    ):
        pages.get(TextFormat.PLAIN)


def test_the_real_program_writes_pages_of_both_formats_one_after_the_other() -> None:
    with Pages(PageOrder(), interval_s=0.0) as pages:
        for format_, first in ((TextFormat.PLAIN, b"# HELP "), (TextFormat.OPENMETRICS, b"# TYPE ")) * 2:
            body = pages.get(format_)
            assert body.startswith(first)
            assert b"\ngridwright_node_cores " in body
            assert body.endswith(b"# EOF\n") == (format_ is TextFormat.OPENMETRICS)


@pytest.mark.few(1)
@pytest.mark.root
@pytest.mark.parametrize("says", ["", "GET /metrics HT", "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_a_user_who_floods_takes_nothing_of_what_another_user_may_scrape(says: str) -> None:
    with serving() as port, flood(port, says):

        def alice() -> None:
            for _ in range(30):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request("GET", "/metrics")
                assert connection.getresponse().status == 200
                connection.close()

        as_user(ALICE, alice)
