"""Answers scrapes over HTTP: one page, read only, however slow or many those are who ask.

The standard library's server, and no web framework, which would be half of the memory that a node gives for
this. A connection has one request, a thread, and a limit of time for all of it. Which text, and how it is
packed, a request asks for (RFC 9110, 12.5; pure). A process of its own writes the pages, and all who ask
within an interval get the same one.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Self

from gridwright.errors import GridwrightError
from gridwright.messages import encode
from gridwright.monitor.exporter.metric_families import TextFormat
from gridwright.monitor.exporter.page_program import HEAD, LETTERS, PageOrder
from gridwright.services.connections import AcceptedConnection, Bounds
from gridwright.services.listening import Gate, Listening, PeerRate

PROGRAM = (sys.executable, "-P", "-m", "gridwright.monitor.exporter.page_program")
ANSWER_S = 8.0
"""How long a page may take: scrapers wait ten seconds by default."""
AGAIN_S = 10.0
"""A process that ended or hung is started again at most this often."""
MOST_BYTES = 1 << 26
"""Of one page: of all series that there can be it has some tens of MB."""
_FASTEST = 1
"""Level of gzip: text of this kind shrinks to a tenth by it, and a node has better to do."""
_DEATH_S = 0.3
_LETTER_OF = {format_: letter for letter, format_ in LETTERS.items()}


class NoPage(Exception):
    """There is no page now, and why."""


@dataclass(slots=True)
class _Made:
    """A page, with its packed form where somebody asked for it."""

    body: bytes
    packed: bytes | None = None


@dataclass(slots=True)
class Pages:
    """Pages of this node. Of threads that ask at one time, one has it made, and the others get the same."""

    order: PageOrder
    interval_s: float = 1.0
    """Pages within this time after a sample have the same one."""
    program: tuple[str, ...] = PROGRAM
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _made: dict[TextFormat, _Made] = field(default_factory=dict)
    """Of one sample."""
    _sampled: float | None = None
    """When that was asked for."""
    _process: subprocess.Popen[bytes] | None = None
    _began: float | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def get(self, format_: TextFormat, *, packed: bool = False) -> bytes:
        """The page of now, by gzip if `packed`. Raises NoPage."""
        if not self._lock.acquire(timeout=ANSWER_S):
            raise NoPage("the sample before is not finished")
        try:
            now = time.monotonic()
            if self._sampled is None or now - self._sampled >= self.interval_s:
                self._made.clear()
                # What fails is as if there was no sample.
                self._sampled = None
                self._made[format_] = _Made(self._ask(format_, new=True))
                self._sampled = now
            elif format_ not in self._made:
                self._made[format_] = _Made(self._ask(format_, new=False))
            made = self._made[format_]
            if not packed:
                return made.body
            if made.packed is None:
                made.packed = gzip.compress(made.body, _FASTEST)
            return made.packed
        finally:
            self._lock.release()

    def _ask(self, format_: TextFormat, *, new: bool) -> bytes:
        letter = _LETTER_OF[format_].upper() if new else _LETTER_OF[format_]
        process = self._running()
        deadline = time.monotonic() + ANSWER_S
        try:
            os.write(process.stdin.fileno(), letter)  # type: ignore[union-attr]
            return _read_page(process.stdout.fileno(), deadline)  # type: ignore[union-attr]
        except (OSError, NoPage) as error:
            self._end()
            raise NoPage(str(error) if isinstance(error, NoPage) else "the sampler has ended") from None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            now = time.monotonic()
            if self._began is not None and now - self._began < AGAIN_S:
                raise NoPage("the sampler has ended, and is started again in some seconds")
            self._start()
        if self._process is None:
            raise NoPage("the sampler cannot be started")
        return self._process

    def _start(self) -> None:
        self._began = time.monotonic()
        try:
            process = subprocess.Popen(
                self.program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        except OSError:
            return
        self._process = process
        with contextlib.suppress(OSError):
            # A pipe takes it whole, whether or not anybody reads it yet.
            os.write(process.stdin.fileno(), encode(self.order) + b"\n")  # type: ignore[union-attr]

    def _end(self) -> None:
        """End the process; one that hangs is left behind."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_DEATH_S)
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


