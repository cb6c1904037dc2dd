"""The process that tests libraries on one of several nodes, on the orders of the coordinator.

    python -m gridwright.iotest.node.worker --connect HOST:PORT --credentials FILE --node NAME

Started by the scheduler or through ssh. Its key and certificate are in a file that only its owner can read,
or on stdin, where FILE is `-`. The process ends when the coordinator is done or gone; it leaves no files.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import socket
import sys
import threading
from pathlib import Path

import psutil
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from gridwright import __version__
from gridwright.errors import ExitStatus
from gridwright.iotest.messages import Hello, WorkerFacts
from gridwright.iotest.node.connection import Connection, CoordinatorGone, connect
from gridwright.iotest.node.link import NodeLink
from gridwright.iotest.node.orders import NodeTest
from gridwright.iotest.wire import WireError
from gridwright.kernel_files import boot_id
from gridwright.machine import physical_cores
from gridwright.messages import plain

CONNECT_FOR_S = 30.0
"""The coordinator listens before it has nodes started; a network may take a moment."""


def main() -> None:
    """Serve one coordinator; exit status 3 if it could not be reached or did not let this node in."""
    arguments = _arguments()
    stop = threading.Event()
    try:
        hello = Hello(__version__, plain(facts(arguments.node)))
        connection = _connect(arguments.connect, _in_memory(arguments.credentials), hello)
    except (OSError, ValueError, WireError, CoordinatorGone) as error:
        reason = "it ended the connection" if isinstance(error, CoordinatorGone) else error
        print(f"the coordinator at {arguments.connect} is out of reach: {reason}", file=sys.stderr)  # noqa: T201
        sys.exit(ExitStatus.ENVIRONMENT)
    link = NodeLink(connection, stop)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: _leave(link, stop))
    link.start()
    NodeTest(arguments.node, link, stop, arguments.connect).serve()
    link.close()
    # Threads that hang in the kernel would hold up an orderly end.
    os._exit(ExitStatus.DONE)


def facts(node: str) -> WorkerFacts:
    """What the coordinator records of this node."""
    return WorkerFacts(
        node=node,
        host=socket.gethostname(),
        cores=physical_cores(),
        memory_bytes=psutil.virtual_memory().total,
        kernel=f"{platform.system()} {platform.release()}",
        boot_id=boot_id(),
        version=__version__,
    )


def _leave(link: NodeLink, stop: threading.Event) -> None:
    stop.set()
    link.orders.put(None)


def _in_memory(credentials: Path) -> Path:
    """The file of the credentials; what is on stdin becomes one that nobody else can read."""
    if str(credentials) != "-":
        return credentials
    file = os.memfd_create("credentials", os.MFD_CLOEXEC)
    os.write(file, sys.stdin.buffer.read())
    return Path(f"/proc/self/fd/{file}")


def _connect(address: str, credentials: Path, hello: Hello) -> Connection:
    host, _, port = address.rpartition(":")
    retrying = Retrying(
        retry=retry_if_exception_type(OSError),
        stop=stop_after_delay(CONNECT_FOR_S),
        wait=wait_random_exponential(multiplier=0.2, max=5.0),
        reraise=True,
    )
    # A thousand nodes come at once: each tries again at a moment of its own.
    return retrying(connect, (host.strip("[]"), int(port)), credentials, hello)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gridwright.iotest.node.worker")
    parser.add_argument("--connect", required=True, metavar="HOST:PORT")
    parser.add_argument("--credentials", required=True, type=Path)
    parser.add_argument("--node", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
