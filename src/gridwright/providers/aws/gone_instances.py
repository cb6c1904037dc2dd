"""Machines that no group replaces and whose instance is gone: nobody makes them anew but the next `up`."""

from __future__ import annotations

from collections.abc import Mapping

from gridwright.providers.aws.instances import GONE
from gridwright.providers.aws.launching import machine_id
from gridwright.providers.aws.layout import AwsLayout
from gridwright.providers.aws.session import Cloud

_MOST_VALUES = 200
"""Of one filter (Amazon EC2 API Reference, DescribeInstances)."""


def gone_machines(cloud: Cloud, layout: AwsLayout, resources: Mapping[str, str]) -> frozenset[str]:
    """Names of machines that a stack made and EC2 ended, or ends; `resources` are the stack's, by logical ID.

    They are asked for by their IDs: who has lost its tags is there all the same, and is never taken for gone.
    """
    made = {
        resources[machine_id(each)]: each.name
        for each in layout.machines
        if not each.replaced and resources.get(machine_id(each))
    }
    there: set[str] = set()
    for start in range(0, len(made), _MOST_VALUES):
        asked = [{"Name": "instance-id", "Values": list(made)[start : start + _MOST_VALUES]}]
        for reservation in cloud.listed("ec2", "describe_instances", "Reservations", Filters=asked):
            there |= {each["InstanceId"] for each in reservation["Instances"] if _is_there(each)}
    return frozenset(name for instance, name in made.items() if instance not in there)


def _is_there(instance: Mapping[str, Mapping[str, str]]) -> bool:
    return instance["State"]["Name"] not in GONE
