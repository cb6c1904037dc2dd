"""The grid as it runs, opened once for each command: all rooms reach nodes and scheduler through it.

Asks nodes that ssh does not reach, as on many sites, by a job on each of them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.beneath import remove_tree
from gridwright.commands import CommandOutput
from gridwright.errors import GridwrightError, Problem, environment_error
from gridwright.grid.nodes import (
    GridNode,
    KnownNodes,
    known_nodes,
    names_its_nodes,
    nodes_for_test,
    nodes_of_spec,
    nodes_up,
)
from gridwright.schedulers import scheduler_kind
from gridwright.schedulers.head_node import HeadNode, LocalHeadNode, for_remote_shell
from gridwright.schedulers.job import JobRequest, NodeState
from gridwright.schedulers.scheduler import Scheduler
from gridwright.services.connections import Listener
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.model import GridSpec
from gridwright.state_parts import fresh_directory

if TYPE_CHECKING:
    from gridwright.grid.launching import NodeLauncher
    from gridwright.grid.node_python import NodePythons, Packages
    from gridwright.grid.outages import OutageCauses
    from gridwright.providers.provider import GridHere
    from gridwright.schedulers.scheduler import SettingComparison
    from gridwright.schedulers.usage import JobUsage


NAME = "gridwright-ask"
START_S = 20.0
"""For a job to start on a node that is free: Slurm looks at a job when it is submitted (slurm.conf(5),
SchedulerParameters=defer is off by default)."""
_JOB_ENVIRONMENT = ("PATH", "HOME", "LANG")
_LOOK_S = 0.1
# The status comes last, under a name of its own: who sees it sees the whole answer.
_ANSWER = (
    'cd "$0" && node=$1 && shift && "$@" <input >"$node.out" 2>"$node.err"; echo $? >"$node.new" && '
    'mv "$node.new" "$node.status"'
)


def ask_by_jobs(
    scheduler: Scheduler,
    state: Path,
    nodes: Collection[str],
    command: Sequence[str],
    *,
    stdin: bytes,
    timeout_s: float,
) -> dict[str, CommandOutput | None]:
    """Run a command on nodes as jobs; the answer of each, None from one whose job did not end in time.

    `state` is a directory that this machine and the nodes see.
    Raises GridwrightError where no job can be submitted.
    """
    with _directory(state) as place:
        (place / "input").write_bytes(stdin)
        requests = [
            JobRequest(
                command=["sh", "-c", _ANSWER, str(place), node, *command],
                directory="/",
                environment={name: os.environ[name] for name in _JOB_ENVIRONMENT if name in os.environ},
                name=NAME,
                node=node,
                time_limit_s=START_S + timeout_s,
            )
            for node in nodes
        ]
        jobs = dict(zip(nodes, scheduler.submit(requests), strict=True))
        deadline = time.monotonic() + START_S + timeout_s
        answers: dict[str, CommandOutput | None] = {}
        try:
            while (left := [node for node in nodes if node not in answers]) and time.monotonic() < deadline:
                answers |= {node: answer for node in left if (answer := _answer(place, node)) is not None}
                time.sleep(_LOOK_S)
        finally:
            late = [jobs[node] for node in nodes if node not in answers]
            if late:
                with contextlib.suppress(GridwrightError):
                    scheduler.cancel(late)
        return {node: answers.get(node) for node in nodes}


@contextmanager
def _directory(state: Path) -> Iterator[Path]:
    place = fresh_directory(state, "ask")
    try:
        yield place
    finally:
        remove_tree(place)


def _answer(place: Path, node: str) -> CommandOutput | None:
    """What a job has left; None while it has not ended."""
    with contextlib.suppress(OSError, ValueError):
        status = int((place / f"{node}.status").read_text())
        return CommandOutput(
            status, (place / f"{node}.out").read_bytes(), (place / f"{node}.err").read_bytes()
        )
    return None


LOST = 126
"""Exit status that stands for a program that could not be run on a node (as shells have it)."""
SILENT = "no answer in time"
_SSH = ("-oBatchMode=yes", "-oConnectTimeout=5")
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
"""What a program on a node needs of our environment."""


class Grid:
    """A grid that was made: its head node, its scheduler and its nodes, each looked up when it is needed.

    Failure contract. Opening fails of nothing. Everything else raises GridwrightError (status ENVIRONMENT)
    where the grid is not up or its scheduler does not answer; it can be asked again then. What is asked of
    several nodes is bounded in time for each of them, and a node that does not answer is named instead.
    """

    def __init__(
        self, spec: Callable[[], GridSpec], *, head: HeadNode | None = None, here: GridHere | None = None
    ) -> None:
        """`head` is the head node, and `here` the grid by its name, where these are known."""
        self._spec = spec
        self._head = head
        self._here = here
        self._port: int | None = None

    @classmethod
    def open(cls, spec: GridSpec) -> Grid:
        """The grid of a spec."""
        return cls(lambda: spec)

    @classmethod
    def on_its_head(cls, spec: GridSpec) -> Grid:
        """The grid of a spec, for a program that runs on its head node: the provider is not asked."""
        return cls(lambda: spec, head=LocalHeadNode())

    @classmethod
    def local(cls, here: GridHere) -> Grid:
        """A grid on this machine by its name: its spec is read at first use."""
        return cls(here.spec, here=here)

    @cached_property
    def spec(self) -> GridSpec:
        """The spec that it was opened from, or made from. Raises GridwrightError where that is unreadable."""
        return self._spec()

    @property
    def is_this_machine(self) -> bool:
        """Whether there is no node to reach, so that this machine is what is looked at and tested."""
        from gridwright.providers import provider_of

        return self.spec.is_one_machine or not provider_of(self.spec).reaches_nodes

    @property
    def has_queue(self) -> bool:
        """Whether jobs can be submitted, so that its scheduler knows the nodes, too."""
        return self.spec.scheduler.has_queue

    @property
    def processes_here(self) -> Sequence[int]:
        """Processes of this machine that the grid consists of, with all below them."""
        from gridwright.providers import provider_of

        grids = provider_of(self.spec).on_this_machine
        return grids.processes(self.spec) if grids is not None else ()

    @cached_property
    def head(self) -> HeadNode:
        """Its head node. Raises GridwrightError."""
        from gridwright.providers import head_node

        return self._head or head_node(self.spec)

    @cached_property
    def scheduler(self) -> Scheduler:
        """Its scheduler, to submit jobs and to follow them.

        Raises GridwrightError: INPUT where the grid has none, ENVIRONMENT where its state directory is out of
        sight from here.
        """
        if not self.head.sees_state:
            raise self._out_of_sight()
        return scheduler_kind(self.spec.scheduler).open(self.spec, self.head)

    def usage(self, since: float, until: float) -> list[JobUsage]:
        """What jobs used that ended from `since` to `until`, in seconds since 1970.

        Raises GridwrightError as `scheduler` does, and where the scheduler keeps no accounting.
        """
        if not self.has_queue or self.head.sees_state:
            return scheduler_kind(self.spec.scheduler).usage(self.spec, self.head, since, until)
        raise self._out_of_sight()

    def _out_of_sight(self) -> GridwrightError:
        return environment_error(
            f"the queue of grid {self.spec.name} is kept in {self.state} on its own machines",
            where=self.head.name,
            remedy=f"log in there, and run it on {self.head.name}, where this Gridwright has to be "
            "installed, and the grid spec to be copied to",
        )

    @cached_property
    def states(self) -> Sequence[NodeState]:
        """Its nodes as the scheduler sees them. Raises GridwrightError."""
        return scheduler_kind(self.spec.scheduler).nodes(self.spec, self.head)

    @property
    def state(self) -> Path:
        """The directory of its queue and records, at the same path on all nodes."""
        from gridwright.schedulers.state_directory import state_directory

        return state_directory(self.spec)

    def known(self) -> KnownNodes:
        """All nodes, whether they are up or not, and what the scheduler says of them.

        Raises GridwrightError where nobody says which nodes there are.
        """
        if not self.has_queue:
            return KnownNodes([node.name for node in nodes_of_spec(self.spec)])
        try:
            return known_nodes(self.spec, self.states)
        except GridwrightError as error:
            if not names_its_nodes(self.spec):
                raise
            # Nodes are to be mended before their scheduler can be.
            names = [node.name for node in nodes_of_spec(self.spec)]
            return KnownNodes(names, scheduler_silent=error.problems[0].what)

    def compared_settings(self) -> Sequence[SettingComparison]:
        """Settings of its scheduler, held against what is recommended; none where it tells nothing."""
        if not self.has_queue:
            return ()
        try:
            return scheduler_kind(self.spec.scheduler).compared_settings(self.spec, self.head)
        except GridwrightError:
            return ()

    def nodes(self) -> list[GridNode]:
        """As many nodes as the spec has, those that are up and idle first; others say why they are absent.

        Raises GridwrightError where none is up.
        """
        if not self.has_queue:
            return nodes_of_spec(self.spec)
        return nodes_for_test(self.spec, self.states)

    @property
    def asleep(self) -> list[str]:
        """Nodes that are off until a job waits for them. Raises GridwrightError."""
        return [node.name for node in self.states if node.asleep] if self.has_queue else []

    def up(self) -> list[NodeState]:
        """The nodes that take jobs. Raises GridwrightError where there is none."""
        return nodes_up(self.spec, self.states)

    @cached_property
    def _pythons(self) -> NodePythons:
        from gridwright.grid.node_python import NodePythons, extensions_of

        return NodePythons(self.head, extensions_of(self.spec))

    def ask(
        self,
        nodes: Collection[str],
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = 20.0,
        by_jobs: bool = True,
    ) -> Mapping[str, CommandOutput | None]:
        """Run a command on nodes at once, and have each one's answer; None from one that is silent.

        A command that begins with this Python is run by the Python of each node that has this Gridwright; a
        node that has none, and cannot be given it, answers with status LOST and the reason. `timeout_s` holds
        for each node. Without `by_jobs` nodes have no answer where only a job on each would have it.
        Raises GridwrightError where the head node is not there.
        """
        from gridwright.grid.node_python import with_python
        from gridwright.grid.nodes import on_nodes

        if command[0] != sys.executable:
            return on_nodes(self.head, nodes, command, stdin=stdin, timeout_s=timeout_s)
        pythons, losses = self._pythons.of(nodes)
        if losses and not pythons and self._asks_by_jobs:
            return self._by_jobs(nodes, command, stdin, timeout_s) if by_jobs else {}
        found: dict[str, CommandOutput | None] = {}
        for python in dict.fromkeys(pythons.values()):
            alike = [node for node in nodes if pythons.get(node) == python]
            asked = with_python(python, command)
            found |= on_nodes(self.head, alike, asked, stdin=stdin, timeout_s=timeout_s)
        lost = {node: CommandOutput(LOST, b"", why.encode()) for node, why in losses.items()}
        return {node: found.get(node, lost.get(node)) for node in nodes}

    @property
    def _asks_by_jobs(self) -> bool:
        """Whether jobs on nodes can answer what ssh does not get there: many sites let nobody log in."""
        return self.spec.scheduler.starts_jobs_on_nodes and self.head.sees_state

    def _by_jobs(
        self, nodes: Collection[str], command: Sequence[str], stdin: bytes, timeout_s: float
    ) -> Mapping[str, CommandOutput | None]:

        takes_jobs = {node.name for node in self.up()}
        asked = [node for node in nodes if node in takes_jobs]
        found = ask_by_jobs(self.scheduler, self.state, asked, command, stdin=stdin, timeout_s=timeout_s)
        return {node: found.get(node) for node in nodes}

    def shared_python(self, packages: Packages, nodes: Collection[str]) -> str:
        """The path of a Python with this Gridwright and these packages that head node and nodes share.

        It is made where there is none; see SharedPython. Raises GridwrightError where packages lack.
        """
        from gridwright.grid.node_python import SharedPython, extensions_of

        return SharedPython(self.head, self.state, extensions_of(self.spec)).path(packages, nodes)

    def attach(self, node: str, command: Sequence[str]) -> list[str]:
        """The command line that runs a command on a node from here, with its streams; see `ask`."""
        from gridwright.grid.node_python import with_python

        python = self._pythons.of([node])[0].get(node, sys.executable)
        return self.head.ssh([*_SSH, node, for_remote_shell(with_python(python, command))])

    def attached(self, nodes: Collection[str], command: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """The command lines of `attach` for several nodes, whose Pythons are looked up at once."""
        self._pythons.of(nodes)
        return {node: self.attach(node, command) for node in nodes}

    def enter(self, node: str, command: Sequence[str]) -> int:
        """Run a command of the user's on a node, with this terminal and these streams; its exit status.

        On a node of this machine it has this environment, and this working directory where the node has it;
        signals are handed on. Elsewhere ssh runs it. Raises GridwrightError where the node is not up.
        """
        from gridwright.providers import provider_of

        here = self._here
        if here is None and (grids := provider_of(self.spec).on_this_machine) is not None:
            here = grids.named(self.spec.name)
        if here is not None and here.enter is not None:
            return here.enter(node, command)
        terminal = "-t" if sys.stdin.isatty() else "-T"
        return subprocess.call(self.head.ssh([terminal, "--", node, for_remote_shell(command)]))

    def prepared(self, nodes: Sequence[GridNode]) -> list[GridNode]:
        """These nodes, ready for a launcher; those that cannot be made so are absent, and say why."""
        if not self.launches_by_ssh:
            return list(nodes)
        pythons, losses = self._pythons.of([node.name for node in nodes if node.absent is None])
        return [
            node
            if node.absent is not None or node.name in pythons
            else replace(node, absent=losses.get(node.name, SILENT))
            for node in nodes
        ]

    def causes(self) -> OutageCauses:
        """Who says later why nodes went silent: machines, head node, scheduler and nodes are asked.

        Raises GridwrightError where the head node is not there.
        """
        from gridwright.grid.outages import OutageCauses

        return OutageCauses(self)

    @property
    def launches_by_ssh(self) -> bool:
        """Whether programs are started through ssh: there is no queue, or it is out of sight from here."""
        return not self.has_queue or not self.head.sees_state

    def launcher(self, nodes: Sequence[GridNode]) -> NodeLauncher:
        """What starts a program on each of these prepared nodes, and keeps an eye on it."""
        from gridwright.grid.launching import SchedulerLauncher, SshLauncher

        if self.launches_by_ssh:
            names = [node.name for node in nodes if node.absent is None]
            return SshLauncher(self.head, self._pythons.of(names)[0], lambda: self._port)
        return SchedulerLauncher(
            self.scheduler,
            directory="/",
            environment={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            cores={node.name: node.cores for node in nodes if node.cores},
        )

    def listen(self) -> tuple[Listener, str]:
        """A TCP socket that listens, and the address that nodes reach it at. Raises GridwrightError."""
        listener, host = self.head.listen()
        self._port = listener.getsockname()[1]
        return listener, host


_NOW = "gridwright stop --now stops all the same"


def refuse_busy(spec: GridSpec) -> None:
    """Raise GridwrightError (ENVIRONMENT) where nodes run jobs, or where nobody tells whether they do."""
    grid = Grid.open(spec)
    if not grid.has_queue:
        return
    try:
        states = grid.states
    except GridwrightError as error:
        problem = Problem(
            "nobody tells whether jobs run on this grid",
            where=str(spec.file) if spec.file else None,
            remedy=f"mend what follows; or {_NOW}",
        )
        raise GridwrightError(problem, *error.problems, status=error.status) from error
    busy = [state for state in states if state.free_cores < state.cores]
    if busy:
        cores = sum(each.cores - each.free_cores for each in busy)
        raise environment_error(
            f"jobs use {cores} cores on {fold_hosts([each.name for each in busy])}",
            where=f"grid {spec.name}",
            remedy=f"wait until they have ended (gridwright jobs shows them); or {_NOW}, and they end with "
            "their nodes",
        )
