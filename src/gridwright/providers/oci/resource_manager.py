"""Terraform roots as JSON, put together part by part, and Resource Manager, which carries them out in jobs.

What it shares with the deployer of this machine is here, too.
"""

from __future__ import annotations

import base64
import io
import json
import re
import time
import zipfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Protocol

from gridwright.errors import environment_error
from gridwright.providers.oci.session import OciCallError, OciCloud, reason_remedy
from gridwright.providers.provider import Caller

_LOCK: Mapping[str, Any] = json.loads(
    resources.files("gridwright.providers.oci").joinpath("data/provider-lock.json").read_text("utf-8")
)
"""The release of Oracle's provider that roots are made for, and digests of its packages for all platforms."""
PROVIDER = {"oci": {"source": _LOCK["provider"], "version": _LOCK["version"]}}
"""This release and no other one: a newer one could read a root otherwise, and is in no lock file."""
LOCK_FILE = ".terraform.lock.hcl"
_REGISTRIES = ("registry.opentofu.org", "registry.terraform.io")
"""Where `tofu` and `terraform` look for a provider whose source has no host: part of its name in a lock file.
The packages are the same. Nothing of Gridwright connects to them, and no other file has these names."""
LEAST_TERRAFORM = ">= 1.5.0"
"""What OCI Resource Manager offers as its newest (OCI, Resource Manager, Terraform versions)."""
_DATA = ("volume", "filesystem", "bucket")
"""Ends of the types of resources that hold data."""


@dataclass
class Root:
    """Resources, data sources, variables and outputs by name."""

    region: str
    why: str
    """What the root is for, as its first line says."""
    resources: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    data: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    variables: dict[str, dict[str, Any]] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def resource(self, kind: str, name: str, arguments: Mapping[str, Any], *, why: str = "") -> str:
        """Add a resource; gives the expression of its ID."""
        named = self.resources.setdefault(kind, {})
        if name in named:
            raise ValueError(f"{kind}.{name} is there already")
        named[name] = ({"//": why} if why else {}) | {
            key: value for key, value in arguments.items() if value is not None
        }
        return id_of(kind, name)

    def keep(self, kind: str, name: str, arguments: Mapping[str, Any], *, why: str = "") -> str:
        """Add a resource that holds data: Terraform refuses to destroy it."""
        lasting = {"lifecycle": {"prevent_destroy": True, **arguments.get("lifecycle", {})}}
        return self.resource(kind, name, {**arguments, **lasting}, why=why)

    def source(self, kind: str, name: str, arguments: Mapping[str, Any]) -> str:
        """Add a data source; gives its address."""
        self.data.setdefault(kind, {})[name] = dict(arguments)
        return f"data.{kind}.{name}"

    def variable(self, name: str, description: str, kind: str = "string", **more: Any) -> str:  # noqa: ANN401
        """Add a variable; gives its expression."""
        self.variables[name] = {"type": kind, "description": description, **more}
        return f"${{var.{name}}}"

    def output(self, name: str, value: object, description: str) -> None:
        """Add an output."""
        self.outputs[name] = {"value": value, "description": description}

    def drop_unused_variables(self) -> frozenset[str]:
        """Take away variables that nothing in the root names; their names."""
        said = json.dumps([self.resources, self.data, self.outputs])
        unused = frozenset(name for name in self.variables if not re.search(rf"\bvar\.{name}\b", said))
        self.variables = {name: each for name, each in self.variables.items() if name not in unused}
        return unused

    def text(self) -> str:
        """The root as JSON: the same content gives the same text."""
        parts: dict[str, Any] = {
            "//": self.why,
            "terraform": {"required_version": LEAST_TERRAFORM, "required_providers": PROVIDER},
            "provider": {"oci": {"region": self.region}},
            "variable": self.variables,
            "data": self.data,
            "resource": self.resources,
            "output": self.outputs,
        }
        return (
            json.dumps({name: part for name, part in parts.items() if part}, indent=2, sort_keys=True) + "\n"
        )


def lock_text() -> str:
    """The lock file of a root: `init` refuses a package of the provider that has none of these digests.

    `zh` are those of packages as they are published, `h1` those of what is unpacked (Terraform, dependency
    lock file). Each tool reads the block of its own registry, and drops the other one.
    """
    hashes = "".join(f'    "{each}",\n' for each in _LOCK["hashes"])
    blocks = (
        f'provider "{registry}/{_LOCK["provider"]}" {{\n'
        f'  version     = "{_LOCK["version"]}"\n'
        f'  constraints = "{_LOCK["version"]}"\n'
        f"  hashes = [\n{hashes}  ]\n}}\n"
        for registry in _REGISTRIES
    )
    return "\n".join(["# Written by Gridwright.\n", *blocks])


