"""A machine that boots as on AWS: cloud-init, systemd, networkd, packages, Ansible and nftables are real.

It has its user data from a metadata service, finds AWS's services by DNS and TLS, and sets itself up.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.providers.aws.layout import Role
from tests.support.aws_permissions import RenderedGrid
from tests.vm.boot_cloud import KEY, BootCloud
from tests.vm.boot_image import BootImage
from tests.vm.boot_machine import LOG, BootMachine

pytestmark = [pytest.mark.root, pytest.mark.vm]

SPEC = """\
name: boot-grid
provider: aws
region: us-east-1
aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24]}
nodes: {compute: {instance: m5.large, count: 2}}
filesystems: {share: {type: nfs, server: 10.0.0.9, export: /srv/data, path: /shared}}
libraries: {data: {filesystem: share}, work: {filesystem: share}, util: {filesystem: share}}
scheduler: {type: slurm}
"""
METADATA = """python3 -c '
import urllib.request as library
headers = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
address = "http://169.254.169.254/latest/api/token"
library.urlopen(library.Request(address, method="PUT", headers=headers), timeout=5)'"""
USER = "65534"
"""Nobody."""


@pytest.fixture(scope="module")
def node(boot_image: BootImage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BootMachine]:
    """A node that was started, and has set itself up."""
    directory = tmp_path_factory.mktemp("boot")
    cloud = BootCloud(directory / "cloud", SPEC)
    try:
        cloud.upload(Role.COMPUTE)
        made = BootMachine(cloud, Role.COMPUTE, boot_image.baked, directory / "node")
        try:
            made.boot()
            made.wait_for("done")
            made.wait_for_log(1)
            yield made
        finally:
            made.remove()
    finally:
        cloud.close()


def test_a_node_takes_its_place_and_tells_the_grid(node: BootMachine) -> None:
    told, run = node.cloud.told, node.container.run
    name = told["name"]
    address = node.cloud.interfaces[name]["PrivateIpAddress"]
    assert (told["tries"], run("hostname").ok().strip()) == ("1", name)
    # Who asks the claimed address is answered from it.
    assert f" {address}/32 " in run("ip -4 -o address show dev eth1").ok()
    assert "dev eth1 table 7001" in run(f"ip route get 10.20.128.77 from {address}").ok()
    for service in ("munge", "slurmd", "gridwright-claim", "gridwright-metadata", "gridwright-boot.timer"):
        assert run(f"systemctl is-active {service}").stdout.strip() == "active", service
    assert "10.0.0.9:/srv/data /shared" in run("cat /proc/mounts").ok()
    (kept,) = node.cloud.logs()
    assert f"{name} is set up" in kept


def test_it_asked_only_what_it_may(node: BootMachine, tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(SPEC)
    grid = RenderedGrid.of(tmp_path / "grid.yaml").with_objects(node.cloud.secret, node.cloud.slots)
    # Paths of S3 have no bucket here: it is in the name of the host.
    calls = [each for each in node.cloud.faults.calls if not each.action.startswith("s3:")]
    assert grid.denied(Role.COMPUTE, calls, node.cloud.instance) == []


def test_who_is_not_root_learns_no_secret(node: BootMachine) -> None:
    run = node.container.run
    assert run(METADATA).status == 0
    assert "refused" in run(METADATA, user=USER).stderr
    seen = hashlib.sha256(KEY.encode()).hexdigest()
    assert seen in run("sha256sum /etc/munge/munge.key").ok()
    for path in ("/etc/munge/munge.key", "/etc/gridwright/munge.key", "/etc/gridwright/boot.json", LOG):
        assert run(f"test -s {path}").status == 0, path
        assert run(f"cat {path}", user=USER).status != 0, path
    for path in (
        run("find /var/lib/cloud -name 'user-data.txt*' -o -path '*/scripts/gridwright.sh'").ok().split()
    ):
        assert run(f"cat {path}", user=USER).status != 0, path
    assert KEY not in node.log() + "".join(node.cloud.logs())


def test_the_second_start_changes_nothing_and_guards_the_metadata_before_the_network(
    node: BootMachine,
) -> None:
    before, run = node.cloud.told, node.container.run
    node.reboot()
    assert node.wait_for("done", after=before["at"])["name"] == before["name"]
    node.wait_for_log(2)
    recap = re.findall(r"changed=(\d+) .*failed=(\d+)", node.log())
    assert recap[-1] == ("0", "0"), node.log()[-6000:]
    began = {
        unit: int(run(f"systemctl show --value --property=ActiveEnterTimestampMonotonic {unit}").ok())
        for unit in ("gridwright-metadata.service", "systemd-networkd.service", "slurmd.service")
    }
    assert (
        0 < began["gridwright-metadata.service"] < began["systemd-networkd.service"] < began["slurmd.service"]
    )
    assert "refused" in run(METADATA, user=USER).stderr
    assert "inet 10.20.128." in run("ip -4 -o address show dev eth1").ok()
