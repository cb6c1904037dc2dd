"""Connections that say nothing, or never finish a question, end: uvicorn itself waits for them for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

QUESTION_S = 10.0
"""How long a question may take from its first byte, or the start of its connection, to its last."""


class PatientProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn, with an end to waiting."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        """Wait for a first question."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait on while a question is not whole."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._go_on()
        elif self._waiting is None:
            self._wait()

    def on_response_complete(self) -> None:
        """An idle connection is ended by uvicorn; what had come of a next question waits anew."""
        self._go_on()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._go_on()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(QUESTION_S, self._end)

    def _go_on(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _end(self) -> None:
        self._waiting = None
        if not self.transport.is_closing():
            self.transport.abort()
