"""Runs scenarios in SimGrid: JSON lines on standard input, one JSON line of results for each.

This program runs under the Python that Debian's python3-simgrid belongs to, and imports nothing of
Gridwright. Every scenario runs in a child of its own, because SimGrid has one engine per process.

A scenario has `links` (bandwidths), `hosts` ([cores, speed of one]), `disks` ([read, write]), `routes`
([latency or 0, highest rate of one flow or null, links, of which some may be named twice]) and `streams`
({"start": seconds, "host": host, "phases": [[activity]]}). An activity is ["comm", route, bytes],
["exec", the stream's host, operations, priority] or ["read" or "write", disk, bytes]; a priority other
than 1 only where it is alone in its phase. A flow over a route with a latency starts that much later and
has the weight 1 / latency.
With `probe`, it is the time to read rates at.

Binding 3.32 holds Python's lock in some calls that change to another actor (creating an actor in an actor,
setting an execution's host), which stops everything: such calls are avoided.

The result has `ends`, when each phase of each stream ended; `rates` of the activities of each stream's
first phase, if asked for and if SimGrid tells; and `seconds`, what Engine.run() took.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

CONFIG = (
    "network/model:CM02",
    "cpu/model:Cas01",
    "network/crosstraffic:no",
    "network/weight-S:0",
    "network/TCP-gamma:1e30",
    "network/latency-factor:1",
    "network/bandwidth-factor:1",
    "maxmin/precision:1e-5",
    "surf/precision:1e-7",
    "contexts/stack-size:256",
)
NO_LIMIT = 1e15
LONGEST_S = 120


def platform(simgrid: Any, scenario: dict[str, Any]) -> dict[str, Any]:
    """Build links, hosts, disks and routes; every route has two hosts of its own."""
    zone = simgrid.NetZone.create_full_zone("zone")
    links = [zone.create_link(f"link-{n}", bandwidth).seal() for n, bandwidth in enumerate(scenario["links"])]
    hosts = [zone.create_host(f"host-{n}", speed) for n, (_, speed) in enumerate(scenario["hosts"])]
    for host, (cores, _) in zip(hosts, scenario["hosts"], strict=True):
        host.core_count = cores
        host.seal()
    home = zone.create_host("home", 1e9)
    disks = [home.create_disk(f"disk-{n}", *bandwidths) for n, bandwidths in enumerate(scenario["disks"])]
    for disk in disks:
        disk.seal()
    home.seal()
    ends = []
    for n, (latency, cap, used) in enumerate(scenario["routes"]):
        pair = [zone.create_host(f"{side}-{n}", 1e9).seal() for side in ("from", "to")]
        way = [links[link] for link in used]
        if cap:
            fat = simgrid.Link.SharingPolicy.FATPIPE
            way.append(zone.create_link(f"cap-{n}", cap).set_sharing_policy(fat, None).seal())
        if latency:
            way.append(zone.create_link(f"latency-{n}", NO_LIMIT).set_latency(latency).seal())
        steps = [simgrid.LinkInRoute(link) for link in way]
        zone.add_route(pair[0].netpoint, pair[1].netpoint, None, None, steps, False)
        ends.append(pair)
    zone.seal()
    return {"hosts": hosts, "disks": disks, "ends": ends}


def begin(simgrid: Any, made: dict[str, Any], activity: list[Any]) -> Any:
    """Start an activity; returns what can be waited for."""
    what, where, amount, *_ = activity
    if what == "comm":
        return simgrid.Comm.sendto_init(*made["ends"][where]).set_payload_size(amount).start()
    if what == "exec":
        return simgrid.this_actor.exec_async(amount)
    disk = made["disks"][where]
    return disk.read_async(int(amount)) if what == "read" else disk.write_async(int(amount))


def run_stream(simgrid: Any, made: dict[str, Any], stream: dict[str, Any], ends: list[float]) -> None:
    """Run the phases of a stream one after another and note when each ends."""
    if stream["start"]:
        simgrid.this_actor.sleep_until(stream["start"])
    for phase in stream["phases"]:
        if len(phase) == 1 and phase[0][0] == "exec" and phase[0][3] != 1.0:
            simgrid.this_actor.execute(phase[0][2], phase[0][3])
        else:
            for activity in [begin(simgrid, made, activity) for activity in phase]:
                activity.wait()
        ends.append(simgrid.Engine.clock)


def probe(
    simgrid: Any, made: dict[str, Any], stream: dict[str, Any], rates: list[float | None], at: float
) -> None:
    """Start the first phase of a stream and read what is left at two moments."""
    running = [begin(simgrid, made, activity) for activity in stream["phases"][0]]
    simgrid.this_actor.sleep_until(at / 2)
    before = [getattr(activity, "remaining", None) for activity in running]
    simgrid.this_actor.sleep_until(at)
    for activity, was in zip(running, before, strict=True):
        rates.append(None if was is None else (was - activity.remaining) / (at / 2))
    simgrid.this_actor.sleep_until(at + 1)
    for activity in running:
        if hasattr(activity, "cancel"):
            activity.cancel()


def run(simgrid: Any, scenario: dict[str, Any]) -> dict[str, Any]:
    """Run one scenario."""
    engine = simgrid.Engine(["oracle", *(f"--cfg={item}" for item in CONFIG), "--log=root.thres:critical"])
    made = platform(simgrid, scenario)
    ends: list[list[float]] = [[] for _ in scenario["streams"]]
    rates: list[list[float | None]] = [[] for _ in scenario["streams"]]
    for number, stream in enumerate(scenario["streams"]):
        host = made["hosts"][stream["host"]]
        more: tuple[Any, ...]
        if "probe" in scenario:
            more = (probe, simgrid, made, stream, rates[number], scenario["probe"])
        else:
            more = (run_stream, simgrid, made, stream, ends[number])
        simgrid.Actor.create(f"stream-{number}", host, *more)
    start = time.perf_counter()
    engine.run()
    return {"ends": ends, "rates": rates, "seconds": time.perf_counter() - start}


def main() -> None:
    """Answer each line."""
    import simgrid  # type: ignore[import-not-found]

    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            signal.alarm(LONGEST_S)
            with os.fdopen(writing, "w") as answer:
                json.dump(run(simgrid, json.loads(line)), answer)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            text = answer.read()
        _, status = os.waitpid(child, 0)
        print(text if status == 0 else json.dumps({"failed": status}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
