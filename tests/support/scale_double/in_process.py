"""The administration with the double in place of its commands."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from gridwright.filesystems.scale.administration.command import Administration
from tests.support.scale_double.cluster import Cluster
from tests.support.scale_double.command import answer


class InProcess(Administration):
    """Commands of a cluster that is a value of this process; waiting is no waiting."""

    def __init__(self, cluster: Cluster, pause: Callable[[float], None] = lambda _: None) -> None:
        seconds = itertools.count()
        super().__init__(pause=pause, clock=lambda: float(next(seconds)), active_s=0)
        self.cluster = cluster

    def _run(self, argv: Sequence[str], limit_s: float) -> tuple[int, str, str]:
        return answer(self.cluster, Path(argv[0]).name, argv[1:])
