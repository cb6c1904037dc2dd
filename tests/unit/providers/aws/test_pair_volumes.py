"""Servers in pairs on AWS: what is rendered of them, and what becomes of it when the spec changes."""

from __future__ import annotations

from typing import Any

import pytest

from gridwright.providers.aws.launching import machine_id
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.rolling import fixed_machines
from gridwright.providers.aws.up import gone_machines
from gridwright.spec import parse_spec
from tests.support.aws_grid import SCALE
from tests.support.aws_updates import deployed, effects

FOUR = SCALE.replace("count: 2, disks", "count: 4, disks")


def resources(text: str, kind: str) -> dict[str, dict[str, Any]]:
    made = deployed(text)
    both = {**made.storage["Resources"], **made.grid["Resources"]}
    return {name: each for name, each in both.items() if each["Type"] == f"AWS::EC2::{kind}"}


def test_both_servers_of_a_pair_attach_its_volumes_under_one_name_and_no_other_machine_does() -> None:
    volumes, attachments = resources(FOUR, "Volume"), resources(FOUR, "VolumeAttachment")
    assert len(volumes) == 8
    for name, each in volumes.items():
        properties = each["Properties"]
        assert (properties["VolumeType"], properties["MultiAttachEnabled"]) == ("io2", True)
        assert (properties["AvailabilityZone"], properties["Iops"]) == ("us-east-1a", 4000)
        assert each["DeletionPolicy"] == "Retain"
        pair = name.removeprefix("LakeP")[0]
        at = [one["Properties"] for one in attachments.values() if f"{name}" in str(one["Properties"])]
        assert {str(one["InstanceId"]) for one in at} == {
            f"{{'Ref': 'LakeNsd{number}'}}" for number in (2 * int(pair) - 1, 2 * int(pair))
        }
        assert len({one["Device"] for one in at}) == 1
    for server in range(1, 5):
        own = [one["Properties"] for one in attachments.values() if f"LakeNsd{server}'" in str(one)]
        assert len(own) == 4 == len({one["Device"] for one in own})


def test_the_servers_of_a_pair_are_in_two_partitions() -> None:
    made = deployed(FOUR)
    of_server = {
        machine.name: machine.pair for machine in made.layout.machines if machine.role.value == "nsd"
    }
    assert sorted(of_server.values()) == [1, 1, 2, 2]
    templates = resources(FOUR, "LaunchTemplate")
    partitions = [
        each["Properties"]["LaunchTemplateData"]["Placement"]["PartitionNumber"]
        for name, each in templates.items()
        if "LakeNsd" in name
    ]
    assert sorted(partitions) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("count: 2, disks", "count: 4, disks"),
        ("{type: io2, count: 2", "{type: io2, count: 3"),
        ("size: 500 GiB", "size: 600 GiB"),
        ("iops: 4000", "iops: 5000"),
        ("m6i.4xlarge, count: 2", "m6i.4xlarge, count: 3"),
    ],
)
def test_growth_leaves_volumes_servers_and_attachments_alone(old: str, new: str) -> None:
    assert old in SCALE
    grown = SCALE.replace(old, new)
    kinds = ("Volume", "VolumeAttachment", "Instance")
    for kind in kinds:
        assert resources(SCALE, kind).keys() <= resources(grown, kind).keys()
    touched = effects(SCALE, grown).keys()
    assert not touched & {name for kind in kinds for name in resources(SCALE, kind) if "Lake" in name}


def test_a_server_stops_only_when_it_is_named_and_never_both_of_a_pair() -> None:
    larger = SCALE.replace("m6in.8xlarge", "m6in.16xlarge")
    before, after = deployed(SCALE), deployed(larger)
    problems = fixed_machines(after.spec, after.layout, before.grid, after.grid, ()).problems
    said = " ".join(f"{each.what} {each.remedy}" for each in problems)
    assert "lake-nsd1 would stop while it serves files" in said
    assert "--replace lake-nsd" in said
    one = fixed_machines(after.spec, after.layout, before.grid, after.grid, ("lake-nsd1",)).problems
    assert not [each for each in one if "lake-nsd1" in each.what]
    both = fixed_machines(after.spec, after.layout, before.grid, after.grid, ("lake-nsd1", "lake-nsd2"))
    assert "nobody serves its volumes without both" in " ".join(each.what for each in both.problems)


