"""The simulation through Python: what comes of a launch, and what the model relies on."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
