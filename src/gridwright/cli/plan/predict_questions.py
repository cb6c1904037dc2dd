"""What `gridwright predict` tells with further flags: what if load, parts or inputs change, and of stores.

`--day`, `--without`, `--sensitivity` and `--sweep`; with `--repository`, how long an export, a warm-up and a
restore take, and what they cost; with `--free-space`, how full the targets of file systems are, saved or as
it is now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.cli.output import LazyResult, Output, plain, write_output
from gridwright.errors import ExitStatus, GridwrightError, Problem, input_error, nearest
from gridwright.handed_files import read_named
from gridwright.refusals import refusal

if TYPE_CHECKING:
    from gridwright.filesystems.allocation import TargetSpace
    from gridwright.model.grid import GridModel
    from gridwright.model.node_alone import NodeLimit
    from gridwright.model.workload import Replay, WorkloadMatrix
    from gridwright.repository.forecast import MonthForecast, RepositoryForecast, TransferLimit
    from gridwright.runs.profiles import Profiles
    from gridwright.spec.linked import LinkedDirectory
    from gridwright.spec.model import GridSpec
    from gridwright.spec.repository import Schedule


def predict_day(model: GridModel, curve: str, streams: int | None, output: Output) -> ExitStatus:
    """Print when a grid serves this load and when not; exit status 1 where it does not all day.

    Raises GridwrightError.
    """
    from gridwright.model.day import load_day
    from gridwright.model.day import predict_day as walk_day

    found = walk_day(model, load_day(curve), streams)

    def text() -> str:
        from gridwright.report.terminal.prediction import day_text

        return day_text(found)

    output.show(LazyResult(document=lambda: asdict(found), text=text))
    return ExitStatus.DONE if found.holds else ExitStatus.MISSED


def predict_without(
    model: GridModel, names: Sequence[str], streams: int | None, output: Output
) -> ExitStatus:
    """Print what is left without the parts of these names, and the table of one of each dead.

    Exit status 1 where the requirements do not hold any more; with `each` alone the table judges nothing.
    Raises GridwrightError.
    """
    from gridwright.model.degraded import EACH, degraded_grid, find_failure_domains, single_failures

    parts = find_failure_domains(model, [name for name in names if name != EACH])
    left = degraded_grid(model, parts, streams) if parts else None
    grids = single_failures(model, streams)

    def text() -> str:
        from gridwright.report.terminal.prediction import without_text

        return without_text(model.name, left, grids)

    def document() -> dict[str, object]:
        return {
            "grid": model.name,
            "without": None if left is None else asdict(left),
            "one_of_each_dead": [asdict(row) for row in grids],
        }

    output.show(LazyResult(document=document, text=text))
    return ExitStatus.MISSED if left is not None and left.holds is False else ExitStatus.DONE


def predict_sensitivity(model: GridModel, percent: float, streams: int | None, output: Output) -> ExitStatus:
    """Print what each input moves when it changes by so many percent. Raises GridwrightError."""
    from gridwright.model.sensitivity import sensitivity

    found = sensitivity(model, percent / 100, streams)

    def text() -> str:
        from gridwright.report.terminal.prediction import sensitivity_text

        return sensitivity_text(found)

    output.show(LazyResult(document=lambda: asdict(found), text=text))
    return ExitStatus.DONE


@dataclass(frozen=True, slots=True)
class Simulated:
    """What is simulated; `where` names the profiles in errors."""

    model: GridModel
    matrix: WorkloadMatrix
    profiles: Profiles
    replay: Replay
    where: str


def predict_sweep(of: Simulated, output: Output, *, up_to: int | None, html: Path | None) -> ExitStatus:
    """Sweep the simulated workload and print the answer. Raises GridwrightError."""
    from gridwright.model.workload import SimulatedSteps
    from gridwright.runs.stream_sweep import StreamSweep, SweepOf
    from gridwright.workload.matrix import MAX_STREAMS, sweep_rule
    from gridwright.workload.options import needs_of

    launches = [test for stream in of.matrix.streams for test in stream]
    # A simulation has no noise: one step says all.
    rule = sweep_rule(needs_of(of.model.spec), launches, most=up_to or MAX_STREAMS, agree=1)
    steps = SimulatedSteps(of.model, of.matrix.name, launches, of.profiles, of.replay, rule, of.where)
    scale = of.replay.scale or of.profiles.scale
    sweep = StreamSweep(
        SweepOf(command="predict", grid=of.model.name, matrix=of.matrix.name, scale=scale), rule
    )
    sweep.run(steps.measure)
    sweep.findings, sweep.assumptions = steps.findings_of(sweep.record().carries)
    record = sweep.record()
    if html is not None:
        from gridwright.report.stream_sweep import sweep_page

        write_output(html, sweep_page(record))

    def text() -> str:
        from gridwright.report.terminal.run import sweep_text

        return sweep_text(record)

    output.show(LazyResult(document=lambda: plain(record), text=text))
    if html is not None:
        output.note(f"page: {html}")
    return ExitStatus.DONE if record.carries else ExitStatus.MISSED


def predict_repository(
    model: GridModel, name: str, objects: int | None, changed_a_day: int | None, output: Output
) -> ExitStatus:
    """Print the forecast of a repository of the grid. Raises GridwrightError."""
    from gridwright.spec.linked import linked_directories

    linked = linked_directories(model.spec)
    known = list(dict.fromkeys([*model.spec.repositories, *linked]))
    if name not in known:
        near = nearest(name, known)
        hint = f"did you mean {near}? " if near else ""
        remedy = f"{hint}name {' or '.join(known)}" if known else "add repositories: to the grid spec"
        raise input_error(f"grid {model.name} has no repository {name}", where="--repository", remedy=remedy)
    request = _ForecastRequest(model, name, objects, changed_a_day)
    forecast = request.of_service(linked[name]) if name in linked else request.of_node()
    output.show(LazyResult(document=forecast.document, text=lambda: _text(forecast)))
    return ExitStatus.DONE


@dataclass(frozen=True, slots=True)
class _ForecastRequest:
    """What is asked of which repository."""

    model: GridModel
    name: str
    objects: int | None
    changed_a_day: int | None

    def of_node(self) -> RepositoryForecast:
        """Forecast of one that a node carries. Raises GridwrightError."""
        from gridwright.model.node_alone import limits_of_one_node
        from gridwright.repository.forecast import forecast

        repository = self.model.spec.repositories[self.name]
        limits = limits_of_one_node(self.model, repository.library)
        size = _size(self.model, repository.library)
        month = self._month(size, repository.export.changed, repository.imports.names)
        out, back = (as_transfer_limits(limits[each]) for each in ("read", "write"))
        return forecast(self.name, size, self.objects, out, back, month)

    def of_service(self, directory: LinkedDirectory) -> RepositoryForecast:
        """Forecast of one that its file system carries. Raises GridwrightError."""
        if self.model.spec.filesystems[directory.filesystem].links_by_job:
            raise input_error(
                f"how fast jobs of {directory.filesystem} copy is not on file, nor what they cost",
                where="--repository",
                remedy=f"time one with gridwright repo export {directory.name}; gridwright repo status has "
                "what its throughput bounds",
            )
        from gridwright.model.node_alone import limits_of_service
        from gridwright.repository.forecast import service_forecast

        limits = limits_of_service(self.model, directory.filesystem)
        size, notes = _size_of_linked(self.model, directory)
        month = self._month(size, directory.export, directory.names, exports_list=False)
        out, back = (as_transfer_limits(limits[each]) for each in ("read", "write"))
        return service_forecast(self.name, size, self.objects, out, back, month, notes)

    def _month(
        self, size: int, export: Schedule, names: Schedule, *, exports_list: bool = True
    ) -> MonthForecast:
        from gridwright.repository.forecast import month_forecast

        usd = _storage_usd(self.model)
        return month_forecast(
            *(size, self.objects, usd, export.period_s, names.period_s, self.changed_a_day),
            exports_list=exports_list,
        )


def as_transfer_limits(limits: Sequence[NodeLimit]) -> list[TransferLimit]:
    """Limits of the model as those of a forecast."""
    from gridwright.repository.forecast import TransferLimit

    return [TransferLimit(limit.what, limit.bytes_per_s) for limit in limits]


def _size_of_linked(model: GridModel, directory: LinkedDirectory) -> tuple[int, Sequence[str]]:
    """Bytes of a linked directory, and what is to be said of them. Raises GridwrightError."""
    repository = model.spec.repositories.get(directory.name)
    if repository is not None and model.libraries[repository.library].capacity is not None:
        return _size(model, repository.library), ()
    capacity = model.contributions[directory.filesystem].capacity_bytes
    if capacity is None:
        raise GridwrightError(
            Problem(
                f"nothing says how much file system {directory.filesystem} holds",
                where=str(model.spec.file),
                field=f"filesystems.{directory.filesystem}",
                remedy="add capacity: to a library of it, such as 12 TiB",
            )
        )
    note = f"No library says its capacity: the bytes are all that {directory.filesystem} has room for."
    return capacity, (note,)


def _storage_usd(model: GridModel) -> float | None:
    """USD per GiB and month of S3 Standard in the grid's region, the site's own price before the list's."""
    from gridwright.catalog import load_catalog

    file = model.spec.file
    return load_catalog(file.parent if file else None).services.usd(
        "s3-standard", model.spec.region or "us-east-1"
    )


