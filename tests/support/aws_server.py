"""moto's server in a thread, which is left alone only when it has ended all that it was asked for."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from moto import backends
from moto.server import ThreadedMotoServer

_LONGEST_S = 60.0
"""How long a call may take that nobody waits for any more."""


@dataclass
class _Counted:
    """The application, with how many calls it works on."""

    application: Callable[[Any, Any], Any]
    idle: threading.Condition = field(default_factory=threading.Condition)
    calls: int = 0

    def __call__(self, environment: Any, start: Any) -> Any:
        with self.idle:
            self.calls += 1
        try:
            return self.application(environment, start)
        finally:
            with self.idle:
                self.calls -= 1
                self.idle.notify_all()

    def wait(self) -> None:
        with self.idle:
            self.idle.wait_for(lambda: not self.calls, _LONGEST_S)


@cache
def _started() -> tuple[str, _Counted]:
    """One for all tests of this process: it makes its applications when they are first asked for."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    modules = tuple(backends.list_of_moto_modules())
    # It looks at its own directories for each call.
    backends.list_of_moto_modules = lambda: modules
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    made: Any = server._server
    made.app = counted = _Counted(made.app)
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}", counted


@contextlib.contextmanager
def moto_server() -> Iterator[tuple[str, Callable[[], None]]]:
    """Its address, and what waits until it is idle.

    A command that a test interrupts leaves its call behind. One that goes on while moto is emptied for the
    next test makes things there that nobody has asked for.
    """
    url, counted = _started()
    yield url, counted.wait
