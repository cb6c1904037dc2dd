"""Reads what the coordinators of Lustre's HSM say of copytools, on metadata servers; what is wrong with them.

Each MDT has a coordinator: `mdt.*.hsm_control` is its state, and `mdt.*.hsm.agents` has a line for each
copytool (Lustre Operations Manual, chapter 26; recordings 601, 605, 617). Only `enabled` hands out actions.
An agent that serves all archives has `ANY` in the place of numbers (lustre/mdt/mdt_hsm_cdt_agent.c).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from gridwright.errors import Finding
from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.parameters import Parameters, read_parameters

ENABLED = "enabled"
_AGENT = re.compile(r"^uuid=\S+ archive_id=(ANY|[0-9,]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HsmCoordinator:
    """The coordinator of one MDT."""

    target: str
    control: str
    archives: frozenset[int]
    """Archives that a copytool is registered for."""
    serves_any: bool
    """Whether a copytool is registered for all archives."""

    def has_agent(self, archive: int) -> bool:
        """Whether somebody brings files of an archive."""
        return self.serves_any or archive in self.archives


def parameter_names(name: str) -> tuple[str, str]:
    """The parameters that tell of the coordinators of file system `name`."""
    return f"mdt.{name}-MDT*.hsm_control", f"mdt.{name}-MDT*.hsm.agents"


def read_coordinators(run: Run, name: str) -> list[HsmCoordinator]:
    """The coordinators on this node; none where it serves no MDT.

    Takes root. Raises GridwrightError (status ENVIRONMENT) where lctl is not there or does not answer.
    """
    return parse_coordinators(read_parameters(run, parameter_names(name)))


def parse_coordinators(told: Parameters) -> list[HsmCoordinator]:
    """The coordinators out of what was read."""
    found = []
    for name, control in told.values.items():
        device = re.fullmatch(r"(mdt\.([^.]+))\.hsm_control", name)
        if device is None:
            continue
        agents = _AGENT.findall(told.values.get(f"{device[1]}.hsm.agents", ""))
        numbers = {int(each) for agent in agents for each in agent.split(",") if each.isdigit()}
        found.append(HsmCoordinator(device[2], control.strip(), frozenset(numbers), "ANY" in agents))
    return sorted(found, key=lambda each: each.target)


def coordinator_findings(
    coordinators: Sequence[HsmCoordinator], archives: Collection[int]
) -> Iterator[Finding]:
    """What keeps readers of repositories waiting; `archives` are those of the repositories of the grid."""
    if not archives:
        return
    off = [f"{each.target} ({each.control})" for each in coordinators if each.control != ENABLED]
    if off:
        yield Finding(
            "error",
            "hsm-off",
            f"HSM is off: {', '.join(off)}. Nobody is asked to bring what is read of a repository",
            "lctl set_param -P mdt.*.hsm_control=enabled on the management server",
        )
    for archive in sorted(archives):
        lonely = [each.target for each in coordinators if not each.has_agent(archive)]
        if lonely:
            yield Finding(
                "error",
                "no-copytool",
                f"no copytool of archive {archive} is registered at {', '.join(lonely)}: whoever reads a "
                "released file waits until one is",
                "Start an agent: gridwright repo serve NAME; as a service: systemctl start "
                "gridwright-serve-FILESYSTEM, which gridwright setup installs",
            )
