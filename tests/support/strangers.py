"""Another user of this machine, who connects to what listens here and says nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

MALLORY = 2002
_CONNECTS = """
import encodings.idna, os, select, socket, sys
user, port, count, again = map(int, sys.argv[1:])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
held = []
for _ in range(count):
    held.append(socket.create_connection(("127.0.0.1", port), timeout=20))
print("connected", flush=True)
while again:
    for each in select.select(held, [], [])[0]:
        held.remove(each)
        each.close()
        held.append(socket.create_connection(("127.0.0.1", port), timeout=20))
sys.stdin.read()
"""


@contextmanager
def silent_connections(port: int, count: int, *, again: bool = False) -> Iterator[None]:
    """Hold so many connections from a process of mallory's, which is there for the block.

    With `again`, each that is shut is made anew at once.
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _CONNECTS, str(MALLORY), str(port), str(count), str(int(again))],
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
