"""What is rendered for a grid on OCI: the provider takes every argument, and rules of OCI hold."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import GridwrightError
from gridwright.providers.oci.files import oci_files
from gridwright.providers.oci.layout import OciRole, oci_layout
from gridwright.providers.oci.provider import oci_findings
from gridwright.providers.oci.up import is_of
from gridwright.spec import parse_spec
from gridwright.spec.load import load_spec
from gridwright.spec.model import GridSpec
from tests.support.oci_schema.check import problems
from tests.support.oci_schema.models import judge

EXAMPLES = Path(__file__).parents[4] / "examples"
SPECS = ("oci-scale.yaml", "papers/003-spectrum-scale.yaml")
OCI = """\
  compartment: ocid1.compartment.oc1..aaaaaaaaexample
  ssh_from: [203.0.113.0/24]
  ssh_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleKey admin
"""
GRID = f"""\
provider: oci
region: us-ashburn-1
oci:
{OCI}nodes:
  compute: {{instance: VM.Standard.E5.Flex(8), count: 3}}
filesystems:
  lake:
    type: scale
    path: /gpfs/lake
    nsd: {{instance: BM.Optimized3.36, count: 4, disks: {{type: balanced, count: 16, size: 1 TiB}}}}
libraries: {{data: {{}}}}
scheduler: {{type: slurm}}
"""

ON_VOLUMES = """\
  scratch: {type: local, path: /scratch, disks: {type: balanced, count: 2, size: 1 TiB}}
