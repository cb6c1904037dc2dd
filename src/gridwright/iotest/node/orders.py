"""Carries out the coordinator's orders on a library, one by one, on a node of a test.

`gridwright.iotest.messages` declares them. A library that fails is answered by a `Failed`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gridwright.commands import run_here
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.filesystems.mounts import LibraryMount
from gridwright.interference.presence import Presence
from gridwright.interference.watch import LoadWatch
from gridwright.iotest import failures
from gridwright.iotest.client_view import ClientView
from gridwright.iotest.drive import Stalled
from gridwright.iotest.library_facts import describe_library, tidied
from gridwright.iotest.messages import (
    Answer,
    Close,
    Closed,
    CommandRan,
    Failed,
    KeptSet,
    Leave,
    Numbered,
    Open,
    Opened,
    PhaseEnded,
    Prepare,
    Prepared,
    Removing,
    RunCommand,
    RunPhase,
    See,
    Seen,
    Share,
    Shared,
    Tidied,
    TidyAfter,
)
from gridwright.iotest.node.connection import CoordinatorGone
from gridwright.iotest.node.link import NodeLink
from gridwright.iotest.node.phase import NodePhase
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.scratch import Scratch, leftovers, remove_owned
from gridwright.iotest.space import look
from gridwright.iotest.surroundings import announce, watch_over


class NodeTest:
    """Carries out orders; `serve` returns when the coordinator is done or gone."""

    def __init__(self, node: str, link: NodeLink, stop: threading.Event, token: str = "") -> None:
        """`token` is among the arguments of the workers of all nodes: some may run beside this one."""
        self._node = node
        self._token = token
        self._presence = Presence()
        self._watch: LoadWatch
        self._link = link
        self._stop = stop
        self._target: LibraryTarget
        self._options: IotestOptions
        self._mount: LibraryMount
        self._client: ClientView
        self._run = self._name = ""
        self._scratch: Scratch | None = None
        self._handlers: dict[type[Numbered], Callable[[Any], Answer]] = {
            Open: self._open,
            Prepare: self._prepare,
            RunCommand: self._run_command,
            See: self._see,
            Share: self._share,
            RunPhase: self._phase,
            Close: self._close,
            TidyAfter: self._tidy,
        }

    def serve(self) -> None:
        """Carry out orders until there are no more, then leave nothing behind."""
        try:
            while (order := self._link.orders.get()) is not None and not isinstance(order, Leave):
                answer = self._carry_out(order)
                self._link.send(replace(answer, re=order.id))
        except CoordinatorGone:
            pass
        finally:
            self._abandon()

    def _carry_out(self, order: Numbered) -> Answer:
        try:
            return self._handlers[type(order)](order)
        except Stalled as stalled:
            problem = failures.stalled(
                stalled.seconds,
                library=self._target.library,
                path=self._target.path,
                op=order.op if isinstance(order, RunPhase) else "",
                detail=self._client.unreached(),
            )
            if stalled.hung:
                # Its threads hang in the kernel: nothing that waits for them would end.
                self._link.send(Failed(problem, hung=True, re=order.id))
                os._exit(ExitStatus.ENVIRONMENT)
            return Failed(problem)
        except OSError as error:
            doing = {Close: "removing the test's files", RunPhase: "starting threads"}
            return Failed(
                failures.of_os_error(
                    error,
                    library=self._target.library,
                    path=self._target.path,
                    doing=doing.get(type(order), "preparing the test"),
                )
            )

    def _open(self, order: Open) -> Opened:
        self._target, self._options = order.target, order.options
        self._run, self._name = order.run, order.name
        self._mount, remarks = describe_library(self._target)
        self._client = ClientView.of(self._mount)
        path = Path(self._target.path)
        return Opened(
            device=self._mount.to_record(),
            memory_backed=self._mount.memory_backed,
            room=look(path, self._mount, self._options),
            kept=self._kept(path),
            findings=[*remarks, *tidied(self._target)],
        )

    def _kept(self, path: Path) -> KeptSet | None:
        """The newest kept set that this node wrote."""
        for left in leftovers(path):
            if left.kept and left.node == self._node:
                return KeptSet(str(left.directory), left.bytes, left.kept)
        return None

    def _prepare(self, _order: Prepare) -> Prepared:
        path = Path(self._target.path)
        try:
            self._scratch = Scratch.create(path, run=self._run, node=self._node)
        except OSError as error:
            # The library is what the user knows; the directory in it was never there.
            error.filename = str(path)
            raise
        directory = self._scratch.directory
        announce(self._presence, path, directory, run=self._name, token=self._run)
        tokens = [self._token] if self._token else []
        self._watch = watch_over(self._mount, self._presence, tokens=tokens)
        return Prepared(str(directory))

    def _run_command(self, order: RunCommand) -> Answer:
        try:
            done = run_here(order.command, timeout_s=order.timeout_s, stop=self._stop.is_set)
        except GridwrightError as error:
            return Failed(error.problems[0])
        told = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        return CommandRan(done.status, *told)

    def _see(self, order: See) -> Seen:
        deadline = time.monotonic() + order.seconds
        seen = [False]
        while not self._stop.is_set():
            seen = [os.path.lexists(path) for path in order.paths]
            if all(seen) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        return Seen(seen)

    def _share(self, order: Share) -> Shared:
        if self._scratch is not None:
            self._scratch.make_shared(order.name, instead_of=order.instead_of)
        return Shared()

    def _phase(self, order: RunPhase) -> PhaseEnded:
        phase = NodePhase(order, self._options, self._link, self._stop)
        driven = phase.run(self._mount.device, self._watch, self._client)
        return PhaseEnded(driven.outcome, driven.load)

    def _tidy(self, order: TidyAfter) -> Tidied:
        removed = remove_owned(Path(self._target.path), self._run, order.nodes)
        return Tidied([str(directory) for directory in removed])

    def _close(self, order: Close) -> Closed:
        self._presence.end(kept=order.kept is not None)
        scratch, self._scratch = self._scratch, None
        if scratch is not None and order.kept is not None:
            scratch.keep(order.kept)
        elif scratch is not None:
            scratch.remove(lambda: self._link.send(Removing(re=order.id)))
        return Closed()

    def _abandon(self) -> None:
        """Remove what is left, if the coordinator went away before it said so."""
        self._presence.end()
        scratch, self._scratch = self._scratch, None
        if scratch is not None:
            scratch.remove(lambda: None)
