"""Kinds of resources that moto's CloudFormation does not make.

They are made through moto's own services where it has them (FSx, Secrets Manager, CloudWatch, EC2), and are a
plain record where it has none (placement groups, data repository associations), or where its own
would not do.
"""

from __future__ import annotations

from typing import Any

import pytest
from moto.cloudformation import parsing
from moto.cloudwatch.models import cloudwatch_backends
from moto.core.common_models import CloudFormationModel
from moto.ec2.exceptions import DependencyViolationError
from moto.ec2.models import ec2_backends
from moto.ec2.models.elastic_block_store import Volume
from moto.ec2.models.elastic_network_interfaces import NetworkInterface
from moto.ec2.models.internet_gateways import InternetGateway
from moto.ec2.models.nat_gateways import NatGateway
from moto.ec2.models.route_tables import Route, RouteTable
from moto.fsx.models import fsx_backends
from moto.route53.models import RecordSetGroup, route53_backends
from moto.secretsmanager.models import secretsmanager_backends
from moto.ssm.models import ssm_backends

UPDATED_BY_REPLACEMENT = frozenset({"AWS::S3::Bucket", "AWS::EC2::SecurityGroup"})
"""Kinds that moto updates by deleting and making anew, which AWS does not: they stay as they are."""


class StandIn(CloudFormationModel):
    """One kind of resource: what all of them say of themselves."""

    kind = ""
    name_property = ""
    attributes: frozenset[str] | None = None
    """What Fn::GetAtt knows; None: anything."""

    @classmethod
    def cloudformation_name_type(cls) -> str:
        return cls.name_property

    @classmethod
    def cloudformation_type(cls) -> str:
        return cls.kind

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return cls.attributes is None or attr in cls.attributes

    def is_created(self) -> bool:
        return True


class FileSystem(StandIn):
    """AWS::FSx::FileSystem, through moto's FSx."""

    kind = "AWS::FSx::FileSystem"
    attributes = frozenset({"DNSName", "LustreMountName", "ResourceARN"})

    def __init__(self, made: Any, region: str) -> None:
        self.made, self.region = made, region

    @property
    def physical_resource_id(self) -> str:
        return str(self.made.file_system_id)

    def get_cfn_attribute(self, name: str) -> str:
        return {
            "DNSName": str(self.made.dns_name),
            "LustreMountName": "abcdefgh",
            "ResourceARN": str(self.made.resource_arn),
        }[name]

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **kwargs: Any,
    ) -> FileSystem:
        given = cloudformation_json["Properties"]
        made = fsx_backends[account_id][region_name].create_file_system(
            client_request_token="",
            file_system_type=given["FileSystemType"],
            storage_capacity=given["StorageCapacity"],
            storage_type=given.get("StorageType", "SSD"),
            subnet_ids=given["SubnetIds"],
            security_group_ids=given.get("SecurityGroupIds", []),
            tags=given.get("Tags"),
            kms_key_id=given.get("KmsKeyId"),
            windows_configuration=None,
            lustre_configuration=given.get("LustreConfiguration"),
            ontap_configuration=None,
            file_system_type_version=None,
            open_zfs_configuration=None,
        )
        return cls(made, region_name)

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: FileSystem,
        new_resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
    ) -> FileSystem:
        given = cloudformation_json["Properties"]
        original_resource.made.storage_capacity = given["StorageCapacity"]
        original_resource.made.lustre_configuration = given.get("LustreConfiguration")
        return original_resource

    def delete(self, account_id: str, region: str) -> None:
        fsx_backends[account_id][region].delete_file_system(self.physical_resource_id, "", None, None, None)


class Secret(StandIn):
    """AWS::SecretsManager::Secret, through moto's Secrets Manager, which makes up its value."""

    kind = "AWS::SecretsManager::Secret"
    name_property = "Name"
    attributes = frozenset({"Id"})

    def __init__(self, arn: str) -> None:
        self.physical_resource_id = arn

    def get_cfn_attribute(self, name: str) -> str:
        return self.physical_resource_id

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **kwargs: Any,
    ) -> Secret:
        import json

        given = cloudformation_json["Properties"]
        backend = secretsmanager_backends[account_id][region_name]
        chosen = given.get("GenerateSecretString", {})
        made = backend.create_secret(
            name=resource_name,
            secret_string="x" * int(chosen.get("PasswordLength", 32)),
            secret_binary=None,
            description=given.get("Description"),
            tags=given.get("Tags"),
            kms_key_id=given.get("KmsKeyId"),
            client_request_token=None,
            replica_regions=[],
            force_overwrite=False,
        )
        document = json.loads(made) if isinstance(made, str) else made
        return cls(document["ARN"])

    def delete(self, account_id: str, region: str) -> None:
        backend = secretsmanager_backends[account_id][region]
        backend.delete_secret(self.physical_resource_id, None, force_delete_without_recovery=True)


