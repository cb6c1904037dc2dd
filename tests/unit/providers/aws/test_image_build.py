"""What builds an image: Packer takes the template, and nothing of one grid or one machine is in it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.providers import provider_of
from gridwright.providers.aws.provider import image_build
from gridwright.providers.provider import images_of
from gridwright.spec import parse_spec
from tests.support.aws_grid import FSX, LUSTRE
from tests.support.skips import needs

ZONE = "zone: us-east-1a,"
KEY = "arn:aws:kms:us-east-1:111122223333:key/11111111-2222-3333-4444-555555555555"


def files_of(text: str) -> dict[str, str | bytes]:
    return dict(image_build(parse_spec(text), None).files)


def template_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files_of(text)["image.json"])
    return found


def with_aws(text: str, spec: str = FSX) -> str:
    return spec.replace(ZONE, f"{ZONE} {text},")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "aws",
    [
        "dashboard: false",
        f"kms_key: '{KEY}'",
        "proxy: 'http://proxy.example:3128'",
        "images: {compute: ami-0123456789abcdef0, distribution: rhel-9}",
        "images: {compute: /aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64}",
    ],
    ids=["default", "key", "proxy", "rhel", "al2023"],
)
def test_packer_finds_nothing_wrong_with_it(aws: str, tmp_path: Path) -> None:
    needs("packer")
    for name, content in files_of(with_aws(aws)).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CHECKPOINT_DISABLE": "1"}

    def validated() -> subprocess.CompletedProcess[str]:
        command = ["packer", "validate", "image.json"]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    done = validated()
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = (tmp_path / "image.json").read_text().replace("encrypt_boot", "encrypted_boot")
    (tmp_path / "image.json").write_text(wrong)
    assert validated().returncode == 1, "it looks at what it is given"


def test_it_starts_from_the_newest_image_of_the_distribution_or_from_the_one_that_is_named() -> None:
    (usual,) = template_of(FSX)["builders"]
    assert usual["source_ami_filter"]["owners"] == ["099720109477"]
    assert usual["source_ami_filter"]["filters"]["name"].endswith("ubuntu-noble-24.04-amd64-server-*")
    assert (usual["ssh_username"], usual["tags"]["gridwright:distribution"]) == ("ubuntu", "ubuntu-24.04")
    (named,) = template_of(with_aws("images: {compute: ami-0123456789abcdef0, distribution: amzn-2023}"))[
        "builders"
    ]
    assert (named["source_ami"], named["ssh_username"]) == ("ami-0123456789abcdef0", "ec2-user")
    assert named["launch_block_device_mappings"][0]["device_name"] == "/dev/xvda"
    arm = FSX.replace("m6i.4xlarge", "m7g.4xlarge")
    assert arm != FSX
    built = template_of(arm)
    assert built["builders"][0]["source_ami_filter"]["filters"]["architecture"] == "arm64"
    assert built["variables"]["instance_type"] == "m6g.large"


def test_an_image_that_nobody_knows_is_refused() -> None:
    with pytest.raises(GridwrightError) as caught:
        files_of(with_aws("images: {compute: ami-0123456789abcdef0}"))
    assert caught.value.status == ExitStatus.INPUT
    assert "nothing tells what image ami-0123456789abcdef0 has" in str(caught.value)


def test_a_provider_without_images_says_so() -> None:
    spec = parse_spec("nodes: {compute: {count: 1}}\nfilesystems: {d: {type: local, path: /d}}\n")
    with pytest.raises(GridwrightError, match="starts no machines from images"):
        images_of(provider_of(spec), None, "")


@pytest.mark.parametrize("spec", [FSX, LUSTRE], ids=["fsx", "lustre"])
def test_nothing_of_one_grid_or_one_machine_is_in_it(spec: str) -> None:
    site = spec + "\nsetup: {variables: {product_depot: 's3://depots/x'}}\n"
    files = files_of(site)
    playbook = {
        name.removeprefix("playbook/"): text for name, text in files.items() if name.startswith("playbook/")
    }
    assert "site.yml" not in playbook
    assert not [name for name in playbook if name.startswith("claims/")]
    variables = str(playbook["group_vars/all.yml"])
    assert not re.search(r"10\.20\.\d+\.\d+(?!/)\b(?!\.)", variables.replace("10.20.0.0/16", ""))
    assert "product_depot" in variables
    main = str(playbook["image.yml"])
    assert "tasks_from: install.yml" in main
    # Each role that is named is there with what is included of it.
    named = re.findall(r"name: (\w+)\n        tasks_from: (\w+\.yml)", main)
    assert {f"roles/{role}/tasks/{tasks}" for role, tasks in named} <= playbook.keys()
    assert {"base", "metadata", "scratch", "slurm", "lustre_client", "claim"} <= {role for role, _ in named}


def test_the_same_spec_gives_the_same_bytes() -> None:
    assert files_of(FSX) == files_of(FSX)


def test_its_program_is_one_for_the_python_of_red_hat_9() -> None:
    program = files_of(FSX)["playbook/boot/bake.py"]
    ast.parse(str(program), feature_version=(3, 9))


def test_who_lacks_a_scheduler_is_told_before_the_build() -> None:
    images = "images: {compute: ami-0123456789abcdef0, distribution: rocky-8}"
    assert "slurm_repository" in str(files_of(with_aws(images))["README.md"])
    own = with_aws(images) + "\nsetup: {variables: {slurm_repository: 'https://mirror.example/slurm'}}\n"
    assert "has no Slurm that fits" not in str(files_of(own)["README.md"])
