"""A cloud of the tests' own: moto's server in a thread, which the real command reaches with real boto3.

moto does not know all that a grid is made of, and takes some liberties with CloudFormation. What is added
here is as small as can be; each function says what moto does otherwise. Kinds of resources that it lacks are
in `aws_resources`.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import boto3
import pytest
from moto import backends
from moto.autoscaling.models import FakeAutoScalingGroup, InstanceState
from moto.autoscaling.responses import AutoScalingResponse
from moto.cloudformation import models as stack_models
from moto.cloudformation import parsing
from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.responses import CloudFormationResponse
from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.exceptions import InvalidVolumeAttachmentError
from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.models.amis import Ami
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.elastic_block_store import EBSBackend
from moto.ec2.models.launch_templates import LaunchTemplate
from moto.ec2.utils import parse_user_data
from moto.elbv2.models import FakeLoadBalancer, elbv2_backends
from moto.server import ThreadedMotoServer
from moto.servicequotas.models import ServiceQuotasBackend
from moto.ssm.models import Parameter, ssm_backends

from gridwright.providers.aws import stacks
from gridwright.providers.aws.launching import UBUNTU
from gridwright.providers.aws.names import SLOT_TAG
from tests.support import aws_resources
from tests.support.aws_faults import Faults
from tests.support.aws_machines import ACCOUNT, REGION, AwsMachines
from tests.support.command_server import botocore_once


def _register_groups(patch: pytest.MonkeyPatch) -> None:
    """Have CloudFormation change Auto Scaling groups and machines in place, as AWS does it.

    moto makes a group anew for any change, and forgets which version of a template its instances came from.
    AWS leaves the instances of a group alone that has no update policy; a machine whose launch template
    changes it makes anew first, which an interface in use does not allow. What refers to the version of a
    template follows.
    """
    patch.setattr(InstanceState, "__init__", _remembering(InstanceState.__init__))
    patch.setattr(InstanceState, "launch_template", property(_launched_with))
    patch.setattr(FakeAutoScalingGroup, "update_from_cloudformation_json", classmethod(_update_group))
    in_place: Any = classmethod(_update_template(LaunchTemplate.update_from_cloudformation_json))
    patch.setattr(LaunchTemplate, "update_from_cloudformation_json", in_place)
    patch.setattr(
        aws_resources.Machine, "update_from_cloudformation_json", classmethod(_update_machine), raising=False
    )


def _update_template(original: Any) -> Any:
    """A launch template whose values are what they were has no new version, however the text names them."""

    def update(cls: Any, original_resource: Any, cloudformation_json: dict[str, Any], **more: Any) -> Any:
        data = copy.deepcopy(cloudformation_json["Properties"]["LaunchTemplateData"])
        data["UserData"] = parse_user_data(data.get("UserData"))
        if data == original_resource.latest_version().data:
            return original_resource
        return original(original_resource=original_resource, cloudformation_json=cloudformation_json, **more)

    return update


def _remembering(original: Any) -> Any:
    def begin(self: InstanceState, *more: Any, **named: Any) -> None:
        original(self, *more, **named)
        group = self.auto_scaling_group
        self.version = str(getattr(group, "launch_template_version", ""))  # type: ignore[attr-defined]

    return begin


def _launched_with(self: Any) -> dict[str, Any] | None:
    template = self.auto_scaling_group.ec2_launch_template
    if template is None:
        return None
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "Version": self.version,
    }


def _update_group(
    cls: Any,
    original_resource: Any,
    new_resource_name: str,
    cloudformation_json: dict[str, Any],
    account_id: str,
    region_name: str,
) -> Any:
    given = cloudformation_json["Properties"]
    assert "UpdatePolicy" not in cloudformation_json, "a rolling update would end the jobs of nodes"
    original_resource.update(
        [],
        int(given["DesiredCapacity"]),
        int(given["MaxSize"]),
        int(given["MinSize"]),
        None,
        {name: str(value) for name, value in given["LaunchTemplate"].items()},
        ",".join(given["VPCZoneIdentifier"]),
        given["HealthCheckGracePeriod"],
        given["HealthCheckType"],
    )
    original_resource.tags = given["Tags"]
    return original_resource


def _update_machine(
    cls: Any,
    original_resource: Any,
    new_resource_name: str,
    cloudformation_json: dict[str, Any],
    account_id: str,
    region_name: str,
) -> Any:
    given = cloudformation_json["Properties"]
    if str(given["LaunchTemplate"]["Version"]) != original_resource.version:
        (interface,) = (each["NetworkInterfaceId"] for each in given["NetworkInterfaces"])
        raise ValidationError(message=f"Interface: [{interface}] in use.")
    original_resource.instance_type = given["InstanceType"]
    return original_resource


def _follow_templates(stack: Any, resources: dict[str, Any]) -> None:
    """Have groups and machines of a stack that was changed follow the versions of their launch templates."""
    for name, resource in resources.items():
        if resource["Type"] not in ("AWS::AutoScaling::AutoScalingGroup", "AWS::EC2::Instance"):
            continue
        template = resource["Properties"]["LaunchTemplate"]["LaunchTemplateId"]["Ref"]
        latest = stack.resource_map[template].latest_version_number
        there = stack.resource_map[name]
        if isinstance(there, FakeAutoScalingGroup):
            given = {"LaunchTemplateId": stack.resource_map[template].id, "Version": str(latest)}
            there._set_launch_configuration("", given, None)
        elif there.version != str(latest):
            raise ValidationError(message=f"{name}: its interface is in use.")


def _register_balancers(patch: pytest.MonkeyPatch) -> None:
    """Have load balancers made as their template says: moto leaves out mappings, types and tags."""

    def _create_balancer(
        _cls: Any,
        /,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **__: Any,
    ) -> FakeLoadBalancer:
        given = cloudformation_json["Properties"]
        backend = elbv2_backends[account_id][region_name]
        return backend.create_load_balancer(
            resource_name,
            given.get("SecurityGroups"),
            given.get("Subnets", []),
            given.get("SubnetMappings"),
            scheme=given.get("Scheme", "internet-facing"),
            loadbalancer_type=given.get("Type"),
            tags=given.get("Tags"),
        )

    patch.setattr(FakeLoadBalancer, "create_from_cloudformation_json", classmethod(_create_balancer))


def _register_volumes(patch: pytest.MonkeyPatch) -> None:
    """Let a volume go from each machine that has attached it; moto knows the last attachment alone."""
    detach = EBSBackend.detach_volume

    def one_of_several(self: EC2Backend, volume_id: str, instance_id: str, device_path: str) -> Any:
        try:
            return detach(self, volume_id, instance_id, device_path)
        except InvalidVolumeAttachmentError:
            mapping = self.get_instance(instance_id).block_device_mapping
            held = [name for name, each in mapping.items() if each.volume_id == volume_id]
            if not held:
                raise
            return mapping.pop(held[0])

    patch.setattr(EBSBackend, "detach_volume", one_of_several)


_LONGEST_S = 60.0
"""How long a call may take that nobody waits for any more."""


@dataclass
class _Counted:
    """The application, with how many calls it works on."""

    application: Callable[[Any, Any], Any]
    idle: threading.Condition = field(default_factory=threading.Condition)
    calls: int = 0

    def __call__(self, environment: Any, start: Any) -> Any:
        with self.idle:
            self.calls += 1
        try:
            return self.application(environment, start)
        finally:
            with self.idle:
                self.calls -= 1
                self.idle.notify_all()

    def wait(self) -> None:
        with self.idle:
            self.idle.wait_for(lambda: not self.calls, _LONGEST_S)


@cache
def _started() -> tuple[str, _Counted]:
    """One for all tests of this process: it makes its applications when they are first asked for."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    modules = tuple(backends.list_of_moto_modules())
    # It looks at its own directories for each call.
    backends.list_of_moto_modules = lambda: modules
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    made: Any = server._server
    made.app = counted = _Counted(made.app)
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}", counted


