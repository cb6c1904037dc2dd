"""Makes out of a grid spec what a node must have: mounts and scratch directories, for its health check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.filesystems import kind_of
from gridwright.node_programs.health.configuration import SCHEMA
from gridwright.setup.scratch_spec import scratch_configuration
from gridwright.spec.model import GridSpec

_NOTHING: Mapping[str, str] = {}


def health_configuration(spec: GridSpec, sources: Mapping[str, str] = _NOTHING) -> dict[str, Any]:
    """What /etc/gridwright/health.json holds on each compute node; plain data.

    `sources` are of file systems that the spec names no source of; they may be Jinja expressions. Raises
    GridwrightError where two file systems would each take all disks of a node.
    """
    # Nodes that share the kernel of one machine have no disks of their own, and directories in their place.
    arrays = scratch_configuration(spec)["arrays"] if spec.provider_kind.has_own_kernels else []
    below = [f"{array['mount_point']}/{each['path']}" for array in arrays for each in array["directories"]]
    scratch = [{"path": array["mount_point"], "types": [array["format"]], "source": None} for array in arrays]
    # Nodes of a cloud have such a directory only once a job has made it.
    own = [
        str(filesystem.path)
        for filesystem in spec.filesystems.values()
        if filesystem.is_node_local and filesystem.node_disks is None and not spec.is_cloud
    ]
    return {
        "schema": SCHEMA,
        "mounts": [*_mounts(spec, sources), *scratch],
        "directories": [*(array["mount_point"] for array in arrays), *below, *own],
    }


def _mounts(spec: GridSpec, sources: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name, filesystem in spec.filesystems.items():
        kind = kind_of(filesystem)
        if kind.kernel_types:
            entry = kind.mount_entry(filesystem, sources.get(name))
            yield {
                "path": str(filesystem.path),
                "types": list(kind.kernel_types),
                "source": None if entry is None else entry.source,
            }