def id_of(kind: str, name: str) -> str:
    """The expression of a resource's ID."""
    return f"${{{kind}.{name}.id}}"


def block_name(name: str) -> str:
    """A name of Terraform: letters, digits, - and _, and no digit at its beginning."""
    return name if name[:1].isalpha() or name.startswith("_") else f"_{name}"


# What Resource Manager gets of a root: one zip with the same bytes for the same files.

OLDEST = (1980, 1, 1, 0, 0, 0)
"""The first time that the format knows: times of files would make bytes differ."""
OUTPUTS_FILE = "storage.auto.tfvars.json"
"""Terraform reads it by its name. Variables of a stack are texts alone, and volumes are a map."""


def root_files(files: Mapping[str, str | bytes], part: str) -> dict[str, bytes]:
    """Files of one root by their path in it."""
    return {
        path.removeprefix(f"{part}/"): text.encode() if isinstance(text, str) else text
        for path, text in files.items()
        if path.startswith(f"{part}/")
    }


def with_outputs(files: Mapping[str, bytes], outputs: Mapping[str, object]) -> dict[str, bytes]:
    """The root `grid` with what the root `storage` told."""
    text = json.dumps(dict(sorted(outputs.items())), indent=2, sort_keys=True) + "\n"
    return {**files, OUTPUTS_FILE: text.encode()}


def stack_archive(files: Mapping[str, bytes]) -> str:
    """The zip, as base64.

    The lock file is left out: Resource Manager keeps one of its own for each stack, by the release that the
    root names (OCI, release notes of Resource Manager, dependency lock files).
    """
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(set(files) - {LOCK_FILE}):
            entry = zipfile.ZipInfo(path, OLDEST)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[path])
    return base64.b64encode(made.getvalue()).decode("ascii")


def unprotected(
    files: Mapping[str, bytes], main: str, is_wanted: Callable[[str], bool] = lambda _name: True
) -> dict[str, bytes]:
    """The root without prevent_destroy of wanted resources, by logical names: the user has asked for it."""
    root = json.loads(files[main])
    for kind in root.get("resource", {}).values():
        for name, resource in kind.items():
            if is_wanted(name):
                resource.get("lifecycle", {}).pop("prevent_destroy", None)
    return {**files, main: (json.dumps(root, indent=2) + "\n").encode()}


# What carries out a Terraform root and keeps its state: Resource Manager and a local tool are alike here.


class Deployer(Protocol):
    """Carries out roots. Every method raises GridwrightError (ENVIRONMENT) with the tool's own words.

    An order to stop raises KeyboardInterrupt once nothing is lost by it: what was begun is in the state.
    """

    @property
    def caller(self) -> Caller:
        """Who is told of progress, and asks to stop."""

    @property
    def where(self) -> str:
        """Where states are kept, as errors name it."""

    def held(self) -> AbstractContextManager[None]:
        """Keep others from changing the same grid by the same states meanwhile."""

    def find(self, name: str) -> Any:  # noqa: ANN401 - the SDK has no types
        """The stack of a name; None where there is none."""

    def put(
        self,
        stack: Any,  # noqa: ANN401
        name: str,
        files: Mapping[str, bytes],
        tags: Mapping[str, str],
        variables: Mapping[str, str],
    ) -> Any:  # noqa: ANN401
        """Make the stack (where `stack` is None), or give it these files; nothing of it runs yet."""

    def plan(self, stack: Any) -> tuple[Any, dict[str, Any]]:  # noqa: ANN401
        """A plan that can be applied, and what it would do (Terraform, JSON output format)."""

    def apply(self, stack: Any, plan: Any) -> None:  # noqa: ANN401
        """Carry out that very plan."""

    def destroy(self, stack: Any) -> None:  # noqa: ANN401
        """Remove all that the stack has made, then the stack."""

    def state(self, stack: Any) -> dict[str, Any]:  # noqa: ANN401
        """Terraform's state of the stack; empty before its first apply."""

    def drift(self, stack: Any) -> tuple[tuple[str, str], ...]:  # noqa: ANN401
        """Address of each resource that is not as the state has it, and how: `changed` or `gone`."""


