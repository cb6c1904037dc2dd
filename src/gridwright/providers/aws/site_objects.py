"""What is in the site bucket: bundles and large templates, put there once and emptied by `down`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from gridwright.providers.aws.session import Cloud, CloudError
from gridwright.providers.aws.stacks import LONGEST_BODY, Body

_MOST_DELETED = 1000
"""Objects of one request (DeleteObjects API reference)."""


def put_once(cloud: Cloud, bucket: str, key: str, content: bytes) -> bool:
    """Put an object whose key names its content; False where it is there already."""
    try:
        cloud.call("s3", "head_object", Bucket=bucket, Key=key)
    except CloudError as error:
        if error.code not in ("404", "NoSuchKey", "NotFound"):
            raise
    else:
        return False
    cloud.call("s3", "put_object", Bucket=bucket, Key=key, Body=content, ChecksumAlgorithm="SHA256")
    return True


def put_changed(cloud: Cloud, bucket: str, key: str, content: bytes) -> bool:
    """Put an object whose content changes; False where it is as it should be."""
    try:
        if cloud.call("s3", "get_object", Bucket=bucket, Key=key)["Body"].read() == content:
            return False
    except CloudError as error:
        if error.code not in ("404", "NoSuchKey", "NotFound"):
            raise
    cloud.call("s3", "put_object", Bucket=bucket, Key=key, Body=content, ChecksumAlgorithm="SHA256")
    return True


def text_of(template: Mapping[str, Any]) -> str:
    """A template as short as it can be written: requests carry only small ones."""
    return json.dumps(template, separators=(",", ":"))


def body_of(cloud: Cloud, bucket: str | None, template: Mapping[str, Any]) -> Body:
    """A template as a request takes it; a large one is put into the bucket first."""
    text = text_of(template)
    content = text.encode()
    if len(content) <= LONGEST_BODY or bucket is None:
        return Body(text)
    key = f"templates/{hashlib.sha256(content).hexdigest()}.json"
    put_once(cloud, bucket, key, content)
    suffix = "amazonaws.com.cn" if cloud.region.startswith("cn-") else "amazonaws.com"
    return Body(text, f"https://{bucket}.s3.{cloud.region}.{suffix}/{key}")


def empty(cloud: Cloud, bucket: str) -> int:
    """Remove all objects of a bucket with all their versions; how many there were."""
    found: list[dict[str, str]] = []
    for key in ("Versions", "DeleteMarkers"):
        for each in cloud.listed("s3", "list_object_versions", key, Bucket=bucket):
            found.append({"Key": each["Key"], "VersionId": each["VersionId"]})
    for start in range(0, len(found), _MOST_DELETED):
        part = found[start : start + _MOST_DELETED]
        cloud.call("s3", "delete_objects", Bucket=bucket, Delete={"Objects": part, "Quiet": True})
    return len(found)