libraries: {data: {filesystem: lake}}
"""


def spec_of(text: str = GRID) -> GridSpec:
    return parse_spec(text, base=Path("/base"))


def roots(spec: GridSpec) -> dict[str, dict[str, Any]]:
    files, *_ = oci_files(spec)
    return {part: json.loads(files[f"{part}/main.tf.json"]) for part in ("storage", "grid")}


@pytest.mark.parametrize("name", SPECS)
def test_the_provider_takes_every_argument_of_an_example(name: str) -> None:
    spec = load_spec(EXAMPLES / name)
    for root in roots(spec).values():
        assert list(problems(root)) == []
    assert oci_files(spec)[0] == oci_files(load_spec(EXAMPLES / name))[0]


def test_the_check_of_arguments_finds_what_is_wrong() -> None:
    grid = roots(spec_of())["grid"]
    wrong = copy.deepcopy(grid)
    instance = wrong["resource"]["oci_core_instance"]["compute1"]
    instance["shap"] = instance.pop("shape")
    instance["shape_config"][0]["ocpus"] = "eight"
    attachment = wrong["resource"]["oci_core_volume_attachment"]["lake-nsd1-lake-p1-v01"]
    attachment["is_shareable"] = "yes"
    del attachment["volume_id"]
    wrong["resource"]["oci_core_gateway"] = {"x": {}}
    assert set(problems(wrong)) == {
        "oci_core_instance.compute1 has shap, which nobody takes",
        "oci_core_instance.compute1.shape_config.ocpus is 'eight', and no number",
        "oci_core_volume_attachment.lake-nsd1-lake-p1-v01 lacks volume_id",
        "oci_core_volume_attachment.lake-nsd1-lake-p1-v01.is_shareable is 'yes', and no bool",
        "oci_core_gateway is not known",
    }


@pytest.mark.parametrize("name", SPECS)
def test_both_servers_of_a_pair_reach_all_its_volumes_at_the_same_device(name: str) -> None:
    layout = oci_layout(load_spec(EXAMPLES / name))
    grid = roots(load_spec(EXAMPLES / name))["grid"]["resource"]
    attached = grid["oci_core_volume_attachment"].values()
    by_volume: dict[str, set[tuple[str, str]]] = {}
    for each in attached:
        assert each["is_shareable"] is True
        by_volume.setdefault(each["volume_id"], set()).add((each["instance_id"], each["device"]))
    for places in by_volume.values():
        assert len({instance for instance, _ in places}) == 2
        assert len({device for _, device in places}) == 1
    per_instance = Counter(each["instance_id"] for each in attached)
    assert max(per_instance.values()) <= 32
    devices = Counter((each["instance_id"], each["device"]) for each in attached)
    assert set(devices.values()) == {1}, "two volumes at one device"
    first = Counter(volume.servers[0] for volume in layout.volumes)
    assert len(set(first.values())) == 1, "servers are the first one of as many volumes each"


@pytest.mark.parametrize("name", SPECS)
def test_the_servers_of_a_pair_do_not_fail_together(name: str) -> None:
    layout = oci_layout(load_spec(EXAMPLES / name))
    servers = layout.of_role(OciRole.NSD)
    for pair in {each.pair for each in servers}:
        assert len({each.fault_domain for each in servers if each.pair == pair}) == 2


def test_nodes_in_a_reservation_leave_their_fault_domain_to_it() -> None:
    reservation = "ocid1.capacityreservation.oc1.iad.aaaa"
    text = GRID.replace(OCI, f"{OCI}  capacity_reservation: {reservation}\n")
    machines = roots(spec_of(text))["grid"]["resource"]["oci_core_instance"]
    nodes = {name for name in machines if name.startswith("compute")}
    assert len(nodes) == 3
    for name, each in machines.items():
        assert ("fault_domain" in each) == (name not in nodes)
        assert each.get("capacity_reservation_id") == (reservation if name in nodes else None)


def test_clients_of_another_cluster_reach_each_other_as_nodes_of_one() -> None:
    remote = "remote: {cluster: storage.example.com, contacts: [nsd1.example.com], filesystem: fs1}\n"
    text = re.sub(r"    nsd: .*\n", f"    {remote}", GRID)
    rules = roots(spec_of(text))["storage"]["resource"]["oci_core_network_security_group_security_rule"]
    for one, other in (("nodes", "nodes"), ("nodes", "head"), ("head", "nodes")):
        (ports,) = rules[f"{one}-from-{other}-scaledaemon"]["tcp_options"][0]["destination_port_range"]
        assert ports == {"min": 1191, "max": 1191}
    made = roots(spec_of(text))["grid"]["resource"]
    assert not {"oci_core_volume_attachment", "oci_core_vnic_attachment"} & made.keys()


def test_what_holds_data_is_never_destroyed_and_all_is_found_by_its_tag() -> None:
    parts = roots(spec_of())
    volumes = parts["storage"]["resource"]["oci_core_volume"].values()
    assert len(volumes) == 64
    assert all(each["lifecycle"] == {"prevent_destroy": True} for each in volumes)
    untagged = {
        "oci_core_default_security_list",
        "oci_core_network_security_group_security_rule",
        "oci_core_vnic_attachment",
        "oci_core_volume_attachment",
        "oci_objectstorage_object",
        "oci_objectstorage_preauthrequest",
    }
    for root in parts.values():
        for kind, named in root["resource"].items():
            for each in named.values() if kind not in untagged else ():
                assert each["freeform_tags"]["gridwright-grid"] == "grid"


def test_the_grid_takes_the_outputs_of_storage_and_nothing_else() -> None:
    parts = roots(spec_of())
    # Dynamic groups are made in the tenancy, which Resource Manager tells.
    assert parts["grid"]["variable"].keys() == {*parts["storage"]["output"], "tenancy_ocid"}
    used = set(re.findall(r"var\.([a-z_]+)", json.dumps(parts["grid"])))
    assert used <= parts["grid"]["variable"].keys()


def test_only_the_bastion_is_reached_from_outside_and_by_ssh_alone() -> None:
    rules = roots(spec_of())["storage"]["resource"]["oci_core_network_security_group_security_rule"]
    inwards = [each for each in rules.values() if each["direction"] == "INGRESS"]
    outside = [each for each in inwards if each["source_type"] == "CIDR_BLOCK"]
    assert [(each["source"], each["protocol"]) for each in outside] == [("203.0.113.0/24", "6")]
    assert outside[0]["tcp_options"] == [{"destination_port_range": [{"min": 22, "max": 22}]}]
    assert "bastion" in outside[0]["network_security_group_id"]
    grid = roots(spec_of())["grid"]["resource"]["oci_core_instance"]
    public = [
        name for name, each in grid.items() if each["create_vnic_details"][0]["assign_public_ip"] == "true"
    ]
    assert public == ["login1"]


def test_each_shape_starts_from_an_image_that_it_can_start() -> None:
    text = GRID.replace(OCI, OCI + "  head: VM.Standard.A2.Flex(4)\n")
    grid = roots(spec_of(text))["grid"]
    images = grid["data"]["oci_core_images"]
    for name, each in grid["resource"]["oci_core_instance"].items():
        source = each["source_details"][0]["source_id"]
        image = re.fullmatch(r"\$\{data\.oci_core_images\.([a-z0-9-]+)\.images\[0\]\.id\}", source)
        assert image is not None, name
        assert images[image[1]]["shape"] == each["shape"]
    own = roots(spec_of(text.replace("A2.Flex(4)", "E5.Flex(2)\n  image: ocid1.image.oc1.iad.aaaa")))["grid"]
    assert "oci_core_images" not in own.get("data", {})


def test_servers_with_two_cards_have_volumes_on_one_and_clients_on_the_other() -> None:
    grid = roots(spec_of())["grid"]["resource"]
    for number in range(1, 5):
        first = grid["oci_core_instance"][f"lake-nsd{number}"]["create_vnic_details"][0]
        second = grid["oci_core_vnic_attachment"][f"lake-nsd{number}"]["create_vnic_details"][0]
        assert (first["subnet_id"], second["subnet_id"]) == ("${var.storage_subnet}", "${var.fs_subnet}")
    one_card = GRID.replace("BM.Optimized3.36", "VM.Optimized3.Flex(8)")
    assert "oci_core_vnic_attachment" not in roots(spec_of(one_card))["grid"]["resource"]


def test_the_agent_manages_volumes_of_several_paths_and_nothing_else() -> None:
    plain = roots(spec_of())["grid"]["resource"]["oci_core_instance"]
    for each in plain.values():
        assert each["agent_config"] == [{"is_monitoring_disabled": False, "is_management_disabled": True}]
    ultra = roots(spec_of(GRID.replace("type: balanced", "type: ultra-high-performance-30")))["grid"]
    assert list(problems(ultra)) == []
    assert judge(ultra).problems == []
    for name, each in ultra["resource"]["oci_core_instance"].items():
        (agent,) = each["agent_config"]
        assert agent["is_management_disabled"] == (not name.startswith("lake-nsd"))
        plugins = [{"name": "Block Volume Management", "desired_state": "ENABLED"}]
        assert agent.get("plugins_config", []) == (plugins if name.startswith("lake-nsd") else [])


SERVICES = GRID.replace(
    "libraries: {data: {}}",
    """\
  pool:
    type: oci-lustre
    path: /pool
    name: poolfs
    capacity: 31.2 TB
    throughput: 250 MB/s/TB
    maintenance: sun:03:00
    root_squash: 65534:65534
  homes: {type: oci-file-storage, path: /home/grid, root_squash: "65534:65534"}
