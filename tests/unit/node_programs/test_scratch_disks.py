"""Which disks are found, what they are taken for, and which are an instance store, on trees like /sys."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.node_programs.scratch.configuration import Configuration, DesiredArray, DiskRule
from gridwright.node_programs.scratch.disks import BlockDevices, Disk, mounts
from gridwright.node_programs.scratch.machine import (
    Roots,
    Surroundings,
    cloud_rules,
    discover_disks,
    ephemeral_devices,
    fitting,
)

AWS = "Amazon EC2 NVMe Instance Storage"
EBS = "Amazon Elastic Block Store"
GB = 1_000_000_000


class Tree:
    """A /sys and a /proc of a machine."""

    def __init__(self, root: Path) -> None:
        self.roots = Roots(root / "sys", root / "proc")
        self.block = self.roots.sysfs / "block"
        self.write(self.roots.proc / "self" / "mountinfo", "")
        self.write(self.roots.proc / "swaps", "Filename\tType\tSize\tUsed\tPriority\n")
        self._minor = 0

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def disk(self, name: str, size: int = 900 * GB, **files: str) -> Path:
        """A disk; files are named with __ for /."""
        directory = self.block / name
        self._minor += 16
        self.write(directory / "size", str(size // 512))
        self.write(directory / "dev", f"259:{self._minor}")
        for path, text in files.items():
            self.write(directory / path.replace("__", "/"), text)
        (directory / "holders").mkdir(exist_ok=True)
        return directory

    def nvme(self, name: str, model: str, serial: str, transport: str = "pcie") -> Path:
        return self.disk(
            name, device__model=model.ljust(40), device__serial=serial, device__transport=transport
        )

    def devices(self) -> BlockDevices:
        return BlockDevices(self.roots.sysfs, self.roots.proc)

    def names(self, *rules: DiskRule) -> set[str]:
        """Names of the disks that are meant."""
        desired = DesiredArray("scratch", Path("/scratch"), match=rules)
        return set(discover_disks(Configuration((desired,)), self.roots)[1].matches["scratch"])


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_an_ec2_machine_has_its_instance_store_and_not_its_volumes(tree: Tree) -> None:
    tree.nvme("nvme0n1", EBS, "vol0123")
    tree.nvme("nvme10n1", AWS, "AWS2")
    tree.nvme("nvme2n1", AWS, "AWS1")
    assert tree.names() == {"nvme2n1", "nvme10n1"}
    assert [disk.name for disk in tree.devices().disks()] == ["nvme0n1", "nvme2n1", "nvme10n1"]
    assert [disk.serial for disk in tree.devices().disks()] == ["vol0123", "AWS1", "AWS2"]


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("nvme_card", True),
        ("nvme_card0", True),
        ("nvme_card15", True),
        ("nvme_card-pd", False),
        ("Microsoft NVMe Direct Disk", True),
        ("Microsoft NVMe Direct Disk v2", True),
        ("MSFT NVMe Accelerator v1.0", False),
        ("SAMSUNG MZWLL6T4HMLA", False),
    ],
)
def test_models_of_other_clouds(tree: Tree, model: str, found: bool) -> None:
    tree.nvme("nvme0n1", model, "S1")
    assert bool(tree.names()) == found


def test_on_oracle_s_cloud_every_local_nvme_disk_is_an_instance_store(tree: Tree) -> None:
    tree.nvme("nvme0n1", "SAMSUNG MZWLL6T4HMLA", "S1")
    tree.disk("sda", device__model="BlockVolume")
    assert tree.names() == set()
    tree.write(tree.roots.sysfs / "class" / "dmi" / "id" / "chassis_asset_tag", "OracleCloud.com")
    assert tree.names() == {"nvme0n1"}


def test_disks_over_a_network_are_never_meant(tree: Tree) -> None:
    tree.nvme("nvme0n1", AWS, "S1", transport="tcp")
    multipath = tree.disk("nvme1n1", device__model=AWS, device__serial="S2")
    tree.write(multipath / "device" / "nvme1" / "transport", "rdma")
    assert tree.names() == set()
    assert tree.names(DiskRule("match", transport="nvme")) == set()


def test_a_rule_of_the_configuration_never_takes_a_volume_that_outlives_the_machine(tree: Tree) -> None:
    tree.nvme("nvme0n1", EBS, "vol0123")
    tree.nvme("nvme1n1", AWS, "AWS1")
    assert tree.names(DiskRule("match", model="*")) == {"nvme1n1"}


def test_rules_of_the_configuration_choose_by_serial_size_and_transport(tree: Tree) -> None:
    tree.disk("vda", size=10 * GB, serial="root")
    tree.disk("vdb", size=500 * GB, serial="scratch-1")
    tree.disk("vdc", size=900 * GB, serial="scratch-2")
    tree.disk("ubdb", size=GB)
    assert tree.names(DiskRule("match", transport="virtio", serial="scratch-*")) == {"vdb", "vdc"}
    large = DiskRule("match", transport="virtio", at_least_bytes=600 * GB, at_most_bytes=1000 * GB)
    assert tree.names(large) == {"vdc"}
    assert tree.names(DiskRule("match", transport="ubd")) == {"ubdb"}
    assert tree.names() == set(), "no cloud has virtio disks as instance store"


def test_a_loop_device_has_to_be_meant(tree: Tree) -> None:
    tree.disk("loop0", loop__backing_file="/images/a b.img")
    tree.disk("loop1", size=0)
    assert tree.names(DiskRule("match", model="*")) == set()
    assert tree.names(DiskRule("match", transport="loop", serial="/images/*")) == {"loop0"}


def test_disks_without_serials_or_with_one_serial_for_all_are_told_apart(tree: Tree) -> None:
    tree.disk("ubdb", serial="(null)")
    tree.nvme("nvme0n1", "nvme_card", "nvme_card")
    tree.nvme("nvme0n2", "nvme_card", "nvme_card")
    serials = [disk.serial for disk in tree.devices().disks()]
    assert serials == ["nvme_card nvme0n1", "nvme_card nvme0n2", "ubdb"]


def test_who_uses_a_disk_is_seen_through_its_partitions(tree: Tree) -> None:
    root = tree.nvme("nvme0n1", AWS, "S1")
    tree.write(root / "nvme0n1p1" / "partition", "1")
    tree.write(root / "nvme0n1p1" / "dev", "259:99")
    held = tree.nvme("nvme1n1", AWS, "S2")
    tree.write(held / "nvme1n1p1" / "partition", "1")
    (held / "nvme1n1p1" / "holders" / "dm-0").mkdir(parents=True)
    mountinfo = "29 1 259:99 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw\n"
    tree.write(tree.roots.proc / "self" / "mountinfo", mountinfo)
    used, lvm = tree.devices().disks()
    assert (used.partitions, used.used) == (("nvme0n1p1",), "mounted on /")
    assert lvm.holders == ("dm-0",)


def test_md_devices_are_seen_with_what_they_hold(tree: Tree) -> None:
    running = tree.disk("md127", md__array_state="clean", md__level="raid0", md__raid_disks="2")
    for name in ("nvme1n1", "nvme2n1"):
        (running / "slaves" / name).mkdir(parents=True)
    half = tree.disk("md126", size=0, md__array_state="inactive", md__level="", md__raid_disks="0")
    (half / "slaves" / "nvme3n1").mkdir(parents=True)
    arrays = tree.devices().arrays()
    assert [(each.name, each.state, each.raid_disks, each.members) for each in arrays] == [
        ("md126", "inactive", 0, ("nvme3n1",)),
        ("md127", "clean", 2, ("nvme1n1", "nvme2n1")),
    ]
    assert [disk.name for disk in tree.devices().disks()] == []


def test_mounts_are_read_with_blanks_in_their_names() -> None:
    line = r"36 25 7:1 / /mnt/a\040b\134c rw,noatime shared:5 master:2 - xfs /dev/loop\0401 rw,sunit=8"
    (found,) = mounts(line)
    assert (found.device, found.point, found.type, found.source) == (
        "7:1",
        "/mnt/a b\\c",
        "xfs",
        "/dev/loop 1",
    )
    assert found.options == "rw,noatime,rw,sunit=8"


@given(st.text())
def test_no_text_of_proc_makes_it_stumble(text: str) -> None:
    assert len(mounts(text)) <= len(text.splitlines())


def test_every_rule_of_a_cloud_has_a_source_and_fits_only_its_own() -> None:
    clouds = cloud_rules()
    assert {rule.name for rule in clouds.stores} >= {"aws", "aws-xen", "azure", "gcp", "oci"}
    ebs = Disk("nvme0n1", "/dev/nvme0n1", 1, "nvme", EBS, "vol")
    assert fitting(ebs, (), clouds, Surroundings("OracleCloud.com")) is None


MAPPING = {"": "ami\nephemeral0\nephemeral1\nroot", "ami": "sda1", "ephemeral0": "sdb", "ephemeral1": "xvdc"}


class Metadata(http.server.BaseHTTPRequestHandler):
    """The metadata service of EC2, which wants a token."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self.answer("secret" if self.headers.get("X-aws-ec2-metadata-token-ttl-seconds") else None)

    def do_GET(self) -> None:
        name = self.path.removeprefix("/latest/meta-data/block-device-mapping/")
        known = self.headers.get("X-aws-ec2-metadata-token") == "secret"
        self.answer(MAPPING.get(name) if known else None)

    def answer(self, text: str | None) -> None:
        body = (text or "").encode()
        self.send_response(200 if text is not None else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def metadata() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_xen_disks_are_named_by_the_metadata_service(metadata: int) -> None:
    assert ephemeral_devices("127.0.0.1", metadata) == {"xvdb", "xvdc"}


def test_a_metadata_service_that_is_not_there_names_no_disk(metadata: int) -> None:
    assert ephemeral_devices("127.0.0.1", 1, 0.5) == frozenset()


def test_xen_disks_need_the_mapping() -> None:
    disk = Disk("xvdb", "/dev/xvdb", 1, "xen")
    assert fitting(disk, (), cloud_rules(), Surroundings()) is None
    assert fitting(disk, (), cloud_rules(), Surroundings(mapped=frozenset({"xvdb"}))) is not None
