"""A head node that is reached by ssh: one that keeps its words, and runs the command here."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.schedulers import ssh_head
from gridwright.schedulers.ssh_head import Passage, SshHead, why_no_ssh

SSH = """\
#!{python}
import json, os, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps(words) + "\\n")
if os.path.exists({cut!r}):
    print("ssh: connect to host login1 port 22: No route to host", file=sys.stderr)
    sys.exit(255)
if "exit" in words:
    sys.exit(0)
os.execvp("sh", ["sh", "-c", words[-1]])
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with what ssh was called with, and a file `cut` that makes it fail."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(
        SSH.format(python=sys.executable, log=str(tmp_path / "log"), cut=str(tmp_path / "cut"))
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path


def called(place: Path) -> list[list[str]]:
    return [json.loads(line) for line in (place / "log").read_text().splitlines()]


def test_a_command_reaches_the_head_node_word_for_word_through_the_login_node(ssh: Path) -> None:
    head = SshHead("controller", "10.0.0.9", through="198.51.100.7", user="admin")
    answer = head.run(["printf", "%s|", "a b", "$(reboot);'\""], stdin=b"")
    assert (answer.status, answer.stdout) == (0, b"a b|$(reboot);'\"|")
    opening, asked = called(ssh)
    assert opening[-2] == "198.51.100.7", "the shared connection comes first"
    assert "-oControlMaster=yes" in opening
    assert asked[-3:-1] == ["--", "10.0.0.9"]
    assert {"-oBatchMode=yes", "-oUser=admin"} <= set(asked)
    (proxy,) = [word.removeprefix("-oProxyCommand=") for word in asked if word.startswith("-oProxyCommand=")]
    assert shlex.split(proxy)[-2:] == ["--", "198.51.100.7"]
    assert {"-oBatchMode=yes", "[%h]:%p"} <= set(shlex.split(proxy))
    (shared,) = [word for word in opening if word.startswith("-oControlPath=")]
    assert {"-oControlMaster=no", shared} <= set(shlex.split(proxy)), "one that is there is taken"


def test_of_an_environment_only_what_changes_words_goes_to_another_machine(ssh: Path) -> None:
    head = SshHead("controller", "198.51.100.7")
    environment = {"LC_ALL": "C.UTF-8", "TOKEN": "s3cret", "BASH_FUNC_f%%": "() { :; }"}
    answer = head.run(["sh", "-c", 'printf %s "$LC_ALL"; cat'], stdin=b"|in", environment=environment)
    assert answer.stdout == b"C.UTF-8|in"
    assert all("s3cret" not in word for words in called(ssh) for word in words)


def test_nodes_are_reached_through_the_login_node_with_a_way_back(ssh: Path) -> None:
    head = SshHead("controller", "10.0.0.9", through="198.51.100.7")
    words = head.ssh(["--", "compute1", "hostname"], 40123)
    assert words[0] == "ssh" and words[-3:] == ["--", "compute1", "hostname"]
    assert words[words.index("-R") + 1] == "40123:127.0.0.1:40123"
    assert "-oExitOnForwardFailure=yes" in words
    assert any("-W '[%h]:%p' -- 198.51.100.7" in word for word in words)
    assert "-R" not in head.ssh([])
    listener, address = head.listen()
    with listener:
        assert (address, listener.getsockname()[0]) == ("127.0.0.1", "127.0.0.1"), "no stranger reaches it"


def test_a_login_node_that_is_out_of_reach_is_said_once_with_its_name(ssh: Path) -> None:
    (ssh / "cut").touch()
    head = SshHead("controller", "10.0.0.9", through="198.51.100.7", user="admin")
    for ask in (lambda: head.run(["true"]), lambda: head.ssh([])):
        with pytest.raises(GridwrightError, match="No route to host") as raised:
            ask()
        assert raised.value.status == ExitStatus.ENVIRONMENT
        assert "ssh admin@198.51.100.7" in (raised.value.problems[0].remedy or "")


