"""The health of a Spectrum Scale, as `mmhealth node show -Y` on the node reports it.

Written from IBM's manual (mmhealth command; -Y prints rows with colons and a header that names the columns,
special characters as %XX) and never run against a Spectrum Scale: what the rows do not say is left unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gridwright.errors import Finding, GridwrightError, Level
from gridwright.filesystems.free_space import read_free_space, space_findings
from gridwright.filesystems.health import Condition, Health, Run
from gridwright.filesystems.mount_table import mount_of, read_mounts
from gridwright.filesystems.scale.administration.y_format import records

MMHEALTH = "/usr/lpp/mmfs/bin/mmhealth"
LIMIT_S = 20.0
"""For mmhealth, which asks the node's monitor; it starts Python several times."""
_LEVELS: dict[str, Level] = {"FAILED": "error", "DEGRADED": "warning", "DEPEND": "warning", "TIPS": "info"}
"""Of the states of a component; HEALTHY, CHECKING, DISABLED and UNKNOWN are no fault of their own."""
_NAMES: dict[Level, str] = {"error": "scale-failed", "warning": "scale-degraded", "info": "scale-tips"}
_ORDER: tuple[Level, ...] = ("error", "warning", "info")
_MOST_EVENTS = 5


def health(run: Run, mount_point: str) -> Health:
    """How the Spectrum Scale mounted at `mount_point` is, as this node's monitor sees it. Takes root.

    Raises GridwrightError (status ENVIRONMENT) where the node itself does not answer.
    """
    mount = mount_of(mount_point, read_mounts(run))
    if mount is None or mount.type != "gpfs":
        there = f"there is {mount.type} of {mount.source}" if mount else "nothing is mounted there"
        text = f"no Spectrum Scale is mounted at {mount_point}: {there}"
        missing = Finding(
            "error", "filesystem-not-mounted", text, "mmmount FILESYSTEM; mmgetstate tells of the daemon"
        )
        return Health(condition=Condition.BROKEN, findings=[missing, *_monitored(run)])
    findings = _monitored(run)
    space = read_free_space(run, mount.point)
    if isinstance(space, str):
        text = f"{mount.point} does not answer: {space}. What touches it waits"
        silent = Finding(
            "error", "filesystem-silent", text, "See mmgetstate -a, mmdiag --waiters and mmfs.log.latest"
        )
        return Health(condition=Condition.SILENT, findings=[silent, *findings])
    findings = _sorted([*findings, *space_findings(space)])
    levels = {each.level for each in findings}
    return Health(
        condition=Condition.DEGRADED if levels & {"error", "warning"} else Condition.HEALTHY,
        findings=findings,
        capacity_bytes=space.total_bytes,
        available_bytes=space.available_bytes,
    )


def _monitored(run: Run) -> list[Finding]:
    try:
        answer = run([MMHEALTH, "node", "show", "-Y"], timeout_s=LIMIT_S)
    except GridwrightError as error:
        said = str(error).splitlines()[0]
    else:
        findings = list(monitor_findings(answer.stdout.decode(errors="replace")))
        if findings or b"mmhealth:State:0:" in answer.stdout:
            return _sorted(findings)
        said = answer.stderr.decode(errors="replace").strip()[:200] or f"exit status {answer.status}"
    text = f"the monitor of Spectrum Scale does not tell: {said}"
    return [
        Finding(
            "warning", "scale-silent", text, "Run it as root; see systemctl status mmsysmon and mmgetstate"
        )
    ]


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
