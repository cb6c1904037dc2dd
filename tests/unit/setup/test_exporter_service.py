"""The unit of the exporter is one that systemd takes, and holds any path as one word."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.setup.exporter_service import EXPORTER_UNIT, exporter_unit


def test_a_path_is_one_word_whatever_is_in_it() -> None:
    unit = exporter_unit(["/usr/bin/true", "--directory", '/srv/50% "of" $all'])
    assert 'ExecStart=/usr/bin/true --directory "/srv/50%% \\"of\\" $$all"\n' in unit


def test_what_would_be_another_line_of_the_unit_is_refused() -> None:
    with pytest.raises(GridwrightError, match="no line feeds"):
        exporter_unit(["/usr/bin/true", "--directory", "/srv\nUser=root"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_takes_it_and_finds_it_little_exposed(tmp_path: Path) -> None:
    path = tmp_path / EXPORTER_UNIT
    path.write_text(exporter_unit(["/usr/bin/true", "exporter"]))
    for command in (["verify", "--man=no"], ["security", "--offline=true", "--threshold=30"]):
        done = subprocess.run(
            ["systemd-analyze", *command, path], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
