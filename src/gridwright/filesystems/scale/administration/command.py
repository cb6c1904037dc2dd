"""The command itself: `administration.pyz`, which the playbook runs on the first server with Python 3.9.

It carries commands of Scale out, each with its limit of time, and waits for what they begin. Other clusters'
file systems are made known and mounted where these let it in; what is known of them is read from what
commands print for people, as nobody has shown their columns of -Y. Servers whose daemon runs with other
settings than the cluster has are started again one after the other (a daemon reads some settings when it
starts: IBM Storage Scale, mmchconfig command): never are both servers of a pair down, nor so many quorum
nodes that the cluster stops.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from gridwright.filesystems.scale.administration.desired import (
    DesiredNfs,
    DesiredNsd,
    DesiredRemote,
    ScaleCluster,
)
from gridwright.filesystems.scale.administration.difference import (
    Difference,
    ObservedPlacement,
    callbacks_of,
    difference,
    pools_of_disks,
)
from gridwright.filesystems.scale.administration.nfs import (
    ObservedNfs,
    nfs_commands,
    nfs_notes,
    observe_nfs,
    state_notes,
)
from gridwright.filesystems.scale.administration.observed import (
    NodeNames,
    ObservedCluster,
    ScaleError,
    observe,
    records,
    same_value,
)
from gridwright.filesystems.scale.administration.order import (
    BIN,
    STANZAS,
    ScaleCommand,
    bucket_commands,
    filesets_of,
    mm,
)
from gridwright.filesystems.scale.administration.reach import lost_paths, new_disks, refused_disks

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


def _mount_command(
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


def _not_let_in(desired: ScaleCluster, remote: DesiredRemote, said: str) -> str:
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


def _restart_commands(server: str, filesystems: Collection[str]) -> Iterator[ScaleCommand]:
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
        for command in _restart_commands(server, observed.filesystems):
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


def _restart_notes(servers: Outdated) -> Iterator[str]:
    """What needs somebody's decision, where they are not started again."""
    for name, settings in servers.items():
        yield (
            f"the daemon of {name} has {', '.join(settings)} otherwise until it starts again: run it with "
            "--may-restart, which starts servers again one after the other"
        )


