"""What `gridwright up` prints: one printer for the result of each provider."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from gridwright.cli.build.cloud_show import bill_lines, bill_values, field_values, resource_values
from gridwright.providers.aws.results import AwsUp
from gridwright.providers.lab.up import UpResult
from gridwright.schedulers.slurm.node_facts import fold


@singledispatch
def document(result: object) -> dict[str, Any]:
    """The one document of --json."""
    raise NotImplementedError(type(result))


@singledispatch
def lines(result: object, file: str) -> Iterator[str]:
    """What is printed without --json."""
    raise NotImplementedError(type(result))


@document.register
def _(result: UpResult) -> dict[str, Any]:
    return {
        "schema": 1,
        "command": "up",
        "lab": result.record.lab,
        "made": result.made,
        "mended": list(result.repaired),
        "seconds": result.seconds,
        "network": result.record.network,
        "nodes": [
            {"name": node.plan.name, "role": node.plan.role, "address": node.plan.address}
            for node in result.record.nodes
        ],
    }


@lines.register
def _(result: UpResult, _file: str) -> Iterator[str]:
    count = len(result.record.nodes)
    if result.made:
        yield f"lab {result.record.lab} is up: {count} nodes in {result.seconds:.1f} s"
        return
    yield f"lab {result.record.lab} was up already: {count} nodes"
    for each in result.repaired:
        yield f"mended: {each}"


@document.register
def _(result: AwsUp) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "schema": 1,
        "command": "up",
        "grid": result.grid,
        "region": result.region,
        "made": result.made,
        "changed": result.changed,
        "fields": [field_values(each) for each in result.fields],
        "changes": [resource_values(each) for each in result.resources],
        "machines": [asdict(each) for each in result.machines],
        "costs": bill_values(result.costs),
        "kept": list(result.kept),
        "seconds": result.seconds,
    }


@lines.register
def _(result: AwsUp, file: str) -> Iterator[str]:
    if result.made:
        yield f"grid {result.grid} is up in {result.region}, after {result.seconds / 60:.1f} min"
    elif result.changed:
        yield f"grid {result.grid} is changed, after {result.seconds / 60:.1f} min"
    else:
        yield f"grid {result.grid} is up already, as the spec has it: nothing is changed"
    missing = [each.name for each in result.machines if each.state == "missing"]
    if missing:
        yield f"not there yet: {fold(missing)}"
    for each in result.kept:
        yield f"kept, and billed: {each}"
    yield from bill_lines(result.costs)
    yield "Next:"
    yield from _next(result, file)


def _next(result: AwsUp, file: str) -> Iterator[str]:
    login = next((each for each in result.machines if each.role == "login"), None)
    if login is not None and login.instance is not None:
        address = login.public_address or login.address
        if result.user is not None:
            yield f"  ssh {result.user}@{address}"
        yield f"  aws ssm start-session --region {result.region} --target {login.instance}"
    spec = f" {file}" if file else ""
    yield f"  gridwright status{spec}"
    yield f"  gridwright down{spec}"
