"""Predictions and plans that reports are made of here: of real specs, by the real model."""

from __future__ import annotations

from dataclasses import replace

from gridwright.model.grid import grid_model
from gridwright.model.predict import predict
from gridwright.model.prediction import Prediction
from gridwright.plan.design import Design, DesignExplanation, Fit, Neighbour, Plan, RequirementReading
from gridwright.spec import GridSpec, parse_spec

LAKE = """
  lake:
    type: lustre
    path: /lake
    oss: {{instance: {oss}, count: {servers}, disks: {{type: gp2, count: 4, size: 500 GiB}}}}
  scratch: {{type: local, path: /scratch, disks: {{type: {scratch}}}}}
"""
FSX = """
  fsx:
    type: fsx-lustre
    path: /fsx
    deployment: persistent-2
    capacity: {capacity}
    throughput: {tier}
    stripe_count: -1
"""


def spec_of(
    filesystems: str,
    instance: str,
    count: int,
    homes: tuple[str, str, str],
    needs: tuple[str | None, str | None, str | None] = ("20 MB/s/core", "25 MB/s/core", None),
) -> GridSpec:
    libraries = "\n".join(
        f"  {name}: {{filesystem: {home}{f', requires: {need}' if need else ''}}}"
        for name, home, need in zip(("data", "work", "util"), homes, needs, strict=True)
    )
    return parse_spec(
        f"name: demo\nprovider: aws\nregion: us-east-1\n"
        f"nodes: {{compute: {{instance: {instance}, count: {count}}}}}\n"
        f"filesystems:{filesystems}libraries:\n{libraries}\n"
    )


def lake_spec(
    instance: str = "m5dn.8xlarge", count: int = 4, servers: int = 3, oss: str = "m5.2xlarge"
) -> GridSpec:
    """Data and util on Lustre of one's own, work on the nodes' own disks."""
    filesystems = LAKE.format(oss=oss, servers=servers, scratch="instance-store")
    return spec_of(filesystems, instance, count, ("lake", "scratch", "lake"))


def fsx_spec(
    instance: str = "m5n.8xlarge", count: int = 4, capacity: str = "24 TiB", tier: str = "125 MB/s/TiB"
) -> GridSpec:
    """All on FSx for Lustre."""
    filesystems = FSX.format(capacity=capacity, tier=tier)
    return spec_of(
        filesystems, instance, count, ("fsx", "fsx", "fsx"), ("20 MB/s/core", "25 MB/s/core", "25 MB/s/core")
    )


def prediction_of(spec: GridSpec) -> Prediction:
    return predict(grid_model(spec))


def lake() -> Prediction:
    """Data are missed, work is met, of util nothing is required; the lake bursts."""
    return prediction_of(lake_spec())


def fsx() -> Prediction:
    """Three libraries alike enough to stand together."""
    return prediction_of(fsx_spec())


def unrequired() -> Prediction:
    """A grid of which nothing is required."""
    filesystems = LAKE.format(oss="m5.2xlarge", servers=3, scratch="instance-store")
    return prediction_of(
        spec_of(filesystems, "m5dn.8xlarge", 1, ("lake", "scratch", "lake"), (None, None, None))
    )


def design(spec: GridSpec, title: str, resilience: int, survives: str, front: bool = False) -> Design:
    prediction = prediction_of(spec)
    smallest = min(r.bytes_per_s_per_core for lib in prediction.libraries for r in lib.rates.values())
    cost = prediction.usd_per_hour if prediction.usd_per_hour is not None else 99.0
    return Design(title, spec, prediction, cost, smallest, resilience, survives, front)


DISKS = "data survive a server; work is lost with a node"
MANAGED = "data and work survive a server and a node"


