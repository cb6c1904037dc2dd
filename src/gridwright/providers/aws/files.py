"""Everything that `render` writes for a grid on AWS; its README.md says how the AWS CLI alone deploys it."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Any

from troposphere import Template

from gridwright.catalog import Catalog, load_catalog
from gridwright.errors import Finding, GridwrightError
from gridwright.model.grid import GridModel, check_against_catalogue, grid_model
from gridwright.providers.aws.grid_template import grid_template
from gridwright.providers.aws.images import named_images
from gridwright.providers.aws.launching import NestedTemplate
from gridwright.providers.aws.layout import (
    AwsLayout,
    Role,
    aws_layout,
    console_machine,
    fsx_file_systems,
    secret_name,
)
from gridwright.providers.aws.machine_files import machine_files
from gridwright.providers.aws.names import (
    GRID_TAG,
    claims_table,
    grid_stack,
    logical_id,
    of_account,
    storage_stack,
)
from gridwright.providers.aws.stacks import template_text
from gridwright.providers.aws.storage_template import storage_template
from gridwright.providers.aws.up import OFF, desired_root_squash
from gridwright.providers.cloud import cost_document, problems_of
from gridwright.providers.file_servers import built_lustres
from gridwright.providers.rendering import markdown
from gridwright.schedulers.machines import SchedulerSetup
from gridwright.setup.node_specs import secret_arn
from gridwright.setup.playbook import Hosts
from gridwright.spec.model import GridSpec

# IAM policies of who runs Gridwright, least and listed, made from the templates of one grid.
#
# A managed policy has at most 6,144 characters, without white space (IAM User Guide, IAM quotas), so that
# there are several; a user, group or role takes ten. They name no account: a policy holds in the account that
# it is attached in.
#
# Names that CloudFormation makes are STACK-LOGICALID-RANDOM. Where that is longer than a service takes, it
# cuts the parts, and nothing says how: only the first letters of the stack are relied on then.
#
# The actions that who runs Gridwright needs, each with what it is held to and who calls it.
#
# `data/operator-actions.csv`: `for` is the types of resources, without AWS::, that CloudFormation calls it
# for in the caller's name, or gridwright, which calls it by itself. `source` is `handlers` where the schema
# of the type lists it (cfn-lint 1.58.0, 2026-11-23), `call` where a test sees the call, or AWS's own page.
# What the schemas list beyond these, for properties that no template has, is listed with its reason beside
# the test.

GRIDWRIGHT = "gridwright"
"""Calls it by itself, of every grid; with a word behind it, of grids that have what the word says."""


class Scope(StrEnum):
    """What a permission is held to."""

    STACK = "stack"
    """The grid's stacks, by name."""
    LOOK = "look"
    """The region: reading that knows no narrower resource."""
    MAKE = "make"
    """The region: what is not there yet has no tag to know it by."""
    NEW = "new"
    """What is born with the grid's tag, and has none before."""
    TAGGING = "tagging"
    """Tags that EC2 gives a resource in the call that makes it, the grid's own among them."""
    OWN = "own"
    """What has the grid's tag."""
    GROUP = "group"
    """The grid's Auto Scaling groups, by name."""
    SCHEDULES = "schedules"
    """The grid's group of schedules, by name."""
    SCHEDULE = "schedule"
    """Schedules in that group."""
    PASS_SCHEDULE = "pass-schedule"  # noqa: S105 - handing a role to EventBridge Scheduler
    """The role of these schedules, handed to EventBridge Scheduler alone."""
    ALARM = "alarm"
    """The grid's alarms, by name."""
    DASHBOARD = "dashboard"
    """The grid's dashboard, by name."""
    BUDGET = "budget"
    """The grid's budget, by name."""
    TABLE = "table"
    """The table of claims."""
    BUCKET = "bucket"
    """The grid's bucket."""
    OBJECTS = "objects"
    """What is in it."""
    ROLE = "role"
    """The roles of the grid's machines, by name."""
    BOUNDED_ROLE = "bounded-role"
    """The same, and only with the permissions boundary of the spec where it has one."""
    BOUNDARY = "boundary"
    """The same, and nothing where the spec has no boundary."""
    PROFILE = "profile"
    """The instance profiles of the grid's machines, by name."""
    PASS = "pass"  # noqa: S105 - handing a role to a machine
    """The roles of the grid's machines, handed to EC2 alone."""
    LINKED_ROLE = "linked-role"
    """Roles of services that the grid uses."""
    LINK_ROLE = "link-role"
    """The role by which FSx for Lustre reaches a linked bucket."""
    LINKED_BUCKET = "linked-bucket"
    """Buckets that the spec links."""
    LINKED_OBJECTS = "linked-objects"
    """What is in them below the linked prefixes."""
    KEY = "key"
    """The spec's KMS key."""
    GRANT = "grant"
    """The spec's KMS key, for services of AWS alone."""
    TOPIC = "topic"
    """The spec's SNS topic."""
    HOSTED_ZONE = "hosted-zone"
    """The spec's hosted zone."""
    DNS_CHANGE = "dns-change"
    """Changes of hosted zones, to be waited for."""
    USERS_SECRET = "users-secret"  # noqa: S105 - whose it is
    """The secret of the spec's directory of users."""
    KEY_PAIR = "key-pair"
    """Parameters of Systems Manager that hold private keys of key pairs, which EC2 names by their IDs."""
    PARAMETER = "parameter"
    """Parameters of Systems Manager that name images of the grid."""


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """One row."""

    action: str
    scope: Scope
    callers: frozenset[str]
    """Types of resources, or gridwright."""
    source: str


