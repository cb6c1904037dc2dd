"""The head node of a grid on AWS, as it is reached from anywhere."""

from __future__ import annotations

from gridwright.providers.aws.layout import LOGIN, Role, aws_layout, login_user
from gridwright.providers.aws.names import grid_stack
from gridwright.providers.aws.session import Cloud
from gridwright.providers.aws.stacks import Stacks
from gridwright.providers.cloud_head import host_keys, is_one_of, not_up
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
    if is_one_of(layout.addresses.items()):
        return LocalHeadNode()
    stack = Stacks(Cloud(str(spec.region)), Caller()).find(grid_stack(spec))
    if stack is None or not stack.whole:
        raise not_up(spec)
    login = stack.outputs.get(LOGIN_ADDRESS) or layout.addresses[LOGIN]
    # Without a key pair the site has made accounts, and ssh knows whose is to be taken.
    user = login_user(layout.aws)
    controllers = layout.of_role(Role.HEAD)
    keys = host_keys(spec, f"{stack.id} {stack.updated}")
    if not controllers:
        return SshHead(LOGIN, login, user=user, keys=keys)
    head = controllers[0].name
    return SshHead(head, head, through=login, user=user, keys=keys)