@contextlib.contextmanager
def _moto_server() -> Iterator[tuple[str, Callable[[], None]]]:
    """moto's server in a thread: its address, and what waits until it is idle.

    A command that a test interrupts leaves its call behind. One that goes on while moto is emptied for the
    next test makes things there that nobody has asked for.
    """
    url, counted = _started()
    yield url, counted.wait


UBUNTU_IMAGE, STORAGE_IMAGE = "ami-0aaaaaaaaaaaaaaaa", "ami-0123456789abcdef0"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_SESSION_TOKEN": "testing",
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    "AWS_MAX_ATTEMPTS": "2",
    "COLUMNS": "200",
}


@dataclass
class AwsCloud:
    """The cloud, empty at first. `faults` stand between the command and it."""

    url: str
    direct: str
    faults: Faults
    failing: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    quotas: dict[str, float] = field(default_factory=dict)
    """Those that are not as large as nobody needs, by their codes."""
    activities: list[dict[str, Any]] = field(default_factory=list)
    """What Auto Scaling groups tell of their tries to start machines, the newest first."""
    _clients: dict[str, Any] = field(default_factory=dict)
    machines: AwsMachines = field(init=False)

    def __post_init__(self) -> None:
        self.machines = AwsMachines(self.client)

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs to reach it."""
        return {**ENVIRONMENT, "AWS_ENDPOINT_URL": self.url}

    def client(self, service: str) -> Any:
        """A client of the test's own, past the faults."""
        if service not in self._clients:
            self._clients[service] = boto3.client(
                service,
                region_name=REGION,
                endpoint_url=self.direct,
                aws_access_key_id="testing",
                aws_secret_access_key="testing",  # noqa: S106
            )
        return self._clients[service]

    def stack_states(self) -> dict[str, str]:
        """State of each stack that is there."""
        found = self.client("cloudformation").describe_stacks()["Stacks"]
        return {each["StackName"]: each["StackStatus"] for each in found}

    def claim(self, grid: str, slots: Iterable[str], role: str) -> None:
        """Have instances of a role claim what is theirs; what `node claim` does is tested elsewhere."""
        found = self.client("ec2").describe_instances(
            Filters=[
                {"Name": "tag:gridwright:grid", "Values": [grid]},
                {"Name": "tag:gridwright:role", "Values": [role]},
            ]
        )["Reservations"]
        owners = [each["InstanceId"] for reservation in found for each in reservation["Instances"]]
        volumes = self.client("ec2").describe_volumes()["Volumes"]
        for slot, owner in zip(slots, owners, strict=True):
            mine = [v["VolumeId"] for v in volumes if {"Key": SLOT_TAG, "Value": slot} in v.get("Tags", [])]
            states = {each: {"M": {"state": {"S": "formatted"}}} for each in mine}
            item = {
                "slot": {"S": slot},
                "owner": {"S": owner},
                "token": {"N": "1"},
                "volumes": {"M": states},
            }
            self.client("dynamodb").put_item(TableName=f"gridwright-{grid}-claims", Item=item)

    def tagged(self, grid: str) -> list[str]:
        """What the tagging service knows of a grid, but for what it lists for some time when it is gone."""
        found = self.client("resourcegroupstaggingapi").get_resources(
            TagFilters=[{"Key": "gridwright:grid", "Values": [grid]}]
        )["ResourceTagMappingList"]
        arns = [each["ResourceARN"] for each in found]
        return [each for each in arns if ":instance/" not in each and ":natgateway/" not in each]

    def running(self, grid: str) -> list[str]:
        """Instances of a grid that are not gone."""
        found = self.client("ec2").describe_instances(
            Filters=[
                {"Name": "tag:gridwright:grid", "Values": [grid]},
                {"Name": "instance-state-name", "Values": ["pending", "running", "stopped"]},
            ]
        )["Reservations"]
        return [each["InstanceId"] for reservation in found for each in reservation["Instances"]]

    def fail_next_stack(self, name: str, resource: str, kind: str, reason: str) -> None:
        """Have the stack of a name be rolled back when it is made, since a resource failed."""
        self.failing[name] = (resource, kind, reason)

    def image(self, number: str) -> Any:
        """moto's own record of an image."""
        return ec2_backends[ACCOUNT][REGION].amis[number]

    def publish(self, number: str, name: str = UBUNTU.format("amd64")) -> None:
        """Have a name, by default Canonical's, stand for another image."""
        _publish(name, number)

    def withdraw(self, number: str) -> None:
        """Have an image be gone."""
        del ec2_backends[ACCOUNT][REGION].amis[number]

    def images_of_machines(self, grid: str) -> dict[str, str]:
        """Image of each instance of a grid."""
        found = self.client("ec2").describe_instances(InstanceIds=self.running(grid))["Reservations"]
        return {each["InstanceId"]: each["ImageId"] for one in found for each in one["Instances"]}

    def stack(self, name: str) -> Any:
        """moto's own record of a stack, to set its state."""
        backend = stack_models.cloudformation_backends[ACCOUNT][REGION]
        return backend.get_stack(name)

    def resources(self, stack: str) -> dict[str, str]:
        """Physical ID of each resource of a stack."""
        pages = self.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
        return {
            each["LogicalResourceId"]: each["PhysicalResourceId"]
            for page in pages
            for each in page["StackResourceSummaries"]
        }

    def file_systems(self) -> list[str]:
        """IDs of all FSx file systems."""
        return [each["FileSystemId"] for each in self.client("fsx").describe_file_systems()["FileSystems"]]

    def volumes(self, tag: str) -> dict[str, str]:
        """ID of each volume that has a tag, by the tag's value."""
        found = self.client("ec2").describe_volumes(Filters=[{"Name": "tag-key", "Values": [tag]}])["Volumes"]
        return {
            each["Value"]: volume["VolumeId"]
            for volume in found
            for each in volume["Tags"]
            if each["Key"] == tag
        }


