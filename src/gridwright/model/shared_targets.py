"""Libraries whose files lie on the same targets: what these carry while all of them are busy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gridwright.filesystems.allocation import LibraryStreams, load_of_fullest
from gridwright.filesystems.layout import LayoutChoice
from gridwright.filesystems.resources import Contribution, Operation
from gridwright.model.alike_nodes import AlikeNodes
from gridwright.spec.library import Library


@dataclass(frozen=True, slots=True)
class SharedTargets:
    """Libraries on the targets of one file system, or of one pool of it, and what their streams need."""

    filesystem: str
    libraries: tuple[LibraryStreams, ...]
    targets: Contribution

    def share(self, operation: Operation) -> float:
        """The part of what all require that targets carry in 95 % of placements; above 1 they have more."""
        asked = load_of_fullest(self.libraries, self.targets.targets, self.targets.space)
        return self.targets.target_bytes_per_s[operation] / asked

    def with_stripes(self, library: str, stripes: int) -> SharedTargets:
        """The same with other files of one library."""
        others = (
            replace(each, stripes=stripes) if each.library == library else each for each in self.libraries
        )
        return replace(self, libraries=tuple(others))

    @property
    def smallest_share(self) -> float:
        """That of the slower direction."""
        return min(self.share(operation) for operation in self.targets.target_bytes_per_s)


def shared_targets(
    libraries: Mapping[str, Library],
    layouts: Mapping[str, LayoutChoice],
    contributions: Mapping[str, Contribution],
    groups: Sequence[AlikeNodes],
    streams_per_node: int | None = None,
) -> Iterator[SharedTargets]:
    """For all targets of which something is known, the libraries there of which something is required.

    With so many streams a node: one per core by default. A library's requirement stays that of its cores.
    """
    streams = sum(group.streams(streams_per_node) * group.nodes for group in groups)
    cores = sum(group.cores for group in groups)
    found: dict[tuple[str, str | None], list[LibraryStreams]] = {}
    for name, choice in layouts.items():
        library = libraries[name]
        there = contributions[library.filesystem]
        if library.requires is None or not there.targets or not there.target_bytes_per_s:
            continue
        large = choice.layout.components[-1]
        required = float(library.requires.bytes_per_s) * cores / streams
        one = LibraryStreams(name, streams, large.stripe_count, required)
        found.setdefault((library.filesystem, large.pool), []).append(one)
    for (filesystem, _), sharing in found.items():
        yield SharedTargets(filesystem, tuple(sharing), contributions[filesystem])
