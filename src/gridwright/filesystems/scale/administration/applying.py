"""Carries commands of the administration out, each with its limit of time, and waits for what they begin.

Other clusters' file systems are made known and mounted where these let it in; what is known of them is read
from what commands print for people, as nobody has shown their columns of -Y. Servers whose daemon runs with
other settings than the cluster has are started again one after the other (a daemon reads some settings when
it starts: IBM Storage Scale, mmchconfig command): never are both servers of a pair down, nor so many quorum
nodes that the cluster stops. Nodes run this with Python 3.9.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.filesystems.scale.administration.desired import (
    DesiredNfs,
    DesiredNsd,
    DesiredRemote,
    ScaleCluster,
)
from gridwright.filesystems.scale.administration.difference import (
    ObservedPlacement,
    callbacks_of,
    pools_of_disks,
)
from gridwright.filesystems.scale.administration.nfs import ObservedNfs, observe_nfs, state_notes
from gridwright.filesystems.scale.administration.observed import (
    NodeNames,
    ObservedCluster,
    ScaleError,
    observe,
    records,
    same_value,
)
from gridwright.filesystems.scale.administration.order import BIN, STANZAS, ScaleCommand, filesets_of, mm
from gridwright.filesystems.scale.administration.reach import lost_paths, refused_disks

LOOK_S = 120.0
"""Of a command that looks; they ask all nodes."""
ACTIVE_S = 600.0
"""How long the daemon may take to become active: it takes quorum and recovers logs first."""
PAUSE_S = 2.0
ANSWER_PAUSE_S = 10.0
_NO_CLUSTER = "does not belong to a GPFS cluster"
"""What commands say on a node that is in none (message 6027-1382)."""
_NONE = re.compile(
    r"\bno\b[^.]*\b(found|defin|exist|install|regist)|\bno\b[^.]* to show"
    r"|\b(CES|protocol)\b[^.]*\bnot\b[^.]*\b(enabl|configur|defin)",
    re.IGNORECASE,
)
"""What commands that list say where there is nothing of the kind, such as that no disks were found."""
_PARTIAL = ("mmgetstate", "mmlsmount")
"""Commands that fail where a node is silent, and tell of all others all the same."""
_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
_SILENT = (255, 126, 127)
"""Exit status of ssh itself (ssh(1)), and of a shell without the command: the packages are not there yet."""
_AT_A_TIME = 16
_MOST = 2000
"""Characters of an error that are told."""


class Administration:
    """The commands of one node."""

    def __init__(
        self,
        directory: Path = Path(BIN),
        *,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        active_s: float = ACTIVE_S,
    ) -> None:
        """`directory` has the commands, here and on all nodes."""
        self._directory = directory
        self._pause = pause
        self._clock = clock
        self._active_s = active_s

    def observe(self, nodes: Collection[str]) -> ObservedCluster:
        """The cluster as it is, of which the grid wants these nodes. Raises ScaleError."""
        return observe(self._ask, nodes, self._probe)

    def carry_out(self, command: ScaleCommand) -> None:
        """Run one; the file of stanzas is the command's own. Raises ScaleError."""
        with tempfile.NamedTemporaryFile("w", suffix=".stanza", prefix="gridwright-") as file:
            file.write(command.stanzas)
            file.flush()
            words = [file.name if each == STANZAS else each for each in command.argv[1:]]
            status, _, error = self._run([str(self._directory / command.name), *words], command.limit_s)
        if status:
            raise ScaleError(f"{command.name} failed ({command.why}): {error.strip()[-_MOST:]}")

    def wait_until_active(self, nodes: Sequence[str]) -> None:
        """Wait until the daemons of these nodes work. Raises ScaleError with those that do not in time."""
        end = self._clock() + self._active_s
        while True:
            there = self.observe(nodes)
            lacking = [f"{name} is {there.nodes[name].state}" for name in nodes if name not in there.active]
            if not lacking:
                return
            if self._clock() >= end:
                raise ScaleError(
                    f"not active after {self._active_s:.0f} s: {', '.join(lacking)}; "
                    "see /var/adm/ras/mmfs.log.latest there"
                )
            self._pause(PAUSE_S)

    def wait_until_answering(self, nodes: Collection[str], limit_s: float) -> None:
        """Wait until all nodes answer where there is no cluster yet; who does not in time is `refused`."""
        end = self._clock() + limit_s
        while self._clock() < end:
            there = self.observe(nodes)
            if there.name or not there.silent:
                return
            self._pause(ANSWER_PAUSE_S)

    def refused_disks(self, nsds: Sequence[DesiredNsd]) -> tuple[str, ...]:
        """Disks that are to be made NSDs, and hold something. Raises ScaleError where some are not there."""
        return tuple(refused_disks(nsds, lambda node, command: self._run([*_SSH, node, command], LOOK_S)))

    def lost_paths(self) -> tuple[str, ...]:
        """Servers that do not see a disk of theirs; nothing where the servers cannot be asked."""
        _, printed, _ = self._run([str(self._directory / "mmlsnsd"), "-X", "-Y"], LOOK_S)
        return tuple(lost_paths(printed))

    def configurations(self, nodes: Collection[str]) -> Mapping[str, str]:
        """What the daemons of nodes run with, as mmdiag prints it; without those that do not tell."""
        command = f"{self._directory / 'mmdiag'} --config"
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            answers = pool.map(lambda node: self._run([*_SSH, node, command], LOOK_S), nodes)
            return {
                node: printed
                for node, (status, printed, _) in zip(nodes, answers)  # noqa: B905 - Python 3.9
                if status == 0
            }

    def remotes(self) -> KnownRemotes:
        """What the cluster knows of others. Raises ScaleError."""
        return known_remotes(
            self._ask("mmremotecluster", "show", "all") or "", self._ask("mmremotefs", "show", "all") or ""
        )

    def placement(self, filesystems: Collection[str]) -> ObservedPlacement:
        """Policies of these file systems, the pools of their disks, and all callbacks. Raises ScaleError."""
        disks: dict[str, tuple[str, str]] = {}
        try:
            for name in filesystems:
                disks.update(pools_of_disks(self._ask("mmlsdisk", name, "-Y") or ""))
        except KeyError as column:
            raise ScaleError(f"mmlsdisk printed no column {column} with -Y") from None
        return ObservedPlacement(
            policies={name: self._ask("mmlspolicy", name, "-L") or "" for name in filesystems},
            disks=disks,
            callbacks=callbacks_of(self._ask("mmlscallback") or ""),
        )

    def filesets(self, device: str) -> frozenset[str]:
        """Those of a file system. Raises ScaleError."""
        return filesets_of(self._ask("mmlsfileset", device, "-Y") or "")

    def nfs(self, desired: DesiredNfs, observed: ObservedCluster) -> ObservedNfs:
        """What there is of CES, and of the exports that are wanted. Raises ScaleError."""
        root = observed.settings.get(("cesSharedRoot", ""), "")
        try:
            return observe_nfs(self._ask, root, observed.nodes, [export.path for export in desired.exports])
        except KeyError as column:
            raise ScaleError(f"a command of CES printed no column {column} with -Y") from None

    def nfs_state(self, device: str, *, is_settled: bool) -> tuple[str, ...]:
        """What is not well with CES and the ACLs of its file system."""
        return tuple(state_notes(self._ask, device, is_settled=is_settled))

    def is_directory(self, path: str) -> bool:
        """Whether this node has such a directory."""
        return self._run(["test", "-d", path], LOOK_S)[0] == 0

    def make_directory(self, path: str) -> None:
        """Make one right below a mount point of this node. Raises ScaleError."""
        mount = path.rpartition("/")[0]
        if self._run(["mountpoint", "-q", mount], LOOK_S)[0]:
            raise ScaleError(f"nothing is mounted at {mount} here, so that {path} would be on another disk")
        status, _, error = self._run(["mkdir", "-m", "0755", "-p", path], LOOK_S)
        if status:
            raise ScaleError(f"mkdir failed ({path}): {error.strip()[-_MOST:]}")

    def mounted(self, device: str, nodes: Collection[str]) -> frozenset[str]:
        """Those of these nodes that have a file system mounted. Raises ScaleError."""
        named = NodeNames(nodes)
        rows = records(self._ask("mmlsmount", device, "-L", "-Y") or "")
        return frozenset(named(row["nodeName"]) for each in rows.values() for row in each)

    def disks_away(self, filesystems: Collection[str]) -> frozenset[str]:
        """Disks of file systems that are not up. Raises ScaleError."""
        rows = [
            row
            for name in filesystems
            for rows in records(self._ask("mmlsdisk", name, "-Y") or "").values()
            for row in rows
        ]
        return frozenset(row["nsdName"] for row in rows if row["availability"].lower() != "up")

    def _ask(self, name: str, *words: str) -> str | None:
        status, printed, error = self._run([str(self._directory / name), *words], LOOK_S)
        if status == 0 or (name in _PARTIAL and records(printed)):
            return printed
        if _NO_CLUSTER in error:
            return None
        if _NONE.search(error) and not printed.strip():
            return ""
        raise ScaleError(f"{name} failed: {error.strip()[-_MOST:]}")

    def _probe(self, nodes: Collection[str]) -> Mapping[str, str | None]:
        if not nodes:
            return {}
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            return dict(zip(nodes, pool.map(self._cluster_of, nodes)))  # noqa: B905 - Python 3.9

    def _cluster_of(self, node: str) -> str | None:
        command = f"{self._directory / 'mmlscluster'} -Y"
        status, printed, error = self._run([*_SSH, node, command], LOOK_S)
        if status in _SILENT:
            return None
        if _NO_CLUSTER in error:
            return ""
        summary = records(printed).get("clusterSummary")
        if status or not summary:
            raise ScaleError(f"mmlscluster failed on {node}: {error.strip()[-_MOST:]}")
        return summary[0]["clusterName"]

    def _run(self, argv: Sequence[str], limit_s: float) -> tuple[int, str, str]:
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=limit_s,
                check=False,
                text=True,
                errors="replace",
            )
        except FileNotFoundError:
            raise ScaleError(f"{argv[0]} is not there: install the site's packages first") from None
        except subprocess.TimeoutExpired:
            raise ScaleError(f"{argv[0]} has not ended within {limit_s:.0f} s") from None
        return done.returncode, done.stdout, done.stderr


