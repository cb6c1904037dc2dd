"""Names what is wrong with a grid before what it hit: asked when nodes or a file system go silent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from gridwright.errors import Finding
from gridwright.grid.outages import OutageCause
from gridwright.iotest.events import Emit
from gridwright.spec.hosts import fold_hosts

Ask = Callable[[Collection[str]], Sequence[OutageCause]]
"""Looks for causes of the silence of nodes; of none, for what else is wrong. Bounded in time, and blocks."""
LONGEST_S = 20.0
"""For all looks together; what is not known by then is not waited for."""
AGAIN_S = 10.0
"""Between two looks for the same silence: who is asked has something to do as well."""


class Blame:
    """The causes that are known, each told once, and looked for by one look at a time."""

    def __init__(self, ask: Ask | None, emit: Emit) -> None:
        """`ask` is None where nobody knows anything of the nodes."""
        self._ask = ask
        self._emit = emit
        self._causes: dict[str, OutageCause] = {}
        self._told: dict[str, set[str | None]] = {}
        """What each cause hit, as far as it was told."""
        self._look: asyncio.Task[None] | None = None
        self._asked_for: frozenset[str] = frozenset()
        self._asked_at = float("-inf")

    @property
    def looks(self) -> bool:
        """Whether somebody is being asked."""
        return self._look is not None and not self._look.done()

    def begin(self, silent: Collection[str], filesystem: str | None = None, *, at_once: bool = False) -> None:
        """Have causes looked for, where nobody does so, and unless `at_once` nobody just did."""
        wanted = frozenset(silent)
        again = at_once or time.monotonic() - self._asked_at > AGAIN_S
        if self._ask is None or self.looks or not (again or wanted - self._asked_for):
            return
        self._asked_for, self._asked_at = wanted, time.monotonic()
        self._look = asyncio.create_task(self._find(wanted, filesystem))

    async def settle(self, silent: Collection[str], filesystem: str | None = None) -> None:
        """Look for causes and wait for what comes of it, for a limited time."""
        await self._wait()
        if not all(self.of(node) for node in silent) or not silent:
            self.begin(silent, filesystem, at_once=True)
            await self._wait()

    async def end(self) -> None:
        """Ask no more."""
        if self._look is not None:
            self._look.cancel()
            await asyncio.gather(self._look, return_exceptions=True)

    def of(self, node: str) -> str | None:
        """Why a node is silent, in words."""
        for cause in self._causes.values():
            if node in cause.nodes:
                return f"{cause.what}, and it is reached through that" if cause.reaches_them else cause.what
        return None

    def is_certain(self, node: str) -> bool:
        """Whether it is known for certain that a node is lost."""
        return any(node in cause.nodes and cause.certain for cause in self._causes.values())

    def of_filesystem(self, filesystem: str) -> str | None:
        """Why a file system does not serve, in words."""
        for cause in self._causes.values():
            if filesystem in cause.filesystems:
                return f"{cause.what}, which serves file system {filesystem}"
        return None

    async def _wait(self) -> None:
        if self._look is not None:
            await asyncio.wait([self._look], timeout=LONGEST_S)

    async def _find(self, silent: frozenset[str], filesystem: str | None) -> None:
        ask = self._ask
        if ask is None:
            return
        found = await asyncio.to_thread(ask, silent)
        # Every look covers all servers: what serves again is no cause any more.
        self._causes = {what: cause for what, cause in self._causes.items() if not cause.filesystems}
        for cause in found:
            self._causes[cause.what] = cause
            nodes = cause.nodes if cause.certain else frozenset()
            self._tell(cause, nodes, {filesystem} & set(cause.filesystems))

    def tell_for(self, lost: Collection[str]) -> None:
        """Tell the causes of nodes that are lost now: one that was silent for a while may have come back."""
        for cause in self._causes.values():
            if not cause.of_node_alone:
                self._tell(cause, cause.nodes & set(lost), set())

    def _tell(self, cause: OutageCause, nodes: frozenset[str], filesystems: Collection[str | None]) -> None:
        told = self._told.setdefault(cause.what, set())
        if news := (set(nodes) | set(filesystems)) - told:
            told |= news
            self._emit(outage_finding(replace(cause, nodes=nodes)))


def outage_finding(cause: OutageCause) -> Finding:
    """What is wrong, and what it hit."""
    hit = []
    if cause.nodes:
        are = "is" if len(cause.nodes) == 1 else "are"
        names = fold_hosts(sorted(cause.nodes))
        if cause.reaches_them:
            hit.append(f"{names}, reached through it, {are} lost to this test")
        else:
            hit.append(f"{names} {are} lost to this test")
    if cause.filesystems:
        systems = " and ".join(cause.filesystems)
        hit.append(f"it serves file system {systems}: what is read and written there waits for it, or fails")
    return Finding("error", "outage", f"{cause.what}; {'; '.join(hit)}", cause.remedy)
