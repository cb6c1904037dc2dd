"""The template of the grid stack: what CloudFormation would be asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import GridwrightError
from gridwright.providers.aws.costs import ROOT_VOLUME_SIZE
from gridwright.providers.aws.files import aws_files
from gridwright.providers.aws.grid_template import grid_template
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.storage_template import storage_template
from gridwright.spec import parse_spec

EXAMPLES = Path(__file__).parents[4] / "examples"
FSX = (EXAMPLES / "aws-fsx.yaml").read_text()
LUSTRE = (EXAMPLES / "aws-lustre.yaml").read_text()
KEY = "arn:aws:kms:us-east-1:111122223333:key/00000000-0000-0000-0000-000000000000"
CERTIFICATE = "arn:aws:acm:us-east-1:111122223333:certificate/00000000-0000-0000-0000-000000000000"
XEN = """
provider: aws
region: us-east-1
aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24]}
nodes:
  compute: {count: 2, instance: i2.2xlarge}
filesystems:
  disk: {type: local, path: /data, disks: {type: gp3, count: 2, size: 100 GiB, throughput: 250 MiB/s}}
"""


def template(text: str, **aws: object) -> dict[str, Any]:
    """The template of a grid, with more in its section aws."""
    added = "".join(f"  {name}: {json.dumps(value)}\n" for name, value in aws.items())
    spec = parse_spec(text.replace("aws:\n", f"aws:\n{added}", 1))
    content: dict[str, Any] = json.loads(grid_template(spec, aws_layout(spec)).to_json())
    return content


def of_type(content: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {
        name: each.get("Properties", {})
        for name, each in content["Resources"].items()
        if each["Type"] == f"AWS::{kind}"
    }


def launch(content: dict[str, Any], name: str) -> dict[str, Any]:
    data: dict[str, Any] = content["Resources"][name]["Properties"]["LaunchTemplateData"]
    return data


def statements(content: dict[str, Any], role: str) -> dict[str, dict[str, Any]]:
    (policy,) = content["Resources"][role]["Properties"]["Policies"]
    return {each["Sid"]: each for each in policy["PolicyDocument"]["Statement"]}


def test_every_import_is_an_export_of_the_storage_stack() -> None:
    for text in (FSX, LUSTRE, LUSTRE.replace("aws:\n", f"aws:\n  certificate: {CERTIFICATE}\n", 1)):
        spec = parse_spec(text)
        layout = aws_layout(spec)
        storage = json.loads(storage_template(spec, layout).to_json())
        exported = {each["Export"]["Name"] for each in storage["Outputs"].values() if "Export" in each}
        imported = set(imports(json.loads(grid_template(spec, layout).to_json())))
        assert imported
        assert imported <= exported


def imports(content: object) -> list[str]:
    if isinstance(content, dict):
        return [
            found
            for name, value in content.items()
            for found in ([value] if name == "Fn::ImportValue" else imports(value))
        ]
    return [found for each in content for found in imports(each)] if isinstance(content, list) else []


def test_nodes_and_servers_are_groups_of_fixed_size() -> None:
    content = template(LUSTRE)
    groups = of_type(content, "AutoScaling::AutoScalingGroup")
    assert set(groups) == {"ComputeNodes", "SharedMdsServers", "SharedOssServers"}
    layout = aws_layout(parse_spec(LUSTRE))
    sizes = content["Mappings"]["Sizes"]
    for title, each in groups.items():
        assert each["MinSize"] == each["DesiredCapacity"]
        assert each["MinSize"]["Fn::FindInMap"] == ["Sizes", {"Ref": "Running"}, title]
        assert sizes["all"][title] == each["MaxSize"]
        assert sizes["none"][title] == "0"
        assert sizes["servers"][title] == ("0" if title == "ComputeNodes" else each["MaxSize"])
    assert content["Parameters"]["Running"]["Default"] == "all"
    assert sum(int(each["MaxSize"]) for each in groups.values()) == sum(
        machine.replaced for machine in layout.machines
    )


def test_machines_that_nothing_replaces_have_their_addresses_for_good() -> None:
    content = template(FSX, replace_nodes=False)
    assert of_type(content, "AutoScaling::AutoScalingGroup") == {}
    assert set(of_type(content, "EC2::Instance")) == {
        *("Login", "Head", "Compute1", "Compute2", "Compute3", "Compute4"),
    }
    addresses = [each["PrivateIpAddress"] for each in of_type(content, "EC2::NetworkInterface").values()]
    assert sorted(addresses) == sorted(aws_layout(parse_spec(FSX)).addresses.values())


def test_other_user_data_restart_a_machine_that_stays_and_do_not_replace_it() -> None:
    """User data of the instance are updated in place; another launch template is another instance."""
    content = template(FSX)
    head = content["Resources"]["Head"]["Properties"]
    assert "UserData" in head
    assert "UserData" not in launch(content, "HeadTemplate")
    assert "ready" not in json.dumps(launch(content, "HeadTemplate")).lower()


def test_a_machine_that_fails_does_not_undo_the_grid() -> None:
    for text in (FSX, LUSTRE):
        content = template(text)
        assert of_type(content, "CloudFormation::WaitCondition") == {}
        assert not [name for name, each in content["Resources"].items() if "CreationPolicy" in each]


@pytest.mark.parametrize("text", [FSX, LUSTRE], ids=["fsx", "lustre"])
def test_an_update_of_the_stack_ends_no_machine(text: str) -> None:
    """The head node replaces machines when their jobs have ended; CloudFormation would not ask."""
    groups = {
        name: each
        for name, each in template(text)["Resources"].items()
        if each["Type"] == "AWS::AutoScaling::AutoScalingGroup"
    }
    assert groups
    for each in groups.values():
        assert not {"UpdatePolicy", "CreationPolicy"} & each.keys()
        version = each["Properties"]["LaunchTemplate"]["Version"]["Fn::GetAtt"]
        assert version[1] == "LatestVersionNumber"


@pytest.mark.parametrize("text", [FSX, LUSTRE], ids=["fsx", "lustre"])
def test_metadata_need_a_token_and_disks_are_encrypted(text: str) -> None:
    content = template(text, kms_key=KEY)
    templates = of_type(content, "EC2::LaunchTemplate")
    assert len(templates) >= 3
    for each in templates.values():
        data = each["LaunchTemplateData"]
        assert data["MetadataOptions"]["HttpTokens"] == "required"
        assert data["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
        for device in data["BlockDeviceMappings"]:
            assert device["Ebs"]["Encrypted"] is True
            assert device["Ebs"]["KmsKeyId"] == KEY
    assert content["Resources"]["MungeKey"]["Properties"]["KmsKeyId"] == KEY


def test_the_root_volume_is_the_one_that_is_paid_for() -> None:
    (root,) = launch(template(FSX), "ComputeNodesTemplate")["BlockDeviceMappings"]
    assert root["Ebs"]["VolumeSize"] * 2**30 == ROOT_VOLUME_SIZE


def test_disks_of_the_xen_generation_and_volumes_are_mapped_side_by_side() -> None:
    devices = launch(template(XEN), "ComputeNodesTemplate")["BlockDeviceMappings"]
    assert [(each["DeviceName"], each.get("VirtualName")) for each in devices] == [
        ("/dev/sda1", None),
        ("/dev/sdb", "ephemeral0"),
        ("/dev/sdc", "ephemeral1"),
        ("/dev/sdd", None),
        ("/dev/sde", None),
    ]
    assert devices[-1]["Ebs"]["Throughput"] == 250
    assert devices[-1]["Ebs"]["DeleteOnTermination"] is True
    # NVMe disks need no mapping.
    assert len(launch(template(FSX), "ComputeNodesTemplate")["BlockDeviceMappings"]) == 1


def test_one_thread_a_core_is_asked_for_where_there_are_two() -> None:
    one = launch(template(FSX, hyperthreads=False), "ComputeNodesTemplate")
    assert one["CpuOptions"] == {"CoreCount": 4, "ThreadsPerCore": 1}
    assert "CpuOptions" not in launch(template(FSX, hyperthreads=False), "HeadTemplate")
    single = FSX.replace("i3en.2xlarge", "m7g.2xlarge").replace("instance-store", "gp3, size: 100 GiB")
    single = single.replace("architecture: x86_64", "architecture: arm64").replace("[i3en]", "[m7g]")
    data = launch(template(single, hyperthreads=False), "ComputeNodesTemplate")
    assert "CpuOptions" not in data
    assert data["ImageId"] == {"Ref": "ComputeImageArm64"}
    image = template(single, hyperthreads=False)["Parameters"]["ComputeImageArm64"]["Default"]
    assert "/arm64/" in image


def test_images_are_looked_up_when_a_machine_starts_and_not_at_each_update() -> None:
    made = template(FSX)
    assert launch(made, "HeadTemplate")["ImageId"] == {"Ref": "ComputeImageAmd64"}
    named = made["Parameters"]["ComputeImageAmd64"]
    assert named["Default"].startswith("resolve:ssm:/aws/service/canonical/")
    for value in (named["Default"], "ami-0123456789abcdef0"):
        assert re.fullmatch(named["AllowedPattern"], value)
    assert not re.fullmatch(named["AllowedPattern"], "/aws/service/canonical/ubuntu")
    assert launch(template(LUSTRE), "SharedOssServersTemplate")["ImageId"] == "ami-0123456789abcdef0"
    assert "{{resolve" not in json.dumps(template(LUSTRE))


def test_roles_can_do_what_their_machines_need_and_no_more() -> None:
    content = template(LUSTRE)
    login, node, server = (statements(content, f"{each}Role") for each in ("Login", "Compute", "Storage"))
    assert set(login) == {"Bundle", "Log", "Report", "Count", "SessionManager", "Munge"}
    assert set(node) == set(login) | {*("Claims", "Look", "Interfaces", "InterfacesHere", "GiveBack")}
    head = statements(content, "HeadRole")
    assert set(head) == set(login) | {"RollGroups", "Replace", "Machines", "Roll"}
    assert head["Replace"]["Condition"] == {
        "StringEquals": {"aws:ResourceTag/gridwright:grid": "lustre-grid"}
    }
    assert head["Roll"]["Condition"]["ForAllValues:StringEquals"]["dynamodb:LeadingKeys"] == ["roll"]
    assert set(server) == (set(node) | {"Volumes", "VolumesHere"}) - {"Munge"}
    tagged = server["Volumes"]["Condition"]["StringEquals"]
    assert tagged == {
        "aws:ResourceTag/gridwright:grid": "lustre-grid",
        "aws:ResourceTag/gridwright:role": ["mds", "oss"],
    }
    assert node["Interfaces"]["Condition"]["StringEquals"]["aws:ResourceTag/gridwright:role"] == ["compute"]
    # A machine tells of itself alone, and puts logs beside bundles, never bundles.
    own = login["Report"]["Condition"]["ForAllValues:StringEquals"]["dynamodb:LeadingKeys"]
    assert own == ["boot#${ec2:SourceInstanceARN}"]
    assert login["Report"]["Action"] == ["dynamodb:PutItem"]
    # `${!` stays a variable of the policy: the instance that asks.
    assert login["Log"]["Resource"]["Fn::Sub"][0].endswith(
        ":::${Bucket}/boot-logs/${!ec2:SourceInstanceARN}/*"
    )
    slots = node["Claims"]["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
    assert slots == ["compute?"]
    for each in (login, node, server):
        actions = [action for one in each.values() for action in one["Action"]]
        assert not [action for action in actions if "*" in action]
        everything = {sid for sid, one in each.items() if one["Resource"] == "*"}
        assert everything <= {"SessionManager", "Look", "Count"}
        assert each["Count"]["Condition"] == {"StringEquals": {"cloudwatch:namespace": "Gridwright"}}


def test_no_role_can_take_a_machine_of_another_kind() -> None:
    import fnmatch

    spec = parse_spec(LUSTRE)
    for machine in aws_layout(spec).machines:
        if machine.replaced:
            role = "StorageRole" if machine.role.serves_lustre else "ComputeRole"
            for name in ("StorageRole", "ComputeRole"):
                keys = statements(template(LUSTRE), name)["Claims"]["Condition"]["ForAllValues:StringLike"]
                may = any(fnmatch.fnmatchcase(machine.name, each) for each in keys["dynamodb:LeadingKeys"])
                assert may == (name == role), (machine.name, name)


def test_a_grid_without_slurm_has_neither_head_nor_key() -> None:
    text = FSX[: FSX.index("scheduler:")]
    content = template(text)
    assert "Head" not in content["Resources"]
    assert "MungeKey" not in json.dumps(content)


def test_a_site_with_a_proxy_has_no_way_out_of_its_own() -> None:
    content = template(FSX, proxy="http://proxy.example:3128")
    for kind in ("EC2::NatGateway", "EC2::EIP", "EC2::Route"):
        assert of_type(content, kind) == {}
        assert of_type(template(FSX), kind)


def test_machines_start_when_there_is_a_way_out_and_their_addresses_are_taken() -> None:
    after = template(FSX)["Resources"]["ComputeNodes"]["DependsOn"]
    assert {"NatRoute", "Login", "Head", *(f"Compute{number}Interface" for number in range(1, 5))} <= {*after}


def test_nodes_and_servers_are_close_together_unless_the_spec_says_otherwise() -> None:
    assert "Placement" in launch(template(LUSTRE), "SharedOssServersTemplate")
    assert "Placement" not in launch(template(LUSTRE), "HeadTemplate")
    assert of_type(template(LUSTRE, placement_group=False), "EC2::PlacementGroup") == {}
    # Burstable types cannot be in one.
    burstable = FSX.replace("i3en.2xlarge", "t3.2xlarge").replace("instance-store", "gp3, size: 100 GiB")
    assert of_type(template(burstable.replace("[i3en]", "[t3]")), "EC2::PlacementGroup") == {}


HEADLESS = (
    XEN.replace("nodes:", "scheduler: {type: local}\nnodes:")
    .replace("aws: {", "aws:\n  ")
    .replace(", ssh_from: [203.0.113.0/24]}", "\n  ssh_from: [203.0.113.0/24]")
)


@pytest.mark.parametrize(
    ("text", "served", "group"),
    [
        (LUSTRE, "10.20.128.10", "HeadGroup"),
        (FSX, "10.20.128.10", "HeadGroup"),
        (HEADLESS, "10.20.0.10", "LoginGroup"),
    ],
)
def test_the_console_is_behind_tls_and_inside(text: str, served: str, group: str) -> None:
    text = text.replace("[203.0.113.0/24]", "[203.0.113.0/24, 10.99.0.0/16]")
    content = template(text, certificate=CERTIFICATE)
    (balancer,) = of_type(content, "ElasticLoadBalancingV2::LoadBalancer").values()
    assert (balancer["Scheme"], balancer["Type"]) == ("internal", "network")
    (listener,) = of_type(content, "ElasticLoadBalancingV2::Listener").values()
    assert (listener["Protocol"], listener["Port"]) == ("TLS", 443)
    (targets,) = of_type(content, "ElasticLoadBalancingV2::TargetGroup").values()
    assert targets["Targets"] == [{"Id": served, "Port": 29119}]
    assert (targets["Protocol"], targets["HealthCheckProtocol"]) == ("TLS", "HTTPS")
    (place,) = balancer["SubnetMappings"]
    assert place["PrivateIPv4Address"] == "10.20.0.12", "one that nobody else has"
    let_in = content["Resources"]["ConsoleGroup"]["Properties"]["SecurityGroupIngress"]
    assert [each["CidrIp"] for each in let_in] == ["10.20.0.0/16", "10.99.0.0/16"]
    rule = content["Resources"]["ConsoleFromBalancer"]["Properties"]
    assert (rule["SourceSecurityGroupId"], rule["FromPort"]) == ({"Ref": "ConsoleGroup"}, 29119)
    assert rule["GroupId"]["Fn::ImportValue"].endswith(f"-storage-{group}")


def test_without_a_certificate_there_is_no_console() -> None:
    content = template(LUSTRE)
    assert of_type(content, "ElasticLoadBalancingV2::LoadBalancer") == {}
    assert "ConsoleToken" not in content["Resources"]


def test_the_token_of_the_console_is_made_by_aws_and_read_by_who_serves_it_alone() -> None:
    content = template(LUSTRE, certificate=CERTIFICATE)
    secret = content["Resources"]["ConsoleToken"]["Properties"]
    assert "SecretString" not in secret
    assert secret["GenerateSecretString"] == {"PasswordLength": 48, "ExcludePunctuation": True}
    roles = {name for name in content["Resources"] if content["Resources"][name]["Type"] == "AWS::IAM::Role"}
    readers = {name for name in roles if "ConsoleToken" in json.dumps(content["Resources"][name])}
    assert readers == {"HeadRole"}
    assert statements(content, "HeadRole")["Console"] == {
        "Sid": "Console",
        "Effect": "Allow",
        "Action": ["secretsmanager:GetSecretValue"],
        "Resource": {"Ref": "ConsoleToken"},
    }
    machines = {name: each for name, each in content["Resources"].items() if "LaunchTemplate" in each["Type"]}
    assert machines
    assert "ConsoleToken" not in json.dumps(machines), "what is secret, or leads to it, is in user data"


def test_an_adapter_is_an_interface_of_nodes_alone() -> None:
    text = FSX.replace("i3en.2xlarge", "i3en.24xlarge")
    content = template(text, efa=True)
    (interface,) = launch(content, "ComputeNodesTemplate")["NetworkInterfaces"]
    assert interface["InterfaceType"] == "efa"


def test_nothing_secret_is_in_the_template() -> None:
    content = template(FSX)
    assert content["Resources"]["MungeKey"]["Properties"]["GenerateSecretString"]["PasswordLength"] >= 32
    assert "SecretString" not in content["Resources"]["MungeKey"]["Properties"]
    assert set(content["Parameters"]) == {"Running", "ComputeImageAmd64"}


def test_the_bill_is_the_one_of_predictions(tmp_path: Path) -> None:
    from gridwright.model.grid import grid_model

    spec = parse_spec(LUSTRE)
    costs = json.loads(str(aws_files(spec)[0]["costs.json"]))
    model = grid_model(spec)
    assert costs["usd_per_hour"] == model.usd_per_hour
    assert [each["what"] for each in costs["lines"]] == [each.what for each in model.costs]


def test_more_machines_than_a_stack_has_room_for_are_refused_with_their_count() -> None:
    few, many = FSX.replace("count: 4}", "count: 40}"), FSX.replace("count: 4}", "count: 300}")
    resources = len(template(few, replace_nodes=False)["Resources"])
    assert resources <= 500
    with pytest.raises(GridwrightError) as error:
        template(many, replace_nodes=False)
    said = f"the template has {resources + 3 * 260} resources, and CloudFormation takes 500"
    assert said in str(error.value)


@pytest.mark.thorough
def test_a_template_is_refused_by_the_size_that_is_written_which_is_more_than_that_of_its_json() -> None:
    plain = FSX.replace("aws:\n", "aws:\n  replace_nodes: false\n", 1)
    most, more = (plain.replace("count: 4}", f"count: {count}}}") for count in (50, 55))
    assert 900_000 < len(str(aws_files(parse_spec(most))[0]["grid.template.yaml"]).encode()) <= 1_000_000
    with pytest.raises(
        GridwrightError, match=r"has \d+ bytes, and CloudFormation takes 1000000(.|\n)*replaced"
    ):
        aws_files(parse_spec(more))


def test_all_that_is_wrong_with_a_grid_is_said_at_once() -> None:
    spec = parse_spec(
        "provider: aws\nregion: us-east-1\nnodes: {compute: {instance: m5.huge}}\n"
        "filesystems: {disk: {type: local, path: /data, disks: {type: gp3, size: 100 GiB}}}\n"
    )
    with pytest.raises(GridwrightError) as raised:
        aws_files(spec)
    said = [each.what for each in raised.value.problems]
    assert len(said) == 2
    assert "says nothing of where on AWS" in said[0]
    assert "m5.huge" in said[1]


def test_a_template_tags_no_interface_where_the_machine_is_given_one() -> None:
    content = template(LUSTRE)
    machines = of_type(content, "EC2::Instance").values()
    given = {each["LaunchTemplate"]["LaunchTemplateId"]["Ref"] for each in machines}
    tagged = {
        name
        for name in of_type(content, "EC2::LaunchTemplate")
        if any(
            each["ResourceType"] == "network-interface" for each in launch(content, name)["TagSpecifications"]
        )
    }
    assert given
    assert tagged
    assert given & tagged == set()
