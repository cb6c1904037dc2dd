"""Compares the model with every figure that papers published: predicted, published, error, by paper.

In data/papers/, `figures.csv` has a row for each figure as it was printed, `configurations.csv` the grid
it was measured on, `reasons.csv` what is known of a miss, `advice.csv` what of the papers is not to be
copied.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any, Literal, NamedTuple, cast

from gridwright.catalog import Catalog, InstanceType, load_catalog
from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import Operation
from gridwright.model.chains import library_chain
from gridwright.model.grid import GridModel, grid_model
from gridwright.model.prediction import KINDS, Kind, Margin
from gridwright.model.workload import Replay, WorkloadMatrix, default_profiles, simulate_workload
from gridwright.model.workload_figures import WorkloadPrediction
from gridwright.runs.profiles import Profiles
from gridwright.spec import parse_spec
from gridwright.spec.model import GridSpec

Role = Literal["check", "context"]
"""`check`: predicted without knowing it; `context`: not counted, because it repeats another figure or is
none that a grid's description could tell."""
Unit = Literal["bytes/s", "bytes", "ratio", "s"]

PAPERS: Mapping[str, str] = {
    "000": "SAS Grid on AWS with Intel Cloud Edition for Lustre, 2015",
    "001": "companion article of 000, 2015",
    "002": "FSx for Lustre, paper 4632-2020",
    "003": "Oracle Cloud with IBM Spectrum Scale, 2020",
    "004": "Intel reference architecture for Lustre on AWS, 2015",
}

_UNITS: Mapping[str, tuple[float, Unit]] = {
    "MB/s": (1e6, "bytes/s"),
    "GB/s": (1e9, "bytes/s"),
    "MiB/s": (2.0**20, "bytes/s"),
    "B": (1.0, "bytes"),
    "GB": (1e9, "bytes"),
    "GiB": (2.0**30, "bytes"),
    "ratio": (1.0, "ratio"),
    "min": (60.0, "s"),
}


@dataclass(frozen=True, slots=True)
class PaperConfiguration:
    """A grid that a paper tested.

    `spec` is the file of its grid spec, empty where the paper does not describe enough for one; `note`
    says why, or what was assumed. `streams_per_node` is None where the paper does not say.
    """

    name: str
    spec: str
    streams_per_node: int | None
    note: str


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """One figure as it was printed, and how it is predicted.

    `how` is the kind of prediction (a key of `predicted`), `target` the instance type, family or matrix
    that it is for, `per` what the figure is of: grid, node, core, stream or server.
    """

    fact_id: str
    configuration: str
    quantity: str
    printed: str
    printed_unit: str
    how: str
    target: str
    library: str
    operation: str
    per: str
    role: Role
    reason: str

    @property
    def paper(self) -> str:
        """The paper's number: the first part of the fact id."""
        return self.fact_id.partition(".")[0]

    @property
    def value(self) -> float:
        """The figure in `unit`."""
        return float(self.printed) * _UNITS[self.printed_unit][0]

    @property
    def unit(self) -> Unit:
        """Of `value`."""
        return _UNITS[self.printed_unit][1]


@dataclass(frozen=True, slots=True)
class Advice:
    """Something printed in a paper that is not to be copied, and what to do instead."""

    paper: str
    printed: str
    instead: str


def _rows(name: str) -> Iterator[dict[str, str]]:
    yield from csv.DictReader(_text(name).splitlines())


def _text(name: str) -> str:
    return resources.files("gridwright.model").joinpath("data", "papers", name).read_text("utf-8")


@cache
def published_figures() -> tuple[PublishedFigure, ...]:
    """All figures, in the order of the papers."""
    return tuple(
        PublishedFigure(
            row["fact_id"],
            row["configuration"],
            row["quantity"],
            row["printed"],
            row["unit"],
            row["how"],
            row["target"],
            row["library"],
            row["operation"],
            row["per"],
            cast(Role, row["role"]),
            row["reason"],
        )
        for row in _rows("figures.csv")
    )


@cache
def configurations() -> Mapping[str, PaperConfiguration]:
    """Every configuration that the papers tested, by name."""
    return {
        row["configuration"]: PaperConfiguration(
            row["configuration"],
            row["spec"],
            int(row["streams_per_node"]) if row["streams_per_node"] else None,
            row["note"],
        )
        for row in _rows("configurations.csv")
    }


@cache
def reasons() -> Mapping[str, str]:
    """What is known of a figure that is missed, not predicted, or not counted, by key."""
    return {row["reason"]: row["text"] for row in _rows("reasons.csv")}


@cache
def advice() -> tuple[Advice, ...]:
    """What not to copy, in the order of the papers."""
    return tuple(Advice(row["paper"], row["printed"], row["instead"]) for row in _rows("advice.csv"))


