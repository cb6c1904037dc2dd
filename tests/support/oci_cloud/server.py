"""The double over HTTP. Faults are set by tests; everything else is what requests have made of it."""

from __future__ import annotations

import base64
import io
import ipaddress
import itertools
import json
import re
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from oci import bastion
from oci.resource_manager import models

from tests.support.http_service import QuietHandler, http_server, running, url_of
from tests.support.oci_cloud.account import WHEN, Account, Answer
from tests.support.oci_cloud.account import refused as _refused
from tests.support.oci_cloud.attachment_rules import refused_attachment, refused_removal
from tests.support.oci_cloud.buckets import Buckets
from tests.support.oci_cloud.listings import TYPES, listing
from tests.support.oci_cloud.lustre import LustreDouble

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_ANEW = {"availability_domain", "subnet_id", "volume_id", "instance_id", "device", "object"}
"""Arguments that OCI cannot change in place."""


class JobError(Exception):
    """What Terraform prints when it fails."""


def read_zip(archive: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The root, and values of its *.auto.tfvars.json."""
    root: dict[str, Any] = {}
    values: dict[str, Any] = {}
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        for name in opened.namelist():
            if name.endswith(".tf.json"):
                root.update(json.loads(opened.read(name)))
            elif name.endswith(".auto.tfvars.json"):
                values.update(json.loads(opened.read(name)))
    return root, values


class Run:
    """One run of a root of Terraform JSON on a state, with as much of the language as rendered roots have.

    Resources are by address, each with id, type and arguments.
    """

    def __init__(self, archive: bytes, variables: Mapping[str, str], state: Mapping[str, Any]) -> None:
        self.root, files = read_zip(archive)
        self.values = {**variables, **files}
        for name, declared in self.root.get("variable", {}).items():
            if name not in self.values and "default" not in declared:
                raise JobError(f"Error: No value for required variable {name}")
        self.state = dict(state)
        self.wanted = {
            f"{kind}.{name}": (kind, arguments)
            for kind, named in self.root.get("resource", {}).items()
            for name, arguments in named.items()
        }
        self.made: dict[str, Any] = {}

    def changes(self) -> list[dict[str, Any]]:
        """resource_changes of the plan. Raises JobError."""
        found = []
        for address, (kind, arguments) in self.wanted.items():
            old = self.state.get(address)
            actions = ["create"] if old is None else self._actions(old["values"], self._resolved(arguments))
            if "delete" in actions and arguments.get("lifecycle", {}).get("prevent_destroy"):
                raise JobError(
                    f"Error: Instance cannot be destroyed\n{address} has lifecycle.prevent_destroy set"
                )
            found.append(_change(address, kind, actions, old and old["values"], arguments))
        for address, old in self.state.items():
            if address not in self.wanted:
                found.append(_change(address, old["type"], ["delete"], old["values"], None))
        return found

    def _actions(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
        differing = {key for key in {*old, *new} if old.get(key) != new.get(key)}
        if not differing:
            return ["no-op"]
        return ["delete", "create"] if differing & _ANEW else ["update"]

    def apply(
        self, make: Callable[[str, str, dict[str, Any], str | None], str], changes: list[dict[str, Any]]
    ) -> None:
        """Carry changes out, each resource after those that it refers to. Raises JobError."""
        actions = {each["address"]: each["change"]["actions"] for each in changes}
        for address in [each for each, does in actions.items() if does == ["delete"]]:
            del self.state[address]
        waiting = dict(self.wanted)
        while waiting:
            ready = [
                a for a, (_, arguments) in waiting.items() if not self._refers_to(arguments) & set(waiting)
            ]
            if not ready:
                raise JobError(f"Error: Cycle: {', '.join(waiting)}")
            for address in ready:
                kind, arguments = waiting.pop(address)
                keeps = actions[address] in (["no-op"], ["update"])
                values = self._resolved(arguments)
                ocid = make(address, kind, values, self.state[address]["id"] if keeps else None)
                self.state[address] = {"id": ocid, "type": kind, "values": values}

    def outputs(self) -> dict[str, Any]:
        """Values of outputs after an apply."""
        return {
            name: {"value": self._value(each["value"]), "type": "dynamic"}
            for name, each in self.root.get("output", {}).items()
        }

    def _refers_to(self, value: object) -> set[str]:
        found = set()
        for text in _REFERENCE.findall(json.dumps(value)):
            for word in re.findall(r"(oci_\w+\.[\w-]+)", text):
                if f"data.{word}" not in text:
                    found.add(word)
                    if word not in self.wanted:
                        raise JobError(f"Error: Reference to undeclared resource {word}")
        return found

    def _resolved(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {k: self._value(v) for k, v in arguments.items() if k not in ("lifecycle", "//", "depends_on")}

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._value(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._value(each) for each in value]
        if not isinstance(value, str):
            return value
        if whole := _REFERENCE.fullmatch(value):
            return self._expression(whole[1])
        return _REFERENCE.sub(lambda found: str(self._expression(found[1])), value)

    def _expression(self, text: str) -> Any:
        if found := re.fullmatch(r'var\.(\w+)(?:\["([^"]+)"\])?', text):
            value = self.values[found[1]]
            return value if found[2] is None else value[found[2]]
        if found := re.fullmatch(r"(oci_\w+\.[\w-]+)\.(\w+)", text):
            made = self.state.get(found[1])
            if made is None:
                return f"(known after apply: {text})"
            return (
                made["id"]
                if found[2] == "id"
                else made["values"].get(found[2], f"{found[2]} of {made['id']}")
            )
        return f"<{text}>"


def _change(address: str, kind: str, actions: list[str], before: object, after: object) -> dict[str, Any]:
    change = {"actions": actions, "before": before, "after": after}
    return {"address": address, "mode": "managed", "type": kind, "change": change}


MOST_SESSIONS = 20
"""Active sessions of one bastion."""
SHORTEST_SESSION_S = 1800
"""Least time-to-live of a session."""
_PUBLIC_KEY = re.compile(r"(?:ssh-rsa|ssh-ed25519|ecdsa-sha2-nistp\d+) [A-Za-z0-9+/=]+(?: [^\n]*)?$")


@dataclass
class Bastions:
    """The bastion service: sessions by OCID, as its API has them (oci SDK 2.189.0, oci.bastion)."""

    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    looks: int = 1
    """A session is active once it was looked at so often."""
    ends_as: str = "ACTIVE"
    hides_command: bool = False
    count: Iterator[int] = field(default_factory=itertools.count)

    def answer(
        self,
        method: str,
        rest: Sequence[str],
        query: dict[str, str],
        body: Any,
        bastions: Sequence[dict[str, Any]],
    ) -> Answer:
        """The answer to a request for sessions; `bastions` are those that Terraform has made."""
        if method == "POST" and not rest:
            return self._make(body, {each["shown"]["id"]: each["values"] for each in bastions})
        if method == "GET" and not rest:
            found = [each for each in self.sessions.values() if each["bastionId"] == query["bastionId"]]
            for name, key in (("displayName", "displayName"), ("sessionLifecycleState", "lifecycleState")):
                found = [each for each in found if name not in query or each[key] == query[name]]
            hidden = ("keyDetails", "sshMetadata", "looks")
            return 200, [{k: v for k, v in each.items() if k not in hidden} for each in found]
        if method != "GET" or rest[0] not in self.sessions:
            return _refused(404, "NotAuthorizedOrNotFound", "session")
        session = self.sessions[rest[0]]
        session["looks"] += 1
        if session["lifecycleState"] == "CREATING" and session["looks"] > self.looks:
            session |= {"lifecycleState": self.ends_as, "lifecycleDetails": "no endpoint"}
        return 200, session

    def _make(self, body: dict[str, Any], bastions: dict[str, Any]) -> Answer:
        if why := _wrong_session(body, bastions):
            return _refused(400, "InvalidParameter", why)
        active = [each for each in self.sessions.values() if each["lifecycleState"] in ("ACTIVE", "CREATING")]
        if len(active) >= MOST_SESSIONS:
            return _refused(400, "LimitExceeded", "maxSessionsAllowed")
        session = self.put(body)
        return 200, session

    def put(self, body: dict[str, Any], age_s: float = 0.0) -> dict[str, Any]:
        """A session that was made `age_s` seconds ago."""
        ocid = f"ocid1.bastionsession.oc1.iad.{next(self.count)}"
        target = body["targetResourceDetails"]
        way = f"{target['targetResourcePrivateIpAddress']}:{target['targetResourcePort']}"
        command = f"ssh -i <privateKey> -N -L <localPort>:{way} -p 22 {ocid}@host.bastion.iad.example.com"
        self.sessions[ocid] = {
            **body,
            "id": ocid,
            "bastionName": "gridwright",
            "lifecycleState": "CREATING",
            "timeCreated": (datetime.now(UTC) - timedelta(seconds=age_s)).isoformat(),
            "sshMetadata": {} if self.hides_command else {"command": command},
            "looks": 0,
        }
        return self.sessions[ocid]


def _wrong_session(body: dict[str, Any], bastions: dict[str, Any]) -> str | None:
    """Why a request for a session is _refused."""
    allowed = set(bastion.models.CreateSessionDetails().attribute_map.values())
    target_model = bastion.models.CreatePortForwardingSessionTargetResourceDetails()
    target = body["targetResourceDetails"]
    if unknown := {*set(body) - allowed, *set(target) - set(target_model.attribute_map.values())}:
        return f"unknown {unknown}"
    if body["bastionId"] not in bastions:
        return "bastionId"
    if target["sessionType"] != "PORT_FORWARDING" or target["targetResourcePort"] != 22:
        return f"{target}: a managed session needs the agent's plugin"
    ipaddress.IPv4Address(target["targetResourcePrivateIpAddress"])
    longest = bastions[body["bastionId"]]["max_session_ttl_in_seconds"]
    if not SHORTEST_SESSION_S <= body["sessionTtlInSeconds"] <= longest:
        return f"sessionTtlInSeconds {body['sessionTtlInSeconds']}"
    if body["keyType"] != "PUB" or not _PUBLIC_KEY.match(body["keyDetails"]["publicKeyContent"]):
        return "publicKeyContent"
    return None


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
