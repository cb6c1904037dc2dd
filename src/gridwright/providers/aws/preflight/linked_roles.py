"""Roles that services of AWS take, which are made with the first thing of a service in an account."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.errors import Finding
from gridwright.providers.aws.layout import AwsLayout, fsx_file_systems
from gridwright.providers.aws.session import Cloud, CloudError
from gridwright.spec.model import GridSpec

_ABSENT = "NoSuchEntity"


def linked_role_findings(cloud: Cloud, spec: GridSpec, layout: AwsLayout) -> Iterator[Finding]:
    """Those that are not there yet: who runs `up` needs the right to have them made. Raises CloudError."""
    for service, role in _wanted(spec, layout):
        try:
            cloud.call("iam", "get_role", RoleName=role)
        except CloudError as error:
            if error.code != _ABSENT:
                raise
            yield Finding(
                "info",
                "linked-role-absent",
                f"the account has no role {role} yet: {service} makes it with the first thing of its own, in "
                "the name of who runs up",
                "allow iam:CreateServiceLinkedRole, or run once: aws iam create-service-linked-role "
                f"--aws-service-name {service}",
            )


def _wanted(spec: GridSpec, layout: AwsLayout) -> Iterator[tuple[str, str]]:
    """Services, and the names of their roles (IAM User Guide, services that work with IAM)."""
    if any(each.replaced for each in layout.machines):
        yield "autoscaling.amazonaws.com", "AWSServiceRoleForAutoScaling"
    if any(each.spot for each in spec.nodes.values()):
        yield "spot.amazonaws.com", "AWSServiceRoleForEC2Spot"
    if fsx_file_systems(spec):
        yield "fsx.amazonaws.com", "AWSServiceRoleForAmazonFSx"
    if layout.aws.certificate is not None:
        yield "elasticloadbalancing.amazonaws.com", "AWSServiceRoleForElasticLoadBalancing"
