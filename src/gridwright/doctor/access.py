"""How the doctor reaches the nodes of a grid, and which machine it asks about a file system."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import resources

from gridwright.commands import CommandOutput, CommandSilent
from gridwright.doctor.probes.pairs import Attach
from gridwright.errors import GridwrightError
from gridwright.filesystems import kind_of
from gridwright.filesystems.health import Run
from gridwright.filesystems.mounts import Mount, mount_of, parse_mounts, read_mounts
from gridwright.grid.grid import Grid
from gridwright.grid.nodes import Promised, names_in_set
from gridwright.schedulers.scheduler import SettingComparison
from gridwright.spec.filesystem import FileSystem
from gridwright.state_parts import PARTS

_LOOK = ("ansible", "roles", "state", "files", "make_state.sh")
"""What set-up makes the state directory with; it can only look, too."""
_STATE_S = 20.0
_WORDS = 3
"""Of a line of it: what it is, which path, and in words."""
Reach = Callable[[Sequence[str], bytes, float], Mapping[str, CommandOutput | None]]
"""Runs a command with an input on all nodes, each within some seconds; None where one is silent."""


@dataclass(frozen=True, slots=True)
class NodeAccess:
    """How the nodes to be looked at are reached."""

    reach: Reach
    run: Run
    """On the head node."""
    down: Mapping[str, str] = field(default_factory=dict)
    """Nodes that the scheduler gives no jobs, and its word for why."""
    attach: Attach | None = None
    """The command line that runs a command on a node from here; None: no trials of pairs."""
    promised: Mapping[str, Promised] = field(default_factory=dict)
    """What the scheduler takes each node for."""
    scheduler_silent: str | None = None
    """Why it says nothing, where it does not answer."""
    asleep: Sequence[str] = ()
    """Nodes that are off until a job waits for them: these are named, and not asked."""
    scheduler_settings: Sequence[SettingComparison] = ()
    """What the scheduler is set to, held against what is recommended."""
    state_faults: Sequence[str] | None = None
    """What of the state directory is another user's, as `STATE/slurm/alice: it belongs to mallory`; None: not
    looked at."""
    run_on: RunOn | None = None
    """On a machine that has mounted a file system; None: on the head node."""
    names: Sequence[str] = ()
    """All that are asked."""


def access_to(
    grid: Grid, chosen: str | None = None, *, by_jobs: bool = True, settings: bool = True
) -> NodeAccess | None:
    """How to look at every node of a grid, or at those of a set such as `compute[1-4]`.

    None where this machine is looked at. Without `by_jobs` no job is started where ssh reaches no node, and
    without `settings` the scheduler is not asked what it is set to.
    Raises GridwrightError: where the grid is not up (ENVIRONMENT), and for nodes it does not have (INPUT).
    """
    if grid.is_this_machine:
        return None
    known = grid.known()
    every = [*known.names, *grid.spec.machine_names()]
    names = every if chosen is None else names_in_set(every, chosen, "--nodes")
    asleep = [name for name in names if name in set(known.asleep)]
    names = [name for name in names if name not in asleep]
    return NodeAccess(
        partial(_reach, grid, names, by_jobs),
        grid.head.run,
        {name: known.down[name] for name in names if name in known.down},
        grid.attach,
        known.promised,
        known.scheduler_silent,
        asleep,
        () if known.scheduler_silent or not settings else grid.compared_settings(),
        _state_faults(grid) if settings else None,
        MountingNodes(grid).run_on,
        names,
    )


def _state_faults(grid: Grid) -> Sequence[str] | None:
    """Where the state directory or a part of it is not root's, and who took the directory of another user."""
    if not grid.has_queue or grid.spec.scheduler.runs_on_one_machine:
        return None
    text = resources.files("gridwright.grid").joinpath("trusted.sh").read_text("utf-8")
    text += resources.files("gridwright.setup").joinpath(*_LOOK).read_text("utf-8")
    with suppress(GridwrightError):
        answer = grid.head.run(
            ["sh", "-s", str(grid.state), "", "look", *PARTS], stdin=text.encode(), timeout_s=_STATE_S
        )
        lines = [line.split("\t") for line in answer.stdout.decode(errors="replace").splitlines()]
        return list(_in_words(words for words in lines if len(words) == _WORDS))
    return None


def _in_words(lines: Iterable[Sequence[str]]) -> Iterator[str]:
    """What the script says, as faults: what is missing of one directory is one."""
    missing: dict[str, list[str]] = {}
    for _, place, what in lines:
        if what.startswith("none -> "):
            missing.setdefault(place.rpartition("/")[0], []).append(place.rpartition("/")[2])
        else:
            yield f"{place}: {what}"
    for directory, names in missing.items():
        yield f"{directory} lacks {', '.join(names)}, which set-up makes"


def _reach(
    grid: Grid, names: Sequence[str], by_jobs: bool, command: Sequence[str], stdin: bytes, timeout_s: float
) -> Mapping[str, CommandOutput | None]:
    return grid.ask(names, command, stdin=stdin, timeout_s=timeout_s, by_jobs=by_jobs)


RunOn = Callable[[FileSystem], Run]
"""What runs commands where a file system is mounted."""
MOST_ASKED = 32
"""Nodes asked at once whether they have mounted it: on a grid that works nearly any has."""


class MountingNodes:
    """Finds a machine of a grid for each file system that has mounted it."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._found: dict[str, Run] = {}

    def run_on(self, filesystem: FileSystem) -> Run:
        """The head node where it has mounted it, or no node has; else the first node that has.

        Raises GridwrightError (status ENVIRONMENT) where the head node is not there.
        """
        point = str(filesystem.path)
        if point not in self._found:
            self._found[point] = self._chosen(filesystem)
        return self._found[point]

    def _chosen(self, filesystem: FileSystem) -> Run:
        head, types = self._grid.head.run, kind_of(filesystem).kernel_types
        # A kind that may be shown as anything is asked on the head node.
        if not types or _is_there(read_mounts(head), filesystem, types):
            return head
        nodes = self._nodes()[:MOST_ASKED]
        answers = self._grid.ask(nodes, ["cat", "/proc/mounts"], timeout_s=10.0) if nodes else {}
        for node, answer in answers.items():
            mounts = parse_mounts(answer.stdout.decode(errors="replace")) if answer else []
            if _is_there(mounts, filesystem, types):
                return _OnNode(self._grid, node)
        return head

    def _nodes(self) -> Sequence[str]:
        """Nodes that are up, the first ones first; none where nobody says which there are."""
        try:
            return [node.name for node in self._grid.nodes() if node.absent is None]
        except GridwrightError:
            return []


def _is_there(mounts: Sequence[Mount], filesystem: FileSystem, types: Sequence[str]) -> bool:
    mount = mount_of(str(filesystem.path), mounts)
    # A server's own mounts are of the same type (Lustre: with the option svname), and hold no path of users.
    return mount is not None and mount.type in types and mount.point != "/" and mount.option("svname") is None


class _OnNode:
    """Runs commands on one node; this Python there is the node's own of the same version."""

    def __init__(self, grid: Grid, node: str) -> None:
        self._grid, self._node = grid, node

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        answer = self._grid.ask([self._node], command, timeout_s=timeout_s)[self._node]
        if answer is None:
            what = f"{self._node} has not answered for {timeout_s:.0f} s"
            raise CommandSilent(what, self._node, "see gridwright doctor")
        return answer