@cache
def operator_actions() -> tuple[OperatorAction, ...]:
    """All rows, in their order."""
    text = (
        resources.files("gridwright.providers.aws")
        .joinpath("data", "operator-actions.csv")
        .read_text("utf-8")
    )
    return tuple(
        OperatorAction(row["action"], Scope(row["scope"]), frozenset(row["for"].split()), row["source"])
        for row in csv.DictReader(text.splitlines())
    )


def needed(types: Collection[str], has: Collection[str] = ()) -> dict[Scope, list[str]]:
    """Actions by scope for templates with resources of these types; one that a pattern covers is left out.

    `has` are words for what the grid has that Gridwright looks at by itself: network, gateway, address of its
    own, or vpc, reservation and dns of the site's.
    """
    own = (f"{GRIDWRIGHT}:{each}" for each in has)
    callers = {GRIDWRIGHT, *own, *(each.removeprefix("AWS::") for each in types)}
    found: dict[Scope, dict[str, None]] = {}
    for each in operator_actions():
        if each.callers & callers:
            found.setdefault(each.scope, {})[each.action] = None
    return {scope: _narrowed(list(found[scope])) for scope in Scope if scope in found}


def _narrowed(actions: list[str]) -> list[str]:
    patterns = [each for each in actions if "*" in each]
    covered = (each for each in actions if "*" not in each)
    return patterns + [each for each in covered if not any(fnmatchcase(each, one) for one in patterns)]


FILE = "operator/policy-{}.json"
MOST_CHARACTERS = 6144
"""Of a managed policy, without white space (IAM User Guide, IAM quotas)."""
LONGEST_ROLE = 64
"""Characters of a name of a role (IAM User Guide, IAM quotas); of a profile there may be 128."""
LONGEST_SCHEDULE_GROUP = 64
"""EventBridge Scheduler API Reference, CreateScheduleGroup."""
LONGEST_BUCKET = 63
"""Amazon S3 User Guide, bucket naming rules."""
LONGEST = 255
"""Of groups and alarms (EC2 Auto Scaling API Reference, CloudWatch API Reference)."""
RANDOM = 14
"""Hyphen and random letters that CloudFormation puts behind a name: 13 at most in what its guide shows."""
SURE = 16
"""Letters of a stack's name that a name that is cut still begins with."""
_ANY = "*"
_NESTED = "AWS::CloudFormation::Stack"
_OF_GROUP = "autoScalingGroup:*:autoScalingGroupName"
_LINK = "AWS::FSx::DataRepositoryAssociation"
_SERVICES = {
    "AWS::AutoScaling::AutoScalingGroup": "autoscaling.amazonaws.com",
    "AWS::FSx::FileSystem": "fsx.amazonaws.com",
    _LINK: "s3.data-source.lustre.fsx.amazonaws.com",
    "AWS::ElasticLoadBalancingV2::LoadBalancer": "elasticloadbalancing.amazonaws.com",
}
"""Services that take a role of their own with the first resource of a type (IAM User Guide, AWS services that
work with IAM; FSx for Lustre User Guide, service-linked roles)."""


