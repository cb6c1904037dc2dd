"""Carries the roots out by tofu or terraform on this machine, with states in a directory of the user's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright.errors import environment_error
from gridwright.providers.caller import Caller
from gridwright.providers.oci.deploy.deployer import managed
from gridwright.providers.oci.deploy.stack_directory import StackFiles
from gridwright.providers.oci.deploy.terraform_command import TerraformCommand

INIT_S, PLAN_S, APPLY_S = 1200.0, 3600.0, 24 * 3600.0
"""Limits of time: a download of the provider; all resources read; as long as Resource Manager gives a job."""
LOCK = "-lock-timeout=60s"
"""So long another holder of the state's lock is waited for."""
PLAN = "gridwright.tfplan"
VARIABLES = "gridwright.auto.tfvars.json"
_PLAIN = ("-input=false", "-no-color")
_CHANGES = (*_PLAIN, "-json", LOCK)
_DRIFT = {("update",): "changed", ("delete",): "gone"}


@dataclass(frozen=True, slots=True)
class LocalStack:
    """A root with its state on this machine."""

    display_name: str
    directory: Path


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """A plan in a file beside its state."""

    file: str
    changes: int


class LocalTerraform:
    """See Deployer."""

    def __init__(self, command: TerraformCommand, files: StackFiles) -> None:
        self.command, self.files = command, files
        command.check()

    @property
    def caller(self) -> Caller:
        """Who is told of progress."""
        return self.command.caller

    @property
    def where(self) -> str:
        """The directory."""
        return str(self.files.directory)

    def held(self) -> AbstractContextManager[None]:
        """The lock of the directory."""
        return self.files.held()

    def find(self, name: str) -> LocalStack | None:
        """See Deployer. With a backend of the site's own, a stack that was made elsewhere is found there."""
        stack = LocalStack(name, self.files.of(name))
        if self.files.is_there(name):
            return stack
        if not self.files.has_backend(name):
            return None
        self._run(stack, "init", *_PLAIN, timeout_s=INIT_S)
        return stack if managed(self.state(stack)) else None

    def put(
        self,
        stack: LocalStack | None,
        name: str,
        files: Mapping[str, bytes],
        tags: Mapping[str, str],
        variables: Mapping[str, str],
    ) -> LocalStack:
        """Write the root, and have its provider made ready. Resources have their tags in the root."""
        values = {VARIABLES: (json.dumps(dict(variables), indent=2, sort_keys=True) + "\n").encode()}
        directory = self.files.put(name, {**files, **values})
        self._run(LocalStack(name, directory), "init", *_PLAIN, timeout_s=INIT_S)
        return LocalStack(name, directory)

    def plan(self, stack: LocalStack) -> tuple[LocalPlan, dict[str, Any]]:
        """See Deployer."""
        self._run(stack, "plan", *_CHANGES, f"-out={PLAN}", timeout_s=PLAN_S)
        plan = self._shown(stack)
        changes = [
            each for each in plan.get("resource_changes", ()) if each["change"]["actions"] != ["no-op"]
        ]
        return LocalPlan(PLAN, len(changes)), plan

    def apply(self, stack: LocalStack, plan: LocalPlan) -> None:
        """See Deployer."""
        self._run(stack, "apply", *_CHANGES, plan.file, timeout_s=APPLY_S, total=plan.changes)
        (stack.directory / plan.file).unlink(missing_ok=True)

    def destroy(self, stack: LocalStack) -> None:
        """See Deployer."""
        self._run(stack, "destroy", *_CHANGES, "-auto-approve", timeout_s=APPLY_S)
        left = [f"{each['type']}.{each['name']}" for each in managed(self.state(stack))]
        if left:
            raise environment_error(
                f"{stack.display_name}: after destroy its state still has {', '.join(left[:8])}",
                where=str(stack.directory),
                remedy="run the same command again",
            )
        self.files.remove(stack.display_name)

    def state(self, stack: LocalStack) -> dict[str, Any]:
        """See Deployer."""
        found: dict[str, Any] = json.loads(self._answer(stack, "state", "pull") or b"{}")
        return found

    def drift(self, stack: LocalStack) -> tuple[tuple[str, str], ...]:
        """See Deployer."""
        self._run(stack, "plan", *_CHANGES, "-refresh-only", f"-out={PLAN}", timeout_s=PLAN_S)
        found = self._shown(stack).get("resource_drift", ())
        (stack.directory / PLAN).unlink(missing_ok=True)
        return tuple(
            (str(each["address"]), _DRIFT.get(tuple(each["change"]["actions"]), "changed")) for each in found
        )

    def _run(self, stack: LocalStack, *words: str, timeout_s: float, total: int = 0) -> None:
        held = self.files.lock
        self.command.run(
            stack.directory, words, timeout_s=timeout_s, what=stack.display_name, total=total,
            keeps=() if held is None else (held,),
        )  # fmt: skip

    def _shown(self, stack: LocalStack) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._answer(stack, "show", "-json", "-no-color", PLAN))
        return found

    def _answer(self, stack: LocalStack, *words: str) -> bytes:
        answer = self.command.ask(stack.directory, *words)
        if answer.status != 0:
            said = " ".join((answer.stderr or answer.stdout).decode(errors="replace").split())
            raise environment_error(
                f"{stack.display_name}: {self.command.name} {words[0]} failed: {said[:400]}",
                where=str(stack.directory),
                remedy=f"run {self.command.name} -chdir={stack.directory} {words[0]} by hand",
            )
        return answer.stdout
