"""The health of a MooseFS: what its master reports of its servers, targets, data and traffic.

Everything is read through `mfscli` of MooseFS 3.0, which asks the master and the chunk servers; it runs on
any node that reaches them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from gridwright.errors import Finding, GridwrightError, Level, environment_error
from gridwright.filesystems.health import Condition, Health, Run, Server, TargetHealth, Traffic
from gridwright.units import format_bytes

MASTER = "mfsmaster"
"""The host name of the master that MooseFS takes where none is given."""
LIMIT_S = 10.0
"""For mfscli: a master that hangs is given up after 4 s by itself (measured with 3.0.117)."""
_SEPARATOR = "\t"
_NO_DATA = 2**64 - 1
"""What mfscli prints for a minute without data."""
_COLUMNS = ("databytesr", "databytesw", "datallopr", "datallopw")
_SPACE_SHORT = 0.05
"""Below this part of its capacity a file system counts as nearly full."""


def master_of_mount(source: str) -> str | None:
    """The master's host, out of the source of a mount: `mfs#storage1:9421` or `storage1:9421`."""
    match = re.fullmatch(r"(?:mfs#|mfs\\043)?([A-Za-z0-9._-]+)(?::\d+)?(?:/.*)?", source)
    return match[1] if match else None


def health(run: Run, master: str = MASTER) -> Health:
    """Ask how the file system is; a master that does not answer is a finding, too.

    Raises GridwrightError (status ENVIRONMENT) where mfscli cannot be run, or does not end in time.
    """
    report = _MasterReport()
    report.read(_ask(run, master, "-SIM", "-SIG", "-SIC", "-SCS"))
    if not report.answers:
        return Health(condition=Condition.SILENT, findings=[_silent(master, report)])
    try:
        # Of this, every chunk server is asked itself: one that hangs must not hide what the master said.
        report.read(_ask(run, master, "-SHD"))
    except GridwrightError:
        report.disks_unknown = True
    findings = report.findings()
    levels = {finding.level for finding in findings}
    worst = Condition.BROKEN if "error" in levels else Condition.DEGRADED
    return Health(
        condition=worst if findings else Condition.HEALTHY,
        findings=findings,
        servers=report.servers,
        targets=report.targets,
        capacity_bytes=report.number("total space"),
        available_bytes=report.number("avail space"),
    )


def traffic(run: Run, servers: Sequence[Server], master: str = MASTER) -> list[Traffic]:
    """What each server that is up moved to and from its targets in the last whole minute.

    A server that has been up for less than a minute is left out. Raises GridwrightError (status ENVIRONMENT)
    where mfscli cannot be run, or the master does not answer.
    """
    up = [server.name for server in servers if server.up]
    if not up:
        return []
    wanted = ",".join(f"{name}:+{column}" for name in up for column in _COLUMNS)
    printed = _ask(run, master, "-SCC", "-c", "1", "-d", wanted)
    rows = [row for row in _rows(printed) if row[0] == "Chunkserver chart data:"]
    if not rows:
        raise environment_error(
            f"MooseFS tells no traffic: {_first_line(printed)}", where=master, remedy="see gridwright status"
        )
    figures = [_number(each) for each in rows[0][2:]]
    found = []
    for place, name in enumerate(up):
        read, written, reads, writes = (
            *figures[place * len(_COLUMNS) : (place + 1) * len(_COLUMNS)],
            *[None] * len(_COLUMNS),
        )[: len(_COLUMNS)]
        if read is None or written is None or reads is None or writes is None or read == _NO_DATA:
            continue
        found.append(
            Traffic(
                server=name, seconds=60.0, read_bytes=read, written_bytes=written, reads=reads, writes=writes
            )
        )
    return found


def connected_servers(run: Run, master: str = MASTER) -> list[Server]:
    """The chunk servers that the master knows; none where it does not answer. Raises GridwrightError."""
    report = _MasterReport()
    report.read(_ask(run, master, "-SCS"))
    return report.servers


def _ask(run: Run, master: str, *sections: str) -> str:
    """What mfscli prints; its exit status says nothing: it is 0 when the master is dead, too."""
    command = ["mfscli", "-H", master, "-n", "-p", "-s", _SEPARATOR, *sections]
    answer = run(command, timeout_s=LIMIT_S)
    return (answer.stdout or answer.stderr).decode(errors="replace")


def _rows(printed: str) -> list[list[str]]:
    return [line.split(_SEPARATOR) for line in printed.splitlines() if line.strip()]


def _number(text: str) -> int | None:
    # No more digits than 64 bits have: what is longer is garbage, and int() would take long over it.
    return int(text) if re.fullmatch(r"[0-9]{1,20}", text) else None


def _first_line(printed: str) -> str:
    return next(
        (line.strip()[:200] for line in printed.splitlines() if line.strip()), "mfscli printed nothing"
    )