@dataclass(frozen=True)
class Operator:
    """Who runs one grid. `templates` are those of its stacks, as JSON has them, by the name of the stack."""

    spec: GridSpec
    layout: AwsLayout
    catalog: Catalog
    templates: Mapping[str, Mapping[str, Any]]

    def files(self) -> dict[str, str]:
        """The policies by their paths: each file is a document that a site attaches."""
        parts = _parts(self.statements())
        return {
            FILE.format(number): json.dumps(_document(part), indent=2) + "\n"
            for number, part in enumerate(parts, start=1)
        }

    def statements(self) -> list[dict[str, Any]]:
        """All of them, the narrow ones first."""
        resources, conditions = self._resources(), self._conditions()
        return [
            {
                "Sid": "".join(word.capitalize() for word in scope.split("-")),
                "Effect": "Allow",
                "Action": actions,
                "Resource": resources[scope],
                **({"Condition": held} if (held := conditions.get(scope)) else {}),
            }
            for scope, actions in needed(self.types, self.has).items()
            if resources[scope]
        ]

    @property
    def types(self) -> frozenset[str]:
        """Types of the resources of all stacks, nested ones among them: these hold interfaces alone."""
        found = {each["Type"] for template in self.templates.values() for each in template.values()}
        return frozenset(found | ({"AWS::EC2::NetworkInterface"} if _NESTED in found else set()))

    @property
    def has(self) -> list[str]:
        """What Gridwright looks at by itself of this grid's network."""
        aws, vpc = self.layout.aws, self.layout.aws.vpc
        words = {
            "network": vpc is None,
            "gateway": aws.makes_way_out,
            "address": aws.makes_way_out or aws.has_public_login,
            "vpc": vpc is not None,
            "reservation": vpc is not None and vpc.reserve,
            "dns": vpc is not None and vpc.dns is not None,
        }
        return [word for word, is_there in words.items() if is_there]

    def _conditions(self) -> dict[Scope, dict[str, Mapping[str, Any]]]:
        region = {"aws:RequestedRegion": self.spec.region}
        asked = {f"aws:RequestTag/{GRID_TAG}": self.spec.name}
        own = {f"aws:ResourceTag/{GRID_TAG}": self.spec.name}
        makes = {"ec2:CreateAction": [each.partition(":")[2] for each in self._actions(Scope.MAKE)]}
        boundary = self.layout.aws.permissions_boundary
        bounded: dict[str, Mapping[str, Any]] = {"StringEquals": {"iam:PermissionsBoundary": boundary}}
        to = {"iam:PassedToService": f"ec2.amazonaws.com{'.cn' if self._partition == 'aws-cn' else ''}"}
        return {
            Scope.LOOK: {"StringEquals": region},
            Scope.MAKE: {"StringEquals": region},
            Scope.OWN: {"StringEquals": region | own},
            Scope.NEW: {"StringEquals": region | asked, "Null": dict.fromkeys(own, "true")},
            Scope.TAGGING: {"StringEquals": region | asked | makes},
            Scope.BOUNDED_ROLE: bounded if boundary else {},
            Scope.BOUNDARY: bounded,
            Scope.PASS: {"StringEquals": to},
            Scope.PASS_SCHEDULE: {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
            Scope.GRANT: {"Bool": {"kms:GrantIsForAWSResource": "true"}},
        }

    def _resources(self) -> dict[Scope, list[str]]:
        """What each permission is about; nothing where the grid has nothing of the kind."""
        aws, arn = self.layout.aws, f"arn:{self._partition}"
        anything = (Scope.LOOK, Scope.MAKE, Scope.NEW, Scope.TAGGING, Scope.OWN)
        groups = self._named("AWS::AutoScaling::AutoScalingGroup", LONGEST)
        buckets = [each.lower() for each in self._named("AWS::S3::Bucket", LONGEST_BUCKET)]
        profiles = self._named("AWS::IAM::InstanceProfile", LONGEST_ROLE)
        schedules = self._named("AWS::Scheduler::ScheduleGroup", LONGEST_SCHEDULE_GROUP)
        roles = [self._iam(f"role/{each}") for each in self._named("AWS::IAM::Role", LONGEST_ROLE)]
        key = [aws.kms_key] if aws.kms_key else []
        zone = [f"{arn}:route53:::hostedzone/{aws.vpc.dns.id}"] if aws.vpc and aws.vpc.dns else []
        return {
            **{each: [_ANY] for each in anything},
            Scope.STACK: [self._arn("cloudformation", f"stack/{each}/*") for each in self._stacks()],
            Scope.GROUP: [self._arn("autoscaling", f"{_OF_GROUP}/{each}") for each in groups],
            Scope.SCHEDULES: [self._arn("scheduler", f"schedule-group/{each}") for each in schedules],
            Scope.SCHEDULE: [self._arn("scheduler", f"schedule/{each}/*") for each in schedules],
            Scope.ALARM: [
                self._arn("cloudwatch", f"alarm:{each}")
                for each in self._named("AWS::CloudWatch::Alarm", LONGEST)
            ],
            Scope.DASHBOARD: [f"{arn}:cloudwatch::*:dashboard/{of_account(self.spec)}"],
            Scope.BUDGET: [f"{arn}:budgets::*:budget/{of_account(self.spec)}-*"],
            Scope.TABLE: [self._arn("dynamodb", f"table/{claims_table(self.spec)}")],
            Scope.BUCKET: [f"{arn}:s3:::{each}" for each in buckets],
            Scope.OBJECTS: [f"{arn}:s3:::{each}/*" for each in buckets],
            **dict.fromkeys((Scope.ROLE, Scope.BOUNDED_ROLE, Scope.PASS, Scope.PASS_SCHEDULE), roles),
            Scope.BOUNDARY: roles if aws.permissions_boundary else [],
            Scope.PROFILE: [self._iam(f"instance-profile/{each}") for each in profiles],
            Scope.LINKED_ROLE: self._service_roles(),
            Scope.LINK_ROLE: [self._iam(f"role/aws-service-role/{_SERVICES[_LINK]}/*")],
            Scope.LINKED_BUCKET: [f"{arn}:s3:::{each}" for each in self._linked()],
            Scope.LINKED_OBJECTS: [f"{arn}:s3:::{each}/*" for each in self._linked_places()],
            **dict.fromkeys((Scope.KEY, Scope.GRANT), key),
            Scope.HOSTED_ZONE: zone,
            Scope.DNS_CHANGE: [f"{arn}:route53:::change/*"] if zone else [],
            Scope.TOPIC: [aws.alarms.topic] if aws.alarms else [],
            Scope.USERS_SECRET: [arn_of_secret] if (arn_of_secret := secret_arn(self.spec)) else [],
            Scope.KEY_PAIR: [self._arn("ssm", "parameter/ec2/keypair/*")],
            Scope.PARAMETER: [f"{arn}:ssm:{self.spec.region}:*:parameter{each}" for each in self._images()],
        }

    def _linked(self) -> dict[str, None]:
        """Names of the buckets that file systems are linked with."""
        return dict.fromkeys(each.partition("/")[0] for each in self._linked_places())

    def _linked_places(self) -> list[str]:
        """The same, with their prefixes."""
        links = [each for name in fsx_file_systems(self.spec) for each in self.spec.links_of(name).values()]
        return [each.bucket.removeprefix("s3://") for each in links]

    def _service_roles(self) -> list[str]:
        """Roles of services; one that is not there yet is asked for by its name, without its path."""
        services = [each for kind, each in _SERVICES.items() if kind in self.types]
        paths = [self._iam(f"role/aws-service-role/{each}/*") for each in services]
        return [*paths, self._iam("role/AWSServiceRoleFor*")] if services else []

    def _actions(self, scope: Scope) -> list[str]:
        return needed(self.types, self.has).get(scope, [])

    def _stacks(self) -> Iterator[str]:
        yield grid_stack(self.spec)
        yield storage_stack(self.spec)
        yield from self._named(_NESTED, LONGEST)

    def _named(self, kind: str, longest: int) -> list[str]:
        """Patterns of the names that CloudFormation gives resources of a type."""
        found = dict.fromkeys(
            name if len(name := f"{stack}-{logical}-*") + RANDOM <= longest else f"{stack[:SURE]}*"
            for stack, template in self.templates.items()
            for logical, each in template.items()
            if each["Type"] == kind
        )
        return list(found)

    def _images(self) -> list[str]:
        return sorted({each.name for each in named_images(self.spec, self.layout)})

    @property
    def _partition(self) -> str:
        """The part of AWS that a region is in (AWS General Reference, Amazon Resource Names)."""
        region = str(self.spec.region)
        return next((f"aws-{each}" for each in ("cn", "us-gov") if region.startswith(f"{each}-")), "aws")

    def _arn(self, service: str, rest: str) -> str:
        return f"arn:{self._partition}:{service}:{self.spec.region}:*:{rest}"

    def _iam(self, rest: str) -> str:
        return f"arn:{self._partition}:iam::*:{rest}"


def _document(statements: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": statements}


def _parts(statements: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Statements in as few documents as hold them in their order."""
    parts: list[list[dict[str, Any]]] = [[]]
    for each in statements:
        if parts[-1] and size(_document([*parts[-1], each])) > MOST_CHARACTERS:
            parts.append([])
        parts[-1].append(each)
    return parts


def size(document: Mapping[str, Any]) -> int:
    """Characters of a document as IAM counts them."""
    return len("".join(json.dumps(document, separators=(",", ":")).split()))


# The files, and README.md that says what they are.

_CONTENTS = {
    "storage.template.yaml": "the storage stack: network, file systems, volumes, bucket; it stays",
    "grid.template.yaml": "the grid stack: machines, NAT gateway, roles; most of the bill",
    "bundle-nodes.tar.gz": "what login, head and nodes set themselves up from: the files below",
    "bundle-nodes.key": "the name of this bundle in the site bucket, with its SHA-256",
    "bundle-servers.tar.gz": "what servers of Lustre set themselves up from",
    "bundle-servers.key": "the name of this bundle in the site bucket, with its SHA-256",
    "costs.json": "the bill by line",
    "operator/": "IAM policies of who deploys this grid, looks at it and takes it away",
    "site.yml, roles/, group_vars/": "the playbook that every machine runs on itself",
    "inventory.yml": "all machines with their addresses",
    "slurm/": "the configuration of Slurm",
    "claims/": "which machines an instance can become, and the program by which it does",
    "tuning.yaml": "every setting, with its reason",
}


def aws_read_me(
    spec: GridSpec,
    layout: AwsLayout,
    costs: Mapping[str, Any],
    contents: tuple[str, ...],
    scheduler: SchedulerSetup,
    nested: tuple[NestedTemplate, ...] = (),
) -> str:
    """The text, in Markdown.

    `contents` are the names of files and directories that there are, `nested` those templates among them that
    the grid stack reads from the site bucket.
    """
    aws = layout.aws
    roles = {str(role): [each.name for each in layout.of_role(role)] for role in Role}
    return markdown(
        "gridwright.providers.aws",
        "README.md.j2",
        spec=spec,
        aws=aws,
        contents=[(name, text) for name, text in _CONTENTS.items() if _is_there(name, contents)],
        nested=nested,
        images=named_images(spec, layout),
        costs=costs,
        storage=storage_stack(spec),
        grid=grid_stack(spec),
        claims=claims_table(spec),
        parts=[part for part in ("nodes", "servers") if f"bundle-{part}.key" in contents],
        region=f"--region {spec.region}",
        tag=GRID_TAG,
        tagged=f"--tags {GRID_TAG}={spec.name}",
        squashed=list(_root_squash(spec)),
        has_fsx=bool(fsx_file_systems(spec)),
        lacks_lustre_image=bool(built_lustres(spec)) and aws.images.storage is None,
        machines=len(layout.machines),
        roles=[(role, _short(names)) for role, names in roles.items() if names],
        console=console_machine(layout),
        token=secret_name(spec),
        steps=[step for step in scheduler.steps if step.beside_playbook is not None],
    )


def _is_there(name: str, contents: tuple[str, ...]) -> bool:
    return name.partition(",")[0].rstrip("/") in {each.partition("/")[0] for each in contents}


def _root_squash(spec: GridSpec) -> Iterator[dict[str, str]]:
    """What of root squash is set by hand: CloudFormation has no property for it."""
    for name, desired in desired_root_squash(spec).items():
        if desired["RootSquash"] != OFF:
            text = json.dumps({"RootSquashConfiguration": desired})
            yield {"name": name, "resource": logical_id(name), "configuration": text}


def _short(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]}, {names[1]} ... {names[-1]}"


STORAGE_TEMPLATE = "storage.template.yaml"
GRID_TEMPLATE = "grid.template.yaml"
BUNDLE = "bundle-{}.tar.gz"
BUNDLE_KEY_FILE = "bundle-{}.key"
COSTS = "costs.json"


def aws_files(
    spec: GridSpec, release: str | None = None
) -> tuple[Mapping[str, str | bytes], Sequence[Finding], Hosts]:
    """All files by their path, what Slurm's configuration found, and the machines of the inventory.

    The same spec gives the same bytes. Raises GridwrightError (INPUT) with all that cannot be built as it is
    written.
    """
    if problems := problems_of(spec, aws_layout, check_against_catalogue):
        raise GridwrightError(*problems)
    layout = aws_layout(spec)
    machines = machine_files(spec, layout, release)
    model = grid_model(spec)
    costs = {**cost_document(spec, model), "prices_as_of": _as_of(spec, model)}
    grid, storage = grid_template(spec, layout), storage_template(spec, layout)
    files: dict[str, str | bytes] = {
        **machines.files,
        STORAGE_TEMPLATE: template_text(storage),
        GRID_TEMPLATE: template_text(grid),
        **{each.file: each.text for each in grid.nested},
        **{BUNDLE.format(part): made.content for part, made in machines.bundles.items()},
        **{BUNDLE_KEY_FILE.format(part): made.key + "\n" for part, made in machines.bundles.items()},
        COSTS: json.dumps(costs, indent=2) + "\n",
        **operator(spec, layout, grid, storage).files(),
    }
    files["README.md"] = aws_read_me(spec, layout, costs, tuple(files), machines.scheduler, grid.nested)
    return files, machines.scheduler.findings, machines.hosts


def operator(spec: GridSpec, layout: AwsLayout, grid: Template, storage: Template) -> Operator:
    """Who runs the grid of these templates."""
    catalog = load_catalog(spec.file.parent if spec.file else None)
    stacks = {storage_stack(spec): storage, grid_stack(spec): grid}
    return Operator(
        spec, layout, catalog, {name: each.to_dict()["Resources"] for name, each in stacks.items()}
    )


def _as_of(spec: GridSpec, model: GridModel) -> str | None:
    """The month of the oldest price of a node; None where none is known."""
    if spec.region is None:
        return None
    catalog = load_catalog(spec.file.parent if spec.file else None)
    names = [group.instance.name for group in model.groups if group.instance is not None]
    prices = [catalog.instance_price(name, spec.region) for name in names]
    return min((price.source.date for price in prices if price), default=None)
