"""The mixed workload on a grid that may not exist: launch profiles replayed, and how many jobs it carries.

Each launch computes and moves bytes phase by phase as its profile says; what it gets of the node's cores
and of each resource on the way to a library is its fair share at that moment (`model.simulate`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from itertools import islice
from math import inf
from random import Random
from typing import Literal

from gridwright.errors import Finding, GridwrightError, Problem
from gridwright.filesystems.resources import OPERATIONS, Operation, Resource
from gridwright.model.grid import GridModel
from gridwright.model.prediction import margin_of
from gridwright.model.simulate import (
    TOLERANCE,
    Activity,
    Nights,
    Phase,
    Profile,
    Scenario,
    SimulatedNode,
    SimulatedRoute,
    Stream,
    simulate,
)
from gridwright.model.workload_figures import CPU, WorkloadPrediction, figures
from gridwright.runs.profiles import LaunchProfile, PhaseProfile, Profiles, parse_profiles
from gridwright.runs.records import FindingRecord
from gridwright.runs.stream_sweep import SweepRule, SweepStep, rotations
from gridwright.runs.workload_judge import judged_ratio
from gridwright.spec.model import LibraryName
from gridwright.units import counted


@dataclass(slots=True)
class SimulatedSteps:
    """Runs the steps: every stream has all launches, by their names, and streams take turns on the nodes.

    `where` names the profiles in errors.
    """

    grid: GridModel
    name: str
    launches: Sequence[str]
    profiles: Profiles
    replay: Replay
    rule: SweepRule
    where: str
    _predictions: dict[int, WorkloadPrediction] = field(default_factory=dict)

    def measure(self, streams: int, attempt: int) -> SweepStep:
        """Simulate so many streams. Raises GridwrightError as `simulate_workload` does."""
        matrix = WorkloadMatrix(self.name, rotations(self.launches, streams))
        prediction = simulate_workload(self.grid, matrix, self.profiles, self.replay, where=self.where)
        self._predictions[streams] = prediction
        return predicted_step(prediction, self.rule, streams=streams, attempt=attempt)

    def findings_of(self, streams: int | None) -> tuple[list[FindingRecord], list[str]]:
        """Findings and assumptions of the step with so many streams, or of the first."""
        prediction = self._predictions[streams or 1]
        findings = [FindingRecord.model_validate(asdict(finding)) for finding in prediction.findings]
        margin = margin_of("workload")
        said = (
            f"margin of error of CPU/real: {margin.p90:.0%}, not exceeded on nine in ten of {margin.count} "
            "published figures"
        )
        return findings, [said, *prediction.assumptions]


def predicted_step(
    prediction: WorkloadPrediction, rule: SweepRule, *, streams: int, attempt: int
) -> SweepStep:
    """What a predicted run amounts to as a step."""
    number = len(prediction.launches)
    tests = {
        test: judged_ratio(
            (launch.cpu_s, launch.real_s) for launch in prediction.launches if launch.test == test
        )
        for test in rule.tests
    }
    return SweepStep(
        streams=streams,
        attempt=attempt,
        status="complete",
        launches=number,
        wall_s=prediction.elapsed_s,
        real_s_mean=prediction.real_s / number if number else None,
        ratio=judged_ratio((launch.cpu_s, launch.real_s) for launch in prediction.launches),
        tests={test: ratio for test, ratio in tests.items() if ratio is not None},
        shares=dict(prediction.shares),
        resources={name: share for name, share in prediction.resources.items() if name is not None},
    )


PageCache = Literal["profile", "none"]
_DEFAULT = "profiles.json"
_PAIRS = 8
"""Pairs of launches that differ, for each test; more launches than these take turns."""
_NOTHING = 1e-9
"""Less than a byte, or a nanosecond of a core, is no work."""


@dataclass(frozen=True, slots=True)
class WorkloadMatrix:
    """Streams of tests by name, which run back to back; streams run at once.

    With `every_node` each node runs all streams; else stream n runs on node n modulo nodes.
    """

    name: str
    streams: tuple[tuple[str, ...], ...]
    every_node: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """How profiles are carried over to another machine and another amount of data.

    `scale`: amounts of bytes and CPU time grow with the bytes of the data set; None as recorded.
    `cpu_speed`: how many times faster a core is than where the profiles were recorded.
    `page_cache`: `profile` takes the part of the reads that the page cache served as recorded;
    `none` has every read come from the file system, as where the data exceed the nodes' memory.
    `spread`: no two launches take quite the same time, so streams that run the same launches do not stay
    in step. What a launch does in each of its phases differs by up to this part from its profile, from
    `seed`; it matters that they differ, hardly by how much. A single stream is replayed as recorded.
    `tolerance` is that of the simulation.
    """

    scale: str | None = None
    cpu_speed: float = 1.0
    page_cache: PageCache = "profile"
    spread: float = 0.05
    seed: int = 1
    tolerance: float = TOLERANCE


AS_RECORDED = Replay()


@cache
def default_profiles() -> Profiles:
    """The profiles that come with Gridwright; they say where they were recorded."""
    content = files("gridwright.model").joinpath("data", _DEFAULT).read_bytes()
    return parse_profiles(content, f"gridwright/model/data/{_DEFAULT}")


def simulate_workload(
    grid: GridModel,
    matrix: WorkloadMatrix,
    profiles: Profiles,
    replay: Replay = AS_RECORDED,
    *,
    where: str = "--profile",
    variants: Variants | None = None,
) -> WorkloadPrediction:
    """Predict a run of the workload; `where` names the profiles in errors.

    Who predicts the same matrix, profiles and replay on many grids gives the same mapping as `variants`, in
    which what does not depend on the grid is kept.

    Raises GridwrightError that names every test without a profile and every library that launches use
    and of which the grid does not know the rates.
    """
    tests = list(dict.fromkeys(test for stream in matrix.streams for test in stream))
    chosen = profiles.of(tests, where=where)
    factor = profiles.scaled_by(replay.scale, where=where)
    if replay.cpu_speed <= 0.0:
        raise GridwrightError(
            Problem(f"{replay.cpu_speed:g} is no speed", where="--cpu-speed", remedy="above 0, such as 1.2")
        )
    _check_routes(grid, _used_libraries(chosen))
    plan = _Plan(grid, matrix)
    spread = replay.spread if len(plan.placed) > 1 else 0.0
    variants = {} if variants is None else variants
    if not variants.get(spread):
        variants[spread] = _variants(chosen, factor, replay, spread=spread)
    runs = _assigned(plan.tests, variants[spread], replay.seed)
    used, numbers = _used_variants(runs)
    outcome = simulate(
        plan.scenario([variant.profile for variant in used], numbers),
        tolerance=replay.tolerance,
    )
    return figures(
        outcome,
        tests=plan.tests,
        cpu_s=[run.cpu_s for run in runs],
        classes={test: profile.class_ for test, profile in chosen.items()},
        resources=plan.names,
        assumptions=_assumptions(profiles, replay, factor),
        findings=tuple(_findings(grid, plan.most_streams, chosen, profiles, factor)),
    )


@dataclass
class WorkloadEnds:
    """When the same workload ends on many grids: of each simulation its end alone, in a part of the time.

    The ends are those of `simulate_workload` with a tolerance of 0, which it shares `variants` with.
    """

    matrix: WorkloadMatrix
    profiles: Profiles
    replay: Replay
    where: str
    variants: Variants
    _nights: dict[tuple[float, int], Nights] = field(default_factory=dict)

    def end_s(self, grid: GridModel, until_s: float = inf) -> tuple[float | None, int]:
        """When it ends on a grid, and how many activities ended until that was known.

        None where it ends after `until_s`. Raises GridwrightError as `simulate_workload` does.
        """
        _check_routes(grid, self._used)
        plan = _Plan(grid, self.matrix)
        places = [node for node, _ in plan.placed]
        return self._night(plan).end_s(plan.capacities, plan.nodes, places, until_s)

    def _night(self, plan: _Plan) -> Nights:
        """The launches as they are placed: where each node runs every stream, those of so many nodes."""
        spread = self.replay.spread if len(plan.placed) > 1 else 0.0
        key = (spread, len(plan.placed))
        if key not in self._nights:
            if spread not in self.variants:
                factor = self.profiles.scaled_by(self.replay.scale, where=self.where)
                self.variants[spread] = _variants(self._chosen, factor, self.replay, spread=spread)
            runs = _assigned(plan.tests, self.variants[spread], self.replay.seed)
            used, numbers = _used_variants(runs)
            rest = iter(numbers)
            streams = [list(islice(rest, len(stream))) for _, stream in plan.placed]
            self._nights[key] = Nights([variant.profile for variant in used], streams)
        return self._nights[key]

    @cached_property
    def _chosen(self) -> Mapping[str, LaunchProfile]:
        tests = list(dict.fromkeys(test for stream in self.matrix.streams for test in stream))
        return self.profiles.of(tests, where=self.where)

    @cached_property
    def _used(self) -> Mapping[LibraryName, str]:
        return _used_libraries(self._chosen)


@dataclass(frozen=True)
class _Variant:
    """A launch of a test, by the factor that each phase of its profile is done; made up when it is used."""

    of: LaunchProfile
    factors: tuple[float, ...]
    replay: Replay

    @cached_property
    def profile(self) -> Profile:
        """What it does, as the simulation has it."""
        return tuple(_phase(*each, self.replay) for each in zip(self.of.phases, self.factors, strict=True))

    @cached_property
    def cpu_s(self) -> float:
        """Its core-seconds."""
        cpu = sum(p.cpu_s * f for p, f in zip(self.of.phases, self.factors, strict=True))
        return cpu / self.replay.cpu_speed


Variants = dict[float, dict[str, list[_Variant]]]
"""The launches of each test by the spread between them."""


def _variants(
    chosen: Mapping[str, LaunchProfile], factor: float, replay: Replay, *, spread: float
) -> dict[str, list[_Variant]]:
    """The launches of each test: pairs that differ from the profile by as much up as down."""
    random = Random(replay.seed)  # noqa: S311 - no secret
    variants: dict[str, list[_Variant]] = {}
    for test, profile in chosen.items():
        variants[test] = []
        for _ in range(_PAIRS if spread else 1):
            by = [random.uniform(-spread, spread) for _ in profile.phases]
            for sign in (1, -1) if spread else (1,):
                grown = [1.0 if phase.fixed else factor for phase in profile.phases]
                factors = tuple(each * (1.0 + sign * one) for each, one in zip(grown, by, strict=True))
                variants[test].append(_Variant(profile, factors, replay))
    return variants


def _used_variants(runs: Sequence[_Variant]) -> tuple[list[_Variant], list[int]]:
    """Those that run, each once, and for each launch the number of its variant among them."""
    numbers: dict[int, int] = {}
    used: list[_Variant] = []
    for run in runs:
        if id(run) not in numbers:
            numbers[id(run)] = len(used)
            used.append(run)
    return used, [numbers[id(variant)] for variant in runs]


def _assigned(tests: Iterable[str], variants: Mapping[str, list[_Variant]], seed: int) -> list[_Variant]:
    """A variant for each launch: all those of its test in random order, then all again."""
    random = Random(seed)  # noqa: S311 - no secret
    left: dict[str, list[_Variant]] = {test: [] for test in variants}
    found = []
    for test in tests:
        if not left[test]:
            left[test] = random.sample(variants[test], len(variants[test]))
        found.append(left[test].pop())
    return found


class _Plan:
    """The grid as the simulation has it: capacities of resources by number, nodes, and what runs where."""

    def __init__(self, grid: GridModel, matrix: WorkloadMatrix) -> None:
        every = grid.nodes if matrix.every_node else min(grid.nodes, len(matrix.streams))
        self._grid = grid
        self._numbers: dict[tuple[str, int | None], int] = {}
        self.capacities: list[float] = []
        self.names: list[str] = []
        self.nodes = tuple(self._node(number) for number in range(every))
        self.placed = (
            [(node, stream) for node in range(every) for stream in matrix.streams]
            if matrix.every_node
            else [(number % every, stream) for number, stream in enumerate(matrix.streams)]
        )
        """Node and launches of each stream."""
        self.tests = [test for _, stream in self.placed for test in stream]
        """Of all launches, in the order of the simulation's."""
        self.most_streams = sum(node == 0 for node, _ in self.placed)
        """On a node: the first has as many as any."""

    def scenario(self, profiles: Sequence[Profile], launches: Sequence[int]) -> Scenario:
        """What is simulated; `launches` are the profiles of all launches by number."""
        rest = iter(launches)
        return Scenario(
            capacities=tuple(self.capacities),
            nodes=self.nodes,
            profiles=tuple(profiles),
            streams=tuple(Stream(node, tuple(islice(rest, len(stream)))) for node, stream in self.placed),
        )

    def _node(self, number: int) -> SimulatedNode:
        group = self._grid.group_of(number)
        cores = self._number("cores", number, float(group.cores_per_node))
        routes = {CPU: SimulatedRoute(((cores, 1.0),))}
        for library, ways in group.routes.items():
            for operation, route in ways.items():
                routes[_kind(library, operation)] = SimulatedRoute(
                    tuple((self._of(use.resource, number), use.coefficient) for use in route.uses),
                    route.stream_bytes_per_s,
                )
        return SimulatedNode(routes)

    def _of(self, resource: Resource, node: int) -> int:
        return self._number(resource.name, node if resource.scope == "node" else None, resource.bytes_per_s)

    def _number(self, name: str, node: int | None, capacity: float) -> int:
        """The number of a resource; those of the grid are the same on every node."""
        if (name, node) not in self._numbers:
            self._numbers[name, node] = len(self.capacities)
            self.capacities.append(capacity)
            self.names.append(name)
        return self._numbers[name, node]