class KeyPair(StandIn):
    """AWS::EC2::KeyPair, through moto's EC2, with its private half in moto's Systems Manager."""

    kind = "AWS::EC2::KeyPair"
    name_property = "KeyName"
    attributes = frozenset({"KeyPairId"})

    def __init__(self, made: Any) -> None:
        self.made, self.physical_resource_id = made, made.key_name

    def get_cfn_attribute(self, name: str) -> str:
        return str(self.made.id)

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **kwargs: Any,
    ) -> KeyPair:
        given = cloudformation_json["Properties"]
        tags = {each["Key"]: each["Value"] for each in given.get("Tags", ())}
        made = ec2_backends[account_id][region_name].create_key_pair(given["KeyName"], given["KeyType"], tags)
        ssm_backends[account_id][region_name].put_parameter(
            name=f"/ec2/keypair/{made.id}",
            description="",
            value=made.key_material,
            parameter_type="SecureString",
            allowed_pattern="",
            keyid="alias/aws/ssm",
            overwrite=False,
            tags=[],
            data_type="text",
            tier=None,
            policies=None,
        )
        return cls(made)

    def delete(self, account_id: str, region: str) -> None:
        ec2_backends[account_id][region].delete_key_pair(self.physical_resource_id)
        ssm_backends[account_id][region].delete_parameter(f"/ec2/keypair/{self.made.id}")


class MetricAlarm(StandIn):
    """AWS::CloudWatch::Alarm, through moto's CloudWatch."""

    kind = "AWS::CloudWatch::Alarm"
    name_property = "AlarmName"
    attributes = frozenset({"Arn"})

    def __init__(self, name: str, arn: str) -> None:
        self.physical_resource_id = name
        self.arn = arn

    def get_cfn_attribute(self, attribute_name: str) -> str:
        return self.arn

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **kwargs: Any,
    ) -> MetricAlarm:
        given = cloudformation_json["Properties"]
        made = cloudwatch_backends[account_id][region_name].put_metric_alarm(
            name=resource_name,
            namespace=given.get("Namespace", "AWS/FSx"),
            metric_name=given.get("MetricName", ""),
            comparison_operator=given["ComparisonOperator"],
            evaluation_periods=given["EvaluationPeriods"],
            period=given.get("Period", 60),
            threshold=given["Threshold"],
            statistic=given.get("Statistic", "Average"),
            description=given.get("AlarmDescription", ""),
            dimensions=given.get("Dimensions", []),
            alarm_actions=given.get("AlarmActions", []),
            tags=given.get("Tags"),
        )
        return cls(resource_name, made.alarm_arn)

    def delete(self, account_id: str, region: str) -> None:
        cloudwatch_backends[account_id][region].delete_alarms([self.physical_resource_id])


class Machine(StandIn):
    """AWS::EC2::Instance from a launch template, on an interface that is there: moto's own knows neither."""

    kind = "AWS::EC2::Instance"

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **kwargs: Any,
    ) -> Any:
        given = cloudformation_json["Properties"]
        backend = ec2_backends[account_id][region_name]
        template = backend.get_launch_template(given["LaunchTemplate"]["LaunchTemplateId"])
        data = template.latest_version().data
        interfaces = [dict(each) for each in given["NetworkInterfaces"]]
        subnet = backend.get_network_interface(interfaces[0]["NetworkInterfaceId"]).subnet
        reservation = backend.run_instances(
            data["ImageId"],
            1,
            given.get("UserData"),
            [],
            instance_type=given.get("InstanceType") or data["InstanceType"],
            is_instance_type_default=False,
            nics=interfaces,
            placement=subnet.availability_zone,
            tags={"instance": {each["Key"]: each["Value"] for each in given.get("Tags", [])}},
        )
        made = reservation.instances[0]
        made.version = str(given["LaunchTemplate"]["Version"])  # type: ignore[attr-defined]
        return made


class AddressOfInterface(StandIn):
    """AWS::EC2::EIPAssociation, through moto's EC2."""

    kind = "AWS::EC2::EIPAssociation"

    def __init__(self, name: str) -> None:
        self.physical_resource_id = name

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **kwargs: Any,
    ) -> AddressOfInterface:
        given = cloudformation_json["Properties"]
        backend = ec2_backends[account_id][region_name]
        interface = backend.get_network_interface(given["NetworkInterfaceId"])
        made = backend.associate_address(eni=interface, allocation_id=given["AllocationId"])
        return cls(str(made.association_id))

    def delete(self, account_id: str, region: str) -> None:
        ec2_backends[account_id][region].disassociate_address(association_id=self.physical_resource_id)


class Record(StandIn):
    """What moto has no service for, or would misjudge: it is there by its name."""

    def __init__(self, name: str) -> None:
        self.physical_resource_id = name

    def get_cfn_attribute(self, name: str) -> str:
        return f"{self.physical_resource_id}-{name}"

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **kwargs: Any,
    ) -> Record:
        return cls(resource_name)

    def delete(self, account_id: str, region: str) -> None:
        """It is gone with its stack."""