def outputs(state: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs of a state with their values, of whatever type."""
    return {name: each["value"] for name, each in state.get("outputs", {}).items()}


def managed(state: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Resources that a state knows to be there; what is only read is none of them."""
    return [
        each for each in state.get("resources", ()) if each.get("mode") == "managed" and each.get("instances")
    ]


# Drift of a stack of Resource Manager: a work request of its own looks at each resource.

LONGEST_S = 3600.0
"""So long a look is waited for; it reads every resource."""
_MANAGER = ("resource_manager", "ResourceManagerClient")
_DRIFT = {"MODIFIED": "changed", "DELETED": "gone"}
"""Statuses of resources that are not in sync (oci SDK 2.189.0, StackResourceDriftSummary)."""


def stack_drift(
    cloud: OciCloud,
    stack: Any,  # noqa: ANN401 - the SDK has no types
    caller: Caller,
    poll_s: float,
) -> tuple[tuple[str, str], ...]:
    """Address of each resource that is not as the state has it, and how. Raises GridwrightError."""
    from oci.resource_manager import models

    details = models.DetectStackDriftDetails()
    look = cloud.started(*_MANAGER, "detect_stack_drift", stack.id, detect_stack_drift_details=details)
    _wait(cloud, look, stack.display_name, caller, poll_s)
    found = cloud.listed(*_MANAGER, "list_stack_resource_drift_details", stack.id, work_request_id=look)
    return tuple(
        (f"{each.resource_type}.{each.resource_name}", _DRIFT[each.resource_drift_status])
        for each in found
        if each.resource_drift_status in _DRIFT
    )


def _wait(cloud: OciCloud, look: str, name: str, caller: Caller, poll_s: float) -> None:
    until = time.monotonic() + LONGEST_S
    while (status := cloud.call(*_MANAGER, "get_work_request", look).status) != "SUCCEEDED":
        if status == "FAILED" or time.monotonic() > until:
            why = "failed" if status == "FAILED" else f"has not ended in {LONGEST_S / 60:.0f} min"
            raise environment_error(
                f"{name}: Resource Manager's look for drift {why}",
                where=f"OCI, {look}",
                remedy="read the log of that work request in the console, under the stack, then run the same "
                "command",
            )
        caller.pause(poll_s)


# Stacks and jobs of OCI Resource Manager, which keeps the state of Terraform and runs it.

POLL_S = 5.0
LONGEST_JOB_S = 24 * 3600.0
"""Resource Manager ends jobs by itself after this time (OCI, Resource Manager limits)."""
_OVER = ("SUCCEEDED", "FAILED", "CANCELED")
_LOG_LINES = 8


class ResourceManager:
    """The stacks of a grid, in its compartment."""

    def __init__(self, cloud: OciCloud, compartment: str, caller: Caller, *, poll_s: float = POLL_S) -> None:
        self.cloud, self.compartment, self.caller, self.poll_s = cloud, compartment, caller, poll_s

    @property
    def where(self) -> str:
        """The compartment."""
        return f"OCI, compartment {self.compartment}"

    def held(self) -> AbstractContextManager[None]:
        """Resource Manager runs one job of a stack at a time by itself."""
        return nullcontext()

    def find(self, name: str) -> Any:  # noqa: ANN401 - the SDK has no types
        """The stack of a name, None where there is none. Raises GridwrightError."""
        listed = self.cloud.listed(
            *_MANAGER, "list_stacks", compartment_id=self.compartment, display_name=name
        )
        found = [each for each in listed if each.lifecycle_state not in ("DELETED", "DELETING")]
        if len(found) > 1:
            raise environment_error(
                f"there are {len(found)} stacks {name}, and nobody can say which is the grid's",
                where=f"OCI, compartment {self.compartment}",
                remedy="remove or rename the one that is not, in the console under Resource Manager",
            )
        return found[0] if found else None

    def put(
        self,
        stack: Any,  # noqa: ANN401
        name: str,
        files: Mapping[str, bytes],
        tags: Mapping[str, str],
        variables: Mapping[str, str],
    ) -> Any:  # noqa: ANN401
        """Make the stack, or give it this configuration; nothing of it runs yet. Raises GridwrightError."""
        from oci.resource_manager import models

        archive = stack_archive(files)
        common: dict[str, Any] = {
            "variables": dict(variables),
            "freeform_tags": dict(tags),
            "display_name": name,
        }
        if stack is None:
            source = models.CreateZipUploadConfigSourceDetails(zip_file_base64_encoded=archive)
            details = models.CreateStackDetails(
                compartment_id=self.compartment, config_source=source, **common
            )
            return self._call("create_stack", details)
        source = models.UpdateZipUploadConfigSourceDetails(zip_file_base64_encoded=archive)
        return self._call("update_stack", stack.id, models.UpdateStackDetails(config_source=source, **common))

    def plan(self, stack: Any) -> tuple[Any, dict[str, Any]]:  # noqa: ANN401
        """A plan job that is over, and its plan. Raises GridwrightError."""
        from oci.resource_manager import models

        job = self._run(stack, models.CreatePlanJobOperationDetails())
        return job, self._json("get_job_tf_plan", job.id, tf_plan_format="JSON")

    def apply(self, stack: Any, plan: Any) -> None:  # noqa: ANN401
        """Carry out that very plan. Raises GridwrightError."""
        from oci.resource_manager import models

        self._run(
            stack,
            models.CreateApplyJobOperationDetails(
                execution_plan_strategy="FROM_PLAN_JOB_ID", execution_plan_job_id=plan.id
            ),
        )

    def destroy(self, stack: Any) -> None:  # noqa: ANN401
        """Remove all that the stack has made, then the stack. Raises GridwrightError."""
        from oci.resource_manager import models

        self._run(stack, models.CreateDestroyJobOperationDetails(execution_plan_strategy="AUTO_APPROVED"))
        self._call("delete_stack", stack.id)

    def state(self, stack: Any) -> dict[str, Any]:  # noqa: ANN401
        """Terraform's state of the stack; empty before its first apply. Raises GridwrightError."""
        try:
            return self._json("get_stack_tf_state", stack.id)
        except OciCallError as error:
            if error.http_status == 404:
                return {}
            raise

    def drift(self, stack: Any) -> tuple[tuple[str, str], ...]:  # noqa: ANN401
        """See Deployer."""
        self._wait_for_others(stack)
        return stack_drift(self.cloud, stack, self.caller, self.poll_s)

    def _run(self, stack: Any, operation: Any) -> Any:  # noqa: ANN401
        from oci.resource_manager import models

        self._wait_for_others(stack)
        details = models.CreateJobDetails(stack_id=stack.id, job_operation_details=operation)
        job = self._call("create_job", details)
        what = f"{stack.display_name}: {operation.operation.lower()} job"
        try:
            job = self._wait(job)
        except KeyboardInterrupt:
            self.caller.say(f"{what} {job.id} goes on at OCI; the next command waits for it")
            raise
        if job.lifecycle_state != "SUCCEEDED":
            raise self._failed(what, job)
        return job

    def _wait_for_others(self, stack: Any) -> None:  # noqa: ANN401
        """Let a job end that somebody, or an interrupted command, has started: there is one at a time."""
        for job in self.cloud.listed(*_MANAGER, "list_jobs", stack_id=stack.id):
            if job.lifecycle_state not in _OVER:
                self.caller.say(
                    f"{stack.display_name}: {job.operation.lower()} job {job.id} runs; waiting for it"
                )
                self._wait(self._call("get_job", job.id))

    def _wait(self, job: Any) -> Any:  # noqa: ANN401
        until = time.monotonic() + LONGEST_JOB_S
        while job.lifecycle_state not in _OVER and time.monotonic() < until:
            self.caller.pause(self.poll_s)
            job = self._call("get_job", job.id)
        return job

    def _failed(self, what: str, job: Any) -> Exception:  # noqa: ANN401
        text = self._bytes("get_job_logs_content", job.id).decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if "Error" in line] or lines
        reason = getattr(job.failure_details, "message", None) or job.lifecycle_state.lower()
        told = "; ".join([str(reason), *errors[-_LOG_LINES:]])
        return environment_error(
            f"{what} failed: {told}",
            where=f"OCI, {job.id}",
            remedy=reason_remedy(text)
            or "mend what the log says, then run the same command: it goes on from there",
        )

    def _call(self, operation: str, *arguments: object, **more: object) -> Any:  # noqa: ANN401
        return self.cloud.call(_MANAGER[0], _MANAGER[1], operation, *arguments, **more)

    def _bytes(self, operation: str, *arguments: object, **more: object) -> bytes:
        data = self._call(operation, *arguments, **more)
        if isinstance(data, str):
            return data.encode()
        return data if isinstance(data, bytes) else bytes(data.content)

    def _json(self, operation: str, *arguments: object, **more: object) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._bytes(operation, *arguments, **more))
        return found