@contextlib.contextmanager
def aws_cloud() -> Iterator[AwsCloud]:
    """Have a cloud; it is empty again afterwards."""
    botocore_once()
    with pytest.MonkeyPatch.context() as patch:
        _mend(patch)
        with _moto_server() as (direct, wait_until_idle), Faults.before(direct) as faults:
            cloud = AwsCloud(faults.url, direct, faults)
            backend = stack_models.CloudFormationBackend
            patch.setattr(backend, "create_stack", _failing(backend.create_stack, cloud))
            told = _activities(cloud)
            patch.setattr(AutoScalingResponse, "describe_scaling_activities", told, raising=False)
            patch.setattr(ServiceQuotasBackend, "get_service_quota", _quota(cloud))
            _publish_images()
            try:
                with cloud.machines.running():
                    yield cloud
            finally:
                wait_until_idle()
                _reset(direct)


def _activities(cloud: AwsCloud) -> Callable[[Any], Any]:
    """What groups tried; moto knows no such call, as its machines start at once."""
    return lambda _: ActionResult({"Activities": cloud.activities})


def _quota(cloud: AwsCloud) -> Callable[..., dict[str, Any]]:
    """Quotas of all services; moto has those of VPC alone."""

    def found(_: Any, service_code: str, quota_code: str) -> dict[str, Any]:
        value = cloud.quotas.get(quota_code, 1e6)
        return {"ServiceCode": service_code, "QuotaCode": quota_code, "Value": value}

    return found


