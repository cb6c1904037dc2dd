"""Pools and policies of the double's file systems, by the rules of IBM's manual (looked up 2026-11-28)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from tests.support.scale_double.words import Refused

USAGES = ("dataAndMetadata", "dataOnly", "metadataOnly", "descOnly")
_SET = re.compile(r"RULE '[^']+' SET POOL '(\w+)'$")
_MIGRATE = re.compile(
    r"RULE '[^']+' MIGRATE FROM POOL '(\w+)' THRESHOLD\((\d+),(\d+)\) WEIGHT\([A-Z_ -]+\) TO POOL '(\w+)'$"
)

Disk = tuple[str, str, int]
"""Pool, usage and failure group."""


def check_disk(stanza: Mapping[str, str]) -> None:
    """What mmcrnsd, mmcrfs and mmadddisk refuse of one disk. Raises Refused."""
    usage, pool = stanza.get("usage", "dataAndMetadata"), stanza.get("pool", "system")
    if usage not in USAGES:
        raise Refused(f"Disk usage {usage} is not valid.")
    if not re.fullmatch(r"[A-Za-z0-9]{1,255}", pool):
        raise Refused(f"Storage pool name {pool} is not valid.")
    if pool != "system" and usage in ("dataAndMetadata", "metadataOnly"):
        raise Refused(f"Disk usage {usage} is incompatible with storage pool {pool}: metadata are in system.")


def pool_stanzas(text: str) -> dict[str, dict[str, str]]:
    """Pools with what is said of them. Raises Refused."""
    found = {}
    for stanza in re.split(r"^%", text, flags=re.MULTILINE):
        if stanza.startswith("pool:"):
            said = dict(re.findall(r"(\w+)=(\S+)", stanza))
            unknown = said.keys() - {"pool", "usage", "layoutMap", "blockSize"}
            if unknown or said.get("layoutMap", "cluster") not in ("cluster", "scatter"):
                raise Refused(f"Incorrect pool stanza: {stanza}")
            found[said["pool"]] = said
    return found


def check_pools(disks: Collection[Disk], said: Mapping[str, Mapping[str, str]], block: str) -> None:
    """What is refused of all disks together. Raises Refused."""
    for pool, each in said.items():
        usages = {usage for name, usage, _ in disks if name == pool and usage != "descOnly"}
        if usages != {each.get("usage", "dataAndMetadata")}:
            raise Refused(f"Pool {pool} is said to be {each.get('usage')}, and its disks are {usages}.")
        if each.get("blockSize", block) != block:
            raise Refused("All data of a file system have one block size.")


def check_filesystem(
    disks: Collection[Disk], *, replicas: int, metadata_replicas: int, metadata: bool
) -> None:
    """What mmcrfs refuses; `metadata`: whether pool system has a block size of its own. Raises Refused."""
    data = {pool for pool, usage, _ in disks if usage in ("dataAndMetadata", "dataOnly")}
    holding = {group for _, usage, group in disks if usage in ("dataAndMetadata", "metadataOnly")}
    if not holding or not data:
        raise Refused("mmcrfs: There are no disks for metadata, or none for data.")
    if metadata and any(
        pool == "system" and usage != "metadataOnly" for pool, usage, _ in disks if usage != "descOnly"
    ):
        raise Refused("mmcrfs: --metadata-block-size needs metadataOnly disks alone in pool system.")
    if len(holding) < metadata_replicas:
        raise Refused("mmcrfs: not enough failure groups for the replicas of metadata.")
    for pool in data:
        groups = {group for name, usage, group in disks if name == pool and usage != "metadataOnly"}
        if len(groups) < replicas:
            raise Refused(f"mmcrfs: not enough failure groups for the replicas in pool {pool}.")


def _rules(text: str) -> Iterator[str]:
    plain = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    yield from (" ".join(each.split()) for each in re.split(r"(?=\bRULE\b)", plain) if each.strip())


def check_policy(text: str, data_pools: Collection[str]) -> None:
    """What mmchpolicy refuses of a file of rules. Raises Refused."""
    for rule in _rules(text):
        placed, migrated = _SET.match(rule), _MIGRATE.match(rule)
        if migrated is not None and int(migrated[2]) < int(migrated[3]):
            raise Refused(f"PCSQLERR: the high threshold is below the low one: {rule}")
        named = [placed[1]] if placed else [migrated[1], migrated[4]] if migrated else None
        if named is None:
            raise Refused(f"PCSQLERR: syntax: {rule}")
        for pool in named:
            if pool not in data_pools:
                raise Refused(f"PCSQLERR: {pool} is no pool of the file system that holds data: {rule}")


def pool_of_new_files(text: str, data_pools: Sequence[str]) -> str:
    """Where a new file goes: by the first rule, else to the first pool that is not system. Raises Refused."""
    for rule in _rules(text):
        if placed := _SET.match(rule):
            return placed[1]
    beside = [each for each in data_pools if each != "system"]
    if not beside and "system" not in data_pools:
        raise Refused("no space left on device")
    return beside[0] if beside else "system"
