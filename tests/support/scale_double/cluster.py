"""The state of a cluster and the rules by which commands change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.support.scale_double.files import FileCommands, FileSystem, Nsd
from tests.support.scale_double.nfs import CesCommands
from tests.support.scale_double.placement import check_disk
from tests.support.scale_double.words import Refused
from tests.support.scale_double.words import options_in as _options
from tests.support.scale_double.words import stanzas_in as _stanzas

_PLAIN = (
    *("name", "classes", "settings", "here", "calls"),
    *("remote_clusters", "remote_filesystems", "remote_mounted", "granted"),
    *("gateways", "bucket_keys", "filesets", "callbacks"),
    *("ces_nodes", "ces_addresses", "ces_services", "file_accounts", "nfs_exports", "directories"),
    "failed_services",
)


@dataclass
class Node:
    quorum: bool
    manager: bool
    licence: str = "none"
    daemon: bool = False
    alive: bool = True
    configured: bool = True
    """Whether it has the cluster's configuration; a machine that took a dead one's place has none."""
    foreign: str = ""
    """The other cluster that the machine is in."""
    running: dict[str, str] = field(default_factory=dict)
    """What its daemon has read when it started."""


@dataclass
class Cluster(CesCommands, FileCommands):
    """All of it; the devices of NSDs are files, on which their IDs are written."""

    name: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    classes: dict[str, list[str]] = field(default_factory=dict)
    nsds: dict[str, Nsd] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """By `attribute@class`, without a class for all nodes."""
    filesystems: dict[str, FileSystem] = field(default_factory=dict)
    remote_clusters: dict[str, list[str]] = field(default_factory=dict)
    """Other clusters with their contact nodes."""
    remote_filesystems: dict[str, list[str]] = field(default_factory=dict)
    """By their name here: name there, cluster, mount point."""
    remote_mounted: list[str] = field(default_factory=list)
    gateways: list[str] = field(default_factory=list)
    bucket_keys: dict[str, str] = field(default_factory=dict)
    """Files of keys by `bucket:server`."""
    filesets: dict[str, list[str]] = field(default_factory=dict)
    """Words that each was made by."""
    callbacks: dict[str, dict[str, str]] = field(default_factory=dict)
    ces_nodes: list[str] = field(default_factory=list)
    ces_addresses: list[str] = field(default_factory=list)
    ces_services: list[str] = field(default_factory=list)
    file_accounts: str = ""
    nfs_exports: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)
    failed_services: list[str] = field(default_factory=list)
    """Protocol servers whose NFS does not work."""
    granted: bool = False
    """Whether the other cluster lets this one in."""
    here: str = ""
    """The node that commands are run on; the first one of the cluster where it is empty."""
    machines: dict[str, Node] = field(default_factory=dict)
    """Machines outside of it that are not as a new one is."""
    calls: list[list[str]] = field(default_factory=list)

    @classmethod
    def of(cls, state: dict[str, Any]) -> Self:
        """Out of JSON."""
        found = cls(**{key: state[key] for key in _PLAIN})
        found.machines = {name: Node(**each) for name, each in state["machines"].items()}
        found.nodes = {name: Node(**each) for name, each in state["nodes"].items()}
        found.nsds = {name: Nsd(**each) for name, each in state["nsds"].items()}
        found.filesystems = {name: FileSystem(**each) for name, each in state["filesystems"].items()}
        return found

    def state(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    # What is so at any time

    def has_quorum(self) -> bool:
        """More than half of the quorum nodes, or one of two that sees a tiebreaker disk."""
        voters = [name for name, each in self.nodes.items() if each.quorum]
        up = [name for name in voters if self._runs(name)]
        if len(up) * 2 > len(voters):
            return True
        return bool(up) and any(set(up) & set(self.nsds[name].servers) for name in self._ties())

    def state_of(self, name: str) -> str:
        """As mmgetstate tells it."""
        node = self.nodes[name]
        if not node.alive or not node.configured:
            return "unknown"
        if not node.daemon:
            return "down"
        return "active" if self.has_quorum() else "arbitrating"

    @property
    def node_here(self) -> str:
        """The node that commands are run on."""
        return self.here or next(iter(self.nodes), "")

    def refuse_without_configuration(self, command: str) -> None:
        """It is kept by a majority of the quorum nodes, or with the tiebreaker disks."""
        if not self._is_kept():
            raise Refused(f"{command}: get file failed: Not enough CCR quorum nodes available (err 809)")

    def _is_kept(self) -> bool:
        voters = [name for name, each in self.nodes.items() if each.quorum]
        there = [name for name in voters if self.nodes[name].alive and self.nodes[name].configured]
        return len(there) * 2 > len(voters) or bool(there and self._ties())

    def _ties(self) -> list[str]:
        return [name for name in self.settings.get("tiebreakerDisks@", "no").split(";") if name in self.nsds]

    def _runs(self, name: str) -> bool:
        node = self.nodes[name]
        return node.alive and node.configured and node.daemon

    def cluster_at(self, name: str) -> str | None:
        """The cluster that a machine says it is in; empty for none, None where it is silent."""
        node = self.nodes.get(name) or self.machines.get(name) or Node(False, False)
        if not node.alive:
            return None
        return node.foreign or (self.full_name if name in self.nodes and node.configured else "")

    @property
    def full_name(self) -> str:
        """With the domain that mmcrcluster adds."""
        return f"{self.name}.example.com" if self.name else ""

    def settle(self) -> None:
        """What is lost with nodes and quorum: mounts."""
        for each in self.filesystems.values():
            each.mounted = [name for name in each.mounted if self.state_of(name) == "active"]

    def settings_of(self, name: str) -> dict[str, str]:
        """What holds for a node, that of its class before that of all."""
        found = {key[:-1]: value for key, value in self.settings.items() if key.endswith("@")}
        for key, value in self.settings.items():
            setting, _, where = key.partition("@")
            if name in self.classes.get(where, ()):
                found[setting] = value
        return found

    def served(self, filesystem: str) -> bool:
        """Whether each disk has a server that works."""
        disks = [each for each in self.nsds.values() if each.filesystem == filesystem]
        return all(any(self.state_of(name) == "active" for name in each.servers) for each in disks)

    # Commands

    def run(self, command: str, words: Sequence[str], stanzas: str) -> None:
        """Carry one out. Raises Refused."""
        self.calls.append([command, *words])
        if command != "mmcrcluster" and not self.name:
            raise Refused(f"{command}: This node does not belong to a GPFS cluster.")
        # A node that is without configuration itself can do nothing but get it.
        if command not in ("mmcrcluster", "mmsdrrestore") and not self.cluster_at(self.node_here):
            raise Refused(f"{command}: This node does not belong to a GPFS cluster.")
        if command not in ("mmcrcluster", "mmsdrrestore"):
            self.refuse_without_configuration(command)
        known = getattr(self, f"_{command}", None)
        if known is None:
            raise Refused(f"{command}: command not found")
        known(list(words), stanzas)
        self.settle()

    def _mmcrcluster(self, words: list[str], stanzas: str) -> None:
        options = _options(words, {"-N", "-r", "-R", "-C"}, {"-A"})
        if self.name:
            raise Refused("mmcrcluster: This node already belongs to a GPFS cluster.")
        self._add(stanzas)
        if not any(each.quorum for each in self.nodes.values()):
            raise Refused("mmcrcluster: At least one node must be a quorum node.")
        self.name = options["-C"]

    def _mmaddnode(self, words: list[str], stanzas: str) -> None:
        _options(words, {"-N"}, set())
        self._add(stanzas)

    def _add(self, stanzas: str) -> None:
        for line in stanzas.split():
            name, _, designation = line.partition(":")
            if name in self.nodes or self.cluster_at(name):
                raise Refused(f"Node {name} already belongs to a GPFS cluster.")
            if (self.machines.get(name) or Node(False, False)).alive is False:
                raise Refused(f"mmdsh: {name} remote shell process had return code 255.")
            self.nodes[name] = Node("nonquorum" not in designation, "manager" in designation)

    def _mmchnode(self, words: list[str], _: str) -> None:
        flags = {"--quorum", "--nonquorum", "--manager", "--client", "--gateway", "--ces-enable"}
        options = _options(words, {"-N"}, flags)
        for name in self._named(options["-N"]):
            node = self.nodes[name]
            if "--ces-enable" in options:
                self._enable_ces(name)
                continue
            if "--gateway" in options:
                if node.licence != "server":
                    raise Refused(f"Node {name} has no server license.")
                self.gateways.append(name)
                continue
            if "--quorum" in options:
                if node.licence != "server":
                    raise Refused(f"Node {name} has no server license.")
                node.quorum = True
            node.quorum = node.quorum and "--nonquorum" not in options
            node.manager = "--manager" in options or (node.manager and "--client" not in options)

    def _mmsdrrestore(self, words: list[str], _: str) -> None:
        options = _options(words, {"-N", "-p", "-R"}, set())
        for name in self._named(options.get("-N", self.node_here)):
            if not self.nodes[name].alive:
                raise Refused(f"mmsdrrestore: {name} is not reachable.")
            self.nodes[name].configured = True

    def _mmchlicense(self, words: list[str], _: str) -> None:
        kind, options = words[0], _options(words[1:], {"-N"}, {"--accept"})
        if kind not in ("server", "client") or "--accept" not in options:
            raise Refused("mmchlicense: the license was not accepted.")
        for name in self._named(options["-N"]):
            self.nodes[name].licence = kind

    def _mmcrnodeclass(self, words: list[str], _: str) -> None:
        if words[0] in self.classes:
            raise Refused(f"Node class {words[0]} already exists.")
        if words[0].lower().endswith("nodes"):
            raise Refused("mmcrnodeclass: Class names that end with nodes are reserved.")
        self.classes[words[0]] = self._named(_options(words[1:], {"-N"}, set())["-N"])

    def _mmchnodeclass(self, words: list[str], _: str) -> None:
        if words[0] not in self.classes or words[1] != "replace":
            raise Refused("mmchnodeclass: Incorrect operand.")
        self.classes[words[0]] = self._named(_options(words[2:], {"-N"}, set())["-N"])

    def _mmcrnsd(self, words: list[str], stanzas: str) -> None:
        if _options(words, {"-F", "-v"}, set()).get("-v", "yes") != "yes":
            raise Refused("the double writes over nothing")
        for each in _stanzas(stanzas):
            self._refuse_nsd(each)
            self.write_device(
                each["servers"].split(",")[0], each["device"], f"NSD {each['nsd']} of {self.name}\n"
            )
            self.nsds[each["nsd"]] = Nsd(
                each["device"], each["servers"].split(","), int(each["failureGroup"])
            )

    def _refuse_nsd(self, each: dict[str, str]) -> None:
        check_disk(each)
        if each["nsd"] in self.nsds:
            raise Refused(f"mmcrnsd: NSD {each['nsd']} already exists.")
        for name in each["servers"].split(","):
            if name not in self.nodes or self.nodes[name].licence != "server":
                raise Refused(f"mmcrnsd: Node {name} does not have a server license.")
        if self.state_of(each["servers"].split(",")[0]) == "unknown":
            raise Refused(f"mmcrnsd: {each['servers'].split(',')[0]} is not reachable.")
        device = each["device"]
        there = self.read_device(each["servers"].split(",")[0], device)
        if there is None:
            raise Refused(f"mmcrnsd: {device} is not a block device.")
        if there.startswith("NSD "):
            raise Refused(f"mmcrnsd: Disk device {device} refers to an existing NSD.")

    def read_device(self, _server: str, device: str) -> str | None:
        """What is written on a device that a server has; None where it has none."""
        return Path(device).read_text() if Path(device).exists() else None

    def write_device(self, _server: str, device: str, text: str) -> None:
        """Write an NSD's ID."""
        Path(device).write_text(text)

    def _mmchnsd(self, words: list[str], _: str) -> None:
        for each in words[0].split(";"):
            name, _, servers = each.partition(":")
            self.nsds[name].servers = servers.split(",")

    def _mmchconfig(self, words: list[str], _: str) -> None:
        options = _options(words[1:], {"-N"}, set())
        where = options.get("-N", "")
        if where and where not in self.classes:
            raise Refused(f"mmchconfig: Incorrect node or class {where}.")
        for assigned in words[0].split(","):
            name, _, value = assigned.partition("=")
            if name == "maxblocksize" and any(each.daemon for each in self.nodes.values()):
                raise Refused("mmchconfig: GPFS is active on nodes: maxblocksize cannot be changed.")
            if name == "cesSharedRoot":
                self._set_shared_root(value)
            self.settings[f"{name}@{where}"] = value

    def _mmstartup(self, words: list[str], _: str) -> None:
        for name in self._named(_options(words, {"-N"}, set())["-N"]):
            if self.nodes[name].licence == "none":
                raise Refused(f"mmstartup: Node {name} has no license designation.")
            if self.state_of(name) == "unknown":
                raise Refused(f"mmstartup: {name} is not reachable.")
            self.nodes[name].daemon = True
            self.nodes[name].running = self.settings_of(name)

    def _mmshutdown(self, words: list[str], _: str) -> None:
        options = _options(words, {"-N"}, {"-a"})
        for name in list(self.nodes) if "-a" in options else self._named(options["-N"]):
            self.nodes[name].daemon = False

    def _mmafmcoskeys(self, words: list[str], _: str) -> None:
        if words[1:3] != ["set", "--keyfile"] or ":" not in Path(words[3]).read_text():
            raise Refused("mmafmcoskeys: Incorrect key file.")
        self.bucket_keys[words[0]] = words[3]

    def _mmafmcosconfig(self, words: list[str], _: str) -> None:
        options = _options(words[2:], {"--endpoint", "--bucket", "--prefix", "--mode"}, {"--object-fs"})
        server = options["--endpoint"].partition("://")[2].partition(":")[0]
        if words[0] not in self.filesystems or words[1] in self.filesets:
            raise Refused(f"mmafmcosconfig: {words[1]} cannot be made.")
        if not self.gateways:
            raise Refused("mmafmcosconfig: No gateway nodes are defined.")
        if f"{options['--bucket']}:{server}" not in self.bucket_keys:
            raise Refused("mmafmcosconfig: No keys are set for the bucket.")
        self.filesets[words[1]] = words[2:]

    def _mmremotecluster(self, words: list[str], _: str) -> None:
        options = _options(words[2:], {"-n", "-k"}, set())
        if words[0] != "add" or words[1] in self.remote_clusters:
            raise Refused(f"mmremotecluster: Cluster {words[1]} is already defined.")
        if "publicKey" not in Path(options["-k"]).read_text():
            raise Refused("mmremotecluster: Incorrect format of the key file.")
        self.remote_clusters[words[1]] = options["-n"].split(",")

    def _mmremotefs(self, words: list[str], _: str) -> None:
        options = _options(words[2:], {"-f", "-C", "-T", "-A"}, set())
        if words[0] != "add" or words[1] in (*self.remote_filesystems, *self.filesystems):
            raise Refused(f"mmremotefs: {words[1]} is already defined.")
        if options["-C"] not in self.remote_clusters:
            raise Refused(f"mmremotefs: Cluster {options['-C']} is not defined.")
        self.remote_filesystems[words[1]] = [options["-f"], options["-C"], options["-T"]]

    def _mount_remote(self, nodes: list[str]) -> None:
        if not self.granted:
            raise Refused("mmmount: Permission denied: this cluster is not authorized.")
        self.remote_mounted = sorted({*self.remote_mounted, *nodes})

    def _mmmount(self, words: list[str], _: str) -> None:
        where = _options(words[1:], {"-N"}, {"-a"})
        if words[0] in self.remote_filesystems:
            self._mount_remote(self._named(where["-N"]))
            return
        nodes = list(self.nodes) if "-a" in where else self._named(where["-N"])
        for name in list(self.filesystems) if words[0] == "all" else words[:1]:
            if not self.served(name):
                raise Refused(f"mmmount: disks of {name} are not available.")
            if not all(self.state_of(each) == "active" for each in nodes):
                raise Refused("mmmount: GPFS is not active on all of these nodes.")
            there = self.filesystems[name].mounted
            there += [node for node in nodes if node not in there and self.state_of(node) == "active"]

    def _mmumount(self, words: list[str], _: str) -> None:
        options = _options(words[1:], {"-N"}, {"-a"})
        gone = list(self.nodes) if "-a" in options else self._named(options["-N"])
        for each in self.filesystems.values():
            each.mounted = [name for name in each.mounted if name not in gone]

    def _mmcallhome(self, words: list[str], _: str) -> None:
        if words[:2] != ["info", "change"]:
            raise Refused("mmcallhome: Incorrect option.")

    def _named(self, names: str) -> list[str]:
        found = names.split(",")
        for name in found:
            if name in self.classes:
                return list(self.classes[name])
            if name not in self.nodes:
                raise Refused(f"Node {name} is not in the cluster.")
        return found
