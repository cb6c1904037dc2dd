"""Services: daemons and mounts that some nodes have, which their provider starts and watches.

What all daemons do alike is here, too: they are started once, on many nodes at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from tenacity import Retrying, retry_if_not_result, stop_after_delay, wait_fixed

from gridwright.commands import CommandOutput
from gridwright.errors import GridwrightError, environment_error


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


AT_A_TIME = 8
"""Nodes that are worked on at the same time; each step is a few processes that mostly wait."""
WAIT_S = 30.0
_TAIL = 3


def run_on_nodes(lab: ServiceNodes, nodes: Sequence[str], work: Callable[[ServiceNode], None]) -> None:
    """Do the same on several nodes at a time. Raises GridwrightError with the problems of all nodes."""
    if len(nodes) == 1:
        work(lab.nodes[nodes[0]])
        return
    failures: list[GridwrightError] = []
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for future in [pool.submit(work, lab.nodes[name]) for name in nodes]:
            try:
                future.result()
            except GridwrightError as error:
                failures.append(error)
    if failures:
        raise GridwrightError(
            *(problem for each in failures for problem in each.problems), status=failures[0].status
        )


def runs(node: ServiceNode, program: str) -> bool:
    """Whether a process of this name runs on the node."""
    return node.run(["pidof", "-q", program], timeout_s=5.0).status == 0


def start_daemon(node: ServiceNode, command: Sequence[str], *, timeout_s: float = 30.0) -> None:
    """Start a daemon that puts itself into the background. Raises GridwrightError with what it printed."""
    answer = node.start(command, timeout_s=timeout_s)
    if answer.status:
        raise failure(node, command, answer.stderr)


def wait_for(lacking: Callable[[], str | None]) -> None:
    """Wait until nothing is lacking of a service that the next one needs at its start; WAIT_S at most.

    Whether it serves in the end is asked of all services alike, so nothing is raised here.
    """
    waiting = Retrying(
        retry=retry_if_not_result(lambda each: each is None),
        stop=stop_after_delay(WAIT_S),
        wait=wait_fixed(0.2),
        retry_error_callback=lambda state: None,
    )
    waiting(lacking)


def call(node: ServiceNode, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0) -> bytes:
    """What a command prints that has to succeed. Raises GridwrightError (status ENVIRONMENT)."""
    answer = node.run(command, stdin=stdin, timeout_s=timeout_s)
    if answer.status:
        raise failure(node, command, answer.stderr or answer.stdout)
    return answer.stdout


def failure(node: ServiceNode, command: Sequence[str], printed: bytes) -> GridwrightError:
    """The error of a command that failed on a node, with the last lines that it printed."""
    return environment_error(
        f"{command[0]} failed: {last_words(printed)}",
        where=node.name,
        remedy=f"see what it wrote: gridwright lab exec {node.name} -- ls -lR /var/log",
    )


def last_words(printed: bytes) -> str:
    """The last lines of what a command printed, in one."""
    lines = [line.strip() for line in printed.decode(errors="replace").splitlines() if line.strip()]
    return "; ".join(lines[-_TAIL:]) or "it printed nothing"


def make_directory(node: ServiceNode, *paths: object, owner: str = "root", mode: str = "0755") -> None:
    """Make directories of a user of the node, with those above them."""
    names = [str(path) for path in paths]
    call(node, ["install", "-d", "-o", owner, "-g", owner, "-m", mode, "--", *names])
