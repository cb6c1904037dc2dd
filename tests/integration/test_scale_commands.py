"""Spectrum Scale by the real command: what each rule refuses, and what its remedy makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import Command

RIGHT = """\
provider: oci
region: us-ashburn-1
oci:
  compartment: ocid1.compartment.oc1..aaaaaaaaexamplecompartment
  ssh_from: [203.0.113.0/24]
  ssh_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleKeyThatOpensNothing00000000000 admin@example.com
nodes: {compute: {instance: VM.DenseIO2.24, count: 5}}
filesystems:
  lake:
    type: scale
    path: /gpfs/fs1
    nsd: {instance: BM.Standard2.52, count: 4, disks: {type: balanced, count: 11, size: 800 GiB}}
    replicas: 1
    block_size: 2 MiB
    pagepool: {servers: 0.1667}
libraries: {data: {filesystem: lake, requires: 100 MB/s/core}}
scheduler: {type: slurm}
"""
RULES: list[tuple[str, dict[str, str], str, str, dict[str, str]]] = [
    ("1 and 2: pairs", {"count: 4": "count: 3"}, "3 NSD servers are no pairs", "Write 4", {}),
    (
        "3: groups of copies",
        {"replicas: 1": "replicas: 2", "count: 4": "count: 2"},
        "two copies need two pairs",
        "Write replicas: 1",
        {"replicas: 2": "replicas: 1"},
    ),
    ("4: block size", {"2 MiB": "3 MiB"}, "3 MiB is no block size", "Write 4 MiB", {"3 MiB": "4 MiB"}),
    ("5: page pool", {"0.1667": "0.8"}, "a page pool of 0.8", "Write 0.5", {"0.8": "0.5"}),
    (
        "8: volumes of a server",
        {"count: 11": "count: 17"},
        "2 x 17, and 32 are the most",
        "Write 16",
        {"count: 17": "count: 16"},
    ),
    (
        "8: volumes of all pools",
        {"    replicas: 1\n": "    pools: {cold: {disks: {type: lower-cost, count: 6, size: 4 TiB}}}\n"},
        "2 x (11 + 6), and 32 are the most",
        "Write count: 5",
        {"count: 6": "count: 5"},
    ),
    (
        "pools: data have a place",
        {"replicas: 1": "metadata_only: true"},
        "no pool has room for data",
        "Add pools: {data:",
        {"only: true": "only: true\n    pools: {data: {disks: {type: balanced, size: 1 TiB}}}"},
    ),
    (
        "pools: new files have one that is there",
        {"replicas: 1": "pools: {cold: {disks: {type: lower-cost, size: 4 TiB}}}\n    default_pool: clod"},
        'there is no pool "clod"',
        "Write cold",
        {"default_pool: clod": "default_pool: cold"},
    ),
    ("9: volumes stay", {"balanced": "instance-store"}, "are lost with it", "such as balanced", {}),
]
"""What breaks a rule, what is said, and what the remedy is; where it is not the other way round, how."""


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


def changed(text: str, replacements: dict[str, str]) -> str:
    for old, new in replacements.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def test_each_rule_that_a_spec_can_break_is_refused_and_its_remedy_is_right(
    command: Command, tmp_path: Path
) -> None:
    spec = tmp_path / "grid.yaml"
    for rule, wrong, problem, remedy, mended in RULES:
        text = changed(RIGHT, wrong)
        spec.write_text(text)
        refused = command("check", spec)
        assert (refused.status, refused.out) == (2, ""), rule
        assert problem in refused.text, rule
        assert remedy in refused.text, rule
        assert "filesystems.lake" in refused.text, rule
        # What it says to write is taken.
        spec.write_text(changed(text, mended or {new: old for old, new in wrong.items()}))
        assert command("check", spec).status == 0, rule


def test_what_no_spec_can_break_is_in_what_is_rendered(command: Command, tmp_path: Path) -> None:
    """Rules 6 and 7: maxMBpS is twice the network of a node, and no name of an NSD is one below /dev."""
    spec = tmp_path / "grid.yaml"
    spec.write_text(RIGHT)
    assert command("render", spec, "--out", tmp_path / "out").status == 0
    cluster = json.loads((tmp_path / "out/clusters/lake.json").read_text())
    rates = {
        each["node_class"]: each["value"] for each in cluster["settings"] if each["parameter"] == "maxMBpS"
    }
    servers = next(each["nic_bytes_per_s"] for each in cluster["nodes"] if each["is_server"])
    assert int(rates["gridServers"]) == round(2 * servers / 1e6)
    assert len({each["name"] for each in cluster["nsds"]}) == 44
    assert not any(each["device"].rpartition("/")[2] in each["name"] for each in cluster["nsds"])
    assert all(len(each["servers"]) == 2 for each in cluster["nsds"])


def test_a_sites_own_servers_are_checked_and_rendered(command: Command, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples/site-scale.yaml"
    assert command("check", example).status == 0
    assert command("render", example, "--out", tmp_path / "out").status == 0
    inventory = (tmp_path / "out/inventory.yml").read_text()
    storage = inventory.partition("storage:")[2].partition("head:")[0].split()
    assert [each.rstrip(":") for each in storage[1:]] == ["nsd1", "nsd2", "nsd3", "nsd4", "tie1"]


def test_what_a_site_s_own_disks_deliver_is_said_to_be_unknown(gridwright: Command) -> None:
    """And of no other cluster, since there is none."""
    example = Path(__file__).parents[2] / "examples" / "site-scale.yaml"
    refused = gridwright("predict", example)
    assert refused.status == 2
    assert "its servers and disks are the site's own" in refused.text
    assert "another cluster" not in refused.text
    assert "--calibrate" in refused.text
