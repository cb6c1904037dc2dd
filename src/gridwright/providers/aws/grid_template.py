"""The grid stack: what runs and is billed by the hour, also the NAT gateway of the private subnets.

Auto Scaling groups replace a machine that died by one that claims its place. They have a fixed size, but for
those with nodes that the scheduler has powered on and off. What serves the scheduler on the head node
(package `power`) sets theirs, and no template says it: CloudFormation sets what a template says whenever the
group is updated. The budget, the dashboard and the load balancer of the console are here, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import groupby
from typing import Any

from troposphere import GetAtt, Output, Ref, Sub, Tags, Template, autoscaling, budgets, cloudwatch, ec2
from troposphere import elasticloadbalancingv2 as balancing
from troposphere.secretsmanager import GenerateSecretString, Secret

from gridwright.catalog import load_catalog
from gridwright.providers.aws.alarms import DOWN, FILE_SYSTEM, FREE, grid_alarms
from gridwright.providers.aws.iam import add_roles
from gridwright.providers.aws.launching import (
    PLACEMENT,
    Building,
    NestedTemplate,
    add_attachments,
    add_machine,
    add_node_interfaces,
    add_parameter,
    add_partitions,
    is_placed,
    launch_template,
    machine_id,
    most_of,
    nested_templates,
    size_of,
    subnet,
)
from gridwright.providers.aws.layout import (
    FIRST_ADDRESS,
    KEY,
    TOKEN,
    AwsLayout,
    Machine,
    Role,
    balancer_address,
    console_machine,
    fsx_file_systems,
    readers,
    secret_name,
)
from gridwright.providers.aws.machine_files import (
    FAILURES,
    GRID,
    NAMESPACE,
    UserData,
    import_value,
    key_id,
    user_data,
)
from gridwright.providers.aws.names import (
    GRID_TAG,
    GROUP_TAG,
    Export,
    fsx_export,
    group_name,
    lasting_tags,
    logical_id,
    of_account,
    server_group,
    tags,
)
from gridwright.providers.aws.network import add_names
from gridwright.providers.aws.section import Alarms
from gridwright.providers.aws.stacks import CountedTemplate
from gridwright.providers.file_servers import built_lustres
from gridwright.schedulers import scheduler_kind
from gridwright.services.ports import CONSOLE_HEALTH, CONSOLE_PORT
from gridwright.spec.model import GridSpec
from gridwright.units import HOURS_PER_MONTH

# The console: TLS goes on both legs, to the load balancer with the certificate of the site, and from there
# with one that the head node makes itself. A network load balancer does not check the latter (Network Load
# Balancers, TLS listeners), so the head node lets in no other than it. The token of the page is made up by
# AWS, and the head node alone can read it. An application load balancer, which could log people in, needs
# a second zone, and the grid has one (Elastic Load Balancing, Application Load Balancers, subnets).

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
    _add_token_and_key(template, spec, layout)
    for each in _firewall(spec, layout, machine):
        template.add_resource(each)
    balancer = template.add_resource(
        balancing.LoadBalancer(
            "Console",
            Type="network",
            Scheme="internal",
            SubnetMappings=[
                balancing.SubnetMapping(
                    SubnetId=import_value(spec, Export.PUBLIC_SUBNET),
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
            VpcId=import_value(spec, Export.VPC),
            TargetType="ip",
            Protocol="TLS",
            Port=CONSOLE_PORT,
            Targets=[balancing.TargetDescription(Id=str(machine.address), Port=CONSOLE_PORT)],
            HealthCheckProtocol="HTTPS",
            HealthCheckPath=CONSOLE_HEALTH,
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


def _add_secret(
    template: Template, spec: GridSpec, layout: AwsLayout, title: str, length: int, *, role: str, **more: str
) -> None:
    """Letters and digits that AWS makes up; `more` are properties of the secret."""
    key = {"KmsKeyId": layout.aws.kms_key} if layout.aws.kms_key is not None else {}
    made = GenerateSecretString(PasswordLength=length, ExcludePunctuation=True)
    tagged = Tags(**tags(spec, role=role))
    template.add_resource(Secret(title, GenerateSecretString=made, Tags=tagged, **more, **key))


def _add_token_and_key(template: Template, spec: GridSpec, layout: AwsLayout) -> None:
    """The token of the page, and a key pair: EC2 tells its public half, and Parameter Store the private one.

    CloudFormation makes the key anew for other tags, so that it has those that stay.
    """
    _add_secret(
        template, spec, layout, TOKEN, TOKEN_LENGTH, role="console", Name=secret_name(spec),
        Description=f"Token of the console of grid {spec.name}",
    )  # fmt: skip
    name, marks = secret_name(spec), lasting_tags(spec, role="console")
    template.add_resource(ec2.KeyPair(KEY, KeyName=name, KeyType="ed25519", Tags=Tags(**marks)))


def _firewall(
    spec: GridSpec, layout: AwsLayout, machine: Machine
) -> Iterator[ec2.SecurityGroup | ec2.SecurityGroupIngress]:
    """Readers reach the load balancer, it reaches the console, and nobody else does."""
    served = import_value(spec, _GROUPS[machine.role])
    yield ec2.SecurityGroup(
        "ConsoleGroup",
        GroupDescription=f"Load balancer of the console of grid {spec.name}",
        VpcId=import_value(spec, Export.VPC),
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
                FromPort=CONSOLE_PORT,
                ToPort=CONSOLE_PORT,
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
        FromPort=CONSOLE_PORT,
        ToPort=CONSOLE_PORT,
        Description="The console, through its load balancer",
    )


WIDTH, HEIGHT = 12, 6
"""Of a graph: two in a row of 24 columns (CloudWatch User Guide, dashboard body structure)."""
PERIOD_S = 60
EC2_PERIOD_S = 300
"""Without detailed monitoring EC2 tells every five minutes."""
GIB = 2**30
Metric = list[Any]


@dataclass
class _Page:
    """Graphs, and what CloudFormation puts into them."""

    widgets: list[dict[str, Any]] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)

    def value(self, name: str, function: Any) -> str:  # noqa: ANN401 - a function of CloudFormation
        """A place in the text that CloudFormation puts the value of a function into."""
        self.values[name] = function
        return f"${{{name}}}"

    def graph(self, title: str, metrics: Sequence[Metric], *, stat: str = "Average", **more: object) -> None:
        """Add a graph of metrics over time, beside or below the ones before it."""
        count = sum(each["type"] == "metric" for each in self.widgets)
        properties = {
            "title": title,
            "metrics": list(metrics),
            "view": "timeSeries",
            "stat": stat,
            "period": PERIOD_S,
            "region": "${AWS::Region}",
            "yAxis": {"left": {"min": 0}},
            **more,
        }
        self.widgets.append(
            {
                "type": "metric",
                "x": count % 2 * WIDTH,
                "y": 4 + count // 2 * HEIGHT,
                "width": WIDTH,
                "height": HEIGHT,
                "properties": properties,
            }
        )


def add_dashboard(building: Building, groups: Sequence[str], alarms: Sequence[str]) -> None:
    """Add it; `groups` are logical IDs of Auto Scaling groups, `alarms` those of the stack's alarms."""
    if not building.layout.aws.dashboard:
        return
    page = _Page()
    arns = [page.value(each, GetAtt(each, "Arn")) for each in alarms]
    page.widgets.append(
        {
            "type": "alarm",
            "x": 0,
            "y": 0,
            "width": 2 * WIDTH,
            "height": 4,
            "properties": {"title": f"Alarms of grid {building.spec.name}", "alarms": arns},
        }
    )
    _machines(page, building, groups)
    for name in fsx_file_systems(building.spec):
        _file_system(page, building, name)
    for name in built_lustres(building.spec):
        _dashboard_targets(page, building, name)
    if groups:
        _traffic(page, groups)
    body = json.dumps({"widgets": page.widgets}, separators=(",", ":"))
    building.template.add_resource(
        cloudwatch.Dashboard(
            "Dashboard",
            DashboardName=of_account(building.spec),
            DashboardBody=Sub(body, **page.values),
            Tags=Tags(tags(building.spec, role="dashboard")),
        )
    )


