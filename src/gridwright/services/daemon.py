"""What all services do alike: daemons, started once, on many nodes at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tenacity import Retrying, retry_if_not_result, stop_after_delay, wait_fixed

from gridwright.errors import GridwrightError, environment_error
from gridwright.services.service import ServiceNode, ServiceNodes

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
