"""Real receivers of notices: a web server that verifies signatures and fails at will, and a mail server."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "a secret of more than sixteen bytes"  # noqa: S105 - of tests


@dataclass
class Hook:
    """A URL that takes notices: what it got, and what it answers; 204 once `answers` are used up."""

    answers: list[int] = field(default_factory=list)
    requests: list[tuple[dict[str, str], Any]] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)
    """Unless it is set, requests wait before they are answered."""
    came: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.requests]


def is_signed(headers: dict[str, str], body: bytes, secret: bytes = SECRET.encode()) -> bool:
    """As standardwebhooks.com has it, written apart from what signs."""
    signed = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    wanted = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    return f"v1,{wanted}" in headers["webhook-signature"].split()


@contextmanager
def hook(*answers: int, held: bool = False) -> Iterator[Hook]:
    """A receiver on this machine, until the end of the block."""
    taken = Hook(list(answers))
    if not held:
        taken.hold.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status = 401 if not is_signed(headers, body) else taken.answers.pop(0) if taken.answers else 204
            taken.requests.append((headers, json.loads(body)))
            taken.came.release()
            taken.hold.wait(60)
            self.send_response(status)
            for name, value in taken.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    taken.url = f"http://127.0.0.1:{server.server_address[1]}/notices"
    with _running(server):
        try:
            yield taken
        finally:
            taken.hold.set()


@dataclass
class MailBox:
    """A mail server: messages with their envelope, and addresses that it refuses."""

    messages: list[tuple[str, list[str], bytes]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    offers_tls: bool = False
    port: int = 0


@contextmanager
def mail_server(*, refused: tuple[str, ...] = ()) -> Iterator[MailBox]:
    """A server that speaks SMTP (RFC 5321) without TLS."""
    box = MailBox(refused=set(refused))

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def handle(self) -> None:
            self.say("220 mail.test ESMTP")
            sender, to = "", list[str]()
            while line := self.rfile.readline():
                word = line.decode().strip()
                verb = word.upper()
                if verb.startswith(("EHLO", "HELO")):
                    self.say("250 mail.test")
                elif verb.startswith("MAIL FROM:"):
                    sender, to = _address(word), []
                    self.say("250 ok")
                elif verb.startswith("RCPT TO:"):
                    address = _address(word)
                    if address in box.refused:
                        self.say("550 no such user")
                        continue
                    to.append(address)
                    self.say("250 ok")
                elif verb == "DATA":
                    self.say("354 go on")
                    content = bytearray()
                    while (text := self.rfile.readline()) != b".\r\n":
                        content += text.removeprefix(b".")
                    box.messages.append((sender, to, bytes(content)))
                    self.say("250 taken")
                elif verb == "QUIT":
                    self.say("221 bye")
                    return
                else:
                    self.say("250 ok")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    box.port = server.server_address[1]
    with _running(server):
        yield box


def _address(word: str) -> str:
    return word.partition("<")[2].partition(">")[0]


@contextmanager
def _running(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
