"""Whether the zone of a grid is one of the region, and has all of its instance types."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from gridwright.errors import Finding, nearest
from gridwright.providers.aws.layout import AwsLayout
from gridwright.providers.aws.session import Cloud

_MOST_NAMED = 4


def zone_findings(cloud: Cloud, layout: AwsLayout) -> Iterator[Finding]:
    """What the zone lacks. Raises CloudError."""
    zone = layout.aws.zone
    states = {
        each["ZoneName"]: str(each.get("State", "available"))
        for each in cloud.call("ec2", "describe_availability_zones")["AvailabilityZones"]
    }
    if zone not in states:
        near = nearest(zone, list(states)) or min(states, default="another one")
        yield Finding(
            "error",
            "zone-unknown",
            f"the account has no zone {zone} in {cloud.region}: it has {', '.join(sorted(states))}",
            f"write aws.zone: {near}",
        )
        return
    if states[zone] != "available":
        yield Finding(
            "error",
            "zone-impaired",
            f"AWS says that zone {zone} is {states[zone]}",
            "wait until it is available, or choose another one",
        )
    yield from _types(cloud, layout)


def _types(cloud: Cloud, layout: AwsLayout) -> Iterator[Finding]:
    wanted: dict[str, str] = {}
    for machine in layout.machines:
        wanted.setdefault(machine.instance, machine.name)
    zones = _zones_of_types(cloud, wanted)
    zone = layout.aws.zone
    with_all = sorted(set.intersection(*(zones.get(each, set()) for each in wanted)))[:_MOST_NAMED]
    for name, machine_name in wanted.items():
        if zone in zones.get(name, set()):
            continue
        others = sorted(zones.get(name, set()))[:_MOST_NAMED]
        place = f"zones {', '.join(others)} have it" if others else f"no zone of {cloud.region} has it"
        yield Finding(
            "error",
            "type-not-in-zone",
            f"zone {zone} has no {name}, which {machine_name} is; {place}",
            f"write aws.zone: {' or '.join(with_all)}, with all types of the grid; or choose another type"
            if with_all
            else "choose another type: no zone has all types of the grid",
        )


def _zones_of_types(cloud: Cloud, types: Mapping[str, str]) -> dict[str, set[str]]:
    """Zones that offer each type."""
    found: dict[str, set[str]] = defaultdict(set)
    asked = [{"Name": "instance-type", "Values": sorted(types)}]
    for each in cloud.listed(
        "ec2",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=asked,
    ):
        found[each["InstanceType"]].add(each["Location"])
    return found