@pytest.mark.parametrize(
    ("script", "why"),
    [("exit 7", "it runs no command (exit status 7)"), ("sleep 60", "no answer within 0 s")],
)
def test_a_machine_that_lets_nobody_run_a_command_is_told(
    ssh: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    (ssh / "bin" / "ssh").write_text(f"#!/bin/sh\necho Welcome\n{script}\n")
    monkeypatch.setattr(ssh_head, "OPEN_S", 0.4)
    with pytest.raises(GridwrightError, match=re.escape(f"ssh does not reach b: {why}")):
        SshHead("a", "a", through="b").run(["true"])


def host_keys(words: list[str]) -> str:
    (own,) = [word for word in words if word.startswith("-oUserKnownHostsFile=")]
    return own.partition("=")[2]


def test_keys_of_machines_are_kept_for_each_grid(ssh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(ssh / "state"))
    first, second = (
        SshHead("controller", "controller", through="198.51.100.7", keys=keys) for keys in ("one-1", "two-2")
    )
    first.run(["true"])
    opening, asked = called(ssh)
    own = host_keys(asked)
    assert own == host_keys(first.ssh(["--", "compute1", "hostname"])) != host_keys(second.ssh([]))
    assert own == str(ssh / "state/gridwright/host-keys/one-1")
    assert Path(own).parent.stat().st_mode & 0o777 == 0o700
    (proxy,) = [word for word in asked if word.startswith("-oProxyCommand=")]
    assert "UserKnownHostsFile" not in proxy + " ".join(opening), "that of the login node is the user's own"


def test_keys_are_learnt_for_one_command_where_none_can_be_kept(
    ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ssh / "state").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(ssh / "state"))
    assert "gridwright-ssh." in host_keys(SshHead("a", "a", through="b", keys="one").ssh([]))
    assert "gridwright-ssh." in host_keys(SshHead("a", "a", through="b").ssh([]))


def test_a_changed_host_key_is_no_riddle() -> None:
    said = """\
@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
Offending ED25519 key in /home/ann/.local/state/gridwright/host-keys/demo-1:3
Host key for compute1 has changed and you have requested strict checking.
Host key verification failed.
"""
    why = why_no_ssh(said)
    assert why.endswith(
        "if it was replaced, remove line 3 of /home/ann/.local/state/gridwright/host-keys/demo-1"
    )
    first = "No ED25519 host key is known for a and you have requested strict checking.\n"
    for said in (f"{first}Host key verification failed.\n", "Host key verification failed.\n"):
        assert "its host key is not known here" in why_no_ssh(said)
    assert why_no_ssh("Warning: slow\nssh: connect to host a port 22: No route to host\n").endswith("to host")
    assert why_no_ssh("") == ""
    assert why_no_ssh(f"{first}Host key verification failed.\n").endswith("take it once: ssh a")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("Warning: Permanently added 'a' (ED25519) to the list of known hosts.\n", ""),
        (
            "Warning: Permanently added 'a' (ED25519) to the list of known hosts.\n"
            "ann@a: Permission denied (publickey).\n",
            "ann@a: Permission denied (publickey).",
        ),
        (
            "ssh: connect to host login1 port 22: No route to host\n"
            "Connection closed by UNKNOWN port 65535\n",
            "ssh: connect to host login1 port 22: No route to host",
        ),
        (
            "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures\n"
            "Disconnected from 10.0.0.1 port 22\n",
            "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures",
        ),
        (
            "@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\n"
            "Permissions 0644 for '/home/ann/.ssh/id' are too open.\n"
            'Load key "/home/ann/.ssh/id": bad permissions\nann@a: Permission denied (publickey).\n',
            "it does not use the key /home/ann/.ssh/id, which others may read (mode 0644): chmod 600 it",
        ),
        (
            "@       WARNING: REVOKED HOST KEY DETECTED!               @\n"
            "The ED25519 host key for a is marked as revoked.\nHost key verification failed.\n",
            "its host key is revoked (RevokedHostKeys of ssh_config): whoever answers is not to be trusted",
        ),
        (
            "Warning: the ED25519 host key for 'a' differs from the key for the IP address '10.0.0.1'\n"
            "Offending key for IP in /home/ann/.ssh/known_hosts:7\n"
            "Matching host key in /home/ann/.ssh/known_hosts:2\n"
            "Exiting, you have requested strict checking.\nHost key verification failed.\n",
            "its host key is not the one that it had before: it may be another machine in its place; "
            "if it was replaced, remove line 7 of /home/ann/.ssh/known_hosts",
        ),
    ],
)
def test_the_reason_is_told_and_not_what_stands_beside_it(said: str, why: str) -> None:
    """The lines are those of OpenSSH's sshconnect.c, authfile.c and packet.c."""
    assert why_no_ssh(said) == why


def test_a_shared_connection_that_has_ended_is_opened_again(ssh: Path) -> None:
    others = psutil.Process().children()
    head = SshHead("controller", "198.51.100.7")
    for _ in range(2):
        head.run(["true"])
    assert [words[-1] == "true" for words in called(ssh)] == [False, True, True]
    (keeper,) = [each for each in psutil.Process().children() if each not in others]
    keeper.kill()
    psutil.wait_procs([keeper], timeout=10)
    head.run(["true"])
    assert [words[-1] == "true" for words in called(ssh)] == [False, True, True, False, True]


class Gate:
    """A gate whose passages are numbered: one that is lost is followed by the next."""

    advice = "try the other door"

    def __init__(self, settles_s: float = 0.0) -> None:
        self.number, self.settles_until = 1, time.monotonic() + settles_s

    def passage(self) -> Passage:
        return Passage(f"ocid1.session.{self.number}", "gate.example", "10.0.0.9", 22, self.settles_until)

    def lost(self) -> None:
        self.number += 1


