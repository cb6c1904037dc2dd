"""Stacks and jobs of OCI Resource Manager, which keeps the state of Terraform and runs it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gridwright.errors import environment_error
from gridwright.providers.caller import Caller
from gridwright.providers.oci.deploy.stack_drift import stack_drift
from gridwright.providers.oci.session import OciCallError, OciCloud, reason_remedy
from gridwright.providers.oci.stack_archive import stack_archive

SERVICE, CLIENT = "resource_manager", "ResourceManagerClient"
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
            SERVICE, CLIENT, "list_stacks", compartment_id=self.compartment, display_name=name
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
        for job in self.cloud.listed(SERVICE, CLIENT, "list_jobs", stack_id=stack.id):
            if job.lifecycle_state not in _OVER:
                self.caller.say(
                    f"{stack.display_name}: {job.operation.lower()} job {job.id} runs; waiting for it"
                )
                self._wait(self._call("get_job", job.id))

    def _wait(self, job: Any) -> Any:  # noqa: ANN401
        until = time.monotonic() + LONGEST_JOB_S
        while job.lifecycle_state not in _OVER and time.monotonic() < until:
            if self.caller.stop.wait(self.poll_s):
                raise KeyboardInterrupt
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
        return self.cloud.call(SERVICE, CLIENT, operation, *arguments, **more)

    def _bytes(self, operation: str, *arguments: object, **more: object) -> bytes:
        data = self._call(operation, *arguments, **more)
        if isinstance(data, str):
            return data.encode()
        return data if isinstance(data, bytes) else bytes(data.content)

    def _json(self, operation: str, *arguments: object, **more: object) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._bytes(operation, *arguments, **more))
        return found
