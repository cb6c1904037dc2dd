"""Terraform roots carried out by tofu or terraform on this machine, and the deployer that a spec names."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from gridwright.atomic import write_atomically
from gridwright.beneath import Beneath, remove_tree
from gridwright.commands import CommandOutput, CommandPlace, kill_group, run_bounded
from gridwright.errors import GridwrightError, environment_error
from gridwright.own_directories import hold_settings_of_home
from gridwright.providers.oci.resource_manager import POLL_S, Deployer, ResourceManager, managed
from gridwright.providers.oci.section import Oci
from gridwright.providers.oci.session import OciCloud, reason_remedy
from gridwright.providers.provider import Caller
from gridwright.refusals import refusal
from gridwright.spec.model import GridSpec
from gridwright.trusted import open_directory, read_file

# Runs tofu or terraform: its output goes to a log that is read meanwhile, and an order to stop is passed on.
#
# The tool writes into a file and not into a pipe of ours: where Gridwright is killed, the tool goes on, ends
# what it has begun, and writes its state. A broken pipe would kill it, with resources that no state knows.
#
# What tofu and terraform print with -json: one JSON object a line (Terraform, machine-readable UI).
#
# Lines of other kinds, such as those of a crash, are kept as they are: they say why when nothing else does.

MOST_TOLD = 8
"""Problems of a failure that are told; the log has all."""
MOST_TEXT = 400
"""Characters of a problem that are told."""
_DONE, _FAILED = "apply_complete", "apply_errored"


@dataclass
class TerraformLines:
    """What was read of a run so far."""

    done: int = 0
    """Resources that were made, changed or removed."""
    problems: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)

    def take(self, lines: Iterable[str]) -> None:
        """Read on."""
        for line in lines:
            if text := line.strip():
                self._take(text)

    def _take(self, text: str) -> None:
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            self.plain.append(text)
            return
        self.done += found.get("type") == _DONE
        diagnostic = found.get("diagnostic")
        if isinstance(diagnostic, dict) and diagnostic.get("severity") == "error":
            self.problems.append(_diagnostic_text(diagnostic))

    @property
    def why(self) -> str:
        """The problems on one line, or the last words where there are none."""
        told = list(dict.fromkeys(self.problems)) or self.plain[-MOST_TOLD:]
        more = len(told) - MOST_TOLD
        return "; ".join(told[:MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")


def _diagnostic_text(diagnostic: dict[str, Any]) -> str:
    parts = (diagnostic.get("address"), diagnostic.get("summary"), diagnostic.get("detail"))
    text = ": ".join(" ".join(str(each).split()) for each in parts if each)
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 3]}..."


LEAST = (1, 5, 0)
"""What the rendered roots ask for (terraform/root.py)."""
ASK_S = 60.0
"""How long a question to the tool takes at most."""
COMMAND_POLL_S = 0.2
SAY_S = 20.0
"""How often it is said how far an apply is."""
STOPPING_S = 3600.0
"""After an order to stop: what was begun is ended first. Bare metal takes longest, some tens of minutes."""
KILLING_S = 30.0
"""After a second order: the tool ends at once, and writes what it knows."""
_OURS = re.compile(r"TF_CLI_ARGS(?:_.*)?|TF_WORKSPACE|TF_DATA_DIR")
"""Variables that change what a command does or which state it has: the plan is to be that of the spec."""
_LOCKED = re.compile(r"Error acquiring the state lock|Error locking state")
MEND = "mend what it says, then run the same command: it goes on from there"
_STALE = "Saved plan is stale"


@dataclass(frozen=True)
class TerraformCommand:
    """One of the two tools; both take the same words."""

    name: str
    caller: Caller
    login: Mapping[str, str] = field(default_factory=dict)
    poll_s: float = COMMAND_POLL_S

    def check(self) -> None:
        """Raise GridwrightError where it is not here, or too old."""
        remedy = (
            f"install {self.name} {'.'.join(map(str, LEAST))} or later, or write deploy: resource-manager"
        )
        if shutil.which(self.name) is None:
            raise environment_error(f"{self.name} is not on this machine", where="oci.deploy", remedy=remedy)
        found = self._version()
        if found < LEAST:
            version = ".".join(map(str, found))
            raise environment_error(f"{self.name} {version} is too old", where="oci.deploy", remedy=remedy)

    def _version(self) -> tuple[int, ...]:
        answer = run_bounded(
            [self.name, "version", "-json"], environment=self._environment(), timeout_s=ASK_S
        )
        try:
            text = str(json.loads(answer.stdout)["terraform_version"])
            return tuple(int(each) for each in text.partition("-")[0].split("."))
        except (ValueError, KeyError, TypeError):
            raise environment_error(
                f"{self.name} does not say its version",
                where=shutil.which(self.name),
                remedy=f"run {self.name} version -json by hand",
            ) from None

    def ask(self, directory: Path, *words: str) -> CommandOutput:
        """A question that changes nothing. Raises GridwrightError where it takes too long."""
        at = CommandPlace(directory=str(directory))
        return run_bounded(
            [self.name, *words],
            environment=self._environment(),
            timeout_s=ASK_S,
            name=self._title(words),
            at=at,
        )

    def run(
        self,
        directory: Path,
        words: Sequence[str],
        *,
        timeout_s: float,
        what: str,
        total: int = 0,
        keeps: Sequence[int] = (),
    ) -> None:
        """Run a command to its end, and say how far it is of `total` resources.

        `what` begins what is said. `keeps` are descriptors that the tool keeps open as long as it runs.
        Raises GridwrightError with what it says; KeyboardInterrupt after an order to stop, once it has ended.
        """
        log = directory / f"{words[0]}.log"
        read = TerraformLines()
        with log.open("wb") as output, log.open("rb") as lines:
            process = subprocess.Popen(
                [self.name, *words],
                cwd=directory,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # The terminal's Ctrl-C reaches Gridwright alone, which passes it on.
                start_new_session=True,
                pass_fds=tuple(keeps),
            )
            in_time = _TerraformRun(self, process, lines, read, what, total).wait(timeout_s)
        if self.caller.stop.is_set() and process.returncode != 0:
            raise KeyboardInterrupt
        if not in_time:
            raise environment_error(
                f"{what}: {self._title(words)} had not ended after {timeout_s / 60:.0f} min: it was stopped",
                where=str(log),
                remedy="see in its log what it waited for, then run the same command: it goes on from there",
            )
        if process.returncode != 0:
            raise self._failed(what, words, read, log)

    def _failed(self, what: str, words: Sequence[str], read: TerraformLines, log: Path) -> GridwrightError:
        why = read.why or "it says nothing"
        if _LOCKED.search(why):
            remedy = (
                "wait for whoever holds the lock; where nobody does any more, run "
                f"{self.name} -chdir={log.parent} force-unlock ID, with the ID from {log}"
            )
        elif _STALE in why:
            remedy = "somebody has changed the state meanwhile: run the same command again, and read its plan"
        else:
            remedy = reason_remedy(why) or MEND
        return environment_error(f"{what}: {self._title(words)} failed: {why}", where=str(log), remedy=remedy)

    def _title(self, words: Sequence[str]) -> str:
        return f"{self.name} {words[0]}"

    def _environment(self) -> dict[str, str]:
        hold_settings_of_home()
        kept = {name: value for name, value in os.environ.items() if not _OURS.fullmatch(name)}
        return {
            **kept, **self.login, "TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1",
            "LC_ALL": "C.UTF-8",
        }  # fmt: skip


@dataclass
class _TerraformRun:
    """One run that is waited for."""

    command: TerraformCommand
    process: subprocess.Popen[bytes]
    lines: BinaryIO
    read: TerraformLines
    what: str
    total: int
    rest: bytes = b""
    said: float = field(default_factory=time.monotonic)

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended; whether that was in its time, or after an order to stop."""
        caller = self.command.caller
        try:
            in_time = self._has_ended(time.monotonic() + timeout_s)
            if self.process.poll() is None:
                if caller.stop.is_set():
                    caller.say(f"{self.what}: {self.command.name} ends what it has begun, and stops then")
                # Not to its group: the tool itself tells its plugins.
                self.process.send_signal(signal.SIGINT)
                self._end(STOPPING_S)
        except BaseException:
            # A second order to stop.
            self.process.send_signal(signal.SIGINT)
            self._end(KILLING_S)
            raise
        return in_time

    def _has_ended(self, deadline: float) -> bool:
        stop = self.command.caller.stop
        while self.process.poll() is None and not stop.is_set() and time.monotonic() < deadline:
            stop.wait(self.command.poll_s)
            self._look()
        self._look()
        return self.process.poll() is not None or stop.is_set()

    def _end(self, seconds: float) -> None:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            kill_group(self.process)
        self._look()

    def _look(self) -> None:
        *whole, self.rest = (self.rest + self.lines.read()).split(b"\n")
        if self.process.poll() is not None:
            *whole, self.rest = [*whole, *(self.rest + self.lines.read()).split(b"\n"), b""]
        self.read.take(each.decode("utf-8", "replace") for each in whole)
        if self.total and self.read.done and time.monotonic() - self.said > SAY_S:
            self.said = time.monotonic()
            self.command.caller.say(f"{self.what}: {self.read.done} of {self.total} changes are done")


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
