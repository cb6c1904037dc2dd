"""How predictions and designs are worded, alike on the terminal and on pages."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from gridwright.filesystems import kind_of
from gridwright.filesystems.resources import Operation
from gridwright.model.doubt import doubt_factor
from gridwright.model.prediction import Answer, Bound, Burst, LibraryPrediction, Prediction, Rates
from gridwright.plan.design import Design
from gridwright.report.figures import ABSENT, against, count, duration, listed, megabytes, share
from gridwright.report.figures import required as required_text
from gridwright.report.papers.words import KINDS, percent
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
