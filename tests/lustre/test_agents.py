"""One agent of a node for two repositories of a real Lustre, and what a reader has of one that was killed.

An import, an export, a release and an agent for all tests: the guest is emulated, commands take long.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest

from tests.support.lustre_vm import LustreMachine
from tests.support.object_store import BUCKET, StoreServer

DIRECTORIES = {1: "/mnt/lustre/agents-a", 2: "/mnt/lustre/agents-b"}
FILES = ("read", "killed", "handed", "stopped", "cancelled")
SIZE = 3 << 20
IMPORTED = 2
"""The archive whose files are imported as names; those of the other one are exported and released."""
STRIPES = "-c 2 -S 1M"
"""Of both directories, while the file system's own are one of 4 MiB."""
PORT = 9999
RELAY = f"""
import socket, sys, threading
def pump(source, sink):
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
    except OSError:
        pass
    for each in (source, sink):
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
listening = socket.create_server(("127.0.0.1", {PORT}))
while True:
    one, _ = listening.accept()
    other = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    for pair in ((one, other), (other, one)):
        threading.Thread(target=pump, args=pair, daemon=True).start()
"""
"""The way to the store, which is stopped and goes on."""
JOURNAL = "/var/lib/gridwright/agents/*/actions"


@dataclass
class Agents:
    """Two repositories, and the agent of both while it runs."""

    machine: LustreMachine
    sums: dict[int, dict[str, str]] = field(default_factory=dict)

    def start(self) -> None:
        """Start the agent, and wait until it is asked."""
        words = [word for archive in DIRECTORIES for word in flags(archive)]
        way = ["--endpoint", f"http://127.0.0.1:{PORT}"]
        self.machine.start("agents", "repo", "serve", "both", *words, *way)
        self.until("grep -q serving /tmp/agents.log")

    def send(self, signal: str, what: str = "agents") -> None:
        """Send a signal to the agent, or the relay."""
        self.machine.run(f"kill -{signal} -$(cat /tmp/{what}.pid)")

    def read(self, archive: int, name: str) -> None:
        """Begin to read a file."""
        path = f"{DIRECTORIES[archive]}/{name}"
        self.machine.background(f"sha256sum {path}; echo $? >/tmp/{name}.rc", name)

    def until(self, test: str) -> None:
        """Wait until a test of sh is true."""
        self.machine.run(f"for i in $(seq 900); do {test} && exit 0; sleep 0.1; done; exit 1")

    def assert_read(self, archive: int, name: str) -> None:
        """Assert that a reader that was begun gets the very bytes."""
        self.until(f"[ -e /tmp/{name}.rc ]")
        said = self.machine.run(f"cat /tmp/{name}.log /tmp/agents.log").out
        assert said.split()[0] == self.sums[archive][name], said


def flags(archive: int) -> list[str]:
    """The repository of an archive."""
    bucket = f"s3://{BUCKET}/agents-{archive}"
    return ["--directory", DIRECTORIES[archive], "--bucket", bucket, "--hsm-archive", str(archive)]


@pytest.fixture(scope="module")
def agents(lustre: LustreMachine, lustre_store: StoreServer) -> Iterator[Agents]:
    """Two repositories whose files are released, their agent, and a way to the store that can be held."""
    found = Agents(lustre)
    port = urlsplit(lustre_store.environment["AWS_ENDPOINT_URL"]).port
    lustre.run("cat >/root/relay.py", given=RELAY.encode())
    lustre.background(f"python3 /root/relay.py {port}", "relay")
    for directory in DIRECTORIES.values():
        lustre.run(f"mkdir {directory} && lfs setstripe {STRIPES} {directory}")
    for name in FILES:
        content = os.urandom(SIZE)
        lustre_store.client().put_object(Bucket=BUCKET, Key=f"agents-{IMPORTED}/{name}", Body=content)
        found.sums.setdefault(IMPORTED, {})[name] = hashlib.sha256(content).hexdigest()
    lustre.gridwright("repo", "import", *flags(IMPORTED))
    names = " ".join(FILES)
    said = lustre.run(
        f"cd {DIRECTORIES[1]} && for i in {names}; do head -c {SIZE} /dev/urandom >$i; done; sleep 2; "
        f"sha256sum {names}"
    ).out
    found.sums[1] = {name: each for each, name in map(str.split, said.splitlines())}
    lustre.gridwright("repo", "export", *flags(1))
    report = lustre.gridwright("repo", "release", "--json", *flags(1)).json
    assert report["done"]["released"]["count"] == len(FILES), report
    found.start()
    try:
        yield found
    finally:
        lustre.end("agents")
        lustre.end("relay")


def test_one_agent_brings_files_of_both_archives(agents: Agents) -> None:
    """11 s."""
    for archive in DIRECTORIES:
        agents.read(archive, "read")
        agents.assert_read(archive, "read")
        agents.machine.run("rm /tmp/read.rc")
    told = agents.machine.run("lctl get_param -n mdt.*.hsm.agents").out
    assert [line.split()[1] for line in told.splitlines()] == ["archive_id=1,2"]