@cache
def paper_spec(name: str) -> GridSpec:
    """The grid spec of a configuration by its file name; the same files are in examples/papers."""
    return parse_spec(_text(name), f"examples/papers/{name}")


PAPER_WORKLOAD = Replay(scale="paper", page_cache="none")
"""How launch profiles are carried over to the papers' grids: to their amount of data (000.wl.io_input and
003.wl.io_input: 300 GB for one instance of each I/O test), which the memory of a node does not hold."""
CACHED_WORKLOAD = replace(PAPER_WORKLOAD, page_cache="profile")
"""The same with as many reads cached as in the profiles: what the assumption is worth."""


class Foretold(NamedTuple):
    """A figure as it is predicted, and what bound it; None for what is no rate."""

    value: float
    kind: Kind | None


class NotPredicted(Exception):
    """Nothing can be predicted; the text says why."""


@dataclass(slots=True)
class PaperGrids:
    """What figures are predicted with. Grids and workloads that several figures need are kept.

    `matrices` gives the mixed workload's matrices by name, and `profiles` their launches; without a
    matrix its figures are not predicted.
    """

    catalog: Catalog
    matrices: Mapping[str, WorkloadMatrix] = field(default_factory=dict)
    profiles: Profiles | None = None
    _grids: dict[tuple[str, str], GridModel] = field(default_factory=dict)

    def grid(self, spec: str, instance: str = "") -> GridModel:
        """The grid of a spec, with its nodes of another instance type where one is named."""
        if (spec, instance) not in self._grids:
            found = paper_spec(spec)
            self._grids[spec, instance] = grid_model(_with_nodes(found, instance), self.catalog)
        return self._grids[spec, instance]

    def workload(self, spec: str, matrix: str, every_node: bool, replay: Replay) -> WorkloadPrediction:
        """The mixed workload on the grid of a spec; with `every_node` each node runs the whole matrix."""
        if matrix not in self.matrices:
            raise NotPredicted(f"the matrix {matrix} was not given")
        placed = WorkloadMatrix(matrix, self.matrices[matrix].streams, every_node=every_node)
        try:
            return simulate_workload(self.grid(spec), placed, self.profiles or default_profiles(), replay)
        except GridwrightError as error:
            raise NotPredicted("; ".join(problem.what for problem in error.problems)) from None


def _with_nodes(spec: GridSpec, instance: str) -> GridSpec:
    if not instance:
        return spec
    nodes = {name: group.model_copy(update={"instance": instance}) for name, group in spec.nodes.items()}
    return spec.model_copy(update={"nodes": nodes})


def predict_figure(figure: PublishedFigure, grids: PaperGrids) -> Foretold:
    """The figure in its unit (bytes per second, bytes or a ratio), and what bound it.

    Raises NotPredicted where a fact is missing, with the reason in words.
    """
    configuration = configurations()[figure.configuration]
    if figure.how == "none":
        raise NotPredicted(reasons()[figure.reason])
    if not configuration.spec:
        raise NotPredicted(configuration.note)
    return _HOW[figure.how](figure, configuration, grids)


def _steady(figure: PublishedFigure, configuration: PaperConfiguration, grids: PaperGrids) -> Foretold:
    return _rate(grids.grid(configuration.spec, figure.target), figure, configuration, burst=False)


def _burst(figure: PublishedFigure, configuration: PaperConfiguration, grids: PaperGrids) -> Foretold:
    return _rate(grids.grid(configuration.spec, figure.target), figure, configuration, burst=True)


def _rate(
    model: GridModel, figure: PublishedFigure, configuration: PaperConfiguration, burst: bool
) -> Foretold:
    """What the tightest limit on the way lets through, with every node busy, of what the figure is of."""
    if why := model.unknown.get(figure.library):
        raise NotPredicted(why)
    streams = model.alike.streams(configuration.streams_per_node)
    operation = cast(Operation, figure.operation)
    bound = library_chain(model, figure.library, operation, streams, burst=burst)[0]
    return Foretold(bound.bytes_per_s / _parts(model, figure, streams), "burst" if burst else bound.nature)


def _parts(model: GridModel, figure: PublishedFigure, streams: int) -> float:
    """Of how many nodes, cores, streams or servers the grid's rate is the sum."""
    if figure.per == "server":
        filesystem = model.spec.filesystems[model.spec.libraries[figure.library].filesystem]  # type: ignore[index]
        return float(filesystem.oss.count)  # type: ignore[attr-defined]
    return float(
        {"grid": 1, "node": model.nodes, "core": model.cores, "stream": model.nodes * streams}[figure.per]
    )


