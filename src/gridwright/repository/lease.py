"""One command at a time writes to a repository's bucket: an object is its lease, made under a condition."""

from __future__ import annotations

import json
import math
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
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
_STOPPED_S = 0.5
"""How long a command that is stopped waits until the store has its lease back."""
_LONGEST = 4096
"""Bytes of a lease that are read; it has some 150."""


class Lease:
    """Held within a `with`, and renewed meanwhile. Raises GridwrightError where somebody else holds it."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._key = key
        self._etag = ""
        self._token = secrets.token_hex(8)
        self._ended = threading.Event()
        self._renewing = threading.Thread(target=self._renew, daemon=True)
        self.is_lost = False

    def __enter__(self) -> Lease:
        if not self._takes(WriteCondition(none_there=True)):
            self._take_over()
        self._renewing.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _where: TracebackType | None
    ) -> None:
        self._ended.set()
        if error is None or isinstance(error, Exception):
            self._renewing.join()
            self._give_back()
            return
        # Who is stopped waits for no store: a lease that stays is of a process that has ended, or runs out.
        giving = threading.Thread(target=self._give_back_if_answered, daemon=True)
        giving.start()
        giving.join(_STOPPED_S)

    def _give_back_if_answered(self) -> None:
        with suppress(StoreError):
            self._give_back()

    def _give_back(self) -> None:
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
        holder = _Holder.read(self._store.get(self._key))
        written_s = head.entry.last_modified_ns / 1e9
        # Who has not renewed it for so long holds nothing, whatever it says.
        until_s = min(holder.until_s, written_s + LEASE_S + _CLOCKS_S) if written_s else holder.until_s
        left_s = min(until_s - time.time(), LEASE_S + _CLOCKS_S)
        if left_s > 0 and not holder.is_gone():
            raise environment_error(
                f"another command writes to this repository: on {shown(holder.host)}, "
                f"process {holder.process}",
                where=self._where,
                remedy=f"wait until it has ended; its lease ends in {left_s:.0f} s",
            )
        if not self._takes(WriteCondition(etag=head.entry.etag)):
            raise environment_error(
                "another command has taken the lease of this repository in this moment",
                where=self._where,
                remedy="wait until it has ended",
            )

    @property
    def _where(self) -> str:
        return f"s3://{self._store.bucket}/{self._key}"

    def _takes(self, condition: WriteCondition) -> bool:
        """Write it under a condition; whether it is ours then, as after an answer that was lost."""
        try:
            self._write(condition)
        except StoreError as error:
            if error.fault is not StoreFault.CHANGED:
                raise
            return self._is_ours()
        return True

    def _is_ours(self) -> bool:
        try:
            head = self._store.head(self._key).result()
            is_ours = _Holder.read(self._store.get(self._key)).token == self._token
        except StoreError as error:
            if error.fault is not StoreFault.NOT_THERE:
                raise
            return False
        self._etag = head.entry.etag if is_ours else self._etag
        return is_ours

    def _write(self, condition: WriteCondition) -> None:
        name, boot = _host()
        process = _process(os.getpid())
        holder = {"host": f"{name} {boot}", "process": process, "until": time.time() + LEASE_S}
        holder["token"] = self._token
        self._etag = self._store.put(self._key, json.dumps(holder).encode(), {}, condition).etag

    def _renew(self) -> None:
        while not self._ended.wait(_RENEW_S):
            try:
                self.is_lost = not self._takes(WriteCondition(etag=self._etag))
            except StoreError as error:
                self.is_lost = error.fault is StoreFault.NOT_THERE
            if self.is_lost:
                return


def plan_lease(store: ObjectStore) -> None:
    """Count what taking and giving up a lease would ask; each half minute, it is renewed by one more."""
    store.requests.add("put")
    store.requests.add("delete")


class _Holder(NamedTuple):
    """Who holds a lease, as its object says, which anybody may have written who writes the bucket."""

    until_s: float
    """Since 1970; 0 where the object cannot be read."""
    host: str = "?"
    boot: str = ""
    process: int = 0
    started: str = ""
    token: str = ""
    """Of this lease alone: a process may take several."""

    @classmethod
    def read(cls, content: bytes) -> _Holder:
        """The holder of a lease's content."""
        try:
            said = json.loads(content[:_LONGEST])
            host, _, boot = said["host"].partition(" ")
            process, _, started = said["process"].partition(".")
            until_s = float(said["until"])
            token = str(said.get("token", ""))
            found = cls(until_s, host, boot, int(process), started, token)
            return found if math.isfinite(until_s) else cls(0)
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
