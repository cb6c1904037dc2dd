"""Documented commands that need nodes, on the lab that other tests look at, too: none changes its nodes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.integration.test_documented_commands import Place, of, run
from tests.support.documented import DocumentedCommand
from tests.support.lab import Lab

pytestmark = pytest.mark.root
_OF_READERS = ("lab.yaml", "examples/lab.yaml")


@pytest.mark.parametrize("command", of(Place.LAB))
def test_a_documented_command_runs_on_a_lab(
    command: DocumentedCommand, common_lab: Lab, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "one.yaml").write_text("name: one\nstreams: [[sort]]\n")
    words = [str(common_lab.spec) if each in _OF_READERS else each for each in command.words]
    if words[0] == "lab" and "--grid" not in words:
        words[2:2] = ["--grid", str(common_lab.spec)]
    run(command, place, {**os.environ, "GRIDWRIGHT_ALLOW_DISTURBED": "1"}, words)
