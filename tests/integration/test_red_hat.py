"""The playbook of a grid on AWS on systems of the Red Hat family, as os-release has it, in check mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.ansible_releases import RELEASES, ROOT, Release
from tests.support.command import Command
from tests.support.red_hat import System, play

pytestmark = pytest.mark.root
BY_NAME = {release.name: release for release in RELEASES}
SYSTEMS = [
    *((name, "2.16") for name in ("almalinux-8", "rocky-8", "rhel-8")),
    *((name, "2.14") for name in ("rocky-9", "almalinux-9", "rhel-9")),
    *(("amzn-2023", release) for release in ("2.14", "2.16")),
]
"""Each with the Ansible that it has; Amazon Linux has 2.15, between these."""
QUICK = {("rocky-9", "2.14")}
SITE = "setup: {variables: {slurm_repository: 'https://mirror.example/slurm'}}\n"
OF_ALL = {"nftables", "mdadm", "xfsprogs", "python3-boto3", "policycoreutils-python-utils"}
SLURM = {"slurm", "munge", "slurm-slurmd"}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """The playbook without and with a repository of the site's."""
    found = {}
    for has_repository in (False, True):
        directory = tmp_path_factory.mktemp("rendered")
        spec = directory / "grid.yaml"
        text = (ROOT / "examples/aws-lustre.yaml").read_text()
        spec.write_text(f"{text}\n{SITE if has_repository else ''}")
        done = Command(directory)("render", spec, "--out", directory / "grid")
        assert done.status == 0, done.err
        found[has_repository] = directory / "grid"
    return found


@pytest.mark.parametrize(
    ("name", "release"),
    [
        pytest.param(name, BY_NAME[release], id=f"{name}-{release}",
                     marks=() if (name, release) in QUICK else pytest.mark.thorough)
        for name, release in SYSTEMS
    ],
)  # fmt: skip
def test_the_playbook_would_set_a_node_up(
    rendered: dict[bool, Path], tmp_path: Path, name: str, release: Release
) -> None:
    system = System.made(name, tmp_path)
    has_own = name.endswith("-9")
    node = play(system, release, rendered[not has_own], "compute1", "--check")
    assert node.failures == []
    packages = {each.setting.removeprefix("package ") for each in node.changes}
    client = {"lustre-client"} if name == "amzn-2023" else {"kmod-lustre-client", "lustre-client"}
    assert packages >= OF_ALL | SLURM | client
    tasks = {change.task.rpartition(" : ")[2] for change in node.changes}
    assert tasks & {"Name EPEL", "Name the site's repository", "Name the repository (dnf)"} == {
        *(["Name the repository (dnf)"] if name != "amzn-2023" else []),
        "Name EPEL" if has_own else "Name the site's repository",
    }
    assert "/etc/fstab" in {change.where for change in node.changes}
    assert not system.file("/etc/yum.repos.d/epel.repo").exists(), "it only looked"


@pytest.mark.thorough
def test_oracle_linux_would_set_itself_up_on_oracle_cloud(tmp_path: Path) -> None:
    """Its Slurm is EPEL's; a client of Lustre for its kernel comes from where the site says."""
    text = (ROOT / "examples/oci-lustre.yaml").read_text()
    text = text.replace("distribution: rocky-9", "distribution: ol-9")
    client = "setup: {variables: {lustre_client_repository: 'https://mirror.example/lustre'}}\n"
    (tmp_path / "grid.yaml").write_text(text + client)
    done = Command(tmp_path)("render", tmp_path / "grid.yaml", "--out", tmp_path / "grid")
    assert done.status == 0, done.err
    node = play(System.made("ol-9", tmp_path), BY_NAME["2.14"], tmp_path / "grid", "compute1", "--check")
    assert node.failures == []
    packages = {each.setting.removeprefix("package ") for each in node.changes}
    assert packages >= SLURM
    assert "Name EPEL" in {change.task.rpartition(" : ")[2] for change in node.changes}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["almalinux-8", "amzn-2023"])
def test_who_has_no_slurm_that_fits_is_told_what_to_do(
    rendered: dict[bool, Path], tmp_path: Path, name: str
) -> None:
    node = play(System.made(name, tmp_path), BY_NAME["2.16"], rendered[False], "compute1", "--check")
    (failure,) = node.failures
    assert "Set slurm_repository to a repository of the site" in failure.message
