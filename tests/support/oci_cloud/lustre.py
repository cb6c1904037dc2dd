"""Managed Lustre of the double: its links with Object Storage, and their jobs, strict about states.

A directory stands for the file system, and a job moves real files to objects of the double and back, so that
what commands say afterwards can be looked at there. What it knows of the service is in Oracle's guide
(Syncing Data with Object Storage, Exporting to Object Storage) and in the models of the SDK: one job of a
file system at a time, deletions are not mirrored, and what is there already is passed over unless the link
overwrites. With which code a job that has to wait is refused neither says.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from oci.lustre_file_storage import models

from tests.support.oci_cloud.account import WHEN, Answer, refused

FILE_SYSTEM = "oci_lustre_file_storage_lustre_file_system"
LINK = "oci_lustre_file_storage_object_storage_link"
PAGE = 2
"""Items of one page, far fewer than OCI's, so that there are several."""
_ACTIONS = {
    "startExportToObject": "EXPORT",
    "startImportFromObject": "IMPORT",
    "stopExportToObject": "EXPORT",
    "stopImportFromObject": "IMPORT",
}
_FIELDS = {"name", "size", "etag", "md5", "timeCreated", "timeModified", "storageTier", "archivalState"}


@dataclass
class LustreDouble:
    """Tests turn what is to happen."""

    root: Path = Path("/nonexistent")
    """What the file system holds."""
    buckets: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    """Objects by namespace and bucket."""
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    """States of links that are not ACTIVE, by OCID."""
    failing: set[str] = field(default_factory=set)
    """Names of files that no job can copy."""
    fails: str = ""
    """All jobs fail, and this is why."""
    held: bool = False
    """Whether jobs stay under way until they are stopped."""
    races: int = 0
    """So many starts are refused, since another job began in between."""
    lost: int = 0
    """So many answers to a start are lost on the way, after the job began."""
    complaints: dict[str, list[str]] = field(default_factory=dict)
    """What failed work requests of a resource say."""
    tokens: dict[str, str] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)
    """When the last job of a link and a kind began, as links and kinds."""

    def answer(  # noqa: PLR0911
        self,
        method: str,
        path: list[str],
        query: dict[str, str],
        token: str,
        found: dict[str, dict[str, Any]],
    ) -> Answer | None:
        """The answer; None for what is not of the service. `found` are the resources of the tenancy."""
        kind, *rest = path
        if kind == "lustreFileSystems" and not rest:
            name = query.get("displayName")
            mine = [each for each in _of(found, FILE_SYSTEM) if name in (None, each["displayName"])]
            return _page(mine, query, models.LustreFileSystemSummary)
        if kind == "workRequests" and ("resourceId" in query or rest[0].startswith("wr-")):
            return self._work_requests(rest, query)
        if kind != "objectStorageLinks":
            return None
        if not rest:
            filesystem = query.get("lustreFileSystemId")
            mine = [self._link(each) for each in _of(found, LINK)]
            mine = [each for each in mine if filesystem in (None, each["lustreFileSystemId"])]
            return _page(mine, query, models.ObjectStorageLinkSummary)
        if rest[0] not in found:
            return refused(404, "NotAuthorizedOrNotFound", rest[0])
        link = self._link({**found[rest[0]]["shown"], **found[rest[0]]["values"]})
        if rest[1] == "syncJobs":
            return self._jobs_of(link, rest[2:], query)
        action = rest[2]
        if method != "POST" or action not in _ACTIONS:
            return refused(404, "NotAuthorizedOrNotFound", action)
        if action.startswith("stop"):
            return self._stop(link, _ACTIONS[action])
        return self._start(link, _ACTIONS[action], token, found)

    def _link(self, each: dict[str, Any]) -> dict[str, Any]:
        working = [job for job in self.jobs.values() if job["link"] == each["id"] and _works(job)]
        return {
            "id": each["id"],
            "compartmentId": each["compartment_id"],
            "availabilityDomain": "AD-1",
            "displayName": each["display_name"],
            "timeCreated": WHEN,
            "timeUpdated": WHEN,
            "lifecycleState": self.states.get(each["id"], "ACTIVE"),
            "lifecycleDetails": None,
            "freeformTags": each["freeform_tags"],
            "definedTags": {},
            "systemTags": {},
            "lustreFileSystemId": each["lustre_file_system_id"],
            "fileSystemPath": each["file_system_path"],
            "objectStoragePrefix": each["object_storage_prefix"],
            "currentJobId": working[0]["id"] if working else None,
            "lastJobId": None,
            "isOverwrite": each["is_overwrite"],
        }

    def _start(self, link: dict[str, Any], kind: str, token: str, found: dict[str, dict[str, Any]]) -> Answer:
        if token and token in self.tokens:
            return 200, _shown(self.jobs[self.tokens[token]])
        if link["lifecycleState"] != "ACTIVE":
            return refused(409, "IncorrectState", f"link is {link['lifecycleState']}")
        filesystem = link["lustreFileSystemId"]
        others = {each["id"] for each in _of(found, LINK) if each["lustre_file_system_id"] == filesystem}
        if self.races or any(_works(job) and job["link"] in others for job in self.jobs.values()):
            self.races = max(0, self.races - 1)
            return refused(409, "Conflict", "another sync job of the file system is in progress")
        job = {
            "id": f"ocid1.lustresyncjob.oc1..{len(self.jobs)}",
            "link": link["id"],
            "jobType": kind,
            "lifecycleState": "IN_PROGRESS",
            "lifecycleDetails": None,
            "freeformTags": {},
            "definedTags": {},
            "systemTags": {},
            "isOverwrite": link["isOverwrite"],
            "totalObjectsScanned": 0,
            "objectsTransferred": 0,
            "bytesTransferred": 0,
            "skippedErrorCount": 0,
            "timeStarted": datetime.now(UTC).isoformat(),
            "timeFinished": None,
            "lustreFileSystemPath": link["fileSystemPath"],
            "objectStoragePath": link["objectStoragePrefix"],
        }
        self.jobs[job["id"]] = job
        self.tokens[token] = job["id"]
        return 200, _shown(job)

    def _stop(self, link: dict[str, Any], kind: str) -> Answer:
        for job in self.jobs.values():
            if job["link"] == link["id"] and _works(job) and job["jobType"] == kind:
                job["lifecycleState"] = "CANCELING"
                return 204, None
        return refused(409, "IncorrectState", f"no {kind.lower()} is in progress")

    def _jobs_of(self, link: dict[str, Any], rest: list[str], query: dict[str, str]) -> Answer:
        if rest:
            job = self.jobs.get(rest[0])
            if job is None or job["link"] != link["id"]:
                return refused(404, "NotAuthorizedOrNotFound", rest[0])
            self._advance(job)
            return 200, _shown(job)
        mine = [_shown(each) for each in self.jobs.values() if each["link"] == link["id"]]
        return _page(mine, query, models.SyncJobSummary)

    def _work_requests(self, rest: list[str], query: dict[str, str]) -> Answer:
        if not rest:
            resource = query["resourceId"]
            known = [resource] if resource in self.complaints and query.get("status") == "FAILED" else []
            more = {"status": "FAILED", "operationType": "DELETE_OBJECT_STORAGE_LINK", "resources": []}
            return 200, {"items": [{"id": f"wr-{each}", "percentComplete": 0.0, **more} for each in known]}
        said = self.complaints[rest[0].removeprefix("wr-")]
        return 200, {"items": [{"code": "Failed", "message": each, "timestamp": WHEN} for each in said]}

    def _advance(self, job: dict[str, Any]) -> None:
        if job["lifecycleState"] == "CANCELING":
            job |= {"lifecycleState": "CANCELED", "timeFinished": datetime.now(UTC).isoformat()}
        if job["lifecycleState"] != "IN_PROGRESS" or self.held:
            return
        if self.fails:
            job |= {"lifecycleState": "FAILED", "lifecycleDetails": self.fails}
        elif not job["totalObjectsScanned"]:
            job["totalObjectsScanned"] = 1
            return
        else:
            self._copy(job)
        job["timeFinished"] = datetime.now(UTC).isoformat()

    def _copy(self, job: dict[str, Any]) -> None:
        """Copy what the job finds new or changed since the last one of its kind."""
        namespace, _, rest = job["objectStoragePath"].partition(":/")
        bucket, _, prefix = rest.partition("/")
        if (objects := self.buckets.get((namespace, bucket))) is None:
            job |= {"lifecycleState": "FAILED", "lifecycleDetails": f"bucket {bucket} was not found"}
            return
        start = f"{prefix}/" if prefix else ""
        base = self.root / job["lustreFileSystemPath"].strip("/")
        files = {f"{start}{each.relative_to(base)}": each for each in base.rglob("*") if each.is_file()}
        since = self.last.get(f"{job['link']} {job['jobType']}", 0.0)
        sources: dict[str, bytes] = (
            {key: each.read_bytes() for key, each in files.items() if each.stat().st_mtime >= since}
            if job["jobType"] == "EXPORT"
            else {key: each for key, each in objects.items() if key.startswith(start)}
        )
        there = objects if job["jobType"] == "EXPORT" else files
        job["totalObjectsScanned"] = len(sources)
        for key, content in sources.items():
            if key in there and not job["isOverwrite"]:
                continue
            if key.rpartition("/")[2] in self.failing:
                job["skippedErrorCount"] += 1
                continue
            if job["jobType"] == "EXPORT":
                objects[key] = content
            else:
                place = base / key[len(start) :]
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
            job["objectsTransferred"] += 1
            job["bytesTransferred"] += len(content)
        self.last[f"{job['link']} {job['jobType']}"] = datetime.fromisoformat(job["timeStarted"]).timestamp()
        job["lifecycleState"] = "SUCCEEDED"

    def objects(self, path: str, query: dict[str, str]) -> Answer | None:
        """A request to Object Storage about one of these buckets; None where it is about another one."""
        parts = [unquote(each) for each in path.strip("/").split("/", 5)]
        if len(parts) < 5 or (parts[1], parts[3]) not in self.buckets:
            return None
        objects = self.buckets[parts[1], parts[3]]
        if len(parts) == 6:
            if parts[5] not in objects:
                return refused(404, "ObjectNotFound", parts[5])
            return 200, objects[parts[5]]
        asked = set(query.get("fields", "name").split(","))
        if unknown := asked - _FIELDS:
            return refused(400, "InvalidParameter", f"fields {unknown}")
        names = sorted(each for each in objects if each.startswith(query.get("prefix", "")))
        names = [each for each in names if each >= query.get("start", "")]
        more = {"nextStartWith": names[PAGE]} if len(names) > PAGE else {}
        listed = [_listed(each, objects[each]) for each in names[:PAGE]]
        return 200, {"objects": [{k: v for k, v in each.items() if k in asked} for each in listed], **more}


