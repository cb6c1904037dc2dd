"""Groups whose nodes are powered on and off, or bought as spot instances: what a spec may say of them."""

from __future__ import annotations

import pytest

from gridwright.errors import GridwrightError
from gridwright.schedulers.machines import GridMachines, NodeHardware, hardware_of_nodes
from gridwright.schedulers.slurm.configuration import RELEASES, Release, slurm_configuration, slurm_parameters
from gridwright.spec import parse_spec

AWS = """\
name: demo
provider: aws
region: us-east-1
aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24]}
nodes:
  compute: {instance: m6i.4xlarge, count: 4, min: 1, idle: 15 min}
  wide: {instance: r5n.8xlarge, count: 2}
filesystems: {shared: {type: fsx-lustre, path: /shared, deployment: scratch-2, capacity: 2400 GiB}}
libraries: {data: {}}
scheduler:
  type: slurm
  queues:
    batch: {nodes: [compute, wide]}
    large: {nodes: [wide]}
"""
CHEAP = AWS.replace("min: 1, idle: 15 min", "min: 0, spot: {max_price: 0.4}")


def refused(text: str) -> tuple[str, str, str]:
    """Field, problem and remedy of the one thing that is wrong."""
    with pytest.raises(GridwrightError) as error:
        parse_spec(text)
    (problem,) = error.value.problems
    return problem.field or "", problem.what, problem.remedy or ""


def test_the_first_nodes_are_always_on_and_the_others_are_powered() -> None:
    spec = parse_spec(AWS)
    assert spec.powered_nodes() == {"compute2", "compute3", "compute4"}
    assert spec.nodes["compute"].idle_s == 900
    assert parse_spec(AWS.replace("min: 1, idle: 15 min", "min: 0")).nodes["compute"].idle_s == 600
    assert parse_spec(AWS.replace("min: 1, idle: 15 min", "min: 4")).powered_nodes() == frozenset()
    assert parse_spec(AWS.replace(", min: 1, idle: 15 min", "")).powered_nodes() == frozenset()


@pytest.mark.parametrize(
    ("old", "new", "field", "what"),
    [
        ("min: 1", "min: 5", "nodes.compute.min", "5 nodes cannot be always on of 4"),
        ("min: 1, ", "", "nodes.compute.idle", "all nodes of this group are always on"),
        ("idle: 15 min", "idle: 2s", "nodes.compute.idle", "nodes would go between two jobs"),
        ("aws: {", "aws: {replace_nodes: false, ", "nodes.compute.min", "plain instances"),
        ("type: slurm", "type: slurm\n  backup_controller: true", "scheduler.backup_controller", "backup"),
        (
            "count: 2}",
            "count: 2, min: 0, idle: 1h}",
            "scheduler.queues.batch",
            "queue batch has groups with several times until idle nodes go (compute: 900 s, wide: 3600 s)",
        ),
        ("min: 1, idle: 15 min", "min: 1, spot: true", "nodes.compute.spot", "cannot be always on"),
        ("count: 2}", "count: 2, reservation: cr-1}", "nodes.wide.reservation", "is not a capacity"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused_where_it_stands(
    old: str, new: str, field: str, what: str
) -> None:
    text = AWS.replace(old, new, 1)
    if "spot: true" in new:
        text = text.replace("nodes: [compute, wide]", "nodes: [compute, wide], spot: true")
    assert text != AWS
    found = refused(text)
    assert found[0] == field
    assert what in found[1]
    assert found[2]


def test_no_job_lands_on_a_spot_instance_unknowingly() -> None:
    field, what, remedy = refused(CHEAP)
    assert (field, "compute" in what, "spot: true" in remedy) == ("scheduler.queues.batch", True, True)
    allowed = CHEAP.replace("nodes: [compute, wide]", "nodes: [compute, wide], spot: true")
    assert parse_spec(allowed).nodes["compute"].spot
    apart = CHEAP.replace("batch: {nodes: [compute, wide]}", "batch: {nodes: [wide]}")
    assert parse_spec(apart)
    # The queue that a spec has without naming any is for all groups.
    field, _, remedy = refused(CHEAP.partition("  queues:")[0])
    assert field == "nodes.compute.spot"
    assert "queues: {cheap: {nodes: [compute], spot: true}}" in remedy
    field, what, _ = refused(allowed.replace("spot: {", "reservation: open, spot: {"))
    assert field == "nodes.compute.reservation"


def test_other_providers_say_that_they_have_none() -> None:
    local = "name: x\nnodes: {compute: {min: 0}}\nfilesystems: {d: {type: local, path: /d}}\n"
    assert refused(local)[:2] == (
        "nodes.compute.min",
        "nodes of provider local are powered on and off by nobody",
    )
    lab = local.replace("name: x", "name: x\nprovider: lab\nscheduler: {type: slurm}")
    assert parse_spec(lab).powered_nodes() == {"compute1"}
    assert refused(lab.replace("type: slurm", "type: ssh"))[0] == "nodes.compute.min"
    assert refused(lab.replace("min: 0", "spot: true"))[:2] == (
        "nodes.compute.spot",
        "nodes of provider lab are not bought so",
    )


@pytest.mark.parametrize("release", RELEASES)
def test_slurm_powers_these_nodes_and_leaves_the_others_on(release: Release) -> None:
    spec = parse_spec(AWS)
    hardware = NodeHardware(name="", cores_per_socket=8, memory_bytes=64 << 30)
    machines = GridMachines(
        controller="controller", nodes=hardware_of_nodes(spec, dict.fromkeys(spec.nodes, hardware))
    )
    text = slurm_configuration(spec, slurm_parameters(spec, machines, release)).files["slurm.conf"]
    lines = text.splitlines()
    assert "SuspendExcNodes=compute1,wide[1-2]" in lines
    for setting in ("ResumeProgram", "SuspendProgram", "ResumeFailProgram", "PrivateData=cloud"):
        assert sum(line.startswith(setting) for line in lines) == 1
    states = {line.split()[0]: line.rpartition("State=")[2] for line in lines if line.startswith("NodeName=")}
    assert states == {"NodeName=compute1,wide[1-2]": "UNKNOWN", "NodeName=compute[2-4]": "CLOUD"}
    batch, large = (line for line in lines if line.startswith("PartitionName="))
    assert "SuspendTime=900" in batch.split()
    assert "SuspendTime" not in large
    plain = parse_spec(AWS.replace(", min: 1, idle: 15 min", ""))
    text = slurm_configuration(plain, slurm_parameters(plain, machines, release)).files["slurm.conf"]
    assert "Suspend" not in text
    assert "CLOUD" not in text
