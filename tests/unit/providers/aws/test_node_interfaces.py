"""Interfaces of many nodes: nested stacks, since one has room for 500 resources."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.aws import launching
from gridwright.providers.aws.changes import deployment
from gridwright.providers.aws.files import aws_files
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.stacks import parsed
from gridwright.spec import parse_spec
from gridwright.spec.model import GridSpec

FSX = (Path(__file__).parents[4] / "examples" / "aws-fsx.yaml").read_text()


@pytest.fixture(autouse=True)
def small_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stacks with less room, so that few nodes are many."""
    monkeypatch.setattr(launching, "MOST_IN_GRID_STACK", 4)
    monkeypatch.setattr(launching, "MOST_IN_NESTED_STACK", 3)


def grid(count: int) -> GridSpec:
    return parse_spec(FSX.replace("count: 4}", f"count: {count}}}"))


def interfaces(template: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Slot and address of each interface that is there to be claimed."""
    for each in template["Resources"].values():
        if each["Type"] == "AWS::EC2::NetworkInterface":
            marks = {tag["Key"]: tag["Value"] for tag in each["Properties"]["Tags"]}
            yield marks["gridwright:slot"], each["Properties"]["PrivateIpAddress"]


def nested_stacks(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        name: each["Properties"]
        for name, each in template["Resources"].items()
        if each["Type"] == "AWS::CloudFormation::Stack"
    }


def test_as_many_as_have_room_are_in_the_grid_stack() -> None:
    files = aws_files(grid(4))[0]
    template = parsed(str(files["grid.template.yaml"]))
    assert nested_stacks(template) == {}
    assert {"compute1", "compute4"} <= {slot for slot, _ in interfaces(template)}
    assert [name for name in files if name.startswith("interfaces-")] == []


def test_more_are_in_nested_stacks_each_node_once() -> None:
    spec = grid(8)
    files = aws_files(spec)[0]
    template = parsed(str(files["grid.template.yaml"]))
    names = [f"interfaces-{number}.template.yaml" for number in (1, 2, 3)]
    parts = [list(interfaces(parsed(str(files[name])))) for name in names]
    layout = aws_layout(spec)
    assert [len(part) for part in parts] == [3, 3, 2]
    assert [each for part in parts for each in part] == [
        (f"compute{number}", layout.addresses[f"compute{number}"]) for number in range(1, 9)
    ]
    stacks = nested_stacks(template)
    assert list(stacks) == ["Interfaces1", "Interfaces2", "Interfaces3"]
    assert set(stacks) <= set(template["Resources"]["ComputeNodes"]["DependsOn"])


def test_what_up_and_the_read_me_put_into_the_bucket_is_what_the_template_names() -> None:
    spec = grid(8)
    files = aws_files(spec)[0]
    wanted = deployment(spec).nested
    urls = [
        properties["TemplateURL"]["Fn::Sub"][0]
        for properties in nested_stacks(parsed(str(files["grid.template.yaml"]))).values()
    ]
    assert len(wanted) == 3
    for key, url, number in zip(wanted, urls, (1, 2, 3), strict=True):
        name = f"interfaces-{number}.template.yaml"
        assert wanted[key] == files[name]
        assert key == f"templates/{hashlib.sha256(wanted[key].encode()).hexdigest()}.yaml"
        assert url.endswith(f"/{key}")
        assert f'{name} "s3://$BUCKET/{key}"' in str(files["README.md"])
