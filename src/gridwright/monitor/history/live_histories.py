"""Histories of nodes that keep none: they are sampled from here, for as long as somebody watches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from gridwright.beneath import remove_tree
from gridwright.monitor.frame import Frame
from gridwright.monitor.history.places import history_file
from gridwright.monitor.history.questions import NodeCourse, RangeQuestion
from gridwright.monitor.history.steady import SteadyWriter
from gridwright.monitor.history.stored import StoredHistories
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.readings import Request
from gridwright.monitor.streams import NodeStreams
from gridwright.own_directories import temporary_directory

LOOK_S = 0.25
"""How often it is looked for new samples."""
_LOG = logging.getLogger("gridwright.monitor")


class LiveHistories:
    """Samples nodes by these commands (see `gathering.commands_of`) until it is closed.

    What it has is in a directory of its own, which goes with it. Each node's clock counts.
    """

    def __init__(self, commands: Mapping[str, Sequence[str]], directories: Sequence[str] = ()) -> None:
        self._directory = temporary_directory("gridwright-history-")
        files = {name: history_file(self._directory, name) for name in commands}
        self._stored = StoredHistories(files)
        self._writers = {name: SteadyWriter(path, _LOG.warning) for name, path in files.items()}
        self._streams = NodeStreams(commands, Request(1.0, 0, tuple(directories)))
        self._absent = dict.fromkeys(commands, "")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live histories", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all samplers, and remove what they left."""
        self._ended.set()
        self._thread.join(2 * LOOK_S)
        self._streams.close()
        for writer in self._writers.values():
            writer.close()
        remove_tree(self._directory)

    @property
    def absent(self) -> dict[str, str]:
        """Nodes that give no samples now, and why."""
        return {name: why for name, why in self._absent.items() if why}

    def nodes(self) -> list[str]:
        """Names of all nodes that are asked."""
        return self._stored.nodes()

    def courses(self, question: RangeQuestion) -> list[NodeCourse]:
        """One answer for each node."""
        return self._stored.courses(question)

    def frame(self, at_s: float, seconds: float, libraries: Sequence[WatchedLibrary] = ()) -> Frame:
        """The picture of the `seconds` that ended at `at_s`, as `top` would have shown it."""
        return self._stored.frame(at_s, seconds, libraries)

    def reach(self) -> tuple[float, float] | None:
        """The first and the last time that any node knows of; None where there is no history."""
        return self._stored.reach()

    def _run(self) -> None:
        last: dict[str, float] = {}
        while not self._ended.wait(LOOK_S):
            for each in self._streams.read():
                self._absent[each.node] = each.absent
                for snapshot in (each.before, each.after):
                    if snapshot is not None and snapshot.at_s != last.get(each.node):
                        last[each.node] = snapshot.at_s
                        self._writers[each.node].add(snapshot)
