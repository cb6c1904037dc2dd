"""Whether a grid carries a day's load: burst credits that peaks spend and quiet hours earn, day after day.

The curve of a day says which part of the cores moves data, from when on.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from gridwright.errors import GridwrightError, Problem, environment_error, input_error, nearest
from gridwright.filesystems.resources import OPERATIONS, Operation, Resource, Route
from gridwright.handed_files import read_within
from gridwright.model.chains import Flow, solve
from gridwright.model.grid import GridModel
from gridwright.model.grid_layouts import AlikeNodes
from gridwright.model.predict import predict
from gridwright.model.prediction import reaches

DAY_S = 86_400.0
NAMES = ("business-day", "nightly-batch", "all-day")
"""Curves that come with Gridwright: typical shapes that nobody measured."""

_MOST_BYTES = 1 << 20
_CLOCK = re.compile(r"([01]?\d|2[0-3])(?::([0-5]\d))?")
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)")


@dataclass(frozen=True, slots=True)
class DayStep:
    """From `start_s` after midnight to `end_s`, the part `busy` (0 to 1) of all cores moves data."""

    start_s: float
    end_s: float
    busy: float


@dataclass(frozen=True, slots=True)
class DayCurve:
    """A day that repeats; its steps follow each other from midnight to midnight."""

    name: str
    steps: tuple[DayStep, ...]

    @property
    def mean(self) -> float:
        """The part of all cores that is busy on average."""
        return sum((step.end_s - step.start_s) * step.busy for step in self.steps) / DAY_S


def day_curve(name: str, starts: Sequence[tuple[float, float]]) -> DayCurve:
    """A curve of (seconds after midnight, part busy); the last one lasts over midnight until the first."""
    # Less than a millionth of the cores is nobody, and the solver takes no rates that small.
    ordered = sorted((start, round(busy, 6)) for start, busy in starts)
    if ordered[0][0] > 0:
        ordered.insert(0, (0.0, ordered[-1][1]))
    ends = [start for start, _ in ordered[1:]] + [DAY_S]
    return DayCurve(
        name, tuple(DayStep(start, end, busy) for (start, busy), end in zip(ordered, ends, strict=True))
    )


def load_day(text: str) -> DayCurve:
    """Load a curve that comes along by its name, or one's own from a CSV file with columns `from` and `busy`.

    Raises GridwrightError with every problem of the file.
    """
    if text in NAMES:
        return _read(text, _packaged(text), text)
    if not text.endswith(".csv"):
        close = nearest(text, NAMES)
        meant = f"; did you mean {close}?" if close else ""
        raise input_error(
            f"no day's load is named {text!r}{meant}",
            where="--day",
            remedy=f"use {', '.join(NAMES)}, or a file *.csv with columns from,busy",
        )
    path = Path(text)
    try:
        content = read_within(path, _MOST_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        what = "it is no text in UTF-8" if isinstance(error, UnicodeDecodeError) else what
        raise environment_error(
            f"the day's load cannot be read: {what}", where=text, remedy="name a file that can be read"
        ) from error
    return _read(path.stem, content, text)


def _packaged(name: str) -> str:
    return resources.files("gridwright.model").joinpath(f"data/days/{name}.csv").read_text("utf-8")


def _read(name: str, content: str, where: str) -> DayCurve:
    lines = [
        (number, cells)
        for number, cells in enumerate(csv.reader(content.splitlines()), 1)
        if any(cell.strip() for cell in cells) and not cells[0].startswith("#")
    ]
    head = [cell.strip() for cell in lines[0][1]] if lines else []
    if head != ["from", "busy"] or len(lines) < 2:
        raise input_error(
            "a day's load has the columns from,busy and a row for each change",
            where=where,
            remedy="write lines such as 08:00,60 % below a first line from,busy",
        )
    starts: dict[float, float] = {}
    problems: list[Problem] = []
    for number, cells in lines[1:]:
        found = list(_problems(cells, starts))
        problems += [Problem(what, f"{where}:{number}", remedy=remedy) for what, remedy in found]
        if not found:
            starts[_seconds(cells[0])] = _part(cells[1])
    if problems:
        raise GridwrightError(*problems)
    return day_curve(name, list(starts.items()))


def _problems(cells: Sequence[str], starts: dict[float, float]) -> Iterator[tuple[str, str]]:
    """What is wrong with a row, and what to do."""
    if len(cells) != 2:
        yield (
            "this row has not two cells",
            "write the time and the part of the cores that is busy: 08:00,60 %",
        )
        return
    if not _CLOCK.fullmatch(cells[0].strip()):
        yield f"{cells[0].strip()!r} is no time of day", "write the hour from 0 to 23, or 08:30"
    elif _seconds(cells[0]) in starts:
        yield f"{cells[0].strip()} is there twice", "leave one of the rows out"
    part = _PART.fullmatch(cells[1].strip())
    if not part or not 0 <= _part(cells[1]) <= 1:
        yield (
            f"{cells[1].strip()!r} is no part of the cores",
            "write 0 % to 100 %, or a part from 0 to 1",
        )


def _seconds(text: str) -> float:
    match = _CLOCK.fullmatch(text.strip())
    assert match is not None  # noqa: S101 - asked for before
    return int(match[1]) * 3600.0 + int(match[2] or 0) * 60.0


def _part(text: str) -> float:
    match = _PART.fullmatch(text.strip())
    assert match is not None  # noqa: S101 - asked for before
    return float(match[1]) / (100 if match[2] else 1)


EMPTY = 1e-9
"""A bucket with less than this part of its size is taken to be empty."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Credits of a resource, of all nodes together.

    `full` bytes let it pass `burst` bytes/s in place of `steady` until they are spent. What is not used below
    `steady` fills it again, at `most_refill` bytes/s at most.
    """

    resource: Resource
    steady: float
    burst: float
    full: float
    most_refill: float

    def net(self, used: float, balance: float) -> float:
        """How fast its balance changes in bytes/s while `used` bytes/s pass."""
        if used > self.steady:
            return self.steady - used if balance > 0 else 0.0
        return min(self.steady - used, self.most_refill) if balance < self.full else 0.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time with constant rates. `least` is the least part of its demand that a flow gets.

    `bound_by` names what binds that flow, empty where each gets all it asks for.
    """

    start_s: float
    end_s: float
    demand: float
    rate: float
    least: float
    bound_by: str
    used: tuple[float, ...]
    balances: tuple[float, ...]
    """Of each bucket at the end of it."""

    @property
    def short(self) -> bool:
        """Whether a flow gets less than it asks for."""
        return not reaches(self.least, 1.0)


