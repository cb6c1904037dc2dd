"""The table of distributions: what machines, roles and documents have of it is the same."""

from __future__ import annotations

import json
import re
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from gridwright.providers.boot.bundle import known_distributions
from gridwright.schedulers.slurm.configuration import OLDEST, parse_release
from gridwright.setup.distributions import (
    Distribution,
    distributions,
    distributions_text,
    of_image,
    of_os_release,
    of_parameter,
)
from gridwright.setup.distributions_page import refreshed
from tests.unit.setup.test_playbook_filters import FILTERS

PAGE = Path(__file__).parents[3] / "docs" / "setup.md"
BEGIN = resources.files("gridwright.providers.aws.boot").joinpath("begin.sh")
IN_CLOUD = [each for each in distributions() if each.in_cloud]
BY_DNF = ("python3.12", "python3.11")


@pytest.mark.parametrize("each", distributions(), ids=lambda each: each.name)
def test_each_says_all_that_is_asked_of_it(each: Distribution) -> None:
    assert each.name == f"{each.os.id}-{each.os.version}"
    assert each.source
    assert each.tried
    assert (each.reason is None) is each.in_cloud
    assert each.built is not None or not (each.in_cloud or each.is_on_oci)
    assert each.image is not None or not each.in_cloud
    built = each.built
    if not each.in_cloud or built is None:
        return
    assert built.source
    release = tuple(int(part) for part in built.ansible.release.split("."))
    assert release >= (2, 14), "the playbook needs it"
    assert built.ansible.packages
    # Of EPEL, CodeReady Builder goes with it; without a fitting Slurm there is a reason.
    assert (built.slurm.why is not None) is (built.slurm.origin == "site")
    assert built.slurm.origin == "site" or parse_release(str(built.slurm.release)) >= OLDEST
    assert built.slurm.origin != "epel" or each.crb


def test_a_machine_is_known_by_what_it_says_of_itself() -> None:
    found = of_os_release("rocky", "9.4")
    assert found is not None
    assert found.name == "rocky-9"
    # 2 is not 2023, and 90 is not 9.
    assert [each and each.name for each in (of_os_release("amzn", "2023"), of_os_release("amzn", "2"))] == [
        *("amzn-2023", "amzn-2")
    ]
    assert of_os_release("rocky", "90.1") is None
    assert of_os_release("arch", "") is None


def test_each_cloud_refuses_its_own_at_the_start_of_a_machine() -> None:
    def refused(*, on_oci: bool) -> set[str]:
        rows = json.loads(known_distributions(on_oci=on_oci))
        return {f"{each['id']}-{each['version']}" for each in rows if each["refused"]}

    assert refused(on_oci=False) - refused(on_oci=True) == {"ol-9"}
    assert refused(on_oci=True) <= refused(on_oci=False)


def test_the_playbook_finds_the_same_row() -> None:
    for each in distributions():
        said = f'MemTotal: 1\nos-release ID="{each.os.id}"\nos-release VERSION_ID="{each.os.version}.7"\n'
        row = FILTERS.distribution_row(distributions_text(), said)
        assert (row["name"], row.get("family")) == (each.name, each.built and each.built.family)
        if each.built:
            assert row["slurm"]["from"] == each.built.slurm.origin
    unknown = FILTERS.distribution_row(distributions_text(), "os-release ID=debian\nos-release X=1\n")
    assert unknown == {}


@pytest.mark.parametrize(
    ("name", "owner", "known"),
    [
        ("Rocky-9-EC2-Base-9.4-20240523.0.x86_64", "792107900819", "rocky-9"),
        ("Rocky-9-EC2-Base-9.4-20240523.0.x86_64", "111122223333", None),
        ("Rocky-8-EC2-Base-8.10-20240528.0.aarch64", "792107900819", "rocky-8"),
        ("RHEL-9.4.0_HVM-20240605-x86_64-82-Hourly2-GP3", "309956199498", "rhel-9"),
        ("RHEL-8.10.0_HVM-20240516-arm64-83-Hourly2-GP3", "309956199498", "rhel-8"),
        ("AlmaLinux OS 9.7.20260508 x86_64", "764336703387", "almalinux-9"),
        ("al2023-ami-2023.5.20240722.0-kernel-6.1-x86_64", "137112412989", "amzn-2023"),
        ("amzn2-ami-hvm-2.0.20240709.1-x86_64-gp2", "137112412989", "amzn-2"),
        ("our image of yesterday", "111122223333", None),
    ],
)
def test_an_image_is_known_by_its_name_and_its_owner(name: str, owner: str, known: str | None) -> None:
    found = of_image(name, owner)
    assert (found and found.name) == known