RECORDS = (
    "AWS::Budgets::Budget",
    "AWS::CloudWatch::Dashboard",
    "AWS::EC2::PlacementGroup",
    "AWS::EC2::SecurityGroupEgress",
    "AWS::FSx::DataRepositoryAssociation",
    # moto heeds the policy of a bucket, but none of its conditions: one that asks for TLS would shut it.
    "AWS::S3::BucketPolicy",
)


def _delete_interface(self: Any, account_id: str, region: str) -> None:
    backend = ec2_backends[account_id][region]
    if self.instance is not None and self.instance.state not in ("terminated", "shutting-down"):
        raise DependencyViolationError(f"{self.id} is in use")
    backend.delete_network_interface(self.id)


def _delete_routes(self: Any, account_id: str, region: str) -> None:
    backend = ec2_backends[account_id][region]
    self.associations.clear()
    backend.delete_route_table(self.id)


def _delete_route(self: Any, account_id: str, region: str) -> None:
    backend = ec2_backends[account_id][region]
    # moto deletes in no order: the table may have gone before.
    if self.route_table.id in backend.route_tables:
        backend.delete_route(self.route_table.id, self.destination_cidr_block)


def _delete_volume(self: Any, account_id: str, region: str) -> None:
    ec2_backends[account_id][region].delete_volume(self.id)


def _delete_internet_gateway(self: Any, account_id: str, region: str) -> None:
    backend = ec2_backends[account_id][region]
    if self.vpc is not None:
        backend.detach_internet_gateway(self.id, self.vpc.id)
    backend.delete_internet_gateway(self.id)


def _delete_gateway(self: Any, account_id: str, region: str) -> None:
    ec2_backends[account_id][region].delete_nat_gateway(self.id)


class Reservation(StandIn):
    """AWS::EC2::SubnetCidrReservation, through moto's subnets."""

    kind = "AWS::EC2::SubnetCidrReservation"
    attributes = frozenset()

    def __init__(self, made: Any) -> None:
        self.made = made

    @property
    def physical_resource_id(self) -> str:
        return str(self.made.id)

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **kwargs: Any,
    ) -> Reservation:
        given = cloudformation_json["Properties"]
        made = ec2_backends[account_id][region_name].create_subnet_cidr_reservation(
            given["SubnetId"], given["ReservationType"], given["Cidr"]
        )
        setattr(made, "description", given["Description"])  # noqa: B010
        return cls(made)

    def delete(self, account_id: str, region: str) -> None:
        ec2_backends[account_id][region].delete_subnet_cidr_reservation(self.made.id)


def _in_its_groups(original: Any) -> Any:
    """An interface is in the groups of its property GroupSet, which moto does not know."""

    def create(name: str, content: dict[str, Any], account: str, region: str, **more: Any) -> Any:
        properties = content["Properties"]
        given = {**properties, "SecurityGroups": properties.get("GroupSet", [])}
        return original(name, {**content, "Properties": given}, account, region, **more)

    return staticmethod(create)


def _delete_names(self: RecordSetGroup, account_id: str, region: str) -> None:
    zone = route53_backends[account_id]["aws"].get_hosted_zone(self.hosted_zone_id)
    for each in self.record_sets:
        zone.delete_rrset(each)  # type: ignore[arg-type] # moto says text, and they are mappings


def register(patch: pytest.MonkeyPatch) -> None:
    """Have moto's CloudFormation know them."""
    added: dict[str, Any] = {
        kind.cloudformation_type(): kind
        for kind in (FileSystem, Secret, KeyPair, MetricAlarm, Machine, AddressOfInterface, Reservation)
    }
    for name in RECORDS:
        added[name] = type(
            f"Record{name.rpartition(':')[2]}",
            (Record,),
            {"kind": name},
        )
    # moto leaves these where their stack is deleted.
    patch.setattr(InternetGateway, "delete", _delete_internet_gateway, raising=False)
    patch.setattr(Volume, "delete", _delete_volume, raising=False)
    patch.setattr(NatGateway, "delete", _delete_gateway, raising=False)
    made = NetworkInterface.create_from_cloudformation_json
    patch.setattr(NetworkInterface, "create_from_cloudformation_json", _in_its_groups(made))
    patch.setattr(NetworkInterface, "delete", _delete_interface, raising=False)
    patch.setattr(RecordSetGroup, "delete", _delete_names, raising=False)
    patch.setattr(Route, "delete", _delete_route, raising=False)
    patch.setattr(RouteTable, "delete", _delete_routes, raising=False)
    models = {**parsing.get_model_map(), **added}
    names = {kind: model.cloudformation_name_type() for kind, model in models.items()}
    patch.setattr(parsing, "NULL_MODELS", [])
    patch.setattr(parsing, "get_model_map", lambda: models)
    patch.setattr(parsing, "get_name_type_map", lambda: names)