def test_a_server_that_is_gone_is_made_anew_with_its_attachments_and_nothing_else_is() -> None:
    now = deployed(SCALE)
    found = fixed_machines(now.spec, now.layout, now.grid, now.grid, (), ("lake-nsd1",))
    assert (found.gone, found.anew, found.kept, found.restarted, found.problems) == (
        *(("lake-nsd1",), (), (), ()),
        (),
    )
    assert found.template == now.grid
    assert found.first is not None
    left = now.grid["Resources"].keys() - found.first["Resources"].keys()
    kinds = [now.grid["Resources"][name]["Type"] for name in left]
    assert sorted(set(kinds)) == [
        "AWS::CloudWatch::Alarm",
        "AWS::CloudWatch::Dashboard",
        "AWS::EC2::Instance",
        "AWS::EC2::VolumeAttachment",
    ]
    assert kinds.count("AWS::EC2::Instance") == 1
    assert kinds.count("AWS::EC2::VolumeAttachment") == 4
    # Its address is on an interface of its own, which stays.
    assert not [name for name in left if "Interface" in name]


class Cloud:
    """Instances by their state; those that are not there EC2 has forgotten."""

    def __init__(self, states: dict[str, str]) -> None:
        self.states = states
        self.asked: list[int] = []

    def listed(self, *_call: str, Filters: list[dict[str, Any]]) -> list[dict[str, Any]]:
        (only,) = Filters
        assert only["Name"] == "instance-id", "who lost its tags would be taken for gone"
        self.asked.append(len(only["Values"]))
        found = [each for each in only["Values"] if each in self.states]
        return [{"Instances": [{"InstanceId": each, "State": {"Name": self.states[each]}}]} for each in found]


def test_gone_is_what_ec2_has_ended_or_forgotten_and_nothing_that_is_stopped() -> None:
    layout = aws_layout(parse_spec(SCALE.replace("m6i.4xlarge, count: 2", "m6i.4xlarge, count: 210")))
    made = {machine_id(each): f"i-{each.name}" for each in layout.machines if not each.replaced}
    states = dict.fromkeys(made.values(), "running")
    states |= {"i-lake-nsd1": "shutting-down", "i-login1": "terminated", "i-compute2": "stopped"}
    del states["i-compute7"]
    cloud: Any = Cloud(states)
    assert gone_machines(cloud, layout, made) == {"lake-nsd1", "login1", "compute7"}
    assert max(cloud.asked) <= 200 < sum(cloud.asked) == len(made)
    # Of a stack that has not made them yet nothing is gone.
    assert gone_machines(cloud, layout, {}) == frozenset()


def test_of_a_pair_one_of_which_is_gone_the_other_one_is_not_to_stop() -> None:
    larger = SCALE.replace("m6in.8xlarge", "m6in.16xlarge")
    before, after = deployed(SCALE), deployed(larger)

    def said(named: tuple[str, ...], gone: tuple[str, ...]) -> str:
        found = fixed_machines(after.spec, after.layout, before.grid, after.grid, named, gone)
        return " ".join(each.what for each in found.problems)

    assert "lake-nsd2 would stop while it serves files" in said((), ("lake-nsd1",))
    assert "nobody serves its volumes without both" in said(("lake-nsd2",), ("lake-nsd1",))
    # Where both are gone nothing can stop, and both are made anew, with the type of today.
    assert said((), ("lake-nsd1", "lake-nsd2")) == ""
    assert said(("lake-nsd1", "lake-nsd2"), ("lake-nsd1", "lake-nsd2")) == ""


def test_fewer_volumes_are_no_change_that_up_makes_by_itself() -> None:
    fewer = SCALE.replace("{type: io2, count: 2", "{type: io2, count: 1")
    gone = resources(SCALE, "Volume").keys() - resources(fewer, "Volume").keys()
    assert gone
    assert gone <= deployed(SCALE).held.keys(), "what holds data is known, so that its loss is refused"
