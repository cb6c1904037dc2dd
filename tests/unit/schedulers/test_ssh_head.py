"""A head node that is reached by ssh: one that keeps its words, and runs the command here."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.schedulers.ssh_head import SshHead

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
    assert opening[-2:] == ["198.51.100.7", "true"], "the shared connection comes first"
    assert asked[-3:-1] == ["--", "10.0.0.9"]
    assert {"-oBatchMode=yes", "-oUser=admin"} <= set(asked)
    (proxy,) = [word.removeprefix("-oProxyCommand=") for word in asked if word.startswith("-oProxyCommand=")]
    assert shlex.split(proxy)[-2:] == ["--", "198.51.100.7"]
    assert {"-oBatchMode=yes", "-oControlMaster=auto", "[%h]:%p"} <= set(shlex.split(proxy))


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


def test_keys_of_machines_that_have_the_same_name_in_every_grid_are_learnt_for_one_command(ssh: Path) -> None:
    head = SshHead("controller", "controller", through="198.51.100.7")
    head.run(["true"])
    opening, asked = called(ssh)
    (own,) = [word for word in asked if word.startswith("-oUserKnownHostsFile=")]
    assert own in head.ssh(["--", "compute1", "hostname"])
    assert "gridwright-ssh-" in own
    (proxy,) = [word for word in asked if word.startswith("-oProxyCommand=")]
    assert "UserKnownHostsFile" not in proxy + " ".join(opening), "that of the login node is kept"


@pytest.mark.parametrize("long", [False, True])
def test_nothing_is_left_of_the_shared_connection(ssh: Path, long: bool) -> None:
    program = "from gridwright.schedulers.ssh_head import SshHead; print(*SshHead('a', 'b').ssh([]))"
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="x" * (60 if long else 1)) as temporary:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"TMPDIR": temporary},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    (path,) = [word for word in done.stdout.split() if word.startswith("-oControlPath=")]
    socket = Path(path.partition("=")[2])
    assert len(str(socket)) + 17 <= 107, "ssh takes no longer one"
    assert (temporary in path) is not long
    assert not socket.parent.exists()
    assert called(ssh)[-1][-3:] == ["exit", "--", "b"]
