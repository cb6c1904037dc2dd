"""The second interface: by a file where systemd-networkd runs, by hand elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from gridwright.node_programs.scratch.commands import Ended
from gridwright.providers.aws.claim import this_machine
from gridwright.providers.aws.claim.configuration import Directories
from gridwright.providers.aws.claim.this_machine import NETWORK_FILE, OWN_TOOL, Metadata, Network

MAC, ADDRESS, SUBNET = "02:00:00:00:00:AB", "10.20.64.11", "10.20.64.0/24"


class Described:
    """The metadata service, as far as it is asked."""

    def subnet(self, mac: str) -> str:
        assert mac == MAC
        return SUBNET


class Machine:
    """A machine with an interface ens6; what is run on it is kept, and has the effect that it would have."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sys, self.networkd = directory / "sys", directory / "networkd"
        for name, mtu in (("ens5", 9001), ("ens6", 1500), ("lo", 65536)):
            (self.sys / "class/net" / name).mkdir(parents=True)
            (self.sys / "class/net" / name / "mtu").write_text(f"{mtu}\n")
        self.ran: list[str] = []
        self.tools = {"networkctl"}
        self.active, self.obeys = True, True
        self.by_reload = False
        """Whether networkd uses what it reads anew by itself, as from 246 on."""
        self.configured = False
        directories = Directories(sys=self.sys, networkd=self.networkd)
        self.network = Network(directories, cast("Metadata", Described()))
        monkeypatch.setattr(this_machine, "run", self.run)
        monkeypatch.setattr(this_machine, "tool", lambda name: name if name in self.tools else None)
        for limit in ("_RELOADED_S", "_NETWORKD_S"):
            monkeypatch.setattr(this_machine, limit, 0.0)

    @property
    def file(self) -> Path:
        return self.networkd / NETWORK_FILE

    def run(self, argv: Sequence[str], _: float) -> Ended:
        words = " ".join(argv)
        self.ran.append(words)
        well, output = True, ""
        if words.startswith("systemctl is-active"):
            well = self.active
        elif words == "networkctl reload":
            self.configured = self.by_reload
        elif words == "networkctl reconfigure ens6":
            assert self.file.exists(), "it is told before it is asked"
            self.configured = self.obeys
        elif " show" in words and self.configured:
            output = f"7001: from {ADDRESS} lookup 7001" if "rule" in words else f"3: ens6 inet {ADDRESS}/32"
        return Ended(tuple(argv), 0 if well else 1, output, 0.0)

    def changes(self) -> list[str]:
        """What was set by hand."""
        return [each for each in self.ran if each.startswith("ip ") and "show" not in each]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def sections(text: str) -> list[tuple[str, dict[str, str]]]:
    """Sections of a file of systemd in their order: some names come twice."""
    found: list[tuple[str, dict[str, str]]] = []
    for line in text.splitlines():
        if line.startswith("["):
            found.append((line.strip("[]"), {}))
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[-1][1][key] = value
    return found


def test_networkd_is_told_what_would_be_set_by_hand(machine: Machine) -> None:
    machine.network.configure("ens6", MAC, ADDRESS)
    assert machine.changes() == []
    told = sections(machine.file.read_text())
    named: dict[str, Any] = dict(told)
    assert named["Match"] == {"MACAddress": MAC.lower()}
    assert named["Link"] == {"MTUBytes": "9001", "RequiredForOnline": "no"}
    assert named["Network"]["Address"] == f"{ADDRESS}/32"
    assert "DHCP" not in named["Network"]
    routes = [fields for name, fields in told if name == "Route"]
    assert [each.get("Destination", each.get("Gateway")) for each in routes] == [SUBNET, "10.20.64.1"]
    assert {(each["Table"], each["PreferredSource"]) for each in routes} == {("7001", ADDRESS)}
    assert named["RoutingPolicyRule"] == {"From": ADDRESS, "Table": "7001", "Priority": "7001"}


def test_its_file_comes_before_that_of_netplan_and_may_be_read_by_networkd(machine: Machine) -> None:
    machine.network.configure("ens6", MAC, ADDRESS)
    others = ("10-netplan-ens6.network", "10-cloud-init-ens6.network", "70-ens6.network")
    assert all(other > NETWORK_FILE for other in others)
    assert machine.file.stat().st_mode & 0o444 == 0o444
    assert [each for each in machine.ran if "networkctl" in each] == [
        "networkctl reload",
        "networkctl reconfigure ens6",
    ]


def test_an_interface_that_is_up_already_is_not_taken_down_again(machine: Machine) -> None:
    machine.by_reload = True
    machine.network.configure("ens6", MAC, ADDRESS)
    assert [each for each in machine.ran if "networkctl" in each] == ["networkctl reload"]


@pytest.mark.parametrize("why", ["inactive", "not there"])
def test_without_networkd_it_is_set_by_hand(machine: Machine, why: str) -> None:
    machine.active = why != "inactive"
    machine.tools = set() if why == "not there" else machine.tools
    machine.network.configure("ens6", MAC, ADDRESS)
    assert not machine.file.exists()
    assert f"ip -4 rule add from {ADDRESS} lookup 7001 priority 7001" in machine.changes()
    assert len(machine.changes()) == 5


def test_where_networkd_does_not_do_it_it_is_set_by_hand(machine: Machine) -> None:
    machine.obeys = False
    machine.network.configure("ens6", MAC, ADDRESS)
    assert len(machine.changes()) == 5


def test_where_a_system_has_a_tool_of_its_own_that_is_left_to_it(machine: Machine) -> None:
    machine.tools.add(OWN_TOOL)
    machine.configured = True
    machine.network.configure("ens6", MAC, ADDRESS)
    assert machine.changes() == []
    assert not machine.file.exists()
