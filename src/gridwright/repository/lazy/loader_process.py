"""The process of the loader: the holder keeps all that waits, and starts another one when it is killed.

When the holder is killed, this process becomes the holder: it has the group of events open as well, so that
accesses wait meanwhile and nobody reads what is not here.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable

from gridwright.repository.lazy import fanotify, relay
from gridwright.repository.lazy.journal import log
from gridwright.repository.lazy.loading import Loader
from gridwright.repository.lazy.process import descriptor_of_orders_to_stop, have_descriptors
from gridwright.repository.lazy.relay import HEARTBEAT
from gridwright.repository.store import RangeSource

_BEAT_S = 1.0
MOST_DESCRIPTORS = 65_536
"""Of the loader: one for each request, and one for each file."""


def main() -> None:
    """Serve the holder at the other end of a socket until it ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--group", type=int, required=True)
    parser.add_argument("--patience", type=float, required=True)
    parser.add_argument("--nobody-wrote", action="store_true")
    parser.add_argument("--endpoint-url")
    parser.add_argument("--profile")
    parser.add_argument("holder", nargs=argparse.REMAINDER, help="the command that becomes the holder")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    have_descriptors(MOST_DESCRIPTORS)
    stop = descriptor_of_orders_to_stop(signal.SIGTERM)
    with socket.socket(fileno=options.socket) as end:
        sending = threading.Lock()

        def answer(given: relay.LoadAnswer) -> None:
            # A holder that ended is seen below.
            with sending, contextlib.suppress(OSError):
                relay.send_answer(end, given)

        loader = Loader(
            _Buckets(options.endpoint_url, options.profile),
            answer,
            functools.partial(fanotify.unmark, options.group),
            log,
            patience_s=options.patience,
            nobody_wrote=options.nobody_wrote,
        )
        was_stopped = _serve(end, stop, loader, functools.partial(answer, relay.LoadAnswer(HEARTBEAT, 0)))
    # The holder was killed, or else it had ended us: exec ends the threads, and the group stays open.
    command = options.holder[1:] if options.holder[:1] == ["--"] else options.holder
    if command and not was_stopped:
        os.set_inheritable(options.group, True)
        os.execv(command[0], command)  # noqa: S606 - its own program


def _serve(end: socket.socket, stop: int, loader: Loader, beat: Callable[[], None]) -> bool:
    """Serve until somebody stops it, or the holder ends; says whether somebody did."""
    poll = select.poll()
    poll.register(end, select.POLLIN)
    poll.register(stop, select.POLLIN)
    beats_at = 0.0
    while True:
        if time.monotonic() >= beats_at:
            beat()
            beats_at = time.monotonic() + _BEAT_S
        wait_s = loader.expire()
        found = dict(poll.poll(min(wait_s, 1.0) * 1000 + 1))
        if stop in found:
            loader.close()
            return True
        if not found:
            continue
        try:
            request = relay.receive_request(end)
        except ConnectionError:
            request = None
        if request is None:
            loader.close()
            return False
        loader.request(request)


class _Buckets:
    """Connections to buckets, made when the first file of one is read."""

    def __init__(self, endpoint_url: str | None, profile: str | None) -> None:
        self._endpoint_url = endpoint_url
        self._profile = profile
        self._lock = threading.Lock()
        self._stores: dict[str, RangeSource] = {}

    def __call__(self, bucket: str) -> RangeSource:
        from gridwright.repository.s3.connection import connect
        from gridwright.repository.s3.s3_store import S3Store

        with self._lock:
            if bucket not in self._stores:
                connection = connect(bucket, endpoint_url=self._endpoint_url, profile=self._profile)
                self._stores[bucket] = S3Store(connection)
            return self._stores[bucket]


if __name__ == "__main__":
    main()
