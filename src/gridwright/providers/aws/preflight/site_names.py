"""Whether security groups and the hosted zone of the site are there, and fit the VPC."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.errors import Finding
from gridwright.providers.aws.layout import AwsLayout
from gridwright.providers.aws.preflight.site_vpc import chosen
from gridwright.providers.aws.session import Cloud, CloudError


def group_findings(cloud: Cloud, layout: AwsLayout) -> Iterator[Finding]:
    """Security groups that machines are to be in. Raises CloudError."""
    vpc = layout.aws.vpc
    required = {each: role for role, groups in vpc.security_groups.items() for each in groups} if vpc else {}
    if vpc is None or not required:
        return
    there = {
        each["GroupId"]: str(each.get("VpcId", ""))
        for each in cloud.listed(
            "ec2", "describe_security_groups", "SecurityGroups", Filters=chosen("group-id", *sorted(required))
        )
    }
    for group, role in required.items():
        field = f"aws.vpc.security_groups.{role}"
        if group not in there:
            yield Finding(
                "error",
                "security-group-unknown",
                f"the account sees no security group {group} in {cloud.region}",
                f"write one of VPC {vpc.id} in {field}",
            )
        elif there[group] != vpc.id:
            yield Finding(
                "error",
                "security-group-of-another-vpc",
                f"security group {group} is of {there[group]}, and machines are in {vpc.id}",
                f"write one of VPC {vpc.id} in {field}",
            )


def zone_findings(cloud: Cloud, layout: AwsLayout) -> Iterator[Finding]:
    """The hosted zone that names are written into. Raises CloudError."""
    vpc = layout.aws.vpc
    if vpc is None or vpc.dns is None:
        return
    try:
        answer = cloud.call("route53", "get_hosted_zone", Id=vpc.dns.id)
    except CloudError as refused:
        if refused.code != "NoSuchHostedZone":
            raise
        yield Finding(
            "error",
            "hosted-zone-unknown",
            f"the account has no hosted zone {vpc.dns.id}",
            "write the ID of one of this account in aws.vpc.dns.id: aws route53 list-hosted-zones",
        )
        return
    name = str(answer["HostedZone"]["Name"]).rstrip(".")
    if name != vpc.dns.name:
        yield Finding(
            "error",
            "hosted-zone-of-another-name",
            f"hosted zone {vpc.dns.id} is {name}, and not {vpc.dns.name}",
            f"write name: {name} in aws.vpc.dns",
        )
    if not answer["HostedZone"].get("Config", {}).get("PrivateZone", False):
        yield Finding(
            "error",
            "hosted-zone-public",
            f"hosted zone {vpc.dns.id} ({name}) is public: the world would read the private addresses in it",
            "write a private hosted zone in aws.vpc.dns",
        )
    elif vpc.id not in {each.get("VPCId") for each in answer.get("VPCs", ())}:
        yield Finding(
            "warning",
            "hosted-zone-elsewhere",
            f"hosted zone {vpc.dns.id} ({name}) is not associated with VPC {vpc.id}: machines of the grid do "
            "not see the names in it",
            f"aws route53 associate-vpc-with-hosted-zone --hosted-zone-id {vpc.dns.id} "
            f"--vpc VPCRegion={cloud.region},VPCId={vpc.id}",
        )