def _size(model: GridModel, library: str) -> int:
    """Bytes of a library: what the spec says it needs."""
    capacity = model.libraries[library].capacity
    if capacity is None:
        raise GridwrightError(
            Problem(
                f"nothing says how much library {library} holds",
                where=str(model.spec.file),
                field=f"libraries.{library}.capacity",
                remedy=f"add capacity: to library {library}, such as 12 TiB",
            )
        )
    return int(capacity)


def _text(forecast: RepositoryForecast) -> str:
    from gridwright.report.figures import duration
    from gridwright.units import format_bytes

    objects = "objects unknown" if forecast.objects is None else f"{forecast.objects} objects"
    lines = [f"{forecast.repository}: {format_bytes(forecast.bytes)}, {objects}"]
    for transfer in forecast.transfers:
        usd = (
            "cost unknown: say --objects"
            if transfer.requests_usd is None
            else f"{transfer.requests_usd:,.2f} USD"
        )
        lines.append(f"  {transfer.transfer}: at least {duration(transfer.seconds)}, {usd}")
        lines.append(f"    bound by {transfer.bound_by}")
    lines += [_month(forecast.month)] if forecast.month is not None else []
    return "\n".join([*lines, *(f"  {note}" for note in forecast.notes)])


def _month(month: MonthForecast) -> str:
    storage = (
        "no price of storage is known: write it under prices: services: in catalog.yaml"
        if month.storage_usd is None
        else f"{month.storage_usd:,.2f} USD for storage at most"
    )
    listings = "unknown: say --objects" if month.listings_usd is None else f"{month.listings_usd:,.2f} USD"
    imports = f", {month.imports} imports by time" if month.imports else ""
    if month.imports or (month.exports and month.listings):
        imports += f" ({listings} for listings)"
    changed = (
        "requests for what is changed unknown: say --changed"
        if month.changed_usd is None
        else f"at least {month.changed_usd:,.2f} USD for sending what is changed"
    )
    return f"  a month: {storage}, {month.exports} exports by time{imports}; {changed}"


