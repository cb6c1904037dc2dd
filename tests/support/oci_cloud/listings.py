"""Lists of the double that say what Terraform has made, by the services' own paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.oci_cloud.account import Answer, refused

TYPES = {
    "fileSystems": "oci_file_storage_file_system",
    "mountTargets": "oci_file_storage_mount_target",
    "lustreFileSystems": "oci_lustre_file_storage_lustre_file_system",
    "dynamicGroups": "oci_identity_dynamic_group",
    "policies": "oci_identity_policy",
    "bastions": "oci_bastion_bastion",
    "clusterPlacementGroups": "oci_cluster_placement_groups_cluster_placement_group",
    "vcns": "oci_core_vcn",
}
_IN_DOMAIN = {"fileSystems", "mountTargets"}
_COLLECTIONS = {"clusterPlacementGroups"}
"""Kinds whose API answers with an object, and not with an array."""


def listing(kind: str, query: dict[str, str], resources: Sequence[dict[str, Any]]) -> Answer:
    """The answer to a list of a kind; `resources` are all that there are."""
    owner = query.get("compartmentId", "")
    if kind == "dynamicGroups" and not owner.startswith("ocid1.tenancy."):
        return refused(400, "InvalidParameter", "dynamic groups are of the tenancy")
    if kind in _IN_DOMAIN and "availabilityDomain" not in query:
        return refused(400, "MissingParameter", "availabilityDomain")
    found = [each["shown"] for each in resources if each["type"] == TYPES[kind]]
    return 200, {"items": found} if kind in _COLLECTIONS else found
