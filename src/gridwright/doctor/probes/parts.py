"""The parts of nodes in trials of pairs: one program on each node, for all of its trials.

Connecting and starting it costs more than a trial: on two cores 0.3 s of CPU time against 0.05 s.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from gridwright.doctor.probes.channel import PROBES, Channel

Attach = Callable[[str, Sequence[str]], Sequence[str]]
"""The command line that runs a command on a node from here, with its streams."""


class ProbeParts:
    """Opens the part of a node when it is first needed, and ends it after its last trial."""

    def __init__(self, attach: Attach, trials: Mapping[str, int]) -> None:
        """`trials` has in how many each node takes part. No node may be in two at the same time."""
        self._attach = attach
        self._left = dict(trials)
        self._open: dict[str, Channel] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in list(self._open):
            self._end(node)

    @contextmanager
    def both(self, nodes: tuple[str, str]) -> Iterator[tuple[Channel, Channel]]:
        """The parts of two nodes, ready for a trial. Raises NoAnswer.

        After a trial that failed both are ended: one may owe an answer to it.
        """
        try:
            # Both start at the same time.
            one, two = (self._part(node) for node in nodes)
            for part in (one, two):
                part.ready()
            yield one, two
        except BaseException:
            for node in nodes:
                self._end(node)
            raise
        finally:
            for node in nodes:
                self._used(node)

    def _part(self, node: str) -> Channel:
        with self._lock:
            part = self._open.get(node)
        if part is None:
            part = Channel(node, self._attach(node, PROBES))
            with self._lock:
                self._open[node] = part
        return part

    def _used(self, node: str) -> None:
        with self._lock:
            self._left[node] -= 1
            last = self._left[node] <= 0
        if last:
            self._end(node)

    def _end(self, node: str) -> None:
        with self._lock:
            part = self._open.pop(node, None)
        if part is not None:
            part.close()