@dataclass(frozen=True, slots=True)
class DemandOnRoute:
    """Bytes/s that so many nodes ask of a library with all cores busy, and the most their streams move."""

    route: Route
    nodes: int
    bytes_per_s: float
    streams_bytes_per_s: float


class SharedResources:
    """Resources that some libraries share in one direction; those with a published burst have a bucket."""

    def __init__(self, demands: Sequence[DemandOnRoute]) -> None:
        found: dict[str, tuple[Resource, int]] = {}
        for demand in demands:
            found.update({use.resource.name: (use.resource, demand.nodes) for use in demand.route.uses})
        self.demands = demands
        self.resources = tuple(resource for resource, _ in found.values())
        self._index = {name: number for number, name in enumerate(found)}
        self._parts = [nodes if resource.scope == "node" else 1 for resource, nodes in found.values()]
        self._steady = [
            each.bytes_per_s * part for each, part in zip(self.resources, self._parts, strict=True)
        ]
        self.buckets: Mapping[int, Bucket] = {
            number: bucket
            for number, resource in enumerate(self.resources)
            if (bucket := _bucket_of(resource, self._parts[number])) is not None
        }

    @property
    def unpublished(self) -> tuple[str, ...]:
        """Resources that burst, of which no fact says for how long: only their steady rates count."""
        return tuple(
            resource.name
            for resource in self.resources
            if resource.highest_bytes_per_s > resource.bytes_per_s and resource.burst_s is None
        )

    def until(self, start_s: float, end_s: float, busy: float, balances: Sequence[float]) -> Stretch:
        """Let the part `busy` of all cores ask, until `end_s` or until a bucket is empty."""
        rates, bound = self._rates(busy, balances)
        used = [0.0] * len(self.resources)
        for demand, rate in zip(self.demands, rates, strict=True):
            for use in demand.route.uses:
                used[self._index[use.resource.name]] += rate * use.coefficient
        nets = [
            bucket.net(used[number], balance)
            for (number, bucket), balance in zip(self.buckets.items(), balances, strict=True)
        ]
        lengths = [balance / -net for balance, net in zip(balances, nets, strict=True) if net < 0]
        length = min([end_s - start_s, *lengths])
        after = tuple(
            _clamped_balance(bucket, balance + net * length)
            for bucket, balance, net in zip(self.buckets.values(), balances, nets, strict=True)
        )
        asked = [demand.bytes_per_s * busy for demand in self.demands]
        parts = [rate / each if each else 1.0 for rate, each in zip(rates, asked, strict=True)]
        worst = min(range(len(parts)), key=parts.__getitem__)
        short = not reaches(parts[worst], 1.0)
        # A last step that rounding leaves of nothing must end the day all the same.
        ends = end_s if length >= end_s - start_s else start_s + length
        return Stretch(
            start_s,
            ends,
            sum(asked),
            sum(rates),
            parts[worst],
            bound[worst] if short else "",
            tuple(used),
            after,
        )

    def _rates(self, busy: float, balances: Sequence[float]) -> tuple[list[float], list[str]]:
        """The rate of each library, and what binds it."""
        if not busy:
            return [0.0] * len(self.demands), [""] * len(self.demands)
        capacities = list(self._steady)
        for (number, bucket), balance in zip(self.buckets.items(), balances, strict=True):
            if balance > 0:
                capacities[number] = bucket.burst
        flows = [
            Flow(
                tuple((self._index[use.resource.name], use.coefficient) for use in demand.route.uses),
                weight=demand.bytes_per_s,
                cap=min(demand.bytes_per_s, demand.streams_bytes_per_s) * busy,
            )
            for demand in self.demands
        ]
        solution = solve(capacities, flows)
        names = ["streams" if number is None else self.resources[number].name for number in solution.bound_by]
        return list(solution.rates), names


