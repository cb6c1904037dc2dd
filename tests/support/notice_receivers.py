"""Real receivers of notices: a web server that verifies signatures and fails at will, and a mail server."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import ipaddress
import json
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.http_service import QuietHandler, http_server, running, url_of

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
def hook(*answers: int, held: bool = False, tls: Path | None = None) -> Iterator[Hook]:
    """A receiver on this machine, until the end of the block; `tls` has its certificate and its key."""
    taken = Hook(list(answers))
    if not held:
        taken.hold.set()

    class Handler(QuietHandler):
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

    server = http_server(Handler, _context(tls) if tls is not None else None)
    taken.url = f"{url_of(server, 'https' if tls else 'http')}/notices"
    with running(server):
        try:
            yield taken
        finally:
            taken.hold.set()


@dataclass
class MailBox:
    """A mail server: messages with their envelope, and addresses that it refuses."""

    messages: list[tuple[str, list[str], bytes]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    logins: list[str] = field(default_factory=list)
    """What was said to log in, over TLS."""
    port: int = 0


@contextmanager
def mail_server(*, refused: tuple[str, ...] = (), tls: Path | None = None) -> Iterator[MailBox]:
    """A server that speaks SMTP (RFC 5321), and TLS where it is asked to and has a certificate (RFC 3207)."""
    box = MailBox(refused=set(refused))

    class Handler(socketserver.StreamRequestHandler):
        is_secure = False
        sender = ""
        to: tuple[str, ...] = ()

        def say(self, *lines: str) -> None:
            for number, line in enumerate(lines, 1):
                text = f"250{' ' if number == len(lines) else '-'}{line}" if len(lines) > 1 else line
                self.wfile.write(f"{text}\r\n".encode())
            self.wfile.flush()

        def handle(self) -> None:
            self.say("220 mail.test ESMTP")
            while line := self.rfile.readline():
                word = line.decode().strip()
                verb = word.upper()
                if verb.startswith("EHLO"):
                    can = "AUTH PLAIN" if self.is_secure else "STARTTLS" if tls is not None else "8BITMIME"
                    self.say("mail.test", can)
                elif verb == "STARTTLS" and tls is not None:
                    self.say("220 go on")
                    if not self.secured(tls):
                        return
                elif verb.startswith("AUTH PLAIN "):
                    box.logins.append(base64.b64decode(word.split()[2]).decode())
                    self.say("235 welcome")
                elif verb == "QUIT":
                    self.say("221 bye")
                    return
                else:
                    self.say(self.taken(word))

        def secured(self, certificate: Path) -> bool:
            """Whether the client took the certificate."""
            try:
                secure = _context(certificate).wrap_socket(self.connection, server_side=True)
            except OSError:
                return False
            self.rfile, self.wfile, self.is_secure = secure.makefile("rb"), secure.makefile("wb"), True
            return True

        def taken(self, word: str) -> str:
            """The answer to a line of an envelope, or of a message."""
            if word.upper().startswith("MAIL FROM:"):
                self.sender, self.to = _address(word), ()
            elif word.upper().startswith("RCPT TO:"):
                if _address(word) in box.refused:
                    return "550 no such user"
                self.to = (*self.to, _address(word))
            elif word.upper() == "DATA":
                self.say("354 go on")
                content = bytearray()
                while (text := self.rfile.readline()) != b".\r\n":
                    content += text.removeprefix(b".")
                box.messages.append((self.sender, list(self.to), bytes(content)))
            return "250 ok"

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    box.port = server.server_address[1]
    with running(server):
        yield box


def certificate(place: Path) -> Path:
    """A file with a certificate of 127.0.0.1, which is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = place / "certificate.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(*form))
    return path


def _context(tls: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls)
    return context


def _address(word: str) -> str:
    return word.partition("<")[2].partition(">")[0]
