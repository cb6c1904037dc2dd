"""Layouts of files in a test on several nodes: each node runs what its kind of file system asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gridwright.commands import CommandOutput
from gridwright.errors import ExitStatus, Finding, GridwrightError
from gridwright.filesystems.health import Run
from gridwright.iotest.coordinator.members import Members
from gridwright.iotest.coordinator.remote_node import LibraryFailedThere, NodeFailed, RemoteNode
from gridwright.iotest.engine import StreamPlan
from gridwright.iotest.layouts import lay_out, seen
from gridwright.iotest.messages import CommandRan, RunCommand
from gridwright.iotest.tried_layout import TriedLayout
from gridwright.runs.iotest_events import LayoutSeen

_ANSWER_S = 10.0
"""For an answer to come, beyond the time that the command may take."""


async def lay_out_all(members: Members, layout: TriedLayout) -> None:
    """Have each node give its scratch directory the layout, before files are made in it.

    Raises GridwrightError where a file system refuses it, LibraryFailed and NodesFailed.
    """
    directories = {share.node: share.directory for share in members.shares_here}
    runs = {node.name: _runs_on(node) for node in members.here}
    refused: list[GridwrightError] = []

    async def set_on(node: RemoteNode) -> None:
        try:
            await asyncio.to_thread(lay_out, layout, runs[node.name], directories[node.name])
        except GridwrightError as error:
            # Raised when all have answered: a node is asked one thing at a time.
            refused.append(error)

    results = await members.coordinator.on_each(members.here, set_on)
    if members.stopped:
        return
    if refused:
        raise refused[0]
    failed = {name: result for name, result in results.items() if isinstance(result, NodeFailed)}
    await members.find_causes(failed)
    members.settle(failed)


async def seen_by(
    members: Members, node: RemoteNode, layout: TriedLayout, files: Sequence[StreamPlan], library: str
) -> list[LayoutSeen | Finding]:
    """The layout that a file of one node has; nothing where the node is lost meanwhile.

    Raises GridwrightError where it is not told, LibraryFailed and NodesFailed.
    """
    run = _runs_on(node)
    try:
        return await asyncio.to_thread(lambda: list(seen(layout, run, files, library)))
    except NodeFailed as failed:
        members.settle({node.name: failed})
    except GridwrightError:
        if not members.stopped:
            raise
    return []


def _runs_on(node: RemoteNode) -> Run:
    """Runs commands on a node; for threads beside the loop that serves it. Raises NodeFailed, too."""
    loop = asyncio.get_running_loop()

    def run(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        order = RunCommand(list(command), timeout_s)
        asked = node.ask(order, CommandRan, timeout_s + _ANSWER_S, f"running {command[0]}")
        try:
            answer = asyncio.run_coroutine_threadsafe(asked, loop).result()
        except LibraryFailedThere as failed:
            raise GridwrightError(failed.problem, status=ExitStatus.ENVIRONMENT) from failed
        return CommandOutput(answer.status, answer.stdout.encode(), answer.stderr.encode())

    return run
