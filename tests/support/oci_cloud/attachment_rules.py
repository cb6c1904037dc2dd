"""What OCI refuses of volumes and their attachments, whatever Terraform thinks of it.

Core Services API: a second attachment needs both shareable; 32 volumes an instance, 32 instances a volume;
one availability domain; a device once; a volume with an attachment is not deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MOST_OF_INSTANCE = MOST_OF_VOLUME = 32
ATTACHMENT, VOLUME, INSTANCE = "oci_core_volume_attachment", "oci_core_volume", "oci_core_instance"
BUCKET = "oci_objectstorage_bucket"
Resources = Mapping[str, Mapping[str, Any]]


def refused_attachment(resources: Resources, values: Mapping[str, Any]) -> str | None:  # noqa: PLR0911
    """Why a new attachment is refused."""
    volume, instance = resources.get(values["volume_id"]), resources.get(values["instance_id"])
    if volume is None or volume["type"] != VOLUME:
        return f"404-NotAuthorizedOrNotFound, volume {values['volume_id']}"
    if instance is None or instance["type"] != INSTANCE:
        return f"404-NotAuthorizedOrNotFound, instance {values['instance_id']}"
    domains = {each["values"]["availability_domain"] for each in (volume, instance)}
    if len(domains) > 1:
        return f"400-InvalidParameter, volume and instance are in different availability domains: {domains}"
    others = [each["values"] for each in resources.values() if each["type"] == ATTACHMENT]
    of_volume = [each for each in others if each["volume_id"] == values["volume_id"]]
    of_instance = [each for each in others if each["instance_id"] == values["instance_id"]]
    if of_volume and not all(each.get("is_shareable") for each in [*of_volume, values]):
        return f"409-Conflict, volume {values['display_name']} is attached, and not as shareable"
    if len(of_volume) >= MOST_OF_VOLUME or len(of_instance) >= MOST_OF_INSTANCE:
        return "400-LimitExceeded, too many attachments"
    if any(each["device"] == values["device"] for each in of_instance):
        return f"400-InvalidParameter, device {values['device']} is taken"
    return None


def refused_removal(resources: Resources, objects: Iterable[str], going: set[str]) -> str | None:
    """Why some of what is to go is not let go; `objects` are those that are in buckets."""
    for ocid in going & set(resources):
        kind = resources[ocid]["type"]
        held = [
            other
            for other, each in resources.items()
            if other not in going and each["type"] == ATTACHMENT and each["values"]["volume_id"] == ocid
        ]
        if kind == VOLUME and held:
            return f"409-Conflict, volume {ocid} is attached"
        if kind == BUCKET and list(objects):
            return f"409-BucketNotEmpty, bucket {resources[ocid]['values']['name']} is not empty"
    return None
