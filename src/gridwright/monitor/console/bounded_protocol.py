"""Says of each connection whether it waits for a request or is answered: uvicorn itself bounds neither."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from gridwright.services.connections import Bounds, Listener

BOUNDS = Bounds(in_all=512, of_one_peer=64, request_s=20.0, answer_s=60.0)
"""A browser keeps six connections and asks again within seconds; 8 MiB go within a minute."""


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn, whose connections are those of a listener with bounds."""

    def __init__(self, *arguments: Any, listener: Listener, **named: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        super().__init__(*arguments, **named)
        self._listener = listener
        self._descriptor = -1

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        """Wait for a first request, also while TLS begins: the listener does so from its start on."""
        super().connection_made(transport)
        self._descriptor = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        """Wait on while a request is not whole."""
        super().data_received(data)
        self._mark()

    def on_response_complete(self) -> None:
        """What had come of a next request waits anew."""
        self._listener.waits(self._descriptor)
        super().on_response_complete()
        self._mark()

    def connection_lost(self, exc: Exception | None) -> None:
        """Its descriptor may soon be another connection's."""
        self._descriptor = -1
        super().connection_lost(exc)

    def _mark(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._listener.answers(self._descriptor)
