"""What a service is: a daemon or a mount that some nodes have, which their provider starts and watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from gridwright.commands import CommandOutput


class ServiceNode(Protocol):
    """A node that is up, as a service sees it."""

    name: str
    address: str

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> CommandOutput:
        """Run a command on the node, as root, in `/`; by default with a plain environment.

        Whatever its exit status was is returned. Raises GridwrightError (ENVIRONMENT) where the node is
        not up, or the command has not ended in time: it is killed then. A daemon must let go of its
        standard output, or use `start`.
        """

    def start(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None, timeout_s: float = 30.0
    ) -> CommandOutput:
        """Run a command that leaves a daemon behind: nothing of ours stays open in it.

        What it printed is in the answer's stderr.
        """

    def write(self, path: str, content: str | bytes, *, mode: int = 0o644, owner: str = "root") -> None:
        """Write a file on the node, whole or not at all, with its directories; `owner` is a user there."""

    def read(self, path: str) -> bytes:
        """Read a file of the node. Raises OSError."""


class ServiceNodes(Protocol):
    """The nodes that are up, as services see them. Threads may use it at the same time."""

    @property
    def nodes(self) -> Mapping[str, ServiceNode]:
        """By name."""

    @property
    def network(self) -> str:
        """The range of their addresses, such as 10.77.0.0/24."""

    def secret(self, name: str, make: Callable[[], bytes]) -> bytes:
        """A secret of the nodes by its name, made once. Raises GridwrightError (ENVIRONMENT)."""


N_contra = TypeVar("N_contra", bound=ServiceNodes, contravariant=True)


class Service(Protocol[N_contra]):
    """A daemon or a mount on some nodes.

    When nodes are made, `prepare` is called for each service in order with all its nodes, then `start` in the
    same order, and then `lacking` of every node until nothing is lacking or `patience_s` is over. A node
    that is powered on again has the same three for itself alone: its /run is empty, /etc and /var
    are as it left them. Nothing is called when nodes go: all processes are killed.
    `prepare` and `start` raise GridwrightError (ENVIRONMENT) with what the daemon printed.
    """

    name: str
    """Such as slurmctld; unique."""
    nodes: Sequence[str]
    """The nodes it runs on."""
    patience_s: float
    """How long a node may take until nothing is lacking, in seconds."""

    def prepare(self, lab: N_contra, nodes: Sequence[str]) -> None:
        """Write what it needs on these nodes: configuration, keys, directories."""

    def start(self, lab: N_contra, nodes: Sequence[str]) -> None:
        """Start it on these nodes; where it runs already, nothing is done."""

    def lacking(self, lab: N_contra, node: str) -> str | None:
        """What it still lacks on a node in words, or None where it serves; answers within 5 s."""