@dataclass(frozen=True)
class KnownRemotes:
    """What this cluster knows of others."""

    clusters: frozenset[str] = frozenset()
    filesystems: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    """By their name here: the name there, the cluster, the mount point."""


def known_remotes(clusters: str, filesystems: str) -> KnownRemotes:
    """Out of `mmremotecluster show all` and `mmremotefs show all`."""
    rows = [line.split() for line in filesystems.splitlines()]
    return KnownRemotes(
        frozenset(re.findall(r"^Cluster name:[ \t]*(\S+)[ \t]*$", clusters, re.MULTILINE)),
        # Local name, remote name, cluster, mount point, and what is not looked at.
        {row[0]: (row[1], row[2], row[3]) for row in rows if len(row) > 3 and row[3].startswith("/")},
    )


def definitions(desired: ScaleCluster, known: KnownRemotes) -> Iterator[ScaleCommand]:
    """What makes them known. Raises ScaleError for a name that is another file system's."""
    for remote in desired.remotes:
        if not remote.key:
            continue
        if remote.cluster not in known.clusters:
            yield mm(
                *("mmremotecluster", "add", remote.cluster, "-n", ",".join(remote.contacts), "-k", STANZAS),
                why=f"know cluster {remote.cluster} by its public key",
                stanzas=remote.key if remote.key.endswith("\n") else f"{remote.key}\n",
            )
        there = known.filesystems.get(remote.device)
        if there is None:
            yield mm(
                *("mmremotefs", "add", remote.device, "-f", remote.filesystem, "-C", remote.cluster),
                *("-T", remote.mount_point, "-A", "yes"),
                why=f"know its file system {remote.filesystem} as {remote.device}",
            )
        elif there[:2] != (remote.filesystem, remote.cluster):
            raise ScaleError(
                f"{remote.device} is file system {there[0]} of cluster {there[1]} here, and not "
                f"{remote.filesystem} of {remote.cluster}: remove it with mmremotefs delete, or "
                "name it otherwise"
            )


