"""Lustre's parameters as the files that they are on a node: found once, read without a process.

`lctl get_param a.b.c` reads the file a/b/c below one of three trees (lctl get_param is `lustre_param` of
lustre/utils/lustre_param.c); each release has moved some of them from one tree to another.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from gridwright import _native
from gridwright.filesystems.lustre_client.stats import Row, Stats, cut_figures

TREES = ("sys/fs/lustre", "sys/kernel/debug/lustre", "proc/fs/lustre")
LOOK_S = 10.0
"""How long what was found is taken as all there is: targets come and go, and a look lists directories."""


@dataclass(slots=True)
class ParameterFiles:
    """The parameters of the node whose files lie below `root`."""

    root: Path
    _found: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """By pattern: the name of each parameter, and its file."""
    _until: float = 0.0

    def find(self, pattern: str) -> list[tuple[str, str]]:
        """The parameters whose name a pattern such as `osc.*.stats` fits, each with its path, in order.

        A star stands for one part of a name. Where two trees have one, the first counts.
        """
        now = time.monotonic()
        if now >= self._until:
            self._found.clear()
            self._until = now + LOOK_S
        known = self._found.get(pattern)
        if known is None:
            found: dict[str, str] = {}
            for tree in TREES:
                for name, path in _below(self.root / tree, pattern):
                    found.setdefault(name, path)
            # Another thread may look at the same time, where one hangs.
            known = self._found[pattern] = sorted(found.items())
        return known

    def texts(self, pattern: str) -> dict[str, str]:
        """What these parameters say; without those that cannot be read."""
        found = self.find(pattern)
        texts = _native.file_texts([path for _, path in found])
        return {name: text for (name, _), text in zip(found, texts, strict=True) if text is not None}

    def stats(self, pattern: str, wanted: Sequence[str] = ()) -> dict[str, Stats]:
        """The statistics of these parameters, all or the wanted operations; without what cannot be read.

        Raises GridwrightError (status ENVIRONMENT) where they were read without root, and figures are cut.
        """
        found = self.find(pattern)
        told = {}
        rows = _native.lustre_stats([path for _, path in found], wanted)
        for (name, _), each in zip(found, rows, strict=True):
            if each is not None:
                snapshot_s, start_s, operations, cut = each
                if cut:
                    raise cut_figures()
                told[name] = Stats(snapshot_s, start_s, _rows(operations))
        return told


def _rows(rows: Sequence[tuple[str, int, int]]) -> Mapping[str, Row]:
    return {name: Row(samples, "", sum=total) for name, samples, total in rows}


def _below(tree: Path, pattern: str) -> Iterator[tuple[str, str]]:
    """Only the part of a pattern with a star lists a directory: what has no star is there or not."""
    found = [("", str(tree))]
    for part in pattern.split("."):
        found = [
            (f"{name}.{each}" if name else each, f"{path}/{each}")
            for name, path in found
            for each in (_names(path, part) if "*" in part else [part])
        ]
    return ((name, path) for name, path in found if os.path.exists(path))  # noqa: PTH110 - hundreds of them


def _names(directory: str, pattern: str) -> list[str]:
    try:
        return [name for name in os.listdir(directory) if fnmatchcase(name, pattern)]  # noqa: PTH208
    except OSError:
        return []
