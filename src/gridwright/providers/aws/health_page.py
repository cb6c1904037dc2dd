"""The page of Lustre's health behind an internal load balancer, where the site has a certificate for it."""

from __future__ import annotations

from troposphere import GetAtt, Output, Ref, Sub, Tags, Template, ec2
from troposphere import elasticloadbalancingv2 as balancing

from gridwright.providers.aws.layout import AwsLayout, Machine
from gridwright.providers.aws.names import Export, tags
from gridwright.providers.aws.user_data import exported
from gridwright.spec.model import GridSpec

PORT = 8080
"""Of the page, on the server that has the management target."""
HTTPS = 443
POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06"
"""TLS 1.2 and 1.3 alone."""


def has_health_page(layout: AwsLayout) -> bool:
    """Whether there is such a page: a certificate, and a Lustre that the grid builds."""
    return layout.aws.certificate is not None and bool(_managers(layout))


def _managers(layout: AwsLayout) -> tuple[Machine, ...]:
    """The server of each Lustre that has its management target."""
    return tuple(
        each for each in layout.machines if any(one.kind == "mgt" or one.with_mgt for one in each.targets)
    )


def add_health_page(template: Template, spec: GridSpec, layout: AwsLayout) -> None:
    """A network load balancer with TLS, in the one subnet.

    An application load balancer asks for a second zone, and the grid has one (Elastic Load Balancing,
    Application Load Balancers, subnets).
    """
    if not has_health_page(layout):
        return
    marks = tags(spec, role="health-page")
    _firewall(template, spec, layout)
    balancer = template.add_resource(
        balancing.LoadBalancer(
            "HealthPage",
            Type="network",
            Scheme="internal",
            Subnets=[exported(spec, Export.STORAGE_SUBNET)],
            SecurityGroups=[Ref("HealthPageGroup")],
            Tags=Tags(**marks, Name=f"{spec.name}-health"),
        )
    )
    targets = template.add_resource(
        balancing.TargetGroup(
            "HealthPageTargets",
            VpcId=exported(spec, Export.VPC),
            TargetType="ip",
            Protocol="TCP",
            Port=PORT,
            Targets=[
                balancing.TargetDescription(Id=str(each.address), Port=PORT) for each in _managers(layout)
            ],
            HealthCheckProtocol="TCP",
            Tags=Tags(**marks),
        )
    )
    template.add_resource(
        balancing.Listener(
            "HealthPageListener",
            LoadBalancerArn=Ref(balancer),
            Port=HTTPS,
            Protocol="TLS",
            SslPolicy=POLICY,
            Certificates=[balancing.Certificate(CertificateArn=layout.aws.certificate)],
            DefaultActions=[balancing.Action(Type="forward", TargetGroupArn=Ref(targets))],
        )
    )
    template.add_output(
        Output(
            "HealthPageAddress",
            Description="Where a name that the certificate is for has to point",
            Value=Sub("https://${Name}/", Name=GetAtt(balancer, "DNSName")),
        )
    )


def _firewall(template: Template, spec: GridSpec, layout: AwsLayout) -> None:
    """From the grid's own network to the page, and nothing else; the storage stack lets it in there."""
    template.add_resource(
        ec2.SecurityGroup(
            "HealthPageGroup",
            GroupDescription=f"Page of the health of Lustre, grid {spec.name}",
            VpcId=exported(spec, Export.VPC),
            SecurityGroupIngress=[
                ec2.SecurityGroupRule(
                    IpProtocol="tcp",
                    FromPort=HTTPS,
                    ToPort=HTTPS,
                    CidrIp=str(network),
                    Description="Readers of the page within the network",
                )
                for network in layout.networks
            ],
            SecurityGroupEgress=[
                ec2.SecurityGroupRule(
                    IpProtocol="tcp",
                    FromPort=PORT,
                    ToPort=PORT,
                    DestinationSecurityGroupId=exported(spec, Export.STORAGE_GROUP),
                    Description="The page on the servers",
                )
            ],
            Tags=Tags(**tags(spec, role="health-page")),
        )
    )