def test_a_second_agent_of_the_node_is_refused_and_the_first_goes_on(agents: Agents) -> None:
    """23 s."""
    refused = agents.machine.gridwright("repo", "serve", *flags(2), ok=False)
    assert refused.status == 3
    assert "this node has an agent of it: process" in refused.err
    assert "of HSM archives 1, 2" in refused.err
    assert "archive_id=1,2" in agents.machine.run("lctl get_param -n mdt.*.hsm.agents").out


def test_a_name_that_was_imported_and_read_has_the_layout_of_its_directory(agents: Agents) -> None:
    path = f"{DIRECTORIES[IMPORTED]}/read"
    shape = agents.machine.run(f"lfs getstripe {path} | grep -E 'stripe_count|stripe_size'").out
    assert [line.split()[-1] for line in shape.splitlines()] == ["2", "1048576"]


def test_status_and_release_know_what_readers_had_restored(agents: Agents) -> None:
    """49 s."""
    words = ("--json", *flags(IMPORTED))
    (status,) = agents.machine.gridwright("repo", "status", *words).json["repositories"]
    assert status["names_only"] == len(FILES) - 1, status
    assert status["agent"]["directories"] == {str(each): path for each, path in DIRECTORIES.items()}
    assert status["agent"]["heard"] > status["agent"]["since"] > 0
    report = agents.machine.gridwright("repo", "release", *words).json
    assert report["done"]["released"]["count"] == 1, report
    assert " released " in agents.machine.run(f"lfs hsm_state {DIRECTORIES[IMPORTED]}/read").out


@pytest.mark.thorough
def test_a_reader_has_the_bytes_though_its_agent_is_killed(agents: Agents) -> None:
    """43 s: by default Lustre would let it wait an hour, and then say ENODATA."""
    agents.send("STOP", "relay")
    agents.read(1, "killed")
    # Longer than the time between two tellings of progress.
    agents.until(f"grep -q . {JOURNAL}")
    agents.machine.run("sleep 12")
    agents.send("KILL")
    agents.send("CONT", "relay")
    agents.start()
    agents.assert_read(1, "killed")
    assert "goes on" in agents.machine.run("cat /tmp/agents.log").out
    agents.until(f"! grep -q . {JOURNAL}")


def test_a_restore_that_is_cancelled_ends_its_reader_at_once_and_is_asked_for_anew(agents: Agents) -> None:
    agents.send("STOP", "relay")
    agents.read(2, "cancelled")
    agents.until(f"grep -q . {JOURNAL}")
    began = time.monotonic()
    agents.machine.run(f"lfs hsm_cancel {DIRECTORIES[2]}/cancelled")
    agents.until("[ -e /tmp/cancelled.rc ]")
    assert time.monotonic() - began < 60, "nobody waits for the store"
    assert "No data available" in agents.machine.run("cat /tmp/cancelled.log").out
    agents.until("grep -q 'it was cancelled' /tmp/agents.log")
    agents.until(f"! grep -q . {JOURNAL}")
    agents.send("CONT", "relay")
    agents.machine.run("rm /tmp/cancelled.rc")
    agents.read(2, "cancelled")
    agents.assert_read(2, "cancelled")


@pytest.mark.thorough
def test_what_an_agent_gives_back_goes_to_the_next_one(agents: Agents) -> None:
    """67 s: SIGTERM, where the policy has failed actions handed out again."""
    agents.machine.run("lctl set_param mdt.*.hsm.policy=-NRA")
    agents.send("STOP", "relay")
    agents.read(2, "handed")
    agents.until(f"grep -q . {JOURNAL}")
    agents.machine.run("sleep 12")
    agents.machine.end("agents")
    agents.send("CONT", "relay")
    agents.start()
    agents.assert_read(2, "handed")
    agents.machine.run("lctl set_param mdt.*.hsm.policy=+NRA")


@pytest.mark.thorough
def test_a_reader_whose_agent_never_took_the_action_has_enodata_in_the_set_time(agents: Agents) -> None:
    """63 s: the node dies between Lustre's message and the agent."""
    agents.machine.run("lctl set_param mdt.*.hsm.active_request_timeout=15")
    agents.send("STOP")
    agents.read(2, "stopped")
    agents.machine.run("sleep 3; [ ! -e /tmp/stopped.rc ]")
    agents.send("KILL")
    agents.until("[ -e /tmp/stopped.rc ]")
    assert "No data available" in agents.machine.run("cat /tmp/stopped.log").out
    agents.start()
    agents.machine.run("rm /tmp/stopped.rc; lctl set_param mdt.*.hsm.active_request_timeout=3600")
    agents.read(2, "stopped")
    agents.assert_read(2, "stopped")
