"""Which deployer a grid has, by its spec."""

from __future__ import annotations

from pathlib import Path

from gridwright.providers.caller import Caller
from gridwright.providers.oci.deploy.deployer import Deployer
from gridwright.providers.oci.deploy.local_terraform import LocalTerraform
from gridwright.providers.oci.deploy.provider_login import provider_login
from gridwright.providers.oci.deploy.stack_directory import StackFiles
from gridwright.providers.oci.deploy.terraform_command import TerraformCommand
from gridwright.providers.oci.resource_manager import POLL_S, ResourceManager
from gridwright.providers.oci.section import Oci
from gridwright.providers.oci.session import OciCloud
from gridwright.spec.model import GridSpec


def deployer_of(
    spec: GridSpec, oci: Oci, cloud: OciCloud, caller: Caller, *, poll_s: float = POLL_S
) -> Deployer:
    """Resource Manager, or the tool that the spec names. Raises GridwrightError where that is not here."""
    if oci.deploy == "resource-manager":
        return ResourceManager(cloud, oci.compartment, caller, poll_s=poll_s)
    command = TerraformCommand(oci.deploy, caller, provider_login(cloud.config))
    return LocalTerraform(command, StackFiles(state_directory(spec, oci)))


def state_directory(spec: GridSpec, oci: Oci) -> Path:
    """Where a local tool keeps its states: relative to the grid spec, beside it by default."""
    beside = spec.file.parent if spec.file else Path()
    return (beside / (oci.state or f"{spec.name}.terraform")).absolute()
