"""A Lustre on own servers on OCI: what is rendered fits together, and what cannot be built is told."""

from __future__ import annotations

import io
import json
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from gridwright.errors import GridwrightError
from gridwright.model.grid import check_against_catalogue
from gridwright.providers.oci.files import oci_files
from gridwright.providers.oci.layout import OciRole, oci_layout
from gridwright.spec import all_findings, parse_spec
from gridwright.spec.load import load_spec
from gridwright.spec.model import GridSpec
from tests.support.oci_schema.check import problems

EXAMPLE = Path(__file__).parents[4] / "examples" / "oci-lustre.yaml"
IMAGE = "ocid1.image.oc1.iad.aaaaaaaaservers"
OST = "disks: {type: balanced, count: 32, size: 1 TiB}"
MDT = "disks: {type: higher-performance, count: 2, size: 1 TiB}"
MDS = f"    mds: {{instance: VM.Standard.E5.Flex(8), count: 2, {MDT}}}\n"
GRID = f"""\
name: demo
provider: oci
region: us-ashburn-1
oci:
  compartment: ocid1.compartment.oc1..aaaaaaaaexample
  ssh_from: [203.0.113.0/24]
  ssh_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleKey admin
  server_image: {IMAGE}
nodes:
  compute: {{instance: VM.Standard.E5.Flex(8), count: 3}}
filesystems:
  shared:
    type: lustre
    path: /shared
    oss: {{instance: BM.Optimized3.36, count: 3, disks: {{type: balanced, count: 32, size: 1 TiB}}}}
{MDS}libraries: {{data: {{}}}}
scheduler: {{type: slurm}}
"""
OWN_MGS = GRID.replace(
    "    mds:",
    "    mgs: {instance: VM.Standard.E5.Flex(2), disks: {type: balanced, size: 100 GiB}}\n    mds:",
)


def spec_of(text: str = GRID) -> GridSpec:
    return parse_spec(text, base=Path("/base"))


def roots(spec: GridSpec) -> dict[str, dict[str, Any]]:
    files, *_ = oci_files(spec)
    return {part: json.loads(files[f"{part}/main.tf.json"]) for part in ("storage", "grid")}


def variables(spec: GridSpec, part: str = "") -> dict[str, Any]:
    """group_vars/all.yml of what is rendered, or of a bundle."""
    files = oci_files(spec)[0]
    text: Any = files["group_vars/all.yml"] if not part else bundle(files, part)["group_vars/all.yml"]
    found: dict[str, Any] = YAML(typ="safe").load(text)
    return found


def bundle(files: Any, part: str) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(files[f"grid/bundle-{part}.tar.gz"]), mode="r:gz") as archive:
        return {each.name: (archive.extractfile(each) or io.BytesIO()).read() for each in archive}


@pytest.mark.parametrize("text", ["example", GRID, OWN_MGS])
def test_the_provider_takes_every_argument(text: str) -> None:
    spec = load_spec(EXAMPLE) if text == "example" else spec_of(text)
    for root in roots(spec).values():
        assert list(problems(root)) == []
    assert oci_files(spec)[0] == oci_files(spec)[0]


@pytest.mark.parametrize("text", [GRID, OWN_MGS])
def test_each_target_is_on_the_volume_that_its_server_attaches(text: str) -> None:
    """What a server is told and what Terraform attaches come together at the device."""
    spec = spec_of(text)
    parts = roots(spec)
    attached = parts["grid"]["resource"]["oci_core_volume_attachment"].values()
    assert {each["is_shareable"] for each in attached} == {False}
    assert set(Counter(each["volume_id"] for each in attached).values()) == {1}
    places = {(each["instance_id"], each["device"]) for each in attached}
    assert len(places) == len(attached)
    assert max(Counter(instance for instance, _ in places).values()) == 32
    told = variables(spec)["gridwright_lustre_targets"]
    names = [one["name"] for server in told.values() for one in server["targets"]]
    assert len(names) == len(set(names)) == len(attached)
    assert places == {
        (f"${{oci_core_instance.{name}.id}}", one["device"])
        for name, server in told.items()
        for one in server["targets"]
    }
    assert sorted(each for each in names if "OST" in each) == [f"shared-OST{n:04x}" for n in range(96)]
    assert sorted(each for each in names if "MDT" in each) == [f"shared-MDT{n:04x}" for n in range(4)]
    volumes = parts["storage"]["resource"]["oci_core_volume"].values()
    assert all(each["lifecycle"] == {"prevent_destroy": True} for each in volumes)


