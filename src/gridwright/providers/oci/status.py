"""`status`: stacks, machines, and volumes that are attached to their servers: both of a pair, or the one."""

from __future__ import annotations

from collections import Counter, defaultdict

from gridwright.providers.caller import Caller
from gridwright.providers.oci.deploy.choosing import deployer_of
from gridwright.providers.oci.deploy.deployer import outputs
from gridwright.providers.oci.layout import oci_layout
from gridwright.providers.oci.names import GRID, GRID_TAG, STORAGE, stack_name
from gridwright.providers.oci.session import OciCloud
from gridwright.providers.oci.status_result import OciMachineStatus, OciStatus, OciVolumeStatus
from gridwright.providers.oci.up import section_of
from gridwright.spec.model import GridSpec

_GONE = ("TERMINATED", "TERMINATING")


def status(spec: GridSpec) -> OciStatus:
    """How the grid stands by what OCI says now; nothing is changed. Raises GridwrightError."""
    oci = section_of(spec, "status")
    cloud, layout = OciCloud(str(spec.region)), oci_layout(spec)
    deployer = deployer_of(spec, oci, cloud, Caller())
    stacks = {part: deployer.find(stack_name(spec.name, part)) is not None for part in (STORAGE, GRID)}
    instances = [
        each
        for each in cloud.listed("core", "ComputeClient", "list_instances", oci.compartment)
        if (each.freeform_tags or {}).get(GRID_TAG) == spec.name and each.lifecycle_state not in _GONE
    ]
    by_name = {each.display_name: each for each in instances}
    machines = tuple(
        OciMachineStatus(
            each.name,
            each.role.value,
            by_name[each.name].lifecycle_state if each.name in by_name else "missing",
            by_name[each.name].fault_domain if each.name in by_name else None,
        )
        for each in layout.machines
    )
    names = {each.id: name for name, each in by_name.items()}
    ids = (
        outputs(deployer.state(deployer.find(stack_name(spec.name, STORAGE)))).get("volumes", {})
        if stacks[STORAGE]
        else {}
    )
    servers: dict[str, Counter[str]] = defaultdict(Counter)
    for each in cloud.listed("core", "ComputeClient", "list_volume_attachments", oci.compartment):
        if each.lifecycle_state == "ATTACHED" and each.instance_id in names:
            servers[each.volume_id][names[each.instance_id]] += 1
    volumes = tuple(
        OciVolumeStatus(each.name, tuple(each.servers), tuple(sorted(servers[ids.get(each.name, "")])))
        for each in layout.volumes
    )
    return OciStatus(spec.name, cloud.region, stacks[STORAGE], stacks[GRID], machines, volumes)
