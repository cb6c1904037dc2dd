"""Where files go in the storage pools of a Scale file system: the rules of its policy. Pure.

Without a rule new files go to the first pool that is not `system`; where no rule is for a file, it cannot be
made (IBM Storage Scale 5.2: mmchpolicy command; policies, usage errors).
"""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.errors import Finding
from gridwright.filesystems.scale.administration.desired import SYSTEM_POOL
from gridwright.filesystems.scale.administration.policy import OWN
from gridwright.filesystems.scale.model import ScaleFileSystem


def placement_rules(filesystem: ScaleFileSystem) -> tuple[str, ...]:
    """Rules of its policy, in their order; none where all disks are of one pool.

    A rule of migration has the percentages where the event lowDiskSpace begins and ends (IBM Storage Scale,
    using thresholds to migrate data between pools). The weight is how long nobody has read a file.
    """
    if not filesystem.pool_names:
        return ()
    migrations = (
        f"RULE '{OWN}full-{source}' MIGRATE FROM POOL '{source}' "
        f"THRESHOLD({migration.above},{migration.until}) "
        f"WEIGHT(CURRENT_TIMESTAMP - ACCESS_TIME) TO POOL '{migration.to}'"
        for source, migration in (filesystem.migrations or {}).items()
    )
    return (*migrations, f"RULE '{OWN}new-files' SET POOL '{filesystem.file_pool}'")


def filled_pools(filesystem: ScaleFileSystem) -> tuple[str, ...]:
    """Pools that get files by these rules: where new ones go, and where they move to from there."""
    found = [filesystem.file_pool]
    leads = filesystem.migrations or {}
    while found[-1] in leads and leads[found[-1]].to not in found:
        found.append(leads[found[-1]].to)
    return tuple(found)


def placement_findings(name: str, filesystem: ScaleFileSystem) -> Iterator[Finding]:
    """Pools that cost, and stay empty."""
    filled = filled_pools(filesystem)
    has_data = (() if filesystem.metadata_only else (SYSTEM_POOL,)) + filesystem.pool_names
    for pool in has_data if filesystem.pool_names else ():
        if pool in filled:
            continue
        # Metadata are in system all the same.
        what = "has metadata and no files" if pool == SYSTEM_POOL else "stays empty"
        yield Finding(
            "info",
            "scale-pool-unused",
            f"no rule puts files in pool {pool} of {name}: it {what}, unless the site has rules of its own, "
            "and predictions do not count its room",
            f"Write migrations: {{{filled[-1]}: {{to: {pool}}}}}, or default_pool: {pool}"
            + (", or metadata_only: true" if pool == SYSTEM_POOL else ""),
        )
