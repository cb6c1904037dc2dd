"""The health of a Spectrum Scale, as its own commands on a node tell it.

Written from IBM's manual (-Y prints rows with colons and a header that names the columns, special characters
as %XX) and never run against a Spectrum Scale: what the rows do not say is left unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gridwright.errors import Finding, GridwrightError, Level
from gridwright.filesystems.free_space import read_free_space, space_findings
from gridwright.filesystems.health import Condition, Health, Run, TargetHealth, TimeUp
from gridwright.filesystems.mount_table import mount_of, read_mounts
from gridwright.filesystems.scale.administration.order import BIN
from gridwright.filesystems.scale.administration.y_format import records
from gridwright.filesystems.scale.daemon_states import filesystem_findings, waiter_findings
from gridwright.filesystems.scale.disk_states import disk_findings, disks_of, path_findings, serves
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.filesystems.scale.pool_states import TOLD, pool_findings

LIMIT_S = 15.0
"""For each command: mmhealth asks the node's monitor and starts Python several times, others the cluster."""
MOST_HANGING = 2
"""Where so many did not end, no more are asked: what they wait for keeps all others, too."""
_LEVELS: dict[str, Level] = {"FAILED": "error", "DEGRADED": "warning", "DEPEND": "warning", "TIPS": "info"}
"""Of the states of a component; HEALTHY, CHECKING, DISABLED and UNKNOWN are no fault of their own."""
_NAMES: dict[Level, str] = {"error": "scale-failed", "warning": "scale-degraded", "info": "scale-tips"}
_ORDER: tuple[Level, ...] = ("error", "warning", "info")
_MOST_EVENTS = 5


def health(filesystem: ScaleFileSystem, run: Run, mount_point: str) -> Health:
    """How the Spectrum Scale mounted at `mount_point` is, as this node sees it. Takes root.

    Raises GridwrightError (status ENVIRONMENT) where the node itself does not answer.
    """
    mount = mount_of(mount_point, read_mounts(run))
    reader = _CommandReader(run)
    if mount is None or mount.type != "gpfs":
        there = f"there is {mount.type} of {mount.source}" if mount else "nothing is mounted there"
        text = f"no Spectrum Scale is mounted at {mount_point}: {there}"
        missing = Finding(
            "error", "filesystem-not-mounted", text, "mmmount FILESYSTEM; mmgetstate tells of the daemon"
        )
        return Health(condition=Condition.BROKEN, findings=[missing, *_of_node(reader), *reader.silent()])
    # First: what follows may take all of the time that there is.
    space = read_free_space(run, mount.point)
    findings = _of_node(reader)
    if isinstance(space, str):
        text = f"{mount.point} does not answer: {space}. What touches it waits"
        silent = Finding(
            "error", "filesystem-silent", text, "See mmgetstate -a, mmdiag --waiters and mmfs.log.latest"
        )
        return Health(condition=Condition.SILENT, findings=[silent, *findings, *reader.silent()])
    targets: list[TargetHealth] = []
    # Commands about disks are of the cluster that has them.
    if filesystem.remote is None:
        device = mount.source.rpartition("/")[2]
        targets, more = _of_cluster(reader, filesystem, device)
        findings += more
    findings = _sorted([*findings, *reader.silent(), *space_findings(space)])
    return Health(
        condition=_condition(filesystem, findings),
        findings=findings,
        targets=targets,
        capacity_bytes=space.total_bytes,
        available_bytes=space.available_bytes,
    )


def _condition(filesystem: ScaleFileSystem, findings: Sequence[Finding]) -> Condition:
    if filesystem.replicas == 1 and any(finding.name == "scale-disk-down" for finding in findings):
        return Condition.BROKEN
    levels = {finding.level for finding in findings}
    return Condition.DEGRADED if levels & {"error", "warning"} else Condition.HEALTHY


