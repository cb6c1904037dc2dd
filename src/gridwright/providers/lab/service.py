"""A lab whose nodes are up, as the services on them see it; see services/service.py for what a service is.

Secrets of a lab: made once, kept where only root can read them, the same for all of its nodes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright.errors import environment_error
from gridwright.providers.lab.cgroups import CgroupSupport
from gridwright.providers.lab.layout import LabLayout
from gridwright.providers.lab.places import Places
from gridwright.refusals import refusal
from gridwright.services.service import Service, ServiceNode
from gridwright.spec.model import GridSpec


def secret(path: Path, make: Callable[[], bytes]) -> bytes:
    """The secret in a file; `make` makes it when there is none. Raises GridwrightError (ENVIRONMENT)."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return _keep(path, make())
    except OSError as error:
        why = refusal(path, error, "name another directory with state: in the spec", writes=True)
        raise environment_error(
            f"a key of the lab cannot be kept: {why.reason}", where=str(path), remedy=why.remedy
        ) from error


def _keep(path: Path, content: bytes) -> bytes:
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
    return content


@dataclass(frozen=True, slots=True)
class RunningLab:
    """A lab whose nodes are up, as its services see it. Threads may use it at the same time."""

    spec: GridSpec
    layout: LabLayout
    places: Places
    nodes: Mapping[str, ServiceNode]
    """The nodes that are up, by name."""
    cgroups: CgroupSupport
    """What nodes have of control groups."""
    state: Path
    """The state directory, the same on nodes and here."""

    @property
    def network(self) -> str:
        """The range of addresses of its nodes."""
        return self.layout.network

    @property
    def controller(self) -> str:
        """The name of the node that the scheduler's own service runs on."""
        return self.layout.controller.name

    @property
    def health(self) -> Mapping[str, Any]:
        """What nodes that run jobs must have mounted."""
        from gridwright.setup.health_spec import health_configuration

        return health_configuration(self.spec)

    def secret(self, name: str, make: Callable[[], bytes]) -> bytes:
        """A secret of the lab by its name, made once. Raises GridwrightError (ENVIRONMENT)."""
        return secret(self.places.secrets / name, make)


LabService = Service[RunningLab]
"""A service that may ask all that is known of the lab; see `services.services_for` for those of a spec."""