def designs() -> tuple[Design, ...]:
    found = [
        design(lake_spec("m5dn.8xlarge", 4, 9), "4 x m5dn.8xlarge, Lustre on 9 m5.2xlarge", 2, DISKS, True),
        design(lake_spec("m5dn.8xlarge", 4, 12), "4 x m5dn.8xlarge, Lustre on 12 m5.2xlarge", 2, DISKS, True),
        design(lake_spec("r5dn.8xlarge", 4, 9), "4 x r5dn.8xlarge, Lustre on 9 m5.2xlarge", 2, DISKS),
        design(lake_spec("m5dn.16xlarge", 2, 9), "2 x m5dn.16xlarge, Lustre on 9 m5.2xlarge", 1, DISKS),
        design(fsx_spec("m5n.8xlarge"), "4 x m5n.8xlarge, FSx persistent-2 of 24 TiB", 4, MANAGED, True),
        design(fsx_spec("m5n.8xlarge", 4, "48 TiB"), "4 x m5n.8xlarge, FSx of 48 TiB", 4, MANAGED, True),
        design(fsx_spec("r5n.8xlarge"), "4 x r5n.8xlarge, FSx persistent-2 of 24 TiB", 4, MANAGED),
        design(fsx_spec("m5n.16xlarge", 2), "2 x m5n.16xlarge, FSx persistent-2 of 24 TiB", 3, MANAGED),
        *(
            design(lake_spec("m5dn.8xlarge", 4, n), f"4 x m5dn.8xlarge, Lustre on {n} m5.2xlarge", 2, DISKS)
            for n in (10, 11, 14, 16)
        ),
    ]
    return tuple(sorted(found, key=lambda each: each.usd_per_hour))


def on_disks() -> Design:
    """Data on Lustre of one's own, work on the nodes' disks."""
    return next(each for each in designs() if each.title == "4 x m5dn.8xlarge, Lustre on 9 m5.2xlarge")


def plan() -> Plan:
    ranked = designs()
    first = ranked[0]
    return Plan(
        "demo",
        (
            RequirementReading("cores", "64 physical cores", "requirements.cores, grid.yaml:9"),
            RequirementReading(
                "all libraries at once", "35.7 % of the sum of their rates", "paper 4632-2020: the default"
            ),
            RequirementReading(
                "data", "20 MB/s per core, written and read", "libraries.data.requires, grid.yaml:14"
            ),
        ),
        ranked,
        (
            Neighbour("8 OSS in place of 9", "one server less", "data read: 19.2 MB/s per core of 20", 12.1),
            Neighbour(
                "5 nodes",
                "one node more",
                "costs 2.18 USD/h more and meets no more",
                first.usd_per_hour + 2.18,
            ),
            Neighbour("4 x m6idn.8xlarge", "newer nodes", "no price is known in us-east-1", None),
        ),
        considered=184_302,
        seconds=0.84,
        explanation=explanation(first),
    )


def explanation(cheapest: Design | None) -> DesignExplanation:
    return DesignExplanation(
        "m5.8xlarge",
        (
            Fit("memory per core", "8 GiB", "8 GB", "yes"),
            Fit("network per core", "78.1 MB/s", "125 MB/s", "no"),
            Fit("work on disks of its own", "no instance store", "depends on where work lives", "open"),
            Fit("work on volumes", "66.0 MB/s", "125 MB/s", "alternative"),
        ),
        cheapest,
        "m5.8xlarge does not fit: its network passes 78.1 MB/s per core, and 125 are required",
    )


def impossible() -> Plan:
    return Plan(
        "demo",
        plan().readings,
        (),
        considered=9_000,
        seconds=0.2,
        impossible=(
            "no instance type has 2 TiB of memory per core; u-24tb1.112xlarge has the most: 54.9 GiB",
        ),
    )


HOSTILE = "</script><img src=x onerror=alert(1)>[red]x[/red] & 50 %"


def hostile() -> Plan:
    """A plan whose every text would break a page or a terminal that does not escape it."""
    whole = plan()
    first = replace(whole.designs[0], title=HOSTILE, survives=HOSTILE)
    library = first.prediction.libraries[0]
    rates = {
        operation: replace(
            each, chain=(replace(each.chain[0], what=HOSTILE, source=HOSTILE), *each.chain[1:])
        )
        for operation, each in library.rates.items()
    }
    libraries = (replace(library, rates=rates), *first.prediction.libraries[1:])
    costs = (replace(first.prediction.costs[0], what=HOSTILE), *first.prediction.costs[1:])
    prediction = replace(first.prediction, grid=HOSTILE, libraries=libraries, costs=costs)
    return replace(
        whole,
        grid=HOSTILE,
        readings=(RequirementReading(HOSTILE, HOSTILE, HOSTILE),),
        designs=(replace(first, prediction=prediction), *whole.designs[1:]),
        neighbours=(Neighbour(HOSTILE, HOSTILE, HOSTILE, 1.0),),
        explanation=DesignExplanation(HOSTILE, (Fit(HOSTILE, HOSTILE, HOSTILE, "no"),), first, HOSTILE),
    )
