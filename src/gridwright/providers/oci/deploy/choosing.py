"""Which deployer a grid has, by its spec.

The login of Gridwright's own calls, as the Terraform provider of OCI takes it from its environment.

The provider reads each setting from TF_VAR_name (oracle/terraform-provider-oci, provider.go), and knows
neither OCI_CLI_CONFIG_FILE nor OCI_CLI_PROFILE. So both would not be the same user without this.

Carries the roots out by tofu or terraform on this machine, with states in a directory of the user's.

The files of a stack on this machine: those of its root, the state beside them, and the lock of all.

Files that Gridwright has not written stay: with a backend.tf of its own a site keeps the state elsewhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright.atomic import write_atomically
from gridwright.beneath import Beneath, remove_tree
from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.caller import Caller
from gridwright.providers.oci.deploy.deployer import Deployer, managed
from gridwright.providers.oci.deploy.terraform_command import TerraformCommand
from gridwright.providers.oci.resource_manager import POLL_S, ResourceManager
from gridwright.providers.oci.section import Oci
from gridwright.providers.oci.session import OciCloud
from gridwright.refusals import refusal
from gridwright.spec.model import GridSpec
from gridwright.trusted import open_directory, read_file

WRITTEN = "written-by-gridwright.json"
"""Names of the files that Gridwright has written, so that those which a newer root lacks are removed."""

_LEFT = (".terraform*", "terraform.tfstate*", "*.tfplan", "*.log")
"""What the tools and their runs leave beside a root."""
_TRUSTED = "Terraform runs what is there: name a directory that you alone can write as oci.state"


class StackFiles:
    """The directory that a grid's stacks are below."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lock: int | None = None
        """The descriptor that holds the lock: a tool that keeps it open keeps the lock, too."""

    def of(self, name: str) -> Path:
        """The directory of a stack, there or not."""
        return self.directory / name

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock. Raises GridwrightError where another has it."""
        try:
            # Addresses and names of a site are in states.
            self.lock = open_directory(self.directory, make=0o700, remedy=_TRUSTED)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.lock)
            raise environment_error(
                "another gridwright, or a tool that it has started, changes this grid just now",
                where=str(self.directory),
                remedy="wait until it has ended, then run the same command",
            ) from None
        try:
            yield
        finally:
            os.close(self.lock)
            self.lock = None

    def put(self, name: str, files: Mapping[str, bytes]) -> Path:
        """Write the root, and remove what an earlier one had. Raises GridwrightError."""
        directory = self.of(name)
        try:
            before = self._written(name, make=0o700)
            with Beneath(directory) as beneath:
                # First what is about to be there, so that no interruption leaves a file that nobody knows.
                _write(beneath, WRITTEN, _listed({*before, *files}))
                for path, content in files.items():
                    _write(beneath, path, content)
                for path in before - set(files):
                    _unlink(beneath, path)
                _write(beneath, WRITTEN, _listed(set(files)))
        except OSError as error:
            raise self._unusable(error) from error
        return directory

    def is_there(self, name: str) -> bool:
        """Whether there is such a stack."""
        return (self.of(name) / WRITTEN).is_file()

    def has_backend(self, name: str) -> bool:
        """Whether a file of the site's own is there, which may say where the state is kept."""
        return any(self.of(name).glob("*.tf"))

    def remove(self, name: str) -> None:
        """Remove a stack that has nothing any more; files of the site's own stay. Raises GridwrightError."""
        directory = self.of(name)
        try:
            written = self._written(name)
            for each in [found for left in _LEFT for found in directory.glob(left)]:
                if not remove_tree(each):
                    each.unlink()
            with Beneath(directory) as beneath:
                for path in (*written, WRITTEN):
                    _unlink(beneath, path)
        except OSError as error:
            raise self._unusable(error) from error
        for empty in (directory, self.directory):
            with contextlib.suppress(OSError):
                empty.rmdir()

    def _written(self, name: str, make: int | None = None) -> set[str]:
        """Files that the list in a stack's directory names, where nobody else can have written it.

        Raises GridwrightError and OSError.
        """
        opened = open_directory(name, directory=self.lock, make=make, remedy=_TRUSTED)
        try:
            return {str(each) for each in json.loads(read_file(opened, WRITTEN))}
        except (FileNotFoundError, ValueError, TypeError, RecursionError):
            return set()
        finally:
            os.close(opened)

    def _unusable(self, error: OSError) -> GridwrightError:
        where = self.directory / os.fsdecode(error.filename or "")
        why = refusal(where, error, "name another one as oci.state", writes=True)
        return environment_error(
            f"the directory of Terraform's state cannot be used: {why.reason}",
            where=str(where),
            remedy=why.remedy,
        )


