"""FSx for Lustre, and volumes, addresses and claims of Lustre servers, in the storage template."""

from __future__ import annotations

from typing import Any

import pytest

from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.names import SLOT_TAG, TARGET_TAG
from gridwright.spec.model import GridSpec
from tests.unit.providers.aws.storage_specs import (
    FSX,
    FULL_FSX,
    KEY,
    SPECS,
    lustre,
    properties,
    resources,
    spec,
    tags_of,
    template,
)

FILE_SYSTEM = "AWS::FSx::FileSystem"
VOLUME = "AWS::EC2::Volume"
INTERFACE = "AWS::EC2::NetworkInterface"


def shared(grid: GridSpec) -> dict[str, Any]:
    found: dict[str, Any] = template(grid)["Resources"]["Shared"]["Properties"]
    return found


def test_a_scratch_file_system_has_what_scratch_ones_can_have() -> None:
    found = shared(spec({"kms_key": KEY}, shared=FSX | {"deployment": "scratch-2", "capacity": "1.2 TiB"}))

    assert found["StorageCapacity"] == 1200
    assert found["LustreConfiguration"] == {"DeploymentType": "SCRATCH_2", "DataCompressionType": "NONE"}
    assert "KmsKeyId" not in found


def test_the_lowest_tier_is_cloud_by_default() -> None:
    tiers = {
        deployment: shared(spec(shared=FSX | {"deployment": deployment}))["LustreConfiguration"]
        for deployment in ("persistent-1", "persistent-2")
    }

    assert tiers["persistent-1"]["PerUnitStorageThroughput"] == 50
    assert tiers["persistent-2"]["PerUnitStorageThroughput"] == 125
    assert "MetadataConfiguration" not in tiers["persistent-1"]


def test_a_file_system_with_everything_has_everything() -> None:
    found = shared(SPECS["persistent-2-full"])

    assert found["StorageCapacity"] == 7200
    assert found["KmsKeyId"] == KEY
    assert found["LustreConfiguration"] == {
        "AutomaticBackupRetentionDays": 0,
        "DataCompressionType": "LZ4",
        "DeploymentType": "PERSISTENT_2",
        "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 6000},
        "PerUnitStorageThroughput": 500,
        "WeeklyMaintenanceStartTime": "7:03:30",
    }


@pytest.mark.parametrize(
    ("metadata", "wanted"),
    [
        ("automatic", {"Mode": "AUTOMATIC"}),
        (12000, {"Mode": "USER_PROVISIONED", "Iops": 12000}),
        ("none", None),
    ],
)
def test_metadata_operations_are_those_of_the_spec(metadata: object, wanted: object) -> None:
    found = shared(spec(shared=FSX | {"metadata": metadata}))

    assert found["LustreConfiguration"].get("MetadataConfiguration") == wanted


def test_what_can_change_on_a_live_file_system_changes_only_what_aws_changes_in_place() -> None:
    before = shared(spec(shared=FSX))
    changed = FSX | {
        "capacity": "4800 GiB",
        "throughput": "250 MB/s/TiB",
        "compression": "lz4",
        "metadata": 12000,
    }
    after = shared(spec(shared=changed | {"backup_days": 7, "maintenance": "mon:00:05"}))

    differing = {name for name in after if after[name] != before[name]}
    assert differing == {"StorageCapacity", "LustreConfiguration"}
    was = before["LustreConfiguration"]
    settings = {name for name, each in after["LustreConfiguration"].items() if was.get(name) != each}
    assert settings == {
        "AutomaticBackupRetentionDays",
        "DataCompressionType",
        "MetadataConfiguration",
        "PerUnitStorageThroughput",
        "WeeklyMaintenanceStartTime",
    }


def test_a_bucket_is_linked_as_the_spec_says() -> None:
    (found,) = properties(
        template(SPECS["persistent-2-full"]), "AWS::FSx::DataRepositoryAssociation"
    ).values()

    assert found["FileSystemId"] == {"Ref": "Shared"}
    assert (found["FileSystemPath"], found["DataRepositoryPath"]) == ("/sales", "s3://sources/sales")
    assert found["S3"] == {
        "AutoImportPolicy": {"Events": ["NEW", "CHANGED", "DELETED"]},
        "AutoExportPolicy": {"Events": ["NEW", "CHANGED"]},
    }


def test_a_bucket_without_events_is_linked_without_policies() -> None:
    link = {"bucket": "s3://sources", "import_on": [], "export_on": []}
    (found,) = properties(
        template(spec(shared=FSX | {"repository": link})), "AWS::FSx::DataRepositoryAssociation"
    ).values()

    assert "S3" not in found


def test_a_file_system_is_made_when_its_rules_and_the_fixed_addresses_are_there() -> None:
    found = template(SPECS["both-proxy-efa"])
    rules = {
        name
        for name, each in properties(found, "AWS::EC2::SecurityGroupIngress").items()
        if each["GroupId"] == {"Ref": "FsxGroup"}
    }

    assert rules
    assert set(found["Resources"]["Fsx"]["DependsOn"]) == rules | set(resources(found, INTERFACE))


