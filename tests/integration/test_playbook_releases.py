"""The playbook of a grid on AWS under each release of Ansible that its machines may have, in check mode."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gridwright.setup.running import NodeSetup
from tests.support.ansible_releases import RELEASES, ROOT, Release, play
from tests.support.command import Command

pytestmark = pytest.mark.root
NODE, HEAD, SERVER = "compute1", "controller", "shared-oss1"
"""Between them they run every role."""
OF_UBUNTU = "2.16"
"""That of the default image."""
NEWEST = "2.21"
"""The oldest one, 2.14, is that of Red Hat 9, which `test_red_hat.py` tries."""
QUICK = {(NODE, NEWEST)}
"""What `make test` tries, beside the oldest one: each takes a minute of one core."""
USERS = """
users:
  groups: {risk: 3001}
  homes: {filesystem: shared}
  local: {anna: {uid: 2001, groups: [risk]}}
  ldap: {servers: ["ldaps://ldap1"], base: "dc=a", bind: {dn: "cn=a", secret: /etc/gridwright/bind.secret}}
"""
SETUP = """
setup:
  after: [roles/product, roles/depot]
  only_on: {product: [compute]}
  variables: {product_name: stats}
"""
PRODUCT = """
- name: Write what is installed
  ansible.builtin.copy:
    content: "{{ product_name }}"
    dest: /etc/product-of-the-site
    mode: "0644"
"""


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("rendered")
    (directory / "roles/product/tasks").mkdir(parents=True)
    (directory / "roles/product/tasks/main.yml").write_text(PRODUCT)
    # As an administrator begins with it: a copy under another name.
    shutil.copytree(ROOT / "examples/roles/product", directory / "roles/depot")
    spec = directory / "grid.yaml"
    text = (ROOT / "examples/aws-lustre.yaml").read_text()
    assert "count: 5}" in text
    spec.write_text(f"{text.replace('count: 5}', 'count: 5, min: 2}')}\n{SETUP}\n{USERS}")
    done = Command(directory)("render", spec, "--out", directory / "grid")
    assert done.status == 0, done.err
    return directory / "grid"


@pytest.mark.parametrize(
    ("release", "host"),
    [
        pytest.param(
            release,
            host,
            marks=() if (host, release.name) in QUICK else pytest.mark.thorough,
            id=f"{release.name}-{host}",
        )
        for release in RELEASES
        for host in (NODE, HEAD, SERVER)
    ],
)
def test_the_playbook_would_set_a_machine_up(rendered: Path, release: Release, host: str) -> None:
    node = play(release, rendered, host, "--check")
    assert node.failures == []
    written, installed = _files(node), _packages(node)
    assert {"/etc/sysctl.d/60-gridwright.conf", "/etc/gridwright/metadata.nft"} <= written
    assert ("/etc/security/limits.d/60-gridwright.conf" in written) is (host != HEAD)
    assert ("/etc/product-of-the-site" in written) is (host == NODE)
    # The head has nodes powered on and off.
    assert ("/etc/gridwright/power.json" in written) is (host == HEAD)
    assert ("/usr/local/lib/gridwright/power-resume" in written) is (host == HEAD)
    for path in ("/etc/gridwright/users.json", "/etc/profile.d/stats.sh"):
        assert (path in written) is (host != SERVER)
    assert ("package sssd-ldap" in installed) is (host != SERVER)
    # A server has no part in Slurm: it would be refused for want of a key that it must not have.
    assert ("/etc/slurm/slurm.conf" in written) is (host != SERVER)
    assert host != SERVER or not any("slurm" in each or "munge" in each for each in installed)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("image")
    done = Command(directory)(
        "render", ROOT / "examples/aws-lustre.yaml", "--image", "--out", directory / "of"
    )
    assert done.status == 0, done.err
    return directory / "of/playbook"


@pytest.mark.parametrize(
    "release",
    [
        pytest.param(each, id=each.name, marks=() if each.name == OF_UBUNTU else pytest.mark.thorough)
        for each in RELEASES
    ],
)
def test_an_image_would_have_the_packages_of_all_machines(image: Path, release: Release) -> None:
    node = play(release, image, "machine", "--check", file="image.yml")
    assert node.failures == []
    needed = {"slurmd", "slurmctld", "slurm-client", "munge", "nftables", "mdadm", "python3-boto3"}
    missing = {each.removeprefix("package ") for each in _packages(node)}
    lacking = needed - missing
    # What this machine has is not missing; nothing else may be left out.
    there = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\\n", *lacking],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    installed = {line.split()[0] for line in there.stdout.splitlines() if line.endswith(" installed")}
    assert lacking <= installed
    assert {"/etc/fstab", "/etc/slurm/slurm.conf", "/etc/hosts"} & _files(node) == set()


def _files(node: NodeSetup) -> set[str]:
    return {change.where for change in node.changes if change.where}


def _packages(node: NodeSetup) -> set[str]:
    return {change.setting for change in node.changes if change.setting.startswith("package ")}