def _capacity(figure: PublishedFigure, configuration: PaperConfiguration, grids: PaperGrids) -> Foretold:
    """What the file system itself passes, whatever its clients can take."""
    model = grids.grid(configuration.spec, figure.target)
    route = model.alike.routes[figure.library][cast(Operation, figure.operation)]
    rates = [use.resource for use in route.uses if use.resource.scope == "grid"]
    tightest = min(rates, key=lambda resource: resource.bytes_per_s)
    return Foretold(tightest.bytes_per_s, tightest.nature)


def _memory(figure: PublishedFigure, configuration: PaperConfiguration, grids: PaperGrids) -> Foretold:
    return Foretold(grids.catalog.instance(figure.target).memory_bytes_per_core, None)


def _sizes(family: str, grids: PaperGrids) -> list[InstanceType]:
    instances = grids.catalog.instances.values()
    return [instance for instance in instances if instance.family == family and not instance.bare_metal]


def _family(
    figure: PublishedFigure, configuration: PaperConfiguration, grids: PaperGrids, bursts_only: bool
) -> list[Foretold]:
    """The rate of each size of a family, of those alone that burst with `bursts_only`."""
    rates = []
    for instance in _sizes(figure.target, grids):
        if bursts_only and instance.network.peak_bytes_per_s <= instance.network.baseline_bytes_per_s:
            continue
        model = grids.grid(configuration.spec, instance.name)
        rates.append(_rate(model, figure, configuration, burst=bursts_only))
    return rates


def _family_burst_max(
    figure: PublishedFigure, configuration: PaperConfiguration, grids: PaperGrids
) -> Foretold:
    return max(_family(figure, configuration, grids, bursts_only=True), key=_value)


def _family_burst_min(
    figure: PublishedFigure, configuration: PaperConfiguration, grids: PaperGrids
) -> Foretold:
    return min(_family(figure, configuration, grids, bursts_only=True), key=_value)


def _family_mean(figure: PublishedFigure, configuration: PaperConfiguration, grids: PaperGrids) -> Foretold:
    found = _family(figure, configuration, grids, bursts_only=False)
    kinds = {foretold.kind for foretold in found}
    mean = statistics.fmean(foretold.value for foretold in found)
    return Foretold(mean, kinds.pop() if len(kinds) == 1 else None)


def _value(foretold: Foretold) -> float:
    return foretold.value


def _ratio(figure: PublishedFigure, configuration: PaperConfiguration, grids: PaperGrids) -> Foretold:
    return _mean_ratio(figure, configuration, grids, PAPER_WORKLOAD)


def _ratio_cached(figure: PublishedFigure, configuration: PaperConfiguration, grids: PaperGrids) -> Foretold:
    return _mean_ratio(figure, configuration, grids, CACHED_WORKLOAD)


def _mean_ratio(
    figure: PublishedFigure, configuration: PaperConfiguration, grids: PaperGrids, replay: Replay
) -> Foretold:
    """The mean of the launches' CPU/real ratios, which is what the papers print."""
    every_node = figure.per == "node"
    found = grids.workload(configuration.spec, figure.target, every_node, replay).ratio_mean
    if found is None:
        raise NotPredicted("the launches take no time")
    return Foretold(found, "workload")


_HOW: Mapping[str, Callable[[PublishedFigure, PaperConfiguration, PaperGrids], Foretold]] = {
    "steady": _steady,
    "burst": _burst,
    "capacity": _capacity,
    "memory": _memory,
    "family-burst-max": _family_burst_max,
    "family-burst-min": _family_burst_min,
    "family-steady-mean": _family_mean,
    "ratio": _ratio,
    "ratio-cached": _ratio_cached,
}