def _listed(name: str, content: bytes) -> dict[str, Any]:
    digest = base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
    return {
        "name": name,
        "size": len(content),
        "etag": hashlib.sha256(content).hexdigest()[:36],
        # Objects that were uploaded in parts have none.
        "md5": None if b"parts" in content else digest,
        "timeModified": WHEN,
        "storageTier": "Standard",
    }


def _of(found: dict[str, dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    """Resources of a type: as services show them, and as Terraform has them."""
    for each in found.values():
        if each["type"] == kind:
            yield {**each["shown"], **each["values"], "lifecycleState": "ACTIVE"}


def _works(job: dict[str, Any]) -> bool:
    return job["lifecycleState"] in ("IN_PROGRESS", "CANCELING", "FAILING")


def _shown(job: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in job.items() if name != "link"}


def _page(items: list[dict[str, Any]], query: dict[str, str], model: Any) -> Answer:
    """One page, with nothing that the SDK's model has no name for."""
    known = set(model().attribute_map.values())
    first = int(query.get("page", "0"))
    shown = [{name: each for name, each in item.items() if name in known} for item in items]
    more = {"next": str(first + PAGE)} if first + PAGE < len(items) else {}
    return 200, {"items": shown[first : first + PAGE], **more}


def make_rendered(resources: dict[str, dict[str, Any]], root: dict[str, Any]) -> list[str]:
    """Make the file systems and links of a rendered root, as Terraform would; OCIDs of the links."""
    made: dict[str, str] = {}
    for kind in (FILE_SYSTEM, LINK):
        for name, arguments in root["resource"].get(kind, {}).items():
            ocid = f"ocid1.{kind.rpartition('lustre_')[2].replace('_', '')}.oc1..{name}"
            values = {k: made.get(v, v) if isinstance(v, str) else v for k, v in arguments.items()}
            made[f"${{{kind}.{name}.id}}"] = ocid
            shown: dict[str, Any] = {
                "id": ocid,
                "displayName": values["display_name"],
                "freeformTags": values["freeform_tags"],
                "definedTags": {},
                "systemTags": {},
                "lifecycleState": "ACTIVE",
                "timeCreated": WHEN,
            }
            resources[ocid] = {"type": kind, "shown": shown, "values": values}
    return [each for each, found in resources.items() if found["type"] == LINK]