@dataclass(slots=True)
class _MasterReport:
    """What the rows of mfscli say, put together."""

    printed: str = ""
    master_state: str | None = None
    servers: list[Server] = field(default_factory=list)
    targets: list[TargetHealth] = field(default_factory=list)
    facts: dict[str, int | None] = field(default_factory=dict)
    disks_unknown: bool = False

    @property
    def answers(self) -> bool:
        """Whether a master answered: an empty file system has facts, too."""
        return "total space" in self.facts

    def number(self, name: str) -> int | None:
        """A figure of the master; None where it does not tell it."""
        return self.facts.get(name)

    def read(self, printed: str) -> None:
        """Take in what mfscli printed; rows that are not known are passed over."""
        self.printed += printed
        for row in _rows(printed):
            match row:
                case ["metadata servers:", _, _, state, *_]:
                    self.master_state = state
                case ["master info:", name, value, *_]:
                    self.facts[name] = _number(value)
                case ["all chunks matrix:", kind, count] if kind.startswith("chunkclass "):
                    self.facts[kind.rstrip(":")] = _number(count)
                case ["chunk servers:", host, port, _, _, _, load, maintenance, _, used, total, *_]:
                    self.servers.append(
                        Server(
                            name=f"{host}:{port}",
                            up=True,
                            state=_server_state(load, maintenance),
                            capacity_bytes=_number(total),
                            used_bytes=_number(used),
                        )
                    )
                case ["Disconnected chunk servers:", host, port, *_]:
                    self.servers.append(Server(name=f"{host}:{port}", up=False, state="disconnected"))
                case ["disks:", path, _, error, state, *rest]:
                    self.targets.append(_target(path, error, state, rest))

    def findings(self) -> list[Finding]:
        """What is wrong, the worst first."""
        return [*self._data_findings(), *self._space_findings(), *self._server_findings()]

    def _data_findings(self) -> list[Finding]:
        found = []
        if count := self.number("chunkclass missing"):
            found.append(
                Finding(
                    "error",
                    "data-missing",
                    f"{count} chunks have no copy on a server that is up: files with them cannot be read",
                    "Start the disconnected servers again; mfscli -SMF lists the files",
                )
            )
        for kind, words in (
            ("endangered", "have one copy left"),
            ("undergoal", "have fewer copies than asked for"),
        ):
            if count := self.number(f"chunkclass {kind}"):
                found.append(
                    Finding(
                        "warning",
                        f"data-{kind}",
                        f"{count} chunks {words}",
                        "Start the disconnected servers again; MooseFS makes the copies by itself",
                    )
                )
        return found

    def _space_findings(self) -> list[Finding]:
        capacity, available = self.number("total space"), self.number("avail space")
        if not capacity or available is None or available >= capacity * _SPACE_SHORT:
            return []
        return [
            Finding(
                "warning" if available else "error",
                "filesystem-full",
                f"{format_bytes(available)} of {format_bytes(capacity)} are left",
                "Remove files, or add a chunk server",
            )
        ]

    def _server_findings(self) -> list[Finding]:
        found = []
        up, away = ([server.name for server in self.servers if server.up == is_up] for is_up in (True, False))
        text = f"not connected: {', '.join(away)}" if away else ""
        if not up:
            text = text or "the master knows no chunk server"
        elif not self.number("total space"):
            text = text or "no chunk server offers room yet"
        if text:
            remedy = "See whether mfschunkserver runs on the storage nodes"
            level: Level = "warning" if up and self.number("total space") else "error"
            found.append(Finding(level, "server-away", text, remedy))
        bad = [target for target in self.targets if not target.up]
        if bad:
            words = ", ".join(f"{each.name} ({each.state})" for each in bad)
            found.append(
                Finding("warning", "target-bad", words, "Replace the disk, or check its file system")
            )
        if self.disks_unknown:
            text = "not all chunk servers tell of their disks"
            found.append(Finding("warning", "target-bad", text, "See whether one of them hangs"))
        return found


def _server_state(load: str, maintenance: str) -> str:
    if maintenance not in ("", "-", "maintenance_off"):
        return "in maintenance"
    return "overloaded" if not re.fullmatch(r"[0-9]+", load) else "connected"


def _target(path: str, error: str, state: str, rest: Sequence[str]) -> TargetHealth:
    """A row of a disk: eight figures of its traffic, then used and total, or how far its scan is."""
    match = re.match(r"([^:]*:\d+)", path)
    scanning = "progress:" in rest
    figures = [] if scanning else [_number(each) for each in rest[-2:]]
    used, total = figures if len(figures) == 2 else (None, None)
    return TargetHealth(
        name=path,
        server=match[1] if match else path,
        up="damaged" not in state and "invalid" not in state,
        state=state,
        capacity_bytes=total,
        used_bytes=used,
        last_error=_number(error),
    )


def _silent(master: str, report: _MasterReport) -> Finding:
    state = f" (mfscli: {report.master_state})" if report.master_state not in (None, "-") else ""
    reason = "" if state else f": {_first_line(report.printed)}"
    return Finding(
        "error",
        "master-silent",
        f"the MooseFS master {master} does not answer{state}{reason}; reads and writes wait for it",
        "See whether the node is up and mfsmaster runs there; after a crash: mfsmaster -a",
    )