FLAG = "--free-space"
NOW = "now"
_MOST_BYTES = 16 * 2**20
"""A line has about 80 bytes, and a file system a few thousand targets at most."""


def space_now(file: Path | None) -> tuple[GridSpec, Mapping[str, tuple[TargetSpace, ...]]]:
    """A grid, and the free space that its head node, or this machine, is told now. Raises GridwrightError."""
    from gridwright.cli.data.desired_layouts import opened
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.kind import Layouts

    spec, run_on = opened(file)
    found = {
        name: tuple(kind.target_space(filesystem, run_on(filesystem), str(filesystem.path)))
        for name, filesystem in spec.filesystems.items()
        if isinstance(kind := kind_of(filesystem), Layouts)
    }
    if not found:
        raise _has_none(spec)
    return spec, found


def space_in(path: Path, spec: GridSpec) -> Mapping[str, tuple[TargetSpace, ...]]:
    """The free space that a file tells, by file system of the grid. Raises GridwrightError."""
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.kind import Layouts

    text = _read(path)
    striped = {
        name: (filesystem, kind)
        for name, filesystem in spec.filesystems.items()
        if isinstance(kind := kind_of(filesystem), Layouts)
    }
    if not striped:
        raise _has_none(spec)
    spaces: dict[str, tuple[TargetSpace, ...]] = {}
    mounted: set[str] = set()
    for name, (each, kind) in striped.items():
        told = kind.printed_target_space(text, str(path))
        mounted |= set(told)
        alone = next(iter(told.values())) if len(told) == len(striped) == 1 else None
        space = told.get(str(each.path), alone)
        if space is not None:
            spaces[name] = tuple(space)
    if not spaces:
        raise input_error(
            f"it tells of {', '.join(sorted(mounted))}, and the grid has {', '.join(sorted(striped))} at "
            f"{', '.join(sorted(str(each.path) for each, _ in striped.values()))}",
            where=str(path),
            remedy="save what `lfs df PATH` prints, with the path of the grid spec",
        )
    return spaces


def _read(path: Path) -> str:
    try:
        data = read_named(path, _MOST_BYTES)
    except OSError as error:
        why = refusal(path, error, f"save what `lfs df PATH` prints there, or write {FLAG} {NOW}")
        raise input_error(f"it cannot be read: {why.reason}", where=str(path), remedy=why.remedy) from error
    if len(data) > _MOST_BYTES:
        raise input_error(
            "it is too long to be what `lfs df` prints", where=str(path), remedy="name another file"
        )
    return data.decode(errors="replace")


def _has_none(spec: GridSpec) -> Exception:
    return input_error(
        "no file system of the grid spreads files over targets",
        where=str(spec.file) if spec.file else FLAG,
        remedy=f"leave out {FLAG}: it is for Lustre",
    )
