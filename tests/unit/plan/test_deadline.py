"""What a plan for a deadline promises: grids whose simulated night ends in time, and the cheapest of them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.catalog import load_catalog
from gridwright.model.batch_window import BatchWindow
from gridwright.model.grid import GridModel, grid_model
from gridwright.model.workload import Replay, WorkloadMatrix, default_profiles
from gridwright.plan.candidates import Candidate
from gridwright.plan.deadline import (
    CLEARLY,
    SHARES,
    DeadlinePlan,
    NightSearch,
    Pool,
    candidates_of,
    plan_deadline,
)
from gridwright.plan.grid_spec import design_spec
from gridwright.plan.needs import read_needs
from gridwright.plan.search import search
from gridwright.runs.profiles import Profiles
from tests.support.requirements import spec

CATALOG = load_catalog()
FAMILIES = {"allow": ["m5", "m5n"]}


def profiles(**phases: list[Mapping[str, Any]]) -> Profiles:
    """Profiles of jobs by their phases, beside facts that no simulation reads."""
    kept = default_profiles().model_dump(by_alias=True, mode="json")
    first = next(iter(kept["profiles"].values()))
    plain = {"cpu_s": 0.0, "threads": 1, "read_bytes": {}, "written_bytes": {}}
    template = {**first["phases"][0], "cached_bytes": None, "fixed": False, **plain}
    made = {
        name: {**first, "phases": [{**template, **phase} for phase in several]}
        for name, several in phases.items()
    }
    return Profiles.model_validate({**kept, "profiles": made})


@cache
def night() -> BatchWindow:
    """Streams of which some compute first and some read first, so that they meet unevenly."""
    read = {"read_bytes": {"data": 400_000_000_000}}
    jobs = profiles(reads=[read, {"cpu_s": 600.0}], computes=[{"cpu_s": 1800.0}, read])
    return BatchWindow(
        WorkloadMatrix("night", (("reads", "computes"),) * 8 + (("reads",),) * 8), jobs, Replay()
    )


@cache
def finder() -> NightSearch:
    needs = read_needs(spec(requirements={"cores": 16, "families": FAMILIES}))
    pool = Pool(night().most_nodes, night().most_cores)
    return NightSearch(pool.worth_simulating(search(needs, CATALOG).candidates)[:40], needs, CATALOG, night())


@cache
def planned(within_s: float) -> DeadlinePlan:
    wanted = {"cores": 16, "families": FAMILIES, "jobs": "night.json", "finish_within": f"{within_s:.0f}s"}
    return plan_deadline(spec(requirements=wanted), night(), CATALOG)


@settings(max_examples=30, deadline=None)
@given(within_s=st.floats(600.0, 40_000.0))
def test_half_the_time_is_never_cheaper(within_s: float) -> None:
    whole, half = finder().cheapest(within_s), finder().cheapest(within_s / 2)
    if half is not None:
        assert whole is not None
        cost = [each.candidate.usd_per_hour for each in finder().contenders]
        assert cost[whole] <= cost[half]


@cache
def free() -> NightSearch:
    """A search for which nobody states cores or rates."""
    libraries = {"data": {"requires": None}, "work": {"requires": None}, "util": {"requires": None}}
    wanted = {"cores": None, "families": FAMILIES, "jobs": "night.json", "finish_within": "4h"}
    needs = read_needs(spec(requirements=wanted, libraries=libraries))
    every = candidates_of(needs, CATALOG, night(), math.inf)
    pool = Pool(night().most_nodes, night().most_cores)
    return NightSearch(pool.worth_simulating(every), needs, CATALOG, night())


def test_without_floors_grids_of_few_and_of_all_cores_that_jobs_can_use_are_tried() -> None:
    cores = {each.candidate.cores for each in free().contenders}
    assert min(cores) == 1
    assert max(cores) >= night().most_cores


def test_a_deadline_leaves_out_only_grids_whose_cores_cannot_compute_so_much() -> None:
    """Without floors sizes begin where the cores can be enough; what is larger is there for any deadline."""
    within_s = 1_000.0
    least = night().least_cpu_s / within_s
    found = [
        {(one.instance.name, one.count, one.usd_per_hour) for one in candidates if one.cores >= least}
        for candidates in (
            candidates_of(free().needs, CATALOG, night(), math.inf),
            candidates_of(free().needs, CATALOG, night(), within_s),
        )
    ]
    assert found[0] == found[1]
    assert min(cores for cores in (x.candidate.cores for x in free().contenders)) < least / 2


def test_what_is_searched_at_once_leaves_out_nothing_that_is_worth_it() -> None:
    """Beside one search of all types of nodes for each number of cores and each part of the rates."""
    wanted: dict[str, Any] = {
        "cores": None,
        "families": {"allow": []},
        "jobs": "night.json",
        "finish_within": "4h",
    }
    libraries = {name: {"requires": None} for name in ("data", "work", "util")}
    wanted["nodes"] = {"cores": {"least": 4, "most": 4}}
    needs = read_needs(spec(requirements=wanted, libraries=libraries))
    moved = night().bytes_per_core_s()

    def worth_it(candidates: Iterable[Candidate]) -> set[Hashable]:
        kept = Pool(night().most_nodes, night().most_cores).worth_simulating(candidates)
        return {(x.candidate.usd_per_hour, x.sharing, x.capacities) for x in kept}

    apart = []
    for cores in (1, 2, 4, 8, 16):
        requirements = needs.requirements.model_copy(update={"cores": cores})
        for share in SHARES:
            rates = {
                name: replace(need, bytes_per_s_per_core=moved.get(name, 0.0) * share)
                for name, need in needs.libraries.items()
            }
            asked = replace(needs, requirements=requirements, libraries=rates)
            apart += search(asked, CATALOG, levels=(1.0,)).candidates
    together = candidates_of(needs, CATALOG, night(), math.inf)
    assert len(together) < len(apart) / 3
    assert worth_it(apart) == worth_it(together)


def test_a_kept_file_system_may_be_slow_for_the_cores_that_a_night_needs() -> None:
    """What one core moves at full speed, many cores need not get at once: the simulation tells."""
    limits = {"read": "100 MB/s", "write": "100 MB/s"}
    slow = {"type": "managed", "path": "/shared", "capacity": "60 TiB", "limits": limits}
    library = {"requires": None, "capacity": "8 TiB", "filesystem": "shared"}
    wanted = {"cores": None, "families": FAMILIES, "jobs": "night.json", "finish_within": "6h"}
    kept = spec(
        requirements=wanted,
        filesystems={"shared": slow},
        libraries=dict.fromkeys(("data", "work", "util"), library),
    )
    cores = {each.cores for each in candidates_of(read_needs(kept), CATALOG, night(), math.inf)}
    assert max(cores) >= night().most_cores
    assert max(cores) * night().bytes_per_core_s()["data"] * min(SHARES) > 100e6


def test_without_floors_nothing_is_dearer_than_with_them() -> None:
    for within_s in (8_000.0, 20_000.0):
        bound, unbound = finder().cheapest(within_s), free().cheapest(within_s)
        assert unbound is not None
        if bound is not None:
            cost = free().contenders[unbound].candidate.usd_per_hour
            assert cost <= finder().contenders[bound].candidate.usd_per_hour


@settings(max_examples=4, deadline=None)
@given(within_s=st.floats(4_000.0, 40_000.0))
def test_without_floors_half_the_time_is_never_cheaper(within_s: float) -> None:
    whole, half = free().cheapest(within_s), free().cheapest(within_s / 2)
    if half is not None:
        assert whole is not None
        cost = [each.candidate.usd_per_hour for each in free().contenders]
        assert cost[whole] <= cost[half]


@cache
def every_end() -> list[tuple[float, float]]:
    """Cost and end of every candidate on some types of nodes, simulated one by one."""
    needs = finder().needs
    found = []
    for one in few_candidates():
        prediction = night().run_on(grid_model(design_spec(one, needs), CATALOG))
        found.append((one.usd_per_hour, prediction.elapsed_s))
    return found


@cache
def few_candidates() -> list[Candidate]:
    sizes = ("2xlarge", "4xlarge", "8xlarge", "12xlarge")
    return [each for each in search(finder().needs, CATALOG).candidates if each.instance.name.endswith(sizes)]


def fresh_search() -> NightSearch:
    """A search of these that knows nothing yet but how grids are modelled."""
    pool = Pool(night().most_nodes, night().most_cores)
    return NightSearch(
        pool.worth_simulating(few_candidates()), finder().needs, CATALOG, night(), _models=few_models()
    )


@cache
def few_models() -> dict[int, GridModel]:
    return {}


@settings(max_examples=25, deadline=None)
@given(within_s=st.floats(2_000.0, 20_000.0))
def test_no_answer_is_worse_than_that_of_simulating_everything(within_s: float) -> None:
    """A search that knows nothing yet; jobs that meet otherwise excuse what is in time by a hundredth."""
    fresh = fresh_search()
    number = fresh.cheapest(within_s)
    surely = min((cost for cost, end in every_end() if end <= within_s / CLEARLY), default=math.inf)
    at_best = min((cost for cost, end in every_end() if end <= within_s), default=math.inf)
    found = math.inf if number is None else fresh.contenders[number].candidate.usd_per_hour
    assert at_best <= found <= surely
    assert number is None or fresh.end_s(number) <= within_s
    assert fresh.simulated < len(every_end()) / 4


def test_a_network_that_passes_both_directions_together_outdoes_none_that_passes_each() -> None:
    """m3.2xlarge shares its network with its volumes; its rate is worth half where jobs read and write."""
    needs = read_needs(spec(requirements={"cores": 16, "families": {"allow": ["m3", "m5"]}}))
    pool = Pool(night().most_nodes, night().most_cores)
    found = [pool.contender(one) for one in search(needs, CATALOG, levels=(0.1,)).candidates]
    joint = [one for one in found if one.candidate.instance.family == "m3"]
    assert joint
    assert any(one.capacities[2] >= other.capacities[2] for one in joint for other in found)
    assert not any(one.outdoes(other) for one in joint for other in found if other not in joint)


def test_the_fastest_of_the_largest_is_as_fast_as_any() -> None:
    fresh = fresh_search()
    fastest = fresh.fastest()
    assert fastest is not None
    assert fresh.end_s(fastest) <= min(end for _, end in every_end()) * CLEARLY


def test_an_end_alone_is_that_of_the_whole_simulation_on_every_grid() -> None:
    everywhere = WorkloadMatrix("everywhere", (("reads", "computes"), ("computes",)), every_node=True)
    for each in (night(), BatchWindow(everywhere, night().profiles, Replay())):
        for number in range(0, len(finder().contenders), 4):
            model = finder().model(number)
            assert each.end_s(model)[0] == each.run_on(model).elapsed_s


class Flattering(BatchWindow):
    """A night whose quick simulation errs."""

    def end_s(self, grid: GridModel, until_s: float = math.inf) -> tuple[float | None, int]:
        end, events = super().end_s(grid)
        assert end is not None
        return (end * 0.9 if end * 0.9 <= until_s else None), events


def test_a_design_that_only_a_wrong_simulation_has_in_time_is_no_answer() -> None:
    wanted = {"cores": 16, "families": FAMILIES, "jobs": "night.json", "finish_within": "20000s"}
    flattered = plan_deadline(
        spec(requirements=wanted), Flattering(night().matrix, night().profiles, Replay()), CATALOG
    )
    assert flattered.best is not None
    assert flattered.best.meets
    assert flattered.best.checked_s <= 20_000.0
    told = planned(20_000.0).best
    assert told is not None
    assert flattered.best.usd_per_hour == pytest.approx(told.usd_per_hour)
    assert all(each.checked_s <= 20_000.0 for each in flattered.designs if each.meets)


def test_no_grid_ends_before_steady_rates_say_it_could() -> None:
    for number in range(0, len(finder().contenders), 4):
        assert finder().end_s(number) >= finder().least_s(number) * (1 - 1e-9)


def test_rates_that_suffice_one_by_one_do_not_fool_it() -> None:
    """Between what steady rates promise and the end of the overlapping jobs lies a deadline it misses."""
    fooled = [n for n in range(12) if finder().end_s(n) > finder().least_s(n) * 1.05]
    assert fooled
    for number in fooled:
        between = (finder().end_s(number) + finder().least_s(number)) / 2
        assert finder().cheapest(between) != number


def test_listed_designs_end_when_they_are_simulated_again() -> None:
    plan = planned(20_000.0)
    assert plan.best is not None
    assert plan.best.meets
    for each in plan.designs:
        again = night().run_on(grid_model(each.spec, CATALOG)).elapsed_s
        assert again == pytest.approx(each.finish_s, rel=1e-9) == each.checked_s
        assert each.meets is (again <= 20_000.0)


def test_the_critical_path_is_the_whole_night_without_a_gap() -> None:
    best = planned(20_000.0).best
    assert best is not None
    assert best.path[0].start_s == 0.0
    assert best.path[-1].end_s == pytest.approx(best.checked_s)
    assert all(
        one.end_s == pytest.approx(two.start_s) for one, two in zip(best.path, best.path[1:], strict=False)
    )
    waits = sum(sum(each.waits.values()) for each in best.path)
    assert waits == pytest.approx(best.checked_s, rel=1e-6)


def test_a_deadline_that_no_design_meets_says_by_how_much_and_what_binds() -> None:
    plan = planned(60.0)
    assert plan.best is None
    assert plan.fastest is not None
    assert plan.missed_by_s == pytest.approx(plan.fastest.finish_s - 60.0)
    assert plan.fastest.bound_by in plan.fastest.path[0].waits | plan.fastest.path[-1].waits
    assert not any(each.meets for each in plan.designs)


def test_a_design_that_was_passed_over_ends_no_earlier_than_what_outdoes_it() -> None:
    """The rule that saves simulations, held against simulations of what it saved."""
    needs = finder().needs
    pool = Pool(night().most_nodes, night().most_cores)
    every = [pool.contender(one) for one in search(needs, CATALOG).candidates][::60]
    kept = finder().contenders
    for one in every:
        better = next((n for n, other in enumerate(kept) if other.outdoes(one)), None)
        if better is not None:
            end = night().run_on(grid_model(design_spec(one.candidate, needs), CATALOG)).elapsed_s
            assert finder().end_s(better) <= end * 1.01
