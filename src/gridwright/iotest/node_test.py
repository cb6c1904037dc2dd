"""What a node does in a test of several: carries out the coordinator's orders on a library, one by one.

Orders are messages with `do` and an `id`; each is answered by one with `re`, the same number:

`open` a library: what lies below, its room, a kept set · `prepare`: makes the scratch directory · `see`:
which of these paths are there · `share`: makes the file that all streams share · `phase`: see
`gridwright.iotest.node_phase` · `close`: removes or keeps the directory · `tidy`: removes those of nodes
that can do so no more. A library that fails is answered by a `problem`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from gridwright.errors import ExitStatus, Problem
from gridwright.filesystems.mounts import MountFacts
from gridwright.iotest import failures
from gridwright.iotest.drive import Stalled
from gridwright.iotest.library_facts import describe_library, tidied
from gridwright.iotest.node_connection import CoordinatorGone
from gridwright.iotest.node_link import NodeLink
from gridwright.iotest.node_phase import NodePhase, result_message
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.scratch import FileSet, Scratch, leftovers, remove_owned
from gridwright.iotest.space import look
from gridwright.iotest.wire import Message

_SEE_S = 5.0
"""How long a directory that another node made may stay unseen: clients of file systems cache directories."""


class NodeTest:
    """Carries out orders; `serve` returns when the coordinator is done or gone."""

    def __init__(self, node: str, link: NodeLink, stop: threading.Event) -> None:
        self._node = node
        self._link = link
        self._stop = stop
        self._target: LibraryTarget
        self._options: IotestOptions
        self._mount: MountFacts
        self._run = ""
        self._scratch: Scratch | None = None
        self._orders: dict[str, Callable[[Message], Message]] = {
            "open": self._open,
            "prepare": self._prepare,
            "see": self._see,
            "share": self._share,
            "phase": self._phase,
            "close": self._close,
            "tidy": self._tidy,
        }

    def serve(self) -> None:
        """Carry out orders until there are no more, then leave nothing behind."""
        try:
            while (order := self._link.orders.get()) is not None and order["do"] != "leave":
                answer = self._carry_out(order)
                self._link.send({"re": order["id"]} | answer)
        except CoordinatorGone:
            pass
        finally:
            self._abandon()

    def _carry_out(self, order: Message) -> Message:
        try:
            return self._orders[order["do"]](order)
        except Stalled as stalled:
            problem = Problem(
                what=(
                    f"library {self._target.library}: the file system does not answer: no byte moved for "
                    f"{stalled.seconds:.0f} s in phase {order['op']}"
                ),
                where=self._target.path,
                remedy="check the mount and its servers (`mount`, `dmesg`); the test may have left files",
            )
            if stalled.hung:
                # Its threads hang in the kernel: nothing that waits for them would end.
                self._link.send({"re": order["id"]} | _problem(problem) | {"hung": True})
                os._exit(ExitStatus.ENVIRONMENT)
            return _problem(problem)
        except OSError as error:
            doing = {"close": "removing the test's files", "phase": "starting threads"}
            return _problem(
                failures.of_os_error(
                    error,
                    library=self._target.library,
                    path=self._target.path,
                    doing=doing.get(order["do"], "preparing the test"),
                )
            )

    def _open(self, order: Message) -> Message:
        self._target = LibraryTarget(**order["target"])
        self._options = IotestOptions.from_message(order["options"])
        self._run = order["run"]
        self._mount, remarks = describe_library(self._target)
        path = Path(self._target.path)
        found = [*remarks, *tidied(self._target)]
        return {
            "say": "opened",
            "device": self._mount.to_record(),
            "memory_backed": self._mount.memory_backed,
            "room": asdict(look(path, self._mount, self._options)),
            "kept": self._kept(path),
            "findings": [asdict(finding) for finding in found],
        }

    def _kept(self, path: Path) -> Message | None:
        """The newest kept set that this node wrote."""
        for left in leftovers(path):
            if left.kept and left.node == self._node:
                return {"directory": str(left.directory), "bytes": left.bytes} | asdict(left.kept)
        return None

    def _prepare(self, _order: Message) -> Message:
        path = Path(self._target.path)
        try:
            self._scratch = Scratch.create(path, run=self._run, node=self._node)
        except OSError as error:
            # The library is what the user knows; the directory in it was never there.
            error.filename = str(path)
            raise
        return {"say": "prepared", "directory": str(self._scratch.directory)}

    def _see(self, order: Message) -> Message:
        deadline = time.monotonic() + order.get("seconds", _SEE_S)
        seen = [False]
        while not self._stop.is_set():
            seen = [os.path.lexists(path) for path in order["paths"]]
            if all(seen) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        return {"say": "seen", "seen": seen}

    def _share(self, order: Message) -> Message:
        if self._scratch is not None:
            self._scratch.make_shared(order["name"], instead_of=order["instead_of"])
        return {"say": "shared"}

    def _phase(self, order: Message) -> Message:
        driven = NodePhase(order, self._options, self._link, self._stop).run(self._mount.device)
        return result_message(order, driven)

    def _close(self, order: Message) -> Message:
        scratch, self._scratch = self._scratch, None
        kept = order.get("kept")
        if scratch is not None and kept is not None:
            scratch.keep(FileSet(**kept | {"file_bytes": tuple(kept["file_bytes"])}))
        elif scratch is not None:
            scratch.remove(lambda: self._link.send({"say": "removing", "re": order["id"]}))
        return {"say": "closed"}

    def _tidy(self, order: Message) -> Message:
        removed = remove_owned(Path(self._target.path), self._run, order["nodes"])
        return {"say": "tidied", "removed": [str(directory) for directory in removed]}

    def _abandon(self) -> None:
        """Remove what is left, if the coordinator went away before it said so."""
        scratch, self._scratch = self._scratch, None
        if scratch is not None:
            scratch.remove(lambda: None)


def _problem(problem: Problem) -> Message:
    return {"say": "problem", "problem": asdict(problem), "hung": False}
