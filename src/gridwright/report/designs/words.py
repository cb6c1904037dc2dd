"""How predictions and designs are worded, alike on the terminal and on pages.

Managed file systems and the layouts of libraries, too: what is chosen, why, and what it is worth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gridwright.filesystems import kind_of
from gridwright.filesystems.layout import ALL
from gridwright.filesystems.resources import Operation
from gridwright.model.prediction import (
    Answer,
    AtOnce,
    Bound,
    Burst,
    LibraryLayout,
    LibraryPrediction,
    MetadataRates,
    PlacedRates,
    Prediction,
    PublishedDeviation,
    Rates,
    ServicePrediction,
    ServiceRates,
    UnevenSpace,
    doubt_factor,
)
from gridwright.plan.design import Design
from gridwright.report.figures import ABSENT, against, count, duration, listed, megabytes, share
from gridwright.report.figures import required as required_text
from gridwright.report.papers import KINDS, percent
from gridwright.units import HOURS_PER_MONTH, counted

MOST_RESILIENT = 4
"""What a design's resilience counts up to."""

PURCHASE_WORDS: dict[str, str] = {
    "one-year": "one year, paid by the hour",
    "one-year-upfront": "one year, paid at once",
    "three-years": "three years, paid by the hour",
    "three-years-upfront": "three years, paid at once",
    "spot": "nodes as spot instances",
}
"""Ways to buy instances, in words."""


def dollars(usd: float | None) -> str:
    """An amount of USD: cents below a thousand, whole dollars from there on."""
    if usd is None:
        return ABSENT
    return f"{usd:,.2f}" if usd < 1000 else f"{usd:,.0f}"


def monthly(usd_per_hour: float | None) -> str:
    """USD for a month, of USD per hour."""
    return ABSENT if usd_per_hour is None else f"{usd_per_hour * HOURS_PER_MONTH:,.0f}"


def cost_text(usd_per_hour: float | None) -> str:
    """What a grid costs, in words."""
    if usd_per_hour is None:
        return "cost not known"
    month = monthly(usd_per_hour)
    return f"{dollars(usd_per_hour)} USD per hour, {month} USD per month ({HOURS_PER_MONTH} h)"


def growth_texts(design: Design) -> list[str]:
    """What a design costs now and in 12 months, and how each of its new file systems grows."""
    growth = design.growth
    if growth is None:
        return []
    now, later, mean = (
        dollars(usd) for usd in (design.usd_per_hour, growth.usd_per_hour_later, growth.usd_per_hour_mean)
    )
    texts = [f"{now} USD/h now, {later} in 12 months, {mean} on the mean of them"]
    for name, filesystem in growth.filesystems.items():
        if filesystem.in_place:
            texts.append(f"file system {name} grows in place, to {filesystem.later} ({filesystem.because})")
        else:
            texts.append(
                f"file system {name} is bought as it must be in 12 months: a smaller one would have to be "
                f"rebuilt ({filesystem.because})"
            )
    if not growth.filesystems:
        texts.append("it has the room from the first day")
    return texts


def size_text(prediction: Prediction) -> str:
    """Nodes and physical cores, in words; of several groups with the name of each."""
    several = len(prediction.groups) > 1
    return " and ".join(
        f"{counted(group.nodes, 'node')} x {counted(group.cores_per_node, 'core')}"
        f"{f' ({group.name})' if several else ''}"
        for group in prediction.groups
    )


def streams_text(prediction: Prediction) -> str:
    """Streams on each node, in words."""
    if prediction.streams_per_node is None:
        return "a stream on each core"
    return f"{counted(prediction.streams_per_node, 'stream')} on each node"


@dataclass(frozen=True, slots=True)
class RateRow:
    """What one group of nodes gets of a library; all nodes where `group` is empty."""

    library: LibraryPrediction
    operation: Operation
    group: str
    rates: Rates

    @property
    def name(self) -> str:
        """The library; with its group where it has one."""
        return f"{self.library.library}, {self.group}" if self.group else self.library.library

    @property
    def answer(self) -> Answer | None:
        """Whether its cores get what the library requires; that of all is that of the worst group."""
        required = self.library.requires_bytes_per_s_per_core
        if not self.group:
            return self.library.answer_of(self.operation)
        return None if required is None else self.rates.answer(required)


