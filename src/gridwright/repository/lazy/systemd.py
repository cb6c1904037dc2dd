"""systemd keeps the group of events while this process is away, and hands it to the next one.

Sources: sd_notify(3) (FDSTORE=1, FDNAME=), sd_listen_fds(3), and FileDescriptorStoreMax= in
systemd.service(5).
"""

from __future__ import annotations

import array
import contextlib
import os
import socket

NAME = "gridwright-events"
_FIRST = 3


def keeps_descriptors() -> bool:
    """Whether systemd started this process, with room for descriptors."""
    return bool(os.environ.get("NOTIFY_SOCKET") and os.environ.get("FDSTORE", "0") != "0")


def kept_descriptor() -> int | None:
    """The descriptor that systemd kept; None where it kept none."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    names = os.environ.get("LISTEN_FDNAMES", "").split(":")
    if NAME not in names[: int(os.environ.get("LISTEN_FDS", "0"))]:
        return None
    descriptor = _FIRST + names.index(NAME)
    os.set_inheritable(descriptor, False)
    os.set_blocking(descriptor, False)
    return descriptor


def keep(descriptor: int) -> None:
    """Have systemd keep a descriptor; nothing where it does not listen."""
    tell(f"FDSTOREREMOVE=1\nFDNAME={NAME}")
    tell(f"FDSTORE=1\nFDNAME={NAME}\nFDPOLL=0", descriptor)


def tell(text: str, *descriptors: int) -> None:
    """Tell systemd; nothing where it does not listen."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        to.sendmsg([text.encode()], rights)
