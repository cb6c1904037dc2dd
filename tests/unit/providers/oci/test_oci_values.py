"""Values that are rendered for OCI, held against models of the `oci` SDK; and whether wrong ones are found.

Those of the matrix are held in test_oci_matrix.py; here are those of examples, and the tables themselves.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.oci.files import oci_files
from gridwright.spec import parse_spec
from gridwright.spec.load import load_spec
from gridwright.spec.model import GridSpec
from tests.support.oci_matrix import matrix
from tests.support.oci_schema.check import known
from tests.support.oci_schema.models import allowed_values, judge, plurals, unused
from tests.support.oci_schema.read_bridge import UNNUMBERED

EXAMPLES = Path(__file__).parents[4] / "examples"
Root = dict[str, Any]


@cache
def _roots() -> tuple[Root, ...]:
    """Of examples, and of one of the matrix with what they lack."""
    full = copy.deepcopy(next(iter(matrix().values())))
    full["oci"] |= {"bastion": "service", "cluster_placement": True}
    examples = ("oci-managed-lustre.yaml", "oci-scale.yaml", "papers/003-spectrum-scale.yaml")
    specs = [parse_spec(json.dumps(full)), *(load_spec(EXAMPLES / name) for name in examples)]
    return tuple(root for spec in specs for root in _of(spec))


def _of(spec: GridSpec) -> list[Root]:
    files = oci_files(spec)[0]
    return [json.loads(files[f"{part}/main.tf.json"]) for part in ("storage", "grid")]


def _parts(root: Root) -> Root:
    return {**root["resource"], **root.get("data", {})}


def _changed(kind: str, change: Callable[[Root], object]) -> list[str]:
    """What is told of a root in which the first resource of a kind was changed."""
    root = copy.deepcopy(next(each for each in _roots() if kind in _parts(each)))
    change(next(iter(_parts(root)[kind].values())))
    return judge(root).problems


def test_values_of_examples_are_what_oci_takes() -> None:
    assert judge(*_roots()).problems == []


def test_every_entry_of_the_tables_is_needed() -> None:
    judged = judge(*_roots())
    assert list(unused(judged)) == []
    assert len(judged.chosen) >= 12
    without = judge(*(root for root in _roots() if "oci_bastion_bastion" not in root["resource"]))
    assert "MODELS oci_bastion_bastion" in set(unused(without))


def test_every_name_that_the_bridge_has_made_a_plural_is_known_and_needed() -> None:
    """Facts have the names of Terraform; with those of the bridge, the SDK tells which are wrong."""
    assert list(plurals(known())) == []
    text = json.dumps(known())
    for bridged, name in UNNUMBERED.items():
        assert f'"{name}": {{' in text
        told = list(plurals(json.loads(text.replace(f'"{name}": {{', f'"{bridged}": {{'))))
        assert [each.rpartition(".")[2] for each in told] == ([bridged] if name != "filter" else [])


INSTANCE, VOLUME, RULE = (
    "oci_core_instance",
    "oci_core_volume",
    "oci_core_network_security_group_security_rule",
)


@pytest.mark.parametrize(
    ("kind", "change", "what"),
    [
        (RULE, lambda each: each.update(direction="INWARDS"), "allows EGRESS, INGRESS"),
        (RULE, lambda each: each.update(destination_type="CIDR"), "allows CIDR_BLOCK, NETWORK_SECURITY"),
        (INSTANCE, lambda each: each.update(availability_domain=1), "takes str"),
        (INSTANCE, lambda each: each.update(preserve_boot_volumes=False), "no attribute of LaunchInstance"),
        (INSTANCE, lambda each: each["metadata"].update(number=1), "takes str"),
        (INSTANCE, lambda each: each.update(metadata="a=b"), "and no map"),
        (INSTANCE, lambda each: each.update(shape_config="4"), "takes LaunchInstanceShapeConfigDetails"),
        (INSTANCE, lambda each: each["shape_config"][0].update(ocpus="four"), "takes float"),
        (INSTANCE, lambda each: each["shape_config"][0].update(ocpus="4"), "takes float"),
        (INSTANCE, lambda each: each["shape_config"][0].update(cores=4), "no attribute of LaunchInstanceSh"),
        (INSTANCE, lambda each: each["source_details"][0].update(source_type="disk"), "which OCI has not"),
        (INSTANCE, lambda each: each["source_details"][0].pop("source_type"), "which OCI has not"),
        (INSTANCE, lambda each: each["create_vnic_details"][0].update(assign_public_ip="no"), "takes bool"),
        (INSTANCE, lambda each: each["create_vnic_details"][0].update(nsg_ids=[1]), "takes str"),
        (VOLUME, lambda each: each.update(size_in_gbs="1 TiB"), "takes int"),
        (VOLUME, lambda each: each.update(vpus_per_gb=True), "takes int"),
        ("oci_core_volume_attachment", lambda each: each.update(attachment_type="scsi"), "OCI has not"),
        ("oci_core_volume_attachment", lambda each: each.update(is_shareable="yes"), "takes bool"),
        ("oci_objectstorage_bucket", lambda each: each.update(access_type="Public"), "allows NoPublicAccess"),
        (
            "oci_lustre_file_storage_lustre_file_system",
            lambda each: each.update(performance_tier="MBPS_PER_TB_200"),
            "allows MBPS_PER_TB_1000, MBPS_PER_TB_125",
        ),
        (
            "oci_lustre_file_storage_lustre_file_system",
            lambda each: each["maintenance_window"][0].update(day_of_week="SUN"),
            "allows FRIDAY, MONDAY",
        ),
        ("oci_core_images", lambda each: each.update(sort_order="DOWN"), "allows ASC, DESC"),
        ("oci_core_images", lambda each: each.update(state="READY"), "allows AVAILABLE, DELETED"),
        ("oci_core_images", lambda each: each.update(version="24.04"), "no parameter of list_images"),
    ],
)
def test_a_wrong_value_is_found(kind: str, change: Callable[[Root], object], what: str) -> None:
    told = _changed(kind, change)
    assert len(told) == 1
    assert what in told[0]
    assert kind in told[0]


def test_numbers_are_text_only_where_the_provider_has_them_as_text() -> None:
    """Terraform's size_in_gbs is a text that the provider converts, and ocpus is a number."""
    assert _changed(VOLUME, lambda each: each.update(size_in_gbs="2048")) == []
    assert _changed(INSTANCE, lambda each: each["shape_config"][0].update(ocpus=2.5)) == []
    assert known()[VOLUME]["size_in_gbs"]["type"] == "string"


def test_a_resource_without_a_model_is_told() -> None:
    assert judge({"resource": {"oci_core_gateway": {"x": {}}}}).problems == [
        "oci_core_gateway has no model of the SDK"
    ]


def test_constants_belong_to_the_longest_name() -> None:
    """SOURCE_TYPE_CIDR_BLOCK is a value of source_type and none of source."""
    allowed = allowed_values("core", "AddSecurityRuleDetails")
    assert allowed["source_type"] == {"CIDR_BLOCK", "SERVICE_CIDR_BLOCK", "NETWORK_SECURITY_GROUP"}
    assert "source" not in allowed
    assert allowed_values("core", "CreateVolumeDetails") == {}