def test_what_nodes_mount_is_exported() -> None:
    outputs = template(SPECS["persistent-1"])["Outputs"]

    exported = {each["Export"]["Name"]: each["Value"] for each in outputs.values()}
    assert exported["gridwright-demo-storage-SharedDns"] == {"Fn::GetAtt": ["Shared", "DNSName"]}
    assert exported["gridwright-demo-storage-SharedMount"] == {"Fn::GetAtt": ["Shared", "LustreMountName"]}
    assert exported["gridwright-demo-storage-SharedId"] == {"Ref": "Shared"}


def test_alarms_rise_with_what_was_bought() -> None:
    found = properties(template(SPECS["persistent-2-full"]), "AWS::CloudWatch::Alarm")

    free, busy = found["SharedFreeSpace"], found["SharedThroughput"]
    assert free["Threshold"] == 7200 * 2**30 // 10
    # The sum over a longer period would count free space several times.
    assert (free["Statistic"], free["Period"]) == ("Sum", 60)
    assert busy["Threshold"] == round(0.9 * 500e6 * 7200 / 1024)
    assert busy["ComparisonOperator"] == "GreaterThanThreshold"
    watched = [each["MetricStat"]["Metric"] for each in busy["Metrics"] if "MetricStat" in each]
    assert {each["MetricName"] for each in watched} == {"DataReadBytes", "DataWriteBytes"}
    assert [each["Id"] for each in busy["Metrics"] if each["ReturnData"]] == ["rate"]
    for each in [free, *watched]:
        assert each["Dimensions"] == [{"Name": "FileSystemId", "Value": {"Ref": "Shared"}}]


@pytest.mark.parametrize(
    "grid", [spec(shared=lustre(count, mgs=mgs)) for count in (1, 3) for mgs in (False, True)]
)
def test_every_target_has_a_volume_and_every_server_its_address(grid: GridSpec) -> None:
    found = template(grid)
    servers = aws_layout(grid).servers_of("shared")

    volumes = [tags_of(each) for each in properties(found, VOLUME).values()]
    assert sorted((each[SLOT_TAG], each[TARGET_TAG]) for each in volumes) == sorted(
        (machine.name, target.name) for machine in servers for target in machine.targets
    )
    addresses = {tags_of(each)[SLOT_TAG]: each for each in properties(found, INTERFACE).values()}
    assert {name: each["PrivateIpAddress"] for name, each in addresses.items()} == {
        machine.name: str(machine.address) for machine in servers
    }
    for each in addresses.values():
        assert each["SubnetId"] == {"Ref": "StorageSubnet"}
        assert each["GroupSet"] == [{"Ref": "StorageGroup"}]


def test_volumes_are_found_under_the_agreed_names() -> None:
    found = resources(template(SPECS["lustre-mgs"]), VOLUME)

    assert set(found) == {
        "SharedMgs1MGS",
        "SharedMds1SharedMDT0000",
        "SharedOss1SharedOST0000",
        "SharedOss1SharedOST0001",
    }
    assert set(resources(template(SPECS["lustre-mgs"]), INTERFACE)) == {
        "SharedMgs1Interface",
        "SharedMds1Interface",
        "SharedOss1Interface",
    }


def test_a_volume_is_what_the_spec_buys() -> None:
    found = properties(template(SPECS["lustre"]), VOLUME)

    bought = {name: each for name, each in found["SharedOss1SharedOST0000"].items() if name != "Tags"}
    assert bought == {
        "AvailabilityZone": "us-east-1a",
        "Encrypted": True,
        "Iops": 4000,
        "Size": 500,
        # 500 MB/s, in whole MiB/s.
        "Throughput": 477,
        "VolumeType": "gp3",
    }
    assert not {"Iops", "Throughput"} & set(found["SharedMds1SharedMDT0000"])


def test_another_number_of_servers_leaves_the_volumes_that_are_there_alone() -> None:
    few, many = template(spec(shared=lustre(2))), template(spec(shared=lustre(5)))

    assert resources(few, VOLUME).items() <= resources(many, VOLUME).items()
    assert resources(few, INTERFACE).items() <= resources(many, INTERFACE).items()


def test_claims_are_kept_as_long_as_volumes_are() -> None:
    grid = spec(shared=lustre(), other=lustre() | {"path": "/other"})

    def policy(found: dict[str, Any]) -> str:
        each: str = found["Resources"]["ClaimsTable"]["DeletionPolicy"]
        return each

    assert policy(template(grid)) == "Retain"
    assert policy(template(grid, deletable=frozenset({"shared"}))) == "Retain"
    assert policy(template(grid, deletable=frozenset({"shared", "other"}))) == "Delete"
    assert policy(template(grid, without=frozenset({"shared", "other"}))) == "Delete"
    assert policy(template(spec(shared=FULL_FSX))) == "Delete"


def test_no_resource_is_in_the_way_of_a_rollback() -> None:
    for grid in SPECS.values():
        for each in template(grid)["Resources"].values():
            assert not each["Properties"].get("DeletionProtectionEnabled")


def test_the_table_of_claims_can_be_put_back_to_any_second() -> None:
    (found,) = properties(template(SPECS["lustre"]), "AWS::DynamoDB::Table").values()

    assert found["TableName"] == "gridwright-demo-claims"
    assert found["KeySchema"] == [{"AttributeName": "slot", "KeyType": "HASH"}]
    assert found["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert found["SSESpecification"] == {"SSEEnabled": True}
    assert found["BillingMode"] == "PAY_PER_REQUEST"
