"""The console of the grid behind an internal load balancer, where the site has a certificate for it.

TLS goes on both legs: from browsers to the load balancer, with the certificate of the site, and from there to
the head node, with one that the head node makes itself. A network load balancer does not check the latter
(Network Load Balancers, TLS listeners), so that the security group of the head node lets in no other than it.
Who opens the page brings the token, which AWS makes up, and which the head node alone can read.

An application load balancer, which could log people in, asks for a second zone, and the grid has one (Elastic
Load Balancing, Application Load Balancers, subnets).
"""

from __future__ import annotations

from collections.abc import Iterator

from troposphere import GetAtt, Output, Ref, Sub, Tags, Template, ec2
from troposphere import elasticloadbalancingv2 as balancing
from troposphere.secretsmanager import GenerateSecretString, Secret

from gridwright.providers.aws.console_layout import (
    KEY,
    TOKEN,
    balancer_address,
    console_machine,
    readers,
    secret_name,
)
from gridwright.providers.aws.layout import AwsLayout, Machine, Role
from gridwright.providers.aws.names import Export, lasting_tags, tags
from gridwright.providers.aws.user_data import exported
from gridwright.services.console_address import HEALTH, PORT
from gridwright.spec.model import GridSpec

TOKEN_LENGTH = 48
"""Letters and digits: 285 bits."""
ADDRESS_OUTPUT = "ConsoleAddress"
HTTPS = 443
POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06"
"""TLS 1.2 and 1.3 alone."""
_GROUPS = {Role.HEAD: Export.HEAD_GROUP, Role.LOGIN: Export.LOGIN_GROUP}


def add_console(template: Template, spec: GridSpec, layout: AwsLayout) -> None:
    """A network load balancer with TLS, at an address of its own in the subnet of the login node."""
    machine = console_machine(layout)
    if machine is None:
        return
    marks = tags(spec, role="console")
    _add_token(template, spec, layout)
    _add_key(template, spec)
    for each in _firewall(spec, layout, machine):
        template.add_resource(each)
    balancer = template.add_resource(
        balancing.LoadBalancer(
            "Console",
            Type="network",
            Scheme="internal",
            SubnetMappings=[
                balancing.SubnetMapping(
                    SubnetId=exported(spec, Export.PUBLIC_SUBNET),
                    PrivateIPv4Address=str(balancer_address(layout)),
                )
            ],
            SecurityGroups=[Ref("ConsoleGroup")],
            Tags=Tags(**marks, Name=f"{spec.name}-console"),
        )
    )
    targets = template.add_resource(
        balancing.TargetGroup(
            "ConsoleTargets",
            VpcId=exported(spec, Export.VPC),
            TargetType="ip",
            Protocol="TLS",
            Port=PORT,
            Targets=[balancing.TargetDescription(Id=str(machine.address), Port=PORT)],
            HealthCheckProtocol="HTTPS",
            HealthCheckPath=HEALTH,
            TargetGroupAttributes=[
                # Otherwise the head node would see addresses of readers, and let them in by none.
                balancing.TargetGroupAttribute(Key="preserve_client_ip.enabled", Value="false")
            ],
            Tags=Tags(**marks),
        )
    )
    template.add_resource(
        balancing.Listener(
            "ConsoleListener",
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
            ADDRESS_OUTPUT,
            Description="Where a name that the certificate is for has to point",
            Value=Sub("https://${Name}/", Name=GetAtt(balancer, "DNSName")),
        )
    )


def _add_token(template: Template, spec: GridSpec, layout: AwsLayout) -> None:
    """What readers of the page must have."""
    secret = Secret(
        TOKEN,
        Name=secret_name(spec),
        Description=f"Token of the console of grid {spec.name}",
        GenerateSecretString=GenerateSecretString(PasswordLength=TOKEN_LENGTH, ExcludePunctuation=True),
        Tags=Tags(**tags(spec, role="console")),
    )
    if layout.aws.kms_key is not None:
        secret.KmsKeyId = layout.aws.kms_key
    template.add_resource(secret)


def _add_key(template: Template, spec: GridSpec) -> None:
    """A key pair that AWS makes: EC2 tells the public half, and Parameter Store the private one.

    CloudFormation makes it anew for other tags, so that it has those that stay.
    """
    name, marks = secret_name(spec), lasting_tags(spec, role="console")
    template.add_resource(ec2.KeyPair(KEY, KeyName=name, KeyType="ed25519", Tags=Tags(**marks)))


def _firewall(
    spec: GridSpec, layout: AwsLayout, machine: Machine
) -> Iterator[ec2.SecurityGroup | ec2.SecurityGroupIngress]:
    """Readers reach the load balancer, it reaches the console, and nobody else does."""
    served = exported(spec, _GROUPS[machine.role])
    yield ec2.SecurityGroup(
        "ConsoleGroup",
        GroupDescription=f"Load balancer of the console of grid {spec.name}",
        VpcId=exported(spec, Export.VPC),
        SecurityGroupIngress=[
            ec2.SecurityGroupRule(
                IpProtocol="tcp",
                FromPort=HTTPS,
                ToPort=HTTPS,
                CidrIp=str(network),
                Description="Readers of the console within the network",
            )
            for network in readers(layout)
        ],
        SecurityGroupEgress=[
            ec2.SecurityGroupRule(
                IpProtocol="tcp",
                FromPort=PORT,
                ToPort=PORT,
                DestinationSecurityGroupId=served,
                Description="The console",
            )
        ],
        Tags=Tags(**tags(spec, role="console")),
    )
    yield ec2.SecurityGroupIngress(
        "ConsoleFromBalancer",
        GroupId=served,
        SourceSecurityGroupId=Ref("ConsoleGroup"),
        IpProtocol="tcp",
        FromPort=PORT,
        ToPort=PORT,
        Description="The console, through its load balancer",
    )