def _kind(library: str, operation: Operation) -> str:
    return f"{library} {operation}"


def _phase(phase: PhaseProfile, factor: float, replay: Replay) -> Phase:
    """The activities of a phase. What the page cache served takes no time of its own."""
    cached = phase.cached_bytes if replay.page_cache == "profile" else None
    activities = [Activity(CPU, phase.cpu_s * factor / replay.cpu_speed, cap=phase.threads)]
    for library, size in phase.read_bytes.items():
        missed = size - min(size, (cached or {}).get(library, 0))
        activities.append(Activity(_kind(library, "read"), missed * factor))
    for library, size in phase.written_bytes.items():
        activities.append(Activity(_kind(library, "write"), size * factor))
    return tuple(activity for activity in activities if activity.amount > _NOTHING)


def _used_libraries(profiles: Mapping[str, LaunchProfile]) -> Mapping[LibraryName, str]:
    """The libraries that launches use, each with a test that does."""
    used: dict[LibraryName, str] = {}
    for test, profile in profiles.items():
        for phase in profile.phases:
            for library in (*phase.read_bytes, *phase.written_bytes):
                used.setdefault(library, test)
    return used


def _check_routes(grid: GridModel, used: Mapping[LibraryName, str]) -> None:
    problems = []
    for library, test in used.items():
        if not all(
            operation in group.routes.get(library, {}) for group in grid.groups for operation in OPERATIONS
        ):
            why = grid.unknown.get(library) or f"the grid has no library {library}"
            problems.append(
                Problem(
                    what=f"the workload cannot be predicted: {test} uses {library}, and {why}",
                    where=str(grid.spec.file) if grid.spec.file else None,
                    field=f"libraries.{library}",
                    remedy="say what its file system is made of, or measure it: gridwright iotest",
                )
            )
    if problems:
        raise GridwrightError(*problems)


