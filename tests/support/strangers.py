"""Another user of this machine, who connects to what listens here and says nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

MALLORY = 2002
_CONNECTS = """
import encodings.idna, os, socket, sys
user, port, count = map(int, sys.argv[1:])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
held = []
for _ in range(count):
    held.append(socket.create_connection(("127.0.0.1", port), timeout=20))
print("connected", flush=True)
sys.stdin.read()
"""


@contextmanager
def silent_connections(port: int, count: int) -> Iterator[None]:
    """Hold so many connections from a process of mallory's, which is there for the block."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _CONNECTS, str(MALLORY), str(port), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"connected\n"
        yield
    finally:
        process.kill()
        process.communicate()
