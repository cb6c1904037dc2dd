"""What a change of the spec does to machines that run, by CloudFormation's own schemas."""

from __future__ import annotations

import json

import pytest

from gridwright.providers.aws.changes import deployment
from gridwright.providers.aws.rolling import fixed_machines, with_images
from gridwright.spec import parse_spec
from tests.support.aws_grid import FSX, LUSTRE, SITE_VPC
from tests.support.aws_updates import deployed, effects

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
        deployment(parse_spec(text)).machines.bundles
        for text in (LUSTRE, LUSTRE.replace("{type: slurm}", "{type: slurm, queues: {day: {time: 12h}}}"))
    )
    assert before["nodes"].key != after["nodes"].key
    assert before["servers"].key == after["servers"].key


POWERED = FSX.replace("count: 2}", "count: 4, min: 1}")


@pytest.mark.parametrize(
    ("old", "new"),
    [("min: 1", "min: 3"), ("min: 1", "min: 1, idle: 1h"), (", min: 1", ""), ("count: 4", "count: 5")],
)
def test_how_many_nodes_are_always_on_touches_no_machine(old: str, new: str) -> None:
    assert changed(POWERED, old, new) == {}
    assert effects(POWERED.replace(old, new), POWERED) == {}


def test_how_nodes_are_bought_rolls_them() -> None:
    spot = "count: 2, min: 0, spot: true}"
    allowed = FSX.replace("{type: slurm}", "{type: slurm, queues: {cheap: {spot: true}}}")
    for new in (spot, "count: 2, reservation: cr-0123456789abcdef0}", "count: 2, reservation: none}"):
        assert changed(allowed, "count: 2}", new) == {"ComputeNodes": "roll"}
    limited = allowed.replace("count: 2}", spot.replace("spot: true", "spot: {max_price: 0.3}"))
    assert changed(limited, "0.3", "0.4") == {"ComputeNodes": "roll"}


def test_no_template_says_how_many_nodes_are_on() -> None:
    """CloudFormation would set that at the next update, and end nodes with jobs or start idle ones."""
    group = deployment(parse_spec(POWERED)).grid["Resources"]["ComputeNodes"]["Properties"]
    assert "DesiredCapacity" not in group
    assert group["TerminationPolicies"] == ["NewestInstance"]


def test_one_node_more_touches_no_other() -> None:
    found = changed(FSX, "count: 2}}", "count: 3}}")
    assert found == {}


PEOPLE = """\
users:
  local: {anna: {uid: 2001}}
  ldap:
    servers: ["ldaps://ldap1"]
    base: dc=example,dc=com
    bind: {dn: "cn=grid", secret: "arn:aws:secretsmanager:us-east-1:111122223333:secret:grid-AbCdEf"}
"""


@pytest.mark.parametrize("spec", [FSX, LUSTRE], ids=["fsx", "lustre"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("libraries:", f"{PEOPLE}libraries:"),
        (ZONE, f"{ZONE} depots: ['s3://our-depots/sas'],"),
    ],
    ids=["users", "depots"],
)
def test_what_is_the_sites_touches_no_machine(spec: str, old: str, new: str) -> None:
    assert changed(spec, old, new) == {}


def test_somebody_more_sets_nothing_up_again_on_servers() -> None:
    texts = [LUSTRE + PEOPLE, LUSTRE + PEOPLE.replace("2001}", "2001}, bob: {uid: 2002}")]
    before, after = (deployment(parse_spec(text)).machines.bundles for text in texts)
    assert before["nodes"].key != after["nodes"].key
    assert before["servers"].key == after["servers"].key


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