def _machines(page: _Page, building: Building, groups: Sequence[str]) -> None:
    """Machines that are there and that should be, and boots that failed."""
    there = [
        ["AWS/AutoScaling", metric, "AutoScalingGroupName", page.value(title, Ref(title)), {"label": label}]
        for title in groups
        for metric, label in (
            ("GroupDesiredCapacity", f"{title} wanted"),
            ("GroupInServiceInstances", f"{title} in service"),
        )
    ]
    if there:
        page.graph("Machines", there, stat="Minimum")
    failures = [NAMESPACE, FAILURES, GRID, building.spec.name, {"label": "failures"}]
    page.graph("Machines that could not be set up", [failures], stat="Sum", period=900)


def _file_system(page: _Page, building: Building, name: str) -> None:
    """Bytes per second, free space and metadata operations of an FSx for Lustre."""
    title = logical_id(name)
    number = page.value(f"{title}Id", import_value(building.spec, fsx_export(name, "Id")))

    def of(metric: str) -> Metric:
        return ["AWS/FSx", metric, "FileSystemId", number]

    moved = [*_rate(of("DataReadBytes"), "read", 1e6), *_rate(of("DataWriteBytes"), "write", 1e6)]
    page.graph(f"{name}: MB/s", moved, stat="Sum")
    free = [
        [*of("FreeDataStorageCapacity"), {"id": "free", "visible": False}],
        [{"expression": f"free / {GIB}", "label": "GiB free", "id": "gib"}],
    ]
    page.graph(f"{name}: free space", free, stat="Sum")
    page.graph(
        f"{name}: metadata operations per second", [*_rate(of("MetadataOperations"), "all", 1)], stat="Sum"
    )


