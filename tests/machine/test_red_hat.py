"""The image of machines of the Red Hat family, made for real: packages, accounts, rules of SELinux."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.ansible_releases import RELEASES, ROOT, Release
from tests.support.command import Command
from tests.support.red_hat import System, repository
from tests.support.skips import needs

pytestmark = [pytest.mark.root, pytest.mark.thorough]
BY_NAME = {release.name: release for release in RELEASES}
EMPTY = (
    *("policycoreutils-python-utils", "nftables", "mdadm", "xfsprogs", "kmod-lustre-client", "lustre-client"),
    *("slurm-slurmd", "slurm-slurmctld", "python3-boto3", "chrony"),
)
PACKAGES = {**{name: [] for name in EMPTY}, "slurm": ["/etc/slurm"], "munge": ["/etc/munge"]}
"""Each with its directories; slurm and munge come from where the distribution has them."""
OWN = """\
[own]
name=own
baseurl=file://{there}
gpgcheck=1
gpgkey=file://{there}/key.asc
exclude=slurm* munge

[crb]
name=CodeReady Builder
enabled=0
baseurl=file://{there}
exclude=slurm* munge
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("rpmbuild", "rpmsign", "createrepo_c", "gpg")
    return repository(tmp_path_factory.mktemp("packages"), PACKAGES)


@pytest.mark.parametrize(
    ("name", "release"),
    [("rocky-9", "2.14"), ("almalinux-8", "2.16"), ("amzn-2023", "2.14"), ("amzn-2023", "2.16")],
)
def test_an_image_is_made_and_a_second_run_changes_nothing(
    packages: Path, tmp_path: Path, name: str, release: str
) -> None:
    system = System.made(name, tmp_path / "system")
    playbook = rendered(packages, tmp_path, name)
    programs = with_programs(tmp_path / "bin", BY_NAME[release])
    own = OWN.format(there=packages)
    prepared = system.run(
        "sh", "-c", f"printf '%s' '{own}' > /etc/yum.repos.d/own.repo; useradd -r munge || true"
    )
    assert prepared.returncode == 0, prepared.stderr
    for changed in (True, False):
        done = system.run(
            "sh", str(playbook / "boot/bake.sh"), PATH=f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin"
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr
        assert "an image can be taken of this machine" in done.stdout
        assert (" changed=0 " not in done.stdout) is changed, done.stdout[-4000:]
    there = set(system.run("rpm", "-qa", "--queryformat", "%{NAME}\\n").stdout.split())
    client = {"lustre-client"} if name == "amzn-2023" else {"kmod-lustre-client", "lustre-client"}
    assert there >= {"slurm", "munge", "slurm-slurmd", "slurm-slurmctld", "nftables", "mdadm"} | client
    types = system.run("matchpathcon", "/usr/local/lib/gridwright/health", "/usr/local/lib/other").stdout
    assert [line.split(":")[2] for line in types.splitlines()] == ["bin_t", "lib_t"]
    assert system.run("getent", "passwd", "slurm").stdout.split(":")[2] == "64030"
    assert not system.run("cat", "/etc/munge/munge.key").stdout
    assert system.run("cat", "/etc/machine-id").stdout == ""


def rendered(packages: Path, place: Path, name: str) -> Path:
    """What `render --image` writes for a grid that has packages from a directory."""
    slurm = "base_epel_repository: file://{0}, base_epel_key: file://{0}/key.asc"
    if not name.endswith("-9"):
        slurm = "slurm_repository: file://{0}, slurm_repository_key: file://{0}/key.asc"
    lustre = "lustre_client_repository: file://{0}, lustre_client_repository_key: file://{0}/key.asc"
    text = (ROOT / "examples/aws-fsx.yaml").read_text()
    images = f"aws:\n  images: {{compute: ami-0123456789abcdef0, distribution: {name}}}\n"
    assert "\naws:\n" in text
    spec = place / "grid.yaml"
    variables = f"{slurm}, {lustre}".format(packages)
    on_aws = text.replace("\naws:\n", f"\n{images}", 1)
    spec.write_text(f"{on_aws}\nsetup: {{variables: {{{variables}}}}}\n")
    done = Command(place)("render", spec, "--image", "--out", place / "image")
    assert done.status == 0, done.err
    return place / "image/playbook"


def with_programs(place: Path, release: Release) -> Path:
    """A Python with boto3 and the Ansible of a machine, where the system would have them of its packages."""
    place.mkdir()
    programs = {
        "python3": f'exec {sys.executable} "$@"',
        "ansible-playbook": f'exec {release.python} -m ansible playbook "$@"',
    }
    for name, script in programs.items():
        (place / name).write_text(f"#!/bin/sh\n{script}\n")
        (place / name).chmod(0o755)
    return place
