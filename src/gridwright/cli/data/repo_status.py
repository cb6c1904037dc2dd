"""`gridwright repo status`: how files and objects stand, and how much of the files is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gridwright.cli.data.repo_flags import StatusFlags, named, status_settings
from gridwright.cli.data.repo_linked import opened_linked, service_limits
from gridwright.cli.data.repo_opening import open_repository
from gridwright.cli.named_spec import naming_spec
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import load_placed
from gridwright.errors import ExitStatus, GridwrightError, environment_error
from gridwright.refusals import reason_of

if TYPE_CHECKING:
    from gridwright.repository.forecast import TransferLimit
    from gridwright.repository.settings import RepositorySettings
    from gridwright.spec import GridSpec
    from gridwright.spec.linked import LinkedDirectory


class _Part(Protocol):
    """What is shown of one repository."""

    def document(self) -> dict[str, Any]: ...

    def text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class _Repository:
    """One that is to be looked at."""

    name: str
    directory: str
    bucket_url: str
    look: Callable[[], tuple[_Part, bool]]
    """What is shown of it, and whether it is well. Raises GridwrightError."""


@dataclass(frozen=True, slots=True)
class _Unseen:
    """One that could not be looked at."""

    of: _Repository
    error: GridwrightError

    def document(self) -> dict[str, Any]:
        """The result for programs."""
        names = {"repository": self.of.name, "bucket_url": self.of.bucket_url, "directory": self.of.directory}
        return names | {"errors": [asdict(each) for each in self.error.problems]}

    def text(self) -> str:
        """The result for people."""
        problems = "\n".join(f"error: {naming_spec(each)}" for each in self.error.problems)
        return "\n".join(
            [
                f"{self.of.name}: {self.of.directory} and {self.of.bucket_url}",
                *(f"  {line}" for line in problems.splitlines()),
            ]
        )


def run_status(flags: StatusFlags) -> ExitStatus:
    """Show files and objects: how many, how many differ on which side, names only, and the last export.

    Example: gridwright repo status archive
    """
    flags = named(flags)
    spec = load_placed(flags.grid) if flags.directory is None and flags.bucket is None else None
    repositories = [*_carried(flags, spec), *(() if spec is None else _linked(flags, spec))]
    found = [_looked_at(each, is_only=len(repositories) == 1) for each in repositories]
    Output("repo status", json=flags.json).show(
        LazyResult(
            document=lambda: {"repositories": [{"errors": []} | part.document() for part, _ in found]},
            text=lambda: "\n".join(part.text() for part, _ in found),
        )
    )
    return max((status for _, status in found), default=ExitStatus.DONE)


def _looked_at(repository: _Repository, *, is_only: bool) -> tuple[_Part, ExitStatus]:
    """What is shown of a repository, and the exit status that it asks for; one that fails hides no others."""
    try:
        part, is_well = repository.look()
    except GridwrightError as error:
        if is_only:
            raise
        return _Unseen(repository, error), error.status
    return part, ExitStatus.DONE if is_well else ExitStatus.MISSED


def _carried(flags: StatusFlags, spec: GridSpec | None) -> Iterator[_Repository]:
    """Those that Gridwright carries itself."""
    for each in status_settings(flags, spec):
        look = (
            partial(_use, each.name, each.directory, spec) if flags.hot else partial(_look, flags, spec, each)
        )
        yield _Repository(each.name, str(each.directory), each.bucket_url, look)


def _linked(flags: StatusFlags, spec: GridSpec) -> Iterator[_Repository]:
    """Those that a service carries."""
    for each in _linked_directories(flags, spec):
        look = (
            partial(_use, each.name, each.mounted, spec)
            if flags.hot
            else partial(_look_linked, flags, spec, each)
        )
        yield _Repository(each.name, str(each.mounted), each.link.bucket, look)


def _look(flags: StatusFlags, spec: GridSpec | None, settings: RepositorySettings) -> tuple[_Part, bool]:
    from gridwright.repository.status import repository_status

    with open_repository(flags, settings, looks=True) as opened:
        status = repository_status(opened, _back(spec, settings.name))
        return status, status.is_well


def _look_linked(flags: StatusFlags, spec: GridSpec, directory: LinkedDirectory) -> tuple[_Part, bool]:
    with opened_linked(flags, spec, directory) as repository:
        standing = repository.status(service_limits(spec, directory, "write"))
        return standing, standing.is_well


def _linked_directories(flags: StatusFlags, spec: GridSpec) -> list[LinkedDirectory]:
    """Those of the grid that a service carries, or the one that is named, if it is such a one."""
    from gridwright.spec.linked import linked_directories

    return [each for name, each in linked_directories(spec).items() if flags.name in (None, name)]


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
    return [TransferLimit(limit.what, limit.bytes_per_s) for limit in limits]


def _use(name: str, directory: Path, spec: GridSpec | None) -> tuple[_Part, bool]:
    """How much of a repository's files is used, and whether all could be looked at."""
    from gridwright.catalog import load_catalog
    from gridwright.repository.use_report import UseReport, class_costs, use_of_files

    catalog = load_catalog(spec.file.parent if spec is not None and spec.file else None)
    region = (spec.region if spec is not None else None) or "us-east-1"
    try:
        use = use_of_files(directory)
    except OSError as error:
        raise environment_error(
            f"the directory cannot be looked at: {reason_of(error)}",
            where=str(directory),
            remedy="run it where the files are, such as on a node of the grid",
        ) from error
    costs = class_costs(use, lambda item: catalog.services.usd(item, region))
    return UseReport(name, str(directory), region, use, costs), not use.failed.count
