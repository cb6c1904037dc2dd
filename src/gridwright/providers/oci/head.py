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
from gridwright.providers.oci.deploy.choosing import deployer_of
from gridwright.providers.oci.deploy.deployer import outputs
from gridwright.providers.oci.layout import LOGIN, OciLayout, OciRole, oci_layout
from gridwright.providers.oci.names import GRID, stack_name
from gridwright.providers.oci.session import OciCloud
from gridwright.schedulers.head_node import HeadNode, LocalHeadNode
from gridwright.schedulers.ssh_head import SshHead
from gridwright.setup.distributions import distributions
from gridwright.spec.model import GridSpec


def oci_head(spec: GridSpec) -> HeadNode:
    """The head node of a grid: this machine where it is one of the grid's, else ssh through the bastion host.

    Raises GridwrightError: INPUT where the grid cannot be built as it is written, ENVIRONMENT where it is not
    up, OCI does not tell, or it has no bastion host.
    """
    layout = oci_layout(spec)
    if is_here(layout):
        return LocalHeadNode()
    where = str(spec.file) if spec.file else None
    if layout.oci.bastion != "host":
        raise environment_error(
            f"grid {spec.name} has no bastion host, and its machines are not reached from here",
            where=where,
            remedy="open a session of the bastion service to the grid control server and run the command "
            "there, or write bastion: host in section oci",
        )
    deployer = deployer_of(spec, layout.oci, OciCloud(str(spec.region)), Caller())
    stack = deployer.find(stack_name(spec.name, GRID))
    known = {} if stack is None else outputs(deployer.state(stack))
    login = known.get("login")
    if not login:
        raise environment_error(
            f"grid {spec.name} is not up",
            where=where,
            remedy=f"run gridwright up {spec.file or 'FILE'}; see how it stands with gridwright status",
        )
    user, keys = login_user(layout), _keys(spec, known)
    controllers = layout.of_role(OciRole.HEAD)
    if not controllers:
        return SshHead(LOGIN, login, user=user, keys=keys)
    head = controllers[0].name
    return SshHead(head, head, through=login, user=user, keys=keys)


def login_user(layout: OciLayout) -> str:
    """Whom the key of the spec lets in, by the distribution."""
    return next(each.user for each in distributions() if each.name == layout.oci.distribution)


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
