"""Lays launches side by side: the fewest streams in which none runs beside another."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from gridwright.runs.launch_record import LaunchRecord

_STAMP_RESOLUTION_S = 1.0


def assign_streams(launches: Sequence[LaunchRecord]) -> list[LaunchRecord]:
    """Give each launch a stream, the first that is free; keep their order.

    Logs and schedulers write times in whole seconds, so less than a second in common does not count. A
    launch without times goes to stream 1.
    """
    spans = [
        (launch.started, launch.ended, index)
        for index, launch in enumerate(launches)
        if launch.started is not None and launch.ended is not None
    ]
    streams = [1] * len(launches)
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    for started, ended, index in sorted(spans):
        while busy and busy[0][0] <= started:
            heapq.heappush(free, heapq.heappop(busy)[1])
        stream = heapq.heappop(free) if free else len(busy) + 1
        heapq.heappush(busy, (ended - _STAMP_RESOLUTION_S, stream))
        streams[index] = stream
    return [replace(launch, stream=stream) for launch, stream in zip(launches, streams, strict=True)]