INSTANCE_TABLE = "002"
"""The paper whose figures are of single instances, with limits that are listed one by one."""
LIMITS: Mapping[str, float] = {INSTANCE_TABLE: 0.05}
LIMIT = 0.15
"""The median absolute error that the model has to reach, and from where on a single miss is explained."""


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One figure, both values in `unit`.

    `predicted` is None where a fact is missing. `error` is relative to the published value, with its sign.
    `why` says why it was missed, why there is no prediction, or why it does not count. `kind` is what
    bound it.
    """

    paper: str
    configuration: str
    fact_id: str
    quantity: str
    unit: Unit
    predicted: float | None
    published: float
    error: float | None
    role: Role
    why: str
    kind: Kind | None = None

    @property
    def missed(self) -> bool:
        """Whether the error is larger than what the median has to reach."""
        return self.error is not None and abs(self.error) > LIMITS.get(self.paper, LIMIT)

    @property
    def repeats(self) -> bool:
        """Whether it is another figure over again, such as that of a node for each core."""
        return self.role == "context" and self.why == reasons()["repeats"]


@dataclass(frozen=True, slots=True)
class PaperSummary:
    """Absolute errors of a paper's checks, or of several papers'. Figures are None where it has none.

    `p90_error` is the smallest error that nine tenths of them do not exceed. `not_predicted` counts checks
    for which a fact is missing.
    """

    paper: str
    count: int
    median_error: float | None
    p90_error: float | None
    worst_error: float | None
    not_predicted: int


@dataclass(frozen=True, slots=True)
class PapersCheck:
    """All figures, the summary of each paper, and those of the instance table and of all other papers."""

    rows: tuple[PaperRow, ...]
    papers: tuple[PaperSummary, ...]
    instance_table: PaperSummary
    others: PaperSummary
    configurations: tuple[PaperConfiguration, ...]
    advice: tuple[Advice, ...]

    def of(self, *roles: Role) -> tuple[PaperRow, ...]:
        """The rows with one of these roles."""
        return tuple(row for row in self.rows if row.role in roles)

    @property
    def missed(self) -> tuple[PaperRow, ...]:
        """Checks whose error is larger than what the median has to reach."""
        return tuple(row for row in self.of("check") if row.missed)


def check_papers(
    catalog: Catalog | None = None,
    matrices: Mapping[str, WorkloadMatrix] | None = None,
    profiles: Profiles | None = None,
) -> PapersCheck:
    """Predict every published figure from listed facts alone.

    `matrices` has `mixed-30` and `mixed-20` by name; CPU/real ratios are predicted where they are given,
    from `profiles`, by default those that come with Gridwright.
    """
    grids = PaperGrids(catalog or load_catalog(), matrices or {}, profiles)
    rows = tuple(_row(figure, grids) for figure in published_figures())
    others = [row for row in rows if row.paper != INSTANCE_TABLE]
    return PapersCheck(
        rows,
        tuple(_summary(paper, (row for row in rows if row.paper == paper)) for paper in PAPERS),
        _summary(INSTANCE_TABLE, (row for row in rows if row.paper == INSTANCE_TABLE)),
        _summary(", ".join(paper for paper in PAPERS if paper != INSTANCE_TABLE), others),
        tuple(configurations().values()),
        advice(),
    )


def _row(figure: PublishedFigure, grids: PaperGrids) -> PaperRow:
    why = reasons().get(figure.reason, "")
    predicted: float | None = None
    kind: Kind | None = None
    try:
        predicted, kind = predict_figure(figure, grids)
    except NotPredicted as missing:
        why = str(missing)
    return PaperRow(
        figure.paper,
        figure.configuration,
        figure.fact_id,
        figure.quantity,
        figure.unit,
        predicted,
        figure.value,
        None if predicted is None else predicted / figure.value - 1,
        figure.role,
        why,
        kind,
    )


def measured_margins(check: PapersCheck) -> tuple[Margin, ...]:
    """The margin of each kind of prediction, by the checks alone; kinds without any are left out."""
    errors: dict[Kind, list[float]] = {kind: [] for kind in KINDS}
    for row in check.of("check"):
        if row.error is None or row.kind is None:
            continue
        errors[row.kind].append(abs(row.error))
        if row.kind not in {"burst", "workload"}:
            errors["all"].append(abs(row.error))
    return tuple(
        Margin(kind, len(error), statistics.median(error), _ninth(sorted(error)))
        for kind, error in errors.items()
        if error
    )


def _ninth(errors: Sequence[float]) -> float:
    """Of errors in order, the smallest that nine tenths of them do not exceed."""
    return errors[math.ceil(0.9 * len(errors)) - 1]


def _summary(paper: str, rows: Iterable[PaperRow]) -> PaperSummary:
    checks = [row for row in rows if row.role == "check"]
    errors = sorted(abs(row.error) for row in checks if row.error is not None)
    without = len(checks) - len(errors)
    if not errors:
        return PaperSummary(paper, 0, None, None, None, without)
    return PaperSummary(paper, len(errors), statistics.median(errors), _ninth(errors), errors[-1], without)


def papers_document(check: PapersCheck) -> dict[str, Any]:
    """What `gridwright predict --papers --json` prints; its keys are a contract."""
    return {
        "papers": [asdict(paper) for paper in check.papers],
        "margins": [asdict(measured_margin) for measured_margin in measured_margins(check)],
        "reach": [
            {**asdict(check.instance_table), "at_most": LIMITS[INSTANCE_TABLE]},
            {**asdict(check.others), "at_most": LIMIT},
        ],
        "rows": [
            {name: value for name, value in asdict(row).items() if name not in {"why", "kind"}}
            | {"note": row.why}
            for row in check.rows
        ],
    }
