"""Starts the targets of a Lustre on the volumes of this server, at every start; formats a blank one, once.

Contract with everything that runs it (the role `lustre_targets`, its unit):

- The program is `targets.pyz` (`oci.files.TARGETS`), run as root with Python 3.9 or newer:
  `targets.pyz [--config FILE] [--dry-run] [--json]`.
- Volumes are there already under their names in /dev/oracleoci: the program of `volumes` gave them.
- What became of a volume is written down in the grid's bucket, below `targets/` (`TargetLedger`), before and
  after it is formatted: the bucket outlives machines.
- Exit status: 0 all targets are mounted, 2 FILE is wrong, 3 refused or failed, 130 and 143 interrupted; the
  next start finishes.

It looks, decides, does one thing, and looks again until all targets are mounted. FILE is
/etc/gridwright/targets.json: what this server is to serve, read and checked before anything is done.

```json
{
  "schema": 1,
  "grid": "demo",
  "name": "shared-oss1",
  "address": "10.30.128.18",
  "mgs": "10.30.128.16@tcp",
  "targets": [
    {"name": "shared-OST0000", "kind": "ost", "index": 0, "fsname": "shared", "with_mgt": false,
     "mount": "/srv/gridwright/shared-OST0000", "device": "/dev/oracleoci/oraclevdb"}
  ]
}
```

`mgs` is the management server; it may be this machine. `directories` may say where `dev`, `modprobe`, `run`
and `mounts` (a file) are, where they are not where Linux has them.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gridwright.node_programs.lustre_targets import (
    FORMATTED,
    FORMATTING,
    MACHINE,
    NEW,
    NID,
    Act,
    ClaimError,
    DesiredTarget,
    DiskVerdict,
    DiskWords,
    LustreTools,
    ManagementSilentError,
    SeenDisks,
    TargetReader,
    in_order,
    json_of,
    require_tools,
    verdict,
)
from gridwright.node_programs.scratch.command import complain, say
from gridwright.node_programs.scratch.commands import alone, interruptible, run
from gridwright.node_programs.scratch.problems import WRONG_INPUT, Interrupted, ScratchError, Trouble

# What is written down of the volumes of targets: an object of the grid's bucket for each target.
#
# `targets/SERVER/TARGET.json` has the OCID of the volume and its state. The bucket is storage: it stays when
# machines go. One machine has a volume at a time, as the attachment is not shareable, so no other one writes.

PREFIX = "targets/"
"""Of the objects, in the bucket."""
GONE = ("TERMINATING", "TERMINATED")
"""States of a volume that nobody has any more (Core Services API, Volume)."""


@dataclass(frozen=True)
class TargetNote:
    """What is known of the volume of a target."""

    volume: str
    state: str


class TargetLedger(Protocol):
    """Where it is written down, and what the cloud says of volumes; each raises ClaimError where it fails."""

    def note(self, target: str) -> TargetNote | None:
        """What is written down of a target; None where nothing is."""

    def write(self, target: str, note: TargetNote) -> None:
        """Write it down."""

    def volumes(self) -> dict[str, str]:
        """OCIDs of the volumes that this machine has, by their name in /dev."""

    def is_gone(self, volume: str, known: str) -> bool:
        """Whether a volume was terminated, for certain; `known` is one that is there."""


class BucketLedger:
    """See TargetLedger. `cloud` is boot/cloud.py's Cloud, `refused` what it raises."""

    def __init__(self, cloud: Any, server: str, refused: type[Exception]) -> None:  # noqa: ANN401 - shipped alone
        self._cloud, self._server, self._refused = cloud, server, refused
        self._reads = False

    def note(self, target: str) -> TargetNote | None:
        """What is written down of a target."""
        key = self._key(target)
        try:
            bucket = self._cloud.settings["bucket"]
            content = self._cloud.get_object(Bucket=bucket, Key=key)["Body"].read()
        except self._refused as refused:
            if getattr(refused, "status", 0) == 404 and self._may_read():
                return None
            raise ClaimError(_unread(key, str(refused))) from None
        try:
            data = json.loads(content)
            found = TargetNote(str(data["volume"]), str(data["state"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ClaimError(_unread(key, f"it is damaged ({error!r})")) from None
        if found.state not in (FORMATTING, FORMATTED):
            raise ClaimError(_unread(key, f"its state is {found.state!r}"))
        return found

    def _may_read(self) -> bool:
        """Whether an object that is not there is told from one that this machine may not see: by its own."""
        key = f"{PREFIX}{self._server}/here"
        try:
            if not self._reads:
                self._cloud.keep(key, b"")
                self._cloud.get_object(Bucket=self._cloud.settings["bucket"], Key=key)
        except self._refused:
            return False
        self._reads = True
        return True

    def write(self, target: str, note: TargetNote) -> None:
        """Write it down."""
        key = self._key(target)
        text = json.dumps({"schema": 1, "volume": note.volume, "state": note.state}) + "\n"
        try:
            self._cloud.keep(key, text.encode())
        except self._refused as refused:
            what = f"object {key} of the bucket cannot be written: {refused}"
            raise ClaimError(Trouble(what, "see the policy of the servers; nothing was formatted")) from None

    def volumes(self) -> dict[str, str]:
        """OCIDs of attached volumes by device."""
        try:
            listed = self._cloud.attachments()
        except self._refused as refused:
            what = f"the cloud does not tell what is attached: {refused}"
            raise ClaimError(Trouble(what, "see the policy of the servers")) from None
        return {
            str(each["device"]): str(each["volumeId"])
            for each in listed
            if each.get("lifecycleState") == "ATTACHED" and each.get("device") and each.get("volumeId")
        }

    def is_gone(self, volume: str, known: str) -> bool:
        """Whether a volume was terminated: the cloud says so, or knows the other one and not this one.

        Status 404 alone may also mean that this machine is not allowed to ask.
        """
        try:
            return str(self._cloud.volume(volume).get("lifecycleState")) in GONE
        except self._refused as refused:
            if getattr(refused, "status", 0) != 404:
                return False
        try:
            self._cloud.volume(known)
        except self._refused:
            return False
        return True

    def _key(self, target: str) -> str:
        return f"{PREFIX}{self._server}/{target}.json"


def state_of(ledger: TargetLedger, target: str, volume: str) -> str:
    """What is known of a volume. Raises ClaimError where the target was on another one that is there."""
    note = ledger.note(target)
    if note is None:
        return NEW
    if note.volume == volume:
        return note.state
    if note.state == FORMATTED and not ledger.is_gone(note.volume, volume):
        raise ClaimError(
            Trouble(
                f"{target} was on volume {note.volume}, and {volume} is attached in its place",
                f"attach {note.volume} again; or, if {volume} was made from a backup of it, remove the "
                f"object {PREFIX}SERVER/{target}.json from the grid's bucket",
            )
        )
    return NEW


def _unread(key: str, why: str) -> Trouble:
    return Trouble(
        f"object {key} of the bucket says whether the volume was formatted, and is not read: {why}",
        "see the policy of the servers and the bucket; nothing was formatted",
    )


TARGETS_FILE = Path("/etc/gridwright/targets.json")
SCHEMA = 1
DEVICE = r"/dev/oracleoci/oraclevd(?:[b-z]|a[a-g])"
"""The names that Compute gives to attachments (Oracle Cloud, consistent device paths)."""
_WRITE_ANEW = "have the machine set up again, which writes it"


@dataclass(frozen=True)
class TargetPaths:
    """The paths that are used on this system."""

    dev: Path = Path("/dev")
    modprobe: Path = Path("/etc/modprobe.d")
    run: Path = Path("/run/gridwright")
    mounts: Path = Path("/proc/self/mounts")


@dataclass(frozen=True)
class TargetsConfiguration:
    """All that the file says."""

    grid: str
    name: str
    address: str
    mgs: str
    targets: tuple[DesiredTarget, ...]
    devices: dict[str, str]
    """The name in /dev of each target's volume."""
    directories: TargetPaths = field(default_factory=TargetPaths)

    def mgs_of(self, target: DesiredTarget) -> str | None:
        """The management server that a target registers with; None where it is on the target itself."""
        return None if target.has_mgs else self.mgs


def read_targets(path: Path) -> TargetsConfiguration:
    """Read and check the file. Raises ClaimError (status 2) with everything that is wrong in it."""
    reader = _TargetsReader()
    found = reader.configuration(json_of(path, _WRITE_ANEW, _WRITE_ANEW))
    if reader.troubles:
        where = [Trouble(f"{path}: {each.what}", each.remedy) for each in reader.troubles]
        raise ClaimError(*where, status=WRONG_INPUT)
    return found


class _TargetsReader(TargetReader):
    """Reads the file."""

    more = frozenset({"device"})

    def configuration(self, data: Any) -> TargetsConfiguration:  # noqa: ANN401 - whatever JSON holds
        known = {"schema", "grid", "name", "address", "mgs", "targets", "directories"}
        given = self.mapping(data, "the file", known)
        if given.get("schema") != SCHEMA:
            self.wrong("schema", given.get("schema"), f"{SCHEMA}; another Gridwright may have written it")
        listed = self.list(given.get("targets"), "targets")
        targets = [self.target(each, f"targets[{index}]") for index, each in enumerate(listed)]
        if not targets:
            self.wrong("targets", listed, "at least one target")
        devices = {
            target.name: self.text(each, "device", DEVICE, "a consistent device path", f"targets[{index}]")
            for index, (target, each) in enumerate(zip(targets, listed))  # noqa: B905 - Python 3.9
            if isinstance(each, dict)
        }
        for what, values in (
            ("name", [each.name for each in targets]),
            ("device", list(devices.values())),
            ("mount", [str(each.mount) for each in targets]),
        ):
            self.once(f"targets: {what}", values, "one that no other target has")
        try:
            address = str(ipaddress.IPv4Address(given.get("address")))
        except ValueError:
            address = "0.0.0.0"  # noqa: S104 - nothing listens there: the file is refused
            self.wrong("address", given.get("address"), "an IPv4 address")
        return TargetsConfiguration(
            grid=self.text(given, "grid", MACHINE, "the name of the grid"),
            name=self.text(given, "name", MACHINE, "the name of this server"),
            address=address,
            mgs=self.text(given, "mgs", NID, "the management server, such as 10.30.128.16@tcp"),
            targets=in_order(targets),
            devices=devices,
            directories=self.directories(given.get("directories", {}), TargetPaths),
        )


AGAIN = "then start again: systemctl restart gridwright-targets"


class SeenServer(SeenDisks, Protocol):
    """What a decision asks of the machine."""

    def missing(self) -> tuple[str, ...]:
        """Programs that a server of Lustre needs and that are not there."""

    def nids(self) -> tuple[str, ...]:
        """Addresses of Lustre's network."""

    def link(self, address: str) -> str | None:
        """The network interface that has an address."""


@dataclass(frozen=True)
class NetworkStep:
    """Bring Lustre's network up."""

    link: str

    def __str__(self) -> str:
        return f"bring Lustre's network up on {self.link}"


@dataclass(frozen=True)
class TargetStep:
    """One thing that is done with one target."""

    target: DesiredTarget
    volume: str
    path: str
    verdict: DiskVerdict

    def __str__(self) -> str:
        name, act = self.target.name, self.verdict.act
        return {
            Act.NOTE_FORMATTING: f"write down: {self.path} is blank, and about to be formatted as {name}",
            Act.NOTE_FORMATTED: f"write down: {self.path} holds {name}",
            Act.FORMAT: f"format {self.path} as {name}",
            Act.MOUNT: f"mount {self.path} with {name} on {self.target.mount}",
        }.get(act, f"wait until {name} can be registered")


def next_of_server(
    configuration: TargetsConfiguration, seen: SeenServer, ledger: TargetLedger
) -> NetworkStep | TargetStep | None:
    """What is to be done next; None where all targets are mounted. Raises ClaimError."""
    require_tools(seen.missing(), "oci.server_image")
    volumes = _volumes(configuration, ledger)
    step = _network(configuration, seen)
    if step is not None:
        return step
    for target in configuration.targets:
        device = configuration.devices[target.name]
        path, volume = _path(configuration, device, target.name), volumes[device]
        found = verdict(
            seen,
            target,
            path,
            state_of(ledger, target.name, volume),
            configuration.mgs_of(target),
            _words(volume, device),
        )
        if found.act is not Act.NOTHING:
            return TargetStep(target, volume, path, found)
    return None


def _words(volume: str, device: str) -> DiskWords:
    return DiskWords(
        volume=f"volume {volume} at {device}",
        meant="attached",
        restore="if there is a backup of it, make a volume from that and attach it in its place",
        again=AGAIN,
        silent="look at its own targets there: systemctl status gridwright-targets",
    )


def _volumes(configuration: TargetsConfiguration, ledger: TargetLedger) -> dict[str, str]:
    """The volume at each device. Raises ClaimError with all that are missing."""
    found = ledger.volumes()
    lacking = [
        Trouble(
            f"no volume is attached to this machine as {device}, where {name} belongs",
            "apply the grid anew; what attaches volumes says more: systemctl status gridwright-volumes. "
            "Nothing was formatted",
        )
        for name, device in configuration.devices.items()
        if device not in found
    ]
    if lacking:
        raise ClaimError(*lacking)
    return found


def _path(configuration: TargetsConfiguration, device: str, target: str) -> str:
    """The disk that a name in /dev leads to now."""
    named = configuration.directories.dev / device.removeprefix("/dev/")
    path = os.path.realpath(named)
    if not named.exists():
        what = f"{device} with {target} is attached, and no disk of this machine is it"
        raise ClaimError(Trouble(what, f"systemctl restart gridwright-volumes; {AGAIN}"))
    return path


def _network(configuration: TargetsConfiguration, seen: SeenServer) -> NetworkStep | None:
    """Lustre's network on the address that clients know, which stays when the machine is made anew."""
    nids = seen.nids()
    desired = f"{configuration.address}@tcp"
    if desired in nids:
        return None
    if nids:
        raise ClaimError(
            Trouble(
                f"Lustre's network is up as {', '.join(nids)}, and {configuration.name} is {desired}",
                f"take it down (lustre_rmmod), or restart the machine; {AGAIN}",
            )
        )
    link = seen.link(configuration.address)
    if link is None:
        what = f"no network interface of this machine has {configuration.address}, which clients know"
        raise ClaimError(
            Trouble(what, f"see ip addr; a second card: systemctl restart gridwright-cards; {AGAIN}")
        )
    return NetworkStep(link)


MGS_S = 900.0
"""The management server may be made at the same time."""
_PAUSE_S = 5.0
_MOST_STEPS = 2000
"""Far above what 32 targets take: who comes here is going round in circles."""


class ServerMachine(SeenServer, Protocol):
    """What changes the machine."""

    def start_network(self, link: str) -> None:
        """Bring Lustre's network up on an interface."""

    def format(self, path: str, target: DesiredTarget, mgs: str | None) -> None:
        """Make a target of a disk. What it held is lost."""

    def mount(self, path: str, target: DesiredTarget) -> None:
        """Start the target. Raises ManagementSilentError where nobody registers it."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""

    def now(self) -> float:
        """Seconds of a clock that never goes back."""


@dataclass
class Serving:
    """One server on its way."""

    configuration: TargetsConfiguration
    machine: ServerMachine
    ledger: TargetLedger
    tell: Callable[[str], None] = lambda _: None
    """Hears of each step before it is carried out."""
    _since: dict[str, float] = field(default_factory=dict)

    def look(self) -> NetworkStep | TargetStep | None:
        """The next step. Raises ClaimError where nothing may be done."""
        return next_of_server(self.configuration, self.machine, self.ledger)

    def run(self) -> None:
        """Go on until all is mounted. Raises ClaimError."""
        for _ in range(_MOST_STEPS):
            step = self.look()
            if step is None:
                return
            self.do(step)
        raise ClaimError(Trouble("the targets do not come up", "see what it does: --json; report it"))

    def do(self, step: NetworkStep | TargetStep) -> None:
        """Carry one step out. Raises ClaimError."""
        if isinstance(step, NetworkStep):
            self.tell(str(step))
            self.machine.start_network(step.link)
            return
        act, target = step.verdict.act, step.target
        if act is Act.AWAIT:
            self._wait(step)
            return
        self.tell(str(step))
        if act is Act.NOTE_FORMATTING:
            self.ledger.write(target.name, TargetNote(step.volume, FORMATTING))
        elif act is Act.NOTE_FORMATTED:
            self.ledger.write(target.name, TargetNote(step.volume, FORMATTED))
        elif act is Act.FORMAT:
            self.machine.format(step.path, target, self.configuration.mgs_of(target))
        elif act is Act.MOUNT:
            try:
                self.machine.mount(step.path, target)
            except ManagementSilentError:
                # A network that answers is no management server: a mount alone shows that one runs.
                if step.verdict.silence is None:
                    raise
                self._wait(step)

    def _wait(self, step: TargetStep) -> None:
        now = self.machine.now()
        name, silence = step.target.name, step.verdict.silence
        began = self._since.setdefault(name, now)
        if now - began >= MGS_S and silence is not None:
            raise ClaimError(Trouble(f"{silence.what}; waited {MGS_S:.0f} s", silence.remedy))
        self.machine.wait(_PAUSE_S)


_LOOK_S = 30.0


class ThisServer(LustreTools):
    """See `deciding.SeenServer`."""

    options_file = "61-gridwright-targets.conf"
    writer = "gridwright-targets"
    again = AGAIN

    def __init__(self, configuration: TargetsConfiguration) -> None:
        self.mounts = configuration.directories.mounts
        self.modprobe = configuration.directories.modprobe

    def link(self, address: str) -> str | None:
        """The network interface that has an address (ip-address(8), JSON output)."""
        ended = run(["ip", "-json", "-4", "address", "show", "to", f"{address}/32"], _LOOK_S)
        try:
            found = json.loads(ended.output) if ended.well else []
            names = [str(each["ifname"]) for each in found if each]
        except (ValueError, KeyError, TypeError):
            return None
        return names[0] if names else None

    def mounted(self, target: DesiredTarget) -> str | None:
        """The disk that is mounted there, whatever name it was mounted by."""
        there = super().mounted(target)
        return None if there is None else os.path.realpath(there)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def now(self) -> float:
        """Seconds of a clock that never goes back."""
        return time.monotonic()


BOOT = Path(os.environ.get("GRIDWRIGHT_ROOT") or "/") / "etc/gridwright/boot.json"
"""Settings that the machine began with: bucket and namespace are in it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 where all targets are mounted."""
    parser = argparse.ArgumentParser(prog="targets", description="Start the targets of this Lustre server.")
    parser.add_argument("--config", type=Path, default=TARGETS_FILE, metavar="FILE", help="what it serves")
    parser.add_argument("--dry-run", action="store_true", help="print the next step, and do nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args(arguments)
    done: list[str] = []
    troubles: Sequence[Trouble] = ()
    status = 0
    try:
        with interruptible():
            _run(given.config, done, dry=given.dry_run, quiet=given.json)
    except ScratchError as error:
        troubles, status = error.troubles, error.status
    except Interrupted as error:
        troubles = (Trouble(str(error), "what was begun is finished at the next start"),)
        status = error.status
    complain(troubles)
    if given.json:
        problems = [{"what": each.what, "remedy": each.remedy} for each in troubles]
        say(json.dumps({"schema": 1, "ok": not status, "steps": done, "problems": problems}, indent=2))
    return status


def _run(config: Path, done: list[str], *, dry: bool, quiet: bool) -> None:
    configuration = read_targets(config)
    if os.geteuid() != 0:
        raise ScratchError(Trouble("only root can format and mount", "run it with sudo"))

    def tell(step: str) -> None:
        done.append(step)
        if not quiet:
            say(step)

    serving = Serving(configuration, ThisServer(configuration), _ledger(configuration.name), tell)
    if dry:
        step = serving.look()
        tell(f"next: {step}; what follows is seen then" if step is not None else "nothing is to be done")
        return
    with alone(configuration.directories.run / "targets.lock", "another one is at work on the targets"):
        serving.run()
    if not quiet:
        say(f"{configuration.name} serves its targets" + ("" if done else "; nothing was to be done"))


def _ledger(server: str) -> TargetLedger:
    from gridwright.providers.oci.boot import cloud

    try:
        settings = json.loads(BOOT.read_text("utf-8"))
        settings["bucket"], settings["namespace"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"{BOOT} does not name the grid's bucket: {error!r}"
        raise ClaimError(Trouble(what, "the machine writes it when it starts: restart it")) from None
    return BucketLedger(cloud.Cloud(settings), server, cloud.REFUSED)