WRONG, FAILED = 2, 3
ROUNDS = 3
"""Times that the cluster is looked at and changed; a replaced node takes two."""
LOCK = Path("/run/gridwright-scale.lock")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 2 where it refuses, 3 for what failed."""
    parser = argparse.ArgumentParser(
        prog="administration", description="Make a Spectrum Scale cluster as a grid wants it."
    )
    parser.add_argument("cluster", type=Path, help="the cluster that is wanted, as JSON")
    parser.add_argument("--check", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--may-stop", action="store_true", help="the daemon may be stopped on every node")
    parser.add_argument(
        "--may-restart", action="store_true", help="servers may start again, one after the other"
    )
    parser.add_argument(
        "--wait", type=float, default=0.0, help="seconds for nodes to answer before a cluster is made of them"
    )
    parser.add_argument("--bin", type=Path, default=Path(BIN), help="where the commands are")
    parser.add_argument("--lock", type=Path, default=LOCK, help="what keeps two of them apart")
    given = parser.parse_args(arguments)
    done: list[ScaleCommand] = []
    found = Difference(())
    try:
        desired = read_cluster(given.cluster)
        # Who may read a file may lock it.
        with os.fdopen(
            os.open(given.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        ) as lock:
            os.fchmod(lock.fileno(), 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            administration = Administration(given.bin)
            if not given.check:
                administration.wait_until_answering([node.name for node in desired.nodes], given.wait)
            may = {"may_stop": given.may_stop, "may_restart": given.may_restart}
            found = run(desired, administration, done, check=given.check, **may)
        error, status = "; ".join(found.refusals), WRONG if found.refusals else 0
    except BlockingIOError:
        error, status = "another one is at work on this cluster", FAILED
    except (ScaleError, OSError) as failed:
        error, status = str(failed), FAILED
    sys.stdout.write(json.dumps(_document(found, done, error), indent=2) + "\n")
    if error:
        sys.stderr.write(f"{error}\n")
    return status


def run(
    desired: ScaleCluster,
    administration: Administration,
    done: list[ScaleCommand],
    *,
    may_stop: bool = False,
    may_restart: bool = False,
    check: bool = False,
) -> Difference:
    """Bring the cluster to what is wanted; `done` gets each command that was carried out.

    Raises ScaleError, also where something differs when all is done.
    """
    found, observed = _brought(desired, administration, done, may_stop=may_stop, check=check)
    if found.refusals or not observed.name:
        return found
    if desired.nsds:
        found = replace(found, notes=(*found.notes, *administration.lost_paths()))
    if desired.buckets and desired.buckets[0].filesystem in observed.filesystems:
        found = _with_buckets(desired, administration, done, found, check=check)
    if desired.nfs and _has_root(desired, observed):
        found = _with_nfs(desired.nfs, administration, done, found, check=check)
        state = administration.nfs_state(desired.filesystems[0].name, is_settled=not found.commands)
        found = replace(found, notes=(*found.notes, *state))
    if any(remote.key for remote in desired.remotes):
        found = _with_remotes(desired, administration, done, found, observed, check=check)
    old = outdated(desired, observed, administration)
    if not may_restart:
        return replace(found, notes=(*found.notes, *_restart_notes(old)))
    again = [
        restart_command for name in old for restart_command in _restart_commands(name, observed.filesystems)
    ]
    if not check:
        restart(desired, administration, done, tuple(old))
    return replace(found, commands=(*found.commands, *again))


def _brought(
    desired: ScaleCluster,
    administration: Administration,
    done: list[ScaleCommand],
    *,
    may_stop: bool,
    check: bool,
) -> tuple[Difference, ObservedCluster]:
    """The same without what daemons have since their start, and the cluster as it then is."""
    nodes = [node.name for node in desired.nodes]
    found, observed = _checked(desired, administration, nodes, may_stop=may_stop)
    if check or found.refusals:
        return found, observed
    planned, left = found.commands, found
    for _ in range(ROUNDS):
        for command in left.commands:
            administration.carry_out(command)
            done.append(command)
            if command.name == "mmstartup":
                administration.wait_until_active(command.argv[-1].split(","))
        if not left.commands:
            return replace(found, commands=planned, refusals=left.refusals), observed
        # What is there now may want more: a node whose configuration came back sees the whole cluster.
        left, observed = _checked(desired, administration, nodes, may_stop=False)
        planned += left.commands
    words = ", ".join(" ".join(each.argv[:3]) for each in left.commands[:5])
    raise ScaleError(f"all was done, and the cluster is not as it should be yet: {words}")


def _with_buckets(
    desired: ScaleCluster,
    administration: Administration,
    done: list[ScaleCommand],
    found: Difference,
    *,
    check: bool,
) -> Difference:
    """Directories that are caches of buckets, where they are not there."""
    planned = tuple(bucket_commands(desired, administration.filesets(desired.buckets[0].filesystem)))
    for command in planned if not check else ():
        administration.carry_out(command)
        done.append(command)
    return replace(found, commands=(*found.commands, *planned))


def _has_root(desired: ScaleCluster, observed: ObservedCluster) -> bool:
    """Whether some node has the file system in which protocol servers share what they know."""
    return any(observed.mounted.get(filesystem.name) for filesystem in desired.filesystems)


def _with_nfs(
    desired: DesiredNfs,
    administration: Administration,
    done: list[ScaleCommand],
    found: Difference,
    *,
    check: bool,
) -> Difference:
    """NFS by CES; a look comes before each round, as exports are kept while the service is off."""
    for _ in range(ROUNDS):
        # Anew: a setting of CES may have come in the round before.
        observed = administration.observe(desired.servers)
        there = administration.nfs(desired, observed)
        planned = tuple(nfs_commands(desired, there, observed.active, administration.is_directory))
        found = replace(found, commands=(*found.commands, *planned))
        if check or not planned:
            break
        if not there.root:
            administration.make_directory(desired.root)
        for command in planned:
            administration.carry_out(command)
            done.append(command)
    else:
        raise ScaleError(f"all was done, and NFS is not as it should be yet: {planned[0].why}")
    told = nfs_notes(desired, there, administration.is_directory)
    return replace(found, notes=(*found.notes, *told))


def _with_remotes(
    desired: ScaleCluster,
    administration: Administration,
    done: list[ScaleCommand],
    found: Difference,
    observed: ObservedCluster,
    *,
    check: bool,
) -> Difference:
    """What differs of file systems of other clusters, carried out; a mount that they refuse is told."""
    planned = list(definitions(desired, administration.remotes()))
    notes: list[str] = []
    for command in planned if not check else ():
        administration.carry_out(command)
        done.append(command)
    for remote in desired.remotes if not check else ():
        nodes = [node.name for node in desired.nodes]
        mount = (
            _mount_command(remote, observed, administration.mounted(remote.device, nodes))
            if remote.key
            else None
        )
        if mount is None:
            continue
        try:
            administration.carry_out(mount)
        except ScaleError as refused:
            notes.append(_not_let_in(desired, remote, str(refused)))
        else:
            planned.append(mount)
            done.append(mount)
    return replace(found, commands=(*found.commands, *planned), notes=(*found.notes, *notes))


def _checked(
    desired: ScaleCluster, administration: Administration, nodes: Sequence[str], *, may_stop: bool
) -> tuple[Difference, ObservedCluster]:
    """What differs; refused as a whole where a disk would be written over that holds something."""
    observed = administration.observe(nodes)
    placed = None
    ruled = [filesystem.name for filesystem in desired.filesystems if filesystem.rules]
    if ruled and observed.active:
        placed = administration.placement([name for name in ruled if name in observed.filesystems])
    found = difference(desired, observed, placed, may_stop=may_stop)
    if not any(command.name == "mmcrnsd" for command in found.commands):
        return found, observed
    refusals = administration.refused_disks(new_disks(desired, observed))
    return (replace(found, commands=(), refusals=refusals) if refusals else found), observed


def read_cluster(path: Path) -> ScaleCluster:
    """The cluster of a file. Raises ScaleError where it is none."""
    try:
        return ScaleCluster.from_document(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ScaleError(f"{path} does not describe a cluster: {error}") from None


def _document(found: Difference, done: Sequence[ScaleCommand], error: str) -> dict[str, object]:
    return {
        "changed": bool(done),
        "planned": [{"command": list(command.argv), "why": command.why} for command in found.commands],
        "done": len(done),
        "notes": list(found.notes),
        "error": error,
    }


if __name__ == "__main__":
    sys.exit(main())
