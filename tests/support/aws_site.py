"""A network of the site's, made as a site would, and the spec of a grid that is put into it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from moto.ec2.models import ec2_backends

from tests.support.aws_cloud import AwsCloud
from tests.support.aws_grid import FSX
from tests.support.aws_machines import ACCOUNT, REGION

ZONE = f"{REGION}a"
DOMAIN = "grid.example.com"


@dataclass
class SiteNetwork:
    """A VPC whose machines reach the Internet by NAT, with endpoints, a security group and a private zone."""

    cloud: AwsCloud
    ids: dict[str, str] = field(default_factory=dict)

    @classmethod
    def made(cls, cloud: AwsCloud) -> SiteNetwork:
        """Make it, with boto3 alone."""
        site = cls(cloud)
        ec2 = site.ec2
        vpc = ec2.create_vpc(CidrBlock="10.8.0.0/16")["Vpc"]["VpcId"]
        for attribute in ("EnableDnsSupport", "EnableDnsHostnames"):
            ec2.modify_vpc_attribute(VpcId=vpc, **{attribute: {"Value": True}})
        site.ids["vpc"] = vpc
        for name, cidr in (("login", "10.8.4.0/24"), ("storage", "10.8.8.0/24"), ("compute", "10.8.16.0/24")):
            site.ids[name] = site.subnet(cidr)
        public = site.subnet("10.8.0.0/24")
        gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(VpcId=vpc, InternetGatewayId=gateway)
        address = ec2.allocate_address(Domain="vpc")["AllocationId"]
        nat = ec2.create_nat_gateway(SubnetId=public, AllocationId=address)["NatGateway"]["NatGatewayId"]
        site.ids |= {"public": public, "gateway": gateway, "nat": nat}
        site.ids["table"] = site.table("NatGatewayId", nat, "login", "storage", "compute")
        site.ids["public-table"] = site.table("GatewayId", gateway, "public")
        for service in ("s3", "dynamodb"):
            made = ec2.create_vpc_endpoint(
                VpcId=vpc,
                ServiceName=f"com.amazonaws.{REGION}.{service}",
                VpcEndpointType="Gateway",
                RouteTableIds=[site.ids["table"]],
            )
            site.ids[service] = made["VpcEndpoint"]["VpcEndpointId"]
        site.ids["group"] = ec2.create_security_group(GroupName="site", Description="of the site", VpcId=vpc)[
            "GroupId"
        ]
        zone = site.cloud.client("route53").create_hosted_zone(
            Name=DOMAIN,
            CallerReference="site",
            HostedZoneConfig={"PrivateZone": True},
            VPC={"VPCRegion": REGION, "VPCId": vpc},
        )
        site.ids["zone"] = zone["HostedZone"]["Id"].rpartition("/")[2]
        return site

    @property
    def ec2(self) -> Any:
        """EC2, asked by the site itself."""
        return self.cloud.client("ec2")

    def subnet(self, cidr: str, zone: str = ZONE, vpc: str | None = None) -> str:
        """Another subnet."""
        made = self.ec2.create_subnet(VpcId=vpc or self.ids["vpc"], CidrBlock=cidr, AvailabilityZone=zone)
        return str(made["Subnet"]["SubnetId"])

    def table(self, kind: str, target: str, *subnets: str) -> str:
        """A route table whose default route leads to a target, for some subnets."""
        number = self.ec2.create_route_table(VpcId=self.ids["vpc"])["RouteTable"]["RouteTableId"]
        if target:
            self.ec2.create_route(RouteTableId=number, DestinationCidrBlock="0.0.0.0/0", **{kind: target})
        for each in subnets:
            self.ec2.associate_route_table(RouteTableId=number, SubnetId=self.ids[each])
        return str(number)

    def spec(self, more: str = "") -> str:
        """A grid in it, with machines beside the nodes; `more` are lines of `vpc`."""
        ids = self.ids
        section = f"""
  vpc:
    id: {ids["vpc"]}
    networks: [10.8.0.0/16]
    login: {{subnet: {ids["login"]}, addresses: 10.8.4.64/28}}
    compute: {{subnet: {ids["compute"]}, addresses: 10.8.16.64/26}}
    storage: {{subnet: {ids["storage"]}, addresses: 10.8.8.64/28}}
    reserve: true
    endpoints: [{ids["s3"]}, {ids["dynamodb"]}]
    security_groups: {{login: [{ids["group"]}], meta: [{ids["group"]}]}}
    dns: {{id: {ids["zone"]}, name: {DOMAIN}}}
{more}"""
        aws = f"""aws:
  zone: {ZONE}
  ssh_from: [10.0.0.0/8]
  owner: ann
  ingress:
    - {{role: login, source: 10.0.0.0/8, ports: 443}}
    - {{role: meta, source: compute, ports: 8561}}{section}
machines:
  meta: {{instance: r6i.xlarge, disk: 200 GiB}}
  tier: {{instance: m6i.large, count: 2, replace: true, mounts: false}}
"""
        old = "aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24], owner: ann}\n"
        assert old in FSX
        return FSX.replace(old, aws)

    def release_what_is_gone(self) -> None:
        """Take away the first interfaces of instances that were terminated, which moto leaves."""
        backend = ec2_backends[ACCOUNT][REGION]
        for number, each in list(backend.enis.items()):
            if each.instance is not None and each.instance.state == "terminated":
                each.subnet.del_subnet_ip(each.private_ip_address)
                del backend.enis[number]

    def state(self) -> dict[str, Any]:
        """All that is in the account's network, as AWS describes it."""
        ec2, route53 = self.ec2, self.cloud.client("route53")
        found = {
            "vpcs": ec2.describe_vpcs()["Vpcs"],
            "subnets": ec2.describe_subnets()["Subnets"],
            "tables": ec2.describe_route_tables()["RouteTables"],
            "gateways": ec2.describe_internet_gateways()["InternetGateways"],
            "nat": ec2.describe_nat_gateways()["NatGateways"],
            "endpoints": ec2.describe_vpc_endpoints()["VpcEndpoints"],
            "acls": ec2.describe_network_acls()["NetworkAcls"],
            "groups": ec2.describe_security_groups()["SecurityGroups"],
            "addresses": ec2.describe_addresses()["Addresses"],
            "interfaces": ec2.describe_network_interfaces()["NetworkInterfaces"],
            "dhcp": ec2.describe_dhcp_options()["DhcpOptions"],
            "records": route53.list_resource_record_sets(HostedZoneId=self.ids["zone"])["ResourceRecordSets"],
            "zone": route53.get_hosted_zone(Id=self.ids["zone"])["VPCs"],
        }
        for each in found["subnets"]:
            answer = ec2.get_subnet_cidr_reservations(SubnetId=each["SubnetId"])
            found[each["SubnetId"]] = answer["SubnetIpv4CidrReservations"]
        return {name: _sorted(each) for name, each in found.items()}


def _sorted(found: list[Any]) -> list[Any]:
    return sorted(found, key=str)