REAL = """\
#!{python}
import json, os, sys
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if "gate.example" not in sys.argv:
    os.execv({ssh!r}, ["ssh", *sys.argv[1:]])
"""


@pytest.mark.parametrize("home", ["plain", "with 'quotes' and $HOME"])
def test_a_real_ssh_finds_its_way_through_gate_and_head_node(
    ssh: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    """Each ssh starts the next one by a shell, which has to leave all words as they are."""
    real = shutil.which("ssh", path=os.defpath + ":/usr/local/bin")
    assert real is not None
    (ssh / "bin" / "ssh").write_text(REAL.format(python=sys.executable, log=str(ssh / "log"), ssh=real))
    monkeypatch.setenv("XDG_STATE_HOME", str(ssh / home.replace(" ", "_")))
    head = SshHead("controller", "10.0.0.9", user="admin", gate=Gate(), keys="one")
    subprocess.run([*head.argv(["true"])], check=False, capture_output=True, timeout=30)
    outer, inner = called(ssh)
    assert outer[-3:] == ["--", "10.0.0.9", "true"]
    assert inner[-5:] == ["-W", "10.0.0.9:22", "-oUser=ocid1.session.1", "--", "gate.example"]
    (ssh / "log").unlink()
    monkeypatch.setattr(head._shared, "open", lambda: None)
    to_node = head.ssh(["--", "compute1", "hostname"], 40123)
    subprocess.run(to_node, check=False, capture_output=True, timeout=30)
    outer, jump, inner = called(ssh)
    assert outer[-3:] == ["--", "compute1", "hostname"]
    assert jump[-4:] == ["-W", "[compute1]:22", "--", "10.0.0.9"]
    assert inner[-5:] == ["-W", "10.0.0.9:22", "-oUser=ocid1.session.1", "--", "gate.example"]
    assert (
        host_keys(outer) == host_keys(jump) == str(ssh / home.replace(" ", "_") / "gridwright/host-keys/one")
    )


def test_the_shared_connection_goes_through_the_gate(ssh: Path) -> None:
    head = SshHead("controller", "10.0.0.9", user="admin", gate=Gate())
    assert head.run(["printf", "%s", "$HOME"]).stdout == b"$HOME"
    for words in called(ssh):
        (way,) = [word for word in words if word.startswith("-oProxyCommand=")]
        assert way.endswith("-W 10.0.0.9:22 -oUser=ocid1.session.1 -- gate.example")
        assert words[-2] == "10.0.0.9"


def test_a_passage_that_leads_nowhere_is_told_and_another_one_taken(ssh: Path) -> None:
    (ssh / "cut").touch()
    head = SshHead("controller", "10.0.0.9", gate=Gate())
    with pytest.raises(GridwrightError, match="No route to host") as raised:
        head.run(["true"])
    assert (raised.value.problems[0].remedy or "").startswith("try the other door; ")
    (ssh / "cut").unlink()
    head.run(["true"])
    assert ["session.1" in str(words) for words in called(ssh)] == [True, False, False]


def test_a_gate_that_has_just_been_told_of_a_passage_is_tried_again(
    ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Gate):
        asked = 0

        def passage(self) -> Passage:
            self.asked += 1
            (ssh / "cut").unlink(missing_ok=True) if self.asked > 2 else (ssh / "cut").touch()
            return super().passage()

    monkeypatch.setattr(ssh_head, "AGAIN_S", 0.01)
    assert SshHead("controller", "10.0.0.9", gate=Slow(60.0)).run(["true"]).status == 0
    assert len(called(ssh)) == 3, "refused, let in, and the command itself"


PROGRAM = """\
import sys
from gridwright.schedulers.ssh_head import SshHead
print(*SshHead("a", "b").ssh([]), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("end", ["end", "kill"])
@pytest.mark.parametrize("long", [False, True])
def test_nothing_is_left_of_the_shared_connection(ssh: Path, long: bool, end: str) -> None:
    with (
        tempfile.TemporaryDirectory(dir="/tmp", prefix="x" * (60 if long else 1)) as temporary,
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | {"TMPDIR": temporary},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        said = process.stdout.readline()
        (keeper,) = psutil.Process(process.pid).children()
        if end == "kill":
            process.kill()
        process.communicate(timeout=20)
        gone, _ = psutil.wait_procs([keeper], timeout=20)
        assert gone == [keeper], "what is shared ends with the command, even if that is killed"
    (path,) = [word for word in said.split() if word.startswith("-oControlPath=")]
    socket = Path(path.partition("=")[2])
    assert len(str(socket)) + 17 <= 107, "ssh takes no longer one"
    assert (temporary in path) is not long
    if end == "end":
        assert not socket.parent.exists()
