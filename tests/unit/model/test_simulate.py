"""The simulation through Python: what comes of a launch, and what the model relies on."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from math import inf, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.model.chains import Flow, Solution, solve
from gridwright.model.simulate import (
    TOLERANCE,
    Activity,
    Profile,
    Scenario,
    SimulatedLaunch,
    SimulatedNode,
    SimulatedRoute,
    SimulatedWait,
    Stream,
    simulate,
)

CORES, DISK = 0, 1
NODE = SimulatedNode(
    {"cpu": SimulatedRoute(((CORES, 1.0),)), "work.read": SimulatedRoute(((DISK, 1.0),), cap=80e6)}
)
READ_AND_COMPUTE: Profile = (
    (Activity("cpu", 3.0, cap=1.0), Activity("work.read", 400e6)),
    (Activity("cpu", 2.0, cap=1.0),),
)


def one_node(profile: Profile, *streams: Stream) -> Scenario:
    return Scenario((2.0, 100e6), (NODE,), (profile,), streams)


def test_a_launch_alone() -> None:
    outcome = simulate(one_node(READ_AND_COMPUTE, Stream(0, (0,), start_s=1.0, repeat=2)), bins=12)
    waits = (SimulatedWait("work.read", None, 5.0), SimulatedWait("cpu", None, 2.0))
    assert list(outcome.launches) == [
        SimulatedLaunch(0, 0, 0, 1.0, 8.0, waits),
        SimulatedLaunch(0, 0, 0, 8.0, 15.0, waits),
    ]
    assert outcome.launches[-1].real_s == 7.0
    assert outcome.launches[:1] == (outcome.launches[0],)
    assert outcome.end_s == 15.0
    assert outcome.utilisation == (10.0 / 2.0 / 15.0, 800e6 / 100e6 / 15.0)
    assert outcome.events == 6


def test_launches_that_compete_wait_for_the_resource() -> None:
    outcome = simulate(one_node(READ_AND_COMPUTE, Stream(0, (0,)), Stream(0, (0,))))
    for launch in outcome.launches:
        assert launch.waits == (SimulatedWait("work.read", DISK, 8.0), SimulatedWait("cpu", None, 2.0))


def test_rates_over_time_and_watched_resources() -> None:
    outcome = simulate(one_node(READ_AND_COMPUTE, Stream(0, (0,))), bins=7, watch=[DISK])
    assert outcome.bin_s == 1.0
    assert outcome.rates["cpu"] == pytest.approx([1, 1, 1, 0, 0, 1, 1], abs=0.05)
    assert outcome.rates["work.read"] == pytest.approx([80e6] * 5 + [0, 0], abs=4e6)
    assert outcome.watched == {DISK: outcome.rates["work.read"]}
    assert sum(outcome.rates["work.read"]) * outcome.bin_s == pytest.approx(400e6)


def test_weights_divide_what_is_short() -> None:
    profiles = tuple(((Activity("work.read", 100e6, weight=weight),),) for weight in (3.0, 1.0))
    outcome = simulate(Scenario((2.0, 100e6), (NODE,), profiles, (Stream(0, (0,)), Stream(0, (1,)))))
    assert [launch.end_s for launch in outcome.launches] == pytest.approx([4 / 3, 4 / 3 + 2 / 3 * 100 / 80])


def shared(nodes: int, seed: int) -> Scenario:
    """Nodes with 10 streams of 3 launches on one file system that binds most of the time."""
    chance = random.Random(seed)  # noqa: S311 - a scenario, no secret
    capacities = [nodes * 300e6]
    made = []
    for _ in range(nodes):
        own = len(capacities)
        capacities += [8.0, 1250e6]
        made.append(
            SimulatedNode(
                {
                    "cpu": SimulatedRoute(((own, 1.0),)),
                    "data.read": SimulatedRoute(((0, 1.0), (own + 1, 1.0)), 600e6),
                }
            )
        )
    profiles = tuple(
        tuple(
            (
                Activity("cpu", chance.uniform(1, 10), cap=chance.choice([1.0, 4.0])),
                Activity("data.read", chance.uniform(0.5e9, 2e9)),
            )
            for _ in range(3)
        )
        for _ in range(50)
    )
    streams = tuple(
        Stream(node, tuple(chance.randrange(50) for _ in range(3)), start_s=chance.uniform(0, 10))
        for node in range(nodes)
        for _ in range(10)
    )
    return Scenario(tuple(capacities), tuple(made), profiles, streams)


@pytest.mark.parametrize("nodes", [5, 40, 100])
def test_the_default_tolerance_keeps_completion_times_within_one_percent(nodes: int) -> None:
    scenario = shared(nodes, seed=nodes)
    exact, quick = simulate(scenario, tolerance=0.0), simulate(scenario, tolerance=TOLERANCE)
    ends = zip(exact.launches.end_s, quick.launches.end_s, strict=True)
    assert max(abs(one - other) / one for one, other in ends) <= 0.01
    assert quick.solutions <= exact.solutions
    assert nodes < 100 or quick.solutions < exact.solutions


def test_more_tolerance_never_overdraws_by_more() -> None:
    scenario = shared(40, seed=1)
    outcome = simulate(scenario, tolerance=0.05, bins=200, watch=[0])
    assert max(outcome.watched[0]) <= scenario.capacities[0] * 1.05


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_all_real_time_has_a_cause_and_all_amounts_are_moved(seed: int, nodes: int) -> None:
    scenario = shared(nodes, seed)
    outcome = simulate(scenario, bins=10)
    asked = 0.0
    for launch in outcome.launches:
        assert sum(wait.seconds for wait in launch.waits) == pytest.approx(launch.real_s)
        asked += sum(
            a.amount for phase in scenario.profiles[launch.profile] for a in phase if a.kind == "cpu"
        )
    assert sum(outcome.rates["cpu"]) * outcome.bin_s == pytest.approx(asked)
    assert outcome.end_s == max(launch.end_s for launch in outcome.launches)


def test_nothing_to_do_is_an_outcome() -> None:
    outcome = simulate(Scenario((), (), (), ()))
    assert (len(outcome.launches), outcome.end_s, outcome.utilisation) == (0, 0.0, ())
    idle = simulate(one_node(((),), Stream(0, (0, 0), start_s=3.0)))
    assert [launch.real_s for launch in idle.launches] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("profile", "stream", "text"),
    [
        (((Activity("cpu", -1.0),),), Stream(0, (0,)), "an amount in phase 0 of profile 0 is -1"),
        (((Activity("cpu", inf),),), Stream(0, (0,)), "an amount in phase 0 of profile 0 is inf"),
        (((Activity("cpu", 1.0, cap=0.0),),), Stream(0, (0,)), "a cap in phase 0 of profile 0 is 0"),
        (((Activity("gpu", 1.0),),), Stream(0, (0,)), "profile 0 does gpu on node 0, which has no route"),
        ((), Stream(1, (0,)), "stream 0 runs on node 1, but there are 1"),
        ((), Stream(-1, (0,)), "stream 0 runs on node -1"),
        ((), Stream(0, (7,)), "stream 0 launches profile 7, but there are 1"),
        ((), Stream(0, (0,), start_s=-1.0), "start of stream 0 is -1"),
        ((), Stream(0, (0,), repeat=-1), "stream 0 repeats its launches -1"),
    ],
)
def test_what_cannot_be_simulated_is_named(profile: Profile, stream: Stream, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        simulate(one_node(profile, stream))


def test_work_that_nothing_bounds_is_named() -> None:
    scenario = Scenario(
        (inf,),
        (SimulatedNode({"cpu": SimulatedRoute(((0, 1.0),))}),),
        (((Activity("cpu", 1.0),),),),
        (Stream(0, (0,)),),
    )
    with pytest.raises(ValueError, match="nothing bounds cpu on node 0"):
        simulate(scenario)


@pytest.mark.parametrize("options", [{"tolerance": -0.1}, {"tolerance": 1.0}, {"bins": 0}, {"watch": [9]}])
def test_wrong_options_are_named(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))}"):
        simulate(one_node(READ_AND_COMPUTE, Stream(0, (0,))), **options)  # type: ignore[arg-type]


LONG = """
from gridwright.model.simulate import *
node = SimulatedNode({"cpu": SimulatedRoute(((0, 1.0),))})
profile = tuple((Activity("cpu", 1.0 + n % 7),) for n in range(100))
print("begun", flush=True)
simulate(Scenario((2.0,), (node,), (profile,), tuple(Stream(0, (0,), float(n), 100_000) for n in range(50))))
print("ended", flush=True)
"""


def test_it_can_be_interrupted() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as long:
        assert long.stdout is not None
        assert long.stdout.readline() == b"begun\n"
        time.sleep(1.0)
        long.send_signal(signal.SIGINT)
        told = time.monotonic()
        try:
            output, errors = long.communicate(timeout=30)
        finally:
            long.kill()
    assert time.monotonic() - told < 10
    assert output == b""
    assert b"KeyboardInterrupt" in errors


def test_other_threads_run_meanwhile() -> None:
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    scenario = shared(40, seed=3)
    thread = threading.Thread(target=tick)
    thread.start()
    simulate(scenario, tolerance=0.0)
    done.set()
    thread.join()
    assert ticks >= 3


# The rates of flows through Python: what the model relies on, on random flows.

EXACT = 1e-9

magnitudes = st.floats(0.01, 100.0) | st.sampled_from([1e-6, 1.0, 125e6, 1e12])
comparable = st.floats(0.01, 100.0) | st.just(1.0)
"""Where flows that share a resource differ by more than the digits of a float can tell, the smaller one's
rate is what rounding leaves of the resource: no order of sums makes it the same."""
FlowScenario = tuple[list[float], list[Flow]]


@st.composite
def flow_scenarios(draw: st.DrawFn) -> FlowScenario:
    """Capacities and caps of any size, weights and coefficients that can be compared."""
    capacities = draw(st.lists(magnitudes, min_size=1, max_size=6))
    uses = st.tuples(st.integers(0, len(capacities) - 1), comparable)
    flows = st.builds(
        Flow, st.lists(uses, min_size=1, max_size=4).map(tuple), comparable, magnitudes | st.just(inf)
    )
    return capacities, draw(st.lists(flows, min_size=1, max_size=12))


def used(scenario: FlowScenario, solution: Solution) -> list[float]:
    capacities, flows = scenario
    total = [0.0] * len(capacities)
    for flow, rate in zip(flows, solution.rates, strict=True):
        for resource, coefficient in flow.uses:
            total[resource] += coefficient * rate
    return total


@given(flow_scenarios())
def test_no_capacity_and_no_cap_is_exceeded(scenario: FlowScenario) -> None:
    capacities, flows = scenario
    solution = solve(*scenario)
    assert all(u <= c * (1 + EXACT) for u, c in zip(used(scenario, solution), capacities, strict=True))
    assert all(0 < rate <= flow.cap for rate, flow in zip(solution.rates, flows, strict=True))


@given(flow_scenarios())
def test_no_flow_can_grow_without_one_of_lower_or_equal_rate_shrinking(scenario: FlowScenario) -> None:
    capacities, flows = scenario
    solution = solve(*scenario)
    total = used(scenario, solution)
    levels = [rate / flow.weight for rate, flow in zip(solution.rates, flows, strict=True)]
    for flow, rate, level, bound in zip(flows, solution.rates, levels, solution.bound_by, strict=True):
        if bound is None:
            assert isclose(rate, flow.cap, rel_tol=EXACT)
            continue
        assert bound in {resource for resource, _ in flow.uses}
        assert total[bound] >= capacities[bound] * (1 - EXACT)
        sharing = [
            its
            for other, its in zip(flows, levels, strict=True)
            if bound in {resource for resource, _ in other.uses}
        ]
        assert max(sharing) <= level * (1 + EXACT)


@given(flow_scenarios(), st.randoms(use_true_random=False))
def test_order_does_not_matter(scenario: FlowScenario, random: object) -> None:
    capacities, flows = scenario
    order = sorted(range(len(flows)), key=lambda _: random.random())  # type: ignore[attr-defined]
    places = sorted(range(len(capacities)), key=lambda _: random.random())  # type: ignore[attr-defined]
    moved = [
        Flow(
            tuple((places.index(resource), c) for resource, c in flows[n].uses), flows[n].weight, flows[n].cap
        )
        for n in order
    ]
    rates = solve(*scenario).rates
    again = solve([capacities[place] for place in places], moved).rates
    assert all(isclose(rates[n], rate, rel_tol=EXACT) for n, rate in zip(order, again, strict=True))


@given(flow_scenarios(), st.integers(0, 5), st.floats(1.0, 10.0))
def test_more_capacity_never_lowers_the_least_rate(scenario: FlowScenario, which: int, factor: float) -> None:
    capacities, flows = scenario
    more = list(capacities)
    more[which % len(more)] *= factor

    def least(capacities: list[float]) -> float:
        rates = solve(capacities, flows).rates
        return min(rate / flow.weight for rate, flow in zip(rates, flows, strict=True))

    assert least(more) >= least(capacities) * (1 - EXACT)


def test_three_streams_share_a_nic_and_one_is_limited_by_itself() -> None:
    flows = [Flow(((0, 1.0),), cap=100e6), Flow(((0, 1.0),)), Flow(((0, 1.0), (1, 0.5)))]
    assert solve([1250e6, 200e6], flows) == Solution((100e6, 750e6, 400e6), (None, 0, 1))


@pytest.mark.parametrize(
    ("capacities", "flow", "text"),
    [
        ([0.0], Flow(((0, 1.0),)), "capacity of resource 0 is 0"),
        ([-5.0], Flow(((0, 1.0),)), "capacity of resource 0 is -5"),
        ([float("nan")], Flow(((0, 1.0),)), "capacity of resource 0 is NaN"),
        ([1.0], Flow(((2, 1.0),)), "flow 0 uses resource 2, but there are 1"),
        ([1.0], Flow(((-1, 1.0),)), "flow 0 uses resource -1: 0 is the first"),
        ([1.0], Flow(((0, 0.0),)), "coefficient of flow 0 on resource 0 is 0"),
        ([1.0], Flow(((0, 1.0),), weight=inf), "weight of flow 0 is inf"),
        ([1.0], Flow(((0, 1.0),), cap=0.0), "cap of flow 0 is 0"),
        ([inf], Flow(((0, 1.0),)), "nothing bounds flow 0"),
        ([], Flow(()), "nothing bounds flow 0"),
    ],
)
def test_wrong_numbers_are_named(capacities: list[float], flow: Flow, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        solve(capacities, [flow])
