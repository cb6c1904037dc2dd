"""The unit that `gridwright console --unit` prints serves what was asked for."""

from __future__ import annotations

import http.client
import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.setup.services import console_unit
from tests.support.command import Command

TOKEN = "0123456789abcdef" * 2


def test_the_unit_that_it_prints_serves_what_was_asked_for(gridwright: Command, tmp_path: Path) -> None:
    token = tmp_path / "a token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    ended = gridwright("console", "--port", "0", "--token-file", token.name, "--unit", cwd=tmp_path)
    assert ended.status == 0, ended.err
    unit = tmp_path / "gridwright-console.service"
    unit.write_text(ended.out)
    if analyze := shutil.which("systemd-analyze"):
        found = subprocess.run(
            [analyze, "verify", unit], capture_output=True, text=True, check=False, timeout=60
        )
        assert unit.name not in found.stderr
    (command,) = re.findall(r"(?m)^ExecStart=(.*)$", ended.out)
    (directory,) = re.findall(r"(?m)^WorkingDirectory=(.*)$", ended.out)
    words = [each.replace("%%", "%").replace("$$", "$") for each in shlex.split(command)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, cwd=directory, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            # A token that a file has is shown nowhere.
            assert TOKEN not in url
            connection = http.client.HTTPConnection(url.removeprefix("http://").strip("/"), timeout=30)
            connection.request("GET", "/api/about", headers={"Authorization": f"Bearer {TOKEN}"})
            assert connection.getresponse().status == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_words_that_no_unit_can_hold_are_refused() -> None:
    with pytest.raises(GridwrightError, match="line feeds"):
        console_unit(["gridwright", "console", "a\nExecStartPre=/bin/false"], "ann", Path("/"))
    assert "WorkingDirectory=/a%%b\n" in console_unit(["gridwright"], "ann", Path("/a%b"))
