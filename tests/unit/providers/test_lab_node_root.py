"""The root of a node: what it began with is what it boots with."""

from __future__ import annotations

from pathlib import Path

from gridwright.providers.lab.node_root import RootPlan, _overlay


def test_a_node_that_began_with_copies_goes_on_with_them(tmp_path: Path) -> None:
    """The machine may have overlays after a reboot: on one the node would miss all that it wrote."""
    changes = tmp_path / "changes"
    (changes / "copies" / "home").mkdir(parents=True)
    plan = RootPlan(image=tmp_path / "image", changes=changes, files={}, shares=())
    assert not _overlay(plan, tmp_path / "root")
    assert [path.name for path in changes.iterdir()] == ["copies"]
