"""Which distribution machines of a grid have: what the spec says, or what the name of their image does."""

from __future__ import annotations

from gridwright.providers.aws.section import Aws
from gridwright.setup.distributions import Distribution, distribution, of_parameter

DEFAULT = "ubuntu-24.04"
"""Of a grid whose spec names no image."""


def distribution_of_nodes(aws: Aws) -> Distribution | None:
    """Of nodes, head and login node; None where only their image knows it."""
    if aws.images.distribution is not None:
        return distribution(aws.images.distribution)
    if aws.images.compute is None:
        return distribution(DEFAULT)
    return of_parameter(aws.images.compute)


def login_user(aws: Aws) -> str | None:
    """Who a key pair lets in; None where there is none, or where the distribution is not known."""
    found = distribution_of_nodes(aws)
    return found.user if aws.key is not None and found is not None else None


def root_device(aws: Aws, *, serves_files: bool) -> str:
    """What the disk is called that a machine starts from; servers of Lustre have Red Hat or Rocky Linux."""
    found = None if serves_files else distribution_of_nodes(aws)
    return ROOT_DEVICE if found is None else found.root_device


ROOT_DEVICE = "/dev/sda1"
"""Of images of Ubuntu, Red Hat, Rocky Linux and AlmaLinux."""