def _bucket_of(resource: Resource, parts: int) -> Bucket | None:
    """The credits of a resource that each of `parts` nodes has; None where none are published."""
    burst = resource.highest_bytes_per_s
    if resource.burst_s is None or burst <= resource.bytes_per_s:
        return None
    full = resource.burst_s * (burst - resource.bytes_per_s) * parts
    refill = full / resource.refill_s if resource.refill_s else float("inf")
    return Bucket(resource, resource.bytes_per_s * parts, burst * parts, full, refill)


def _clamped_balance(bucket: Bucket, balance: float) -> float:
    if balance <= bucket.full * EMPTY:
        return 0.0
    return min(balance, bucket.full)


_MOST_DAYS = 400
"""So many days are walked at most; days that only repeat a change are skipped."""
_SAME = 1e-9
"""Balances at midnight that differ by less than this part of a bucket agree."""


@dataclass(frozen=True, slots=True)
class CreditsOfDay:
    """Credits of one resource on such a day; balances are parts of a full bucket.

    `full_bytes` is of all nodes together. `empty_s` is how long of the day they are spent, and
    `first_empty_s` when that begins, in seconds after midnight; None where it never does.
    """

    resource: str
    source: str
    full_bytes: float
    lowest: float
    at_midnight: float
    empty_s: float
    first_empty_s: float | None


@dataclass(frozen=True, slots=True)
class LibraryDay:
    """A library in one direction, or all at once (`library` is None), on a day that repeats.

    `short_s` is how long it gets less than it asks for, from `first_short_s` after midnight on; `least` is
    the least part of what it asks for that it gets, bound by `bound_by`. What it does not get is not made up
    later. `unpublished` names resources whose burst no fact gives a length, so that it does not count.
    `settled` is False where balances still fall after years.
    """

    library: str | None
    operation: Operation
    demanded_bytes: float
    moved_bytes: float
    short_s: float
    first_short_s: float | None
    least: float
    bound_by: str
    holds: bool
    settled: bool
    credits: tuple[CreditsOfDay, ...]
    unpublished: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DayPrediction:
    """A grid under a day's load. `share_at_once` is asked of each library where all are busy at once."""

    grid: str
    curve: DayCurve
    share_at_once: float | None
    walks: tuple[LibraryDay, ...]
    holds: bool


def predict_day(model: GridModel, curve: DayCurve, streams_per_node: int | None = None) -> DayPrediction:
    """Walk the day until balances at midnight agree, from full buckets on.

    A busy core asks for what its library requires of each core; busy cores are spread evenly over the nodes.
    Each library is walked alone, and all at once at the share that requirements ask for. Raises
    GridwrightError where no library has a required rate, or of one nothing is known.
    """
    whole = predict(model, streams_per_node)
    required = {
        name: float(library.requires.bytes_per_s)
        for name, library in model.libraries.items()
        if library.requires is not None
    }
    if not required:
        raise input_error(
            "no library has a required rate, so a day asks for nothing",
            where="libraries",
            remedy="add requires: 100 MB/s/core to a library",
        )
    share = whole.together.required_share if whole.together else None
    groups: list[tuple[str | None, Mapping[str, float]]] = [
        (name, {name: rate}) for name, rate in required.items()
    ]
    if share is not None:
        groups.append((None, {name: rate * share for name, rate in required.items()}))
    walks = tuple(
        _library_day(model, name, operation, asked, curve, streams_per_node)
        for name, asked in groups
        for operation in OPERATIONS
    )
    return DayPrediction(model.name, curve, share, walks, all(walk.holds for walk in walks))


