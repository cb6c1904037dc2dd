"""User data, bundles and rights of machines on OCI: small, without a secret, and no more than is needed."""

from __future__ import annotations

import base64
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.oci.files import oci_files, volumes_of_servers
from gridwright.providers.oci.layout import OciRole, oci_layout
from gridwright.providers.oci.terraform.boot import LARGEST, file_of, user_data
from gridwright.spec.load import load_spec
from gridwright.spec.model import GridSpec

EXAMPLES = Path(__file__).parents[4] / "examples"


@pytest.fixture(scope="module")
def spec() -> GridSpec:
    return load_spec(EXAMPLES / "oci-scale.yaml")


@pytest.fixture(scope="module")
def files(spec: GridSpec) -> dict[str, str | bytes]:
    return dict(oci_files(spec)[0])


def grid_root(files: dict[str, str | bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files["grid/main.tf.json"])
    return found


def filled(template: str, values: dict[str, str]) -> str:
    """As templatefile of Terraform does it."""
    named = re.sub(r"(?<!\$)\$\{(\w+)\}", lambda found: values[found[1]], template)
    return named.replace("$${", "${").replace("%%{", "%{")


def test_terraform_makes_the_text_that_a_machine_reads_and_it_fits(
    spec: GridSpec, files: dict[str, str | bytes]
) -> None:
    layout = oci_layout(spec)
    for machine in layout.machines:
        name = f"grid/{file_of(spec, machine)}"
        makes = "true" if machine.role is OciRole.HEAD else "false"
        text = filled(str(files[name]), {"name": machine.name, "makes_key": makes})
        assert text == user_data(spec, machine)
        instance = grid_root(files)["resource"]["oci_core_instance"][machine.name]
        others = "".join(each for name, each in instance["metadata"].items() if name != "user_data")
        assert len(base64.b64encode(text.encode("ascii"))) + len(others) + 500 <= LARGEST
        script = text.split("--gridwright")[2].partition("\n\n")[2]
        assert script.startswith("#!/bin/sh\n")
        subprocess.run(["sh", "-n"], input=script, text=True, check=True, timeout=10)


def test_a_machine_is_told_what_it_needs(spec: GridSpec) -> None:
    layout = oci_layout(spec)

    def settings(role: OciRole) -> dict[str, Any]:
        text = user_data(spec, layout.of_role(role)[0])
        found = re.search(r"machine\.json\"\) << 'END-OF-FILE'\n(.*?)\nEND-OF-FILE", text, re.DOTALL)
        assert found
        content: dict[str, Any] = json.loads(found[1])
        return content

    server, node, head = (settings(each) for each in (OciRole.NSD, OciRole.COMPUTE, OciRole.HEAD))
    assert (server["pointer"], server["key"]) == ("bundles/current/servers", None)
    assert (node["pointer"], node["name"]) == (
        "bundles/current/nodes",
        layout.of_role(OciRole.COMPUTE)[0].name,
    )
    if head["key"] is not None:
        assert (head["key"]["makes"], node["key"]["makes"]) == (True, False)


def test_a_bundle_has_what_its_machines_run_and_is_named_by_its_digest(
    spec: GridSpec, files: dict[str, str | bytes]
) -> None:
    objects = grid_root(files)["resource"]["oci_objectstorage_object"]
    found: dict[str, set[str]] = {}
    for part in ("nodes", "servers"):
        content = files[f"grid/bundle-{part}.tar.gz"]
        assert isinstance(content, bytes)
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
            found[part] = set(archive.getnames())
        assert objects[f"pointer-{part}"]["content"] == objects[f"bundle-{part}"]["object"]
        assert objects[f"bundle-{part}"]["lifecycle"] == {"create_before_destroy": True}
    both = {
        "site.yml",
        "boot/set_up.py",
        "boot/cloud.py",
        "boot/instance_principal.py",
        "boot/distributions.json",
    }
    assert both <= found["nodes"] & found["servers"]
    assert "roles/shared_volumes/files/volumes.pyz" in found["servers"] - found["nodes"]
    assert not [each for each in found["servers"] if each.startswith("slurm/")]


def test_both_servers_of_a_pair_are_told_the_same_devices(spec: GridSpec) -> None:
    layout = oci_layout(spec)
    told = volumes_of_servers(layout)
    for machine in layout.of_role(OciRole.NSD):
        (other,) = (
            each for each in layout.servers_of(machine.group) if each.pair == machine.pair and each != machine
        )
        key = ("device", "name")
        assert sorted([tuple(each[k] for k in key) for each in told[machine.name]]) == sorted(
            [tuple(each[k] for k in key) for each in told[other.name]]
        )
        assert len({each["device"] for each in told[machine.name]}) == len(told[machine.name]) <= 32


def test_each_machine_is_told_its_own_requests_where_cloud_init_hides_them(
    files: dict[str, str | bytes],
) -> None:
    """Of an instance's metadata only values of some names are kept from users (sensitive_metadata_keys)."""
    made = grid_root(files)["resource"]
    requests = made["oci_objectstorage_preauthrequest"]
    for machine, instance in made["oci_core_instance"].items():
        told = dict(instance["metadata"])
        secret = told.pop("security-credentials")
        names = re.findall(r"oci_objectstorage_preauthrequest\.([\w-]+)\.access_uri", secret)
        assert names == [f"report-{machine}", f"logs-{machine}"]
        assert "preauthrequest" not in json.dumps(told)
        report, logs = (requests[name] for name in names)
        assert (report["access_type"], report["object_name"]) == ("ObjectWrite", f"boot/{machine}.json")
        # With the slash, so that compute1 writes nothing of compute10.
        assert (logs["access_type"], logs["object_name"]) == ("AnyObjectWrite", f"boot-logs/{machine}/")
    assert len(requests) == 2 * len(made["oci_core_instance"])


def test_a_server_reads_no_key_and_nobody_may_change_a_bundle(files: dict[str, str | bytes]) -> None:
    resources = grid_root(files)["resource"]
    statements = resources["oci_identity_policy"]["machines"]["statements"]
    assert all("${var.bucket}" in each for each in statements if " objects " in each)
    for name in ("nodes", "servers"):
        own = [each for each in statements if f"group.{name}.name" in each]
        reads = [each for each in own if " to read objects " in each]
        writes = [each for each in own if " to manage objects " in each]
        assert len(reads) == 1
        assert writes == []
        assert ("'keys/*'" in reads[0]) == (name == "nodes")
        assert [each for each in own if "volume-attachments" in each] == (
            [each for each in own if " inspect volume-attachments " in each] if name == "servers" else []
        )
    groups = resources["oci_identity_dynamic_group"]
    named = re.findall(r"oci_core_instance\.([^.]+)\.id", groups["servers"]["matching_rule"])
    assert named
    assert all("nsd" in each for each in named)
