"""A file system in user space that never answers; needs root and /dev/fuse."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.disks import unmount
from tests.support.skips import no_such_kernel

_IN_HEADER = struct.Struct("<IIQQIIII")
_OUT_HEADER = struct.Struct("<IiQ")
_INIT = 26
"""FUSE_INIT, include/uapi/linux/fuse.h."""
_INIT_REPLY = struct.Struct("<IIIIHHIIHHII24x")
"""struct fuse_init_out."""


def serve(mount_point: str) -> None:
    """Mount, greet the kernel, then take every request and answer none."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"never-answers", mount_point.encode(), b"fuse.never", 0, options):
        raise OSError(ctypes.get_errno(), "mount")
    while True:
        request = os.read(device, 1 << 20)
        _, opcode, unique, *_ = _IN_HEADER.unpack(request[: _IN_HEADER.size])
        if opcode == _INIT:
            reply = _INIT_REPLY.pack(7, 31, 65536, 0, 16, 12, 65536, 1, 32, 0, 0, 0)
            os.write(device, _OUT_HEADER.pack(_OUT_HEADER.size + len(reply), 0, unique) + reply)
            os.write(1, b"mounted\n")


@contextmanager
def hanging_mount(mount_point: Path) -> Iterator[Path]:
    """A mount that hangs whoever touches it, past every signal; all of them are let go at the end."""
    if not Path("/dev/fuse").exists():
        no_such_kernel("there is no /dev/fuse")
    mount_point.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.hanging_mount", str(mount_point)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"mounted\n"
            yield mount_point
        finally:
            # Its end closes the device: all that wait for an answer get an error (fuse(4)).
            server.kill()
            server.wait(10)
            unmount(mount_point)


if __name__ == "__main__":
    serve(sys.argv[1])
