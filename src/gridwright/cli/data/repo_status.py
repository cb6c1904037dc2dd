"""`gridwright repo status`: how files and objects stand, and how much of the files is used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gridwright.cli.data.repo_flags import StatusFlags, status_settings
from gridwright.cli.data.repo_linked import opened_linked, service_limits
from gridwright.cli.data.repo_opening import open_repository
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import load_placed
from gridwright.errors import ExitStatus, GridwrightError, environment_error

if TYPE_CHECKING:
    from gridwright.repository.forecast import TransferLimit
    from gridwright.repository.use_report import UseReport
    from gridwright.spec import GridSpec


class _Part(Protocol):
    """What is shown of one repository."""

    def document(self) -> dict[str, Any]: ...

    def text(self) -> str: ...


def run_status(flags: StatusFlags) -> ExitStatus:
    """Show files and objects: how many, how many differ on which side, names only, and the last export.

    Example: gridwright repo status grid.yaml
    """
    spec = load_placed(flags.file) if flags.directory is None and flags.bucket is None else None
    found = _used(flags, spec) if flags.hot else _standing(flags, spec)
    Output("repo status", json=flags.json).show(
        LazyResult(
            document=lambda: {"repositories": [part.document() for part, _ in found]},
            text=lambda: "\n".join(part.text() for part, _ in found),
        )
    )
    return ExitStatus.DONE if all(is_well for _, is_well in found) else ExitStatus.MISSED


def _standing(flags: StatusFlags, spec: GridSpec | None) -> list[tuple[_Part, bool]]:
    """Each repository, and whether it is well."""
    from gridwright.repository.status import repository_status
    from gridwright.spec.linked import linked_directories

    found: list[tuple[_Part, bool]] = []
    for settings in status_settings(flags, spec):
        with open_repository(flags, settings, looks=True) as opened:
            status = repository_status(opened, _back(spec, settings.name))
            found.append((status, status.is_well))
    if spec is None:
        return found
    for directory in linked_directories(spec).values():
        with opened_linked(flags, spec, directory) as repository:
            standing = repository.status(service_limits(spec, directory, "write"))
            found.append((standing, standing.is_well))
    return found


def _back(spec: GridSpec | None, name: str) -> Sequence[TransferLimit]:
    """What limits a restore by one node, where the grid tells."""
    if spec is None or name not in spec.repositories:
        return ()
    from gridwright.model.grid import grid_model
    from gridwright.model.node_alone import limits_of_one_node
    from gridwright.repository.forecast import TransferLimit

    try:
        limits = limits_of_one_node(grid_model(spec), spec.repositories[name].library)["write"]
    except GridwrightError:
        # A grid that cannot be predicted still has a status.
        return ()
    return [TransferLimit(each.what, each.bytes_per_s) for each in limits]


def _used(flags: StatusFlags, spec: GridSpec | None) -> list[tuple[_Part, bool]]:
    """How much of each repository's files is used, and whether all could be looked at."""
    from gridwright.spec.linked import linked_directories

    places = {each.name: each.directory for each in status_settings(flags, spec)}
    if spec is not None:
        places |= {name: each.mounted for name, each in linked_directories(spec).items()}
    found: list[tuple[_Part, bool]] = []
    for name, directory in places.items():
        report: UseReport = _use(name, directory, spec)
        found.append((report, not report.use.failed.count))
    return found


def _use(name: str, directory: Path, spec: GridSpec | None) -> UseReport:
    from gridwright.catalog import load_catalog
    from gridwright.repository.ages import use_of_files
    from gridwright.repository.class_costs import class_costs
    from gridwright.repository.use_report import UseReport

    catalog = load_catalog(spec.file.parent if spec is not None and spec.file else None)
    region = (spec.region if spec is not None else None) or "us-east-1"
    try:
        use = use_of_files(directory)
    except OSError as error:
        raise environment_error(
            f"the directory cannot be looked at: {error.strerror}",
            where=str(directory),
            remedy="run it where the files are, such as on a node of the grid",
        ) from error
    return UseReport(
        name, str(directory), region, use, class_costs(use, lambda item: catalog.services.usd(item, region))
    )
