"""Orders to stop, as a descriptor that a process waits for together with all else."""

from __future__ import annotations

import contextlib
import os
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
