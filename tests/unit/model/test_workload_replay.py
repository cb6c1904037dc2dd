"""The mixed workload predicted from launch profiles: figures that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import Operation, Resource, Route, Use
from gridwright.model.grid import GridModel, grid_model
from gridwright.model.workload import Replay, WorkloadMatrix, default_profiles, simulate_workload
from gridwright.runs.host import host_facts
from gridwright.runs.profiles import LaunchProfile, PhaseProfile, Profiles
from gridwright.spec import parse_spec
from gridwright.workload.programs.program import TEST_NAMES
from tests.support.examples import examples
from tests.support.moved import moved_bytes

MB = 1_000_000
EXACT = Replay(spread=0.0, tolerance=0.0)
SPEC = """\
name: demo
filesystems:
  disk: {type: local, path: /srv}
libraries:
  data: {filesystem: disk}
  work: {filesystem: disk}
  util: {filesystem: disk}
"""


def grid(
    *,
    nodes: int = 1,
    cores: int = 2,
    read: float = 100e6,
    write: float = 50e6,
    stream: float = 1e12,
    unknown: dict[str, str] | None = None,
    **own: Any,
) -> GridModel:
    """Nodes on one shared file system, whose two directions have a capacity each."""
    ways: dict[Operation, Route] = {
        "read": Route((Use(Resource("fs.out", "out", "grid", read, "test")),), stream),
        "write": Route((Use(Resource("fs.in", "in", "grid", write, "test")),), stream),
    }
    values: dict[str, Any] = {
        "nodes": nodes,
        "cores_per_node": cores,
        "memory_bytes_per_node": 64 << 30,
        "routes": dict.fromkeys(("data", "work", "util"), ways),
    }
    model = grid_model(parse_spec(SPEC, "grid.yaml"))
    group = replace(model.alike, **(values | own))
    return replace(model, groups=(group,), unknown=unknown or {})


def profile_of(*phases: dict[str, Any], **own: Any) -> LaunchProfile:
    values = {"class": "io", "launches": 1, "real_s": 1.0, "user_s": 1.0, "system_s": 0.0, "cores": 1}
    made = [PhaseProfile(**({"seconds": 1.0, "cpu_s": 0.0} | each)) for each in phases]
    return LaunchProfile.model_validate(values | {"phases": made} | own)


READ = profile_of({"cpu_s": 1.0, "read_bytes": {"data": 300 * MB}})
COMPUTE = profile_of({"cpu_s": 4.0})


def profiles(**tests: LaunchProfile) -> Profiles:
    return Profiles(
        recorded="2026-11-21T05:00:00+00:00",
        run="demo",
        matrix="own",
        scale="small",
        seed=1,
        streams=1,
        data_bytes={"small": 900 * MB, "medium": 9000 * MB},
        host=host_facts(),
        software={},
        profiles=tests,
    )


def matrix(*streams: tuple[str, ...], every_node: bool = False) -> WorkloadMatrix:
    return WorkloadMatrix("own", streams, every_node)


def test_one_launch_alone_takes_its_slowest_work_phase_by_phase() -> None:
    test = profile_of(
        {"cpu_s": 1.0, "read_bytes": {"data": 300 * MB}},
        {"cpu_s": 6.0, "threads": 2.0},
        {"written_bytes": {"work": 100 * MB, "util": 50 * MB}},
    )
    found = simulate_workload(grid(), matrix(("a",)), profiles(a=test), EXACT)
    (launch,) = found.launches
    # 300 MB at 100 MB/s, 6 core seconds on 2 cores, 150 MB at 50 MB/s.
    assert launch.real_s == pytest.approx(3.0 + 3.0 + 3.0)
    assert (launch.stream, launch.node, launch.start_s) == (1, 1, 0.0)
    assert launch.ratio == pytest.approx(7.0 / 9.0)
    assert found.ratio_mean == found.ratio_of_sums == launch.ratio
    assert sum(launch.shares.values()) == pytest.approx(1.0)
    assert launch.shares["data read"] == pytest.approx(1 / 3)
    assert found.utilisation == pytest.approx({"cores": 7.0 / 18.0, "fs.out": 1 / 3, "fs.in": 1 / 3})


def test_launches_of_a_stream_follow_each_other_and_streams_share() -> None:
    found = simulate_workload(
        grid(), matrix(("read", "compute"), ("read",)), profiles(read=READ, compute=COMPUTE), EXACT
    )
    assert [(each.test, each.stream) for each in found.launches] == [("read", 1), ("compute", 1), ("read", 2)]
    assert [each.real_s for each in found.launches] == pytest.approx([6.0, 4.0, 6.0])
    assert found.launches[1].start_s == pytest.approx(6.0)
    assert found.elapsed_s == pytest.approx(10.0)
    assert found.real_s == pytest.approx(16.0)
    assert found.ratio_mean == pytest.approx((1 / 6 + 1.0 + 1 / 6) / 3)
    assert found.ratio_of_sums == pytest.approx(6.0 / 16.0)
    assert found.bound_by == "data read"
    assert found.resources["fs.out"] == pytest.approx(12 / 16)
    assert [(each.test, each.launches, each.bound_by) for each in found.tests] == [
        ("read", 2, "data read"),
        ("compute", 1, "cpu"),
    ]


def test_more_launches_than_cores_wait_for_a_core() -> None:
    found = simulate_workload(grid(cores=2), matrix(*[("c",)] * 4), profiles(c=COMPUTE), EXACT)
    assert [each.real_s for each in found.launches] == pytest.approx([8.0] * 4)
    assert found.shares == pytest.approx({"core": 1.0})
    assert simulate_workload(
        grid(cores=4), matrix(*[("c",)] * 4), profiles(c=COMPUTE), EXACT
    ).shares == pytest.approx({"cpu": 1.0})


def test_streams_go_round_the_nodes_or_run_on_every_node() -> None:
    all_ = profiles(c=COMPUTE, read=READ)
    spread = simulate_workload(grid(nodes=3), matrix(*[("c",)] * 4), all_, EXACT)
    assert [each.node for each in spread.launches] == [1, 2, 3, 1]
    every = simulate_workload(grid(nodes=3), matrix(("c",), ("read",), every_node=True), all_, EXACT)
    assert sorted((each.node, each.test) for each in every.launches) == [
        (node, test) for node in (1, 2, 3) for test in ("c", "read")
    ]
    # Cores are each node's own, the file system is everyone's.
    assert every.elapsed_s == pytest.approx(9.0)


def test_a_single_stream_has_its_own_limit() -> None:
    found = simulate_workload(grid(stream=10e6), matrix(("read",)), profiles(read=READ), EXACT)
    assert found.elapsed_s == pytest.approx(30.0)
    assert found.resources == pytest.approx({None: 1.0})


def test_what_the_page_cache_served_does_not_reach_the_file_system() -> None:
    test = profile_of(
        {"read_bytes": {"data": 300 * MB, "work": 100 * MB}, "cached_bytes": {"data": 200 * MB}}
    )
    served = simulate_workload(grid(), matrix(("a",)), profiles(a=test), EXACT)
    assert served.elapsed_s == pytest.approx(2.0)
    cold = simulate_workload(grid(), matrix(("a",)), profiles(a=test), replace(EXACT, page_cache="none"))
    assert cold.elapsed_s == pytest.approx(4.0)
    assert "none from the page cache" in " ".join(cold.assumptions)


def test_scale_and_speed_of_a_core_are_carried_over_and_said() -> None:
    all_ = profiles(c=COMPUTE, read=READ)
    larger = simulate_workload(grid(), matrix(("c", "read")), all_, replace(EXACT, scale="medium"))
    assert larger.elapsed_s == pytest.approx(40.0 + 30.0)
    assert "10 times those recorded" in " ".join(larger.assumptions)
    starts = profiles(a=profile_of({"cpu_s": 0.5, "fixed": True}, {"cpu_s": 1.0}))
    grown = simulate_workload(grid(), matrix(("a",)), starts, replace(EXACT, scale="medium"))
    assert grown.elapsed_s == pytest.approx(0.5 + 10.0)
    assert grown.cpu_s == pytest.approx(10.5)
    faster = simulate_workload(grid(), matrix(("c",)), all_, replace(EXACT, cpu_speed=2.0))
    assert faster.elapsed_s == pytest.approx(2.0)
    assert faster.cpu_s == pytest.approx(2.0)
    with pytest.raises(GridwrightError, match="0 is no speed"):
        simulate_workload(grid(), matrix(("c",)), all_, replace(EXACT, cpu_speed=0.0))


ALTERNATING = profile_of(
    *[{"read_bytes": {"data": 200 * MB}}, {"written_bytes": {"work": 100 * MB}}] * 6,
)


def test_streams_that_do_the_same_do_not_stay_in_step() -> None:
    # In step, four streams would read together and then write together: 12 phases of 8 s.
    plan, all_ = matrix(*[("a",) * 8] * 4), profiles(a=ALTERNATING)
    in_step = simulate_workload(grid(), plan, all_, EXACT).elapsed_s
    assert in_step == pytest.approx(8 * 12 * 8.0)
    found = {
        (spread, seed): simulate_workload(
            grid(), plan, all_, Replay(spread=spread, seed=seed, tolerance=0.0)
        ).elapsed_s
        for spread in (0.02, 0.05, 0.2)
        for seed in (1, 2, 3)
    }
    # Neither direction can be used more than all the time: half of that is the least.
    assert all(in_step / 2 * 0.97 < each < 0.9 * in_step for each in found.values())
    middle = found[0.05, 1]
    assert all(each == pytest.approx(middle, rel=0.2) for each in found.values())
    again = simulate_workload(grid(), plan, all_, Replay(spread=0.05, seed=1, tolerance=0.0))
    assert again.elapsed_s == middle


def test_a_single_stream_is_replayed_as_recorded() -> None:
    found = simulate_workload(grid(), matrix(("read", "c")), profiles(read=READ, c=COMPUTE), Replay())
    assert found.elapsed_s == pytest.approx(3.0 + 4.0)
    assert found.cpu_s == pytest.approx(5.0)


def test_many_launches_do_as_much_as_their_profile_says() -> None:
    found = simulate_workload(grid(), matrix(*[("c",)] * 32), profiles(c=COMPUTE), Replay(spread=0.2))
    assert found.cpu_s == pytest.approx(32 * 4.0)
    assert len({each.cpu_s for each in found.launches}) == 16


def test_rates_over_time_add_up_to_what_was_moved() -> None:
    found = simulate_workload(grid(), matrix(("read",), ("read",)), profiles(read=READ), EXACT)
    assert sum(found.rates["data read"]) * found.bin_s == pytest.approx(600 * MB)
    assert max(found.rates["data read"]) <= 100e6 * (1 + 1e-9)
    assert sum(found.rates["work write"]) == 0.0


def test_tests_without_a_profile_are_named_with_the_nearest() -> None:
    with pytest.raises(GridwrightError) as failed:
        simulate_workload(grid(), matrix(("reed", "sort")), profiles(read=READ), EXACT, where="p.json")
    assert [problem.what for problem in failed.value.problems] == [
        "there is no profile of 'reed'",
        "there is no profile of 'sort'",
    ]
    assert "the nearest is read" in str(failed.value)


def test_a_library_of_which_nothing_is_known_is_named_with_the_reason() -> None:
    unknown = grid(routes={}, unknown={"data": "no fact says how fast /srv is"})
    with pytest.raises(GridwrightError, match="no fact says how fast /srv is") as failed:
        simulate_workload(unknown, matrix(("read",)), profiles(read=READ), EXACT)
    assert [problem.field for problem in failed.value.problems] == ["libraries.data"]
    assert simulate_workload(unknown, matrix(("c",)), profiles(c=COMPUTE), EXACT).elapsed_s == 4.0


def test_streams_that_need_more_memory_than_a_node_has_are_warned_of() -> None:
    test = profile_of({"cpu_s": 1.0}, peak_memory_bytes=8 << 30)
    enough = simulate_workload(grid(), matrix(*[("a",)] * 8), profiles(a=test), EXACT)
    assert enough.findings == ()
    short = simulate_workload(grid(), matrix(*[("a",)] * 9), profiles(a=test), EXACT)
    assert [each.name for each in short.findings] == ["workload-memory"]


def test_the_profiles_that_come_along_know_every_test() -> None:
    found = default_profiles()
    assert sorted(found.profiles) == sorted(TEST_NAMES)
    assert (found.streams, found.scale) == (1, "small")
    assert all(profile.cpu_s > 0.0 for profile in found.profiles.values())
    assert moved_bytes(found.profiles["sort"], "util", "write") > 0
    predicted = simulate_workload(grid(), matrix(tuple(TEST_NAMES)), found, EXACT)
    assert 0.2 < (predicted.ratio_mean or 0.0) < 2.0


amounts = st.integers(0, 500 * MB)
phase_profiles = st.builds(
    lambda cpu, threads, read, written: {
        "cpu_s": cpu,
        "threads": threads,
        "read_bytes": {"data": read},
        "written_bytes": {"work": written},
    },
    st.floats(0.0, 20.0),
    st.floats(0.5, 4.0),
    amounts,
    amounts,
)


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.lists(phase_profiles, min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(1, 6),
    st.integers(1, 3),
)
def test_no_grid_does_more_than_its_parts_can(
    tests: list[list[dict[str, Any]]], streams: int, nodes: int
) -> None:
    all_ = profiles(**{f"t{number}": profile_of(*phases) for number, phases in enumerate(tests)})
    plan = matrix(*[tuple(all_.profiles)] * streams)
    found = simulate_workload(grid(nodes=nodes), plan, all_, EXACT)
    used = min(nodes, streams)
    read = streams * sum(moved_bytes(each, "data", "read") for each in all_.profiles.values())
    written = streams * sum(moved_bytes(each, "work", "write") for each in all_.profiles.values())
    least = max(found.cpu_s / (2 * used), read / 100e6, written / 50e6)
    assert found.elapsed_s >= least * (1 - 1e-6) - 1e-6
    assert found.real_s <= streams * found.elapsed_s * (1 + 1e-6) + 1e-6
    assert found.cpu_s == pytest.approx(streams * sum(p.cpu_s for p in all_.profiles.values()))
    if found.real_s > 1e-6:
        assert sum(found.shares.values()) == pytest.approx(1.0)