SITE = FSX.replace(ZONE, f"{ZONE} vpc: {SITE_VPC},") + "machines: {meta: {instance: m6i.large}}\n"
GROUPS = "security_groups: {{{}: [sg-0123456789abcdef0]}}, dns:"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("reserve: true", "reserve: false"),
        ("reserve: true", "public_address: true"),
        ("reserve: true", "reserve: true, endpoints: [vpce-0123456789abcdef0]"),
        ("networks: [10.8.0.0/16]", "networks: [10.8.0.0/16, 10.9.0.0/16]"),
        ("name: grid.example.com", "name: grid.example.org"),
        ("dns:", GROUPS.format("login")),
        ("dns:", GROUPS.format("meta")),
        (ZONE, f"{ZONE} ingress: [{{role: meta, source: compute, ports: 8561}}],"),
    ],
    ids=["reserve", "public", "endpoints", "networks", "dns", "group-login", "group-meta", "ingress"],
)
def test_what_of_the_site_s_network_changes_in_place_touches_no_machine(old: str, new: str) -> None:
    assert changed(SITE, old, new) == {}


def test_another_zone_or_security_group_is_what_its_policy_says() -> None:
    assert changed(SITE, "Z0123456789ABC", "Z0123456789ABD") == {"Names1": "replace"}, "names alone"
    assert changed(SITE, "dns:", GROUPS.format("compute")) == {"ComputeNodes": "roll"}
    behind = SITE.replace(ZONE, f"{ZONE} proxy: 'http://proxy.example:3128',")
    wider = changed(behind, "networks: [10.8.0.0/16]", "networks: [10.8.0.0/16, 10.9.0.0/16]")
    assert wider["ComputeNodes"] == "roll"


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("instance: m6i.large}", "instance: m6i.2xlarge}", {"Meta1": "restart"}),
        (ZONE, f"{ZONE} key: ours,", {}),
        (ZONE, f"{ZONE} images: {{compute: ami-0123456789abcdef0}},", {}),
        ("m6i.large}}", "m6i.large, count: 3}}", {}),
        ("m6i.large}}", "m6i.large}, tier: {instance: m6i.large, replace: true}}", {}),
        ("m6i.large}}", "m6i.large, mounts: false}}", {}),
        ("count: 2}", "count: 9}", {}),
        ("machines: {meta: {instance: m6i.large}}", "machines: {}", {}),
    ],
    ids=["type", "key", "image", "count", "another-group", "mounts", "nodes", "removed"],
)
def test_a_machine_that_keeps_its_disk_is_never_made_anew(old: str, new: str, found: dict[str, str]) -> None:
    """Its state lies there: only its type changes, and that by stopping and starting it."""
    effect = changed(FSX + "machines: {meta: {instance: m6i.large}}\n", old, new)
    assert {name: each for name, each in effect.items() if name.startswith("Meta")} == found


def test_machines_that_are_replaced_roll_as_nodes_do() -> None:
    spec = FSX + "machines: {meta: {instance: m6i.large, replace: true}}\n"
    assert changed(spec, "m6i.large, r", "m6i.2xlarge, r") == {"MetaMachines": "roll"}


def test_head_and_login_node_keep_their_image_when_nodes_get_a_new_one() -> None:
    """Another value of a parameter would have CloudFormation make them anew, on addresses in use."""
    made = deployed(FSX)
    parameter = "ComputeImageAmd64"
    had, wanted = ({"Running": "all", parameter: f"ami-{digit * 17}"} for digit in "01")
    launched = with_images(made.layout, made.grid, had, wanted)
    kept = fixed_machines(made.spec, made.layout, launched, made.grid, ())
    images = {
        name: each["Properties"]["LaunchTemplateData"]["ImageId"]
        for name, each in kept.template["Resources"].items()
        if each["Type"] == "AWS::EC2::LaunchTemplate"
    }
    assert images == {
        "HeadTemplate": had[parameter],
        "LoginTemplate": had[parameter],
        "ComputeNodesTemplate": {"Ref": parameter},
    }
    assert kept.kept == ("login1", "controller")
    # The next up has the same images, and leaves both as they are.
    after = with_images(made.layout, kept.template, wanted, wanted)
    assert fixed_machines(made.spec, made.layout, after, made.grid, ()).template == kept.template
    named = fixed_machines(made.spec, made.layout, after, made.grid, ("controller",))
    assert named.anew == ("controller",)
    data = named.template["Resources"]["HeadTemplate"]["Properties"]["LaunchTemplateData"]
    assert data["ImageId"] == {"Ref": parameter}
