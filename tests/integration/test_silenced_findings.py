"""A finding that the spec silences is told to nobody; an unknown name is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SPEC = """\
filesystems:
  memory: {{type: local, path: {path}}}
libraries:
  work: {{filesystem: memory}}
silence:
  {name}: this test needs memory only
"""


def iotest(directory: Path, name: str) -> subprocess.CompletedProcess[str]:
    (directory / "work").mkdir(exist_ok=True)
    spec = directory / "grid.yaml"
    spec.write_text(SPEC.format(path=directory, name=name))
    command = [str(Path(sys.executable).parent / "gridwright"), "iotest", str(spec), "--runs"]
    return subprocess.run(
        [*command, str(directory / "runs"), "--size", "1MiB", "--phases", "read", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "told"), [("laid-out", False), ("stale-removed", True)])
def test_only_the_silenced_finding_is_left_out(tmp_path: Path, name: str, told: bool) -> None:
    done = iotest(tmp_path, name)
    names = {finding["name"] for finding in json.loads(done.stdout)["findings"]}
    assert ("laid-out" in names) is told
    assert ("no kept set" in done.stderr) is told


def test_an_unknown_name_is_refused_with_the_nearest(tmp_path: Path) -> None:
    done = iotest(tmp_path, "laid-outt")
    assert done.returncode == 2
    assert "laid-out" in done.stderr
