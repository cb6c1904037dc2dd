"""Tracks which nodes take part in the test of a library, and reports those that fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gridwright.errors import Finding, Problem
from gridwright.iotest.coordinator.coordinator import Coordinator
from gridwright.iotest.coordinator.plan import NodeShare
from gridwright.iotest.coordinator.remote_node import Given, LibraryFailedThere, NodeFailed, RemoteNode
from gridwright.iotest.events import Emit
from gridwright.iotest.measure import LibraryFailed
from gridwright.iotest.messages import Numbered
from gridwright.iotest.options import LibraryTarget, OnNodeFailure


class NodesFailed(Exception):
    """A node failed, and the user wants the test to stop then."""


class Members:
    """The nodes of a library's test: asked together, and left out one by one where they fail."""

    def __init__(
        self,
        coordinator: Coordinator,
        target: LibraryTarget,
        shares: Sequence[NodeShare],
        emit: Emit,
        on_failure: OnNodeFailure,
    ) -> None:
        """Nodes that are lost already take no part."""
        self.coordinator = coordinator
        self.shares = list(shares)
        self.lost: dict[str, str] = {}
        """Nodes that take no further part in this library's test, and why."""
        self._target = target
        self._emit = emit
        self._on_failure = on_failure
        coordinator.tell_of_lost()
        for node in coordinator.nodes.values():
            if node.failure is not None:
                self.lost[node.name] = node.failure

    @property
    def stopped(self) -> bool:
        """Whether the user wants the test to end."""
        return self.coordinator.stop.is_set()

    @property
    def here(self) -> list[RemoteNode]:
        """The nodes that take part, in order."""
        nodes = (self.coordinator.nodes[share.node] for share in self.shares)
        return [node for node in nodes if node.here and node.name not in self.lost]

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [node.name for node in self.here]

    @property
    def shares_here(self) -> list[NodeShare]:
        """The parts of those that take part."""
        names = set(self.names)
        return [share for share in self.shares if share.node in names]

    async def ask(self, message: Numbered, kind: type[Given], doing: str) -> dict[str, Given]:
        """Ask all; by name, what those answer that do not fail. Raises LibraryFailed and NodesFailed."""
        limit = self.coordinator.limits.order_s
        results = await self.coordinator.run_on_nodes(
            self.here, lambda node: node.ask(message, kind, limit, doing)
        )
        failed = {name: result for name, result in results.items() if isinstance(result, NodeFailed)}
        await self.find_causes(failed)
        self.settle(failed)
        return {name: result for name, result in results.items() if not isinstance(result, NodeFailed)}

    async def find_causes(self, failed: Mapping[str, NodeFailed]) -> None:
        """Look for what is wrong first, where nodes are lost or failed: it is told before them."""
        gone = [name for name in self.coordinator.nodes if self._is_news(name, failed)]
        if gone and not self.stopped:
            silent = [name for name in gone if self.coordinator.nodes[name].failure is not None]
            await self.coordinator.causes_for(self._target.library, silent)

    def _is_news(self, name: str, failed: Mapping[str, NodeFailed]) -> bool:
        node = self.coordinator.nodes[name]
        return name not in self.lost and (name in failed or (node.failure is not None and not node.told))

    def settle(self, failed: Mapping[str, NodeFailed]) -> None:
        """Leave out and name nodes that failed.

        Raises LibraryFailed if none is left, and NodesFailed if one is enough.
        """
        before = len(self.lost)
        for share in self.shares:
            node = self.coordinator.nodes[share.node]
            error = failed.get(share.node)
            if share.node in self.lost or (error is None and node.failure is None):
                continue
            self.lost[share.node] = node.failure or (error.reason if error else "")
            if self.stopped:
                continue
            if node.failure is None and isinstance(error, LibraryFailedThere):
                self._emit(_failed_here(share.node, error))
        if self.stopped:
            return
        self.coordinator.tell_of_lost()
        if not self.here:
            cause = self._cause()
            raise LibraryFailed(
                Problem(
                    what=f"library {self._target.library}: no node is left to test it"
                    + (f": {cause}" if cause else ""),
                    where=self._target.path,
                    remedy="see what is said of each node",
                )
            )
        if len(self.lost) > before and self._on_failure == "stop":
            raise NodesFailed

    def _cause(self) -> str | None:
        """What all nodes were lost by, as far as is known."""
        known = {self.coordinator.blame.of(name) for name in self.lost}
        alike = known.pop() if len(known) == 1 else None
        return alike or self.coordinator.cause_at(self._target.library)


def _failed_here(node: str, error: LibraryFailedThere) -> Finding:
    where = f" ({error.problem.where})" if error.problem.where else ""
    return Finding(
        "error",
        "node-failed",
        f"node {node}: {error.reason}{where}; its figures are left out",
        error.problem.remedy or "see the message",
    )
