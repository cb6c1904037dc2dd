"""What a process is given: orders to stop, and how many descriptors it may have."""

from __future__ import annotations

import contextlib
import os
import resource
import signal


def descriptor_of_orders_to_stop(*signals: signal.Signals) -> int:
    """A descriptor that can be read once one of these signals has come. For the main thread."""
    mine, its = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def stop(*_: object) -> None:
        with contextlib.suppress(OSError):
            os.write(its, b".")

    for each in signals:
        signal.signal(each, stop)
    return mine


def have_descriptors(most: int) -> None:
    """Have no more than so many descriptors, and as many where the system allows it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
