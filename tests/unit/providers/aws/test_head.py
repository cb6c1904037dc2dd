"""How the head node of a grid on AWS is reached: from outside through the login node."""

from __future__ import annotations

import datetime
import shlex
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.providers.aws import stopping as module
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.stacks import Stack
from gridwright.providers.aws.stopping import aws_head
from gridwright.schedulers.head_node import LocalHeadNode
from gridwright.schedulers.ssh_head import SshHead
from gridwright.spec import parse_spec
from tests.support.aws_grid import FSX

SPEC = parse_spec(FSX)
PUBLIC = "198.51.100.7"


MADE = datetime.datetime(2026, 11, 2, tzinfo=datetime.UTC)


def stack(state: str = "CREATE_COMPLETE", **outputs: str) -> Stack:
    return Stack("gridwright-demo", "id", state, "", MADE, False, outputs, {})


@pytest.fixture(autouse=True)
def _own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Stack]:
    """The stacks that AWS has."""
    found: dict[str, Stack] = {}
    monkeypatch.setattr(module, "Stacks", lambda _cloud, _caller: SimpleNamespace(find=found.get))
    return found


def words(head: object) -> list[str]:
    """The words of an ssh to the head node, those of its way through the login node among them."""
    assert isinstance(head, SshHead)
    return [
        part for word in head.argv(["true"]) for part in shlex.split(word.removeprefix("-oProxyCommand="))
    ]


def test_from_outside_it_is_reached_through_the_login_node(stacks: dict[str, Stack]) -> None:
    stacks["gridwright-demo"] = stack(LoginPublicAddress=PUBLIC)
    asked = words(aws_head(SPEC))
    assert asked[-2:] == ["controller", "true"]
    assert PUBLIC in asked
    assert not any(word.startswith("-oUser=") for word in asked), "the site's own accounts"


def test_with_a_key_pair_the_user_of_the_default_image_logs_in(stacks: dict[str, Stack]) -> None:
    stacks["gridwright-demo"] = stack(LoginPublicAddress=PUBLIC)
    spec = parse_spec(FSX.replace("owner: ann", "owner: ann, key: ann"))
    assert "-oUser=ubuntu" in words(aws_head(spec))


def test_behind_a_proxy_the_login_node_has_its_private_address_alone(stacks: dict[str, Stack]) -> None:
    stacks["gridwright-demo"] = stack()
    assert aws_layout(SPEC).addresses["login1"] in words(aws_head(SPEC))


def test_each_grid_has_its_own_file_of_host_keys(stacks: dict[str, Stack]) -> None:
    made = stack(LoginPublicAddress=PUBLIC)
    again, changed = replace(made, id="id2"), replace(made, updated=MADE + datetime.timedelta(hours=1))
    files = []
    for stacks["gridwright-demo"] in (made, made, again, changed):
        (option,) = [each for each in words(aws_head(SPEC)) if each.startswith("-oUserKnownHostsFile=")]
        files.append(Path(option.partition("=")[2]))
    assert files[0] == files[1]
    assert len(set(files)) == 3, "machines of a new grid, and those that an update replaced, have new keys"
    assert all(file.name.startswith("demo-") for file in files)


@pytest.mark.parametrize("state", [None, "ROLLBACK_COMPLETE"])
def test_a_grid_that_is_not_up_is_named(stacks: dict[str, Stack], state: str | None) -> None:
    if state is not None:
        stacks["gridwright-demo"] = stack(state)
    with pytest.raises(GridwrightError, match="grid demo is not up") as raised:
        aws_head(SPEC)
    assert raised.value.status == ExitStatus.ENVIRONMENT


def test_on_a_machine_of_the_grid_nothing_is_asked_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    address = aws_layout(SPEC).addresses["controller"]
    interface = {"ens5": [SimpleNamespace(address=address)]}
    monkeypatch.setattr(socket, "gethostname", lambda: "controller.grid")
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: interface)
    assert isinstance(aws_head(SPEC), LocalHeadNode)
