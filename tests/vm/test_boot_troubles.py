"""Boots that go wrong on a machine with a real systemd: failing steps, power cuts, locks."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.providers.aws.layout import Role
from tests.support.command import wait_until
from tests.vm.boot_cloud import BootCloud
from tests.vm.boot_image import BootImage
from tests.vm.boot_machine import BootMachine
from tests.vm.test_boot import SPEC

pytestmark = [pytest.mark.root, pytest.mark.vm, pytest.mark.thorough, pytest.mark.timeout(3600)]

FAILING = """\
- name: Fail
  hosts: all
  gather_facts: false
  tasks:
    - name: Fail
      ansible.builtin.fail:
        msg: the depot of the site is closed
"""
UPGRADES = """#!/usr/bin/python3
import fcntl, os, time
os.makedirs("/var/lib/apt/lists", exist_ok=True)
held = [open(f"/var/lib/{name}", "w") for name in ("dpkg/lock-frontend", "dpkg/lock", "apt/lists/lock")]
for each in held:
    fcntl.lockf(each, fcntl.LOCK_EX)
time.sleep(40)
"""
UNIT = """[Unit]
DefaultDependencies=no
After=systemd-remount-fs.service
[Service]
ExecStart=/usr/local/sbin/upgrades
"""
CUTS = 4
LIMIT_S = 900.0


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[BootCloud]:
    made = BootCloud(tmp_path / "cloud", SPEC)
    yield made
    made.close()


def test_a_failure_is_tried_again_by_the_timer_and_given_up_and_a_new_bundle_mends_it(
    cloud: BootCloud, boot_image: BootImage, tmp_path: Path
) -> None:
    cloud.upload(Role.COMPUTE, **{"site.yml": FAILING})
    node = BootMachine(cloud, Role.COMPUTE, boot_image.baked, tmp_path / "node")
    try:
        node.boot()
        told = node.wait_for("failed", tries=1)
        assert "the depot of the site is closed" in told["reason"]
        assert "TASK [Fail]" in told["log"]
        # By the timer, a minute later.
        node.wait_for("failed", tries=2)
        for number in (3, 4, 5):
            assert cloud.group()[cloud.instance] == "Healthy"
            node.age()
            node.wait_for("failed", tries=number)
        wait_until(
            lambda: cloud.group().get(cloud.instance) != "Healthy" or None,
            seconds=60,
            what="an instance that is given back",
            last=cloud.group,
        )
        assert len(node.wait_for_log(5)) == 5
        made = cloud.upload(Role.COMPUTE)
        assert node.wait_for("done", after=cloud.told["at"])["bundle"] == made.key
    finally:
        node.remove()


def test_a_node_that_loses_a_mount_takes_no_jobs_until_it_is_back(
    cloud: BootCloud, boot_image: BootImage, tmp_path: Path
) -> None:
    """With a head node that has set itself up, too; the key of munge, ports, names and addresses fit."""
    cloud.upload(Role.COMPUTE)
    head = BootMachine(cloud, Role.HEAD, boot_image.baked, tmp_path / "head")
    node = BootMachine(cloud, Role.COMPUTE, boot_image.baked, tmp_path / "node")
    try:
        head.boot()
        node.boot()
        assert head.wait_for("done")["name"] == "controller"
        name = node.wait_for("done")["name"]

        def state(wanted: str) -> str:
            ask = f"sinfo --noheader --nodes={name} --format='%t %E'"
            return wait_until(
                lambda: found if (found := head.container.run(ask).stdout).startswith(wanted) else None,
                seconds=150,
                what=f"{name} that is {wanted}",
                last=lambda: (
                    head.container.run("scontrol show nodes; tail -n 20 /var/log/slurm/*.log").stdout
                ),
            )

        state("idle")
        assert head.container.run(f"srun --nodelist={name} hostname", user="65534").ok().strip() == name
        node.container.run("umount /shared").ok()
        assert "gridwright: health check: /shared" in state("drain")
        node.container.run("mount /shared").ok()
        state("idle")
        # It starts without its mount, as where the server is away.
        node.container.run("mv /usr/sbin/mount.nfs /usr/sbin/away.nfs").ok()
        node.reboot()
        assert "gridwright: health check: /shared" in state("drain")
        node.container.run("mv /usr/sbin/away.nfs /usr/sbin/mount.nfs; mount /shared").ok()
        state("idle")
    finally:
        node.remove()
        head.remove()


@pytest.mark.parametrize("seed", range(2))
def test_power_cuts_at_any_moment_of_the_first_start_are_survived(
    cloud: BootCloud, boot_image: BootImage, tmp_path: Path, seed: int
) -> None:
    """Of an image that has neither Ansible nor boto3 nor Slurm: many cuts are in the midst of packages."""
    cloud.upload(Role.COMPUTE)
    node = BootMachine(cloud, Role.COMPUTE, boot_image.fresh, tmp_path / "node")
    chosen = random.Random(seed)  # noqa: S311 - moments, no secret
    try:
        for _ in range(CUTS):
            node.boot()
            _let_go_by(chosen.uniform(3, 40))
            node.container.power_off()
        node.boot()
        wait_until(
            lambda: cloud.told.get("state") == "done" or None, seconds=LIMIT_S, what="done", last=node.log
        )
        assert node.container.run("dpkg --audit").ok() == ""
        assert node.container.run("systemctl is-active slurmd munge").status == 0
    finally:
        node.remove()


def _let_go_by(seconds: float) -> None:
    until = time.monotonic() + seconds
    wait_until(
        lambda: time.monotonic() > until or None, seconds=seconds + 60, what="a moment", last=lambda: until
    )


def test_another_apt_at_the_first_start_is_waited_for(
    cloud: BootCloud, boot_image: BootImage, tmp_path: Path
) -> None:
    """As unattended-upgrades does on images of Ubuntu and Debian."""
    cloud.upload(Role.COMPUTE)
    node = BootMachine(cloud, Role.COMPUTE, boot_image.fresh, tmp_path / "node")
    node.container.put("usr/local/sbin/upgrades", UPGRADES, 0o755)
    node.container.put("etc/systemd/system/upgrades.service", UNIT)
    wanted = "[Unit]\nWants=upgrades.service\n"
    node.container.put("etc/systemd/system/sysinit.target.d/upgrades.conf", wanted)
    try:
        node.boot()
        assert node.container.run("systemctl is-active upgrades").status == 0
        assert node.wait_for("done")["tries"] == "1"
    finally:
        node.remove()
