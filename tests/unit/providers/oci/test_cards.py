"""The second network card: its address, and a way back for what comes in by it, in a real network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.oci.cards import CardsError, cards_of, commands
from gridwright.providers.oci.files import CARDS
from tests.support.oci_instance import OciInstance

FIRST = {"macAddr": "02:00:17:00:00:01", "privateIp": "10.30.64.16", "virtualRouterIp": "10.30.64.1",
         "subnetCidrBlock": "10.30.64.0/18", "vlanTag": 0, "nicIndex": 0}  # fmt: skip
SECOND = {"macAddr": "02:00:17:00:00:02", "privateIp": "10.30.128.16", "virtualRouterIp": "10.30.128.1",
          "subnetCidrBlock": "10.30.128.0/17", "vlanTag": 0, "nicIndex": 1}  # fmt: skip


@pytest.fixture
def cloud() -> Iterator[OciInstance]:
    made = OciInstance()
    made.cards = [FIRST, SECOND]
    yield made
    made.close()


def run(directory: Path, cloud: OciInstance, before: str, after: str) -> subprocess.CompletedProcess[str]:
    """The program in a network of its own, with the metadata service in it; then `after`."""
    (directory / "cards.pyz").write_bytes(CARDS.archive())
    config = {"schema": 1, "addresses": [SECOND["privateIp"]], "wait_seconds": 0}
    (directory / "cards.json").write_text(json.dumps(config))
    (directory / "vnics.json").write_text(json.dumps(cloud.cards))
    net = directory / "sys/class/net/eth1"
    (net / "device").mkdir(parents=True, exist_ok=True)
    (net / "address").write_text(str(SECOND["macAddr"]).upper() + "\n")
    script = (
        f"set -e; ip link set lo up; {before}\n"
        # Its output is no pipe of this test, which would wait for its end.
        f"{sys.executable} {directory}/server.py >/dev/null 2>&1 & server=$!\n"
        f"while [ ! -e {directory}/ready ]; do kill -0 $server; sleep 0.05; done\n"
        f"{sys.executable} {directory}/cards.pyz --config {directory}/cards.json --sysfs {directory}/sys\n"
        f"{after}\nkill -9 $server\n"
    )
    (directory / "server.py").write_text(SERVER.format(directory=directory))
    environment = {**os.environ, "OCI_METADATA_BASE_URL": "http://127.0.0.1:8169/opc/v2"}
    return subprocess.run(
        ["unshare", "--net", "sh", "-c", script],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


SERVER = """
import http.server, pathlib
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(pathlib.Path("{directory}/vnics.json").read_bytes())
server = http.server.HTTPServer(("127.0.0.1", 8169), Handler)
pathlib.Path("{directory}/ready").touch()
server.serve_forever()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="not as root: a network of its own is made")
def test_what_comes_in_by_the_second_card_goes_out_by_it(cloud: OciInstance, tmp_path: Path) -> None:
    veth = "ip link add eth{0} type veth peer name far{0}; ip link set eth{0} up; ip link set far{0} up; "
    cards = veth.format(0) + veth.format(1)
    cards += "ip address add 10.30.64.16/18 dev eth0; ip route add default via 10.30.64.1"
    again = f"{sys.executable} {tmp_path}/cards.pyz --config {tmp_path}/cards.json --sysfs {tmp_path}/sys\n"
    look = "ip -4 -o address show eth1; ip -o link show eth1; ip rule show; "
    look += "ip route get 10.99.0.1 from 10.30.128.16"
    done = run(tmp_path, cloud, cards, again + look)
    assert done.returncode == 0, done.stderr
    first, second, *rest = done.stdout.splitlines()
    assert json.loads(first)["steps"]
    assert json.loads(second)["steps"] == []
    said = "\n".join(rest)
    assert "inet 10.30.128.16/17" in said
    assert "mtu 9000" in said
    assert "10.99.0.1 from 10.30.128.16 via 10.30.128.1 dev eth1" in said
    assert said.count("from 10.30.128.16 lookup") == 1


def test_a_card_that_is_not_attached_is_named(cloud: OciInstance, tmp_path: Path) -> None:
    (tmp_path / "cards.pyz").write_bytes(CARDS.archive())
    config = {"schema": 1, "addresses": ["10.30.128.17"], "wait_seconds": 0}
    (tmp_path / "cards.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, tmp_path / "cards.pyz", "--config", tmp_path / "cards.json"],
        env={**os.environ, **cloud.environment}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr == "cards: this machine has no card with 10.30.128.17: look at its attached VNICs\n"


def test_a_card_without_an_interface_stops_it() -> None:
    with pytest.raises(CardsError, match="no network card has the MAC 02:00:17:00:00:02"):
        commands(cards_of([FIRST, SECOND]), {"02:00:17:00:00:01": "eth0"})


@pytest.mark.parametrize(
    "wrong", [{"privateIp": "10.30"}, {"subnetCidrBlock": "10.30.128.1/17"}, {"macAddr": None}]
)
def test_what_the_cloud_tells_is_held_against_what_it_should_be(wrong: dict[str, Any]) -> None:
    documents = [FIRST, {**SECOND, **wrong}]
    if wrong.get("macAddr", "") is None:
        del documents[1]["macAddr"]
    with pytest.raises(CardsError):
        cards_of(documents)


def test_a_vlan_on_the_first_card_is_no_second_card() -> None:
    assert cards_of([FIRST, {**SECOND, "vlanTag": 7, "nicIndex": 0}]) == ()
