"""One published figure, predicted from the grid spec of its configuration and the catalogue."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

from gridwright.catalog import Catalog, InstanceType
from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import Operation
from gridwright.model.chains import library_chain
from gridwright.model.grid import GridModel, grid_model
from gridwright.model.margins import Kind
from gridwright.model.papers.figures import (
    PaperConfiguration,
    PublishedFigure,
    configurations,
    paper_spec,
    reasons,
)
from gridwright.model.workload import (
    Replay,
    WorkloadMatrix,
    default_profiles,
    simulate_workload,
)
from gridwright.model.workload_figures import WorkloadPrediction
from gridwright.runs.profiles import Profiles
from gridwright.spec.model import GridSpec

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
    found = grids.catalog.instances.values()
    return [each for each in found if each.family == family and not each.bare_metal]


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
    kinds = {each.kind for each in found}
    mean = statistics.fmean(each.value for each in found)
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
