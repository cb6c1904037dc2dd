"""What an agent has as a process: orders to stop, its journal, and who started it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys


def descriptor_of_orders_to_stop(*signals: signal.Signals) -> int:
    """A descriptor that can be read once one of these signals has come. For the main thread."""
    mine, its = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def stop(*_: object) -> None:
        with contextlib.suppress(OSError):
            os.write(its, b".")

    for each in signals:
        signal.signal(each, stop)
    return mine


def log(text: str) -> None:
    """One line of the journal."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def tell_systemd(text: str) -> None:
    """Tell systemd how this process is (sd_notify(3)); nothing where it does not listen."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        to.send(text.encode())