@pytest.mark.parametrize(("text", "server"), [(GRID, "shared-mds1"), (OWN_MGS, "shared-mgs1")])
def test_all_register_with_the_one_management_server_and_clients_mount_from_it(
    text: str, server: str
) -> None:
    spec = spec_of(text)
    told = variables(spec)["gridwright_lustre_targets"]
    having = [
        name
        for name, each in told.items()
        for one in each["targets"]
        if one["with_mgt"] or one["kind"] == "mgt"
    ]
    assert having == [server]
    nid = f"{oci_layout(spec).addresses[server]}@tcp"
    assert {each["mgs"] for each in told.values()} == {nid}
    (mount,) = variables(spec, "nodes")["gridwright_mounts"]
    assert mount["source"] == f"{nid}:/shared"
    # A server of two cards is reached by the second one, which is not the way to its volumes.
    layout = oci_layout(spec)
    for each in layout.of_role(OciRole.OSS):
        assert told[each.name]["address"] == str(each.second_address)
        assert each.subnet == "storage"


def test_ports_are_let_in_between_clients_and_servers_and_from_nowhere_else() -> None:
    rules = roots(spec_of())["storage"]["resource"]["oci_core_network_security_group_security_rule"]
    inwards = [
        (name, each)
        for name, each in rules.items()
        if each["direction"] == "INGRESS"
        and each.get("tcp_options", [{}])[0].get("destination_port_range", [{}])[0].get("min") == 988
    ]
    assert {each["source_type"] for _, each in inwards} == {"NETWORK_SECURITY_GROUP"}
    found = {name.rpartition("-")[0] for name, _ in inwards}
    pairs = [("servers", "servers")]
    pairs += [
        pair for each in ("nodes", "head", "bastion") for pair in (("servers", each), (each, "servers"))
    ]
    assert found == {f"{group}-from-{source}" for group, source in pairs}


def test_servers_alone_may_write_down_what_became_of_volumes() -> None:
    (policy,) = roots(spec_of())["grid"]["resource"]["oci_identity_policy"].values()
    having = [each for each in policy["statements"] if "'targets/*'" in each]
    assert len(having) == 2
    assert all("oci_identity_dynamic_group.servers.name" in each for each in having)
    (writes,) = (each for each in having if " manage objects " in each)
    assert "OBJECT_DELETE" not in writes
    assert "request.permission = 'OBJECT_OVERWRITE'" in writes


def test_servers_and_nodes_have_what_is_theirs() -> None:
    spec = spec_of()
    files = oci_files(spec)[0]
    servers, nodes = bundle(files, "servers"), bundle(files, "nodes")
    of_servers = {
        "roles/lustre_server/tasks/main.yml",
        "roles/lustre_targets/tasks/main.yml",
        "roles/lustre_targets/files/targets.pyz",
        "roles/lustre_targets/files/gridwright-targets.service",
    }
    assert of_servers <= set(servers)
    assert not of_servers & set(nodes)
    own, theirs = variables(spec, "servers"), variables(spec, "nodes")
    assert own["lustre_server_targets_role"] == "lustre_targets"
    layout = oci_layout(spec)
    kept = " ".join(f"{layout.addresses[each]}@tcp" for each in ("login1", "controller"))
    assert own["lustre_server_root_squash"] == [
        {"fsname": "shared", "root_squash": "65534:65534", "nosquash_nids": kept}
    ]
    assert not [each for each in theirs if each.startswith("lustre_server_") or "targets" in each]
    # Nodes know that servers are no clients; servers do that they serve.
    assert own["gridwright_lustre_servers"] is theirs["gridwright_lustre_servers"] is True


def test_servers_alone_start_from_their_image() -> None:
    instances = roots(spec_of())["grid"]["resource"]["oci_core_instance"]
    of_servers = {name for name, each in instances.items() if each["source_details"][0]["source_id"] == IMAGE}
    assert of_servers == {name for name in instances if name.startswith("shared-")}
    for name, each in instances.items():
        assert ("lifecycle" in each) is (name not in of_servers), "a platform image may become newer"
    every = spec_of(GRID.replace("server_image", "image"))
    found = roots(every)["grid"]["resource"]["oci_core_instance"].values()
    assert {each["source_details"][0]["source_id"] for each in found} == {IMAGE}
    bare = spec_of(GRID.replace(f"  server_image: {IMAGE}\n", ""))
    assert "no-server-image" in [each.name for each in all_findings(bare)]
    assert "no-server-image" not in [each.name for each in all_findings(spec_of())]