def _listed(names: set[str]) -> bytes:
    return (json.dumps(sorted(names), indent=1) + "\n").encode()


def _write(beneath: Beneath, path: str, content: bytes) -> None:
    directory, name = beneath.parent(os.fsencode(path), make=True)
    write_atomically(os.fsdecode(name), content, directory=directory)


def _unlink(beneath: Beneath, path: str) -> None:
    """Remove a file of the list: none outside the directory, and nothing through a link."""
    with contextlib.suppress(FileNotFoundError):
        directory, name = beneath.parent(os.fsencode(path))
        os.unlink(name, dir_fd=directory)


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


_SETTINGS = {
    "tenancy": "tenancy_ocid",
    "user": "user_ocid",
    "fingerprint": "fingerprint",
    "key_file": "private_key_path",
    "pass_phrase": "private_key_password",
}
"""Settings of ~/.oci/config, and the names that the provider has for them."""
_DEFAULT = Path("~/.oci/config")


def provider_login(config: Mapping[str, Any]) -> dict[str, str]:
    """Variables of the environment, from the SDK's configuration. Raises GridwrightError."""
    if "user" not in config and "security_token_file" not in config:
        return {"TF_VAR_auth": "InstancePrincipal"}
    if "security_token_file" in config:
        # The provider finds a session's token by its profile alone, and in this file alone.
        given = os.environ.get("OCI_CLI_CONFIG_FILE")
        if given is not None and Path(given).expanduser().resolve() != _DEFAULT.expanduser().resolve():
            raise environment_error(
                f"the Terraform provider of OCI looks for a session's token in {_DEFAULT} alone",
                where=f"OCI_CLI_CONFIG_FILE={given}",
                remedy=f"move the profile to {_DEFAULT}, use an API key, or write deploy: resource-manager",
            )
        profile = os.environ.get("OCI_CLI_PROFILE", "DEFAULT")
        return {"TF_VAR_auth": "SecurityToken", "TF_VAR_config_file_profile": profile}
    found = {f"TF_VAR_{theirs}": str(config[ours]) for ours, theirs in _SETTINGS.items() if config.get(ours)}
    if key := found.get("TF_VAR_private_key_path"):
        found["TF_VAR_private_key_path"] = str(Path(key).expanduser())
    return {"TF_VAR_auth": "APIKey", **found}


def deployer_of(
    spec: GridSpec, oci: Oci, cloud: OciCloud, caller: Caller, *, poll_s: float = POLL_S
) -> Deployer:
    """Resource Manager, or the tool that the spec names. Raises GridwrightError where that is not here."""
    if oci.deploy == "resource-manager":
        return ResourceManager(cloud, oci.compartment, caller, poll_s=poll_s)
    command = TerraformCommand(oci.deploy, caller, provider_login(cloud.config))
    return LocalTerraform(command, StackFiles(state_directory(spec, oci)))


def state_directory(spec: GridSpec, oci: Oci) -> Path:
    """Where a local tool keeps its states: relative to the grid spec, beside it by default."""
    beside = spec.file.parent if spec.file else Path()
    return (beside / (oci.state or f"{spec.name}.terraform")).absolute()
