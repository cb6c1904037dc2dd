"""The head node of a grid on AWS, as it is reached from anywhere."""

from __future__ import annotations

import hashlib
import socket

import psutil

from gridwright.errors import environment_error
from gridwright.providers.aws.layout import LOGIN, AwsLayout, Role, aws_layout, login_user
from gridwright.providers.aws.names import grid_stack
from gridwright.providers.aws.session import Cloud
from gridwright.providers.aws.stacks import Stack, Stacks
from gridwright.providers.provider import Caller
from gridwright.schedulers.head_node import HeadNode, LocalHeadNode
from gridwright.schedulers.ssh_head import SshHead
from gridwright.spec.model import GridSpec

LOGIN_ADDRESS = "LoginPublicAddress"
"""Output of the grid stack; a network behind a proxy has none."""


def aws_head(spec: GridSpec) -> HeadNode:
    """The head node of a grid: this machine where it is one of the grid's, else ssh through the login node.

    Raises GridwrightError: INPUT where the grid cannot be built as it is written, ENVIRONMENT where it is not
    up or AWS does not tell.
    """
    layout = aws_layout(spec)
    if is_here(layout):
        return LocalHeadNode()
    stack = Stacks(Cloud(str(spec.region)), Caller()).find(grid_stack(spec))
    if stack is None or not stack.whole:
        raise environment_error(
            f"grid {spec.name} is not up",
            where=str(spec.file) if spec.file else None,
            remedy=f"run gridwright up {spec.file or 'FILE'}; see how it stands with gridwright status",
        )
    login = stack.outputs.get(LOGIN_ADDRESS) or layout.addresses[LOGIN]
    # Without a key pair the site has made accounts, and ssh knows whose is to be taken.
    user = login_user(layout.aws)
    controllers = layout.of_role(Role.HEAD)
    keys = _keys(spec, stack)
    if not controllers:
        return SshHead(LOGIN, login, user=user, keys=keys)
    head = controllers[0].name
    return SshHead(head, head, through=login, user=user, keys=keys)


def _keys(spec: GridSpec, stack: Stack) -> str:
    """Names the file of host keys: another one for each grid, and for each time that its machines changed."""
    made = f"{stack.id} {stack.updated}".encode()
    return f"{spec.name}-{hashlib.sha256(made).hexdigest()[:12]}"


def is_here(layout: AwsLayout) -> bool:
    """Whether this machine has the name and the address of one of the grid's machines."""
    address = layout.addresses.get(socket.gethostname().partition(".")[0])
    own = (each.address for interface in psutil.net_if_addrs().values() for each in interface)
    return address is not None and address in own
