"""Starts the command: an order to stop ends it without a word at every moment, with exit status 130.

Nothing is imported here that takes time: until the handlers of signals stand, Ctrl-C prints a traceback.
What is left is the start of the interpreter itself, before it reads the first line of ours.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False  # the module typing takes milliseconds
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from types import FrameType
else:
    # Compiled into the interpreter: the module signal reads four others from disk, enum among them.
    import _signal as signal

ORDERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
YOUNG = 50_000
"""So many new objects before the collector looks for cycles, not 700: what is imported has none to free."""
INTERRUPTED = 130
"""As ExitStatus has it, which is imported later."""


def run() -> None:
    """Run the command line; what it starts with, and what it ends with, is left without a trace."""
    _on_orders(_leave)
    gc.set_threshold(YOUNG)
    # Where a caller has it ignored, nobody would learn how a child of ours ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        from gridwright.cli import main

        _on_orders(_interrupt)
        main.run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        _on_orders(_leave)


def _on_orders(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in ORDERS:
        # What the caller ignores, as nohup does with SIGHUP, is no order.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _leave(_number: int, _frame: FrameType | None) -> None:
    """Before anything was done, or after all of it: there is nothing to tidy up."""
    os._exit(INTERRUPTED)
