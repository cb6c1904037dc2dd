"""Object Storage of the double: objects, and what machines tell there of their set-up."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.support.oci_cloud.account import Answer, refused

NAMESPACE = "tenant"
PAGE = 3
"""Objects of one page, far fewer than OCI's, so that there are several."""
WHEN = "2026-11-27T12:00:00Z"


def _etag(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def _page(contents: Mapping[str, str], query: Mapping[str, str]) -> Answer:
    """The first objects of a listing."""
    prefix, start = query.get("prefix", ""), query.get("start", "")
    fields = set(query.get("fields", "name").split(","))
    if unknown := fields - {"name", "etag"}:
        return refused(400, "InvalidParameter", f"fields {unknown} are not in this double")
    names = sorted(each for each in contents if each.startswith(prefix) and each >= start)
    more = {"nextStartWith": names[PAGE]} if len(names) > PAGE else {}
    tags = {each: {"etag": _etag(contents[each])} if "etag" in fields else {} for each in names[:PAGE]}
    return 200, {"objects": [{"name": each, **tag} for each, tag in tags.items()], **more}


@dataclass
class Buckets:
    """Objects that nobody's Terraform knows, and how machines set themselves up."""

    objects: dict[str, str] = field(default_factory=dict)
    set_ups: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What a machine tells, by its name, in place of `done`; an empty one tells nothing."""

    def contents(self, resources: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """All objects by name."""
        of_terraform = {
            each["values"]["object"]: str(each["values"].get("content", ""))
            for each in resources.values()
            if each["type"] == "oci_objectstorage_object"
        }
        reports = {}
        for ocid, each in resources.items():
            if each["type"] == "oci_core_instance":
                report = self._report(ocid, each["values"], of_terraform)
                if report:
                    reports[f"boot/{each['values']['display_name']}.json"] = json.dumps(report)
        return {**of_terraform, **reports, **self.objects}

    def _report(self, ocid: str, values: Mapping[str, Any], objects: Mapping[str, str]) -> dict[str, Any]:
        name, role = values["display_name"], values["freeform_tags"]["gridwright-role"]
        part = "servers" if role in ("nsd", "mgs", "mds", "oss") else "nodes"
        done = {
            "instance": ocid,
            "name": name,
            "state": "done",
            "bundle": objects.get(f"bundles/current/{part}", ""),
            "tries": 1,
            "reason": "",
            "log": "",
            "at": WHEN,
        }
        told = self.set_ups.get(name)
        return {} if told == {} else {**done, **(told or {})}

    def answer(  # noqa: PLR0911
        self, method: str, path: str, query: Mapping[str, str], resources: dict[str, dict[str, Any]]
    ) -> Answer:
        """The answer to a request for /n and what is below it."""
        parts = [unquote(each) for each in path.strip("/").split("/", 5)]
        if parts == ["n"]:
            return 200, json.dumps(NAMESPACE)
        if len(parts) == 3:
            return 200, []
        buckets = [each["values"]["name"] for each in resources.values() if "bucket" in each["type"]]
        if parts[3] not in buckets:
            return refused(404, "BucketNotFound", parts[3])
        found = self.contents(resources)
        if len(parts) == 5:
            return _page(found, query)
        if parts[5] not in found:
            return refused(404, "ObjectNotFound", parts[5])
        if method == "GET":
            return 200, found[parts[5]]
        self.objects.pop(parts[5], None)
        return 204, None
