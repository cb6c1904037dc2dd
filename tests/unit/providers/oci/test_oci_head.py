"""How the head node of a grid on OCI is reached: from outside through the bastion host."""

from __future__ import annotations

import shlex
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.providers import head_node
from gridwright.providers.cloud import is_one_of
from gridwright.providers.oci import head as module
from gridwright.providers.oci.layout import oci_layout
from gridwright.schedulers.head_node import LocalHeadNode
from gridwright.schedulers.ssh_head import SshHead
from gridwright.spec.load import load_spec
from gridwright.spec.model import GridSpec

EXAMPLE = Path(__file__).parents[4] / "examples" / "oci-scale.yaml"
PUBLIC = "198.51.100.7"
KNOWN: dict[str, Any] = {"login": PUBLIC, "instances": {"compute1": "ocid1.instance.oc1.iad.a"}}


@pytest.fixture(scope="module")
def spec() -> GridSpec:
    return load_spec(EXAMPLE)


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Outputs of the stacks that are there, by name."""
    found: dict[str, dict[str, Any]] = {}

    def state(name: str) -> dict[str, Any]:
        return {"outputs": {key: {"value": value} for key, value in found[name].items()}}

    fake = SimpleNamespace(find=lambda name: name if name in found else None, state=state)
    monkeypatch.setattr(module, "deployer_of", lambda *_: fake)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return found


def words(head: object) -> list[str]:
    """The words of an ssh to the head node, those of its way through the bastion host among them."""
    assert isinstance(head, SshHead)
    return [
        part for word in head.argv(["true"]) for part in shlex.split(word.removeprefix("-oProxyCommand="))
    ]


def test_from_outside_it_is_reached_through_the_bastion_host(
    stacks: dict[str, dict[str, Any]], spec: GridSpec
) -> None:
    stacks["gridwright-oci-scale-grid"] = KNOWN
    asked = words(head_node(spec))
    assert asked[-2:] == ["controller", "true"]
    assert PUBLIC in asked
    assert "-oUser=ubuntu" in asked


def test_machines_that_are_made_anew_have_new_host_keys(
    stacks: dict[str, dict[str, Any]], spec: GridSpec
) -> None:
    files = []
    for ocid in ("a", "a", "b"):
        stacks["gridwright-oci-scale-grid"] = KNOWN | {"instances": {"compute1": ocid}}
        files.append({each for each in words(head_node(spec)) if "UserKnownHostsFile" in each})
    assert files[0] == files[1] != files[2]


@pytest.mark.parametrize(
    ("section", "user"),
    [
        ("", "ubuntu"),
        ("distribution: ol-9", "opc"),
        ("distribution: almalinux-9\n  image: ocid1.image.oc1.iad.aaaa", "almalinux"),
        ("distribution: almalinux-9\n  image: ocid1.image.oc1.iad.aaaa\n  user: opc", "opc"),
    ],
)
def test_who_logs_in_is_the_user_of_the_image(section: str, user: str, tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("oci:\n", f"oci:\n  {section}\n", 1)
    (tmp_path / "grid.yaml").write_text(text, encoding="utf-8")
    assert module.login_user(oci_layout(load_spec(tmp_path / "grid.yaml"))) == user


def test_a_grid_that_is_not_up(stacks: dict[str, dict[str, Any]], spec: GridSpec) -> None:
    with pytest.raises(GridwrightError, match="is not up") as raised:
        head_node(spec)
    assert raised.value.status is ExitStatus.ENVIRONMENT
    # An apply that failed has told nothing yet.
    stacks["gridwright-oci-scale-grid"] = {}
    with pytest.raises(GridwrightError, match="is not up"):
        head_node(spec)


def test_on_a_machine_of_the_grid_nothing_is_asked(spec: GridSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    server = oci_layout(spec).machine("lake-nsd1")
    monkeypatch.setattr(socket, "gethostname", lambda: "lake-nsd1.fs.ociscale.oraclevcn.com")
    address = SimpleNamespace(address=str(server.second_address or server.address))
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"ens3": [address]})
    assert isinstance(head_node(spec), LocalHeadNode)
    # The name alone says nothing: others have a compute1, too.
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"lo": [SimpleNamespace(address="127.0.0.1")]})
    assert not is_one_of(oci_layout(spec).addresses.items())