libraries: {data: {filesystem: lake}}""",
)


def test_services_of_oci_are_kept_and_mounted_by_what_they_are_given() -> None:
    spec = spec_of(SERVICES)
    parts = roots(spec)
    for root in parts.values():
        assert list(problems(root)) == []
    made = parts["storage"]["resource"]
    (lustre,) = made["oci_lustre_file_storage_lustre_file_system"].values()
    assert (lustre["file_system_name"], lustre["performance_tier"]) == ("poolfs", "MBPS_PER_TB_250")
    assert lustre["lifecycle"] == {"prevent_destroy": True}
    assert made["oci_file_storage_file_system"]["homes"]["lifecycle"] == {"prevent_destroy": True}
    (export,) = made["oci_file_storage_export"].values()
    assert (export["path"], export["export_options"][0]["source"]) == ("/home/grid", "10.30.128.0/17")
    assert parts["storage"]["output"]["sources"]["value"]["pool"].endswith(":/poolfs")
    told = parts["grid"]["resource"]["oci_core_instance"]["compute1"]["metadata"]["gridwright"]
    assert "sources = var.sources" in told
    variables = str(oci_files(spec)[0]["group_vars/all.yml"])
    assert "{{ gridwright_sources['pool'] }}" in variables
    assert parts["storage"]["output"]["sources"]["value"]["homes"].endswith(":/home/grid")
    assert "{{ gridwright_sources['homes'] }}" in variables
    rules = made["oci_core_network_security_group_security_rule"].values()
    ports = {
        options[0]["destination_port_range"][0]["min"]
        for each in rules
        if "services" in each["network_security_group_id"] and each["direction"] == "INGRESS"
        for options in [each.get("tcp_options") or each["udp_options"]]
    }
    assert ports == {111, 988, 1018, 2048}


def test_a_vcn_of_the_site_is_not_changed() -> None:
    ids = ", ".join(f"{name}: ocid1.subnet.oc1.iad.{name}" for name in ("public", "fs", "storage"))
    vcn = (
        "  vcn:\n    id: ocid1.vcn.oc1.iad.aaaa\n    network: 10.8.0.0/16\n    ranges: {}\n"
        f"    subnets: {{{ids}}}\n"
    )
    storage = roots(spec_of(GRID.replace(OCI, OCI + vcn)))["storage"]
    assert not {"oci_core_vcn", "oci_core_subnet", "oci_core_route_table"} & storage["resource"].keys()
    assert storage["output"]["fs_subnet"]["value"] == "ocid1.subnet.oc1.iad.fs"


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("region: us-ashburn-1\n", "", "not in which region"),
        ("203.0.113.0/24", "0.0.0.0/0", "everybody on the Internet"),
        ("ocid1.compartment.oc1..aaaaaaaaexample", "ocid1.vcn.oc1..aaaa", "is not the OCID of a compartment"),
        (OCI, OCI + "  network: 8.8.0.0/16\n", "not a private range"),
        (OCI, OCI + "  subnets: {fs: 10.31.0.0/24}\n", "outside the network"),
        (OCI, OCI + "  subnets: {fs: 10.30.0.0/24, public: 10.30.0.0/25}\n", "has addresses of subnet"),
        (OCI, OCI + "  distribution: rocky-9\n", "no platform image of rocky-9"),
        (OCI, OCI + "  head: m6i.large\n", "is not a shape of OCI"),
        (OCI, OCI + "  availability_domain: 4\n", "4"),
        (OCI, OCI + "  tags: {gridwright-grid: other}\n", "is not the name of a tag"),
        (OCI, OCI + "  tags: {cost.center: a}\n", "is not the name of a tag"),
        (OCI, f"{OCI}  tags: {{{', '.join(f't{each}: a' for each in range(8))}}}\n", "tags"),
    ],
)
def test_check_refuses_what_oci_would(old: str, new: str, what: str) -> None:
    with pytest.raises(GridwrightError) as caught:
        spec_of(GRID.replace(old, new, 1))
    assert what in str(caught.value)
    assert all(each.remedy for each in caught.value.problems)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("VM.Standard.E5.Flex(8)", "VM.Standard.E9.Flex(8)", "VM.Standard.E9.Flex(8)"),
        ("type: balanced", "type: gp3", "gp3"),
        (OCI, OCI + "  head: VM.Standard.E9.Flex(4)\n", "VM.Standard.E9.Flex(4)"),
        (OCI, OCI + "  subnets: {fs: 10.30.128.0/29}\n", "fewer addresses"),
        ("libraries: {data: {}}\n", ON_VOLUMES, "does not make block volumes of nodes"),
        (OCI, f"{OCI}  image: ocid1.image.oc1.iad.a\n  head: VM.Standard.A2.Flex(4)\n", "kind of processor"),
        (", disks: {type: balanced, count: 16, size: 1 TiB}", "", "have no disks"),
    ],
)
def test_render_refuses_what_cannot_be_built(old: str, new: str, what: str) -> None:
    with pytest.raises(GridwrightError) as caught:
        oci_files(spec_of(GRID.replace(old, new, 1)))
    assert what in str(caught.value)


def test_the_bill_has_all_machines_and_their_boot_volumes() -> None:
    files, *_ = oci_files(spec_of())
    lines = {each["what"]: each["usd_per_hour"] for each in json.loads(files["costs.json"])["lines"]}
    assert {
        "bastion host VM.Standard.E5.Flex(1)",
        "grid control server VM.Standard.E5.Flex(4)",
    } <= lines.keys()
    assert "boot volumes of 9 machines, balanced of 50 GiB" in lines
    assert all(each is not None and each > 0 for each in lines.values())
    instances = roots(spec_of())["grid"]["resource"]["oci_core_instance"].values()
    assert len(instances) == 9
    assert {each["source_details"][0]["boot_volume_size_in_gbs"] for each in instances} == {"50"}


def test_pools_have_volumes_of_their_own_on_both_servers_and_keep_their_names_when_one_grows() -> None:
    """A volume that got another name or device would be made, or attached, anew under the file system."""
    grid = GRID.replace("count: 16, size", "count: 4, size").replace("libraries:", "{pools}libraries:")
    pools = "    pools: {{data: {{disks: {{type: balanced, count: {}, size: 2 TiB}}}}, "
    pools += "archive: {{disks: {{type: lower-cost, count: {}, size: 4 TiB}}}}}}\n"

    def volumes(system: int, data: int, archive: int) -> dict[str, tuple[str, int, int]]:
        text = grid.replace("{pools}", pools.format(data, archive))
        layout = oci_layout(spec_of(text.replace("count: 4, size: 1", f"count: {system}, size: 1")))
        for each in layout.of_role(OciRole.NSD):
            own = layout.volumes_of(each.name)
            assert len({one.device for one in own}) == len(own) == 2 * (system + data + archive)
            firsts = Counter(one.pool for one in own if one.servers[0] == each.name)
            assert firsts == {"": system, "data": data, "archive": archive}
        return {each.name: (each.device, each.gib, each.vpus_per_gib) for each in layout.volumes}

    before = volumes(4, 2, 3)
    assert before["grid-lake-p2-archive-v06"][1:] == (4096, 0)
    assert before["grid-lake-p1-data-v01"] == ("/dev/oracleoci/oraclevdag", 2048, 10)
    for more in ((6, 2, 3), (4, 2, 9)):
        assert before.items() <= volumes(*more).items()
    assert max(len(volumes(*full)) for full in ((10, 3, 3), (1, 1, 14))) == 64
    # Terraform's names of them, and who they belong to.
    for name in before:
        assert is_of(name, "grid", "lake")
        assert not is_of(name, "grid", "lak")
    written = roots(spec_of(grid.replace("{pools}", pools.format(2, 3))))
    assert set(written["storage"]["resource"]["oci_core_volume"]) == set(before)
    assert len(written["grid"]["resource"]["oci_core_volume_attachment"]) == 2 * len(before)


def test_what_volumes_deliver_is_held_against_the_card_in_the_pool_of_new_files() -> None:
    pools = "    pools: {data: {disks: {type: balanced, count: 3, size: 1 TiB}}}\n    default_pool: data\n"
    text = GRID.replace("count: 16", "count: 10").replace("libraries:", f"{pools}libraries:")
    (found,) = (each for each in oci_findings(spec_of(text)) if each.name == "volumes-below-card")
    assert "is the first of 3 volumes" in found.text
    assert "6 disks a server are the most" in found.remedy
