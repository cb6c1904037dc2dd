"""A store that lies or fails: stands before a real one, and changes what it says."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from tests.support.http_service import QuietHandler, http_server, running, url_of

SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your rate.</Message></Error>"
)
_KEPT = {"transfer-encoding", "connection", "content-length"}


class Answer:
    """A response of the real store, which a lie may change."""

    def __init__(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        headers: dict[str, str],
        body: bytes,
        given: bytes = b"",
    ) -> None:
        self.method, self.path = request.command, request.path
        self.wanted = {name.lower(): value for name, value in request.headers.items()}
        """Headers of the request."""
        self.given = given
        """Body of the request."""
        self.status, self.headers, self.body = status, headers, body
        self.sent: int | None = None
        """Bytes of the body to send before the connection breaks; None sends all."""
        self.hangs_up = False
        """Whether the connection ends after the answer, which says nothing of it."""


class LyingStore:
    """Passes requests on to a store, and what it answers back, through `lie`; as a context."""

    def __init__(self, endpoint_url: str, tls: ssl.SSLContext | None = None) -> None:
        self.lie: Callable[[Answer], None] = lambda _answer: None
        self.instead: Callable[[Answer], None] = lambda _answer: None
        """Called before the real store is asked: an answer that gets a status here is given in its place."""
        self.ignored: frozenset[str] = frozenset()
        """Headers of requests that are not passed on."""
        self.asked: list[tuple[str, str]] = []
        target = urlsplit(endpoint_url).netloc
        outer = self

        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length) if length else b""
                answer = Answer(self, 0, {}, b"", body)
                outer.asked.append((self.command, self.path))
                outer.instead(answer)
                if not answer.status:
                    answer = self._answer_of_store(body)
                outer.lie(answer)
                self._reply(answer)

            def _answer_of_store(self, body: bytes) -> Answer:
                connection = HTTPConnection(target, timeout=30)
                connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in outer.ignored:
                        connection.putheader(name, value)
                connection.endheaders(body or None)
                response = connection.getresponse()
                content = response.read()
                connection.close()
                return Answer(self, response.status, dict(response.getheaders()), content, body)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

            def _reply(self, answer: Answer) -> None:
                given = {name.lower(): value for name, value in answer.headers.items()}
                # Not `send_response`, which gives a Date of its own.
                self.send_response_only(answer.status)
                for name, value in answer.headers.items():
                    if name.lower() not in _KEPT:
                        self.send_header(name, value)
                is_head = answer.method == "HEAD"
                self.send_header(
                    "content-length", given.get("content-length", "0") if is_head else str(len(answer.body))
                )
                with suppress(BrokenPipeError, ConnectionResetError):
                    # Who asked may have gone, as clients do that were killed or have heard enough.
                    self._send(answer, is_head=is_head)

            def _send(self, answer: Answer, *, is_head: bool) -> None:
                self.end_headers()
                if is_head:
                    return
                if answer.sent is None:
                    self.wfile.write(answer.body)
                    self.close_connection = self.close_connection or answer.hangs_up
                    return
                self.wfile.write(answer.body[: answer.sent])
                self.wfile.flush()
                self.close_connection = True
                self.connection.close()

        self._server = http_server(Handler, tls)
        self._running = ExitStack()
        self.endpoint_url = url_of(self._server, "http" if tls is None else "https")

    def __enter__(self) -> LyingStore:
        self._running.enter_context(running(self._server))
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