def rate_rows(prediction: Prediction) -> list[RateRow]:
    """The rates of every library: of all nodes, and of each group where there are several."""
    return [
        RateRow(library, operation, group, found)
        for library in prediction.libraries
        for operation, rates in library.rates.items()
        for group, found in [("", rates), *((name, each[operation]) for name, each in library.groups.items())]
    ]


def answer_word(answer: Answer | None) -> str:
    """The answer in a cell of a table, or a dash where nothing is required."""
    return {"yes": "yes", "within the margin": "within margin", "no": "no", None: ABSENT}[answer]


def margin_texts(prediction: Prediction) -> list[str]:
    """The margin of error of each kind of limit that binds a library, in words."""
    bound = [row.rates.bound_by for row in rate_rows(prediction)]
    said = {}
    for each in bound:
        margin = each.margin
        known = (
            f"{percent(margin.p90)}, not exceeded on nine in ten of {count(margin.count)} published figures "
            f"(median error {percent(margin.median)})"
        )
        if margin.kind == "all":
            known = f"of such nothing was published; of all rates {known}"
        said[each.nature] = f"{KINDS[each.nature]}: {known}"
    return [*said.values(), *_wider(prediction)]


def _wider(prediction: Prediction) -> list[str]:
    """Why bands are wider than these margins: what doubtful figures they rest on."""
    alike: dict[str, dict[str, None]] = {}
    for row in rate_rows(prediction):
        for bound in row.rates.doubted:
            alike.setdefault(f"{_doubt_text(bound)} ({bound.source})", {})[bound.resource] = None
    return [f"{listed([*names])}: {text}" for text, names in alike.items()]


def _doubt_text(bound: Bound) -> str:
    factor = f"{doubt_factor():.3g}"
    texts = {
        "floor": "wider, as its figure is a floor: at least that, and nobody says how much more",
        "not verified": f"wider by a factor of {factor} both ways, as its figure is not verified: "
        "by so much do sources differ where they do",
    }
    return "; ".join(texts[doubt] for doubt in bound.doubts)


def doubts(prediction: Prediction) -> list[str]:
    """Each rate that may or may not reach what is required, with the least and the most it may be."""
    return [
        f"{row.library.library} {row.operation}{f' of nodes {row.group}' if row.group else ''} may be "
        f"{_band_text(row.rates)} per core, and "
        f"{required_text(row.library.requires_bytes_per_s_per_core)} is required"
        for row in rate_rows(prediction)
        if row.answer == "within the margin" and (row.group or not row.library.groups)
    ]


def _band_text(rates: Rates) -> str:
    low, high = rates.per_core(rates.low_bytes_per_s), rates.per_core(rates.high_bytes_per_s)
    top = f"to {megabytes(high)} MB/s" if math.isfinite(high) else "MB/s or more"
    return f"{megabytes(low)} {top}"


def next_text(rates: Rates) -> str:
    """The next bottleneck, and how far above today's rate it lies."""
    if rates.next_bound is None:
        return ABSENT
    return f"{rates.next_bound.resource} ({above(rates.next_bound.bytes_per_s, rates.bytes_per_s)})"


def above(value: float, rate: float) -> str:
    """How far a limit lies above a rate: `+37 %`, from ten times on `x 12`."""
    if rate <= 0:
        return ABSENT
    times = value / rate
    return f"x {times:,.0f}" if times >= 10 else f"+{share(times - 1)}"


def burst_text(burst: Burst) -> str:
    """How long a burst lasts, in words."""
    return "no fact says how long" if burst.seconds is None else f"for {duration(burst.seconds)}"


