"""What the directory of a lab holds: what `down` deletes, and what a lab cannot be booted without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gridwright.kernel_files import names_in
from gridwright.providers.lab.disk import size_of
from gridwright.providers.lab.places import Places
from gridwright.providers.lab.record import LabRecord
from gridwright.schedulers.state_directory import state_directory
from gridwright.spec.model import GridSpec

_SHOWN = 6
_DISK = ".img"


def contents(lab: str) -> tuple[str, ...]:
    """What there is of a lab, such as `disks of controller and compute1`; empty where nothing is."""
    places = Places(lab)
    disks = (name for name in names_in(places.disks) if name.endswith(_DISK))
    found = (
        ("what is on nodes", names_in(places.nodes)),
        ("disks of", [name.removesuffix(_DISK) for name in disks]),
        ("local file systems", names_in(places.filesystems)),
    )
    words = [f"{what} {_listed(names)}" for what, names in found if names]
    return (*words, *(["queue, logs and records of jobs"] if places.state.is_dir() else []))


def _listed(names: Sequence[str]) -> str:
    more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    words = [*names[:_SHOWN], *more]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def missing(record: LabRecord, spec: GridSpec) -> list[Path]:
    """What a lab that was up had in files, and has not any more: a boot would begin with empty ones."""
    return [path for path in _needed(record, spec) if not path.exists()] if record.has_data else []


def _needed(record: LabRecord, spec: GridSpec) -> Iterator[Path]:
    places = Places(record.lab)
    powered = spec.powered_nodes()
    yield state_directory(spec)
    for node in record.nodes:
        # One that its scheduler powers may never have been on.
        if node.plan.name not in powered:
            yield places.node(node.plan.name)
        if size_of(spec, node.plan) is not None:
            yield places.disk(node.plan.name)
    for name, filesystem in spec.filesystems.items():
        if filesystem.is_node_local:
            yield places.filesystem(name)
