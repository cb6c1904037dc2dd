"""One command at a time writes to a repository's bucket: an object is its lease, made under a condition."""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from gridwright.errors import environment_error
from gridwright.repository.keys import shown
from gridwright.repository.store import ObjectStore, StoreError, StoreFault, WriteCondition

LEASE_S = 120.0
"""How long a lease lasts that is not renewed; clocks of nodes may differ by some seconds."""
_RENEW_S = LEASE_S / 4
_CLOCKS_S = 900.0
"""How far the clocks of a machine and of the store may be apart: stores refuse requests beyond (SigV4)."""
_LONGEST = 4096
"""Bytes of a lease that are read; it has some 150."""


class Lease:
    """Held within a `with`, and renewed meanwhile. Raises GridwrightError where somebody else holds it."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._key = key
        self._etag = ""
        self._ended = threading.Event()
        self._renewing = threading.Thread(target=self._renew, daemon=True)
        self.is_lost = False

    def __enter__(self) -> Lease:
        try:
            self._write(WriteCondition(none_there=True))
        except StoreError as error:
            if error.fault is not StoreFault.CHANGED:
                raise
            self._take_over()
        self._renewing.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        self._ended.set()
        self._renewing.join()
        if not self.is_lost:
            self._store.delete(self._key)

    def check(self, where: str) -> None:
        """Raise GridwrightError where another command has taken it; `where` is the repository's bucket."""
        if self.is_lost:
            raise environment_error(
                "another command has taken the lease of this repository",
                where=where,
                remedy="it was silent for too long; the next run of this command goes on",
            )

    def _take_over(self) -> None:
        """Take a lease that ran out, or whose holder on this machine has ended."""
        head = self._store.head(self._key).result()
        holder = _Holder.read(self._store.get(self._key))
        written_s = head.entry.last_modified_ns / 1e9
        # Who has not renewed it for so long holds nothing, whatever it says.
        until_s = min(holder.until_s, written_s + LEASE_S + _CLOCKS_S) if written_s else holder.until_s
        left_s = min(until_s - time.time(), LEASE_S + _CLOCKS_S)
        if left_s > 0 and not holder.is_gone():
            raise environment_error(
                f"another command writes to this repository: on {shown(holder.host)}, "
                f"process {holder.process}",
                where=self._key,
                remedy=f"wait until it has ended; its lease ends in {left_s:.0f} s",
            )
        self._write(WriteCondition(etag=head.entry.etag))

    def _write(self, condition: WriteCondition) -> None:
        name, boot = _host()
        process = _process(os.getpid())
        holder = {"host": f"{name} {boot}", "process": process, "until": time.time() + LEASE_S}
        self._etag = self._store.put(self._key, json.dumps(holder).encode(), {}, condition).etag

    def _renew(self) -> None:
        while not self._ended.wait(_RENEW_S):
            try:
                self._write(WriteCondition(etag=self._etag))
            except StoreError as error:
                if error.fault in (StoreFault.CHANGED, StoreFault.NOT_THERE):
                    self.is_lost = True
                    return


class _Holder(NamedTuple):
    """Who holds a lease, as its object says, which anybody may have written who writes the bucket."""

    until_s: float
    """Since 1970; 0 where the object cannot be read."""
    host: str = "?"
    boot: str = ""
    process: int = 0
    started: str = ""

    @classmethod
    def read(cls, content: bytes) -> _Holder:
        """The holder of a lease's content."""
        try:
            said = json.loads(content[:_LONGEST])
            host, _, boot = said["host"].partition(" ")
            process, _, started = said["process"].partition(".")
            until_s = float(said["until"])
            return cls(until_s, host, boot, int(process), started) if math.isfinite(until_s) else cls(0)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return cls(0)

    def is_gone(self) -> bool:
        """Whether it is a process of this machine that has ended."""
        is_here = (self.host, self.boot) == _host()
        return is_here and f"{self.process}.{self.started}" != _process(self.process)


def _host() -> tuple[str, str]:
    """The name of this machine, and what names its last boot."""
    return socket.gethostname(), Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _process(pid: int) -> str:
    """A process, not to be mistaken for a later one with its number: with when it started."""
    try:
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return f"{pid}.gone"
    return f"{pid}.{started}"
