"""One command at a time writes to a repository's bucket: an object is its lease, made under a condition."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from pathlib import Path
from types import TracebackType

from gridwright.errors import environment_error
from gridwright.repository.store import ObjectStore, StoreError, StoreFault, WriteCondition

LEASE_S = 120.0
"""How long a lease lasts that is not renewed; clocks of nodes may differ by some seconds."""
_RENEW_S = LEASE_S / 4


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
        if self.is_lost:
            return
        try:
            self._store.delete(self._key, self._etag)
        except StoreError as error:
            # Somebody has taken it since the last renewal: it is his.
            if error.fault is not StoreFault.CHANGED:
                raise

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
        try:
            holder = json.loads(self._store.get(self._key))
            until, host, process = float(holder["until"]), str(holder["host"]), str(holder["process"])
        except (ValueError, KeyError, TypeError):
            until, host, process = 0.0, "?", "?"
        is_dead = host == _host() and process != _process(int(process.partition(".")[0] or 0))
        if time.time() < until and not is_dead:
            raise environment_error(
                f"another command writes to this repository: on {host.partition(' ')[0]}, process "
                f"{process.partition('.')[0]}",
                where=self._key,
                remedy=f"wait until it has ended; its lease ends in {until - time.time():.0f} s",
            )
        self._write(WriteCondition(etag=head.entry.etag))

    def _write(self, condition: WriteCondition) -> None:
        holder = {"host": _host(), "process": _process(os.getpid()), "until": time.time() + LEASE_S}
        self._etag = self._store.put(self._key, json.dumps(holder).encode(), {}, condition).etag

    def _renew(self) -> None:
        while not self._ended.wait(_RENEW_S):
            try:
                self._write(WriteCondition(etag=self._etag))
            except StoreError as error:
                if error.fault in (StoreFault.CHANGED, StoreFault.NOT_THERE):
                    self.is_lost = True
                    return


def _host() -> str:
    """Names this machine since its last boot."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()} {boot}"


def _process(pid: int) -> str:
    """A process, not to be mistaken for a later one with its number: with when it started."""
    try:
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return f"{pid}.gone"
    return f"{pid}.{started}"
