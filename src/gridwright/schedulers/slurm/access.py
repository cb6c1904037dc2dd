"""Access to a Slurm: the spec, its tools and the user's directories, which every call needs; and scancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.schedulers.slurm.job_directories import JobDirectories
from gridwright.schedulers.slurm.section import SlurmSection, section_of
from gridwright.schedulers.slurm.tools import Tools
from gridwright.spec.model import GridSpec

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class SlurmAccess:
    """The objects that every call of Slurm's tools needs."""

    spec: GridSpec
    tools: Tools
    directories: JobDirectories
    options: Sequence[str]
    """Those of the spec, one a word."""

    @property
    def section(self) -> SlurmSection:
        """The scheduler of the spec."""
        return section_of(self.spec)


def scancel(access: SlurmAccess, targets: Sequence[str]) -> None:
    """Cancel jobs by Slurm's numbers; those that have ended stay so. Raises GridwrightError (ENVIRONMENT)."""
    for first in range(0, len(targets), _AT_ONCE):
        command = ["scancel", "-Q", *targets[first : first + _AT_ONCE]]
        try:
            access.tools.query(command)
        except GridwrightError as error:
            # It fails where one of the jobs has ended meanwhile.
            if error.status is not ExitStatus.INPUT:
                raise
