"""The trials of two nodes on a file system that they share, one step after the other."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gridwright.doctor.messages import (
    Append,
    Begin,
    Count,
    GiveBack,
    Lock,
    Look,
    Put,
    Read,
    TakeLock,
    TryLock,
    Write,
)
from gridwright.doctor.probes.channel import Channel, Refused
from gridwright.doctor.probes.findings import Trial, Tried

RECORDS = 200
"""That each node appends: enough for hundreds of writes to meet, and done in a fraction of a second."""
SETTLE_S = 1.5
"""How long is waited for what ought to have been seen at once, to tell late from never."""
_STEP_S = 0.1


def trials(filesystem: str, directory: Path, one: Channel, two: Channel) -> Iterator[Tried]:
    """Try a file system in a new directory of a library; `one` makes it and takes it away.

    Raises NoAnswer where a node does not answer any more, and Refused where one may not do its part.
    """
    nodes = (one.node, two.node)
    mark = secrets.token_hex(8)
    one.ask(Begin(str(directory), mark, owner=True))
    two.ask(Begin(str(directory), mark, owner=False))
    apart = _late(lambda: two.ask(Look()) is True)
    yield Tried(filesystem, nodes, "seen", f"{two.node} {apart} what {one.node} made" if apart else None)
    if apart and not two.ask(Look()):
        return
    steps: tuple[tuple[Trial, Callable[[Channel, Channel], str | None]], ...] = (
        ("read", _read),
        ("rename", _rename),
        ("flock", lambda one, two: _lock(one, two, "flock")),
        ("fcntl", lambda one, two: _lock(one, two, "fcntl")),
        ("append", _append),
    )
    for trial, step in steps:
        try:
            wrong = step(one, two)
        except Refused as refused:
            wrong = str(refused)
        yield Tried(filesystem, nodes, trial, wrong)


def _late(seen: Callable[[], bool]) -> str:
    """How late something was seen, in words; nothing where it was seen at once."""
    began = time.monotonic()
    if seen():
        return ""
    while time.monotonic() - began < SETTLE_S:
        time.sleep(_STEP_S)
        if seen():
            return f"saw only after {time.monotonic() - began:.1f} s"
    return f"has not seen for {SETTLE_S:.1f} s"


def _reads(node: Channel, name: str, text: str) -> Callable[[], bool]:
    def reads() -> bool:
        try:
            return bool(node.ask(Read(name)) == text)
        except Refused:
            return False

    return reads


def _read(one: Channel, two: Channel) -> str | None:
    """A new file, then the same file again: the second time the reader has the first in its cache."""
    for text in ("first", "other"):
        one.ask(Write("read", text))
        if late := _late(_reads(two, "read", text)):
            return f"{two.node} {late} what {one.node} had written and closed"
    return None


def _rename(one: Channel, two: Channel) -> str | None:
    """New files under an old name, each way."""
    one.ask(Put("renamed", "old"))
    two.ask(Read("renamed"))
    for maker, reader, text in ((one, two, "newer"), (two, one, "newest")):
        maker.ask(Put("renamed", text))
        if late := _late(_reads(reader, "renamed", text)):
            return f"{reader.node} {late} the file that {maker.node} put in the place of another"
    return None


def _lock(one: Channel, two: Channel, kind: Lock) -> str | None:
    """A lock of each keeps out the other, and is free for it afterwards."""
    for holder, other in ((one, two), (two, one)):
        holder.ask(TakeLock(kind, kind))
        if other.ask(TryLock(kind, kind)):
            holder.ask(GiveBack(kind))
            return f"{other.node} got the lock that {holder.node} held"
        holder.ask(GiveBack(kind))
        if late := _late(lambda: bool(other.ask(TryLock(kind, kind)))):  # noqa: B023
            return f"{other.node} {late} that {holder.node} gave the lock back"
    return None


def _append(one: Channel, two: Channel) -> str | None:
    """Both append to one file at the same time; it is there before: making it at once is another trial."""
    one.ask(Write("appended", ""))
    for who, node in (("one", one), ("two", two)):
        node.tell(Append("appended", who, RECORDS))
    for node in (one, two):
        node.told()
    found = one.ask(Count("appended"))
    if not isinstance(found, dict):
        raise Refused("the records cannot be counted")
    lost = 2 * RECORDS - sum(count for who, count in found.items() if who)
    torn = found.get("", 0)
    return f"of {2 * RECORDS} records {lost} are lost, and {torn} pieces are torn" if lost or torn else None
