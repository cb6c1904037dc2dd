"""Machines beside the nodes in the templates: what they may do, who reaches them, what watches over them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gridwright.catalog import load_catalog
from gridwright.model.grid import grid_model
from gridwright.providers.aws.down import lost_machines
from gridwright.providers.aws.grid_template import grid_template
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.machine_files import machine_files, shared_key
from gridwright.providers.aws.storage_template import storage_template
from gridwright.spec import GridSpec, parse_spec
from tests.support.aws_grid import FSX, LUSTRE

BESIDE = """machines:
  meta: {instance: r6i.2xlarge, disk: 200 GiB}
  mid-tier: {instance: m6i.large, count: 2, replace: true, mounts: false}
"""
Resources = dict[str, Any]


@pytest.fixture(scope="module")
def spec() -> GridSpec:
    return parse_spec(FSX + BESIDE)


@pytest.fixture(scope="module")
def grid(spec: GridSpec) -> Resources:
    found: Resources = json.loads(grid_template(spec, aws_layout(spec)).to_json())["Resources"]
    return found


def rules(text: str) -> list[dict[str, Any]]:
    spec = parse_spec(text)
    resources = json.loads(storage_template(spec, aws_layout(spec)).to_json())["Resources"]
    return [
        each["Properties"] for each in resources.values() if each["Type"] == "AWS::EC2::SecurityGroupIngress"
    ]


def statements(grid: Resources, role: str) -> set[str]:
    (policy,) = grid[role]["Properties"]["Policies"]
    return {each["Sid"] for each in policy["PolicyDocument"]["Statement"]}


def test_one_that_stays_has_its_type_itself(grid: Resources) -> None:
    machine = grid["Meta1"]["Properties"]
    assert machine["InstanceType"] == "r6i.2xlarge"
    assert machine["EbsOptimized"] is True
    data = grid["Meta1Template"]["Properties"]["LaunchTemplateData"]
    assert not {"InstanceType", "EbsOptimized", "Placement"} & set(data)
    assert data["MetadataOptions"]["HttpTokens"] == "required"
    (disk,) = data["BlockDeviceMappings"]
    assert (disk["Ebs"]["VolumeSize"], disk["Ebs"]["Encrypted"]) == (200, True)
    group = grid["MidTierMachines"]
    assert group["Type"] == "AWS::AutoScaling::AutoScalingGroup"
    assert group["Properties"]["MaxSize"] == "2"
    assert {"MidTier1Interface", "MidTier2Interface"} <= set(group["DependsOn"])


def test_they_have_no_part_in_the_scheduler(spec: GridSpec, grid: Resources) -> None:
    assert "Munge" in statements(grid, "ComputeRole")
    assert "Munge" not in statements(grid, "MetaMachinesRole") | statements(grid, "MidTierMachinesRole")
    assert "Claims" not in statements(grid, "MetaMachinesRole")
    assert "Claims" in statements(grid, "MidTierMachinesRole")
    # One that stays reads bundles, tells how it got on, and can attach nothing.
    assert not {"Interfaces", "InterfacesHere", "GiveBack"} & statements(grid, "MetaMachinesRole")
    layout = aws_layout(spec)
    assert {each.name for each in layout.machines if shared_key(spec, each.role) is None} == {
        *("meta1", "mid-tier1", "mid-tier2")
    }
    made = machine_files(spec, layout, None)
    conf = str(made.parts["nodes"]["slurm/slurm.conf"])
    assert "compute[1-2]" in conf
    assert "meta" not in conf
    assert "mid-tier" not in conf
    variables = str(made.parts["nodes"]["group_vars/all.yml"])
    # Who stays has nothing to claim.
    assert "gridwright_claims:\n  - compute\n  - mid_tier\n" in variables
    assert "meta1: 10.20.255.239" in variables


def test_alarms_tell_of_both_kinds(grid: Resources) -> None:
    assert {"Meta1Broken", "MidTierMachinesMissing"} <= set(grid)
    assert not {"MidTier1Broken", "MetaMachinesMissing"} & set(grid)


def test_lustre_reaches_those_that_mount_it_and_ssh_comes_from_login_and_head_alone() -> None:
    found = rules(LUSTRE + BESIDE)

    def sources(group: str, port: int) -> set[str]:
        return {
            each["SourceSecurityGroupId"]["Ref"]
            for each in found
            if each["GroupId"] == {"Ref": group} and each["FromPort"] == port
        }

    assert sources("StorageGroup", 988) >= {"MetaMachinesGroup", "ComputeGroup"}
    assert "MidTierMachinesGroup" not in sources("StorageGroup", 988)
    assert sources("MetaMachinesGroup", 988) == {"StorageGroup"}
    for group in ("MetaMachinesGroup", "MidTierMachinesGroup"):
        assert sources(group, 22) == {"LoginGroup", "HeadGroup"}
    opened = {each["FromPort"] for each in found if each["GroupId"] == {"Ref": "MidTierMachinesGroup"}}
    assert opened == {22}


def test_ingress_names_roles_groups_and_ranges() -> None:
    between = "{role: meta, source: mid-tier, ports: 8561}"
    outside = "{role: login, source: 10.0.0.0/8, ports: 53, protocol: udp}"
    text = LUSTRE.replace("aws: {", f"aws: {{ingress: [{between}, {outside}], ") + BESIDE
    found = {}
    for each in rules(text):
        source = each.get("CidrIp") or each["SourceSecurityGroupId"]["Ref"]
        if each["FromPort"] in (8561, 53):
            found[each["GroupId"]["Ref"]] = (source, each["IpProtocol"], each["ToPort"])
    assert found == {
        "MetaMachinesGroup": ("MidTierMachinesGroup", "tcp", 8561),
        "LoginGroup": ("10.0.0.0/8", "udp", 53),
    }


def test_they_cost_and_count_as_no_cores(spec: GridSpec) -> None:
    without, with_them = grid_model(parse_spec(FSX)), grid_model(spec)
    assert (with_them.cores, with_them.nodes) == (without.cores, without.nodes)
    more = {each.what: each.usd_per_hour for each in with_them.costs if each not in without.costs}
    catalog = load_catalog()
    price = catalog.instance_usd_per_hour("r6i.2xlarge", "us-east-1")
    assert more["1 x r6i.2xlarge of machines meta"] == price
    assert set(more) == {
        "1 x r6i.2xlarge of machines meta",
        "2 x m6i.large of machines mid-tier",
        "disks of 1 machines meta, gp3 of 200 GiB",
        "disks of 2 machines mid-tier, gp3 of 50 GiB",
    }


@pytest.mark.parametrize(
    ("new", "replace", "lost"),
    [
        (BESIDE, "", None),
        ("", "", "meta1 would go, with what lies on its disk"),
        ("", "meta", None),
        (BESIDE.replace("meta: {", "meta: {count: 3, "), "", None),
        (BESIDE.replace("  mid-tier", "  #"), "", None),
        (BESIDE.replace("disk: 200 GiB", "replace: true"), "", "meta1 would go"),
    ],
)
def test_what_keeps_its_disk_goes_only_by_name(
    spec: GridSpec, new: str, replace: str, lost: str | None
) -> None:
    found = list(lost_machines(spec, parse_spec(FSX + new), frozenset(replace.split())))
    assert [lost in each.what for each in found if lost] == ([True] if lost else [])
    assert bool(found) == bool(lost)
