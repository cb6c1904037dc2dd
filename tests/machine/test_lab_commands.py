"""Commands on a lab that is well: each node is a machine of its own, and the doctor finds nothing wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gridwright.doctor.probes.node import PREFIX
from gridwright.providers import head_node
from gridwright.spec import load_spec
from tests.support.command import wait_until
from tests.support.doctor_lab import TRIALS, checks, in_library, named
from tests.support.lab import Lab

pytestmark = pytest.mark.root


@pytest.fixture
def lab(common_lab: Lab) -> Lab:
    return common_lab


def test_a_node_has_a_name_an_address_and_a_process_tree_of_its_own(lab: Lab) -> None:
    one = lab.exec("compute1", "sh", "-c", "hostname; hostname -I; echo $$; ls /proc | grep -c '^[0-9]'")
    name, address, pid, processes = one.out.split()
    assert (name, address) == ("compute1", "10.97.0.11")
    assert int(pid) < 1000
    assert int(processes) < 40, "those of the machine are some hundred"
    assert lab.exec("controller", "hostname", "-I").out.split() == ["10.97.0.10"]
    assert socket.gethostname() not in ("compute1", "controller")


def test_a_node_sees_its_own_files_and_shares_the_file_system_and_the_state(lab: Lab) -> None:
    for path in ("/tmp/own", "/var/own", "/etc/own", "/root/own", "/run/own"):
        assert lab.exec("compute1", "touch", path).status == 0
        assert lab.exec("compute2", "test", "-e", path).status == 1
        assert not Path(path).exists()
    assert lab.exec("compute1", "touch", "/mnt/grid/work/shared").status == 0
    assert lab.exec("compute2", "test", "-e", "/mnt/grid/work/shared").status == 0
    state = lab.record.parent / "state"
    assert lab.exec("compute1", "touch", f"{state}/seen").status == 0
    assert (state / "seen").exists()
    modes = lab.exec("controller", "stat", "-c", "%a", "/mnt/grid/data", "/mnt/grid/work", "/mnt/grid/util")
    assert modes.out.split() == ["755", "1777", "1777"]


def test_a_node_cannot_change_this_machine(lab: Lab) -> None:
    denied = ("echo 1 > /proc/sys/vm/swappiness", "echo x > /sys/kernel/uevent_helper")
    for attempt in denied:
        done = lab.exec("compute1", "sh", "-c", attempt)
        assert done.status != 0
        assert "Read-only" in done.err or "nonexistent" in done.err, done.err
    assert lab.exec("compute1", "touch", f"{sys.prefix}/mark").status != 0
    assert lab.exec("compute1", "ls", "/dev").out.split().count("vda") == 0


def test_nodes_run_this_python_and_this_package(lab: Lab) -> None:
    code = "import gridwright, gridwright._native, sys; print(gridwright.__file__, sys.version)"
    there = lab.exec("compute1", sys.executable, "-P", "-c", code)
    here = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert (there.out, there.err) == (here.stdout, "")


def test_arguments_environment_and_input_arrive_byte_for_byte(lab: Lab) -> None:
    words = ["", " ", "a b", "'", '"', "$HOME", "\n", "\\", "*", "-x", "--", "é", os.fsdecode(b"\xff\xfe")]
    value = os.fsdecode(b"l\xefne\n'\"$(x)")
    code = "import sys, os, json; print(json.dumps([sys.argv[1:], os.environ['IT'], os.environ['A%%']]))"
    done = lab.exec("compute1", "python3", "-c", code, *words, **{"IT": value, "A%%": "odd name"})
    assert json.loads(done.out) == [words, value, "odd name"]
    command = [*_exec(lab), "cat"]
    piped = subprocess.run(command, input=bytes(range(256)) * 999, capture_output=True, check=True)
    assert piped.stdout == bytes(range(256)) * 999


def _exec(lab: Lab, node: str = "compute1") -> list[str]:
    gridwright = str(Path(sys.executable).with_name("gridwright"))
    return [gridwright, "lab", "exec", "--grid", str(lab.spec), node, "--"]


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -TERM $$"], 128 + 15),
        (["no-such-command"], 127),
        (["/etc/hosts"], 126),
    ],
)
def test_the_exit_status_is_that_of_the_command(lab: Lab, words: list[str], status: int) -> None:
    assert lab.exec("compute1", *words).status == status


def test_a_command_that_is_told_to_end_ends_on_the_node_too(lab: Lab) -> None:
    with lab.command.start("lab", "exec", "--grid", lab.spec, "compute1", "--", "sleep", "4321") as running:
        wait_until(
            lambda: lab.exec("compute1", "pgrep", "-f", "sleep 4321").out or None,
            seconds=20,
            what="sleep on the node",
            last=lambda: lab.exec("compute1", "ps", "ax").out,
        )
        running.signal(signal.SIGTERM)
        assert running.end().status == 128 + 15
    assert lab.exec("compute1", "pgrep", "-f", "sleep 4321").out == ""


def test_the_working_directory_is_kept_where_the_node_has_it(lab: Lab, tmp_path: Path) -> None:
    grid = ("lab", "exec", "--grid", lab.spec, "compute1", "--", "pwd")
    assert lab.command(*grid, cwd=Path("/usr/share")).out == "/usr/share\n"
    assert lab.command(*grid, cwd=tmp_path).out == "/\n"


def test_nodes_reach_each_other_and_nothing_else(lab: Lab) -> None:
    assert lab.exec("compute1", "ping", "-c1", "-W2", "compute2").status == 0
    routes = lab.exec("compute1", "ip", "route").out
    assert "default" not in routes
    assert lab.exec("compute1", "cat", "/sys/class/net/eth0/operstate").out == "up\n"


def test_the_head_node_runs_commands_and_listens_where_nodes_reach_it(lab: Lab) -> None:
    head = head_node(load_spec(lab.spec))
    assert head.name == "controller"
    answer = head.run(["sh", "-c", 'cat; echo "$X"; exit 3'], stdin=b"\0\xff", environment={"X": "y z"})
    assert (answer.status, answer.stdout) == (3, b"\0\xffy z\n")
    through = subprocess.run(head.argv(["hostname"]), capture_output=True, text=True, check=True)
    assert through.stdout == "controller\n"
    here = Path("/proc/self/ns/net").readlink()
    listener, address = head.listen()
    assert Path("/proc/self/ns/net").readlink() == here
    with listener:
        listener.settimeout(20)
        code = (
            f"import socket; socket.create_connection(({address!r}, {listener.getsockname()[1]})).send(b'hi')"
        )
        assert lab.exec("compute1", "python3", "-c", code).status == 0
        connection, (peer, _) = listener.accept()
        with connection:
            assert (connection.recv(9), peer) == (b"hi", "10.97.0.11")


def test_nodes_of_a_sound_file_system_pass_every_trial_and_leave_nothing(lab: Lab) -> None:
    status, found = checks(lab)
    assert status == 0, [each for each in found if not each["ok"]]
    assert named(found, *TRIALS, ok=False) == {}
    assert named(found, *TRIALS, ok=True) == dict.fromkeys(TRIALS, "compute[1-3]")
    assert all(each["applies"] for each in found if each["name"] in TRIALS)
    assert [each for each in in_library(lab) if PREFIX in each] == []


def test_some_nodes_only(lab: Lab) -> None:
    ended = lab.command("doctor", lab.spec, "--nodes", "compute[2-3]", "--only", "node-silent", "--json")
    assert [(each["name"], each["nodes"]) for each in ended.json["checks"]] == [
        ("node-silent", "compute[2-3]")
    ]
    strange = lab.command("doctor", lab.spec, "--nodes", "compute[3-4]")
    assert strange.status == 2
    assert "no node compute4" in strange.text and "compute[1-3]" in strange.text
