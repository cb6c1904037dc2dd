"""`status`: stacks, machines and their set-up, volumes at all their servers, and drift if asked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.providers.boot.bundle import pointer
from gridwright.providers.caller import Caller
from gridwright.providers.oci.boot_reports import BootReports, object_text
from gridwright.providers.oci.deploy.choosing import deployer_of
from gridwright.providers.oci.deploy.deployer import Deployer, outputs
from gridwright.providers.oci.layout import OciLayout, oci_layout
from gridwright.providers.oci.names import GRID, STORAGE, is_there, stack_name
from gridwright.providers.oci.resource_manager import POLL_S
from gridwright.providers.oci.session import OciCloud
from gridwright.providers.oci.status_result import OciDrift, OciMachineStatus, OciStatus, OciVolumeStatus
from gridwright.providers.oci.terraform.boot import PARTS
from gridwright.providers.oci.up import section_of
from gridwright.providers.oci.user_data import part_of
from gridwright.spec.model import GridSpec

_CORE, _COMPUTE = "core", "ComputeClient"


def status(
    spec: GridSpec, caller: Caller | None = None, *, drift: bool = False, poll_s: float = POLL_S
) -> OciStatus:
    """How the grid stands by what OCI says now; nothing is changed. Raises GridwrightError.

    With `drift` each resource is compared with the state, which takes minutes; `caller` may stop that.
    """
    oci = section_of(spec, "status")
    cloud, layout = OciCloud(str(spec.region)), oci_layout(spec)
    deployer = deployer_of(spec, oci, cloud, caller or Caller(), poll_s=poll_s)
    stacks = {part: deployer.find(stack_name(spec.name, part)) for part in (STORAGE, GRID)}
    known = {} if stacks[STORAGE] is None else outputs(deployer.state(stacks[STORAGE]))
    machines = {
        each.display_name: each
        for each in cloud.listed(_CORE, _COMPUTE, "list_instances", oci.compartment)
        if is_there(each, spec.name)
    }
    return OciStatus(
        spec.name,
        cloud.region,
        stacks[STORAGE] is not None,
        stacks[GRID] is not None,
        tuple(_machines(cloud, layout, machines, known)),
        tuple(_volumes(cloud, layout, machines, known.get("volumes", {}))),
        _drift(deployer, stacks) if drift else None,
    )


def _machines(
    cloud: OciCloud, layout: OciLayout, found: Mapping[str, Any], known: Mapping[str, Any]
) -> Iterator[OciMachineStatus]:
    """Machines with how their set-up is: of the bundle that is there for them now."""
    where = (str(known.get("namespace", "")), str(known.get("bucket", "")))
    bundles = {part: object_text(cloud, *where, pointer(part)) for part in PARTS} if all(where) else {}
    reports = BootReports(cloud, *where).look(set(found)) if all(where) else {}
    for each in layout.machines:
        instance = found.get(each.name)
        if instance is None:
            yield OciMachineStatus(each.name, each.role.value, "missing", None, "")
            continue
        report = reports.get(each.name)
        is_current = report is not None and report.is_of(instance.id, bundles.get(part_of(each.role)))
        told = report.text if report is not None and is_current else "nothing told yet"
        yield OciMachineStatus(
            each.name, each.role.value, instance.lifecycle_state, instance.fault_domain, told
        )


def _volumes(
    cloud: OciCloud, layout: OciLayout, machines: Mapping[str, Any], ids: Mapping[str, str]
) -> Iterator[OciVolumeStatus]:
    names = {each.id: name for name, each in machines.items()}
    servers: dict[str, Counter[str]] = defaultdict(Counter)
    for each in cloud.listed(_CORE, _COMPUTE, "list_volume_attachments", layout.oci.compartment):
        if each.lifecycle_state == "ATTACHED" and each.instance_id in names:
            servers[each.volume_id][names[each.instance_id]] += 1
    for one in layout.volumes:
        yield OciVolumeStatus(one.name, tuple(one.servers), tuple(sorted(servers[ids.get(one.name, "")])))


def _drift(deployer: Deployer, stacks: Mapping[str, Any]) -> tuple[OciDrift, ...]:
    """Resources of both stacks that somebody else has changed or removed."""
    with deployer.held():
        return tuple(
            OciDrift(stack.display_name, address, how)
            for stack in stacks.values()
            if stack is not None
            for address, how in deployer.drift(stack)
        )