def _publish_images() -> None:
    """The images that specs of tests name, and Canonical's name for one; moto starts machines from none."""
    _add_image(STORAGE_IMAGE)
    _publish(UBUNTU.format("amd64"), UBUNTU_IMAGE)


def _add_image(number: str) -> None:
    ec2 = ec2_backends[ACCOUNT][REGION]
    ec2.amis[number] = Ami(ec2, number, architecture="x86_64", public=True, root_device_type="ebs")


def _publish(name: str, number: str) -> None:
    """Have a parameter, also one of AWS's own names, stand for an image that is made for it."""
    _add_image(number)
    now = datetime.datetime.now(datetime.UTC)
    parameter = Parameter(  # type: ignore[abstract] # moto makes them like this itself
        ACCOUNT, name, number, "String", None, None, None, now, 1, "text"
    )
    ssm_backends[ACCOUNT][REGION]._parameters[name] = [parameter]


def _failing(original: Callable[..., Any], cloud: AwsCloud) -> Callable[..., Any]:
    """Stacks that are to fail are rolled back, as AWS does it: the stack stays, with nothing in it."""

    def create(self: Any, name: str, template: str, *more: Any, **named: Any) -> Any:
        chosen = cloud.failing.pop(name, None)
        if chosen is None:
            return original(self, name, template, *more, **named)
        resource, kind, reason = chosen
        empty = {"Resources": {}, "Metadata": json.loads(template).get("Metadata", {})}
        stack = original(self, name, json.dumps(empty), *more, **named)
        stack.events.insert(-1, _event(stack, resource, kind, "CREATE_FAILED", reason))
        cancelled = "Resource creation cancelled"
        stack.events.insert(-1, _event(stack, "Other", "AWS::EC2::Volume", "CREATE_FAILED", cancelled))
        stack.events[-1].resource_status = stack.status = "ROLLBACK_COMPLETE"
        return stack

    return create


