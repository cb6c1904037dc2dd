"""Whether the state that is at hand is that of the grid which is there."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.errors import Problem
from gridwright.providers.oci.deploy.deployer import Deployer, managed
from gridwright.providers.oci.leftovers import STACK_TYPE, tagged
from gridwright.providers.oci.names import GRID, STORAGE, stack_name
from gridwright.providers.oci.session import OciCloud
from gridwright.spec.model import GridSpec


def unknown_grid(spec: GridSpec, cloud: OciCloud, deployer: Deployer) -> Iterator[Problem]:
    """A problem where the grid is there, and no state that is at hand knows anything of it.

    All of it would be made a second time, and nobody would take the first one away. Raises GridwrightError.
    """
    stacks = [deployer.find(stack_name(spec.name, part)) for part in (STORAGE, GRID)]
    if any(each is not None and managed(deployer.state(each)) for each in stacks):
        return
    there = [each for each in tagged(cloud, spec.name) if each.type.lower() != STACK_TYPE]
    if there:
        yield Problem(
            f"grid {spec.name} is there already, such as {there[0].text}, and the state that knows it is not "
            f"in {deployer.where}",
            where=f"OCI, {cloud.region}",
            remedy="write oci.deploy and oci.state that it was made with, or bring that directory here; or "
            "write another name",
        )
