"""Layouts of libraries in a grid: what is stated or chosen, what it does to streams, and what cannot be.

Nodes that are alike share routes to libraries; libraries whose files lie on the same targets share these.

Chooses over how many targets the files of a library are striped, where the grid spec leaves it open.

Wider files let one stream have more, and spread the load of all more evenly. They cost a metadata request
for each target and file when they are opened (an enqueue) and when their size is asked for (a glimpse): no
file is wider than its library needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gridwright.catalog import InstanceType, load_catalog
from gridwright.filesystems import kind_of
from gridwright.filesystems.allocation import LibraryStreams, TargetSpace, candidates, load_of_fullest, spread
from gridwright.filesystems.kind import Layouts
from gridwright.filesystems.layout import ALL, Component, FileLayout, LayoutChoice
from gridwright.filesystems.resources import Contribution, Operation, Route, striped
from gridwright.filesystems.site import ComputeNodes, Site
from gridwright.model.prediction import margin_of
from gridwright.spec.library import Library
from gridwright.spec.model import GridSpec
from gridwright.spec.warnings import peak_factor_of
from gridwright.units import format_rate


@dataclass(frozen=True, slots=True)
class AlikeNodes:
    """Nodes that run jobs, all alike. Memory in bytes; None where nobody says so.

    `contributions` has what each file system brings to these nodes, `routes` the way to each library; in it
    no library of which nothing is known. Resources of scope grid are the same for every group; where a grid
    has several groups, names of those of scope node begin with the group's.
    """

    name: str
    nodes: int
    cores_per_node: int
    memory_bytes_per_node: int | None
    instance: InstanceType | None
    contributions: Mapping[str, Contribution]
    routes: Mapping[str, Mapping[Operation, Route]]

    @property
    def cores(self) -> int:
        """Physical cores of all its nodes."""
        return self.nodes * self.cores_per_node

    def streams(self, per_node: int | None) -> int:
        """Streams on each node: as many as are asked for, else one per core."""
        return per_node or self.cores_per_node


def of_group(group: str, route: Route) -> Route:
    """The route with the names of what each node has of its own told apart from those of other groups."""
    uses = (
        replace(
            use,
            resource=replace(
                use.resource, name=f"{group}.{use.resource.name}", what=f"{use.resource.what}, nodes {group}"
            ),
        )
        if use.resource.scope == "node"
        else use
        for use in route.uses
    )
    return replace(route, uses=tuple(uses))


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


SMALL_FILE = 256 * 2**20
"""Files up to here lie on one target: at 240 MB/s of a target (FSx for Lustre) they take about a second, in
which a second target saves less than its requests cost where there are thousands of them."""
LARGE_FILE = 16 * 2**30
"""From here on a file keeps a stream busy for minutes (at 125 MB/s, two), so that a full target is waited
for: nothing evens it out before a job sees it."""
_MIDDLE_FILES = 8
"""Files of the geometric mean of both, 2 GiB, that a stream moves while it would move one of LARGE_FILE."""


@dataclass(frozen=True, slots=True)
class Streams:
    """Streams of a library that are busy at once, and what each needs, in bytes/s.

    `useful_stripes` is how many targets deliver what the grid lets one of them have of all that it passes.
    """

    count: int
    required_bytes_per_s: float
    useful_stripes: float = 1.0


@dataclass(frozen=True, slots=True)
class Targets:
    """Targets of a file system that are alike, and what one delivers, in bytes/s."""

    count: int
    bytes_per_s: float
    space: tuple[TargetSpace, ...] | None = None
    """The free space of each; None where all have as much."""

    @property
    def taking_files(self) -> int:
        """How many new files may lie on: those that are full or away take none."""
        return self.count if self.space is None else len(candidates(self.space))


def choose(streams: Streams, targets: Targets, at_least: int = 1, beside: str = "") -> LayoutChoice:
    """The smallest stripe counts with which one stream alone, and all together, have what they need.

    All together in 95 % of placements (`gridwright.filesystems.allocation`), by the margin of error of
    servers, so that a layout is no reason for a requirement to be within it. Files of less than SMALL_FILE
    have one stripe; those up to LARGE_FILE are so many to a stream that a full target is less of a loss.
    Beyond that requests count for nothing, and a stream may have its share of whatever the grid passes.
    Large files have `at_least` so many stripes (below 1: all), for the sake of the libraries `beside`.
    """
    middle, large = (_smallest(streams, targets, files) for files in (_MIDDLE_FILES, 1))
    useful = next((width for width in widths(targets.count) if width >= streams.useful_stripes), ALL)
    wide = ALL if large is None or ALL in (useful, at_least) else max(large, useful, at_least)
    layout = _layout(targets, ((SMALL_FILE, 1), (LARGE_FILE, middle or ALL), (None, wide)))
    need = f"{streams.count} stream{'s'[: streams.count != 1]} of {format_rate(streams.required_bytes_per_s)}"
    on = f"{targets.count} OST{'s'[: targets.count != 1]} of {format_rate(targets.bytes_per_s)}"
    taking = targets.taking_files
    on += "" if taking == targets.count else f", {taking} of which take new files"
    why = "; ".join(_why(streams, targets, large, wide, beside))
    return LayoutChoice(layout, f"{need} on {on}: {why}", stated=False)


def _why(streams: Streams, targets: Targets, large: int | None, wide: int, beside: str) -> Iterator[str]:
    if targets.count == 1:
        yield "there is one OST"
        return
    if large is None:
        whole = format_rate(targets.taking_files * targets.bytes_per_s)
        yield f"all OSTs together ({whole}) are just enough or too slow, so no other layout meets it always"
        return
    yield f"{_stripes(large)} a large file meet{'s'[: large == 1]} that in 95 % of placements"
    if large > 1:
        floor = spread(streams.count, targets.count, 1, targets.space).floor
        each = floor * targets.count * targets.bytes_per_s / streams.count
        yield f"one is worth {format_rate(each)}"
    if beside:
        yield f"{_stripes(wide)} leave OSTs even while {beside} use them, too"
    elif wide != large:
        yield f"{_stripes(wide)} let a stream have its share of what the grid passes"


def _stripes(count: int) -> str:
    if count == ALL:
        return "stripes on all"
    return f"{count} stripe{'s'[: count != 1]}"


def widths(targets: int) -> list[int]:
    """Stripe counts to choose from: each twice the one before, and all targets.

    Twice as many stripes never make a placement worse, which one more can.
    """
    return [*(2**power for power in range(targets.bit_length()) if 2**power < targets), targets]


def _smallest(streams: Streams, targets: Targets, files: int) -> int | None:
    """The smallest stripe count that is enough where a stream moves so many files; None where only all is."""
    required = streams.required_bytes_per_s * (1 + margin_of("server").p90)
    for width in widths(targets.count)[:-1]:
        if width * targets.bytes_per_s < required:
            continue
        floor = spread(streams.count * files, targets.count, width, targets.space).floor
        if floor * targets.count * targets.bytes_per_s >= required * streams.count:
            return width
    return None


def _layout(targets: Targets, parts: Sequence[tuple[int | None, int]]) -> FileLayout:
    """Parts of a file by their ends, those with as many stripes as the next one put together."""
    components: list[Component] = []
    for end, stripes in parts:
        width = stripes if stripes < targets.count else ALL
        width = 1 if targets.count == 1 else width
        if components and components[-1].stripe_count == width:
            components[-1] = replace(components[-1], end=end)
        else:
            start = (components[-1].end or 0) if components else 0
            components.append(Component(start=start, end=end, stripe_count=width))
    return FileLayout(tuple(components))


def no_wider(layout: FileLayout, targets: int) -> FileLayout:
    """The layout with no part over more targets than there are; 0 where nobody knows how many."""
    if targets < 1:
        return layout
    return replace(
        layout,
        components=tuple(
            replace(component, stripe_count=min(component.stripe_count, targets))
            for component in layout.components
        ),
    )


def layouts_of(
    spec: GridSpec, groups: Sequence[AlikeNodes], contributions: Mapping[str, Contribution]
) -> dict[str, LayoutChoice]:
    """The layout of every library on a kind of file system that takes layouts, by the library's name.

    `contributions` has what is known of the file systems; where one is to be chosen and nothing is known,
    it is the advised one. Chosen ones are as wide as it takes for all libraries that are busy at once.
    """
    choices: dict[str, LayoutChoice] = {}
    for name, library in _with_layouts(spec).items():
        there = contributions.get(library.filesystem)
        choice = _stated(spec, library) or _chosen(spec, library, there, groups)
        if choice is not None:
            choices[name] = choice
    return _wide_enough(spec, choices, contributions, groups) if groups else choices


def _wide_enough(
    spec: GridSpec,
    layouts: Mapping[str, LayoutChoice],
    contributions: Mapping[str, Contribution],
    groups: Sequence[AlikeNodes],
) -> dict[str, LayoutChoice]:
    """The layouts, with chosen ones wider where targets that libraries share are too uneven for all at once.

    Of these that which asks most of a target goes first, until all have the part that is required, or none
    can be wider.
    """
    found = dict(layouts)
    libraries = {str(name): library for name, library in spec.libraries.items()}
    needed = peak_factor_of(spec).value * (1 + margin_of("server").p90)
    for first in shared_targets(libraries, layouts, contributions, groups):
        sharing = first
        while len(sharing.libraries) > 1 and sharing.smallest_share < needed:
            narrow = [
                library
                for library in sharing.libraries
                if 0 < library.stripes < first.targets.targets and not found[library.library].stated
            ]
            if not narrow:
                break
            one = max(narrow, key=lambda each: each.bytes_per_s / each.stripes)
            others = " and ".join(library.library for library in sharing.libraries if library is not one)
            wider = _chosen(
                spec, libraries[one.library], first.targets, groups, 2 * one.stripes, beside=others
            )
            if wider is None:
                break
            found[one.library] = wider
            sharing = sharing.with_stripes(one.library, wider.layout.components[-1].stripe_count)
    return found


def with_space(
    site: Site, contributions: Mapping[str, Contribution], space: Mapping[str, tuple[TargetSpace, ...]]
) -> dict[str, Contribution]:
    """What file systems bring, with the free space of their targets.

    What does not fit is noted at the site.
    """
    found = dict(contributions)
    for name, targets in space.items():
        known = contributions[name].targets
        path = ("filesystems", name)
        if known and known != len(targets):
            site.report(
                path,
                f"{name} has {known} OST{'s'[: known != 1]} by the grid spec, and free space is told of "
                f"{len(targets)}",
                "describe the servers as they are, or leave out --free-space",
            )
        elif not candidates(targets):
            site.report(path, f"no OST of {name} takes new files", "see gridwright doctor")
        else:
            found[name] = replace(contributions[name], space=targets)
    return found


def apply_layouts(group: AlikeNodes, spec: GridSpec, layouts: Mapping[str, LayoutChoice]) -> AlikeNodes:
    """The nodes with routes on which a stream is held to the targets of a large file of the library."""
    routes = dict(group.routes)
    for name, library in _with_layouts(spec).items():
        if name in routes and name in layouts:
            there = group.contributions[library.filesystem]
            routes[name] = {
                operation: apply_layout(route, operation, layouts[name].layout, there)
                for operation, route in routes[name].items()
            }
    return replace(group, routes=routes)


def apply_layout(route: Route, operation: Operation, layout: FileLayout, there: Contribution) -> Route:
    """The route of files with a layout on a file system; as it is where nothing is known of its targets."""
    if not there.targets or not there.target_bytes_per_s:
        return route
    files = "each large file" if layout.is_progressive else "each file"
    stripes, rate = layout.components[-1].stripe_count, there.target_bytes_per_s[operation]
    return striped(route.uses, stripes, there.targets, rate, files, there.space)


def are_stated(spec: GridSpec) -> bool:
    """Whether the spec states the layouts of all libraries that have one."""
    return all(_stated(spec, library) is not None for library in _with_layouts(spec).values())


def _with_layouts(spec: GridSpec) -> dict[str, Library]:
    return {
        str(name): library
        for name, library in spec.libraries.items()
        if library.filesystem in spec.filesystems and spec.filesystems[library.filesystem].takes_layouts
    }


def _stated(spec: GridSpec, library: Library) -> LayoutChoice | None:
    filesystem = spec.filesystems[library.filesystem]
    kind = kind_of(filesystem)
    layout = kind.stated_layout(filesystem, library) if isinstance(kind, Layouts) else None
    if layout is None:
        return None
    what = "the library's layout" if library.layout else f"stripe_count of {library.filesystem}"
    return LayoutChoice(layout, f"stated in the grid spec by {what}", stated=True)


def _chosen(
    spec: GridSpec,
    library: Library,
    there: Contribution | None,
    groups: Sequence[AlikeNodes],
    at_least: int = 1,
    beside: str = "",
) -> LayoutChoice | None:
    """What the model chooses; the advised one where it has nothing to choose by."""
    targets = there.targets if there else 0
    rates = there.target_bytes_per_s if there else {}
    if targets and rates and groups and library.requires is not None:
        required = float(library.requires.bytes_per_s)
        useful = _useful_stripes(library.filesystem, rates, groups)
        streams = Streams(sum(group.cores for group in groups), required, useful)
        of = Targets(targets, min(rates.values()), there.space if there else None)
        return choose(streams, of, ALL if at_least >= targets else at_least, beside)
    filesystem = spec.filesystems[library.filesystem]
    kind = kind_of(filesystem)
    if not isinstance(kind, Layouts):
        return None
    advised = kind.default_layout(filesystem)
    why = "nothing is required of the library" if targets and rates else "nothing is known of its OSTs"
    reason = f"{why}, so it has what is advised for files of all sizes"
    return LayoutChoice(no_wider(advised, targets), reason, stated=False)


def _useful_stripes(filesystem: str, rates: Mapping[Operation, float], groups: Sequence[AlikeNodes]) -> float:
    """How many targets deliver what a core has of all other limits on the way, bursts included."""
    cores = sum(group.cores for group in groups)
    return max(
        min(
            use.resource.highest_bytes_per_s
            / use.coefficient
            / (group.cores_per_node if use.resource.scope == "node" else cores)
            for use in route.uses
        )
        / rates[operation]
        for group in groups
        for operation, route in group.contributions[filesystem].routes.items()
    )


def report_layouts(site: Site, contributions: Mapping[str, Contribution]) -> None:
    """Note at the site what is wrong with layouts that its spec states: parts, and more stripes than targets.

    `contributions` has the file systems of which something is known.
    """
    for name, library in _with_layouts(site.spec).items():
        choice = _stated(site.spec, library)
        if choice is None:
            continue
        kind = kind_of(site.spec.filesystems[library.filesystem])
        for problem in kind.layout_problems(choice.layout) if isinstance(kind, Layouts) else ():
            path = _path(name, library, problem.component, problem.field)
            site.report(path, problem.what, problem.remedy)
        there = contributions.get(library.filesystem)
        _report_wide(site, name, library, choice.layout, there.targets if there else 0)


def _path(name: str, library: Library, component: int | None, field: str) -> tuple[str, ...]:
    """Where the grid spec states a field of a component; a stripe count alone is the layout itself."""
    if not library.layout:
        return ("filesystems", library.filesystem, "stripe_count")
    is_count = len(library.layout) == 1 and library.layout[0].model_fields_set == {"stripes"}
    if component is None or is_count:
        return ("libraries", name, "layout")
    return ("libraries", name, "layout", str(component), field)


def _report_wide(site: Site, name: str, library: Library, layout: FileLayout, targets: int) -> None:
    """Note every part of a layout that is wider than the targets there are, where their number is known."""
    for problem in layout.wider_than(targets, library.filesystem or "") if targets else ():
        site.report(_path(name, library, problem.component, problem.field), problem.what, problem.remedy)


def check_layouts(spec: GridSpec) -> None:
    """Raise GridwrightError with what is wrong with the parts of layouts, whoever provides the nodes."""
    site = Site(spec, load_catalog(), ComputeNodes(1, 1, None))
    report_layouts(site, {})
    site.raise_problems()