def test_a_public_parameter_tells_what_it_holds() -> None:
    names = ["al2023-ami-kernel-default-x86_64", "amzn2-ami-hvm-x86_64-gp2"]
    found = [of_parameter(f"/aws/service/ami-amazon-linux-latest/{name}") for name in names]
    assert [each and each.name for each in found] == ["amzn-2023", "amzn-2"]
    assert of_parameter("/ours/image") is None


@pytest.mark.parametrize("each", IN_CLOUD, ids=lambda each: each.name)
def test_a_machine_begins_as_the_table_says(each: Distribution, tmp_path: Path) -> None:
    """begin.sh is in user data, which a new row must not change: it goes by what there is."""
    assert each.built is not None
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("mkdir", "timeout"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    manager = "apt-get" if each.built.family == "Debian" else "dnf"
    asked = tmp_path / "asked"
    _program(programs / manager, f'echo "$@" >> {asked}; exit 1')
    _program(programs / "python3", "exit 1")
    done = subprocess.run(
        ["/bin/sh", str(BEGIN)],
        env={"PATH": str(programs), "GRIDWRIGHT_ROOT": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "FAILURE there is no Python with boto3" in done.stdout
    wanted = re.findall(r"install (.*)$", asked.read_text(), re.MULTILINE)
    by_dnf = [f"{python} {python}-pip" for python in BY_DNF]
    assert wanted == (["python3-boto3"] if each.built.boto3 == "apt" else by_dnf)


def test_a_machine_makes_a_python_of_its_own_and_begins_with_it(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("mkdir", "timeout"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    own = tmp_path / "usr/local/lib/gridwright/python/bin"
    said = tmp_path / "said"
    _program(programs / "python3", "exit 1")
    _program(programs / "dnf", "exit 1")
    # The newer one is not to be had; the other one makes an environment whose pip makes boto3 importable.
    made = f'[ "$1" != -c ] || exec /usr/bin/test -e {said}\necho "$@" >> {said}'
    _program(tmp_path / "python-of-the-environment", made)
    _program(
        programs / "python3.11",
        f"[ \"$*\" = '-m venv --clear {own.parent}' ] || exit 2\n"
        f"/bin/mkdir -p {own}\n/bin/cp {tmp_path}/python-of-the-environment {own}/python3",
    )
    environment = {"PATH": str(programs), "GRIDWRIGHT_ROOT": str(tmp_path)}
    for lines in (2, 3):
        subprocess.run(["/bin/sh", str(BEGIN)], env=environment, timeout=30, check=True)
        told = said.read_text().splitlines()
        assert len(told) == lines
        assert told[-1] == f"{tmp_path}/var/lib/gridwright/fetch.py"
    assert "--require-hashes --only-binary :all:" in told[0]
    assert told[0].endswith(f"-r {tmp_path}/var/lib/gridwright/boto3.lock")


def test_what_is_installed_from_an_archive_is_pinned_by_its_digest() -> None:
    lock = resources.files("gridwright.providers.aws.boot").joinpath("boto3.lock").read_text()
    pinned = re.compile(r"([a-z0-9-]+)==[0-9a-z.]+ --hash=sha256:[0-9a-f]{64}")
    lines = [pinned.fullmatch(line) for line in lock.splitlines()]
    names = [line and line[1] for line in lines]
    assert names == ["boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3"]


def test_the_documents_have_the_table() -> None:
    text = PAGE.read_text("utf-8")
    assert text == refreshed(text), "run python -m gridwright.setup.distributions_page docs/setup.md"
    for each in distributions():
        assert f"| {each.title} |" in text


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
