"""File systems of the double: their disks and pools, and where their files go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.scale_double.placement import (
    check_disk,
    check_filesystem,
    check_policy,
    check_pools,
    pool_of_new_files,
    pool_stanzas,
)
from tests.support.scale_double.words import Refused, options_in, stanzas_in


@dataclass
class Nsd:
    device: str
    servers: list[str]
    failure_group: int
    filesystem: str = ""
    pool: str = "system"
    usage: str = "dataAndMetadata"


@dataclass
class FileSystem:
    mount_point: str
    block_size: int
    metadata_block_size: int = 0
    acls: str = "all"
    layouts: dict[str, str] = field(default_factory=dict)
    """How blocks of each pool are laid out."""
    policy: str = ""
    mounted: list[str] = field(default_factory=list)
    device: list[int] = field(default_factory=list)
    """Numbers of the block device, where it is a real one."""


class FileCommands:
    """Commands that make file systems, and say where their files go; the state is the cluster's."""

    nodes: Mapping[str, object]
    nsds: dict[str, Nsd]
    filesystems: dict[str, FileSystem]
    settings: dict[str, str]
    callbacks: dict[str, dict[str, str]]

    def state_of(self, name: str) -> str:
        """As mmgetstate tells it."""
        raise NotImplementedError

    def _mmcrfs(self, words: list[str], stanzas: str) -> None:
        valued = {"-F", "-B", "-m", "-M", "-r", "-R", "-T", "-A", "-v", "-k", "--metadata-block-size"}
        options = options_in(words[1:], valued, set())
        if not any(self.state_of(name) == "active" for name in self.nodes):
            raise Refused("mmcrfs: GPFS is down.")
        if words[0] in self.filesystems:
            raise Refused(f"mmcrfs: {words[0]} already exists.")
        most = {"16M": 16 << 20}.get(self.settings.get("maxblocksize@", "4M"), 4 << 20)
        if int(options["-B"]) > most:
            raise Refused("mmcrfs: Block size is larger than maxblocksize.")
        metadata = int(options.get("--metadata-block-size", 0))
        made = FileSystem(options["-T"], int(options["-B"]), metadata, options.get("-k", "all"))
        if made.acls not in ("posix", "nfs4", "all"):
            raise Refused(f"mmcrfs: Incorrect option: -k {made.acls}")
        replicas, of_metadata = int(options["-r"]), int(options["-m"])
        disks = [
            (each.get("pool", "system"), each["usage"], int(each["failureGroup"]))
            for each in stanzas_in(stanzas)
        ]
        check_filesystem(disks, replicas=replicas, metadata_replicas=of_metadata, metadata=bool(metadata))
        self._take(words[0], made, stanzas)
        self.filesystems[words[0]] = made

    def _mmadddisk(self, words: list[str], stanzas: str) -> None:
        options_in(words[1:], {"-F", "-v"}, set())
        if words[0] not in self.filesystems:
            raise Refused(f"mmadddisk: File system {words[0]} is not known.")
        self._take(words[0], self.filesystems[words[0]], stanzas)

    def _take(self, name: str, filesystem: FileSystem, stanzas: str) -> None:
        """Disks become a file system's, in the pools that the stanzas say."""
        said, disks = pool_stanzas(stanzas), list(stanzas_in(stanzas))
        for each in disks:
            check_disk(each)
            nsd = self.nsds.get(each["nsd"])
            if nsd is None:
                raise Refused(f"NSD {each['nsd']} does not exist.")
            if nsd.filesystem:
                raise Refused(f"Disk {each['nsd']} is in use by {nsd.filesystem}.")
            if filesystem.metadata_block_size and (each.get("pool"), each["usage"]) == ("system", "dataOnly"):
                raise Refused("Pool system has a block size of its own, and takes no data.")
        new = [(each.get("pool", "system"), each["usage"], 0) for each in disks]
        check_pools(new, said, str(filesystem.block_size))
        for pool in said.keys() & filesystem.layouts.keys():
            raise Refused(f"Pool {pool} is there, and its layout cannot be changed.")
        for pool in {each[0] for each in new} - filesystem.layouts.keys():
            filesystem.layouts[pool] = said.get(pool, {}).get("layoutMap", "cluster")
        for each in disks:
            nsd = self.nsds[each["nsd"]]
            nsd.filesystem, nsd.usage, nsd.pool = name, each["usage"], each.get("pool", "system")

    def data_pools(self, filesystem: str) -> list[str]:
        """Pools of a file system that hold data, in the order that they were made in."""
        pools = [
            each.pool
            for each in self.nsds.values()
            if each.filesystem == filesystem and each.usage in ("dataAndMetadata", "dataOnly")
        ]
        return list(dict.fromkeys(pools))

    def pool_of_new_files(self, filesystem: str) -> str:
        """Where a file that is made now has its data. Raises Refused."""
        return pool_of_new_files(self.filesystems[filesystem].policy, self.data_pools(filesystem))

    def _mmchpolicy(self, words: list[str], rules: str) -> None:
        if words[0] not in self.filesystems or words[2:] not in ([], ["-I", "yes"], ["-I", "test"]):
            raise Refused(f"mmchpolicy: Incorrect option or file system: {words}")
        if not any(self.state_of(name) == "active" for name in self.nodes):
            raise Refused("mmchpolicy: GPFS is down.")
        check_policy(rules, self.data_pools(words[0]))
        if words[2:] != ["-I", "test"]:
            self.filesystems[words[0]].policy = rules

    def _mmaddcallback(self, words: list[str], _: str) -> None:
        options = options_in(words[1:], {"--command", "--event", "--parms"}, set())
        if words[0] in self.callbacks or words[0].lower().startswith(("gpfs", "mm")):
            raise Refused(f"mmaddcallback: Callback identifier {words[0]} is there, or reserved.")
        if not options["--command"].startswith("/"):
            raise Refused("mmaddcallback: the command needs its full path.")
        self.callbacks[words[0]] = {name.removeprefix("--"): value for name, value in options.items()}