@pytest.mark.parametrize(
    ("old", "new", "what", "remedy"),
    [
        (OST, OST.replace("32", "33"), "an instance attaches 32 volumes at most, and each OSS", "Write 32"),
        (MDS, "", "has no metadata server, and cannot be built", "Add mds: {instance: VM.Standard.E5"),
        (f", {OST}", "", "the OSS has no disks, and cannot be built", "Add disks: {type: balanced, count: 8"),
        (OST, "disks: {type: instance-store}", "a server's targets must outlive it", "such as balanced"),
        ("instance: BM.Optimized3.36", "instance: BM.Optimised3.36", "BM.Optimised3.36", "BM.Optimized3.36"),
        ("server_image", "server_imag", "server_imag", "server_image"),
        (
            "instance: VM.Standard.E5.Flex(8), count: 2", "instance: VM.Standard.A1.Flex(8), count: 2",
            "one image starts machines of one kind of processor, and the grid has two", "Remove server_image",
        ),
        ("size: 1 TiB}}", "size: 40 TiB}}", "40 TiB", "32 TiB"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_refused_with_the_nearest_right_value(
    old: str, new: str, what: str, remedy: str
) -> None:
    text = GRID.replace(old, new, 1)
    assert text != GRID
    with pytest.raises(GridwrightError) as error:
        check_against_catalogue(spec_of(text))
    assert what in str(error.value)
    assert remedy in str(error.value)
    if "imag" not in old:
        with pytest.raises(GridwrightError) as again:
            oci_files(spec_of(text))
        assert str(again.value).count(what) == str(error.value).count(what), "told once"


def test_two_management_servers_and_two_names_that_are_one_are_refused() -> None:
    two = OWN_MGS.replace("instance: VM.Standard.E5.Flex(2)", "instance: VM.Standard.E5.Flex(2), count: 2")
    with pytest.raises(GridwrightError, match="a Lustre has one management server"):
        check_against_catalogue(spec_of(two))
    body = GRID.partition("  shared:\n")[2].partition("libraries")[0]
    same = GRID.replace("  shared:\n", "  scratchspace1:\n").replace(
        "libraries:", f"  scratchspace2:\n{body}libraries:".replace("path: /shared", "path: /other")
    )
    same = same.replace("data: {}", "data: {filesystem: scratchspace1}")
    with pytest.raises(GridwrightError, match="it would be called scratchs, like scratchspace1"):
        check_against_catalogue(spec_of(same))


def test_a_grid_that_is_only_predicted_may_lack_what_is_built() -> None:
    head, _, rest = GRID.partition("oci:\n")
    text = head + "nodes:" + rest.partition("nodes:")[2].replace(MDS, "")
    check_against_catalogue(spec_of(text))


def test_volumes_that_pass_less_than_the_card_are_told_with_the_number_that_is_enough() -> None:
    few = GRID.replace(OST, OST.replace("32", "4"))
    (found,) = (each for each in all_findings(spec_of(few)) if each.name == "volumes-below-card")
    assert "each server of shared has 4 volumes that pass 1.92 GB/s together" in found.text
    assert "Write count: 14" in (found.remedy or "")
    enough = GRID.replace(OST, OST.replace("32", "14"))
    assert "volumes-below-card" not in [each.name for each in all_findings(spec_of(enough))]


@pytest.mark.parametrize("scheduler", ["slurm", "local"])
def test_storage_tells_what_the_grid_takes_and_no_more(scheduler: str) -> None:
    """A value for a variable that is not declared is a warning of Terraform."""
    one_card = GRID.replace("BM.Optimized3.36", "VM.Optimized3.Flex(8)").replace("slurm", scheduler)
    parts = roots(spec_of(one_card))
    taken = set(parts["grid"]["variable"]) - {"tenancy_ocid"}
    assert set(parts["storage"]["output"]) == taken
    said = json.dumps({name: each for name, each in parts["grid"].items() if name != "variable"})
    assert not [each for each in taken if f"var.{each}" not in said]
    assert ("head_group" in taken) is (scheduler == "slurm")