def mount_command(
    remote: DesiredRemote, observed: ObservedCluster, mounted: frozenset[str]
) -> ScaleCommand | None:
    """What mounts it on all nodes that work and have not; None where there is none."""
    lacking = sorted(observed.active - mounted)
    if not lacking:
        return None
    return mm(
        *("mmmount", remote.device, "-N", ",".join(lacking)),
        why=f"mount {remote.device} on {len(lacking)} nodes",
        limit_s=900.0,
    )


def not_let_in(desired: ScaleCluster, remote: DesiredRemote, said: str) -> str:
    """What its administrators have to do."""
    return (
        f"file system {remote.filesystem} of cluster {remote.cluster} is not mounted ({said}): where this "
        "cluster was not let in yet, give /var/mmfs/ssh/id_rsa.pub of a node to its administrators, for "
        f"mmauth add {desired.name} -k FILE and mmauth grant {desired.name} -f {remote.filesystem} there "
        "(cluster names as mmlscluster shows them)"
    )


AT_START = ("pagepool", "maxFilesToCache", "maxMBpS", "workerThreads", "numaMemoryInterleave")
"""Settings that are held against those of daemons; a name that a daemon does not tell is passed over."""
Outdated = Mapping[str, "tuple[str, ...]"]
"""Servers with the settings that their daemons have otherwise."""


