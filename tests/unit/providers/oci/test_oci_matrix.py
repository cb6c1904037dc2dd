"""Grids on OCI in which every two values of fields meet: what each of them renders to holds together.

Roots are JSON, which `tofu fmt` does not format: they are held to one form of it here.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.oci.files import COSTS, ROOT_FILE, oci_files
from gridwright.providers.oci.layout import GRID, STORAGE, oci_layout
from gridwright.providers.oci.preflight import made_kinds, made_needs
from gridwright.spec import all_findings, parse_spec
from gridwright.spec.model import GridSpec
from tests.support.oci_matrix import FIELDS, can_be, matrix, rows
from tests.support.oci_schema.check import problems
from tests.support.oci_schema.models import judge
from tests.support.pairwise import missing

MATRIX = matrix()
OCI_PAGE = Path(__file__).parents[4] / "docs" / "oci.md"
FINDINGS = {
    *("no-requirement", "volumes-below-card", "billed-for-30-days", "link-copies-only"),
    *("no-server-image", "no-client-packages", "no-scheduler"),
}
"""All that is told of these specs: none of it keeps a grid from being made."""
_REFERENCE = re.compile(r"\b(?:data\.)?[a-z][a-z0-9]*(?:_[a-z0-9]+)*\.[A-Za-z_][A-Za-z0-9_-]*")


def spec_of(name: str) -> GridSpec:
    return parse_spec(json.dumps(MATRIX[name]))


@cache
def files_of(name: str) -> Mapping[str, str | bytes]:
    return oci_files(spec_of(name))[0]


def root_of(name: str, part: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files_of(name)[f"{part}/{ROOT_FILE}"])
    return found


def digest(name: str) -> str:
    """Of all files with their names."""
    whole = hashlib.sha256()
    for path, content in sorted(files_of(name).items()):
        data = content if isinstance(content, bytes) else content.encode()
        whole.update(f"{path}\0{len(data)}\0".encode() + data)
    return whole.hexdigest()


def expressions(content: object) -> Iterator[str]:
    """All of what Terraform evaluates."""
    if isinstance(content, Mapping):
        for value in content.values():
            yield from expressions(value)
    elif isinstance(content, list):
        for value in content:
            yield from expressions(value)
    elif isinstance(content, str):
        yield from re.findall(r"(?<!\$)\$\{([^}]*)\}?", content)


def test_every_two_values_meet_that_can() -> None:
    # docs/oci.md says how many there are.
    assert len(MATRIX) == len(rows()) >= 25
    assert f"examples and {len(rows())} more specs" in OCI_PAGE.read_text()
    assert missing(FIELDS, can_be, rows()) == []
    assert missing(FIELDS, can_be, rows()[:-1]) != []


@pytest.mark.few(12)
@pytest.mark.parametrize("name", MATRIX)
def test_it_is_checked_and_rendered_as_the_provider_takes_it(name: str) -> None:
    assert {each.name for each in all_findings(spec_of(name))} <= FINDINGS
    for part in (STORAGE, GRID):
        root = root_of(name, part)
        assert list(problems(root)) == []
        assert judge(root).problems == []
        text = files_of(name)[f"{part}/{ROOT_FILE}"]
        assert text == json.dumps(root, indent=2, sort_keys=True) + "\n"
    costs = json.loads(files_of(name)[COSTS])
    assert costs["usd_per_hour"] > 0


def dangling(root: Mapping[str, Any]) -> set[str]:
    """What expressions of a root name and it does not have."""
    there = {
        f"{prefix}{kind}.{called}"
        for prefix, part in (("", "resource"), ("data.", "data"))
        for kind, named in root.get(part, {}).items()
        for called in named
    } | {f"var.{each}" for each in root.get("variable", {})}
    named = {
        found for each in expressions(root) for found in _REFERENCE.findall(re.sub(r'"[^"]*"', "", each))
    }
    return {each for each in named if each.startswith(("data.", "var.", "oci_"))} - there


@pytest.mark.few(12)
@pytest.mark.parametrize("name", MATRIX)
def test_its_roots_hold_together(name: str) -> None:
    """Everything that an expression names is there, and the grid takes what storage puts out."""
    storage, grid = root_of(name, STORAGE), root_of(name, GRID)
    assert dangling(storage) == dangling(grid) == set()
    assert grid["variable"].keys() == {*storage["output"], "tenancy_ocid"}
    # Whatever is taken out and was named is missed.
    del storage["resource"]["oci_core_network_security_group"]["nodes"]
    del storage["data"]["oci_identity_availability_domains"]["all"]
    assert dangling(storage) == {
        "oci_core_network_security_group.nodes",
        "data.oci_identity_availability_domains.all",
    }
    del grid["variable"]["fs_subnet"]
    assert dangling(grid) == {"var.fs_subnet"}


@pytest.mark.few(12)
@pytest.mark.parametrize("name", MATRIX)
def test_its_machines_have_addresses_and_devices_of_their_own(name: str) -> None:
    layout = oci_layout(spec_of(name))
    addresses = [each.address for each in layout.machines]
    addresses += [each.second_address for each in layout.machines if each.second_address is not None]
    assert len(set(addresses)) == len(addresses)
    for machine in layout.machines:
        assert machine.address in layout.subnets[machine.subnet]
        devices = [each.device for each in layout.volumes_of(machine.name)]
        assert len(set(devices)) == len(devices) <= 32
    for one, other in itertools.combinations(layout.subnets.values(), 2):
        assert not one.overlaps(other)


@pytest.mark.thorough
def test_another_process_renders_the_same_bytes(pytestconfig: pytest.Config) -> None:
    """With another order of sets."""
    some = list(MATRIX)[:: 1 if pytestconfig.getoption("--thorough") else 3]
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-m", __name__, *some],
        env=os.environ | {"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert json.loads(done.stdout) == {name: digest(name) for name in some}


def test_what_is_looked_at_before_is_what_roots_make() -> None:
    """Numbers of `up --check` are those of the roots; groups of machines are listed once, however many."""
    kinds = made_kinds()
    seen: set[str] = set()
    for name in MATRIX:
        made: Counter[str] = Counter()
        for part in (STORAGE, GRID):
            made.update({kind: len(each) for kind, each in root_of(name, part)["resource"].items()})
        made["oci_identity_dynamic_group"] = min(made["oci_identity_dynamic_group"], 1)
        spec = spec_of(name)
        needed: Counter[str] = Counter()
        for each in made_needs(spec, oci_layout(spec)):
            needed[each.kind.type] += each.count
        assert needed == {kind: made[kind] for kind in kinds if made[kind]}, name
        seen |= set(needed)
    assert seen == set(kinds)
    for kind in kinds.values():
        client = getattr(importlib.import_module(f"oci.{kind.service}"), kind.client)
        assert hasattr(client, kind.operation)
        assert kind.source and date.fromisoformat(kind.date)


if __name__ == "__main__":
    sys.stdout.write(json.dumps({name: digest(name) for name in sys.argv[1:]}))