def _dashboard_targets(page: _Page, building: Building, name: str) -> None:
    """What servers of a Lustre of the grid's own tell of its targets."""
    of = [GRID, building.spec.name, FILE_SYSTEM, name]
    down = [NAMESPACE, DOWN, *of, {"label": "targets of one server"}]
    page.graph(f"{name}: targets that are not served", [down], stat="Maximum")
    page.graph(f"{name}: percent free of the fullest target", [[NAMESPACE, FREE, *of]], stat="Minimum")


def _rate(metric: Metric, label: str, unit: float) -> Iterator[Metric]:
    """A sum over a period as a rate; the sum itself is not drawn."""
    key = label.lower().replace(" ", "_")
    yield [*metric, {"id": f"sum_{key}", "visible": False}]
    yield [{"expression": f"sum_{key} / PERIOD(sum_{key}) / {unit:.0f}", "label": label, "id": key}]


def _traffic(page: _Page, groups: Sequence[str]) -> None:
    """What the machines of each group send and receive, and how busy their processors are."""

    def of(metric: str, title: str) -> Metric:
        return ["AWS/EC2", metric, "AutoScalingGroupName", page.value(title, Ref(title))]

    sums = [
        each
        for title in groups
        for metric, way in (("NetworkIn", "in"), ("NetworkOut", "out"))
        for each in _rate(of(metric, title), f"{title} {way}", 1e6)
    ]
    page.graph("Network of each group: MB/s", sums, stat="Sum", period=EC2_PERIOD_S)
    busy = [[*of("CPUUtilization", title), {"label": title}] for title in groups]
    page.graph("Processors of each group: percent", busy, period=EC2_PERIOD_S)


SPENT = (80, 100)
"""Percent of the budget at which somebody is told that it is spent."""
FORECAST = 100
"""Percent at which the forecast for the month is told."""


def add_budget(template: Template, spec: GridSpec, alarms: Alarms | None) -> None:
    """Add it where the spec has one.

    Costs are known by the tag once the payer has activated it for cost allocation (AWS Billing User Guide,
    user-defined cost allocation tags).
    """
    if alarms is None or alarms.budget is None:
        return
    told = [(each, "ACTUAL") for each in SPENT] + [(FORECAST, "FORECASTED")]
    template.add_resource(
        budgets.Budget(
            "Budget",
            Budget=budgets.BudgetData(
                BudgetName=_name(spec, alarms.topic),
                BudgetType="COST",
                TimeUnit="MONTHLY",
                BudgetLimit=budgets.Spend(Amount=round(alarms.budget * HOURS_PER_MONTH, 2), Unit="USD"),
                CostFilters={"TagKeyValue": [f"user:{GRID_TAG}${spec.name}"]},
            ),
            NotificationsWithSubscribers=[
                budgets.NotificationWithSubscribers(
                    Notification=budgets.Notification(
                        NotificationType=kind,
                        ComparisonOperator="GREATER_THAN",
                        Threshold=percent,
                        ThresholdType="PERCENTAGE",
                    ),
                    Subscribers=[budgets.Subscriber(SubscriptionType="SNS", Address=alarms.topic)],
                )
                for percent, kind in told
            ],
        )
    )


