"""Layouts of files: over which targets of a file system their bytes lie."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gridwright.errors import Problem
from gridwright.units import format_bytes

ALL = -1
"""As a stripe count: all targets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A part of a file and how it is striped; a plain layout has one, from the start to the end."""

    start: int = 0
    end: int | None = None
    """Where it ends, in bytes; None for the end of the file."""
    stripe_count: int = 1
    """Targets (objects where overstriped); -1 is all; 0 for data on the metadata server."""
    stripe_bytes: int | None = None
    """Bytes on one target before the next; None for the default (4 MiB since Lustre 2.16, 1 MiB before)."""
    pool: str | None = None
    on_metadata_server: bool = False
    overstriped: bool = False
    """More than one stripe on a target."""
    mirror: int = 0
    flags: tuple[str, ...] = ()
    """Such as init (it has objects) and stale (a mirror that is behind)."""
    osts: tuple[int, ...] = ()
    """Indices of the targets of its objects; none before it is first written."""

    @property
    def targets(self) -> int:
        """Over how many different targets it goes; what it will, where it has no objects yet; -1 is all."""
        return len(set(self.osts)) if self.osts else self.stripe_count

    @property
    def text(self) -> str:
        """It in words, such as `4 OSTs (stripes of 1 MiB) until 4 GiB`."""
        return _words(self, first=True)


@dataclass(frozen=True, slots=True)
class FileLayout:
    """A layout; of a directory it is what new files in it get."""

    components: tuple[Component, ...]
    is_default: bool = False
    """A directory that has none of its own: new files get that of the whole file system."""

    @property
    def mirrors(self) -> int:
        """How many copies it keeps."""
        return len({component.mirror for component in self.components})

    @property
    def is_progressive(self) -> bool:
        """Whether files are striped wider as they grow."""
        return len(self.components) > self.mirrors

    def component_at(self, offset: int) -> Component:
        """The component (of the first mirror) that holds a byte; the last one beyond the end of all."""
        first = self.components[0].mirror
        parts = [component for component in self.components if component.mirror == first]
        return next((part for part in parts if part.end is None or offset < part.end), parts[-1])

    def is_as(self, desired: FileLayout) -> bool:
        """Whether new files in a directory with this layout are laid out as is wanted.

        A stripe size counts where it is wanted, so that the servers' own is none.
        """
        return len(self.components) == len(desired.components) and all(
            _is_as(mine, theirs) for mine, theirs in zip(self.components, desired.components, strict=True)
        )

    def within(self, targets: int) -> FileLayout:
        """The same where there are no more targets: what goes over as many goes over all."""
        parts: list[Component] = []
        for each in self.components:
            if each.stripe_count >= targets and each.pool is None and not each.overstriped:
                each = replace(each, stripe_count=ALL)  # noqa: PLW2901
            if parts and replace(parts[-1], start=each.start, end=each.end) == each:
                each = replace(each, start=parts.pop().start)  # noqa: PLW2901
            parts.append(each)
        return replace(self, components=tuple(parts))

    @property
    def text(self) -> str:
        """The layout in words, such as `1 OST until 64 MiB, then 4 until 4 GiB, then all`."""
        mirrors: dict[int, list[Component]] = {}
        for component in self.components:
            mirrors.setdefault(component.mirror, []).append(component)
        said = (
            ", then ".join(_words(part, first=place == 0) for place, part in enumerate(parts))
            for parts in mirrors.values()
        )
        return "; mirrored: ".join(said) or "none"


def _is_as(component: Component, desired: Component) -> bool:
    same = (component.start, component.end, component.on_metadata_server) == (
        desired.start,
        desired.end,
        desired.on_metadata_server,
    )
    if not same or desired.on_metadata_server:
        return same
    if desired.stripe_bytes not in (None, component.stripe_bytes):
        return False
    return (component.stripe_count, component.overstriped, component.pool) == (
        desired.stripe_count,
        desired.overstriped,
        desired.pool,
    )


def _words(component: Component, *, first: bool) -> str:
    if component.on_metadata_server:
        where = "the metadata server"
    elif component.stripe_count == ALL:
        where = "all OSTs" if first else "all"
    elif first:
        unit = "stripe" if component.overstriped else "OST"
        where = f"{component.stripe_count} {unit}{'s' if component.stripe_count != 1 else ''}"
    else:
        where = f"{component.stripe_count}{' stripes' if component.overstriped else ''}"
    size = "" if component.stripe_bytes is None else f" (stripes of {format_bytes(component.stripe_bytes)})"
    pool = "" if component.pool is None else f" of pool {component.pool}"
    end = "" if component.end is None else f" until {format_bytes(component.end)}"
    return where + pool + size + end


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """The layout that the files of a library are to have, and why."""

    layout: FileLayout
    reason: str
    """A sentence for people, without a full stop."""
    stated: bool
    """Whether the grid spec says it; else the model chose."""


@dataclass(frozen=True, slots=True)
class LayoutProblem:
    """Something that is wrong with a layout, whoever wrote it and where."""

    what: str
    remedy: str
    component: int | None = None
    """Which component it is, from 0 on; None for the layout as a whole."""
    field: str = ""
    """What of the component it is, by its name in the grid spec, such as `until`."""

    @property
    def problem(self) -> Problem:
        """It, for people who wrote no grid spec: a component by its number from 1 on."""
        where = None if self.component is None else f"component {self.component + 1}"
        return Problem(self.what, where=where, remedy=self.remedy)
