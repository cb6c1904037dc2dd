"""Another user of this machine, who connects to what listens here, says nothing, or floods it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.as_user import MALLORY

_BECOMES = """
import collections, encodings.idna, itertools, os, resource, select, socket, sys
user, port, count, again = map(int, sys.argv[1:5])
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
"""
_CONNECTS = (
    _BECOMES
    + """
held, shut = {}, select.poll()
def connect():
    made = socket.create_connection(("127.0.0.1", port), timeout=20)
    held[made.fileno()] = made
    shut.register(made, select.POLLIN)
for _ in range(count):
    connect()
print("connected", flush=True)
while again:
    for number, _ in shut.poll():
        shut.unregister(number)
        held.pop(number).close()
        connect()
sys.stdin.read()
"""
)
_FLOODS = (
    _BECOMES
    + """
says = sys.argv[5].encode()
held = collections.deque()
for number in itertools.count():
    if number == 1000:
        print("connected", flush=True)
    made = socket.socket()
    # All of 127.0.0.0/8 is this machine's.
    made.bind((f"127.0.{number % 3}.{1 + number % 200}", 0))
    made.settimeout(20)
    try:
        made.connect(("127.0.0.1", port))
        made.sendall(says)
    except OSError:
        pass
    held.append(made)
    if len(held) > count:
        held.popleft().close()
"""
)


@contextmanager
def silent_connections(port: int, count: int, *, again: bool = False) -> Iterator[None]:
    """Hold so many connections from a process of mallory's, which is there for the block.

    With `again`, each that is shut is made anew at once.
    """
    with _mallory(_CONNECTS, port, count, int(again)):
        yield


@contextmanager
def flood(port: int, says: str) -> Iterator[None]:
    """One connection after the other by mallory, from many addresses of loopback, who says this on each.

    The block begins after a thousand; mallory has some hundred open at a time.
    """
    with _mallory(_FLOODS, port, 400, 1, says):
        yield


@contextmanager
def _mallory(program: str, *arguments: object) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", program, str(MALLORY), *map(str, arguments)],
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
