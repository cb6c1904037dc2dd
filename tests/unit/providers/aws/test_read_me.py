"""README.md of a grid on AWS: its commands are run with a pretended AWS CLI."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from gridwright.providers.aws.files import aws_files
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.names import claims_table, grid_stack, storage_stack
from gridwright.spec import parse_spec

EXAMPLES = Path(__file__).parents[4] / "examples"
FSX = (EXAMPLES / "aws-fsx.yaml").read_text()
AWS = """#!/bin/sh
printf '%s ' "$@" >> calls; echo >> calls
case "$*" in *describe-stack-resource*) echo site-bucket;; esac
"""


@pytest.fixture
def rendered(tmp_path: Path) -> Path:
    return written(tmp_path, FSX)


def written(tmp_path: Path, text: str) -> Path:
    """What is rendered of a spec, and a pretended AWS CLI beside it."""
    for name, content in aws_files(parse_spec(text))[0].items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    (tmp_path / "aws").write_text(AWS)
    (tmp_path / "aws").chmod(0o755)
    return tmp_path


def commands(directory: Path, heading: str) -> list[list[str]]:
    """What the AWS CLI was asked for by all commands under a heading."""
    section = (directory / "README.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert blocks
    subprocess.run(
        ["sh", "-eu", "-c", "\n".join(blocks)],
        cwd=directory,
        env={"PATH": f"{directory}:/usr/bin:/bin"},
        check=True,
        timeout=30,
    )
    return [shlex.split(line) for line in (directory / "calls").read_text().splitlines()]


def test_root_squash_is_set_by_a_command_of_its_own(tmp_path: Path) -> None:
    squashed = FSX.replace("    compression: lz4\n", '    compression: lz4\n    root_squash: "65534:65534"\n')
    _, _, look, squash, *_ = commands(written(tmp_path, squashed), "Deploying it")
    assert "Shared" in look
    assert squash[:2] == ["fsx", "update-file-system"]
    said = re.search(r"--lustre-configuration '(.*)'", (tmp_path / "README.md").read_text())
    assert said
    layout = aws_layout(parse_spec(squashed))
    kept = [f"{layout.addresses[each]}@tcp" for each in ("login1", "controller")]
    wanted = {"RootSquash": "65534:65534", "NoSquashNids": kept}
    assert json.loads(said[1]) == {"RootSquashConfiguration": wanted}


def test_its_commands_deploy_the_grid(rendered: Path) -> None:
    spec = parse_spec(FSX)
    storage, protect, _, upload, point, grid, look = commands(rendered, "Deploying it")
    key = (rendered / "bundle-nodes.key").read_text().strip()
    assert storage[:2] == ["cloudformation", "deploy"]
    assert storage_stack(spec) in storage
    assert "--enable-termination-protection" in protect
    assert upload[-2:] == ["bundle-nodes.tar.gz", f"s3://site-bucket/{key}"]
    assert point[-2:] == ["bundle-nodes.key", "s3://site-bucket/bundles/current/nodes"]
    assert {grid_stack(spec), "CAPABILITY_IAM", "site-bucket"} <= set(grid)
    assert {"scan", claims_table(spec)} <= set(look)
    for each in (storage, grid):
        assert (rendered / each[each.index("--template-file") + 1]).is_file()


def test_its_commands_take_the_grid_away(rendered: Path) -> None:
    called = [" ".join(each) for each in commands(rendered, "Taking it away")]
    stacks = [re.findall(r"--stack-name (\S+)", each) for each in called if "delete-stack" in each]
    spec = parse_spec(FSX)
    assert stacks == [[grid_stack(spec)], [storage_stack(spec)]]


def test_all_that_it_names_is_there(rendered: Path) -> None:
    text = (rendered / "README.md").read_text()
    for name in re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE):
        for each in name.split(", "):
            assert (rendered / each).exists(), each


def test_machines_and_prices_are_named(rendered: Path) -> None:
    text = (rendered / "README.md").read_text()
    assert f"How its {len(aws_layout(parse_spec(FSX)).machines)} machines" in text
    assert "4 nodes i3en.2xlarge" in text


def test_what_has_to_be_done_first_is_said() -> None:
    for more, said in (
        ("kms_key: arn:aws:kms:us-east-1:111122223333:key/0", "AWSServiceRoleForAutoScaling"),
        ("proxy: http://proxy.example:3128", "routes"),
    ):
        spec = parse_spec(FSX.replace("aws:\n", f"aws:\n  {more}\n", 1))
        before = str(aws_files(spec)[0]["README.md"]).split("## Deploying it")[0]
        assert said in before
