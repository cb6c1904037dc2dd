"""File systems of a site's grid in `gridwright status`: how they are, also while they hang."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict

import pytest

from gridwright.commands import CommandOutput, CommandSilent
from gridwright.filesystems.health import Run
from gridwright.providers import filesystem_status
from gridwright.providers.filesystem_status import client_statuses
from gridwright.providers.site.provider import SiteStatus
from gridwright.spec import parse_spec
from tests.fixtures.lustre_node import LustreNode, healthy_node, recorded_parameters

SPEC = parse_spec(
    """
provider: site
nodes:
  compute: {hosts: "c[1-2]", cores: 4, memory: 32 GiB}
filesystems:
  shared: {type: lustre, path: /mnt/scratch, source: "10.0.0.1@tcp:/scratch"}
libraries:
  data: {filesystem: shared}
scheduler: {type: slurm}
"""
)


def status(run: Run) -> SiteStatus:
    return SiteStatus("site", "login1", (), (), None, client_statuses(SPEC, run, "login1"))


def test_a_healthy_file_system_has_its_size() -> None:
    found = status(healthy_node())
    (shared,) = found.filesystems
    assert (shared.condition, shared.lacking, found.whole) == ("healthy", None, True)
    assert shared.total_bytes and shared.free_bytes
    assert "shared" in found.text() and "/mnt/scratch" in found.text()
    assert json.loads(json.dumps(found.document()))["filesystems"][0]["health"]["condition"] == "healthy"
    assert asdict(shared)["name"] == "shared"


def test_a_target_that_is_away_is_named() -> None:
    node = healthy_node()
    parameters = {
        key: value.replace("state: FULL", "state: DISCONN") for key, value in node.parameters.items()
    }
    found = status(LustreNode({**parameters, **recorded_parameters("957-mdc-import")}))
    assert not found.whole
    assert "error target-away: file system shared: not connected: scratch-OST0000 (DISCONN)" in found.text()


def test_one_that_hangs_is_shown_after_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        time.sleep(timeout_s)
        raise CommandSilent(f"{command[0]} has not answered for {timeout_s:.0f} s", None, "see dmesg")

    monkeypatch.setattr(filesystem_status, "ANSWER_S", 1.0)
    began = time.monotonic()
    found = status(hangs)
    assert time.monotonic() - began < 10
    assert not found.whole
    assert "file system shared: it does not say how it is: cat had not answered after 1 s" in found.text()


def test_a_head_node_without_the_mount_says_so_and_is_no_fault() -> None:
    node = healthy_node()
    node.mounts = ""
    found = status(node)
    assert found.whole
    assert "file system shared: login1 has not mounted it" in found.text()
