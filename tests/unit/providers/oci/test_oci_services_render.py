"""File systems that Oracle runs, as they are rendered: arguments, who reaches them, what nodes mount."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import GridwrightError
from gridwright.providers.oci.files import oci_files
from gridwright.providers.oci.layout import oci_layout
from gridwright.spec import parse_spec
from gridwright.spec.load import load_spec
from gridwright.spec.model import GridSpec
from tests.support.oci_schema.check import problems

EXAMPLE = Path(__file__).parents[4] / "examples" / "oci-managed-lustre.yaml"
TEXT = EXAMPLE.read_text()
LUSTRE, LINK = "oci_lustre_file_storage_lustre_file_system", "oci_lustre_file_storage_object_storage_link"
RULE = "oci_core_network_security_group_security_rule"


def spec_of(old: str = "", new: str = "") -> GridSpec:
    assert old in TEXT
    return parse_spec(TEXT.replace(old, new, 1) if old else TEXT, base=EXAMPLE.parent)


def root(spec: GridSpec, part: str = "storage") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(oci_files(spec)[0][f"{part}/main.tf.json"])
    return found


def test_the_provider_takes_every_argument_and_the_same_spec_gives_the_same_bytes() -> None:
    spec = load_spec(EXAMPLE)
    for part in ("storage", "grid"):
        assert list(problems(root(spec, part))) == []
    assert oci_files(spec)[0] == oci_files(load_spec(EXAMPLE))[0]


def test_what_holds_data_cannot_be_destroyed() -> None:
    made = root(spec_of())["resource"]
    for kind in (LUSTRE, "oci_file_storage_file_system"):
        assert made[kind]
        assert all(each["lifecycle"] == {"prevent_destroy": True} for each in made[kind].values())


def test_lustre_is_made_as_the_spec_says() -> None:
    made = root(spec_of())["resource"]
    lustre = made[LUSTRE]["shared"]
    assert lustre["capacity_in_gbs"] == 41600
    assert lustre["performance_tier"] == "MBPS_PER_TB_500"
    assert lustre["file_system_name"] == "lake"
    assert lustre["maintenance_window"] == [{"day_of_week": "SUNDAY", "time_start": "03:00"}]
    (squash,) = lustre["root_squash_configuration"]
    assert (squash["identity_squash"], squash["squash_uid"]) == ("ROOT", "65534")
    addresses = oci_layout(spec_of()).addresses
    exceptions = set(squash["client_exceptions"])
    assert f"{addresses['login1']}@tcp" in exceptions
    assert f"{addresses['compute1']}@tcp" not in exceptions
    link = made[LINK]["shared-link1"]
    assert link["object_storage_prefix"] == "mynamespace:/raw-data/2026"
    assert link["start_import_from_object_trigger"] == 1
    assert "start_export_to_object_trigger" not in link, "no job was asked for"


def repository(bucket: str, path: str = "/", **more: Any) -> dict[str, Any]:
    return {"library": "data", "bucket": bucket, "path": path, **more}


def with_repositories(**repositories: dict[str, Any]) -> GridSpec:
    return parse_spec(TEXT + f"repositories: {json.dumps(repositories)}\n", base=EXAMPLE.parent)


def test_a_repository_is_a_link_beside_those_of_the_section() -> None:
    made = root(
        with_repositories(
            **{
                "in": repository("oci://Landing_2@mynamespace/a/b/", "/in/", overwrite=True),
                "out": repository("oci://out@mynamespace", "/out"),
                "else": repository("s3://elsewhere", "/else"),
            }
        )
    )["resource"]
    links = made[LINK]
    assert links.keys() == {"shared-link1", "shared_in", "shared_out"}, "what Gridwright carries has none"
    said = {
        name: (each["file_system_path"], each["object_storage_prefix"], each["is_overwrite"])
        for name, each in links.items()
    }
    assert said == {
        "shared-link1": ("/raw", "mynamespace:/raw-data/2026", False),
        "shared_in": ("/data/in", "mynamespace:/Landing_2/a/b", True),
        "shared_out": ("/data/out", "mynamespace:/out", False),
    }
    assert len({each["display_name"] for each in links.values()}) == 3
    for name, each in links.items():
        assert each["lustre_file_system_id"] == f"${{{LUSTRE}.shared.id}}"
        assert each["availability_domain"] == made[LUSTRE]["shared"]["availability_domain"]
        # Jobs of repositories are started by `gridwright repo`: applying the root starts none.
        assert [part for part in each if part.endswith("_trigger")] == (
            ["start_import_from_object_trigger"] if name == "shared-link1" else []
        )


def test_no_two_links_have_one_name_whatever_their_file_systems_are_called() -> None:
    lustre = {"type": "oci-lustre", "capacity": "31.2 TB"}
    names = ("a", "a-repository-b", "a-b", "a-link1")
    spec = parse_spec(TEXT, base=EXAMPLE.parent).model_dump(mode="json", exclude_unset=True)
    spec["filesystems"] = {
        name: {
            **lustre,
            "path": f"/{name}",
            "name": f"fs{number}",
            "links": [{"bucket": f"oci://own@n/{number}", "directory": "/own"}],
        }
        for number, name in enumerate(names)
    }
    spec["libraries"] = {"data": {"filesystem": "a"}, "work": {"filesystem": "a-repository-b"}}
    spec["libraries"]["util"] = {"filesystem": "a-b"}
    spec["repositories"] = {
        "b-repository-c": {"library": "data", "path": "/x", "bucket": "oci://r@n/1"},
        "link1": {"library": "data", "path": "/y", "bucket": "oci://r@n/2"},
        "b-c": {"library": "data", "path": "/z", "bucket": "oci://r@n/5"},
        "c": {"library": "work", "bucket": "oci://r@n/3"},
        "d": {"library": "util", "bucket": "oci://r@n/4"},
    }
    links = root(parse_spec(json.dumps(spec)))["resource"][LINK]
    assert len(links) == len({each["display_name"] for each in links.values()}) == 9
    whose = {each["object_storage_prefix"]: each["lustre_file_system_id"] for each in links.values()}
    assert whose["n:/r/1"] == whose["n:/r/2"] == f"${{{LUSTRE}.a.id}}"
    assert whose["n:/r/3"] == f"${{{LUSTRE}.a-repository-b.id}}"


def test_root_of_nodes_stays_root_where_nothing_is_said() -> None:
    made = root(spec_of("    root_squash: 65534:65534\n"))["resource"]
    assert made[LUSTRE]["shared"]["root_squash_configuration"] == [{"identity_squash": "NONE"}]


def test_all_files_share_one_mount_target_of_each_availability_domain() -> None:
    made = root(spec_of())["resource"]
    assert list(made["oci_file_storage_mount_target"]) == ["files1"]
    assert {each["path"] for each in made["oci_file_storage_export"].values()} == {"/sashome", "/sas/cfg"}
    other = root(spec_of("export: /sas/cfg", "export: /sas/cfg, availability_domain: 2"))["resource"]
    assert list(other["oci_file_storage_mount_target"]) == ["files1", "files2"]
    for name, number in (("sashome", 0), ("sascfg", 1)):
        domain = other["oci_file_storage_file_system"][name]["availability_domain"]
        assert f"availability_domains[{number}]" in domain


def test_machines_of_the_grid_reach_them_and_nobody_else() -> None:
    storage = root(spec_of())
    inwards = [each for each in storage["resource"][RULE].values() if each["direction"] == "INGRESS"]
    to_services = [each for each in inwards if "services.id" in each["network_security_group_id"]]
    assert all(each["source_type"] == "NETWORK_SECURITY_GROUP" for each in to_services)
    ports = {
        (each["protocol"], one["min"], one["max"])
        for each in to_services
        if "nodes.id" in each["source"]
        for options in ("tcp_options", "udp_options")
        for one in each.get(options, [{}])[0].get("destination_port_range", [])
    }
    # NFS 3 is nothing without the port mapper, by TCP as by UDP.
    assert ports == {
        ("6", 988, 988),
        ("6", 1018, 1023),
        ("6", 111, 111),
        ("6", 2048, 2050),
        ("17", 111, 111),
        ("17", 2048, 2048),
    }
    back = [each for each in inwards if "services.id" in each["source"]]
    assert {each["tcp_options"][0]["destination_port_range"][0]["min"] for each in back} == {988, 1018}
    exports = storage["resource"]["oci_file_storage_export"].values()
    for export in exports:
        for option in export["export_options"]:
            assert ipaddress.IPv4Network(option["source"]).prefixlen > 8


def test_no_machine_has_an_address_that_a_service_may_take() -> None:
    layout = oci_layout(spec_of())
    services = layout.subnets["services"]
    for machine in layout.machines:
        assert machine.address not in services
    for name, other in layout.subnets.items():
        assert name == "services" or not other.overlaps(services)


def test_nodes_mount_what_the_storage_root_puts_out() -> None:
    files = oci_files(spec_of())[0]
    output = json.loads(files["storage/main.tf.json"])["output"]["sources"]["value"]
    assert output["sascfg"].endswith(".ip_address}:/sas/cfg")
    assert ".management_service_address}@" in output["shared"]
    for name in output:
        assert f"gridwright_sources['{name}']" in str(files["group_vars/all.yml"])
    instances = json.loads(files["grid/main.tf.json"])["resource"]["oci_core_instance"].values()
    assert instances
    assert all("sources = var.sources" in each["metadata"]["gridwright"] for each in instances)


def test_a_vcn_of_the_site_has_to_name_a_subnet_for_them() -> None:
    ids = {name: f"ocid1.subnet.oc1.iad.{name}" for name in ("public", "fs", "storage")}
    vcn = {"id": "ocid1.vcn.oc1.iad.aaaa", "network": "10.8.0.0/16", "ranges": {}, "subnets": ids}
    key = "  ssh_from:"
    with pytest.raises(GridwrightError, match="no subnet is named"):
        oci_files(spec_of(key, f"  vcn: {json.dumps(vcn)}\n{key}"))
    ids["services"] = "ocid1.subnet.oc1.iad.services"
    made = root(spec_of(key, f"  vcn: {json.dumps(vcn)}\n{key}"))
    assert made["resource"][LUSTRE]["shared"]["subnet_id"] == ids["services"]
    assert "oci_core_subnet" not in made["resource"]


def test_a_network_without_room_for_them_is_refused() -> None:
    taken = "  subnets: {public: 10.30.0.0/18, fs: 10.30.128.0/17, storage: 10.30.64.0/18}\n"
    with pytest.raises(GridwrightError, match="a subnet of its own"):
        oci_files(spec_of("  ssh_from:", f"{taken}  ssh_from:"))


def test_a_grid_without_any_has_no_subnet_and_group_for_them() -> None:
    storage = root(load_spec(EXAMPLE.with_name("oci-scale.yaml")))
    assert "services" not in storage["resource"]["oci_core_subnet"]
    assert "services" not in storage["resource"]["oci_core_network_security_group"]
    assert "sources" not in storage["output"]
