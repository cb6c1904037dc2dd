"""What a change of the spec does to machines that run, by CloudFormation's own schemas."""

from __future__ import annotations

import json

import pytest

from gridwright.providers.aws.deployment import deployment
from gridwright.providers.aws.fixed_machines import fixed_machines
from gridwright.spec import parse_spec
from tests.support.aws_grid import FSX, LUSTRE
from tests.support.aws_updates import effects

CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/12345678-1234-1234-1234-123456789012"
ZONE = "zone: us-east-1a,"


def changed(spec: str, old: str, new: str) -> dict[str, str]:
    assert old in spec
    return effects(spec, spec.replace(old, new))


@pytest.mark.parametrize("spec", [FSX, LUSTRE], ids=["fsx", "lustre"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ZONE, f"{ZONE} expires: 2027-01-31,"),
        ("203.0.113.0/24]", "203.0.113.0/24], owner: bob"),
        ("203.0.113.0/24", "203.0.113.0/25"),
        (ZONE, f"{ZONE} permissions_boundary: 'arn:aws:iam::111122223333:policy/Boundary',"),
        (ZONE, f"{ZONE} egress: [{{to: 192.0.2.0/24, ports: 1433}}],"),
        (ZONE, f"{ZONE} alarms: {{topic: 'arn:aws:sns:us-east-1:111122223333:alarms'}},"),
    ],
    ids=["expires", "owner", "ssh_from", "permissions_boundary", "egress", "alarms"],
)
def test_what_changes_live_touches_no_machine(spec: str, old: str, new: str) -> None:
    without_owner = spec.replace(", owner: ann", "")
    assert changed(without_owner, old, new) == {}


@pytest.mark.parametrize("spec", [FSX, LUSTRE], ids=["fsx", "lustre"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scheduler: {type: slurm}", "scheduler: {type: slurm, queues: {day: {time: 12h}}}"),
        ("libraries: {data: {}", "libraries: {data: {requires: 100 MB/s/core}"),
    ],
    ids=["queue", "library"],
)
def test_what_machines_set_themselves_up_with_touches_no_machine(spec: str, old: str, new: str) -> None:
    assert changed(spec, old, new) == {}


def test_a_queue_sets_nothing_up_again_on_servers() -> None:
    before, after = (
        deployment(parse_spec(text)).bundles
        for text in (LUSTRE, LUSTRE.replace("{type: slurm}", "{type: slurm, queues: {day: {time: 12h}}}"))
    )
    assert before["nodes"].key != after["nodes"].key
    assert before["servers"].key == after["servers"].key


def test_one_node_more_touches_no_other() -> None:
    found = changed(FSX, "count: 2}}", "count: 3}}")
    assert found == {}


@pytest.mark.parametrize("spec", [FSX, LUSTRE], ids=["fsx", "lustre"])
def test_a_certificate_touches_no_machine(spec: str) -> None:
    assert changed(spec, ZONE, f"{ZONE} certificate: '{CERTIFICATE}',") == {}


def test_another_type_of_head_or_login_node_stops_it_for_a_moment() -> None:
    for name, machine in (("head", "Head"), ("login", "Login")):
        for instance in ("m6i.xlarge", "m4.large", "t3.large"):
            found = changed(FSX, ZONE, f"{ZONE} {name}: {{instance: {instance}}},")
            assert found == {machine: "restart"}, instance


@pytest.mark.parametrize(
    ("old", "new", "rolled"),
    [
        (ZONE, f"{ZONE} key: ours,", {"ComputeNodes", "SharedOssServers", "SharedMdsServers"}),
        ("images: {", "images: {compute: ami-0aaaaaaaaaaaaaaaa, ", {"ComputeNodes"}),
        ("ami-0123456789abcdef0", "ami-0bbbbbbbbbbbbbbbb", {"SharedOssServers", "SharedMdsServers"}),
        ("m6i.4xlarge", "m6i.8xlarge", {"ComputeNodes"}),
        ("c5n.9xlarge", "c5n.18xlarge", {"SharedOssServers"}),
        (ZONE, f"{ZONE} hyperthreads: false,", {"ComputeNodes"}),
        (ZONE, f"{ZONE} drain_limit: 2h,", set()),
    ],
    ids=[
        "key",
        "image",
        "image of servers",
        "instance",
        "instance of servers",
        "hyperthreads",
        "drain_limit",
    ],
)
def test_what_nodes_are_launched_with_rolls_their_group_and_replaces_nothing(
    old: str, new: str, rolled: set[str]
) -> None:
    assert changed(LUSTRE, old, new) == dict.fromkeys(rolled, "roll")


def test_a_proxy_stops_head_and_login_node_for_a_moment() -> None:
    found = changed(LUSTRE, ZONE, f"{ZONE} proxy: 'http://proxy.example:3128',")
    effects_of = {name: found.get(name) for name in ("Head", "Login", "ComputeNodes")}
    assert effects_of == {"Head": "restart", "Login": "restart", "ComputeNodes": "roll"}


def test_a_grid_of_an_earlier_release_is_not_stopped_for_where_its_type_stands() -> None:
    made = deployment(parse_spec(FSX))
    old = json.loads(json.dumps(made.grid))
    for name in ("Head", "Login"):
        data = old["Resources"][f"{name}Template"]["Properties"]["LaunchTemplateData"]
        data |= {"InstanceType": "m6i.large", "EbsOptimized": True}
        del old["Resources"][name]["Properties"]["EbsOptimized"]
    found = fixed_machines(made.spec, made.layout, old, made.grid, ())
    assert (found.kept, found.restarted, found.anew) == ((), (), ())
    for name in ("Head", "Login", "HeadTemplate", "LoginTemplate"):
        assert found.template["Resources"][name] == old["Resources"][name]


def test_head_and_login_node_that_keep_what_they_have_are_named() -> None:
    before, after = (deployment(parse_spec(each)) for each in (FSX, FSX.replace(ZONE, f"{ZONE} key: ours,")))
    kept = fixed_machines(after.spec, after.layout, before.grid, after.grid, ())
    assert (kept.kept, kept.restarted, kept.anew, kept.first) == (("login1", "controller"), (), (), None)
    again = fixed_machines(after.spec, after.layout, kept.template, after.grid, ())
    assert again.template == kept.template, "a second up changes nothing"
    named = fixed_machines(after.spec, after.layout, kept.template, after.grid, ("controller",))
    assert (named.kept, named.anew) == (("login1",), ("controller",))
    assert named.first is not None
    resources = named.first["Resources"]
    assert set(named.template["Resources"]) - set(resources) <= {"Head", "HeadBroken", "Dashboard"}
    assert "HeadInstance" not in named.first["Outputs"]
    assert "Head" not in resources["ComputeNodes"]["DependsOn"]