def groups(libraries: Iterable[LibraryPrediction]) -> list[tuple[str, LibraryPrediction]]:
    """Libraries of which all the same is said stand together: their names in words, and one of them."""
    alike: list[tuple[list[str], LibraryPrediction]] = []
    for library in libraries:
        for names, other in alike:
            same = (library.filesystem, library.requires_bytes_per_s_per_core, library.rates, library.groups)
            if same == (
                other.filesystem,
                other.requires_bytes_per_s_per_core,
                other.rates,
                other.groups,
            ):
                names.append(library.library)
                break
        else:
            alike.append(([library.library], library))
    return [(listed(names), library) for names, library in alike]


def nodes_text(design: Design) -> str:
    """How many nodes of which type."""
    spec = design.spec
    instances = [group.instance or spec.provider_kind.machine_words(spec) for group in spec.nodes.values()]
    return f"{count(design.prediction.nodes)} x {listed(instances)}"


def homes(design: Design) -> list[tuple[str, str]]:
    """Where libraries live: their names in words, and the file system; one line for those that share it."""
    names: dict[str, list[str]] = {}
    for name, library in design.spec.libraries.items():
        names.setdefault(library.filesystem, []).append(name)
    return [(listed(each), f"{home}: {_home(design, home)}") for home, each in names.items()]


def _home(design: Design, name: str) -> str:
    filesystem = design.spec.filesystems[name]
    return kind_of(filesystem).describe(filesystem)


def binding(design: Design) -> str:
    """What binds the library with the least room above what it requires."""
    found = _tightest(design)
    if found is None:
        return ABSENT
    library, operation, rates = found
    return f"{rates.bound_by.resource} ({library.library} {operation})"


def _tightest(design: Design) -> tuple[LibraryPrediction, str, Rates] | None:
    every = [
        (library, str(operation), rates)
        for library in design.prediction.libraries
        for operation, rates in library.rates.items()
    ]
    judged = [each for each in every if each[0].requires_bytes_per_s_per_core]
    if judged:
        return min(
            judged, key=lambda e: e[2].bytes_per_s_per_core / (e[0].requires_bytes_per_s_per_core or 1)
        )
    return min(every, key=lambda each: each[2].bytes_per_s_per_core, default=None)


def resilience_text(design: Design) -> str:
    """How much of what can fail a design survives."""
    return f"{design.resilience} of {MOST_RESILIENT}"


def per_core(library: LibraryPrediction, rates: Rates) -> str:
    """MB/s per core, in as many digits as tell it from what is required."""
    return against(rates.bytes_per_s_per_core, library.requires_bytes_per_s_per_core)


SERVICE_HEADINGS = ("MB/s that last", "read alone", "write alone", "mixed", "of it read", "written")
"""What the columns of service_rows hold."""


def service_rows(service: ServicePrediction) -> Iterator[tuple[str, ...]]:
    """What the service could deliver, what all nodes get of it, and what a single one does."""
    for who, rates in (
        ("the service", service.service),
        ("all nodes", service.all_nodes),
        ("one client", service.one_client),
    ):
        yield who, *(megabytes(rate) for rate in _figures(rates))


def _figures(rates: ServiceRates) -> Iterator[float]:
    mixed = rates.mixed
    yield from (rates.read_bytes_per_s, rates.write_bytes_per_s)
    yield from (mixed.bytes_per_s, mixed.read_bytes_per_s, mixed.write_bytes_per_s)


def service_title(service: ServicePrediction) -> str:
    """Which file system it is, and what it costs."""
    usd = service.usd_per_hour
    cost = "no price known" if usd is None else f"{dollars(usd)} USD per hour"
    return f"{service.filesystem}: {service.what}; {cost}"


def service_notes(service: ServicePrediction) -> Iterator[str]:
    """What the mix is, how far it is from what was published, and metadata."""
    mixed = service.all_nodes.mixed
    yield f"mixed: {share(mixed.reads)} of the bytes are read; all nodes are bound by {mixed.bound_by}"
    if service.published is not None:
        yield _published(service.published)
    if service.metadata is not None:
        yield _metadata(service.metadata)


