"""The parameter of the grid stack by which `stop` and `start` set the sizes of its Auto Scaling groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from troposphere import FindInMap, Output, Parameter, Ref, Template

from gridwright.providers.aws.layout import Machine

PARAMETER = "Running"
"""Which machines of groups there are: all, only the servers of Lustre, or none."""
ALL, SERVERS, NONE = "all", "servers", "none"
_SIZES = "Sizes"
_MOST = "Most"


def add_parameter(template: Template, groups: Mapping[str, tuple[Machine, ...]]) -> None:
    """The parameter, and the size of each group by it; `groups` has machines by their group's logical ID."""
    what = "Which machines of groups there are"
    template.add_parameter(
        Parameter(
            PARAMETER,
            Type="String",
            Default=ALL,
            AllowedValues=[ALL, SERVERS, NONE],
            Description=f"{what}; gridwright stop and start set it",
        )
    )
    template.add_output(Output(PARAMETER, Description=what, Value=Ref(PARAMETER)))
    if groups:
        template.add_mapping(
            _SIZES, {running: dict(_sizes(groups, running)) for running in (ALL, SERVERS, NONE)}
        )


def _sizes(groups: Mapping[str, tuple[Machine, ...]], running: str) -> Iterator[tuple[str, str]]:
    for title, machines in groups.items():
        there = running == ALL or (running == SERVERS and machines[0].role.serves_lustre)
        yield title, str(sum(not each.powered for each in machines) if there else 0)
        if any(each.powered for each in machines):
            yield f"{title}{_MOST}", str(len(machines) if there else 0)


def most_of(title: str) -> Any:  # noqa: ANN401 - a function of CloudFormation
    """The most machines of a group whose nodes are powered on and off: none while the grid is stopped."""
    return FindInMap(_SIZES, Ref(PARAMETER), f"{title}{_MOST}")


def size_of(title: str) -> Any:  # noqa: ANN401 - a function of CloudFormation
    """The size of a group: all that is always on, or nothing while the grid is stopped."""
    return FindInMap(_SIZES, Ref(PARAMETER), title)