def _name(spec: GridSpec, topic: str) -> str:
    """The name, by the topic as well: who is told never changes in a budget, another one is made first."""
    return f"{of_account(spec)}-{sha256(topic.encode()).hexdigest()[:8]}"


METRICS = ("GroupDesiredCapacity", "GroupInServiceInstances")
"""What an alarm holds against each other; groups tell nothing that they are not asked for, and it is free."""
NEWEST = ["NewestInstance"]
"""Where the size of a group is lowered while a machine of it starts, that one goes: it has no job yet."""


def add_group(
    building: Building, title: str, machines: tuple[Machine, ...], data: UserData, after: list[str]
) -> None:
    """The group of these machines, which are alike; `after` has logical IDs of what must be there first.

    An update of the stack replaces none of them: it would end the jobs that run there. Other launch data are
    for machines that start from then on, and the program `roll` replaces those that are there.
    """
    first, count = machines[0], len(machines)
    powered = any(each.powered for each in machines)
    size = size_of(title)
    template = launch_template(building, first, title, data)
    name = group_name(building.spec.name, first.group, str(first.role), serves=first.role.serves_lustre)
    marks = {**tags(building.spec, role=str(first.role)), "Name": name}
    of_group = autoscaling.Tags(**{name: (value, True) for name, value in marks.items()})
    building.template.add_resource(
        autoscaling.AutoScalingGroup(
            title,
            DependsOn=[*building.after, *after],
            MinSize=size,
            MaxSize=most_of(title) if powered else str(count),
            **({"TerminationPolicies": NEWEST} if powered else {"DesiredCapacity": size}),
            LaunchTemplate=autoscaling.LaunchTemplateSpecification(
                LaunchTemplateId=Ref(template), Version=GetAtt(template, "LatestVersionNumber")
            ),
            VPCZoneIdentifier=[subnet(building, first)],
            HealthCheckType="EC2",
            HealthCheckGracePeriod=600,
            MetricsCollection=[autoscaling.MetricsCollection(Granularity="1Minute", Metrics=[*METRICS])],
            Tags=of_group + autoscaling.Tags(**{GROUP_TAG: (first.group, False)}) if powered else of_group,
        )
    )


WAY_OUT = "NatRoute"
"""Logical ID of the route that machines need before they start; none where it is the site's."""


def add_way_out(template: Template, spec: GridSpec, layout: AwsLayout) -> list[str]:
    """The gateway with its public address and the route to it; returns what machines have to wait for."""
    if not layout.aws.makes_way_out:
        return []
    address = template.add_resource(
        ec2.EIP("NatAddress", Domain="vpc", Tags=Tags(**tags(spec), Name=f"{spec.name}-nat"))
    )
    gateway = template.add_resource(
        ec2.NatGateway(
            "NatGateway",
            AllocationId=GetAtt(address, "AllocationId"),
            # Named, as one that AWS chooses might be the login node's.
            PrivateIpAddress=str(layout.subnets["public"][FIRST_ADDRESS + 1]),
            SubnetId=import_value(spec, Export.PUBLIC_SUBNET),
            Tags=Tags(**tags(spec), Name=f"{spec.name}-nat"),
        )
    )
    template.add_resource(
        ec2.Route(
            WAY_OUT,
            RouteTableId=import_value(spec, Export.PRIVATE_ROUTES),
            DestinationCidrBlock="0.0.0.0/0",
            NatGatewayId=Ref(gateway),
        )
    )
    return [WAY_OUT]


