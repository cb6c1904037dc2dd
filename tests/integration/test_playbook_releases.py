"""The playbook of a grid on AWS under each release of Ansible that its machines may have, in check mode."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gridwright.setup.outcome import NodeSetup
from tests.support.ansible_releases import RELEASES, ROOT, Release, play
from tests.support.command import Command

pytestmark = pytest.mark.root
NODE, HEAD, SERVER = "compute1", "controller", "shared-oss1"
"""Between them they run every role."""
OF_UBUNTU = "2.16"
"""The default image: all of its machines are tried in any case."""
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
            marks=() if host == NODE or release.name == OF_UBUNTU else pytest.mark.thorough,
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
    assert any("slurm" in each or "munge" in each for each in installed) is (host != SERVER)


def _files(node: NodeSetup) -> set[str]:
    return {change.where for change in node.changes if change.where}


def _packages(node: NodeSetup) -> set[str]:
    return {change.setting for change in node.changes if change.setting.startswith("package ")}
