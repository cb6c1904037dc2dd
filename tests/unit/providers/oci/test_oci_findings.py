"""Findings about grids on OCI: volumes that pass less than the card of their server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gridwright.errors import Finding
from gridwright.providers.oci.provider import oci_findings
from gridwright.spec import parse_spec
from gridwright.spec.findings import KNOWN, unsilenced
from gridwright.spec.model import GridSpec

TEXT = (Path(__file__).parents[4] / "examples" / "papers" / "003-spectrum-scale.yaml").read_text()


def findings(spec: GridSpec) -> list[Finding]:
    """Without what the paper's spec silences."""
    return unsilenced(list(oci_findings(spec)), spec.silence)


def with_disks(disks: str, instance: str = "BM.Standard2.52") -> GridSpec:
    text, changed = re.subn(
        r"nsd: \{.*\}\}", f"nsd: {{instance: {instance}, count: 4, disks: {{{disks}}}}}", TEXT
    )
    assert changed == 1
    return parse_spec(text, base=Path("/base"))


@pytest.mark.parametrize(
    ("disks", "instance"),
    [
        ("type: balanced, count: 11, size: 800 GiB", "BM.Standard2.52"),
        # 7 x 480 MB/s are more than a card of 25 Gbit/s.
        ("type: balanced, count: 7, size: 1 TiB", "BM.Standard2.52"),
        # One card: volumes and clients share it, which the model reckons with.
        ("type: balanced, count: 2, size: 1 TiB", "VM.Optimized3.Flex(8)"),
    ],
)
def test_volumes_that_fill_the_card_are_no_finding(disks: str, instance: str) -> None:
    assert findings(with_disks(disks, instance)) == []


@pytest.mark.parametrize(
    ("disks", "remedy"),
    [
        ("type: balanced, count: 6, size: 1 TiB", "Write count: 7 under its disks"),
        ("type: lower-cost, count: 16, size: 100 GiB", "Take larger volumes or a faster type"),
    ],
)
def test_volumes_that_leave_the_card_idle_are_told_with_figures(disks: str, remedy: str) -> None:
    (found,) = findings(with_disks(disks))
    assert found.name in KNOWN
    assert "3.13 GB/s" in found.text or "3.12 GB/s" in found.text
    assert found.remedy.startswith(remedy)


def test_the_count_that_is_advised_is_the_least_that_is_enough() -> None:
    (found,) = findings(with_disks("type: higher-performance, count: 2, size: 500 GiB"))
    number = re.search(r"count: ([0-9]+)", found.remedy)
    assert number is not None
    for count, told in ((int(number[1]), 0), (int(number[1]) - 1, 1)):
        spec = with_disks(f"type: higher-performance, count: {count}, size: 500 GiB")
        assert len(findings(spec)) == told


@pytest.mark.parametrize(
    ("scheduler", "distribution", "names"),
    [
        ("slurm", "", []),
        ("local", "", ["no-scheduler"]),
        ("lsf", "", ["no-scheduler"]),
        ("slurm", "distribution: rocky-9", []),
        # EPEL 8 has a Slurm that is too old.
        ("slurm", "distribution: rocky-8", ["no-scheduler-repository"]),
        ("local", "distribution: rocky-8", ["no-scheduler"]),
    ],
)
def test_nodes_that_get_no_jobs_are_told(scheduler: str, distribution: str, names: list[str]) -> None:
    image = f"  {distribution}\n  image: ocid1.image.oc1.iad.aaaa\n" if distribution else ""
    text = TEXT.replace("  ssh_from:", f"{image}  ssh_from:", 1) + f"\nscheduler: {{type: {scheduler}}}\n"
    assert [each.name for each in oci_findings(parse_spec(text, base=Path("/base")))] == names
