"""The console's server, asked over loopback: who is let in, what it answers to nonsense, and its headers."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridwright.monitor.console.queries import BY, FILTERS, HOW
from gridwright.monitor.console.server import BOUNDS, page_files, session_token
from gridwright.monitor.console.watching import JobFacts, ViewerRule, Watching
from gridwright.services.listening import ListeningChoice, listening_of
from tests.support.as_user import MALLORY
from tests.support.certificates import make_certificate
from tests.support.console_server import ServedConsole, served
from tests.support.pretend_histories import END_S, LIBRARIES, PretendHistories
from tests.support.strangers import silent_connections

FACTS = [JobFacts(job="4711", user="ann", name="secret of ann", state="running")]


def watching() -> Watching:
    return Watching(
        name="demo",
        histories=PretendHistories(count=2),
        libraries=LIBRARIES,
        jobs=lambda: FACTS,
        clock=lambda: END_S + 1,
    )


@pytest.fixture(scope="module")
def console() -> Iterator[ServedConsole]:
    with served(watching()) as found:
        yield found


NAMES = st.sampled_from(
    ["from", "to", "points", "metric", "by", "how", "most", "format", "at", "seconds", *FILTERS]
)
VALUES = st.one_of(
    st.text(max_size=30),
    st.floats().map(str),
    st.integers(int(END_S) - 10_000, int(END_S)).map(str),
    st.sampled_from(["node_load1", "node_cpu_seconds_total", "gridwright_mount_read_bytes_total", *BY, *HOW]),
)
RANGE = [("from", str(END_S - 600)), ("to", str(END_S))]
PATHS = st.sampled_from(
    ["about", "picture", "series", "libraries", "space", "marks", "repositories", "nothing"]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    PATHS,
    st.sampled_from([[], RANGE, [*RANGE, ("metric", "node_load1")]]),
    st.lists(st.tuples(NAMES, VALUES), max_size=6),
)
def test_no_query_makes_it_fail(
    console: ServedConsole, path: str, good: list[tuple[str, str]], query: list[tuple[str, str]]
) -> None:
    more = [(name, value) for name, value in query if name not in dict(good)]
    status, body, headers = console.ask(f"/api/{path}?{urlencode([*good, *more], errors='replace')}")
    assert status in {200, 400, 404}
    if status == 400:
        assert headers["content-type"] == "application/json"
        assert json.loads(body)["problems"][0]["what"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_no_address_makes_it_fail_or_leave_its_files(console: ServedConsole, raw: bytes) -> None:
    status, _, _ = console.ask("/" + quote(raw, safe="/%?&=.+"))
    assert status in {200, 303, 400, 401, 404, 405}
    status, _, _ = console.ask("/page/" + quote(raw, safe="/%."))
    assert status in {200, 400, 404}


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/api/about", "/api/picture"])
def test_without_the_token_or_with_a_wrong_one_nothing_is_told(console: ServedConsole, path: str) -> None:
    for headers in (
        {"Authorization": ""},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "", "Cookie": "x=y"},
    ):
        status, body, _ = console.ask(path, **headers)
        assert status == 401
        assert b"demo" not in body
    name = console.access.cookie_name
    assert console.ask(path, Authorization="", Cookie=f"{name}={'0' * 64}")[0] == 401
    assert console.ask(path, Authorization="", Cookie=f"{name}={console.access.cookie}")[0] == 200


def test_the_token_of_the_address_becomes_a_cookie_that_no_script_reads(console: ServedConsole) -> None:
    status, _, headers = console.ask(f"/?token={console.token}", Authorization="")
    assert (status, headers["location"]) == (303, "./")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()
    assert console.token not in cookie
    assert console.ask("/?token=wrong", Authorization="")[0] == 401
    # Elsewhere it would stand in logs and in what is sent on as a referrer.
    assert console.ask(f"/api/about?token={console.token}", Authorization="")[0] == 401


def test_wrong_tokens_of_others_lock_the_owner_out_neither_with_the_token_nor_with_the_cookie() -> None:
    with served(watching(), at_once=5) as console:
        found = [console.ask("/api/about", Authorization="Bearer guess") for _ in range(20)]
        assert [status for status, _, _ in found] == [401] * 5 + [429] * 15
        assert {headers["connection"] for _, _, headers in found} == {"close"}
        cookie = f"{console.access.cookie_name}={console.access.cookie}"
        assert console.ask("/api/about")[0] == 200
        assert console.ask("/api/about", Authorization="", Cookie=cookie)[0] == 200
        assert console.ask(f"/?token={console.token}", Authorization="")[0] == 303
        assert console.ask("/health", Authorization="")[0] == 200


@pytest.mark.parametrize("encrypted", [False, True])
def test_hundreds_of_silent_connections_of_another_user_keep_nobody_out(
    tmp_path: Path, encrypted: bool
) -> None:
    choice, trusted = ListeningChoice(port=0), None
    if encrypted:
        certificate, key = make_certificate(tmp_path)
        choice = replace(choice, certificate=certificate, key=key)
        trusted = ssl.create_default_context(cafile=str(certificate))
    bounds = replace(BOUNDS, in_all=100)
    for limits in (BOUNDS, replace(bounds, of_one_peer=100)):
        with (
            served(watching(), listening=listening_of(choice), bounds=limits) as console,
            silent_connections(console.port, 520),
        ):
            console.trusted = trusted
            for _ in range(3):
                status, _, _ = console.ask("/api/about")
                assert status == 200
            mallorys = [each for each in console.listener._open.values() if each.peer == f"user {MALLORY}"]
            assert len(mallorys) <= limits.of_one_peer


def test_an_answer_that_is_not_read_ends_in_its_time() -> None:
    bounds = replace(BOUNDS, answer_s=0.5)
    with served(watching(), bounds=bounds) as console:
        request = f"GET /api/about HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {console.token}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", console.port), timeout=30) as greedy:
            greedy.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                while True:
                    greedy.sendall(request.encode())
            end = time.monotonic() + 20
            while console.listener._open and time.monotonic() < end:
                time.sleep(0.02)
            assert not console.listener._open


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_written(console: ServedConsole, method: str) -> None:
    for path in ("/", "/page/main.js", "/api/about", "/api/series"):
        assert console.ask(path, method)[0] == 405


def test_every_answer_has_the_headers_that_guard_the_page(console: ServedConsole) -> None:
    for path in ("/", "/page/main.js", "/api/about", "/api/series", "/nothing"):
        headers = console.ask(path)[2]
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
        assert "server" not in headers


def test_the_page_asks_for_nothing_from_elsewhere_and_has_nothing_inline() -> None:
    files = page_files()
    assert {"index.html", "main.js", "uplot/uPlot.esm.js", "console.css"} < set(files)
    own = {name: text.decode() for name, text in files.items() if not name.startswith("uplot/")}
    for name, text in own.items():
        elsewhere = text.replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in elsewhere and "https:" not in elsewhere, name
        for risky in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write", "style="):
            assert risky not in text, name
    assert "onclick" not in own["index.html"]


@pytest.mark.parametrize("said", [b"", b"GET /api/about HT", b"GET / HTTP/1.1\r\nHost: a\r\nX: "])
def test_who_never_finishes_a_question_is_not_waited_for(
    said: bytes,
) -> None:
    with served(watching(), bounds=replace(BOUNDS, request_s=0.5)) as console:
        with socket.create_connection(("127.0.0.1", console.port), timeout=30) as silent:
            silent.sendall(said)
            with contextlib.suppress(ConnectionResetError):
                assert silent.recv(100) == b""
        assert console.ask("/api/about")[0] == 200


def test_a_connection_serves_one_question_after_the_other(console: ServedConsole) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", console.port, timeout=30)
    for _ in range(3):
        connection.request("GET", "/api/about", headers={"Authorization": f"Bearer {console.token}"})
        assert json.loads(connection.getresponse().read())["name"] == "demo"
    connection.close()


def test_a_load_balancer_sees_that_it_serves_without_a_token_and_uses_up_nobody_s_guesses() -> None:
    choice = ListeningChoice(port=0, token=session_token(), proxies=["127.0.0.0/8"], has_sessions=True)
    with served(watching(), listening=listening_of(choice)) as console:
        for _ in range(30):
            status, body, _ = console.ask("/health", Authorization="")
            assert (status, body) == (200, b"serves\n")
        assert console.ask("/api/about", Authorization="")[0] == 401
        assert console.ask("/healthy", Authorization="")[0] == 401
        assert console.ask("/api/about")[0] == 200
    with served(watching(), listening=listening_of(replace(choice, proxies=["192.0.2.1"]))) as console:
        assert console.ask("/health", Authorization="")[0] == 403


def test_behind_a_proxy_its_header_says_who_asks_and_nobody_else_gets_in() -> None:
    choice = ListeningChoice(port=0, token=session_token(), proxies=["127.0.0.0/8"], proxy_header="X-Token")
    rule = ViewerRule("root", started_by_root=True, user_header="X-User")
    with served(watching(), rule, listening=listening_of(choice)) as console:
        token = {"Authorization": "", "X-Token": console.token}
        ann = console.json("/api/picture", **token, **{"X-User": "ann"})
        eve = console.json("/api/picture", **token, **{"X-User": "eve"})
        assert ann["jobs"]["4711"]["name"] == "secret of ann"
        assert (eve["jobs"]["4711"]["name"], eve["jobs"]["4711"]["user"]) == ("", None)
        assert console.ask("/api/about")[0] == 401
        cookie = f"{console.access.cookie_name}={console.access.cookie}"
        assert console.ask("/api/about", Authorization="", Cookie=cookie)[0] == 401
    # A load balancer that does TLS alone adds no header: browsers bring the token.
    balanced = replace(choice, proxy_header=None, has_sessions=True)
    with served(watching(), listening=listening_of(balanced)) as console:
        status, _, headers = console.ask(f"/?token={console.token}", Authorization="")
        assert (status, "Secure" in headers["set-cookie"]) == (303, True)
        cookie = headers["set-cookie"].partition(";")[0]
        assert console.ask("/api/about", Authorization="", Cookie=cookie)[0] == 200
    elsewhere = replace(choice, proxies=["192.0.2.1"])
    with served(watching(), rule, listening=listening_of(elsewhere)) as console:
        assert console.ask("/api/about", **{"X-Token": console.token})[0] == 403
