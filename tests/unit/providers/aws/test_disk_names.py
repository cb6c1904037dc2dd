"""Names of volumes that two servers share: which disk gets which name, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.aws.disk_names import (
    DiskNamesError,
    NamedDisk,
    read_disk_names,
    serials,
    udev_rules,
)
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.machine_files import DISK_NAMES, named_disks
from gridwright.spec import parse_spec
from tests.support.aws_grid import SCALE
from tests.support.oldest_python import beyond_python_3_9

DISK = NamedDisk("/dev/gridwright/lake-p1-v01", "lake-p1", "p1-v01")


def volume(ident: str = "vol-0123456789abcdef0", at: str = "i-1", **changed: str) -> dict[str, Any]:
    tags = {"gridwright:slot": "lake-p1", "gridwright:target": "p1-v01", **changed}
    return {
        "VolumeId": ident,
        "Tags": [{"Key": name, "Value": value} for name, value in tags.items()],
        "Attachments": [{"InstanceId": at, "State": "attached"}, {"InstanceId": "i-2", "State": "attaching"}],
    }


def test_both_servers_get_one_name_for_one_volume() -> None:
    layout = aws_layout(parse_spec(SCALE))
    names = named_disks(layout)
    assert set(names) == {"lake-nsd1", "lake-nsd2"}
    assert names["lake-nsd1"] == names["lake-nsd2"]
    assert len({each["path"] for each in names["lake-nsd1"]}) == 4


def test_a_name_leads_to_the_disk_with_the_serial_number_of_its_volume() -> None:
    other = volume("vol-0aaaaaaaaaaaaaaaa", **{"gridwright:target": "p1-v02"})
    found, missing = serials([DISK], [other, volume()], "i-1")
    assert (found, missing) == ({DISK.path: "vol0123456789abcdef0"}, [])
    (head, rule) = udev_rules(found).splitlines()
    assert head.startswith("#")
    assert 'ENV{DEVTYPE}=="disk"' in rule, "no part of the disk has its name"
    assert 'ATTRS{serial}=="vol0123456789abcdef0"' in rule
    assert rule.endswith('SYMLINK+="gridwright/lake-p1-v01"')


@pytest.mark.parametrize(
    ("volumes", "says"),
    [
        ([], "no volume has the tags"),
        ([volume(), volume("vol-0bbbbbbbbbbbbbbbb")], "vol-0bbbbbbbbbbbbbbbb have its tags"),
        ([volume('vol-1", RUN+="/bin/sh')], "is no ID of a volume"),
        ([volume(**{"gridwright:slot": "lake-p2"})], "no volume has the tags"),
    ],
)  # fmt: skip
def test_a_volume_that_is_not_known_for_certain_gets_no_name(volumes: list[Any], says: str) -> None:
    with pytest.raises(DiskNamesError, match=says):
        serials([DISK], volumes, "i-1")


@pytest.mark.parametrize("instance", ["i-2", "i-3"])
def test_one_that_is_not_attached_here_is_waited_for(instance: str) -> None:
    found, missing = serials([DISK], [volume()], instance)
    assert found == {}
    assert "not attached to" in missing[0]


@pytest.mark.parametrize(
    ("disks", "says"),
    [
        ([{"path": "/dev/sda", "slot": "a", "target": "b"}], "no name below /dev/gridwright"),
        ([{"path": '/dev/gridwright/a", RUN', "slot": "a", "target": "b"}], "no name below /dev/gridwright"),
        ([{"path": DISK.path, "slot": "a", "target": "b"}, {"path": DISK.path, "slot": "a", "target": "c"}],
         "the name of two volumes"),
        ([{"path": DISK.path, "slot": "a", "target": "b"},
          {"path": f"{DISK.path}x", "slot": "a", "target": "b"}], "named twice"),
    ],
)  # fmt: skip
def test_a_configuration_that_is_wrong_names_nothing(tmp_path: Path, disks: list[Any], says: str) -> None:
    file = tmp_path / "disk-names.json"
    file.write_text(json.dumps({"schema": 1, "grid": "demo", "region": "us-east-1", "disks": disks}))
    with pytest.raises(DiskNamesError, match=says):
        read_disk_names(file)


def test_the_program_runs_with_the_python_of_old_machines(tmp_path: Path) -> None:
    assert DISK_NAMES.archive() == DISK_NAMES.archive()
    assert beyond_python_3_9(DISK_NAMES.archive(), tmp_path) == ""