def _library_day(
    model: GridModel,
    library: str | None,
    operation: Operation,
    asked: Mapping[str, float],
    curve: DayCurve,
    streams_per_node: int | None,
) -> LibraryDay:
    def demand(group: AlikeNodes, route: Route, per_core: float) -> DemandOnRoute:
        streams = group.streams(streams_per_node) * group.nodes
        return DemandOnRoute(route, group.nodes, per_core * group.cores, route.stream_bytes_per_s * streams)

    shared = SharedResources(
        [
            demand(group, group.routes[name][operation], per_core)
            for group in model.groups
            for name, per_core in asked.items()
        ]
    )
    day, settled = settled_day(shared, curve)
    short = [stretch for stretch in day if stretch.short]
    worst = min(day, key=lambda each: each.least)
    return LibraryDay(
        library,
        operation,
        sum(stretch.demand * (stretch.end_s - stretch.start_s) for stretch in day),
        sum(stretch.rate * (stretch.end_s - stretch.start_s) for stretch in day),
        sum(each.end_s - each.start_s for each in short),
        short[0].start_s if short else None,
        worst.least,
        worst.bound_by,
        not short,
        settled,
        tuple(_credits(bucket, number, day) for number, bucket in enumerate(shared.buckets.values())),
        shared.unpublished,
    )


def _credits(bucket: Bucket, number: int, day: Sequence[Stretch]) -> CreditsOfDay:
    balances = [day[-1].balances[number], *(stretch.balances[number] for stretch in day)]
    empty = [
        stretch
        for stretch, before in zip(day, balances, strict=False)
        if before == 0 and stretch.balances[number] == 0 and stretch.end_s > stretch.start_s
    ]
    return CreditsOfDay(
        bucket.resource.name,
        bucket.resource.source,
        bucket.full,
        min(balances) / bucket.full,
        balances[0] / bucket.full,
        sum(stretch.end_s - stretch.start_s for stretch in empty),
        empty[0].start_s if empty else None,
    )


def settled_day(shared: SharedResources, curve: DayCurve) -> tuple[list[Stretch], bool]:
    """The day after which balances at midnight are what they were, and whether there is one.

    Where a whole day passes without a bucket getting empty or full, the next repeats its change, and as many
    days are skipped as that stays so.
    """
    buckets = list(shared.buckets.values())
    balances = tuple(bucket.full for bucket in buckets)
    day: list[Stretch] = []
    for _ in range(_MOST_DAYS):
        day = list(walked_day(shared, curve, balances))
        after = day[-1].balances
        if all(
            abs(now - before) <= _SAME * bucket.full
            for now, before, bucket in zip(after, balances, buckets, strict=True)
        ):
            return day, True
        skipped = _repeats(buckets, day, balances)
        balances = tuple(now + skipped * (now - before) for now, before in zip(after, balances, strict=True))
    return day, False


def walked_day(shared: SharedResources, curve: DayCurve, balances: Sequence[float]) -> Iterator[Stretch]:
    """One day from these balances at midnight, in stretches with constant rates."""
    for step in curve.steps:
        now = step.start_s
        while now < step.end_s:
            stretch = shared.until(now, step.end_s, step.busy, balances)
            yield stretch
            now, balances = stretch.end_s, stretch.balances


def _repeats(buckets: Sequence[Bucket], day: Sequence[Stretch], before: Sequence[float]) -> int:
    """How many more days change every balance as this one did, each at most by what it has."""
    most = math.inf
    for number, bucket in enumerate(buckets):
        seen = [before[number], *(stretch.balances[number] for stretch in day)]
        change = seen[-1] - seen[0]
        if abs(change) <= _SAME * bucket.full:
            continue
        if min(seen) <= 0 or max(seen) >= bucket.full:
            return 0
        room = min(seen) if change < 0 else bucket.full - max(seen)
        most = min(most, room / abs(change))
    # One day fewer: the day in which a bucket gets empty or full is walked.
    return max(0, math.floor(most) - 1) if math.isfinite(most) else 0
