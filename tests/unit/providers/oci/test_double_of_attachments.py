"""The double of OCI refuses attachments that OCI refuses: else tests of `up` would prove nothing of them."""

from __future__ import annotations

from typing import Any

from tests.support.oci_cloud.attachment_rules import (
    ATTACHMENT,
    INSTANCE,
    VOLUME,
    refused_attachment,
    refused_removal,
)


def tenancy(**resources: tuple[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: {"type": kind, "values": values} for name, (kind, values) in resources.items()}


def attachment(volume: str, instance: str, device: str = "/dev/b", *, shared: bool = True) -> dict[str, Any]:
    return {
        "volume_id": volume,
        "instance_id": instance,
        "device": device,
        "is_shareable": shared,
        "display_name": volume,
    }


HERE, THERE = {"availability_domain": "AD-1"}, {"availability_domain": "AD-2"}
MADE = tenancy(
    v1=(VOLUME, HERE),
    v2=(VOLUME, THERE),
    s1=(INSTANCE, HERE),
    s2=(INSTANCE, HERE),
    a1=(ATTACHMENT, attachment("v1", "s1")),
)


def test_a_second_attachment_needs_both_shareable() -> None:
    assert refused_attachment(MADE, attachment("v1", "s2")) is None
    assert "not as shareable" in str(refused_attachment(MADE, attachment("v1", "s2", shared=False)))
    first = MADE | tenancy(a1=(ATTACHMENT, attachment("v1", "s1", shared=False)))
    assert "not as shareable" in str(refused_attachment(first, attachment("v1", "s2")))


def test_domain_device_and_what_is_not_there() -> None:
    assert "availability domains" in str(refused_attachment(MADE, attachment("v2", "s1", "/dev/c")))
    assert "device" in str(refused_attachment(MADE, attachment("v1", "s1")))
    assert "404" in str(refused_attachment(MADE, attachment("s1", "s1")))
    assert "404" in str(refused_attachment(MADE, attachment("v1", "v1")))


def test_at_most_32_of_an_instance() -> None:
    many = {
        f"a{number}": (ATTACHMENT, attachment(f"w{number}", "s2", f"/dev/{number}")) for number in range(32)
    }
    assert "LimitExceeded" in str(refused_attachment(MADE | tenancy(**many), attachment("v1", "s2")))
    del many["a0"]
    assert refused_attachment(MADE | tenancy(**many), attachment("v1", "s2")) is None


def test_what_is_attached_and_a_bucket_with_objects_stay() -> None:
    assert "is attached" in str(refused_removal(MADE, (), {"v1"}))
    assert refused_removal(MADE, (), {"v1", "a1"}) is None
    bucket = tenancy(b=("oci_objectstorage_bucket", {"name": "logs"}))
    assert "BucketNotEmpty" in str(refused_removal(bucket, ("boot/a.json",), {"b"}))
    assert refused_removal(bucket, (), {"b"}) is None
