"""A grid on OCI that is reached through the bastion service, by the real SDK against the double."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.providers import head_node
from gridwright.providers.oci import head
from gridwright.providers.oci.head import BastionSessions
from gridwright.providers.oci.layout import oci_layout
from gridwright.providers.oci.session import OciCloud
from gridwright.providers.oci.up import up
from gridwright.providers.provider import Caller
from gridwright.schedulers.ssh_head import SshHead
from gridwright.spec.load import load_spec
from gridwright.spec.model import GridSpec
from tests.support.oci_cloud.server import OciDouble, resource
from tests.support.oci_cloud.signed_in import signed_in

EXAMPLE = Path(__file__).parents[2] / "examples" / "oci-scale.yaml"
BASTION = "ocid1.oci_bastion_bastion.oc1..7"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample ann"
ADDRESS = "10.30.128.10"


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OciDouble]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with signed_in(tmp_path, monkeypatch) as double:
        yield double


@pytest.fixture
def bastion(cloud: OciDouble) -> OciDouble:
    """One bastion, without a grid."""
    values = {"max_session_ttl_in_seconds": 10800, "name": "gridwright"}
    cloud.resources[BASTION] = resource(BASTION, "oci_bastion_bastion", values)
    return cloud


def sessions(key: str = KEY, target: str = ADDRESS) -> BastionSessions:
    """As another command has them: it knows of no session."""
    return BastionSessions(OciCloud("us-ashburn-1"), BASTION, target, key, poll_s=0.001)


def with_service(tmp_path: Path, **more: str) -> GridSpec:
    text = EXAMPLE.read_text(encoding="utf-8").replace("oci:\n", "oci:\n  bastion: service\n", 1)
    for old, new in more.items():
        text = text.replace(old, new)
    (tmp_path / "grid.yaml").write_text(text, encoding="utf-8")
    return load_spec(tmp_path / "grid.yaml")


def words_of(head: object) -> list[list[str]]:
    """The words of an ssh to the head node, and those of the one that takes it through the bastion."""
    assert isinstance(head, SshHead)
    words = head.argv(["true"])
    (way,) = [each.partition("=")[2] for each in words if each.startswith("-oProxyCommand=")]
    return [words, shlex.split(way)]


def test_a_grid_that_up_has_made_is_reached_through_a_session(cloud: OciDouble, tmp_path: Path) -> None:
    spec = with_service(tmp_path)
    with pytest.raises(GridwrightError, match="is not up") as raised:
        head_node(spec)
    assert raised.value.status is ExitStatus.ENVIRONMENT
    assert up(spec, Caller(), frozenset(), poll_s=0.01).login is None
    words, way = words_of(head_node(spec))
    (session,) = cloud.bastions.sessions.values()
    controller = str(oci_layout(spec).machine("controller").serving_address)
    assert session["keyDetails"]["publicKeyContent"].startswith("ssh-ed25519 ")
    assert session["sessionTtlInSeconds"] == 10800
    assert words[-2:] == [controller, "true"], "its name is known behind the bastion alone"
    assert "-oUser=ubuntu" in words
    assert any(each.startswith(f"-oUserKnownHostsFile={tmp_path}/state/") for each in words)
    assert way[way.index("-W") + 1] == f"{controller}:22"
    assert f"-oUser={session['id']}" in way
    assert "-oUser=ubuntu" not in way
    assert "-oBatchMode=yes" in way
    assert way[-1] == "host.bastion.iad.example.com", "as the session itself says"
    assert not any(each.startswith("-oUserKnownHostsFile") for each in way), "the bastion is no machine of it"
    assert words_of(head_node(spec))[1] == way, "the next command takes the same one"
    assert len(cloud.bastions.sessions) == 1


def test_without_a_grid_control_server_there_is_nothing_to_lead_to(cloud: OciDouble, tmp_path: Path) -> None:
    with pytest.raises(GridwrightError, match="no grid control server") as raised:
        head_node(with_service(tmp_path, **{"type: slurm": "type: local"}))
    assert "bastion: host" in str(raised.value)
    assert not cloud.asked


def test_a_user_has_a_session_of_its_own_for_each_key_and_target(
    bastion: OciDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sessions().passage().user
    assert sessions().passage().user == first
    assert (
        len({first, sessions(key=KEY + "2").passage().user, sessions(target="10.30.128.11").passage().user})
        == 3
    )
    monkeypatch.setattr(OciCloud, "config", {"user": "ocid1.user.oc1..bob"})
    assert sessions().passage().user != first
    assert {each["lifecycleState"] for each in bastion.bastions.sessions.values()} == {"ACTIVE"}


@pytest.mark.parametrize(("left", "is_taken"), [(2000.0, True), (1700.0, False), (-5.0, False)])
def test_a_session_that_ends_soon_is_not_taken(bastion: OciDouble, left: float, is_taken: bool) -> None:
    mine = sessions().passage().user
    shown = bastion.bastions.sessions.pop(mine)
    body = {k: v for k, v in shown.items() if k not in ("id", "lifecycleState", "timeCreated", "looks")}
    old = bastion.bastions.put(body, age_s=10800 - left)
    old["lifecycleState"] = "ACTIVE"
    assert (sessions().passage().user == old["id"]) is is_taken


def test_one_that_another_command_is_making_is_waited_for(bastion: OciDouble) -> None:
    bastion.bastions.looks = 5
    first = sessions().passage()
    bastion.bastions.sessions[first.user] |= {"lifecycleState": "CREATING", "looks": 0}
    second = sessions().passage()
    assert second.user == first.user
    assert second.settles_until > 0, "its bastion may not know the key yet"
    assert sessions().passage().settles_until == 0


def test_a_long_command_has_a_new_one_before_the_last_ends(
    bastion: OciDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = sessions()
    first = gate.passage()
    asked = len(bastion.asked)
    assert gate.passage() is first
    assert len(bastion.asked) == asked, "nothing is asked while it lasts"
    monkeypatch.setattr(head, "LEAST_LEFT_S", 10_801)
    assert gate.passage().user != first.user


def test_one_that_somebody_has_ended_is_found_out(bastion: OciDouble) -> None:
    gate = sessions()
    first = gate.passage()
    assert first.user in gate.advice
    bastion.bastions.sessions[first.user]["lifecycleState"] = "DELETED"
    assert gate.passage() is first, "only ssh finds out"
    gate.lost()
    assert gate.passage().user != first.user


def test_what_goes_wrong_says_what_to_do(bastion: OciDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    double = bastion.bastions
    double.ends_as = "FAILED"
    with pytest.raises(GridwrightError, match="failed, no endpoint") as raised:
        sessions().passage()
    assert raised.value.status is ExitStatus.ENVIRONMENT
    double.looks = 10**6
    monkeypatch.setattr(head, "READY_S", 0.01)
    with pytest.raises(GridwrightError, match="is not active after"):
        sessions().passage()
    double.sessions.clear()
    made: dict[str, Any] = {
        "bastionId": BASTION,
        "displayName": "of others",
        "targetResourceDetails": {"targetResourcePrivateIpAddress": ADDRESS, "targetResourcePort": 22},
        "sessionTtlInSeconds": 10800,
    }
    for _ in range(20):
        double.put(made)
    with pytest.raises(GridwrightError, match="as many sessions as it may have") as raised:
        sessions().passage()
    assert "session list" in str(raised.value)
    bastion.resources.clear()
    double.sessions.clear()
    with pytest.raises(GridwrightError, match="bastionId"):
        sessions().passage()


def test_where_the_service_does_not_say_its_address_it_is_that_of_the_region(bastion: OciDouble) -> None:
    bastion.bastions.hides_command = True
    assert sessions().passage().host == "host.bastion.us-ashburn-1.oci.oraclecloud.com"