class _CommandReader:
    """Commands that were asked, and which of them told nothing."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._silent: dict[str, str] = {}
        self._hanging = 0

    def __call__(self, *words: str, told: bytes = b"HEADER:") -> str:
        """What a command printed; empty where it did not end in time, or has no row of such."""
        name = words[0]
        if self._hanging >= MOST_HANGING:
            return ""
        try:
            answer = self._run([f"{BIN}/{name}", *words[1:]], timeout_s=LIMIT_S)
        except (GridwrightError, TimeUp) as error:
            self._silent.setdefault(name, str(error).splitlines()[0])
            self._hanging = MOST_HANGING if isinstance(error, TimeUp) else self._hanging + 1
            return ""
        if told not in answer.stdout:
            said = answer.stderr.decode(errors="replace").strip()[:200]
            self._silent.setdefault(name, said or f"exit status {answer.status}")
        return answer.stdout.decode(errors="replace")

    def host(self) -> str:
        """The name of the node that commands run on; empty where there was no time to ask."""
        try:
            return self._run(["uname", "-n"]).stdout.decode(errors="replace").strip()
        except TimeUp:
            return ""

    def silent(self) -> list[Finding]:
        """One finding for all of them: what keeps one from answering keeps the others, too."""
        if not self._silent:
            return []
        told = "; ".join(f"{name}: {why}" for name, why in self._silent.items())
        return [
            Finding(
                "warning",
                "scale-silent",
                f"commands of Spectrum Scale do not tell how it is: {told}",
                "Run it as root; see mmgetstate, systemctl status mmsysmon, and /var/adm/ras/mmfs.log.latest",
            )
        ]


def _of_node(reader: _CommandReader) -> list[Finding]:
    """What the node's own monitor and daemon tell."""
    monitored = reader("mmhealth", "node", "show", "-Y", told=b"mmhealth:State:0:")
    # No thread waits where there are no rows at all.
    waiting = reader("mmdiag", "--waiters", "-Y", told=b"")
    return _sorted([*monitor_findings(monitored), *waiter_findings(waiting)])


def _of_cluster(
    reader: _CommandReader, filesystem: ScaleFileSystem, device: str
) -> tuple[list[TargetHealth], list[Finding]]:
    """The disks of its own cluster, and what it was made with."""
    disks = reader("mmlsdisk", device, "-Y")
    findings = [*disk_findings(disks, device)]
    made = reader("mmlsfs", device, "-Y")
    findings += filesystem_findings(made, device, int(filesystem.block_size), filesystem.replicas)
    # All servers are asked over ssh then: by these themselves, and not by every node.
    if serves(reader("mmlsnsd", "-Y"), reader.host()):
        # What tells the room of pools reads maps of the disks, and is for servers, too.
        if filesystem.pool_names:
            findings += pool_findings(reader("mmlspool", device, told=TOLD), device)
        findings += path_findings(reader("mmlsnsd", "-X", "-Y"))
    return disks_of(disks), findings


def monitor_findings(printed: str) -> Iterator[Finding]:
    """One finding for each component that is not well, with the events that made it so."""
    rows = records(printed)
    events: dict[str, list[str]] = defaultdict(list)
    for row in rows.get("Event", []):
        if row.get("event"):
            events[row.get("component", "")].append(row["event"])
    worst: dict[str, str] = {}
    for row in rows.get("State", []):
        component, status = row.get("component", ""), row.get("status", "")
        # NODE is the worst of all others.
        if component not in ("", "NODE") and status in _LEVELS:
            known = worst.get(component)
            if known is None or _rank(status) < _rank(known):
                worst[component] = status
    for component, status in sorted(worst.items()):
        level = _LEVELS[status]
        why = ", ".join(dict.fromkeys(events[component][:_MOST_EVENTS]))
        yield Finding(
            level,
            _NAMES[level],
            f"Spectrum Scale: {component} is {status}{f' ({why})' if why else ''}",
            "mmhealth node show; mmhealth event show EVENT says what to do",
        )


def _rank(status: str) -> int:
    return _ORDER.index(_LEVELS[status])


def _sorted(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda each: _ORDER.index(each.level))