def running_values(printed: str) -> dict[str, str]:
    """Out of `mmdiag --config`: a name and its value on each line, behind a ! where it is no default."""
    found = re.findall(r"^[ \t!]*([A-Za-z]\w*)[ \t]+(\S+)[ \t]*$", printed, re.MULTILINE)
    return dict(found)


def outdated(desired: ScaleCluster, observed: ObservedCluster, administration: Administration) -> Outdated:
    """Servers that work, and whose daemons have other settings. What does not answer is passed over."""
    asked = [name for name in desired.servers if name in observed.active]
    return {
        name: lacking
        for name, printed in administration.configurations(asked).items()
        if (lacking := tuple(_differing(desired, name, running_values(printed))))
    }


def _differing(desired: ScaleCluster, server: str, running: Mapping[str, str]) -> Iterator[str]:
    for setting in desired.settings:
        concerned = setting.node_class is None or server in desired.node_classes.get(setting.node_class, ())
        if concerned and setting.parameter in AT_START and setting.parameter in running:
            there = running[setting.parameter]
            if not same_value(there, setting.value) and not _same_truth(there, setting.value):
                yield setting.parameter


def _same_truth(one: str, other: str) -> bool:
    true, false = {"yes", "1", "on"}, {"no", "0", "off"}
    return any({one.lower(), other.lower()} <= each for each in (true, false))


def restart_commands(server: str, filesystems: Collection[str]) -> Iterator[ScaleCommand]:
    """Unmount, stop, start and mount on one server."""
    yield mm("mmumount", "all", "-N", server, why=f"{server} starts again", limit_s=900.0)
    yield mm("mmshutdown", "-N", server, why=f"{server} starts again, alone", limit_s=900.0)
    yield mm("mmstartup", "-N", server, why=f"start {server} with its new settings")
    for name in filesystems:
        yield mm("mmmount", name, "-N", server, why=f"mount {name} on {server} again", limit_s=900.0)


def restart(
    desired: ScaleCluster, administration: Administration, done: list[ScaleCommand], servers: Sequence[str]
) -> None:
    """Start servers again, each when all others are as they should be. Raises ScaleError, with the rest left.

    A server that has the old value afterwards is the last one: the others would not take it, either.
    """
    nodes = [node.name for node in desired.nodes]
    for server in servers:
        observed = administration.observe(nodes)
        if why := in_the_way(server, desired, observed, administration.disks_away(observed.filesystems)):
            raise ScaleError(f"{server} does not start again now: {why}")
        for command in restart_commands(server, observed.filesystems):
            administration.carry_out(command)
            done.append(command)
            if command.name == "mmstartup":
                administration.wait_until_active([server])
        if still := outdated(desired, administration.observe(nodes), administration).get(server):
            raise ScaleError(
                f"{server} started again, and has {', '.join(still)} otherwise than the cluster all the "
                "same: no other server was touched; see mmdiag --config there"
            )


def in_the_way(
    server: str, desired: ScaleCluster, observed: ObservedCluster, away: Collection[str]
) -> str | None:
    """Why a server must not stop now; None where nothing speaks against it."""
    if away:
        return f"disk {sorted(away)[0]} is not up, and its other server may be the only way to a copy"
    left = observed.active - {server}
    for nsd in desired.nsds:
        if server in nsd.servers and len(nsd.servers) > 1 and not left.intersection(nsd.servers):
            return f"its pair is not active, and NSD {nsd.name} would have no server"
    voters = {name for name, node in observed.nodes.items() if node.is_quorum}
    votes = voters & left
    decided = bool(observed.tiebreakers and votes)
    if server in voters and 2 * len(votes) <= len(voters) and not decided:
        return f"the cluster would have {len(votes)} of {len(voters)} votes, and stop"
    return None


def restart_notes(servers: Outdated) -> Iterator[str]:
    """What needs somebody's decision, where they are not started again."""
    for name, settings in servers.items():
        yield (
            f"the daemon of {name} has {', '.join(settings)} otherwise until it starts again: run it with "
            "--may-restart, which starts servers again one after the other"
        )