def _published(deviation: PublishedDeviation) -> str:
    read, write = megabytes(deviation.read_bytes_per_s), megabytes(deviation.write_bytes_per_s)
    side = "above" if deviation.above >= 0 else "below"
    return (
        f"published of such a mix: {read} read and {write} written; the model is {abs(deviation.above):.1%} "
        f"{side} it ({deviation.source})"
    )


def _metadata(rates: MetadataRates) -> str:
    text = f"metadata: {count(round(rates.per_s))} operations/s of all nodes"
    if rates.latency_s is None or rates.per_s_per_stream is None:
        return text
    each = count(round(rates.per_s_per_stream))
    return f"{text}; {each} a stream, at {rates.latency_s * 1e3:.3g} ms each"


def alike_layouts(prediction: Prediction) -> Iterator[tuple[str, LibraryLayout]]:
    """The layouts of a prediction, with the names of all libraries that have each for the same reason."""
    names: dict[LibraryLayout, list[str]] = {}
    for name, layout in prediction.layouts.items():
        names.setdefault(layout, []).append(name)
    for layout, alike in names.items():
        yield listed(alike), layout


def layout_text(layout: LibraryLayout) -> str:
    """What it is and why, in a line."""
    return f"{layout.choice.layout.text} ({layout.choice.reason})"


def placed_texts(layout: LibraryLayout) -> Iterator[str]:
    """What streams get together by how files lie on OSTs, with this layout and with one stripe per file."""
    if layout.targets < 2:
        return
    if layout.uneven is not None:
        yield _uneven_text(layout, layout.uneven)
    for place, rates in enumerate(layout.placed):
        yield _placed_text(layout, rates, "large files" if place == 0 else "the same files")
    if layout.at_once is not None:
        floor = megabytes(layout.at_once.floor_bytes_per_s)
        yield f"{at_once_text(layout.at_once)}: {floor} MB/s or more for each"


def at_once_text(at_once: AtOnce) -> str:
    """What OSTs carry while all libraries are busy that have files on them."""
    return (
        f"with {listed([*at_once.libraries])} busy at once, {at_once.streams} streams meet the same OSTs, "
        f"which carry {share(at_once.share)} of what all require in 95 % of placements "
        f"({100 * at_once.required_share:.3g} % must be there)"
    )


def free_space_text(uneven: UnevenSpace) -> str:
    """How far apart the free space of OSTs is."""
    full, empty = (f"{100 * each:.0f} %" for each in (uneven.fullest_free, uneven.emptiest_free))
    return f"{uneven.fullest} has {full} free against {empty} of {uneven.emptiest}"


def _placed_text(layout: LibraryLayout, placed: PlacedRates, files: str) -> str:
    streams = f"{layout.streams} stream{'s'[: layout.streams != 1]}"
    whole = megabytes(placed.in_order_bytes_per_s)
    if placed.stripes == ALL:
        return f"{files} over all OSTs: every placement is alike, and {streams} share {whole} MB/s"
    over = f"{placed.stripes} OST{'s'[: placed.stripes != 1]}"
    sure, half = megabytes(placed.floor_bytes_per_s), megabytes(placed.median_bytes_per_s)
    return (
        f"{files} over {over}: {streams} on {layout.targets} OSTs share {sure} MB/s or more in 95 % of "
        f"placements, {half} in half of them, and {whole} where files were made one after another: "
        "the fullest OST ends last"
    )


def _uneven_text(layout: LibraryLayout, uneven: UnevenSpace) -> str:
    floor = layout.placed[0].floor_bytes_per_s
    return (
        f"{free_space_text(uneven)}: new files of {layout.streams} streams meet {uneven.met} of "
        f"{layout.targets} OSTs, and {_change(floor, uneven.alike_bytes_per_s)}"
    )


def _change(floor: float, alike: float) -> str:
    if floor < alike:
        return f"what they get in 95 % of placements falls from {megabytes(alike)} to {megabytes(floor)} MB/s"
    return f"they get {megabytes(floor)} MB/s or more in 95 % of placements, as where space is alike"
