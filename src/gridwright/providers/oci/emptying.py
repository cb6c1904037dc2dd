"""The bucket is emptied before it goes: OCI deletes none that has objects."""

from __future__ import annotations

from gridwright.providers.caller import Caller
from gridwright.providers.oci.session import OciCloud

_SERVICE, _CLIENT = "object_storage", "ObjectStorageClient"


def namespace(cloud: OciCloud, compartment: str) -> str:
    """The tenancy's namespace of buckets. Raises OciCallError."""
    return str(cloud.call(_SERVICE, _CLIENT, "get_namespace", compartment_id=compartment))


def empty(cloud: OciCloud, compartment: str, bucket: str, caller: Caller) -> int:
    """Delete all objects of a bucket, where it is there; how many there were. Raises OciCallError."""
    where, count = (namespace(cloud, compartment), bucket), 0
    while names := _first_names(cloud, *where):
        for each in names:
            caller.go_on()
            cloud.call_or_none(_SERVICE, _CLIENT, "delete_object", *where, each)
        count += len(names)
    return count


def _first_names(cloud: OciCloud, *where: str) -> list[str]:
    """Names of the first page: what is deleted makes place for the next ones."""
    found = cloud.call_or_none(_SERVICE, _CLIENT, "list_objects", *where)
    return [] if found is None else [str(each.name) for each in found.objects]