class GridTemplate(CountedTemplate):
    """The template, with those of the nested stacks that it reads from the site bucket: none, as a rule."""

    nested: tuple[NestedTemplate, ...] = ()


def grid_template(spec: GridSpec, layout: AwsLayout) -> GridTemplate:
    """The template. It waits for no machine: one that fails leaves the others, and its log, where they are.

    Raises GridwrightError for types that the catalogue does not know, and where there are more resources than
    a stack can have.
    """
    template = GridTemplate(f"Gridwright grid {spec.name}: what runs. Made by gridwright render.")
    template.set_version("2010-09-09")
    groups = list(_alike(layout))
    add_parameter(template, {title: machines for title, machines in groups if machines[0].replaced})
    data = {
        title: user_data(spec, layout, machines, title if machines[0].replaced else None)
        for title, machines in groups
    }
    _add_key(template, spec, layout)
    add_roles(template, spec, layout)
    after = tuple(add_way_out(template, spec, layout))
    catalog = load_catalog(spec.file.parent if spec.file else None)
    building = Building(template, spec, layout, catalog, after)
    if any(is_placed(building, machine) for machine in layout.machines):
        template.add_resource(
            ec2.PlacementGroup(
                PLACEMENT, Strategy="cluster", Tags=Tags(**lasting_tags(spec, role="placement"))
            )
        )
    template.nested = nested_templates(building)
    if layout.volumes:
        add_partitions(building)
    _add_machines(building, groups, data, template.nested)
    add_attachments(building)
    scaled = [title for title, machines in groups if machines[0].replaced]
    alarms = [template.add_resource(each).title for each in grid_alarms(spec, layout, scaled)]
    add_dashboard(building, scaled, alarms)
    add_budget(template, spec, layout.aws.alarms)
    add_console(template, spec, layout)
    add_names(template, layout)
    _add_outputs(template, layout)
    template.check(str(spec.file) if spec.file else None)
    return template


def groups_of(layout: AwsLayout) -> dict[str, tuple[Machine, ...]]:
    """Machines of each Auto Scaling group by its logical ID."""
    return {title: machines for title, machines in _alike(layout) if machines[0].replaced}


def _alike(layout: AwsLayout) -> Iterator[tuple[str, tuple[Machine, ...]]]:
    """Machines by the logical ID of what starts them: an Auto Scaling group, or a machine of its own."""

    def title(machine: Machine) -> str:
        if not machine.replaced:
            return machine_id(machine)
        if machine.role.serves_lustre:
            return server_group(machine.group, machine.role)
        if machine.role is Role.MACHINE:
            return logical_id(machine.group) + "Machines"
        return logical_id(machine.group) + "Nodes"

    for name, machines in groupby(layout.machines, title):
        yield name, tuple(machines)


def _add_machines(
    building: Building,
    groups: list[tuple[str, tuple[Machine, ...]]],
    data: dict[str, UserData],
    nested: tuple[NestedTemplate, ...],
) -> None:
    """Those with addresses of their own first, as a group's machines take any that is free."""
    fixed = [
        add_machine(building, machines[0], data[title])
        for title, machines in groups
        if not machines[0].replaced
    ]
    interfaces = add_node_interfaces(building, nested)
    for title, machines in groups:
        if machines[0].replaced:
            add_group(building, title, machines, data[title], [*fixed, *interfaces])


def _add_key(template: Template, spec: GridSpec, layout: AwsLayout) -> None:
    """The key by which nodes of the scheduler trust each other: AWS makes it up, only nodes can read it."""
    key = scheduler_kind(spec.scheduler).shared_key
    if key is None:
        return
    what = f"Key of {key.name} of grid {spec.name}"
    _add_secret(template, spec, layout, key_id(key), key.length, role=key.name, Description=what)


def _add_outputs(template: Template, layout: AwsLayout) -> None:
    if layout.aws.has_public_login:
        template.add_output(
            Output("LoginPublicAddress", Description="Where users log in by ssh", Value=Ref("LoginAddress"))
        )
    for machine in layout.of_role(Role.LOGIN, Role.HEAD):
        title = machine_id(machine)
        template.add_output(
            Output(f"{title}Instance", Description=f"The machine {machine.name}", Value=Ref(title))
        )
