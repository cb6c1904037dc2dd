"""`up --check`, and the look that every `up` begins with, against moto's server: nothing is made."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.sns.models import sns_backends

from gridwright.providers.aws.preflight import SERVICE_ROLE
from tests.support.aws_cloud import STORAGE_IMAGE, AwsCloud, aws_cloud
from tests.support.aws_grid import FSX, LUSTRE, Grid, grid_of
from tests.support.aws_machines import ACCOUNT
from tests.support.command import Command
from tests.support.lab import NODES_ONLY
from tests.support.operator_permissions import judged

STANDARD = "L-1216C47A"
"""The quota of vCPUs of families A to Z."""
NEEDED = 36


@pytest.fixture
def cloud() -> Iterator[AwsCloud]:
    with aws_cloud() as made:
        yield made


@pytest.fixture
def fsx(gridwright: Command, cloud: AwsCloud, tmp_path: Path) -> Grid:
    return grid_of(FSX, gridwright, cloud, tmp_path)


def checked(grid: Grid, status: int) -> dict[str, Any]:
    """What the check found, by name of finding."""
    ended = grid("up", "--check", "--json")
    assert ended.status == status, ended.err
    assert ended.json["fit"] is (status == 0)
    return {each["name"]: each for each in ended.json["findings"] if each["level"] == "error"}


def warned(grid: Grid) -> dict[str, dict[str, Any]]:
    """Warnings by name of a grid that can be made."""
    found = grid("up", "--check", "--json").json["findings"]
    return {each["name"]: each for each in found if each["level"] == "warning"}


def networks(cloud: AwsCloud) -> int:
    return len(cloud.client("ec2").describe_vpcs()["Vpcs"])


def start_foreign(cloud: AwsCloud, tags: dict[str, str]) -> None:
    """An m6i.4xlarge of somebody, with 16 vCPUs."""
    tagged = [{"ResourceType": "instance", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]
    cloud.client("ec2").run_instances(
        ImageId=STORAGE_IMAGE,
        InstanceType="m6i.4xlarge",
        MinCount=1,
        MaxCount=1,
        **({"TagSpecifications": tagged} if tags else {}),
    )


def test_a_grid_that_can_be_made_is_said_so_and_nothing_is_made(fsx: Grid, cloud: AwsCloud) -> None:
    before = networks(cloud)
    cloud.faults.clear()
    with judged(cloud, FSX):
        ended = fsx("up", "--check")
    assert ended.status == 0, ended.err
    assert "caller: arn:aws:sts::123456789012:" in ended.out
    assert "0 of 1e+06 vCPUs used by others, 36 needed" in ended.out
    assert "grid demo: nothing against it; nothing was made" in ended.out
    tried = {"CreateVpc", "CreateInternetGateway", "CreateVolume", "CreateLaunchTemplate", "RunInstances"}
    asked = {each.partition(":")[2] for each in cloud.faults.seen}
    changes = {each for each in asked if not each.startswith(("Describe", "Get", "List"))}
    assert changes == {*tried, "AllocateAddress"}, "each of them a dry run"
    assert networks(cloud) == before
    assert cloud.stack_states() == {}


SMALL_ACCOUNT = {
    **{STANDARD: 32.0, "L-0263D0A3": 5.0, "L-7A658B76": 50.0, "L-F678F1CE": 5.0, "L-FE5A380F": 5.0},
    **{"L-8F1B9C74": 100_800.0, "L-FD6F2F22": 100.0},
}
"""Quotas by their codes, much as an account has them that asked for nothing."""
REPOSITORY = Path(__file__).parents[2]


def test_the_transcript_in_the_documents_is_what_it_prints(gridwright: Command, cloud: AwsCloud) -> None:
    page = (REPOSITORY / "docs" / "aws.md").read_text()
    shown = page.partition("    $ gridwright up examples/aws-fsx.yaml --check\n")[2].partition("\n\nWhat")[0]
    cloud.quotas |= SMALL_ACCOUNT
    start_foreign(cloud, {})
    ended = Grid(gridwright, cloud, REPOSITORY / "examples" / "aws-fsx.yaml")("up", "--check")
    assert ended.status == 3
    assert textwrap.dedent(shown).split("\n") == [each.rstrip() for each in ended.out.rstrip().split("\n")]


def test_what_the_account_is_too_small_for_is_refused_before_anything_is_made(
    fsx: Grid, cloud: AwsCloud
) -> None:
    start_foreign(cloud, {})
    cloud.quotas[STANDARD] = NEEDED + 16
    assert checked(fsx, 0) == {}
    cloud.quotas[STANDARD] -= 1
    found = checked(fsx, 3)["quota-too-small"]
    assert "is 51 vCPUs in us-east-1: others use 16, and the grid needs 36" in found["text"]
    assert "--quota-code L-1216C47A --desired-value 52" in found["remedy"]
    refused = fsx("up")
    assert refused.status == 3
    assert "quota-too-small" in refused.text
    assert cloud.stack_states() == {}
    # The grid's own machines are among what it needs.
    start_foreign(cloud, {"gridwright:grid": "demo"})
    cloud.quotas[STANDARD] += 1
    assert checked(fsx, 0) == {}


def test_a_zone_without_a_type_is_named_with_one_that_has_them_all(fsx: Grid) -> None:
    fsx.edit("zone: us-east-1a", "zone: us-east-1e")
    found = checked(fsx, 3)["type-not-in-zone"]
    assert "zone us-east-1e has no m6i" in found["text"]
    assert "write aws.zone: us-east-1a or us-east-1b" in found["remedy"]
    fsx.edit("zone: us-east-1e", "zone: us-east-1z")
    assert "the account has no zone us-east-1z" in checked(fsx, 3)["zone-unknown"]["text"]


def test_images_that_machines_cannot_start_from(gridwright: Command, cloud: AwsCloud, tmp_path: Path) -> None:
    grid = grid_of(LUSTRE, gridwright, cloud, tmp_path)
    image = cloud.image(STORAGE_IMAGE)
    image.architecture = "arm64"
    image.root_device_name = "/dev/xvda"
    found = checked(grid, 3)
    assert (
        f"image {STORAGE_IMAGE} is for arm64, and m5.4xlarge is x86_64"
        in found["image-of-another-architecture"]["text"]
    )
    assert "starts from /dev/xvda" in found["image-with-another-root-device"]["text"]
    assert "aws.images.storage" in found["image-with-another-root-device"]["remedy"]
    grid.edit(STORAGE_IMAGE, "ami-0bbbbbbbbbbbbbbbb")
    assert "no image ami-0bbbbbbbbbbbbbbbb" in checked(grid, 3)["image-unknown"]["text"]


@pytest.mark.thorough
def test_the_distribution_of_an_image_is_looked_up(fsx: Grid, cloud: AwsCloud) -> None:
    image = cloud.image(STORAGE_IMAGE)
    fsx.edit("zone: us-east-1a", f"zone: us-east-1a, images: {{compute: {STORAGE_IMAGE}}}")
    unknown = warned(fsx)["distribution-not-said"]
    assert "nothing tells what image" in unknown["text"]
    image.name, image.owner_id = "Rocky-9-EC2-Base-9.4-20240523.0.x86_64", "792107900819"
    known = warned(fsx)["distribution-not-said"]
    assert "has Rocky Linux 9" in known["text"]
    assert known["remedy"] == "write distribution: rocky-9 in aws.images"
    fsx.edit(f"compute: {STORAGE_IMAGE}", f"compute: {STORAGE_IMAGE}, distribution: almalinux-9")
    wrong = checked(fsx, 3)["image-of-another-distribution"]
    assert "has Rocky Linux 9, and the grid would be made for AlmaLinux 9" in wrong["text"]
    fsx.edit("distribution: almalinux-9", "distribution: rocky-9")
    assert checked(fsx, 0) == {}
    assert "distribution-not-said" not in warned(fsx)
    # A build of ours says it by a tag, whatever the image is called.
    image.name = "ours"
    image.add_tag("gridwright:distribution", "amzn-2023")
    image.root_device_name = "/dev/xvda"
    found = checked(fsx, 3)
    assert found["image-with-another-root-device"]["remedy"] == "write distribution: amzn-2023 in aws.images"
    assert "image-of-another-distribution" in found
    fsx.edit("distribution: rocky-9", "distribution: amzn-2023")
    assert checked(fsx, 0) == {}
    image.add_tag("gridwright:distribution", "amzn-2")
    assert "its Python is 3.7" in checked(fsx, 3)["image-not-supported"]["text"]


def test_rights_that_are_missing(fsx: Grid, cloud: AwsCloud) -> None:
    cloud.faults.answer("ec2:CreateVpc", "UnauthorizedOperation", "You are not authorized", status=403)
    found = checked(fsx, 3)["permission-missing"]
    assert "ec2:CreateVpc" in found["text"]
    cloud.faults.clear()
    # Who may not look is not refused for that.
    cloud.faults.answer("servicequotas:GetServiceQuota", "AccessDeniedException", "no")
    ended = fsx("up", "--check", "--json")
    assert ended.status == 0
    unseen = [each for each in ended.json["findings"] if each["name"] == "not-looked-at"]
    assert len(unseen) == 7
    assert all(each["level"] == "info" for each in unseen)
    assert ended.json["quotas"] == []


def test_a_service_that_does_not_answer_is_asked_once_and_holds_nothing_up(
    fsx: Grid, cloud: AwsCloud
) -> None:
    cloud.faults.silent.add("servicequotas:GetServiceQuota")
    ended = fsx("up", "--check", "--json")
    assert ended.status == 0
    (unseen,) = [each for each in ended.json["findings"] if each["name"] == "not-looked-at"]
    assert "AWS did not answer" in unseen["text"]


@pytest.mark.thorough
def test_a_key_that_auto_scaling_may_not_use(fsx: Grid, cloud: AwsCloud) -> None:
    kms = cloud.client("kms")
    made = kms.create_key()["KeyMetadata"]
    key, number = made["Arn"], made["KeyId"]
    fsx.edit("owner: ann", f"kms_key: '{key}'")
    found = checked(fsx, 3)["key-not-for-auto-scaling"]
    role = f"arn:aws:iam::{ACCOUNT}:{SERVICE_ROLE}"
    assert f"--key-id {key} --grantee-principal {role} --operations Encrypt Decrypt" in found["remedy"]
    # Who is denied is not let, nor by the account as a whole; everybody is by those of AWS's own keys.
    account = f"arn:aws:iam::{ACCOUNT}:root"
    for effect, principal, let in (
        ("Deny", [role], False),
        ("Allow", "*", True),
        ("Allow", [account, role], True),
        ("Allow", account, False),
    ):
        statement = {
            "Effect": effect,
            "Principal": {"AWS": principal},
            "Action": "kms:Encrypt",
            "Resource": "*",
        }
        kms.put_key_policy(KeyId=number, PolicyName="default", Policy=json.dumps({"Statement": [statement]}))
        assert ("key-not-for-auto-scaling" not in checked(fsx, 0 if let else 3)) is let, principal
    kms.create_grant(KeyId=number, GranteePrincipal=role, Operations=["CreateGrant"])
    with judged(cloud, fsx.spec.read_text()) as judge:
        assert checked(fsx, 0) == {}
    assert (
        {"kms:DescribeKey", "kms:ListGrants", "kms:GetKeyPolicy"}
        >= {each for each in judge.used if each.startswith("kms:")}
        != set()
    )
    kms.disable_key(KeyId=number)
    assert "is Disabled" in checked(fsx, 3)["key-not-enabled"]["text"]


@pytest.mark.thorough
def test_the_secret_of_the_directory_of_users(fsx: Grid, cloud: AwsCloud) -> None:
    service = cloud.client("secretsmanager")
    gone = "arn:aws:secretsmanager:us-east-1:123456789012:secret:gone-AbCdEf"
    directory = (
        f"users: {{ldap: {{servers: ['ldaps://l'], base: 'dc=a', bind: {{dn: 'cn=a', secret: '{gone}'}}}}}}"
    )
    fsx.edit("scheduler: {type: slurm}", f"scheduler: {{type: slurm}}\n{directory}")
    assert "no machine could ask" in checked(fsx, 3)["secret-unknown"]["text"]
    arn = service.create_secret(Name="directory", SecretString="hunter2")["ARN"]
    fsx.edit(gone, arn)
    cloud.faults.clear()
    with judged(cloud, fsx.spec.read_text()):
        assert checked(fsx, 0) == {}
    assert "secretsmanager:DescribeSecret" in cloud.faults.seen
    assert "secretsmanager:GetSecretValue" not in cloud.faults.seen, "its value is nobody's business here"
    service.update_secret(SecretId=arn, KmsKeyId="alias/of-others")
    assert "alias/of-others" in checked(fsx, 3)["secret-of-another-key"]["text"]
    service.delete_secret(SecretId=arn)
    assert "secret-unknown" in checked(fsx, 3)


@pytest.mark.thorough
def test_a_topic_that_alarms_do_not_reach_anybody_by(fsx: Grid, cloud: AwsCloud) -> None:
    sns = cloud.client("sns")
    fsx.edit("owner: ann", f"alarms: {{topic: 'arn:aws:sns:us-east-1:{ACCOUNT}:calls'}}")
    assert (
        "aws sns create-topic --region us-east-1 --name calls" in checked(fsx, 3)["topic-unknown"]["remedy"]
    )
    topic = sns.create_topic(Name="calls", Attributes={"KmsMasterKeyId": "alias/aws/sns"})["TopicArn"]
    assert "which CloudWatch cannot use" in checked(fsx, 3)["topic-closed"]["text"]
    sns.set_topic_attributes(TopicArn=topic, AttributeName="KmsMasterKeyId", AttributeValue="")
    with judged(cloud, fsx.spec.read_text()) as judge:
        assert "nobody has confirmed a subscription" in fsx("up", "--check").out
    assert "sns:GetTopicAttributes" in judge.used
    # moto counts no subscriptions, and confirms none.
    sns_backends[ACCOUNT]["us-east-1"].topics[topic].subscriptions_confimed = 1
    fsx.edit(":calls'}", ":calls', budget: 3000 USD/month}")
    found = fsx("up", "--check").out
    assert "topic-unheard" not in found
    assert "does not name budgets.amazonaws.com" in found


def test_of_a_lab_the_machine_is_looked_at(gridwright: Command, tmp_path: Path) -> None:
    spec = tmp_path / "lab.yaml"
    spec.write_text(NODES_ONLY.format(name="small", network="10.99.0.0/24", count=1))
    ended = gridwright("up", spec, "--check", "--json")
    document = json.loads(ended.out)
    assert document["fit"] is (ended.status == 0)
    assert document["facts"]["nodes"] == "2"
    assert all(each["name"] == "machine-unfit" for each in document["findings"])
    wrong = gridwright("up", spec, "--check", "--replace", "shared")
    assert wrong.status == 2
