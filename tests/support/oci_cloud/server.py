"""The double over HTTP. Faults are set by tests; everything else is what requests have made of it."""

from __future__ import annotations

import base64
import itertools
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from oci.resource_manager import models

from tests.support.http_service import QuietHandler, http_server, running, url_of
from tests.support.oci_cloud.account import WHEN, Account
from tests.support.oci_cloud.account import refused as _refused
from tests.support.oci_cloud.attachment_rules import refused_attachment, refused_removal
from tests.support.oci_cloud.bastions import Bastions
from tests.support.oci_cloud.buckets import Buckets
from tests.support.oci_cloud.listings import TYPES, listing
from tests.support.oci_cloud.lustre import LustreDouble
from tests.support.oci_cloud.terraform_run import JobError, Run

_KNOWN = {
    "stacks": (models.CreateStackDetails, models.UpdateStackDetails),
    "jobs": (models.CreateJobDetails,),
}


@dataclass
class OciDouble:
    """What the tenancy has."""

    url: str = ""
    stacks: dict[str, dict[str, Any]] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    throttled: int = 0
    """So many requests from now on are answered by 429."""
    expired: bool = False
    job_error: str = ""
    """The next apply fails with this in its log."""
    limit: int = 10**6
    """So many instances the tenancy may have."""
    never_ends: bool = False
    leaves: str = ""
    """A destroy forgets resources of this type, as a broken provider would."""
    account: Account = field(default_factory=Account)
    buckets: Buckets = field(default_factory=Buckets)
    lustre: LustreDouble = field(default_factory=LustreDouble)
    token: str = ""
    """What the request under way names itself by, so that it may be repeated."""
    bastions: Bastions = field(default_factory=Bastions)
    drifted: dict[str, str] = field(default_factory=dict)
    """How a resource is not as its state has it, by its address."""
    stopped: list[str] = field(default_factory=list)
    """Instances that were shut down, in the order in which they were asked to."""
    looks: list[int] = field(default_factory=list)
    """For drift: work requests."""
    look_ends: str = "SUCCEEDED"
    cloud_file: Path | None = None
    """The cloud of the stand-in of Terraform's provider, whose resources this double has then."""
    asked: list[str] = field(default_factory=list)
    count: Iterator[int] = field(default_factory=itertools.count)

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:  # noqa: PLR0911, PLR0912
        """Status and answer of one request."""
        if self.cloud_file is not None:
            self._read()
        if path.startswith("/n"):
            if (found := self.lustre.objects(path, query)) is not None:
                return found
            if "b" in self.account.hidden and path.endswith("/b"):
                return _refused(404, "NotAuthorizedOrNotFound", path)
            return self.buckets.answer(method, path, query, self.resources)
        kind, *rest = path.strip("/").split("/")[1:]
        if method in ("POST", "PUT") and kind in _KNOWN and "actions" not in rest:
            allowed = {name for model in _KNOWN[kind] for name in model().attribute_map.values()}
            if unknown := set(body) - allowed:
                return _refused(400, "InvalidParameter", f"unknown {unknown}")
        if kind == "stacks":
            return self._stack(method, rest, query, body)
        if kind in self.account.hidden:
            return _refused(404, "NotAuthorizedOrNotFound", kind)
        told = self.lustre.answer(method, [kind, *rest], query, self.token, self.resources)
        if told is not None:
            return told
        if kind == "workRequests":
            look = {"id": rest[0], "operationType": "DRIFT_DETECTION", "status": self.look_ends}
            return 200, look
        if kind == "jobs" and method == "POST":
            return 200, _shown(self._start(body))
        if kind == "jobs" and not rest:
            return 200, [_shown(each) for each in self.jobs.values() if each["stackId"] == query["stackId"]]
        if kind == "jobs" and rest[0] in self.jobs:
            job = self.jobs[rest[0]]
            if rest[1:] == ["tfPlan"]:
                return 200, job["plan"]
            if rest[1:] == ["logs", "content"]:
                return 200, job["log"]
            return 200, _shown(job)
        if kind == "sessions":
            return self.bastions.answer(method, rest, query, body, self.of("oci_bastion_bastion"))
        if kind in TYPES and not rest:
            return listing(kind, query, list(self.resources.values()))
        if (found := self.account.answer(kind, rest, query, body)) is not None:
            return found
        if kind == "volumes":
            return 200, [each["shown"] for each in self.of("oci_core_volume")]
        if kind == "volumeAttachments" and method == "DELETE":
            self._detach(rest[0])
            return 204, None
        if kind == "instances" and method == "POST":
            return self._stop(rest[0], query["action"])
        if kind == "instances":
            shown = (each["shown"] for each in self.of("oci_core_instance"))
            off = {"lifecycleState": "STOPPED"}
            return 200, [{**each, **(off if each["id"] in self.stopped else {})} for each in shown]
        if kind == "volumeAttachments":
            return 200, [each["shown"] for each in self.of("oci_core_volume_attachment")]
        if kind == "resources":
            return 200, {"items": list(self._search(body["query"]))}
        return _refused(404, "NotAuthorizedOrNotFound", f"{method} {path}")

    def _stop(self, instance: str, action: str) -> tuple[int, Any]:
        """Shut an instance down by its own system."""
        if action != "SOFTSTOP" or instance not in self.resources:
            return _refused(404, "NotAuthorizedOrNotFound", f"{action} {instance}")
        if instance in self.stopped:
            return _refused(409, "IncorrectState", "instance is STOPPED")
        self.stopped.append(instance)
        return 200, self.resources[instance]["shown"]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Resources of a type."""
        return [each for each in self.resources.values() if each["type"] == kind]

    def _stack(  # noqa: PLR0911
        self, method: str, rest: list[str], query: dict[str, str], body: Any
    ) -> tuple[int, Any]:
        if rest[1:2] == ["actions"]:
            return self._drift(self.stacks[rest[0]], rest[2])
        if method == "POST":
            stack: dict[str, Any] = {
                "id": f"ocid1.ormstack.oc1..{next(self.count)}",
                "timeCreated": WHEN,
                "lifecycleState": "ACTIVE",
            }
            self.stacks[stack["id"]] = stack | {"state": {}, "outputs": {}} | self._kept(body)
            return 200, _shown(self.stacks[stack["id"]])
        if not rest:
            name = query.get("displayName")
            return 200, [_shown(each) for each in self.stacks.values() if each["displayName"] == name]
        if rest[0] not in self.stacks:
            return _refused(404, "NotAuthorizedOrNotFound", rest[0])
        stack = self.stacks[rest[0]]
        if method == "PUT":
            stack |= self._kept(body)
        elif method == "DELETE":
            del self.stacks[rest[0]]
            return 204, None
        elif rest[1:] == ["tfState"]:
            return 200, {"version": 4, "outputs": stack["outputs"], "resources": list(_state(stack["state"]))}
        return 200, _shown(stack)

    def _drift(self, stack: dict[str, Any], action: str) -> tuple[int, Any]:
        known = {each: self.drifted[each] for each in stack["state"] if each in self.drifted}
        if action == "detectDrift":
            self.looks.append(next(self.count))
            return 202, None
        # The SDK asks for what this very look has found.
        return 200, {
            "items": [
                {
                    "stackId": stack["id"],
                    "resourceType": each.partition(".")[0],
                    "resourceName": each.partition(".")[2],
                    "resourceDriftStatus": known.get(each, "IN_SYNC"),
                }
                for each in stack["state"]
            ]
        }

    def _kept(self, body: dict[str, Any]) -> dict[str, Any]:
        source = body.pop("configSource")
        if source["configSourceType"] != "ZIP_UPLOAD":
            raise ValueError(source)
        return body | {"archive": base64.b64decode(source["zipFileBase64Encoded"], validate=True)}

    def _start(self, body: dict[str, Any]) -> dict[str, Any]:
        stack, operation = self.stacks[body["stackId"]], body["jobOperationDetails"]["operation"]
        job = {
            "id": f"ocid1.ormjob.oc1..{next(self.count)}",
            "stackId": stack["id"],
            "operation": operation,
            "timeCreated": WHEN,
            "lifecycleState": "IN_PROGRESS",
            "log": "",
        }
        self.jobs[job["id"]] = job
        if self.never_ends:
            return job
        try:
            self._carry_out(job, stack, operation, body["jobOperationDetails"])
            job["lifecycleState"] = "SUCCEEDED"
        except JobError as error:
            job |= {"lifecycleState": "FAILED", "log": f"Terraform v1.5\n{error}\n"}
            job["failureDetails"] = {"code": "TERRAFORM_EXECUTION_ERROR", "message": "the job failed"}
        return job

    def _carry_out(
        self, job: dict[str, Any], stack: dict[str, Any], operation: str, details: dict[str, Any]
    ) -> None:
        run = Run(stack["archive"], stack.get("variables", {}), stack["state"])
        if operation == "DESTROY":
            for address, (_, arguments) in run.wanted.items():
                if address in stack["state"] and arguments.get("lifecycle", {}).get("prevent_destroy"):
                    raise JobError(f"Error: Instance cannot be destroyed\n{address}")
            self._let_go({each["id"] for each in stack["state"].values()})
            for each in stack["state"].values():
                if each["type"] != self.leaves:
                    self.resources.pop(each["id"], None)
            stack["state"] = {}
            return
        if operation == "PLAN":
            job["plan"] = {"resource_changes": run.changes(), "output_changes": {}}
            return
        changes = self.jobs[details["executionPlanJobId"]]["plan"]["resource_changes"]
        deleted = {each["address"] for each in changes if "delete" in each["change"]["actions"]}
        self._let_go({each["id"] for address, each in stack["state"].items() if address in deleted})
        try:
            run.apply(self._make, changes)
            if self.job_error:
                error, self.job_error = self.job_error, ""
                raise JobError(error)
            stack["outputs"] = run.outputs()
        finally:
            for address, old in stack["state"].items():
                if run.state.get(address, {}).get("id") != old["id"]:
                    self.resources.pop(old["id"], None)
            stack["state"] = run.state

    def _read(self) -> None:
        """Have what a provider of Terraform has made in a cloud that is a file."""
        content = (
            json.loads(self.cloud_file.read_text()) if self.cloud_file and self.cloud_file.exists() else {}
        )
        found = content.get("resources", {})
        self.resources = {ocid: resource(ocid, each["type"], each["values"]) for ocid, each in found.items()}

    def _detach(self, ocid: str) -> None:
        self.resources.pop(ocid)
        if self.cloud_file is not None:
            content = json.loads(self.cloud_file.read_text())
            del content["resources"][ocid]
            self.cloud_file.write_text(json.dumps(content))

    def _let_go(self, going: set[str]) -> None:
        """Raise JobError where OCI does not let some of it go."""
        contents = self.buckets.contents({k: v for k, v in self.resources.items() if k not in going})
        if why := refused_removal(self.resources, contents, going):
            raise JobError(f"Error: {why}")

    def _make(self, address: str, kind: str, values: dict[str, Any], ocid: str | None) -> str:
        if kind == "oci_core_instance" and ocid is None and len(self.of(kind)) >= self.limit:
            raise JobError(f"Error: 400-LimitExceeded, the following service limits were exceeded: {address}")
        is_new = kind == "oci_core_volume_attachment" and ocid is None
        if is_new and (why := refused_attachment(self.resources, values)):
            raise JobError(f"Error: {why}: {address}")
        ocid = ocid or f"ocid1.{kind}.oc1..{next(self.count)}"
        self.resources[ocid] = resource(ocid, kind, values)
        return ocid

    def _search(self, query: str) -> Iterator[dict[str, Any]]:
        if query.startswith(("query key ", "query vault ")):
            yield from self.account.searched(query)
            return
        found = re.search(r"freeformTags.key = '([^']+)' && freeformTags.value = '([^']+)'", query)
        if found is None:
            raise ValueError(query)
        for each in self.resources.values():
            if each["shown"]["freeformTags"].get(found[1]) == found[2]:
                yield {**each["shown"], "identifier": each["shown"]["id"], "resourceType": each["type"]}


def resource(ocid: str, kind: str, values: dict[str, Any]) -> dict[str, Any]:
    """One that stands in the tenancy: as Terraform has it, and as services show it."""
    shown = {
        "id": ocid,
        "displayName": values.get("display_name"),
        "lifecycleState": "ATTACHED" if "attachment" in kind else "RUNNING",
        "freeformTags": values.get("freeform_tags") or {},
        "faultDomain": values.get("fault_domain"),
        "instanceId": values.get("instance_id"),
        "volumeId": values.get("volume_id"),
        "attachmentType": values.get("attachment_type"),
        "compartmentId": values.get("compartment_id"),
        "timeCreated": WHEN,
    }
    return {"type": kind, "shown": shown, "values": values}


def _state(resources: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """As a state file of Terraform has them."""
    for address, each in resources.items():
        kind, _, name = address.partition(".")
        instances = [{"attributes": {"id": each["id"]}}]
        yield {"mode": "managed", "type": kind, "name": name, "instances": instances}


def _shown(stored: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in stored.items() if k not in ("archive", "state", "outputs", "plan", "log")}


def _content(found: Any) -> bytes:
    if found is None or isinstance(found, bytes):
        return found or b""
    return (found if isinstance(found, str) else json.dumps(found)).encode()


@contextmanager
def serving() -> Iterator[OciDouble]:
    """A double that answers on a port of this machine."""
    double, lock = OciDouble(), threading.Lock()

    class Handler(QuietHandler):
        def _any(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            parts = urlsplit(self.path)
            query = {name: each[0] for name, each in parse_qs(parts.query).items()}
            with lock:
                double.asked.append(f"{self.command} {parts.path}")
                signature = self.headers.get("authorization", "")
                is_signed = signature.startswith("Signature ") and 'version="1"' in signature
                if not is_signed or double.expired:
                    status, found = _refused(401, "NotAuthenticated", "the token has expired")
                elif double.throttled:
                    double.throttled -= 1
                    status, found = _refused(429, "TooManyRequests", "slow down")
                else:
                    double.token = self.headers.get("opc-retry-token", "")
                    status, found = double.answer(self.command, parts.path, query, body)
                if double.lustre.lost and status == 200 and "/actions/start" in parts.path:
                    double.lustre.lost -= 1
                    self.close_connection = True
                    return
            content = _content(found)
            self.send_response(status)
            if isinstance(found, dict) and "next" in found:
                self.send_header("opc-next-page", found.pop("next"))
                content = _content(found)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            if status == 202:
                self.send_header("opc-work-request-id", f"ocid1.ormworkrequest.oc1..{double.looks[-1]}")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _any

    server = http_server(Handler)
    double.url = url_of(server)
    with running(server):
        yield double
