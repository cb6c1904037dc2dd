"""The kind `local`: the scheduler built into Gridwright, for the machine that it runs on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from gridwright.own_directories import state_home
from gridwright.schedulers.kind import SchedulerKind
from gridwright.spec.scheduler import REPLACED, SchedulerSection

if TYPE_CHECKING:
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.local.scheduler import LocalScheduler
    from gridwright.schedulers.usage import JobUsage
    from gridwright.spec.model import GridSpec


class LocalSchedulerSection(SchedulerSection):
    """The scheduler built into Gridwright, for one machine."""

    runs_on_one_machine: ClassVar[bool] = True
    remembers_jobs_s: ClassVar[float | None] = 30 * 86_400.0
    job_options: ClassVar[frozenset[str]] = frozenset(
        {"account", "begin", "nice", "stderr", "stdin", "stdout"}
    )
    job_options_instead: ClassVar[Mapping[str, str]] = {
        "gres": "set CUDA_VISIBLE_DEVICES in the command, and --exclusive keeps other jobs away",
        "constraint": "leave it out: there is one machine",
        "reservation": "leave it out: start it at a time with --begin",
    }
    dependency_types: ClassVar[frozenset[str]] = frozenset({"ok", "any", "not-ok", "each"})

    type: Annotated[Literal["local"], REPLACED] = Field(
        default="local",
        description="The kind of scheduler: local is the one built into Gridwright, for one machine.",
    )


class LocalSchedulerKind(SchedulerKind[LocalSchedulerSection]):
    """Runs jobs as processes of this machine, and needs no service."""

    spec_model = LocalSchedulerSection

    def open(self, spec: GridSpec, head: HeadNode) -> LocalScheduler:
        """The queue of this machine; see SchedulerKind."""
        from gridwright.schedulers.local.scheduler import LocalScheduler
        from gridwright.schedulers.state_directory import state_directory

        return LocalScheduler(spec, state_directory(spec))

    def usage(self, spec: GridSpec, head: HeadNode, since: float, until: float) -> list[JobUsage]:
        """Out of the store, which remembers jobs for 30 days; see SchedulerKind."""
        from gridwright.schedulers.local.store import Store
        from gridwright.schedulers.local.usage import read_usage
        from gridwright.schedulers.state_directory import state_directory

        store = Store(state_directory(spec), looks=True)
        with store.translated_errors():
            return read_usage(store, since, until)

    def state_directory(self, spec: GridSpec) -> Path:
        """A directory of the user's own, as the XDG Base Directory Specification has it for state.

        Grids of one name whose specs are in different directories have one each.
        """
        name = spec.name if spec.file is None else f"{spec.name}-{_mark(spec.file.parent)}"
        return state_home() / "gridwright" / name


def _mark(directory: Path) -> str:
    """Eight characters that stand for a directory, by whichever path it was reached."""
    return hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:8]


KIND = LocalSchedulerKind()