def _read_page(pipe: int, deadline: float) -> bytes:
    """All pieces of a page. Raises NoPage, and OSError."""
    pieces, size = [], 0
    while length := HEAD.unpack(_read(pipe, HEAD.size, deadline))[0]:
        size += length
        if size > MOST_BYTES:
            raise NoPage(f"the page has more than {MOST_BYTES} bytes")
        pieces.append(_read(pipe, length, deadline))
    return b"".join(pieces)


def _read(pipe: int, length: int, deadline: float) -> bytes:
    found = bytearray()
    while len(found) < length:
        if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise NoPage(f"the sampler has not answered for {ANSWER_S:.0f} s")
        chunk = os.read(pipe, length - len(found))
        if not chunk:
            raise NoPage("the sampler has ended")
        found += chunk
    return bytes(found)


_MOST_PARTS = 64
"""Of one header that are looked at."""


def text_format(accept: str) -> TextFormat:
    """OpenMetrics where it is named and nothing else is liked better; else the plain text, which all read."""
    found = dict(_preferences(accept))
    named = found.get(TextFormat.OPENMETRICS.value, 0.0)
    plain = max(found.get(each, 0.0) for each in (TextFormat.PLAIN.value, "text/*", "*/*"))
    return TextFormat.OPENMETRICS if named > 0 and named >= plain else TextFormat.PLAIN


def wants_gzip(accept_encoding: str) -> bool:
    """Whether the answer may be packed by gzip."""
    found = dict(_preferences(accept_encoding))
    return found.get("gzip", found.get("*", 0.0)) > 0


def _preferences(header: str) -> Iterator[tuple[str, float]]:
    """Each that is named with its weight; of those named twice the largest one, as versions are."""
    weights: dict[str, float] = {}
    for part in header.split(",")[:_MOST_PARTS]:
        name, *parameters = (word.strip().lower() for word in part.split(";"))
        if name:
            weights[name] = max(weights.get(name, 0.0), _weight(parameters))
    yield from weights.items()


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                weight = float(value)
            except ValueError:
                return 0.0
            return weight if 0 <= weight <= 1 else 0.0
    return 1.0


AT_ONCE = 16
"""Connections at the same time; see `services.connections` for what becomes of more."""
OF_ONE_PEER = 4
"""Of these, of one user of this machine or one address, where it is no proxy's."""
CONNECTION_S = 10.0
"""From its beginning to its end."""
_CERTIFICATE_S = 60.0
"""How often certificates are read again."""
_LOOK_S = 0.2
"""How often it is looked whether to stop."""
_INDEX = b"The metrics of this node are at /metrics. Nothing can be written here.\n"