def _event(stack: Any, resource: str, kind: str, status: str, reason: str) -> Any:
    return stack_models.Event(
        stack_id=stack.stack_id,
        stack_name=stack.name,
        logical_resource_id=resource,
        physical_resource_id="",
        resource_type=kind,
        resource_status=status,
        resource_status_reason=reason,
        resource_properties=None,
    )


def _reset(direct: str) -> None:
    import urllib.request

    request = urllib.request.Request(f"{direct}/moto-api/reset", method="POST")  # noqa: S310
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310
        pass


def _mend(patch: pytest.MonkeyPatch) -> None:
    """Have moto's CloudFormation keep what AWS's does."""
    aws_resources.register(patch)
    _register_groups(patch)
    _register_balancers(patch)
    _register_volumes(patch)
    patch.setattr(parsing, "parse_and_create_resource", _tagged(parsing.parse_and_create_resource))
    patch.setattr(parsing, "parse_and_update_resource", _updated(parsing.parse_and_update_resource))
    in_place = classmethod(_resized(FakeAutoScalingGroup.update_from_cloudformation_json))
    patch.setattr(FakeAutoScalingGroup, "update_from_cloudformation_json", in_place)
    patch.setattr(parsing.ResourceMap, "_delete_resource", _deleted(parsing.ResourceMap._delete_resource))
    patch.setattr(stack_models.Stack, "parse_template", staticmethod(_parsed))
    patch.setattr(stack_models.ChangeSet, "_parse_template", _parse_change_set)
    patch.setattr(stack_models.ChangeSet, "diff", _by_parameters(stack_models.ChangeSet.diff))
    patch.setattr(stack_models.ChangeSet, "apply", _applied(stack_models.ChangeSet.apply))
    backend = stack_models.CloudFormationBackend
    patch.setattr(backend, "delete_stack", _guarded(backend.delete_stack))
    patch.setattr(CloudFormationResponse, "update_termination_protection", _protect, raising=False)


def _parsed(template: str) -> dict[str, Any]:
    """A template in JSON, in no time; moto takes seconds for it, since it takes it for YAML."""
    if not template.startswith("{"):
        return stacks.parsed(template)
    found: dict[str, Any] = json.loads(template)
    return found


def _parse_change_set(self: Any) -> None:
    self.template_dict = _parsed(self.template)


def _by_parameters(original: Callable[..., Any]) -> Callable[..., Any]:
    """A change set has what other values of parameters change, too; moto compares templates alone."""

    def diff(self: Any) -> Any:
        resources, build = self.stack.resource_map, self.stack.resource_map.build_resource_diff
        resources.build_resource_diff = lambda template: build(template, self.parameters)
        try:
            return original(self)
        finally:
            del resources.build_resource_diff

    return diff


def _tagged(original: Callable[..., Any]) -> Callable[..., Any]:
    """A resource of EC2 has the tags that its template gives it; moto forgets those of some kinds."""

    def create(logical_id: str, resource_json: dict[str, Any], *more: Any, **named: Any) -> Any:
        made = original(logical_id, resource_json, *more, **named)
        tags = resource_json.get("Properties", {}).get("Tags", [])
        if isinstance(made, TaggedEC2Resource):
            wanted = {each["Key"]: each["Value"] for each in tags}
            backend = ec2_backends[named["account_id"]][named["region_name"]]
            backend.create_tags([getattr(made, "physical_resource_id")], wanted)  # noqa: B009
        return made

    return create


