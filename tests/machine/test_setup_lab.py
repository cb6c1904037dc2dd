"""`gridwright setup` over ssh: a lab's nodes are set up once, and the kernel they share is left alone."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.oci.provider import OCI
from tests.support.command import Command, wait_until
from tests.support.lab import Lab, nodes_only, up

pytestmark = pytest.mark.root
METADATA = ("169.254.169.254", "fd00:c1::a9fe:a9fe")
"""Where machines on Oracle Cloud learn who they are."""
KEY_OF_INSTANCE = "private key of the instance"
DOUBLE = f"""
import http.server, socket, threading
class Opc(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.headers.get("Authorization") == "Bearer Oracle"
        known = known and self.path == "/opc/v2/identity/key.pem"
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(b"{KEY_OF_INSTANCE}" if known else b"")
class Of6(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
of4 = http.server.ThreadingHTTPServer(("{METADATA[0]}", 80), Opc)
threading.Thread(target=of4.serve_forever).start()
Of6(("{METADATA[1]}", 80), Opc).serve_forever()
"""
"""A double of /opc/v2, at both addresses."""
ASK = f"""
import urllib.request
for address in ("{METADATA[0]}", "[{METADATA[1]}]"):
    url = f"http://{{address}}/opc/v2/identity/key.pem"
    asked = urllib.request.Request(url, headers={{"Authorization": "Bearer Oracle"}})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
    try:
        print(opener.open(asked, timeout=5).read().decode())
    except OSError as error:
        print(getattr(error, "reason", error).errno)
"""
MALLORY = "2002"
Nodes = dict[str, dict[str, Any]]
LIMITS = "/etc/security/limits.d/60-gridwright.conf"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab on which a site asks for its Slurm, too, with a key of its own."""
    directory = tmp_path_factory.mktemp("setup")
    command = Command(directory)
    made = nodes_only(command, directory, "labsetup", "10.91.0.0/24")
    made.spec.write_text(made.spec.read_text().replace("type: ssh", "type: slurm"))
    key = directory / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(1024))
    chosen(made).write_text(
        f"gridwright_slurm_configure: true\nslurm_munge_key_file: {key}\n"
        f"gridwright_metadata: {json.dumps(OCI.metadata_service.variables())}\n"
    )
    # The first one may have to make the image.
    assert command("up", made.spec, seconds=280).status == 0
    with up(made):
        yield made


def chosen(lab: Lab) -> Path:
    """What the site chose."""
    return lab.spec.with_name("site.yml")


def set_up(lab: Lab) -> Nodes:
    """Set the nodes up; what became of them."""
    done = lab.command("setup", lab.spec, "--variables", chosen(lab), "--json", seconds=280)
    assert done.status == 0, done.err
    return {node["name"]: node for node in done.json["nodes"]}


@pytest.fixture(scope="module")
def swappiness() -> str:
    """A setting of this machine's kernel, which the nodes share, as it was before."""
    return Path("/proc/sys/vm/swappiness").read_text()


@pytest.fixture(scope="module")
def nodes(lab: Lab, swappiness: str) -> Nodes:
    """What became of the nodes when they were set up for the first time."""
    assert swappiness
    return set_up(lab)


def test_nodes_are_set_up_over_ssh(lab: Lab, nodes: Nodes) -> None:
    assert set(nodes) == {"compute1", "compute2", "controller"}
    limited = {name for name, node in nodes.items() if LIMITS in (each["where"] for each in node["changes"])}
    assert limited == {"compute1", "compute2"}
    for node in nodes.values():
        assert "own-kernel" in {each["name"] for each in node["skipped"]}
    assert "* - nofile 500000" in lab.run("compute2", "cat", LIMITS).out

    seen = lab.run("compute1", "stat", "--format", "%U %a %s", "/etc/munge/munge.key")
    assert seen.out.split() == ["munge", "400", "1024"]
    limits = lab.run("compute2", "cat", "/etc/systemd/system/slurmd.service.d/60-gridwright.conf")
    assert "LimitNOFILE=500000" in limits.out
    configured = lab.run("compute1", "cat", "/etc/slurm/slurm.conf").out
    assert configured == lab.run("controller", "cat", "/etc/slurm/slurm.conf").out
    assert "NodeName=compute[1-2]" in configured
    assert not Path(LIMITS).exists()


def test_a_jobs_user_reaches_neither_metadata_nor_key(lab: Lab, nodes: Nodes) -> None:
    """A job's user gets no credentials of the machine's identity, and no key to be somebody else with."""
    assert "compute1" in nodes
    for node in ("compute1", "controller"):
        assert lab.run(node, "useradd", "--uid", MALLORY, "--create-home", "mallory").status == 0
    for address, whole in zip(METADATA, (32, 128), strict=True):
        assert lab.run("compute1", "ip", "address", "add", f"{address}/{whole}", "dev", "lo").status == 0
    server = f"cat > /srv/opc.py << 'END'\n{DOUBLE}END\nsetsid -f python3 /srv/opc.py > /dev/null 2>&1"
    assert lab.run("compute1", "sh", "-c", server).status == 0
    answers = f"{KEY_OF_INSTANCE}\n" * 2
    wait_until(
        lambda: lab.run("compute1", "python3", "-c", ASK).out == answers or None,
        seconds=20,
        what="an answer to root",
        last=lambda: lab.run("compute1", "python3", "-c", ASK),
    )
    job = ("srun", f"--uid={MALLORY}", f"--gid={MALLORY}", "--chdir=/tmp", "--nodelist=compute1")
    asked = lab.run("controller", *job, "python3", "-c", ASK)
    assert asked.out == f"{errno.ECONNREFUSED}\n" * 2, asked.err
    assert lab.run("compute1", "python3", "-c", ASK).out == answers, "the double answers root all the time"
    read = lab.run("controller", *job, "cat", "/etc/munge/munge.key")
    assert read.status != 0
    assert "Permission denied" in read.err, read.err


@pytest.mark.thorough
def test_a_node_that_is_dead_is_named_and_a_second_run_changes_nothing_on_the_others(
    lab: Lab, nodes: Nodes, swappiness: str
) -> None:
    assert nodes["compute1"]["changes"]
    assert lab.fault("power-off", "compute2").status == 0
    done = lab.command("setup", lab.spec, "--variables", chosen(lab), "--json", seconds=280)
    assert done.status == 3, done.err
    again = {node["name"]: node for node in done.json["nodes"]}
    assert again["compute2"]["state"] == "unreachable"
    (failure,) = again["compute2"]["failures"]
    assert "compute2" in failure["message"]
    assert {name: again[name]["changes"] for name in ("compute1", "controller")} == {
        "compute1": [],
        "controller": [],
    }
    assert {again[name]["state"] for name in ("compute1", "controller")} == {"ok"}
    assert Path("/proc/sys/vm/swappiness").read_text() == swappiness
