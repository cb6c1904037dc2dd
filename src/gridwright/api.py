"""What packages beside Gridwright build on: file systems, providers and schedulers of a site's own.

All names that `docs/extending.md` speaks of, in one module. `VERSION` goes up by one when a name goes, or
changes its meaning; names are added without that. The modules behind names are loaded at their first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

VERSION = 1

if TYPE_CHECKING:
    from gridwright.errors import Finding, GridwrightError, Problem, environment_error, input_error
    from gridwright.filesystems.counters import ReadCounts, TrafficCount
    from gridwright.filesystems.health import Condition, Health, Run
    from gridwright.filesystems.kind import (
        Changelogs,
        ClientSettings,
        CloudFindings,
        Degradation,
        FileSystemKind,
        LabServices,
        Layouts,
        LazyLoad,
        MountEntry,
        NodeDisks,
        Offers,
        ServerHealth,
        ServerPorts,
        SharedDiskCluster,
        TargetReports,
        TuningKind,
    )
    from gridwright.filesystems.resources import OPERATIONS, Contribution, Resource, Route, Use
    from gridwright.filesystems.site import Site
    from gridwright.providers.provider import (
        Caller,
        ImageBuilds,
        LinkedRepositories,
        LocalGrids,
        Pausing,
        Provider,
        Removal,
        Result,
        StateComparison,
        Status,
    )
    from gridwright.providers.rendering import Notes
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.job import (
        Job,
        JobExplanation,
        JobRequest,
        JobState,
        NodeState,
        PlacementCheck,
        Requirement,
    )
    from gridwright.schedulers.job_request import option_problems
    from gridwright.schedulers.kind import SchedulerKind
    from gridwright.schedulers.machines import SchedulerSetup
    from gridwright.schedulers.scheduler import Scheduler
    from gridwright.schedulers.state_directory import state_directory
    from gridwright.services.playbook_role import PlaybookRole
    from gridwright.services.ports import Ports
    from gridwright.setup.playbook import Hosts
    from gridwright.spec.fields import Change, Directory, SpecModel, Update
    from gridwright.spec.filesystem import NEW_KIND, Delivery, FileSystem
    from gridwright.spec.model import GridSpec
    from gridwright.spec.provider import ProviderSection
    from gridwright.spec.scheduler import LATER_JOBS, REPLACED, SchedulerSection
    from gridwright.yamltext.fields import FieldError
    from gridwright.yamltext.structure import Refused

_NAMES = {
    "gridwright.errors": (
        "Finding",
        "GridwrightError",
        "Problem",
        "environment_error",
        "input_error",
    ),
    "gridwright.filesystems.counters": (
        "ReadCounts",
        "TrafficCount",
    ),
    "gridwright.filesystems.health": (
        "Condition",
        "Health",
        "Run",
    ),
    "gridwright.filesystems.kind": (
        "Changelogs",
        "ClientSettings",
        "CloudFindings",
        "Degradation",
        "FileSystemKind",
        "LabServices",
        "Layouts",
        "LazyLoad",
        "MountEntry",
        "NodeDisks",
        "Offers",
        "ServerHealth",
        "ServerPorts",
        "SharedDiskCluster",
        "TargetReports",
        "TuningKind",
    ),
    "gridwright.filesystems.resources": (
        "OPERATIONS",
        "Contribution",
        "Resource",
        "Route",
        "Use",
    ),
    "gridwright.filesystems.site": ("Site",),
    "gridwright.providers.provider": (
        "Caller",
        "ImageBuilds",
        "LinkedRepositories",
        "LocalGrids",
        "Pausing",
        "Provider",
        "Removal",
        "Result",
        "StateComparison",
        "Status",
    ),
    "gridwright.providers.rendering": ("Notes",),
    "gridwright.schedulers.head_node": ("HeadNode",),
    "gridwright.schedulers.job": (
        "Job",
        "JobExplanation",
        "JobRequest",
        "JobState",
        "NodeState",
        "PlacementCheck",
        "Requirement",
    ),
    "gridwright.schedulers.kind": ("SchedulerKind",),
    "gridwright.schedulers.scheduler": ("Scheduler",),
    "gridwright.schedulers.machines": ("SchedulerSetup",),
    "gridwright.schedulers.state_directory": ("state_directory",),
    "gridwright.schedulers.job_request": ("option_problems",),
    "gridwright.services.playbook_role": ("PlaybookRole",),
    "gridwright.services.ports": ("Ports",),
    "gridwright.setup.playbook": ("Hosts",),
    "gridwright.spec.fields": (
        "Change",
        "Directory",
        "SpecModel",
        "Update",
    ),
    "gridwright.spec.filesystem": (
        "NEW_KIND",
        "Delivery",
        "FileSystem",
    ),
    "gridwright.spec.model": ("GridSpec",),
    "gridwright.spec.provider": ("ProviderSection",),
    "gridwright.spec.scheduler": (
        "LATER_JOBS",
        "REPLACED",
        "SchedulerSection",
    ),
    "gridwright.yamltext.fields": ("FieldError",),
    "gridwright.yamltext.structure": ("Refused",),
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names}


def __dir__() -> list[str]:
    return ["VERSION", *_PLACES]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names
    """Load what a name stands for. Raises AttributeError for any other name."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(_PLACES[name]), name)