def _updated(original: Callable[..., Any]) -> Callable[..., Any]:
    """A resource whose class knows no update stays as it is; moto would forget it."""

    def update(logical_id: str, resource_json: dict[str, Any], resources_map: Any, **more: Any) -> Any:
        kept = resources_map[logical_id]
        if resource_json["Type"] == "AWS::DynamoDB::Table":
            protected = resource_json["Properties"].get("DeletionProtectionEnabled", False)
            kept.deletion_protection_enabled = protected
        kind = parsing.resource_class_from_type(resource_json["Type"])
        defined = kind is not None and "update_from_cloudformation_json" in vars(kind)
        if not defined or kind.cloudformation_type() in aws_resources.UPDATED_BY_REPLACEMENT:
            return kept
        return original(logical_id, resource_json, resources_map, **more) or kept

    return update


def _resized(original: Callable[..., Any]) -> Callable[..., Any]:
    """A group of which the template says no size has other bounds, and keeps its machines within them.

    moto deletes a group and makes another one, which also stands for a group that is rolled.
    """

    def update(cls: Any, original_resource: Any, cloudformation_json: dict[str, Any], **more: Any) -> Any:
        group, wanted = original_resource, cloudformation_json["Properties"]
        template = (group.ec2_launch_template.id, str(group.launch_template_version))
        named = wanted["LaunchTemplate"]
        rolled = template != (named["LaunchTemplateId"], str(named["Version"]))
        if "DesiredCapacity" in wanted or rolled:
            return original(
                original_resource=original_resource, cloudformation_json=cloudformation_json, **more
            )
        group.min_size, group.max_size = int(wanted["MinSize"]), int(wanted["MaxSize"])
        group.set_desired_capacity(min(max(group.desired_capacity, group.min_size), group.max_size))
        return group

    return update


def _deleted(original: Callable[..., None]) -> Callable[..., None]:
    """What leaves a template with DeletionPolicy Retain stays; moto heeds that only for whole stacks."""

    def delete(self: Any, parsed_resource: Any, resource_json: dict[str, Any]) -> None:
        if resource_json.get("DeletionPolicy") != "Retain":
            original(self, parsed_resource, resource_json)

    return delete


def _applied(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """Outputs, exports and parameters change with a stack, and what left it can come back, as another one.

    moto leaves the former as they were, and would give the old resource back.
    """

    def apply(self: Any) -> None:
        stack = self.stack
        removed = set(stack.resource_map.resources) - set(self.template_dict["Resources"])
        original(self)
        for name in removed:
            stack.resource_map._parsed_resources.pop(name, None)
        _follow_templates(stack, self.template_dict["Resources"])
        stack.parameters = self.parameters
        stack.template = self.template
        stack._parse_template()
        backend = stack_models.cloudformation_backends[stack.account_id][stack.region_name]
        for name in [
            each.name for each in backend.exports.values() if each.exporting_stack_id == stack.stack_id
        ]:
            del backend.exports[name]
        stack.output_map = stack._create_output_map()
        for export in stack.exports:
            backend.exports[export.name] = export

    return apply


def _guarded(original: Callable[..., None]) -> Callable[..., None]:
    """A protected stack is not deleted, nor one whose exports another one reads; moto deletes both."""

    def delete(self: Any, name_or_stack_id: str) -> None:
        stack = next(
            (each for each in self.stacks.values() if name_or_stack_id in (each.name, each.stack_id)), None
        )
        if stack is not None:
            if stack.enable_termination_protection:
                raise ValidationError(
                    message=f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
                )
            for other in self.stacks.values():
                for export in stack.exports:
                    if other is not stack and f'"{export.name}"' in str(other.template):
                        raise ValidationError(
                            message=f"Export {export.name} cannot be deleted as it is in use by {other.name}"
                        )
        original(self, name_or_stack_id)
        if stack is not None:
            # moto works outputs out when they are read, and makes the resources anew that they are of.
            stack.output_map = parsing.OutputMap(stack.resource_map, {}, stack.stack_id)

    return delete


def _protect(self: Any) -> Any:
    stack = self.cloudformation_backend.get_stack(self._get_param("StackName"))
    stack.enable_termination_protection = self._get_bool_param("EnableTerminationProtection")
    return EmptyResult()
