"""The head node of a grid on OCI, as it is reached from anywhere."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Mapping
from typing import Any

import psutil

from gridwright.errors import environment_error
from gridwright.providers.caller import Caller
from gridwright.providers.oci.bastion_sessions import BastionSessions
from gridwright.providers.oci.deploy.choosing import deployer_of
from gridwright.providers.oci.deploy.deployer import outputs
from gridwright.providers.oci.layout import LOGIN, OciLayout, OciRole, oci_layout
from gridwright.providers.oci.names import GRID, stack_name
from gridwright.providers.oci.session import OciCloud
from gridwright.schedulers.head_node import HeadNode, LocalHeadNode
from gridwright.schedulers.ssh_head import SshHead
from gridwright.setup.distributions import distribution
from gridwright.spec.model import GridSpec


def oci_head(spec: GridSpec) -> HeadNode:
    """The head node of a grid: this machine where it is one of the grid's, else ssh.

    The way there is the bastion host, or a session of the bastion service to the grid control server, from
    which the other machines are reached. Raises GridwrightError: INPUT where the grid cannot be built as it
    is written, ENVIRONMENT where it is not up, OCI does not tell, or the service leads to no machine.
    """
    layout = oci_layout(spec)
    if is_here(layout):
        return LocalHeadNode()
    where = str(spec.file) if spec.file else None
    controllers = layout.of_role(OciRole.HEAD)
    has_service = layout.oci.bastion == "service"
    if has_service and not controllers:
        raise environment_error(
            f"grid {spec.name} has no grid control server, which the bastion service would lead to",
            where=where,
            remedy="write a scheduler that has one, such as slurm, or bastion: host in section oci",
        )
    cloud = OciCloud(str(spec.region))
    deployer = deployer_of(spec, layout.oci, cloud, Caller())
    stack = deployer.find(stack_name(spec.name, GRID))
    known = {} if stack is None else outputs(deployer.state(stack))
    way_in = known.get("bastion" if has_service else "login")
    if not way_in:
        raise environment_error(
            f"grid {spec.name} is not up",
            where=where,
            remedy=f"run gridwright up {spec.file or 'FILE'}; see how it stands with gridwright status",
        )
    user, keys = login_user(layout), _keys(spec, known)
    if not controllers:
        return SshHead(LOGIN, way_in, user=user, keys=keys)
    head = controllers[0]
    if has_service:
        address = str(head.serving_address)
        gate = BastionSessions(cloud, way_in, address, layout.oci.ssh_key)
        return SshHead(head.name, address, user=user, keys=keys, gate=gate)
    return SshHead(head.name, head.name, through=way_in, user=user, keys=keys)


def login_user(layout: OciLayout) -> str:
    """Whom the key of the spec lets in: by the spec, else by the distribution."""
    found = distribution(layout.oci.distribution)
    return layout.oci.user or found.oci_user or found.user


def _keys(spec: GridSpec, known: Mapping[str, Any]) -> str:
    """Names the file of host keys: another one for each grid, and for each time that its machines changed."""
    made = json.dumps(known.get("instances", {}), sort_keys=True).encode()
    return f"{spec.name}-{hashlib.sha256(made).hexdigest()[:12]}"


def is_here(layout: OciLayout) -> bool:
    """Whether this machine has the name and an address of one of the grid's machines."""
    name = socket.gethostname().partition(".")[0]
    addresses = {
        str(address)
        for each in layout.machines
        if each.name == name
        for address in (each.address, each.second_address)
    }
    own = {each.address for interface in psutil.net_if_addrs().values() for each in interface}
    return not addresses.isdisjoint(own)