def _assumptions(profiles: Profiles, replay: Replay, factor: float) -> tuple[str, ...]:
    """What the figures rest on, a sentence each."""
    host = profiles.host
    found = [
        f"profiles: {profiles.run}, recorded {profiles.recorded[:10]} on {host.cpu_model} "
        f"({host.physical_cores} cores), scale {profiles.scale}, "
        f"{counted(profiles.streams, 'stream')}",
        f"a core is {replay.cpu_speed:g} times as fast as there",
        "within a phase of a launch, computing, reading and writing overlap; phases follow each other",
        f"launches differ by up to {replay.spread:.0%} in what they do, so that they do not run in step",
    ]
    if factor != 1.0:
        found.append(
            f"at scale {replay.scale} bytes and CPU time are {factor:.4g} times those recorded, "
            "as the data set is; the start of the programs takes as long as there"
        )
    if replay.page_cache == "none":
        found.append("every byte read comes from the file system, none from the page cache")
    else:
        found.append("the page cache serves the same part of the reads as where the profiles were recorded")
    return tuple(found)


def _findings(
    grid: GridModel,
    streams: int,
    chosen: Mapping[str, LaunchProfile],
    profiles: Profiles,
    factor: float,
) -> Iterable[Finding]:
    if profiles.streams > 1 and profiles.launch_streams is None:
        yield Finding(
            "warning",
            "profile-shared",
            f"the profiles were recorded with {profiles.streams} streams at once, which disturbed each other",
            "record them with --streams 1",
        )
    largest = max((profile.peak_memory_bytes or 0 for profile in chosen.values()), default=0)
    known = [group.memory_bytes_per_node for group in grid.groups if group.memory_bytes_per_node]
    memory = min(known, default=None)
    if memory and factor == 1.0 and streams * largest > memory:
        yield Finding(
            "warning",
            "workload-memory",
            f"{streams} streams a node with launches of up to {largest / 1e9:.1f} GB may need more than the "
            f"node's {memory / 1e9:.1f} GB of memory; that is not in the prediction",
            "use fewer streams a node, or nodes with more memory",
        )
