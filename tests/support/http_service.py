"""Servers of the tests' own: they run in a thread, on a free port of this machine, until a test is over."""

from __future__ import annotations

import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that writes nothing to stderr."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def running(server: socketserver.BaseServer) -> Iterator[None]:
    """Answer requests until the end of the block."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def http_server(
    handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None
) -> ThreadingHTTPServer:
    """A server that is not running yet; over TLS where there is a context."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    return server


def url_of(server: ThreadingHTTPServer, scheme: str = "http") -> str:
    """Where a server is asked, without a slash at the end."""
    return f"{scheme}://127.0.0.1:{server.server_port}"
