"""A console in this process, on a free port of loopback, for tests that ask it as a browser does."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from gridwright.monitor.console.answers import Answers
from gridwright.monitor.console.server import (
    BOUNDS,
    ConsoleAccess,
    ConsoleServer,
    console_application,
    session_token,
)
from gridwright.monitor.console.watching import ViewerRule, Watching
from gridwright.services.connections import Bounds, Listener
from gridwright.services.listening import Gate, Listening, ListeningChoice, PeerRate, listening_of

ROOT_LOOKS = ViewerRule("root", started_by_root=True)


@dataclass
class ServedConsole:
    """A console that runs."""

    port: int
    token: str
    access: ConsoleAccess
    listener: Listener
    trusted: ssl.SSLContext | None = None
    """Whose certificate it shows, where it does TLS."""

    @property
    def url(self) -> str:
        """Its address with the token, as it prints it."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers of an answer; with the token, unless `headers` say otherwise."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        if self.trusted is not None:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=self.trusted)
        try:
            sent = {"Authorization": f"Bearer {self.token}", **headers}
            connection.request(method, path, headers={name: value for name, value in sent.items() if value})
            answer = connection.getresponse()
            return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()

    def json(self, path: str, **headers: str) -> Any:
        """The document of an answer that is well."""
        status, body, _ = self.ask(path, **headers)
        assert status == 200, body
        return json.loads(body)


@contextmanager
def served(
    watching: Watching,
    viewers: ViewerRule = ROOT_LOOKS,
    *,
    listening: Listening | None = None,
    at_once: int = 100_000,
    bounds: Bounds = BOUNDS,
) -> Iterator[ServedConsole]:
    """Serve it for a while."""
    token = session_token()
    checked = listening or listening_of(ListeningChoice(port=0))
    checked = checked if checked.token else replace(checked, token=token)
    listener = checked.bind(bounds)
    gate = Gate(
        checked,
        # No more of them in the time of a test, however slow the machine is.
        wrong_tokens=PeerRate(at_once=at_once, per_s=1 / 3600),
    )
    access = ConsoleAccess(gate, listener.getsockname()[1])
    server = ConsoleServer(console_application(Answers(watching), viewers, access), access, listener)
    server.start()
    try:
        yield ServedConsole(access.port, checked.token or "", access, listener)
    finally:
        server.close()
        listener.close()
