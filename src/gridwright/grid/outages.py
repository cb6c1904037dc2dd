"""Finds out why nodes of a grid went silent: what is wrong first, and what that explains.

Machines are asked of their provider, then the head node, the scheduler, and the nodes themselves. Each look
has a limit of time of its own: where it is not known who is silent, somebody is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from gridwright.errors import GridwrightError
from gridwright.grid.nodes import on_nodes
from gridwright.schedulers import scheduler_kind
from gridwright.spec.hosts import fold_hosts

if TYPE_CHECKING:
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.spec.model import GridSpec

LOOK_S = 6.0
"""For each of three looks: a sound machine answers within a fraction of a second."""
_MOST_PROBED = 8
"""Of many silent nodes a few are asked: what they have in common shows in these."""
_BOOT, _FIRST = "/proc/sys/kernel/random/boot_id", "/proc/1/stat"
_NO_SSH = 255
"""Exit status of an ssh that did not get there (ssh(1))."""
Outcome = TypeVar("Outcome")


class GridView(Protocol):
    """The part of a Grid that the search for an outage uses."""

    @property
    def spec(self) -> GridSpec:
        """Its spec."""

    @property
    def head(self) -> HeadNode:
        """Its head node. Raises GridwrightError."""

    @property
    def has_queue(self) -> bool:
        """Whether its scheduler knows the nodes."""


@dataclass(frozen=True, slots=True)
class OutageCause:
    """Something that is wrong, and what it explains."""

    what: str
    """As a sentence: "node controller is powered off"."""
    remedy: str
    nodes: frozenset[str] = frozenset()
    """Nodes whose silence it explains."""
    reaches_them: bool = False
    """Whether it is what these are reached through, and not they themselves."""
    certain: bool = False
    """Whether it alone tells that these nodes are lost, however long they have been silent."""
    of_node_alone: bool = False
    """Whether nothing is wrong but with the test's own process on these nodes."""
    filesystems: tuple[str, ...] = ()
    """File systems whose data it serves."""


class OutageCauses:
    """Why nodes of a grid went silent, asked by somebody who has known it since before."""

    def __init__(self, grid: GridView) -> None:
        """Notes when the head node was started. Raises GridwrightError where it is not there."""
        self._grid = grid
        self._life = _life_of_head(grid)

    def __call__(self, silent: Collection[str]) -> list[OutageCause]:
        """See `causes`."""
        return causes(self._grid, silent, self._life)


def causes(grid: GridView, silent: Collection[str], life: str | None = None) -> list[OutageCause]:
    """What is wrong with the grid, the causes before what they hit; bounded by four times LOOK_S.

    `silent` are nodes of which nothing is heard; where there are none, only servers are looked at. `life`
    tells one start of the head node from another: connections through it do not survive that.
    """
    found = _of_machines(grid, silent)
    if not silent or any(each.reaches_them for each in found):
        return found
    head = _bounded(lambda: _life_of_head(grid))
    if isinstance(head, _Answer) and life not in (None, head.value):
        again = f"node {grid.head.name} was restarted meanwhile"
        return [
            OutageCause(again, "run the test again", frozenset(silent), reaches_them=True, certain=True),
            *found,
        ]
    if not isinstance(head, _Answer):
        return [
            OutageCause(
                _late(head, "the head node"), "see the head node", frozenset(silent), reaches_them=True
            ),
            *found,
        ]
    unexplained = [node for node in silent if not any(node in each.nodes for each in found)]
    if unexplained:
        found += _of_scheduler(grid, unexplained)
        unexplained = [node for node in unexplained if not any(node in each.nodes for each in found)]
    return found + (_of_nodes(grid.head, unexplained[:_MOST_PROBED]) if unexplained else [])


@dataclass(frozen=True, slots=True)
class _Answer(Generic[Outcome]):
    value: Outcome


def _bounded(look: Callable[[], Outcome]) -> _Answer[Outcome] | GridwrightError | None:
    """What a look found, how it failed, or None where it took too long: it goes on then, and is not heard."""
    ended: list[_Answer[Outcome] | GridwrightError] = []

    def work() -> None:
        try:
            ended.append(_Answer(look()))
        except GridwrightError as error:
            ended.append(error)

    # A look that hangs must not keep the process from ending.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LOOK_S)
    return ended[0] if ended else None


def _late(failed: GridwrightError | None, who: str) -> str:
    return failed.problems[0].what if failed is not None else f"{who} has not answered for {LOOK_S:.0f} s"


def _of_machines(grid: GridView, silent: Collection[str]) -> list[OutageCause]:
    """What the provider knows, of what is silent or serves what nodes need."""
    from gridwright.providers import provider_of

    grids = provider_of(grid.spec).on_this_machine
    known = _bounded(lambda: grids.outages(grid.spec) if grids is not None else ())
    found = []
    for outage in known.value if isinstance(known, _Answer) else ():
        nodes = (
            frozenset(silent)
            if outage.is_head
            else frozenset(silent) & {outage.machine.removeprefix("node ")}
        )
        if nodes or outage.serves:
            what = f"{outage.machine} {outage.state}"
            found.append(
                OutageCause(
                    what,
                    outage.remedy,
                    nodes,
                    reaches_them=outage.is_head,
                    certain=outage.is_final,
                    filesystems=outage.serves,
                )
            )
    return found


def _life_of_head(grid: GridView) -> str:
    """What is another after each start of the head node: the boot, and when its first process began.

    The latter is field 22 of proc(5)'s stat, counted behind the name, which may have blanks. A container is
    started anew while the kernel goes on. Raises GridwrightError.
    """
    answer = grid.head.run(["cat", _BOOT, _FIRST], timeout_s=LOOK_S)
    boot, _, stat = answer.stdout.decode(errors="replace").partition("\n")
    fields = stat.rpartition(")")[2].split()
    return f"{boot} {fields[19] if len(fields) > 19 else ''}"


def _of_scheduler(grid: GridView, silent: Collection[str]) -> list[OutageCause]:
    """What the scheduler says of nodes that it has as down."""
    if not grid.has_queue:
        return []
    states = _bounded(lambda: scheduler_kind(grid.spec.scheduler).nodes(grid.spec, grid.head))
    if not isinstance(states, _Answer):
        return [
            OutageCause(
                f"the scheduler does not answer: {_late(states, 'it')}", "see whether its service runs"
            )
        ]
    return [
        OutageCause(
            f"its scheduler says that node {state.name} is {state.standing}",
            "see the node's own log and console",
            frozenset([state.name]),
        )
        for state in states.value
        if state.name in silent and not state.up
    ]


def _of_nodes(head: HeadNode, silent: Collection[str]) -> list[OutageCause]:
    """Whether the nodes answer the head node by ssh."""
    answers = _bounded(lambda: on_nodes(head, silent, ["true"], timeout_s=LOOK_S - 1))
    if not isinstance(answers, _Answer):
        return []
    away = frozenset(n for n in silent if (a := answers.value.get(n)) is None or a.status == _NO_SSH)
    there = frozenset(silent) - away
    found = []
    if away:
        are = "do not answer" if len(away) > 1 else "does not answer"
        found.append(
            OutageCause(
                f"{fold_hosts(sorted(away))} {are} {head.name} by ssh either: down, or cut off",
                "see the console of the node, and the network between it and the head node",
                away,
            )
        )
    if there:
        found.append(
            OutageCause(
                f"{fold_hosts(sorted(there))} can be reached by ssh: the test there is gone or hangs",
                "see the log of its job or ssh in the run directory, and dmesg of the node",
                there,
                of_node_alone=True,
            )
        )
    return found