class MetricsServer:
    """Listens from its making on. `serve` answers until it is told to stop."""

    def __init__(self, listening: Listening, pages: Pages, *, connection_s: float = CONNECTION_S) -> None:
        """Raises GridwrightError (status ENVIRONMENT) where it cannot listen there."""
        self._listening = listening
        self._pages = pages
        self._gate = Gate(listening)
        self._handshakes = PeerRate(at_once=100, per_s=30)
        """TLS for strangers costs something; where a proxy does that, there is none here."""
        self._connection_s = connection_s
        self._tls, self._tls_at = listening.tls(), time.monotonic()
        self._socket = listening.bind(Bounds(AT_ONCE, OF_ONE_PEER, connection_s, connection_s))
        self._socket.settimeout(_LOOK_S)

    @property
    def url(self) -> str:
        """Where it answers."""
        return self._listening.url(self._socket.getsockname()[1])

    def serve(self, stopped: Callable[[], bool]) -> None:
        """Answer, and look some times a second whether to stop; what is open then ends with the process."""
        with self._socket:
            while not stopped():
                try:
                    connection, address = self._socket.accept()
                except (TimeoutError, ConnectionAbortedError):
                    continue
                self._begin(connection, str(address[0]))

    def _begin(self, connection: AcceptedConnection, address: str) -> None:
        encrypts = self._tls is not None and not self._listening.proxies
        if not self._gate.connects(address) or (encrypts and not self._handshakes.take(connection.peer)):
            connection.close()
            return
        try:
            threading.Thread(target=self._answer, args=(connection, address), daemon=True).start()
        except RuntimeError:
            connection.close()

    def _answer(self, connection: AcceptedConnection, address: str) -> None:
        """In a thread: one request, whatever comes of it."""
        # Of what goes wrong with a peer nobody is to be told: it is the peer's own affair.
        # TLS takes its descriptor, and leaving `with connection` would close nothing then.
        with contextlib.suppress(OSError, ValueError), contextlib.closing(connection):
            connection.settimeout(self._connection_s)
            context = self._context()
            if context is None:
                _Request(connection, address, connection.peer, self)
                return
            connection.keep_other()
            with context.wrap_socket(connection, server_side=True) as secure:
                _Request(secure, address, connection.peer, self)

    def _context(self) -> ssl.SSLContext | None:
        """What TLS needs, with a renewed certificate; with the last good one where the new one is not."""
        if self._tls is not None and time.monotonic() - self._tls_at >= _CERTIFICATE_S:
            self._tls_at = time.monotonic()
            with contextlib.suppress(GridwrightError):
                self._tls = self._listening.tls()
        return self._tls

    def refusal(self, address: str, peer: str, headers: dict[str, str]) -> tuple[int, str] | None:
        """Why a request is refused, or None."""
        found = self._gate.refusal(address, headers, peer=peer)
        return None if found is None else (found.status, found.words)

    def answers(self, descriptor: int) -> None:
        """A connection is answered: it makes room for nobody."""
        self._socket.answers(descriptor)

    def page(self, format_: TextFormat, *, packed: bool) -> bytes:
        """The page. Raises NoPage."""
        return self._pages.get(format_, packed=packed)


class _Request(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server_version = "gridwright"
    sys_version = ""
    error_message_format = "%(code)d %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def __init__(self, connection: socket.socket, address: str, peer: str, server: MetricsServer) -> None:
        self._server, self._peer = server, peer
        super().__init__(connection, (address, 0), server)  # type: ignore[arg-type]

    def handle(self) -> None:
        """One request for each connection: no idle one holds a thread."""
        self.close_connection = True
        self.handle_one_request()

    def do_GET(self) -> None:
        """Answer, after who asks was looked at."""
        # What came several times is one list (RFC 9110, 5.3): of a Host that is nobody's name.
        headers = {name.lower(): ", ".join(self.headers.get_all(name, [])) for name in self.headers}
        refusal = self._server.refusal(str(self.client_address[0]), self._peer, headers)
        path = self.path.partition("?")[0]
        if refusal is None:
            self._server.answers(self.connection.fileno())
        if refusal is not None:
            self._refuse(*refusal)
        elif path == "/metrics":
            self._metrics(headers)
        elif path == "/":
            self._send(_INDEX, {"Content-Type": "text/plain; charset=utf-8"})
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is /metrics alone")

    do_HEAD = do_GET

    def _metrics(self, headers: dict[str, str]) -> None:
        format_ = text_format(headers.get("accept", ""))
        packed = wants_gzip(headers.get("accept-encoding", ""))
        try:
            body = self._server.page(format_, packed=packed)
        except NoPage as error:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
            return
        encoding = {"Content-Encoding": "gzip"} if packed else {}
        varies = {"Vary": "Accept, Accept-Encoding"}
        self._send(body, {"Content-Type": format_.content_type, **encoding, **varies})

    def _send(self, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(HTTPStatus.OK)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def end_headers(self) -> None:
        """With what keeps browsers from doing anything with it but showing it."""
        for name, value in (
            ("Connection", "close"),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
        ):
            self.send_header(name, value)
        super().end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Say why there is no answer, for the base; what a peer has written is not repeated to it."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            # A method that there is none of is one that is not allowed.
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "nothing can be written here: GET and HEAD alone")
        else:
            self._refuse(code, None)

    def _refuse(self, code: int, words: str | None) -> None:
        super().send_error(code, words)

    def send_response(self, code: int, message: str | None = None) -> None:
        """The status by its own name; words go into the body."""
        super().send_response(code, HTTPStatus(code).phrase)
        if code == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        if code == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Bearer realm="gridwright"')

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 - as the base has them
        """Say nothing: scrapes are no news, and strangers would fill a log."""
